"""The processes of a job, and what crosses between them."""

from __future__ import annotations

import atexit
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from time import perf_counter
from typing import Self

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from tamis.errors import TamisError

all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
"""The tensors of all ranks as one; its name changed in torch 2.13."""


class RankLostError(TamisError, RuntimeError):
    """Another rank has ended or does not answer: the job is over, and can be started again."""


class RanksDifferError(TamisError, RuntimeError):
    """Ranks have come to different picks, and so do not train one model any more."""


class Ranks:
    """The processes that train together: `number` of `size`, from 0. One alone needs no set-up.

    `sent` counts the bytes that this rank hands to others, by what they are for, and `seconds` how
    long it took, waiting included: "pool" and "views" are what selection is agreed by, and
    "gradients" what every step needs.
    """

    def __init__(self, number: int = 0, size: int = 1, device: str | torch.device = "cpu") -> None:
        self.number = number
        self.size = size
        self.device = torch.device(device)
        self.sent: Counter[str] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @classmethod
    def join(cls, device: str = "cpu", timeout: float = 30.0) -> Self:
        """Return the ranks that `torchrun` or Ray has started; without them, a single one.

        Gloo carries what is on the CPU, NCCL what is on a GPU ("cuda": that of the local rank). A
        rank that dies closes its connections, which the others notice at once; one that hangs
        is noticed after `timeout` seconds, and so is one that waits for its stream for so long.
        """
        if device == "cuda":
            device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
            torch.cuda.set_device(device)
        if not dist.is_initialized():
            if "WORLD_SIZE" not in os.environ:
                return cls(device=device)
            backend = "gloo" if device == "cpu" else "nccl"
            with connected():
                store, rank, size = next(rendezvous("env://"))
                # torchrun's own store outlives a restart, and has the addresses of dead ranks.
                attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
                dist.init_process_group(
                    backend,
                    store=PrefixStore(f"attempt-{attempt}", store),
                    rank=rank,
                    world_size=size,
                    timeout=timedelta(seconds=timeout),
                )
            atexit.register(disconnect)
        return cls(dist.get_rank(), dist.get_world_size(), device)

    def gather(
        self, name: str, mine: Tensor, meanwhile: Callable[[], None] | None = None
    ) -> Tensor:
        """Return the tensors of all ranks, in their order; all have one shape.

        `meanwhile` is called while they cross.
        """
        if self.size == 1:
            if meanwhile:
                meanwhile()
            return mine[None]
        everyone = mine.new_empty(self.size, *mine.shape)
        with self.counting(name, (self.size - 1) * mine.nbytes):
            crossing = all_gather(everyone, mine.contiguous()[None], async_op=True)
        if meanwhile:
            meanwhile()
        with self.counting(name, 0):
            crossing.wait()
        return everyone

    def add(self, name: str, mine: Tensor) -> Tensor:
        """Return the sum of the tensors of all ranks, in place."""
        if self.size > 1:
            with self.counting(name, 2 * (self.size - 1) * mine.nbytes // self.size):
                dist.all_reduce(mine)
        return mine

    def share(self, tensors: Iterable[Tensor]) -> None:
        """Set the tensors of all ranks to those of the first, in place."""
        if self.size > 1:
            with connected():
                for tensor in tensors:
                    dist.broadcast(tensor.detach(), src=0)

    def all_true(self, mine: bool) -> bool:
        """Return whether it is true on every rank."""
        return bool(self.gather("word", torch.tensor([mine], device=self.device)).all())

    @contextmanager
    def counting(self, name: str, size: int) -> Iterator[None]:
        """Count bytes and seconds of what crosses meanwhile; raise where a connection breaks."""
        started = perf_counter()
        with connected():
            yield
        self.seconds[name] += perf_counter() - started
        self.sent[name] += size


@contextmanager
def connected() -> Iterator[None]:
    """Raise `RankLostError` where a connection breaks."""
    try:
        yield
    except RuntimeError as error:
        why = str(error).splitlines()[0]
        raise RankLostError(
            f"Another rank has ended or does not answer: start again ({why})."
        ) from None


def disconnect() -> None:
    """Close the connections: torch aborts a process that leaves them open."""
    if dist.is_initialized():
        dist.destroy_process_group()
