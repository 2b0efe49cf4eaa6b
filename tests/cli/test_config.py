"""Settings in a TOML file: a run writes them, and --config repeats it."""

from __future__ import annotations

import json
import tomllib
from argparse import Namespace
from pathlib import Path

import pytest

from tamis.cli.config import settings_of, write_config
from tamis.cli.main import build_parser, main

SIZES = ["--slots", "12", "--k", "4", "--rows-per-slot", "5", "--save-every", "4"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table and a stream of two columns, and a test table."""
    monkeypatch.chdir(tmp_path)
    rows = [{"a": row % 7, "b": row % 3, "kind": ("ant", "bee")[row % 2]} for row in range(80)]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = [",".join(map(str, row.values())) + "\n" for row in rows]
    Path("rows.csv").write_text("a,b,kind\n" + "".join(lines))
    return tmp_path


def parsed(*words: str) -> Namespace:
    return build_parser().parse_args(words)


@pytest.mark.parametrize(
    "words",
    [
        ["train", "rows.csv", "--kind", "b=category", "--test", "rows.csv"],
        ["stream", "rows.jsonl", "--classes", "ant", "bee", "--linger", "inf", "--patience", "0.5"],
    ],
)
def test_a_run_is_repeated_from_its_file(words: list[str], here: Path) -> None:
    assert main([*words, "--label", "kind", "--out", "first", *SIZES]) == 0
    Path("elsewhere").mkdir()
    assert main([words[0], "--config", "first/run.toml", "--out", "second"]) == 0
    for name in ("run.toml", "model.safetensors", "suspects.csv"):
        assert Path("first", name).read_bytes() == Path("second", name).read_bytes(), name
    found = tomllib.loads(Path("first/run.toml").read_text())
    assert (found["slots"], found["k"], found["save-every"]) == (12, 4, "4")
    assert "out" not in found


def test_files_are_found_from_any_folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = parsed("train", "rows.csv", "--test", "rows.csv")
    write_config(options, here / "run.toml")
    monkeypatch.chdir("/")
    again = parsed("train", "--config", str(here / "run.toml"))
    assert again.file == again.test == here / "rows.csv"


def test_every_setting_comes_back(here: Path) -> None:
    """Whatever the type of an option, what is written is read as it was."""
    for command in ("train", "stream"):
        parser = build_parser().commands[command]
        words, wanted = [command], {}
        for name, action in settings_of(parser).items():
            values = [str(choice) for choice in action.choices or ()][-1:]
            if action.nargs == 0:
                words.append(f"--{name}")
            elif action.option_strings:
                known = {"kind": "a=text", "save-every": "30s", "device": "cpu"}
                words += [f"--{name}", *(values or [known.get(name, "7")])]
        words += ["--", "rows"]
        given = parsed(*words)
        write_config(given, here / "all.toml")
        again = parsed(command, "--config", str(here / "all.toml"))
        left_out = ("out", "overwrite", "resume", "allow_mismatch", "dry_run", "quiet", "json")
        for name, value in vars(given).items():
            if name not in (*left_out, "parser", "config"):
                wanted[name] = value
        assert {name: getattr(again, name) for name in wanted} == wanted


def test_the_command_line_wins(here: Path) -> None:
    Path("run.toml").write_text(
        'file = "rows.csv"\nk = 8\nlog = ["mlflow"]\ndrop = ["a", "b"]\nlabel = "kind"\nseed = 3\n'
    )
    line = "train other.csv --config run.toml --k 16 --log wandb --drop b"
    options = parsed(*line.split())
    assert options.file == Path("other.csv")
    assert (options.k, options.seed, options.label) == (16, 3, "kind")
    assert (options.log, options.drop) == (["wandb"], ["b"])
    assert parsed("train", "--config=run.toml").log == ["mlflow"]
    assert parsed("train", "--conf", "run.toml", "--lo", "wandb").log == ["wandb"]


def test_an_option_is_not_taken_for_a_longer_one(here: Path) -> None:
    Path("run.toml").write_text('rows-per-slot = 3\nlog = ["mlflow"]\n')
    options = parsed("stream", "rows.jsonl", "--config", "run.toml", "--rows", "mine:to_row")
    assert (options.rows_per_slot, options.rows) == (3, "mine:to_row")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lable = 'y'", "run.toml has a setting 'lable' that is none; did you mean label?"),
        ("rows_per_slots = 3", "'rows_per_slots' that is none; did you mean rows-per-slot?"),
        ("k = 'many'", "run.toml, k: invalid positive value: 'many'"),
        ("k = [1, 2]", "run.toml, k: [1, 2] is no value"),
        ("k = true", "run.toml, k: True is no value"),
        ("dry-run = 1", "run.toml, dry-run: it is true or false"),
        ("on-bad = 'shrug'", "run.toml, on-bad: invalid choice: 'shrug'"),
        ("drop = {a = 1}", "run.toml, drop: {'a': 1} is no list of values"),
        ("k = ", "run.toml is no TOML"),
        (None, "--config run.toml: No such file or directory"),
        ("k = 3", "the following arguments are required: file"),
    ],
)
def test_a_mistake_in_the_file_costs_one_line(
    text: str | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("run.toml").write_text(text)
    with pytest.raises(SystemExit) as stop:
        parsed("train", "--config", "run.toml")
    assert stop.value.code == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert len(printed.splitlines()) == 1


def test_an_address_with_a_password_is_not_written(tmp_path: Path) -> None:
    options = parsed("stream", "redis://ann:w0rd@here:1/0?stream=rows", "--label", "y")
    write_config(options, tmp_path / "run.toml", ["address"])
    text = (tmp_path / "run.toml").read_text()
    assert "w0rd" not in text
    assert "address" in text.splitlines()[1]
    assert "address" not in tomllib.loads(text)
