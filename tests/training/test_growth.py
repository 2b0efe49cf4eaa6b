"""Trainers that grow by classes which come up: nothing learned is lost, and resume is exact."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tamis import Alarm, Naive, Plausible, Samples, Sliding, Trainer, Validator
from tamis.buffers import BUFFERS, WaitingRoom
from tamis.checkpoint import Checkpoints, RefusedError
from tamis.data import Event, Events
from tamis.errors import GrowthError
from tamis.losses import LOSSES, RunningConfusion, even_confusion
from tamis.losses.adaptation import NoiseAdaptation
from tamis.losses.corrected import Forward
from tamis.model_view import ModelView
from tamis.models import mlp, start
from tamis.optim import ADMM, CAdam
from tamis.selectors import RHO, SELECTORS, Selector
from tamis.sources import BadInputError
from tamis.training.growth import check_optimizer_growth, grow_optimizer
from tamis.training.pairs import PAIRS
from tests.support.identical import comparable, identical

CENTRES = torch.tensor([[0.0, 4.0], [4.0, -2.0], [-4.0, -2.0], [0.0, 0.0], [5.0, 5.0]])
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda weights: torch.optim.SGD(weights, 0.1, momentum=0.9),
    "adam": lambda weights: torch.optim.Adam(weights, 0.01, amsgrad=True),
    "adamw": lambda weights: torch.optim.AdamW(weights, 0.01),
    "adafactor": lambda weights: torch.optim.Adafactor(weights, 0.01),
    "cadam": lambda weights: CAdam(weights, 0.01),
    "admm": lambda weights: ADMM(weights, 0.01),
}


def rows(slots: int, classes: int, first: int = 0, seed: int = 0) -> Iterator[Samples]:
    """Points of so many classes, one in five labels wrong, ten a slot."""
    generator = torch.Generator().manual_seed(seed)
    for slot in range(slots):
        labels = torch.randint(classes, (10,), generator=generator)
        inputs = CENTRES[labels] + 0.5 * torch.randn(10, 2, generator=generator)
        clean = torch.rand(10, generator=generator) < 0.8
        given = torch.where(clean, labels, (labels + 1) % classes)
        yield Samples.of(inputs, given, first + 10 * slot, clean=clean)


def stream(before: int = 30, after: int = 40) -> list[Samples]:
    """Points of three classes, then of five."""
    return [*rows(before, 3), *rows(after, 5, 10 * before, seed=1)]


def make_trainer(
    selector: Selector | None = None, optimizer: str = "sgd", **settings: Any
) -> Trainer:
    model = start(mlp, (2,), 3, 0)
    return Trainer(
        model,
        OPTIMIZERS[optimizer](model.parameters()),
        selector or Plausible(),
        settings.pop("buffer", None) or Sliding(500),
        k=16,
        validator=settings.pop("validator", None) or Validator(3, max_classes=5),
        tracker=Alarm(3, 200.0),
        **settings,
    )


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_new_classes_are_learned_and_old_ones_kept(optimizer: str) -> None:
    trainer = make_trainer(optimizer=optimizer)
    test = next(rows(1, 3, seed=9))
    for samples in stream(60, 0):
        trainer.step(samples)
    view, right = trainer.averaged, test.labels[test.clean]
    assert view.logits(test.inputs[test.clean]).argmax(dim=1).equal(right)
    for samples in stream(60, 120)[60:]:
        trainer.step(samples)
    assert trainer.grown == 5
    assert [change.label for change in trainer.tracker.pop_class_changes()] == [3, 4]
    found = view.logits(CENTRES).argmax(dim=1)
    assert found.tolist() == [0, 1, 2, 3, 4]


def test_growing_changes_no_prediction_but_of_rows_far_from_all() -> None:
    trainer = make_trainer()
    for samples in stream(60, 0):
        trainer.step(samples)
    inputs = torch.cat([samples.inputs for samples in rows(20, 3, seed=5)])
    views = (trainer.now, trainer.averaged)
    before = [view.probabilities(inputs) for view in views]
    trainer.grow(5)
    for view, old in zip(views, before, strict=True):
        new = view.probabilities(inputs)
        assert new[:, 3:].mean() < 0.01
        assert (new.argmax(dim=1) == old.argmax(dim=1)).float().mean() > 0.99
        assert new[:, :3].argmax(dim=1).equal(old.argmax(dim=1))
        torch.testing.assert_close(new[:, :3] / new[:, :3].sum(dim=1, keepdim=True), old)
    state = copy.deepcopy(trainer.state_dict())
    trainer.grow(5)
    trainer.grow(2)
    assert identical(trainer.state_dict(), state), "there is nothing left to grow by"


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_state_of_an_optimiser_gets_rows(optimizer: str) -> None:
    """Against a layer that had the rows from the start, with a gradient of 0 in them."""
    small, large = nn.Linear(4, 3), nn.Linear(4, 5)
    with torch.no_grad():
        for name in ("weight", "bias"):
            getattr(large, name).copy_(torch.zeros_like(getattr(large, name)))
            getattr(large, name)[:3] = getattr(small, name)
    rules = [OPTIMIZERS[optimizer](layer.parameters()) for layer in (small, large)]
    for step in range(4):
        if step == 2:
            parameters = list(small.parameters())
            check_optimizer_growth(rules[0], parameters)
            for parameter, other in zip(parameters, large.parameters(), strict=True):
                grown = torch.cat([parameter.detach(), other.detach()[3:]])
                parameter.data, parameter.grad = grown, None
                grow_optimizer(rules[0], parameter, 3)
        for layer, rule in zip((small, large), rules, strict=True):
            for number, parameter in enumerate(layer.parameters()):
                gradient = torch.zeros_like(parameter)
                gradient[:3] = torch.full_like(gradient[:3], 0.1 * (1 + number + step))
                parameter.grad = gradient
            rule.step()
    if optimizer == "adafactor":  # its step is scaled by the size of the layer
        return
    for mine, other in zip(small.parameters(), large.parameters(), strict=True):
        torch.testing.assert_close(mine, other)
        for name, value in rules[0].state[mine].items():
            torch.testing.assert_close(value, rules[1].state[other][name])


@pytest.mark.parametrize("remembered", [torch.zeros(6), torch.zeros(2, 3), [torch.zeros(3, 2)]])
def test_an_optimiser_that_remembers_other_shapes_is_refused(remembered: Any) -> None:
    model = nn.Linear(2, 3)
    rule = torch.optim.SGD(model.parameters(), 0.1)
    rule.state[model.weight] = {"direction": remembered}
    with pytest.raises(GrowthError, match="The state of SGD cannot grow by a class"):
        check_optimizer_growth(rule, [model.weight])


@pytest.mark.parametrize("stop", [20, 30, 31, 45])
def test_saved_and_resumed_equals_unbroken(stop: int, tmp_path: Path) -> None:
    items = stream()
    unbroken = make_trainer()
    slots = list(unbroken.run(items))
    first = make_trainer()
    begun = list(first.run(items[:stop]))
    Checkpoints(tmp_path).save(first)
    again = make_trainer()
    Checkpoints(tmp_path).load(again)
    assert again.grown == (5 if stop > 30 else 0)
    rest = list(again.run(items[stop:]))
    assert identical(comparable(begun + rest), comparable(slots))
    assert identical(again.state_dict(), unbroken.state_dict())


def test_a_window_is_resumed_across_growth(tmp_path: Path) -> None:
    items = stream()
    unbroken = make_trainer(Naive(), window=5)
    slots = list(unbroken.run(items))
    first = make_trainer(Naive(), window=5)
    begun = list(first.run(items[:33]))
    Checkpoints(tmp_path).save(first)
    again = make_trainer(Naive(), window=5)
    Checkpoints(tmp_path).load(again)
    assert identical(comparable([*begun, *again.run(items[33:])]), comparable(slots))


def test_a_run_of_more_classes_does_not_go_back(tmp_path: Path) -> None:
    trainer = make_trainer()
    trainer.step(stream()[0])
    Checkpoints(tmp_path).save(trainer)
    trainer.grow(4)
    with pytest.raises(RefusedError, match="has grown to 4 classes since: build it again"):
        Checkpoints(tmp_path).load(trainer)


def test_growing_by_hand_is_resumed(tmp_path: Path) -> None:
    def make() -> Trainer:
        return make_trainer(validator=Validator(3))

    first = make()
    list(first.run(stream(10, 0)))
    first.grow(5)
    list(first.run(stream(10, 10)[10:]))
    Checkpoints(tmp_path).save(first)
    again = make()
    Checkpoints(tmp_path).load(again)
    assert identical(again.state_dict(), first.state_dict())
    assert again.validator.classes == 5


def test_a_closed_set_of_classes_stays_closed() -> None:
    trainer = make_trainer(validator=Validator(3, "skip"))
    list(trainer.run(stream()))
    assert trainer.grown == 0
    assert trainer.validator.rejects.counts.keys() == {"label is not a class"}


def test_beyond_the_limit_the_reason_is_its_own() -> None:
    trainer = make_trainer(validator=Validator(3, "skip", max_classes=4))
    list(trainer.run(stream()))
    assert trainer.grown == 4
    assert trainer.validator.rejects.counts.keys() == {"label beyond the limit of classes"}
    strict = make_trainer(validator=Validator(3, max_classes=4))
    with pytest.raises(BadInputError, match="beyond the limit of classes: not from 0 to 3"):
        list(strict.run(stream()))


def test_names_may_be_new() -> None:
    trainer = make_trainer(validator=Validator(["a", "b", "c"], max_classes=5))
    for samples in stream():
        trainer.step((samples.inputs, ["abcde"[label] for label in samples.labels.tolist()]))
    assert set(trainer.validator.names) == set("abcde")
    assert trainer.grown == 5


def test_the_number_of_classes_may_be_that_of_the_model() -> None:
    trainer = make_trainer(validator=Validator(max_classes=5))
    list(trainer.run(stream()))
    assert trainer.grown == trainer.validator.classes == 5


@pytest.mark.parametrize("buffer", [kind for kind in BUFFERS if kind is not WaitingRoom])
def test_buffers_take_new_classes(buffer: Any) -> None:
    trainer = make_trainer(buffer=buffer(200 if buffer.__name__ != "Growing" else 2000))
    list(trainer.run(stream()))
    assert trainer.held().labels.max() == 4


def test_a_correction_may_name_a_new_class() -> None:
    trainer = make_trainer()
    list(trainer.run(stream(30, 0)))
    ids = trainer.held().ids[:4]
    assert trainer.relabel(torch.tensor([10**6]), torch.tensor([4])) == 0
    assert trainer.grown == 0, "no row has the label"
    assert trainer.relabel(ids, torch.tensor([3, 3, 3, 3])) == 4
    assert trainer.grown == 4
    assert [change.label for change in trainer.tracker.pop_class_changes()] == [3]
    trainer.step()
    with pytest.raises(ValueError, match="below 5"):
        trainer.relabel(ids, torch.tensor([5, 5, 5, 5]))


def test_a_label_that_comes_late_may_be_of_a_new_class() -> None:
    trainer = make_trainer(waiting=WaitingRoom(50), validator=Validator(3, "skip", max_classes=5))
    row = Samples.of(torch.ones(1, 2), torch.tensor([-1]), 7)
    trainer.step(Events(row, (Event(7, 0, None),)))
    none = row[slice(0)]
    trainer.step(Events(none, (Event(7, None, 9),)))
    assert trainer.validator.rejects.counts["label beyond the limit of classes"] == 1
    trainer.step(Events(none, (Event(7, None, 4),)))
    assert trainer.grown == 5
    assert trainer.held().labels.tolist() == [4]
    trainer.step(Events(none, (Event(7, None, 0),)))
    assert trainer.held().labels.tolist() == [0]


@pytest.mark.parametrize("kind", PAIRS, ids=lambda kind: kind.__name__)
def test_two_models_grow_together(kind: Any, tmp_path: Path) -> None:
    def make() -> Any:
        models = tuple(start(mlp, (2,), 3, seed) for seed in (0, 1))
        rules = tuple(torch.optim.SGD(model.parameters(), 0.1) for model in models)
        return kind(
            models, rules, Sliding(500), k=16, batch=32, validator=Validator(3, max_classes=5)
        )

    items = stream()
    unbroken, first = make(), make()
    list(unbroken.run(items))
    list(first.run(items[:40]))
    Checkpoints(tmp_path).save(first)
    again = make()
    Checkpoints(tmp_path).load(again)
    list(again.run(items[40:]))
    assert identical(again.state_dict(), unbroken.state_dict())
    for learner in again.both:
        assert learner.averaged.probabilities(CENTRES).shape == (5, 5)


# The contract: whatever is part of a trainer grows, or refuses in one sentence.


def grows(trainer: Trainer) -> None:
    """Train across the growth, saved and loaded in between."""
    for samples in stream():
        slot = trainer.step(samples)
        if trainer.grown:
            assert len(slot.class_picks) == len(slot.class_held) == trainer.grown
    assert trainer.grown == 5
    state = trainer.state_dict()
    trainer.load_state_dict(copy.deepcopy(state))
    assert identical(trainer.state_dict(), state)


def refuses(make: Callable[[], Trainer]) -> None:
    with pytest.raises(GrowthError) as caught:
        make()
    text = str(caught.value)
    assert text.endswith(".")
    assert text.count(". ") == 0


@pytest.mark.parametrize(
    "kind", [kind for kind in SELECTORS if kind.__name__ != "Confident"], ids=lambda k: k.__name__
)
def test_every_selector_grows(kind: type[Selector]) -> None:
    grows(make_trainer(kind(), window="average"))


@pytest.mark.parametrize("kind", LOSSES, ids=lambda kind: kind.__name__)
def test_every_loss_grows_or_refuses(kind: Any) -> None:
    if isinstance(kind, type) and issubclass(kind, NoiseAdaptation):
        refuses(lambda: make_trainer(criterion=kind(even_confusion(3, 0.8))))
        return
    grows(make_trainer(criterion=kind() if isinstance(kind, type) else kind))


def test_what_knows_its_classes_beforehand_refuses() -> None:
    known = Forward(even_confusion(3, 0.8))
    assert "for 3 classes" in known.cannot_grow
    refuses(lambda: make_trainer(criterion=known))
    holdout = ModelView(start(mlp, (2,), 3, 1))
    refuses(lambda: make_trainer(RHO(holdout=holdout), window="average"))
    trainer = make_trainer(criterion=known, validator=Validator(3))
    before = copy.deepcopy(trainer.state_dict())
    refuses(lambda: trainer.grow(4))
    assert identical(trainer.state_dict(), before), "nothing has grown"


def test_a_running_confusion_begins_a_class_with_its_prior() -> None:
    confusion = RunningConfusion(prior=10.0)
    logits = torch.randn(20, 3, requires_grad=True) * 1
    confusion.update(logits, torch.arange(20) % 3)
    before = confusion.matrix(3)
    confusion.grow(4)
    torch.testing.assert_close(confusion.matrix(4)[:3, :3], before)
    assert confusion.matrix(4)[3].tolist() == [0, 0, 0, 1]
