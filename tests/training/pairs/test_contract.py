"""What every pair must do. It walks the package: a new one is covered by being there."""

from __future__ import annotations

import copy
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Generator, nn

from tamis import (
    BadInputError,
    DivergedError,
    Growing,
    Monitor,
    Picks,
    Reservoir,
    Samples,
    Slot,
    Validator,
)
from tamis.losses import cross_entropy
from tamis.models import logistic, mlp, resnet18, start
from tamis.training import pairs
from tamis.training.pairs import PAIRS, DivideMix
from tamis.training.pairs.two_models import TwoModels

each = pytest.mark.parametrize("kind", PAIRS, ids=lambda kind: kind.__name__)


def stream_of(blobs: Samples, rows_per_slot: int = 4) -> Iterator[Samples]:
    for first in range(0, len(blobs), rows_per_slot):
        yield blobs[slice(first, first + rows_per_slot)]


def two(factory, shape: tuple[int, ...] = (2,), classes: int = 3) -> tuple[nn.Module, nn.Module]:
    return start(factory, shape, classes, 0), start(factory, shape, classes, 1)


def test_every_pair_is_listed() -> None:
    found = {
        kind
        for module in pkgutil.iter_modules(pairs.__path__, "tamis.training.pairs.")
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass)
        if issubclass(kind, TwoModels) and not inspect.isabstract(kind)
    }
    assert found == set(PAIRS)


@each
def test_same_seed_same_numbers(kind, blobs: Samples, make_pair, generator: Generator) -> None:
    # Inputs without information on the label, and small steps: so the two disagree for long.
    hard = replace(blobs, inputs=torch.randn(300, 2, generator=generator))

    def play(seed: int) -> tuple[list[Slot], list[torch.Tensor]]:
        pair = make_pair(kind, models=two(mlp), buffer=Reservoir(50), rate=0.005, seed=seed)
        slots = list(pair.run([hard] + [None] * 75))
        return slots, [weight for one in pair.both for weight in one.model.parameters()]

    state = torch.random.get_rng_state()
    (slots, weights), (again, weights_again), (others, _) = play(0), play(0), play(1)
    assert [slot.loss for slot in slots] == [slot.loss for slot in again]
    assert sum(slot.loss is not None for slot in slots) > 20
    assert all(torch.equal(a.ids, b.ids) for a, b in zip(slots, again, strict=True))
    assert all(map(torch.equal, weights, weights_again))
    assert [slot.loss for slot in slots] != [slot.loss for slot in others]
    assert torch.equal(torch.random.get_rng_state(), state), (
        "random numbers came from torch's global state"
    )


@each
def test_both_models_learn(kind, blobs: Samples, make_pair) -> None:
    pair = make_pair(kind, rate=0.1, k=16)
    list(pair.run([blobs] + [None] * 300))
    inputs, labels = blobs.inputs[blobs.clean], blobs.labels[blobs.clean]
    for one in pair.both:
        assert one.accuracy(inputs, labels).ema > 0.9


@each
def test_a_slot_reports_what_happened(kind, blobs: Samples, make_pair) -> None:
    pair = make_pair(kind, k=5)
    slots = list(pair.run(stream_of(blobs)))
    picked: set[int] = set()
    for slot in slots:
        ids = slot.ids.tolist()
        assert len(set(ids)) == len(ids)  # a row that both learned from is one pick
        if ids:
            assert slot.purity == pytest.approx(blobs.clean[ids].float().mean().item())
            assert (
                slot.class_picks.tolist() == torch.bincount(blobs.labels[ids], minlength=3).tolist()
            )
        picked |= set(ids)
    last = slots[-1]
    assert (last.number, last.seen, last.held, last.skipped, pair.slots) == (74, 300, 300, 0, 75)
    assert last.coverage == pytest.approx(len(picked) / 300)
    assert pair.buffer.pool().uses.sum() == sum(len(slot.ids) for slot in slots)
    assert 0 < last.select_seconds < last.seconds
    assert slots[0].agreement is None
    assert last.agreement is not None


@each
def test_a_monitor_takes_its_slots(kind, blobs: Samples, make_pair) -> None:
    pair = make_pair(kind)
    monitor = Monitor(evaluate=lambda: pair.accuracy(blobs.inputs, blobs.labels), every=25)
    for slot in pair.run(stream_of(blobs)):
        monitor.update(slot)
    assert len(monitor.tested) == 3
    assert all(line.to_json() for line in monitor.tested)


@each
def test_accuracy_and_best_model_are_those_of_the_first(kind, blobs: Samples, make_pair) -> None:
    pair = make_pair(kind, models=two(mlp), ema=0.9)
    list(pair.run(stream_of(blobs)))
    first, second = pair.both
    assert first.model is pair.model
    best = pair.best_model()
    torch.testing.assert_close(best(blobs.inputs), first.averaged.logits(blobs.inputs))
    assert not torch.allclose(best(blobs.inputs), second.averaged.logits(blobs.inputs))
    right = pair.model(blobs.inputs).argmax(dim=1) == blobs.labels
    assert pair.accuracy(blobs.inputs, blobs.labels).raw == right.float().mean().item()
    assert second.average.steps == first.average.steps > 0
    assert make_pair(kind, ema=None).accuracy(blobs.inputs, blobs.labels).ema is None


@each
def test_it_works_without_knowing_what_is_clean(kind, blobs: Samples, make_pair) -> None:
    with_truth, without = (
        list(make_pair(kind).run(stream_of(rows))) for rows in (blobs, replace(blobs, clean=None))
    )
    assert all(torch.equal(a.ids, b.ids) for a, b in zip(with_truth, without, strict=True))
    assert {slot.purity for slot in without} == {None}


@each
def test_only_uses_change_in_the_buffer(kind, blobs: Samples, make_pair) -> None:
    pair = make_pair(kind)
    list(pair.run([blobs] + [None] * 10))
    for name, column in pair.buffer.pool().columns().items():
        assert torch.equal(column, blobs.columns()[name]) == (name != "uses")


@each
class TestOddStreams:
    """Nothing here may raise."""

    def test_empty(self, kind, make_pair) -> None:
        assert list(make_pair(kind).run([])) == []

    def test_nothing_came(self, kind, make_pair) -> None:
        assert make_pair(kind).step().loss is None

    def test_one_row(self, kind, make_pair) -> None:
        one = Samples.of(torch.tensor([[0.0, 1.0]]), torch.tensor([2]))
        slots = list(make_pair(kind, k=64).run([one] + [None] * 200))
        assert slots[0].ids.tolist() == [0]  # the two models disagree about it at first
        assert {tuple(slot.ids.tolist()) for slot in slots} <= {(0,), ()}

    def test_one_class(self, kind, blobs: Samples, make_pair) -> None:
        (first, *_) = make_pair(kind).run(stream_of(blobs[blobs.labels == 1], 20))
        assert first.loss is not None

    def test_duplicates_only(self, kind, make_pair) -> None:
        same = Samples.of(torch.tensor([[0.0, 1.0]]).expand(4, 2), torch.ones(4).long())
        (first, *_) = make_pair(kind).run([same] * 20)
        assert first.loss is not None

    def test_k_larger_than_the_buffer(self, kind, blobs: Samples, make_pair) -> None:
        slots = list(make_pair(kind, k=64, buffer=Growing(300)).run(stream_of(blobs, 10)))
        assert 1 <= len(slots[0].ids) <= 10
        assert max(len(slot.ids) for slot in slots) <= 300

    def test_images_and_batch_norm(self, kind, make_pair, generator) -> None:
        images = torch.rand(12, 3, 8, 8, generator=generator)
        labels = torch.randint(2, (12,), generator=generator)
        pair = make_pair(kind, models=two(resnet18, (3, 8, 8), 2), k=6, rate=0.01)
        slots = list(pair.run([Samples.of(images, labels), None]))
        assert all(slot.held == 12 for slot in slots)


@each
def test_bad_rows_are_raised_or_counted(kind, make_pair) -> None:
    bad = (torch.tensor([[0.0, torch.nan], [1.0, 1.0], [0.0, 1.0]]), torch.tensor([0, 3, 1]))
    with pytest.raises(BadInputError, match="Row 0: inputs not finite"):
        make_pair(kind).step(bad)
    pair = make_pair(kind, validator=Validator(on_bad="skip"))
    slot = pair.step(bad)
    assert (slot.seen, slot.held, slot.skipped) == (3, 1, 2)
    assert slot.ids.tolist() == [2]


@each
def test_picks_of_weight_0_change_nothing(kind, blobs: Samples, make_pair, monkeypatch) -> None:
    """A GPU fills up with them, so that nobody waits to hear how many rows were picked."""

    def play() -> tuple[list[Slot], list[torch.Tensor]]:
        batch = 48 if kind is DivideMix else 16  # it learns from all rows of a batch of k
        pair = make_pair(kind, rate=0.01, k=16, batch=batch)
        pair.slots = 1000  # where a schedule has come to its end
        slots = list(pair.run([blobs] + [None] * 30))
        assert pair.buffer.pool().uses.sum() == sum(len(slot.ids) for slot in slots)
        return slots, [weight for one in pair.both for weight in one.model.parameters()]

    def as_on_a_gpu(rows: torch.Tensor, real: torch.Tensor) -> Picks:
        return Picks(rows, real * (len(rows) / real.sum().clamp_min(1)))

    slots, weights = play()
    monkeypatch.setattr(Picks, "only", as_on_a_gpu)
    filled, same_weights = play()
    for ours, theirs in zip(slots, filled, strict=True):
        assert set(ours.ids.tolist()) == set(theirs.ids.tolist())
        assert ours.purity == pytest.approx(theirs.purity)
        assert ours.class_picks.tolist() == theirs.class_picks.tolist()
    assert max(len(slot.picked) - len(slot.ids) for slot in filled) > 0
    for ours, theirs in zip(weights, same_weights, strict=True):
        torch.testing.assert_close(ours, theirs)


def always_nan(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return cross_entropy(logits, targets) * torch.nan


@each
def test_a_loss_that_is_not_a_number_corrupts_neither_model(
    kind, blobs: Samples, make_pair
) -> None:
    pair = make_pair(kind, criterion=always_nan)
    before = [copy.deepcopy(one.model.state_dict()) for one in pair.both]
    assert [pair.step(blobs).loss for _ in range(9)] == [None] * 9
    assert (pair.skipped_steps, pair.sound) == (9, False)
    with pytest.raises(DivergedError, match="By slot 9, 10 steps in a row"):
        pair.step(blobs)
    for one, weights in zip(pair.both, before, strict=True):
        assert all(torch.equal(one.model.state_dict()[name], weights[name]) for name in weights)


@each
def test_a_run_away_loss_stops(kind, blobs: Samples, make_pair) -> None:
    pair = make_pair(kind, rate=1e38)
    with pytest.raises(DivergedError, match="lower the learning rate"):
        list(pair.run([blobs] + [None] * 50))
    assert all(weight.isfinite().all() for one in pair.both for weight in one.model.parameters())


@each
def test_what_augments_is_called_for_picks(kind, blobs: Samples, make_pair) -> None:
    calls = []

    def double(inputs, targets, classes, generator):
        calls.append((len(inputs), classes, generator))
        soft = targets.is_floating_point()
        return 2 * inputs, targets if soft else nn.functional.one_hot(targets, classes).float()

    pair = make_pair(kind, augment=double)
    slot = pair.step(blobs)
    assert slot.loss is not None
    assert all(0 < count <= len(slot.ids) for count, _, _ in calls)
    assert {(classes, generator) for _, classes, generator in calls} == {(3, pair.generator)}
    plain = make_pair(kind)
    assert slot.loss != plain.step(blobs).loss
    assert torch.equal(pair.buffer.pool().inputs, plain.buffer.pool().inputs)


@each
def test_models_that_start_identical_are_refused(kind, make_pair) -> None:
    model = start(logistic, (2,), 3, 0)
    for other in (model, copy.deepcopy(model)):
        with pytest.raises(ValueError, match="start identical"):
            make_pair(kind, models=(model, other))


@each
def test_models_may_differ_in_kind(kind, blobs: Samples, make_pair) -> None:
    models = (start(logistic, (2,), 3, 0), start(mlp, (2,), 3, 0))
    assert make_pair(kind, models=models).step(blobs).loss is not None


@each
@pytest.mark.parametrize(
    ("settings", "text"), [({"k": 0}, "at least 1"), ({"batch": 0}, "batch=0")]
)
def test_wrong_settings_get_a_sentence(kind, make_pair, settings: dict, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make_pair(kind, **settings)


@each
@pytest.mark.parametrize("setting", ["pool_size", "tracker", "window", "windw"])
def test_unsupported_settings_are_refused(kind, make_pair, setting: str) -> None:
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{setting}'"):
        make_pair(kind, **{setting: 1})


@each
def test_rows_held_are_relabelled_and_removed(kind, blobs: Samples, make_pair) -> None:
    trainer = make_pair(kind)
    for samples in stream_of(blobs[slice(100)]):
        trainer.step(samples)
    right = torch.where(blobs.clean, blobs.labels, (blobs.labels - 1) % 3)
    wrong = int((~blobs.clean[:100]).sum())
    assert trainer.relabel(blobs.ids, right) == wrong
    assert trainer.buffer.pool().labels.equal(right[:100])
    assert trainer.remove(torch.arange(0, 100, 2)) == 50
    for _ in range(20):
        slot = trainer.step()
        assert slot.held == 50
        assert (slot.ids % 2 == 1).all()
        assert slot.purity in (1, None)  # None where the two agree on all rows


@each
def test_corrections_reach_the_rows_held(kind, blobs: Samples, make_pair) -> None:
    pair = make_pair(kind, buffer=Growing(300))
    pair.step(blobs)
    wrong = blobs.ids[~blobs.clean]
    right = (blobs.labels[~blobs.clean] - 1) % 3
    assert pair.relabel(wrong, right) == len(wrong)
    assert pair.relabel(wrong, right) == 0
    assert pair.remove(torch.tensor([0, 1, 999])) == 2
    held = pair.buffer.pool()
    assert len(held) == 298
    assert torch.equal(held.labels[torch.isin(held.ids, wrong)], right[wrong > 1])
    assert pair.step().loss is not None or pair.skipped_steps == 0
    with pytest.raises(ValueError, match="below 3"):
        pair.relabel(wrong[:1], torch.tensor([3]))
