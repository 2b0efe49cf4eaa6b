"""Labels of simulated annotators: accuracy beside crowd-kit, cost of 1.8 million, who goes bad.

python -m benchmarks.annotators

crowd-kit is optional: pip install crowd-kit==1.4.2, in an environment of its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from tamis.lab.pages.measurements import Row, machine, save_rows
from tamis.lab.pages.performance_page import FOLDER
from tamis.noise import Annotators

Array = np.ndarray[Any, Any]
SPAMMERS = 0.2
GOOD = 0.85
"""How often the one who turns bad knew the class before."""


class Size(NamedTuple):
    """Numbers of annotators, rows, classes and labels a row."""

    annotators: int
    rows: int
    classes: int
    per_row: int

    def __str__(self) -> str:
        return (
            f"{self.annotators:,} annotators, {self.rows:,} rows, {self.classes} classes,"
            f" {self.per_row} labels a row"
        )


class Simulated(NamedTuple):
    """True classes, and labels in order; the last annotator turns bad at his label `turned`."""

    truth: Array
    rows: Array
    annotators: Array
    labels: Array
    turned: int


ACCURACY = (Size(20, 600, 4, 5), Size(100, 1500, 5, 4), Size(1000, 2000, 5, 6))
STREAMS = (Size(20, 2400, 4, 5),) * 4 + (Size(100, 12_000, 4, 5),) * 3
STREAMS += (Size(1000, 100_000, 4, 5),) * 3
LARGE = Size(1000, 360_000, 10, 5)
LAUNCH = """
import resource, subprocess, sys, time
started = time.perf_counter()
subprocess.run([sys.executable, "-m", "tamis.cli", *sys.argv[1:]], check=True)
print(time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""Runs a command and prints seconds and peak of memory. It is a process of its own: the peak of a
process begins with that of the one which starts it, and this one holds the simulated labels."""


def simulate(size: Size, seed: int, difficult: bool = False) -> Simulated:
    """Return labels of annotators, a fifth of them spammers; the last turns bad half way.

    Each has a confusion of his own or, if rows are `difficult`, errs at random, less often by his
    skill times the ease of the row, as GLAD assumes.
    """
    annotators, rows, classes, per_row = size
    rng = np.random.default_rng(seed)
    truth = rng.choice(classes, rows, p=rng.dirichlet(np.full(classes, 5.0)))
    skill = rng.beta(6, 3, annotators)
    skill[-1] = GOOD
    confusions = rng.dirichlet(np.ones(classes), (annotators, classes))
    confusions *= (1 - skill)[:, None, None]
    confusions[:, np.arange(classes), np.arange(classes)] += skill[:, None]
    for spammer in range(int(SPAMMERS * annotators)):  # at random, or mostly one or two labels
        spread = 30.0 if spammer % 2 else 0.3
        confusions[spammer] = rng.dirichlet(np.full(classes, spread))
    row = np.repeat(np.arange(rows), per_row)
    who = np.concatenate([rng.permutation(annotators)[:per_row] for _ in range(rows)])
    shares = confusions[who, truth[row]]
    if difficult:
        ease = np.exp(rng.normal(size=rows))
        ability = np.where(np.arange(annotators) < SPAMMERS * annotators, 0.0, 4 * skill - 1)
        right = 1 / (1 + (classes - 1) * np.exp(-ability[who] * ease[row]))
        shares = np.repeat(((1 - right) / (classes - 1))[:, None], classes, axis=1)
        shares[np.arange(len(row)), truth[row]] = right
    mine = who == annotators - 1
    late = mine & (row >= rows // 2)
    shares[late] = 1 / classes
    drawn = (rng.random(len(row))[:, None] > shares.cumsum(axis=1)).sum(axis=1)
    return Simulated(truth, row, who, drawn.clip(0, classes - 1), int((mine & ~late).sum()))


def ours(labels: Simulated, classes: int) -> Array:
    annotators = Annotators(classes)
    annotators.update(*labels[1:4])
    best: Array = annotators.posterior().argmax(dim=1).numpy()
    return best


def majority(labels: Simulated, classes: int) -> Array:
    votes = np.zeros((len(labels.truth), classes))
    np.add.at(votes, (labels.rows, labels.labels), 1)
    return votes.argmax(axis=1)


def crowd_kit() -> dict[str, Callable[[Simulated, int], Array]]:
    """Return the methods of crowd-kit at its own settings; none where it is not installed."""
    try:
        import pandas as pd
        from crowdkit.aggregation import GLAD, DawidSkene
    except ImportError as error:
        print(f"Without crowd-kit ({error}): pip install crowd-kit==1.4.2 to compare with it.")
        return {}

    def run(method: Any, labels: Simulated) -> Array:
        columns = zip(("task", "worker", "label"), labels[1:4], strict=True)
        found = method.fit_predict(pd.DataFrame(dict(columns)))
        return found.sort_index().to_numpy()  # type: ignore[no-any-return]

    return {
        "crowd-kit Dawid-Skene": lambda labels, classes: run(DawidSkene(), labels),
        "crowd-kit GLAD": lambda labels, classes: run(GLAD(), labels),
    }


def accuracies(seeds: int, console: Console) -> Iterator[Row]:
    """Yield the accuracy of every method on the same labels, means over seeds."""
    methods = {"tamis": ours, "majority": majority, **crowd_kit()}
    for size in ACCURACY:
        for difficult in (False, True):
            found: dict[str, list[float]] = {name: [] for name in methods}
            for seed in range(100, 100 + seeds):
                labels = simulate(size, seed, difficult)
                for name, method in methods.items():
                    right = method(labels, size.classes) == labels.truth
                    found[name].append(float(right.mean()))
            means = {name: float(np.mean(each)) for name, each in found.items()}
            best = max((means[name] for name in means if "crowd-kit" in name), default=None)
            kind = "rows of differing difficulty" if difficult else "confusions"
            for name, mean in means.items():
                bar = f">= {best:.4f}" if name == "tamis" and best is not None else ""
                yield f"accuracy: {size}, {kind}: {name}", f"{mean:.4f}", bar
                console.print(size, kind, name, round(mean, 4))


def cost(console: Console) -> Iterator[Row]:
    """Yield what 1.8 million labels cost as a file, and what 1,000 more cost in a program."""
    labels = simulate(LARGE, 0)
    with TemporaryDirectory() as name:
        path = Path(name) / "labels.csv"
        columns = (column.tolist() for column in labels[1:4])
        with path.open("w") as file:
            file.write("task,worker,label\n")
            file.writelines(
                f"t{row},w{who},c{label}\n" for row, who, label in zip(*columns, strict=True)
            )
        command = [sys.executable, "-c", LAUNCH, "annotators", str(path)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            command, cwd=name, env=environment, capture_output=True, text=True, check=True
        )
    console.print(done.stdout)
    took, kilobytes = map(float, done.stdout.split()[-2:])
    what = f"{len(labels.rows):,} labels as CSV, {LARGE}"
    yield f"cost: {what}: seconds of tamis annotators", f"{took:.1f}", "<= 60"
    yield f"cost: {what}: peak of the process, MB", f"{kilobytes / 1024:.0f}", "<= 1000"
    annotators = Annotators(LARGE.classes)
    annotators.update(*labels[1:4])
    rng = np.random.default_rng(0)
    times = []
    for _ in range(20):
        rows = rng.integers(0, LARGE.rows, 1000)
        who = rng.integers(0, LARGE.annotators, 1000)
        started = perf_counter()
        annotators.update(rows, who, labels.truth[rows])
        times.append(1000 * (perf_counter() - started))
    console.print(times)
    yield "cost: 1,000 more labels, ms, median of 20", f"{np.median(times):.0f}", "<= 100"
    yield "cost: 1,000 more labels, ms, slowest of 20", f"{max(times):.0f}", ""


def declines(console: Console) -> Iterator[Row]:
    """Yield after how many of his labels the one who turns bad is named, and who else is."""
    late, false, false_at_end = [], 0, 0
    for seed, size in enumerate(STREAMS, start=200):
        labels = simulate(size, seed)
        annotators = Annotators(size.classes)
        slot = 10 * size.annotators // 4
        for first in range(0, len(labels.rows), slot):
            annotators.update(*(column[first : first + slot] for column in labels[1:4]))
        named = [each for each in annotators.declines if each.annotator == size.annotators - 1]
        false += len(annotators.declines) - len(named)
        late.append(named[0].named - labels.turned if named else 10**6)
        annotators.refine()
        others = {each.annotator for each in annotators.declines} - {size.annotators - 1}
        false_at_end += len(others)
        console.print(size, late[-1], annotators.declines)
    runs = f"{len(late)} streams, {', '.join(f'{n:,}' for n in sorted({s[0] for s in STREAMS}))}"
    yield f"decline: {runs} annotators: labels until named, the latest", f"{max(late)}", "<= 200"
    yield "decline: labels until named, median", f"{np.median(late):.0f}", ""
    yield "decline: false names in the streams", f"{false}", "<= 0"
    yield "decline: false names after all labels were fitted again", f"{false_at_end}", "<= 0"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args()
    console = Console()
    rows: list[Row] = [("machine", machine(), "")]
    for part in (declines(console), cost(console), accuracies(options.seeds, console)):
        rows += part
        save_rows(options.out / "annotators.csv", rows)
    for row in rows:
        print(*row, sep="\t")


if __name__ == "__main__":
    main()
