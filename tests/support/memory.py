"""Memory of a process, where the system reports it."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

STATM = Path("/proc/self/statm")


def resident() -> int:
    """Return the bytes of memory that this process holds."""
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def anonymous() -> int:
    """Return the bytes of memory that this process holds, parts of files left out."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("RssAnon")))


def peak() -> int:
    """Return the most bytes of memory that this process has held so far."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def bytes_of(state: Any) -> int:
    """Return the bytes of all tensors in a state."""
    if isinstance(state, Tensor):
        return state.nbytes
    if isinstance(state, Mapping):
        return sum(map(bytes_of, state.values()))
    return sum(map(bytes_of, state)) if isinstance(state, list | tuple) else 0
