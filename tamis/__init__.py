"""tamis: train neural networks online on streams whose labels are partly wrong."""

from tamis.buffers import BalancedReservoir, Buffer, Growing, Reservoir, Sliding
from tamis.checkpoint import Checkpoints
from tamis.data import Picks, Samples, Search, Slot
from tamis.model_view import Average, ModelView, Window
from tamis.monitoring import Accuracy, CollapseWarning, Monitor
from tamis.noise import Alarm, Tracker
from tamis.optim import ADMM
from tamis.selectors import ITLM, OGRS, Naive, Oracle, Plausible, Selector, pick
from tamis.sources import BadInputError, Validator
from tamis.streams import Replay
from tamis.training import DivergedError, Execution, Trainer

__version__ = "0.1.0"

__all__ = [
    "ADMM",
    "ITLM",
    "OGRS",
    "Accuracy",
    "Alarm",
    "Average",
    "BadInputError",
    "BalancedReservoir",
    "Buffer",
    "Checkpoints",
    "CollapseWarning",
    "DivergedError",
    "Execution",
    "Growing",
    "ModelView",
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
    "Validator",
    "Window",
    "pick",
]
