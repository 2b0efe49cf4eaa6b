"""Schedules give the clean ratios they name, and never what is no share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.streams import SCHEDULES, Burst, Constant, Ramp, Schedule, Steps, Wave

RATIOS = st.floats(0, 1)
BY_TYPE = {"float": RATIOS, "tuple[float, ...]": st.lists(RATIOS, min_size=1).map(tuple)}


@st.composite
def schedules(draw: Callable[..., Any]) -> Schedule:
    """Any schedule with any settings: a new kind is drawn without a line here."""
    kind = draw(st.sampled_from(SCHEDULES))
    return kind(*(draw(BY_TYPE[str(field.type)]) for field in fields(kind)))


@given(schedule=schedules(), time=st.floats(0, 1))
@settings(derandomize=True, deadline=None, max_examples=300)
def test_ratios_stay_between_0_and_1(schedule: Schedule, time: float) -> None:
    assert 0 <= schedule(time) <= 1


@pytest.mark.parametrize("kind", SCHEDULES)
def test_defaults_move_within_0_and_1(kind: type) -> None:
    assert all(0 <= kind()(step / 100) <= 1 for step in range(101))


@pytest.mark.parametrize(
    ("schedule", "times", "ratios"),
    [
        (Constant(0.3), (0, 0.5, 1), (0.3, 0.3, 0.3)),
        (
            Steps((0.9, 0.5, 0.8, 0.4)),
            (0, 0.2499, 0.25, 0.5, 0.75, 1),
            (0.9, 0.9, 0.5, 0.8, 0.4, 0.4),
        ),
        (Steps((0.7,)), (0, 1), (0.7, 0.7)),
        (Ramp(0.9, 0.4), (0, 0.2, 1), (0.9, 0.8, 0.4)),
        (Ramp(0.4, 0.9), (0, 0.2, 1), (0.4, 0.5, 0.9)),
        (Wave(0.9, 0.5, turns=2), (0, 0.125, 0.25, 0.5, 0.75, 1), (0.9, 0.7, 0.5, 0.9, 0.5, 0.9)),
        (Burst(0.9, 0.2, 0.4, 0.6), (0, 0.39, 0.4, 0.59, 0.6, 1), (0.9, 0.9, 0.2, 0.2, 0.9, 0.9)),
    ],
)
def test_ratio_at_a_time(
    schedule: Schedule, times: tuple[float, ...], ratios: tuple[float, ...]
) -> None:
    assert [schedule(time) for time in times] == pytest.approx(list(ratios))


@pytest.mark.parametrize("ratio", [-0.1, 1.1, float("nan")])
@pytest.mark.parametrize(
    "build",
    [
        Constant,
        lambda ratio: Steps((0.5, ratio)),
        Ramp,
        partial(Ramp, 0.5),
        Wave,
        partial(Wave, 0.5),
        Burst,
        partial(Burst, 0.5),
    ],
)
def test_what_is_no_share_is_refused(build: Callable[[float], Schedule], ratio: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        build(ratio)


def test_no_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Steps(())
