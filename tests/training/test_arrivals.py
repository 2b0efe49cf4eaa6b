"""Rows and labels that come apart: in either order, twice, changed, withdrawn, late."""

from __future__ import annotations

import random

import pytest
import torch

from tamis import Naive, Sliding, Trainer
from tamis.buffers import WaitingRoom
from tamis.data import UNLABELLED, Event, Events, Samples
from tamis.models import mlp
from tamis.noise import Alarm
from tamis.selectors import Plausible
from tamis.sources import BadInputError, Validator
from tests.support.identical import identical

CLASSES = 4


def trainer_of(waiting: WaitingRoom | None, selector=None, **settings) -> Trainer:  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    model = mlp((3,), classes=CLASSES)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return Trainer(
        model, optimizer, selector or Naive(), Sliding(200), k=4, waiting=waiting,
        tracker=Alarm(CLASSES), **settings,
    )  # fmt: skip


def samples_of(ids: list[int], labels: list[int | None]) -> Samples:
    numbers = torch.tensor(ids, dtype=torch.long)
    given = torch.tensor([UNLABELLED if label is None else label for label in labels])
    generator = torch.Generator().manual_seed(7)
    table = torch.randn(1000, 3, generator=generator)
    return Samples(table[numbers], given.long(), numbers, torch.zeros_like(numbers))


def slot_of(*events: Event) -> Events:
    """Return events as one slot; events with a `row` that is not None get their place."""
    rows = [event for event in events if event.row is not None]
    placed = []
    for event in events:
        placed.append(event if event.row is None else event._replace(row=rows.index(event)))
    return Events(samples_of([e.id for e in rows], [e.label for e in rows]), tuple(placed))


def row(row_id: int, label: int | None = None, **more: float) -> Event:
    return Event(row_id, 0, label, **more)  # type: ignore[arg-type]


def label(row_id: int, label: int | None, **more: float) -> Event:
    return Event(row_id, None, label, **more)  # type: ignore[arg-type]


def held(trainer: Trainer) -> dict[int, int]:
    pool = trainer.held()
    return dict(zip(pool.ids.tolist(), pool.labels.tolist(), strict=True))


@pytest.mark.parametrize(
    ("events", "expected", "waits"),
    [
        pytest.param([row(1, 2)], {1: 2}, [], id="both at once"),
        pytest.param([row(1), label(1, 2)], {1: 2}, [], id="the row first"),
        pytest.param([label(1, 2), row(1)], {1: 2}, [], id="the label first"),
        pytest.param([label(1, 3), label(1, 2), row(1)], {1: 2}, [], id="the newest label"),
        pytest.param([row(1), row(2)], {}, [1, 2], id="no label"),
        pytest.param([row(1), row(1), label(1, 2)], {1: 2}, [], id="the row twice"),
        pytest.param([row(1), label(1, 2), label(1, 2)], {1: 2}, [], id="the label twice"),
        pytest.param([row(1), label(1, 2), label(1, 3)], {1: 3}, [], id="a changed label"),
        pytest.param([row(1), row(1, 3)], {1: 3}, [], id="the row again, with its label"),
        pytest.param([row(1), label(1, 2), label(1, None)], {}, [1], id="withdrawn"),
        pytest.param([row(1, 2), label(1, None)], {}, [1], id="withdrawn from a labelled row"),
        pytest.param([label(1, 2), label(1, None), row(1)], {}, [1], id="withdrawn before the row"),
        pytest.param([label(1, None), row(1, 2)], {1: 2}, [], id="withdrawn before any label"),
        pytest.param(
            [row(1, 2), label(1, None), label(1, 0)], {1: 0}, [], id="withdrawn, and given again"
        ),
        pytest.param([label(5, 2)], {}, [], id="a label of a row that never comes"),
        pytest.param(
            [row(1), row(2, 1), label(1, 0), row(3, 2)], {2: 1, 1: 0, 3: 2}, [], id="mixed"
        ),
    ],
)
@pytest.mark.parametrize("apart", [False, True], ids=["in one slot", "in a slot each"])
def test_what_comes_apart_is_joined(
    events: list[Event], expected: dict[int, int], waits: list[int], apart: bool
) -> None:
    trainer = trainer_of(WaitingRoom())
    for part in [[event] for event in events] if apart else [events]:
        trainer.step(slot_of(*part))
    assert held(trainer) == expected
    assert trainer.waiting is not None
    assert trainer.waiting.pool().ids.tolist() == waits


def test_random_events_end_as_a_naive_loop_ends() -> None:
    draw = random.Random(1)  # noqa: S311
    for trial in range(20):
        trainer = trainer_of(WaitingRoom())
        came: set[int] = set()
        labels: dict[int, int] = {}
        for _ in range(30):
            events = []
            for _ in range(draw.randrange(1, 6)):
                row_id = draw.randrange(15)
                kind = draw.choice(["row", "both", "label", "withdraw"])
                given = draw.randrange(CLASSES)
                if kind == "both" and row_id in came:  # a row that recurs is held twice
                    continue
                if kind == "row":
                    came.add(row_id)
                    events.append(row(row_id))
                elif kind == "both":
                    came.add(row_id)
                    labels[row_id] = given
                    events.append(row(row_id, given))
                elif kind == "label":
                    labels[row_id] = given
                    events.append(label(row_id, given))
                else:
                    labels.pop(row_id, None)
                    events.append(label(row_id, None))
            trainer.step(slot_of(*events))
            expected = {row_id: labels[row_id] for row_id in came if row_id in labels}
            assert held(trainer) == expected, trial
            assert trainer.waiting is not None
            assert set(trainer.waiting.pool().ids.tolist()) == came - set(labels)
            assert trainer.waiting.waiting_labels >= len(set(labels) - came)


def test_late_labels_train_as_labels_on_time() -> None:
    """The same rows get their labels in the same slots: all that is learned is the same."""
    alone = Plausible(use_unlabelled=False)  # rows that wait teach nothing
    late, on_time = trainer_of(WaitingRoom(), alone), trainer_of(None, Plausible())
    labels = torch.randint(CLASSES, (400,), generator=torch.Generator().manual_seed(3)).tolist()
    for start in range(0, 400, 4):
        now = list(range(start, start + 4))
        before = [row_id - 40 for row_id in now if row_id >= 40]
        late.step(slot_of(*map(row, now), *(label(i, labels[i]) for i in before)))
        if before:
            on_time.step(samples_of(before, [labels[i] for i in before]))
    for one, other in zip(late.model.parameters(), on_time.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_agreement_is_by_the_prediction_made_when_the_row_came() -> None:
    trainer = trainer_of(WaitingRoom())
    trainer.step(slot_of(row(900, 0)))
    inputs = samples_of([1], [None]).inputs
    first = int(trainer.averaged.logits(inputs).argmax())
    trainer.step(slot_of(row(1)))
    for _ in range(50):  # the model changes its mind before the label comes
        trainer.step(slot_of(row(500, (first + 1) % CLASSES), row(501, (first + 1) % CLASSES)))
    assert int(trainer.averaged.logits(inputs).argmax()) != first
    slot = trainer.step(slot_of(label(1, first)))
    assert slot.agreement == 1.0
    assert slot.class_predicted is not None
    assert slot.class_predicted.argmax() == first


def test_a_model_that_has_learned_nothing_predicts_nothing() -> None:
    """Labels that are late by many slots would else be taken for noise."""
    trainer = trainer_of(WaitingRoom())
    trainer.step(slot_of(row(1), row(2)))
    slot = trainer.step(slot_of(label(1, 0), label(2, 1)))
    assert slot.agreement is None
    assert trainer.tracker is not None
    assert not trainer.tracker.pairs().sum()


def test_the_tracker_counts_a_label_once_by_that_prediction() -> None:
    trainer = trainer_of(WaitingRoom())
    trainer.step(slot_of(row(900, 0)))
    trainer.step(slot_of(row(1), row(2, 1)))
    trainer.step(slot_of(label(1, 3)))
    assert trainer.tracker is not None
    assert trainer.tracker.pairs().sum() == pytest.approx(2.0, abs=0.01)


def test_a_row_whose_label_was_withdrawn_and_given_again_counts_no_second_time() -> None:
    trainer = trainer_of(WaitingRoom())
    trainer.step(slot_of(row(1, 1)))
    trainer.step(slot_of(label(1, None)))
    assert not trainer.held_count
    slot = trainer.step(slot_of(label(1, 2)))
    assert held(trainer) == {1: 2}
    assert slot.agreement is None  # the model has been trained on that row


def test_metrics_count_rows_that_wait_and_the_share_that_is_labelled() -> None:
    trainer = trainer_of(WaitingRoom(rows=2))
    assert trainer.step(slot_of(row(1, 1), row(2), row(3))).waiting == 2
    slot = trainer.step(slot_of(row(4)))
    assert (slot.waiting, slot.labelled, slot.seen) == (2, 0.25, 4)
    assert trainer.waiting is not None
    assert trainer.waiting.unlabelled == 1
    assert trainer.validator.rejects.total == 0


def test_a_bad_row_is_rejected_and_its_label_waits_in_vain() -> None:
    validator = Validator(CLASSES, on_bad="skip")
    trainer = trainer_of(WaitingRoom(), validator=validator)
    events = slot_of(row(1), row(2), row(3, 2))
    events.samples.inputs[1] = torch.nan
    trainer.step(events)
    trainer.step(slot_of(label(1, 0), label(2, 0), label(3, 1), label(1, 99)))
    assert held(trainer) == {3: 1, 1: 0}
    assert validator.rejects.counts == {"inputs not finite": 1, "label is not a class": 1}


def test_samples_and_pairs_may_lack_labels_too() -> None:
    trainer = trainer_of(WaitingRoom())
    trainer.step((torch.randn(3, 3), torch.tensor([1, UNLABELLED, 2])))
    assert held(trainer) == {0: 1, 2: 2}
    trainer.step(samples_of([7, 8], [None, 3]))
    assert trainer.waiting is not None
    assert sorted(trainer.waiting.pool().ids.tolist()) == [1, 7]


def test_a_decision_about_a_row_that_waits_is_its_label() -> None:
    trainer = trainer_of(WaitingRoom())
    trainer.step(slot_of(row(1), row(2)))
    assert trainer.relabel(torch.tensor([1, 9]), torch.tensor([3, 0])) == 1
    assert trainer.remove(torch.tensor([2])) == 1
    assert held(trainer) == {1: 3}
    assert trainer.waiting is not None
    assert not len(trainer.waiting)


def test_saved_at_any_slot_and_resumed_it_goes_on_bit_for_bit() -> None:
    def events(slot: int) -> Events:
        draw = random.Random(slot)  # noqa: S311
        now = [row(10 * slot + at, draw.choice([None, None, 1, 2])) for at in range(4)]
        old = [draw.randrange(max(1, 10 * slot)) for _ in range(6)]
        return slot_of(*now, *(label(i, draw.choice([None, 0, 1, 2, 3])) for i in old))

    unbroken = trainer_of(WaitingRoom(rows=30), Plausible())
    for slot in range(60):
        unbroken.step(events(slot))
    broken = trainer_of(WaitingRoom(rows=30), Plausible())
    for slot in range(60):
        if slot % 7 == 3:
            state = broken.state_dict()
            broken = trainer_of(WaitingRoom(rows=30), Plausible())
            broken.load_state_dict(state)
        broken.step(events(slot))
    assert identical(broken.state_dict(), unbroken.state_dict())


def test_without_a_waiting_room_rows_come_with_their_labels() -> None:
    with pytest.raises(BadInputError, match="waiting"):
        trainer_of(None).step(slot_of(row(1)))
