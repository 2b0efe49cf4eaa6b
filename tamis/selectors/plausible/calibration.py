"""Evidence turned into calibrated probabilities, and the clean ratio on the way."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tamis.noise import AgreementFit
from tamis.noise.agreement import observe, reweight
from tamis.selectors.plausible.running import RunningMean, State, join_states, load_states


@dataclass(kw_only=True)
class Calibration:
    """Fits the clean ratio and a temperature to how often labels agree with the evidence.

    An `AgreementFit` does it. It counts above all the rows seen for the first time: the others were
    picked, or not, by the clean ratio fitted before, so that a change would be noticed late or
    never. Old rows fade with the rows looked at, and with the turnover of the pool.

    Evidence counts by the trust that it has earned, the running mean of its confidence at the
    fitted temperature: nearly nothing early on, when every label is to be plausible.

    Parameters
    ----------
    half_life: rows looked at until what was counted has half its weight.
    repeat_weight: weight of rows seen before. A power of 2: where all rows are, fits equal those
        with a weight of 1 to the bit.
    turnover: share of the pool to be replaced until what was counted has half its weight.
    refit_every: slots from one fit to the next.
    early_refits: slots of further fits, while few rows are known and each changes much.
    pace: share of the newest slot in the running mean of the confidence.
    """

    half_life: float = 10_000.0
    repeat_weight: float = 1 / 32
    turnover: float = 0.25
    refit_every: int = 50
    early_refits: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    pace: float = 0.05

    def __post_init__(self) -> None:
        if not (self.half_life > 0 and self.turnover > 0 and self.refit_every > 0):
            raise ValueError(f"Half-life, turnover and refit_every must be above 0, got {self}.")
        self._reset()

    def _reset(self) -> None:
        self._fit: AgreementFit | None = None
        self._confidence = RunningMean(self.pace)
        self.clean_ratio, self.temperature = 0.5, 1.0
        self._slots = 0

    def update(
        self, evidence: Tensor, labels: Tensor, weights: Tensor, new: Tensor, distinct: float
    ) -> Tensor:
        """Return the calibrated probability of each class, fitted to these rows as well.

        `evidence` is unnormalised and in logarithms; a label of -1 does not count; `weights` are
        those of rows in means over the slot. `new` marks rows seen for the first time, in a pool
        of so many `distinct` rows.
        """
        if self._fit is None:
            self._fit = AgreementFit(evidence.shape[1], self.half_life)
        probabilities = evidence.softmax(dim=1)
        observed = observe(probabilities, labels, evidence.shape[1])
        repeats = torch.where(new, 1.0, self.repeat_weight).to(observed.known)
        replaced = (observed.known * new).sum() / (self.turnover * distinct)
        age = observed.total + replaced * self.half_life
        self._fit.count(reweight(observed, repeats, age))
        if self._slots % self.refit_every == 0 or self._slots in self.early_refits:
            self.clean_ratio, self.temperature = self._fit.fit(distinct)
        self._slots += 1
        tempered = evidence / self.temperature
        torch.softmax(tempered, dim=1, out=probabilities)
        self._confidence.update(weights @ probabilities.amax(dim=1))
        return torch.softmax(tempered.mul_(self.earned()), dim=1, out=probabilities)

    @property
    def started(self) -> bool:
        """Whether any row has been counted."""
        return self._fit is not None

    @property
    def trust(self) -> Tensor:
        """The running mean of the confidence; 0 before the first slot."""
        return torch.zeros(()) if self._confidence.value is None else self._confidence.value

    def earned(self) -> Tensor | float:
        """Return the power that evidence is raised to."""
        return self.trust

    def state_dict(self) -> State:
        """Return the counts, the fit and the running mean; nothing before the first slot."""
        if self._fit is None:
            return {}
        return join_states({"fit": self._fit, "confidence": self._confidence}) | {
            "clean_ratio": torch.tensor(self.clean_ratio, dtype=torch.float64),
            "temperature": torch.tensor(self.temperature, dtype=torch.float64),
            "slots": torch.tensor(self._slots),
        }

    def load_state_dict(self, state: State) -> None:
        """Restore what `state_dict` returned."""
        self._reset()
        if state:
            self._fit = AgreementFit(len(state["fit.rows"]), self.half_life)
            load_states({"fit": self._fit, "confidence": self._confidence}, state)
            self.clean_ratio = state["clean_ratio"].item()
            self.temperature = state["temperature"].item()
            self._slots = int(state["slots"])
