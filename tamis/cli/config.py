"""Settings of a command in a TOML file: `--config run.toml`, and `run.toml` in a run's folder."""

from __future__ import annotations

import json
import tomllib
from argparse import (
    Action,
    ArgumentError,
    ArgumentParser,
    Namespace,
    _ActionsContainer,
    _AppendAction,
)
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tamis.cli.words import suggest

OF_ONE_CALL = {
    "config", "help", "out", "overwrite", "resume", "allow-mismatch", "dry-run", "quiet", "json",
}  # fmt: skip
"""Options that a run does not write down: they are about one call."""
FILES = {"file", "test", "corrections"}
"""Settings that are places: written such that they are found from any working folder."""


def add_config_option(parser: _ActionsContainer) -> None:
    """Add the option that names a file of settings."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="settings from a TOML file, as RUN/run.toml; options on the command line win",
    )


def settings_of(parser: ArgumentParser) -> Mapping[str, Action]:
    """Return the arguments of a command by the names that they have in a file."""
    return {
        action.dest.replace("_", "-"): action
        for action in parser._actions
        if action.dest not in ("help", "config")
    }


def apply_config(parser: ArgumentParser, words: Sequence[str]) -> None:
    """Take the defaults of a command from the file that its words name, if they name one."""
    path = named_file(parser, words)
    if path is None:
        return
    known, given = settings_of(parser), [named_option(parser, word) for word in words]
    for name, value in read_toml(parser, path).items():
        action = known.get(name.replace("_", "-"))
        if action is None:
            near = suggest(name, list(known))
            parser.error(f"{path} has a setting {name!r} that is none{near}")
        try:
            default = to_option(parser, action, value)
        except ArgumentError as error:
            parser.error(f"{path}, {name}: {error.message}")
        if action in given:
            continue  # an option that may be repeated would add to the file's
        action.default, action.required = default, False
        if not action.option_strings:
            action.nargs = "?"


def read_toml(parser: ArgumentParser, path: Path) -> dict[str, Any]:
    """Return what a file holds, or end in one line."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        parser.error(f"--config {path}: {error.strerror}")
    except ValueError as error:
        parser.error(f"{path} is no TOML: {error}")


def named_file(parser: ArgumentParser, words: Sequence[str]) -> Path | None:
    """Return the file that the words name by --config."""
    for word, after in zip_longest(words, words[1:]):
        if word == "--":
            return None
        action = named_option(parser, word)
        if action is not None and action.dest == "config":
            text = word.partition("=")[2] or after
            return Path(text) if text else None
    return None


def named_option(parser: ArgumentParser, word: str) -> Action | None:
    """Return the option that a word names in full, or by a beginning that no other has."""
    name, known = word.partition("=")[0], parser._option_string_actions
    if name in known or not name.startswith("--") or name == "--":
        return known.get(name)
    near = [action for option, action in known.items() if option.startswith(name)]
    return near[0] if len(near) == 1 else None


def to_option(parser: ArgumentParser, action: Action, value: Any) -> Any:
    """Return a value of TOML as the command line would give it; else raise `ArgumentError`."""
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise ArgumentError(None, "it is true or false")
        return value
    repeated = action.nargs in ("+", "*") or isinstance(action, _AppendAction)
    values = value if isinstance(value, list) and repeated else [value]
    if any(isinstance(each, bool | list | dict) for each in values):
        raise ArgumentError(None, f"{value!r} is no {'list of values' if repeated else 'value'}")
    found = [parser._get_value(action, str(each)) for each in values]
    for each in found:
        parser._check_value(action, each)
    return found if repeated else found[0]


def write_config(options: Namespace, path: Path, left_out: Sequence[str] = ()) -> None:
    """Write the settings of a run, given or chosen, such that --config repeats it.

    What is `left_out`, as an address with a password, is to be given on the command line.
    """
    from tamis.checkpoint import write_atomically

    lines = [f"# {options.prog} --config {path.name} repeats the run; options given beside it win."]
    lines += [f"# {name} is not here: it holds a secret. Pass it as before." for name in left_out]
    for name in settings_of(options.parser):
        value = getattr(options, name.replace("-", "_"), None)
        if (
            name in OF_ONE_CALL
            or name in left_out
            or value is None
            or value is False
            or value == []
        ):
            continue
        if name in FILES and Path(value).exists():
            value = Path(value).resolve()
        lines.append(f"{name} = {to_toml(value)}")
    write_atomically(path, ("\n".join(lines) + "\n").encode())


def to_toml(value: object) -> str:
    r"""Return a value as TOML writes it; what is neither number, truth nor list becomes text.

    >>> to_toml(True), to_toml(0.5), to_toml(float("inf")), to_toml(["a", 'b "c"'])
    ('true', '0.5', 'inf', '["a", "b \\"c\\""]')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(to_toml, value))}]"
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
