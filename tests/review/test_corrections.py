"""Corrections in a running trainer: labels, counts, tracker, votes, and what is picked."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import pytest
import torch
from torch import Tensor, nn

from tamis import (
    BalancedReservoir,
    Growing,
    Naive,
    Plausible,
    Reservoir,
    Samples,
    Sliding,
    Tracker,
    Trainer,
)
from tamis.buffers import BUFFERS, Buffer
from tamis.checkpoint import Checkpoints
from tamis.review import Corrections, LiveSuspects, Queue, previewer
from tamis.review.mending import drop, relabel
from tamis.runs import Decision, Decisions, SuspectIndex

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
    return Trainer(model, rule, selector, buffer, 8, tracker=tracker, **settings)


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


def test_arriving_rows_are_corrected_by_their_names(path, blobs, blob_model) -> None:
    decisions = Decisions(path)
    decisions.decide(Decision("row 1", "relabel", "fox"))
    decisions.decide(Decision("row 2", "drop"))
    decisions.decide(Decision("row 3", "keep"))
    decisions.decide(Decision("row 4", "relabel", "no such class"))
    decisions.decide(Decision("5", "relabel", "fox"))
    corrections = Corrections(path, CLASSES)
    names = [f"row {number}" for number in range(10)]
    mended = corrections.mend(blobs[slice(10)], names)
    assert mended.ids.tolist() == [0, 1, 3, 4, 5, 6, 7, 8, 9]
    assert mended.labels[1] == 2
    assert mended.clean[1]
    others = [0, 2, 3, 4, 5]
    assert mended.labels[others].equal(blobs.labels[mended.ids[others]])
    assert corrections.strange == 1
    assert blobs.labels[1] == corrections.mend(blobs[slice(1, 2)], ["other"]).labels[0]


def test_held_rows_are_known_by_the_names_they_came_with(path, blobs, blob_model) -> None:
    trainer = make_trainer(blob_model)
    corrections = Corrections(path, CLASSES)
    names = [f"{299 - number}" for number in range(300)]  # numbers, but not those of the rows
    trainer.step(corrections.mend(blobs, names))
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
        trainer.step(corrections.mend(blobs[part], [f"n{n}" for n in range(10 * at, 10 * at + 10)]))
        Decisions(path).decide(Decision(f"n{10 * at}", "skip"))
        corrections.apply(trainer)
        assert len(corrections.state_dict()["numbers"]) <= 120


def test_nothing_new_costs_next_to_nothing(path, blobs, blob_model) -> None:
    trainer = make_trainer(blob_model)
    trainer.step(blobs)
    correct(path, blobs, wrong_rows(blobs))
    corrections = Corrections(path, CLASSES)
    corrections.apply(trainer)
    started = perf_counter()
    for _ in range(1000):
        assert corrections.apply(trainer) == 0
    assert perf_counter() - started < 0.5  # milliseconds would show


def test_a_resumed_run_knows_names_and_decisions(path, tmp_path, blobs, blob_model) -> None:
    names = [f"row {number}" for number in range(300)]
    trainer, corrections = make_trainer(blob_model), Corrections(path, CLASSES)
    trainer.step(corrections.mend(blobs, names))
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    checkpoints.save(trainer, others={"corrections": corrections})
    Decisions(path).decide(Decision("row 0", "relabel", "fox"))
    Decisions(path).decide(Decision("row 1", "drop"))
    again, follower = make_trainer(blob_model), Corrections(path, CLASSES)
    checkpoints.load(again, {"corrections": follower})
    follower.apply(again)
    assert again.buffer.pool().labels[0] == 2
    assert 1 not in again.buffer.pool().ids


def test_plausible_lets_rows_vote_with_their_new_labels(path, blobs, blob_model) -> None:
    trainer = make_trainer(blob_model, selector=Plausible(voters=500))
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
    known = state["ids"] >= 0
    kept = known & ~torch.isin(state["ids"], torch.tensor(wrong[-5:]))
    assert state["labels"][kept].equal(right[state["ids"][kept]])
    assert (state["says"][known & ~kept] == 0).all()
    for _ in range(30):
        assert not set(trainer.step().ids.tolist()) & set(wrong[-5:])


@pytest.mark.parametrize("kind", BUFFERS, ids=lambda kind: kind.__name__)
def test_every_buffer_goes_on_after_both(kind, blobs: Samples) -> None:
    generator = torch.Generator().manual_seed(0)
    buffer = kind(60)
    buffer.append(blobs[slice(100)], generator)
    held = buffer.pool()
    ids, labels = held.ids.clone(), held.labels.clone()
    relabel(buffer, torch.tensor([3, 5]), (labels[[3, 5]] + 1) % 3)
    held = buffer.pool()
    assert held.ids.equal(ids)
    assert (held.labels != labels).nonzero()[:, 0].tolist() == [3, 5]
    assert held.clean[[3, 5]].all()
    drop(buffer, torch.tensor([0, 7, 59]))
    left = set(ids.tolist()) - set(ids[[0, 7, 59]].tolist())
    assert set(buffer.pool().ids.tolist()) == left
    assert len(buffer) == 57
    for at in range(100, 300, 20):
        buffer.append(blobs[slice(at, at + 20)], generator)
        assert len(buffer) == 60
        held = buffer.pool()
        assert len(set(held.ids.tolist())) == 60
    by_id = dict(zip(blobs.ids.tolist(), blobs.labels.tolist(), strict=True))
    untouched = [row for row, number in enumerate(held.ids.tolist()) if number not in ids[[3, 5]]]
    assert all(int(held.labels[row]) == by_id[int(held.ids[row])] for row in untouched)


def test_a_ring_still_lets_the_oldest_go(blobs: Samples) -> None:
    buffer = Sliding(10)
    generator = torch.Generator()
    buffer.append(blobs[slice(14)], generator)  # 4 to 13, the oldest in the fifth place
    drop(buffer, (buffer.pool().ids == 6).nonzero()[:, 0])
    buffer.append(blobs[slice(14, 17)], generator)
    assert sorted(buffer.pool().ids.tolist()) == [7, 8, 9, 10, 11, 12, 13, 14, 15, 16]


def test_balanced_classes_are_those_of_the_new_labels(blobs: Samples) -> None:
    buffer, generator = BalancedReservoir(60), torch.Generator().manual_seed(0)
    buffer.append(blobs[slice(60)], generator)
    relabel(buffer, torch.arange(60), torch.zeros(60, dtype=torch.long))
    for at in range(60, 300, 20):
        buffer.append(blobs[slice(at, at + 20)], generator)
    counts = buffer.pool().labels.bincount()
    assert counts.max() - counts.min() <= 2


def test_all_rows_can_be_dropped(path, blobs, blob_model) -> None:
    trainer = make_trainer(blob_model, Reservoir(10))
    trainer.step(blobs[slice(10)])
    for row in range(10):
        Decisions(path).decide(Decision(str(row), "drop"))
    Corrections(path, CLASSES).apply(trainer)
    assert len(trainer.buffer) == 0
    assert trainer.step().held == 0
    assert trainer.step(blobs[slice(10, 20)]).held == 10


def test_a_buffer_of_ones_own_is_told_what_it_lacks(blobs: Samples) -> None:
    class Odd:
        def pool(self) -> Samples:
            return blobs

        def __len__(self) -> int:
            return len(blobs)

    with pytest.raises(TypeError, match="Odd lets no row go"):
        drop(Odd(), torch.tensor([0]))


def test_suspects_of_a_running_trainer_are_ranked_anew(path, tmp_path, blobs) -> None:
    """Who corrects labels sees the others move, what is settled leave, and the right ones go."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 3))
    trainer = make_trainer(model, rate=0.05)
    trainer.validator.classes = 3
    corrections = Corrections(path, CLASSES)
    lookout = LiveSuspects(
        tmp_path,
        trainer,
        CLASSES,
        previewer((2,)),
        Queue(500),
        every=50,
        settled=lambda: corrections.settled,
    )
    for slot in range(300):
        part = blobs[slice(slot, slot + 1)]
        lookout.update(trainer.step(part).number, part)
    shelf = SuspectIndex(tmp_path)
    wrong = {str(row) for row in wrong_rows(blobs)}
    first = [spine.id for spine in shelf.spines]
    assert len(set(first) & wrong) > 0.8 * len(wrong)
    correct(path, blobs, [int(name) for name in first if name in wrong][:30])
    corrections.apply(trainer)
    for _ in range(200):
        lookout.update(trainer.step().number, None)
    shelf.refresh()
    second = [spine.id for spine in shelf.spines]
    assert not set(second) & corrections.settled
    rest = [name for name in first if name not in corrections.settled]
    assert second != rest
    assert len(set(second) - wrong) <= len(set(rest) - wrong)
