"""A job of several ranks that torchrun starts: trained on digits, saved, to be killed.

python -m tests.support.ranks.torchrun JOB FOLDER
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from tamis import Plausible, Replay, Sliding, Tracker
from tamis.distributed import RankCheckpoints, RankLostError, Ranks, RankTrainer
from tamis.distributed.group import disconnect
from tamis.models import mlp, start
from tamis.selectors import Selector
from tamis.streams import Steps, Symmetric, digits
from tests.support.wait import END, wait_until

Job = Callable[[Ranks, Path], Any]
SLOTS = 500


def train_on_digits(ranks: Ranks, selector: Selector, **more: Any) -> tuple[RankTrainer, Any]:
    data = digits()
    model = start(mlp, data.input_shape, 10, 0)
    trainer = RankTrainer(
        ranks,
        model,
        torch.optim.SGD(model.parameters(), 0.3, momentum=0.5),
        selector,
        buffer=lambda shard: Sliding(400),
        shards=2,
        pool_size=512,
        window="average",
        tracker=Tracker(10),
        **more,
    )
    stream = Replay(
        data.inputs, data.labels, Symmetric(10), Steps((0.9, 0.5, 0.8, 0.4)), slots=2 * SLOTS
    )
    return trainer, lambda shard, first=0: islice(stream, shard + 2 * first, None, 2)


def end_of(trainer: RankTrainer) -> dict[str, Any]:
    """Return what a run came to, to the last bit."""
    digest = hashlib.sha256()
    for value in trainer.model.state_dict().values():
        digest.update(value.numpy().tobytes())
    return {"slots": trainer.slots, "chain": trainer.chain, "weights": digest.hexdigest()}


def job_killed(ranks: Ranks, folder: Path) -> dict[str, Any]:
    """Train with checkpoints, and note when another rank was found to be gone."""
    (folder / f"pid-{ranks.number}").write_text(str(os.getpid()))
    trainer, read_shard = train_on_digits(ranks, Plausible())
    checkpoints = RankCheckpoints(folder / "checkpoints")
    offsets = checkpoints.load(trainer)
    streams = [read_shard(shard, at or 0) for shard, at in zip(trainer.own, offsets, strict=True)]
    try:
        for _ in trainer.run(*streams):
            if trainer.slots % 10 == 0:
                checkpoints.save(trainer, [trainer.slots] * len(trainer.own))
            if trainer.slots == 150:
                break
    except RankLostError:
        (folder / "lost").write_text(str(time.time()))
        raise
    return end_of(trainer)


JOBS: dict[str, Job] = {"killed": job_killed}


def be_rank(jobs: Mapping[str, Job], job: str, folder: Path) -> None:
    """Join the other ranks and do a job; the first rank writes down what it came to."""
    torch.set_num_threads(1)
    ranks = Ranks.join(timeout=END)
    answer = jobs[job](ranks, folder)
    if ranks.number == 0:
        (folder / f"{job}.json").write_text(json.dumps(answer))
    # Ranks leave together: once torch aborted a rank that closed its connections after the other.
    ranks.gather("end", torch.zeros(1))
    disconnect()


def launch(
    job: str, folder: Path, ranks: int = 2, *, restarts: int = 0, module: str = __name__
) -> subprocess.Popen[str]:
    """Start a job of a module by torchrun; one rank needs none."""
    torchrun = [] if ranks == 1 else ["-m", "torch.distributed.run", "--standalone"]
    torchrun += [] if ranks == 1 else ["--nproc-per-node", str(ranks)]
    torchrun += ["--max-restarts", str(restarts)] if restarts else []
    command = [sys.executable, *torchrun, "-m", module, job]
    if job == "wire":  # in a network of its own, so that the kernel's count is of this job
        command = ["unshare", "-rn", "sh", "-c", 'ip link set lo up; exec "$@"', "sh", *command]
    return subprocess.Popen(
        [*command, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def finish(process: subprocess.Popen[str], job: str, folder: Path) -> Any:
    """Wait for a job, and return what it came to."""
    printed, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{job} ended with {process.returncode}:\n{printed[-3000:]}")
    return json.loads((folder / f"{job}.json").read_text())


def kill(folder: Path, rank: int) -> float:
    os.kill(int((folder / f"pid-{rank}").read_text()), signal.SIGKILL)
    return time.time()


def wait_for(folder: Path, slot: int, process: subprocess.Popen[str]) -> None:
    """Wait until there is a checkpoint of this slot or a later one."""
    checkpoints = RankCheckpoints(folder / "checkpoints")

    def saved() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"the job has ended: {process.communicate()[0]}")
        return any(at >= slot for at in checkpoints.slots())

    wait_until(saved, what=f"a checkpoint of slot {slot}")


if __name__ == "__main__":
    be_rank(JOBS, sys.argv[1], Path(sys.argv[2]))
