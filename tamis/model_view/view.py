"""The model as selectors see it: under the last w states, or under their running average."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from tamis.losses import Criterion, cross_entropy
from tamis.model_view.graph import Graph

State = dict[str, Tensor]
CURRENT: State = {}
"""The weights that the model has now: looked through without handing them over."""
Measure = Callable[[State, Tensor, Tensor], Tensor]


class Window:
    """The last `length` states of a model (w in the paper). A length of 1 is the model as it is."""

    def __init__(self, length: int = 1) -> None:
        if length < 1:
            raise ValueError(f"A window holds at least 1 state, got {length}.")
        self.length = length
        self._states: deque[State] = deque(maxlen=length)

    def update(self, model: nn.Module) -> None:
        """Keep the model's state; call it once after each training step."""
        if self.length > 1:
            self._states.append(copy_of(state_of(model)))

    def states(self, model: nn.Module) -> list[State]:
        """Return the states to average over, oldest first."""
        return list(self._states) or [CURRENT]

    def state_dict(self) -> dict[str, list[State]]:
        """Return the states, oldest first; none where the model as it is serves."""
        return {"states": list(self._states)}

    def load_state_dict(self, state: dict[str, list[State]]) -> None:
        """Take up what `state_dict` gave."""
        self._states = deque(map(copy_of, state["states"]), maxlen=self.length)


class Average:
    """The exponential average of a model's weights: a window whose old states fade.

    The first states weigh more than `decay` says, so that the random start is soon forgotten:
    after n steps the decay is at most (1 + n) / (10 + n), as in TensorFlow's moving average.
    """

    def __init__(self, decay: float = 0.99) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"The decay of an average lies in [0, 1), got {decay}.")
        self.decay = decay
        self.steps = 0
        self._state: State | None = None

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Move the average towards the model's state; call it once after each training step."""
        newest = state_of(model)
        if self._state is None:
            self._state = copy_of(newest)
        self.steps += 1
        share = 1 - min(self.decay, (1 + self.steps) / (10 + self.steps))
        pairs = [(value, newest[name]) for name, value in self._state.items()]
        real = [pair for pair in pairs if pair[0].is_floating_point()]
        averages, values = zip(*real, strict=True)
        torch._foreach_lerp_(averages, values, share)
        whole = [pair for pair in pairs if not pair[0].is_floating_point()]  # as of batch norm
        if whole:
            counters, newer = (list(part) for part in zip(*whole, strict=True))
            torch._foreach_copy_(counters, newer)

    def states(self, model: nn.Module) -> list[State]:
        """Return the average as the one state to look through."""
        return [self._state or CURRENT]

    def state_dict(self) -> dict[str, Any]:
        """Return the average, None before the first step, and the steps that it is over."""
        return {"average": self._state, "steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what `state_dict` gave."""
        self._state = None if state["average"] is None else copy_of(state["average"])
        self.steps = state["steps"]


class ModelView:
    """Losses, probabilities, features and gradients under a window of recent states.

    Every answer is the mean over the window (the paper's L_w). The model's mode, gradients and
    buffers are left as they were found. Rows are passed in chunks to bound memory, in `precision`
    where it is given (torch.bfloat16 on a GPU). `graphed` plays what selectors ask for in every
    slot back as CUDA graphs. With `columns`, which the model takes by name, as token ids and their
    mask, inputs are numbers of rows in them. An output that has `logits` is taken for those.
    """

    def __init__(
        self,
        model: nn.Module,
        memory: Window | Average | None = None,
        criterion: Criterion = cross_entropy,
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
        """Look through the weights as they are now, for a selector that compares then and now."""
        return ModelView(
            self.model, None, self.criterion, self.chunk, self.precision, columns=self.columns
        )

    def forget_graphs(self) -> None:
        """Have graphs recorded anew: tensors lie elsewhere now."""
        if self._graphs:
            self._graphs.clear()

    def logits(self, inputs: Tensor) -> Tensor:
        """Outputs of the model, (rows, classes)."""
        return self._mean(lambda state, x, _: self._call(state, x), inputs)

    def probabilities(self, inputs: Tensor) -> Tensor:
        """Share of belief in each class, (rows, classes)."""
        return self._mean(lambda state, x, _: self._call(state, x).softmax(dim=1), inputs)

    def losses(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Local loss of each row."""
        return self._mean(
            lambda state, x, y: self.criterion(self._call(state, x), y), inputs, labels, "losses"
        )

    def features(self, inputs: Tensor) -> Tensor:
        """Give what the last linear layer is fed, (rows, width)."""
        return self._mean(lambda state, x, _: self._split(state, x)[0], inputs)

    def input_gradients(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Gradient of each row's local loss in its own input."""
        if not inputs.is_floating_point():
            raise TypeError(f"Inputs of type {inputs.dtype} have no gradient; use feature space.")

        def slope(state: State, x: Tensor, y: Tensor) -> Tensor:
            return gradient(lambda at: self.criterion(self._call(state, at), y), x)

        return self._mean(slope, inputs, labels)

    def feature_gradients(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Gradient of each row's local loss in its features, with no backward pass through them.

        The last layer is linear, so the gradient is its weight times the slope in the logits:
        W'(p - y) for the cross entropy.
        """

        return self.features_and_gradients(inputs, labels)[1]

    def features_and_gradients(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Features and their gradients from one pass, for a selector that needs both."""

        def both(state: State, x: Tensor, y: Tensor) -> Tensor:
            features, logits = self._split(state, x)
            weight, _ = self._head(state)
            return torch.stack([at_least_float(features), self._slope(logits, y) @ weight], dim=1)

        features, slopes = self._mean(both, inputs, labels, "slopes").unbind(dim=1)
        return features, slopes

    def features_and_probabilities(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Features and the share of belief in each class, from one pass."""

        def both(state: State, x: Tensor, _: Tensor) -> Tensor:
            features, logits = (at_least_float(part) for part in self._split(state, x))
            return torch.cat([logits.softmax(dim=1), features], dim=1)

        classes = last_linear(self.model)[1].out_features
        both_seen = self._mean(both, inputs, None, "beliefs")
        return both_seen[:, classes:], both_seen[:, :classes]

    def probabilities_at(self, features: Tensor) -> Tensor:
        """Share of belief in each class at features that are known: no pass through a model."""

        def belief(state: State, x: Tensor, _: Tensor) -> Tensor:
            return functional.linear(x, *self._head(state)).softmax(dim=1)

        return self._mean(belief, features)

    def gradients_at(self, features: Tensor, labels: Tensor) -> Tensor:
        """Gradient of each row's local loss in features that are known: no pass through a model."""

        def slope(state: State, x: Tensor, y: Tensor) -> Tensor:
            weight, bias = self._head(state)
            return self._slope(functional.linear(x, weight, bias), y) @ weight

        return self._mean(slope, features, labels)

    def _slope(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Slope of each row's loss in its logits: p - y for the cross entropy."""
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
        asked: str | None = None,
    ) -> Tensor:
        """Measure under every state; what is `asked` in every slot may be played back."""
        states = self.memory.states(self.model)
        labels = inputs if labels is None else labels

        def run(inputs: Tensor, labels: Tensor) -> tuple[Tensor]:
            return (self._mean_of(measure, states, inputs, labels),)

        if self._graphs is None or asked is None or torch.cuda.is_current_stream_capturing():
            return run(inputs, labels)[0]
        graph = self._graphs.setdefault(asked, Graph())
        return graph([id(state) for state in states], run, inputs, labels)[0]

    def _mean_of(
        self, measure: Measure, states: list[State], inputs: Tensor, labels: Tensor
    ) -> Tensor:
        with torch.no_grad(), evaluating(self.model):
            return torch.cat(
                [
                    sum_of(measure(state, x, y) for state in states) / len(states)
                    for x, y in zip(inputs.split(self.chunk), labels.split(self.chunk), strict=True)
                ]
            )

    def _call(self, state: State, inputs: Tensor) -> Tensor:
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
        logits: Tensor = getattr(output, "logits", output)
        return logits

    def _head(self, state: State) -> tuple[Tensor, Tensor | None]:
        """Weight and bias of the last layer."""
        name, head = last_linear(self.model)
        if state is CURRENT:
            return head.weight.detach(), head.bias if head.bias is None else head.bias.detach()
        prefix = f"{name}." if name else ""
        return state[f"{prefix}weight"], state.get(f"{prefix}bias")

    def _split(self, state: State, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Features, and the logits that the last layer makes of them."""
        _, head = last_linear(self.model)
        caught: list[tuple[Tensor, Tensor]] = []
        handle = head.register_forward_hook(lambda _, fed, gave: caught.append((fed[0], gave)))
        try:
            logits = self._call(state, inputs)
        finally:
            handle.remove()
        if not caught or not same_but_for_type(caught[-1][1], logits):
            raise TypeError(NO_HEAD.format(type(self.model).__name__))
        return caught[-1][0], logits


NO_HEAD = "Feature space needs a model that ends in a linear layer, and {} does not."


def state_of(model: nn.Module) -> State:
    """Name the model's parameters and buffers, detached, not copied."""
    named = [*model.named_parameters(), *model.named_buffers()]
    return {name: value.detach() for name, value in named}


def copy_of(state: State) -> State:
    """Copy the tensors of a state."""
    return {name: value.clone() for name, value in state.items()}


def last_linear(model: nn.Module) -> tuple[str, nn.Linear]:
    """Find the last linear layer and its name."""
    heads = [(name, part) for name, part in model.named_modules() if isinstance(part, nn.Linear)]
    if not heads:
        raise TypeError(NO_HEAD.format(type(model).__name__))
    return heads[-1]


def same_but_for_type(gave: Tensor, logits: Tensor) -> bool:
    """Say whether a model returned what its head gave, cast to another type at the most.

    Accelerate casts outputs to single precision wherever it trains in a lower one.
    """
    if gave is logits or gave.dtype == logits.dtype:
        return gave is logits
    return torch.equal(gave.to(logits.dtype), logits)


def at_least_float(tensor: Tensor) -> Tensor:
    """Leave lower precision behind, where numbers are to be compared."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def casting(device: torch.device, precision: torch.dtype | None) -> torch.autocast:
    """Run what follows in lower precision where one is given."""
    return torch.autocast(device.type, precision, enabled=precision is not None)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put every part in evaluation mode, then each back in the mode that it had."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def gradient(losses: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """Slope of each row's loss at its own point: rows do not mix, so one sum serves all."""
    with torch.enable_grad():
        at = at.detach().requires_grad_()
        return torch.autograd.grad(losses(at).sum(), at)[0]


def sum_of(tensors: Iterator[Tensor]) -> Tensor:
    """Add tensors up, from the first on."""
    total = next(tensors)
    for tensor in tensors:
        total = total + tensor
    return total
