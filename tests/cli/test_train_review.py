"""tamis train and tamis stream leave what pages need, and learn from what people decide."""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tamis.checkpoint import Checkpoints
from tamis.cli.main import main
from tamis.review import NeighbourIndex
from tamis.runs import Decision, Decisions, EstimateHistory, SuspectIndex, read_lines, read_metadata
from tests.support.commands import PRELOADED
from tests.support.wait import END, wait_until

CLASSES = ("ant", "bee", "cat")
FEW = ["--rows-per-slot", "5", "--capacity", "600", "--k", "8", "--pool-size", "64"]
ROWS = 900


class Given:
    """A table of three classes, its labels as given and as they should be, by name of the row."""

    def __init__(self, path: Path) -> None:
        generator = torch.Generator().manual_seed(0)
        labels = torch.randint(3, (ROWS,), generator=generator)
        points = 3 * torch.eye(3)[labels] + torch.randn(ROWS, 3, generator=generator)
        wrong = torch.rand(ROWS, generator=generator) < 0.3
        given = torch.where(wrong, (labels + 1) % 3, labels)
        names = [f"row-{row}" for row in range(ROWS)]
        self.path = path
        self.right = {name: CLASSES[label] for name, label in zip(names, labels, strict=True)}
        self.given = {name: CLASSES[label] for name, label in zip(names, given, strict=True)}
        self.points = points
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["name", "a", "b", "c", "kind"])
            for name, point in zip(names, points.tolist(), strict=True):
                writer.writerow([name, *point, self.given[name]])

    def answer(self, decisions: Path, names: list[str]) -> None:
        """Decide about rows by the truth."""
        file = Decisions(decisions)
        for name in names:
            given, right = self.given[name], self.right[name]
            word, label = ("keep", None) if given == right else ("relabel", right)
            file.decide(Decision(name, word, label, given, author="ann"), sync=False)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Given:
    return Given(tmp_path_factory.mktemp("table") / "points.csv")


def command(table: Given, out: Path, *more: object) -> list[str]:
    start = ["train", str(table.path), "--label", "kind", "--id", "name", "--out", str(out)]
    return [*start, *FEW, *map(str, more)]


@pytest.fixture(scope="module")
def run(table: Given, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run")
    torch.set_num_threads(1)
    assert main(command(table, out, "--slots", 300)) == 0
    return out


def held_labels(out: Path) -> dict[str, str]:
    """Return the labels of the rows held, as the newest checkpoint has them."""
    newest = Checkpoints(out / "checkpoints").generations()[-1]
    tensors = load_file(out / "checkpoints" / f"{newest:08d}" / "tensors.safetensors")
    ids, labels = (tensors[f"/run/buffer/rows/{name}"].tolist() for name in ("ids", "labels"))
    return {f"row-{number}": CLASSES[label] for number, label in zip(ids, labels, strict=True)}


def wait_for(holds: Callable[[], object], process: subprocess.Popen[str]) -> None:
    def met() -> object:
        assert process.poll() is None, process.communicate()
        return holds()

    wait_until(met)


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tamis.cli", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def test_all_that_pages_and_exports_read_is_there(run: Path, table: Given, tmp_path: Path) -> None:
    about = read_metadata(run)
    assert (about.name, about.classes, about.columns) == ("points.csv", CLASSES, ("a", "b", "c"))
    assert (about.slots, about.ended) == (300, "done")
    assert about.settings["k"] == 8
    assert [point.slot for point in EstimateHistory(run).points] == [49, 99, 149, 199, 249, 299]
    index = SuspectIndex(run)
    wrong = {name for name in table.given if table.given[name] != table.right[name]}
    first = [suspect.id for suspect in list(index)[:100]]
    assert len(wrong & set(first)) > 95
    assert set(index.read(list(index)[:1])[0].preview["columns"]) == {"a", "b", "c"}
    assert len(NeighbourIndex(run).of(first[0])) == 5
    assert main(["report", str(run), "--out", str(tmp_path / "page.html")]) == 0
    assert first[0] in (tmp_path / "page.html").read_text()
    assert main(["compare", str(run), str(run), "--out", str(tmp_path / "both.html")]) == 0
    assert main(["export", str(run), "--format", "csv", "--out", str(tmp_path / "all.csv")]) == 0
    assert len((tmp_path / "all.csv").read_text().splitlines()) == len(index) + 1


def test_decisions_about_one_run_are_learned_from_in_the_next(
    run: Path, table: Given, tmp_path: Path, capsys
) -> None:
    names = [suspect.id for suspect in list(SuspectIndex(run))[:150]]
    decisions, out = tmp_path / "decisions.jsonl", tmp_path / "next"
    table.answer(decisions, names)
    Decisions(decisions).decide(Decision("row-3", "relabel", "dog", table.given["row-3"]))
    before = decisions.read_bytes()
    assert main(command(table, out, "--slots", 300, "--corrections", decisions)) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "151 labels were decided by people" in printed
    assert "Warning: some decisions name a label that is not a class here" in printed
    held = held_labels(out)
    reviewed = [name for name in names if name in held]
    assert len(reviewed) > 80
    assert all(held[name] == table.right[name] for name in reviewed)
    others = set(held) - set(names)
    assert all(held[name] == table.given[name] for name in others)
    left = {line["id"] for line in read_lines(out / "suspects.jsonl")}
    with (out / "suspects.csv").open() as file:
        listed = {line["id"] for line in csv.DictReader(file)}
    assert listed
    assert not (left | listed) & set(names)
    assert (
        EstimateHistory(out).points[-1].value > EstimateHistory(run).points[-1].value + 0.05
    )  # the tracker follows
    assert decisions.read_bytes() == before


@pytest.mark.slow
def test_a_running_train_takes_decisions_in(table: Given, tmp_path: Path) -> None:
    """Somebody else decides while it runs: in its folder, and in the file that it was given."""
    out, given = tmp_path / "run", tmp_path / "given.jsonl"
    given.touch()
    process = start(
        *command(table, out, "--slots", 200_000, "--capacity", 2000, "--corrections", given)
    )
    wait_for(lambda: (out / "suspects.jsonl").exists(), process)
    names = [suspect.id for suspect in list(SuspectIndex(out))[:60]]
    table.answer(out / "decisions.jsonl", names[:20])
    table.answer(given, names[20:40])
    Decisions(out / "decisions.jsonl").decide(Decision(names[50], "drop", None))
    # The next look at suspects leaves out what was decided.
    decided = {*names[:40], names[50]}
    wait_for(
        lambda: not decided & {line["id"] for line in read_lines(out / "suspects.jsonl")}, process
    )
    process.send_signal(signal.SIGTERM)
    printed, _ = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM, printed
    assert "41 labels were decided by people" in " ".join(printed.split())
    assert read_metadata(out).ended == "stopped"
    held = held_labels(out)
    assert all(held[name] == table.right[name] for name in names[:40])
    assert names[50] not in held
    assert len(held) == ROWS - 1
    picks = [line["class_picks"] for line in read_lines(out / "log.jsonl")[-50:]]
    assert all(sum(each) == 8 for each in picks)


@pytest.mark.slow
def test_killed_between_a_decision_and_a_checkpoint_it_is_not_lost(
    table: Given, tmp_path: Path
) -> None:
    process = start(*command(table, tmp_path, "--slots", 200_000, "--save-every", "1000000"))
    wait_for(lambda: (tmp_path / "suspects.jsonl").exists(), process)
    names = [suspect.id for suspect in list(SuspectIndex(tmp_path))[:20]]
    table.answer(tmp_path / "decisions.jsonl", names)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert main(command(table, tmp_path, "--slots", 400, "--resume")) == 0
    held = held_labels(tmp_path)
    known = [name for name in names if name in held]
    assert known
    assert all(held[name] == table.right[name] for name in known)
    slots = [line["slot"] for line in read_lines(tmp_path / "tracked.jsonl")]
    assert slots == list(range(49, 400, 50))


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "does not exist"), ("id,label\nrow-1,bee\n", "tamis import reads tables")],
)
def test_corrections_that_are_none_cost_one_line(
    table: Given, tmp_path: Path, capsys, content: str | None, message: str
) -> None:
    file = tmp_path / "reviewed.csv"
    if content:
        file.write_text(content)
    assert main(command(table, tmp_path / "run", "--corrections", file)) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


def test_numbers_go_to_tensorboard_by_one_flag(table: Given, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert main(command(table, tmp_path, "--slots", 20, "--log", "tensorboard")) == 0
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("loss")] == list(range(20))


def test_no_tracker_is_imported_without_its_flag(table: Given, tmp_path: Path) -> None:
    """In a process of its own: other tests import them here."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    words = command(table, tmp_path / "run", "--slots", 20)
    process = context.Process(target=list_modules, args=(words, tmp_path / "modules"), daemon=True)
    process.start()
    process.join(END)
    assert process.exitcode == 0
    modules = (tmp_path / "modules").read_text().splitlines()
    assert "tamis.monitoring.logger_group" in modules
    assert not {name.partition(".")[0] for name in modules} & {"tensorboard", "mlflow", "wandb"}


def list_modules(words: list[str], path: Path) -> None:
    """Run a command, and write down the modules that are loaded after it."""
    code = main(words)
    path.write_text("\n".join(sys.modules))
    sys.exit(code)


@pytest.mark.parametrize("name", ["tensorboard", "mlflow", "wandb"])
def test_a_tracker_that_is_missing_costs_one_line_and_no_run(
    table: Given, tmp_path: Path, capsys, monkeypatch, name: str
) -> None:
    (tmp_path / "log.jsonl").write_text("{}\n")
    for module in ("tensorboard", "torch.utils.tensorboard", "mlflow", "wandb"):
        monkeypatch.setitem(sys.modules, module, None)
    assert main(command(table, tmp_path, "--log", name, "--overwrite")) == 2
    error = capsys.readouterr().err
    assert f"pip install 'tamis[{name}]'" in error
    assert len(error.splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"log.jsonl"}


def test_a_tracker_that_fails_on_the_way_costs_a_warning(
    table: Given, tmp_path: Path, capsys, monkeypatch
) -> None:
    class Broken:
        def __init__(self, *_: object) -> None:
            self.left = 5

        def update(self, _: object) -> None:
            self.left -= 1
            if not self.left:
                raise ConnectionError("the server is gone")

        def close(self) -> None:
            raise AssertionError("it was left out")

    monkeypatch.setitem(tamis_loggers(), "mlflow", Broken)
    assert main(command(table, tmp_path, "--slots", 20, "--log", "mlflow")) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Warning: mlflow did not get all numbers (the server is gone)." in printed
    assert printed.count("did not get all numbers") == 1  # dropped: not even closed
    assert len(read_lines(tmp_path / "log.jsonl")) == 20


def tamis_loggers() -> dict[str, object]:
    from tamis.monitoring import LOGGERS

    assert isinstance(LOGGERS, dict)
    return LOGGERS


def test_a_disk_that_is_full_costs_a_warning(table: Given, tmp_path, capsys, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tamis.runs.estimates.add_line", full)
    assert main(command(table, tmp_path, "--slots", 120)) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Warning: 2 times the files for the pages were not written or read." in printed


def test_a_table_of_one_class_costs_one_line(tmp_path: Path, capsys) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("a,kind\n" + "1,ant\n2,ant\n" * 20)
    assert main(["train", str(rows), "--label", "kind", "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert "one class only" in error
    assert len(error.splitlines()) == 1


# tamis stream


def write_stream(table: Given, path: Path) -> list[str]:
    with path.open("w") as file:
        for name, point in zip(table.given, table.points.tolist(), strict=True):
            record = {"a": point[0], "b": point[1], "c": point[2], "kind": table.given[name]}
            file.write(json.dumps(record) + "\n")
    columns = ["--inputs", "a", "b", "c", "--label", "kind", "--classes", *CLASSES]
    return ["stream", str(path), *columns, *FEW, "--scale-rows", "50"]


@pytest.mark.slow
def test_a_stream_leaves_the_same_and_goes_on_after_a_kill(table: Given, tmp_path: Path) -> None:
    arguments = write_stream(table, tmp_path / "rows.jsonl")
    once, twice = tmp_path / "once", tmp_path / "twice"
    torch.set_num_threads(1)
    assert main([*arguments, "--out", str(once)]) == 0
    process = start(*arguments, "--out", str(twice), "--follow", "--save-every", "70")
    wait_for(lambda: len(read_lines(twice / "log.jsonl")) == ROWS // 5, process)
    process.kill()
    process.communicate()
    newest = Checkpoints(twice / "checkpoints").generations()[-1]
    manifest = json.loads((twice / "checkpoints" / f"{newest:08d}" / "manifest.json").read_text())
    assert manifest["slot"] == 140
    assert main([*arguments, "--out", str(twice), "--resume"]) == 0
    for name in ("tracked.jsonl", "suspects.jsonl", "neighbours.jsonl", "suspects.csv"):
        assert (once / name).read_bytes() == (twice / name).read_bytes(), name
    about = read_metadata(twice)
    assert (about.name, about.columns) == (str(tmp_path / "rows.jsonl"), ("a", "b", "c"))
    assert about.ended == "done"
    assert [point.slot for point in EstimateHistory(twice).points] == [49, 99, 149]
    wrong = {at for at, name in enumerate(table.given) if table.given[name] != table.right[name]}
    first = [int(suspect.id) for suspect in list(SuspectIndex(twice))[:80]]
    assert len(wrong & set(first)) > 70


def test_a_stream_learns_from_decisions(table: Given, tmp_path: Path, capsys) -> None:
    arguments = write_stream(table, tmp_path / "rows.jsonl")
    decisions, out = Decisions(tmp_path / "decisions.jsonl"), tmp_path / "run"
    wrong = [at for at, name in enumerate(table.given) if table.given[name] != table.right[name]]
    for at in wrong:
        right = table.right[f"row-{at}"]
        decisions.decide(Decision(str(at), "relabel", right), sync=False)
    extra = ["--corrections", str(decisions.path), "--capacity", "2000"]
    assert main([*arguments, "--out", str(out), *extra]) == 0
    assert held_labels(out) == table.right
    assert EstimateHistory(out).points[-1].value > 0.9
    found = re.search(
        r"About (\d+) of 900 labels are wrong", " ".join(capsys.readouterr().out.split())
    )
    assert found
    assert int(found[1]) < 60


def test_a_tracker_gets_no_secret_and_is_checked_before_the_stream(
    tmp_path: Path, capsys, monkeypatch
) -> None:
    estimates: list[str] = []

    def refuse(folder: Path, settings: dict[str, object]) -> None:
        estimates.append(str(settings))
        raise ValueError("no key is configured")

    monkeypatch.setitem(tamis_loggers(), "wandb", refuse)
    address = "redis://:w0rd@localhost:1/0?stream=rows&group=g"
    arguments = ["stream", address, "--inputs", "a", "--label", "kind", "--classes", "0", "1"]
    assert main([*arguments, "--out", str(tmp_path), "--log", "wandb"]) == 2
    assert "--log wandb: no key is configured" in capsys.readouterr().err
    assert "localhost" in estimates[0]
    assert "w0rd" not in estimates[0]
