"""Prediction with what was trained: from a run's folder or a model's file, and for other tools."""

from tamis.prediction.export import ModelExportError
from tamis.prediction.loading import load
from tamis.prediction.predictor import PredictedRows, Predictor
from tamis.prediction.rebuilding import ModelFileError

__all__ = ["ModelExportError", "ModelFileError", "PredictedRows", "Predictor", "load"]
