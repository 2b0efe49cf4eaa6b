"""The hedge over depths against the paper's algorithm 1, written out depth by depth."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy as mean_cross_entropy

from tamis import OGRS, Average, Growing, ModelView, Replay, Trainer
from tamis.losses import cross_entropy
from tamis.models import start
from tamis.models.hedge import HedgeLoss, HedgeMLP, hedge_mlp
from tamis.streams import Constant, Symmetric, digits


def make_model(hidden: int = 3, seed: int = 0) -> HedgeMLP:
    model = start(
        lambda shape, classes: HedgeMLP(shape[0], classes, hidden=hidden, width=8), (5,), 4, seed
    )
    assert isinstance(model, HedgeMLP)
    with torch.no_grad():  # some depths are trusted more than others
        model.weights.copy_(torch.arange(1.0, hidden + 2) / sum(range(hidden + 2)))
    return model


def rows(count: int = 6) -> tuple[Tensor, Tensor]:
    generator = Generator().manual_seed(1)
    inputs = torch.randn(count, 5, generator=generator)
    return inputs, torch.randint(4, (count,), generator=generator)


def naive_logits(model: HedgeMLP, row: list[float]) -> list[list[float]]:
    """f^(l) before its softmax, for l = 0 to L."""

    def linear(layer: nn.Module, fed: list[float]) -> list[float]:
        weight, bias = layer.weight.tolist(), layer.bias.tolist()
        return [
            sum(w * x for w, x in zip(line, fed, strict=True)) + b
            for line, b in zip(weight, bias, strict=True)
        ]

    found = [linear(model.classifiers[0], row)]
    for layer, classifier in zip(model.layers, list(model.classifiers)[1:], strict=True):
        row = [max(0.0, number) for number in linear(layer, row)]
        found.append(linear(classifier, row))
    return found


def softmax(logits: list[float]) -> list[float]:
    powers = [math.exp(number) for number in logits]
    return [power / sum(powers) for power in powers]


def paper_weights(
    weights: list[float], losses: list[float], hidden: int, discount: float, smoothing: float
) -> list[float]:
    least, most = min(losses), max(losses)
    scaled = [(loss - least) / (most - least) if most > least else 0.0 for loss in losses]
    weights = [w * discount**loss for w, loss in zip(weights, scaled, strict=True)]
    weights = [max(w, smoothing / hidden) for w in weights]
    return [w / sum(weights) for w in weights]


def test_the_prediction_is_the_weighted_mean_of_the_classifiers() -> None:
    model, (inputs, _) = make_model().eval(), rows()
    found = model(inputs).exp()
    for row, probabilities in zip(inputs.tolist(), found.tolist(), strict=True):
        by_depth = [softmax(logits) for logits in naive_logits(model, row)]
        expected = [
            sum(w * f[c] for w, f in zip(model.weights.tolist(), by_depth, strict=True))
            for c in range(4)
        ]
        assert probabilities == pytest.approx(expected, abs=1e-6)
    assert torch.allclose(ModelView(model).probabilities(inputs), found)


@pytest.mark.parametrize("hidden", [1, 3, 6])
def test_weights_move_as_the_papers(hidden: int) -> None:
    model = HedgeMLP(5, 4, hidden=hidden, width=8, discount=0.8, smoothing=0.3)
    weights = [1 / (hidden + 1)] * (hidden + 1)
    generator = Generator().manual_seed(0)
    for _ in range(30):
        losses = torch.rand(hidden + 1, generator=generator) * torch.arange(1.0, hidden + 2)
        model.hedge(losses)
        weights = paper_weights(weights, losses.tolist(), hidden, 0.8, 0.3)
        assert model.weights.tolist() == pytest.approx(weights, abs=1e-5)
    assert model.weights.sum().item() == pytest.approx(1)
    assert max(weights) > 1.5 * min(weights)
    assert weights[0] == max(weights)


def test_equal_losses_change_nothing() -> None:
    model = make_model()
    before = model.weights.tolist()
    model.hedge(torch.full((4,), 2.5))
    assert model.weights.tolist() == pytest.approx(before)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_losses_that_are_not_finite_change_nothing(bad: float) -> None:
    model = make_model()
    before = model.weights.clone()
    model.hedge(torch.tensor([1.0, bad, 2.0, 3.0]))
    assert torch.equal(model.weights, before)


def test_a_step_is_the_papers() -> None:
    """Theta_l learns by alpha_l of its own loss, W_l by those of all depths from l on."""
    model, (inputs, labels) = make_model().train(), rows()
    paper, alpha = copy.deepcopy(model), model.weights.tolist()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = HedgeLoss(model)(model(inputs), labels).mean()
    loss.backward()
    optimizer.step()

    by_depth = paper.logits_by_depth(inputs)
    depths = len(alpha)
    losses = [mean_cross_entropy(by_depth[:, depth], labels) for depth in range(depths)]
    moves = {name: torch.zeros_like(weight) for name, weight in paper.named_parameters()}
    for depth in range(depths):
        names = [f"classifiers.{depth}.{kind}" for kind in ("weight", "bias")]
        names += [f"layers.{below}.{kind}" for below in range(depth) for kind in ("weight", "bias")]
        parts = [paper.get_parameter(name) for name in names]
        gradients = torch.autograd.grad(losses[depth], parts, retain_graph=True)
        for name, gradient in zip(names, gradients, strict=True):
            moves[name] += alpha[depth] * gradient
    for name, weight in model.named_parameters():
        expected = paper.get_parameter(name) - 0.1 * moves[name]
        assert torch.allclose(weight, expected, atol=1e-6), name

    depth_losses = [value.item() for value in losses]
    assert loss.item() == pytest.approx(sum(map(math.prod, zip(alpha, depth_losses, strict=True))))
    expected_weights = paper_weights(alpha, depth_losses, hidden=3, discount=0.99, smoothing=0.2)
    assert model.weights.tolist() == pytest.approx(expected_weights, abs=1e-6)


def test_soft_targets_and_one_row() -> None:
    model = make_model().train()
    inputs, labels = rows(1)
    criterion = HedgeLoss(model)
    hard = criterion(model(inputs), labels)
    model.load_state_dict(make_model().state_dict())
    soft = criterion(model(inputs), nn.functional.one_hot(labels, 4).float())
    assert hard.shape == soft.shape == (1,)
    assert torch.allclose(hard, soft)


def test_only_training_hedges() -> None:
    model, (inputs, labels) = make_model(), rows()
    criterion, before = HedgeLoss(model), model.weights.clone()
    view = ModelView(model.train(), Average(), criterion)
    assert view.logits(inputs).shape == (6, 4)
    assert torch.allclose(view.losses(inputs, labels), ModelView(model).losses(inputs, labels))
    assert view.input_gradients(inputs, labels).shape == inputs.shape
    assert torch.equal(model.weights, before)
    assert model.training
    criterion(model(inputs), labels)
    assert not torch.equal(model.weights, before)


def test_without_its_criterion_the_mixture_learns_and_the_weights_stay() -> None:
    model, (inputs, labels) = make_model().train(), rows()
    before = model.weights.clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    first = cross_entropy(model(inputs), labels).mean()
    for _ in range(50):
        optimizer.zero_grad()
        loss = cross_entropy(model(inputs), labels).mean()
        loss.backward()
        optimizer.step()
    assert loss < first / 2
    assert torch.equal(model.weights, before)


def test_the_factory_takes_images_and_has_no_feature_space() -> None:
    model = hedge_mlp((3, 8, 8), 7).eval()
    images = torch.randn(2, 3, 8, 8, generator=Generator().manual_seed(0))
    assert model(images).shape == (2, 7)
    assert len(model.classifiers) == 20
    with pytest.raises(TypeError, match="ends in a linear layer, and HedgeMLP does not"):
        ModelView(model).features(images)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"hidden": 0}, "at least 1 hidden layer, got hidden=0"),
        ({"discount": 1.0}, r"discount in \(0, 1\), got 1.0"),
        ({"smoothing": 0.0}, r"smoothing in \(0, 1\), got 0.0"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, float], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        HedgeMLP(2, 2, **settings)  # type: ignore[arg-type]


def test_it_trains_in_the_ordinary_trainer_and_saves_its_weights() -> None:
    data = digits()
    model = start(lambda _, classes: HedgeMLP(64, classes, hidden=4), data.input_shape, 10, seed=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    selector = OGRS(space="inputs")
    trainer = Trainer(
        model, optimizer, selector, Growing(2000), warm_up=140, criterion=HedgeLoss(model)
    )
    stream = Replay(
        data.inputs, data.labels, Symmetric(10), Constant(0.8), slots=150, rows_per_slot=10
    )
    for _ in trainer.run(stream):
        pass
    assert trainer.accuracy(data.test_inputs, data.test_labels).raw > 0.8
    assert model.weights.max() > 1.1 * model.weights.min()
    best = trainer.best_model()
    assert best(data.test_inputs).shape == (len(data.test_labels), 10)
    assert best.weights.sum().item() == pytest.approx(1, abs=1e-4)
    again = HedgeMLP(64, 10, hidden=4)
    again.load_state_dict(model.state_dict())
    assert torch.equal(again.eval()(data.test_inputs), model.eval()(data.test_inputs))
