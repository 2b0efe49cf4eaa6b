"""Evidence turned into calibrated probabilities, and the clean ratio on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from tamis.model_view.passes import softmax, softmax_
from tamis.noise import AgreementFit
from tamis.noise.agreement import observe, reweight
from tamis.noise.tracker import Estimate
from tamis.selectors.plausible.agreements import Agreements
from tamis.selectors.plausible.estimate import AuditCounts, Readings
from tamis.selectors.plausible.running import Part, RunningMean, State, join_states, load_states

SETTLE_EVERY = 4
"""Slots from one clean ratio to the next, after the first fits: what it is made of moves slowly."""


class Fitted(NamedTuple):
    """Clean ratio and temperature by the agreement at every level of confidence."""

    clean_ratio: float
    temperature: float


@dataclass(kw_only=True)
class Calibration:
    """Fits the clean ratio and a temperature to how often labels agree with the evidence.

    An `AgreementFit` does it. It counts above all the rows seen for the first time: the others were
    picked, or not, by the clean ratio fitted before, so that a change would be noticed late or
    never. Old rows fade with the rows looked at, and with the turnover of the pool.

    The fit takes labels that differ from hard predictions for mistakes of the model. Where wrong
    labels lie together they are not, but the model has half learned them, and the fit is as happy:
    its clean ratio comes out near 1 and its temperature high, so that every label is plausible.
    `Agreements` has a second reading of the clean ratio. Where both readings agree, noise is
    scattered, and the fit counts. Where the second is lower, it counts, and the temperature is 1;
    but the less so the less votes by inputs confirm the evidence, for then its data are hard.
    Neither counts where it is far above what rows gave when they were seen first: then labels have
    been learned by heart.

    Evidence counts by the trust that it has earned, the running mean of its confidence at that
    temperature, and at most by the share of rows where votes and predictions agree: nearly nothing
    early on, when every label is to be plausible.

    Parameters
    ----------
    half_life: rows looked at until what was counted has half its weight.
    repeat_weight: weight of rows seen before. A power of 2: where all rows are, fits equal those
        with a weight of 1 to the bit.
    turnover: share of the pool to be replaced until what was counted has half its weight.
    refit_every: slots from one fit to the next.
    early_refits: slots of further fits, while few rows are known and each changes much.
    pace: share of the newest slot in the running mean of the confidence.
    lasting_pace: share of the newest slot in the running mean of what evidence has earned.
    scattered: ratio of the second reading to the first up to which it alone counts, and from which
        on the fit does.
    room: how far the clean ratio may rise above that of rows when they were seen first.
    """

    half_life: float = 10_000.0
    repeat_weight: float = 1 / 32
    turnover: float = 0.25
    refit_every: int = 50
    early_refits: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    pace: float = 0.05
    lasting_pace: float = 0.005
    scattered: tuple[float, float] = (0.93, 0.99)
    room: float = 0.1

    def __post_init__(self) -> None:
        if not (self.half_life > 0 and self.turnover > 0 and self.refit_every > 0):
            raise ValueError(f"Half-life, turnover and refit_every must be above 0, got {self}.")
        self._reset()

    def _reset(self) -> None:
        self._fit: AgreementFit | None = None
        self._confidence, self._fitted_confidence = RunningMean(self.pace), RunningMean(self.pace)
        self._lasting, self._judges = torch.zeros(()), torch.zeros(())
        self._audited = AuditCounts()
        self._readings: Readings | None = None
        self.fitted = Fitted(0.5, 1.0)
        self.clean_ratio, self.temperature = torch.tensor(0.5), torch.tensor(1.0)
        self._slots = 0

    def update(
        self,
        evidence: Tensor,
        labels: Tensor,
        weights: Tensor,
        new: Tensor,
        distinct: float,
        agreements: Agreements,
    ) -> Tensor:
        """Return the calibrated probability of each class, fitted to these rows as well.

        `evidence` is unnormalised and in logarithms; a label of -1 does not count; `weights` are
        those of rows in means over the slot. `new` marks rows seen for the first time, in a pool
        of so many `distinct` rows. `agreements` has counted these rows.
        """
        if self._fit is None:
            self._fit = AgreementFit(evidence.shape[1], self.half_life)
        observed = observe(softmax(evidence), labels, evidence.shape[1])
        repeats = torch.where(new, 1.0, self.repeat_weight).to(observed.known)
        replaced = (observed.known * new).sum() / (self.turnover * distinct)
        age = observed.total + replaced * self.half_life
        self._fit.count(reweight(observed, repeats, age))
        if self._slots % self.refit_every == 0 or self._slots in self.early_refits:
            self.fitted = Fitted(*self._fit.fit(distinct))
        self._slots += 1
        self._audited.fade(replaced * self.turnover)
        self._judges = agreements.judges().to(evidence)
        if self._slots <= self.refit_every or self._slots % SETTLE_EVERY == 0:
            self._settle(agreements.clean_ratio().to(evidence), agreements, distinct)
        tempered = evidence / self.temperature
        confidence = at_fit = weights @ softmax(tempered).amax(dim=1)
        # Elsewhere than on a CPU it would have to be waited for.
        if evidence.device.type != "cpu" or self.temperature != self.fitted.temperature:
            at_fit = weights @ softmax_(evidence / self.fitted.temperature).amax(dim=1)
        self._fitted_confidence.update(at_fit)
        trust = self._confidence.update(confidence)
        earned = torch.minimum(trust, self._judges)
        self._lasting = self._lasting.to(earned).lerp(earned, self.lasting_pace)
        return softmax_(tempered.mul_(self.earned()))

    def calibrate(self, evidence: Tensor) -> Tensor:
        """Return the calibrated probability of each class, and fit nothing to these rows."""
        return (evidence / self.temperature * self.earned()).softmax(dim=1)

    @property
    def started(self) -> bool:
        """Whether any row has been counted."""
        return self._fit is not None

    @property
    def trust(self) -> Tensor:
        """The running mean of the confidence; 0 before the first slot."""
        return torch.zeros(()) if self._confidence.value is None else self._confidence.value

    @property
    def fitted_trust(self) -> Tensor:
        """The running mean of the confidence at the fitted temperature; 0 before the first slot.

        Evidence that is confident at a temperature of 1 may be wrong all the same, and would
        confirm itself by its own pseudo-labels.
        """
        found = self._fitted_confidence.value
        return torch.zeros(()) if found is None else found

    @property
    def lasting_trust(self) -> Tensor:
        """The running mean of what evidence has earned, from 0 on: high only after many slots.

        The first fits, of few rows, may take most labels for wrong rather than the evidence.
        """
        return self._lasting

    def earned(self) -> Tensor | float:
        """Return the power that evidence is raised to."""
        return torch.minimum(self.trust, self._judges.to(self.trust))

    def estimate(self) -> Estimate | None:
        """Return the clean ratio with its band; None before the first slot."""
        return self._readings.estimate(*self._audited.counts()) if self._readings else None

    def audit(self, ids: Tensor, right: Tensor) -> None:
        """Take in which labels people found right, among rows drawn at random."""
        self._audited.audit(ids, right)

    def _settle(self, second: Tensor, agreements: Agreements, distinct: float) -> None:
        """Set clean ratio and temperature by the fit, the second reading and the audit."""
        first, temperature = self.fitted
        low, high = self.scattered
        leniency = ((second / first - low) / (high - low)).clamp(0, 1)
        leniency = 1 - (1 - leniency) * torch.as_tensor(agreements.confirmation()).to(leniency)
        most = agreements.clean_ratio_at_first().to(second) + self.room
        leniency = leniency * (1 - (first - most) / (2 * self.room)).clamp(0, 1)
        lower = second.clamp_max(first).minimum(most)
        ratio = lower ** (1 - leniency) * first**leniency
        self._readings = Readings.of(ratio, first, second, agreements, distinct)
        if len(self._audited):
            # Where the readings differ, the audit decides between them.
            ratio = self._readings.likeliest(*self._audited.counts())
            between = (ratio / lower).log() / (first / lower).log().clamp_min(1e-6)
            leniency = torch.where(lower / first < low, between.clamp(0, 1), leniency)
        self.clean_ratio = ratio
        # Below 1 the evidence is not confident enough, and no label is explained away.
        self.temperature = temperature**leniency if temperature > 1 else ratio * 0 + temperature

    def grow(self, classes: int) -> None:
        """Count by so many classes."""
        if self._fit:
            self._fit.grow(classes)

    def state_dict(self) -> State:
        """Return the counts, the fit and the running mean; nothing before the first slot."""
        if self._fit is None:
            return {}
        return join_states(self._parts(self._fit)) | {
            "lasting": self._lasting.clone(),
            "judges": self._judges.clone(),
            "readings": torch.stack(self._readings or [self.clean_ratio] * 3),
            "clean_ratio": self.clean_ratio.clone(),
            "temperature": self.temperature.clone(),
            "fitted": torch.tensor(self.fitted, dtype=torch.float64),
            "slots": torch.tensor(self._slots),
        }

    def load_state_dict(self, state: State) -> None:
        """Restore what `state_dict` returned."""
        self._reset()
        if state:
            self._fit = AgreementFit(len(state["fit.rows"]), self.half_life)
            load_states(self._parts(self._fit), state)
            self._lasting = state["lasting"].clone()
            self._judges = state["judges"].clone()
            self._readings = Readings(*state["readings"].clone())
            self.clean_ratio = state["clean_ratio"].clone()
            self.temperature = state["temperature"].clone()
            self.fitted = Fitted(*state["fitted"].tolist())
            self._slots = int(state["slots"])

    def _parts(self, fit: AgreementFit) -> dict[str, Part]:
        return {
            "fit": fit,
            "confidence": self._confidence,
            "fitted_confidence": self._fitted_confidence,
            "audited": self._audited,
        }
