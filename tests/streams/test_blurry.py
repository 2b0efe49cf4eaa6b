"""Tasks with blurred boundaries against a count of their classes."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from tamis.streams import BlurryTasks, Symmetric

LABELS = torch.arange(1000) % 10
INPUTS = torch.arange(1000.0)[:, None]


def tasks(**settings) -> BlurryTasks:
    shared = {"slots_per_task": 20, "rows_per_slot": 16, "seed": 3} | settings
    return BlurryTasks(INPUTS, LABELS, Symmetric(10), shared.pop("clean_ratio", 1.0), **shared)


def test_a_task_has_most_rows_of_its_classes_and_few_of_all_others() -> None:
    items = list(tasks())
    assert len(items) == len(tasks()) == 100
    owners = Counter()
    for task in range(5):
        counts = Counter()
        for samples in items[20 * task : 20 * task + 20]:
            counts.update([] if samples is None else samples.labels.tolist())
        own = {label for label, count in counts.items() if count == 90}
        assert len(own) == 2
        assert all(2 <= counts[label] <= 3 for label in set(range(10)) - own)
        owners.update(own)
    assert owners == Counter(range(10))


def test_every_row_comes_once_and_then_none_until_the_next_task() -> None:
    items = list(tasks())
    came = torch.cat([samples.inputs[:, 0] for samples in items if samples is not None])
    assert sorted(came.tolist()) == list(range(1000))
    ids = torch.cat([samples.ids for samples in items if samples is not None])
    assert ids.tolist() == list(range(1000))
    for task in range(5):
        there = [samples is not None for samples in items[20 * task : 20 * task + 20]]
        assert there == [True] * 13 + [False] * 7  # 200 rows, 16 at a time
    crowded = list(tasks(slots_per_task=4))
    assert all(samples is not None for samples in crowded)
    assert sum(map(len, crowded)) == 1000


def test_labels_are_wrong_as_often_as_wanted() -> None:
    samples = [each for each in tasks(clean_ratio=0.6) if each is not None]
    clean = torch.cat([each.clean for each in samples])
    rows = torch.cat([each.inputs[:, 0] for each in samples]).long()
    labels = torch.cat([each.labels for each in samples])
    assert clean.float().mean().item() == pytest.approx(0.6, abs=0.05)
    assert (labels == LABELS[rows]).equal(clean)


def test_the_seed_determines_all() -> None:
    def come(seed: int) -> list[float]:
        return [
            x for each in tasks(seed=seed) if each is not None for x in each.inputs[:, 0].tolist()
        ]

    assert come(1) == come(1) != come(2)


@pytest.mark.parametrize("settings", [{"tasks": 0}, {"slots_per_task": 0}, {"minor": 1.5}])
def test_wrong_settings_get_a_sentence(settings: dict) -> None:
    with pytest.raises(ValueError, match="minor is a share"):
        tasks(**settings)


def test_one_task_is_a_plain_replay() -> None:
    (first, *rest) = tasks(tasks=1, slots_per_task=2, rows_per_slot=1000)
    assert len(first) == 1000
    assert rest == [None]
