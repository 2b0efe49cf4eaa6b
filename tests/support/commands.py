"""Commands of tamis in a process of their own, ended by a signal at an exact slot.

A process is forked from one that has torch loaded: that takes milliseconds instead of seconds.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.wait import END

PRELOADED = ["torch._dynamo", "tamis.cli.main", "tamis.training.trainer"]
"""Modules of the process that others are forked from."""


@dataclass(frozen=True)
class Finished:
    """How a command ended, and what it printed."""

    returncode: int
    printed: str


def run_command(*arguments: object, stop: signal.Signals | None = None, after: int = 0) -> Finished:
    """Run a command of tamis; with `stop`, it gets that signal after so many slots."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    with TemporaryDirectory() as folder:
        out = Path(folder, "printed")
        words = [str(argument) for argument in arguments]
        process = context.Process(target=_run, args=(words, out, stop, after), daemon=True)
        process.start()
        process.join(END)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise TimeoutError(f"{words} has come to no end: {out.read_text()}")
        return Finished(process.exitcode, out.read_text(encoding="utf-8"))


def _run(words: list[str], out: Path, stop: signal.Signals | None, after: int) -> None:
    import torch

    from tamis.cli.main import main
    from tamis.monitoring import Monitor

    with out.open("w") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    sys.stdout, sys.stderr = (os.fdopen(stream, "w") for stream in (1, 2))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(1)
    update, slots = Monitor.update, 0

    def counted(*given: object, **named: object) -> object:
        nonlocal slots
        answer = update(*given, **named)  # type: ignore[arg-type]
        slots += 1
        if slots == after and stop is not None:
            os.kill(os.getpid(), stop)
        return answer

    Monitor.update = counted  # type: ignore[method-assign,assignment]
    sys.exit(main(words))
