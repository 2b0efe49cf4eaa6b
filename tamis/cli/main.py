"""The command line: one module for each command."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import tamis
from tamis.cli import (
    annotators,
    audit,
    compare,
    demo,
    export,
    importing,
    listing,
    predict,
    report,
    serve,
    stream,
    train,
    watch,
)
from tamis.cli.parser import Command, Group, Parser
from tamis.errors import TamisError
from tamis.lab.commands import COMMANDS as LAB

COMMANDS: Mapping[str, Command | Group] = {
    "demo": demo,
    "train": train,
    "stream": stream,
    "predict": predict,
    "serve": serve,
    "annotators": annotators,
    "watch": watch,
    "audit": audit,
    "report": report,
    "compare": compare,
    "export": export,
    "import": importing,
    "list": listing,
    "lab": Group(
        "Run experiments: the board of all methods, the paper's, audits.",
        "example:\n  tamis lab bench --list",
        LAB,
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; a mistake of the caller's costs one line and exit code 2."""
    options = build_parser().parse_args(arguments)
    options.arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code: int = options.run_command(options)
        return code
    except BrokenPipeError:  # the reader, as in `tamis list | head`, has closed the pipe
        sys.stderr.close()
        return 0
    except (TamisError, OSError) as error:
        print(f"{options.prog}: {one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{options.prog}: stopped", file=sys.stderr)
        return 130


def one_line(error: Exception) -> str:
    """Return the message of an error, with its notes, as one line."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    return " ".join([text, *getattr(error, "__notes__", ())])


def build_parser() -> Parser:
    """Return a parser of every command, each with an example."""
    parser = Parser(
        prog="tamis",
        description="Train neural networks online on streams whose labels are partly wrong.",
        epilog="example: tamis demo",
    )
    parser.add_argument("--version", action="version", version=f"tamis {tamis.__version__}")
    parser.add_commands(COMMANDS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
