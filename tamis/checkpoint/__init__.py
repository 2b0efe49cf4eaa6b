"""Models and whole runs saved whole or not at all: written beside, synced, renamed; no pickle."""

from tamis.checkpoint.files import DamagedFileError, write_atomically
from tamis.checkpoint.generations import (
    Checkpoints,
    DamagedCheckpointWarning,
    MismatchError,
    NotSavedError,
    RefusedError,
    Restored,
)
from tamis.checkpoint.model_file import load_model, save_model
from tamis.checkpoint.packing import State
from tamis.checkpoint.parts import check_alike, check_optimizer, describe, give, send_all, take

__all__ = [
    "Checkpoints",
    "DamagedCheckpointWarning",
    "DamagedFileError",
    "MismatchError",
    "NotSavedError",
    "RefusedError",
    "Restored",
    "State",
    "check_alike",
    "check_optimizer",
    "describe",
    "give",
    "load_model",
    "save_model",
    "send_all",
    "take",
    "write_atomically",
]
