"""Every command, `tamis lab` among them: help, options, mistakes, and what it imports."""

from __future__ import annotations

import ast
import pkgutil
import re
import subprocess
import sys
from argparse import Namespace
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import tamis
from tamis import cli
from tamis.cli import export
from tamis.cli.main import COMMANDS, SECTIONS, build_parser, main
from tamis.cli.parser import Group, Parser, names
from tamis.lab import commands, demo, fairness, regret, suspect_quality, tracker
from tamis.lab.commands import COMMANDS as LAB
from tamis.lab.experiments import suspects
from tamis.review import exchange

NAMES = list(names(build_parser().commands))
HEAVY = ("torch", "numpy", "rich")


def parser_of(command: str) -> Parser:
    """Return the parser of a command, as `lab bench`."""
    parser = build_parser()
    for word in command.split():
        parser = parser.commands[word]
    return parser


def defaults(command: str, *arguments: str) -> Namespace:
    """Return the options of a command line."""
    return build_parser().parse_args([*command.split(), *arguments])


def choices(command: str, option: str) -> set[str]:
    """Return what an option may be."""
    (action,) = (each for each in parser_of(command)._actions if each.dest == option)
    return set(action.choices or ())


def test_help_lists_what_a_user_needs() -> None:
    wanted = {
        "train and stream": "demo, train, stream",
        "look and fix": "watch, report, compare, audit, annotators, export, import",
        "use the model": "predict, serve",
        "the lab": "lab",
        "help": "list, completion",
    }
    assert {title: ", ".join(found) for title, found in SECTIONS.items()} == wanted
    assert ", ".join(COMMANDS) == ", ".join(wanted.values())
    paper = "bench, reproduce, audit, regret, fairness, tracker, suspects, tables"
    assert ", ".join(LAB) == f"{paper}, classes, unlabelled, late, frontier"


@pytest.mark.parametrize(("command", "least"), [("train", 5), ("stream", 6)])
def test_many_options_are_in_groups(command: str, least: int) -> None:
    """Their usage is one line, and no group but that of the help is without a title of its own."""
    text = parser_of(command).format_help()
    assert re.match(rf"usage: tamis {command} \[options\] \w+\n\n", text)
    general = text.split("\noptions:\n")[1].split("\n\n")[0]
    assert general.split()[0] == "-h,"
    assert len(general.splitlines()) == 1
    assert len(re.findall(r"^[a-z][\w ]+:$", text.split("examples:")[0], re.MULTILINE)) >= least


def test_help_is_in_sections() -> None:
    text = build_parser().format_help()
    titles = re.findall(r"^(\w.*):$", text, re.MULTILINE)
    assert titles == [*SECTIONS, "options", "examples"]
    assert re.findall(r"^  (\w+)  ", text, re.MULTILINE)[: len(COMMANDS)] == list(COMMANDS)


@pytest.mark.parametrize(("package", "listed"), [(cli, COMMANDS), (commands, LAB)])
def test_every_command_is_listed(package: ModuleType, listed: Mapping[str, object]) -> None:
    modules = pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    found = [module.name for module in modules if not module.name.endswith("__main__")]
    wanted = [module for name in found if hasattr(module := import_module(name), "HELP")]
    assert all(module in listed.values() for module in wanted)


@pytest.mark.parametrize("command", NAMES)
def test_every_command_helps_with_an_example(command: str, capsys) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*command.split(), "--help"])
    assert stop.value.code == 0
    assert f"tamis {command}" in capsys.readouterr().out.split("example")[1]


@pytest.mark.parametrize("command", [*COMMANDS.values(), *LAB.values()])
def test_every_command_is_complete(command: ModuleType | Group) -> None:
    assert command.HELP.endswith(".")
    assert command.EXAMPLES.startswith("example")
    if not isinstance(command, Group):
        assert callable(command.add_arguments)
        assert callable(command.run)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("trian", "tamis: no command 'trian'; did you mean train?"),
        ("bench", "tamis: no command 'bench'; did you mean lab bench?"),
        ("lab benhc", "tamis lab: no command 'benhc'; did you mean bench?"),
        ("fly", "tamis: no command 'fly'"),
        ("--verison", "tamis: no option --verison; did you mean --version?"),
        ("train rows.csv --lable y", "tamis train: no option --lable; did you mean --label?"),
        ("lab bench --metods=x", "tamis lab bench: no option --metods; did you mean --methods?"),
        ("lab bench --zzz", "tamis lab bench: no option --zzz"),
        ("lab", "tamis lab: the following arguments are required: COMMAND"),
    ],
)
def test_a_mistake_names_the_nearest(arguments: str, message: str, capsys) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments.split())
    assert stop.value.code == 2
    error = capsys.readouterr().err
    where = message.partition(":")[0]
    assert error == f"{message} (see {where} --help)\n"


@pytest.mark.parametrize(
    "arguments", ["--help", "trian", "list --zzz", *(f"{name} --help" for name in NAMES)]
)
def test_help_and_mistakes_do_not_import_torch(arguments: str) -> None:
    program = f"""
import sys
from tamis.cli.main import main
try:
    main({arguments.split()})
except SystemExit:
    print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1] == "[]"


def test_names_of_the_package_are_imported_when_used() -> None:
    """Type checkers, `__all__` and the table of modules list the same names."""
    assert sorted(name for names in tamis._MODULES.values() for name in names) == sorted(
        tamis.__all__
    )
    for module, found in tamis._MODULES.items():
        for name in found:
            assert getattr(tamis, name) is getattr(import_module(module), name)
    tree = ast.parse(Path(tamis.__file__).read_text())
    (block,) = (each for each in tree.body if isinstance(each, ast.If))
    typed = {
        each.module: tuple(name.name for name in each.names)
        for each in block.body
        if isinstance(each, ast.ImportFrom)
    }
    assert typed == tamis._MODULES
    assert set(tamis.__all__) <= set(dir(tamis))
    with pytest.raises(AttributeError, match="no attribute 'Trianer'"):
        tamis.Trianer  # noqa: B018


def test_options_are_those_of_the_code() -> None:
    """Options name settings without importing them; the two must agree."""
    assert set(export.FORMATS) == set(exchange.FORMATS)
    assert defaults("demo").slots_per_row == demo.Settings.slots_per_row
    assert defaults("lab fairness").slots == fairness.Settings.slots
    regrets = defaults("lab regret")
    assert (regrets.seeds, regrets.chains) == (regret.Settings.seeds, regret.Settings.chains)
    tracked, cell = defaults("lab tracker"), tracker.Cell()
    for name in ("data", "model", "slots", "rows", "k"):
        assert getattr(tracked, name) == getattr(cell, name)
    assert tracked.selectors.split(",") == list(tracker.SELECTORS)
    assert choices("lab tracker", "data") == set(tracker.DATA)
    assert choices("lab suspects", "data") == set(suspects.DATA)
    assert choices("lab suspects", "noise") == set(suspect_quality.NOISES)
