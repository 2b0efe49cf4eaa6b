"""A real job by torchrun: a rank is killed, the job is started again and ends as if unbroken."""

from __future__ import annotations

from pathlib import Path

import pytest

from tamis.distributed import RankCheckpoints, Ranks
from tests.support.ranks.torchrun import finish, job_killed, kill, launch, wait_for

pytestmark = pytest.mark.slow


def test_a_rank_is_killed_and_the_job_started_again(tmp_path: Path) -> None:
    killed, unbroken = tmp_path / "killed", tmp_path / "unbroken"
    killed.mkdir()
    unbroken.mkdir()
    process = launch("killed", killed)
    wait_for(killed, 40, process)
    kill(killed, 1)
    process.communicate()
    assert process.returncode
    assert not (killed / "killed.json").exists()
    assert RankCheckpoints(killed / "checkpoints").slots()[-1] < 150
    # On one rank here, on two there: the same shards, and so the same run.
    assert finish(launch("killed", killed), "killed", killed) == job_killed(Ranks(), unbroken)
