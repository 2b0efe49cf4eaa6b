"""Tables that are sorted by label, and their rows in random order."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tamis.sources import Validator, open_table
from tamis.sources.label_order import LabelOrder


def grouped(labels: list[str], block: int = 50) -> bool:
    order = LabelOrder()
    for start in range(0, len(labels), block):
        order.update(labels[start : start + block])
    return order.grouped(Counter(labels))


def wrongly_labelled(labels: list[str], share: float) -> list[str]:
    draw, names = np.random.default_rng(0), sorted(set(labels))
    return [str(draw.choice(names)) if draw.random() < share else label for label in labels]


def test_sorted_tables_are_found_out_even_with_wrong_labels() -> None:
    labels = ["a"] * 60 + ["b"] * 40 + ["c"] * 50
    assert grouped(labels)
    assert grouped(wrongly_labelled(labels, 0.4))


@pytest.mark.parametrize("seed", range(20))
def test_tables_in_random_order_are_not(seed: int) -> None:
    labels = ["a"] * 90 + ["b"] * 60
    np.random.default_rng(seed).shuffle(labels)
    assert not grouped(labels)


@pytest.mark.parametrize("labels", [[], ["a"], ["a"] * 50, ["a", "b"] * 40])
def test_what_cannot_be_grouped_is_not(labels: list[str]) -> None:
    assert not grouped(labels)


def test_a_sorted_file_is_read_in_random_order_and_resumes_in_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    lines = [f"{number},{'ab'[number >= 40]}" for number in range(80)]
    path.write_text("\n".join(["x,y", *lines]) + "\n")
    table = open_table(path, "y", Validator(2), rows_per_slot=10)
    assert table.grouped
    chunks = [samples for samples, _ in table.play().named()]
    assert [len(samples) for samples in chunks] == [10] * 8
    ids = [number for samples in chunks for number in samples.ids.tolist()]
    assert sorted(ids) == list(range(80))
    assert all(0 < samples.labels.sum() < 10 for samples in chunks)
    again = table.play()
    again.seek(3)
    rest = [samples for samples, _ in again.named()]
    assert [samples.ids.tolist() for samples in rest] == [
        samples.ids.tolist() for samples in chunks[3:]
    ]
