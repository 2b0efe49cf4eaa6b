"""tamis: train neural networks online on streams whose labels are partly wrong."""

from tamis.admm import ADMM
from tamis.buffers import BalancedReservoir, Buffer, Growing, Reservoir, Sliding
from tamis.checkpoint import Checkpoints
from tamis.data import Picks, Samples, Search, Slot
from tamis.drift import Alarm
from tamis.local import Average, LocalModel, Window
from tamis.monitor import Accuracy, CollapseWarning, Monitor
from tamis.noise_rate import Tracker
from tamis.selectors import ITLM, OGRS, Naive, Oracle, Plausible, Selector, pick
from tamis.streams import BadInput, Intake, Replay
from tamis.trainer import Diverged, Trainer

__version__ = "0.1.0"

__all__ = [
    "ADMM",
    "ITLM",
    "OGRS",
    "Accuracy",
    "Alarm",
    "Average",
    "BadInput",
    "BalancedReservoir",
    "Buffer",
    "Checkpoints",
    "CollapseWarning",
    "Diverged",
    "Growing",
    "Intake",
    "LocalModel",
    "Monitor",
    "Naive",
    "Oracle",
    "Picks",
    "Plausible",
    "Replay",
    "Reservoir",
    "Samples",
    "Search",
    "Selector",
    "Sliding",
    "Slot",
    "Tracker",
    "Trainer",
    "Window",
    "pick",
]
