"""docs/performance.md, written from the files of measurements alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import mean

from tamis.lab.pages.measurements import NO, Line, read, table, verdict

FOLDER = Path("results/benchmarks")
PAGE = Path("docs/performance.md")
NAMES = ("plausible", "slots", "stream", "classes", "gpu")
GRID = ("rows", "k", "width", "naive", "itlm", "ogrs_exact", "ogrs", "loop")
BUFFERS = ("buffer", "rows_a_second", "resident_mb", "growth_per_cent")
STALENESS = (
    "refresh", "seed", "regret", "feature_error", "purity", "accuracy", "accuracy_ema",
    "milliseconds",
)  # fmt: skip


def write(folder: Path = FOLDER) -> str:
    """Return the page made of the files in a folder."""
    files = {name: read(folder / f"{name}.csv") for name in NAMES}
    paragraphs = [
        OPENING,
        *bars([line for name in NAMES if name != "gpu" for line in files[name]]),
        *measured("The default rule", PLAUSIBLE_WORDS, files["plausible"]),
        *slots(files["slots"]),
        *grid(read(folder / "grid.csv")),
        *measured("Ten million rows", STREAM_WORDS, files["stream"]),
        *measured("Ten thousand classes", CLASSES_WORDS, files["classes"]),
        *buffers(read(folder / "buffers.csv")),
        *staleness(read(folder / "staleness.csv")),
        *gpu(files["gpu"]),
        REPRODUCE,
    ]
    return "\n\n".join(paragraphs) + "\n"


def bars(lines: list[Line]) -> Iterator[str]:
    """Yield the bars on the CPU."""
    yield "## Bars on the CPU"
    yield from judge([line for line in lines if line["bar"]])


def judge(lines: list[Line]) -> Iterator[str]:
    """Yield a sentence and a table about which bars hold."""
    judged = [
        (line["what"], line["measured"], line["bar"], verdict(line["measured"], line["bar"]))
        for line in lines
    ]
    words = [word for *_, word in judged if word]
    missed = [what for what, *_, word in judged if word == NO]
    if missed:
        yield f"{len(words) - len(missed)} of {len(words)} bars hold. These do not:"
        yield "\n".join(f"- {what}" for what in missed)
    else:
        yield f"All {len(words)} bars hold."
    yield table(("what", "measured", "bar", "holds"), judged)


def slots(lines: list[Line]) -> Iterator[str]:
    """Yield the parts about slots."""
    for part, (title, words) in PARTS.items():
        mine = [line for line in lines if line["what"].startswith(f"{part}: ")]
        if mine:
            yield f"## {title}"
            yield words
            yield table(
                ("what", "measured"),
                [(line["what"].partition(": ")[2], line["measured"]) for line in mine],
            )
    yield from measured_on(lines)


def grid(lines: list[Line]) -> Iterator[str]:
    """Yield the grid of sizes."""
    if not lines:
        return
    yield "## The grid"
    yield GRID_WORDS
    yield "![Milliseconds of a slot over rows held](../results/benchmarks/slots.png)"
    columns = GRID[3:]
    yield table(
        ("rows held", "K", "width", "naive", "ITLM", "OGRS, exact", "OGRS", "the loop"),
        [
            (f"{int(line['rows']):,}", line["k"], line["width"], *(short(line[c]) for c in columns))
            for line in lines
        ],
    )
    yield from measured_on(lines)


def measured(title: str, words: str, lines: list[Line]) -> Iterator[str]:
    """Yield a part that lists what was measured."""
    if not lines:
        return
    yield f"## {title}"
    yield words
    rows = [(line["what"], line["measured"]) for line in lines if line["what"] != "machine"]
    yield table(("what", "measured"), rows)
    yield from measured_on(lines)


def buffers(lines: list[Line]) -> Iterator[str]:
    """Yield the part about buffers."""
    if not lines:
        return
    yield "## Buffers"
    yield BUFFER_WORDS
    yield table(
        ("buffer", "rows a second", "resident MB when full", "growth to the end, per cent"),
        [
            (
                line["buffer"],
                f"{int(line['rows_a_second']):,}",
                line["resident_mb"],
                line["growth_per_cent"],
            )
            for line in lines
        ],
    )
    yield from measured_on(lines)


def staleness(lines: list[Line]) -> Iterator[str]:
    """Yield the part about kept features."""
    if not lines:
        return
    yield "## Kept features"
    yield STALENESS_WORDS
    columns = STALENESS[2:]
    rows = []
    for refresh in dict.fromkeys(line["refresh"] for line in lines):
        mine = [line for line in lines if line["refresh"] == refresh]
        means = (mean_of([line[column] for line in mine]) for column in columns)
        rows.append((f"{refresh} renewed a slot" if refresh else "fresh pass", *means))
    yield table(
        (
            "features", "regret", "error of features", "purity", "accuracy", "averaged",
            "ms a slot",
        ),
        rows,
    )  # fmt: skip
    yield from measured_on(lines)


def gpu(lines: list[Line]) -> Iterator[str]:
    """Yield the part about the GPU."""
    if not lines:
        return
    yield "## On a GPU"
    yield GPU_WORDS
    yield from judge([line for line in lines if line["what"] != "machine"])
    yield from measured_on(lines)


def measured_on(lines: list[Line]) -> Iterator[str]:
    """Yield the machines of lines, from a column or from a row of their own."""
    named = [line["measured"] for line in lines if line.get("what") == "machine"]
    for place in dict.fromkeys(named or [line["machine"] for line in lines if "machine" in line]):
        yield f"Measured on: {place}."


def mean_of(numbers: list[str]) -> str:
    """Return the mean of numbers; empty cells do not count."""
    known = [float(number) for number in numbers if number]
    return f"{mean(known):.3f}" if known else ""


def short(number: str) -> str:
    """Return a number with as many digits as a table needs."""
    if not number:
        return ""
    return f"{float(number):,.{0 if float(number) >= 100 else 2}f}"


OPENING = """# Performance

Written by `python -m benchmarks.page` from the files in
[results/benchmarks](../results/benchmarks) alone; a test compares.
What is compared was timed in one process, turn by turn, so that a slow minute hits all.
A ratio is the median over rounds, at least 20 of them, with its 95% interval by bootstrap. Ratios
travel from machine to machine; milliseconds do not."""

PLAUSIBLE_WORDS = """`python -m benchmarks.plausible`: complete slots of Plausible beside naive
ones, a 2-layer MLP, SGD, half of the labels wrong; where nothing else is stated, 784 pixels, 256
hidden units, 10 classes, 60,000 rows held. Parts of the cost are those of one slot, each without
what it calls of another. Voters are multiplied in bfloat16 where the processor does that; elsewhere
votes take longer. Time is that of the processor, so that no other process counts; milliseconds are
medians, those of naive in brackets."""

LOOP_WORDS = """The released script walks its chains one after another, and at every step goes past
all rows held. Here that loop is written plainly in torch and run once, four chains a round. OGRS
walks all chains at once, past all rows (one matrix product a step) or among 512 random candidates
(one for all steps). In this setting chains know nothing of each other, so that all must pick the
same rows, while prices move. The paper's own order, each chain with the price that the one before
it left, cannot be batched: there, only arithmetic is saved."""

TURN_WORDS = """With `OGRSVariant(in_turn=True)`, chains whose moves count as uses move in turn.
At a ratio of 1 the turns would cost nothing. The default of OGRS counts no move, and pays none of
this."""

SLOT_WORDS = """Picking, the training step, and what is kept besides: a 2-layer MLP of 256 hidden
units on 784 pixels, the default of OGRS. Buffers above 60,000 rows hold images more than once. The
exponent is the slope of log time over log rows held, fitted to the medians: 0 is a cost that does
not grow. "Prices moving" is a limit of once the mean use, at which prices rise in every slot."""

MEMORY_WORDS = """How much the process grows while a buffer of 240,000 rows is filled, divided by
the rows."""

PARTS = {
    "against the loop": ("Against the loop", LOOP_WORDS),
    "in turn over at once": ("Chains that see each other", TURN_WORDS),
    "complete slots": ("Complete slots", SLOT_WORDS),
    "memory": ("Memory", MEMORY_WORDS),
}

GRID_WORDS = """Milliseconds of a complete slot on random numbers, medians of 5 rounds. "Exact"
walks 5 steps past all rows in input space; "OGRS" is the default. The loop was timed for one chain,
without training, and multiplied by K."""

STREAM_WORDS = """Rows are made up as they are needed, two labels in five wrong, and go through
`trainer.run`: each slot predicts its rows, adds them to a sliding buffer, picks and learns."""

CLASSES_WORDS = """`python -m benchmarks.classes`: rows around a centre for each class, three labels
in ten wrong, through what `tamis train` builds by default: an MLP of 256 hidden units, SGD,
Plausible, the alarm, a sliding buffer that holds all rows, checkpoints, log and live suspects.
Memory is the peak of the process less what it held before the model was built, less the model; the
buffer is part of it. Up to 128 classes each pair of them has a count of its own; above, only pairs
that occurred have one, so that nothing grows with the square of the classes."""

BUFFER_WORDS = """One million rows of 64 numbers in chunks of 256 through each buffer, 50,000 held;
memory of the process just after the buffer was full, and how much it grew from there to the end."""

STALENESS_WORDS = """`Execution(refresh=...)` keeps the features of every row and renews some in
each slot, so that OGRS needs no pass of its own. What that costs: MNIST, 5,000 rows held, half of
the labels right, MLP, K = 32, 3,000 slots of which 500 naive, means of three seeds. The regret is
the mean gradient norm of the picks over that of the pool, both with fresh features, at every 50th
slot: 1 is a random pick, lower is better. The error of features is that of kept against fresh
ones, relative to the fresh. Times are medians over stretches of 50 slots."""

GPU_WORDS = """`python -m benchmarks.gpu` on a machine with a GPU: CIFAR-10 of 50,000, ResNet-18 in
bfloat16, channels last, K = 128. Scans in bfloat16 and in one pass of TF32 meet
their bar; the one that keeps the precision of float32 takes three
passes, and does not. A slot meets its bar where selection and step are
one CUDA graph and the features of all rows are kept, 16 of them renewed a slot.

The last rows show what is learned at that cost: half of the labels right, 2,000 slots, the
first 500 naive. Where accuracy is below that of naive training, a cheap slot gains nothing: the
network changes faster than its features are renewed, and OGRS itself is at a loss on CIFAR-10
so early."""

REPRODUCE = """## Run it again

```sh
make bench       # CPU, ten to fifteen minutes; MNIST is read from the data folder (TAMIS_DATA)
make bench-gpu   # on a machine with a GPU; CIFAR-10 is read from the data folder
```

Both end with `python -m benchmarks.page`. Run nothing else meanwhile."""
