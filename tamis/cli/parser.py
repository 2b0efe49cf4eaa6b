"""The parser of the command line: a mistake costs one line and exit code 2."""

from __future__ import annotations

import sys
from argparse import (
    Action,
    ArgumentError,
    ArgumentParser,
    Namespace,
    RawDescriptionHelpFormatter,
    _SubParsersAction,
)
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple, NoReturn, Protocol

from tamis.cli.config import apply_config
from tamis.cli.output import add_output_options
from tamis.cli.words import suggest

MOST_IN_USAGE = 10
"""Options and arguments of a command that its usage line still lists."""


class Command(Protocol):
    """A module that has what a command needs. It imports torch only inside `run`."""

    HELP: str
    EXAMPLES: str

    def add_arguments(self, parser: ArgumentParser, /) -> None:
        """Add the command's options to a parser."""

    def run(self, options: Namespace, /) -> int:
        """Run the command and return its exit code."""


class Group(NamedTuple):
    """Commands under a common name."""

    HELP: str
    EXAMPLES: str
    commands: Mapping[str, Command]


class Parser(ArgumentParser):
    """Suggests the nearest name where a command or an option is unknown.

    `sections` are the titles of the help of a parser with many commands, with their names.
    """

    commands: Mapping[str, Parser] = {}
    sections: Mapping[str, Sequence[str]] = {}

    def add_commands(
        self, commands: Mapping[str, Command | Group], *, results: bool = True
    ) -> None:
        """Add commands; in the parsed options, `run_command` runs the chosen one.

        Commands within a group write tables and pages: they have no `results` to print.
        """
        group = self.add_subparsers(required=True, metavar="COMMAND", title="commands")
        for name, command in commands.items():
            parser = group.add_parser(
                name,
                help=command.HELP,
                description=command.HELP,
                epilog=command.EXAMPLES,
                formatter_class=RawDescriptionHelpFormatter,
            )
            if isinstance(command, Group):
                parser.add_commands(command.commands, results=False)
            else:
                parser.set_defaults(run_command=command.run, prog=parser.prog, parser=parser)
                command.add_arguments(parser)
                add_output_options(parser, results=results)
                parser.shorten_usage()
        self.commands = group.choices

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Namespace | None = None
    ) -> tuple[Namespace, list[str]]:
        """Parse; an unknown option is reported before whatever is missing because of it."""
        words = sys.argv[1:] if args is None else list(args)
        self._check_options(words)
        if "--config" in self._option_string_actions:
            apply_config(self, words)
        return super().parse_known_args(words, namespace)

    def format_help(self) -> str:
        """Return the help; commands are listed by section, where there are any."""
        if not self.sections:
            return super().format_help()
        listed = {
            action.dest: action
            for group in self._action_groups
            for parent in group._group_actions
            if isinstance(parent, _SubParsersAction)
            for action in parent._choices_actions
        }
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for title, commands in self.sections.items():
            formatter.start_section(title)
            formatter.add_arguments([listed[name] for name in commands])
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments([each for each in self._actions if each.option_strings])
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def shorten_usage(self) -> None:
        """Leave options out of the usage where there are many: the help lists them in groups."""
        if len(self._actions) > MOST_IN_USAGE:
            names = [each.metavar or each.dest for each in self._actions if not each.option_strings]
            self.usage = " ".join(["%(prog)s", "[options]", *map(str, names)])

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and how to get help, and exit."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def _check_options(self, words: Iterable[str]) -> None:
        mine = (lambda word: word.startswith("-")) if self.commands else (lambda word: word != "--")
        for word in takewhile(mine, words):
            name = word.partition("=")[0]
            known = list(self._option_string_actions)
            if name.startswith("--") and not any(each.startswith(name) for each in known):
                self.error(f"no option {name}{suggest(name, known)}")

    def _check_value(self, action: Action, value: Any) -> None:
        if isinstance(action, _SubParsersAction) and value not in self.commands:
            near = suggest(value, list(names(self.commands)))
            raise ArgumentError(None, f"no command {value!r}{near}")
        super()._check_value(action, value)


def names(commands: Mapping[str, Parser]) -> Iterable[str]:
    """Yield the names of commands, those within a group after its name."""
    for name, parser in commands.items():
        yield name
        yield from (f"{name} {inner}" for inner in names(parser.commands))
