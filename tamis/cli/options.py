"""Options of the commands that train, and how their text is read; nothing here needs torch."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, _ActionsContainer
from pathlib import Path
from typing import NamedTuple

from tamis.cli.config import add_config_option

ON_BAD = ("raise", "skip", "quarantine")
POLICIES = ("block", "drop oldest", "every nth")
KIND_NAMES = (
    "number", "category", "boolean", "datetime", "text", "id", "constant", "array", "image"
)  # fmt: skip
LOGGER_NAMES = ("tensorboard", "mlflow", "wandb")


class ColumnKind(NamedTuple):
    """A column, and the kind that it is to be."""

    column: str
    kind: str

    def __str__(self) -> str:
        return f"{self.column}={self.kind}"


class Interval(NamedTuple):
    """A number of slots, or else of seconds."""

    slots: int | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        return f"{self.seconds:g}s" if self.slots is None else str(self.slots)


def add_training_options(parser: ArgumentParser) -> None:
    """Add the options of training, wherever the rows come from."""
    add = parser.add_argument_group("model and method").add_argument
    add("--model", help="name, or module:factory; see tamis list (default: by the data)")
    add("--selector", default="Plausible", help="name, or module:Class (default Plausible)")
    add("--set", nargs="+", default=[], metavar="NAME=VALUE", help="settings of the selector")
    add("--k", type=positive, help="rows to pick per slot (default 32; for a table by its size)")
    add("--warm-up", type=int, help="slots that pick at random first (default: by the selector)")
    add("--buffer", default="Sliding", help="name; see tamis list (default Sliding)")
    add("--capacity", type=positive, help="rows to hold (default 10,000; for a table all)")
    add("--on-disk", action="store_true", help="hold rows in a file in the folder, not in memory")
    add(
        "--pool-size",
        type=positive,
        help="rows that a selector sees per slot (default 1,024; pictures 256)",
    )
    add("--rate", type=float, help="learning rate (default: tables 0.002, AdamW; else 0.1, SGD)")
    add("--ema", type=float, default=0.99, help="decay of the averaged weights (default 0.99)")
    add(
        "--window",
        type=window,
        default="auto",
        help="number of recent model states that selectors see, or average (default: by the"
        " selector)",
    )
    add("--device", default="cpu", help="cpu or cuda (default cpu)")
    add("--seed", type=int, default=0, help="seed of all random numbers (default 0)")
    add_run_options(parser)


def add_worker_options(parser: ArgumentParser) -> None:
    """Add the options of training on many processes."""
    add = parser.add_argument_group("several processes").add_argument
    add("--workers", type=positive, metavar="N", help="number of processes (docs/scale.md)")
    add("--ray", metavar="ADDRESS", help="the workers' Ray cluster: host:port, auto, or local")
    add(
        "--shards",
        type=positive,
        metavar="N",
        help="parts that the rows are split into (default: as many as workers)",
    )
    add(
        "--restarts",
        type=int,
        default=3,
        metavar="N",
        help="how often to restart the workers after one has died (default 3)",
    )


def add_run_options(parser: ArgumentParser) -> None:
    """Add the options of a run's folder: where, checkpoints, decisions, experiment trackers."""
    group = parser.add_argument_group("folder of the run")
    add_config_option(group)
    add = group.add_argument
    add("--out", type=Path, default=Path("tamis-run"), help="folder (default tamis-run)")
    add("--overwrite", action="store_true", help="replace an earlier run in the folder")
    add("--resume", action="store_true", help="continue from the last checkpoint in the folder")
    add(
        "--allow-mismatch",
        action="store_true",
        help="resume even if settings or versions differ; numbers may then differ, too",
    )
    add(
        "--save-every",
        type=save_every,
        default="60s",
        metavar="SLOTS",
        help="slots between checkpoints, or seconds, as in 30s (default 60s)",
    )
    add(
        "--corrections",
        type=Path,
        metavar="FILE",
        help="also apply the decisions.jsonl of another run, and follow it as it grows",
    )
    add(
        "--log",
        action="append",
        default=[],
        choices=LOGGER_NAMES,
        help="also send the numbers of every slot to this tracker; may be repeated",
    )


def positive(text: str) -> int:
    """Return an integer above 0."""
    number = int(text)
    if number < 1:
        raise ArgumentTypeError(f"{text} is not above 0")
    return number


def add_kind_option(parser: _ActionsContainer) -> None:
    """Add the option that chooses kinds of columns."""
    parser.add_argument(
        "--kind",
        nargs="+",
        type=column_kind,
        default=[],
        metavar="COLUMN=KIND",
        help=f"kinds of columns, where detection is wrong: {', '.join(KIND_NAMES)}",
    )


def column_kind(text: str) -> ColumnKind:
    """Return a column and the kind that it is to be.

    >>> column_kind("zip=category")
    ColumnKind(column='zip', kind='category')
    """
    column, equals, kind = text.rpartition("=")
    if not equals or kind not in KIND_NAMES:
        raise ArgumentTypeError(f"{text} is not COLUMN=KIND with one of {', '.join(KIND_NAMES)}")
    return ColumnKind(column, kind)


def window(text: str) -> int | str:
    """Return a number of states, `average` or `auto`."""
    return text if text in ("average", "auto") else positive(text)


def save_every(text: str) -> Interval:
    """Return a number of slots, or one of seconds where the text ends in s.

    >>> save_every("100"), str(save_every("30s"))
    (Interval(slots=100, seconds=None), '30s')
    """
    number = float(text.removesuffix("s")) if text.endswith("s") else int(text)
    if not 0 < number < 1e9:
        raise ArgumentTypeError(f"{text} is not a number of slots, nor of seconds, as 30s")
    return Interval(seconds=number) if text.endswith("s") else Interval(slots=int(number))
