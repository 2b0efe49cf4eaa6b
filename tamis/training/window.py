"""Which states of the model a selector looks through, and how many slots pick at random first."""

from __future__ import annotations

from typing import Literal

from tamis.selectors import Selector
from tamis.selectors.protocol import preferred_warm_up, preferred_window

WindowSetting = int | Literal["average", "auto"]
"""The last so many states, the running average, or what the selector prefers."""


def resolve_window(
    window: WindowSetting, selector: Selector, ema: float | None
) -> int | Literal["average"]:
    """Return the number of states to look through, or "average"."""
    if not (window in ("auto", "average") or (type(window) is int and window >= 1)):
        raise ValueError(
            f'window is "auto", "average" or a number of states from 1 on, got {window!r}.'
        )
    found = preferred_window(selector) if window == "auto" else window
    if found == "average" and ema is None:
        raise ValueError(
            f"{type(selector).__name__} is to look through the average of the weights, and ema=None"
            " keeps none: set ema, or window to a number of states."
        )
    return found


def resolve_warm_up(warm_up: int | Literal["auto"], selector: Selector) -> int:
    """Return the number of first slots that pick at random."""
    return preferred_warm_up(selector) if warm_up == "auto" else warm_up
