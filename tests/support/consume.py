"""A consumer to be killed: its state is the numbers that it has seen, saved with their offset.

python -m tests.support.consume ADDRESS STATE TOTAL
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import sleep

from tamis.sources import Columns, Feed, ReadAhead, open_source

EVERY = 3
"""Batches between two checkpoints, so that most kills hit between trained on and saved."""


def main(address: str, path: Path, total: int) -> None:
    """Go on where the state was saved, until all numbers are in it."""
    state = json.loads(path.read_text()) if path.exists() else {"ids": [], "offset": None}
    source = open_source(address, rows=20, follow=True)
    feed = Feed(
        ReadAhead(source, most=200),
        Columns(["a", "b"], label="kind", classes=2, id="id"),
        offset=state["offset"],
    )
    ids: list[int] = state["ids"]
    for turn, samples in enumerate(feed, 1):
        ids += samples.ids.tolist()
        if turn % EVERY == 0 or len(ids) >= total:
            part = path.with_suffix(".part")
            part.write_text(json.dumps({"ids": ids, "offset": feed.offset}))
            part.replace(path)
            feed.acknowledge()
        if len(ids) >= total:
            break
        sleep(0.005)
    feed.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
