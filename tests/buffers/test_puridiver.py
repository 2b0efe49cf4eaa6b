"""PuriDivER's memory against the authors' rule, one row at a time."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from statistics import fmean, pstdev

import pytest
import torch
from torch import Generator, Tensor, nn

from tamis import Growing, ModelView, Naive, Replay, Trainer
from tamis.buffers import PuriDivER
from tamis.data import Samples
from tamis.models import logistic, mlp, start
from tamis.streams import Constant, Symmetric, digits

Row = tuple[int, int, list[float]]
"""Id, label, inputs."""


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def make_model(classes: int = 3) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, classes))


def arrivals(count: int, first: int = 0, classes: int = 3) -> Samples:
    generator = seeded(100 + first)
    labels = torch.randint(classes, (count,), generator=generator)
    return Samples.of(2 * torch.randn(count, 4, generator=generator), labels, first)


def as_input(row: Row) -> Tensor:
    return torch.tensor([row[2]], dtype=torch.float64)


def naive_loss(model: nn.Module, row: Row) -> float:
    logits = model(as_input(row))[0].tolist()
    return math.log(sum(math.exp(number) for number in logits)) - logits[row[1]]


def naive_features(model: nn.Module, row: Row) -> list[float]:
    """Those that speak for the row's class more than for the mean class."""
    weight = model[2].weight.tolist()
    features = model[1](model[0](as_input(row)))[0].tolist()
    return [
        number
        for place, number in enumerate(features)
        if weight[row[1]][place] > fmean(line[place] for line in weight)
    ]


def cosine(a: list[float], b: list[float]) -> float:
    length = math.hypot(*a) * math.hypot(*b)
    return sum(map(math.prod, zip(a, b, strict=True))) / length if length else 0.0


def z_scores(values: list[float]) -> list[float]:
    mean, deviation = fmean(values), pstdev(values)
    return [(value - mean) / deviation if deviation > 1e-9 else 0.0 for value in values]


def naive_append(
    memory: list[Row], chunk: list[Row], capacity: int, model: nn.Module, generator: Generator
) -> list[Row]:
    alpha = 0.5 * min(1.0, 1 / fmean(naive_loss(model, row) for row in chunk))
    memory = [*memory, *chunk]
    classes = list(dict.fromkeys(row[1] for row in memory))
    while len(memory) > capacity:
        sizes = {label: sum(row[1] == label for row in memory) for label in classes}
        largest = [label for label in classes if sizes[label] == max(sizes.values())]
        label = largest[int(torch.randint(len(largest), (1,), generator=generator))]
        rows = [row for row in memory if row[1] == label]
        features = [naive_features(model, row) for row in rows]
        likeness = [fmean(cosine(mine, other) for other in features) for mine in features]
        losses = z_scores([naive_loss(model, row) for row in rows])
        scores = [
            (1 - alpha) * loss + alpha * like
            for loss, like in zip(losses, z_scores(likeness), strict=True)
        ]
        memory.remove(rows[scores.index(max(scores))])
    return memory


def as_rows(samples: Samples) -> list[Row]:
    columns = (samples.ids.tolist(), samples.labels.tolist(), samples.inputs.tolist())
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize("chunks", [[1] * 25, [7, 8, 20, 3], [40]], ids=["1", "mixed", "40"])
def test_it_keeps_what_the_authors_keep(chunks: list[int]) -> None:
    model, capacity = make_model().double(), 12
    buffer, generator, naive_generator = PuriDivER(capacity, ModelView(model)), seeded(), seeded()
    memory: list[Row] = []
    arrived = 0
    for count in chunks:
        samples = arrivals(count, arrived)
        samples = replace(samples, inputs=samples.inputs.double())
        buffer.append(samples, generator)
        memory = naive_append(memory, as_rows(samples), capacity, model, naive_generator)
        assert sorted(memory) == sorted(as_rows(buffer.pool()))
        memory = as_rows(buffer.pool())  # in the same order, which ties are drawn by
        arrived += count
        with torch.no_grad():  # the model goes on learning, and rows are judged again
            for weight in model.parameters():
                weight += 0.2 * torch.randn(weight.shape, generator=seeded(arrived))


def test_a_pure_memory_of_a_model_that_knows(blobs: Samples, blob_model: nn.Module) -> None:
    def purity(view: ModelView | None) -> float:
        buffer, generator = PuriDivER(60, view), seeded()
        for first in range(0, 300, 10):
            buffer.append(blobs[slice(first, first + 10)], generator)
        clean = buffer.pool().clean
        assert clean is not None
        assert buffer.pool().labels.bincount().tolist() == [20, 20, 20]
        return clean.float().mean().item()

    assert purity(ModelView(blob_model)) > 0.95
    assert 0.6 < purity(None) < 0.85


def test_copies_go_before_rows_that_are_like_no_other() -> None:
    """Losses are equal by the model's symmetry, so that likeness decides."""
    model = nn.Linear(3, 2, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, 1.0, 1.0], [-1.0, -1.0, -1.0]]))
    rows = torch.eye(3)[[0, 0, 0, 0, 1, 2]]
    buffer = PuriDivER(3, ModelView(model))
    buffer.append(Samples.of(rows, torch.zeros(6, dtype=torch.long)), seeded())
    assert buffer.pool().inputs.unique(dim=0).shape == (3, 3)


def test_diversity_of_0_is_purity_alone() -> None:
    model, samples = make_model(), arrivals(30, classes=1)
    buffer = PuriDivER(10, ModelView(model), diversity=0.0)
    buffer.append(samples, seeded())
    losses = ModelView(model).losses(samples.inputs, samples.labels)
    assert set(buffer.pool().ids.tolist()) == set(losses.topk(10, largest=False).indices.tolist())


def test_rows_that_are_no_numbers_go_first() -> None:
    samples = arrivals(30)
    inputs = samples.inputs.clone()
    inputs[::4] = math.nan
    inputs[1] = math.inf
    buffer = PuriDivER(12, ModelView(make_model()))
    buffer.append(replace(samples, inputs=inputs), seeded())
    assert len(buffer) == 12
    assert buffer.pool().inputs.isfinite().all()
    hopeless = PuriDivER(2, ModelView(make_model()))
    hopeless.append(replace(samples, inputs=torch.full((30, 4), math.nan)), seeded())
    assert len(hopeless) == 2


@pytest.mark.parametrize("classes", [1, 3])
def test_one_row_one_class_and_copies(classes: int) -> None:
    same = Samples.of(torch.ones(9, 4), torch.arange(9) % classes)
    for capacity in (1, 4):
        buffer = PuriDivER(capacity, ModelView(make_model(classes)))
        for row in range(9):
            buffer.append(same[slice(row, row + 1)], seeded())
        assert len(buffer) == capacity


def test_only_classes_that_lose_rows_are_looked_at() -> None:
    seen: list[int] = []

    class Counting(ModelView):
        def features(self, inputs: Tensor) -> Tensor:
            seen.append(len(inputs))
            return super().features(inputs)

    samples = arrivals(20)
    labels = torch.tensor([0] * 10 + [1] * 5 + [2] * 5)
    buffer = PuriDivER(18, Counting(make_model()))
    buffer.append(replace(samples, labels=labels), seeded())
    assert seen == [10]
    assert buffer.pool().labels.bincount().tolist() == [8, 5, 5]


def test_without_a_model_every_row_of_the_largest_class_may_go() -> None:
    gone: Counter[int] = Counter()
    labels = torch.tensor([0, 0, 0, 0, 1])
    for seed in range(400):
        buffer = PuriDivER(4)
        buffer.append(Samples.of(torch.zeros(5, 1), labels), seeded(seed))
        gone.update(set(range(5)) - set(buffer.pool().ids.tolist()))
    assert gone[4] == 0
    assert all(60 < gone[row] < 140 for row in range(4))


def test_the_model_is_left_as_it_was() -> None:
    model = make_model().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    rng_state = torch.random.get_rng_state()
    PuriDivER(5, ModelView(model)).append(arrivals(20), seeded())
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(weight.grad is None for weight in model.parameters())
    assert torch.equal(torch.random.get_rng_state(), rng_state)


@pytest.mark.parametrize("diversity", [-0.1, 1.1])
def test_diversity_is_a_share(diversity: float) -> None:
    with pytest.raises(ValueError, match="Diversity is a weight"):
        PuriDivER(3, diversity=diversity)


def test_it_serves_the_trainer_and_grows_pure() -> None:
    data = digits()
    model = start(mlp, data.input_shape, 10, seed=0)
    buffer = PuriDivER(300)
    trainer = Trainer(model, torch.optim.SGD(model.parameters(), 0.1), Naive(), buffer)
    buffer.view = trainer.averaged
    stream = Replay(
        data.inputs, data.labels, Symmetric(10), Constant(0.6), slots=300, rows_per_slot=10
    )
    for _ in trainer.run(stream):
        pass
    clean = buffer.pool().clean
    assert clean is not None
    assert clean.float().mean() > 0.75
    assert buffer.pool().labels.bincount().tolist() == pytest.approx([30] * 10, abs=1)


def test_a_model_without_a_linear_end_is_refused() -> None:
    model = nn.Sequential(logistic((4,), 3), nn.Softplus())
    with pytest.raises(TypeError, match="ends in a linear layer"):
        PuriDivER(5, ModelView(model)).append(arrivals(20), seeded())


def test_the_growing_buffer_is_what_it_is_until_it_is_full() -> None:
    samples = arrivals(12)
    ours, theirs = PuriDivER(12, ModelView(make_model())), Growing(12)
    for buffer in (ours, theirs):
        buffer.append(samples, seeded())
    assert torch.equal(ours.pool().ids, theirs.pool().ids)
