"""Patience: tests of sources run on machines that may be busy."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a reader's thread as long as it takes to end."""
    monkeypatch.setattr("tamis.sources.ahead.STOP_SECONDS", 300.0)
