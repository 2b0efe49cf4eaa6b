"""The demo's folder: log, plots, ground truth, suspects, and one page that needs no network."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import numpy as np
from jinja2 import Environment, PackageLoader
from torch import Tensor

from tamis.checkpoint import write_atomically
from tamis.lab.demo import LEAD, Demo, Result
from tamis.runs import History, Suspect, write_suspects_csv
from tamis.web.plots import draw_accuracy, draw_share, draw_tracked, save_png, to_svg

CARDS = 24
PLOTS = {
    "accuracy": "Accuracy on clean test data",
    "purity": "Purity: share of picks whose label is right",
    "coverage": "Coverage: share of held samples ever picked",
    "clean_ratio": "Clean ratio of what arrives: true, and as tracked",
}

CALLED = {
    "naive": "naive training",
    "OGRS": "OGRS, the paper's method",
    "oracle": "the oracle, which knows every label",
}


@dataclass(frozen=True)
class Card:
    """One suspect label as the page shows it."""

    image: str
    suspect: Suspect
    wrong: bool


def write_demo(demo: Demo, results: Sequence[Result], folder: Path) -> Path:
    """Write everything but the logs, which are there already, and return the page's path."""
    logs = {result.name: History(log_path(folder, result.name)) for result in results}
    figures = {
        "accuracy": draw_accuracy(logs, demo.clean_ratio),
        "purity": draw_share(logs, "purity", "purity", demo.clean_ratio),
        "coverage": draw_share(logs, "coverage", "coverage", demo.clean_ratio),
    }
    finder = next(result for result in results if result.name == LEAD)
    figures["clean_ratio"] = draw_tracked(finder.tracked, demo.clean_ratio)
    for name, figure in figures.items():
        save_png(figure, folder / f"{name}.png")
    write_suspects_csv(folder / "suspects.csv", finder.suspects)
    write_ground_truth(demo, folder / "ground_truth.csv")
    page = folder / "index.html"
    template = Environment(
        loader=PackageLoader("tamis.web"), autoescape=True, trim_blocks=True
    ).get_template("demo.html")
    html = template.render(
        demo=demo,
        results=results,
        best=max(last_accuracy(result) for result in results),
        accuracy=last_accuracy,
        findings=[*findings(results), follows(demo, finder)],
        plots=[(PLOTS[name], to_svg(figure)) for name, figure in figures.items()],
        cards=cards(demo, finder),
        hits=hits(demo, finder),
        finder=finder,
    )
    write_atomically(page, html.encode())
    return page


def log_path(folder: Path, method: str) -> Path:
    """Return the path of a method's log."""
    name = "".join(letter if letter.isalnum() or letter == "." else "-" for letter in method)
    return folder / f"log-{name.strip('-').lower()}.jsonl"


def last_accuracy(result: Result) -> float:
    """Accuracy of the averaged weights at the end."""
    return result.tested[-1].accuracy_ema or 0.0


def findings(results: Sequence[Result]) -> list[str]:
    """Return sentences about which method won."""
    at = {result.name: last_accuracy(result) for result in results}
    lead = at.pop(LEAD)
    lines = []
    for name, value in at.items():
        gap = 100 * (lead - value)
        side = "above" if gap >= 0 else "below"
        lines.append(f"{LEAD} ends {abs(gap):.1f} points {side} {CALLED.get(name, name)}.")
    lines += [f"{result.name}: {text}." for result in results for text in result.warnings]
    return lines


def follows(demo: Demo, result: Result) -> str:
    """Return a sentence about the error of the tracked clean ratio."""
    off = [abs(est.value - demo.clean_ratio(slot)) for slot, est in result.tracked.items()]
    return (
        f"The clean ratio, which {LEAD} does not know, was tracked to within {mean(off):.2f} in "
        "the mean, jumps included."
    )


def hits(demo: Demo, result: Result) -> tuple[int, int, int]:
    """Count suspects, suspects whose label is wrong, and wrong labels in all."""
    wrong = demo.ground_truth.wrong_ids
    return len(result.suspects), sum(int(s.id) in wrong for s in result.suspects), len(wrong)


def cards(demo: Demo, result: Result) -> list[Card]:
    """Return the worst suspects, with their images."""
    worst = result.suspects[:CARDS]
    wanted = {int(suspect.id) for suspect in worst}
    images = {
        int(row): inputs
        for samples in demo.stream
        for row, inputs in zip(samples.ids, samples.inputs, strict=True)
        if int(row) in wanted
    }
    wrong = demo.ground_truth.wrong_ids
    return [Card(to_png(images[int(s.id)]), s, int(s.id) in wrong) for s in worst]


def to_png(image: Tensor) -> str:
    """Encode a grey image, dark on white, as a data URL."""
    from matplotlib import image as files

    out = io.BytesIO()
    files.imsave(out, 1 - np.asarray(image), cmap="gray", vmin=0, vmax=1, format="png")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


def write_ground_truth(demo: Demo, path: Path) -> None:
    """Write which labels the simulation made wrong, so that anyone can check the suspects."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(["id", "given", "clean"])
    ground_truth = demo.ground_truth
    writer.writerows(
        zip(
            ground_truth.ids.tolist(),
            ground_truth.labels.tolist(),
            ground_truth.clean.int().tolist(),
            strict=True,
        )
    )
    write_atomically(path, out.getvalue().encode())
