"""Waiting for something to happen, however fast the machine is."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep

END = 300.0
"""Seconds after which nobody waits any longer: far more than a busy machine needs."""


def wait_until(
    condition: Callable[[], object], seconds: float = END, *, what: str = "what is awaited"
) -> None:
    """Return once the condition holds; raise TimeoutError if it never does."""
    until = monotonic() + seconds
    while not condition():
        if monotonic() > until:
            raise TimeoutError(f"{what} did not happen within {seconds:.0f} s")
        sleep(0.01)
