"""The model as selectors see it: window, average, losses, features, gradients."""

from tamis.model_view.view import Average, ModelView, Window

__all__ = ["Average", "ModelView", "Window"]
