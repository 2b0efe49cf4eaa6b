"""How good suspects are, against the ground truth, beside cleanlab."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from tamis.buffers import Sliding
from tamis.data import Samples, concat
from tamis.models import mlp, start
from tamis.noise import Tracker
from tamis.review import Corrections, LabelScorer, find_suspects
from tamis.runs import Decision, Decisions
from tamis.selectors import Plausible
from tamis.streams import Constant, DataSet, Noise, PairFlip, Replay, Symmetric
from tamis.training import Trainer

NOISES: dict[str, Callable[[int], Noise]] = {"symmetric": Symmetric, "pair": PairFlip}
RANKS = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
"""The ways by which cleanlab ranks labels."""
LOOKED = 4096


@dataclass(frozen=True)
class Settings:
    """One pass over a data set, trained as `tamis train` does by default."""

    noise: str = "symmetric"
    clean_ratio: float = 0.7
    rows_per_slot: int = 10
    capacity: int = 10_000
    pool_size: int = 1024
    k: int = 32
    rate: float = 0.1
    reviewed: int = 500
    seed: int = 0


@dataclass(frozen=True)
class Quality:
    """How well a ranking of labels finds the wrong ones."""

    ranking: str
    average_precision: float
    at_100: float
    at_1000: float


class Review(NamedTuple):
    """Share of right labels among the worst suspects, as given and after true answers."""

    rows: int
    before: float
    after: float


@dataclass(frozen=True)
class Found:
    """What was measured in one run, and how accurate its model is on test data."""

    settings: Settings
    rankings: list[Quality]
    review: Review
    accuracy: float


def measure(data: DataSet, settings: Settings, tick: Callable[[], None] = lambda: None) -> Found:
    """Train in one pass, rank all labels, and review the worst."""
    classes = len(data.classes)
    stream = Replay(
        data.inputs,
        data.labels,
        NOISES[settings.noise](classes),
        Constant(settings.clean_ratio),
        rows_per_slot=settings.rows_per_slot,
        seed=settings.seed,
    )
    model = start(mlp, data.input_shape, classes, settings.seed)
    trainer = Trainer(
        model,
        torch.optim.SGD(model.parameters(), settings.rate),
        Plausible(),
        Sliding(settings.capacity),
        k=settings.k,
        window="average",
        pool_size=settings.pool_size,
        tracker=Tracker(classes),
        seed=settings.seed,
    )
    for samples in stream:
        trainer.step(samples)
        tick()
    scorer = LabelScorer(trainer.averaged, trainer.buffer.pool())
    rows = list(in_chunks(stream))
    wrong = torch.cat([~clean_of(samples) for samples in rows])
    scores = torch.cat([scorer.scores(samples)[0] for samples in rows])
    probabilities = torch.cat([trainer.averaged.probabilities(samples.inputs) for samples in rows])
    labels = torch.cat([samples.labels for samples in rows])
    rankings = [rate("tamis", scores, wrong)]
    rankings += [
        rate(f"cleanlab, {by}", rank_by_cleanlab(labels, probabilities, by), wrong) for by in RANKS
    ]
    accuracy = trainer.accuracy(data.test_inputs, data.test_labels)
    review = review_worst(trainer, stream, rows, data, settings)
    return Found(settings, rankings, review, accuracy.ema or accuracy.raw)


def rate(name: str, scores: Tensor, wrong: Tensor) -> Quality:
    """Rate a ranking: the higher a score, the more likely the label is wrong."""
    found = wrong[scores.argsort(descending=True, stable=True)].double()
    return Quality(
        name,
        average_precision(scores, wrong),
        found[:100].mean().item(),
        found[:1000].mean().item(),
    )


def average_precision(scores: Tensor, wrong: Tensor) -> float:
    """Mean, over the wrong labels, of the precision down to each; equal scores count at once."""
    order = scores.argsort(descending=True)
    scores, hits = scores[order], wrong[order].double().cumsum(dim=0)
    last = torch.ones_like(scores, dtype=torch.bool)
    last[:-1] = scores[1:] != scores[:-1]
    ranks = torch.arange(1, len(scores) + 1, dtype=torch.double, device=scores.device)[last]
    hits = hits[last]
    new = hits.diff(prepend=hits.new_zeros(1))
    return ((hits / ranks) @ new / wrong.sum()).item()


def rank_by_cleanlab(labels: Tensor, probabilities: Tensor, by: str) -> Tensor:
    """Rank labels by cleanlab: 1 minus what it takes their quality for."""
    try:
        from cleanlab.rank import get_label_quality_scores
    except ImportError:
        raise ImportError("cleanlab is missing: pip install 'tamis[audit]'.") from None
    probabilities = probabilities.double()
    quality = get_label_quality_scores(
        labels.cpu().numpy(),
        (probabilities / probabilities.sum(dim=1, keepdim=True)).cpu().numpy(),
        method=by,
    )
    return 1 - torch.from_numpy(quality)


def review_worst(
    trainer: Trainer, stream: Replay, rows: Sequence[Samples], data: DataSet, settings: Settings
) -> Review:
    """Correct the worst suspects by the true labels, and compare before and after."""
    named = [(samples, [str(number) for number in samples.ids.tolist()]) for samples in rows]
    found = find_suspects(trainer.averaged, named, data.classes, trainer.buffer.pool())
    suspects = found[: settings.reviewed]
    truth = torch.cat([samples.labels for samples in truly(stream, data)])
    given = torch.cat([samples.labels for samples in rows])
    reviewed = torch.tensor([suspect.row for suspect in suspects])
    with tempfile.TemporaryDirectory() as folder:
        decisions = Decisions(Path(folder) / "decisions.jsonl")
        for number, suspect in enumerate(suspects, 1):
            right = data.classes[int(truth[reviewed[number - 1]])]
            word, label = ("keep", None) if right == suspect.given else ("relabel", right)
            made = Decision(suspect.id, word, label, suspect.given, suspect.row, "truth")  # type: ignore[arg-type]
            decisions.decide(made, sync=number == len(suspects))
        corrections = Corrections(decisions.path, data.classes)
        corrected = torch.cat([corrections.correct(samples).labels for samples in rows])

    def share(labels: Tensor) -> float:
        return (labels[reviewed] == truth[reviewed]).double().mean().item()

    return Review(len(suspects), share(given), share(corrected))


def truly(stream: Replay, data: DataSet) -> Iterator[Samples]:
    """Play a stream again with all labels right; it draws its rows in the same order."""
    numbered = Replay(
        torch.arange(len(data.labels)), data.labels, stream.noise, stream.clean_ratio,
        rows_per_slot=stream.rows_per_slot, seed=stream.seed,
    )  # fmt: skip
    for samples in numbered:
        yield Samples(
            samples.inputs, data.labels[samples.inputs], samples.ids, samples.uses, samples.clean
        )


def in_chunks(stream: Replay) -> Iterator[Samples]:
    """Play a stream again, many slots at once."""
    held: list[Samples] = []
    for samples in stream:
        held.append(samples)
        if sum(map(len, held)) >= LOOKED:
            yield concat(held)
            held = []
    if held:
        yield concat(held)


def clean_of(samples: Samples) -> Tensor:
    """Return which labels are right, as a simulation knows."""
    if samples.clean is None:
        raise ValueError("Only a simulated stream knows which labels are right.")
    return samples.clean
