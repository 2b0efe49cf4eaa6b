"""Labels of several annotators in training: the joint label is what a row is trained with."""

from __future__ import annotations

import pytest
import torch

from tamis import Naive, Sliding, Trainer
from tamis.data import REVIEWER, Event, Events, Samples
from tamis.models import mlp
from tamis.noise import Alarm, JointLabels
from tamis.sources import Validator
from tamis.streams import Crowd, CrowdStream, gaussians
from tamis.training.joint_events import SPARE
from tests.support.identical import identical

CLASSES = 3


def trainer_of(capacity: int = 200, classes: int = CLASSES, width: int = 3) -> Trainer:
    torch.manual_seed(0)
    model = mlp((width,), classes=classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return Trainer(
        model, optimizer, Naive(), Sliding(capacity), k=4, tracker=Alarm(classes),
        annotators=JointLabels(classes), validator=Validator(classes, "skip"),
    )  # fmt: skip


def slot_of(*events: Event) -> Events:
    """Return events as one slot; a `row` that is not None becomes its place."""
    rows = [event for event in events if event.row is not None]
    placed = tuple(e if e.row is None else e._replace(row=rows.index(e)) for e in events)
    ids = torch.tensor([event.id for event in rows], dtype=torch.long)
    labels = torch.tensor([-1 if e.label is None else e.label for e in rows], dtype=torch.long)
    inputs = torch.randn(1000, 3, generator=torch.Generator().manual_seed(7))[ids]
    return Events(Samples(inputs, labels, ids, torch.zeros_like(ids)), placed)


def row(row_id: int, label: int | None = None, annotator: int | None = None) -> Event:
    return Event(row_id, 0, label, annotator)


def given(row_id: int, label: int | None, annotator: int | None = None) -> Event:
    return Event(row_id, None, label, annotator)


def held(trainer: Trainer) -> dict[int, int]:
    pool = trainer.held()
    assert len(pool.ids.unique()) == len(pool)
    return dict(zip(pool.ids.tolist(), pool.labels.tolist(), strict=True))


@pytest.mark.parametrize("apart", [False, True], ids=["in one slot", "in a slot each"])
@pytest.mark.parametrize(
    ("events", "expected", "waits"),
    [
        pytest.param([row(1, 2, 0), given(1, 1, 1), given(1, 1, 2)], {1: 1}, [], id="two of three"),
        pytest.param([row(1, 2, 0), row(1, 1, 1), row(1, 1, 2)], {1: 1}, [], id="a line each"),
        pytest.param([given(1, 1, 1), given(1, 1, 2), row(1)], {1: 1}, [], id="labels first"),
        pytest.param([row(1), given(1, 0, 4)], {1: 0}, [], id="the row first"),
        pytest.param([row(1, 2, 0), given(1, 1, 0)], {1: 1}, [], id="he changes his label"),
        pytest.param(
            [row(1, 1, 0), given(1, 2, 1), given(1, None, 0)], {1: 2}, [], id="one withdraws"
        ),
        pytest.param(
            [row(1, 1, 0), given(1, 2, 1), given(1, None)], {}, [1], id="all are withdrawn"
        ),
        pytest.param(
            [row(1, 1, 0), given(1, None, 0), given(1, 2, 3)], {1: 2}, [], id="and given again"
        ),
        pytest.param(
            [row(1, 1, 0), given(1, 1, 1), given(1, 2, REVIEWER), given(1, 1, 2)], {1: 2}, [],
            id="somebody decides",
        ),
        pytest.param([row(1, 1), given(1, 2)], {1: 2}, [], id="nobody knows who"),
        pytest.param([row(1, 1, 0), given(1, 7, 1)], {1: 1}, [], id="a label that is not a class"),
    ],
)  # fmt: skip
def test_rows_have_their_joint_label(
    events: list[Event], expected: dict[int, int], waits: list[int], apart: bool
) -> None:
    trainer = trainer_of()
    for part in [[event] for event in events] if apart else [events]:
        trainer.step(slot_of(*part))
    assert held(trainer) == expected
    assert trainer.waiting is not None
    assert trainer.waiting.pool().ids.tolist() == waits


def test_samples_carry_who_gave_their_labels() -> None:
    trainer = trainer_of()
    ids = torch.tensor([4, 4, 5, 4])
    inputs = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    trainer.step(
        Samples(
            inputs,
            torch.tensor([0, 1, 2, 1]),
            ids,
            torch.zeros_like(ids),
            annotators=torch.tensor([0, 1, -1, 2]),
        )
    )
    assert held(trainer) == {4: 1, 5: 2}
    assert trainer.annotators is not None
    assert trainer.annotators.labels_given().tolist() == [1, 1, 1]


def test_decisions_and_removals_reach_the_joint_labels() -> None:
    trainer = trainer_of()
    trainer.step(slot_of(row(1, 1, 0), row(2, 1, 0), row(3)))
    ids = torch.tensor([1, 3, 900])
    assert trainer.relabel(ids, torch.tensor([2, 0, 1])) == 2
    trainer.step(slot_of(given(1, 1, 1), given(1, 1, 2), given(3, 2, 1)))
    assert held(trainer) == {1: 2, 2: 1, 3: 0}
    trainer.remove(torch.tensor([2]))
    assert trainer.annotators is not None
    assert trainer.annotators.ids.tolist() == [1, 3]


def test_rows_that_leave_the_buffer_are_forgotten() -> None:
    trainer = trainer_of(capacity=20)
    assert trainer.annotators is not None
    data = gaussians()
    stream = CrowdStream(data.inputs, data.labels, Crowd.draw(4, 2), slots=150, rows_per_slot=20)
    trainer = trainer_of(capacity=20, classes=2, width=2)
    for events in stream:
        trainer.step(events)
        assert trainer.annotators is not None
        assert len(trainer.annotators) <= 40 + SPARE + 20
    assert set(held(trainer)) <= set(trainer.annotators.ids.tolist())


def crowd_stream(**settings) -> tuple[CrowdStream, torch.Tensor]:
    """Return a stream of two classes far apart, and the true label of each id."""
    generator = torch.Generator().manual_seed(3)
    labels = torch.randint(2, (900,), generator=generator)
    inputs = torch.randn(900, 2, generator=generator) + 4 * labels[:, None]
    crowd = Crowd.draw(8, 2, accuracy=0.75, spammers=2, seed=1, **settings)
    stream = CrowdStream(inputs, labels, crowd, per_row=(1, 4), rows_per_slot=6, spread=4)
    return stream, labels[stream.order()]


def test_joint_labels_are_better_than_those_that_came_first() -> None:
    stream, truth = crowd_stream()
    trainer = trainer_of(capacity=1000, classes=2, width=2)
    first = []
    for events in stream:
        first.append(events.samples.labels)
        trainer.step(events)
    pool = trainer.held()
    joint = (pool.labels == truth[pool.ids]).float().mean()
    assert joint > (torch.cat(first) == truth).float().mean() + 0.08
    assert trainer.annotators is not None
    assert trainer.annotators.accuracy()[:2].max() < trainer.annotators.accuracy()[2:].min()


def test_labels_held_are_the_joint_ones() -> None:
    """Also where a joint label changes by what other rows have revealed."""
    stream, _ = crowd_stream(turns=0.5)
    trainer = trainer_of(capacity=1000, classes=2, width=2)
    assert trainer.annotators is not None
    for events in stream:
        trainer.step(events)
        pool = trainer.held()
        assert trainer.annotators.labels(pool.ids).tolist() == pool.labels.tolist()


def test_saved_and_resumed_equals_unbroken() -> None:
    items = list(crowd_stream(turns=0.4)[0])
    unbroken, saved = (trainer_of(100, 2, 2) for _ in range(2))
    for events in items:
        unbroken.step(events)
    for events in items[:70]:
        saved.step(events)
    loaded = trainer_of(100, 2, 2)
    loaded.load_state_dict(saved.state_dict())
    for events in items[70:]:
        loaded.step(events)
    assert identical(unbroken.state_dict(), loaded.state_dict())
