"""Online gradient-based robust selection: Yang, Koppel and Zhang, 2023, algorithm 1."""

from tamis.selectors.ogrs.rule import OGRS

__all__ = ["OGRS"]
