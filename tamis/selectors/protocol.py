"""The interface of every selector."""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

from torch import Generator, Tensor

from tamis.data import Picks, Samples
from tamis.model_view import ModelView
from tamis.noise.opinions import Estimates


class Selector(Protocol):
    """Chooses what to train on. It changes neither the pool nor the model.

    A selector with memory between slots saves it by `state_dict()`, a dict of tensors, and
    restores it by `load_state_dict(state)`. One that remembers rows by their ids is a `Remembers`
    as well. The class attributes `preferred_window` and `preferred_warm_up` declare the view and
    the warm-up that it works best with, `seeks_clean` whether it sorts out wrong labels.
    """

    def select(self, pool: Samples, view: ModelView, k: int, generator: Generator) -> Picks:
        """Pick at most k rows of the pool."""
        ...


@runtime_checkable
class Planner(Selector, Protocol):
    """A selector that draws all its random numbers first, so that a CUDA graph replays the rest."""

    def plan(self, rows: int, k: int, generator: Generator) -> tuple[Tensor, ...]:
        """Draw, on the host, the random numbers for a selection from this many rows."""
        ...

    def choose(self, pool: Samples, view: ModelView, k: int, *draws: Tensor) -> Picks:
        """Pick at most k rows of the pool by the random numbers that `plan` drew."""
        ...


@runtime_checkable
class Remembers(Selector, Protocol):
    """A selector that remembers rows by id, and so must follow corrections.

    Ids that it does not know are ignored.
    """

    def relabel(self, ids: Tensor, labels: Tensor) -> None:
        """Take these labels for those of the rows; forget what depends on the old ones."""
        ...

    def remove(self, ids: Tensor) -> None:
        """Forget these rows."""
        ...


def band_around(ratio: float | None, selector: object) -> tuple[float, float] | None:
    """Return the band of a selector, widened to hold a ratio that was found otherwise."""
    found = selector.estimate() if isinstance(selector, Estimates) else None
    if found is None or ratio is None:
        return None
    return round(min(found.low, ratio), 4), round(max(found.high, ratio), 4)


@runtime_checkable
class Audited(Protocol):
    """A selector or a tracker that learns from an audit of rows drawn at random."""

    def audit(self, ids: Tensor, right: Tensor) -> None:
        """Take in which rows came with a right label.

        `right` is of int8: 1 right, 0 wrong, -1 where that was undone. It replaces what was passed
        in before about the same ids. It is about the label that a row came with: one that was
        wrong is changed by a `relabel` or a `remove` that follows, if it was not before. Rows need
        not be held any more.
        """
        ...


@runtime_checkable
class UsesUnlabelled(Selector, Protocol):
    """A selector that also picks rows without labels, and guesses their targets."""

    def select_unlabelled(
        self, rows: Samples, view: ModelView, k: int, generator: Generator
    ) -> Picks:
        """Pick at most k of the rows, with soft targets; none whose class is not certain enough.

        The labels of the rows are `UNLABELLED`. What is known of labelled rows does not change.
        """
        ...


def preferred_window(selector: Selector) -> int | Literal["average"]:
    """Return how many of the model's last states this selector looks through, or "average".

    "average" is the running average of the weights. A selector declares it as a class attribute
    of the same name; the default is 1, the model as it is.
    """
    window: int | Literal["average"] = getattr(selector, "preferred_window", 1)
    return window


def preferred_warm_up(selector: Selector) -> int:
    """Return how many first slots pick at random before this selector does, 200 by default."""
    slots: int = getattr(selector, "preferred_warm_up", 200)
    return slots


def seeks_clean(selector: Selector) -> bool:
    """Return whether picks should have a higher clean ratio than the pool; True by default."""
    sought: bool = getattr(selector, "seeks_clean", True)
    return sought
