"""What every loss must do. It walks the package: a new loss is covered by being there."""

from __future__ import annotations

import copy
import importlib
import inspect
import pkgutil

import pytest
import torch
from torch import Generator, Tensor, nn

from tamis import losses
from tamis.data import Samples
from tamis.losses import LOSSES, Criterion, NoiseAdaptation, cross_entropy, even_confusion
from tamis.model_view import ModelView

each = pytest.mark.parametrize("kind", LOSSES, ids=lambda kind: kind.__name__)


def make(kind, classes: int = 4) -> Criterion:
    if inspect.isclass(kind) and issubclass(kind, NoiseAdaptation):
        return kind(even_confusion(classes, 0.8))
    return kind() if inspect.isclass(kind) else kind


def gradient(criterion: Criterion, logits: Tensor, targets: Tensor) -> Tensor:
    at = logits.clone().requires_grad_()
    return torch.autograd.grad(criterion(at, targets).sum(), at)[0]


def test_every_loss_is_listed() -> None:
    found = {cross_entropy}
    for module in pkgutil.iter_modules(losses.__path__, "tamis.losses."):
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            called = any("__call__" in base.__dict__ for base in kind.__mro__)
            if kind.__module__ == module.name and called and not inspect.isabstract(kind):
                found.add(kind)
    assert found == set(LOSSES)


@each
def test_one_loss_per_row(kind, logits: Tensor, labels: Tensor, shares: Tensor) -> None:
    for targets in (labels, shares):
        given = make(kind)(logits, targets)
        assert given.shape == (12,)
        assert given.isfinite().all()
        alone = torch.cat(
            [make(kind)(logits[i : i + 1], targets[i : i + 1]) for i in range(len(logits))]
        )
        torch.testing.assert_close(given, alone)


@each
def test_a_share_of_one_is_a_class_number(kind, logits: Tensor, labels: Tensor) -> None:
    shares = nn.functional.one_hot(labels, 4).double()
    torch.testing.assert_close(make(kind)(logits, labels), make(kind)(logits, shares))


@each
def test_single_and_half_precision(kind, logits: Tensor) -> None:
    labels = torch.arange(12) % 4
    exact = make(kind)(logits, labels).float()
    torch.testing.assert_close(make(kind)(logits.float(), labels), exact, rtol=1e-4, atol=1e-4)
    half = make(kind)(logits.bfloat16(), labels).float()
    torch.testing.assert_close(half, exact, rtol=0.05, atol=0.05)


@each
def test_lower_precision_by_autocast(kind, logits: Tensor, labels: Tensor, shares: Tensor) -> None:
    for targets in (labels, shares.float()):
        exact = make(kind)(logits.float(), targets)
        with torch.autocast("cpu", torch.bfloat16):
            half = make(kind)(logits.float(), targets)
        torch.testing.assert_close(half.float(), exact, rtol=0.02, atol=0.02)


@each
def test_gradients_are_those_of_the_losses(
    kind, logits: Tensor, labels: Tensor, shares: Tensor
) -> None:
    criterion = make(kind)
    if isinstance(criterion, nn.Module):
        criterion.double()
    for targets in (labels, shares):
        at = logits.clone().requires_grad_()
        assert torch.autograd.gradcheck(lambda x, y=targets: criterion(x, y), at, atol=1e-4)


@each
@pytest.mark.parametrize("label", [-100, -1, 4, 2**31])
def test_a_label_without_output_raises(kind, logits: Tensor, labels: Tensor, label: int) -> None:
    labels[5] = label
    with pytest.raises((IndexError, RuntimeError), match="out of bounds"):
        make(kind)(logits, labels)


@each
def test_targets_that_do_not_fit_raise(kind, logits: Tensor, labels: Tensor) -> None:
    square = logits[:4]
    for wrong in (labels[:3], labels[:4].double(), labels[:4, None], torch.ones(1, 4).double()):
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            make(kind)(square, wrong)


@each
def test_one_class_leaves_nothing_to_lose(kind) -> None:
    given = make(kind, 1)(torch.randn(3, 1), torch.zeros(3, dtype=torch.long))
    torch.testing.assert_close(given, torch.zeros(3))


@each
def test_no_rows(kind) -> None:
    assert make(kind)(torch.zeros(0, 4), torch.zeros(0, dtype=torch.long)).shape == (0,)


@each
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_row_that_is_not_finite_affects_itself_alone(
    kind, logits: Tensor, labels: Tensor, bad: float
) -> None:
    corrupt = logits.clone()
    corrupt[3] = bad
    criterion = make(kind)
    given = criterion(corrupt, labels)
    assert given.isnan().nonzero().flatten().tolist() == [3]
    rest = torch.arange(12) != 3
    torch.testing.assert_close(given[rest], make(kind)(logits, labels)[rest])
    assert criterion(logits, labels).isfinite().all(), "it remembers what was not finite"


@each
@pytest.mark.parametrize("scale", [0.0, 1e3])
def test_gradients_stay_finite_far_out_and_at_ties(
    kind, logits: Tensor, labels: Tensor, shares: Tensor, scale: float
) -> None:
    for targets in (labels, shares.float()):
        far = scale * logits.float()
        assert make(kind)(far, targets).isfinite().all()
        assert gradient(make(kind), far, targets).isfinite().all()


@each
def test_it_changes_no_argument_and_draws_no_random_number(
    kind, logits: Tensor, labels: Tensor, shares: Tensor
) -> None:
    rng_state = torch.random.get_rng_state()
    for targets in (labels, shares):
        before = logits.clone(), targets.clone()
        criterion = make(kind)
        described = repr(criterion)
        criterion(logits, targets)
        assert torch.equal(logits, before[0])
        assert torch.equal(targets, before[1])
        assert repr(criterion) == described
    assert torch.equal(torch.random.get_rng_state(), rng_state)


@each
def test_a_local_model_looks_through_it(kind, blobs: Samples, blob_model: nn.Module) -> None:
    criterion = make(kind, 3)
    view = ModelView(blob_model, criterion=criterion)
    seen = view.losses(blobs.inputs, blobs.labels)
    torch.testing.assert_close(seen, criterion(blob_model(blobs.inputs), blobs.labels).detach())
    assert view.feature_gradients(blobs.inputs, blobs.labels).isfinite().all()


@each
def test_a_model_learns_from_it(kind, blobs: Samples, generator: Generator) -> None:
    """Three labels in ten are wrong. With a loss upside down, none would be predicted."""
    model, criterion = nn.Linear(2, 3), make(kind, 3)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(200):
        rows = torch.randint(len(blobs), (32,), generator=generator)
        optimizer.zero_grad()
        criterion(model(blobs.inputs[rows]), blobs.labels[rows]).mean().backward()
        optimizer.step()
    predicted = model(blobs.inputs).argmax(dim=1)
    assert (predicted == blobs.labels)[blobs.clean].float().mean() > 0.95


@each
def test_it_can_be_copied(kind, logits: Tensor, labels: Tensor) -> None:
    criterion = make(kind)
    criterion(logits, labels)
    twin = copy.deepcopy(criterion)
    torch.testing.assert_close(twin(logits, labels), criterion(logits, labels))
