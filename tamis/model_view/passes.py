"""Passes through a model that leave it as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

import torch
from torch import Tensor, nn

from tamis.errors import TamisError

FEW = 32
"""Columns up to which a softmax over rows is slower than one over columns."""


class ModelError(TamisError, TypeError):
    """A model that cannot be used, described in one sentence."""


def no_head(model: nn.Module) -> ModelError:
    """Return the error of a model whose features cannot be seen."""
    if hasattr(model, "_orig_mod"):
        return ModelError(
            "Feature space cannot look into a compiled model: pass the model that was compiled, or"
            " use a selector that needs no features."
        )
    name = type(model).__name__
    return ModelError(
        f"Feature space needs a model that ends in a linear layer, and {name} does not."
    )


def logits_of(output: object, model: nn.Module) -> Tensor:
    """Return the logits of what a model returned, which is them or has them."""
    logits = getattr(output, "logits", output)
    if isinstance(logits, Tensor):
        return logits
    raise ModelError(
        "A model must return logits, one row for each input, or an object with `logits`:"
        f" {type(model).__name__} returns a {type(logits).__name__}."
    )


def last_linear(model: nn.Module) -> tuple[str, nn.Linear]:
    """Return the name of the last linear layer, and the layer."""
    heads = [(name, part) for name, part in model.named_modules() if isinstance(part, nn.Linear)]
    if not heads:
        raise no_head(model)
    return heads[-1]


def same_but_for_type(returned: Tensor, logits: Tensor) -> bool:
    """Return whether a model's logits are what its head returned, up to a cast.

    Accelerate casts outputs to single precision wherever it trains in a lower one.
    """
    if returned is logits or returned.dtype == logits.dtype:
        return returned is logits
    return torch.equal(returned.to(logits.dtype), logits)


def at_least_float(tensor: Tensor) -> Tensor:
    """Return the tensor in single precision at least."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def softmax(logits: Tensor) -> Tensor:
    """Return the softmax of each row. Of few columns torch's own takes six times as long on a CPU.

    There it goes number by number, and so the classes are put first.
    """
    if logits.device.type != "cpu" or logits.shape[1] > FEW:
        return logits.softmax(dim=1)
    return logits.T.contiguous().softmax(dim=0).T.contiguous()


def softmax_(logits: Tensor) -> Tensor:
    """Return the softmax of each row; many columns are written over, as fresh memory costs more."""
    if logits.device.type != "cpu" or logits.shape[1] <= FEW or logits.requires_grad:
        return softmax(logits)
    return torch.softmax(logits, dim=1, out=logits)


def argmax(rows: Tensor) -> Tensor:
    """Return the place of the largest number of each row.

    Of many columns NumPy takes a tenth of the time on a CPU.
    """
    if rows.device.type != "cpu" or rows.shape[1] <= FEW or rows.requires_grad:
        return rows.argmax(dim=1)
    return torch.from_numpy(rows.numpy().argmax(axis=1))


def largest(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest number of each row, and its place."""
    if rows.device.type != "cpu" or rows.shape[1] <= FEW:
        values, places = rows.max(dim=1)
        return values, places
    places = argmax(rows)
    return rows.gather(1, places[:, None])[:, 0], places


def two_largest(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the two largest numbers of each row, (rows, 2), and their places."""
    if rows.device.type != "cpu" or rows.shape[1] <= FEW:
        values, places = rows.topk(2, dim=1)
        return values, places
    first = argmax(rows)[:, None]
    highest = rows.gather(1, first)
    second = argmax(rows.scatter_(1, first, -torch.inf))[:, None]
    rows.scatter_(1, first, highest)
    return torch.cat([highest, rows.gather(1, second)], 1), torch.cat([first, second], 1)


def casting(device: torch.device, precision: torch.dtype | None) -> torch.autocast:
    """Return a context that runs in this precision, if one is given."""
    return torch.autocast(device.type, precision, enabled=precision is not None)


@contextmanager
def multiplied_by_onednn(device: torch.device) -> Iterator[None]:
    """Multiply matrices by oneDNN on CPUs where that is twice as fast as the default, MKL.

    They have AVX-512 and, for torch's switch, bfloat16. Without tiles (AMX) oneDNN multiplies
    single precision in single precision all the same.
    """
    if device.type != "cpu" or not prefers_onednn():
        yield
        return
    matmul = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = matmul.fp32_precision
    matmul.fp32_precision = "bf16"
    try:
        yield
    finally:
        matmul.fp32_precision = before


@lru_cache(maxsize=1)
def prefers_onednn() -> bool:
    """Return whether oneDNN multiplies single precision, and has a switch for it."""
    has_bfloat16, has_tiles = (
        getattr(torch.cpu, name, lambda: False)()
        for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    )
    known = hasattr(getattr(torch.backends.mkldnn, "matmul", None), "fp32_precision")
    return bool(known and torch.backends.mkldnn.is_available() and has_bfloat16 and not has_tiles)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Run in evaluation mode, then restore the mode of every module."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def gradient(losses: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """Return the gradient of each row's loss at its own point: one backward pass of their sum."""
    with torch.enable_grad():
        at = at.detach().requires_grad_()
        return torch.autograd.grad(losses(at).sum(), at)[0]


def mean_of(tensors: Iterator[Tensor]) -> Tensor:
    """Return the mean of tensors, added from the first on."""
    total, count = next(tensors), 1
    for tensor in tensors:
        total, count = total + tensor, count + 1
    return total if count == 1 else total / count


def share_memory(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors are, or are parts of, the same memory."""
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
