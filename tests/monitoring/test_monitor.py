"""The monitor: what it writes, and the collapses that it must see."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tamis import Accuracy, CollapseWarning, Monitor, Naive, Sliding, Slot, Trainer
from tamis.data import Picks, Samples
from tamis.models import logistic, start
from tamis.monitoring.collapse import NO_INFORMATION
from tamis.monitoring.metrics import purity_of
from tests.support.faults.disk import small_files

FIGURES = {
    "loss": 0.5,
    "agreement": 0.75,
    "purity": 0.75,
    "recall": 0.5,
    "coverage": 0.25,
    "stayed": 0.5,
    "price": 0.0,
}


def make_slot(number: int, ids: list[int], labels: list[int]) -> Slot:
    return Slot(
        number=number,
        warm_up=False,
        seen=900,
        held=300,
        skipped=0,
        picked=torch.tensor(ids),
        class_picks=torch.bincount(torch.tensor(labels), minlength=3),
        class_held=torch.tensor([100, 100, 100]),
        figures={name: torch.tensor(value) for name, value in FIGURES.items()},
        select_seconds=0.001,
        seconds=0.002,
    )


def healthy(number: int, **changes) -> Slot:
    ids = [(number * 6 + offset) % 300 for offset in range(6)]
    slot = make_slot(number, ids, [0, 0, 1, 1, 2, 2])
    figures = {name: changes.pop(name) for name in FIGURES if name in changes}
    figures = {
        name: value if value is None else torch.tensor(value) for name, value in figures.items()
    }
    return replace(slot, figures=slot.figures | figures, **changes)


def record_all(monitor: Monitor, slots: Iterable[Slot]) -> None:
    for slot in slots:
        monitor.update(slot)


def test_one_json_line_a_slot(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "log.jsonl"
    with Monitor(file, lambda: Accuracy(0.8, 0.9), every=2) as monitor:
        for number in range(5):
            monitor.update(healthy(number, loss=None if number == 0 else 0.5))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["slot"] for line in lines] == [0, 1, 2, 3, 4]
    assert [line["accuracy_ema"] for line in lines] == [None, 0.9, None, 0.9, None]
    assert lines[0]["loss"] is None
    assert lines[1] | {"loss": 0.5} == lines[1]
    assert lines[1]["class_picks"] == [2, 2, 2]
    assert len(monitor.tested) == 2


def test_many_classes_leave_lines_and_states_short(tmp_path: Path) -> None:
    file, classes = tmp_path / "log.jsonl", 5000
    counts = torch.zeros(classes, dtype=torch.long).index_fill_(0, torch.tensor([1, 4999]), 3)
    with Monitor(file, patience=50) as monitor:
        for number in range(60):
            monitor.update(healthy(number, class_picks=counts, class_held=counts))
        recent = monitor.state_dict()["collapse"]
    assert len(file.read_text()) < 60 * 1000
    assert sum(len(picked["labels"]) for picked in recent["recent"]) == 2 * 50
    assert len(recent["class_held"]) == classes
    assert not monitor.warnings


def test_purity_leaves_the_warm_up_out() -> None:
    monitor = Monitor()
    assert monitor.purity is None
    monitor.update(healthy(0, warm_up=True, purity=0.1))
    monitor.update(healthy(1, purity=0.6))
    monitor.update(healthy(2, purity=1.0))
    assert monitor.purity == pytest.approx(0.8)


def purity(
    rows: list[int], targets: list[int] | None = None, weights: list[float] | None = None
) -> float:
    """Of four rows, of which the last two have wrong labels."""
    clean = torch.tensor([True, True, False, False])
    held = Samples.of(torch.zeros(4, 1), torch.tensor([0, 1, 2, 0]), clean=clean)
    picks = Picks(
        torch.tensor(rows),
        None if weights is None else torch.tensor(weights),
        None if targets is None else 0.6 * torch.eye(3)[targets] + 0.2,
    )
    return purity_of(held, picks).item()


def test_purity_is_that_of_the_picks_that_keep_their_label() -> None:
    assert purity([0, 1, 2, 3]) == 0.5
    assert purity([0, 1, 2, 3], targets=[0, 1, 2, 0]) == 0.5
    assert purity([0, 1, 2, 3], targets=[0, 1, 1, 1]) == 1, "both wrong labels were relabelled"
    assert purity([0, 1, 2, 3], targets=[2, 1, 2, 0]) == pytest.approx(1 / 3)
    assert purity([3, 0], targets=[0, 1]) == 0, "targets go by pick, not by row"
    assert math.isnan(purity([2, 3], targets=[0, 1])), "no pick kept its label"
    assert purity([0, 1, 2, 3], [0, 1, 1, 0], weights=[1.0, 0.0, 1.0, 1.0]) == 0.5


def test_healthy_picks_are_left_in_peace() -> None:
    monitor = Monitor(patience=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(100):
            monitor.update(healthy(number))
    assert monitor.warnings == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"class_picks": torch.tensor([3, 3, 0])}, "class 2 has vanished"),
        ({"stayed": 1.0}, "no chain has moved"),
        ({"picked": torch.tensor([1, 2, 1, 2, 1, 2])}, "picks crowd on 2 samples"),
    ],
)
def test_each_collapse_is_reported_once(change: dict, text: str) -> None:
    monitor = Monitor(patience=20)
    with pytest.warns(CollapseWarning, match=text) as caught:
        record_all(monitor, (healthy(number, **change) for number in range(60)))
    assert len(caught) == 1
    assert len(monitor.warnings) == 1


def test_a_rare_class_may_be_missing() -> None:
    monitor = Monitor(patience=20)
    rare = {"class_picks": torch.tensor([3, 3, 0]), "class_held": torch.tensor([150, 149, 1])}
    record_all(monitor, (healthy(number, **rare) for number in range(60)))
    assert monitor.warnings == []


class TestLog:
    """Lines are complete, or absent."""

    def test_a_full_disk_costs_lines_and_tears_none(self, tmp_path: Path) -> None:
        file = tmp_path / "log.jsonl"
        with Monitor(file) as monitor:
            monitor.update(healthy(0))
            with small_files(file.stat().st_size + 50):  # half of a line has room
                monitor.update(healthy(1))
                monitor.update(healthy(2))
            monitor.update(healthy(3))
        lines = [json.loads(line)["slot"] for line in file.read_text().splitlines()]
        assert lines == [0, 3]
        assert monitor.lost == 2

    def test_a_folder_that_cannot_be_written_costs_lines_only(self, tmp_path: Path) -> None:
        (tmp_path / "in the way").write_text("")
        monitor = Monitor(tmp_path / "in the way" / "log.jsonl")
        record_all(monitor, map(healthy, range(3)))
        assert (monitor.slots, monitor.lost) == (3, 3)

    def test_lines_written_since_a_checkpoint_are_taken_back(self, tmp_path: Path) -> None:
        file = tmp_path / "log.jsonl"
        with Monitor(file) as monitor:
            record_all(monitor, map(healthy, range(3)))
            state = monitor.state_dict()
            record_all(monitor, map(healthy, range(3, 5)))
        with Monitor(file) as again:
            again.load_state_dict(state)
            record_all(again, [healthy(3, loss=0.25)])
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        assert [line["slot"] for line in lines] == [0, 1, 2, 3]
        assert lines[-1]["loss"] == 0.25

    def test_a_log_that_is_gone_starts_empty(self, tmp_path: Path) -> None:
        file = tmp_path / "log.jsonl"
        with Monitor(file) as monitor:
            record_all(monitor, map(healthy, range(3)))
            state = monitor.state_dict()
        file.write_text("")
        with Monitor(file) as again:
            again.load_state_dict(state)
            record_all(again, [healthy(3)])
        assert json.loads(file.read_text())["slot"] == 3


class TestInformation:
    """Whether labels carry information for the model."""

    def play(
        self,
        agreement: float,
        slots: int = 250,
        arrived: tuple[int, ...] = (100,) * 3,
        predicted: tuple[int, ...] = (100,) * 3,
    ) -> Monitor:
        monitor = Monitor(patience=5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for number in range(slots):
                monitor.update(
                    healthy(
                        number,
                        agreement=agreement,
                        seen=20 * (number + 1),
                        class_arrived=torch.tensor(arrived),
                        class_predicted=torch.tensor(predicted),
                    )
                )
        return monitor

    def test_labels_predicted_at_random_only(self) -> None:
        assert NO_INFORMATION in self.play(0.33).warnings
        assert NO_INFORMATION in self.play(0.1).warnings
        assert NO_INFORMATION not in self.play(0.45).warnings

    def test_not_before_enough_have_come(self) -> None:
        assert not self.play(0.33, slots=199).uninformative()
        assert self.play(0.33, slots=200).uninformative()

    def test_the_commonest_label_is_no_news(self) -> None:
        arrived = (240, 30, 30)
        assert self.play(0.8, arrived=arrived, predicted=(300, 0, 0)).uninformative()
        assert not self.play(0.9, arrived=arrived, predicted=(270, 15, 15)).uninformative()

    def test_it_is_reported_once(self) -> None:
        assert self.play(0.33, slots=300).warnings.count(NO_INFORMATION) == 1

    @pytest.mark.parametrize("noise", [0.0, 0.2])
    @pytest.mark.parametrize("informative", [True, False])
    def test_a_rare_class_that_is_learned_is_information(
        self, informative: bool, noise: float
    ) -> None:
        """3 in 100 rows are of the second class; naming the first is nearly always right."""
        generator = torch.Generator().manual_seed(0)
        model = start(logistic, (4,), 2, 0)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        trainer, monitor = Trainer(model, optimizer, Naive(), Sliding(1000)), Monitor(patience=5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for number in range(400):
                classes = (torch.rand(20, generator=generator) < 0.03).long()
                inputs = torch.randn(20, 4, generator=generator)
                inputs += 4 * classes[:, None] if informative else 0
                wrong = torch.rand(20, generator=generator) < noise
                labels = torch.where(wrong, 1 - classes, classes)
                monitor.update(trainer.step(Samples.of(inputs, labels, 20 * number)))
        assert (NO_INFORMATION in monitor.warnings) == (not informative)

    def test_counts_are_saved(self) -> None:
        counts = {"class_arrived": torch.tensor([19, 1]), "class_predicted": torch.tensor([18, 2])}
        slots = [healthy(n, seen=20 * (n + 1), agreement=0.95, **counts) for n in range(20)]
        unbroken, first, second = Monitor(), Monitor(), Monitor()
        record_all(unbroken, slots)
        record_all(first, slots[:7])
        second.load_state_dict(first.state_dict())
        record_all(first, slots[7:])
        record_all(second, slots[7:])
        assert (
            unbroken._predictions.lead() == second._predictions.lead() == first._predictions.lead()
        )
        assert unbroken._predictions.lead() > 2


def test_a_class_that_has_just_come_up_has_not_vanished(tmp_path: Path) -> None:
    """It is judged once it was there in all slots that picks are looked for in."""

    def slot(number: int, classes: int) -> Slot:
        made = make_slot(number, list(range(10 * number, 10 * number + 10)), [0, 1] * 5)
        counts = torch.zeros(classes, dtype=torch.long)
        held = counts.clone()
        counts[:2], held[:] = 5, 100
        return replace(made, class_picks=counts, class_held=held)

    def warned(monitor: Monitor, numbers: range) -> list[int]:
        return [n for n in numbers if monitor.update(slot(n, 2 if n < 30 else 3)).warnings]

    monitor = Monitor(patience=20)
    assert warned(monitor, range(40)) == []
    again = Monitor(patience=20)
    again.load_state_dict(monitor.state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)
        assert warned(monitor, range(40, 60)) == warned(again, range(40, 60)) == [50]
    assert monitor.warnings == ["class 2 has vanished from the picks"]
