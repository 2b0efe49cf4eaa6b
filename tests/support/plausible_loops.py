"""The parts of Plausible, one row and one voter at a time, in plain floats."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor
from torch.nn import functional

from tamis.noise import Tracker
from tamis.selectors.plausible import Calibration, ClassBalance, Confusion, Neighbours
from tamis.selectors.plausible.candidates import Candidates

Row = list[float]
FOREVER = 1e9
"""A half-life in which nothing fades."""


class Mean:
    """A running mean of columns."""

    def __init__(self, pace: float) -> None:
        self.pace, self.value = pace, None

    def update(self, rows: list[Row]) -> Row:
        mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
        if self.value is not None:
            mean = [old + self.pace * (x - old) for old, x in zip(self.value, mean, strict=True)]
        self.value = mean
        return mean


class NeighbourLoops:
    def __init__(self, classes: int, rule: Neighbours) -> None:
        self.classes, self.rule, self.ring = classes, rule, []
        self.mean, self.square, self.reuse = (Mean(rule.pace) for _ in range(3))

    def update(
        self, features: list[Row], labels: list[int], uses: Row, ids: list[int], ratio: float
    ) -> list[Row]:
        mean = self.mean.update(features)
        square = self.square.update([[x * x for x in row] for row in features])
        spread = [math.sqrt(max(s - m * m, 1e-12)) for m, s in zip(mean, square, strict=True)]
        directions = []
        for row in features:
            scaled = [(x - m) / s for x, m, s in zip(row, mean, spread, strict=True)]
            length = max(math.sqrt(sum(x * x for x in scaled)), 1e-12)
            directions.append([x / length for x in scaled])
        for voter in self.ring:
            voter["row"] = None
        for row in range(min(len(ids), self.rule.voters)):
            voter = {"at": directions[row], "label": labels[row], "id": ids[row], "row": row}
            self.ring.append(voter | {"weight": self.rule.least_weight + ratio})
        self.ring = self.ring[-self.rule.voters :]
        reuse = self.reuse.update([[count] for count in uses])[0]
        strictness = reuse / (reuse + self.rule.reuse_scale)
        return [self.vote(*one, strictness) for one in zip(directions, ids, strict=True)]

    def vote(self, direction: Row, own_id: int, strictness: float) -> Row:
        votes = [0.0] * self.classes
        for voter in self.ring:
            if voter["id"] != own_id:
                cosine = sum(x * y for x, y in zip(direction, voter["at"], strict=True))
                weight = voter["weight"] ** strictness
                votes[voter["label"]] += weight * math.exp(self.rule.sharpness * cosine)
        return normalise(votes)

    def set_weights(self, right: Row) -> None:
        for voter in self.ring:
            if voter["row"] is not None:
                voter["weight"] = self.rule.least_weight + right[voter["row"]]


class ClassBalanceLoops:
    def __init__(self, classes: int, rule: ClassBalance) -> None:
        self.classes, self.rule = range(classes), rule
        self.given, self.voted, self.predicted = (Mean(rule.pace) for _ in range(3))

    def update(
        self, labels: list[int], votes: list[Row], probabilities: list[Row]
    ) -> tuple[list[Row], list[Row]]:
        wanted = self.given.update([[float(c == y) for c in self.classes] for y in labels])
        scaled = []
        for rows, mean in ((votes, self.voted), (probabilities, self.predicted)):
            found = [max(share, self.rule.least_share) for share in mean.update(rows)]
            scaled.append(
                [normalise([row[c] * wanted[c] / found[c] for c in self.classes]) for row in rows]
            )
        return scaled[0], scaled[1]


class CalibrationLoops:
    """Without new rows: the tracker is tested on its own."""

    def __init__(self, classes: int, rule: Calibration) -> None:
        self.rule, self.tracker = rule, Tracker(classes, rule.half_life)
        self.ratio, self.temperature, self.slots = 0.5, 1.0, 0
        self.confidence = Mean(rule.pace)

    def update(self, evidence: list[Row], labels: list[int], distinct: float) -> list[Row]:
        probabilities = torch.tensor([softmax(row) for row in evidence], dtype=torch.float64)
        self.tracker.update(probabilities, torch.tensor(labels))
        if self.slots % self.rule.refit_every == 0 or self.slots in self.rule.early_refits:
            self.ratio, self.temperature = self.tracker.fit(distinct)
        self.slots += 1
        tempered = [[e / self.temperature for e in row] for row in evidence]
        (trust,) = self.confidence.update([[max(softmax(row))] for row in tempered])
        return [softmax([e * trust for e in row]) for row in tempered]


class ConfusionLoops:
    def __init__(self, classes: int, rule: Confusion) -> None:
        self.classes, self.rule = range(classes), rule
        self.joint = [[1 / classes**2] * classes for _ in self.classes]

    def update(self, classes: list[Row], labels: list[int], ratio: float) -> list[Row]:
        matrix = self.matrix(ratio, len(labels))
        posteriors = [
            normalise([row[c] * matrix[c][y] for c in self.classes])
            for row, y in zip(classes, labels, strict=True)
        ]
        for c in self.classes:
            for y in self.classes:
                found = [
                    row[c] for row, given in zip(posteriors, labels, strict=True) if given == y
                ]
                share = sum(found) / len(labels)
                self.joint[c][y] += self.rule.pace * (share - self.joint[c][y])
        return posteriors

    def matrix(self, ratio: float, rows: int) -> list[Row]:
        matrix = []
        for c in self.classes:
            counts = [
                0.0 if c == y else self.joint[c][y] * rows / self.rule.pace + self.rule.prior_count
                for y in self.classes
            ]
            shares = normalise(counts)
            matrix.append([ratio if c == y else (1 - ratio) * shares[y] for y in self.classes])
        return matrix


def normalise(row: Row) -> Row:
    return [x / sum(row) if sum(row) else 0.0 for x in row]


def softmax(row: Row) -> Row:
    highest = max(row)
    return normalise([math.exp(x - highest) for x in row])


def make_candidates(rows: int, classes: int, width: int, seed: int) -> Candidates:
    """Return overlapping clusters, unconfident predictions, every fourth label one class too high.

    No confidence is so high that single precision puts it into another bin of the tracker.
    """
    generator = Generator().manual_seed(seed)
    true = torch.randint(classes, (rows,), generator=generator)
    centres = torch.randn(classes, width, generator=generator)
    features = 3 + centres[true] + torch.randn(rows, width, generator=generator)
    logits = torch.randn(rows, classes, generator=generator) + functional.one_hot(true, classes)
    wrong = torch.rand(rows, generator=generator) < 0.25
    labels = torch.where(wrong, (true + 1) % classes, true)
    uses = torch.randint(9, (rows,), generator=generator).float()
    usable = torch.ones(rows, dtype=torch.bool)
    return Candidates(features, logits.softmax(dim=1), labels, usable, uses)


def part_of(candidates: Candidates, rows: Tensor) -> Candidates:
    return Candidates(*(column[rows] for column in candidates))


def double(candidates: Candidates, scale: float = 1.0, uses: float = 1.0) -> Candidates:
    """Return the rows in double precision, their features and uses scaled."""
    return candidates._replace(
        features=(candidates.features * scale).double(),
        probabilities=candidates.probabilities.double(),
        uses=(candidates.uses * uses).double(),
    )


def assert_near(ours: Tensor, theirs: list) -> None:
    theirs = torch.tensor(theirs, dtype=ours.dtype)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)
