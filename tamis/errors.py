"""Errors of the package: one base, so that one `except` catches them all."""


class TamisError(Exception):
    """Base of all errors that the package raises on purpose."""


class UsageError(TamisError):
    """A mistake that the person at the keyboard can fix; its message is one line."""
