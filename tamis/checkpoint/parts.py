"""The states and the descriptions of the parts of a run."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tamis.checkpoint.packing import State
from tamis.model_view.memory import state_of

ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def get_state(part: object) -> State | None:
    """Return the state of a part; None for one that has none."""
    if isinstance(part, nn.Module):
        return dict(state_of(part))  # also buffers that torch would leave out
    ask = getattr(part, "state_dict", None)
    return ask() if callable(ask) else None


def set_state(name: str, part: object, state: Any) -> None:
    """Restore a part to what `get_state` returned."""
    if state is None or get_state(part) is None:
        if state is not None or get_state(part) is not None:
            raise ValueError(f"the {name} has a state, here or there, and none in the other")
    elif isinstance(part, nn.Module):
        check_same_tensors(name, state, state_of(part))
        with torch.no_grad():
            for key, place in state_of(part).items():
                place.copy_(state[key])  # in place: an optimiser or a graph knows where it is
    else:
        part.load_state_dict(state)  # type: ignore[attr-defined]


def check_same_tensors(name: str, state: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> None:
    """Raise where tensors have other names, shapes or types than the part's own."""
    if state.keys() != own.keys():
        strange = sorted(state.keys() ^ own.keys())
        raise ValueError(f"the {name} has or lacks {', '.join(strange[:3])}")
    for key, value in own.items():
        given = state[key]
        if (given.shape, given.dtype) != (value.shape, value.dtype):
            raise ValueError(
                f"{key} of the {name} is {tuple(given.shape)} {given.dtype}"
                f" there and {tuple(value.shape)} {value.dtype} here"
            )


def check_optimizer(state: State, optimizer: Optimizer) -> None:
    """Refuse what torch would accept: other groups, or tensors of any size."""
    groups, own = state["param_groups"], optimizer.state_dict()["param_groups"]
    if [(set(group), group["params"]) for group in groups] != [
        (set(group), group["params"]) for group in own
    ]:
        raise ValueError("the optimizer has other groups or settings of them")
    most = sum(weight.numel() for group in optimizer.param_groups for weight in group["params"])
    known = {number for group in own for number in group["params"]}
    for number, memory in state["state"].items():
        sizes = [value.numel() for value in tensors_in(memory)]
        if number not in known or max(sizes, default=0) > most:
            raise ValueError("the optimizer remembers what belongs to no weight")


def tensors_in(tree: Any) -> list[Tensor]:
    """Return the tensors of a state."""
    if isinstance(tree, Tensor):
        return [tree]
    if not isinstance(tree, Mapping | list | tuple):
        return []
    items = tree.values() if isinstance(tree, Mapping) else tree
    return [tensor for item in items for tensor in tensors_in(item)]


def tree_to_device(tree: Any, device: torch.device) -> Any:
    """Return a state with its tensors on a device."""
    if isinstance(tree, Tensor):
        return tree.to(device)
    if isinstance(tree, dict):
        return {key: tree_to_device(value, device) for key, value in tree.items()}
    return [tree_to_device(value, device) for value in tree] if isinstance(tree, list) else tree


def describe(part: object) -> str:
    """Return the name of a part and its settings, the same in every process.

    A function has its public name: that in the outermost package that exports it. A checkpoint
    compares descriptions, and so survives that a file is moved.
    """
    if not isinstance(part, type) and hasattr(part, "__qualname__"):
        return public_name(part)
    if type(part).__repr__ is not object.__repr__:
        return ADDRESS.sub("", repr(part))
    plain = {
        name: value
        for name, value in vars(part).items()
        if not name.startswith("_") and isinstance(value, bool | int | float | str)
    }
    return f"{type(part).__qualname__}({', '.join(f'{key}={plain[key]!r}' for key in plain)})"


def public_name(part: Any) -> str:
    """Return the name of a function or class in the outermost package that exports it."""
    packages, name = part.__module__.split("."), part.__qualname__
    for depth in range(1, len(packages)):
        package = ".".join(packages[:depth])
        if getattr(sys.modules.get(package), name, None) is part:
            return f"{package}.{name}"
    return f"{part.__module__}.{name}"
