"""Ways to estimate the clean ratio: `estimate(samples, local, generator)` gives a share."""

from tamis.clean_ratio.cross_validation import CrossValidation
from tamis.clean_ratio.proportion import Proportion

CLEAN_RATIOS = (Proportion, CrossValidation)

__all__ = ["CLEAN_RATIOS", "CrossValidation", "Proportion"]
