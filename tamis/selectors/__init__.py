"""Ways to choose what to train on: one file, one method, one paper."""

from tamis.selectors.itlm import ITLM
from tamis.selectors.naive import Naive
from tamis.selectors.ogrs import OGRS
from tamis.selectors.oracle import Oracle
from tamis.selectors.pick import pick
from tamis.selectors.protocol import Selector

SELECTORS = (Naive, Oracle, ITLM, OGRS)

__all__ = ["ITLM", "OGRS", "SELECTORS", "Naive", "Oracle", "Selector", "pick"]
