"""Ranks in a group of one: joining, losing a connection, leaving."""

from __future__ import annotations

import pytest
import torch.distributed as dist

from tamis.distributed import RankLostError, Ranks
from tamis.distributed.group import connected, disconnect


def test_without_torchrun_there_is_one_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    ranks = Ranks.join()
    assert (ranks.number, ranks.size) == (0, 1)
    assert not dist.is_initialized()


def test_a_broken_connection_is_one_sentence() -> None:
    with (
        pytest.raises(RankLostError, match=r"start again \(Connection closed by peer\)"),
        connected(),
    ):
        raise RuntimeError("Connection closed by peer\nand many lines of C++")


def test_a_group_is_left_for_good() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        disconnect()
        assert not dist.is_initialized()
        disconnect()  # a second time has no effect
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
