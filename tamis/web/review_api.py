"""The review of a run, one request at a time: what is open, what is like it, what was decided."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from threading import Lock
from time import monotonic
from typing import Any

from tamis.review import Neighbourhood
from tamis.runs import Decision, Run
from tamis.runs.decisions import ACTIONS
from tamis.runs.suspect_index import Spine
from tamis.web.run_page import (
    Snapshot,
    confusion_csv,
    draw_all,
    environment,
    snapshot,
    suspects_csv,
)
from tamis.web.run_plots import plots_of

PAGE = 60
"""Suspects sent at once."""
REDRAWN = 5.0
"""Seconds from one drawing of the plots to the next, at the least: a run needs the machine more."""
LONGEST = 2000
"""Characters of an id or label that anybody sends."""


class BadRequestError(ValueError):
    """A request that makes no sense, in one sentence."""


class ReviewAPI:
    """Answers what a page asks about a run. Many threads may ask at once."""

    def __init__(self, run: Run, author: str = "") -> None:
        self.run = run
        self.author = author
        self._near = Neighbourhood(run.folder)
        self._lock, self._drawing = Lock(), Lock()
        self._drawn = ""
        self._drawn_news = -1
        self._next = 0.0

    def page(self) -> str:
        """Return the page; its plots and suspects are asked for apart, since they take longer."""
        with self._lock:
            self.run.refresh()
            template = environment().get_template("live.html")
            return template.render(run=self.run, author=self.author)

    def state(self) -> dict[str, Any]:
        """Say how far the run is, and what there is news about."""
        with self._lock:
            self.run.refresh()
            news = self.run.news
            due = monotonic() >= self._next
            return {
                "state": self.run.state,
                "curves": news["curves"] if due else max(0, self._drawn_news),
                "suspects": news["suspects"],
            }

    def tiles(self) -> str:
        """Return the numbers on top of the page."""
        with self._lock:
            return environment().get_template("tiles.html").render(run=self.run)

    def curves(self) -> str:
        """Return the plots, drawn anew where there is news and the last time is long enough ago."""
        with self._drawing:
            with self._lock:
                news = self.run.news["curves"]
                if self._drawn and (news == self._drawn_news or monotonic() < self._next):
                    return self._drawn
                seen: Snapshot = snapshot(self.run)
            template = environment().get_template("curves.html")
            self._drawn = template.render(draw_all(seen, "/numbers/"))
            self._drawn_news, self._next = news, monotonic() + REDRAWN
            return self._drawn

    def numbers(self, name: str) -> str | None:
        """Return the numbers behind a plot as CSV."""
        with self._lock:
            if name == "confusion":
                return confusion_csv(self.run)
            plots = {plot.name: plot for plot in plots_of({self.run.name: self.run})}
            return plots[name].to_csv() if name in plots else None

    def table(self) -> str:
        """Return all suspects as CSV."""
        with self._lock:
            return suspects_csv(self.run)

    def suspects(self, wanted: Mapping[str, str]) -> dict[str, Any]:
        """Return a page of the suspects that fit."""
        page = number(wanted, "page", 0, int)
        fits = self._fits(wanted)
        with self._lock:
            run = self.run
            run.refresh()
            found = run.suspects.where(fits)
            shown = run.suspects.read(found[page * PAGE : (page + 1) * PAGE])
            items = [
                suspect.to_line() | {"decision": self._decided(suspect.id)} for suspect in shown
            ]
            return {
                "items": items,
                "total": len(found),
                "all": len(run.suspects),
                "size": PAGE,
                "classes": run.classes,
                "settled": sum(found.settled for found in run.decisions.in_force().values()),
                "version": run.news["suspects"],
            }

    def near(self, name: str) -> dict[str, Any]:
        """Return what is most like a suspect, and what is decided about it by now."""
        with self._lock:
            self.run.decisions.refresh()
            return {"near": self._near.of(name), "decision": self._decided(name)}

    def decide(self, body: bytes) -> dict[str, Any]:
        """Take a decision down."""
        asked = read_request(body)
        name, word, label = asked.get("id"), asked.get("decision"), asked.get("label")
        if not isinstance(name, str) or len(name) > LONGEST or word not in ACTIONS:
            raise BadRequestError("A decision has an id and one of " + ", ".join(ACTIONS) + ".")
        if word == "relabel" and not isinstance(label, str):
            raise BadRequestError("To relabel takes a label.")
        with self._lock:
            self.run.refresh()
            spine = self.run.suspects.spine(name)
            if spine is None and self.run.decisions.of(name) is None:
                raise BadRequestError("There is no suspect of this id any more.")
            if word == "relabel" and label not in self.run.classes:
                raise BadRequestError("There is no class of this name.")
            before = self.run.decisions.of(name)
            given, row = (spine.given, spine.row) if spine else (None, None)
            if spine is None and before is not None:
                given, row = before.given, before.row
            author = asked.get("author")
            made = self.run.decisions.decide(
                Decision(
                    name,
                    word,
                    label if word == "relabel" else None,
                    given,
                    row,
                    author if isinstance(author, str) and author.strip() else self.author,
                )
            )
            self.run.news["suspects"] += 1
            return {"decision": asdict(made), "changed": made.previous}

    def _decided(self, name: str) -> dict[str, Any] | None:
        found = self.run.decisions.of(name)
        return None if found is None else asdict(found)

    def _fits(self, wanted: Mapping[str, str]) -> Callable[[Spine], bool]:
        """Make a test of what was asked for."""
        low, high = number(wanted, "low", 0.0, float), number(wanted, "high", 1.0, float)
        given, suggested = wanted.get("given"), wanted.get("suggested")
        which = wanted.get("which", "open")
        settled = self.run.decisions.in_force

        if which not in ("open", "settled", "all"):
            raise BadRequestError("Suspects are open, settled, or all.")
        done: set[str] = set()
        if which != "all":
            with self._lock:
                done = {name for name, found in settled().items() if found.settled}

        def fits(spine: Spine) -> bool:
            return (
                low <= spine.score <= high
                and given in (None, spine.given)
                and suggested in (None, spine.suggested)
                and (which == "all" or (spine.id in done) == (which == "settled"))
            )

        return fits


def number(wanted: Mapping[str, str], name: str, default: Any, kind: type) -> Any:
    """Read a number that was asked for."""
    try:
        value = kind(wanted.get(name, default))
    except ValueError:
        raise BadRequestError(f"{name} is a number.") from None
    if not 0 <= value <= 2**31:
        raise BadRequestError(f"{name} is a number from 0 on.")
    return value


def read_request(body: bytes) -> dict[str, Any]:
    """Read the object that was sent."""
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        raise BadRequestError("What was sent is no JSON.") from None
    if not isinstance(asked, dict):
        raise BadRequestError("What was sent is no object.")
    return asked
