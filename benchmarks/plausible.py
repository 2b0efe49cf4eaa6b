"""What a slot of the default rule costs, beside naive slots in one process on one thread.

python -m benchmarks.plausible --out FOLDER
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from rich.console import Console
from torch import Tensor, nn

from benchmarks.slots import HELD, KS, SIZES, WIDTH, exponent, generator, hold, load
from benchmarks.timing import ROUNDS, race, ratio
from tamis import Growing, Naive, Plausible, Samples, Selector, Trainer, Validator
from tamis.lab.pages.measurements import Row, machine, save_rows
from tamis.lab.pages.performance_page import FOLDER
from tamis.monitoring.progress import Bar
from tamis.selectors.plausible import (
    Agreements,
    Calibration,
    ClassBalance,
    Confusion,
    FirstLooks,
    InputVotes,
    Neighbours,
)
from tamis.selectors.plausible import selector as rule
from tamis.training.learner import Learner
from tests.support.memory import bytes_of

SETTLED = 60
"""Slots before any is timed: the voters are complete, and the first fits are done."""
SLOTS = 4
"""Slots timed at a time: the votes by inputs, of every fourth slot, are in each round."""
NARROW = 64
HIDDEN = (64, 256, 1024)
CLASSES = (10, 100, 1_000, 10_000)
ALL_KS = (8, 32, 128, 512)
VOTERS = (256, 1024, 4096)
INPUTS = "votes by inputs, in every fourth slot"
PARTS: tuple[tuple[object, str, str], ...] = (
    (rule, "draw_rows", "candidates drawn and gathered"),
    (rule, "take", "candidates drawn and gathered"),
    (rule, "is_finite", "candidates drawn and gathered"),
    (FirstLooks, "update", "candidates drawn and gathered"),
    (rule, "look", "pass through the averaged model"),
    (InputVotes, "update", INPUTS),
    (Neighbours, "update", "votes by features"),
    (ClassBalance, "update", "class balance and evidence"),
    (Plausible, "_evidence", "class balance and evidence"),
    (Agreements, "update", "agreements, calibration, clean ratio"),
    (Calibration, "update", "agreements, calibration, clean ratio"),
    (Plausible, "clean_ratios", "agreements, calibration, clean ratio"),
    (Confusion, "posterior", "confusion and posterior"),
    (Confusion, "update", "confusion and posterior"),
    (Plausible, "select", "rest of the selection"),
    (Learner, "descend", "training step"),
    (Learner, "remember", "running average of the weights"),
    (Trainer, "step", "rest of the slot"),
)
"""Functions that are timed, and the part of a slot that each belongs to."""


class Case(NamedTuple):
    """A buffer, a network and a number of picks."""

    buffer: Growing
    k: int
    classes: int = 10
    hidden: int = 256
    voters: int | None = None


def train(case: Case, selector: Selector) -> Trainer:
    """Build a trainer of a perceptron, and let it settle."""
    width = case.buffer.pool().inputs.shape[1]
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(width, case.hidden), nn.ReLU(), nn.Linear(case.hidden, case.classes)
    )
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    validator = Validator(classes=case.classes)
    return Trainer(model, optimizer, selector, case.buffer, k=case.k, validator=validator)


def rule_of(case: Case) -> Plausible:
    """Return the default rule, with as many voters as the case has."""
    return (
        Plausible() if case.voters is None else Plausible(neighbours=Neighbours(voters=case.voters))
    )


def play(trainer: Trainer, slots: int) -> None:
    """Do so many slots."""
    for _ in range(slots):
        trainer.step()


def compete(
    cases: dict[str, Case], rounds: int, console: Console, title: str
) -> dict[str, tuple[Tensor, Tensor]]:
    """Return the seconds of slots of the rule and of naive, turn by turn, for each case."""
    trainers = {
        (name, kind): train(case, selector)
        for name, case in cases.items()
        for kind, selector in (("rule", rule_of(case)), ("naive", Naive()))
    }
    for (_, kind), trainer in trainers.items():
        play(trainer, SETTLED if kind == "rule" else 3)
    with Bar(title, rounds + 1, console, "rounds") as bar:
        contenders: dict[Any, Callable[[], object]] = {
            key: partial(play, trainer, SLOTS) for key, trainer in trainers.items()
        }
        times = race({**contenders, "progress": bar.advance}, rounds, clock=process_time)
    return {name: (times[name, "rule"] / SLOTS, times[name, "naive"] / SLOTS) for name in cases}


def lines_of(
    part: str, found: dict[str, tuple[Tensor, Tensor]], bars: dict[str, str] | None = None
) -> list[Row]:
    """Return ratio and milliseconds of each case."""
    rows: list[Row] = []
    for name, (ours, naive) in found.items():
        bar = (bars or {}).get(name, "")
        rows.append((f"{part}: {name}, over naive", str(ratio(ours, naive)), bar))
        both = f"{1e3 * ours.median():.2f} ({1e3 * naive.median():.2f})"
        rows.append((f"{part}: {name}, ms, and of naive", both, ""))
    return rows


def over_k(samples: Samples, rounds: int, console: Console) -> list[Row]:
    """Slots at 60,000 rows, for each k, and what the rule keeps."""
    buffer = hold(samples, HELD)
    cases = {f"k = {k}": Case(buffer, k) for k in ALL_KS}
    found = compete(cases, rounds, console, "over k")
    rows = lines_of(f"{HELD:,} rows", found, {"k = 32": "<= 2.5", "k = 128": "<= 3"})
    selector = Plausible()
    play(train(cases["k = 32"], selector), SETTLED)
    size = bytes_of(selector.state_dict()) / 1e6
    return [*rows, (f"{HELD:,} rows: state of the rule, MB", f"{size:.2f}", "")]


def over_rows(samples: Samples, rounds: int, console: Console) -> list[Row]:
    """Slots over the rows held."""
    cases = {f"{size:,} rows held": Case(hold(samples, size), KS[0]) for size in SIZES}
    found = compete(cases, rounds, console, "over rows held")
    curve = exponent([ours for ours, _ in found.values()])
    return [*lines_of("k = 32", found), ("k = 32: exponent over rows held", curve, "<= 0.05")]


def made_up(rows: int, classes: int) -> Growing:
    """Fill a buffer with random numbers."""
    inputs = torch.randn(rows, NARROW, generator=generator(0))
    labels = torch.randint(classes, (rows,), generator=generator(1))
    return hold(Samples.of(inputs, labels), rows)


def over_sizes(_: Samples, rounds: int, console: Console) -> list[Row]:
    """Slots over features and voters."""
    buffer = made_up(HELD, 10)
    cases = {f"{hidden:,} features": Case(buffer, KS[0], hidden=hidden) for hidden in HIDDEN}
    cases |= {f"{voters:,} voters": Case(buffer, KS[0], voters=voters) for voters in VOTERS}
    return lines_of(f"{NARROW} inputs, k = 32", compete(cases, rounds, console, "over sizes"))


def over_classes(_: Samples, rounds: int, console: Console) -> list[Row]:
    """Slots over classes."""
    cases = {f"{count:,} classes": Case(made_up(HELD, count), KS[0], count) for count in CLASSES}
    found = compete(cases, rounds, console, "over classes")
    bars = {f"{count:,} classes": "<= 3" for count in CLASSES if count >= 1_000}
    return lines_of(f"{NARROW} inputs, k = 32", found, bars)


@contextmanager
def timed(seconds: dict[str, float]) -> Iterator[None]:
    """Add up the seconds of each part, without those of parts that are called within it.

    Votes by inputs are one part with all that they call.
    """
    stack: list[tuple[str, list[float]]] = []

    def wrapped(run: Callable[..., Any], part: str) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            if stack and stack[-1][0] == INPUTS:
                return run(*given, **named)
            within: list[float] = []
            stack.append((part, within))
            started = process_time()
            answer = run(*given, **named)
            passed = process_time() - started
            stack.pop()
            seconds[part] += passed - sum(within)
            if stack:
                stack[-1][1].append(passed)
            return answer

        return call

    with ExitStack() as patches:
        for owner, name, part in PARTS:
            patches.enter_context(patch.object(owner, name, wrapped(getattr(owner, name), part)))
        yield


def split(samples: Samples, rounds: int, _: Console) -> list[Row]:
    """How the cost of a slot splits, in milliseconds and per cent."""
    buffer, rows = hold(samples, HELD), list[Row]()
    for k in KS:
        trainer = train(Case(buffer, k), Plausible())
        play(trainer, SETTLED)
        seconds: dict[str, float] = defaultdict(float)
        with timed(seconds):
            play(trainer, rounds * SLOTS)
        total, count = sum(seconds.values()), rounds * SLOTS
        for part in dict.fromkeys(part for *_, part in PARTS):
            own = seconds[part]
            found = f"{1e3 * own / count:.2f} ({own / total:.0%})"
            rows.append((f"split, k = {k}: {part}, ms", found, ""))
    return rows


MEASURES = {
    "k": over_k,
    "rows": over_rows,
    "sizes": over_sizes,
    "classes": over_classes,
    "split": split,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--parts", default=",".join(MEASURES), help="some of %(default)s")
    options = parser.parse_args()
    torch.set_num_threads(1)
    console = Console()
    name, samples = load()
    rows = [("machine", machine(), ""), ("data", f"{name}, {WIDTH} inputs, 256 features", "")]
    for part in options.parts.split(","):
        rows += MEASURES[part](samples, options.rounds, console)
    save_rows(options.out / "plausible.csv", rows)
    for row in rows:
        print(*row, sep="\t")


if __name__ == "__main__":
    main()
