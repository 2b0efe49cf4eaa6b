"""Parts are described by public names, so that moving a file breaks no checkpoint."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FunctionType, ModuleType

import pytest
import torch

from tamis import Naive, Sliding, Trainer
from tamis.checkpoint import Checkpoints, MismatchError, describe
from tamis.losses import LOSSES, cross_entropy
from tamis.models import MODELS, logistic, start


def test_functions_have_their_public_name() -> None:
    assert describe(cross_entropy) == "tamis.losses.cross_entropy"
    for room, parts in (("losses", LOSSES), ("models", MODELS)):
        for part in parts:
            if not isinstance(part, type):
                assert describe(part) == f"tamis.{room}.{part.__name__}"


def test_what_no_package_exports_has_its_path() -> None:
    assert describe(of_a_user) == f"{__name__}.of_a_user"


def of_a_user() -> None:
    """Stands for a function of a user."""


def criterion_in(file: str, name: str, monkeypatch: pytest.MonkeyPatch) -> FunctionType:
    """Return a loss that lies in a file of a package, which exports it."""
    code = "def loss(logits, labels):\n    return cross_entropy(logits, labels)\n"
    scope = {"cross_entropy": cross_entropy, "__name__": f"mine.{file}"}
    exec(code.replace("def loss", f"def {name}"), scope)  # noqa: S102
    package = ModuleType("mine")
    setattr(package, name, scope[name])
    monkeypatch.setitem(sys.modules, "mine", package)
    return scope[name]


def test_a_run_goes_on_though_a_file_was_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(file: str, name: str) -> Trainer:
        model = start(logistic, (2,), 3, 0)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        loss = criterion_in(file, name, monkeypatch)
        return Trainer(model, optimizer, Naive(), Sliding(9), k=4, criterion=loss)

    trainer = make("old", "loss")
    trainer.step((torch.randn(4, 2), torch.tensor([0, 1, 2, 0])))
    Checkpoints(tmp_path).save(trainer)
    moved = make("new", "loss")
    assert Checkpoints(tmp_path).load(moved).slot == 1
    with pytest.raises(MismatchError, match=r"criterion was 'mine.loss' and is 'mine.other'"):
        Checkpoints(tmp_path).load(make("new", "other"))
