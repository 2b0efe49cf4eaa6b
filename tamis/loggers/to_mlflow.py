"""MLflow: a run where its own settings say (MLFLOW_TRACKING_URI), else in the working folder."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from tamis.loggers.numbers import NoTracker, numbers_of
from tamis.monitor import Line

LONGEST = 500
"""Characters of a setting that MLflow takes."""


class ToMLflow:
    """Begins a run named after the folder, and ends it."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        try:
            mlflow = import_module("mlflow")
        except ImportError:
            raise NoTracker("MLflow is missing: pip install mlflow-skinny.") from None
        self._mlflow = mlflow
        mlflow.start_run(run_name=folder.resolve().name)
        mlflow.log_params({name: str(value)[:LONGEST] for name, value in settings.items()})

    def record(self, line: Line) -> None:
        """Send the numbers of a slot."""
        self._mlflow.log_metrics(numbers_of(line), step=line.slot.number)

    def close(self) -> None:
        """End the run."""
        self._mlflow.end_run()
