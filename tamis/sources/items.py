"""Anything that can be iterated over: a PyTorch `IterableDataset`, Hugging Face's, a list."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from time import time
from typing import Any, Literal

from tamis.sources.protocol import Batch, SourceError, in_parts

Resume = Literal["state", "count", "never"]


class Items:
    """Reads rows of an iterable, one record an item (so a `DataLoader` needs batch_size=None).

    `resume` is how it continues after a crash. `state`: by the iterable's own `state_dict` and
    `load_state_dict`, as Hugging Face's streaming data sets and torchdata's loaders have. `count`:
    by reading it again and skipping what was read. `never`: it cannot be read again, as a live
    feed, so it continues with whatever comes next, and rows since the last checkpoint are lost.
    None is `state` where that can be trusted, else `count`: the state of a data set shuffled
    through a buffer does not hold what is in the buffer.
    """

    def __init__(
        self, items: Iterable[Any], *, rows: int = 100, resume: Resume | None = None
    ) -> None:
        able = hasattr(items, "state_dict") and hasattr(items, "load_state_dict")
        if resume == "state" and not able:
            raise ValueError(f"{type(items).__name__} has no state_dict: resume by count.")
        self.items: Any = items
        self.rows = rows
        self.resume = resume or ("trusted state" if able else "count")
        self._stopped = threading.Event()

    def __repr__(self) -> str:
        return f"Items({type(self.items).__name__})"

    def read(self, offset: Any = None) -> Iterator[Batch]:
        """Yield items after an offset: their count and, where supported, a state."""
        count = 0 if offset is None else int(offset["count"])
        for part in in_parts(self._after(offset), self.rows):
            if self._stopped.is_set():
                return
            positions = list(range(count, count + len(part)))
            count += len(part)
            yield Batch(part, positions, {"count": count, **self._state()}, time())

    def acknowledge(self, offset: Any) -> None:
        """Do nothing: an iterable keeps no record of its readers."""

    def behind(self) -> int | None:
        """Return None: it is not known."""
        return None

    def close(self) -> None:
        """End reading after the present item."""
        self._stopped.set()

    def _state(self) -> dict[str, Any]:
        if self.resume == "trusted state":
            state = self.items.state_dict()
            if trusted(self.items, state):
                return {"state": state}
            self.resume = "count"
        return {"state": self.items.state_dict()} if self.resume == "state" else {}

    def _after(self, offset: Any) -> Iterator[Any]:
        if offset is None or self.resume == "never":
            return iter(self.items)
        if "state" in offset and self.resume != "count":
            self.items.load_state_dict(offset["state"])
            return iter(self.items)
        if self.resume == "state":
            raise SourceError(f"{self}: the offset holds no state: resume by count.")
        return islice(self.items, int(offset["count"]), None)


def trusted(items: Any, state: Any) -> bool:
    """Return whether a state can be saved as JSON, and is complete."""
    try:
        json.dumps(state)
    except (TypeError, ValueError):
        return False
    return not shuffled(getattr(items, "_ex_iterable", None))


def shuffled(part: Any) -> bool:
    """Return whether a chain of Hugging Face has a shuffle buffer, which its state leaves out."""
    if part is None:
        return False
    inner = [getattr(part, "ex_iterable", None), *getattr(part, "ex_iterables", [])]
    return "BufferShuffled" in type(part).__name__ or any(map(shuffled, inner))
