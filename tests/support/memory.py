"""Memory of a process, where the system reports it."""

from __future__ import annotations

import os
from pathlib import Path

STATM = Path("/proc/self/statm")


def resident() -> int:
    """Return the bytes of memory that this process holds."""
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
