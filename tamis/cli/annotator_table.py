"""One label for each row, from those of several annotators: `tamis annotators`."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table as Grid

from tamis.cli.console import plain_console
from tamis.cli.next_steps import command, print_next
from tamis.errors import UsageError
from tamis.monitoring.progress import RowCount
from tamis.noise import Annotators, Decline
from tamis.prediction.writing import check_ending, open_columns, unlike
from tamis.sources import open_reader
from tamis.sources.annotations import Annotations, read_annotations

PRINTED = 20
"""Annotators printed."""


def combine_labels(options: Namespace) -> int:
    """Write one label for each row and a line for each annotator, and print the worst of them."""
    console = plain_console()
    out = options.out or Path(f"{options.file.stem}-joint.csv")
    check_ending(out)
    about = out.with_name(f"{out.stem}-annotators{out.suffix}")
    if options.file.resolve() in (out.resolve(), about.resolve()):
        raise UsageError(f"--out {out} would overwrite {options.file}.")
    chosen = {name: getattr(options, name) for name in ("row", "annotator", "label", "truth")}
    reader = open_reader(options.file, [name for name in chosen.values() if name])
    with RowCount(options.file.name, console) as count:
        given = read_annotations(reader, **chosen, progress=count.update)
    print_given(given, console)
    annotators = Annotators(len(given.classes))
    with RowCount("Fitting", console, "steps") as count:
        annotators.update(given.rows, given.annotators, given.labels, progress=count.update)
    write_rows(out, given, annotators)
    write_annotators(about, given, annotators)
    print_annotators(given, annotators, console)
    if options.truth:
        print_accuracy(given, annotators, console)
    console.print(f"One label for each row: {out}; all annotators: {about}", soft_wrap=True)
    options.results.update(out=out, annotators_out=about, annotators=worst_first(given, annotators))
    by = given.columns.row
    print_next(
        console,
        open=about,
        join=f"{out} to your rows by {by!r}",
        then_train_with=command("train", "ROWS", "--label", "label"),
    )
    return 0


def worst_first(given: Annotations, annotators: Annotators) -> list[dict[str, object]]:
    """Return each annotator's name, number of labels and accuracy, and since when one is bad."""
    return [
        {"name": name, "labels": labels, "accuracy": share, "bad_since": since}
        for name, labels, share, _, _, _, since, *_ in annotator_lines(given, annotators)
    ]


def print_given(given: Annotations, console: Console) -> None:
    """Print what was read, and what could not be used."""
    columns = given.columns
    console.print(
        f"{len(given.labels)} labels ({columns.label}) of {len(given.row_names)} rows"
        f" ({columns.row}) by {len(given.annotator_names)} annotators ({columns.annotator}),"
        f" {len(given.classes)} classes."
    )
    for reason, count in given.rejects.most_common():
        console.print(f"{count} {'line' if count == 1 else 'lines'} left out: {reason}.")
    if given.repeated:
        left = "1 label" if given.repeated == 1 else f"{given.repeated} labels"
        console.print(f"{left} left out: the annotator gave the row another one later.")
    single = int((np.bincount(given.rows) == 1).sum())
    if single:
        few = "1 row has" if single == 1 else f"{single} rows have"
        console.print(f"{few} only one label, which reveals nothing about annotators.")


def write_rows(path: Path, given: Annotations, annotators: Annotators) -> None:
    """Write the label of each row, its probability, and the number of labels."""
    types = ("string", "string", "double", "int64")
    names = unlike([given.columns.row, "label", "probability", "labels"])
    probability, best = annotators.posterior().max(dim=1)
    columns = [
        given.row_names,
        [given.classes[at] for at in best.tolist()],
        [round(share, 6) for share in probability.tolist()],
        annotators.labels_of_rows().tolist(),
    ]
    with open_columns(path, dict(zip(names, types, strict=True))) as write:
        write(columns)


def write_annotators(path: Path, given: Annotations, annotators: Annotators) -> None:
    """Write a line for each annotator, the worst first."""
    types = {"labels": "int64", "accuracy": "double", "confuses": "string", "with": "string"}
    types |= {"share": "double", "bad_since": "int64", "bad_since_row": "string"}
    types |= {"before": "double", "after": "double"}
    names = unlike([given.columns.annotator, *types])
    lines = annotator_lines(given, annotators)
    with open_columns(path, dict(zip(names, ("string", *types.values()), strict=True))) as write:
        write([list(column) for column in zip(*lines, strict=True)])


Line = tuple[
    str, int, float, str, str, float, int | None, str | None, float | None, float | None
]  # fmt: skip


def annotator_lines(given: Annotations, annotators: Annotators) -> list[Line]:
    """Return what is known about each annotator, the worst first."""
    accuracy, labels = annotators.accuracy(), annotators.labels_given().tolist()
    confusion = annotators.confusion()
    confusion.diagonal(dim1=1, dim2=2).zero_()
    worst = (annotators.class_shares()[:, None] * confusion).flatten(start_dim=1).argmax(dim=1)
    shares = confusion.flatten(start_dim=1).gather(1, worst[:, None])[:, 0].tolist()
    declines: dict[int, Decline] = {each.annotator: each for each in annotators.declines}
    lines: list[Line] = []
    for at in accuracy.argsort(stable=True).tolist():
        true, label = divmod(int(worst[at]), len(given.classes))
        confused = (given.classes[true], given.classes[label], round(shares[at], 4))
        bad: tuple[int | None, str | None, float | None, float | None] = (None, None, None, None)
        if decline := declines.get(at):
            row = given.row_names[given.rows[decline.position]]
            bad = (decline.since + 1, row, round(decline.before, 4), round(decline.after, 4))
        name, share = given.annotator_names[at], round(float(accuracy[at]), 4)
        lines.append((name, labels[at], share, *confused, *bad))
    return lines


def print_annotators(given: Annotations, annotators: Annotators, console: Console) -> None:
    """Print the worst annotators, and everyone who has gone bad."""
    lines = annotator_lines(given, annotators)
    grid = Grid(box=None, pad_edge=False)
    grid.add_column(given.columns.annotator)
    grid.add_column("labels", justify="right")
    grid.add_column("accuracy", justify="right")
    grid.add_column("confuses most")
    grid.add_column("gone bad")
    printed = [line for at, line in enumerate(lines) if at < PRINTED or line[6] is not None]
    for name, labels, accuracy, true, label, share, since, row, before, after in printed:
        bad = ""
        if since is not None:
            bad = f"from label {since} on ({row}): agreement {before:.2f}, then {after:.2f}"
        confused = f"{true} as {label} ({share:.0%})"
        grid.add_row(name, str(labels), f"{accuracy:.3f}", confused, bad)
    console.print(grid)
    if len(lines) > len(printed):
        console.print(f"{len(lines) - len(printed)} better annotators are not listed.")


def print_accuracy(given: Annotations, annotators: Annotators, console: Console) -> None:
    """Print the accuracy of the labels of rows whose class is known, beside that of a majority."""
    known = np.flatnonzero(given.known)
    if not len(known):
        console.print(f"No row has a true class in {given.columns.truth!r}.")
        return
    classes = len(given.classes)
    cells = given.rows * classes + given.labels
    votes = np.bincount(cells, minlength=len(given.row_names) * classes).reshape(-1, classes)
    truth = given.truth[known]
    joint = (annotators.posterior().argmax(dim=1).numpy()[known] == truth).mean()
    majority = (votes.argmax(axis=1)[known] == truth).mean()
    console.print(
        f"Accuracy on {len(known)} rows with a true class: {joint:.4f}; of majority votes"
        f" {majority:.4f}."
    )
