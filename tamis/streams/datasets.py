"""Public data sets, as tensors: embedded, made up, or read from a data folder.

The data folder is a setting: the argument `folder`, else the variable TAMIS_DATA, else the user's
cache. Files that are missing there are downloaded where the internet can be reached.
"""

from __future__ import annotations

import gzip
import os
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tamis.streams.download import MissingDataError, download, unpack_tar

IDX_FILES = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist"
MNIST_MD5 = (
    "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "d53e105ee54ea40749a09fcbcd1e9432",
    "9fb629c4189551a2d022fa330f9573f3",
    "ec29112dd5afa0611ce80d1b7f02629c",
)
FASHION_URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
FASHION_MD5 = (
    "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "25c81989df183df01b3e8a0aad5dffbe",
    "bef4ecab320f06d8554ea6380940ec79",
    "bb300cfdad3c16e7a12a480ee83cd310",
)
FASHION_CLASSES = (
    "T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot",
)  # fmt: skip
CIFAR_URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
CIFAR_MD5 = "c32a1d4ab5d03f1284b67883e8d87530"
CIFAR_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
CIFAR_FOLDER = "cifar-10-batches-bin"
CIFAR_FILES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")
DIGIT_NAMES = tuple("0123456789")


@dataclass(frozen=True)
class DataSet:
    """Inputs and right labels to train on and, apart from them, to test on."""

    inputs: Tensor
    labels: Tensor
    test_inputs: Tensor
    test_labels: Tensor
    classes: tuple[str, ...]

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.inputs.shape[1:])


def gaussians(folder: Path | None = None, samples: int = 300, seed: int = 0) -> DataSet:
    """Two overlapping Gaussians in the plane, 200 samples to train on: the paper's section 6.1."""
    generator = torch.Generator().manual_seed(seed)
    labels = (torch.arange(samples) < samples // 2).long()[
        torch.randperm(samples, generator=generator)
    ]
    centre = torch.tensor([[-1.0, -1.0], [1.0, 1.0]])
    spread = torch.linalg.cholesky(
        torch.tensor([[[10.0, 1.0], [1.0, 3.0]], [[5.0, 1.0], [1.0, 5.0]]])
    )
    noise = torch.randn(samples, 2, 1, generator=generator)
    inputs = centre[labels] + (spread[labels] @ noise)[:, :, 0]
    train = 2 * samples // 3
    return DataSet(inputs[:train], labels[:train], inputs[train:], labels[train:], ("0", "1"))


def digits(folder: Path | None = None) -> DataSet:
    """Handwritten digits of 8 x 8 pixels that come with scikit-learn, 1,347 to train on."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise MissingDataError(
            "The digits come with scikit-learn: pip install 'tamis[demo]'."
        ) from None
    pixels, numbers = load_digits(return_X_y=True)
    inputs = torch.from_numpy(pixels).float().reshape(-1, 8, 8) / 16
    labels = torch.from_numpy(numbers).long()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    inputs, labels = inputs[order], labels[order]
    return DataSet(inputs[:1347], labels[:1347], inputs[1347:], labels[1347:], DIGIT_NAMES)


def mnist(folder: Path | None = None) -> DataSet:
    """Handwritten digits of 28 x 28 pixels, 60,000 to train on."""
    return idx_data_set(data_folder(folder) / "mnist", MNIST_URL, MNIST_MD5, DIGIT_NAMES)


def fashion_mnist(folder: Path | None = None) -> DataSet:
    """Clothes in the format of MNIST, 60,000 to train on."""
    where = data_folder(folder) / "fashion-mnist"
    return idx_data_set(where, FASHION_URL, FASHION_MD5, FASHION_CLASSES)


def cifar10(folder: Path | None = None) -> DataSet:
    """Colour images of 32 x 32 pixels in ten classes, 50,000 to train on."""
    where = data_folder(folder)
    batches = [where / CIFAR_FOLDER / name for name in CIFAR_FILES]
    if not all(batch.exists() for batch in batches):
        archive = where / "cifar-10-binary.tar.gz"
        download(CIFAR_URL, archive, CIFAR_MD5, needed=batches)
        unpack_tar(archive, where, members=[f"{CIFAR_FOLDER}/{name}" for name in CIFAR_FILES])
    rows = [read_cifar(batch) for batch in batches]
    inputs, labels = (torch.cat(part) for part in zip(*rows[:-1], strict=True))
    return DataSet(inputs, labels, *rows[-1], CIFAR_CLASSES)


DATA_SETS = (gaussians, digits, mnist, fashion_mnist, cifar10)


def data_folder(folder: Path | None = None) -> Path:
    """Return the folder of data sets: the argument, else TAMIS_DATA, else the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder or os.environ.get("TAMIS_DATA") or Path(cache) / "tamis").expanduser()


def idx_data_set(
    folder: Path, url: str, checksums: tuple[str, ...], classes: tuple[str, ...]
) -> DataSet:
    """Return a data set in MNIST's four files, packed or not; download those that are missing."""
    packed = [folder / f"{name}-ubyte.gz" for name in IDX_FILES]
    missing = [path for path in packed if not path.exists() and not path.with_suffix("").exists()]
    for path, checksum in zip(packed, checksums, strict=True):
        if path in missing:
            download(f"{url}/{path.name}", path, checksum, needed=missing)
    images, labels, test_images, test_labels = (
        read_idx(path if path.exists() else path.with_suffix("")) for path in packed
    )
    return DataSet(
        images.float() / 255, labels.long(), test_images.float() / 255, test_labels.long(), classes
    )


def read_idx(path: Path) -> Tensor:
    """Return the array of a file in the IDX format (layout: LeCun's page of MNIST)."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise MissingDataError(
            f"{path} cannot be read ({error}); delete it and try again."
        ) from None
    dimensions = content[3] if len(content) > 3 else 0
    header = 4 + 4 * dimensions
    complete = content[:3] == b"\0\0\x08" and len(content) >= header
    shape = np.frombuffer(content[4:header], ">u4").astype(int) if complete else np.zeros(0, int)
    if not complete or len(content) != header + int(np.prod(shape)):
        raise MissingDataError(
            f"{path} is not a complete IDX file of bytes; delete it and try again."
        )
    return torch.from_numpy(np.frombuffer(content, np.uint8, offset=header).reshape(shape).copy())


def read_cifar(path: Path) -> tuple[Tensor, Tensor]:
    """Return the rows of CIFAR-10's binary version: 1 label byte and 3,072 pixel bytes each."""
    content = np.fromfile(path, np.uint8)
    if not len(content) or len(content) % 3073:
        raise MissingDataError(f"{path} is not a complete CIFAR-10 batch; delete it and try again.")
    rows = torch.from_numpy(content).reshape(-1, 3073)
    return rows[:, 1:].reshape(-1, 3, 32, 32).float() / 255, rows[:, 0].long()
