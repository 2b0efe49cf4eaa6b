"""The model as selectors see it, where rows lie on many ranks."""

from __future__ import annotations

from torch import Tensor

from tamis.local import LocalModel, Measure, at_least_float
from tamis.ranks.pool import SharedPool


class SharedModel(LocalModel):
    """Answers for the rows of a shared pool, given their tickets; every rank must ask alike.

    What is asked of the last layer alone, at features that all know, is worked out by each rank.
    """

    def __init__(self, local: LocalModel, pool: SharedPool) -> None:
        super().__init__(local.model, local.memory, local.criterion, local.chunk, local.precision)
        self.pool = pool

    def newest(self) -> LocalModel:
        """Look through the weights as they are now."""
        return SharedModel(super().newest(), self.pool)

    def feature_view(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Features and their gradients; features alone cross, where one state says it all."""
        if len(self.memory.states(self.model)) > 1:
            return super().feature_view(inputs, labels)
        features = at_least_float(self.features(inputs))
        return features, self.slopes_at(features, labels)

    def beliefs_view(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Features and beliefs; features alone cross, where one state says it all."""
        if len(self.memory.states(self.model)) > 1:
            return super().beliefs_view(inputs)
        features = at_least_float(self.features(inputs))
        return features, self.beliefs_at(features)

    def _mean(
        self,
        measure: Measure,
        inputs: Tensor,
        labels: Tensor | None = None,
        asked: str | None = None,
    ) -> Tensor:
        if inputs.is_floating_point():  # features, and no tickets
            return super()._mean(measure, inputs, labels)

        def look(inputs: Tensor, where: Tensor) -> Tensor:
            return super(SharedModel, self)._mean(
                measure, inputs, None if labels is None else labels[where]
            )

        return self.pool.ask(inputs[:, 0], look)
