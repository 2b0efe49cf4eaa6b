"""The paper's table and dynamic stream on a page: our numbers beside its own, settings, figures."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from matplotlib.figure import Figure

from tamis.checkpoint import write_atomically
from tamis.lab import dynamic
from tamis.lab.pages.markdown import escape, linked, put_between, read_page
from tamis.lab.pages.paper_claims import (
    SHORT,
    Curve,
    Place,
    as_printed,
    as_ratio,
    printed_faults,
    standings,
    stream_findings,
    table_findings,
)
from tamis.lab.pages.paper_plots import draw_panels
from tamis.lab.table import CLEAN_RATIOS, PAPER, WHY, Line, Settings, by_run, methods
from tamis.web.svg import save_png

PART = "paper"
MODELS = {"mnist": "two-layer perceptron", "cifar10": "ResNet-18"}
NOT_RUN = "not run"
FIGURES = {
    "accuracy": (("accuracy_ema",), "Accuracy over slots"),
    "picks": (("purity", "coverage"), "Purity and coverage over slots"),
    "ratio": (("clean_ratio_estimated",), "Clean ratio over slots, true and estimated"),
}
"""Shares of each figure, and its title."""
LEGEND = (
    "A cell is test accuracy after the last slot, by raw / averaged weights: the mean over seeds ±"
    " the standard deviation. The paper's number is in italics. N/A is printed in the paper; -"
    " marks a cell that the paper lacks. Sentences compare means of averaged weights. A gap"
    " smaller than the deviations means nothing.",
    "The number of an ITLM row is the share of smallest losses that it keeps. *ITLM, released"
    " script* keeps the largest losses instead, as the paper's script does: all but the clean"
    " ratio. *OGRS, paper* is algorithm 1 as printed. Both rows serve to check the paper."
    " Plausible, naive, BARE and OGRS need no side information.",
    "The settings of Plausible were tuned on MNIST streams and on this CIFAR-10, mostly with"
    " seed 0; those of OGRS on 5,000 rows of MNIST with seeds 0 to 2. For these two methods, such"
    " cells are not an independent test.",
)
STREAM = (
    "The stream has 20,000 random rows in four parts of 5,000. Every 5,000 slots, one part replaces"
    " the one before, and nothing else is held. The paper gives .1 .3 .2 .15 without stating"
    " whether these are shares of wrong or of right labels, so both are run. It gives no numbers"
    " for this experiment, and its figure is missing from its source."
)
NO_INFORMATION = (
    "With ten classes and a clean ratio of .1, a label is right no more often than a random one,"
    " so the first part carries no information that any method could learn."
)


def write_paper(
    lines: Sequence[Line], folder: Path, page: Path | None = None, settings: Settings | None = None
) -> Path:
    """Write the figures into the folder, and the paper's part of a Markdown page."""
    page, settings = page or folder / "results.md", settings or Settings()
    for name, figure in draw_all(lines, settings).items():
        save_png(figure, folder / name)
    text = put_between(read_page(page, PART), to_markdown(lines, page, folder, settings), PART)
    write_atomically(page, text.encode())
    return page


def to_markdown(lines: Sequence[Line], page: Path, folder: Path, settings: Settings) -> str:
    """Return the section of a Markdown page about some curves."""
    curves = complete(lines)
    text = [f"## The paper's experiments on real data{', quick' if settings.is_quick else ''}", ""]
    if settings.is_quick:
        text += ["**This is the quick version: fewer slots, and no ResNet. Not the paper's.**", ""]
    text += [about(curves), "", *(f"{line}\n" for line in LEGEND)]
    text += ["Of the paper's own numbers:", "", *bullets(printed_faults())]
    for data, mine in parts(curves, settings.named("table")).items():
        text += table_part(data, mine, page, settings)
        text += images(data, folder, page)
    for data, mine in parts(curves, settings.named("dynamic")).items():
        text += stream_part(data, mine, page, settings)
        text += images(f"dynamic-{data}", folder, page)
    return "\n".join([*text, *settings_part(settings)])


def complete(lines: Sequence[Line]) -> list[Curve]:
    """Sort lines into curves, and leave out those shorter than others of their experiment."""
    curves = list(by_run(lines).values())
    longest: dict[tuple[str, str], list[int]] = {}
    for curve in curves:
        of, slots = (curve[0].experiment, curve[0].data), [line.slot for line in curve]
        longest[of] = max(longest.get(of, []), slots, key=lambda slots: slots[-1:])
    return [
        curve
        for curve in curves
        if [line.slot for line in curve] == longest[curve[0].experiment, curve[0].data]
    ]


def parts(curves: Sequence[Curve], experiment: str) -> dict[str, list[Curve]]:
    """Sort an experiment's curves by data set, the paper's first."""
    mine = [curve for curve in curves if curve[0].experiment == experiment]
    names = dict.fromkeys([*PAPER, *(curve[0].data for curve in mine)])
    sorted_out = {name: [curve for curve in mine if curve[0].data == name] for name in names}
    return {name: there for name, there in sorted_out.items() if there}


def about(curves: Sequence[Curve]) -> str:
    """Return how many runs there are, and what they were made on."""
    made = Counter(curve[0].machine for curve in curves)
    where = "; ".join(f"{name} ({count:,})" for name, count in made.most_common())
    return f"Runs: {len(curves):,}. Made on {where or 'nothing yet'}."


def table_part(data: str, curves: Sequence[Curve], page: Path, settings: Settings) -> list[str]:
    """Write a data set's table: a cell for each clean ratio, and the paper's number beside it."""
    found, slot = standings(curves), max(curve[-1].slot for curve in curves)
    places = [Place(data, "", ratio, slot) for ratio in CLEAN_RATIOS]
    heads = [text for ratio in CLEAN_RATIOS for text in (as_ratio(ratio), "paper")]
    rows = []
    for method, rule in methods(settings).items():
        cells = [found.get(place, {}).get(method) for place in places]
        pairs = [
            (str(cell or NOT_RUN), printed(place, method))
            for place, cell in zip(places, cells, strict=True)
        ]
        counts = as_counts([cell.seeds if cell else 0 for cell in cells])
        rows.append(
            [linked(method, page, rule.page), *(text for pair in pairs for text in pair), counts]
        )
    model = "mlp" if settings.is_quick else MODELS.get(data, "mlp")
    title = f"### {SHORT.get(data, data)}, {model}, {slot:,} slots"
    return [title, "", *as_table(heads, rows), "", *bullets(table_findings(places, found))]


def printed(place: Place, method: str) -> str:
    """Write the paper's number for a cell; that of OGRS stands beside both of our rows."""
    row = method.removesuffix(", paper")
    if not place.is_printed or row not in PAPER[place.data]:
        return "-"
    return f"*{as_printed(place.printed(row))}*"


def stream_part(data: str, curves: Sequence[Curve], page: Path, settings: Settings) -> list[str]:
    """Write the dynamic stream: accuracy at the end of each quarter, for both readings."""
    found, last = standings(curves), max(curve[-1].slot for curve in curves)
    there = {curve[0].method for curve in curves}
    text = [f"### The dynamic stream, {SHORT.get(data, data)}", "", STREAM, ""]
    for reading, ratios in dynamic.READINGS.items():
        ends = [last * (part + 1) // len(ratios) for part in range(len(ratios))]
        places = [Place(data, reading, dynamic.mean_ratio(reading), end) for end in ends]
        heads = [
            f"slot {end:,}, {as_ratio(ratio)}" for end, ratio in zip(ends, ratios, strict=True)
        ]
        rows = []
        for method, rule in methods(settings).items():
            if method not in there and method not in dynamic.ROWS:
                continue
            cells = [found.get(place, {}).get(method) for place in places]
            counts = as_counts([cell.seeds if cell else 0 for cell in cells])
            rows.append(
                [linked(method, page, rule.page), *(str(cell or NOT_RUN) for cell in cells), counts]
            )
        wrong = "wrong" if reading == "noise" else "right"
        text += [f"Read as shares of {wrong} labels. The titles give clean ratios.", ""]
        text += [*as_table(heads, rows), "", *bullets(stream_findings(places, found))]
    return [*text, NO_INFORMATION, ""]


def as_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Write a table of methods."""
    lines = [["method", *heads, "seeds"], ["---", *["---:"] * (len(heads) + 1)], *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def bullets(lines: Sequence[str]) -> list[str]:
    """Write sentences as a list, and a line to end it."""
    return [*(f"- {escape(line)}" for line in lines), ""] if lines else []


def as_counts(seeds: Sequence[int]) -> str:
    """Write how many seeds the cells of a row have: one number where all have as many."""
    return str(seeds[0]) if len(set(seeds)) == 1 else ", ".join(map(str, seeds))


def settings_part(settings: Settings) -> list[str]:
    """List the settings, each with its reason."""
    text = ["### Settings", "", "One set for all cells; model and augmentation follow the data."]
    text += ["", "| setting | value | why |", "| --- | --- | --- |"]
    for field in fields(Settings):
        if field.name in WHY:
            value = getattr(settings, field.name)
            name = getattr(value, "__name__", str(value))
            text.append(f"| {escape(field.name)} | {escape(name)} | {escape(WHY[field.name])} |")
    return text


def draw_all(lines: Sequence[Line], settings: Settings) -> dict[str, Figure]:
    """Draw every figure, by the name of its file."""
    curves, figures = complete(lines), {}
    for data, mine in parts(curves, settings.named("table")).items():
        ratios = sorted({curve[0].clean_ratio for curve in mine}, reverse=True)
        panels = {
            f"{SHORT.get(data, data)}, clean ratio {as_ratio(ratio)}": [
                curve for curve in mine if curve[0].clean_ratio == ratio
            ]
            for ratio in ratios
        }
        for name, (shares, _) in FIGURES.items():
            figures[f"{data}-{name}.png"] = draw_panels(panels, shares)
    for data, mine in parts(curves, settings.named("dynamic")).items():
        panels = {
            f"{SHORT.get(data, data)}, {reading} reading": [
                curve for curve in mine if curve[0].reading == reading
            ]
            for reading in dynamic.READINGS
            if any(curve[0].reading == reading for curve in mine)
        }
        for name, (shares, _) in FIGURES.items():
            figures[f"dynamic-{data}-{name}.png"] = draw_panels(panels, shares)
    return figures


def images(name: str, folder: Path, page: Path) -> list[str]:
    """Return the figures as Markdown images."""
    way = Path(os.path.relpath(folder.resolve(), page.resolve().parent)).as_posix()
    text = []
    for kind, (_, title) in FIGURES.items():
        text += [f"![{title}]({way}/{name}-{kind}.png)", ""]
    return text
