"""tamis watch."""

from __future__ import annotations

import getpass
import signal
from argparse import ArgumentParser, Namespace
from pathlib import Path
from threading import Thread

from tamis.cli.next_steps import command, print_next
from tamis.errors import UsageError, needs_extra

HELP = "Watch a run in the browser, and review the labels that look wrong."
EXAMPLES = """examples:
  tamis watch tamis-run
  tamis watch tamis-run --host 0.0.0.0 --author ann

The server answers only this machine. With another --host it asks for a token, which is printed
once as part of the address. Nothing is encrypted, so use an SSH tunnel over a network.
Decisions are written to RUN/decisions.jsonl at once; a run in progress trains on them."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    add = parser.add_argument
    add("run", type=Path, help="folder of a run, finished or not")
    add("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    add("--port", type=int, default=8765, help="port, 0 for any free one (default 8765)")
    add("--author", help="author of decisions made without a name (default: your user name)")
    add("--token", action="store_true", help="ask for a token even on this machine")


def run(options: Namespace) -> int:
    """Serve the page until Ctrl-C."""
    from tamis.cli.console import plain_console

    with needs_extra("demo"):
        from tamis.runs import Run
        from tamis.web.access import is_loopback, make_token
        from tamis.web.review_api import ReviewAPI
        from tamis.web.server import Server
    api = ReviewAPI(Run(options.run), options.author or user())
    token = make_token() if options.token or not is_loopback(options.host) else None
    try:
        server = Server(api, options.host, options.port, token)
    except (OSError, OverflowError) as error:
        raise UsageError(f"cannot listen on {options.host}:{options.port}: {error}.") from None
    # A KeyboardInterrupt in a finaliser is printed and ignored: ask for the end instead.
    signal.signal(signal.SIGINT, lambda *_: Thread(target=server.shutdown, daemon=True).start())
    console = plain_console()
    console.print(f"Watching {options.run} at {server.url}", soft_wrap=True)
    console.print("Open it in a browser. Ctrl-C stops the server, not the run.")
    options.results.update(run=options.run, url=server.url)
    options.results.write()
    with server:
        server.serve_forever(0.1)
    print_next(
        console,
        correct_the_table_with=command("export", options.run, "--format", "corrected"),
        export_decisions_with=command("export", options.run),
    )
    return 0


def user() -> str:
    """Return the name of the user; empty where the system has none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container may have no users
        return ""
