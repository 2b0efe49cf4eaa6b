"""MLflow: a run at MLFLOW_TRACKING_URI, else in the run's folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from time import time
from typing import Any

from tamis.monitoring.numbers import NoTrackerError, numbers_of
from tamis.monitoring.record import SlotRecord

LONGEST = 500
"""Characters of a setting that MLflow takes."""
AT_ONCE = 500
"""Numbers sent at once; MLflow takes 1,000."""
SECONDS = 5.0
"""Longest time that numbers wait to be sent with others."""
DEFAULTS = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_ALLOW_FILE_STORE": "true"}
"""Defaults: no telemetry, and a folder is enough as a store."""


class ToMLflow:
    """Begins a run named after the folder, and ends it.

    Without MLFLOW_TRACKING_URI it is kept in FOLDER/mlruns.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        for name, value in DEFAULTS.items():
            os.environ.setdefault(name, value)
        try:
            self._mlflow = import_module("mlflow")
        except ImportError:
            raise NoTrackerError("MLflow is missing: pip install 'tamis[mlflow]'.") from None
        if not self._mlflow.is_tracking_uri_set():
            self._mlflow.set_tracking_uri((folder.resolve() / "mlruns").as_uri())
        run = self._mlflow.start_run(run_name=folder.resolve().name)
        self._id = run.info.run_id
        self._client = self._mlflow.MlflowClient()
        self._mlflow.log_params({name: str(value)[:LONGEST] for name, value in settings.items()})
        self._waiting: list[Any] = []
        self._sent = time()

    def update(self, record: SlotRecord) -> None:
        """Send the numbers of a slot, together with those of a few more."""
        now, make = time(), self._mlflow.entities.Metric
        self._waiting += [
            make(name, value, int(1000 * now), record.slot)
            for name, value in numbers_of(record).items()
        ]
        if len(self._waiting) >= AT_ONCE or now - self._sent > SECONDS:
            self._send()

    def close(self) -> None:
        """Send what is left, and end the run."""
        self._send()
        self._mlflow.end_run()

    def _send(self) -> None:
        waiting, self._waiting, self._sent = self._waiting, [], time()
        self._client.log_batch(self._id, metrics=waiting)
