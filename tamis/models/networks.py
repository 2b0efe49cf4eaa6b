"""Models to start with: logistic regression, a 2-layer MLP, ResNet-18 with the small stem.

Each is a function of the shape of one input and the number of classes; so is a user's factory.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

HIDDEN = 256


def start(
    factory: Callable[[tuple[int, ...], int], nn.Module],
    input_shape: tuple[int, ...],
    classes: int,
    seed: int,
) -> nn.Module:
    """Build a model whose first weights come from a seed.

    Torch's layers draw them from its global state, which is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return factory(input_shape, classes)


def logistic(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Logistic regression: one linear layer."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(input_shape), classes))


def mlp(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Two-layer perceptron with 256 hidden units."""
    size = math.prod(input_shape)
    return nn.Sequential(
        nn.Flatten(), nn.Linear(size, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, classes)
    )


def resnet18(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """ResNet-18 with a 3x3 stem and no first pooling, for images of about 32 pixels a side."""
    channels = input_shape[0] if len(input_shape) == 3 else 1
    layers: list[nn.Module] = [AsImages(), *convolution(channels, 64, 1), nn.ReLU()]
    width = 64
    for planes, stride in [(64, 1), (128, 2), (256, 2), (512, 2)]:
        layers += [Block(width, planes, stride), Block(planes, planes, 1)]
        width = planes
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut (He et al., 2016, figure 2)."""

    def __init__(self, width: int, planes: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            *convolution(width, planes, stride), nn.ReLU(), *convolution(planes, planes, 1)
        )
        self.shortcut = nn.Sequential()
        if stride != 1 or width != planes:
            self.shortcut = nn.Sequential(*convolution(width, planes, stride, size=1))

    def forward(self, images: Tensor) -> Tensor:
        """Add what the path found to what came in."""
        return functional.relu(self.path(images) + self.shortcut(images))


class AsImages(nn.Module):
    """Give grey images without a channel dimension one."""

    def forward(self, images: Tensor) -> Tensor:
        """Return (rows, channels, height, width)."""
        return images.unsqueeze(1) if images.dim() == 3 else images


class Scale(nn.Module):
    """Bring raw columns to mean 0 and deviation 1, so that a saved model takes raw inputs.

    Those may be of any type: whole numbers and doubles become what the model works in.
    """

    def __init__(self, mean: Tensor, deviation: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("factor", 1 / torch.where(deviation > 0, deviation, 1))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return scaled inputs."""
        mean = self.get_buffer("mean")
        return (inputs.to(mean.dtype) - mean) * self.get_buffer("factor")


def convolution(width: int, planes: int, stride: int, size: int = 3) -> list[nn.Module]:
    """Convolution without bias, then batch norm."""
    return [
        nn.Conv2d(width, planes, size, stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(planes),
    ]


MODELS = (logistic, mlp, resnet18)
