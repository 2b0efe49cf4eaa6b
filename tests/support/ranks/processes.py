"""Ranks for tests: processes forked from one that has torch loaded, joined as by torchrun."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist

from tamis.distributed import Ranks
from tests.support.wait import END


def together(work: Callable[..., Any], size: int, *given: Any, timeout: float = END) -> list[Any]:
    """Run work(ranks, *given) on so many ranks, and return what each came to."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch._dynamo", "tests.support.ranks.jobs"])
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    ends, processes = [], []
    for number in range(size):
        here, there = context.Pipe(duplex=False)
        arguments = (there, work, number, size, store.port, timeout, given)
        processes.append(context.Process(target=be_rank, args=arguments, daemon=True))
        ends.append(here)
        processes[-1].start()
        there.close()
    try:
        return [receive(end) for end in ends]
    finally:
        for process in processes:
            process.join(5)
            process.kill()


def receive(end: Connection) -> Any:
    assert end.poll(END), "a rank has come to no end"
    try:
        answer = pickle.loads(end.recv_bytes())  # noqa: S301
    except EOFError:
        return None  # it has died
    if isinstance(answer, str) and answer.startswith("Traceback"):
        raise AssertionError(answer)
    return answer


def be_rank(
    end: Connection,
    work: Callable[..., Any],
    number: int,
    size: int,
    port: int,
    timeout: float,
    given: tuple[Any, ...],
) -> None:
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    try:
        if size > 1:
            os.environ |= {
                "RANK": str(number),
                "WORLD_SIZE": str(size),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "TORCHELASTIC_USE_AGENT_STORE": "True",  # the store is that of the parent
            }
        answer = work(Ranks.join(timeout=timeout), *given)
    except BaseException:
        answer = traceback.format_exc()
    # Pickled here: torch would send its tensors by file handles that end with this process.
    end.send_bytes(pickle.dumps(answer))
    if dist.is_initialized():
        dist.destroy_process_group()
