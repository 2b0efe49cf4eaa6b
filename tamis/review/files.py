"""All that a run leaves about its suspects, in one pass through its rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.review.neighbours import find_neighbours, write_neighbours
from tamis.review.previews import Preview, Previewer
from tamis.review.suspects import Suspect
from tamis.runs import Shown, write_shown
from tamis.runs.shown import MOST, Rows

MOST_NEAR = 5000
"""Suspects whose neighbours are looked for: the worst ones, which are reviewed first."""


def write_review_files(
    folder: Path,
    suspects: Sequence[Suspect],
    rows: Rows,
    classes: Sequence[str],
    show: Previewer,
    view: ModelView | None = None,
    held: Samples | None = None,
    most: int = MOST,
    most_near: int = MOST_NEAR,
) -> None:
    """Write suspects.jsonl and, where a model and the rows held are given, neighbours.jsonl.

    `suspects` come from `find_suspects`, and `rows` are the same rows once more.
    """
    suspects = [suspect for suspect in suspects[:most] if suspect.row is not None]
    wanted = {suspect.row for suspect in suspects}
    compared = {suspect.row for suspect in suspects[:most_near]} if view and held else set()
    near = set(held.ids.tolist()) if view and held else set()
    sights: dict[int, Preview] = {}
    inputs: dict[int, Tensor] = {}
    names: dict[int, str] = {}
    for samples, called in rows:
        for at, number in enumerate(samples.ids.tolist()):
            if number in wanted:
                sights[number] = show(samples.inputs[at])
            if number in compared:
                inputs[number] = samples.inputs[at].clone()
            if number in near:
                names[number] = called[at]
    write_shown(folder, (shown(suspect, classes, sights) for suspect in suspects))
    looked = [suspect for suspect in suspects[:most_near] if suspect.row in inputs]
    if view and held and looked:
        asked = Samples(
            torch.stack([inputs[suspect.row] for suspect in looked if suspect.row is not None]).to(
                held.inputs.device
            ),
            torch.tensor([suspect.given for suspect in looked], device=held.labels.device),
            torch.tensor([suspect.row for suspect in looked], device=held.labels.device),
            torch.zeros(len(looked), dtype=torch.long, device=held.labels.device),
        )
        try:
            found = find_neighbours(view, asked, held)
        except TypeError:  # without a last linear layer there are no features to be near in
            return
        ids = [suspect.id for suspect in looked]
        write_neighbours(folder, found, ids, held, classes, show, names)


def shown(suspect: Suspect, classes: Sequence[str], sights: dict[int, Preview]) -> Shown:
    """Put labels by name and what to show beside a suspect."""
    sight = {} if suspect.row is None else sights.get(suspect.row, {})
    given, suggested = classes[suspect.given], classes[suspect.suggested]
    return Shown(suspect.id, given, suggested, suspect.score, suspect.row, suspect.slot, sight)
