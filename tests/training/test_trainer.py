"""The trainer: slots, seeds, odd streams, and what a slot reports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tamis import (
    ITLM,
    OGRS,
    Alarm,
    BadInputError,
    DivergedError,
    Execution,
    Growing,
    ModelView,
    Naive,
    Oracle,
    Picks,
    Plausible,
    Replay,
    Reservoir,
    Samples,
    Sliding,
    Slot,
    Trainer,
    Validator,
)
from tamis.losses import cross_entropy
from tamis.models import logistic, mlp
from tamis.selectors import SELECTORS, Selector
from tamis.selectors.plausible import Neighbours
from tamis.streams import Constant, Symmetric
from tamis.training.report import COUNTED


def make_model(kind=logistic, features: int = 2, classes: int = 3) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return kind((features,), classes)


def make_trainer(selector: Selector | None = None, **settings) -> Trainer:
    model = settings.pop("model", None) or make_model()
    return Trainer(
        model,
        torch.optim.SGD(model.parameters(), 0.5),
        selector or Naive(),
        settings.pop("buffer", Growing(1000)),
        k=settings.pop("k", 8),
        **settings,
    )


def stream_of(blobs: Samples, rows_per_slot: int = 4) -> Iterator[Samples]:
    for start in range(0, len(blobs), rows_per_slot):
        yield blobs[slice(start, start + rows_per_slot)]


@pytest.mark.parametrize("kind", SELECTORS, ids=lambda kind: kind.__name__)
def test_same_seed_same_numbers(kind, blobs: Samples) -> None:
    def play() -> tuple[list[Slot], dict[str, torch.Tensor]]:
        trainer = make_trainer(kind(), buffer=Reservoir(50), model=make_model(mlp), window=3)
        return list(trainer.run(stream_of(blobs, 8))), trainer.model.state_dict()

    (slots, weights), (again, weights_again) = play(), play()
    assert [slot.loss for slot in slots] == [slot.loss for slot in again]
    assert all(torch.equal(a.ids, b.ids) for a, b in zip(slots, again, strict=True))
    assert all(torch.equal(weights[name], weights_again[name]) for name in weights)


def test_it_learns_and_the_average_is_measured_beside_it(blobs: Samples) -> None:
    trainer = make_trainer(Oracle())
    for _ in trainer.run(stream_of(blobs)):
        pass
    accuracy = trainer.accuracy(blobs.inputs[blobs.clean], blobs.labels[blobs.clean])
    assert accuracy.raw > 0.95
    assert accuracy.ema > 0.95
    assert make_trainer(ema=None).accuracy(blobs.inputs, blobs.labels).ema is None


def test_a_step_is_torchs_own(blobs: Samples) -> None:
    trainer, twin = make_trainer(k=10_000), make_model()
    optimizer = torch.optim.SGD(twin.parameters(), 0.5)
    trainer.step(blobs)
    nn.functional.cross_entropy(twin(blobs.inputs), blobs.labels).backward()
    optimizer.step()
    for ours, theirs in zip(trainer.model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


class Weighted:
    """Picks two rows, one of them weighing nothing, with soft targets."""

    def select(self, pool, view, k, generator) -> Picks:
        return Picks(torch.tensor([0, 1]), torch.tensor([2.0, 0.0]), torch.full((2, 3), 1 / 3))


def test_weights_and_soft_targets_reach_the_loss(blobs: Samples) -> None:
    trainer, twin = make_trainer(Weighted()), make_model()
    slot = trainer.step(blobs)
    expected = -twin(blobs.inputs[:1]).log_softmax(dim=1).mean()
    assert slot.loss == pytest.approx(expected.item())


def test_warm_up_is_naive(blobs: Samples) -> None:
    warm, naive = make_trainer(ITLM(0.1), warm_up=20), make_trainer(Naive())
    pairs = list(zip(warm.run(stream_of(blobs)), naive.run(stream_of(blobs)), strict=True))
    assert all(torch.equal(a.ids, b.ids) for a, b in pairs[:20])
    assert not all(torch.equal(a.ids, b.ids) for a, b in pairs[20:])
    assert [a.warm_up for a, _ in pairs] == [True] * 20 + [False] * (len(pairs) - 20)


def test_a_slot_reports_what_happened(blobs: Samples) -> None:
    trainer = make_trainer(Oracle(), k=5)
    slots = list(trainer.run(stream_of(blobs)))
    picked: set[int] = set()
    for slot in slots:
        picked |= set(slot.ids.tolist())
    last = slots[-1]
    clean = set(blobs.ids[blobs.clean].tolist())
    assert (last.number, last.seen, last.held, last.skipped) == (74, 300, 300, 0)
    assert last.purity == 1
    assert last.coverage == pytest.approx(len(picked) / 300)
    assert last.recall == pytest.approx(len(picked & clean) / len(clean))
    assert last.class_picks.sum() == 5
    assert last.class_held.tolist() == torch.bincount(blobs.labels).tolist()
    assert trainer.buffer.pool().uses.sum() == sum(len(slot.ids) for slot in slots)


def test_agreement_is_measured_before_learning(blobs: Samples) -> None:
    trainer = make_trainer(Oracle())
    slots = list(trainer.run(stream_of(blobs)))
    assert slots[0].agreement is None  # the first chunk gives the number of classes
    late = [slot.agreement for slot in slots[40:]]
    assert sum(late) / len(late) == pytest.approx(0.7, abs=0.1)  # right about the clean 70%


def test_the_pool_bounds_what_a_selector_sees(blobs: Samples) -> None:
    seen = []

    class Spy(Naive):
        def select(self, pool, view, k, generator) -> Picks:
            seen.append(len(pool))
            return super().select(pool, view, k, generator)

    trainer = make_trainer(Spy(), pool_size=20)
    slots = list(trainer.run(stream_of(blobs)))
    assert max(seen) == 20
    assert len(set(torch.cat([slot.ids for slot in slots]).tolist())) > 100


def test_selectors_look_through_the_window(blobs: Samples) -> None:
    views = {}
    for window in (1, 4, "average"):
        trainer = make_trainer(ITLM(0.5), window=window)
        views[window] = [slot.ids.tolist() for slot in trainer.run(stream_of(blobs))]
    assert views[1] != views[4] != views["average"]


def test_a_slot_may_bring_nothing(blobs: Samples) -> None:
    trainer = make_trainer()
    assert trainer.step().loss is None  # nothing came, nothing is held
    trainer.step(blobs)
    assert trainer.step().loss is not None


def test_the_best_model_is_the_average(blobs: Samples) -> None:
    trainer = make_trainer(ema=0.9)
    for _ in trainer.run(stream_of(blobs)):
        pass
    best = trainer.best_model()
    torch.testing.assert_close(best(blobs.inputs), trainer.averaged.logits(blobs.inputs))
    assert not torch.equal(next(best.parameters()), next(trainer.model.parameters()))


@pytest.mark.parametrize("kind", SELECTORS, ids=lambda kind: kind.__name__)
class TestOddStreams:
    """Nothing here may raise, whatever the selector."""

    def test_empty(self, kind) -> None:
        assert list(make_trainer(kind(), window="average").run([])) == []

    def test_one_row(self, kind) -> None:
        one = Samples.of(torch.ones(1, 2), torch.tensor([2]), clean=torch.tensor([True]))
        (slot,) = make_trainer(kind(), k=64, window="average").run([one])
        assert slot.ids.tolist() == [0]

    def test_one_class(self, kind, blobs: Samples) -> None:
        one = blobs[blobs.labels == 1]
        assert all(
            slot.loss is not None
            for slot in make_trainer(kind(), window="average").run(stream_of(one))
        )

    def test_duplicates_only(self, kind) -> None:
        clean = torch.ones(4, dtype=torch.bool)
        same = Samples.of(torch.ones(4, 2), torch.ones(4, dtype=torch.long), clean=clean)
        assert all(
            slot.loss is not None
            for slot in make_trainer(kind(), window="average").run([same] * 20)
        )


def test_the_oracle_waits_for_a_clean_row() -> None:
    wrong = Samples.of(torch.ones(3, 2), torch.tensor([0, 1, 2]), clean=torch.zeros(3).bool())
    slot = make_trainer(Oracle()).step(wrong)
    assert (len(slot.ids), slot.loss, slot.purity) == (0, None, None)


def test_pairs_of_arrays_are_a_stream(blobs: Samples) -> None:
    pairs = [(part.inputs.numpy(), part.labels.numpy()) for part in stream_of(blobs)]
    slots = list(make_trainer().run(pairs))
    assert slots[-1].seen == 300
    assert slots[-1].purity is None
    assert np.isfinite([slot.loss for slot in slots]).all()


def as_frame(inputs: Tensor, labels: Tensor) -> Any:
    import pandas

    return pandas.DataFrame(inputs.double().numpy()), pandas.Series(labels.numpy())


@pytest.mark.parametrize(
    "convert",
    [
        lambda inputs, labels: (inputs.double().numpy(), labels.numpy()),
        lambda inputs, labels: (inputs.tolist(), labels.tolist()),
        lambda inputs, labels: (inputs.double(), labels.int()),
        as_frame,
    ],
    ids=["doubles", "lists", "double tensors", "frames"],
)
def test_rows_of_doubles_and_lists_train_a_model_of_singles(convert, blobs: Samples) -> None:
    one, two = make_trainer(Plausible()), make_trainer(Plausible())
    for rows in (blobs[:50], blobs[50:]):
        one.step((rows.inputs, rows.labels))
        two.step(convert(rows.inputs, rows.labels))
    assert all(map(torch.equal, one.model.parameters(), two.model.parameters()))
    assert two.held().inputs.dtype == torch.float32
    assert one.accuracy(blobs.inputs, blobs.labels) == two.accuracy(
        *convert(blobs.inputs, blobs.labels)
    )


def test_class_names_are_labels(blobs: Samples) -> None:
    names = ("ant", "bee", "cow")
    one, two = make_trainer(Plausible()), make_trainer(Plausible())
    one.validator, two.validator = Validator(3), Validator(names, on_bad="skip")
    for given in (list, np.array):
        labels = given([names[number] for number in blobs.labels.tolist()])
        one.step((blobs.inputs, blobs.labels))
        two.step((blobs.inputs, labels))
    assert all(map(torch.equal, one.model.parameters(), two.model.parameters()))
    assert two.accuracy(blobs.inputs, blobs.labels) == one.accuracy(blobs.inputs, blobs.labels)
    two.step((blobs.inputs[:3], ["ant", "dog", None]))
    assert two.validator.rejects.counts == {"label is not a class": 2}
    with pytest.raises(BadInputError, match=r"text; Validator\(classes=names\) takes names"):
        one.step((blobs.inputs[:1], ["ant"]))


def test_integers_for_a_model_of_floats_are_one_sentence(blobs: Samples) -> None:
    trainer = make_trainer(Plausible())
    with pytest.raises(BadInputError, match=r"Inputs are int64.*pass them as floats"):
        trainer.step((blobs.inputs.long(), blobs.labels))


def test_bad_rows_are_raised_or_counted(blobs: Samples) -> None:
    bad = (torch.tensor([[0.0, torch.nan], [1.0, 1.0], [2.0, 2.0]]), torch.tensor([0, 3, 1]))
    with pytest.raises(BadInputError, match="Row 0: inputs not finite"):
        make_trainer().step(bad)
    trainer = make_trainer(validator=Validator(on_bad="skip"))
    slot = trainer.step(bad)
    assert (slot.seen, slot.held, slot.skipped) == (3, 1, 2)
    assert dict(trainer.validator.rejects.counts) == {
        "inputs not finite": 1,
        "label is not a class": 1,
    }
    assert set(slot.ids.tolist()) == {2}


def test_a_stream_of_bad_rows_only_changes_nothing() -> None:
    trainer = make_trainer(validator=Validator(on_bad="skip"))
    slots = list(trainer.run([(torch.full((2, 2), torch.nan), torch.tensor([0, 1]))] * 3))
    assert [slot.loss for slot in slots] == [None] * 3
    assert slots[-1].skipped == 6


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"k": 0}, "k=0"),
        ({"window": None}, "window is .auto., .average. or a number"),
        ({"window": "average", "ema": None}, "set ema, or window"),
        ({"ema": 1.5}, "decay"),
        ({"patience": 0}, "patience is"),
    ],
)
def test_wrong_settings_get_a_sentence(settings: dict, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make_trainer(**settings)


def test_a_run_away_loss_stops_before_it_corrupts_the_model(blobs: Samples) -> None:
    model = make_model()
    before = [weight.clone() for weight in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), 1e38)
    trainer = Trainer(model, optimizer, Naive(), Growing(1000))
    with pytest.raises(DivergedError, match="lower the learning rate"):
        list(trainer.run(stream_of(blobs)))
    assert trainer.skipped_steps == 10
    assert all(map(torch.equal, before, model.parameters()))


@pytest.mark.parametrize("patience", [1, 4])
def test_patience_is_the_steps_skipped_in_a_row(blobs: Samples, patience: int) -> None:
    wrong = {5, 9, 10, 11} | set(range(20, 60))

    def criterion(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return cross_entropy(logits, targets) * (torch.nan if trainer.slots in wrong else 1)

    trainer = make_trainer(patience=patience, criterion=criterion)
    with pytest.raises(DivergedError, match=f"{patience} steps in a row"):
        list(trainer.run(stream_of(blobs)))
    assert trainer.slots == (5 if patience == 1 else 23)
    assert trainer.skipped_steps == (1 if patience == 1 else 8)
    assert not trainer.sound


def test_a_batch_norm_does_not_remember_what_was_skipped(blobs: Samples) -> None:
    model = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    trainer = make_trainer(model=model)
    trainer.step(blobs)
    before = {name: value.clone() for name, value in model[1].state_dict().items()}
    with torch.no_grad():
        model[0].weight.mul_(1e38)
    assert trainer.step().loss is None
    after = model[1].state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_buffer_that_cannot_be_saved_is_refused() -> None:
    class Mine(Growing):
        state_dict = None

    with pytest.raises(TypeError, match="has no `state_dict`"):
        make_trainer(buffer=Mine(5)).state_dict()


@pytest.mark.slow
def test_ogrs_trains_better_than_naive_where_rows_recur() -> None:
    data = torch.randn(400, 8, generator=torch.Generator().manual_seed(0))
    weight = torch.randn(8, 4, generator=torch.Generator().manual_seed(1))
    labels = (data @ weight).argmax(dim=1)
    test = torch.randn(1000, 8, generator=torch.Generator().manual_seed(2))
    truth = (test @ weight).argmax(dim=1)
    accuracy = {}
    for selector in (Naive(), OGRS()):
        trainer = make_trainer(selector, model=make_model(mlp, 8, 4), k=32, warm_up=100)
        stream = Replay(data, labels, Symmetric(4), Constant(0.6), slots=1, rows_per_slot=400)
        trainer.step(next(iter(stream)))
        for _ in range(1500):
            trainer.step()
        accuracy[type(selector)] = trainer.accuracy(test, truth).raw
    assert accuracy[OGRS] > accuracy[Naive] + 0.05


class TestKeptFeatures:
    """`refresh` keeps features in the buffer, and renews them in turn."""

    def test_all_are_fresh_where_nothing_is_learned(self, blobs: Samples) -> None:
        model = make_model(mlp)
        optimizer = torch.optim.SGD(model.parameters(), 0.0)
        trainer = Trainer(
            model, optimizer, OGRS(), Sliding(200), k=8, execution=Execution(refresh=16)
        )
        for slot in trainer.run(stream_of(blobs, 50)):
            assert slot.loss is not None
        pool = trainer.buffer.pool()
        torch.testing.assert_close(pool.features, trainer.view.features(pool.inputs))

    def test_they_are_renewed_in_turn(self, blobs: Samples) -> None:
        """A full round of slots renews every row, also where the round does not divide evenly."""
        model = make_model(mlp)
        optimizer = torch.optim.SGD(model.parameters(), 0.0)
        trainer = Trainer(
            model, optimizer, OGRS(), Growing(300), k=8, execution=Execution(refresh=70)
        )
        trainer.step(blobs)
        pool = trainer.buffer.pool()
        fresh = pool.features.clone()
        pool.features.zero_()
        for _ in range(6):  # every other slot renews 140 of 300 rows
            trainer.step()
        torch.testing.assert_close(pool.features, fresh)

    def test_the_walk_takes_them_without_a_pass(self, blobs: Samples) -> None:
        model = make_model(mlp)
        view = ModelView(model)
        kept = replace(blobs, features=view.features(blobs.inputs))
        picks = [
            OGRS().select(pool, view, 16, torch.Generator().manual_seed(0)).rows
            for pool in (blobs, kept)
        ]
        assert torch.equal(*picks)
        blind = replace(kept, inputs=torch.zeros_like(kept.inputs))
        again = OGRS().select(blind, view, 16, torch.Generator().manual_seed(0)).rows
        assert torch.equal(picks[0], again)

    def test_less_than_a_row_a_slot_is_refused(self) -> None:
        with pytest.raises(ValueError, match="at least 1 row"):
            Execution(refresh=0)


def test_shares_of_a_large_buffer_are_counted_now_and_then() -> None:
    rows = 5 * COUNTED
    samples = Samples.of(torch.randn(rows, 2), torch.zeros(rows, dtype=torch.long))
    trainer = make_trainer(buffer=Growing(rows), k=8)
    slots = [trainer.step(samples), *(trainer.step() for _ in range(9))]
    coverages = [slot.coverage for slot in slots]
    assert coverages[:5] == pytest.approx([8 / rows] * 5)
    assert coverages[5:] == pytest.approx([48 / rows] * 5, rel=0.05)


def test_a_graph_looks_through_one_state() -> None:
    with pytest.raises(ValueError, match="one state"):
        make_trainer(execution=Execution(graphed=True), window=3)


def test_what_is_augmented_is_what_is_learned(blobs: Samples) -> None:
    seen = []

    def halve(inputs, targets, classes, generator):
        seen.append((inputs.clone(), targets.clone(), classes))
        return inputs / 2, targets

    plain, halved = make_trainer(), make_trainer(augment=halve)
    first = [trainer.step(blobs).loss for trainer in (plain, halved)]
    assert first[0] != first[1]
    inputs, targets, classes = seen[0]
    assert (inputs.shape, targets.shape, classes) == ((8, 2), (8,), 3)


@pytest.mark.parametrize("refresh", [None, 16])
def test_lower_precision_learns_as_well(blobs: Samples, refresh: int | None) -> None:
    accuracies = []
    for precision in (None, torch.bfloat16):
        trainer = make_trainer(
            OGRS(),
            model=make_model(mlp),
            warm_up=300,
            execution=Execution(precision=precision, refresh=refresh),
        )
        trainer.step(blobs)
        for _ in range(400):
            trainer.step()
        right = replace(blobs, labels=torch.where(blobs.clean, blobs.labels, blobs.labels - 1) % 3)
        accuracies.append(trainer.accuracy(right.inputs, right.labels).raw)
    assert min(accuracies) > 0.95
    if refresh:
        assert trainer.buffer.pool().features.dtype == torch.bfloat16


class TestWindow:
    """`window` and `warm_up` follow the selector where they are "auto"."""

    def test_auto_is_what_the_selector_prefers(self, blobs: Samples) -> None:
        for kind, window in ((Plausible, "average"), (ITLM, 1)):
            auto, explicit = make_trainer(kind()), make_trainer(kind(), window=window)
            pairs = zip(auto.run(stream_of(blobs)), explicit.run(stream_of(blobs)), strict=True)
            assert all(torch.equal(one.picked, other.picked) for one, other in pairs)
            assert auto.settings() == explicit.settings()

    def test_warm_up_is_none_by_default(self) -> None:
        assert make_trainer(OGRS()).warm_up == 0
        assert make_trainer(OGRS(), warm_up="auto").warm_up == 200
        assert make_trainer(Plausible(), warm_up="auto").warm_up == 0

    def test_a_selector_that_prefers_the_average_needs_one(self) -> None:
        with pytest.raises(ValueError, match=r"Plausible .* set ema, or window"):
            make_trainer(Plausible(), ema=None)
        assert make_trainer(Plausible(), ema=None, window=1).window.length == 1


def test_what_is_saved_does_not_grow_with_the_stream() -> None:
    """Buffer, memory of the selector, tracker: once they are full, they stay as large."""

    def numbers_in(state: Any) -> int:
        if isinstance(state, Tensor):
            return state.numel()
        parts = state.values() if isinstance(state, dict) else state
        return sum(map(numbers_in, parts)) if isinstance(state, dict | list | tuple) else 1

    generator = torch.Generator().manual_seed(0)
    model = make_model()
    trainer = Trainer(
        model,
        torch.optim.SGD(model.parameters(), 0.1),
        Plausible(neighbours=Neighbours(voters=64)),
        Sliding(60),
        k=8,
        tracker=Alarm(3, half_life=50),
    )
    sizes = []
    for number in range(400):
        labels = torch.randint(3, (5,), generator=generator)
        inputs = torch.randn(5, 2, generator=generator) + labels[:, None]
        trainer.step(Samples.of(inputs, labels, 5 * number))
        if number % 10 == 0:
            sizes.append(numbers_in(trainer.state_dict()))
    assert max(sizes[20:]) <= max(sizes[:20])
