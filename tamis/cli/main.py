"""The command line: one file in tamis/commands for each command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

import tamis
from tamis.cli import (
    compare,
    demo,
    export,
    listing,
    report,
    stream,
    train,
    watch,
)
from tamis.cli import (
    importing as bring_in,
)
from tamis.errors import UsageError
from tamis.lab.commands import audit, bench, fairness, regret, reproduce, suspects, tracker
from tamis.sources import BadInputError
from tamis.streams import MissingDataError
from tamis.training import DivergedError

COMMANDS = {
    "demo": demo,
    "train": train,
    "stream": stream,
    "report": report,
    "compare": compare,
    "watch": watch,
    "export": export,
    "import": bring_in,
    "suspects": suspects,
    "list": listing,
    "reproduce": reproduce,
    "audit": audit,
    "bench": bench,
    "regret": regret,
    "fairness": fairness,
    "tracker": tracker,
}


class Parser(argparse.ArgumentParser):
    """Answers a wrong flag with one line and exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; a mistake of the caller's costs one line and exit code 2."""
    options = build_parser().parse_args(arguments)
    try:
        code: int = COMMANDS[options.command].run(options)
        return code
    except (
        UsageError,
        BadInputError,
        DivergedError,
        MissingDataError,
        FileNotFoundError,
        PermissionError,
    ) as error:
        print(f"tamis {options.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"tamis {options.command}: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, as in `tamis list | head`, has had enough
        sys.stderr.close()
        return 0


def build_parser() -> Parser:
    """Describe every command, each with an example."""
    parser = Parser(prog="tamis", description=tamis.__doc__, epilog="example: tamis demo")
    parser.add_argument("--version", action="version", version=f"tamis {tamis.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        command.add_arguments(
            commands.add_parser(
                name,
                help=command.HELP,
                description=command.HELP,
                epilog=command.EXAMPLES,
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
        )
    return parser


if __name__ == "__main__":
    sys.exit(main())
