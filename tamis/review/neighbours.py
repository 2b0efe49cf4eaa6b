"""Which held rows are most like a suspect: context for who must scorer it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tamis.checkpoint import write_atomically
from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.review.previews import Previewer
from tamis.review.suspects import FeatureScaler
from tamis.runs import RunFiles, Tail
from tamis.runs.json_lines import parse_line

CHUNK = 1024


class Near(NamedTuple):
    """Rows of a pool that are nearest to a row, nearest first, and how near: 1 is the same."""

    rows: Tensor
    likeness: Tensor


def find_neighbours(view: ModelView, suspects: Samples, held: Samples, count: int = 5) -> Near:
    """Find the rows held that are nearest to each suspect in the model's features, itself apart.

    Features are brought to the same spread, and near is the cosine between them.
    """
    features = view.features(held.inputs)
    space = FeatureScaler(features)
    directions = space.directions(features)
    count = min(count, len(held))
    rows, likeness = [], []
    for inputs, ids in zip(suspects.inputs.split(CHUNK), suspects.ids.split(CHUNK), strict=True):
        near = space.directions(view.features(inputs)) @ directions.T
        near.masked_fill_(ids[:, None] == held.ids, -torch.inf)
        best = near.topk(count, dim=1)
        rows.append(best.indices)
        likeness.append(best.values)
    if not rows:
        nothing = torch.empty(0, count)
        return Near(nothing.long(), nothing)
    return Near(torch.cat(rows), torch.cat(likeness))


def write_neighbours(
    folder: Path,
    near: Near,
    suspects: Sequence[str],
    held: Samples,
    classes: Sequence[str],
    show: Previewer,
    names: Mapping[int, str] | None = None,
) -> None:
    """Put one line for each suspect into the run's folder: its neighbours, labels and sights."""
    numbers, labels = held.ids.tolist(), held.labels.tolist()
    sights = {row: show(held.inputs[row]) for row in near.rows.unique().tolist()}
    lines = []
    for name, rows, likeness in zip(
        suspects, near.rows.tolist(), near.likeness.tolist(), strict=True
    ):
        found = [
            {
                "id": (names or {}).get(numbers[row], str(numbers[row])),
                "label": classes[labels[row]],
                "likeness": round(value, 4),
                "show": sights[row],
            }
            for row, value in zip(rows, likeness, strict=True)
            if value > -1.5  # a row is no neighbour of its own
        ]
        lines.append(json.dumps({"id": name, "near": found}, allow_nan=False) + "\n")
    write_atomically(folder / RunFiles.neighbours, "".join(lines).encode())


class Neighbourhood:
    """The neighbours of suspects, read when they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / RunFiles.neighbours
        self._tail = Tail(self.path)
        self._places: dict[str, int] = {}

    def of(self, name: str) -> list[dict[str, Any]]:
        """Return the neighbours of a suspect; none where they were not looked for."""
        new = self._tail.read_placed()
        if self._tail.anew:
            self._places.clear()
        self._places.update({str(line.get("id")): place for place, line in new})
        place = self._places.get(name)
        if place is None:
            return []
        with self.path.open("rb") as file:
            file.seek(place)
            line = parse_line(file.readline()) or {}
        near = line.get("near") if line.get("id") == name else None
        return near if isinstance(near, list) else []
