"""Models to start with; each is a function of the shape of one input and the number of classes."""

from tamis.models.convolutional import cnn
from tamis.models.logistic_regression import logistic
from tamis.models.perceptron import mlp
from tamis.models.resnet import resnet18
from tamis.models.scale import Scale
from tamis.models.seeding import start

MODELS = (logistic, mlp, cnn, resnet18)

__all__ = ["MODELS", "Scale", "cnn", "logistic", "mlp", "resnet18", "start"]
