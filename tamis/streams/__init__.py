"""Where samples come from: data sets played back with noise that drifts, and files."""

from tamis.streams.datasets import (
    DATA_SETS,
    DataSet,
    cifar10,
    digits,
    fashion_mnist,
    gaussians,
    mnist,
)
from tamis.streams.download import Missing
from tamis.streams.files import Table, open_table
from tamis.streams.intake import BadInput, Intake, OnBad
from tamis.streams.ledger import Ledger
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
    "BadInput",
    "Burst",
    "Confusion",
    "Constant",
    "DataSet",
    "InstanceDependent",
    "Intake",
    "Ledger",
    "Missing",
    "Noise",
    "OnBad",
    "OpenSet",
    "PairFlip",
    "Ramp",
    "Redrawn",
    "Replay",
    "Schedule",
    "Steps",
    "Symmetric",
    "Table",
    "Wave",
    "cifar10",
    "digits",
    "fashion_mnist",
    "gaussians",
    "mnist",
    "open_table",
]
