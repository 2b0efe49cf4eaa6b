"""tamis train, stopped in every way, goes on as if it had not been."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tamis.cli.main import main
from tamis.runs import RunMetadata, read_metadata

SLOTS = 120


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    """Points of three classes, a third of the labels wrong, some rows that cannot be read."""
    path = tmp_path_factory.mktemp("table") / "points.csv"
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (900,), generator=generator)
    points = 3 * torch.eye(3)[labels] + torch.randn(900, 3, generator=generator)
    given = torch.where(torch.rand(900, generator=generator) < 0.3, (labels + 1) % 3, labels)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "c", "kind"])
        for number, (point, label) in enumerate(zip(points.tolist(), given.tolist(), strict=True)):
            writer.writerow([*("nan" if number % 50 == 9 else x for x in point), label])
            if number % 70 == 3:
                writer.writerow(["1"])
    return path


def command(table: Path, out: Path, *more: str) -> list[str]:
    few = ["--rows-per-slot", "10", "--slots", str(SLOTS), "--capacity", "300", "--k", "8"]
    return ["train", str(table), "--label", "kind", "--out", str(out), *few, *more]


@pytest.fixture(scope="module")
def unbroken(table: Path, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("unbroken")
    torch.set_num_threads(1)
    assert main(command(table, out)) == 0
    return out


def read_log(out: Path) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [{key: line[key] for key in line if "seconds" not in key} for line in lines]


SAME = (
    "model.safetensors", "suspects.csv", "rejects.jsonl",
    "tracked.jsonl", "suspects.jsonl", "neighbours.jsonl",
)  # fmt: skip


def assert_same(one: Path, other: Path) -> None:
    for name in SAME:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    assert read_log(one) == read_log(other)
    assert without_time(one) == without_time(other)


def without_time(out: Path) -> RunMetadata:
    return replace(read_metadata(out), started="", slots=None)


def test_more_slots_are_added(table: Path, unbroken: Path, tmp_path: Path) -> None:
    assert main(command(table, tmp_path, "--slots", "75")) == 0
    assert main(command(table, tmp_path, "--resume")) == 0
    assert_same(unbroken, tmp_path)
    assert main(command(table, tmp_path, "--resume")) == 0  # nothing is left to do
    assert_same(unbroken, tmp_path)


def test_with_no_checkpoint_it_starts(table: Path, unbroken: Path, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("half a li")
    assert main(command(table, tmp_path, "--resume")) == 0
    assert_same(unbroken, tmp_path)


def test_all_damaged_is_one_line(table: Path, tmp_path: Path, capsys) -> None:
    assert main(command(table, tmp_path, "--slots", "20", "--save-every", "9")) == 0
    for path in (tmp_path / "checkpoints").glob("*/manifest.json"):
        path.write_text("{}")
    capsys.readouterr()
    assert main(command(table, tmp_path, "--resume")) == 2
    error = capsys.readouterr().err
    assert "can be read" in error
    assert len(error.strip().splitlines()) == 1


def test_other_settings_are_refused_by_name(table: Path, tmp_path: Path, capsys) -> None:
    assert main(command(table, tmp_path, "--slots", "20")) == 0
    capsys.readouterr()
    other = ["--resume", "--rate", "0.05", "--seed", "3"]
    assert main(command(table, tmp_path, *other)) == 2
    error = capsys.readouterr().err
    assert "seed was 0 and is 3" in error
    assert "'lr': 0.002" in error
    assert "--allow-mismatch" in error
    assert main(command(table, tmp_path, *other, "--slots", "40", "--allow-mismatch")) == 0


def test_another_table_is_refused(table: Path, tmp_path: Path, capsys) -> None:
    assert main(command(table, tmp_path, "--slots", "20")) == 0
    longer = tmp_path / "points.csv"
    longer.write_text(table.read_text() + "1,2,3,0\n")
    assert main(command(longer, tmp_path, "--resume")) == 2
    assert "rows was 913 and is 914" in capsys.readouterr().err


@pytest.mark.parametrize("change", ["labels", "order", "numbers", "columns"])
def test_other_content_is_refused(change: str, table: Path, tmp_path: Path, capsys) -> None:
    """Each change leaves all else as it was: numbers of rows and classes, mean, deviation."""
    header, *rows = table.read_text().splitlines()
    if change == "labels":  # each class as often as before
        swap = {"0": "1", "1": "2", "2": "0"}
        rows = [",".join([*cells[:-1], swap.get(cells[-1], cells[-1])]) for cells in split(rows)]
    elif change == "order":
        rows.reverse()
    elif change == "numbers":  # two rows exchange theirs
        first, second = split(rows[:2])
        rows[:2] = [",".join([*second[:-1], first[-1]]), ",".join([*first[:-1], second[-1]])]
    else:
        header = "a,c,b,kind"
    assert main(command(table, tmp_path, "--slots", "20")) == 0
    changed = tmp_path / "points.csv"
    changed.write_text("\n".join([header, *rows]) + "\n")
    assert main(command(changed, tmp_path, "--resume", "--slots", "30")) == 2
    error = capsys.readouterr().err
    assert "content was" in error
    assert "rows was" not in error


def test_other_ids_are_refused(table: Path, tmp_path: Path, capsys) -> None:
    """Decisions go by ids: under others, they would be those of other rows."""
    header, *rows = table.read_text().splitlines()
    named = tmp_path / "points.csv"
    for start, status in ((0, 0), (1, 2)):
        lines = [f"{number},{row}" for number, row in enumerate(rows, start)]
        named.write_text("\n".join([f"name,{header}", *lines]) + "\n")
        more = ["--id", "name", "--slots", "20", *(["--resume"] if start else [])]
        assert main(command(named, tmp_path, *more)) == status
    assert "content was" in capsys.readouterr().err


def split(rows: list[str]) -> list[list[str]]:
    return [row.split(",") for row in rows]


@pytest.mark.parametrize("text", ["0", "-3", "never", "0s", "1e12s", "nan"])
def test_when_to_save_is_a_number(text: str, table: Path, tmp_path: Path, capsys) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(command(table, tmp_path, f"--save-every={text}"))
    assert "--save-every" in capsys.readouterr().err


def test_a_full_disk_costs_checkpoints_and_not_the_run(
    table: Path, unbroken: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tamis.checkpoint.generations.write_synced", full)
    assert main(command(table, tmp_path, "--save-every", "25")) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Warning: 6 checkpoints were not saved" in printed
    assert "No space left on device" in printed
    assert_same(unbroken, tmp_path)
