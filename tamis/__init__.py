"""tamis: train neural networks online on streams whose labels are partly wrong.

Names are imported when they are first used, so that `import tamis` does not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same as in `_MODULES`, for type checkers and editors
    from tamis.buffers import BalancedReservoir, Buffer, Growing, Reservoir, Sliding
    from tamis.checkpoint import Checkpoints
    from tamis.data import Picks, Samples, Search, Slot
    from tamis.errors import TamisError
    from tamis.integrations import Sieve, find_suspects
    from tamis.model_view import Average, ModelView, Window
    from tamis.monitoring import Accuracy, CollapseWarning, Monitor
    from tamis.noise import Alarm, Tracker
    from tamis.optim import ADMM
    from tamis.prediction import Predictor, load
    from tamis.selectors import ITLM, OGRS, Naive, Oracle, Plausible, Selector
    from tamis.sources import BadInputError, Validator
    from tamis.streams import Replay
    from tamis.training import DivergedError, Execution, Trainer, TrainingRun

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
    "Predictor",
    "Replay",
    "Reservoir",
    "Samples",
    "Search",
    "Selector",
    "Sieve",
    "Sliding",
    "Slot",
    "TamisError",
    "Tracker",
    "Trainer",
    "TrainingRun",
    "Validator",
    "Window",
    "find_suspects",
    "load",
]

_MODULES = {
    "tamis.buffers": ("BalancedReservoir", "Buffer", "Growing", "Reservoir", "Sliding"),
    "tamis.checkpoint": ("Checkpoints",),
    "tamis.data": ("Picks", "Samples", "Search", "Slot"),
    "tamis.errors": ("TamisError",),
    "tamis.integrations": ("Sieve", "find_suspects"),
    "tamis.model_view": ("Average", "ModelView", "Window"),
    "tamis.monitoring": ("Accuracy", "CollapseWarning", "Monitor"),
    "tamis.noise": ("Alarm", "Tracker"),
    "tamis.optim": ("ADMM",),
    "tamis.prediction": ("Predictor", "load"),
    "tamis.selectors": ("ITLM", "OGRS", "Naive", "Oracle", "Plausible", "Selector"),
    "tamis.sources": ("BadInputError", "Validator"),
    "tamis.streams": ("Replay",),
    "tamis.training": ("DivergedError", "Execution", "Trainer", "TrainingRun"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            globals()[name] = getattr(import_module(module), name)
            return globals()[name]
    raise AttributeError(f"module 'tamis' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
