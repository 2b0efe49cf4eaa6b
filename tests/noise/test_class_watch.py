"""Classes that come up and classes that are gone, against a loop over labels one by one."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Generator, Tensor

from tamis.noise import Alarm
from tamis.noise.class_watch import ALPHA, BLOCK, ClassChange, ClassWatch
from tests.support.identical import identical

LEAST = 100


class Loop:
    """The same rule for one class, label by label, with every gap in a list."""

    def __init__(self) -> None:
        self.gaps: list[int] = []
        self.last: int | None = None
        self.gone = False

    def label(self, row: int) -> None:
        if self.last is not None and not self.gone:
            self.gaps.append(row - self.last)
        else:
            self.gaps = []
        self.last, self.gone = row, False

    def check(self, rows: int) -> bool:
        counted = len(self.gaps) % BLOCK + (BLOCK if len(self.gaps) >= BLOCK else 0)
        gaps = self.gaps[-counted:] if counted else []
        if self.last is None or self.gone or not gaps:
            return False
        gap = rows - self.last
        self.gone = gap >= LEAST and (1 + gap / sum(gaps)) ** -len(gaps) < ALPHA
        return self.gone


def play(watch: ClassWatch, labels: Tensor, chunk: int = 50) -> list[ClassChange]:
    found = []
    for part in labels.split(chunk):
        watch.update(part)
        watch.check()
        found += watch.pop_changes()
    return found


def test_gone_as_a_loop_finds_it() -> None:
    generator = Generator().manual_seed(0)
    shares = torch.tensor([[0.5, 0.3, 0.15, 0.05], [0.6, 0.4, 0, 0], [0.4, 0.4, 0.2, 0]])
    labels = torch.cat(
        [part.multinomial(3000, replacement=True, generator=generator) for part in shares]
    )
    loops, naive = [Loop() for _ in range(4)], []
    for row, label in enumerate(labels.tolist()):
        loops[label].label(row)
        if (row + 1) % 50 == 0:
            naive += [
                ClassChange("class gone", label, row + 1)
                for label, loop in enumerate(loops)
                if loop.check(row + 1)
            ]
    found = play(ClassWatch(4, LEAST), labels)
    assert found == naive
    assert [change.label for change in found][:2] == [2, 3]
    assert all(change.row > 3000 for change in found)


def test_a_steady_class_is_never_reported() -> None:
    """A million labels have one false report at the most, by the bound."""
    generator = Generator().manual_seed(1)
    shares = torch.tensor([0.6, 0.3, 0.08, 0.015, 0.004, 0.001])
    labels = shares.multinomial(200_000, replacement=True, generator=generator)
    assert play(ClassWatch(6, 0), labels) == []


@pytest.mark.parametrize("count", [1, 2, 5, 20])
def test_few_labels_are_judged_late(count: int) -> None:
    """After n gaps of length 10 a class is gone once (1 + m / T)^-n is below the bound."""
    labels = torch.zeros(200_000, dtype=torch.long)
    labels[torch.arange(count + 1) * 10] = 1
    found = play(ClassWatch(2, 0), labels)
    length = 10 * count
    due = length * (ALPHA ** (-1 / count) - 1) + length
    if due > len(labels):
        assert found == []
    else:
        assert [change.label for change in found] == [1]
        assert found[0].row == pytest.approx(math.ceil(due), abs=50)


def test_it_is_reported_once_until_it_returns() -> None:
    present, absent = torch.arange(2000) % 2, torch.zeros(2000, dtype=torch.long)
    found = play(ClassWatch(2, LEAST), torch.cat([present, absent, absent, present, absent]))
    assert [(change.kind, change.label) for change in found] == [("class gone", 1)] * 2
    assert found[0].row < 2200
    assert 8000 < found[1].row < 8200


def test_a_burst_is_no_rate() -> None:
    labels = torch.zeros(3000, dtype=torch.long)
    labels[500:600] = 1
    assert play(ClassWatch(2, 2500), labels) == []
    assert [change.row for change in play(ClassWatch(2, 1000), labels)] == [1600]


def test_new_classes_are_reported_with_their_first_label() -> None:
    watch = ClassWatch(2)
    watch.update(torch.tensor([0, 1]))
    watch.grow(5)
    assert watch.pop_changes() == []
    watch.update(torch.tensor([0, 4, 4, 2]))
    assert watch.pop_changes() == [ClassChange("new class", at, 6) for at in (2, 4)]
    watch.update(torch.tensor([2, 4]))
    assert watch.pop_changes() == []
    watch.report_new(torch.tensor([3]))
    assert watch.pop_changes() == [ClassChange("new class", 3, 8)]


def test_saved_and_resumed_equals_unbroken() -> None:
    generator = Generator().manual_seed(2)
    labels = torch.cat([torch.randint(3, (500,), generator=generator), torch.zeros(500).long()])
    one, other = Alarm(2, 100.0), Alarm(2, 100.0)
    for at, part in enumerate(labels.split(7)):
        if at == 20:
            one.grow(3)
            other.grow(3)
        if at in (10, 21, 90):
            again = Alarm(other.classes, 100.0)
            again.load_state_dict(other.state_dict())
            other = again
        probabilities = torch.full((len(part), one.classes), 1 / one.classes)
        one.update(probabilities, part)
        other.update(probabilities, part)
    assert identical(one.state_dict(), other.state_dict())
    changes = one.pop_class_changes()
    assert changes == other.pop_class_changes()
    assert {change.kind for change in changes} == {"new class", "class gone"}
