"""The numbers of one slot: a line of the log, and what trackers and plots show."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

from tamis.data import Slot

MOST_COUNTED = 128
"""Classes up to which picks are listed by class; a line of the log would be long with more."""


class Accuracy(NamedTuple):
    """Share of test labels predicted, by the model as it is and by its running average."""

    raw: float
    ema: float | None = None


@dataclass(frozen=True)
class SlotRecord:
    """The numbers of one slot, in the order of the log; None where a number is not known.

    Parameters
    ----------
    slot: number of the slot
    warm_up: whether rows were picked at random
    seen: rows taken in since the start
    held: rows in the buffer
    skipped: rows refused since the start
    picks: picks of the slot
    distinct: rows among the picks, each counted once
    loss: mean training loss of the picks
    agreement: share of arriving labels that the model predicted before it learned from them
    accuracy: share of test labels predicted by the model as it is
    accuracy_ema: share of test labels predicted by its running average
    purity: clean share of the picks
    recall: share of the clean rows held that were ever picked
    coverage: share of the rows held that were ever picked
    class_picks: picks by class; empty with more than 128 classes
    stayed: share of moves of a search that ended where they began
    price: highest price of a search
    select_seconds: time spent on selection
    seconds: time of the slot
    warnings: warnings of a collapse
    waiting: rows that wait for their labels
    labelled: share of the rows that came which have had their label
    """

    slot: int
    warm_up: bool
    seen: int
    held: int
    skipped: int
    picks: int
    distinct: int
    loss: float | None
    agreement: float | None
    accuracy: float | None
    accuracy_ema: float | None
    purity: float | None
    recall: float | None
    coverage: float | None
    class_picks: tuple[int, ...]
    stayed: float | None
    price: float | None
    select_seconds: float
    seconds: float
    warnings: tuple[str, ...] = ()
    waiting: int = 0
    labelled: float | None = None

    @classmethod
    def of(
        cls, slot: Slot, accuracy: Accuracy | None = None, warnings: tuple[str, ...] = ()
    ) -> SlotRecord:
        """Read the numbers of a slot from its device."""
        ids = slot.ids
        return cls(
            slot.number,
            slot.warm_up,
            slot.seen,
            slot.held,
            slot.skipped,
            len(ids),
            len(ids.unique()),
            slot.loss,
            slot.agreement,
            accuracy and accuracy.raw,
            accuracy and accuracy.ema,
            slot.purity,
            slot.recall,
            slot.coverage,
            tuple(slot.class_picks.tolist()) if len(slot.class_picks) <= MOST_COUNTED else (),
            slot.stayed,
            slot.price,
            round(slot.select_seconds, 6),
            round(slot.seconds, 6),
            warnings,
            slot.waiting,
            slot.labelled,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the record as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, line: dict[str, Any]) -> SlotRecord | None:
        """Read a JSON object; None where it has no slot. Missing or malformed numbers are None."""
        slot, texts, counts = (line.get(key) for key in ("slot", "warnings", "class_picks"))
        if not isinstance(slot, int):
            return None
        numbers: dict[str, Any] = {
            name: value if isinstance(value := line.get(name), int | float) else None
            for name in NUMBERS
        }
        return cls(
            **numbers,
            warm_up=line.get("warm_up") is True,
            class_picks=tuple(counts) if isinstance(counts, list) else (),
            warnings=tuple(map(str, texts)) if isinstance(texts, list) else (),
        )


NUMBERS = tuple(
    field.name
    for field in fields(SlotRecord)
    if field.name not in ("warm_up", "class_picks", "warnings")
)
"""Fields that are one number each."""
