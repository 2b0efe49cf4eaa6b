"""tamis list."""

from __future__ import annotations

import inspect
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

from tamis.buffers import BUFFERS
from tamis.losses import LOSSES
from tamis.models import MODELS
from tamis.models.hedge import hedge_mlp
from tamis.noise import CLEAN_RATIOS
from tamis.optim import ADMM, CAdam
from tamis.selectors import SELECTORS
from tamis.streams import DATA_SETS, NOISES, SCHEDULES
from tamis.training.augment import Mixup, ShiftAndFlip
from tamis.training.pairs import PAIRS

HELP = "Name every selector, trainer, loss, estimator, model, data set, noise kind and buffer."
EXAMPLES = "example:\n  tamis list"

Part = Callable[..., object]
PARTS: dict[str, Sequence[Part]] = {
    "selectors": SELECTORS,
    "trainers of two models": PAIRS,
    "losses": LOSSES,
    "estimators of the clean ratio": CLEAN_RATIOS,
    "optimisers": (ADMM, CAdam),
    "augmentation": (Mixup, ShiftAndFlip),
    "models": (*MODELS, hedge_mlp),
    "data sets": DATA_SETS,
    "noise": NOISES,
    "schedules": SCHEDULES,
    "buffers": BUFFERS,
}


def add_arguments(parser: ArgumentParser) -> None:
    """Nothing can be set."""


def run(options: Namespace) -> int:
    """Print what there is."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for title, parts in PARTS.items():
        table.add_row(f"[bold]{title}[/bold]")
        for part in parts:
            table.add_row("  " + part.__name__, first_line(part))
    Console().print(table)
    return 0


def first_line(part: Part) -> str:
    """Return the first line of a docstring."""
    return (inspect.getdoc(part) or "").splitlines()[0]
