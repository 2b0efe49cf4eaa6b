"""One contract over training runs: `tamis train`, `tamis stream` and a program of one's own."""

from __future__ import annotations

import csv
import json
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tamis.checkpoint import Checkpoints, files
from tamis.cli.main import main
from tamis.runs import Decision, Decisions, SuspectIndex, read_metadata
from tamis.training.folder import lock_folder
from tests.support.commands import run_command

ROWS, PER_SLOT = 900, 10
SLOTS = ROWS // PER_SLOT
CLASSES = ("ant", "bee", "cow")
FEW = ["--rows-per-slot", str(PER_SLOT), "--k", "8", "--capacity", "300", "--slots", str(SLOTS)]
SLOW = pytest.mark.slow
SAME = (
    "model.safetensors", "suspects.csv", "suspects.jsonl", "neighbours.jsonl", "tracked.jsonl",
    "rejects.jsonl",
)  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """Points of three classes, a third of the labels wrong, some rows without a label."""

    table: Path
    stream: Path
    given: dict[str, str]
    right: dict[str, str]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    folder = tmp_path_factory.mktemp("rows")
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (ROWS,), generator=generator)
    points = 3 * torch.eye(3)[labels] + torch.randn(ROWS, 3, generator=generator)
    wrong = torch.rand(ROWS, generator=generator) < 0.3
    given = torch.where(wrong, (labels + 1) % 3, labels)
    names = [f"row-{number}" for number in range(ROWS)]
    records = [
        {"name": name, "a": a, "b": b, "c": c, "kind": "" if number % 50 == 9 else CLASSES[kind]}
        for number, (name, (a, b, c), kind) in enumerate(
            zip(names, points.tolist(), given.tolist(), strict=True)
        )
    ]
    with (folder / "rows.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        writer.writerows(records)
    (folder / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in records))
    by_name = [
        dict(zip(names, (CLASSES[kind] for kind in kinds.tolist()), strict=True))
        for kinds in (given, labels)
    ]
    return Rows(folder / "rows.csv", folder / "rows.jsonl", *by_name)


Command = Callable[..., list[str]]


@pytest.fixture(params=["train", "stream"])
def command(request: pytest.FixtureRequest, rows: Rows) -> Command:
    """Return the command line of either command on the same rows."""
    columns = ["--label", "kind", "--id", "name"]
    if request.param == "train":
        start = ["train", str(rows.table), *columns]
    else:
        stream = ["--inputs", "a", "b", "c", "--classes", *CLASSES, "--scale-rows", "50"]
        start = ["stream", str(rows.stream), *columns, *stream]
    return lambda out, *more: [*start, *FEW, "--out", str(out), *map(str, more)]


@pytest.fixture(scope="module")
def unbroken_runs() -> dict[str, Path]:
    return {}


@pytest.fixture
def unbroken(
    command: Command, unbroken_runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A run that nothing has happened to, once for each command."""
    kind = command("")[0]
    if kind not in unbroken_runs:
        out = tmp_path_factory.mktemp(kind) / "unbroken"
        assert main(command(out)) == 0
        unbroken_runs[kind] = out
    return unbroken_runs[kind]


def assert_same(one: Path, other: Path) -> None:
    for name in SAME:
        assert content(one / name) == content(other / name), name
    assert read_log(one) == read_log(other)


def content(path: Path) -> bytes | None:
    """Return what a file holds; None where there is none, as of rejects."""
    return path.read_bytes() if path.exists() else None


def reasons_in(out: Path) -> list[str]:
    """Return why rows were rejected."""
    lines = (content(out / "rejects.jsonl") or b"").splitlines()
    return [json.loads(line)["reason"] for line in lines]


def read_log(out: Path) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [{key: line[key] for key in line if "seconds" not in key} for line in lines]


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_a_damaged_checkpoint_is_reported(
    command: Command, unbroken: Path, tmp_path: Path, capsys
) -> None:
    assert main(command(tmp_path, "--slots", 50, "--save-every", 20)) == 0
    newest = Checkpoints(tmp_path / "checkpoints").generations()[-1]
    (tmp_path / "checkpoints" / f"{newest:08d}" / "tensors.safetensors").write_bytes(b"gone")
    capsys.readouterr()
    assert main(command(tmp_path, "--resume")) == 0
    assert f"Warning: checkpoint {newest} is damaged" in printed(capsys)
    assert_same(unbroken, tmp_path)


def test_rows_go_by_their_names(command: Command, unbroken: Path, rows: Rows) -> None:
    with (unbroken / "suspects.csv").open(newline="") as file:
        listed = [line["id"] for line in csv.DictReader(file)]
    assert len(listed) > 50
    assert set(listed) <= set(rows.given)
    wrong = {name for name in rows.given if rows.given[name] != rows.right[name]}
    assert len(wrong & set(listed)) > 0.8 * len(listed)
    lines = (unbroken / "suspects.jsonl").read_text().splitlines()
    assert {json.loads(line)["id"] for line in lines} <= set(rows.given)
    assert len(SuspectIndex(unbroken)) == len(lines)
    near = [json.loads(line) for line in (unbroken / "neighbours.jsonl").read_text().splitlines()]
    assert {found["id"] for line in near for found in line["neighbours"]} <= set(rows.given)


def test_decisions_by_name_are_learned_from(
    command: Command, rows: Rows, tmp_path: Path, capsys
) -> None:
    decisions, out = Decisions(tmp_path / "decisions.jsonl"), tmp_path / "run"
    wrong = [name for name in rows.given if rows.given[name] != rows.right[name]]
    for name in wrong:
        decisions.decide(Decision(name, "relabel", rows.right[name]), sync=False)
    more = ["--corrections", decisions.path, "--capacity", 2000]
    assert main(command(out, *more)) == 0
    with (out / "suspects.csv").open(newline="") as file:
        listed = [line["id"] for line in csv.DictReader(file)]
    assert not set(listed) & set(wrong)
    assert f"{len(wrong)} labels were decided by people" in printed(capsys)


def test_decisions_made_meanwhile_are_learned_from(
    command: Command, rows: Rows, unbroken: Path, tmp_path: Path
) -> None:
    """Two halves of a run with a decision in between; without it, they make the unbroken run."""
    assert main(command(tmp_path, "--slots", 50)) == 0
    held = [f"row-{number}" for number in range(300, 500) if number % 50 != 9]
    wrong = next(name for name in held if rows.given[name] != rows.right[name])
    decided = Decision(wrong, "relabel", rows.right[wrong])
    Decisions(tmp_path / "decisions.jsonl").decide(decided)
    assert main(command(tmp_path, "--resume")) == 0
    assert read_log(tmp_path)[:50] == read_log(unbroken)[:50]
    assert read_log(tmp_path)[50:] != read_log(unbroken)[50:]


def test_a_changed_rate_is_taken(command: Command, unbroken: Path, tmp_path: Path, capsys) -> None:
    assert main(command(tmp_path, "--slots", 50)) == 0
    capsys.readouterr()
    other = ["--resume", "--rate", 0.01]
    assert main(command(tmp_path, *other)) == 2
    error = capsys.readouterr().err
    assert re.search(r"'lr': 0\.(1|002)\b", error)
    assert "--allow-mismatch" in error
    assert main(command(tmp_path, *other, "--allow-mismatch")) == 0
    newest = Checkpoints(tmp_path / "checkpoints").generations()[-1]
    state = (tmp_path / "checkpoints" / f"{newest:08d}" / "state.json").read_text()
    assert '"lr": 0.01' in state
    assert read_log(tmp_path)[51:] != read_log(unbroken)[51:]


def test_another_column_of_ids_is_refused(command: Command, tmp_path: Path, capsys) -> None:
    words = command(tmp_path, "--slots", 20)
    assert main(words) == 0
    at = words.index("--id")
    for other in ([], ["--id", "c"]):
        drop = ["--drop", "name"] if words[0] == "train" else []
        assert main([*words[:at], *other, *words[at + 2 :], *drop, "--resume"]) == 2
        assert "id was 'name' and is" in capsys.readouterr().err


def test_names_are_printed_as_they_are(
    command: Command, rows: Rows, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What rich would take for markup or for an emoji is text here: classes, ids and paths."""
    strange = {"ant": "[/b]", "bee": "[red]", "cow": ":bug:", "row-": "[/i]row-"}
    words = command(tmp_path / "[/u]", "--slots", 60)
    for number, word in enumerate(words):
        if word in (str(rows.table), str(rows.stream)):
            text = Path(word).read_text()
            for name, other in strange.items():
                text = text.replace(name, other)
            mark = "[bold]" if words[0] == "train" else ""  # a stream's name is a pattern
            words[number] = str(tmp_path / f"{mark}{Path(word).name}")
            Path(words[number]).write_text(text)
    assert main([strange.get(word, word) for word in words]) == 0
    out = printed(capsys)
    assert re.search(r"\[/i\]row-\d+: given \S+, suggested (\[/b\]|\[red\]|:bug:) ", out)
    assert "[/u]" in out
    if words[0] == "train":
        assert "[bold]rows.csv: 60/60 slots" in out


def with_changed_rows(
    words: list[str], rows: Rows, folder: Path, change: Callable[[str, dict[str, Any]], None]
) -> list[str]:
    """Return a command line on other rows: each record is changed, given its name."""
    records = [json.loads(line) for line in rows.stream.read_text().splitlines()]
    for record in records:
        change(record["name"], record)
    table, stream = folder / "rows.csv", folder / "rows.jsonl"
    stream.write_text("".join(json.dumps(record) + "\n" for record in records))
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        writer.writerows(records)
    others = {str(rows.table): str(table), str(rows.stream): str(stream)}
    return [others.get(word, word) for word in words]


def test_rows_without_a_label_are_counted_and_not_bad(
    command: Command, tmp_path: Path, capsys
) -> None:
    assert main(command(tmp_path)) == 0
    text = printed(capsys)
    assert re.search(r"\d+ of \d+ rows have a label; 18 wait for theirs\.", text)
    assert "rejected" not in text
    assert not (tmp_path / "rejects.jsonl").exists()


def test_bad_rows_are_explained(command: Command, rows: Rows, tmp_path: Path, capsys) -> None:
    def change(name: str, record: dict[str, Any]) -> None:
        record["c"] = 1e38 if name == "row-30" else float(record["c"]) / 1000

    words = with_changed_rows(command(tmp_path / "run", "--model", "mlp"), rows, tmp_path, change)
    assert main(words) == 0
    assert "1 row rejected: 1 x inputs not finite after scaling" in printed(capsys)
    assert reasons_in(tmp_path / "run") == ["inputs not finite after scaling"]


@pytest.mark.parametrize("model", ["mlp", "TableModel"])
def test_a_huge_number_costs_its_row_and_no_other(
    model: str, command: Command, rows: Rows, tmp_path: Path
) -> None:
    """One 1e20 decides no scale; a row that is infinite after scaling is rejected, once.

    The model for tables bounds numbers, and takes it.
    """

    def change(name: str, record: dict[str, Any]) -> None:
        record["c"] = float(record["c"]) / 1000
        record |= {"row-20": {"a": 1e20}, "row-30": {"c": 1e38}}.get(name, {})

    words = with_changed_rows(command("", "--model", model), rows, tmp_path, change)
    once, twice = ([*words, "--out", str(tmp_path / name)] for name in ("once", "twice"))
    assert main(once) == 0
    assert main([*twice, "--slots", "3"]) == 0
    assert main([*twice, "--resume"]) == 0
    assert_same(tmp_path / "once", tmp_path / "twice")
    rejected = ["inputs not finite after scaling"] if model == "mlp" else []
    assert reasons_in(tmp_path / "once") == rejected
    state = load_file(tmp_path / "once" / "model.safetensors")
    usual = torch.tensor([0.6, 0.6, 600])
    if model == "mlp":
        assert torch.allclose(state["0.factor"], usual, rtol=0.2)
    else:  # its scale is by quartiles, of a stream those of 50 rows
        assert torch.allclose(state["numbers.factor"], usual, rtol=0.5)
    with (tmp_path / "once" / "suspects.csv").open(newline="") as file:
        listed = {line["id"] for line in csv.DictReader(file)}
    wrong = {name for name in rows.given if rows.given[name] != rows.right[name]}
    assert len(listed) > 50
    assert len(wrong & listed) > 0.8 * len(listed)


def test_a_run_is_not_overwritten_by_mistake(
    command: Command, unbroken: Path, tmp_path: Path, capsys
) -> None:
    assert main(command(tmp_path, "--slots", 30, "--seed", 5)) == 0
    capsys.readouterr()
    for flags, words in (([], "--overwrite"), (["--resume", "--overwrite"], "choose one")):
        assert main(command(tmp_path, *flags)) == 2
        error = capsys.readouterr().err
        assert words in error
        assert len(error.splitlines()) == 1
    assert main(command(tmp_path, "--overwrite")) == 0
    assert_same(unbroken, tmp_path)


@pytest.mark.parametrize("flag", ["--resume", "--overwrite"])
def test_a_second_process_is_refused(flag: str, command: Command, tmp_path: Path) -> None:
    (tmp_path / "rejects.jsonl").write_text("{}\n")
    with lock_folder(tmp_path):
        second = run_command(*command(tmp_path, flag))
    assert second.returncode == 2, second.printed
    assert "Another process trains in" in second.printed
    assert len(second.printed.splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"rejects.jsonl", "run.lock"}
    assert (tmp_path / "rejects.jsonl").read_text() == "{}\n"


def test_a_diverging_run_names_its_last_good_checkpoint(
    command: Command, tmp_path: Path, capsys
) -> None:
    assert main(command(tmp_path, "--rate", "1e38", "--save-every", 1)) == 2
    error = capsys.readouterr().err
    assert "lower the learning rate" in error
    assert str(tmp_path / "checkpoints") in error
    assert "the model is written" in error
    assert len(error.splitlines()) == 1
    assert (tmp_path / "model.safetensors").exists()
    assert read_metadata(tmp_path).ended == "diverged"


@pytest.mark.parametrize("name", ["about.json", "model.safetensors"])
def test_a_full_disk_is_one_line(
    name: str, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    def write(path: Path, pieces: list[bytes]) -> files.Seal:
        if path.name == f"{name}.part":
            raise OSError(28, "No space left on device")
        return written(path, pieces)

    written = files.write_synced
    monkeypatch.setattr(files, "write_synced", write)
    assert main(command(tmp_path, "--slots", 20)) == 2
    error = capsys.readouterr().err
    assert "No space left on device" in error
    assert len(error.splitlines()) == 1
    assert (tmp_path / "suspects.csv").exists() == (name == "model.safetensors")


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=SLOW)])
def test_a_signal_saves(
    number: signal.Signals, command: Command, unbroken: Path, tmp_path: Path
) -> None:
    done = run_command(*command(tmp_path, "--save-every", 1000000), stop=number, after=20)
    assert done.returncode == 128 + number, done.printed
    assert "all is saved" in " ".join(done.printed.split())
    assert (tmp_path / "model.safetensors").exists()
    assert read_metadata(tmp_path).ended == "stopped"
    assert main(command(tmp_path, "--resume")) == 0
    assert_same(unbroken, tmp_path)


@pytest.mark.parametrize("saves", ["40", *(pytest.param(n, marks=SLOW) for n in ("7", "0.05s"))])
def test_killed_and_resumed_is_the_same_run(
    saves: str, command: Command, unbroken: Path, tmp_path: Path
) -> None:
    stop = signal.SIGKILL
    killed = run_command(*command(tmp_path, "--save-every", saves), stop=stop, after=61)
    assert killed.returncode == -stop, killed.printed
    assert not (tmp_path / "model.safetensors").exists()
    assert main(command(tmp_path, "--resume")) == 0
    assert_same(unbroken, tmp_path)
