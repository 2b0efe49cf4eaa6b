"""The waiting room: joins in either order, limits by number and by time, saved and restored."""

from __future__ import annotations

import pytest
import torch

from tamis.buffers import WaitingRoom
from tamis.buffers.waiting import Predicted
from tamis.data import UNLABELLED, Event, Samples


def rows(*ids: int) -> tuple[Samples, Predicted]:
    """Return rows whose inputs, predictions and confidences follow from their ids."""
    numbers = torch.tensor(ids)
    labels = torch.full_like(numbers, UNLABELLED)
    samples = Samples(
        numbers[:, None].float() * torch.ones(3), labels, numbers, torch.zeros_like(numbers)
    )
    return samples, Predicted(numbers % 7, numbers / 1000)


def filled(room: WaitingRoom, *ids: int, times: list[float | None] | None = None) -> WaitingRoom:
    room.add(*rows(*ids), times or [None] * len(ids))
    return room


def content(room: WaitingRoom) -> dict[int, list[float]]:
    pool = room.pool()
    return dict(zip(pool.ids.tolist(), pool.inputs.tolist(), strict=True))


def test_a_row_is_taken_as_it_came_with_its_prediction() -> None:
    room = filled(WaitingRoom(), 3, 5, 8)
    samples, predicted = room.take(5)
    assert samples.ids.tolist() == [5]
    assert samples.inputs.tolist() == [[5.0] * 3]
    assert predicted.classes.tolist() == [5]
    assert predicted.confidence.tolist() == pytest.approx([0.005])
    assert content(room) == {3: [3.0] * 3, 8: [8.0] * 3}


def test_the_row_that_waits_longest_leaves_first() -> None:
    room = filled(WaitingRoom(rows=3), 1, 2, 3)
    room.take(2)
    filled(room, 4, 5, 6)
    assert content(room) == {4: [4.0] * 3, 5: [5.0] * 3, 6: [6.0] * 3}
    assert room.unlabelled == 2


def test_never_more_than_its_limit_at_random() -> None:
    draw = torch.Generator().manual_seed(0)
    room, naive = WaitingRoom(rows=20), {}
    left = 0
    for row_id in range(500):
        if naive and torch.rand((), generator=draw) < 0.4:
            gone = list(naive)[int(torch.randint(len(naive), (), generator=draw))]
            assert room.take(gone)[0].inputs.tolist() == [naive.pop(gone)]
        filled(room, row_id)
        naive[row_id] = [float(row_id)] * 3
        if len(naive) > 20:
            del naive[next(iter(naive))]
            left += 1
        assert len(room) <= 20
        assert content(room) == naive
    assert room.unlabelled == left > 0


def test_what_waits_too_long_by_the_time_of_events_leaves() -> None:
    room = WaitingRoom(seconds=10)
    room.set_clock(100.0)
    filled(room, 1, 2, times=[95.0, None])
    room.hold_label(Event(7, None, 1, time=96.0))
    room.set_clock(105.0)
    assert list(content(room)) == [1, 2]
    room.set_clock(107.0)
    assert list(content(room)) == [2]
    assert (room.unlabelled, room.unmatched, room.waiting_labels) == (1, 1, 0)
    room.set_clock(50.0)  # an event that is late does not turn the clock back
    room.set_clock(110.5)
    assert not len(room)


def test_rows_from_before_the_first_time_have_that_time() -> None:
    room = filled(WaitingRoom(seconds=10), 1)
    room.set_clock(100.0)
    assert len(room) == 1
    room.set_clock(111.0)
    assert not len(room)


def test_labels_wait_for_rows_within_the_same_limit() -> None:
    room = WaitingRoom(rows=2)
    for number in range(3):
        room.hold_label(Event(number, None, 4 + number))
    assert room.unmatched == 1
    assert not room.pop_labels(0)
    assert [event.label for event in room.pop_labels(2)] == [6]
    assert room.waiting_labels == 1


def test_saved_and_restored_it_goes_on_as_before() -> None:
    room = filled(WaitingRoom(rows=4, seconds=10), 1, 2, 3)
    room.set_clock(5.0)
    room.take(1)
    filled(room, 4)
    room.hold_label(Event(9, None, 1, annotator=2, name="nine"))
    again = WaitingRoom(rows=4, seconds=10)
    again.load_state_dict(room.state_dict())
    for one in (room, again):
        filled(one, 5, 6)
    assert content(room) == content(again)
    assert room.pool().ids.tolist() == again.pool().ids.tolist()
    assert (again.unlabelled, again.unmatched) == (room.unlabelled, room.unmatched)
    assert again.pop_labels(9) == room.pop_labels(9) == [Event(9, None, 1, 2, 5.0, "nine")]


def test_a_state_that_does_not_fit_is_refused() -> None:
    state = filled(WaitingRoom(rows=4), 1, 2, 3).state_dict()
    with pytest.raises(ValueError, match="cannot hold"):
        WaitingRoom(rows=2).load_state_dict(state)
    with pytest.raises(ValueError, match="counts in integers"):
        WaitingRoom(rows=4).load_state_dict(state | {"counts": state["counts"] | {"came": -1}})


def test_a_room_for_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="1 row or more"):
        WaitingRoom(rows=0)
    with pytest.raises(ValueError, match="1 row or more"):
        WaitingRoom(seconds=0)
