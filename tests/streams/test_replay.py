"""Replay shows every row once a pass, in an order and with noise that the seed alone decides."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.data import Samples
from tamis.streams import Constant, GroundTruth, Replay, Steps, Symmetric

CLASSES = 5


def replay(rows: int = 23, schedule: Any = Constant(0.6), **settings: Any) -> Replay:  # noqa: B008
    """Inputs that hold each row's number, so that a test sees which rows came."""
    numbers = torch.arange(rows)
    inputs = numbers[:, None].float()
    return Replay(inputs, numbers % CLASSES, Symmetric(CLASSES), schedule, **settings)


def together(stream: Replay) -> Samples:
    chunks = list(stream)
    columns = [
        torch.cat(column) for column in zip(*(c.columns().values() for c in chunks), strict=True)
    ]
    return Samples(*columns)


def same(one: Samples, two: Samples) -> bool:
    return all(torch.equal(one.columns()[name], two.columns()[name]) for name in one.columns())


@given(rows=st.integers(1, 40), rows_per_slot=st.integers(1, 50))
@settings(derandomize=True, deadline=None)
def test_one_pass_shows_every_row_once(rows: int, rows_per_slot: int) -> None:
    stream = replay(rows, rows_per_slot=rows_per_slot)
    sizes = [len(samples) for samples in stream]
    assert len(sizes) == len(stream)
    assert set(sizes[:-1]) <= {rows_per_slot}
    assert sorted(together(stream).inputs[:, 0].int().tolist()) == list(range(rows))


@given(rows=st.integers(1, 20), rows_per_slot=st.integers(1, 50), slots=st.integers(1, 8))
@settings(derandomize=True, deadline=None)
def test_slots_beyond_the_rows_bring_another_pass(
    rows: int, rows_per_slot: int, slots: int
) -> None:
    stream = replay(rows, rows_per_slot=rows_per_slot, slots=slots)
    assert [len(samples) for samples in stream] == [rows_per_slot] * slots
    for a_pass in together(stream).inputs[:, 0].int().split(rows):
        assert len(set(a_pass.tolist())) == len(a_pass)


def test_another_pass_has_another_order_and_other_noise() -> None:
    samples = together(replay(100, slots=200))
    first, second = samples[slice(100)], samples[slice(100, None)]
    assert not torch.equal(first.inputs, second.inputs)
    wrong = [set(part.inputs[~part.clean, 0].tolist()) for part in (first, second)]  # type: ignore[operator]
    assert wrong[0] != wrong[1]


def test_rows_keep_their_labels_where_these_are_clean() -> None:
    samples = together(replay(500))
    truth = samples.inputs[:, 0].long() % CLASSES
    assert samples.clean is not None
    assert torch.equal(samples.clean, samples.labels == truth)


def test_no_slots_means_none() -> None:
    stream = replay(slots=0)
    assert len(stream) == len(list(stream)) == 0


def test_iterating_twice_gives_the_same_stream() -> None:
    stream = replay(rows_per_slot=4, slots=12)
    assert same(together(stream), together(stream))


def test_seeds_differ() -> None:
    assert not same(together(replay(seed=0)), together(replay(seed=1)))


def test_ids_count_the_arrivals() -> None:
    samples = together(replay(7, rows_per_slot=3, slots=6))
    assert samples.ids.tolist() == list(range(18))
    assert not samples.uses.any()


def test_time_runs_from_0_to_1() -> None:
    assert [replay(5).time(slot) for slot in range(5)] == [0, 0.25, 0.5, 0.75, 1]
    assert replay(1).time(0) == 0


def test_clean_share_of_each_quarter_follows_the_steps() -> None:
    ratios = (0.9, 0.5, 0.8, 0.4)
    clean = together(replay(8_000, Steps(ratios), rows_per_slot=10)).clean
    assert clean is not None
    for ratio, quarter in zip(ratios, clean.split(2_000), strict=True):
        error = math.sqrt(ratio * (1 - ratio) / 2_000)
        assert quarter.double().mean().item() == pytest.approx(ratio, abs=4 * error)


def test_ground_truth_is_what_passed_by() -> None:
    stream = replay(50, rows_per_slot=7)
    ground_truth, samples = GroundTruth.of(stream), together(stream)
    assert samples.clean is not None
    assert torch.equal(ground_truth.ids, samples.ids)
    assert torch.equal(ground_truth.labels, samples.labels)
    assert torch.equal(ground_truth.clean, samples.clean)
    truth = samples.inputs[:, 0].long() % CLASSES
    assert ground_truth.wrong_ids == set(samples.ids[samples.labels != truth].tolist())
    assert ground_truth.clean_ratio == pytest.approx(1 - len(ground_truth.wrong_ids) / 50)


def test_ground_truth_needs_to_know_which_labels_are_clean() -> None:
    with pytest.raises(ValueError, match="lack `clean`"):
        GroundTruth.of([Samples.of(torch.zeros(2, 1), torch.zeros(2, dtype=torch.long))])
