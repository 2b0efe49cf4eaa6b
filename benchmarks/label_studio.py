"""From a correction in a real Label Studio to a model trained on it: docs/label_studio.md.

TAMIS_LABEL_STUDIO=FOLDER python -m benchmarks.label_studio [--corrections 50]

FOLDER is a virtual environment with Label Studio, which is started on loopback.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Thread
from time import perf_counter
from typing import Any, NamedTuple

from tamis.lab.pages.markdown import put_between
from tamis.lab.pages.measurements import Row, machine, save_rows, table, verdict
from tamis.web.access import Access
from tamis.web.label_studio.router import PREFIX, label_studio_routes
from tamis.web.service_app import build_app
from tamis.web.service_server import ServiceServer, listen
from tests.support.label_studio import LabelStudio, missing
from tests.support.services import Opened, make_rows, opened, train_table
from tests.support.wait import wait_until

ROOT = Path(__file__).parents[1]
OUT = ROOT / "results" / "service" / "label_studio.csv"
PAGE = ROOT / "docs" / "label_studio.md"
ROWS = 5_000
WARM_UP = 3
OTHER = {"yes": "no", "no": "yes"}
CONFIG = """<View>
  <Text name="row" value="Of $town, aged $age"/>
  <Choices name="label" toName="row"><Choice value="no"/><Choice value="yes"/></Choices>
</View>"""


class Trained(NamedTuple):
    """When a slot had been trained and its model published, and the records read until then."""

    time: float
    records: int


class Seconds(NamedTuple):
    """Seconds from the user's request, and from the webhook, to the model that is trained on it."""

    requested: float
    arrived: float


class Correcting:
    """A run that is served and trained, and when webhooks came and slots were done."""

    def __init__(self, here: Opened) -> None:
        self.here = here
        self.arrived: list[float] = []
        self.trained: list[Trained] = []
        self._thread = Thread(target=self._train)

    @contextmanager
    def serving(self, token: str) -> Iterator[str]:
        """Serve and train for the length of a block; yield the address."""
        with listen("127.0.0.1", 0) as listening:
            port = listening.getsockname()[1]
            access = Access("127.0.0.1", port, token)
            app = build_app(self.here.service, access, routers=[label_studio_routes])
            with ServiceServer(self._noting(app), listening):
                self._thread.start()
                yield f"http://127.0.0.1:{port}{PREFIX}"
                self.here.feed.close()
                self._thread.join()

    def correct(self, studio: LabelStudio, task: int, label: str) -> Seconds:
        """Annotate a task as a user does, and return the seconds until it is trained on."""
        requested = perf_counter()
        studio.annotate(task, label)
        arrived, end = self.arrived[-1], self.here.journal.end
        wait_until(lambda: self.trained and self.trained[-1].records >= end)
        done = next(slot.time for slot in self.trained if slot.records >= end)
        return Seconds(done - requested, done - arrived)

    def _train(self) -> None:
        for slot in self.here.run.train(self.here.feed):
            self.here.service.update(slot)
            read = self.here.feed.offset["source"]["journal"]
            self.trained.append(Trained(perf_counter(), read))

    def _noting(self, app: Any) -> Callable[[Any, Any, Any], Awaitable[None]]:
        async def note(scope: Any, receive: Any, send: Any) -> None:
            if scope["path"] == f"{PREFIX}/webhook":
                self.arrived.append(perf_counter())
            await app(scope, receive, send)

        return note


def measure(folder: Path, corrections: int) -> list[Seconds]:
    """Flip labels of a table's rows in Label Studio, one after the other."""
    run = train_table(folder, "--capacity", "10000", rows=ROWS)
    rows = make_rows(ROWS)
    with LabelStudio(folder / "label-studio") as studio, opened(run, follow=True) as here:
        correcting = Correcting(here)
        before = here.held()
        names = list(before)[: WARM_UP + corrections]
        data = [{"id": name, **rows[int(name)]} for name in names]
        with correcting.serving("secret") as url:
            project = studio.make_project(CONFIG)
            studio.connect(project, url, "secret")
            tasks = studio.import_tasks(project, [{"data": each} for each in data])
            found = [
                correcting.correct(studio, task, OTHER[each["y"]])
                for task, each in zip(tasks, data, strict=True)
            ]
        changed = {each["id"]: OTHER[each["y"]] for each in data}
        if here.held() != before | changed:
            raise SystemExit("Not all corrections were trained on.")
    return found[WARM_UP:]


def rows_of(found: list[Seconds]) -> list[Row]:
    """Return what was measured, with its bar."""
    requested = sorted(each.requested for each in found)
    arrived = sorted(each.arrived for each in found)
    return [
        ("corrections", str(len(found)), ""),
        ("request to Label Studio until trained, s, median", f"{median(requested):.3f}", "<= 1"),
        ("request to Label Studio until trained, s, slowest", f"{requested[-1]:.3f}", ""),
        ("webhook until trained, s, median", f"{median(arrived):.3f}", ""),
        ("webhook until trained, s, slowest", f"{arrived[-1]:.3f}", ""),
        ("machine", machine(), ""),
    ]


def main() -> None:
    """Measure, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corrections", type=int, default=50)
    options = parser.parse_args()
    if why := missing():
        sys.exit(f"There is {why}.")
    with TemporaryDirectory() as folder:
        rows = rows_of(measure(Path(folder), options.corrections))
    save_rows(OUT, rows)
    listed = [(what, measured, bar, verdict(measured, bar)) for what, measured, bar in rows]
    text = table(("what", "measured", "bar", "held"), listed)
    print(text)
    PAGE.write_text(put_between(PAGE.read_text(), text, "figures"))


if __name__ == "__main__":
    main()
