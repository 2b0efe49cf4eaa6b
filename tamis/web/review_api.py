"""The review API: suspects, their neighbours and decisions, one request at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from threading import Lock
from time import monotonic
from typing import Any

from tamis.errors import TamisError
from tamis.review import NeighbourIndex
from tamis.runs import Decision, Run, Suspect
from tamis.runs.decisions import ACTIONS
from tamis.web.class_scores import BY_CLASS, class_scores, scores_csv
from tamis.web.empty import nothing_left
from tamis.web.pages import environment
from tamis.web.row_columns import listed
from tamis.web.run_page import Snapshot, confusion_csv, draw_all, snapshot, suspects_csv
from tamis.web.run_plots import plots_of

PAGE = 60
"""Suspects in one response."""
REDRAWN = 5.0
"""Seconds from one drawing of the plots to the next at the least, so that the run has the CPU."""
LONGEST = 2000
"""Characters of an id in a request, at the most."""


class BadRequestError(TamisError, ValueError):
    """A malformed request, described in one sentence."""


class ReviewAPI:
    """Answers the requests of a page about a run. It may be called from many threads."""

    def __init__(self, run: Run, author: str = "") -> None:
        self.run = run
        self.author = author
        self._neighbours = NeighbourIndex(run.folder)
        self._lock, self._drawing = Lock(), Lock()
        self._drawn = ""
        self._drawn_version = -1
        self._next = 0.0

    def page(self) -> str:
        """Return the page without plots and suspects, which it requests later."""
        with self._lock:
            self.run.refresh()
            template = environment().get_template("live.html")
            scores = class_scores(self.run.confusion, "/numbers/")
            return template.render(run=self.run, author=self.author, scores=scores)

    def state(self) -> dict[str, Any]:
        """Return how far the run is, and the versions of curves and suspects."""
        with self._lock:
            self.run.refresh()
            versions = self.run.versions
            due = monotonic() >= self._next
            return {
                "state": self.run.state,
                "curves": versions["curves"] if due else max(0, self._drawn_version),
                "suspects": versions["suspects"],
            }

    def tiles(self) -> str:
        """Return the numbers on top of the page."""
        with self._lock:
            return environment().get_template("tiles.html").render(run=self.run)

    def classes(self) -> str:
        """Return precision and recall by class."""
        with self._lock:
            found = class_scores(self.run.confusion, "/numbers/")
            return environment().get_template("classes.html").render(scores=found)

    def curves(self) -> str:
        """Return the plots, drawn again if the run has changed and `REDRAWN` seconds are over."""
        with self._drawing:
            with self._lock:
                version = self.run.versions["curves"]
                if self._drawn and (version == self._drawn_version or monotonic() < self._next):
                    return self._drawn
                seen: Snapshot = snapshot(self.run)
            template = environment().get_template("curves.html")
            self._drawn = template.render(draw_all(seen, "/numbers/"))
            self._drawn_version, self._next = version, monotonic() + REDRAWN
            return self._drawn

    def numbers(self, name: str) -> str | None:
        """Return the numbers behind a plot as CSV."""
        with self._lock:
            if name == "confusion":
                return confusion_csv(self.run)
            if name == BY_CLASS:
                return scores_csv(self.run.confusion)
            plots = {plot.name: plot for plot in plots_of({self.run.name: self.run})}
            return plots[name].to_csv() if name in plots else None

    def table(self) -> str:
        """Return all suspects as CSV."""
        with self._lock:
            return suspects_csv(self.run)

    def suspects(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return one page of the suspects that match a query."""
        page = number(query, "page", 0, int)
        matches = self._filter(query)
        with self._lock:
            run = self.run
            run.refresh()
            found = [suspect for suspect in run.suspects if matches(suspect)]
            found_now = run.suspects.read(found[page * PAGE : (page + 1) * PAGE])
            items = [
                one.to_json() | {"preview": listed(one.preview), "decision": self._decision(one.id)}
                for one in found_now
            ]
            decided = len(run.decisions.decided())
            page_of = self._list(items, len(found), len(run.suspects), decided)
            empty = [] if found else nothing_left(run, len(run.suspects), which_of(query))
            return page_of | {"empty": empty}

    def audit(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return one page of the audit sample, and what its decided rows show."""
        page, which = number(query, "page", 0, int), which_of(query)
        with self._lock:
            run = self.run
            run.refresh()
            decided = run.decisions.decided()
            found = [row for row in run.audit if is_wanted(which, row.id in decided)]
            items = [
                row.to_json() | {"decision": self._decision(row.id)}
                for row in found[page * PAGE : (page + 1) * PAGE]
            ]
            tally = run.audit.tally(run.decisions)
            page_of = self._list(items, len(found), tally.rows, tally.audited)
            return page_of | {"text": tally.text}

    def neighbours(self, name: str) -> dict[str, Any]:
        """Return all of a suspect: its preview, its neighbours, and the decision in force."""
        with self._lock:
            self.run.decisions.refresh()
            found = [neighbour.to_json() for neighbour in self._neighbours.of(name)]
            known = self.run.suspects.get(name)
            complete = self.run.suspects.read([known]) if known else []
            preview = dict(complete[0].preview) if complete else {}
            return {"neighbours": found, "decision": self._decision(name), "preview": preview}

    def decide(self, body: bytes) -> dict[str, Any]:
        """Write a decision, and return it with what was in force before."""
        request = read_request(body)
        name, action, label = (request.get(key) for key in ("id", "decision", "label"))
        if not isinstance(name, str) or len(name) > LONGEST or action not in ACTIONS:
            raise BadRequestError("A decision has an id and one of " + ", ".join(ACTIONS) + ".")
        if action == "relabel" and not isinstance(label, str):
            raise BadRequestError("A decision to relabel needs a label.")
        author = request.get("author")
        with self._lock:
            self.run.refresh()
            run = self.run
            known = run.suspects.get(name) or run.audit.get(name) or run.decisions.of(name)
            if known is None:
                raise BadRequestError("There is no suspect of this id any more.")
            if action == "relabel" and not self.run.takes(str(label)):
                raise BadRequestError("There is no class of this name.")
            made = self.run.decisions.decide(
                Decision(
                    name,
                    action,
                    label if action == "relabel" else None,
                    known.given,
                    known.row,
                    author if isinstance(author, str) and author.strip() else self.author,
                    suggested=known.suggested,
                )
            )
            self.run.versions["suspects"] += 1
            return {"decision": made.to_json(), "changed": made.previous}

    def _list(self, items: object, total: int, rows: int, decided: int) -> dict[str, Any]:
        """Return a page of rows, with what is common to all lists of rows."""
        return {
            "items": items,
            "total": total,
            "all": rows,
            "size": PAGE,
            "classes": self.run.classes,
            "decided": decided,
            "version": self.run.versions["suspects"],
        }

    def _decision(self, name: str) -> dict[str, Any] | None:
        found = self.run.decisions.of(name)
        return None if found is None else found.to_json()

    def _filter(self, query: Mapping[str, str]) -> Callable[[Suspect], bool]:
        """Return the test of whether a suspect matches a query."""
        low, high = number(query, "low", 0.0, float), number(query, "high", 1.0, float)
        given, suggested = query.get("given"), query.get("suggested")
        which = which_of(query)
        with self._lock:
            decided = self.run.decisions.decided()

        def matches(suspect: Suspect) -> bool:
            return (
                low <= suspect.score <= high
                and given in (None, suspect.given)
                and suggested in (None, suspect.suggested)
                and is_wanted(which, suspect.id in decided)
            )

        return matches


def which_of(query: Mapping[str, str]) -> str:
    """Return which rows a query is for."""
    which = query.get("which", "open")
    if which not in ("open", "decided", "all"):
        raise BadRequestError("Rows are open, decided, or all.")
    return which


def is_wanted(which: str, decided: bool) -> bool:
    """Return whether a row is one of those that a query is for."""
    return which == "all" or decided == (which == "decided")


def number(query: Mapping[str, str], name: str, default: Any, kind: type) -> Any:
    """Return a number from a query."""
    try:
        value = kind(query.get(name, default))
    except ValueError:
        raise BadRequestError(f"{name} is a number.") from None
    if not 0 <= value <= 2**31:
        raise BadRequestError(f"{name} is a number of 0 or more.")
    return value


def read_request(body: bytes) -> dict[str, Any]:
    """Return the JSON object in the body of a request."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        raise BadRequestError("The request is not JSON.") from None
    if not isinstance(request, dict):
        raise BadRequestError("The request is not a JSON object.")
    return request
