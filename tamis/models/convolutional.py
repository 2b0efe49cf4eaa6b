"""A small convolutional network for pictures, quick enough for a CPU."""

from __future__ import annotations

from torch import nn

from tamis.models.resnet import AsImages, Block, convolution

WIDTH = 32
"""Channels after the first layer; each of two blocks doubles them and halves height and width."""


def cnn(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Return a small residual network: five layers, for pictures of 8 to 128 pixels on a CPU."""
    if len(input_shape) not in (2, 3):
        raise ValueError(f"it needs pictures, and the rows have the shape {input_shape}")
    channels = input_shape[0] if len(input_shape) == 3 else 1
    side = min(input_shape[-2:])
    stride, size = (1, 3) if side <= 16 else (2, 5) if side <= 40 else (4, 7)
    return nn.Sequential(
        AsImages(),
        *convolution(channels, WIDTH, stride, size),
        nn.ReLU(),
        Block(WIDTH, 2 * WIDTH, 2),
        Block(2 * WIDTH, 4 * WIDTH, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * WIDTH, classes),
    )
