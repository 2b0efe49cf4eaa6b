"""What each kind of buffer keeps, and what it lets go."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor

from tamis.buffers import BalancedReservoir, Buffer, Growing, Reservoir, Sliding
from tamis.data import Samples


def seeded(seed: int = 0) -> Generator:
    return torch.Generator().manual_seed(seed)


def feed(buffer: Buffer, labels: Tensor, chunks: Sequence[int], generator: Generator) -> set[int]:
    """Send a stream in chunks, and return the ids that are held at its end."""
    samples = Samples.of(labels[:, None].float(), labels)
    arrived = 0
    for count in chunks:
        buffer.append(samples[slice(arrived, arrived + count)], generator)
        arrived += count
    assert arrived == len(labels)
    return set(buffer.pool().ids.tolist())


def zeros(rows: int) -> Tensor:
    return torch.zeros(rows, dtype=torch.long)


def test_growing_keeps_the_first_rows_and_counts_those_turned_away() -> None:
    buffer = Growing(10)
    assert feed(buffer, zeros(17), [4, 4, 4, 5], seeded()) == set(range(10))
    assert buffer.turned_away == 7
    assert Growing(10).turned_away == 0


@given(capacity=st.integers(1, 12), chunks=st.lists(st.integers(0, 30), max_size=10))
@settings(derandomize=True, deadline=None)
def test_sliding_holds_exactly_the_newest_rows(capacity: int, chunks: list[int]) -> None:
    buffer, newest, arrived = Sliding(capacity), deque[int](maxlen=capacity), 0
    for count in [1, *chunks]:
        buffer.append(Samples.of(torch.zeros(count, 1), zeros(count), arrived), seeded())
        newest.extend(range(arrived, arrived + count))
        arrived += count
        assert sorted(buffer.pool().ids.tolist()) == list(newest)


def worst_error(held: Counter[int], ids: Sequence[int], probability: float, runs: int) -> float:
    """How many standard errors the id lies off that is held too often or too seldom."""
    error = math.sqrt(probability * (1 - probability) / runs)
    return max(abs(held[row_id] / runs - probability) / error for row_id in ids)


@pytest.mark.parametrize("chunks", [[1] * 8, [3, 3, 2], [8]], ids=str)
def test_reservoir_holds_every_id_equally_often(chunks: list[int]) -> None:
    runs, generator = 1_500, seeded()
    held: Counter[int] = Counter()
    for _ in range(runs):
        held.update(feed(Reservoir(4), zeros(8), chunks, generator))
    # One off in the count of rows so far would show as 5 standard errors or more.
    assert worst_error(held, range(8), 4 / 8, runs) < 4.5


def test_reservoir_holds_pairs_with_equal_probability() -> None:
    """Rows of one chunk are let in independently of each other."""
    runs, generator = 1_500, seeded()
    pairs = sum({6, 7} <= feed(Reservoir(4), zeros(8), [8], generator) for _ in range(runs))
    probability = (4 * 3) / (8 * 7)
    assert pairs / runs == pytest.approx(
        probability, abs=4.5 * math.sqrt(probability * (1 - probability) / runs)
    )


def one_in_ten(rows: int) -> Tensor:
    return (torch.arange(rows) % 10 == 9).long()


@pytest.mark.parametrize("chunk", [1, 50, 2_000])
def test_balanced_reservoir_holds_half_of_each_class(chunk: int) -> None:
    buffer = BalancedReservoir(100)
    feed(buffer, one_in_ten(2_000), [chunk] * (2_000 // chunk), seeded())
    assert buffer.pool().labels.bincount().tolist() == pytest.approx([50, 50], abs=2)


def test_balanced_reservoir_holds_all_of_a_rare_class() -> None:
    labels = torch.zeros(2_000, dtype=torch.long)
    rare = [300, 700, 1_100, 1_500, 1_900]
    labels[rare] = 1
    assert set(rare) <= feed(BalancedReservoir(100), labels, [40] * 50, seeded())


@pytest.mark.parametrize("chunks", [[4] * 15, [13] * 4 + [8], [60]], ids=["4", "13", "60"])
def test_balanced_reservoir_is_even_within_a_class(chunks: list[int]) -> None:
    runs, generator, labels = 400, seeded(), one_in_ten(60)
    held: Counter[int] = Counter()
    for _ in range(runs):
        held.update(feed(BalancedReservoir(8), labels, chunks, generator))
    for label in range(2):
        ids = (labels == label).nonzero()[:, 0].tolist()
        probability = sum(held[row_id] for row_id in ids) / len(ids) / runs
        assert worst_error(held, ids, probability, runs) < 4.5


@given(
    capacity=st.integers(1, 10),
    chunks=st.lists(st.lists(st.integers(0, 4), max_size=25), min_size=1, max_size=8),
    seed=st.integers(0, 1_000),
)
@settings(derandomize=True, deadline=None)
def test_balanced_reservoir_knows_which_class_is_where(
    capacity: int, chunks: list[list[int]], seed: int
) -> None:
    buffer, generator = BalancedReservoir(capacity), seeded(seed)
    buffer.append(Samples.of(torch.zeros(1, 1), zeros(1)), generator)
    for chunk in chunks:
        labels = torch.tensor(chunk, dtype=torch.long)
        buffer.append(Samples.of(torch.zeros(len(chunk), 1), labels), generator)
        stored = buffer.pool().labels
        for label in range(5):
            places = (stored == label).nonzero()[:, 0].tolist()
            assert sorted(buffer._rows.get(label, [])) == places


def test_a_ring_still_lets_the_oldest_go_after_one_was_removed(blobs: Samples) -> None:
    buffer = Sliding(10)
    buffer.append(blobs[slice(14)], seeded())  # 4 to 13, the oldest in the fifth place
    buffer.remove(torch.tensor([6]))
    assert buffer.pool().ids.tolist() == [4, 5, 7, 8, 9, 10, 11, 12, 13]
    buffer.append(blobs[slice(14, 17)], seeded())
    assert sorted(buffer.pool().ids.tolist()) == [7, 8, 9, 10, 11, 12, 13, 14, 15, 16]


def test_a_ring_stays_as_it_is_where_nothing_is_removed(blobs: Samples) -> None:
    buffer = Sliding(10)
    buffer.append(blobs[slice(14)], seeded())
    before = buffer.pool().ids.tolist()
    assert buffer.remove(torch.tensor([0, 100])) == 0
    assert buffer.pool().ids.tolist() == before


def test_balanced_classes_are_those_of_the_corrected_labels(blobs: Samples) -> None:
    buffer, generator = BalancedReservoir(60), seeded()
    buffer.append(blobs[slice(100)], generator)
    buffer.relabel(torch.arange(100), torch.zeros(100, dtype=torch.long))
    buffer.remove(torch.arange(0, 60, 5))
    for at in range(100, 300, 20):
        state = buffer.state_dict()
        labels = buffer.pool().labels
        held = {label: rows.tolist() for label, rows in state["places"].items() if len(rows)}
        assert {label: sorted(rows) for label, rows in held.items()} == {
            label: (labels == label).nonzero()[:, 0].tolist() for label in labels.unique().tolist()
        }
        assert all(state["seen"][label] >= len(rows) for label, rows in held.items())
        buffer.append(blobs[slice(at, at + 20)], generator)
    counts = buffer.pool().labels.bincount()
    assert counts.max() - counts.min() <= 2
