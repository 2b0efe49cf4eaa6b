"""Plausible, the project's own rule: likely labels first, then the rows with most left to learn."""

from tamis.selectors.plausible.agreements import Agreements
from tamis.selectors.plausible.calibration import Calibration
from tamis.selectors.plausible.class_balance import ClassBalance
from tamis.selectors.plausible.confusion import Confusion
from tamis.selectors.plausible.fallback import Fallback
from tamis.selectors.plausible.first_looks import FirstLooks
from tamis.selectors.plausible.input_votes import InputVotes
from tamis.selectors.plausible.neighbours import Neighbours
from tamis.selectors.plausible.selector import Plausible

__all__ = [
    "Agreements",
    "Calibration",
    "ClassBalance",
    "Confusion",
    "Fallback",
    "FirstLooks",
    "InputVotes",
    "Neighbours",
    "Plausible",
]
