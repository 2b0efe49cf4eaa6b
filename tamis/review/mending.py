"""Labels changed, and rows taken out, in what a trainer holds; all that counts them follows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tamis.buffers import BalancedReservoir, Buffer, Sliding
from tamis.buffers.store import Store
from tamis.model_view import ModelView
from tamis.noise import Tracker
from tamis.noise.tracker import bin_of
from tamis.selectors import Plausible, Selector

TALLIES = ("rows", "agreeing", "pairs")


def relabel(buffer: Buffer, rows: Tensor, labels: Tensor) -> None:
    """Give rows of the pool other labels. A label that a person gave counts as right."""
    held = buffer.pool()
    held.labels[rows] = labels
    if held.clean is not None:
        held.clean[rows] = True
    if isinstance(buffer, BalancedReservoir):
        reload(buffer, torch.ones(len(held), dtype=torch.bool, device=held.labels.device))


def drop(buffer: Buffer, rows: Tensor) -> None:
    """Take rows out of the pool; the others stay in their order."""
    kept = torch.ones(len(buffer), dtype=torch.bool, device=rows.device)
    kept[rows] = False
    reload(buffer, kept)


def reload(buffer: Buffer, kept: Tensor) -> None:
    """Have a buffer hold these of its rows, known by the labels that they have now."""
    if not isinstance(buffer, Store):
        raise TypeError(f"{type(buffer).__name__} lets no row go: it is no Store.")
    state = buffer.state_dict()
    rows = {name: column.clone() for name, column in state["rows"].items()}
    counts = dict(state["counts"])
    if isinstance(buffer, Sliding) and len(buffer) == buffer.capacity:
        first = counts["_next"]  # the oldest, whose place is taken next
        rows = {name: column.roll(-first, 0) for name, column in rows.items()}
        kept = kept.roll(-first, 0)
        counts["_next"] = 0
    rows = {name: column[kept] for name, column in rows.items()}
    changed: dict[str, Any] = {**state, "rows": rows if kept.any() else {}, "counts": counts}
    if isinstance(buffer, BalancedReservoir):
        labels = rows["labels"]
        changed["places"] = {
            label: (labels == label).nonzero()[:, 0] for label in labels.unique().tolist()
        }
    buffer.load_state_dict(changed)


def follow(
    tracker: Tracker, view: ModelView, inputs: Tensor, before: Tensor, after: Tensor, ages: Tensor
) -> None:
    """Have a tracker count rows under the labels that they have now.

    A row weighs what it weighs after `ages` rows that came behind it. How sure the model was when
    it came is not kept, so that it counts as sure as the model is now.
    """
    beliefs = view.probabilities(inputs).double()
    sure, choice = beliefs.max(dim=1)
    bins = bin_of(sure, tracker.classes)
    weights = 0.5 ** (ages.double() / tracker.half_life)
    state = tracker.state_dict()
    rows, agreeing, pairs = (state[name].to(inputs.device) for name in TALLIES)
    for row, weight in enumerate(weights.tolist()):
        old, new, place = int(before[row]), int(after[row]), int(bins[row])
        moved = min(weight, float(rows[old, place]))
        rows[old, place] -= moved
        rows[new, place] += moved
        agreeing[old, place] -= min(moved * bool(choice[row] == old), float(agreeing[old, place]))
        agreeing[new, place] += moved * bool(choice[row] == new)
        taken = min(moved, float(pairs[choice[row], old, place]))
        pairs[choice[row], old, place] -= taken
        pairs[choice[row], new, place] += moved
    tracker.load_state_dict(state | dict(zip(TALLIES, (rows, agreeing, pairs), strict=True)))


def remind(selector: Selector, ids: Tensor, labels: Tensor, gone: Tensor) -> None:
    """Have a selector that lets the rows it has seen vote know their labels, and forget some."""
    if not isinstance(selector, Plausible) or not (state := selector.state_dict()):
        return
    known, voters = state["ids"], state["labels"].clone()
    says = state["says"].clone()
    for number, label in zip(ids.tolist(), labels.tolist(), strict=True):
        voters[known == number] = label
    says[torch.isin(known, gone.to(known.device))] = 0
    selector.load_state_dict(state | {"labels": voters, "says": says})
