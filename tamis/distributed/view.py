"""The model as selectors see it, where rows are on many ranks."""

from __future__ import annotations

from torch import Tensor

from tamis.distributed.pool import SharedPool
from tamis.model_view import ModelView
from tamis.model_view.passes import at_least_float
from tamis.model_view.sketch import is_names, sketch
from tamis.model_view.view import Measure


class SharedModel(ModelView):
    """A view of the rows of a shared pool, given their tickets; every rank must make the same call.

    What takes the last layer alone, at features that all have, is computed by each rank.
    """

    def __init__(self, view: ModelView, pool: SharedPool) -> None:
        super().__init__(
            view.model, view.memory, view.criterion, chunk=view.chunk, precision=view.precision
        )
        self.pool = pool

    def newest(self) -> ModelView:
        """Look through the weights as they are now."""
        return SharedModel(super().newest(), self.pool)

    def features_and_gradients(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return features and their gradients; features alone cross where there is one state."""
        if len(self.memory.states(self.model)) > 1:
            return super().features_and_gradients(inputs, labels)
        features = at_least_float(self.features(inputs))
        return features, self.gradients_at(features, labels)

    def features_and_probabilities(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return features and probabilities; features alone cross where there is one state."""
        if len(self.memory.states(self.model)) > 1:
            return super().features_and_probabilities(inputs)
        features = at_least_float(self.features(inputs))
        return features, self.probabilities_at(features)

    def sketch(self, inputs: Tensor) -> Tensor:
        """Return each input in few numbers, computed where it is."""
        if is_names(self.pool.dtype):
            return inputs[:, :0].float()
        return self.pool.ask(inputs[:, 0], lambda rows, _: sketch(rows))

    def _mean(
        self,
        measure: Measure,
        inputs: Tensor,
        labels: Tensor | None = None,
        name: str | None = None,
    ) -> Tensor:
        if inputs.is_floating_point():  # features, and no tickets
            return super()._mean(measure, inputs, labels)

        def look(inputs: Tensor, where: Tensor) -> Tensor:
            return super(SharedModel, self)._mean(
                measure, inputs, None if labels is None else labels[where]
            )

        return self.pool.ask(inputs[:, 0], look)
