"""The ground truth of a simulated stream: exactly which labels are wrong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from tamis.data import Samples


@dataclass(frozen=True)
class GroundTruth:
    """Ids, labels as given, and whether each is right."""

    ids: Tensor
    labels: Tensor
    clean: Tensor

    @classmethod
    def of(cls, stream: Iterable[Samples]) -> GroundTruth:
        """Return the ground truth of a simulated stream, read to its end."""
        rows = [(samples.ids, samples.labels, samples.clean) for samples in stream]
        if any(clean is None for _, _, clean in rows):
            raise ValueError("Only a simulated stream has ground truth: these lack `clean`.")
        ids, labels, clean = zip(*rows, strict=True)
        return cls(torch.cat(ids), torch.cat(labels), torch.cat(clean))

    @property
    def clean_ratio(self) -> float:
        """Share of labels that are right."""
        return self.clean.float().mean().item()

    @property
    def wrong_ids(self) -> set[int]:
        """Ids of the rows whose labels are wrong."""
        return set(self.ids[~self.clean].tolist())
