"""Samples put together."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tamis.data import Samples


def together(samples: Sequence[Samples]) -> Samples:
    """Put samples into one, in their order."""
    columns = [part.columns() for part in samples]
    return Samples(**{name: torch.cat([part[name] for part in columns]) for name in columns[0]})
