"""What a model's file holds so that the model can be built again, and how it is built from it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tamis.errors import TamisError
from tamis.models import MODELS, Scale, start
from tamis.models.tabular import TableLayout, TableModel

Factory = Callable[[tuple[int, ...], int], nn.Module]
"""Builds a model from the shape of one input and the number of classes."""


class ModelFileError(TamisError, ValueError):
    """A model's file that cannot be predicted with."""


def model_arguments(model: nn.Module) -> dict[str, Any]:
    """Return, as JSON, what a model is built with beside the shape of an input and the classes."""
    scaled = isinstance(model, nn.Sequential) and isinstance(model[0], Scale)
    inner = model[1] if scaled else model  # type: ignore[index]
    return {
        "scaled": scaled,
        "arguments": inner.settings() if isinstance(inner, TableModel) else {},
    }


def rebuild(
    about: Mapping[str, Any],
    tensors: dict[str, Tensor],
    shape: tuple[int, ...],
    classes: int,
    layout: TableLayout | None,
    given: Factory | nn.Module | None,
) -> nn.Module:
    """Return the model of a file with its weights; nothing that the file names is imported."""
    if isinstance(given, nn.Module):
        model = copy.deepcopy(given)
        if not model_arguments(model)["scaled"]:
            model = with_scale(model, about, tensors)
    elif given is not None:
        model = with_scale(start(given, shape, classes, 0), about, tensors)
    else:
        model = with_scale(built_in(about, shape, classes, layout), about, tensors)
    try:
        model.load_state_dict(tensors, assign=True)
    except RuntimeError as error:
        why = " ".join(str(error).split())[:200]
        raise ModelFileError(f"The weights are of another model than this one: {why}") from None
    return model.eval().requires_grad_(False)


def built_in(
    about: Mapping[str, Any], shape: tuple[int, ...], classes: int, layout: TableLayout | None
) -> nn.Module:
    """Return a model of this package, without first weights."""
    name, arguments = about.get("model"), about.get("arguments") or {}
    factories: dict[str, Factory] = {factory.__name__: factory for factory in MODELS}
    key = str(name).lower()
    if key == TableModel.__name__.lower() and layout:
        none = torch.empty(0, layout.width)
        factories[key] = lambda _, classes: TableModel(layout, classes, none, **arguments)
    try:
        if key in factories:
            with Undrawn():
                return start(factories[key], shape, classes, 0)
    except (TypeError, ValueError, RuntimeError) as error:
        why = str(error).splitlines()[0]
        raise ModelFileError(f"The model {name} cannot be built again: {why}.") from None
    if not name:
        raise ModelFileError(
            "The file does not name its model: pass `model`, the model itself or a function of"
            " input shape and number of classes that builds it."
        )
    raise ModelFileError(
        f"The model is {name}, code of your own, and a file does not run code: pass it as `model`"
        f" (--model {name})."
    )


class Undrawn(TorchFunctionMode):
    """Leaves out the draws of first weights, which a file has: memory is not even touched."""

    def __torch_function__(
        self, function: Any, types: Any, given: Any = (), named: Mapping[str, Any] | None = None
    ) -> Any:
        """Call a function of torch, but for those of `torch.nn.init`."""
        if getattr(function, "__module__", "") == nn.init.__name__:
            return (named or {}).get("tensor", *given[:1])
        return function(*given, **named or {})


def with_scale(
    model: nn.Module, about: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> nn.Module:
    """Return a model behind the layer that scales raw inputs, where it was trained behind one."""
    if not about.get("scaled") or "0.mean" not in tensors:
        return model
    blank = torch.ones_like(tensors["0.mean"])
    return nn.Sequential(Scale(blank, blank), model)
