"""A mutant put to the tests, in a copy of the working tree."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

import pytest
import torch._dynamo  # noqa: F401  loaded here, and so not once for every mutant

from tests.support.mutation.nearest import nearest, others
from tests.support.mutation.operators import Mutant

FAST, SLOW, EITHER = "not slow", "slow", "slow or not slow"
TEST_SECONDS = {FAST: 120, SLOW: 600, EITHER: 600}
"""Seconds after which a test has failed: a mutant may loop for ever."""
RUN_SECONDS = {FAST: 1800, SLOW: 5400, EITHER: 5400}
"""The same for a run of pytest, which may hang where pytest cannot end a test."""
FAILED = re.compile(
    r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$|^(\S+::.*?) \++ Timeout|while loading conftest '(.*)'",
    re.MULTILINE,
)
NO_END, NO_TESTS = "no end", 5
NEAR, ALL = 3, 5


class FirstOfEach:
    """A plugin of pytest that runs one case of every test before all other cases."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Order the tests."""
        first: dict[str, pytest.Item] = {}
        for item in items:
            first.setdefault(item.nodeid.partition("[")[0], item)
        items.sort(key=lambda item: first[item.nodeid.partition("[")[0]] is not item)


class Copy:
    """The files of the working tree in a folder of their own, mutated there one at a time."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        self._left_out: set[str] = set()
        listed = ["git", "ls-files", "-coz", "--exclude-standard"]
        names = subprocess.run(listed, cwd=root, check=True, capture_output=True).stdout
        for name in names.decode().split("\0"):
            if name and (root / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(root / name, folder / name)

    def killer(self, mutant: Mutant, depth: int) -> str:
        """Return the first test that fails with a mutant, or nothing.

        With depth, tests get farther: the nearest, others near, slow ones near, and all others.
        """
        first, then = nearest(self.folder, mutant.file)
        rest = others(self.folder, first + then)
        files, marker = (
            (first, FAST), (then, FAST), (first + then, SLOW), (rest, FAST), (rest, SLOW),
        )[depth]  # fmt: skip
        with self._mutated(mutant):
            for part in _growing(files):
                if failed := self._run(part, marker, "-x"):
                    return failed[0]
        return ""

    def leave_out_failing(self, tests: list[str]) -> set[str]:
        """Return those of the tests that fail without a mutant, and run them no more."""
        failing = set(self._run(tests, EITHER)) if tests else set()
        self._left_out |= failing
        return failing

    @contextmanager
    def _mutated(self, mutant: Mutant) -> Iterator[None]:
        path = self.folder / mutant.file
        before = path.read_bytes()
        # Python knows bytecode by size and second of its source: a mutant may share both.
        compiled = Path(importlib.util.cache_from_source(str(path)))
        try:
            compiled.unlink(missing_ok=True)
            path.write_bytes(mutant.apply(before))
            yield
        finally:
            path.write_bytes(before)
            compiled.unlink(missing_ok=True)

    def _run(self, files: list[str], marker: str, *options: str) -> list[str]:
        """Run tests, and return the names of those that fail."""
        words = [
            *("-v", "-n", "0", "--no-header", "--tb=no", "-p", "no:cacheprovider", *options),
            # A thread ends the process: a signal ends one of the examples of Hypothesis.
            *("-m", marker, "--timeout", str(TEST_SECONDS[marker]), "--timeout-method=thread"),
            *(f"--deselect={name}" for name in sorted(self._left_out)),
            *files,
        ]
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as out:
            status = _in_a_fork(self.folder, words, out.fileno(), RUN_SECONDS[marker])
            out.seek(0)
            printed = out.read()
        if status in (0, NO_TESTS):
            return []
        if status is None:
            return [NO_END]
        found = [next(filter(None, names)) for names in FAILED.findall(printed)]
        if not found:
            raise RuntimeError(f"pytest has ended with {status}, and no test failed:\n{printed}")
        return found


def _growing(files: list[str]) -> Iterator[list[str]]:
    """Yield one file, then three, then nine: importing a test costs as much as running it."""
    size = 1
    while files:
        yield files[:size]
        files, size = files[size:], 3 * size


def _in_a_fork(folder: Path, words: list[str], out: int, seconds: float) -> int | None:
    """Run pytest in a fork of this process, which has torch loaded; return its status, if any."""
    child = os.fork()
    if not child:
        status = -1
        try:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            for stream in (1, 2):
                os.dup2(out, stream)
            os.chdir(folder)
            os.environ["PYTHONPATH"] = sys.path[0] = str(folder)
            for name in [name for name in sys.modules if name.split(".")[0] in ("tamis", "tests")]:
                del sys.modules[name]  # those of the tree, not of the copy
            status = int(pytest.main(words, [FirstOfEach()]))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    end, ended = monotonic() + seconds, 0
    try:
        while not ended and monotonic() < end:
            ended, status = os.waitpid(child, os.WNOHANG)
            sleep(0.05)
    finally:
        with suppress(ProcessLookupError):  # with all that it started
            os.killpg(child, signal.SIGKILL)
        if not ended:
            os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) if ended else None
