"""Runs that are served to Label Studio."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.services import Opened, opened, train_stream, train_table


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a stream whose rows have ids r0 to r119, in the column n."""
    return train_stream(tmp_path_factory.mktemp("stream"), "--capacity", "1000")


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "run")


@pytest.fixture
def here(folder: Path) -> Iterator[Opened]:
    with opened(folder) as service:
        yield service


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Path]:
    """Trains a run on a table, with further options."""
    return lambda *more: train_table(tmp_path, "--capacity", "1000", *more)
