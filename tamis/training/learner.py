"""A model in training: its step, what is remembered of its weights, and the views of it."""

from __future__ import annotations

import copy
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tamis.checkpoint import State, check_optimizer, check_same_tensors
from tamis.losses import Criterion
from tamis.model_view import Average, ModelView, Window
from tamis.model_view.graph import Graph
from tamis.model_view.growth import HeadGrowth, check_head, count_outputs
from tamis.model_view.memory import state_of
from tamis.monitoring import Accuracy
from tamis.training.execution import Execution
from tamis.training.growth import check_optimizer_growth, grow_optimizer
from tamis.training.step import Step


class Learner:
    """One model with its optimiser, its running average and window, and the views through them.

    `now` is the view of the weights as they are, `averaged` that of their running average, where
    one is kept, and `view` the one that selectors see.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        criterion: Criterion,
        execution: Execution,
        *,
        window: int | Literal["average"] = 1,
        ema: float | None,
    ) -> None:
        self.device = torch.device(execution.device)
        self.model = model.to(self.device)
        self.optimizer = optimizer
        self.criterion = criterion
        self.average = None if ema is None else Average(ema)
        self.window = None if window == "average" else Window(window)
        precision, graphed = execution.precision, execution.graphed
        self.now, self.averaged, windowed = (
            ModelView(model, memory, criterion, precision=precision, graphed=graphed)
            for memory in (None, self.average, self.window)
        )
        self.view = windowed if self.window else self.averaged
        self.take_step = Step(model, optimizer, criterion, precision)
        self._graph = Graph() if graphed else None
        self._types = {part.dtype for part in model.parameters()}

    def descend(self, inputs: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
        """Take one step and return its loss, as a graph unless it is part of a larger one."""
        if self._graph is None or torch.cuda.is_current_stream_capturing():
            return self.take_step(inputs, targets, weights)

        def play(inputs: Tensor, targets: Tensor, *weights: Tensor) -> tuple[Tensor]:
            return (self.take_step(inputs, targets, weights[0] if weights else None),)

        weighed = () if weights is None else (weights,)
        return self._graph(self.rates(), play, inputs, targets, *weighed)[0]

    def rates(self) -> list[float]:
        """Return the learning rates, which a graph has fixed when it is recorded."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def remember(self) -> None:
        """Add the weights as they are to the window and the average; once after each step."""
        for memory in (self.window, self.average):
            if memory:
                memory.update(self.model)

    def cast(self, inputs: Tensor) -> Tensor:
        """Return doubles, which arrays and lists are, as singles where the model has no doubles."""
        if inputs.dtype != torch.double or torch.double in self._types:
            return inputs
        return inputs.float()

    def accuracy(self, inputs: Any, labels: Any) -> Accuracy:
        """Return the share of labels that the model predicts, and that its average does."""
        rows, given = (
            part if isinstance(part, Tensor) else torch.from_numpy(np.array(part))
            for part in (inputs, labels)
        )
        rows, given = self.cast(rows).to(self.device), given.to(self.device)

        def share(view: ModelView) -> float:
            predicted = view.logits(rows).argmax(dim=1)
            return (predicted == given).float().mean().item()

        return Accuracy(share(self.now), share(self.averaged) if self.average else None)

    def best_model(self) -> nn.Module:
        """Return a copy of the model with the averaged weights, where an average is kept."""
        model = copy.deepcopy(self.model)
        if self.average:
            model.load_state_dict(self.average.states(model)[0], strict=False)
        return model.eval()

    def check_growth(self) -> None:
        """Refuse a model or an optimiser that cannot get more output units, in one sentence."""
        check_head(self.model)
        check_optimizer_growth(self.optimizer, HeadGrowth.parameters(self.model))

    def grow(self, classes: int, level: float | None) -> None:
        """Add output units, in the model, its average, its window and the optimiser's state.

        Log normalisers of the model's predictions are hardly ever below `level`.
        """
        before = count_outputs(self.model)
        if classes <= before:
            return
        head = HeadGrowth.of(self.model, classes, level)
        head.grow(self.model)
        for parameter in head.parameters(self.model):
            grow_optimizer(self.optimizer, parameter, before)
        for memory in (self.window, self.average):
            if memory:
                memory.change(head.grown)
        self.forget_graphs()

    def forget_graphs(self) -> None:
        """Record graphs again when next used: tensors have moved."""
        for view in (self.now, self.averaged, self.view):
            view.forget_graphs()
        if self._graph:
            self._graph = Graph()

    def parts(self) -> dict[str, object]:
        """Return all that changes, by name."""
        return {
            "model": self.model,
            "optimizer": self.optimizer,
            "average": self.average,
            "window": self.window,
        }

    def check(self, state: State) -> None:
        """Refuse a state that does not fit, by the shapes of its tensors."""
        own = state_of(self.model)
        check_same_tensors("model", state["model"], own)
        check_optimizer(state["optimizer"], self.optimizer)
        average, window = state["average"], state["window"]
        for seen in (window["states"] if window else []) + [average and average["average"]]:
            if seen is not None:
                check_same_tensors("memory of the model", seen, own)
        check_counts([average["steps"]] if average else [])


def check_counts(counts: list[object]) -> None:
    """Refuse counts that are not integers from 0 on."""
    if any(type(count) is not int or count < 0 for count in counts):
        raise ValueError("the counters are not integers from 0 on")
