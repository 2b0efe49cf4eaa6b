"""Corrections in a running trainer: labels, counts, tracker, votes, and what is picked."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tamis import (
    Growing,
    Naive,
    Plausible,
    Reservoir,
    Samples,
    Sliding,
    Tracker,
    Trainer,
)
from tamis.buffers import Buffer
from tamis.checkpoint import Checkpoints
from tamis.data import Event, Events
from tamis.review import Corrections, LiveSuspects, ReviewQueue, previewer
from tamis.runs import Decision, Decisions, SuspectIndex
from tamis.selectors.plausible import Neighbours

CLASSES = ["cat", "dog", "fox"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "decisions.jsonl"


def make_trainer(
    model: nn.Module, buffer: Buffer | None = None, tracker: Tracker | None = None, **settings
) -> Trainer:
    rule = torch.optim.SGD(model.parameters(), settings.pop("rate", 0.1))
    selector = settings.pop("selector", Naive())
    buffer = Growing(1000) if buffer is None else buffer
    return Trainer(model, rule, selector, buffer, k=8, tracker=tracker, **settings)


def right_labels(blobs: Samples) -> Tensor:
    return torch.where(blobs.clean, blobs.labels, (blobs.labels - 1) % 3)


def correct(path: Path, blobs: Samples, rows: list[int]) -> None:
    decisions, right = Decisions(path), right_labels(blobs)
    for row in rows:
        given = CLASSES[int(blobs.labels[row])]
        decisions.decide(Decision(str(row), "relabel", CLASSES[int(right[row])], given))


def wrong_rows(blobs: Samples) -> list[int]:
    return (~blobs.clean).nonzero()[:, 0].tolist()


def test_labels_held_are_corrected_and_all_counts_follow(path, blobs, blob_model) -> None:
    corrections = Corrections(path, CLASSES)
    trainer = make_trainer(blob_model, tracker=Tracker(3, half_life=1e6), rate=1e-9)
    trainer.validator.classes = 3
    trainer.step(blobs)
    before = trainer.tracker.estimate().value
    assert before == pytest.approx(0.7, abs=0.05)
    wrong = wrong_rows(blobs)
    correct(path, blobs, wrong)
    assert corrections.apply(trainer) == len(wrong)
    held = trainer.buffer.pool()
    assert held.labels.equal(right_labels(blobs))
    assert held.clean.all()
    slot = trainer.step()
    assert slot.class_held.equal(right_labels(blobs).bincount())
    assert slot.purity == 1
    assert trainer.tracker.estimate().value > 0.97
    fresh = Tracker(3, half_life=1e6)
    fresh.update(trainer.averaged.probabilities(blobs.inputs), right_labels(blobs))
    for name, tally in fresh.state_dict().items():
        assert torch.allclose(trainer.tracker.state_dict()[name], tally, atol=0.01), name


def test_rows_dropped_are_never_picked_again(path, blobs, blob_model) -> None:
    trainer = make_trainer(blob_model)
    trainer.validator.classes = 3
    corrections = Corrections(path, CLASSES)
    trainer.step(blobs)
    gone = set(wrong_rows(blobs))
    decisions = Decisions(path)
    for row in gone:
        decisions.decide(Decision(str(row), "drop"))
    assert corrections.apply(trainer) == len(gone)
    assert len(trainer.buffer) == len(blobs) - len(gone)
    picked = {number for _ in range(500) for number in trainer.step().ids.tolist()}
    assert not picked & gone
    assert picked == set(range(300)) - gone


def test_undo_brings_the_given_label_back(path, blobs, blob_model) -> None:
    trainer = make_trainer(blob_model)
    trainer.step(blobs)
    corrections, decisions = Corrections(path, CLASSES), Decisions(path)
    row, given = 0, CLASSES[int(blobs.labels[0])]
    other = next(name for name in CLASSES if name != given)
    for decision, label in (("relabel", other), ("undo", given), ("relabel", other)):
        decisions.decide(Decision(str(row), decision, other, given))
        assert corrections.apply(trainer) == 1
        assert CLASSES[int(trainer.buffer.pool().labels[row])] == label
    decisions.decide(Decision(str(row), "keep", given=given))
    corrections.apply(trainer)
    assert CLASSES[int(trainer.buffer.pool().labels[row])] == given


def test_a_row_whose_drop_is_undone_returns_when_it_arrives_again(path, blobs, blob_model) -> None:
    trainer = make_trainer(blob_model)
    trainer.step(blobs)
    corrections, decisions = Corrections(path, CLASSES), Decisions(path)
    decisions.decide(Decision("7", "drop"))
    assert corrections.apply(trainer) == 1
    decisions.decide(Decision("7", "undo"))
    corrections.apply(trainer)
    assert 7 not in trainer.held().ids
    trainer.step(corrections.correct(blobs[slice(7, 8)]))
    assert 7 in trainer.held().ids


def test_of_rows_of_one_id_the_newest_is_decided_about(path, blobs, blob_model) -> None:
    """And every one that arrives later."""
    trainer = make_trainer(blob_model)
    corrections, decisions = Corrections(path, CLASSES), Decisions(path)
    names = [f"row {number}" for number in range(10)]
    names[1] = names[0]
    samples = Samples.of(blobs.inputs[:10], torch.zeros(10, dtype=torch.long))
    trainer.step(corrections.correct(samples, names))
    decisions.decide(Decision("row 0", "relabel", "fox"))
    assert corrections.apply(trainer) == 1
    assert trainer.held().labels[:3].tolist() == [0, 2, 0]
    later = Samples.of(blobs.inputs[10:12], torch.zeros(2, dtype=torch.long), 10)
    assert corrections.correct(later, ["row 0", "row 11"]).labels.tolist() == [2, 0]


def test_arriving_rows_are_corrected_by_their_names(path, blobs, blob_model) -> None:
    decisions = Decisions(path)
    decisions.decide(Decision("row 1", "relabel", "fox"))
    decisions.decide(Decision("row 2", "drop"))
    decisions.decide(Decision("row 3", "keep"))
    decisions.decide(Decision("row 4", "relabel", "no such class"))
    decisions.decide(Decision("5", "relabel", "fox"))
    corrections = Corrections(path, CLASSES)
    names = [f"row {number}" for number in range(10)]
    corrected = corrections.correct(blobs[slice(10)], names)
    assert corrected.ids.tolist() == [0, 1, 3, 4, 5, 6, 7, 8, 9]
    assert corrected.labels[1] == 2
    assert corrected.clean[1]
    others = [0, 2, 3, 4, 5]
    assert corrected.labels[others].equal(blobs.labels[corrected.ids[others]])
    assert corrections.unknown_labels == 1
    assert blobs.labels[1] == corrections.correct(blobs[slice(1, 2)], ["other"]).labels[0]


def test_held_rows_are_known_by_the_names_they_came_with(path, blobs, blob_model) -> None:
    trainer = make_trainer(blob_model)
    corrections = Corrections(path, CLASSES)
    names = [f"{299 - number}" for number in range(300)]  # numbers, but not those of the rows
    trainer.step(corrections.correct(blobs, names))
    Decisions(path).decide(Decision("299", "relabel", "fox"))
    Decisions(path).decide(Decision("never came", "relabel", "fox"))
    corrections.apply(trainer)
    changed = trainer.buffer.pool().labels != blobs.labels
    assert changed.nonzero()[:, 0].tolist() in ([0], [])
    assert trainer.buffer.pool().labels[0] == 2


def test_names_are_forgotten_with_their_rows(path, blobs, blob_model, monkeypatch) -> None:
    monkeypatch.setattr("tamis.review.corrections.SPARE", 0)
    trainer = make_trainer(blob_model, Sliding(50))
    corrections = Corrections(path, CLASSES)
    for at in range(30):
        part = slice(10 * at, 10 * at + 10)
        trainer.step(
            corrections.correct(blobs[part], [f"n{n}" for n in range(10 * at, 10 * at + 10)])
        )
        Decisions(path).decide(Decision(f"n{10 * at}", "skip"))
        corrections.apply(trainer)
        assert len(corrections.state_dict()["ids"]) <= 120


def test_without_a_new_decision_no_row_is_looked_at(path, blobs, blob_model, monkeypatch) -> None:
    trainer = make_trainer(blob_model)
    trainer.step(blobs)
    correct(path, blobs, wrong_rows(blobs))
    corrections = Corrections(path, CLASSES)
    corrections.apply(trainer)
    for part, name in ((trainer, "relabel"), (trainer, "remove"), (trainer.buffer, "pool")):
        monkeypatch.setattr(part, name, lambda *_: pytest.fail("Nobody has decided anything."))
    assert [corrections.apply(trainer) for _ in range(100)] == [0] * 100


def test_a_decision_about_no_row_or_class_changes_nothing(path, blobs, blob_model) -> None:
    trainer, corrections = make_trainer(blob_model), Corrections(path, CLASSES)
    trainer.step(blobs)
    for name in ("9" * 30, "1000", "-1", "", "\u0661"):
        Decisions(path).decide(Decision(name, "relabel", "fox"))
        Decisions(path).decide(Decision(f"{name}99999", "drop"))
    Decisions(path).decide(Decision("0", "relabel", "no such class"))
    assert corrections.apply(trainer) == 0
    assert corrections.unknown_labels == 1
    assert trainer.buffer.pool().labels.equal(blobs.labels)


def test_a_resumed_run_knows_names_and_decisions(path, tmp_path, blobs, blob_model) -> None:
    names = [f"row {number}" for number in range(300)]
    trainer, corrections = make_trainer(blob_model), Corrections(path, CLASSES)
    trainer.step(corrections.correct(blobs, names))
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    checkpoints.save(trainer, others={"corrections": corrections})
    Decisions(path).decide(Decision("row 0", "relabel", "fox"))
    Decisions(path).decide(Decision("row 1", "drop"))
    again, follower = make_trainer(blob_model), Corrections(path, CLASSES)
    checkpoints.load(again, {"corrections": follower})
    follower.apply(again)
    assert again.buffer.pool().labels[0] == 2
    assert 1 not in again.buffer.pool().ids


def test_what_was_undone_while_a_run_was_down_is_undone_when_it_resumes(
    path, tmp_path, blobs, blob_model
) -> None:
    trainer, corrections = make_trainer(blob_model), Corrections(path, CLASSES)
    trainer.step(corrections.correct(blobs))
    given = int(blobs.labels[0])
    other = CLASSES[(given + 1) % 3]
    Decisions(path).decide(Decision("0", "relabel", other, CLASSES[given]))
    assert corrections.apply(trainer) == 1
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    checkpoints.save(trainer, others={"corrections": corrections})
    Decisions(path).decide(Decision("0", "undo", None, CLASSES[given]))
    again, follower = make_trainer(blob_model), Corrections(path, CLASSES)
    checkpoints.load(again, {"corrections": follower})
    follower.apply(again)
    assert again.buffer.pool().labels[0] == given


def test_plausible_lets_rows_vote_with_their_new_labels(path, blobs, blob_model) -> None:
    trainer = make_trainer(blob_model, selector=Plausible(neighbours=Neighbours(voters=500)))
    trainer.validator.classes = 3
    trainer.step(blobs)
    for _ in range(60):
        trainer.step()
    wrong = wrong_rows(blobs)
    correct(path, blobs, wrong[:-5])
    for row in wrong[-5:]:
        Decisions(path).decide(Decision(str(row), "drop"))
    Corrections(path, CLASSES).apply(trainer)
    state, right = trainer.selector.state_dict(), right_labels(blobs)
    ids, labels = state["neighbours.ids"], state["neighbours.labels"]
    assert not torch.isin(ids, torch.tensor(wrong[-5:])).any()
    assert labels[ids >= 0].equal(right[ids[ids >= 0]])
    for _ in range(30):
        assert not set(trainer.step().ids.tolist()) & set(wrong[-5:])


def test_all_rows_can_be_dropped(path, blobs, blob_model) -> None:
    trainer = make_trainer(blob_model, Reservoir(10))
    trainer.step(blobs[slice(10)])
    for row in range(10):
        Decisions(path).decide(Decision(str(row), "drop"))
    Corrections(path, CLASSES).apply(trainer)
    assert len(trainer.buffer) == 0
    assert trainer.step().held == 0
    assert trainer.step(blobs[slice(10, 20)]).held == 10


def test_suspects_are_ranked_again_at_once_then_now_and_then(tmp_path, blob_model) -> None:
    class Rounds(LiveSuspects):
        def rescore(self, slot: int) -> None:
            rounds.append(slot + 1)

    rounds: list[int] = []
    live = Rounds(tmp_path, make_trainer(blob_model), CLASSES, previewer((2,)))
    for slot in range(2100):
        live.update(slot, None)
    assert rounds == [250, 500, 1000, 2000]


def test_suspects_of_a_running_trainer_are_ranked_again(path, tmp_path, blobs) -> None:
    """Who corrects labels sees the others move, what is decided leave, and the right ones go."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 3))
    trainer = make_trainer(model, rate=0.05)
    trainer.validator.classes = 3
    corrections = Corrections(path, CLASSES)
    live = LiveSuspects(
        tmp_path,
        trainer,
        CLASSES,
        previewer((2,)),
        queue=ReviewQueue(500),
        every=50,
        decided=lambda: corrections.decided,
    )
    for slot in range(300):
        part = blobs[slice(slot, slot + 1)]
        live.update(trainer.step(part).number, part)
    index = SuspectIndex(tmp_path)
    wrong = {str(row) for row in wrong_rows(blobs)}
    first = [suspect.id for suspect in index]
    assert len(set(first) & wrong) > 0.8 * len(wrong)
    correct(path, blobs, [int(name) for name in first if name in wrong][:30])
    corrections.apply(trainer)
    for _ in range(200):
        live.update(trainer.step().number, None)
    index.refresh()
    second = [suspect.id for suspect in index]
    assert not set(second) & corrections.decided
    rest = [name for name in first if name not in corrections.decided]
    assert second != rest
    assert len(set(second) - wrong) <= len(set(rest) - wrong)


def test_a_thousand_of_the_rows_that_arrived_are_listed_at_the_most(
    tmp_path, blobs, blob_model
) -> None:
    """Of every slot the first 20 rows are looked at; of 1,200 with wrong labels 1,000 are kept."""
    trainer = make_trainer(blob_model, rate=1e-9)
    right = right_labels(blobs)
    trainer.step(Samples.of(blobs.inputs, right))
    live = LiveSuspects(tmp_path, trainer, CLASSES, previewer((2,)), every=60)
    for slot in range(60):
        rows = torch.arange(25 * slot, 25 * slot + 25) % 300
        live.update(slot, Samples.of(blobs.inputs[rows], (right[rows] + 1) % 3, 1000 + 25 * slot))
    suspects = list(SuspectIndex(tmp_path))
    assert len({suspect.id for suspect in suspects}) == len(suspects) == 1000
    assert all((int(suspect.id) - 1000) % 25 < 20 for suspect in suspects)
    assert max(int(suspect.id) for suspect in suspects) > 1000 + 25 * 55


def test_a_label_that_comes_after_a_decision_changes_nothing(path, blob_model) -> None:
    decisions = Decisions(path)
    decisions.decide(Decision("x", "relabel", label=CLASSES[2], given=CLASSES[0]))
    decisions.decide(Decision("y", "drop", given=CLASSES[0]))
    corrections = Corrections(path, CLASSES)
    ids = torch.tensor([5, 6, 7])
    samples = Samples(torch.zeros(3, 2), torch.full((3,), -1), ids, torch.zeros_like(ids))
    rows = [Event(5, 0, None, name="x"), Event(6, 1, None, name="y"), Event(7, 2, None, name="z")]
    labels = [Event(n, None, 1, name=name) for n, name in ((5, "x"), (6, "y"), (7, "z"))]
    withdrawals = [event._replace(label=None) for event in labels]
    came = corrections.correct_events(Events(samples, tuple(rows)), ["x", "y", "z"])
    assert [(event.id, event.label) for event in came.events] == [(5, 2), (7, None)]
    came = corrections.correct_events(Events(samples[slice(0)], (*labels, *withdrawals)), [])
    assert [(event.id, event.label) for event in came.events] == [(5, 2), (7, 1), (7, None)]
    assert corrections.names_of([5, 6, 7]) == ["x", "y", "z"]


def test_rows_without_names_are_corrected_beside_rows_that_have_some(
    path, blobs, blob_model
) -> None:
    trainer = make_trainer(blob_model)
    trainer.step(blobs)
    corrections = Corrections(path, CLASSES)
    corrections.correct(blobs[slice(100, 102)], ["ann", "7"])
    correct(path, blobs, wrong_rows(blobs)[:1])
    name = str(wrong_rows(blobs)[0])
    Decisions(path).decide(Decision("7", "drop"))  # that of row 101
    Decisions(path).decide(Decision("100", "drop"))  # whose name is another
    assert name not in ("7", "100")
    assert corrections.apply(trainer) == 2
    held = trainer.held().ids.tolist()
    assert 101 not in held
    assert {7, 100} <= set(held)
