"""What a slot costs, side by side in one process on one thread: OGRS, its loop, naive, ITLM.

python -m benchmarks.slots --out FOLDER
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from matplotlib.figure import Figure
from rich.console import Console
from torch import Generator, Tensor

from benchmarks.loop import EXACT, LOOP_ROUNDS, Loop, walk
from benchmarks.timing import DRAWS, ROUNDS, race, ratio
from tamis import (
    ITLM,
    OGRS,
    Buffer,
    Growing,
    ModelView,
    Naive,
    Samples,
    Selector,
    Trainer,
    Validator,
)
from tamis.lab.pages.measurements import Line, Row, machine, save_rows, save_table
from tamis.lab.pages.performance_page import FOLDER, GRID
from tamis.models import mlp, start
from tamis.monitoring.progress import Bar
from tamis.selectors import PaperOGRS
from tamis.streams import Constant, MissingDataError, Replay, Symmetric, mnist
from tests.support.memory import resident

HELD, WIDTH, CHAINS = 60_000, 784, 128
SIZES = (2_000, 6_000, 20_000, 60_000, 120_000, 240_000)
GRID_SIZES = (2_000, 20_000, 60_000, 120_000)
GRID_WIDTHS = (128, 512, 784)
GRID_ROUNDS = 5
KS = (32, 128)
MANY = 30
"""Slots timed at a time where one is short. Shares of 240,000 rows are counted once in 29."""

AMONG = replace(EXACT, candidates=512)
LINES = {
    "loop": ("the loop", "#444444"),
    "ogrs_exact": ("OGRS, exact, in input space", "#d9822b"),
    "itlm": ("ITLM", "#b45f9a"),
    "ogrs": ("OGRS, among candidates, in feature space", "#1f6feb"),
    "naive": ("naive", "#8a8f98"),
}


def generator(seed: int) -> Generator:
    return Generator().manual_seed(seed)


def load() -> tuple[str, Samples]:
    """Take MNIST, or random numbers in its shape; half of the labels wrong, uses unequal."""
    try:
        data = mnist()
        name, inputs, labels = "MNIST", data.inputs.flatten(1), data.labels
    except MissingDataError:
        name, inputs = "random numbers", torch.randn(HELD, WIDTH, generator=generator(0))
        labels = torch.randint(10, (HELD,), generator=generator(1))
    stream = Replay(inputs, labels, Symmetric(10), Constant(0.5), rows_per_slot=len(labels))
    uses = torch.randint(9, (len(labels),), generator=generator(2))
    return name, replace(next(iter(stream)), uses=uses)


def make_up(rows: int, width: int) -> Samples:
    inputs = torch.randn(rows, width, generator=generator(0))
    return Samples.of(inputs, torch.randint(10, (rows,), generator=generator(1)))


def hold(samples: Samples, rows: int) -> Growing:
    """Fill a buffer with these samples, again and again."""
    buffer = Growing(rows)
    while len(buffer) < rows:
        buffer.append(samples, generator(0))
    return buffer


def train(selector: Selector, buffer: Buffer, k: int) -> Trainer:
    model = start(mlp, tuple(buffer.pool().inputs.shape[1:]), 10, 0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return Trainer(model, optimizer, selector, buffer, k=k, validator=Validator(classes=10))


def play(trainer: Trainer, slots: int = MANY) -> None:
    for _ in range(slots):
        trainer.step()


def memory() -> list[Row]:
    """Bytes that a held row takes."""
    few = make_up(1000, WIDTH)
    gc.collect()
    before = resident()
    buffer = hold(few, SIZES[-1])
    grown = (resident() - before) / len(buffer)
    payload = 4 * WIDTH + 8
    return [
        ("memory: bytes of a row's inputs and label", str(payload), ""),
        ("memory: bytes that a held row takes", f"{grown:.0f}", f"<= {1.1 * payload + 24:.0f}"),
    ]


def against_the_loop(name: str, samples: Samples, console: Console) -> list[Row]:
    """The same picks, by the loop and at once; and the paper's own order, which must be a loop."""
    trainer = train(Naive(), hold(samples, HELD), 32)
    play(trainer, 500)  # an untrained model's gradients hardly differ
    view = ModelView(trainer.model)

    def select(rule: Selector, k: int = CHAINS) -> Tensor:
        return rule.select(samples, view, k, generator(3))

    _, starts, _ = EXACT.plan(len(samples), CHAINS, generator(3))
    candidates, starts_among, _ = AMONG.plan(len(samples), CHAINS, generator(3))
    loop, loop_among = Loop(samples, view, starts), Loop(samples[candidates], view, starts_among)
    paper = PaperOGRS(step_size=EXACT.step_size)
    with Bar("against the loop", LOOP_ROUNDS + 1, console, "rounds") as bar:
        times = race(
            {
                "loop": loop,
                "exact": lambda: select(EXACT),
                "among": lambda: select(AMONG),
                "loop among": loop_among,
                "paper": lambda: select(paper, CHAINS // LOOP_ROUNDS),
                "progress": bar.advance,
            },
            LOOP_ROUNDS,
        )
    exact, among = select(EXACT), select(AMONG)
    equal = (loop.ends() == exact.rows).float().mean()
    equal_among = (candidates[loop_among.ends()] == among.rows).float().mean()
    total, total_among = LOOP_ROUNDS * times["loop"], LOOP_ROUNDS * times["loop among"]
    size = f"{name}, {len(samples):,} x {WIDTH}, K = {CHAINS}, M = {EXACT.steps}"
    rows = [
        ("data", size, ""),
        ("picks equal to the loop's, all rows", f"{equal:.4f}", ">= 1"),
        ("picks equal to the loop's, 512 candidates", f"{equal_among:.4f}", ">= 1"),
        ("moves that stay, all rows", f"{exact.search.stayed:.2f}", ""),
        ("moves that stay, 512 candidates", f"{among.search.stayed:.2f}", ""),
        ("highest price, all rows", f"{exact.search.price:.2f}", ""),
        ("highest price, 512 candidates", f"{among.search.price:.2f}", ""),
        ("the loop, s", f"{times['loop'].sum():.1f}", ""),
        ("all rows at once, s", f"{times['exact'].median():.3f}", ""),
        ("512 candidates at once, s", f"{times['among'].median():.4f}", ""),
        ("times faster, all rows", str(ratio(total, times["exact"])), ">= 100"),
        ("times faster, 512 candidates", str(ratio(total, times["among"])), ">= 1000"),
        (
            "times faster than the loop over the same 512 candidates",
            str(ratio(total_among, times["among"])),
            "",
        ),
        (
            "times faster, the paper's order: one by one, price carried",
            str(ratio(times["loop"], times["paper"])),
            "",
        ),
    ]
    return under("against the loop", rows)


def in_turn(samples: Samples, console: Console) -> list[Row]:
    """What it costs that each chain sees where those before it have gone."""
    view = ModelView(start(mlp, (WIDTH,), 10, 0))
    rules = {
        f"{where}, {what} counted, K = {k}": (replace(rule, uses=uses), k)
        for where, rule, k in (("all rows", EXACT, 32), ("512 candidates", AMONG, 128))
        for uses, what in (("visits", "every move"), ("picks", "the last move"))
    }

    def select(rule: Selector, k: int) -> None:
        rule.select(samples, view, k, generator(3))

    with Bar("in turn", ROUNDS + 1, console, "rounds") as bar:
        contenders: dict[object, Callable[[], object]] = {"progress": bar.advance}
        for name, (rule, k) in rules.items():
            contenders[name, "at once"] = partial(select, rule, k)
            contenders[name, "in turn"] = partial(select, replace(rule, in_turn=True), k)
        times = race(contenders)
    return under(
        "in turn over at once",
        [(name, str(ratio(times[name, "in turn"], times[name, "at once"])), "") for name in rules],
    )


def complete_slots(samples: Samples, console: Console) -> list[Row]:
    """OGRS as it is, over the size of the buffer; beside naive training and ITLM."""
    buffers = {size: hold(samples, size) for size in SIZES}
    trainers = {
        ("OGRS", k, size): train(OGRS(), buffer, k) for k in KS for size, buffer in buffers.items()
    }
    trainers |= {("naive", k, HELD): train(Naive(), buffers[HELD], k) for k in KS}
    trainers |= {
        ("OGRS, prices moving", k, HELD): train(OGRS(max_uses=1), buffers[HELD], k) for k in KS
    }
    itlm = train(ITLM(), buffers[HELD], KS[0])
    with Bar("complete slots", ROUNDS + 1, console, "rounds") as bar:
        contenders = {key: partial(play, trainer) for key, trainer in trainers.items()}
        times = race({**contenders, "ITLM": itlm.step, "progress": bar.advance})
    slots = {key: times[key] / MANY for key in trainers} | {("ITLM", KS[0], HELD): times["ITLM"]}
    rows: list[Row] = []
    for k in KS:
        curve = [slots["OGRS", k, size] for size in SIZES]
        rows.append((f"exponent of OGRS over rows held, K = {k}", exponent(curve), "<= 0.05"))
        naive, bar_of = slots["naive", k, HELD], "<= 4" if k == KS[0] else ""
        for name, note in (("OGRS", ""), ("OGRS, prices moving", ", prices moving")):
            cost = str(ratio(slots[name, k, HELD], naive))
            rows.append((f"OGRS over naive{note}, {HELD:,} rows, K = {k}", cost, bar_of))
    k = KS[0]
    share = ratio(slots["OGRS", k, HELD], slots["ITLM", k, HELD])
    rows.append((f"OGRS over ITLM, {HELD:,} rows, K = {k}", str(share), "<= 0.2"))
    rows += [
        (f"{name}, {size:,} rows, K = {k}, ms", f"{1000 * seconds.median():.2f}", "")
        for (name, k, size), seconds in slots.items()
    ]
    return under("complete slots", rows)


def exponent(curve: list[Tensor]) -> str:
    """Return the slope of log time over log size, its interval by bootstrap over rounds."""
    sizes = torch.tensor(SIZES).float().log()
    sizes = (sizes - sizes.mean()) / (sizes - sizes.mean()).square().sum()
    times = torch.stack(curve, dim=1)
    drawn = torch.randint(len(times), (DRAWS, len(times)), generator=generator(0))
    exponents = times[drawn].median(dim=1).values.log() @ sizes
    low, high = exponents.quantile(torch.tensor([0.025, 0.975])).tolist()
    return f"{times.median(dim=0).values.log() @ sizes:.3f} ({low:.3f} to {high:.3f})"


def grid(console: Console) -> list[Line]:
    """Milliseconds of a slot of every method, over rows held, K and the width of a row."""
    lines: list[Line] = []
    rounds = len(GRID_WIDTHS) * len(KS) * (GRID_ROUNDS + 1)
    with Bar("grid", rounds, console, "rounds") as bar:
        for width in GRID_WIDTHS:
            samples = make_up(GRID_SIZES[-1], width)
            buffers = {size: hold(samples[:size], size) for size in GRID_SIZES}
            for k in KS:
                lines += grid_part(buffers, width, k, bar)
    return lines


def grid_part(buffers: dict[int, Growing], width: int, k: int, bar: Bar) -> list[Line]:
    contenders: dict[object, Callable[[], object]] = {"progress": bar.advance}
    for size, buffer in buffers.items():
        contenders["naive", size] = partial(play, train(Naive(), buffer, k))
        contenders["itlm", size] = train(ITLM(), buffer, k).step
        contenders["ogrs_exact", size] = train(EXACT, buffer, k).step
        contenders["ogrs", size] = partial(play, train(OGRS(), buffer, k))
        if (width, k) == (WIDTH, CHAINS):  # one chain, for all cost a loop the same
            view = ModelView(start(mlp, (width,), 10, 0))
            contenders["loop", size] = partial(walk, buffer.pool(), view, 0)
    times = race(contenders, GRID_ROUNDS)
    slots = {"naive": 1 / MANY, "ogrs": 1 / MANY, "loop": k}
    lines = []
    for size in buffers:
        cell = {
            name: f"{1000 * slots.get(name, 1) * times[name, size].median():.2f}"
            for name in LINES
            if (name, size) in times
        }
        lines.append({"rows": str(size), "k": str(k), "width": str(width), **cell})
    return lines


def draw(lines: list[Line], path: Path) -> None:
    """Draw the time of a slot over rows held."""
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.subplots()
    widest = [line for line in lines if (line["width"], line["k"]) == (str(WIDTH), str(CHAINS))]
    for name, (title, colour) in LINES.items():
        sizes = [int(line["rows"]) for line in widest]
        axes.loglog(sizes, [float(line[name]) for line in widest], "o-", color=colour, label=title)
    axes.set_xlabel("rows held, |D_t|")
    axes.set_ylabel("milliseconds of a slot")
    axes.set_title(f"K = {CHAINS}, {WIDTH} numbers a row, one CPU thread", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#eeeeee")
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=130)


def under(part: str, rows: list[Row]) -> list[Row]:
    return [(f"{part}: {what}", measured, bar) for what, measured, bar in rows]


def bars(console: Console) -> list[Row]:
    """All that is judged by a bar."""
    rows = [("machine", machine(), ""), *memory()]
    name, samples = load()
    for part in (partial(against_the_loop, name), in_turn, complete_slots):
        rows += part(samples, console)
    for row in rows:
        print(*row, sep="\t")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--parts", default="bars,grid", help="bars, grid or both")
    options = parser.parse_args()
    torch.set_num_threads(1)
    console = Console()
    if "bars" in options.parts:
        save_rows(options.out / "slots.csv", bars(console))
    if "grid" in options.parts:
        lines = grid(console)
        save_table(options.out / "grid.csv", GRID, lines)
        draw(lines, options.out / "slots.png")


if __name__ == "__main__":
    main()
