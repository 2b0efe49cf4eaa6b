"""The model as selectors see it: under the last w states, or under their running average."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from tamis.losses import Criterion, cross_entropy
from tamis.model_view.graph import Graph
from tamis.model_view.memory import CURRENT, Average, State, Window
from tamis.model_view.passes import (
    ModelError,
    at_least_float,
    casting,
    evaluating,
    gradient,
    last_linear,
    logits_of,
    mean_of,
    no_head,
    same_but_for_type,
    share_memory,
    softmax,
)
from tamis.model_view.sketch import sketch

Measure = Callable[[State, Tensor, Tensor], Tensor]
MOST_NUMBERS = 2**22
"""Numbers of pictures passed through a model at a time, at the most."""


class ModelView:
    """Losses, probabilities, features and gradients of a model under its recent states.

    Each is the mean over the states (the paper's L_w). The model's mode, gradients and buffers do
    not change. Where a model's output has `logits`, those are used.

    Parameters
    ----------
    model: the model, which ends in a linear layer wherever features are needed.
    memory: a window of states or their average; None is the weights as they are.
    criterion: loss of each row.
    chunk: rows passed at a time, to bound memory.
    precision: type that passes run in, such as torch.bfloat16; None is the model's own.
    graphed: replay what selectors compute in every slot as CUDA graphs.
    columns: tensors that the model takes by name, such as token ids and their mask; inputs are
        then numbers of rows in them.
    """

    def __init__(
        self,
        model: nn.Module,
        memory: Window | Average | None = None,
        criterion: Criterion = cross_entropy,
        *,
        chunk: int = 4096,
        precision: torch.dtype | None = None,
        graphed: bool = False,
        columns: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.model = model
        self.columns = columns
        self.memory = memory or Window()
        self.criterion = criterion
        self.chunk = chunk
        self.precision = precision
        self._graphs: dict[str, Graph] | None = {} if graphed else None

    def newest(self) -> ModelView:
        """Return the view of the weights as they are, for a selector that compares the two."""
        return ModelView(
            self.model,
            None,
            self.criterion,
            chunk=self.chunk,
            precision=self.precision,
            columns=self.columns,
        )

    def forget_graphs(self) -> None:
        """Record graphs again when next used: tensors have moved."""
        if self._graphs:
            self._graphs.clear()

    def logits(self, inputs: Tensor) -> Tensor:
        """Return the outputs of the model, (rows, classes)."""
        return self._mean(lambda state, x, _: self._call(state, x), inputs)

    def probabilities(self, inputs: Tensor) -> Tensor:
        """Return the probability of each class, (rows, classes)."""
        return self._mean(lambda state, x, _: self._call(state, x).softmax(dim=1), inputs)

    def losses(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Return the local loss of each row."""
        return self._mean(
            lambda state, x, y: self.criterion(self._call(state, x), y), inputs, labels, "losses"
        )

    def features(self, inputs: Tensor) -> Tensor:
        """Return the inputs of the last linear layer, (rows, width)."""
        return self._mean(lambda state, x, _: self._split(state, x)[0], inputs)

    def input_gradients(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Return the gradient of each row's local loss in its own input."""
        if not inputs.is_floating_point():
            raise TypeError(f"Inputs of type {inputs.dtype} have no gradient; use feature space.")

        def at_row(state: State, x: Tensor, y: Tensor) -> Tensor:
            return gradient(lambda at: self.criterion(self._call(state, at), y), x)

        return self._mean(at_row, inputs, labels)

    def feature_gradients(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Return the gradient of each row's local loss in its features, by no backward pass.

        The last layer is linear, so it is the layer's weight times the gradient in the logits:
        W'(p - y) for the cross entropy.
        """
        return self.features_and_gradients(inputs, labels)[1]

    def features_and_gradients(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return features and their gradients from one pass."""

        def both(state: State, x: Tensor, y: Tensor) -> Tensor:
            features, logits = self._split(state, x)
            weight, _ = self._head(state)
            return torch.stack(
                [at_least_float(features), self._logit_gradients(logits, y) @ weight], dim=1
            )

        features, gradients = self._mean(both, inputs, labels, "gradients").unbind(dim=1)
        return features, gradients

    def features_and_probabilities(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return features and the probability of each class from one pass."""

        def both(state: State, x: Tensor, _: Tensor) -> Tensor:
            features, logits = (at_least_float(part) for part in self._split(state, x))
            return torch.cat([softmax(logits), features], dim=1)

        states = self.memory.states(self.model)
        if len(states) == 1 and self._graphs is None and len(inputs) <= self._chunk_of(inputs):
            with torch.no_grad(), evaluating(self.model):  # nothing is joined, and split again
                features, logits = map(at_least_float, self._split(states[0], inputs))
            return features, softmax(logits)
        classes = last_linear(self.model)[1].out_features
        joined = self._mean(both, inputs, None, "probabilities")
        return joined[:, classes:], joined[:, :classes]

    def sketch(self, inputs: Tensor) -> Tensor:
        """Return each input in few numbers, to find similar ones by; names in none."""
        return sketch(inputs)

    def probabilities_at(self, features: Tensor) -> Tensor:
        """Return the probability of each class at known features: no pass through the model."""

        def at_row(state: State, x: Tensor, _: Tensor) -> Tensor:
            return softmax(functional.linear(x, *self._head(state)))

        return self._mean(at_row, features)

    def gradients_at(self, features: Tensor, labels: Tensor) -> Tensor:
        """Return the gradient of each row's local loss at known features: no pass of the model."""

        def at_row(state: State, x: Tensor, y: Tensor) -> Tensor:
            weight, bias = self._head(state)
            return self._logit_gradients(functional.linear(x, weight, bias), y) @ weight

        return self._mean(at_row, features, labels)

    def _logit_gradients(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the gradient of each row's loss in its logits: p - y for the cross entropy."""
        logits = at_least_float(logits)
        if self.criterion is cross_entropy and not labels.is_floating_point():
            minus = logits.new_full((len(labels), 1), -1)
            return logits.softmax(dim=1).scatter_add(1, labels[:, None], minus)
        return gradient(lambda at: self.criterion(at, labels), logits)

    def _mean(
        self,
        measure: Measure,
        inputs: Tensor,
        labels: Tensor | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Return the mean of a measure over the states; one with a `name` may be replayed."""
        states = self.memory.states(self.model)
        labels = inputs if labels is None else labels

        def run(inputs: Tensor, labels: Tensor) -> tuple[Tensor]:
            return (self._mean_of(measure, states, inputs, labels),)

        if self._graphs is None or name is None or torch.cuda.is_current_stream_capturing():
            return run(inputs, labels)[0]
        graph = self._graphs.setdefault(name, Graph())
        return graph([id(state) for state in states], run, inputs, labels)[0]

    def _mean_of(
        self, measure: Measure, states: list[State], inputs: Tensor, labels: Tensor
    ) -> Tensor:
        chunk = self._chunk_of(inputs)
        with torch.no_grad(), evaluating(self.model):
            parts = [
                mean_of(measure(state, x, y) for state in states)
                for x, y in zip(inputs.split(chunk), labels.split(chunk), strict=True)
            ]
            # A copy, where there are several or where a model returned its inputs.
            alone = len(parts) == 1 and not share_memory(parts[0], inputs)
            return parts[0] if alone else torch.cat(parts)

    def _chunk_of(self, inputs: Tensor) -> int:
        """Return the number of rows passed at a time."""
        if inputs.dim() <= 2 or not len(inputs):
            return self.chunk
        # Of pictures a layer makes many numbers more.
        return max(1, min(self.chunk, MOST_NUMBERS // max(1, inputs[0].numel())))

    def _call(self, state: State, inputs: Tensor) -> Tensor:
        if state and isinstance(self.model, nn.DataParallel):
            raise ModelError(
                "A DataParallel model takes no weights but its own: pass `model.module`, and for"
                " many GPUs use tamis.distributed."
            )
        fed: tuple[Tensor, ...] = (inputs,)
        named: dict[str, Tensor] = {}
        if self.columns is not None:
            fed, named = (), {name: part[inputs[:, 0]] for name, part in self.columns.items()}
        with casting(inputs.device, self.precision):
            output = (
                functional_call(self.model, state, fed, named)
                if state
                else self.model(*fed, **named)
            )
        return logits_of(output, self.model)

    def _head(self, state: State) -> tuple[Tensor, Tensor | None]:
        """Return the weight and bias of the last layer."""
        name, head = last_linear(self.model)
        if state is CURRENT:
            return head.weight.detach(), head.bias if head.bias is None else head.bias.detach()
        prefix = f"{name}." if name else ""
        return state[f"{prefix}weight"], state.get(f"{prefix}bias")

    def _split(self, state: State, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the features, and the logits that the last layer makes of them."""
        _, head = last_linear(self.model)
        caught: list[tuple[Tensor, Tensor]] = []
        handle = head.register_forward_hook(
            lambda _, inputs, logits: caught.append((inputs[0], logits))
        )
        try:
            logits = self._call(state, inputs)
        finally:
            handle.remove()
        if not caught or not same_but_for_type(caught[-1][1], logits):
            raise no_head(self.model)
        return caught[-1][0], logits
