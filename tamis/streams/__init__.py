"""Simulated streams: data sets played back with label noise that drifts."""

from tamis.streams.datasets import (
    DATA_SETS,
    DataSet,
    cifar10,
    digits,
    fashion_mnist,
    gaussians,
    mnist,
)
from tamis.streams.download import MissingDataError
from tamis.streams.ground_truth import GroundTruth
from tamis.streams.noise import (
    NOISES,
    Confusion,
    InstanceDependent,
    Noise,
    OpenSet,
    PairFlip,
    Redrawn,
    Symmetric,
)
from tamis.streams.replay import Replay
from tamis.streams.schedules import SCHEDULES, Burst, Constant, Ramp, Schedule, Steps, Wave

__all__ = [
    "DATA_SETS",
    "NOISES",
    "SCHEDULES",
    "Burst",
    "Confusion",
    "Constant",
    "DataSet",
    "GroundTruth",
    "InstanceDependent",
    "MissingDataError",
    "Noise",
    "OpenSet",
    "PairFlip",
    "Ramp",
    "Redrawn",
    "Replay",
    "Schedule",
    "Steps",
    "Symmetric",
    "Wave",
    "cifar10",
    "digits",
    "fashion_mnist",
    "gaussians",
    "mnist",
]
