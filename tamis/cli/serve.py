"""tamis serve."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from tamis.cli.options import positive, save_every
from tamis.errors import needs_extra

HELP = "Serve a model over HTTP that goes on learning from the rows and labels it is sent."
EXAMPLES = """examples:
  tamis serve tamis-run
  tamis serve tamis-run --host 0.0.0.0 --port 9000
  tamis serve tamis-run --wait-rows 100000 --wait-seconds 86400

RUN is the folder of a run of tamis train or tamis stream; it is continued, in the same folder.
  POST /predict         {"rows": [{column: value}]}   class, probabilities and an id of each row
  POST /labels          {"id": id, "label": class}    a label for a row, trained on in the next slot
  DELETE /labels/ID                                   withdraws it
  POST /rows            {"rows": [{column: value}]}   rows that have their labels
  /label-studio         an ML backend of Label Studio: annotations there are trained on
  GET /metrics, /health/live, /health/ready, /openapi.json; /docs and / in a browser

An accepted label is on disk, in RUN/journal, and is trained on once, also after kill -9. The server
answers this machine only. With another --host it asks for a token, which is printed once, or taken
from the variable TAMIS_TOKEN. Nothing is encrypted: over a network, put a proxy with TLS before it.
Ctrl-C and SIGTERM answer what is in progress, save and stop."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    add = parser.add_argument
    add("run", type=Path, help="folder of a run that has ended, or that was served before")
    add("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    add("--port", type=int, default=8000, help="port, 0 for any that is free (default 8000)")
    add("--token", action="store_true", help="ask for a token on this machine, too")
    add("--model", metavar="MODULE:FACTORY", help="the model's own code, where it has some")
    add("--selector", metavar="MODULE:CLASS", help="the selector's own code, where it has some")
    add("--device", help="cpu or cuda (default: as before)")
    add("--rows-per-slot", type=positive, default=64, help="records of a slot (default 64)")
    add(
        "--linger",
        type=float,
        default=0.1,
        help="seconds that a record waits for others of its slot (default 0.1)",
    )
    add("--wait-rows", type=positive, help="rows that wait for labels (default: as before, 10,000)")
    add("--wait-seconds", type=float, help="time that they wait (default: as before, no limit)")
    add(
        "--backlog",
        type=positive,
        default=100_000,
        help="records not yet trained on, after which no more are accepted (default 100,000)",
    )
    add(
        "--save-every",
        type=save_every,
        default="60s",
        metavar="SLOTS",
        help="save a checkpoint every so many slots, or seconds, as 30s (default 60s)",
    )
    add("--author", help="author of decisions made on the page without a name")


def run(options: Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    with needs_extra("serve"):
        from tamis.cli.serve_run import serve_run

    return serve_run(options)
