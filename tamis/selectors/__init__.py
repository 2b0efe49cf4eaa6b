"""Selectors: rules that choose what to train on, one file for each method."""

from tamis.selectors.adaptive_k import AdaptiveK
from tamis.selectors.bare import BARE
from tamis.selectors.confident import Confident
from tamis.selectors.elr import ELR
from tamis.selectors.incv import INCV
from tamis.selectors.itlm import ITLM
from tamis.selectors.mentornet import MentorNet
from tamis.selectors.mixture import Mixture
from tamis.selectors.naive import Naive
from tamis.selectors.o2u import O2U
from tamis.selectors.ogrs import OGRS, PaperOGRS
from tamis.selectors.open_set import PCLOF
from tamis.selectors.oracle import Oracle
from tamis.selectors.plausible import Plausible
from tamis.selectors.protocol import Selector
from tamis.selectors.rho import RHO
from tamis.selectors.topofilter import TopoFilter

SELECTORS = (
    Plausible,
    Naive,
    Oracle,
    ITLM,
    OGRS,
    PaperOGRS,
    BARE,
    Mixture,
    AdaptiveK,
    MentorNet,
    O2U,
    RHO,
    INCV,
    TopoFilter,
    PCLOF,
    Confident,
    ELR,
)

__all__ = [
    "BARE",
    "ELR",
    "INCV",
    "ITLM",
    "O2U",
    "OGRS",
    "PCLOF",
    "RHO",
    "SELECTORS",
    "AdaptiveK",
    "Confident",
    "MentorNet",
    "Mixture",
    "Naive",
    "Oracle",
    "PaperOGRS",
    "Plausible",
    "Selector",
    "TopoFilter",
]
