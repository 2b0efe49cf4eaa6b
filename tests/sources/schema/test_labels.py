"""Labels that are not classes are one sentence, whatever they are written as and come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tamis.cli.main import main
from tamis.sources import BadInputError, Validator, open_table
from tamis.sources.schema.labels import check_classes

rng = np.random.default_rng(0)


def check(labels: Iterable[Any]) -> None:
    counts = Counter(map(str, labels))
    check_classes("t.csv", "y", counts, counts.total())


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        (["a"] * 9, "one class only"),
        (rng.normal(size=400).round(2), "distinct numbers .* a number to predict"),
        ([f"{n / 10:.1f}".replace(".", ",") for n in range(200)] * 3, "a number to predict"),
        (rng.integers(0, 10**6, 1000) // 700 * 700, "distinct numbers"),
        (range(0, 3000, 3), "a number to predict"),
        ([f"id-{n}" for n in range(300)], "distinct values in 300 rows"),
        ("abcdefghijkl", "distinct values in 12 rows"),
        ([f"2024-01-{n % 30:02d} {n}" for n in range(60)], "distinct values"),
    ],
)
def test_labels_that_are_no_classes(labels: Iterable[Any], why: str) -> None:
    with pytest.raises(BadInputError, match=why):
        check(labels)


@pytest.mark.parametrize(
    "labels",
    [
        "aabbc",
        "abc",
        [n % 5 / 2 for n in range(30)],  # ratings
        list(range(300)) * 4,  # numbers of classes
        [1000 * (n % 60) for n in range(1200)],  # numbers with gaps, each often
        [f"id-{n % 100}" for n in range(300)],
    ],
)
def test_labels_that_are_classes(labels: Iterable[Any]) -> None:
    check(labels)


def as_csv(path: Path, x: list[float], y: list[int]) -> Any:
    path = path / "t.csv"
    path.write_text("\n".join(["x,y", *(f"{a},{b}" for a, b in zip(x, y, strict=True))]))
    return path


def as_parquet(path: Path, x: list[float], y: list[int]) -> Any:
    parquet.write_table(pa.table({"x": x, "y": y}), path / "t.parquet")
    return path / "t.parquet"


def as_npz(path: Path, x: list[float], y: list[int]) -> Any:
    np.savez(path / "t.npz", x=np.array(x)[:, None], y=np.array(y))
    return path / "t.npz"


def as_frame(path: Path, x: list[float], y: list[int]) -> Any:
    return {"x": x, "y": y}


@pytest.mark.parametrize("made", [as_csv, as_parquet, as_npz, as_frame])
def test_every_way_in_checks_and_a_user_can_insist(
    tmp_path: Path, made: Callable[[Path, list[float], list[int]], Any]
) -> None:
    x, y = rng.normal(size=200).tolist(), (7 * rng.permutation(200)).tolist()
    table = made(tmp_path, x, y)
    with pytest.raises(BadInputError, match="200 distinct numbers in 200 rows"):
        open_table(table, "y", Validator())
    assert len(open_table(table, "y", Validator(), kinds={"y": "category"}).classes) == 200


def test_a_stream_needs_two_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.jsonl").write_text('{"x": 1, "y": "a"}\n')
    command = ["stream", str(tmp_path / "t.jsonl"), "--label", "y", "--classes", "a"]
    assert main([*command, "--out", str(tmp_path / "run")]) == 2
    assert "--classes names one class only" in capsys.readouterr().err
