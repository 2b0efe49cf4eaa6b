"""Numbers of a service in the text format of Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from threading import Lock

from tamis.buffers import WaitingRoom
from tamis.web.service import Service

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper bounds of the buckets of seconds."""
KIND = "text/plain; version=0.0.4"
Sample = tuple[Mapping[str, str], float | None]


class Latencies:
    """Seconds from the head of a request to the end of its answer, by path, in buckets."""

    def __init__(self) -> None:
        self._buckets: dict[str, list[int]] = defaultdict(lambda: [0] * (len(BOUNDS) + 1))
        self._sums: dict[str, float] = defaultdict(float)
        self.statuses: Counter[tuple[str, int]] = Counter()
        self._lock = Lock()

    def update(self, path: str, status: int, seconds: float) -> None:
        """Count one request."""
        with self._lock:
            self._buckets[path][bisect_left(BOUNDS, seconds)] += 1
            self._sums[path] += seconds
            self.statuses[path, status] += 1

    def lines(self, name: str) -> Iterable[str]:
        """Yield the histogram."""
        yield f"# HELP {name} Seconds from a request to its answer."
        yield f"# TYPE {name} histogram"
        with self._lock:
            for path, buckets in sorted(self._buckets.items()):
                total = 0
                for bound, count in zip((*BOUNDS, "+Inf"), buckets, strict=True):
                    total += count
                    yield f"{name}_bucket{labels({'path': path, 'le': str(bound)})} {total}"
                yield f"{name}_sum{labels({'path': path})} {self._sums[path]:.6f}"
                yield f"{name}_count{labels({'path': path})} {total}"


def metrics_text(service: Service, latencies: Latencies) -> str:
    """Return all numbers of a service."""
    trainer, journal, counts = service.run.trainer, service.journal, service.counts
    rejects = trainer.validator.rejects
    room = trainer.waiting if trainer.waiting is not None else WaitingRoom()
    counters: dict[str, tuple[str, Iterable[Sample]]] = {
        "slots": ("Slots trained.", [({}, trainer.slots)]),
        "rows": ("Rows accepted.", [({}, counts["rows"])]),
        "labels": ("Labels accepted, withdrawals among them.", [({}, counts["labels"])]),
        "compared": (
            "Labels compared with the prediction made before.",
            [({}, counts["compared"])],
        ),
        "predicted": ("Of these, labels that were predicted.", [({}, counts["predicted"])]),
        "requests": (
            "Requests answered.",
            [
                ({"path": path, "status": str(status)}, count)
                for (path, status), count in sorted(latencies.statuses.items())
            ],
        ),
        "rejected": (
            "Rows and labels that were accepted and could not be trained on.",
            [({"reason": reason}, count) for reason, count in sorted(rejects.counts.items())],
        ),
    }
    gauges: dict[str, tuple[str, float | None]] = {
        "requests_waiting": ("Rows and labels that wait for an answer.", service.waiting),
        "journal_unread": ("Records that wait to be trained on.", journal.behind()),
        "journal_bytes": ("Bytes of the journal.", journal.size),
        "rows_held": ("Rows in the buffer.", trainer.held_count),
        "rows_waiting": ("Rows that wait for a label.", len(room)),
        "labels_waiting": ("Labels that wait for a row.", room.waiting_labels),
        "labelled_ratio": ("Share of the rows that have had a label.", room.labelled),
        "clean_ratio": ("Estimated share of right labels.", service.clean_ratio),
        "model_slots": ("Slots of the model that predicts.", service.model.slots),
        "classes": ("Number of classes.", len(service.classes)),
    }
    lines = [line for name, found in counters.items() for line in metric(name, "counter", *found)]
    for name, (text, value) in gauges.items():
        lines += metric(name, "gauge", text, [({}, value)])
    lines += latencies.lines("tamis_request_seconds")
    return "\n".join(lines) + "\n"


def metric(name: str, kind: str, text: str, samples: Iterable[Sample]) -> Iterable[str]:
    """Yield the lines of one metric; none where it has no value."""
    full = f"tamis_{name}{'_total' if kind == 'counter' else ''}"
    found = [f"{full}{labels(given)} {value:g}" for given, value in samples if value is not None]
    if found:
        yield f"# HELP {full} {text}"
        yield f"# TYPE {full} {kind}"
        yield from found


def labels(given: Mapping[str, str]) -> str:
    r"""Return the labels of a sample.

    >>> labels({"reason": 'no "x"'})
    '{reason="no \\"x\\""}'
    """
    if not given:
        return ""
    inside = ",".join(f'{name}="{escape(value)}"' for name, value in given.items())
    return f"{{{inside}}}"


def escape(text: str) -> str:
    """Return a label's value with what the format reserves escaped."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
