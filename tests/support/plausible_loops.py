"""The parts of Plausible, one row and one voter at a time, in plain floats."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor
from torch.nn import functional

from tamis.noise import Tracker
from tamis.selectors.plausible import (
    Agreements,
    Calibration,
    ClassBalance,
    Confusion,
    InputVotes,
    Neighbours,
)
from tamis.selectors.plausible.calibration import SETTLE_EVERY
from tamis.selectors.plausible.candidates import Candidates
from tamis.selectors.plausible.input_votes import EVERY

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
        self.mean.update(features)
        self.square.update([[x * x for x in row] for row in features])
        directions = [self.direct(row) for row in features]
        for voter in self.ring:
            voter["row"] = None
        for row in range(min(len(ids), self.rule.voters)):
            voter = {"at": directions[row], "label": labels[row], "id": ids[row], "row": row}
            self.ring.append(voter | {"weight": self.rule.least_weight + ratio})
        self.ring = self.ring[-self.rule.voters :]
        self.reuse.update([[count] for count in uses])
        return [self.vote(*one) for one in zip(directions, ids, strict=True)]

    def direct(self, row: Row) -> Row:
        means = zip(self.mean.value, self.square.value, strict=True)
        spread = [(m, math.sqrt(max(s - m * m, 1e-12))) for m, s in means]
        scaled = [(x - m) / s for x, (m, s) in zip(row, spread, strict=True)]
        length = max(math.sqrt(sum(x * x for x in scaled)), 1e-12)
        return [x / length for x in scaled]

    def vote(self, direction: Row, own_id: int) -> Row:
        votes, reuse = [0.0] * self.classes, self.reuse.value[0]
        strictness = reuse / (reuse + self.rule.reuse_scale)
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
        self.given.update([[float(c == y) for c in self.classes] for y in labels])
        self.voted.update(votes)
        self.predicted.update(probabilities)
        return self.scale(votes, self.voted), self.scale(probabilities, self.predicted)

    def scale(self, rows: list[Row], mean: Mean) -> list[Row]:
        wanted, found = self.given.value, [max(s, self.rule.least_share) for s in mean.value]
        return [normalise([row[c] * wanted[c] / found[c] for c in self.classes]) for row in rows]


class InputVoteLoops:
    def __init__(self, classes: int, rule: InputVotes) -> None:
        self.neighbours = NeighbourLoops(classes, rule.neighbours)
        self.class_balance = ClassBalanceLoops(classes, rule.class_balance)
        self.slots = 0

    def update(
        self, inputs: list[Row], labels: list[int], uses: Row, ids: list[int]
    ) -> list[Row] | None:
        self.slots += 1
        if self.slots % EVERY != 1:
            return None
        votes = self.neighbours.update(inputs, labels, uses, ids, 1.0)
        return self.class_balance.update(labels, votes, votes)[0]


class AgreementLoops:
    """Counts of rows, one at a time."""

    def __init__(self, classes: int, rule: Agreements) -> None:
        self.classes, self.rule, self.slots = classes, rule, 0
        self.judged, self.rows, self.agreeing, self.missed, self.confident = (
            Mean(rule.pace) for _ in range(5)
        )
        self.confirmed, self.backed = Mean(rule.pace), Mean(rule.pace)

    def update(
        self,
        labels: list[int],
        votes: list[Row],
        probabilities: list[Row],
        evidence: list[Row],
        predicted: list[Row] | None = None,
        by_inputs: list[Row] | None = None,
    ) -> None:
        """`predicted` are probabilities before they are scaled by class, where they are."""
        self.slots += 1
        means = (self.judged, self.rows, self.agreeing, self.missed, self.confident)
        for each in (*means, self.confirmed, self.backed):
            each.pace = max(self.rule.pace, 1 / self.slots)
        named = [[row.index(max(row)) for row in part] for part in (votes, probabilities, evidence)]
        self.judged.update([[float(a == b)] for a, b in zip(*named[:2], strict=True)])
        found = list(zip(named[2], labels, strict=True))
        each = range(self.classes)
        self.rows.update([[float(c == at) for c in each] for at, _ in found])
        self.agreeing.update([[float(c == at == y) for c in each] for at, y in found])
        confidence = [max(row) for row in predicted or probabilities]
        likely = [row.index(max(row)) for row in predicted or probabilities]
        misses = [float(at != y) for at, y in zip(likely, labels, strict=True)]
        median = sorted(confidence)[(len(confidence) - 1) // 2]
        confident = [m for m, top in zip(misses, confidence, strict=True) if top >= median]
        self.missed.update([[m] for m in misses])
        self.confident.update([[m] for m in confident])
        if by_inputs is not None:
            self.confirmed.pace = self.backed.pace = min(EVERY * self.judged.pace, 1)
            near = [row.index(max(row)) for row in by_inputs]
            self.confirmed.update([[float(a == b)] for a, b in zip(near, named[2], strict=True)])
            self.backed.update([[float(a == b)] for a, b in zip(near, labels, strict=True)])

    @property
    def judges(self) -> float:
        return self.judged.value[0]

    def clean_ratio(self) -> float:
        low, high = self.rule.shared_mistakes
        shared = min(max((high - self.judges) / (high - low), 0), 1)
        right = min(max(self.judges ** (0.5 + 0.5 * shared), 1.5 / self.classes), 0.995)
        coincidence = (1 - right) / (self.classes - 1)
        ratio = (sum(self.agreeing.value) - coincidence) / (right - coincidence)
        if self.confirmed.value is not None:
            ratio = max(ratio, self.backed.value[0] / max(self.confirmed.value[0], 1e-3))
        return min(max(ratio, 1 / self.classes), 0.995)

    def standing(self) -> float:
        return min(max(2 * self.judges - 1, 0), 1)

    def confirmation(self) -> float:
        if self.confirmed.value is None:
            return 1.0
        low, high = self.rule.confirmed_by
        return min(max((self.confirmed.value[0] - low) / (high - low), 0), 1)

    def by_class(self) -> Row:
        mean = max(sum(self.agreeing.value), 1e-3)
        power = self.standing()
        prior = self.rule.prior_share
        pairs = zip(self.rows.value, self.agreeing.value, strict=True)
        return [((a + prior * mean) / (n + prior) / mean) ** power for n, a in pairs]

    def evenness(self) -> float:
        return min(self.confident.value[0] / max(self.missed.value[0], 1e-3), 1.0)


class CalibrationLoops:
    """Without new rows: the tracker is tested on its own."""

    def __init__(self, classes: int, rule: Calibration) -> None:
        self.rule, self.tracker = rule, Tracker(classes, rule.half_life)
        self.ratio, self.temperature, self.slots, self.lasting = 0.5, 1.0, 0, 0.0
        self.fitted, self.judges = (0.5, 1.0), 0.0
        self.confidence = Mean(rule.pace)

    def update(
        self, evidence: list[Row], labels: list[int], distinct: float, agreed: AgreementLoops
    ) -> list[Row]:
        probabilities = torch.tensor([softmax(row) for row in evidence], dtype=torch.float64)
        self.tracker.update(probabilities, torch.tensor(labels))
        if self.slots % self.rule.refit_every == 0 or self.slots in self.rule.early_refits:
            self.fitted = self.tracker.fit(distinct)
        self.slots += 1
        self.judges = agreed.judges
        if self.slots <= self.rule.refit_every or self.slots % SETTLE_EVERY == 0:
            self.settle(agreed.clean_ratio(), agreed.confirmation())
        tempered = [[e / self.temperature for e in row] for row in evidence]
        (trust,) = self.confidence.update([[max(softmax(row))] for row in tempered])
        self.lasting += self.rule.lasting_pace * (min(trust, self.judges) - self.lasting)
        return self.calibrate(evidence)

    def settle(self, second: float, confirmation: float) -> None:
        """The second reading counts where it is lower and confirmed, the fit elsewhere."""
        first, temperature = self.fitted
        low, high = self.rule.scattered
        leniency = min(max((second / first - low) / (high - low), 0), 1)
        leniency = 1 - (1 - leniency) * confirmation
        self.ratio = min(second, first) ** (1 - leniency) * first**leniency
        self.temperature = temperature**leniency if temperature > 1 else temperature

    def calibrate(self, evidence: list[Row]) -> list[Row]:
        power = min(self.confidence.value[0], self.judges)
        return [softmax([e / self.temperature * power for e in row]) for row in evidence]


class ConfusionLoops:
    def __init__(self, classes: int, rule: Confusion) -> None:
        self.classes, self.rule = range(classes), rule
        self.joint = [[1 / classes**2] * classes for _ in self.classes]

    def update(self, classes: list[Row], labels: list[int], ratio: float | Row) -> list[Row]:
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

    def matrix(self, ratio: float | Row, rows: int) -> list[Row]:
        matrix = []
        ratios = ratio if isinstance(ratio, list) else [ratio] * len(self.classes)
        for c in self.classes:
            counts = [
                0.0 if c == y else self.joint[c][y] * rows / self.rule.pace + self.rule.prior_count
                for y in self.classes
            ]
            shares = normalise(counts)
            own = ratios[c]
            matrix.append([own if c == y else (1 - own) * shares[y] for y in self.classes])
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
    inputs = 2 * centres[true] + torch.randn(rows, width, generator=generator)
    return Candidates(features, logits.softmax(dim=1), labels, usable, uses, inputs)


def part_of(candidates: Candidates, rows: Tensor) -> Candidates:
    return Candidates(*(column[rows] for column in candidates))


def double(candidates: Candidates, scale: float = 1.0, uses: float = 1.0) -> Candidates:
    """Return the rows in double precision, their features and uses scaled."""
    return candidates._replace(
        features=(candidates.features * scale).double(),
        probabilities=candidates.probabilities.double(),
        uses=(candidates.uses * uses).double(),
        inputs=candidates.inputs.double(),
    )


def assert_near(ours: Tensor, theirs: list) -> None:
    theirs = torch.tensor(theirs, dtype=ours.dtype)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)
