"""Output units for new classes, in the model and in all that is remembered of its weights."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tamis.errors import GrowthError
from tamis.model_view.memory import State
from tamis.model_view.passes import last_linear

FIRST_SHARE = 0.003
"""Mean probability of a new class: predictions for other classes hardly change. Its gradient is
that of any class that is not predicted, so that it learns at once."""
LARGEST = 500.0
"""Log normaliser beyond which all count the same: no exponential of it overflows."""
SUMS = 2
"""How many numbers `normaliser_sums` returns."""


class HeadGrowth(NamedTuple):
    """New units of the last linear layer: how many in all, and the bias of the new ones.

    Their weights are 0. Without biases they are the mean of the other units' weights: logits then
    never exceed those of all other classes.
    """

    weight: str
    bias: str
    classes: int
    first_bias: float

    @classmethod
    def of(cls, model: nn.Module, classes: int, level: float | None) -> HeadGrowth:
        """Return the growth of a model whose log normaliser is `level`, by its mean inverse.

        None where no row is known to measure it by: it is then that of inputs of 0.
        """
        name, head = last_linear(model)
        prefix = f"{name}." if name else ""
        if level is None:
            biases = head.weight.new_zeros(head.out_features) if head.bias is None else head.bias
            level = biases.detach().double().logsumexp(dim=0).item()
        return cls(f"{prefix}weight", f"{prefix}bias", classes, level + math.log(FIRST_SHARE))

    @staticmethod
    def parameters(model: nn.Module) -> list[nn.Parameter]:
        """Return the weight of the last layer, and its bias if it has one."""
        _, head = last_linear(model)
        return list(head.parameters(recurse=False))

    @torch.no_grad()
    def grow(self, model: nn.Module) -> None:
        """Add the units to a model. Its parameters stay the same objects, as an optimiser has."""
        _, head = last_linear(model)
        grown = self.grown({self.weight: head.weight} | self._bias_of(head))
        head.weight.data = grown[self.weight]
        if head.bias is not None:
            head.bias.data = grown[self.bias]
        for parameter in self.parameters(model):
            parameter.grad = None
        head.out_features = self.classes

    @torch.no_grad()
    def grown(self, state: State) -> State:
        """Return a state of the model's weights with the units added."""
        weight, bias = state[self.weight].detach(), state.get(self.bias)
        more = self.classes - len(weight)
        first = torch.zeros_like(weight[:1]) if bias is not None else weight.mean(0, keepdim=True)
        found = state | {self.weight: torch.cat([weight, first.expand(more, -1)])}
        if bias is not None:
            found[self.bias] = torch.cat([bias.detach(), bias.new_full((more,), self.first_bias)])
        return found

    def _bias_of(self, head: nn.Linear) -> State:
        return {} if head.bias is None else {self.bias: head.bias}


def check_head(model: nn.Module) -> None:
    """Refuse a model whose output layer cannot get more units, in one sentence."""
    for part in model.modules():
        if reason := getattr(part, "cannot_grow", ""):
            raise GrowthError(str(reason))
    kind = type(model).__name__
    if not any(isinstance(part, nn.Linear) for part in model.modules()):
        raise GrowthError(f"{kind} does not end in a linear layer, so that no class can be added.")
    _, head = last_linear(model)
    named = dict(model.named_parameters(remove_duplicate=False))
    owners = sum(part is head.weight for part in named.values())
    if owners != 1:  # none where a parametrisation computes it
        raise GrowthError(
            f"The last layer of {kind} {'shares' if owners else 'computes'} its weight, so that no"
            " class can be added."
        )


def count_outputs(model: nn.Module) -> int:
    """Return the number of units of the last linear layer."""
    return last_linear(model)[1].out_features


def normaliser_sums(logits: Tensor) -> Tensor:
    """Return the number of rows, and the sum of their inverse normalisers."""
    found = logits.double().logsumexp(dim=1)
    found = found[found.isfinite()].clamp_min(-LARGEST)
    count = torch.tensor(float(len(found)), dtype=torch.float64, device=found.device)
    return torch.stack([count, (-found).exp().sum()])


def mean_normaliser(sums: Tensor) -> float | None:
    """Return the log normaliser of the mean inverse normaliser; None of no rows.

    A unit whose logit is so much, everywhere, has a mean probability of 1 at the most: rows of
    low logits count, and not those of a few huge ones.
    """
    count, inverse = sums.tolist()
    return -math.log(max(inverse / count, math.exp(-LARGEST))) if count else None
