"""Curves of the paper's experiments over slots: means over seeds, with bands of one deviation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tamis.lab.table import Line

Curve = Sequence[Line]
STYLES = {
    "Plausible": ("#1f6feb", "-"),
    "OGRS": ("#d1495b", "-"),
    "OGRS, paper": ("#d1495b", ":"),
    "naive": ("#8a8f98", "-"),
    "oracle": ("#2f9e64", "--"),
    "ITLM 0.9": ("#f0c36d", "-"),
    "ITLM 0.7": ("#e9a23b", "-"),
    "ITLM 0.5": ("#c2661a", "-"),
    "ITLM 0.3": ("#8c3b0c", "-"),
    "ITLM, released script": ("#8c3b0c", ":"),
    "BARE": ("#7a5195", "-"),
}
TRUE = "#222222"
SHARES = {
    "accuracy_ema": "test accuracy, averaged weights",
    "purity": "purity of the picks",
    "coverage": "share of the pool ever picked",
    "clean_ratio_estimated": "clean ratio",
}
SMALL: dict[str, Any] = {"fontsize": 8}


def draw_panels(panels: Mapping[str, Sequence[Curve]], shares: Sequence[str]) -> Figure:
    """Draw a column for each panel, and a row for each share."""
    figure = Figure(
        figsize=(3.1 * len(panels) + 0.4, 2.5 * len(shares) + 0.8), layout="constrained"
    )
    axes = figure.subplots(len(shares), len(panels), squeeze=False, sharex=True, sharey="row")
    for column, (title, curves) in enumerate(panels.items()):
        axes[0, column].set_title(title, fontsize=10)
        for row, name in enumerate(shares):
            draw_share(axes[row, column], curves, name)
    for row, name in enumerate(shares):
        axes[row, 0].set_ylabel(SHARES[name], **SMALL)
    for place in axes[-1]:
        place.set_xlabel("slot", **SMALL)
    handles = {
        label: handle
        for place in axes.flat
        for handle, label in zip(*place.get_legend_handles_labels(), strict=True)
    }
    names = [name for name in (*STYLES, "true") if name in handles]
    figure.legend(
        [handles[name] for name in names], names, loc="outside lower center",
        ncols=min(6, max(1, len(names))), frameon=False, **SMALL,
    )  # fmt: skip
    return figure


def draw_share(axes: Axes, curves: Sequence[Curve], name: str) -> None:
    """Draw one share of every method that has it; beside estimates also the truth."""
    for method, (colour, style) in STYLES.items():
        mine = [curve for curve in curves if curve[0].method == method]
        values = np.array([[getattr(line, name) for line in curve] for curve in mine])
        if not len(values) or np.isnan(values).all():
            continue
        slots = [line.slot for line in mine[0]]
        middle = values.mean(axis=0)
        if len(values) > 1:
            band = values.std(axis=0, ddof=1)
            axes.fill_between(slots, middle - band, middle + band, color=colour, alpha=0.18, lw=0)
        axes.plot(slots, middle, style, color=colour, linewidth=1.4, label=method)
    if name == "clean_ratio_estimated" and curves:
        truth = [line.clean_ratio_true for line in curves[0]]
        slots = [line.slot for line in curves[0]]
        axes.plot(slots, truth, "--", color=TRUE, linewidth=1, label="true", drawstyle="steps-pre")
        axes.set_ylim(0, 1.02)
    axes.grid(axis="y", color="#eeeeee")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
