"""Models and runs on disk, complete or absent: written aside, synced, renamed; no pickle."""

from tamis.checkpoint.blocks import Blocks, HeldBlocks, SavedBlocks
from tamis.checkpoint.files import (
    DamagedFileError,
    make_folder,
    replacing,
    write_atomically,
    write_synced,
)
from tamis.checkpoint.generations import (
    Checkpoints,
    DamagedCheckpointWarning,
    MismatchError,
    NotSavedError,
    RefusedError,
    Restored,
)
from tamis.checkpoint.lock import locked
from tamis.checkpoint.model_file import load_model, read_model, save_model
from tamis.checkpoint.packing import State, pack_texts, unpack_texts
from tamis.checkpoint.parts import (
    check_optimizer,
    check_same_tensors,
    describe,
    get_state,
    set_state,
    tree_to_device,
)

__all__ = [
    "Blocks",
    "Checkpoints",
    "DamagedCheckpointWarning",
    "DamagedFileError",
    "HeldBlocks",
    "MismatchError",
    "NotSavedError",
    "RefusedError",
    "Restored",
    "SavedBlocks",
    "State",
    "check_optimizer",
    "check_same_tensors",
    "describe",
    "get_state",
    "load_model",
    "locked",
    "make_folder",
    "pack_texts",
    "read_model",
    "replacing",
    "save_model",
    "set_state",
    "tree_to_device",
    "unpack_texts",
    "write_atomically",
    "write_synced",
]
