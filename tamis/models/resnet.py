"""ResNet-18 with the small stem: He, Zhang, Ren and Sun, CVPR 2016."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


def resnet18(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Return a ResNet-18 with a 3x3 stem and no first pooling, for images of about 32 pixels."""
    if len(input_shape) not in (2, 3):
        raise ValueError(f"it needs images, and the rows have the shape {input_shape}")
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
        """Return the path's output plus the shortcut's."""
        return functional.relu(self.path(images) + self.shortcut(images))


class AsImages(nn.Module):
    """Adds a channel dimension to grey images that have none."""

    def forward(self, images: Tensor) -> Tensor:
        """Return (rows, channels, height, width)."""
        return images.unsqueeze(1) if images.dim() == 3 else images


def convolution(width: int, planes: int, stride: int, size: int = 3) -> list[nn.Module]:
    """Return a convolution without bias, then batch norm."""
    return [
        nn.Conv2d(width, planes, size, stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(planes),
    ]
