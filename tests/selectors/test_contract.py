"""What every selector must do. It walks the package: a new selector is covered by being there."""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import pkgutil
import resource
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Generator, Tensor, nn

import tamis
from tamis import selectors
from tamis.data import UNLABELLED, Picks, Samples
from tamis.model_view import Average, ModelView, Window
from tamis.models import mlp
from tamis.monitoring.metrics import purity_of
from tamis.selectors import SELECTORS, Oracle, Selector
from tamis.selectors.protocol import (
    Remembers,
    UsesUnlabelled,
    preferred_warm_up,
    preferred_window,
    seeks_clean,
)

MAY_READ_CLEAN = {"monitoring/metrics.py", "selectors/oracle.py", "streams/ground_truth.py"}
MAY_SHOW_CLEAN = (
    "lab/", "web/", "runs/estimates.py",  # they show how simulations went
    "review/corrections.py",  # a label that a person gave counts as right
    "distributed/pool.py",  # it carries it from rank to rank
)  # fmt: skip


def find_selectors() -> list[type[Selector]]:
    found = []
    for module in pkgutil.walk_packages(selectors.__path__, "tamis.selectors."):
        if module.name.endswith(".kernels"):
            continue  # they need triton
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            own = kind.__module__ == module.name and hasattr(kind, "select")
            if own and not getattr(kind, "_is_protocol", False):
                found.append(kind)
    return found


ALL = find_selectors()
each = pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)


def select(
    kind: type[Selector], pool: Samples, model: nn.Module, k: int = 16, seed: int = 1
) -> Picks:
    return kind().select(pool, ModelView(model, Average()), k, Generator().manual_seed(seed))


def test_every_selector_is_listed() -> None:
    assert set(ALL) == set(SELECTORS)


@each
def test_it_works_through_the_view_that_it_prefers(kind, blobs: Samples, blob_model) -> None:
    selector = kind()
    window = preferred_window(selector)
    memory = Average() if window == "average" else Window(window)
    assert preferred_warm_up(selector) >= 0
    picks = selector.select(blobs, ModelView(blob_model, memory), 16, Generator().manual_seed(0))
    assert len(picks) >= 1


@each
@pytest.mark.parametrize("k", [1, 16, 299, 1000])
def test_rows_are_within_the_pool(kind, blobs: Samples, blob_model: nn.Module, k: int) -> None:
    picks = select(kind, blobs, blob_model, k)
    assert picks.rows.dtype == torch.long
    assert 1 <= len(picks) <= min(k, len(blobs))
    assert (picks.rows >= 0).all()
    assert (picks.rows < len(blobs)).all()


@each
def test_nothing_is_changed(kind, blobs: Samples, blob_model: nn.Module) -> None:
    before = {name: column.clone() for name, column in blobs.columns().items()}
    weights = [weight.clone() for weight in blob_model.parameters()]
    selector = kind()
    described = repr(selector)
    selector.select(blobs, ModelView(blob_model, Average()), 16, Generator().manual_seed(0))
    assert all(torch.equal(blobs.columns()[name], column) for name, column in before.items())
    assert all(torch.equal(a, b) for a, b in zip(blob_model.parameters(), weights, strict=True))
    assert all(weight.grad is None for weight in blob_model.parameters())
    assert repr(selector) == described


@each
def test_same_seed_same_picks(kind, blobs: Samples, blob_model: nn.Module) -> None:
    state = torch.random.get_rng_state()
    first, again = (select(kind, blobs, blob_model).rows for _ in range(2))
    assert torch.equal(first, again)
    assert torch.equal(torch.random.get_rng_state(), state), "the global generator was used"


@each
def test_other_seeds_other_picks(kind, blobs: Samples, blob_model: nn.Module) -> None:
    picks = {tuple(select(kind, blobs, blob_model, 3, seed).rows.tolist()) for seed in range(20)}
    assert len(picks) > 1


@each
def test_one_row(kind, blob_model: nn.Module) -> None:
    pool = Samples.of(torch.ones(1, 2), torch.tensor([1]), clean=torch.tensor([True]))
    assert select(kind, pool, blob_model).rows.tolist() == [0]


@each
def test_duplicates_only(kind, blob_model: nn.Module) -> None:
    pool = Samples.of(
        torch.ones(50, 2), torch.ones(50, dtype=torch.long), clean=torch.ones(50, dtype=torch.bool)
    )
    assert len(select(kind, pool, blob_model)) >= 1


@each
def test_images_of_two_classes(kind, generator: Generator) -> None:
    images = torch.rand(40, 1, 6, 6, generator=generator)
    labels = torch.randint(2, (40,), generator=generator)
    pool = Samples.of(images, labels, clean=torch.ones(40, dtype=torch.bool))
    assert 1 <= len(select(kind, pool, mlp((1, 6, 6), 2))) <= 16


@each
def test_it_works_without_knowing_what_is_clean(
    kind, blobs: Samples, blob_model: nn.Module
) -> None:
    blind = replace(blobs, clean=None)
    if kind is Oracle:
        with pytest.raises(ValueError, match="simulated"):
            select(kind, blind, blob_model)
        return
    known, unknown = (select(kind, pool, blob_model).rows for pool in (blobs, blind))
    assert torch.equal(known, unknown)


@each
def test_it_beats_a_random_draw_where_losses_separate(
    kind, blobs: Samples, blob_model: nn.Module
) -> None:
    drawn = [select(kind, blobs, blob_model, 32, seed) for seed in range(10)]
    purity = torch.stack([purity_of(blobs, picks) for picks in drawn]).mean()
    if seeks_clean(kind()):
        assert purity > 0.85
    else:
        assert 0.6 < purity < 0.8


@each
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_row_that_is_not_finite_is_never_picked(kind, blobs: Samples, bad: float) -> None:
    inputs = blobs.inputs.clone()
    inputs[::3, 0] = bad
    pool = replace(blobs, inputs=inputs)
    model = mlp((2,), 3)
    for seed in range(10):
        rows = select(kind, pool, model, 64, seed).rows
        assert pool.inputs[rows].isfinite().all()


@each
def test_a_pool_without_one_usable_row_gives_no_picks(kind, blobs: Samples) -> None:
    pool = replace(blobs, inputs=torch.full_like(blobs.inputs, torch.nan))
    assert len(select(kind, pool, mlp((2,), 3))) == 0


@each
def test_memory_stays_flat(kind, blobs: Samples, blob_model: nn.Module) -> None:
    selector, view, generator = (
        kind(),
        ModelView(blob_model, Average()),
        Generator().manual_seed(0),
    )

    def play(slots: int) -> int:
        for _ in range(slots):
            selector.select(blobs, view, 2, generator)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    warm = play(50)
    assert play(150) - warm < 20_000  # kilobytes


def state_of(selector: Selector) -> dict[str, Tensor]:
    state = selector.state_dict() if hasattr(selector, "state_dict") else {}
    return {name: value.clone() for name, value in state.items()}


def same_state(selector: Selector, other: Selector) -> bool:
    one, two = state_of(selector), state_of(other)
    return one.keys() == two.keys() and all(
        torch.allclose(one[name], two[name], rtol=0, atol=0, equal_nan=True) for name in one
    )


FAR = 1_000_000
"""First id of a pool whose ids are found in a state: no other number there is as large."""


def play(selector: Selector, pool: Samples, model: nn.Module, slots: int, seed: int) -> list[int]:
    view, generator = ModelView(model, Average()), Generator().manual_seed(seed)
    picks = [selector.select(pool, view, 16, generator).rows for _ in range(slots)]
    return torch.cat(picks).tolist()


def far(blobs: Samples) -> Samples:
    return replace(blobs, ids=blobs.ids + FAR)


def ids_in(selector: Selector) -> set[int]:
    found = [value[value >= FAR].flatten() for value in state_of(selector).values()]
    return {int(id_) for ids in found for id_ in ids.tolist()}


@each
def test_one_that_keeps_ids_follows_corrections(kind, blobs, blob_model) -> None:
    selector = kind()
    play(selector, far(blobs), blob_model, 3, seed=0)
    assert bool(ids_in(selector)) == isinstance(selector, Remembers)


@each
def test_corrections_before_the_first_slot_change_nothing(kind, blobs, blob_model) -> None:
    selector, other = kind(), kind()
    if isinstance(selector, Remembers):
        selector.relabel(blobs.ids[:3], blobs.labels[:3])
        selector.remove(blobs.ids[:3])
    args = (blobs, blob_model, 3, 0)
    assert play(selector, *args) == play(other, *args)
    assert same_state(selector, other)


@each
def test_corrections_of_unknown_ids_change_nothing(kind, blobs, blob_model) -> None:
    selector, other = kind(), kind()
    for one in (selector, other):
        play(one, blobs, blob_model, 3, seed=0)
    if isinstance(selector, Remembers):
        for unknown in (torch.tensor([FAR, FAR + 7]), torch.empty(0, dtype=torch.long)):
            selector.relabel(unknown, torch.zeros_like(unknown))
            selector.remove(unknown)
    args = (blobs, blob_model, 3, 1)
    assert play(selector, *args) == play(other, *args)
    assert same_state(selector, other)


@each
def test_a_removed_id_leaves_no_trace(kind, blobs, blob_model) -> None:
    selector, pool = kind(), far(blobs)
    play(selector, pool, blob_model, 5, seed=0)
    known = ids_in(selector)
    gone = pool.ids[::4]
    if isinstance(selector, Remembers):
        selector.remove(gone)
        assert ids_in(selector) == known - set(gone.tolist())
    kept = torch.ones(len(pool), dtype=torch.bool)
    kept[::4] = False
    assert play(selector, pool[kept], blob_model, 5, seed=1)
    assert not ids_in(selector) & set(gone.tolist())


@each
def test_a_relabelled_row_is_judged_by_its_new_label(kind, blobs, blob_model) -> None:
    """Where all wrong labels are corrected, picks are as clean as the pool, and state is saved."""
    selector, pool = kind(), far(blobs)
    play(selector, pool, blob_model, 5, seed=0)
    wrong = ~pool.clean
    right = torch.where(wrong, (pool.labels - 1) % 3, pool.labels)
    corrected = replace(pool, labels=right, clean=torch.ones_like(wrong))
    if isinstance(selector, Remembers):
        selector.relabel(pool.ids[wrong], right[wrong])
        state = state_of(selector)
        for name in (name for name in state if name.endswith("labels")):
            ids = state[name.removesuffix("labels") + "ids"]
            known = ids >= FAR
            assert state[name][known].equal(right[ids[known] - FAR])
    other = kind()
    if hasattr(other, "load_state_dict"):
        other.load_state_dict(state_of(selector))
    args = (corrected, blob_model, 5, 1)
    assert play(selector, *args) == play(other, *args)
    assert same_state(selector, other)


WITHOUT_LABELS = [kind for kind in ALL if isinstance(kind(), UsesUnlabelled)]
each_without_labels = pytest.mark.parametrize("kind", WITHOUT_LABELS, ids=lambda k: k.__name__)


EXPERIENCED: dict[type[Selector], Selector] = {}


def unlabelled(blobs: Samples) -> Samples:
    """Return other rows than those of the pool, without labels."""
    blank = torch.full_like(blobs.labels, UNLABELLED)
    return replace(far(blobs), inputs=blobs.inputs + 0.01, labels=blank, clean=None)


def experienced(kind: type[Selector], blobs: Samples, model: nn.Module) -> UsesUnlabelled:
    """Return a selector that has seen labelled rows for long; once for each kind."""
    if kind not in EXPERIENCED:
        EXPERIENCED[kind] = kind()
        play(EXPERIENCED[kind], blobs, model, 1000, seed=0)
    selector = copy.deepcopy(EXPERIENCED[kind])
    assert isinstance(selector, UsesUnlabelled)
    return selector


@each_without_labels
def test_rows_without_labels_are_picked_with_targets(kind, blobs, blob_model) -> None:
    selector, rows = experienced(kind, blobs, blob_model), unlabelled(blobs)
    before = {name: column.clone() for name, column in rows.columns().items()}
    state, view = state_of(selector), ModelView(blob_model, Average())
    for k in (0, 1, 16, 1000):
        picks, again = (
            selector.select_unlabelled(rows, view, k, Generator().manual_seed(k)) for _ in range(2)
        )
        assert min(1, k) <= len(picks) <= k
        assert len(picks.rows.unique()) == len(picks)
        assert torch.equal(picks.rows, again.rows)
        if len(picks):
            assert picks.targets.shape == (len(picks), 3)
            torch.testing.assert_close(picks.targets.sum(dim=1), torch.ones(len(picks)))
            assert (picks.targets >= 0).all()
    assert all(torch.equal(rows.columns()[name], column) for name, column in before.items())
    torch.testing.assert_close(state_of(selector), state, rtol=0, atol=0)


@each_without_labels
def test_rows_without_labels_are_not_picked_by_one_that_knows_nothing(
    kind, blobs, blob_model
) -> None:
    view, generator = ModelView(blob_model, Average()), Generator().manual_seed(0)
    assert not len(kind().select_unlabelled(unlabelled(blobs), view, 16, generator))


@each_without_labels
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_row_without_label_that_is_not_finite_is_never_picked(
    kind, blobs, blob_model, bad: float
) -> None:
    selector, rows = experienced(kind, blobs, blob_model), unlabelled(blobs)
    rows.inputs[::3, 0] = bad
    view, generator = ModelView(blob_model, Average()), Generator().manual_seed(0)
    for _ in range(5):
        picks = selector.select_unlabelled(rows, view, 64, generator)
        assert len(picks)
        assert rows.inputs[picks.rows].isfinite().all()
        assert picks.targets.isfinite().all()


def test_only_oracle_and_monitor_read_clean() -> None:
    package = Path(tamis.__file__).parent
    readers = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr == "clean"
        and isinstance(node.ctx, ast.Load)
    }
    assert {name for name in readers if not name.startswith(MAY_SHOW_CLEAN)} == MAY_READ_CLEAN
