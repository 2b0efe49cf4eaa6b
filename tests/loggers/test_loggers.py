"""Trackers get the numbers of the log; without their package, one sentence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tamis import Monitor, Naive, Sliding, Trainer
from tamis.folder import read_lines
from tamis.loggers import LOGGERS, NoTracker
from tamis.monitor import Accuracy

NAMES = {"loss", "agreement", "accuracy", "accuracy_ema", "purity", "coverage", "seconds"}


def run(folder: Path, logger: Any, blobs, model) -> list[dict]:
    rule = torch.optim.SGD(model.parameters(), 0.1)
    trainer = Trainer(model, rule, Naive(), Sliding(100), 8)
    trainer.intake.classes = 3
    with Monitor(folder / "log.jsonl", lambda: Accuracy(0.5, 0.6), every=5) as monitor:
        for at in range(20):
            logger.record(monitor.record(trainer.step(blobs[slice(10 * at, 10 * at + 10)])))
    logger.close()
    return read_lines(folder / "log.jsonl")


def test_tensorboard_has_what_the_log_has(tmp_path: Path, blobs, blob_model) -> None:
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    lines = run(
        tmp_path, LOGGERS["tensorboard"](tmp_path, {"k": 8, "<b>": "</script>"}), blobs, blob_model
    )
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert set(events.Tags()["scalars"]) >= NAMES
    for name in ("loss", "purity", "accuracy_ema"):
        wanted = {line["slot"]: line[name] for line in lines if line[name] is not None}
        found = {event.step: event.value for event in events.Scalars(name)}
        assert found == pytest.approx(wanted, abs=1e-6)


def test_mlflow_and_wandb_are_called_as_they_want(
    tmp_path: Path, blobs, blob_model, monkeypatch
) -> None:
    """Against stand-ins: neither is a part of the tests."""
    sent: list[tuple[str, Any]] = []
    mlflow = SimpleNamespace(
        start_run=lambda run_name: sent.append(("start", run_name)),
        log_params=lambda settings: sent.append(("settings", settings)),
        log_metrics=lambda numbers, step: sent.append(("numbers", (step, numbers))),
        end_run=lambda: sent.append(("end", None)),
    )
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    lines = run(tmp_path, LOGGERS["mlflow"](tmp_path, {"k": 8}), blobs, blob_model)
    assert sent[0] == ("start", tmp_path.name)
    assert sent[1] == ("settings", {"k": "8"})
    assert [step for kind, (step, _) in sent[2:-1]] == [line["slot"] for line in lines]
    assert sent[-1] == ("end", None)
    sent.clear()
    handle = SimpleNamespace(
        log=lambda numbers, step: sent.append(("numbers", (step, numbers))),
        finish=lambda: sent.append(("end", None)),
    )
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=lambda **settings: handle))
    run(tmp_path / "other", LOGGERS["wandb"](tmp_path, {"k": 8}), blobs, blob_model)
    assert sent[0][1][1].keys() >= NAMES - {"accuracy", "accuracy_ema"}
    assert sent[4][1][1].keys() >= NAMES
    assert len(sent) == 21


@pytest.mark.parametrize("name", LOGGERS)
def test_without_its_package_there_is_one_sentence(name: str, tmp_path: Path, monkeypatch) -> None:
    for module in ("tensorboard", "torch.utils.tensorboard", "mlflow", "wandb"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(NoTracker, match="is missing: pip install"):
        LOGGERS[name](tmp_path, {})


def test_nothing_of_them_is_imported_before_it_is_asked_for() -> None:
    program = (
        "import sys\nimport tamis.loggers\n"
        "print([name for name in ('tensorboard', 'mlflow', 'wandb') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
