"""Checkpoints of a command: when one is due, and leaving in good order when told to."""

from __future__ import annotations

import signal
from argparse import ArgumentParser
from collections.abc import Mapping
from threading import current_thread, main_thread
from time import monotonic
from types import FrameType, TracebackType
from typing import Any, NamedTuple, Self

from tamis.checkpoint import Checkpoints, MismatchError, NotSavedError, RefusedError
from tamis.errors import UsageError
from tamis.training import Trainer

LEAVE_WITHIN = 5.0
"""Seconds from a signal to the end: who sends SIGTERM sends SIGKILL before long."""


class Every(NamedTuple):
    """So many slots, or so many seconds."""

    slots: int | None
    seconds: float | None

    def due(self, slots: int, since: float) -> bool:
        """Say whether it is time: at so many slots, the last one being at `since`."""
        if self.slots:
            return slots % self.slots == 0
        return monotonic() - since >= (self.seconds or 0)


def add_arguments(parser: ArgumentParser) -> None:
    """Say what can be set about checkpoints."""
    add = parser.add_argument
    add("--resume", action="store_true", help="go on from the last checkpoint in the folder")
    add(
        "--save-every",
        type=every,
        default="60s",
        metavar="SLOTS",
        help="save a checkpoint every so many slots, or seconds, as 30s (default 60s)",
    )
    add(
        "--allow-mismatch",
        action="store_true",
        help="resume although settings or versions differ, and with them the numbers",
    )


def every(text: str) -> Every:
    """Read a number of slots, or one of seconds with an s."""
    kind = float if text.endswith("s") else int
    number = kind(text.removesuffix("s"))
    if not 0 < number < 1e9:
        raise ValueError
    return Every(None, number) if kind is float else Every(int(number), None)


class Saver:
    """Saves when it is time, and lets a disk that fails cost no more than a warning."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        trainer: Trainer,
        others: Mapping[str, object],
        every: Every,
    ) -> None:
        self.checkpoints = checkpoints
        self.trainer = trainer
        self.others = others
        self.every = every
        self.trouble = ""
        self.saved_at: int | None = None
        self._saved_when = monotonic()

    def save(self) -> bool:
        """Save what is not saved yet, and say whether it is now."""
        if self.saved_at == self.trainer.slots:
            return True
        offset = {"slots": self.trainer.slots}
        self._saved_when = monotonic()
        try:
            self.checkpoints.save(self.trainer, offset, self.others)
        except NotSavedError as error:
            self.trouble = str(error)
            return False
        self.saved_at = self.trainer.slots
        return True

    def save_if_due(self) -> None:
        """Save if so many slots, or seconds, have passed."""
        if self.every.due(self.trainer.slots, self._saved_when):
            self.save()

    def resume(self, allow_mismatch: bool) -> int:
        """Go on from the last checkpoint, and return its slot; 0 where there is none at all."""
        if not self.checkpoints.generations():
            return 0
        rates = [group["lr"] for group in self.trainer.optimizer.param_groups]
        try:
            found = self.checkpoints.load(self.trainer, self.others, allow_mismatch)
        except (RefusedError, LookupError, TypeError, ValueError) as error:
            raise UsageError(f"{error}{hint(error)}") from None
        for group, rate in zip(self.trainer.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate  # as asked for now: it can only differ where that is allowed
        self.saved_at = self.trainer.slots
        return found.slot


class Leaving:
    """Notes Ctrl-C and SIGTERM, so that the slot under way is finished. A second one interrupts."""

    def __init__(self) -> None:
        self.signal = 0
        self.until = 0.0
        self._before: dict[int, Any] = {}

    def note(self, number: int, frame: FrameType | None) -> None:
        """Remember what has come."""
        if self.signal:
            raise KeyboardInterrupt
        self.signal, self.until = number, monotonic() + LEAVE_WITHIN

    def __enter__(self) -> Self:
        if current_thread() is main_thread():  # no other may ask for signals
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self.note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def hint(error: Exception) -> str:
    """Say what to do about a mismatch."""
    return " (--allow-mismatch goes on all the same.)" if isinstance(error, MismatchError) else ""
