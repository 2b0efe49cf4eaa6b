"""Optimisers: one file, one method, one paper."""

from tamis.optim.admm import ADMM
from tamis.optim.cadam import CAdam

__all__ = ["ADMM", "CAdam"]
