"""Which labels look wrong, and how sure that is."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tamis.checkpoint import write_atomically
from tamis.data import Samples
from tamis.local import LocalModel


@dataclass(frozen=True)
class Suspect:
    """A row whose label the model does not believe.

    `score` runs from 0.5, another class is as likely as the given one, to 1, another is certain.
    """

    id: str
    given: int
    suggested: int
    score: float


def find_suspects(
    local: LocalModel, rows: Iterable[tuple[Samples, Sequence[str]]]
) -> list[Suspect]:
    """Go through samples and their names once more, and list whose label looks wrong, worst first.

    The score is half of 1 + p(best other class) - p(given class).
    """
    found = []
    for samples, names in rows:
        if not len(samples):
            continue
        belief = local.probabilities(samples.inputs)
        given = belief.gather(1, samples.labels[:, None])[:, 0]
        best, other = belief.scatter(1, samples.labels[:, None], -1).max(dim=1)
        scores = (1 + best - given) / 2
        for row in (scores > 0.5).nonzero()[:, 0].tolist():
            found.append(
                Suspect(
                    names[row],
                    int(samples.labels[row]),
                    int(other[row]),
                    round(scores[row].item(), 6),
                )
            )
    return sorted(found, key=lambda suspect: -suspect.score)


def write_suspects(suspects: Sequence[Suspect], classes: Sequence[str], path: Path) -> None:
    """Write suspects as CSV: id, given and suggested label by name, score."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(["id", "given", "suggested", "score"])
    for suspect in suspects:
        given, suggested = classes[suspect.given], classes[suspect.suggested]
        writer.writerow([suspect.id, given, suggested, f"{suspect.score:.4f}"])
    write_atomically(path, out.getvalue().encode())
