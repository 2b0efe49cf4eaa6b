"""What a command keeps of its run beside the log: the folder for pages, decisions, trackers."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tamis.errors import UsageError
from tamis.monitoring import LOGGERS, Line, Logger
from tamis.runs import Decisions
from tamis.training.recorder import Keeper

UNKNOWN_CLASS = "some decisions name a label that is no class here, and change nothing"


def add_arguments(parser: ArgumentParser) -> None:
    """Say what can be set about decisions and trackers."""
    add = parser.add_argument
    add(
        "--corrections",
        type=Path,
        metavar="FILE",
        help="decisions.jsonl of another run, followed as it grows; the run's own is always",
    )
    add(
        "--log",
        action="append",
        default=[],
        choices=LOGGERS,
        help="send the numbers of every slot there, too; may be given again for another",
    )


def check(options: Namespace) -> None:
    """See that a file of corrections is one."""
    file: Path | None = options.corrections
    if file and not file.exists():
        raise UsageError(f"--corrections {file} is not there.")
    if file and file.stat().st_size and not Decisions(file).lines:
        raise UsageError(f"--corrections {file} holds no decision; tamis import reads tables.")


def troubles(keeper: Keeper, sending: Sending) -> list[str]:
    """Say what went wrong and did not stop the run."""
    found = list(sending.troubles)
    if keeper.lost:
        found.append(f"{keeper.lost} times the files for the pages could not be written or read")
    if keeper.strange:
        found.append(UNKNOWN_CLASS)
    return found


class Sending:
    """Sends lines of the log to trackers. One that fails is left out, and the run goes on."""

    def __init__(self, names: Sequence[str], folder: Path, settings: Mapping[str, Any]) -> None:
        self.troubles: list[str] = []
        self._loggers: dict[str, Logger] = {}
        for name in dict.fromkeys(names):
            try:
                self._loggers[name] = LOGGERS[name](folder, settings)
            except Exception as error:  # it is told in the words of the library, whichever it is
                self.close()
                raise UsageError(f"--log {name}: {first_line(error)}") from None

    def update(self, line: Line) -> None:
        """Send the numbers of a slot."""
        for name, logger in list(self._loggers.items()):
            try:
                logger.update(line)
            except Exception as error:  # whatever it is, the numbers are in the log
                del self._loggers[name]
                self._note(name, error)

    def close(self) -> None:
        """Send what is left."""
        for name, logger in self._loggers.items():
            try:
                logger.close()
            except Exception as error:
                self._note(name, error)
        self._loggers.clear()

    def _note(self, name: str, error: Exception) -> None:
        self.troubles.append(f"{name} did not get all numbers ({first_line(error).rstrip('.')})")


def first_line(error: Exception) -> str:
    """Return what an error says, in one line."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
