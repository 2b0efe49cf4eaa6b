"""Methods that train two models on one stream: one file, one method, one paper."""

from tamis.training.pairs.co_teaching import CoTeaching
from tamis.training.pairs.decoupling import Decoupling
from tamis.training.pairs.divide_mix import DivideMix
from tamis.training.pairs.jocor import JoCoR

PAIRS = (Decoupling, CoTeaching, JoCoR, DivideMix)

__all__ = ["PAIRS", "CoTeaching", "Decoupling", "DivideMix", "JoCoR"]
