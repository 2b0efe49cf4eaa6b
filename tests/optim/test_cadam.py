"""CAdam against the paper's algorithm 1, one number at a time, and against torch's Adam."""

from __future__ import annotations

import copy
import io
import math

import pytest
import torch
from torch import Generator, Tensor, nn

from tamis import Growing, Naive, Replay, Trainer
from tamis.models import mlp, start
from tamis.optim import CAdam
from tamis.streams import Constant, Symmetric, digits

Settings = dict[str, float | bool | tuple[float, float]]


def paper_weight(
    weight: float,
    gradients: list[float],
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    amsgrad: bool = False,
) -> float:
    m = v = v_max = 0.0
    for t, g in enumerate(gradients, start=1):
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g**2
        m_hat = m / (1 - betas[0] ** t)
        v_hat = v / (1 - betas[1] ** t)
        v_max = max(v_max, v_hat) if amsgrad else v_hat
        if m * g <= 0:
            m_hat = 0.0
        weight *= 1 - lr * weight_decay
        weight -= lr * m_hat / (math.sqrt(v_max) + eps)
    return weight


def play(optimizer: torch.optim.Optimizer, weights: list[Tensor], gradients: list[Tensor]) -> None:
    """Hand out gradients (steps, numbers), cut to the shapes of the weights."""
    sizes = [weight.numel() for weight in weights]
    for gradient in gradients:
        for weight, part in zip(weights, gradient.split(sizes), strict=True):
            weight.grad = part.reshape(weight.shape).clone()
        optimizer.step()


def make_weights(dtype: torch.dtype = torch.float64) -> list[nn.Parameter]:
    generator = Generator().manual_seed(0)
    return [
        nn.Parameter(torch.randn(shape, generator=generator, dtype=dtype))
        for shape in [(3, 2), (4,), ()]
    ]


def flat(weights: list[nn.Parameter]) -> list[float]:
    return torch.cat([weight.detach().flatten() for weight in weights]).tolist()


def noise(steps: int, seed: int = 1) -> Tensor:
    """Gradients whose signs change, some of them exactly 0."""
    generator = Generator().manual_seed(seed)
    gradients = torch.randn(steps, 11, generator=generator, dtype=torch.float64)
    return gradients * (torch.rand(steps, 11, generator=generator) < 0.9)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"lr": 0.1, "betas": (0.5, 0.8), "eps": 0.01},
        {"lr": 0.1, "weight_decay": 0.3},
        {"lr": 0.1, "betas": (0.9, 0.5), "amsgrad": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_number_moves_as_the_papers(settings: Settings, dtype: torch.dtype) -> None:
    weights, gradients = make_weights(dtype), noise(60)
    before = flat(weights)
    play(CAdam(weights, **settings), weights, list(gradients.to(dtype)))  # type: ignore[arg-type]
    expected = [
        paper_weight(weight, gradients[:, number].tolist(), **settings)  # type: ignore[arg-type]
        for number, weight in enumerate(before)
    ]
    assert flat(weights) == pytest.approx(expected, abs=1e-12 if dtype == torch.float64 else 1e-5)
    assert flat(weights) != pytest.approx(before, abs=1e-3)


@pytest.mark.parametrize("weight_decay", [0.0, 0.2])
def test_where_signs_agree_it_is_adam(weight_decay: float) -> None:
    gradients = noise(50).abs() + 0.1
    gradients[:, ::2] *= -1
    ours, theirs = make_weights(), make_weights()
    play(CAdam(ours, lr=0.01, weight_decay=weight_decay), ours, list(gradients))
    adam = torch.optim.AdamW(theirs, lr=0.01, weight_decay=weight_decay)
    play(adam, theirs, list(gradients))
    assert flat(ours) == pytest.approx(flat(theirs), abs=1e-12)


def test_where_signs_differ_it_waits_and_adam_does_not() -> None:
    gradients = [torch.ones(11, dtype=torch.float64)] * 5 + [-torch.ones(11, dtype=torch.float64)]
    ours, theirs = make_weights(), make_weights()
    optimizer, adam = CAdam(ours), torch.optim.Adam(theirs)
    play(optimizer, ours, gradients[:5])
    play(adam, theirs, gradients[:5])
    before = flat(ours)
    play(optimizer, ours, gradients[5:])
    play(adam, theirs, gradients[5:])
    assert flat(ours) == before
    assert max(flat(theirs)) < max(before)
    play(optimizer, ours, gradients[5:] * 10)
    assert all(now > then for now, then in zip(flat(ours), before, strict=True))


def test_signs_of_small_numbers_count() -> None:
    weight = nn.Parameter(torch.zeros(1))
    optimizer = CAdam([weight], eps=0.0)
    weight.grad = torch.full((1,), 1e-17)
    optimizer.step()
    assert weight.item() < 0


def test_a_parameter_without_gradient_stays_and_groups_have_settings_of_their_own() -> None:
    fast, slow, idle = (nn.Parameter(torch.ones(2)) for _ in range(3))
    optimizer = CAdam([{"params": [fast], "lr": 0.1}, {"params": [slow, idle]}], lr=0.01)
    fast.grad = slow.grad = torch.ones(2)
    optimizer.step()
    assert fast.tolist() == pytest.approx([0.9, 0.9])
    assert slow.tolist() == pytest.approx([0.99, 0.99])
    assert idle.tolist() == [1, 1]
    assert idle not in optimizer.state
    CAdam([nn.Parameter(torch.ones(2))]).step()


def test_a_closure_is_called_once_with_gradients() -> None:
    weight = nn.Parameter(torch.tensor(2.0))
    optimizer = CAdam([weight], lr=0.1)
    calls = []

    def closure() -> float:
        calls.append(1)
        optimizer.zero_grad()
        loss = weight.square()
        loss.backward()
        return loss.item()

    with torch.no_grad():
        assert optimizer.step(closure) == 4
    assert len(calls) == 1
    assert weight.item() == pytest.approx(1.9)


@pytest.mark.parametrize("amsgrad", [False, True])
def test_saved_and_resumed_equals_unbroken(amsgrad: bool) -> None:
    gradients = list(noise(20))
    weights = make_weights()
    optimizer = CAdam(weights, lr=0.1, amsgrad=amsgrad)
    play(optimizer, weights, gradients[:10])
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    copies = copy.deepcopy(weights)
    resumed = CAdam(copies, lr=0.1, amsgrad=amsgrad)
    resumed.load_state_dict(torch.load(file))
    play(optimizer, weights, gradients[10:])
    play(resumed, copies, gradients[10:])
    assert flat(weights) == flat(copies)


@pytest.mark.parametrize(
    "settings",
    [{"lr": -1.0}, {"lr": math.inf}, {"eps": -1e-9}, {"weight_decay": -0.1}, {"betas": (0.9, 1.0)}],
    ids=str,
)
def test_settings_out_of_range_are_refused(settings: Settings) -> None:
    with pytest.raises(ValueError, match=f"CAdam needs {next(iter(settings))}"):
        CAdam([nn.Parameter(torch.ones(1))], **settings)  # type: ignore[arg-type]
    optimizer = CAdam([nn.Parameter(torch.ones(1))])
    with pytest.raises(ValueError, match=f"CAdam needs {next(iter(settings))}"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))], **settings})


def test_it_trains_in_the_trainer_on_a_noisy_stream() -> None:
    data = digits()
    model = start(mlp, data.input_shape, 10, seed=0)
    trainer = Trainer(model, CAdam(model.parameters(), lr=2e-3), Naive(), Growing(1500), k=32)
    stream = Replay(
        data.inputs, data.labels, Symmetric(10), Constant(0.8), slots=150, rows_per_slot=10
    )
    for _ in trainer.run(stream):
        pass
    assert trainer.accuracy(data.test_inputs, data.test_labels).raw > 0.8
