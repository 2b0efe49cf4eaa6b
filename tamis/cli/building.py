"""Selector, model and trainer as the options of a command describe them."""

from __future__ import annotations

import ast
import copy
import importlib
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from tamis.buffers import BUFFERS, PuriDivER, WaitingRoom
from tamis.errors import UsageError, as_clause
from tamis.models import MODELS, Scale, start
from tamis.models.tabular import TableModel
from tamis.noise import Alarm, JointLabels
from tamis.selectors import RHO, SELECTORS, Oracle, Selector
from tamis.selectors.protocol import preferred_warm_up
from tamis.sources import Schema, Validator
from tamis.training import Execution, Trainer
from tamis.training.augment import Augment

PLAIN = {"model": "mlp", "k": 32, "rate": 0.1, "capacity": 10_000, "pool_size": 1024}
"""Settings of a run whose size is not known, or whose model is not the one for tables."""


OF_ONE_CALL = (
    "address", "out", "resume", "overwrite", "allow_mismatch", "log", "dry_run", "queue",
    "policy", "patience", "linger", "follow", "skip_lost", "quiet", "json", "arguments", "workers",
    "restarts", "shards", "ray",
)  # fmt: skip
"""Options that have no part in how a trainer is built."""

TABLE_MODEL = TableModel.__name__


def choose(kind: str, name: str, parts: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """Return a part by its name, or import module:name, the working folder first."""
    for part in parts:
        if part.__name__.lower() == name.lower():
            return part
    module, colon, attribute = name.partition(":")
    if not colon:
        known = ", ".join(part.__name__ for part in parts)
        raise UsageError(f"no {kind} {name!r}: name one of {known}, or module:name of your own.")
    sys.path.insert(0, "")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{kind} {name} cannot be imported: {error}.") from None
    finally:
        sys.path.remove("")
    return found


def check_device(name: str) -> None:
    """Raise a sentence that names what to do where a device is not there."""
    there = torch.cuda.device_count()
    try:
        device = torch.device(name)
        if device.type != "cuda" or (device.index or 0) < there:
            torch.empty(0, device=device)
            return
    except (RuntimeError, AssertionError) as error:
        why = as_clause(str(error).splitlines()[0])
        raise UsageError(f"--device {name}: {why}; cpu and cuda are usual.") from None
    if there:
        raise UsageError(f"--device {name}: the last GPU here is cuda:{there - 1}.")
    why = "this torch is built without CUDA: install one with it"
    if torch.version.cuda:
        why = "torch finds no GPU: see whether nvidia-smi lists one"
    raise UsageError(f"--device {name}: {why}, or use --device cpu.")


def build_selector(name: str, settings: Sequence[str]) -> Selector:
    """Build a selector from its name and NAME=VALUE settings."""
    kind = choose("selector", name, SELECTORS)
    if kind is Oracle:
        raise UsageError("the oracle needs to know which labels are right; choose another.")
    values = {}
    known = [field.name for field in fields(kind)] if is_dataclass(kind) else None
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or (known is not None and key not in known):
            has = ", ".join(known or []) or "none"
            raise UsageError(f"--set {setting}: {name} has the settings {has}, as NAME=VALUE.")
        values[key] = read_value(text)
    try:
        selector: Selector = kind(**values)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} with {values}: {error}") from None
    return selector


def read_value(text: str) -> object:
    """Return a Python literal, or else the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def build_model(
    options: Namespace, shape: tuple[int, ...], classes: int, mean: Tensor, deviation: Tensor
) -> nn.Module:
    """Build a model that takes raw inputs: they are scaled first."""
    factory = choose("model", options.model, MODELS)
    try:
        inner = start(factory, shape, classes, options.seed)
    except (TypeError, ValueError) as error:
        raise UsageError(f"--model {options.model} cannot be built: {error}.") from None
    if not isinstance(inner, nn.Module):
        raise UsageError(f"{options.model} returned {type(inner).__name__}, not an nn.Module.")
    return nn.Sequential(Scale(mean, deviation), inner)


def check_model(options: Namespace, schema: Schema | None) -> None:
    """Raise where a model of numbers would take codes of categories and texts for numbers."""
    plain = [model.__name__ for model in MODELS]
    if schema and schema.is_mixed and options.model.lower() in plain:
        name = next(c for c in schema.inputs if c.part != "numbers")
        raise UsageError(
            f"--model {options.model} takes numbers, and {name.name!r} is {name.kind}: leave out"
            " --model, or --drop such columns."
        )


def fill_in(options: Namespace, defaults: Mapping[str, object]) -> None:
    """Set the options that were not given."""
    for name, value in defaults.items():
        if getattr(options, name, None) is None:
            setattr(options, name, value)


def options_of_run(options: Namespace) -> dict[str, object]:
    """Return as JSON the options that the trainer was built with, so that it is built again."""
    found = {name: value for name, value in vars(options).items() if name not in OF_ONE_CALL}
    return {name: value for name, value in found.items() if is_json(value)}


def is_json(value: object) -> bool:
    """Return whether an option is a value of JSON, and stays the same as such."""
    if isinstance(value, list):
        return all(map(is_json, value))
    return value is None or isinstance(value, str | int | float)


def scale_of(model: nn.Module) -> Callable[[Tensor], Tensor] | None:
    """Return the scaling that a model begins with, on the CPU, to check rows by.

    None for the model for tables, which bounds all numbers. A scaling is copied when first used: a
    resumed run has loaded its own by then.
    """
    first = next(model.children())
    if not isinstance(first, Scale):
        return None

    @cache
    def copied() -> nn.Module:
        return copy.deepcopy(first).cpu()

    return lambda inputs: copied()(inputs.cpu())


def build_trainer(
    options: Namespace,
    model: nn.Module,
    selector: Selector,
    classes: int,
    validator: Validator,
    optimizer: torch.optim.Optimizer | None = None,
    augment: Augment | None = None,
    waiting: WaitingRoom | None = None,
) -> Trainer:
    """Build buffer and trainer, and SGD where no other optimiser is given."""
    if isinstance(selector, RHO) and options.window == 1:
        raise UsageError("RHO compares the weights with their average: give --window average.")
    if options.on_disk and options.device != "cpu":
        raise UsageError("--on-disk is for models on the CPU: leave it out, or --device.")
    check_device(options.device)
    try:
        device = torch.empty(0, device=options.device).device
        disk = {"disk": options.out} if options.on_disk else {}
        buffer = choose("buffer", options.buffer, BUFFERS)(options.capacity, **disk)
        warm_up = preferred_warm_up(selector) if options.warm_up is None else options.warm_up
        trainer = Trainer(
            model,
            optimizer or torch.optim.SGD(model.parameters(), options.rate),
            selector,
            buffer,
            k=options.k,
            warm_up=warm_up,
            window=options.window,
            ema=options.ema,
            pool_size=options.pool_size,
            validator=validator,
            waiting=waiting,
            annotators=JointLabels(classes) if options.annotator else None,
            tracker=Alarm(classes),
            execution=Execution(device),
            seed=options.seed,
            augment=augment,
        )
    except (ValueError, RuntimeError, AssertionError) as error:
        raise UsageError(str(error).splitlines()[0]) from None
    if isinstance(buffer, PuriDivER):
        buffer.view = trainer.averaged  # it chooses which rows to keep by the model's predictions
    return trainer
