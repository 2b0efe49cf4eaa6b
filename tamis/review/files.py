"""The files that the review of a run reads: its suspects and their neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.review.neighbours import find_neighbours, write_neighbours
from tamis.review.previews import Preview, Previewer
from tamis.review.suspects import Rows
from tamis.runs import Suspect, write_suspects

MOST = 50_000
"""Suspects in suspects.jsonl at the most: nobody reviews more, and suspects.csv has them all."""
MOST_COMPARED = 5000
"""Suspects with neighbours at the most: the worst ones, which are reviewed first."""


def write_review_files(
    folder: Path,
    suspects: Sequence[Suspect],
    rows: Rows,
    classes: Sequence[str],
    *,
    preview: Previewer,
    view: ModelView | None = None,
    held: Samples | None = None,
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
    view: the model whose features are compared
    held: the rows that a trainer holds, `trainer.held()`, among which neighbours are looked for
    most: suspects written at the most
    most_compared: suspects with neighbours at the most
    """
    suspects = [suspect for suspect in suspects[:most] if suspect.row is not None]
    wanted = {suspect.row for suspect in suspects}
    compared = {suspect.row for suspect in suspects[:most_compared]} if view and held else set()
    near = set(held.ids.tolist()) if view and held else set()
    previews: dict[int | None, Preview] = {}
    inputs: dict[int | None, Tensor] = {}
    names: dict[int, str] = {}
    for samples, ids in rows:
        for at, number in enumerate(samples.ids.tolist()):
            if number in wanted:
                previews[number] = preview(samples.inputs[at])
            if number in compared:
                inputs[number] = samples.inputs[at].clone()
            if number in near:
                names[number] = ids[at]
    with_previews = (replace(one, preview=previews.get(one.row, {})) for one in suspects)
    write_suspects(folder, with_previews)
    found = [suspect for suspect in suspects[:most_compared] if suspect.row in inputs]
    if view and held and found:
        compared_inputs = torch.stack([inputs[suspect.row] for suspect in found])
        numbers = torch.tensor([suspect.row for suspect in found], device=held.ids.device)
        try:
            nearest = find_neighbours(view, compared_inputs.to(held.inputs.device), numbers, held)
        except TypeError:  # without a last linear layer there are no features to compare
            return
        ids = [suspect.id for suspect in found]
        write_neighbours(folder, nearest, ids, held, classes=classes, preview=preview, names=names)
