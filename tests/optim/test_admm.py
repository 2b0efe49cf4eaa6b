"""ADMM against solvers of the same convex problems, and against its updates written by hand."""

from __future__ import annotations

import copy
import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from tamis import Growing, Oracle, Replay, Samples, Trainer
from tamis.models import logistic
from tamis.optim import ADMM
from tamis.streams import Constant, Symmetric, digits, gaussians

Loss = Callable[[Tensor, Tensor], Tensor]
WEIGHT_DECAY = 0.01
SPARSITY = 0.05
ROOT = Path(__file__).parents[2]


def make_model(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    model = logistic(input_shape, classes)
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    return model


def binary(logits: Tensor, labels: Tensor) -> Tensor:
    return binary_cross_entropy_with_logits(logits[:, 0], labels.to(logits.dtype))


def without_bias(model: nn.Module, **settings: float) -> list[dict]:
    """Groups that regularise the weight alone."""
    return [{"params": [model[1].weight], **settings}, {"params": [model[1].bias]}]


def descend(
    optimizer: ADMM, model: nn.Module, inputs: Tensor, labels: Tensor, loss: Loss, steps: int
) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        loss(model(inputs), labels).backward()
        optimizer.step()


def solve(
    model: nn.Module, penalised: list[nn.Parameter], inputs: Tensor, labels: Tensor, loss: Loss
) -> None:
    """Fit by L-BFGS, the L2 term written into the loss."""
    optimizer = torch.optim.LBFGS(
        model.parameters(),
        max_iter=1000,
        tolerance_grad=1e-8,
        tolerance_change=0,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        penalty = sum(parameter.square().sum() for parameter in penalised)
        value = loss(model(inputs), labels) + WEIGHT_DECAY / 2 * penalty
        value.backward()
        return value

    optimizer.step(closure)
    assert all(parameter.grad.abs().max() < 1e-6 for parameter in model.parameters())


def flat(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().double().flatten() for parameter in model.parameters()])


def flat_state(optimizer: ADMM, name: str) -> Tensor:
    states = [
        optimizer.state[theta] for group in optimizer.param_groups for theta in group["params"]
    ]
    return torch.cat([state[name].double().flatten() for state in states])


def test_two_gaussians_as_the_solvers_solve_them() -> None:
    data = gaussians()
    model = make_model(data.input_shape, 1)
    solved = copy.deepcopy(model).double()
    optimizer = ADMM(without_bias(model, weight_decay=WEIGHT_DECAY), lr=0.5)
    descend(optimizer, model, data.inputs, data.labels, binary, steps=250)
    solve(solved, [solved[1].weight], data.inputs.double(), data.labels, binary)
    theirs = LogisticRegression(C=1 / (len(data.labels) * WEIGHT_DECAY), tol=1e-8)
    theirs.fit(data.inputs.double().numpy(), data.labels.numpy())
    second = torch.tensor([*theirs.coef_[0], *theirs.intercept_], dtype=torch.float64)
    for optimum in (flat(solved), second):
        assert (flat(model) - optimum).abs().max() < 1e-3
        assert (flat_state(optimizer, "z") - optimum).abs().max() < 1e-3


def test_digits_as_the_solver_solves_them() -> None:
    data = digits()
    model = make_model(data.input_shape, 10)
    solved = copy.deepcopy(model).double()
    optimizer = ADMM(model.parameters(), lr=2.0, rho=0.1, weight_decay=WEIGHT_DECAY)
    descend(optimizer, model, data.inputs, data.labels, cross_entropy, steps=500)
    inputs = data.inputs.double()
    solve(solved, list(solved.parameters()), inputs, data.labels, cross_entropy)
    ours, theirs = model.double()(inputs).detach(), solved(inputs).detach()
    apart = cross_entropy(ours, data.labels) - cross_entropy(theirs, data.labels)
    assert apart.abs() < 1e-3
    assert (ours.softmax(dim=1) - theirs.softmax(dim=1)).abs().max() < 1e-3


def sparse_problem() -> tuple[Tensor, Tensor]:
    """Ten columns, of which the labels depend on three."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(200, 10, generator=generator, dtype=torch.float64)
    noise = torch.randn(200, generator=generator, dtype=torch.float64)
    return inputs, (inputs[:, :3] @ torch.tensor([2.0, -1.0, 1.0]).double() + noise > 0).long()


def proximal_gradient(inputs: Tensor, labels: Tensor, weight_decay: float) -> Tensor:
    """Weights, then bias: a gradient step, then each weight drawn to 0, one number at a time."""
    weight, bias, rate = [0.0] * inputs.shape[1], 0.0, 2.0
    for _ in range(300):
        logits = inputs @ torch.tensor(weight).double() + bias
        wrong = (logits.sigmoid() - labels) / len(labels)
        bias -= rate * wrong.sum().item()
        for column, gradient in enumerate((wrong @ inputs).tolist()):
            goal = weight[column] - rate * gradient
            size = max(0.0, abs(goal) - rate * SPARSITY) / (1 + rate * weight_decay)
            weight[column] = size if goal > 0 else -size
    return torch.tensor([*weight, bias]).double()


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_sparsity_gives_the_zeros_of_proximal_gradient(weight_decay: float) -> None:
    inputs, labels = sparse_problem()
    model = make_model((10,), 1).double()
    groups = without_bias(model, weight_decay=weight_decay, sparsity=SPARSITY)
    optimizer = ADMM(groups, lr=1.0, rho=0.1)
    descend(optimizer, model, inputs, labels, binary, steps=500)
    optimum, z = proximal_gradient(inputs, labels, weight_decay), flat_state(optimizer, "z")
    assert 5 <= (z == 0).sum() <= 7
    assert torch.equal(z == 0, optimum == 0)
    assert (z - optimum).abs().max() < 1e-6
    assert (flat(model) - optimum).abs().max() < 1e-6


def test_a_step_is_the_update_written_by_hand() -> None:
    lr, rho, weight_decay, sparsity = 0.2, 0.5, 0.3, 0.1
    theta = z = start = 1.0
    u = 0.0
    parameter = nn.Parameter(torch.tensor([start], dtype=torch.float64))
    optimizer = ADMM([parameter], lr, rho, weight_decay, sparsity)
    for gradient in (2.0, -0.7, 30.0):
        optimizer.zero_grad()
        (gradient * parameter).sum().backward()
        optimizer.step()
        # Where gradient + rho (theta - z + u) + (theta - before) / lr is 0.
        theta = (theta / lr + rho * (z - u) - gradient) / (1 / lr + rho)
        drawn = rho * (theta + u)
        z = (max(drawn - sparsity, 0) + min(drawn + sparsity, 0)) / (rho + weight_decay)
        u += theta - z
        found = [parameter, *optimizer.state[parameter].values()]
        assert torch.cat(found).tolist() == pytest.approx([theta, z, u])


def test_with_nothing_to_regularise_it_is_sgd(blobs: Samples) -> None:
    model = make_model((2,), 3)
    twin = copy.deepcopy(model)
    sgd = torch.optim.SGD(twin.parameters(), lr=0.5 / (1 + 0.5 * 2.0))
    descend(
        ADMM(model.parameters(), 0.5, 2.0), model, blobs.inputs, blobs.labels, cross_entropy, 20
    )
    descend(sgd, twin, blobs.inputs, blobs.labels, cross_entropy, 20)
    torch.testing.assert_close(flat(model), flat(twin))


def test_a_closure_is_called_and_its_loss_returned(blobs: Samples) -> None:
    model = make_model((2,), 3)
    twin = copy.deepcopy(model)
    optimizer = ADMM(model.parameters(), weight_decay=0.1)

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = cross_entropy(model(blobs.inputs), blobs.labels)
        value.backward()
        return value

    losses = [optimizer.step(closure).item() for _ in range(5)]
    again = ADMM(twin.parameters(), weight_decay=0.1)
    descend(again, twin, blobs.inputs, blobs.labels, cross_entropy, 5)
    assert losses == sorted(losses, reverse=True)
    assert torch.equal(flat(model), flat(twin))


def test_parameters_without_a_gradient_stay() -> None:
    used, unused = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    optimizer = ADMM([used, unused], weight_decay=0.1)
    used.sum().backward()
    assert optimizer.step() is None
    assert (used < 1).all()
    assert (unused == 1).all()


def test_torchs_schedulers_work() -> None:
    parameter = nn.Parameter(torch.ones(2))
    optimizer = ADMM([parameter], lr=1.0)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (step + 1) ** -0.5)
    for _ in range(3):
        parameter.grad = torch.ones(2)
        optimizer.step()
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_saved_and_resumed_equals_unbroken() -> None:
    inputs, labels = sparse_problem()
    inputs = inputs.float()

    def make() -> tuple[nn.Module, ADMM]:
        model = make_model((10,), 1)
        groups = without_bias(model, weight_decay=0.1, sparsity=SPARSITY)
        return model, ADMM(groups, lr=0.7, rho=0.3)

    model, optimizer = make()
    descend(optimizer, model, inputs, labels, binary, steps=10)
    file = io.BytesIO()
    torch.save([model.state_dict(), optimizer.state_dict()], file)
    descend(optimizer, model, inputs, labels, binary, steps=10)

    file.seek(0)
    weights, state = torch.load(file)
    resumed, optimizer_again = make()
    resumed.load_state_dict(weights)
    optimizer_again.load_state_dict(state)
    descend(optimizer_again, resumed, inputs, labels, binary, steps=10)
    assert torch.equal(flat(model), flat(resumed))
    for name in ("z", "u"):
        assert torch.equal(flat_state(optimizer, name), flat_state(optimizer_again, name))


def test_it_trains_in_the_trainer_on_a_noisy_stream() -> None:
    data = digits()
    model = make_model(data.input_shape, 10)
    optimizer = ADMM(model.parameters(), lr=1.0, weight_decay=1e-3)
    trainer = Trainer(model, optimizer, Oracle(), Growing(5000), k=32)
    stream = Replay(
        data.inputs, data.labels, Symmetric(10), Constant(0.6), slots=200, rows_per_slot=10
    )
    for _ in trainer.run(stream):
        pass
    accuracy = trainer.accuracy(data.test_inputs, data.test_labels)
    assert accuracy.raw > 0.9
    assert accuracy.ema > 0.9


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"lr": 0.0}, "lr above 0 and finite, got 0.0"),
        ({"rho": -1.0}, "rho above 0 and finite, got -1.0"),
        ({"rho": torch.inf}, "rho above 0 and finite, got inf"),
        ({"weight_decay": -0.1}, "weight_decay at least 0 and finite, got -0.1"),
        ({"sparsity": torch.nan}, "sparsity at least 0 and finite, got nan"),
    ],
)
def test_wrong_settings_get_a_sentence(settings: dict[str, float], text: str) -> None:
    parameter = nn.Parameter(torch.ones(2))
    with pytest.raises(ValueError, match=f"^ADMM needs {text}.$"):
        ADMM([parameter], **settings)
    with pytest.raises(ValueError, match=f"^ADMM needs {text}.$"):
        ADMM([{"params": [parameter], **settings}])


def test_the_page_names_the_lines_of_the_updates() -> None:
    source = (ROOT / "tamis/optim/admm.py").read_text().splitlines()
    page = (ROOT / "docs/methods/admm.md").read_text()
    quotes = re.findall(r"line (\d+): `(.+?)`", page)
    assert len(quotes) == 3
    for number, quote in quotes:
        assert source[int(number) - 1].strip() == quote
