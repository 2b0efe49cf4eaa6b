"""Rows on disk, and a process that is killed while it writes them."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest
import torch

from tamis import Samples, Sliding
from tamis.buffers import DiskSpaceError
from tamis.checkpoint.blocks import slices
from tests.support.disk_kills import kill_while_writing


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_killed_while_writing_nothing_is_lost(tmp_path: Path) -> None:
    survived = kill_while_writing(tmp_path, 8, 60, 1000)
    assert survived.kills >= 8
    assert survived.in_save >= 3
    assert survived.lost == 0
    assert survived.identical


def samples(count: int) -> Samples:
    return Samples.of(torch.arange(4.0 * count).view(count, 4), torch.zeros(count).long())


def test_nothing_is_left_of_the_file(tmp_path: Path) -> None:
    buffer = Sliding(10, disk=tmp_path / "new" / "folder")
    buffer.append(samples(10), torch.Generator())
    assert list((tmp_path / "new" / "folder").iterdir()) == []
    assert len(buffer.pool()) == 10


def test_a_disk_without_room_is_one_sentence(tmp_path: Path, monkeypatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    buffer = Sliding(10**6, disk=tmp_path)
    with pytest.raises(DiskSpaceError, match=r"^Rows on disk take 0\.0 GB in .* no room for them"):
        buffer.append(samples(10), torch.Generator())
    monkeypatch.undo()
    buffer.append(samples(10), torch.Generator())
    assert buffer.pool().inputs.equal(samples(10).inputs)


def test_a_model_on_a_gpu_is_refused(tmp_path: Path) -> None:
    rows = Samples.of(torch.empty(3, 2, device="meta"), torch.zeros(3, device="meta").long())
    with pytest.raises(ValueError, match="for models on the CPU"):
        Sliding(10, disk=tmp_path).append(rows, torch.Generator())


@pytest.mark.parametrize("disk", [False, True])
def test_parts_are_all_rows_in_their_order(disk: bool, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("tamis.buffers.store.PIECE", 3 * 16)
    buffer = Sliding(11, disk=tmp_path if disk else None)
    buffer.append(samples(17), torch.Generator())
    parts = list(buffer.parts())
    assert [len(part) for part in parts] == [3, 3, 3, 2]
    assert torch.cat([part.inputs for part in parts]).equal(buffer.pool().inputs)
    assert list(Sliding(3).parts()) == []


@pytest.mark.parametrize("disk", [False, True])
def test_rows_are_moved_a_few_at_a_time(disk: bool, tmp_path: Path, monkeypatch) -> None:
    """With rows of which few are in memory, a ring is turned and closed up as with all at once."""
    monkeypatch.setattr("tamis.buffers.store.PIECE", 2 * 16)
    buffer = Sliding(11, disk=tmp_path if disk else None)
    buffer.append(samples(17), torch.Generator())
    gone = torch.tensor([7, 8, 14])
    assert buffer.remove(gone) == 3
    left = samples(17).inputs[[6, 9, 10, 11, 12, 13, 15, 16]]
    assert buffer.pool().inputs.equal(left)


def test_slices_are_of_one_row_at_least() -> None:
    assert [part.start for part in slices(torch.zeros(3, 100), 8)] == [0, 1, 2]


@pytest.mark.parametrize("disk", [False, True])
@pytest.mark.parametrize("kind", [torch.float32, torch.bool])
def test_rows_are_taken_from_any_places(disk: bool, kind: torch.dtype, tmp_path: Path) -> None:
    rows = samples(3000)
    rows = Samples.of((rows.inputs % 7).to(kind), torch.zeros(3000).long())
    buffer = Sliding(3000, disk=tmp_path if disk else None)
    buffer.append(rows, torch.Generator())
    places = torch.randperm(3000)[:500]
    for absent in (False, True):
        if disk and absent:
            os.fsync(buffer._mapped._handle)
            os.posix_fadvise(buffer._mapped._handle, 0, 0, os.POSIX_FADV_DONTNEED)
        taken = buffer.take(places)
        assert taken.inputs.equal(rows.inputs[places])
        assert taken.ids.equal(rows.ids[places])
        taken.inputs.zero_()  # a copy
    assert buffer.pool().inputs.equal(rows.inputs)
    assert len(buffer.take(places[:0])) == 0
