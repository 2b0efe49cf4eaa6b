"""tamis list."""

from __future__ import annotations

import inspect
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence

from tamis.cli.next_steps import command, print_next

HELP = "List all selectors, losses, buffers, models and other parts of a run."
EXAMPLES = "example:\n  tamis list"

Part = Callable[..., object]


def add_arguments(parser: ArgumentParser) -> None:
    """Add nothing: the command has no options."""


def run(options: Namespace) -> int:
    """Print the parts by kind, each with the first line of its documentation."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for kind, found in parts().items():
        table.add_row(f"[bold]{kind}[/bold]")
        for part in found:
            table.add_row("  " + part.__name__, first_line(part))
        options.results.update(**{kind: {part.__name__: first_line(part) for part in found}})
    console = Console()
    console.print(table)
    print_next(
        console, train_with=command("train", "FILE", "--label", "COLUMN", "--selector", "NAME")
    )
    return 0


def parts() -> dict[str, Sequence[Part]]:
    """Return all parts that a run can be built of, by kind."""
    from tamis.buffers import BUFFERS
    from tamis.losses import LOSSES
    from tamis.models import MODELS
    from tamis.models.hedge import hedge_mlp
    from tamis.models.tabular import TableModel
    from tamis.noise import CLEAN_RATIOS
    from tamis.optim import ADMM, CAdam
    from tamis.selectors import SELECTORS
    from tamis.streams import DATA_SETS, NOISES, SCHEDULES
    from tamis.training.augment import DropTokens, Mixup, ShiftAndFlip
    from tamis.training.pairs import PAIRS

    return {
        "selectors": SELECTORS,
        "trainers of two models": PAIRS,
        "losses": LOSSES,
        "estimators of the clean ratio": CLEAN_RATIOS,
        "optimisers": (ADMM, CAdam),
        "augmentation": (Mixup, ShiftAndFlip, DropTokens),
        "models": (*MODELS, TableModel, hedge_mlp),
        "data sets": DATA_SETS,
        "noise": NOISES,
        "schedules": SCHEDULES,
        "buffers": BUFFERS,
    }


def first_line(part: Part) -> str:
    """Return the first line of a docstring."""
    return (inspect.getdoc(part) or "").splitlines()[0]
