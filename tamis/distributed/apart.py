"""What a rank does between two meetings, and how meetings check that ranks agree."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import torch
from torch import Tensor

from tamis.data import Picks, Samples
from tamis.distributed.pool import SharedPool, concat_picks
from tamis.model_view import ModelView
from tamis.selectors import Selector


def pick_apart(
    pool: SharedPool, held: Samples, view: ModelView, k: int, selector: Selector | None
) -> Picks:
    """Pick the share of every shard here from its own rows, by `selector` or else by its own."""
    found = []
    everything = torch.arange(len(held), device=held.labels.device)
    for shard, where in pool.parts(everything):
        chosen = selector or shard.selector
        share = k // pool.shards + (shard.number < k % pool.shards)
        few = min(share, len(where))
        if chosen and few:
            picks = chosen.select(held[where], view, few, shard.generator)
            if len(picks):
                found.append(replace(picks, rows=where[picks.rows]))
    return concat_picks(found, everything)


def extend_chain(chain: str, picked: Tensor) -> str:
    """Return the chain of hashes by which ranks check that they agree, with a slot's picks."""
    digest = hashlib.sha256(bytes.fromhex(chain))
    digest.update(picked.cpu().numpy().tobytes())
    return digest.hexdigest()
