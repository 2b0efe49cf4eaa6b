"""Text in CSV files that no spreadsheet runs as a formula."""

from __future__ import annotations

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001
"""Beginnings of a formula, and characters that a spreadsheet skips before one."""


def disarm(text: str) -> str:
    """Return text that is not a formula to a spreadsheet: it is put behind an apostrophe.

    >>> disarm("=1+1"), disarm("a=1")
    ("'=1+1", 'a=1')
    """
    return "'" + text if text.lstrip("'").startswith(FORMULA) else text


def rearm(text: str) -> str:
    """Undo `disarm`."""
    return text[1:] if text.startswith("'") and text.lstrip("'").startswith(FORMULA) else text
