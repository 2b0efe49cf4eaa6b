"""Online gradient-based robust selection: Yang, Koppel and Zhang, 2023."""

from tamis.selectors.ogrs.paper import PaperOGRS
from tamis.selectors.ogrs.rule import OGRS

__all__ = ["OGRS", "PaperOGRS"]
