"""Losses of one number a row: a trainer weighs rows, so it must see them one by one."""

from tamis.losses.adaptation import NoiseAdaptation
from tamis.losses.confusion import RunningConfusion, even_confusion
from tamis.losses.corrected import Backward, Forward, unbiased
from tamis.losses.entropy import cross_entropy
from tamis.losses.generalised import GCE
from tamis.losses.imprecise import ILL
from tamis.losses.mae import MAE
from tamis.losses.ramp import Ramp
from tamis.losses.smoothing import LabelSmoothing
from tamis.losses.symmetric import SCE
from tamis.losses.targets import Criterion

LOSSES = (
    cross_entropy, MAE, Ramp, GCE, SCE, LabelSmoothing, Forward, Backward, NoiseAdaptation, ILL,
)  # fmt: skip
"""A function is a criterion as it stands. A class makes one, with no arguments but for
NoiseAdaptation and ILL, which must know how many classes there are before an optimiser is built."""

__all__ = [
    "GCE",
    "ILL",
    "LOSSES",
    "MAE",
    "SCE",
    "Backward",
    "Criterion",
    "Forward",
    "LabelSmoothing",
    "NoiseAdaptation",
    "Ramp",
    "RunningConfusion",
    "cross_entropy",
    "even_confusion",
    "unbiased",
]
