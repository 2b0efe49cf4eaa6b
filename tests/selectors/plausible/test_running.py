"""A running mean begins with its first value, and begins again where it is stale."""

from __future__ import annotations

import torch

from tamis.selectors.plausible.running import RunningMean


def test_what_is_stale_begins_again() -> None:
    mean = RunningMean(pace=0.25)
    mean.restart(torch.tensor([9.0, 9.0]), torch.tensor([True, True]))
    assert mean.value is None  # there is nothing yet that could be stale
    assert mean.update(torch.tensor([4.0, 8.0])).tolist() == [4, 8]
    assert mean.update(torch.tensor([8.0, 0.0])).tolist() == [5, 6]
    mean.restart(torch.tensor([1.0, 2.0]), torch.tensor([True, False]))
    assert mean.update(torch.tensor([1.0, 6.0])).tolist() == [1, 6]
