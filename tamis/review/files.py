"""The files that the review of a run reads: its suspects and their neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.review.differences import differing
from tamis.review.neighbours import (
    NONE,
    Nearest,
    find_neighbours,
    list_neighbours,
    write_neighbours,
)
from tamis.review.previews import Preview, Previewer
from tamis.review.records import TableRows
from tamis.review.suspects import Rows
from tamis.runs import Suspect, write_suspects

MOST = 50_000
"""Suspects in suspects.jsonl at the most: nobody reviews more, and suspects.csv has them all."""
MOST_COMPARED = 5000
"""Suspects with neighbours at the most: the worst ones, which are reviewed first."""
MOST_CELLS = 2**20
"""Cells of a table in each of the two files, at the most: of wide tables, those of fewer rows."""
NEIGHBOURS = 5
MOST_CLASSES = 8
"""Classes of a suspect whose probability is written: the likeliest, and that of its label."""


@dataclass(frozen=True)
class RowsRead:
    """What one pass through the rows finds, by the number of a row.

    Previews and probabilities are those of the rows `displayed`, inputs those of the rows
    `compared`, names those of the rows `near`. With `later`, previews are made by whoever calls,
    and there are inputs instead.
    """

    displayed: set[int]
    later: bool = False
    device: torch.device | None = None
    compared: set[int] = field(default_factory=set)
    near: set[int] = field(default_factory=set)
    previews: dict[int, Preview] = field(default_factory=dict)
    probabilities: dict[int, dict[int, float]] = field(default_factory=dict)
    inputs: dict[int, Tensor] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    def update(
        self, samples: Samples, ids: Sequence[str], preview: Previewer, view: ModelView | None
    ) -> None:
        """Read some rows; a row that comes again counts as it is then."""
        places = []
        for at, row in enumerate(samples.ids.tolist()):
            if row in self.displayed:
                places.append(at)
                if not self.later:
                    self.previews[row] = preview(samples.inputs[at])
            if row in self.compared or (self.later and row in self.displayed):
                self.inputs[row] = samples.inputs[at].clone()
            if row in self.near:
                self.names[row] = ids[at]
        if view and places:
            chosen = samples[torch.tensor(places, device=samples.ids.device)]
            shares = view.probabilities(chosen.inputs.to(self.device)).cpu()
            best = shares.topk(min(MOST_CLASSES, shares.shape[1]), dim=1).indices
            labels = torch.cat([best, chosen.labels.cpu()[:, None]], dim=1)
            rows = chosen.ids.tolist(), labels.tolist(), shares.gather(1, labels).tolist()
            for row, names, values in zip(*rows, strict=True):
                self.probabilities[row] = {
                    name: round(value, 4)
                    for name, value in zip(names, values, strict=True)
                    if value == value  # of a row that is not finite there is none
                }


def write_review_files(
    folder: Path,
    suspects: Sequence[Suspect],
    rows: Rows,
    classes: Sequence[str],
    *,
    preview: Previewer,
    view: ModelView | None = None,
    held: Samples | None = None,
    table: TableRows | None = None,
    most: int = MOST,
    most_compared: int = MOST_COMPARED,
) -> None:
    """Write suspects.jsonl and, where a model and the rows held are given, neighbours.jsonl.

    Parameters
    ----------
    folder: folder of the run
    suspects: from `find_suspects`, worst first
    rows: the rows that the suspects were found among, once more
    classes: names of the classes
    preview: makes the preview of a row
    view: the model whose probabilities are written, and whose features are compared
    held: the rows that a trainer holds, `trainer.held()`, among which neighbours are looked for
    table: cells of rows as they were written, in place of previews
    most: suspects written at the most
    most_compared: suspects with neighbours at the most
    """
    listed = [suspect for suspect in suspects[:most] if suspect.row is not None]
    width = len(table.schema.columns) + 1 if table else 1
    first = listed[: min(most_compared, MOST_CELLS // (width * NEIGHBOURS))]
    later = table is not None and len(table.schema.input_shape) == 1  # most need not be decoded
    read = RowsRead(numbers_of(listed[: MOST_CELLS // width]), later)
    if view and held:
        near = set(held.ids.tolist())
        read = replace(read, device=held.ids.device, compared=numbers_of(first), near=near)
    for samples, ids in rows:
        read.update(samples, ids, preview, view)
    compared = [suspect for suspect in first if suspect.row in read.inputs]
    nearest = find_nearest(view, held, compared, read.inputs) if view and held else None
    inputs = {row: read.inputs[row] for row in read.inputs if later and row in read.displayed}
    if held and nearest:
        inputs |= {int(held.ids[at]): held.inputs[at] for at in nearest.rows.unique().tolist()}
    previews = find_previews(read.previews, inputs, preview, table)
    marks: dict[str, list[str]] = {}
    if held and nearest:
        marks = mark_differences(table, compared, nearest, held, previews)
    write_suspects(folder, (completed(one, read, previews, marks, classes) for one in listed))
    if held and nearest:
        found = list_neighbours(nearest, held, classes, previews, read.names)
        ids = [suspect.id for suspect in compared]
        write_neighbours(folder, dict(zip(ids, found, strict=True)))


def numbers_of(suspects: Sequence[Suspect]) -> set[int]:
    """Return the numbers of the rows of suspects."""
    return {suspect.row for suspect in suspects if suspect.row is not None}


def find_nearest(
    view: ModelView, held: Samples, compared: Sequence[Suspect], inputs: Mapping[int, Tensor]
) -> Nearest | None:
    """Return the rows held that are nearest to suspects; None where there is nothing to compare."""
    rows = [suspect.row for suspect in compared if suspect.row is not None]
    if not rows:
        return None
    device = held.inputs.device
    stacked = torch.stack([inputs[row] for row in rows]).to(device)
    try:
        return find_neighbours(
            view, stacked, torch.tensor(rows, device=device), held, count=NEIGHBOURS
        )
    except TypeError:  # without a last linear layer there are no features to compare
        return None


def find_previews(
    known: Mapping[int, Preview],
    inputs: Mapping[int, Tensor],
    preview: Previewer,
    table: TableRows | None,
) -> dict[int, Preview]:
    """Return previews by row: columns as they were written, and what else the inputs are."""
    found = dict(known)
    columns = table.previews({*known, *inputs}) if table else {}
    flat = table is not None and len(table.schema.input_shape) == 1
    for row, values in inputs.items():
        if row not in found and not (flat and row in columns):
            found[row] = preview(values)
    return found | {row: found.get(row, {}) | more for row, more in columns.items()}


def mark_differences(
    table: TableRows | None,
    compared: Sequence[Suspect],
    nearest: Nearest,
    held: Samples,
    previews: Mapping[int, Preview],
) -> dict[str, list[str]]:
    """Return by id the columns in which suspects differ from their neighbours."""
    columns = {
        row: cells
        for row, preview in previews.items()
        if isinstance(cells := preview.get("columns"), dict)
    }
    places = {row: place for place, row in enumerate(columns)}
    own = np.array([places.get(suspect.row or 0, -1) for suspect in compared], np.int64)
    if (own < 0).all():
        return {}
    numbers = [[places.get(row, -1) for row in rows] for rows in held.ids[nearest.rows].tolist()]
    near = np.where((nearest.similarity > NONE).cpu().numpy(), np.array(numbers, np.int64), -1)
    known = np.flatnonzero(own >= 0)
    schema, cells = table.schema if table else None, list(columns.values())
    found = differing(schema, cells, own[known], near[known])
    return {compared[at].id: names for at, names in zip(known.tolist(), found, strict=True)}


def completed(
    suspect: Suspect,
    read: RowsRead,
    previews: Mapping[int, Preview],
    marks: Mapping[str, list[str]],
    classes: Sequence[str],
) -> Suspect:
    """Return a suspect with its preview, the columns that differ, and probabilities."""
    if suspect.row is None or suspect.row not in read.displayed:
        return suspect
    preview = dict(previews.get(suspect.row, {}))
    if differs := marks.get(suspect.id):
        preview["differs"] = differs
    found = read.probabilities.get(suspect.row, {})
    probabilities = {classes[label]: share for label, share in found.items()}
    return replace(suspect, preview=preview, probabilities=probabilities)
