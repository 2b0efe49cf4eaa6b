"""The door of the trainer: bad rows get one clear sentence, or are skipped and counted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from tamis.data import Samples
from tamis.errors import TamisError

OnBad = Literal["raise", "skip", "quarantine"]


class BadInputError(TamisError, ValueError):
    """A row, or a chunk of rows, that cannot be trained on."""


class Intake:
    """Turns what a stream yields into samples that are safe to train on.

    A stream may yield `Samples` or pairs of inputs and labels, tensors or arrays. What is refused:
    inputs that are not finite, labels that are no class, and chunks whose shape or type differs
    from the first. `on_bad` says what then happens: `raise` stops with a sentence; `skip` drops
    the rows, counts them by reason in `skipped`, and notes them in `file`; `quarantine` keeps
    their inputs in the file as well, so that they can be mended and played again.

    >>> intake = Intake(classes=2, on_bad="skip")
    >>> len(intake.admit((torch.tensor([[1.0], [torch.nan]]), torch.tensor([0, 1]))))
    1
    >>> dict(intake.skipped)
    {'inputs not finite': 1}
    """

    def __init__(
        self, classes: int | None = None, on_bad: OnBad = "raise", file: Path | None = None
    ) -> None:
        if on_bad not in get_args(OnBad):
            raise ValueError(f"on_bad is one of {', '.join(get_args(OnBad))}, got {on_bad!r}.")
        self.classes = classes
        self.on_bad = on_bad
        self.file = file
        self.skipped: Counter[str] = Counter()
        self.seen = 0
        self._kind: tuple[torch.Size, torch.dtype] | None = None

    def admit(self, item: Any) -> Samples:
        """Return the good rows of what a stream yielded."""
        if not isinstance(item, Samples):
            inputs, labels = pair_of(item)
            fault = text_fault(inputs, labels)
            if fault:
                return self._refuse_text(inputs, labels, fault)
            item = samples_of(inputs, labels, self.seen)
        return self._admit_samples(item)

    def _admit_samples(self, samples: Samples) -> Samples:
        self.seen += len(samples)
        fault = self._chunk_fault(samples)
        if fault:
            self._refuse_rows(samples, fault)
            return samples[slice(0)]
        samples = self.sift(replace(samples, labels=samples.labels.long()))
        if len(samples):
            self._kind = self._kind or (samples.inputs.shape[1:], samples.inputs.dtype)
        return samples

    def sift(self, samples: Samples) -> Samples:
        """Refuse the bad rows of a good chunk, and return the others."""
        good = torch.ones_like(samples.labels, dtype=torch.bool)
        for reason, bad in self._row_faults(samples):
            self._refuse_rows(samples[good & bad], reason)  # two faults: it goes by the first
            good &= ~bad
        return samples[good]

    def refuse(self, ids: Sequence[int], reason: str, rows: Sequence[Any] | None = None) -> None:
        """Raise, or count and note rows that a source could not even read."""
        if not ids:
            return
        if self.on_bad == "raise":
            raise BadInputError(
                f"Row {ids[0]}: {reason} (on_bad skip or quarantine: go on without)."
            )
        self.skipped[reason] += len(ids)
        if self.file is None:
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as out:
            for position, row_id in enumerate(ids):
                line = {"id": row_id, "reason": reason}
                if self.on_bad == "quarantine" and rows is not None:
                    line["row"] = rows[position]
                out.write(json.dumps(line) + "\n")

    def state_dict(self) -> dict[str, Any]:
        """Return what was counted and learned of the stream so far."""
        shape, kind = self._kind or (None, None)
        return {
            "seen": self.seen,
            "skipped": self.skipped,
            "classes": self.classes,
            "shape": None if shape is None else list(shape),
            "kind": None if kind is None else name_of(kind),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on counting from what `state_dict` gave."""
        if self.classes not in (None, state["classes"]):
            raise ValueError(f"labels were of {state['classes']} classes and are of {self.classes}")
        self.seen, self.skipped = state["seen"], Counter(state["skipped"])
        self.classes, self._kind = state["classes"], None
        if state["shape"] is not None:
            self._kind = (torch.Size(state["shape"]), dtype_of(state["kind"]))

    def _refuse_text(self, inputs: np.ndarray, labels: np.ndarray, fault: str) -> Samples:
        """Text has no place in a tensor, so it goes to the file as it came."""
        ids = list(range(self.seen, self.seen + len(labels)))
        self.seen += len(labels)
        rows = zip(inputs.tolist(), labels.tolist(), strict=False)
        self.refuse(ids, fault, [{"label": label, "inputs": row} for row, label in rows])
        return Samples.of(torch.empty(0, 1), torch.empty(0, dtype=torch.long))

    def _chunk_fault(self, samples: Samples) -> str | None:
        labels, inputs = samples.labels, samples.inputs
        if labels.dim() != 1:
            return f"labels have shape {tuple(labels.shape)}, not one class number a row"
        if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
            return f"labels are {name_of(labels.dtype)}, not whole class numbers"
        if inputs.dim() < 2:
            return "inputs have no feature dimension"
        if self._kind and self._kind != (inputs.shape[1:], inputs.dtype):
            return (
                f"inputs changed from {tell(*self._kind)} to {tell(inputs.shape[1:], inputs.dtype)}"
            )
        return None

    def _row_faults(self, samples: Samples) -> list[tuple[str, Tensor]]:
        finite = samples.inputs.flatten(1).isfinite().all(dim=1)
        faults = [("inputs not finite", ~finite), ("label negative", samples.labels < 0)]
        if self.classes is not None:
            faults.append((f"label not below {self.classes}", samples.labels >= self.classes))
        return [(reason, bad) for reason, bad in faults if bad.any()]

    def _refuse_rows(self, bad: Samples, reason: str) -> None:
        rows = [
            {"label": label, "inputs": inputs}
            for label, inputs in zip(bad.labels.tolist(), bad.inputs.tolist(), strict=True)
        ]
        self.refuse(bad.ids.tolist(), reason, rows)


def tell(shape: torch.Size, kind: torch.dtype) -> str:
    """Name a shape and a type as users write them."""
    return f"{tuple(shape)} {name_of(kind)}"


def name_of(kind: torch.dtype) -> str:
    """Name a type without torch's prefix."""
    return str(kind).removeprefix("torch.")


def dtype_of(name: str) -> torch.dtype:
    """Find a type by the name that `name_of` gives it."""
    kind = getattr(torch, name)
    if not isinstance(kind, torch.dtype):
        raise TypeError(f"{name} is no type of numbers")
    return kind


def pair_of(item: Any) -> tuple[Any, Any]:
    """Take a pair apart; anything else is a mistake in the program, not in the data."""
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
    """Say which side of a pair holds text, if one does."""
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "OUS":
        return "labels are text, not whole class numbers"
    if isinstance(inputs, np.ndarray) and inputs.dtype.kind in "OUS":
        return "inputs are text, not numbers"
    return None


def samples_of(inputs: Any, labels: Any, first_id: int) -> Samples:
    """Make samples of two arrays or tensors of the same length."""
    inputs, labels = (
        part if isinstance(part, Tensor) else torch.from_numpy(part) for part in (inputs, labels)
    )
    try:
        return Samples.of(inputs, labels, first_id)
    except (TypeError, ValueError) as error:
        raise BadInputError(f"A stream yields inputs and labels of one length: {error}") from None
