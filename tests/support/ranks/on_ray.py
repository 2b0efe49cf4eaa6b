"""Two workers of Ray train together, one is killed on the way, and each prints what it came to.

python -m tests.support.ranks.on_ray FOLDER
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from tamis.distributed import Ranks
from tamis.integrations.ray import train_on_ray
from tests.support.ranks.jobs import Job, play

JOB = Job("plausible", slots=30, save_every=5)


def result_of(ranks: Ranks, job: Job) -> dict[str, Any]:
    """Train on the shards of this rank, and return what it came to, as JSON can hold it."""
    torch.set_num_threads(1)
    result = play(ranks, job)
    weights = [value.tolist() for value in result.weights]
    return {"slots": result.slots, "chain": result.chain, "weights": weights}


def main(folder: Path) -> None:
    """Print the results of both workers; the second is killed once, between two checkpoints."""
    job, killed = replace(JOB, folder=folder / "checkpoints"), folder / "killed"

    def work(ranks: Ranks) -> dict[str, Any]:
        if not killed.exists():
            play(ranks, replace(job, stop_at=12))
            if ranks.number == 1:
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return {"rank": ranks.number, "of": ranks.size} | result_of(ranks, job)

    print(json.dumps(train_on_ray(work, workers=2, folder=folder / "ray", restarts=1)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
