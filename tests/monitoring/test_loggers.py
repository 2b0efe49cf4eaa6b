"""Trackers get the numbers of the log; without their package, one sentence."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tamis import Monitor, Naive, Sliding, Trainer
from tamis.monitoring import LOGGERS, Accuracy, NoTrackerError
from tamis.monitoring.to_mlflow import DEFAULTS
from tamis.runs import read_lines
from tests.support.wait import END, wait_until

NAMES = {"loss", "agreement", "accuracy", "accuracy_ema", "purity", "coverage", "seconds"}


def run(folder: Path, logger: Any, blobs, model) -> list[dict]:
    rule = torch.optim.SGD(model.parameters(), 0.1)
    trainer = Trainer(model, rule, Naive(), Sliding(100), k=8)
    trainer.validator.classes = 3
    with Monitor(folder / "log.jsonl", lambda: Accuracy(0.5, 0.6), every=5) as monitor:
        for at in range(20):
            logger.update(monitor.update(trainer.step(blobs[slice(10 * at, 10 * at + 10)])))
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


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every address that is not on this machine."""
    connect = socket.socket.connect

    def refuse(self: socket.socket, address: Any) -> None:
        assert isinstance(address, str | bytes) or address[0] in ("127.0.0.1", "::1"), address
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the machine's settings of trackers, and let them send nothing."""
    for name in list(os.environ):
        if name.startswith(("MLFLOW_", "WANDB_")):
            monkeypatch.delenv(name)
    for name in DEFAULTS:
        monkeypatch.setenv(name, "true")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    for name in ("WANDB__SERVICE_WAIT", "WANDB_INIT_TIMEOUT"):
        monkeypatch.setenv(name, f"{END:.0f}")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")


@pytest.mark.usefixtures("no_network", "no_settings")
@pytest.mark.filterwarnings("default")  # of the library's own
def test_mlflow_has_what_the_log_has(tmp_path: Path, blobs, blob_model, monkeypatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed")
    monkeypatch.setattr(mlflow, "is_tracking_uri_set", lambda: False)  # other tests may have
    settings = {"k": 8, "long": "x" * 1000}
    lines = run(tmp_path, LOGGERS["mlflow"](tmp_path, settings), blobs, blob_model)
    assert (tmp_path / "mlruns").is_dir()
    client = mlflow.MlflowClient((tmp_path / "mlruns").as_uri())
    (found,) = client.search_runs(["0"])
    assert found.info.run_name == tmp_path.name
    assert found.info.status == "FINISHED"
    assert found.data.params["k"] == "8"
    assert set(found.data.metrics) >= NAMES
    for name in ("loss", "purity", "accuracy_ema"):
        wanted = {line["slot"]: line[name] for line in lines if line[name] is not None}
        history = client.get_metric_history(found.info.run_id, name)
        assert {point.step: point.value for point in history} == pytest.approx(wanted)


@pytest.mark.usefixtures("no_network", "no_settings")
@pytest.mark.filterwarnings("default")
def test_mlflow_goes_where_its_own_settings_point(tmp_path: Path, blobs, blob_model) -> None:
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed")
    mlflow.set_tracking_uri((tmp_path / "elsewhere").as_uri())
    run(tmp_path / "run", LOGGERS["mlflow"](tmp_path / "run", {}), blobs, blob_model)
    assert (tmp_path / "elsewhere").is_dir()
    assert not (tmp_path / "run" / "mlruns").exists()


@pytest.mark.usefixtures("no_network", "no_settings")
@pytest.mark.filterwarnings("default")
def test_wandb_has_what_the_log_has(tmp_path: Path, blobs, blob_model) -> None:
    pytest.importorskip("wandb", reason="Weights & Biases is not installed")
    logger = LOGGERS["wandb"](tmp_path, {"k": 8})
    sent: dict[int, dict[str, float]] = {}
    log = logger._run.log

    def note(numbers: dict[str, float], step: int) -> None:
        sent[step] = numbers
        log(numbers, step=step)

    logger._run.log = note
    lines = run(tmp_path, logger, blobs, blob_model)
    assert list(sent) == [line["slot"] for line in lines]
    assert sent[4].keys() >= NAMES
    (kept,) = (tmp_path / "wandb").glob("offline-run-*/run-*.wandb")

    def written() -> bool:  # by a process of W&B's own, which may still be at it
        content = kept.read_bytes()
        return all(name.encode() in content for name in NAMES) and content.count(b"_ema") >= 4

    wait_until(written, what="a complete file of W&B")


@pytest.mark.parametrize("name", LOGGERS)
def test_without_its_package_there_is_one_sentence(name: str, tmp_path: Path, monkeypatch) -> None:
    for module in ("tensorboard", "torch.utils.tensorboard", "mlflow", "wandb"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(NoTrackerError, match=rf"is missing: pip install 'tamis\[{name}\]'"):
        LOGGERS[name](tmp_path, {})


def test_nothing_of_them_is_imported_before_it_is_needed() -> None:
    program = (
        "import sys\nimport tamis.monitoring\n"
        "print([name for name in ('tensorboard', 'mlflow', 'wandb') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
