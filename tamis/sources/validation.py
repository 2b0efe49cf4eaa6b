"""What a row must be to be trained on: checked a chunk or a record at a time, by the same rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from tamis.data import UNLABELLED, Samples
from tamis.errors import TamisError
from tamis.sources.class_numbers import BEYOND_LIMIT, NOT_A_CLASS, ClassNumbers
from tamis.sources.protocol import BadRecordError
from tamis.sources.rejects import Rejects

OnBad = Literal["raise", "skip", "quarantine"]

NOT_NUMBERS = "inputs are not numbers"
NOT_FINITE = "inputs not finite"
NOT_FINITE_SCALED = "inputs not finite after scaling"
CHANGED = "inputs of another shape or type"
NOT_INTEGERS = "labels are not integers"
NO_LABEL = "label missing"
NO_INPUTS = "inputs missing"
BAD_FIELDS = "fields do not fit the header"
"""Reasons are few, so that they can be counted; what differs from row to row is the detail."""

Scaling = Callable[[Tensor], Tensor]
"""Turns the inputs of rows into what a model sees of them."""

NUMBERS = {np.dtype(name) for name in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "?")}


class BadInputError(TamisError, ValueError):
    """A row, or a chunk of rows, that cannot be trained on."""


class Kind(NamedTuple):
    """Shape and type of one row's inputs, as JSON can hold them."""

    shape: tuple[int, ...]
    dtype: str

    @classmethod
    def of(cls, inputs: Tensor) -> Kind:
        """Return the kind of the rows of a chunk."""
        return cls(tuple(inputs.shape[1:]), str(inputs.dtype).removeprefix("torch."))

    @classmethod
    def from_json(cls, state: Sequence[Any] | None) -> Kind | None:
        """Return the kind that was saved as JSON, or None."""
        return None if state is None else cls(tuple(state[0]), state[1])

    def to_json(self) -> list[Any]:
        """Return shape and type as JSON."""
        return [list(self.shape), self.dtype]

    def __str__(self) -> str:
        return f"{self.shape} {self.dtype}"

    def check(self, found: Kind) -> None:
        """Raise where rows are of another kind."""
        if found != self:
            raise BadRecordError(CHANGED, f"changed from {self} to {found}")


def check_input(array: np.ndarray, kind: Kind | None) -> Kind:
    """Return the kind of one row's inputs; raise where they cannot be trained on."""
    if array.ndim < 1 or not array.size or array.dtype not in NUMBERS:
        raise BadRecordError(NOT_NUMBERS, f"{array.dtype} of shape {array.shape}")
    if not np.isfinite(array).all():
        raise BadRecordError(NOT_FINITE)
    found = Kind(array.shape, array.dtype.name)
    (kind or found).check(found)
    return found


def check_label(label: Any) -> int:
    """Return the number of a class as an int; raise where it cannot be one."""
    number = int(label)
    if not 0 <= number < 2**31 or number != label:
        raise BadRecordError(NOT_A_CLASS, str(label)[:100])
    return number


def check_id(row_id: Any) -> int | None:
    """Return an id as an int, or None; raise where it does not fit into 63 bits."""
    number = None if row_id is None else int(row_id)
    if number is not None and not 0 <= number < 2**63:
        raise BadRecordError("id is not an integer of 63 bits", str(number)[:100])
    return number


def class_of(label: Any, numbers: ClassNumbers) -> int:
    """Return the number of a class by its name; raise where there is none, nor room for it."""
    text = label_text(label)
    if text in numbers:
        return numbers[text]
    if numbers.open:
        return numbers.add(text)
    raise BadRecordError(NOT_A_CLASS, text[:100])


def label_text(label: Any) -> str:
    """Return a label as text; a missing one, None or NaN, is empty."""
    return "" if label is None or label != label else str(label).strip()


class Validator:
    """Turns what a stream yields into samples that are safe to train on.

    A stream may yield `Samples` or pairs of inputs and labels, tensors or arrays. Rejected are
    inputs that are not finite, labels that are not a class, and chunks whose shape or type differs
    from the first. `on_bad` is what then happens: `raise` stops with a sentence; `skip` drops the
    rows and adds them to `rejects`; `quarantine` also keeps their inputs in the file of `rejects`,
    so that they can be corrected and read again. Given a `scale`, inputs must be finite after it,
    too. `classes` is their number, or their names: labels may then be names, too. With
    `max_classes` labels up to so many are new classes, which a trainer then grows by. A trainer
    whose rows may wait for their labels sets `unlabelled`: a label of -1 is then none, and no
    fault.

    >>> validator = Validator(classes=2, on_bad="skip")
    >>> len(validator.validate((torch.tensor([[1.0], [torch.nan]]), torch.tensor([0, 1]))))
    1
    >>> validator.rejects.summary()
    '1 row rejected: 1 x inputs not finite.'
    """

    def __init__(
        self,
        classes: int | Sequence[str] | None = None,
        on_bad: OnBad = "raise",
        *,
        rejects: Rejects | None = None,
        max_classes: int | None = None,
    ) -> None:
        if on_bad not in get_args(OnBad):
            raise ValueError(f"on_bad is one of {', '.join(get_args(OnBad))}, got {on_bad!r}.")
        self.numbers = ClassNumbers(0 if classes is None else classes, max_classes)
        self.classes = None if classes is None else len(self.numbers)
        self.on_bad = on_bad
        self.rejects = Rejects() if rejects is None else rejects
        self.scale: Scaling | None = None
        self.unlabelled = False
        self.seen = 0
        self._kind: Kind | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the classes; none where they are numbers."""
        return () if self.numbers.numbered else tuple(self.numbers)

    @property
    def limit(self) -> int | None:
        """How many classes there can be; None where that is not known yet."""
        return self.numbers.max_classes if self.numbers.open else self.classes

    def grow(self, classes: int) -> None:
        """Take labels of so many classes for known ones."""
        self.classes = max(classes, self.classes or 0)
        self.numbers.grow(self.classes)

    def validate(self, item: Any) -> Samples:
        """Return the good rows of what a stream yielded."""
        item = self.numbered(item)
        if not isinstance(item, Samples):
            inputs, labels = pair_of(item)
            reason = text_fault(inputs, labels)
            if reason:
                return self._reject_text(inputs, labels, reason)
            item = samples_of(inputs, labels, self.seen)
        return self._validate_samples(item)

    def numbered(self, item: Any) -> Any:
        """Return a pair with the numbers of its classes in place of their names.

        A name that is not a class becomes -1, one beyond their limit that limit. Anything but a
        pair with text labels is as it was.
        """
        pair = isinstance(item, tuple | list) and len(item) == 2
        if self.numbers.numbered or not pair or isinstance(item[1], Tensor):
            return item
        labels = np.asarray(item[1])
        if labels.dtype.kind not in "OUS" or labels.ndim != 1:
            return item
        return item[0], np.array([self._number(label_text(label)) for label in labels.tolist()])

    def _number(self, name: str) -> int:
        if name in self.numbers or not name or not self.numbers.open:
            return self.numbers.get(name, -1)
        try:
            return self.numbers.add(name)
        except BadRecordError:
            return len(self.numbers)

    def _validate_samples(self, samples: Samples) -> Samples:
        good = self.keep(samples)
        if not good.any():
            return samples[slice(0)]
        return replace(samples, labels=samples.labels.long())[good]

    def keep(self, samples: Samples) -> Tensor:
        """Reject the bad rows, and return a mask of the others."""
        try:
            self._check_chunk(samples)
            good = self._check_rows(replace(samples, labels=samples.labels.long()))
        except BadRecordError as error:
            self._reject_rows(samples, error.reason, error.detail)
            good = torch.zeros(len(samples), dtype=torch.bool, device=samples.labels.device)
        self.seen += len(samples)  # last: what raises is as if it had never come
        if self._kind is None and good.any():
            self._kind = Kind.of(samples.inputs)
        return good

    def check_rows(self, samples: Samples) -> Samples:
        """Reject the bad rows of a good chunk, and return the others."""
        return samples[self._check_rows(samples)]

    def _check_rows(self, samples: Samples) -> Tensor:
        finite = finite_rows(samples.inputs)
        usable = finite if self.scale is None else finite_rows(samples.inputs, self.scale)
        known, range_ = samples.labels >= (UNLABELLED if self.unlabelled else 0), "negative"
        if self.limit is not None:
            known &= samples.labels < self.limit
            range_ = f"not from 0 to {self.limit - 1}"
        good = usable & known
        if not good.all():
            self._reject_rows(samples[~finite], NOT_FINITE)  # a row with two faults counts once
            self._reject_rows(samples[finite & ~usable], NOT_FINITE_SCALED)
            beyond = (samples.labels >= 0) & self.numbers.open
            self._reject_rows(samples[usable & ~known & ~beyond], NOT_A_CLASS, range_)
            self._reject_rows(samples[usable & ~known & beyond], BEYOND_LIMIT, range_)
        return good

    def reject(
        self, ids: Sequence[int], reason: str, detail: str = "", rows: Sequence[Any] | None = None
    ) -> None:
        """Raise, or count rows that a source could not even read."""
        if not ids:
            return
        if self.on_bad == "raise":
            why = f"{reason}: {detail}" if detail else reason
            raise BadInputError(f"Row {ids[0]}: {why} (on_bad skip or quarantine: go on without).")
        kept = rows if self.on_bad == "quarantine" and rows is not None else [None] * len(ids)
        for row_id, row in zip(ids, kept, strict=True):
            self.rejects.add(row_id, reason, detail, row)

    def state_dict(self) -> dict[str, Any]:
        """Return what was counted and learned of the stream so far."""
        state = {
            "seen": self.seen,
            "rejects": self.rejects.state_dict(),
            "classes": self.classes,
            "kind": self._kind and self._kind.to_json(),
        }
        return state | ({"names": list(self.numbers)} if self.numbers.open else {})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        if not self.numbers.open and self.classes not in (None, state["classes"]):
            raise ValueError(f"labels were of {state['classes']} classes and are of {self.classes}")
        kind = Kind.from_json(state["kind"])
        self.rejects.load_state_dict(state["rejects"])
        self.seen, self.classes, self._kind = state["seen"], state["classes"], kind
        self.numbers.set_names(state.get("names", list(self.numbers)))

    def _reject_text(self, inputs: np.ndarray, labels: np.ndarray, reason: str) -> Samples:
        """Reject a chunk of text; it fits in no tensor, so it goes to the file as it came."""
        ids = list(range(self.seen, self.seen + len(labels)))
        rows = zip(inputs.tolist(), labels.tolist(), strict=False)
        kept = [{"label": label, "inputs": row} for row, label in rows]
        named = reason == NOT_INTEGERS and self.on_bad == "raise"
        self.reject(
            ids, reason, "text; Validator(classes=names) takes names" if named else "text", kept
        )
        self.seen += len(labels)
        return Samples.of(torch.empty(0, 1), torch.empty(0, dtype=torch.long))

    def _check_chunk(self, samples: Samples) -> None:
        labels, inputs = samples.labels, samples.inputs
        if labels.dim() != 1:
            raise BadRecordError(NOT_INTEGERS, f"shape {tuple(labels.shape)}, not one class a row")
        if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
            raise BadRecordError(NOT_INTEGERS, str(labels.dtype).removeprefix("torch."))
        if inputs.dim() < 2:
            raise BadRecordError(NOT_NUMBERS, "no feature dimension")
        if self._kind:
            self._kind.check(Kind.of(inputs))

    def _reject_rows(self, bad: Samples, reason: str, detail: str = "") -> None:
        rows = [
            {"label": label, "inputs": inputs}
            for label, inputs in zip(bad.labels.tolist(), bad.inputs.tolist(), strict=True)
        ]
        self.reject(bad.ids.tolist(), reason, detail, rows)


def finite_rows(inputs: Tensor, scale: Scaling | None = None) -> Tensor:
    """Return a mask of the rows whose inputs are finite, after scaling where there is any."""
    scaled = inputs if scale is None else scale(inputs)
    return scaled.flatten(1).isfinite().all(dim=1).to(inputs.device)


def pair_of(item: Any) -> tuple[Any, Any]:
    """Return the two parts of a pair; anything else is a mistake in the program, not the data."""
    try:
        if isinstance(item, tuple | list) and len(item) == 2:
            inputs, labels = (
                part if isinstance(part, Tensor) else np.require(part, requirements=["C", "W"])
                for part in item
            )
            if inputs.ndim and labels.ndim:
                return inputs, labels
    except ValueError:  # rows of different lengths
        pass
    raise BadInputError(
        f"A stream yields Samples or pairs of inputs and labels, got {type(item).__name__}."
    )


def text_fault(inputs: Any, labels: Any) -> str | None:
    """Return the reason to reject a pair where one side holds text."""
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "OUS":
        return NOT_INTEGERS
    if isinstance(inputs, np.ndarray) and inputs.dtype.kind in "OUS":
        return NOT_NUMBERS
    return None


def samples_of(inputs: Any, labels: Any, first_id: int) -> Samples:
    """Return samples of two arrays or tensors of the same length."""
    inputs, labels = (
        part if isinstance(part, Tensor) else torch.from_numpy(part) for part in (inputs, labels)
    )
    try:
        return Samples.of(inputs, labels, first_id)
    except (TypeError, ValueError) as error:
        raise BadInputError(f"A stream yields inputs and labels of one length: {error}") from None
