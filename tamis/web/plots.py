"""Curves over slots, drawn by matplotlib."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tamis.noise import Estimate
from tamis.runs import History

COLOURS = ("#1f6feb", "#8a8f98", "#d9822b", "#b45f9a", "#444444", "#2f9e64")
SMOOTH = 50


def draw_accuracy(logs: Mapping[str, History], clean_ratio: Callable[[int], float]) -> Figure:
    """Test accuracy of the averaged weights over slots, and thinner that of the raw ones."""
    figure, axes = under_clean_ratio(logs, clean_ratio)
    for colour, (name, log) in zip(COLOURS, logs.items(), strict=False):
        axes.plot(*log.measured("accuracy"), color=colour, linewidth=0.7, alpha=0.5)
        axes.plot(*log.measured("accuracy_ema"), color=colour, linewidth=1.8, label=name)
    axes.set_ylabel("test accuracy")
    low = min(np.quantile(log.measured("accuracy_ema")[1], 0.15) for log in logs.values())
    axes.set_ylim(max(0, float(low) - 0.05), 1)
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    return figure


def draw_share(
    logs: Mapping[str, History], name: str, title: str, clean_ratio: Callable[[int], float]
) -> Figure:
    """Draw a share that every slot has, smoothed over 50 slots."""
    figure, axes = under_clean_ratio(logs, clean_ratio)
    for colour, (method, log) in zip(COLOURS, logs.items(), strict=False):
        axes.plot(
            *log.smooth(name, max(1, len(log) // SMOOTH)), color=colour, linewidth=1.8, label=method
        )
    axes.set_ylabel(title)
    axes.set_ylim(0, 1.02)
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    return figure


def draw_tracked(tracked: Mapping[int, Estimate], clean_ratio: Callable[[int], float]) -> Figure:
    """Draw the clean ratio as it was estimated, with its band, and as it was."""
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.subplots()
    slots = list(tracked)
    value, low, high = zip(*tracked.values(), strict=True)
    axes.fill_between(slots, low, high, color=COLOURS[0], alpha=0.15, label="90% band")
    axes.plot(slots, value, color=COLOURS[0], linewidth=1.8, label="estimated")
    true = [clean_ratio(slot) for slot in slots]
    axes.plot(slots, true, color="#7a9a6d", linewidth=1.2, drawstyle="steps-mid", label="true")
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("clean ratio")
    axes.set_xlabel("slot")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#eeeeee")
    axes.legend(frameon=False, fontsize=8, loc="lower left")
    return figure


def under_clean_ratio(
    logs: Mapping[str, History], clean_ratio: Callable[[int], float]
) -> tuple[Figure, Axes]:
    """Two axes over the same slots: a strip with the clean ratio, and room for curves below."""
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    strip, axes = figure.subplots(2, 1, sharex=True, height_ratios=[1, 5])
    slots = next(iter(logs.values())).column("slot")
    ratios = [clean_ratio(int(slot)) for slot in slots]
    strip.fill_between(slots, ratios, color="#dfe8dc", step="mid")
    strip.plot(slots, ratios, color="#7a9a6d", linewidth=1)
    strip.set_ylim(0, 1)
    strip.set_ylabel("clean ratio\narriving", fontsize=7)
    strip.tick_params(labelsize=7)
    for part in (strip, axes):
        part.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#eeeeee")
    axes.set_xlabel("slot")
    return figure, axes


def save_png(figure: Figure, path: Path) -> None:
    """Write a figure as PNG."""
    figure.savefig(path, dpi=130)


def to_svg(figure: Figure) -> str:
    """Return a figure as an SVG element to stand inside a page."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()[out.getvalue().index("<svg") :]
