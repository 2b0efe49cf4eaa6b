"""Processes that are there to be killed: forked off one that has torch in memory already."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any, Self

FAILED = 70
ROOT = Path(__file__).parents[3]


class Child:
    """A run in a process of its own."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self.pid = pid
        self._nursery = nursery

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Return the exit status; below 0 it is the signal that ended the process.

        Only now is its number free for another process.
        """
        self._nursery.send("wait")
        return int(self._nursery.hear())


class Nursery:
    """Starts runs, one at a time."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.faults.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        self.hear()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()

    def start(self, folder: Path, seed: int, point: str = "", nth: int = 1) -> Child:
        task = {"folder": str(folder), "seed": seed, "point": point, "nth": nth}
        self.send(json.dumps(task))
        return Child(self, int(self.hear()))

    def send(self, line: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def hear(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the nursery has died"
        return line


def run_child(task: dict[str, Any]) -> int:
    """Do the run, and leave its checksum beside the checkpoints."""
    import torch

    from tests.support.faults.points import arm
    from tests.support.faults.runs import work

    torch.set_num_threads(1)
    try:
        if task["point"]:
            arm(task["point"], task["nth"])
        folder = Path(task["folder"])
        (folder / "result").write_text(work(folder / "checkpoints", task["seed"]))
    except BaseException:
        traceback.print_exc()
        return FAILED
    return 0


def main() -> None:
    """Fork a child for every line that comes in; print its number, then how it ended."""
    import torch

    import tests.support.faults.points  # noqa: F401
    from tests.support.faults.runs import unbroken

    torch.set_num_threads(1)
    unbroken()  # what torch does the first time only, children find done
    print("ready", flush=True)
    while line := sys.stdin.readline():
        pid = os.fork()
        if not pid:
            os._exit(run_child(json.loads(line)))
        print(pid, flush=True)
        sys.stdin.readline()
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
