"""What every noise, schedule and data set keeps, found by walking the package."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import pytest
import torch

from tamis.streams import (
    DATA_SETS,
    NOISES,
    SCHEDULES,
    Noise,
    Replay,
    datasets,
    noise,
    schedules,
    structured_noise,
)


def public_classes(module: ModuleType, method: str) -> set[type]:
    return {
        member
        for name, member in inspect.getmembers(module, inspect.isclass)
        if member.__module__ == module.__name__
        and not name.startswith("_")
        and method in vars(member)
    }


def test_every_noise_is_listed() -> None:
    found = public_classes(noise, "corrupt") | public_classes(structured_noise, "corrupt")
    assert found - {Noise} == set(NOISES)
    assert len(set(NOISES)) == len(NOISES)


def test_every_schedule_is_listed() -> None:
    assert public_classes(schedules, "__call__") == set(SCHEDULES)
    assert len(set(SCHEDULES)) == len(SCHEDULES)


def test_every_data_set_is_listed() -> None:
    found = {
        member
        for name, member in inspect.getmembers(datasets, inspect.isfunction)
        if inspect.signature(member).return_annotation == "DataSet" and name != "idx_data_set"
    }
    assert found == set(DATA_SETS)
    assert len(set(DATA_SETS)) == len(DATA_SETS)


@pytest.mark.parametrize("shape", [(3,), (1, 4, 4)], ids=["columns", "images"])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("kind", NOISES)
def test_every_noise_plays_under_every_schedule(
    kind: type, schedule: type, shape: tuple[int, ...], build_noise: Any
) -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(120, *shape, generator=generator)
    labels = torch.randint(10, (120,), generator=generator)
    stream = Replay(inputs, labels, build_noise(kind, inputs, labels), schedule(), rows_per_slot=16)
    chunks = list(stream)
    assert sum(len(samples) for samples in chunks) == 120
    for samples in chunks:
        assert len({len(column) for column in samples.columns().values()}) == 1
        assert samples.inputs.shape[1:] == shape
        assert samples.inputs.dtype == torch.float32
        assert samples.inputs.isfinite().all()
        assert samples.labels.dtype == torch.int64
        assert 0 <= samples.labels.min() <= samples.labels.max() < 10
        assert samples.clean is not None
        assert samples.clean.dtype == torch.bool
    clean = torch.cat([samples.clean for samples in chunks if samples.clean is not None])
    assert 0 < clean.sum() < 120
