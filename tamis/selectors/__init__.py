"""Selectors: rules that choose what to train on, one file for each method.

The line that imports a selector also lists it: see `SELECTORS`.
"""

from tamis.selectors.adaptive_k import AdaptiveK as AdaptiveK
from tamis.selectors.bare import BARE as BARE
from tamis.selectors.confident import Confident as Confident
from tamis.selectors.disc import DISC as DISC
from tamis.selectors.elr import ELR as ELR
from tamis.selectors.fixmatch import FixMatch as FixMatch
from tamis.selectors.ido import IDO as IDO
from tamis.selectors.incv import INCV as INCV
from tamis.selectors.itlm import ITLM as ITLM
from tamis.selectors.mentornet import MentorNet as MentorNet
from tamis.selectors.mixture import Mixture as Mixture
from tamis.selectors.naive import Naive as Naive
from tamis.selectors.o2u import O2U as O2U
from tamis.selectors.ogrs import OGRS as OGRS
from tamis.selectors.ogrs import PaperOGRS as PaperOGRS
from tamis.selectors.open_set import PCLOF as PCLOF
from tamis.selectors.oracle import Oracle as Oracle
from tamis.selectors.plausible import Plausible as Plausible
from tamis.selectors.protocol import Selector as Selector
from tamis.selectors.rho import RHO as RHO
from tamis.selectors.ssr import SSR as SSR
from tamis.selectors.topofilter import TopoFilter as TopoFilter

SELECTORS: tuple[type[Selector], ...] = tuple(
    kind
    for kind in [*globals().values()]
    if isinstance(kind, type) and hasattr(kind, "select") and kind is not Selector
)
"""Every selector that this file imports: `tamis list` prints them, the contract tests them."""

__all__ = ["SELECTORS", "Selector"] + [kind.__name__ for kind in SELECTORS]
