"""One key of the state forgotten, in writing or in reading: somebody must notice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from tamis import Trainer
from tamis.checkpoint import Checkpoints
from tests.support.faults.row import Row
from tests.support.faults.runs import ODD, Chain, make_run, make_stream, play, result
from tests.support.identical import identical

Path_ = tuple[Any, ...]


class Mutant:
    """A trainer whose state lacks something, or has it as it was at the start."""

    def __init__(self, trainer: Trainer, state: dict[str, Any]) -> None:
        self.slots, self.device, self.sound = trainer.slots, trainer.device, True
        self.settings = trainer.settings
        self._state = state

    def state_dict(self) -> dict[str, Any]:
        return self._state

    def check(self, state: dict[str, Any]) -> None: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def paths(tree: Any, here: Path_ = ()) -> Iterator[Path_]:
    """Go through every key of every dict."""
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
        if isinstance(tree, dict):
            yield (*here, key)
        if isinstance(tree[key], dict | list):
            yield from paths(tree[key], (*here, key))


def without(tree: Any, path: Path_) -> Any:
    """Copy a tree, but for what a path leads to."""
    key, *rest = path
    copy = tree.copy()
    if rest:
        copy[key] = without(tree[key], tuple(rest))
    else:
        del copy[key]
    return copy


def stale(tree: Any, fresh: Any, path: Path_) -> Any:
    """Copy a tree, but take what a path leads to from a fresh one; None where there is no such."""
    key, *rest = path
    there = (
        key in fresh if isinstance(fresh, dict) else isinstance(fresh, list) and key < len(fresh)
    )
    if not there:
        return None
    copy = tree.copy()
    if rest:
        part = stale(tree[key], fresh[key], tuple(rest))
        if part is None:
            return None
        copy[key] = part
    elif identical(tree[key], fresh[key]):
        return None  # nothing has changed there, so that nothing can be forgotten
    else:
        copy[key] = fresh[key]
    return copy


def end_of(trainer: Trainer, chain: Chain) -> str:
    for _ in play(trainer, chain, make_stream()):
        pass
    return result(trainer, chain)


def is_caught(folder: Path, trainer: Trainer, state: dict[str, Any], wanted: str) -> bool:
    """Save the mutant, load it into a new run and go on: it is refused, or the end is another."""
    chain = Chain()
    Checkpoints(folder).save(Mutant(trainer, state))
    torch.manual_seed(5)
    again = make_run()
    try:
        Checkpoints(folder).load(again)
        return end_of(again, chain) != wanted
    except Exception:  # whatever it raises, it has not gone unnoticed
        return True


# As in a buffer so large that not every slot counts all rows, nor renews all features.
@patch("tamis.training.report.COUNTED", 6)
@patch("tamis.training.feature_cache.LEAST_ROWS", 8)
def forgotten_keys(folder: Path, most: int | None = None) -> Row:
    """Forget every key of a state, once in writing and once in reading."""
    trainer = make_run()
    for slot in play(trainer, Chain(), make_stream()):
        if slot.number == ODD[1] - 1:
            break
    state, fresh = trainer.state_dict(), make_run().state_dict()
    Checkpoints(folder).save(Mutant(trainer, state))
    again = make_run()
    Checkpoints(folder).load(again)
    wanted = end_of(again, Chain())
    assert not is_caught(folder, trainer, state, wanted), (
        "what is complete must continue identically"
    )
    mutants = {f"without {path}": without(state, path) for path in paths(state)}
    for path in paths(state):
        mutant = stale(state, fresh, path)
        if mutant is not None:
            mutants[f"stale {path}"] = mutant
    step = max(1, len(mutants) // most) if most else 1
    chosen = dict(list(mutants.items())[::step])
    missed = [name for name, part in chosen.items() if not is_caught(folder, trainer, part, wanted)]
    detail = f"; missed: {'; '.join(missed)}" if missed else ""
    return Row(
        "one key of the state dropped, or left as it was at the start",
        len(chosen),
        len(chosen) - len(missed),
        f"{len(chosen) - len(missed)} of {len(chosen)} mutants caught{detail}",
        "all",
        not missed,
    )
