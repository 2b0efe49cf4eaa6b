"""The tables of docs/scale.md, written from the files of measurements alone."""

from __future__ import annotations

from pathlib import Path

from tamis.lab.pages.measurements import Line, read, table, verdict

FOLDER, PAGE = Path("results/scale"), Path("docs/scale.md")
WRITERS = {"disk": "disk_buffer", "simulated": "shards"}
DISK = "disk.csv"
COST = ("model", "selector", "every", "slot_ms", "agreement_ms", "agreement", "over_ddp", "ddp_ms")
WIRE = ("selector", "held", "pool", "views", "gradients", "all", "kernel")
MODEL = (
    "workers", "every", "k", "pool_bytes", "view_bytes", "gradient_bytes", "agreement_s",
    "gradient_s", "select_s", "slot_s", "agreement", "hours",
)  # fmt: skip
SIMULATED = (
    "ranks", "rounds", "real_rounds", "bytes", "with_gloo", "kernel", "pool", "pool_model",
    "gradients", "gradients_model", "views",
)  # fmt: skip


def tables(folder: Path) -> dict[str, str]:
    """Return the tables of the page by name."""
    return {
        "bars": judged(read(folder / "results.csv")),
        "disk": judged(read(folder / DISK)),
        "cost": plain_table(COST, read(folder / "cost.csv")),
        "wire": plain_table(WIRE, read(folder / "wire.csv")),
        "model": plain_table(MODEL, read(folder / "model.csv")),
        "simulated": plain_table(SIMULATED, read(folder / "simulated.csv")),
    }


def judged(rows: list[Line]) -> str:
    """Return a table of measurements, with what became of each bar."""
    cells = [
        (row["what"], row["measured"], row["bar"], verdict(row["measured"], row["bar"]))
        for row in rows
    ]
    return table(("what", "measured", "bar", "holds"), cells)


def plain_table(columns: tuple[str, ...], lines: list[Line]) -> str:
    """Return a table of columns under their names."""
    titles = [column.replace("_", " ") for column in columns]
    return table(titles, [[line[column] for column in columns] for line in lines])


def fill(text: str, folder: Path = FOLDER) -> str:
    """Return the page with its tables, each between its marks."""
    for name, content in tables(folder).items():
        writer = WRITERS.get(name, "ranks")
        first, last = f"<!-- {name}: written by python -m benchmarks.{writer} -->", "<!-- end -->"
        before, _, rest = text.partition(first)
        _, _, after = rest.partition(last)
        text = f"{before}{first}\n{content}\n{last}{after}"
    return text
