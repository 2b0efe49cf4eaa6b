"""tamis serve."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from tamis.cli.options import positive, save_every
from tamis.errors import needs_extra

HELP = "Serve a model over HTTP, and train it on the rows and labels it receives."
EXAMPLES = """examples:
  tamis serve tamis-run
  tamis serve tamis-run --host 0.0.0.0 --port 9000
  tamis serve tamis-run --wait-rows 100000 --wait-seconds 86400

RUN is the folder of a run of tamis train or tamis stream. The service continues it there.
  POST /predict         {"rows": [{column: value}]}   returns class, probabilities and id per row
  POST /labels          {"id": id, "label": class}    a label, trained on in the next slot
  DELETE /labels/ID                                   withdraws a label
  POST /rows            {"rows": [{column: value}]}   rows with their labels
  /label-studio         ML backend of Label Studio, trains on its annotations
  GET /metrics, /health/live, /health/ready, /openapi.json; /docs and / in a browser

A label is accepted once it is on disk, in RUN/journal. It is trained on exactly once, even after
kill -9. The server answers only this machine. With another --host it asks for a token, which is
printed once, or taken from the variable TAMIS_TOKEN. Nothing is encrypted, so put a TLS proxy in
front of it on a network.
Ctrl-C and SIGTERM answer the requests in progress, save and stop."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    add = parser.add_argument
    add("run", type=Path, help="folder of a run that has ended, or that was served before")
    add("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    add("--port", type=int, default=8000, help="port, 0 for any free one (default 8000)")
    add("--token", action="store_true", help="ask for a token even on this machine")
    add("--model", metavar="MODULE:FACTORY", help="code of the model, if it is your own")
    add("--selector", metavar="MODULE:CLASS", help="code of the selector, if it is your own")
    add("--device", help="cpu or cuda (default: as before)")
    add("--rows-per-slot", type=positive, default=64, help="most records per slot (default 64)")
    add(
        "--linger",
        type=float,
        default=0.1,
        help="seconds that a record waits for others in its slot (default 0.1)",
    )
    add("--wait-rows", type=positive, help="most rows that wait for labels (default: as before)")
    add("--wait-seconds", type=float, help="how long they wait (default: as before, no limit)")
    add(
        "--backlog",
        type=positive,
        default=100_000,
        help="most records not yet trained on before new ones are refused (default 100,000)",
    )
    add(
        "--save-every",
        type=save_every,
        default="60s",
        metavar="SLOTS",
        help="slots between checkpoints, or seconds, as in 30s (default 60s)",
    )
    add("--author", help="author of decisions made without a name")


def run(options: Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    with needs_extra("serve"):
        from tamis.cli.serve_run import serve_run

    return serve_run(options)
