"""Ranks on a Ray cluster: Ray Train starts the workers and connects them, each is a rank."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tamis.distributed import Ranks


def train_on_ray(
    work: Callable[[Ranks], Any],
    workers: int,
    *,
    folder: Path,
    restarts: int = 0,
    gpu: bool = False,
    timeout: float = 30.0,
) -> list[Any]:
    """Run `work` on so many workers, and return what it returned on each, in their order.

    `work` is the program that torchrun would run: it makes a `RankTrainer`, and reads the shards
    that are its own from the source, wherever it runs. Ray keeps its files in `folder`, which on a
    cluster all nodes see. Where a worker dies, all are started again, `restarts` times at the
    most: with `RankCheckpoints` in `work`, training goes on where it was.

    The cluster is the one that `ray.init` connected to. Where it was not called, one is started on
    this machine, without a dashboard or usage reports, and stopped afterwards.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    def loop(config: dict[str, Any]) -> None:
        ranks = Ranks.join("cuda" if gpu else "cpu")
        answer = work(ranks)
        ray.get(config["answers"].put.remote(ranks.number, answer))

    started_here = not ray.is_initialized()
    if started_here:
        ray.init(num_cpus=workers + 1, include_dashboard=False, log_to_driver=False)
    try:
        answers: Any = ray.remote(Answers).remote()
        TorchTrainer(
            loop,
            train_loop_config={"answers": answers},
            torch_config=TorchConfig("nccl" if gpu else "gloo", timeout_s=int(timeout)),
            scaling_config=ScalingConfig(num_workers=workers, use_gpu=gpu),
            run_config=RunConfig(
                storage_path=str(folder.absolute()),
                failure_config=FailureConfig(max_failures=restarts),
            ),
        ).fit()
        found = ray.get(answers.get.remote())
    finally:
        if started_here:
            ray.shutdown()
    return [found[rank] for rank in range(workers)]


class Answers:
    """Holds what the workers return; it lives in an actor of its own."""

    def __init__(self) -> None:
        self._all: dict[int, Any] = {}

    def put(self, rank: int, answer: Any) -> None:
        """Store the answer of a rank."""
        self._all[rank] = answer

    def get(self) -> dict[int, Any]:
        """Return the answers by rank."""
        return self._all
