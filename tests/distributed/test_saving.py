"""Jobs saved and gone on with: on as many ranks, on others, after damage, after trouble."""

from __future__ import annotations

import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tamis.checkpoint import Checkpoints, DamagedCheckpointWarning, NotSavedError, RefusedError
from tamis.distributed import RankCheckpoints, Ranks
from tests.support.identical import identical
from tests.support.ranks.jobs import Job, Result, play, points, trainer_of
from tests.support.ranks.processes import together

JOB = Job("plausible", slots=40)


@pytest.fixture(scope="module")
def unbroken() -> Result:
    torch.set_num_threads(1)  # this comes before what conftest.py does for each test
    return play(Ranks(), JOB)


def assert_same_end(one: Result, other: Result) -> None:
    assert one.chain == other.chain
    for name in ("weights", "average", "tracker", "slots"):
        assert identical(getattr(one, name), getattr(other, name)), name


@pytest.mark.parametrize(("before", "after"), [(2, 2), (2, 1), (1, 2)])
def test_stopped_and_gone_on_with(
    before: int, after: int, unbroken: Result, tmp_path: Path
) -> None:
    """On one or two ranks, and whoever had which shard: the end is that of the unbroken run."""
    job = replace(JOB, folder=tmp_path, save_every=8, stop_at=21)
    together(play, before, job)
    assert RankCheckpoints(tmp_path).slots() == [8, 16]
    assert RankCheckpoints(tmp_path).shards() == 2
    for rank in together(play, after, replace(job, stop_at=10**9)):
        assert_same_end(unbroken, rank)
    assert RankCheckpoints(tmp_path).slots() == [32, 40]


@pytest.mark.parametrize("every", [3, 4])
def test_stopped_between_meetings(every: int, tmp_path: Path) -> None:
    job = replace(JOB, every=every)
    one = play(Ranks(), job)
    job = replace(job, folder=tmp_path, save_every=10, stop_at=21)
    play(Ranks(), job)
    assert_same_end(one, play(Ranks(), replace(job, stop_at=10**9)))


def test_more_slots_are_added(unbroken: Result, tmp_path: Path) -> None:
    """A run that has ended goes on as if its streams had been longer."""
    play(Ranks(), replace(JOB, slots=24, folder=tmp_path, save_every=24))
    trainer = trainer_of(Ranks(), JOB)
    RankCheckpoints(tmp_path).load(trainer)
    assert trainer.slots == 24
    assert_same_end(unbroken, play(Ranks(), replace(JOB, folder=tmp_path)))


def test_what_was_half_written_is_not_looked_at(unbroken: Result, tmp_path: Path) -> None:
    job = replace(JOB, folder=tmp_path, save_every=8, stop_at=20)
    play(Ranks(), job)
    # As a job leaves it that dies after its first shard is written, or before what is common is.
    saved, half = tmp_path / "000000000016", tmp_path / "000000000024"
    for shard in ("shard-0", "shard-1"):
        shutil.copytree(saved / shard, half / shard)
        assert RankCheckpoints(tmp_path).slots() == [8, 16]
    assert_same_end(unbroken, play(Ranks(), replace(job, stop_at=10**9)))


@pytest.mark.parametrize("part", ["common", "shard-0", "shard-1"])
def test_after_damage_the_one_before_is_taken(part: str, unbroken: Result, tmp_path: Path) -> None:
    job = replace(JOB, folder=tmp_path, save_every=8, stop_at=20)
    play(Ranks(), job)
    path = tmp_path / "000000000016" / part / "00000001" / "state.json"
    path.write_bytes(path.read_bytes()[:-3])
    trainer = trainer_of(Ranks(), JOB)
    with pytest.warns(DamagedCheckpointWarning):
        assert RankCheckpoints(tmp_path).load(trainer) == [8, 8]
    assert trainer.slots == 8
    assert_same_end(unbroken, play(Ranks(), replace(job, stop_at=10**9)))


def test_damage_on_one_rank_is_heeded_by_all(unbroken: Result, tmp_path: Path) -> None:
    job = replace(JOB, folder=tmp_path, save_every=8, stop_at=20)
    play(Ranks(), job)
    (tmp_path / "000000000016" / "shard-1" / "00000001" / "manifest.json").unlink()
    for rank in together(go_on_in_spite, 2, replace(job, stop_at=10**9)):
        assert_same_end(unbroken, rank)


def go_on_in_spite(ranks: Ranks, job: Job) -> Result:
    warnings.simplefilter("ignore", DamagedCheckpointWarning)
    return play(ranks, job)


def test_nothing_left_to_read(tmp_path: Path) -> None:
    job = replace(JOB, folder=tmp_path, save_every=8, stop_at=20)
    play(Ranks(), job)
    for manifest in tmp_path.glob("*/shard-0/*/manifest.json"):
        manifest.unlink()
    trainer = trainer_of(Ranks(), JOB)
    with pytest.warns(DamagedCheckpointWarning), pytest.raises(RefusedError, match="can be read"):
        RankCheckpoints(tmp_path).load(trainer)


def test_other_shards_or_settings_are_refused(tmp_path: Path) -> None:
    play(Ranks(), replace(JOB, slots=4, folder=tmp_path, save_every=4))
    for job in (replace(JOB, shards=3), replace(JOB, every=2), replace(JOB, held=50)):
        with pytest.raises(RefusedError, match="Going on would give other numbers"):
            RankCheckpoints(tmp_path).load(trainer_of(Ranks(), job))


def test_trouble_on_one_rank_reaches_all(tmp_path: Path) -> None:
    assert together(save_in_trouble, 2, tmp_path) == ["NotSavedError", "NotSavedError"]
    assert RankCheckpoints(tmp_path).slots() == []


def save_in_trouble(ranks: Ranks, folder: Path) -> str:
    trainer = trainer_of(ranks, JOB)
    if ranks.number == 1:
        trainer.shards[0].state_dict = fail
    trainer.step(next(points(ranks.number, 1)))
    try:
        RankCheckpoints(folder).save(trainer)
    except NotSavedError as error:
        return type(error).__name__
    return "saved"


def fail() -> None:
    raise OSError(28, "No space left on device")


def test_offsets_are_those_of_the_shards(tmp_path: Path) -> None:
    trainer = trainer_of(Ranks(), JOB)
    trainer.step(next(points(0, 1)), next(points(1, 1)))
    RankCheckpoints(tmp_path).save(trainer, [{"partition": 7}, {"partition": 9}])
    assert RankCheckpoints(tmp_path).load(trainer) == [{"partition": 7}, {"partition": 9}]
    assert Checkpoints(tmp_path / "000000000001" / "shard-1").generations() == [1]


def test_where_there_is_none(tmp_path: Path) -> None:
    assert RankCheckpoints(tmp_path / "none").load(trainer_of(Ranks(), JOB)) == [None, None]
    assert RankCheckpoints(tmp_path / "none").shards() is None


def test_what_is_saved_does_not_grow_with_the_streams() -> None:
    """Once buffers and the memory of the selector are full, state and shards stay as large."""

    def numbers_in(state: Any) -> int:
        if isinstance(state, torch.Tensor):
            return state.numel()
        parts = state.values() if isinstance(state, dict) else state
        return sum(map(numbers_in, parts)) if isinstance(state, dict | list | tuple) else 1

    trainer, sizes = trainer_of(Ranks(), replace(JOB, held=30)), []
    for _ in trainer.run(points(0, 80, rows=8), points(1, 80, rows=8)):
        states = [trainer.state_dict(), *(shard.state_dict() for shard in trainer.shards)]
        sizes.append(sum(map(numbers_in, states)))
    assert max(sizes[40:]) <= max(sizes[:40])
