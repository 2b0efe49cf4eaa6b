"""Figures as SVG that takes its ink from the page, and as files."""

from __future__ import annotations

import io
import re
from html import escape
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from tamis.web.run_plots import GRID, INK, Plot

STYLE = re.compile(r' style="([^"]*)"')
DROPPED = re.compile(
    r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>|<!--.*?-->", re.DOTALL
)
NAMED = re.compile(r'(\bid="|href="#|url\(#)')


def to_inline_svg(plot: Plot) -> str:
    """Return a plot as an SVG element: ink as the page has it, no style that a policy forbids.

    Matplotlib writes styles as CSS; every one that it uses is an attribute of SVG as well.
    """
    text = draw_svg(plot.draw(), plot.name)
    text = DROPPED.sub("", text[text.index("<svg") :])
    text = STYLE.sub(as_attributes, text)
    text = NAMED.sub(rf"\g<1>{plot.name}-", text)
    text = text.replace(INK, "currentColor").replace(f'"{GRID}"', '"var(--line, #e5e7eb)"')
    name = escape(f"{plot.title}. {plot.caption}", quote=True)
    head = f'<svg role="img" aria-label="{name}" stroke-linejoin="round" stroke-linecap="butt"'
    start = text.index(">")
    opening = re.sub(r' (?:width|height)="[^"]*"', "", text[4:start])
    return head + opening + text[start:]


def as_attributes(found: re.Match[str]) -> str:
    """Turn a list of CSS declarations into attributes."""
    pairs = (part.split(":", 1) for part in found[1].split(";") if ":" in part)
    return "".join(f' {name.strip()}="{value.strip()}"' for name, value in pairs)


def draw_svg(figure: Figure, salt: str) -> str:
    """Draw a figure, the same one always to the same bytes, on no ground of its own."""
    out = io.StringIO()
    figure.patch.set_visible(False)
    for axes in figure.axes:
        axes.patch.set_visible(False)
    with rc_context({"svg.hashsalt": salt}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def save_files(plots: list[Plot], folder: Path) -> list[Path]:
    """Write every plot as PNG, SVG and CSV."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for plot in plots:
        paths = [folder / f"{plot.name}.{ending}" for ending in ("png", "svg", "csv")]
        figure = plot.draw()
        figure.savefig(paths[0], dpi=130)
        with rc_context({"svg.hashsalt": plot.name}):
            figure.savefig(paths[1], metadata={"Date": None})
        paths[2].write_text(plot.to_csv(), encoding="utf-8", newline="")
        written += paths
    return written
