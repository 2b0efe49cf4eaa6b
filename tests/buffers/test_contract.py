"""What every buffer keeps, found by walking the package."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from tempfile import gettempdir
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator

from tamis import buffers
from tamis.buffers import BUFFERS, Buffer
from tamis.data import Samples

ON_DISK = [partial(kind, disk=gettempdir()) for kind in BUFFERS]
"""Their inputs are in files without a name: nothing is left behind."""
Kind = Callable[[int], Any]
every_buffer = pytest.mark.parametrize(
    "kind",
    [*BUFFERS, *ON_DISK],
    ids=[f"{kind.__name__}{where}" for where in ("", " on disk") for kind in BUFFERS],
)


def seeded(seed: int = 0) -> Generator:
    return torch.Generator().manual_seed(seed)


def arrivals(count: int, first: int = 0) -> Samples:
    """Rows with their id in every column, so that a mix-up shows."""
    ids = torch.arange(first, first + count)
    return Samples.of(
        torch.stack([ids, 10 * ids], dim=1).float(), ids % 3, first, clean=ids % 2 == 0
    )


def feed(kind: Kind, capacity: int, chunks: Sequence[int], seed: int = 0) -> Buffer:
    buffer, generator, arrived = kind(capacity), seeded(seed), 0
    for count in chunks:
        buffer.append(arrivals(count, arrived), generator)
        arrived += count
    return buffer


def aligned(pool: Samples) -> bool:
    """Each row's columns hold the same id, and no id is held twice."""
    ids = pool.ids
    assert pool.clean is not None
    return (
        torch.equal(pool.inputs, torch.stack([ids, 10 * ids], dim=1).float())
        and torch.equal(pool.labels, ids % 3)
        and torch.equal(pool.clean, ids % 2 == 0)
        and len(ids.unique()) == len(ids)
    )


def test_every_buffer_is_listed() -> None:
    found = {
        member
        for module in pkgutil.walk_packages(buffers.__path__, "tamis.buffers.")
        for name, member in inspect.getmembers(import_module(module.name), inspect.isclass)
        if member.__module__ == module.name
        and not name.startswith("_")
        and "append" in vars(member)
    }
    assert found - {Buffer} == set(BUFFERS)
    assert len(set(BUFFERS)) == len(BUFFERS)


@every_buffer
@given(capacity=st.integers(1, 12), chunks=st.lists(st.integers(0, 20), min_size=1, max_size=8))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_any_chunking_keeps_the_rows_complete(kind: Kind, capacity: int, chunks: list[int]) -> None:
    buffer, generator, arrived = kind(capacity), seeded(), 0
    for count in chunks:
        buffer.append(arrivals(count, arrived), generator)
        arrived += count
        assert len(buffer) == min(arrived, capacity)
        if arrived:
            pool = buffer.pool()
            assert len(pool) == len(buffer)
            assert aligned(pool)
            assert pool.ids.max() < arrived
            if arrived <= capacity:
                assert pool.ids.tolist() == list(range(arrived))


@every_buffer
@pytest.mark.parametrize(("capacity", "chunk"), [(1, 1), (1, 10), (5, 6), (5, 100)])
def test_a_chunk_larger_than_the_buffer(kind: Kind, capacity: int, chunk: int) -> None:
    buffer = feed(kind, capacity, [chunk, chunk])
    assert len(buffer) == len(buffer.pool()) == capacity
    assert aligned(buffer.pool())


@every_buffer
def test_uses_stay_with_their_rows_and_newcomers_bring_their_own(kind: Kind) -> None:
    buffer, generator = kind(20), seeded()
    buffer.append(arrivals(20), generator)
    buffer.use(torch.arange(20))
    buffer.use(torch.arange(0, 20, 2))
    before = dict(zip(buffer.pool().ids.tolist(), buffer.pool().uses.tolist(), strict=True))
    newcomers = arrivals(30, first=20)
    buffer.append(newcomers[slice(15)], generator)
    buffer.append(replace(newcomers, uses=torch.full((30,), 7))[slice(15, None)], generator)
    for row_id, uses in zip(buffer.pool().ids.tolist(), buffer.pool().uses.tolist(), strict=True):
        assert uses == (before[row_id] if row_id < 20 else 0 if row_id < 35 else 7)


@every_buffer
def test_a_row_given_twice_counts_twice(kind: Kind) -> None:
    buffer = feed(kind, 5, [4])
    assert buffer.pool().uses.tolist() == [0, 0, 0, 0]
    buffer.use(torch.tensor([1, 3, 1]))
    buffer.use(torch.tensor([1]))
    buffer.use(torch.tensor([], dtype=torch.long))
    assert buffer.pool().uses.tolist() == [0, 3, 0, 1]


@every_buffer
def test_the_pool_is_a_view_and_appending_never_copies_what_is_there(kind: Kind) -> None:
    buffer, generator = kind(10), seeded()
    buffer.append(arrivals(3), generator)
    before = {name: column.data_ptr() for name, column in buffer.pool().columns().items()}
    for first in range(3, 60, 3):
        buffer.append(arrivals(3, first), generator)
        after = {name: column.data_ptr() for name, column in buffer.pool().columns().items()}
        assert after == before


@every_buffer
def test_what_was_given_may_change_afterwards(kind: Kind) -> None:
    given_rows = arrivals(4)
    buffer = kind(10)
    buffer.append(given_rows, seeded())
    given_rows.inputs.zero_()
    assert aligned(buffer.pool())


@every_buffer
def test_same_seed_same_rows(kind: Kind) -> None:
    first, again = (feed(kind, 10, [7, 20, 33], seed=5).pool() for _ in range(2))
    for name, column in first.columns().items():
        assert torch.equal(column, again.columns()[name])


@every_buffer
def test_images_are_held_as_they_are(kind: Kind) -> None:
    images = torch.rand(6, 3, 4, 4, generator=seeded())
    buffer = kind(10)
    buffer.append(Samples.of(images, torch.zeros(6, dtype=torch.long)), seeded())
    assert torch.equal(buffer.pool().inputs, images)
    assert buffer.pool().clean is None


@every_buffer
def test_an_empty_buffer_is_an_error(kind: Kind) -> None:
    buffer = kind(3)
    assert len(buffer) == 0
    for _ in range(2):
        with pytest.raises(ValueError, match="buffer is empty: append samples before"):
            buffer.pool()
        buffer.append(arrivals(0), seeded())


@every_buffer
@pytest.mark.parametrize("capacity", [0, -1])
def test_no_room_at_all_is_refused(kind: Kind, capacity: int) -> None:
    with pytest.raises(ValueError, match=f"at least 1 row, got capacity={capacity}"):
        kind(capacity)


@every_buffer
@pytest.mark.parametrize("known_first", [True, False])
def test_samples_with_and_without_clean_do_not_mix(kind: Kind, known_first: bool) -> None:
    known = arrivals(2)
    unknown = replace(known, clean=None)
    buffer = kind(10)
    buffer.append(known if known_first else unknown, seeded())
    with pytest.raises(ValueError, match="Either all samples of a stream have"):
        buffer.append(unknown if known_first else known, seeded())
    assert len(buffer) == 2


def same_rows(one: Samples, other: Samples) -> bool:
    ours, theirs = one.columns(), other.columns()
    return ours.keys() == theirs.keys() and all(ours[name].equal(theirs[name]) for name in ours)


def same_from_here(buffer: Buffer, other: Buffer) -> bool:
    """Two buffers hold the same rows, and still do however many more arrive."""
    generators = seeded(1), seeded(1)
    for first in range(1000, 1060, 6):
        if len(buffer) + len(other) and not same_rows(buffer.pool(), other.pool()):
            return False
        for one, generator in zip((buffer, other), generators, strict=True):
            one.append(arrivals(6, first), generator)
    return same_rows(buffer.pool(), other.pool())


@every_buffer
@pytest.mark.parametrize("chunks", [[12], [9, 40]], ids=["with room", "full"])
def test_relabelled_rows_have_the_new_label_and_count_as_clean(
    kind: Kind, chunks: list[int]
) -> None:
    buffer = feed(kind, 20, chunks)
    before = {name: column.clone() for name, column in buffer.pool().columns().items()}
    rows = torch.tensor([1, 4, 7])
    labels = (before["labels"][rows] + 1) % 3
    ids = torch.cat([before["ids"][rows], torch.tensor([99_999, -1])])
    assert buffer.relabel(ids, torch.cat([labels, torch.tensor([0, 1])])) == 3
    pool = buffer.pool()
    assert pool.clean is not None
    assert pool.labels[rows].equal(labels)
    assert pool.clean[rows].all()
    others = torch.ones(len(pool), dtype=torch.bool)
    others[rows] = False
    for name, column in pool.columns().items():
        assert column[others].equal(before[name][others])
        assert name in ("labels", "clean") or column.equal(before[name])
    assert buffer.relabel(ids[:3], labels) == 0


@every_buffer
@pytest.mark.parametrize("chunks", [[12], [9, 40]], ids=["with room", "full"])
def test_removed_rows_are_gone_and_the_others_keep_their_order(
    kind: Kind, chunks: list[int]
) -> None:
    buffer = feed(kind, 20, chunks)
    buffer.use(torch.arange(0, len(buffer), 2))
    ids, uses = buffer.pool().ids.tolist(), buffer.pool().uses.tolist()
    used = dict(zip(ids, uses, strict=True))
    gone = [ids[row] for row in (0, 5, 6, len(ids) - 1)]
    assert buffer.remove(torch.tensor([*gone, 99_999, -1, gone[0]])) == 4
    left = [id_ for id_ in ids if id_ not in gone]
    pool = buffer.pool()
    assert len(buffer) == len(pool) == len(left)
    assert aligned(pool)
    # A ring has no first row but the oldest: it may begin elsewhere than before.
    assert pool.ids.tolist() in [left[at:] + left[:at] for at in range(len(left))]
    assert pool.uses.tolist() == [used[id_] for id_ in pool.ids.tolist()]
    assert buffer.remove(torch.tensor(gone)) == 0


@every_buffer
def test_a_removed_row_is_one_that_never_came(kind: Kind) -> None:
    buffer, other = kind(20), kind(20)
    rows = arrivals(15)
    kept = torch.ones(15, dtype=torch.bool)
    kept[[0, 3, 4, 14]] = False
    buffer.append(rows, seeded())
    other.append(rows[kept], seeded())
    assert buffer.remove(rows.ids[~kept]) == 4
    assert same_from_here(buffer, other)


@every_buffer
def test_a_relabelled_row_is_one_that_came_so(kind: Kind) -> None:
    buffer, other = kind(20), kind(20)
    rows, corrected = arrivals(15), torch.tensor([0, 1, 2, 9])
    labels, clean = rows.labels.clone(), rows.clean.clone()
    labels[corrected], clean[corrected] = torch.tensor([2, 2, 0, 1]), True
    buffer.append(rows, seeded())
    other.append(replace(rows, labels=labels, clean=clean), seeded())
    buffer.relabel(corrected, labels[corrected])
    assert same_from_here(buffer, other)


@every_buffer
def test_a_full_buffer_has_room_for_as_many_as_were_removed(kind: Kind) -> None:
    buffer, generator = feed(kind, 20, [9, 40]), seeded(3)
    ids = buffer.pool().ids
    buffer.relabel(ids[:6].clone(), torch.full((6,), 2))
    gone = set(ids[[2, 11, 12]].tolist())
    oldest_first = sorted(set(ids.tolist()) - gone)
    buffer.remove(torch.tensor(sorted(gone)))
    buffer.append(arrivals(3, 100), generator)
    assert sorted(buffer.pool().ids.tolist()) == [*oldest_first, 100, 101, 102]
    for first in range(103, 163, 5):
        buffer.append(arrivals(5, first), generator)
        assert len(buffer) == len(buffer.pool().ids.unique()) == 20
        assert not gone & set(buffer.pool().ids.tolist())


@every_buffer
def test_corrections_are_saved(kind: Kind) -> None:
    buffer = feed(kind, 20, [9, 40])
    ids = buffer.pool().ids.clone()
    buffer.relabel(ids[:6], torch.full((6,), 2))
    buffer.remove(ids[[2, 11, 12]])
    other = kind(20)
    other.load_state_dict(buffer.state_dict())
    assert same_from_here(buffer, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [*zip(BUFFERS, ON_DISK, strict=True), *zip(ON_DISK, BUFFERS, strict=True)],
)
def test_a_state_is_loaded_wherever_inputs_are(one: Kind, other: Kind) -> None:
    buffer, loaded = feed(one, 20, [9, 40]), other(20)
    loaded.load_state_dict(buffer.state_dict())
    assert same_from_here(buffer, loaded)


@every_buffer
def test_of_an_id_given_twice_the_last_label_counts(kind: Kind) -> None:
    buffer = feed(kind, 20, [9])
    buffer.relabel(torch.tensor([4, 5, 4]), torch.tensor([0, 0, 2]))
    assert buffer.pool().labels[[4, 5]].tolist() == [2, 0]


@every_buffer
def test_all_rows_can_be_removed(kind: Kind) -> None:
    buffer, other = feed(kind, 20, [15]), kind(20)
    assert buffer.remove(torch.arange(100)) == 15
    assert len(buffer) == buffer.remove(torch.arange(100)) == 0
    assert buffer.relabel(torch.tensor([1]), torch.tensor([1])) == 0
    with pytest.raises(ValueError, match="buffer is empty"):
        buffer.pool()
    assert same_from_here(buffer, other)


@every_buffer
def test_every_id_to_relabel_needs_a_label(kind: Kind) -> None:
    with pytest.raises(ValueError, match="got 2 ids, 1 labels"):
        feed(kind, 20, [15]).relabel(torch.tensor([1, 2]), torch.tensor([0]))


@pytest.mark.parametrize("kind", BUFFERS)
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_ids_may_be_on_either_device(kind: Kind, where: str) -> None:
    buffer = kind(20)
    buffer.append(arrivals(15).to(torch.device("cuda")), seeded())
    assert buffer.relabel(torch.tensor([3]).to(where), torch.tensor([2]).to(where)) == 1
    assert buffer.remove(torch.tensor([4]).to(where)) == 1
    assert buffer.pool().labels.is_cuda
