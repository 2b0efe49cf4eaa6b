"""The local model against its definition, and what it must leave alone."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from tamis import models
from tamis.losses import cross_entropy
from tamis.model_view import Average, ModelView, Window


def rows(generator: Generator, count: int = 9) -> tuple[Tensor, Tensor]:
    inputs = torch.randn(count, 5, generator=generator, dtype=torch.float64)
    return inputs, torch.randint(4, (count,), generator=generator)


def net(seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 4)).double()


def train_a_little(model: nn.Module, generator: Generator) -> None:
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=generator, dtype=weight.dtype)


@pytest.mark.parametrize("length", [1, 2, 5])
def test_window_is_the_mean_over_the_last_states(generator: Generator, length: int) -> None:
    inputs, labels = rows(generator)
    model, window, kept = net(), Window(length), []
    for _ in range(7):
        train_a_little(model, generator)
        window.update(model)
        kept.append(copy.deepcopy(model))
    view = ModelView(model, window)
    last = kept[-length:]

    losses = torch.stack(
        [functional.cross_entropy(m(inputs), labels, reduction="none") for m in last]
    )
    torch.testing.assert_close(view.losses(inputs, labels), losses.mean(dim=0).detach())
    probabilities = torch.stack([m(inputs).softmax(dim=1) for m in last]).mean(dim=0)
    torch.testing.assert_close(view.probabilities(inputs), probabilities.detach())

    at = inputs.clone().requires_grad_()
    mean_loss = (
        sum(functional.cross_entropy(m(at), labels, reduction="none") for m in last) / length
    )
    gradients = torch.autograd.grad(mean_loss.sum(), at)[0]
    torch.testing.assert_close(view.input_gradients(inputs, labels), gradients)


def test_average_follows_its_recursion(generator: Generator) -> None:
    model, average = net(), Average(0.7)
    expected = None
    for step in range(1, 9):
        train_a_little(model, generator)
        average.update(model)
        decay = min(0.7, (1 + step) / (10 + step))
        weight = model[0].weight.detach().clone()
        expected = weight if expected is None else decay * expected + (1 - decay) * weight
    torch.testing.assert_close(average.states(model)[0]["0.weight"], expected)


def test_features_and_their_gradients(generator: Generator) -> None:
    inputs, labels = rows(generator)
    model = net()
    view = ModelView(model)
    features = model[:2](inputs).detach()
    torch.testing.assert_close(view.features(inputs), features)

    at = features.clone().requires_grad_()
    loss = functional.cross_entropy(model[2](at), labels, reduction="sum")
    torch.testing.assert_close(
        view.feature_gradients(inputs, labels), torch.autograd.grad(loss, at)[0]
    )
    errors = model(inputs).softmax(dim=1) - functional.one_hot(labels, 4)
    torch.testing.assert_close(
        view.feature_gradients(inputs, labels), (errors @ model[2].weight).detach()
    )


@pytest.mark.parametrize("length", [1, 3])
def test_one_pass_gives_features_and_probabilities(generator: Generator, length: int) -> None:
    inputs, _ = rows(generator)
    model, window = net(), Window(length)
    for _ in range(length + 1):
        train_a_little(model, generator)
        window.update(model)
    view = ModelView(model, window, chunk=4)
    features, probabilities = view.features_and_probabilities(inputs)
    assert probabilities.shape == (9, 4)
    torch.testing.assert_close(features, view.features(inputs))
    torch.testing.assert_close(probabilities, view.probabilities(inputs))
    newest = view.newest().probabilities(inputs)
    assert torch.allclose(probabilities, newest) == (length == 1)


@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("bias", [True, False])
def test_probabilities_at_features_are_those_at_their_inputs(
    generator: Generator, averaged: bool, bias: bool
) -> None:
    inputs, _ = rows(generator)
    model, memory = net(), Average(0.7) if averaged else None
    if not bias:
        model[2] = nn.Linear(7, 4, bias=False).double()
    for _ in range(3):
        train_a_little(model, generator)
        if memory:
            memory.update(model)
    view = ModelView(model, memory, chunk=4)
    found = view.probabilities_at(view.features(inputs))
    torch.testing.assert_close(found, view.probabilities(inputs))
    torch.testing.assert_close(found.sum(dim=1), torch.ones(9, dtype=torch.float64))


def test_probabilities_at_features_are_the_mean_over_the_window(generator: Generator) -> None:
    features = torch.randn(9, 7, generator=generator, dtype=torch.float64)
    model, window, kept = net(), Window(3), []
    for _ in range(4):
        train_a_little(model, generator)
        window.update(model)
        kept.append(copy.deepcopy(model[2]))
    probabilities = torch.stack([head(features).softmax(dim=1) for head in kept[-3:]]).mean(dim=0)
    torch.testing.assert_close(
        ModelView(model, window).probabilities_at(features), probabilities.detach()
    )


def test_feature_gradients_serve_any_criterion(generator: Generator) -> None:
    inputs, labels = rows(generator)
    model = net()

    def absolute(logits: Tensor, classes: Tensor) -> Tensor:
        return (logits.softmax(dim=1) - functional.one_hot(classes, 4)).abs().sum(dim=1)

    at = model[:2](inputs).detach().requires_grad_()
    gradients = torch.autograd.grad(absolute(model[2](at), labels).sum(), at)[0]
    found = ModelView(model, criterion=absolute).feature_gradients(inputs, labels)
    torch.testing.assert_close(found, gradients)


def test_chunks_change_nothing(generator: Generator) -> None:
    inputs, labels = rows(generator, 50)
    at_once, parts = ModelView(net()), ModelView(net(), chunk=7)
    torch.testing.assert_close(at_once.losses(inputs, labels), parts.losses(inputs, labels))
    torch.testing.assert_close(
        at_once.input_gradients(inputs, labels), parts.input_gradients(inputs, labels)
    )


def test_the_model_is_left_as_it_was(generator: Generator) -> None:
    model = models.resnet18((3, 8, 8), 4).train()
    frozen = next(part for part in model.modules() if isinstance(part, nn.BatchNorm2d))
    frozen.eval()  # one part in another mode than the rest
    images = torch.randn(6, 3, 8, 8, generator=generator)
    labels = torch.randint(4, (6,), generator=generator)
    model(images).sum().backward()
    before = copy.deepcopy(model.state_dict())
    gradients = [weight.grad.clone() for weight in model.parameters()]
    modes = [part.training for part in model.modules()]

    view = ModelView(model)
    view.losses(images, labels)
    view.probabilities(images)
    view.features(images)
    view.input_gradients(images, labels)
    view.feature_gradients(images, labels)
    view.probabilities_at(view.features_and_probabilities(images)[0])

    assert [part.training for part in model.modules()] == modes
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    for weight, gradient in zip(model.parameters(), gradients, strict=True):
        assert torch.equal(weight.grad, gradient)
    assert not any(part._forward_hooks for part in model.modules())


def test_the_mode_comes_back_after_an_error() -> None:
    model = nn.Linear(2, 2).train()
    with pytest.raises(RuntimeError):
        ModelView(model).losses(torch.zeros(3, 99), torch.zeros(3, dtype=torch.long))
    assert model.training


@pytest.mark.parametrize(
    "model", [nn.Sequential(nn.Linear(5, 4), nn.Softplus()), nn.Conv1d(1, 1, 1), nn.Flatten()]
)
def test_only_feature_space_asks_for_a_linear_last_layer(model: nn.Module) -> None:
    inputs = torch.randn(3, 5, generator=Generator().manual_seed(0))[:, None]
    ModelView(model).logits(inputs)
    with pytest.raises(TypeError, match="ends in a linear layer"):
        ModelView(model).features(inputs)


def test_a_missing_label_is_no_perfect_one() -> None:
    with pytest.raises(IndexError):
        cross_entropy(torch.zeros(1, 3), torch.tensor([-100]))


@pytest.mark.parametrize("factory", models.MODELS)
@pytest.mark.parametrize("shape", [(8, 8), (3, 8, 8)])
def test_models_take_images(factory: object, shape: tuple[int, ...], generator: Generator) -> None:
    model = factory(shape, 7).eval()  # type: ignore[operator]
    images = torch.randn(2, *shape, generator=generator)
    assert model(images).shape == (2, 7)
    assert ModelView(model).features(images).dim() == 2


def test_resnet18_has_the_usual_size() -> None:
    # 11,173,962 is the count of the CIFAR-10 ResNet-18 that the field uses (small stem, 10 classes)
    model = models.resnet18((3, 32, 32), 10)
    assert sum(weight.numel() for weight in model.parameters()) == 11_173_962


def test_large_pictures_pass_a_few_at_a_time() -> None:
    """Scaled and convolved at once, some thousand of them would take gigabytes."""
    seen: list[int] = []

    class Counting(nn.Module):
        def forward(self, pictures: Tensor) -> Tensor:
            seen.append(len(pictures))
            return pictures.float().mean(dim=(2, 3))

    pictures = torch.randint(256, (60, 3, 256, 256), dtype=torch.uint8)
    logits = ModelView(Counting()).logits(pictures)
    assert max(seen) * pictures[0].numel() <= 2**22
    assert torch.equal(logits, pictures.float().mean(dim=(2, 3)))
