"""tamis watch."""

from __future__ import annotations

import getpass
from argparse import ArgumentParser, Namespace
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from tamis.errors import UsageError

HELP = "Watch a run in the browser while it goes on, and go through labels that look wrong."
EXAMPLES = """examples:
  tamis watch tamis-run
  tamis watch tamis-run --host 0.0.0.0 --author ann

Only this machine is answered, unless --host says otherwise; then a token is needed, which is
printed once as part of the address. Nothing is encrypted: over a network, use an SSH tunnel.
Decisions are added to RUN/decisions.jsonl at once; a running tamis train takes them in."""


def add_arguments(parser: ArgumentParser) -> None:
    """Say what can be set."""
    add = parser.add_argument
    add("run", type=Path, help="folder of a run, finished or not")
    add("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    add("--port", type=int, default=8765, help="port, 0 for any that is free (default 8765)")
    add("--author", help="who decides, unless the page says (default: your user name)")
    add("--token", action="store_true", help="ask for a token on this machine, too")


def run(options: Namespace) -> int:
    """Serve the page until Ctrl-C."""
    try:
        from tamis.runs import NoRunError, Run
        from tamis.web.access import is_loopback, make_token
        from tamis.web.review_api import ReviewAPI
        from tamis.web.server import Server
    except ImportError as error:
        raise UsageError(f"{error.name} is missing: pip install 'tamis[demo]'.") from None
    try:
        api = ReviewAPI(Run(options.run), options.author or user())
    except NoRunError as error:
        raise UsageError(str(error)) from None
    token = make_token() if options.token or not is_loopback(options.host) else None
    try:
        server = Server(api, options.host, options.port, token)
    except (OSError, OverflowError) as error:
        raise UsageError(f"{options.host}:{options.port} cannot be listened on: {error}.") from None
    console = Console()
    console.print(f"Watching {options.run} at {server.url}", soft_wrap=True, markup=False)
    console.print("Ctrl-C ends it; the run goes on.")
    with server, suppress(KeyboardInterrupt):
        server.serve_forever()
    return 0


def user() -> str:
    """Name who runs this."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container may have no users
        return ""
