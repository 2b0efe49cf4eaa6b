"""Streams whose labels come from several annotators."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from tamis.streams import Crowd, CrowdStream


def stream_of(**settings) -> CrowdStream:
    inputs, labels = torch.arange(60.0)[:, None], torch.arange(60) % 3
    crowd = settings.pop("crowd", None) or Crowd.draw(5, 3, seed=1)
    return CrowdStream(inputs, labels, crowd, **settings)


def test_iterating_twice_yields_the_same() -> None:
    stream = stream_of(per_row=(1, 3), rows_per_slot=4, spread=3)
    for one, other in zip(stream, stream, strict=True):
        assert one.events == other.events
        assert torch.equal(one.samples.inputs, other.samples.inputs)
    another = stream_of(per_row=(1, 3), rows_per_slot=4, spread=3, seed=1)
    assert [e.events for e in stream] != [e.events for e in another]


def test_every_row_comes_once_with_labels_of_different_annotators() -> None:
    stream = stream_of(per_row=3, rows_per_slot=4)
    given: dict[int, list[int]] = {}
    ids, inputs = [], []
    for events in stream:
        ids += events.samples.ids.tolist()
        inputs.append(events.samples.inputs[:, 0].long())
        for event in events.events:
            given.setdefault(event.id, []).append(event.annotator)
    assert ids == list(range(60))
    assert torch.equal(torch.cat(inputs), stream.order())
    assert all(len(set(who)) == 3 for who in given.values())


def test_labels_are_late_by_no_more_than_the_spread() -> None:
    came: dict[int, int] = {}
    late = []
    for slot, events in enumerate(stream_of(per_row=4, rows_per_slot=4, spread=2)):
        for event in events.events:
            came.setdefault(event.id, slot)
            late.append(slot - came[event.id])
            assert event.row is None or slot == came[event.id]
    assert set(late) == {0, 1, 2}


def test_passes_follow_where_more_slots_are_wanted() -> None:
    stream = stream_of(slots=50, rows_per_slot=3)
    assert len(list(stream)) == len(stream) == 50
    assert Counter(stream.order()[:120].tolist()) == Counter(2 * list(range(60)))


def test_labels_are_as_good_as_the_confusions() -> None:
    crowd = Crowd.draw(6, 4, accuracy=0.8, spammers=2, turns=0.5, seed=3)
    assert torch.allclose(crowd.confusions.sum(dim=2), torch.ones(6, 4))
    generator = torch.Generator().manual_seed(0)
    truth = torch.randint(4, (4000,), generator=generator)
    for annotator in range(6):
        who = torch.full_like(truth, annotator)
        right = [
            (crowd.label(truth, who, time, generator) == truth).float().mean().item()
            for time in (0.2, 0.8)
        ]
        expected = crowd.confusions[annotator].diagonal().mean().item()
        assert right[0] == pytest.approx(expected, abs=0.04)
        assert right[1] == pytest.approx(0.25 if annotator == 5 else expected, abs=0.04)
    assert crowd.confusions[:2].diagonal(dim1=1, dim2=2).mean() < 0.5


def test_more_labels_than_annotators_are_refused() -> None:
    with pytest.raises(ValueError, match="from 1 to 5 labels"):
        stream_of(per_row=6)
