"""A consumer to be killed: its state is the numbers that it has seen, saved with their offset.

python -m tests.support.consume ADDRESS STATE TOTAL
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from time import sleep
from typing import Any

from tamis.sources import Columns, Feed, Files, ReadAhead, Source, open_source
from tamis.training.signals import StopSignal

EVERY = 3
"""Batches between two checkpoints, so that most kills hit between trained on and saved."""
EMPTY: dict[str, Any] = {"ids": [], "lost": 0, "offset": None}


def main(address: str, path: Path, total: int | None = None, every: int = EVERY) -> None:
    """Go on where the state was saved, until all numbers are in it or SIGTERM comes."""
    state = load(path)
    feed = Feed(
        ReadAhead(open_at(address), most=200),
        Columns(["a", "b"], label="kind", classes=2, id="id"),
        offset=state["offset"],
    )
    ids: list[int] = state["ids"]

    def save() -> None:
        part = path.with_suffix(".part")
        part.write_text(
            json.dumps({"ids": ids, "lost": feed.offset["lost"], "offset": feed.offset})
        )
        part.replace(path)
        feed.acknowledge()

    with StopSignal() as stop, stop.closing(feed):
        for turn, samples in enumerate(feed, 1):
            ids += samples.ids.tolist()
            if turn % every == 0:
                save()
            if len(ids) == total:
                break
            sleep(0.005)
    save()
    feed.close()


def open_at(address: str) -> Source:
    if "://" in address:
        return open_source(address, rows=20)
    return Files(address, rows=20, follow=True, poll=0.02, skip_lost=True)


def load(path: Path) -> dict[str, Any]:
    """Return what a consumer has saved."""
    return dict(json.loads(path.read_text())) if path.exists() else dict(EMPTY, ids=[])


def run(address: str, path: Path, every: int) -> None:
    """Do the same in a process that was forked, with what it prints in a file beside the state."""
    with path.with_suffix(".log").open("a") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    main(address, path, every=every)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
