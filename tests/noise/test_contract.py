"""What every estimator of the clean ratio keeps, found by walking the package."""

from __future__ import annotations

import inspect
import pkgutil
from dataclasses import replace
from importlib import import_module

import pytest
import torch
from torch import Generator, nn

from tamis import noise
from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.noise import CLEAN_RATIOS, Tracker
from tamis.noise.opinions import Estimates

every_estimator = pytest.mark.parametrize("kind", CLEAN_RATIOS)


def test_every_estimator_is_listed() -> None:
    found = {
        member
        for module in pkgutil.walk_packages(noise.__path__, "tamis.noise.")
        for _, member in inspect.getmembers(import_module(module.name), inspect.isclass)
        if member.__module__ == module.name and "estimate" in vars(member)
        if member not in (Tracker, Estimates)
    }
    assert found == set(CLEAN_RATIOS)


@every_estimator
def test_it_returns_a_share_and_changes_nothing(
    kind: type, blobs: Samples, blob_model: nn.Module
) -> None:
    columns = {name: column.clone() for name, column in blobs.columns().items()}
    weights, rng = blob_model.weight.clone(), torch.random.get_rng_state()
    with torch.no_grad():
        share = kind().estimate(blobs, ModelView(blob_model), Generator().manual_seed(0))
    assert isinstance(share, float)
    assert 0 < share <= 1
    assert all(torch.equal(column, columns[name]) for name, column in blobs.columns().items())
    assert torch.equal(blob_model.weight, weights)
    assert blob_model.weight.grad is None
    assert torch.equal(torch.random.get_rng_state(), rng)


@every_estimator
def test_it_does_not_use_the_ground_truth(
    kind: type, blobs: Samples, blob_model: nn.Module
) -> None:
    with_truth, without = (
        kind().estimate(samples, ModelView(blob_model), Generator().manual_seed(0))
        for samples in (blobs, replace(blobs, clean=None))
    )
    assert with_truth == without
