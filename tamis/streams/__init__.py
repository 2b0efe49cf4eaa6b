"""Simulated streams: data sets played back with label noise that drifts."""

from tamis.streams.annotators import Crowd, CrowdStream
from tamis.streams.blurry import BlurryTasks
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
from tamis.streams.late import LateLabels
from tamis.streams.noise import (
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
from tamis.streams.structured_noise import AnnotatorTurns, Boundary, ClassLocal

NOISES = (
    Symmetric,
    Redrawn,
    PairFlip,
    Confusion,
    InstanceDependent,
    OpenSet,
    Boundary,
    ClassLocal,
    AnnotatorTurns,
)

__all__ = [
    "DATA_SETS",
    "NOISES",
    "SCHEDULES",
    "AnnotatorTurns",
    "BlurryTasks",
    "Boundary",
    "Burst",
    "ClassLocal",
    "Confusion",
    "Constant",
    "Crowd",
    "CrowdStream",
    "DataSet",
    "GroundTruth",
    "InstanceDependent",
    "LateLabels",
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
