"""Data sets: sizes, splits, file layouts, and downloads from a server on this machine."""

from __future__ import annotations

import gzip
import hashlib
import math
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch

from tamis.streams import (
    MissingDataError,
    cifar10,
    datasets,
    digits,
    fashion_mnist,
    gaussians,
    mnist,
)
from tamis.streams import download as downloads
from tamis.streams.datasets import (
    CIFAR_FILES,
    CIFAR_FOLDER,
    IDX_FILES,
    data_folder,
    read_cifar,
    read_idx,
)

NOWHERE = "http://127.0.0.1:1"


# Made up and embedded


def test_gaussians_have_the_papers_size() -> None:
    data = gaussians()
    assert data.inputs.shape == (200, 2)
    assert data.test_inputs.shape == (100, 2)
    assert data.input_shape == (2,)
    assert torch.cat([data.labels, data.test_labels]).bincount().tolist() == [150, 150]
    assert data.labels.bincount().min() > 70  # in random order: the split cuts through both classes


def test_gaussians_have_the_papers_means_and_covariances() -> None:
    data = gaussians(samples=60_000)
    for label, centre, spread in [
        (0, (-1.0, -1.0), [[10.0, 1.0], [1.0, 3.0]]),
        (1, (1.0, 1.0), [[5.0, 1.0], [1.0, 5.0]]),
    ]:
        rows = data.inputs[data.labels == label].double()
        for column in range(2):
            error = math.sqrt(spread[column][column] / len(rows))
            assert rows[:, column].mean().item() == pytest.approx(centre[column], abs=4 * error)
        torch.testing.assert_close(
            rows.T.cov(), torch.tensor(spread).double(), rtol=0.05, atol=0.15
        )


def test_gaussians_come_from_the_seed_alone() -> None:
    assert torch.equal(gaussians().inputs, gaussians().inputs)
    assert not torch.equal(gaussians().inputs, gaussians(seed=1).inputs)


def test_digits_have_their_size_and_range() -> None:
    data = digits()
    assert data.inputs.shape == (1347, 8, 8)
    assert data.test_inputs.shape == (450, 8, 8)
    assert (data.inputs.min(), data.inputs.max()) == (0, 1)
    assert set(data.labels.tolist()) == set(data.test_labels.tolist()) == set(range(10))
    assert torch.equal(data.inputs, digits().inputs)


@pytest.mark.parametrize("load", [gaussians, digits])
def test_no_row_is_both_trained_and_tested_on(load: partial) -> None:
    data = load()
    train, test = (
        {tuple(row) for row in rows.flatten(1).tolist()} for rows in (data.inputs, data.test_inputs)
    )
    assert not train & test


def test_digits_are_those_of_scikit_learn_each_once() -> None:
    from sklearn.datasets import load_digits

    data = digits()
    pixels = torch.cat([data.inputs, data.test_inputs]).flatten(1).double() * 16
    labels = torch.cat([data.labels, data.test_labels])
    ours = sorted(zip(pixels.tolist(), labels.tolist(), strict=True))
    theirs = load_digits(return_X_y=True)
    assert ours == sorted(zip(theirs[0].tolist(), theirs[1].tolist(), strict=True))


# Files in the public layouts


def idx(array: np.ndarray) -> bytes:
    """LeCun's layout: two zeros, 8 for bytes, the number of dimensions, each size, the bytes."""
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


def idx_arrays(train: int = 6, test: int = 4) -> list[np.ndarray]:
    numbers = np.random.default_rng(0)
    return [
        numbers.integers(0, 256, (train, 28, 28), np.uint8),
        numbers.integers(0, 10, train, np.uint8),
        numbers.integers(0, 256, (test, 28, 28), np.uint8),
        numbers.integers(0, 10, test, np.uint8),
    ]


def write_idx(folder: Path, packed: bool = True) -> list[np.ndarray]:
    folder.mkdir(parents=True)
    arrays = idx_arrays()
    for name, array in zip(IDX_FILES, arrays, strict=True):
        content = idx(array)
        if packed:
            (folder / f"{name}-ubyte.gz").write_bytes(gzip.compress(content))
        else:
            (folder / f"{name}-ubyte").write_bytes(content)
    return arrays


def write_cifar(folder: Path, rows: int = 2) -> np.ndarray:
    """Six batches of rows of one label and 3 x 32 x 32 pixels, as bytes."""
    folder.mkdir(parents=True)
    numbers = np.random.default_rng(0)
    content = numbers.integers(0, 256, (len(CIFAR_FILES), rows, 3073), np.uint8)
    content[:, :, 0] %= 10
    for name, batch in zip(CIFAR_FILES, content, strict=True):
        batch.tofile(folder / name)
    return content


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "plain"])
@pytest.mark.parametrize(("load", "name"), [(mnist, "mnist"), (fashion_mnist, "fashion-mnist")])
def test_idx_files_are_read(tmp_path: Path, load: partial, name: str, packed: bool) -> None:
    images, labels, test_images, test_labels = write_idx(tmp_path / name, packed)
    data = load(tmp_path)
    np.testing.assert_allclose(data.inputs.numpy(), images / np.float32(255))
    np.testing.assert_allclose(data.test_inputs.numpy(), test_images / np.float32(255))
    assert data.labels.tolist() == labels.tolist()
    assert data.test_labels.tolist() == test_labels.tolist()
    assert data.labels.dtype == torch.int64
    assert len(data.classes) == 10


def test_cifar_files_are_read(tmp_path: Path) -> None:
    content = write_cifar(tmp_path / CIFAR_FOLDER)
    data = cifar10(tmp_path)
    assert data.inputs.shape == (10, 3, 32, 32)
    assert data.test_inputs.shape == (2, 3, 32, 32)
    assert data.labels.tolist() == content[:5, :, 0].flatten().tolist()
    assert data.test_labels.tolist() == content[5, :, 0].tolist()
    # The third row is the second batch's first; its red plane comes first, a row of pixels a time.
    red = content[1, 0, 1:1025].reshape(32, 32) / np.float32(255)
    np.testing.assert_allclose(data.inputs[2, 0].numpy(), red)


COMPLETE = idx(np.arange(6, dtype=np.uint8).reshape(2, 3))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no such thing",
        COMPLETE[:2],
        COMPLETE[:6],
        COMPLETE[:12],
        COMPLETE[:-1],
        COMPLETE + b"\0",
        b"\0\0\x0d" + COMPLETE[3:],
    ],
    ids=["empty", "text", "2 bytes", "half a size", "header", "short", "long", "floats"],
)
@pytest.mark.parametrize("packed", [True, False], ids=["packed", "plain"])
def test_bad_idx_files_are_refused_by_name(tmp_path: Path, content: bytes, packed: bool) -> None:
    path = tmp_path / ("broken.gz" if packed else "broken")
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(MissingDataError, match=f"{path} .*delete it"):
        read_idx(path)


PACKED = gzip.compress(COMPLETE * 100)


@pytest.mark.parametrize(
    "content",
    [b"no such thing", PACKED[:-9], PACKED[:10] + b"\xff" * 10 + PACKED[20:]],
    ids=["text", "truncated", "damaged"],
)
def test_bad_packed_files_are_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.gz"
    path.write_bytes(content)
    with pytest.raises(MissingDataError, match=f"{path} .*delete it"):
        read_idx(path)


@pytest.mark.parametrize("size", [0, 100, 3073 * 2 - 1])
def test_bad_cifar_files_are_refused_by_name(tmp_path: Path, size: int) -> None:
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(b"\1" * size)
    with pytest.raises(MissingDataError, match=f"{path} .*delete it"):
        read_cifar(path)


# Files that are missing


@pytest.fixture(autouse=True)
def no_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here reaches the internet, nor a proxy on the way to this machine."""
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(datasets, "MNIST_URL", NOWHERE)
    monkeypatch.setattr(datasets, "FASHION_URL", NOWHERE)
    monkeypatch.setattr(datasets, "CIFAR_URL", f"{NOWHERE}/cifar-10-binary.tar.gz")


@pytest.mark.parametrize(
    ("load", "folder", "files"),
    [
        (mnist, "mnist", [f"{name}-ubyte.gz" for name in IDX_FILES]),
        (fashion_mnist, "fashion-mnist", [f"{name}-ubyte.gz" for name in IDX_FILES]),
        (cifar10, CIFAR_FOLDER, list(CIFAR_FILES)),
    ],
)
def test_missing_files_get_one_sentence(
    tmp_path: Path, load: partial, folder: str, files: list[str]
) -> None:
    with pytest.raises(MissingDataError) as caught:
        load(tmp_path)
    message = str(caught.value)
    assert all(name in message for name in files)
    assert str(tmp_path / folder) in message
    assert NOWHERE in message
    assert "put the files there" in message
    assert "TAMIS_DATA" in message
    assert "--data-folder" in message
    assert "\n" not in message


# Downloads


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder; `stalled.gz` promises more than it sends, and then sends nothing."""

    finished = threading.Event()

    def do_GET(self) -> None:
        if not self.path.endswith("stalled.gz"):
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"a start")
        self.wfile.flush()
        self.finished.wait(10)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    """A folder that is served while the test runs, at `address(site)`."""
    folder = tmp_path / "site"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        (tmp_path / "address").write_text(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        Quiet.finished.clear()
        yield folder
        Quiet.finished.set()
        server.shutdown()
        thread.join()


def address(site: Path) -> str:
    return (site.parent / "address").read_text()


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def files_under(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def serve_mnist(site: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    write_idx(site / "mnist")
    packed = [site / "mnist" / f"{name}-ubyte.gz" for name in IDX_FILES]
    monkeypatch.setattr(datasets, "MNIST_URL", f"{address(site)}/mnist")
    monkeypatch.setattr(datasets, "MNIST_MD5", tuple(md5(path) for path in packed))
    return packed


def test_mnist_is_downloaded_once(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = serve_mnist(site, monkeypatch)
    folder = tmp_path / "data"
    data = mnist(folder)
    np.testing.assert_allclose(data.inputs.numpy(), idx_arrays()[0] / np.float32(255))
    assert files_under(folder) == sorted(path.name for path in packed)
    monkeypatch.setattr(datasets, "MNIST_URL", NOWHERE)
    assert torch.equal(mnist(folder).inputs, data.inputs)


def test_a_wrong_checksum_leaves_nothing(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = serve_mnist(site, monkeypatch)
    packed[0].write_bytes(b"not what was promised")
    with pytest.raises(MissingDataError, match=f"{packed[0].name} came with MD5 {md5(packed[0])}"):
        mnist(tmp_path / "data")
    assert files_under(tmp_path / "data") == []


def test_a_page_that_is_not_there_leaves_nothing(tmp_path: Path, site: Path) -> None:
    path = tmp_path / "data" / "absent.gz"
    with pytest.raises(MissingDataError, match=r"absent\.gz .*404"):
        downloads.download(f"{address(site)}/absent.gz", path, "", needed=[path])
    assert files_under(tmp_path / "data") == []


def test_a_download_that_breaks_off_leaves_nothing(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "TIMEOUT", 0.2)
    path = tmp_path / "data" / "stalled.gz"
    with pytest.raises(MissingDataError, match=r"stalled\.gz .*timed out"):
        downloads.download(f"{address(site)}/stalled.gz", path, "", needed=[path])
    assert files_under(tmp_path / "data") == []


def serve_cifar(site: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_cifar(site / CIFAR_FOLDER)
    (site / CIFAR_FOLDER / "readme.html").write_text("not needed")
    archive = site / "cifar-10-binary.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(site / CIFAR_FOLDER, CIFAR_FOLDER)
    monkeypatch.setattr(datasets, "CIFAR_URL", f"{address(site)}/{archive.name}")
    monkeypatch.setattr(datasets, "CIFAR_MD5", md5(archive))
    return archive


def test_cifar_is_downloaded_and_unpacked(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_cifar(site, monkeypatch)
    folder = tmp_path / "data"
    data = cifar10(folder)
    assert torch.equal(data.inputs, cifar10(site).inputs)
    assert files_under(folder / CIFAR_FOLDER) == sorted(CIFAR_FILES)
    monkeypatch.setattr(datasets, "CIFAR_URL", NOWHERE)
    assert torch.equal(cifar10(folder).labels, data.labels)


def test_a_wrong_archive_leaves_nothing(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_cifar(site, monkeypatch)
    monkeypatch.setattr(datasets, "CIFAR_MD5", "0" * 32)
    with pytest.raises(MissingDataError, match="nothing was kept"):
        cifar10(tmp_path / "data")
    assert files_under(tmp_path / "data") == []


# The data folder


def test_data_folder_is_the_argument_then_the_variable_then_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("TAMIS_DATA", raising=False)
    assert data_folder() == tmp_path / "home" / ".cache" / "tamis"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_folder() == tmp_path / "cache" / "tamis"
    monkeypatch.setenv("TAMIS_DATA", "~/sets")
    assert data_folder() == tmp_path / "home" / "sets"
    assert data_folder(tmp_path / "mine") == tmp_path / "mine"


# The real ones, where they are


def skip_without(*files: Path) -> None:
    absent = [path.name for path in files if not path.exists()]
    if absent:
        pytest.skip(f"{', '.join(absent)} not in {files[0].parent}")


def test_real_mnist() -> None:
    skip_without(*(data_folder() / "mnist" / f"{name}-ubyte.gz" for name in IDX_FILES))
    data = mnist()
    assert data.inputs.shape == (60_000, 28, 28)
    assert data.test_inputs.shape == (10_000, 28, 28)
    assert data.labels.bincount().tolist()[:2] == [5923, 6742]
    assert data.test_labels.bincount().tolist()[:2] == [980, 1135]
    assert (data.inputs.min(), data.inputs.max()) == (0, 1)


def test_real_cifar10() -> None:
    skip_without(*(data_folder() / CIFAR_FOLDER / name for name in CIFAR_FILES))
    data = cifar10()
    assert data.inputs.shape == (50_000, 3, 32, 32)
    assert data.test_inputs.shape == (10_000, 3, 32, 32)
    assert data.labels.bincount().tolist() == [5_000] * 10
    assert data.test_labels.bincount().tolist() == [1_000] * 10
    assert (data.inputs.min(), data.inputs.max()) == (0, 1)
    means = data.inputs.mean(dim=(0, 2, 3)).tolist()
    assert means == pytest.approx([0.4914, 0.4822, 0.4465], abs=1e-3)  # as papers print them
