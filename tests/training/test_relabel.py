"""Corrections of rows that a trainer holds: buffer, tracker, selector and graphs follow."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tamis import Execution, Growing, Naive, Plausible, Reservoir, Samples, Tracker, Trainer
from tamis.selectors import ELR, SELECTORS, Selector


def make_trainer(model: nn.Module, selector: Selector | None = None, **settings) -> Trainer:
    rule = torch.optim.SGD(model.parameters(), settings.pop("rate", 0.1))
    buffer = settings.pop("buffer", None) or Growing(1000)
    return Trainer(model, rule, selector or Naive(), buffer, k=8, **settings)


def right_labels(blobs: Samples) -> Tensor:
    return torch.where(blobs.clean, blobs.labels, (blobs.labels - 1) % 3)


def test_relabelled_rows_are_counted_under_their_new_labels(blobs, blob_model) -> None:
    tracker = Tracker(3, half_life=1e6)
    trainer = make_trainer(blob_model, Plausible(), tracker=tracker, rate=1e-9)
    trainer.validator.classes = 3
    trainer.step(blobs)
    wrong = ~blobs.clean
    right = right_labels(blobs)
    unknown = torch.tensor([5000])
    ids = torch.cat([unknown, blobs.ids])  # most have the label already
    changed = trainer.relabel(ids, torch.cat([torch.zeros(1, dtype=torch.long), right]))
    assert changed == wrong.sum()
    assert trainer.buffer.pool().labels.equal(right)
    counts = tracker.pairs().sum(dim=0).tolist()
    assert counts == pytest.approx(right.bincount().tolist(), abs=0.01)
    voters = trainer.selector.neighbours.state_dict()
    known = voters["ids"] >= 0
    assert voters["labels"][known].equal(right[voters["ids"][known]])
    assert trainer.relabel(blobs.ids, right) == 0


def test_the_newest_row_has_not_aged(blob_model) -> None:
    tracker = Tracker(3, half_life=1)
    trainer = make_trainer(blob_model, tracker=tracker)
    trainer.validator.classes = 3
    for label in (0, 0, 1):
        trainer.step(Samples.of(torch.ones(1, 2), torch.tensor([label]), trainer.slots))
    assert trainer.relabel(torch.tensor([2]), torch.tensor([2])) == 1
    assert tracker.pairs().sum(dim=0).tolist() == pytest.approx([0.75, 0, 1])


def test_removed_rows_are_forgotten(blobs, blob_model) -> None:
    trainer = make_trainer(blob_model, ELR())
    trainer.step(blobs)
    for _ in range(50):
        trainer.step()
    gone = torch.arange(0, 300, 3)
    assert trainer.remove(torch.cat([gone, torch.tensor([5000])])) == 100
    assert trainer.remove(gone) == 0
    assert not torch.isin(trainer.selector.state_dict()["ids"], gone).any()
    picked = torch.cat([trainer.step().ids for _ in range(50)])
    assert not torch.isin(picked, gone).any()


@pytest.mark.parametrize("kind", SELECTORS, ids=lambda kind: kind.__name__)
def test_a_corrected_run_resumes_as_if_unbroken(kind, blobs, blob_model) -> None:
    def start() -> Trainer:
        model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))
        return make_trainer(model, kind(), buffer=Reservoir(200), window="average")

    trainer = start()
    trainer.validator.classes = 3
    for rows in blobs[slice(200)].ids.split(20):
        trainer.step(blobs[rows])
    trainer.relabel(blobs.ids[:50], right_labels(blobs)[:50])
    trainer.remove(blobs.ids[50:80])
    trainer.step()
    resumed = start()
    resumed.load_state_dict(trainer.state_dict())
    resumed.relabel(blobs.ids[:50], right_labels(blobs)[:50])  # as `Corrections` does
    resumed.remove(blobs.ids[50:80])
    for rows in blobs.ids[200:].split(20):
        ours, theirs = trainer.step(blobs[rows]), resumed.step(blobs[rows])
        assert ours.ids.equal(theirs.ids)
        assert ours.loss == theirs.loss


def test_before_the_first_row_nothing_is_changed(blob_model) -> None:
    trainer = make_trainer(blob_model)
    assert trainer.relabel(torch.tensor([0]), torch.tensor([1])) == 0
    assert trainer.remove(torch.tensor([0])) == 0


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_that_is_no_class_is_refused(blobs, blob_model, label: int) -> None:
    trainer = make_trainer(blob_model)
    trainer.step(blobs)
    with pytest.raises(ValueError, match="at least 0 and below 3"):
        trainer.relabel(torch.tensor([0]), torch.tensor([label]))
    assert trainer.buffer.pool().labels.equal(blobs.labels)


def test_all_rows_can_be_removed(blobs, blob_model) -> None:
    trainer = make_trainer(blob_model)
    trainer.step(blobs[slice(10)])
    assert trainer.remove(torch.arange(10)) == 10
    assert trainer.step().held == 0
    assert trainer.step(blobs[slice(10, 20)]).held == 10


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_graphs_are_recorded_again_where_rows_have_moved(blobs, blob_model) -> None:
    def play(graphed: bool) -> list[list[int]]:
        model = nn.Linear(2, 3)
        with torch.no_grad():
            model.weight.fill_(0.1), model.bias.zero_()
        execution = Execution("cuda", graphed=graphed)
        trainer = make_trainer(model, execution=execution)
        trainer.validator.classes = 3
        trainer.step(blobs[slice(200)])
        picked = [trainer.step().ids.tolist() for _ in range(10)]
        trainer.relabel(blobs.ids[:9], (blobs.labels[:9] + 1) % 3)
        trainer.remove(torch.arange(0, 200, 2))
        picked += [trainer.step().ids.tolist() for _ in range(10)]
        trainer.remove(torch.arange(200))
        trainer.step(blobs[slice(200, 300)])
        picked += [trainer.step().ids.tolist() for _ in range(10)]
        return [*picked, [round(1e4 * weight) for weight in model.weight.flatten().tolist()]]

    assert play(graphed=True) == play(graphed=False)
