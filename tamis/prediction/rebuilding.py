"""What a model's file holds so that the model can be built again, and how it is built from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

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
        model = given
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
    """Return a model of this package without weights: nothing is allocated, nothing drawn."""
    name, arguments = about.get("model"), about.get("arguments")
    factories: dict[str, Factory] = {factory.__name__: factory for factory in MODELS}
    key = str(name).lower()
    try:
        with torch.device("meta"):
            if key == TableModel.__name__.lower() and layout:
                return TableModel(layout, classes, torch.empty(0, layout.width), **arguments or {})
            if key in factories:
                return factories[key](shape, classes)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ModelFileError(f"The model {name} cannot be built again: {error}.") from None
    if not name:
        raise ModelFileError(
            "The file does not name its model: pass `model`, the model itself or a function of"
            " input shape and number of classes that builds it."
        )
    raise ModelFileError(
        f"The model is {name}, code of your own, and a file does not run code: pass it as `model`"
        f" (--model {name})."
    )


def with_scale(
    model: nn.Module, about: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> nn.Module:
    """Return a model behind the layer that scales raw inputs, where it was trained behind one."""
    if not about.get("scaled") or "0.mean" not in tensors:
        return model
    blank = torch.ones_like(tensors["0.mean"])
    return nn.Sequential(Scale(blank, blank), model)
