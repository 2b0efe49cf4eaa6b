"""The command line: one module for each command."""

from __future__ import annotations

import sys
from argparse import Namespace, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence

import tamis
from tamis.cli import (
    annotators,
    audit,
    compare,
    completion,
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
from tamis.cli.output import open_output
from tamis.cli.parser import Command, Group, Parser
from tamis.errors import TamisError
from tamis.lab.commands import COMMANDS as LAB

COMMANDS: Mapping[str, Command | Group] = {
    "demo": demo,
    "train": train,
    "stream": stream,
    "watch": watch,
    "report": report,
    "compare": compare,
    "audit": audit,
    "annotators": annotators,
    "export": export,
    "import": importing,
    "predict": predict,
    "serve": serve,
    "lab": Group(
        "Run experiments: compare all methods, repeat the paper, measure suspects.",
        "example:\n  tamis lab bench --list",
        LAB,
    ),
    "list": listing,
    "completion": completion,
}
SECTIONS = {
    "train and stream": ("demo", "train", "stream"),
    "look and fix": ("watch", "report", "compare", "audit", "annotators", "export", "import"),
    "use the model": ("predict", "serve"),
    "the lab": ("lab",),
    "help": ("list", "completion"),
}
"""The commands as `tamis --help` groups them."""
EXAMPLES = """examples:
  tamis demo                                 take a first look, on digits that come with it
  tamis train clicks.csv --label clicked     train, and list the labels that look wrong
  tamis watch tamis-run                      review them in the browser
  tamis predict tamis-run new.csv            predict with the model

tamis COMMAND --help has the options and examples of each."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; a mistake of the caller's costs one line and exit code 2."""
    options = build_parser().parse_args(arguments)
    options.arguments = list(sys.argv[1:] if arguments is None else arguments)
    with open_output(options) as options.results:
        try:
            code = run_command(options)
            options.results.write()
        except BrokenPipeError:  # the reader, as in `tamis list | head`, has closed the pipe
            sys.stderr.close()
            return 0
    return code


def run_command(options: Namespace) -> int:
    """Run the command that the options name, and return its exit code."""
    try:
        code: int = options.run_command(options)
        return code
    except BrokenPipeError:
        raise
    except (TamisError, OSError) as error:
        print(f"{options.prog}: {one_line(error)}", file=sys.stderr)
        options.results.update(error=one_line(error))
        return 2
    except KeyboardInterrupt:
        print(f"{options.prog}: stopped", file=sys.stderr)
        options.results.update(error="stopped")
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
        description="Train neural networks online on labels that are partly wrong.",
        epilog=EXAMPLES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.sections = SECTIONS
    parser.add_argument("--version", action="version", version=f"tamis {tamis.__version__}")
    parser.add_commands(COMMANDS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
