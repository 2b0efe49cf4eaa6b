"""Text for CSV files that no spreadsheet takes for a formula."""

from __future__ import annotations

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001
"""Beginnings that a spreadsheet takes for a formula, or lets one begin after."""


def disarm(text: str) -> str:
    """Write text such that no spreadsheet takes it for a formula: behind an apostrophe.

    >>> disarm("=1+1"), disarm("a=1")
    ("'=1+1", 'a=1')
    """
    return "'" + text if text.lstrip("'").startswith(FORMULA) else text


def rearm(text: str) -> str:
    """Undo `disarm`."""
    return text[1:] if text.startswith("'") and text.lstrip("'").startswith(FORMULA) else text
