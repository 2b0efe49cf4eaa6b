"""The columns of a table and their kinds, as commands print them."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.table import Table as Grid

from tamis.sources import Table
from tamis.sources.schema.cells import listed


def print_table(table: Table, console: Console, *, complete: bool) -> None:
    """Print what was found out about a table: every column, or a line of counts.

    What is taken as missing although something is there is always printed.
    """
    if complete:
        print_columns(table, console)
        print_classes(table, console)
    else:
        kinds = Counter(column.kind for column in table.schema.columns)
        counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        console.print(f"Columns: {counts} (--dry-run lists them).")
    if table.left_out:
        inputs = listed(column.name for column in table.schema.inputs)
        console.print(f"Input: {inputs}. Left out: {listed(table.left_out)}.")
    crowd = [table.crowd.note(table.rows)] if table.crowd else []
    for note in (*crowd, *table.notes):
        console.print(f"{table.name}: {note}.")
    if not complete:
        for name, count in table.unreadable.items():
            kind = table.schema[name].kind
            console.print(
                f"{count} cells of {name!r} are not of kind {kind}, and count as missing."
            )


def print_columns(table: Table, console: Console) -> None:
    """Print a line for every column: its kind, the share missing, and what was found in it."""
    grid = Grid(box=None, pad_edge=False)
    for title in ("column", "kind", "missing", "found"):
        grid.add_column(title)
    for column in table.schema.columns:
        missing, found = table.missing.get(column.name, 0), column.note()
        if column.name in table.unreadable:
            found += f"; {table.unreadable[column.name]} cells are not of kind {column.kind}"
        share = f"{missing / table.rows:.1%}" if missing else ""
        grid.add_row(column.name, column.kind, share, found)
    console.print(grid)


def print_classes(table: Table, console: Console) -> None:
    """Print the classes with their number of rows, and the size of the table."""
    counts = [f"{name} {table.label_counts.get(name, 0)}" for name in table.classes[:10]]
    more = ", …" if len(table.classes) > 10 else ""
    shape = " x ".join(map(str, table.input_shape))
    console.print(
        f"{table.rows} rows, {len(table.classes)} classes of {table.schema.label!r}:"
        f" {', '.join(counts)}{more}; {shape} numbers a row.",
    )


def table_results(table: Table) -> dict[str, object]:
    """Return what was found out about a table, for --json."""
    return {
        "rows": table.rows,
        "label": table.schema.label,
        "classes": dict.fromkeys(table.classes, 0) | dict(table.label_counts),
        "columns": {column.name: column.kind for column in table.schema.columns},
        "missing": dict(table.missing),
    }
