"""Which labels look wrong, and how sure that is."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from tamis.checkpoint import write_atomically
from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.model_view.passes import at_least_float
from tamis.runs.spreadsheet import disarm

DOUBT = 0.003
"""Share that neighbours who agree leave to every other class."""
SHARPNESS = 40.0
"""How much more near neighbours count than far ones."""
ROUNDS = 10
"""Looks at who is confused with whom, each through what the last one found."""
SLIP = 0.01
"""What votes that should sum up to 1 may be beyond it."""
CHUNK = 1024
"""Rows that ask all rows held at once."""


@dataclass(frozen=True)
class Suspect:
    """A row whose label the model does not believe.

    `score` runs from 0.5, another class is as likely as the given one, to 1, another is certain.
    `row` is the number of the sample, `slot` when it arrived; both may be unknown.
    """

    id: str
    given: int
    suggested: int
    score: float
    row: int | None = None
    slot: int | None = None


class FeatureScaler:
    """Features seen from the middle of these, every one of them as far spread as the others."""

    def __init__(self, features: Tensor) -> None:
        features = at_least_float(features)
        self._mean = features.mean(dim=0)
        self._spread = features.std(dim=0, correction=0).clamp_min(1e-6)

    def directions(self, features: Tensor) -> Tensor:
        """Turn features into directions; the product of two is the cosine between them."""
        return functional.normalize((at_least_float(features) - self._mean) / self._spread)


class LabelScorer:
    """Says which classes a row may be of, given its label.

    Alone, a model's beliefs. With the rows `held` in a buffer more is known: which classes their
    labels mix up, found by going through them a few times (expectation and maximisation), and what
    classes the neighbours of a row are likely of. So a label that is often put where it does not
    belong is doubted sooner than one that is never. How many labels are wrong plays no part: a
    model that was trained on them all has them in its beliefs already.
    """

    def __init__(self, view: ModelView, held: Samples | None = None) -> None:
        self.view = view
        self.confusion: Tensor | None = None
        self._ids: Tensor | None = None
        if held is None or not len(held):
            return
        beliefs = self._beliefs(held.inputs)
        self.confusion = confusion_of(beliefs, held.labels)
        self._mixed = relative_confusion(self.confusion).log()
        try:
            features = view.features(held.inputs)
        except TypeError:  # there is no last linear layer, and so nothing to be near in
            return
        self._ids = held.ids
        self._space = FeatureScaler(features)
        self._directions = self._space.directions(features)
        self._classes = (beliefs + self.confusion.log()[:, held.labels].T).softmax(dim=1)

    def weigh(self, samples: Samples) -> Tensor:
        """Log of how likely each class is for each row, its label and neighbours known."""
        found = self._beliefs(samples.inputs)
        if self._ids is not None:
            parts = zip(samples.inputs.split(CHUNK), samples.ids.split(CHUNK), strict=True)
            votes = torch.cat([self._ask(inputs, ids, self._ids) for inputs, ids in parts])
            found = found + (votes + DOUBT).log()
        if self.confusion is not None:
            found = found + self._mixed[:, samples.labels].T
        return found.log_softmax(dim=1)

    def scores(self, samples: Samples) -> tuple[Tensor, Tensor]:
        """How likely another class is than the given one, and which: p(other) of both together."""
        weighed = self.weigh(samples)
        given = weighed.gather(1, samples.labels[:, None])[:, 0]
        best, other = weighed.scatter(1, samples.labels[:, None], -torch.inf).max(dim=1)
        return (best - given).sigmoid(), other

    def candidates(self, samples: Samples) -> Tensor:
        """Rows whose score may be above 0.5, found without asking their neighbours.

        These can be `1 + DOUBT` to `DOUBT` against the label at the most. Of a trained model's rows
        most are beyond that, and need not be asked about.
        """
        found = self._beliefs(samples.inputs)
        if self.confusion is not None:
            found = found + self._mixed[:, samples.labels].T
        given = found.gather(1, samples.labels[:, None])[:, 0]
        best = found.scatter(1, samples.labels[:, None], -torch.inf).max(dim=1).values
        most = math.log((1 + DOUBT) / DOUBT)
        return (best - given > -most - SLIP).nonzero()[:, 0]

    def _ask(self, inputs: Tensor, ids: Tensor, held: Tensor) -> Tensor:
        """Let the rows held vote, near ones louder, none for itself."""
        near = SHARPNESS * self._space.directions(self.view.features(inputs)) @ self._directions.T
        near.masked_fill_(ids[:, None] == held, -torch.inf)
        return near.softmax(dim=1).nan_to_num_(0).to(self._classes.dtype) @ self._classes

    def _beliefs(self, inputs: Tensor) -> Tensor:
        """Logarithms, in double precision: the surest differ by less than single has room for."""
        return self.view.logits(inputs).double().log_softmax(dim=1)


def confusion_of(beliefs: Tensor, labels: Tensor) -> Tensor:
    """Share of each given label among rows of a class, as beliefs and labels together tell."""
    classes = beliefs.shape[1]
    given = functional.one_hot(labels, classes).to(beliefs.dtype)
    confusion = torch.full_like(beliefs.new_empty(classes, classes), 0.5 / max(1, classes - 1))
    confusion.fill_diagonal_(0.5)
    for _ in range(ROUNDS):
        likely = (beliefs + confusion.log()[:, labels].T).softmax(dim=1)
        counts = likely.T @ given + 1  # one of each, so that nothing is impossible
        confusion = counts / counts.sum(dim=1, keepdim=True)
    return confusion


def relative_confusion(confusion: Tensor) -> Tensor:
    """How many times more often a class gets a wrong label than by an even spread; 1 for its own.

    >>> relative_confusion(torch.tensor([[0.8, 0.2, 0.0], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]))[0]
    tensor([1., 2., 0.])
    """
    own = torch.eye(len(confusion)).to(confusion)
    wrong = confusion * (1 - own)
    return wrong / wrong.sum(dim=1, keepdim=True) * (len(confusion) - 1) + own


def find_suspects(
    view: ModelView,
    rows: Iterable[tuple[Samples, Sequence[str]]],
    held: Samples | None = None,
    rows_per_slot: int | None = None,
) -> list[Suspect]:
    """Go through samples and their names once more, and list whose label looks wrong, worst first.

    `held`, the pool of a trainer's buffer, makes the list better: see `LabelScorer`. Where
    `rows_per_slot` is given, samples are numbered as they came, so many a slot.
    """
    scorer = LabelScorer(view, held)
    found = []
    for samples, names in rows:
        doubtful = scorer.candidates(samples).tolist() if len(samples) else []
        if not doubtful:
            continue
        samples, names = samples[torch.tensor(doubtful)], [names[row] for row in doubtful]
        scores, others = scorer.scores(samples)
        for row in (scores > 0.5).nonzero()[:, 0].tolist():
            number = int(samples.ids[row])
            found.append(
                Suspect(
                    names[row],
                    int(samples.labels[row]),
                    int(others[row]),
                    scores[row].item(),
                    number,
                    None if rows_per_slot is None else number // rows_per_slot,
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
        cells = [disarm(text) for text in (suspect.id, given, suggested)]
        writer.writerow([*cells, f"{suspect.score:.4f}"])
    write_atomically(path, out.getvalue().encode())
