"""Models to start with; each is a function of the shape of one input and the number of classes."""

from tamis.models.networks import MODELS, Scale, logistic, mlp, resnet18, start

__all__ = ["MODELS", "Scale", "logistic", "mlp", "resnet18", "start"]
