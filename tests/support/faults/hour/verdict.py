"""What came of it, beside the unbroken run: one line for every check."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from safetensors.torch import load_file

from tamis.checkpoint.manifest import read_manifest
from tamis.runs import Run, RunFiles
from tests.support.faults.hour.consumers import Consumer, tape_of
from tests.support.faults.hour.play import Played
from tests.support.faults.hour.tape import Tape
from tests.support.identical import identical

GIVEN = ("ids", "known", "applied")
MADE = ("held", "picked", "weights")
EARLY, GROWTH = 5.0, 1.1
"""Minute whose memory that of the end is compared with, and the largest factor of the two."""


@dataclass(frozen=True)
class Check:
    """One line of the verdict."""

    name: str
    figure: str
    met: bool

    def __str__(self) -> str:
        return f"| {self.name} | {self.figure} | {'yes' if self.met else '**no**'} |"


def judge(played: Played) -> list[Check]:
    """Return all checks, once the unbroken runs have come to their ends."""
    for consumer in played.consumers:
        consumer.end_unbroken()
    return [
        faults(played),
        *map(weights, played.consumers),
        ids(played, "files", played.consumers[:1]),
        ids(played, "redis", played.consumers[1:]),
        rejected(played),
        decisions(played),
        suspects(played),
        outputs(played),
        memory(played),
    ]


def table(checks: list[Check]) -> str:
    return "\n".join(["| check | figure | met |", "| --- | --- | --- |", *map(str, checks)])


def listed(counts: Counter[str] | dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items()) or "none"


def faults(played: Played) -> Check:
    """Count what was done to the runs."""
    ended = {one.name: sum(one.ended.values()) for one in played.consumers}
    ways = sum((Counter(one.ended) for one in played.consumers), Counter())
    names = ["rotation", "Redis killed", *(["disk full"] if played.mounted else [])]
    others = {name: played.events[name] for name in names}
    figure = f"{played.seconds / 60:.1f} minutes; {listed(ways)}; {listed(others)}"
    figure += "" if played.mounted else "; no disk to fill: mounting one needs root"
    return Check("faults", figure, all(ended.values()) and all(others.values()))


def weights(consumer: Consumer) -> Check:
    """Compare a run with the unbroken one, slot by slot and in the model that it left."""
    folder = consumer.unbroken_folder
    ours, tape = consumer.tape, Tape(tape_of(folder))
    models = [load_file(place / RunFiles.model) for place in (consumer.run, folder)]
    same = identical(*models) and list(ours.slots) == list(tape.slots)
    where = first_difference(ours, tape)
    done = f"{ours.last + 1} slots, {ours.lines} trained with those done again"
    figure = f"{done}: {where or ('bit for bit' if same else 'the models differ')}"
    return Check(f"weights of {consumer.name}, beside the unbroken run", figure, same and not where)


def first_difference(ours: Tape, other: Tape) -> str:
    """Return where two tapes first differ, and in what; empty where they do not."""
    for number in sorted(ours.slots):
        one, two = ours.slots[number], other.slots.get(number, {})
        found = [name for name in (*GIVEN, *MADE) if one.get(name) != two.get(name)]
        if found:
            starts = [at.slot for at in ours.starts if at.slot is not None and at.slot <= number]
            start = max(starts, default=0)
            return (
                f"differ from slot {number} on, in {', '.join(found)}; the process then training "
                f"had begun at slot {start}"
            )
    return ""


def ids(played: Played, name: str, consumers: list[Consumer]) -> Check:
    """Compare the rows trained on with those sent, over all consumers of a source."""
    ledger = played.ledgers[name]
    seen: Counter[int] = Counter()
    for consumer in consumers:
        seen.update(consumer.tape.ids())
    lost = sorted(ledger.good - seen.keys())
    twice = sorted(number for number, times in seen.items() if times > 1)
    bad = sorted(ledger.faults.keys() & seen.keys())
    shares = "" if len(consumers) < 2 else f" ({' and '.join(share(one) for one in consumers)})"
    figure = (
        f"{len(ledger.truth)} sent, {len(ledger.faults)} of them bad; {len(seen)} trained on"
        f"{shares}, {named(lost)} lost, {named(twice)} twice, {named(bad)} bad"
    )
    return Check(f"rows of {name}", figure, not (lost or twice or bad))


def share(consumer: Consumer) -> str:
    return f"{len(consumer.tape.ids())} by {consumer.name}"


def named(numbers: list[int]) -> str:
    """Return how many, and the first of them."""
    return f"{len(numbers)} ({', '.join(map(str, numbers[:5]))})" if numbers else "0"


def rejects_of(consumer: Consumer) -> Counter[str]:
    """Return the rejected rows by reason, from the last checkpoint."""
    newest = max((consumer.run / RunFiles.checkpoints).iterdir(), key=lambda path: path.name)
    offset: Any = read_manifest(newest).offset
    return Counter(offset["rejects"]["counts"])


def rejected(played: Played) -> Check:
    """Compare the rows rejected with the bad ones sent."""
    found = sum((rejects_of(consumer) for consumer in played.consumers), Counter())
    sent = sum((ledger.counts for ledger in played.ledgers.values()), Counter())
    figure = f"{found.total()} of {sent.total()} bad rows: {listed(found)}"
    return Check("rows rejected, by reason", figure, found.total() == sent.total())


def decisions(played: Played) -> Check:
    """Count the decisions, and the slots at which they took effect."""
    made = sum((one.made for one in played.reviewers), Counter())
    refused = sum((one.refused for one in played.reviewers), Counter())
    lines, applied = 0, 0
    for consumer in played.consumers:
        last = consumer.tape.slots.get(consumer.tape.last, {})
        path = consumer.run / RunFiles.decisions
        lines += len(path.read_text().splitlines()) if path.exists() else 0
        applied += last.get("applied", 0)
    words = {f"refused with status {status}": number for status, number in refused.items()}
    figure = f"{listed(made)}; {applied} of {lines} lines met by a slot; {listed(words)}"
    return Check("decisions of the reviewer", figure, made.total() == lines and lines > 0)


def suspects(played: Played) -> Check:
    """Read the suspects that each run has left."""
    counts = {}
    for consumer in played.consumers:
        run = Run(consumer.run)
        read = run.suspects.read(list(run.suspects))
        counts[consumer.name] = len(read) if len(read) == len(run.suspects) else 0
    figure = ", ".join(f"{number} of {name}" for name, number in counts.items())
    return Check("suspects that can be read", figure, all(counts.values()))


def outputs(played: Played) -> Check:
    """Look for tracebacks in all that was printed."""
    files = sorted(played.folder.glob("*.txt"))
    texts = {path.name: path.read_text(errors="replace") for path in files}
    broken = [name for name, text in texts.items() if "Traceback" in text]
    warned = Counter(
        kind for text in texts.values() for kind in re.findall(r"\b([A-Z]\w+Warning)\b", text)
    )
    odd = {name: status for name, status in played.ends.items() if status not in (0, 130)}
    figure = f"{len(broken)} of {len(files)} with a traceback; warnings: {listed(warned)}"
    figure += f"; ended otherwise than by 0: {listed(odd)}" if odd else ""
    return Check("what all processes printed", figure, not broken and not odd)


def memory(played: Played) -> Check:
    """Compare the memory at the end with that of the fifth minute.

    Consumers are resumed over and over, so growth is judged by what ran all the time: the unbroken
    runs and the pages. A play of less than ten minutes shows no growth: all is still beginning.
    """
    early = min(EARLY, played.seconds / 240)
    restarted = {consumer.name for consumer in played.consumers}
    parts, worst = [], 0.0
    for name in sorted({name for _, name, _ in played.memory}):
        samples = [(minute, size) for minute, other, size in played.memory if other == name]
        then = [size for minute, size in samples if minute >= early][:30]
        now = [size for _, size in samples][-30:]
        if then:
            worst = worst if name in restarted else max(worst, max(now) / max(then))
            parts.append(f"{name} {max(then) / 2**20:.0f} and {max(now) / 2**20:.0f}")
    figure = f"{'; '.join(parts)} MB; the largest factor of those never restarted is {worst:.2f}"
    judged = played.seconds >= 120 * EARLY
    figure += "" if judged else "; not judged, too short a play"
    return Check(
        f"memory at minute {early:.0f} and at the end", figure, worst < GROWTH or not judged
    )
