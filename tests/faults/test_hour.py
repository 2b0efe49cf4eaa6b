"""Short form of the hour of everything: counted in rows, not by the clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.brokers import Redis
from tests.support.faults.hour.play import Plan, played
from tests.support.faults.hour.verdict import judge, table


@pytest.mark.slow
@pytest.mark.timeout(1800)  # some twenty processes are started, one after the other
@pytest.mark.skipif(bool(Redis.missing()), reason="needs redis-server")
def test_everything_at_once_ends_as_the_unbroken_run(tmp_path: Path) -> None:
    with played(tmp_path / "hour", Plan.of(90, 0.0), seed=0) as result:
        checks = judge(result)
    assert all(check.met for check in checks), table(checks)
