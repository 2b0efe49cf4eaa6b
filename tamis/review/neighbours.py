"""The rows held that are most similar to a suspect: context for the person who decides."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tamis.checkpoint import write_atomically
from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.review.scorer import FeatureScaler
from tamis.runs import RunFiles, Tail
from tamis.runs.json_lines import JsonObject, parse_line

CHUNK = 1024
"""Rows compared with all rows held at once, at the most."""
MOST_NUMBERS = 2**24
"""Similarities computed at once: of fewer rows, where more than 16,384 are held."""
NONE = -1.5
"""Below every cosine: minus infinity stands for the row itself, or for one that is not usable."""


class Nearest(NamedTuple):
    """Rows of a pool that are nearest to each of some rows, nearest first, and their cosines."""

    rows: Tensor
    similarity: Tensor


@dataclass(frozen=True)
class Neighbour:
    """A row held, its label by name, and its cosine similarity to a suspect."""

    id: str
    label: str
    similarity: float
    preview: Mapping[str, Any]

    def to_json(self) -> JsonObject:
        """Return the neighbour as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, line: object) -> Neighbour | None:
        """Read a JSON object; None where it is not a neighbour."""
        if not isinstance(line, dict) or not isinstance(line.get("similarity"), int | float):
            return None
        preview = line.get("preview")
        return cls(
            str(line.get("id", "")),
            str(line.get("label", "")),
            float(line["similarity"]),
            preview if isinstance(preview, dict) else {},
        )


def find_neighbours(
    view: ModelView, inputs: Tensor, ids: Tensor, held: Samples, *, count: int = 5
) -> Nearest:
    """Return the rows held that are nearest to each input, by the cosine of scaled features.

    `ids` are the numbers of the inputs: no row is its own neighbour.
    """
    features = view.features(held.inputs)
    scaler = FeatureScaler(features)
    vectors = scaler.unit_vectors(features)
    count = min(count, len(held))
    rows, similarity = [], []
    chunk = max(1, min(CHUNK, MOST_NUMBERS // max(1, len(held))))
    for part, numbers in zip(inputs.split(chunk), ids.split(chunk), strict=True):
        cosines = scaler.unit_vectors(view.features(part)) @ vectors.T
        itself = numbers[:, None] == held.ids
        cosines.masked_fill_(itself | ~scaler.usable, -torch.inf)
        best = cosines.topk(count, dim=1)
        rows.append(best.indices)
        similarity.append(best.values)
    if not rows:
        empty = torch.empty(0, count)
        return Nearest(empty.long(), empty)
    return Nearest(torch.cat(rows), torch.cat(similarity))


def list_neighbours(
    nearest: Nearest,
    held: Samples,
    classes: Sequence[str],
    previews: Mapping[int, Mapping[str, Any]],
    names: Mapping[int, str],
) -> list[list[Neighbour]]:
    """Return the neighbours of each row.

    Parameters
    ----------
    nearest: from `find_neighbours`
    held: the rows that `nearest` refers to
    classes: names of the classes
    previews: previews of rows held, by number
    names: ids of rows held as text, by number; a row without one goes by its number
    """
    numbers, labels = held.ids.tolist(), held.labels.tolist()
    return [
        [
            Neighbour(
                names.get(numbers[row], str(numbers[row])),
                classes[labels[row]],
                round(value, 4),
                previews.get(numbers[row], {}),
            )
            for row, value in zip(rows, similarity, strict=True)
            if value > NONE
        ]
        for rows, similarity in zip(nearest.rows.tolist(), nearest.similarity.tolist(), strict=True)
    ]


def write_neighbours(folder: Path, found: Mapping[str, Sequence[Neighbour]]) -> None:
    """Write neighbours.jsonl into a run's folder: one line for each suspect, by its id."""
    lines = (
        json.dumps({"id": name, "neighbours": [one.to_json() for one in near]}, allow_nan=False)
        for name, near in found.items()
    )
    content = "".join(line + "\n" for line in lines)
    write_atomically(folder / RunFiles.neighbours, content.encode(), private=True)


class NeighbourIndex:
    """The neighbours of suspects, read from the file on demand."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / RunFiles.neighbours
        self._tail = Tail(self.path)
        self._offsets: dict[str, int] = {}

    def of(self, name: str) -> list[Neighbour]:
        """Return the neighbours of a suspect; an empty list where none were looked for."""
        new = self._tail.read_with_offsets()
        if self._tail.reset:
            self._offsets.clear()
        self._offsets.update({str(line.get("id")): offset for offset, line in new})
        offset = self._offsets.get(name)
        if offset is None:
            return []
        with self.path.open("rb") as file:
            file.seek(offset)
            line = parse_line(file.readline()) or {}
        found = line.get("neighbours") if line.get("id") == name else None
        read = map(Neighbour.from_json, found if isinstance(found, list) else ())
        return [neighbour for neighbour in read if neighbour]
