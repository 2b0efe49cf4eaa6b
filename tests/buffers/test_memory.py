"""A full buffer takes no more memory, however long the stream."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os
from pathlib import Path
import torch
from tamis.buffers import Sliding
from tamis.data import Samples

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

torch.set_num_threads(1)
generator = torch.Generator().manual_seed(0)
buffer, arrived, full = Sliding(50_000), 0, None
while full is None or arrived < 250_000:
    inputs = torch.randn(256, 64, generator=generator)
    labels = torch.randint(10, (256,), generator=generator)
    buffer.append(Samples.of(inputs, labels, arrived), generator)
    arrived += 256
    if full is None and len(buffer) == 50_000:
        full = resident()
print(full, resident())
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc to see its memory")
def test_memory_stays_flat_once_full() -> None:
    """In a process of its own, since other tests leave memory behind."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    full, end = map(int, done.stdout.split())
    assert end < 1.01 * full
