"""The model as selectors see it: window, average, losses, features, gradients."""

from tamis.model_view.memory import Average, Window
from tamis.model_view.view import ModelView

__all__ = ["Average", "ModelView", "Window"]
