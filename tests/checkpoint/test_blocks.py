"""Rows in blocks: a checkpoint writes what changed, and touches nothing that another refers to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from tamis import Growing, Plausible, Reservoir, Samples, Sliding, Trainer
from tamis.buffers import Buffer
from tamis.checkpoint import Checkpoints, DamagedCheckpointWarning, NotSavedError, RefusedError
from tamis.checkpoint.block_files import free_places
from tamis.models import mlp, start
from tests.support.identical import identical

WIDTH = 700
FILE = "run.buffer.rows.inputs.blocks"


def rows(first: int, count: int, width: int = WIDTH) -> Samples:
    ids = torch.arange(first, first + count)
    return Samples.of(ids[:, None] + torch.arange(width) / width, ids % 3, first)


def trainer_of(buffer: Buffer, width: int = WIDTH) -> Trainer:
    model = start(mlp, (width,), 3, seed=0)
    optimizer = torch.optim.SGD(model.parameters(), 0.001)
    return Trainer(model, optimizer, Plausible(), buffer, k=4, pool_size=16)


def content(folder: Path) -> bytes:
    return (folder / FILE).read_bytes()


def flip(path: Path, byte: int) -> None:
    with path.open("r+b") as file:
        file.seek(byte)
        value = file.read(1)[0]
        file.seek(byte)
        file.write(bytes([value ^ 1]))


@pytest.mark.parametrize("scattered", [False, True], ids=["newest", "scattered"])
def test_one_row_in_a_hundred_is_written(scattered: bool, tmp_path: Path) -> None:
    """The blocks written are counted: those of the file, and those in which it then differs."""
    buffer = Sliding(2000, disk=tmp_path)
    trainer, checkpoints = trainer_of(buffer), Checkpoints(tmp_path / "checkpoints")
    buffer.append(rows(0, 2000), trainer.generator)
    checkpoints.save(trainer)
    full = content(checkpoints.folder)
    assert len(full) == 2000 * 4 * WIDTH
    if scattered:
        buffer.write(torch.arange(0, 2000, 100), rows(5000, 20))
    else:
        buffer.append(rows(5000, 20), trainer.generator)
    checkpoints.save(trainer)
    assert content(checkpoints.folder)[: len(full)] == full  # nothing in it is overwritten
    assert len(content(checkpoints.folder)) == len(full) * 1.01
    loaded = trainer_of(Sliding(2000, disk=tmp_path))
    Checkpoints(checkpoints.folder).load(loaded)
    assert identical(loaded.state_dict(), trainer.state_dict())


def test_a_row_used_or_relabelled_is_not_written_again(tmp_path: Path) -> None:
    trainer, checkpoints = trainer_of(Sliding(60, disk=tmp_path)), Checkpoints(tmp_path / "saved")
    trainer.step(rows(0, 60))
    checkpoints.save(trainer)
    before = content(checkpoints.folder)
    trainer.step()
    trainer.relabel(torch.tensor([3]), torch.tensor([2]))
    checkpoints.save(trainer)
    assert content(checkpoints.folder) == before


@pytest.mark.parametrize("width", [7, WIDTH, 3000], ids=["many a block", "one", "large"])
def test_both_generations_are_there_after_many_saves(width: int, tmp_path: Path) -> None:
    """Places are used again, and what a kept generation refers to is never overwritten."""
    trainer = trainer_of(Reservoir(50, disk=tmp_path), width)
    checkpoints, states = Checkpoints(tmp_path / "saved"), []
    for number in range(12):
        trainer.step(rows(40 * number, 40, width))
        if number % 4 == 3:
            trainer.remove(torch.arange(40 * number, 40 * number + 5))
        checkpoints.save(trainer)
        buffer = trainer.held()
        states = [*states, (trainer.slots, buffer.inputs.clone(), buffer.ids.clone())][-2:]
        for generation, (slots, inputs, ids) in zip(
            checkpoints.generations(), states, strict=False
        ):
            only = tmp_path / "only"
            shutil.copytree(checkpoints.folder, only)
            for other in checkpoints.generations():
                if other != generation:
                    shutil.rmtree(only / f"{other:08d}")
            loaded = trainer_of(Reservoir(50, disk=tmp_path), width)
            assert Checkpoints(only).load(loaded).slot == slots or number == 0
            assert loaded.held().inputs.equal(inputs)
            assert loaded.held().ids.equal(ids)
            shutil.rmtree(only)
    assert len(content(checkpoints.folder)) <= 3 * 4 * width * max(50, 4096 // (4 * width))


def test_a_save_that_fails_costs_nothing(tmp_path: Path, monkeypatch) -> None:
    """Neither the generations there, nor the next checkpoint."""
    trainer, checkpoints = trainer_of(Reservoir(60, disk=tmp_path)), Checkpoints(tmp_path / "saved")
    trainer.step(rows(0, 60))
    checkpoints.save(trainer)
    first = trainer.held().inputs.clone()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for failing in ("os.fsync", "tamis.checkpoint.generations.write_synced"):
        trainer.step(rows(60 * trainer.slots, 60))
        with monkeypatch.context() as patch:
            patch.setattr(failing, full)
            with pytest.raises(NotSavedError, match="No space left"):
                checkpoints.save(trainer)
        loaded = trainer_of(Reservoir(60, disk=tmp_path))
        Checkpoints(checkpoints.folder).load(loaded)
        assert loaded.held().inputs.equal(first)
    checkpoints.save(trainer)
    Checkpoints(checkpoints.folder).load(loaded)
    assert identical(loaded.state_dict(), trainer.state_dict())


def test_a_flipped_bit_is_found(tmp_path: Path) -> None:
    """In a block of the newest alone, the one before is loaded; in one of both, none is."""
    trainer, checkpoints = trainer_of(Sliding(20, disk=tmp_path)), Checkpoints(tmp_path / "saved")
    trainer.step(rows(0, 20))
    checkpoints.save(trainer)
    trainer.step(rows(20, 5))
    checkpoints.save(trainer)
    file, row = checkpoints.folder / FILE, 4 * WIDTH
    for block in range(25):
        flip(file, block * row + 17 * block)
        fresh = Checkpoints(checkpoints.folder)
        why = f"{FILE} is not what was written: the checksum of block {block} differs"
        if block < 5:  # of rows that have made way since
            assert fresh.load(trainer).generation == 2
        elif block < 20:
            with (
                pytest.warns(DamagedCheckpointWarning, match=why),
                pytest.raises(
                    RefusedError, match=rf"^No checkpoint in .* \(2: {why}; 1: {why}\).$"
                ),
            ):
                fresh.load(trainer)
        else:
            with pytest.warns(DamagedCheckpointWarning, match=why):
                assert fresh.load(trainer).generation == 1
        flip(file, block * row + 17 * block)


@pytest.mark.parametrize("harm", ["shorter", "gone", "a link"])
def test_a_file_of_blocks_that_is_not_there_is_one_sentence(harm: str, tmp_path: Path) -> None:
    trainer, checkpoints = trainer_of(Growing(20, disk=tmp_path)), Checkpoints(tmp_path / "saved")
    trainer.step(rows(0, 20))
    checkpoints.save(trainer)
    file = checkpoints.folder / FILE
    if harm == "shorter":
        with file.open("r+b") as opened:
            opened.truncate(19 * 4 * WIDTH)
    else:
        file.rename(tmp_path / "elsewhere")
        if harm == "a link":
            file.symlink_to(tmp_path / "elsewhere")
    with (
        pytest.warns(DamagedCheckpointWarning),
        pytest.raises(RefusedError, match=r"^No checkpoint in .* can be read \(1: .*blocks"),
    ):
        Checkpoints(checkpoints.folder).load(trainer)


def test_a_file_that_was_removed_is_written_again(tmp_path: Path) -> None:
    trainer, checkpoints = trainer_of(Growing(20, disk=tmp_path)), Checkpoints(tmp_path / "saved")
    trainer.step(rows(0, 20))
    checkpoints.save(trainer)
    (checkpoints.folder / FILE).unlink()
    checkpoints.save(trainer)
    loaded = trainer_of(Growing(20, disk=tmp_path))
    Checkpoints(checkpoints.folder).load(loaded)
    assert identical(loaded.state_dict(), trainer.state_dict())


def test_rows_are_saved_into_any_folder(tmp_path: Path) -> None:
    """What one folder has, another does not: there all rows are written."""
    trainer = trainer_of(Sliding(20, disk=tmp_path))
    one, other = Checkpoints(tmp_path / "one"), Checkpoints(tmp_path / "other")
    for slot in range(6):
        trainer.step(rows(8 * slot, 8))
        (one, other)[slot % 2].save(trainer)
        loaded = trainer_of(Sliding(20))
        Checkpoints((one, other)[slot % 2].folder).load(loaded)
        assert loaded.held().inputs.equal(trainer.held().inputs)
    one.clear()
    assert list(one.folder.iterdir()) == []
    one.save(trainer)
    Checkpoints(one.folder).load(loaded)


def test_the_first_rows_are_read_alone(tmp_path: Path) -> None:
    trainer, checkpoints = trainer_of(Sliding(20, disk=tmp_path)), Checkpoints(tmp_path / "saved")
    trainer.step(rows(0, 20))
    checkpoints.save(trainer)
    assert (found := checkpoints.read_held(7)) is not None
    assert found.equal(trainer.held().inputs[:7])
    flip(checkpoints.folder / FILE, 0)
    assert checkpoints.read_held(7) is None


def test_free_places_are_the_first_ones() -> None:
    assert free_places(torch.tensor([], dtype=torch.long), 2).tolist() == [0, 1]
    assert free_places(torch.tensor([1, 2, 5]), 4).tolist() == [0, 3, 4, 6]
