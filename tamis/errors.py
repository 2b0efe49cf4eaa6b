"""Errors of the package: one base, so that one `except` catches them all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class TamisError(Exception):
    """Base of all errors that the package raises on purpose."""


class UsageError(TamisError):
    """A mistake that the person at the keyboard can fix; its message is one line."""


class GrowthError(TamisError, ValueError):
    """A part of a trainer that was built for a fixed number of classes, in one sentence."""


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Turn a failed import into a `UsageError` that names the extra to install."""
    try:
        yield
    except ImportError as error:
        raise UsageError(f"{error.name} is missing: pip install 'tamis[{extra}]'.") from None


def as_clause(text: str) -> str:
    """Return the message of another library as a part of a sentence.

    >>> as_clause("Error 111 connecting to here:1. Connection refused.")
    'Error 111 connecting to here:1: Connection refused'
    """
    return " ".join(text.split()).rstrip(".").replace(". ", ": ")
