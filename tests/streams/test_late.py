"""Streams whose labels come late: every label once where it should, the same events each time."""

from __future__ import annotations

from collections import Counter

import torch

from tamis.data import Events, Samples
from tamis.streams import LateLabels


def rows(slots: int, each: int = 3) -> list[Samples]:
    labels = torch.randint(4, (slots, each), generator=torch.Generator().manual_seed(0))
    return [
        Samples.of(torch.full((each, 2), float(slot)), labels[slot], slot * each)
        for slot in range(slots)
    ]


def labels_by_id(stream: LateLabels) -> dict[int, list[tuple[int, int | None]]]:
    """Return the slot and the label of each event that is no row alone, by id."""
    found: dict[int, list[tuple[int, int | None]]] = {}
    for slot, events in enumerate(stream):
        for event in events.events:
            if event.row is None or event.label is not None:
                found.setdefault(event.id, []).append((slot, event.label))
    return found


def test_every_row_comes_in_its_slot_without_its_label() -> None:
    stream = list(LateLabels(rows(20), 5))
    for slot, events in enumerate(stream[:20]):
        assert events.samples.ids.tolist() == [3 * slot, 3 * slot + 1, 3 * slot + 2]
        assert events.samples.labels.tolist() == [-1] * 3
    assert not any(len(events.samples) for events in stream[20:])


def test_labels_come_within_the_spread_and_once() -> None:
    given = {int(i): int(y) for s in rows(100) for i, y in zip(s.ids, s.labels, strict=True)}
    found = labels_by_id(LateLabels(rows(100), 20, spread=0.25))
    assert {i: [label for _, label in came] for i, came in found.items()} == {
        i: [label] for i, label in given.items()
    }
    delays = [came[0][0] - i // 3 for i, came in found.items()]
    assert (min(delays), max(delays)) == (15, 25)
    assert sorted(found, key=lambda i: found[i][0][0]) != sorted(found)  # shuffled


def test_some_come_twice_some_are_withdrawn_last_and_some_never_come() -> None:
    stream = LateLabels(rows(400), 20, repeated=0.3, withdrawn=0.2, missing=0.25)
    found = labels_by_id(stream)
    assert 0.7 < len(found) / 1200 < 0.8
    kinds = Counter(len([y for _, y in came if y is not None]) for came in found.values())
    assert 0.25 < kinds[2] / len(found) < 0.35
    gone = [came for came in found.values() if None in [label for _, label in came]]
    assert 0.15 < len(gone) / len(found) < 0.25
    assert all(came[-1][1] is None for came in gone)
    assert all(slot < came[-1][0] for came in gone for slot, _ in came[:-1])


def test_on_time_the_same_labels_are_known_in_the_same_slots() -> None:
    kinds = {"repeated": 0.3, "withdrawn": 0.2, "missing": 0.25}
    late = labels_by_id(LateLabels(rows(200), 20, **kinds))  # type: ignore[arg-type]
    on_time = labels_by_id(LateLabels(rows(200), 20, on_time=True, **kinds))  # type: ignore[arg-type]
    assert {i: (came[0], came[-1][1] is None) for i, came in late.items()} == {
        i: (came[0], came[-1][1] is None) for i, came in on_time.items()
    }
    for events in LateLabels(rows(200), 20, on_time=True):
        with_rows = [event for event in events.events if event.row is not None]
        assert [event.id for event in with_rows] == events.samples.ids.tolist()
        assert [event.label for event in with_rows] == events.samples.labels.tolist()


def test_the_same_seed_gives_the_same_events() -> None:
    def events(seed: int) -> list[tuple[object, ...]]:
        stream: list[Events] = list(LateLabels(rows(50), 9, repeated=0.2, seed=seed))
        return [part.events for part in stream]

    assert events(1) == events(1) != events(2)
