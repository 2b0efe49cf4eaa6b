"""Plausible against its rule written out in loops, and what it promises about noise it learns."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from tamis import Naive, Replay, Sieve, Sliding, Trainer
from tamis.data import Samples
from tamis.model_view import ModelView
from tamis.models import mlp, start
from tamis.monitoring.monitor import purity_of
from tamis.noise import Tracker
from tamis.selectors import Plausible, Selector
from tamis.selectors.plausible.rule import (
    ALL_PARTS,
    DOUBT,
    EARLY,
    FAINT,
    LEAST,
    OFTEN,
    PACE,
    REFIT,
    SLOW,
    Memory,
    Verdict,
    Views,
    look,
)
from tamis.selectors.sampling import LEAST_PER_PICK, all_rows, draw_rows, is_trainable
from tamis.streams import Constant, PairFlip, Steps, Symmetric, digits

SHARP = 20.0
FOREVER = 1e9
CPU = torch.device("cpu")
Row = list[float]


class Loops:
    """The rule for one row at a time, one voter at a time, in plain floats."""

    def __init__(self, classes: int, voters: int) -> None:
        self.classes, self.voters = range(classes), voters
        self.memory: list[dict] = []
        self.running: dict[str, Row] = {}
        self.joint = [[1 / classes**2] * classes for _ in self.classes]
        self.tracker = Tracker(classes, FOREVER)
        self.ratio, self.slack, self.slots = 0.5, 1.0, 0

    def judge(
        self,
        features: list[Row],
        beliefs: list[Row],
        labels: list[int],
        uses: list[float],
        ids: list[int],
    ):
        rows = range(len(ids))
        mean = self.blend("mean", features)
        square = self.blend("square", [[x * x for x in row] for row in features])
        spread = [math.sqrt(max(s - m * m, 1e-12)) for m, s in zip(mean, square, strict=True)]
        directions = []
        for row in features:
            scaled = [(x - m) / s for x, m, s in zip(row, mean, spread, strict=True)]
            length = max(math.sqrt(sum(x * x for x in scaled)), 1e-12)
            directions.append([x / length for x in scaled])
        for row in list(rows)[: self.voters]:
            about = {"at": directions[row], "label": labels[row], "id": ids[row], "row": row}
            self.memory.append(about | {"say": FAINT + self.ratio, "slot": self.slots})
        self.memory = self.memory[-self.voters :]
        reuse = self.blend("reuse", [[count] for count in uses])[0]
        self.strictness = reuse / (reuse + OFTEN)

        votes = [self.vote(directions[row], ids[row]) for row in rows]
        given = self.blend("given", [[float(c == y) for c in self.classes] for y in labels])
        votes = self.align(votes, given, self.blend("voted", votes))
        aligned = self.align(beliefs, given, self.blend("believed", beliefs))
        evidence = [
            [
                ALL_PARTS.votes * math.log(v + DOUBT) + math.log(b + DOUBT)
                for v, b in zip(*both, strict=True)
            ]
            for both in zip(votes, aligned, strict=True)
        ]
        untempered = torch.tensor([softmax(row) for row in evidence], dtype=torch.float64)
        self.tracker.update(untempered, torch.tensor(labels))
        if self.slots % REFIT == 0 or self.slots in EARLY:
            self.ratio, self.slack = self.tracker.fit()
        surest = [[max(softmax([e / self.slack for e in row]))] for row in evidence]
        trust = self.blend("trust", surest)[0]

        confusion = self.confusion(len(ids))
        posteriors = []
        for row in rows:
            classes = softmax([e / self.slack * trust for e in evidence[row]])
            both = [classes[c] * confusion[c][labels[row]] for c in self.classes]
            posteriors.append([share / sum(both) for share in both])
        for c in self.classes:
            for y in self.classes:
                found = [posteriors[row][c] for row in rows if labels[row] == y]
                self.joint[c][y] += SLOW * (sum(found) / len(ids) - self.joint[c][y])
        right = [posteriors[row][labels[row]] for row in rows]
        for voter in self.memory:
            if voter["slot"] == self.slots:
                voter["say"] = FAINT + right[voter["row"]]
        order = [sorted(row, reverse=True) for row in posteriors]
        lead = [first - second for first, second, *_ in order]
        plausible = [posteriors[row].index(order[row][0]) == labels[row] for row in rows]
        self.slots += 1
        return posteriors, right, lead, plausible

    def blend(self, name: str, newest: list[Row]) -> Row:
        mean = [sum(column) / len(newest) for column in zip(*newest, strict=True)]
        if self.slots:
            mean = [old + PACE * (x - old) for old, x in zip(self.running[name], mean, strict=True)]
        self.running[name] = mean
        return mean

    def vote(self, direction: Row, own_id: int) -> Row:
        votes = [0.0 for _ in self.classes]
        for voter in self.memory:
            if voter["id"] != own_id:
                near = sum(x * y for x, y in zip(direction, voter["at"], strict=True))
                say = voter["say"] ** self.strictness
                votes[voter["label"]] += say * math.exp(SHARP * near)
        return [vote / sum(votes) if sum(votes) else 0.0 for vote in votes]

    def align(self, shares: list[Row], given: Row, running: Row) -> list[Row]:
        aligned = [
            [row[c] * given[c] / max(running[c], 1e-3) for c in self.classes] for row in shares
        ]
        return [[x / sum(row) if sum(row) else 0.0 for x in row] for row in aligned]

    def confusion(self, rows: int) -> list[Row]:
        table = []
        for c in self.classes:
            counts = [0.0 if c == y else self.joint[c][y] * rows / SLOW + 1 for y in self.classes]
            spread = [(1 - self.ratio) * count / sum(counts) for count in counts]
            table.append([self.ratio if c == y else spread[y] for y in self.classes])
        return table


def softmax(row: Row) -> Row:
    highest = max(row)
    return [math.exp(x - highest) / sum(math.exp(y - highest) for y in row) for x in row]


def make_views(rows: int, classes: int, width: int, seed: int) -> Views:
    """Overlapping clusters, shy beliefs, and every fourth label one class too high.

    Nothing is so sure that single precision puts it into another bin of the tracker.
    """
    generator = Generator().manual_seed(seed)
    true = torch.randint(classes, (rows,), generator=generator)
    centres = torch.randn(classes, width, generator=generator)
    features = 3 + centres[true] + torch.randn(rows, width, generator=generator)
    logits = torch.randn(rows, classes, generator=generator) + functional.one_hot(true, classes)
    wrong = torch.rand(rows, generator=generator) < 0.25
    labels = torch.where(wrong, (true + 1) % classes, true)
    uses = torch.randint(9, (rows,), generator=generator).float()
    good = torch.ones(rows, dtype=torch.bool)
    return Views(features, logits.softmax(dim=1), labels, good, uses)


def look_at(samples: Samples, view: ModelView) -> Views:
    return look(samples, view, is_trainable(samples, all_rows(samples)))


def part_of(views: Views, rows: Tensor) -> Views:
    return Views(*(column[rows] for column in views))


@pytest.mark.parametrize(
    ("classes", "width", "voters", "first"),
    [(2, 1, 30, 12), (3, 4, 50, 12), (4, 6, 9, 12), (5, 8, 200, 1), (10, 3, 60, 12)],
)
def test_a_verdict_is_that_of_the_loops(classes: int, width: int, voters: int, first: int) -> None:
    """Memory fills up and wraps round, rows come again, features drift, the ratio is refitted.

    One case has fewer voters than a slot has rows; one begins with a row that has no neighbour.
    """
    views, generator = make_views(40, classes, width, classes), Generator().manual_seed(1)
    memory, loops = Memory(classes, width, voters, FOREVER), Loops(classes, voters)
    verdicts = []
    for slot in range(REFIT + 4):
        ids = torch.randperm(40, generator=generator)[: first if slot == 0 else 12]
        seen = part_of(views, ids)
        features, beliefs = (seen.features * (1 + slot / 50)).double(), seen.beliefs.double()
        uses = (seen.uses * (slot % 7)).double()
        seen = seen._replace(features=features, beliefs=beliefs, uses=uses)  # floats are double
        found = memory.judge(seen, ids, SHARP)
        columns = (column.tolist() for column in (*seen[:3], seen.uses, ids))
        posterior, right, lead, plausible = loops.judge(*columns)
        for ours, theirs in zip(found, (posterior, right, lead, plausible), strict=True):
            theirs = torch.tensor(theirs, dtype=ours.dtype)
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)
        verdicts += plausible
    close = {"rtol": 0, "atol": 1e-4}
    wanted = torch.tensor(loops.confusion(12), dtype=torch.float64)
    torch.testing.assert_close(memory.confusion(12), wanted, **close)
    assert memory.ratio == pytest.approx(loops.ratio, abs=1e-4)
    assert memory.trust.item() == pytest.approx(loops.running["trust"][0], abs=1e-4)
    assert 0 < sum(verdicts) < len(verdicts), "a case where every verdict is alike shows little"


def clusters(classes: int = 3, each: int = 20, width: int = 10) -> Views:
    """Rows nearer to those of their class than to others, but nearest by far to themselves.

    The labels are right but for that of row 0, and the model knows nothing.
    """
    generator = Generator().manual_seed(0)
    true = torch.arange(classes * each) % classes
    features = 2.0 * functional.one_hot(true, width)
    features = features + 0.3 * torch.randn(features.shape, generator=generator)
    labels = true.clone()
    labels[0] = 1
    even = torch.full((len(true), classes), 1 / classes)
    good = torch.ones(len(true), dtype=torch.bool)
    return Views(features, even, labels, good, torch.full((len(true),), 100.0))


def judge_often(views: Views, ids_of: list[Tensor]) -> list[Verdict]:
    memory = Memory(views.beliefs.shape[1], views.features.shape[1], 4096, FOREVER)
    return [memory.judge(views, ids, SHARP, ids, torch.arange(len(ids))) for ids in ids_of]


def test_a_row_never_votes_for_itself_however_often_it_is_remembered() -> None:
    """Under an id of its own each time, its past selves do vote: then the verdict flips."""
    views, ids = clusters(), torch.arange(60)
    known = judge_often(views, [ids] * 20)
    assert not any(verdict.plausible[0] for verdict in known)
    assert all(verdict.plausible[1:].all() for verdict in known)
    disguised = [ids.index_fill(0, torch.tensor([0]), 100 + slot) for slot in range(20)]
    assert judge_often(views, disguised)[-1].plausible[0]


def test_a_row_that_comes_back_alone_does_not_vote_for_itself() -> None:
    """It lies in memory from an earlier slot only, and is asked about with others or without."""
    views = clusters()
    memory = Memory(3, 10, 4096, FOREVER)
    for _ in range(5):
        memory.judge(views, torch.arange(60), SHARP)
    first = torch.tensor([0, 3, 4, 5])
    for stranger, flips in ((0, False), (999, True)):
        asked = copy.deepcopy(memory)
        verdict = asked.judge(part_of(views, first), torch.tensor([stranger, 3, 4, 5]), SHARP)
        assert verdict.plausible.tolist() == [flips, True, True, True]


def test_rows_are_new_where_another_id_stands_in_their_place() -> None:
    memory = Memory(3, 2, 10, FOREVER)
    pool, every = torch.arange(4), torch.arange(4)
    assert not memory._find_new(pool, every).any(), "nobody knows what the first pool has been"
    memory.slots, memory.turnover = 1, torch.zeros(())
    pool = torch.tensor([0, 1, 12, 3, 14])  # one row gave way to another, and one came besides
    assert memory._find_new(pool, torch.tensor([1, 2])).tolist() == [False, True]
    assert memory._find_new(pool, torch.arange(5)).tolist() == [False] * 4 + [True]
    assert not memory._find_new(pool, torch.arange(5)).any()
    assert not memory._find_new(pool[:2], torch.arange(2)).any()


def test_rows_of_ever_new_pools_are_not_taken_for_new() -> None:
    memory, every = Memory(3, 2, 10, FOREVER), torch.arange(8)
    for slot in range(100):
        pool = torch.randperm(10_000, generator=Generator().manual_seed(slot))[:8]
        assert not memory._find_new(pool, every).any()
        memory.slots += 1


def test_where_no_row_is_new_first_looks_change_nothing(blobs: Samples, blob_model) -> None:
    chosen = []
    for parts in (ALL_PARTS, ALL_PARTS._replace(first_looks=False)):
        selector, generator = Plausible(parts=parts), Generator().manual_seed(0)
        view = ModelView(copy.deepcopy(blob_model))
        picks = [selector.select(blobs, view, 8, generator).rows for _ in range(60)]
        chosen.append((torch.cat(picks), selector.clean_ratio()))
    assert torch.equal(chosen[0][0], chosen[1][0])
    assert chosen[0][1] == chosen[1][1]


def test_a_fall_of_the_clean_ratio_is_noticed_by_rows_looked_at_for_the_first_time() -> None:
    """What was learned from agrees with its label, right or wrong, and would say all is well."""
    data, found = digits(), []
    for parts in (ALL_PARTS, ALL_PARTS._replace(first_looks=False)):
        stream = Replay(
            data.inputs, data.labels, Symmetric(10), Steps((0.9, 0.4)), slots=500, rows_per_slot=6
        )
        model = start(mlp, data.input_shape, 10, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.3)
        trainer = Trainer(model, optimizer, Plausible(parts=parts), Sliding(300), 10)
        ratios = [
            trainer.selector.clean_ratio() for slot in trainer.run(stream) if slot.number >= 350
        ]
        found.append(sum(ratios) / len(ratios))
    assert found[0] < 0.7 < 0.8 < found[1]


@cache
def trained(
    kind: type[Selector], noise: type[PairFlip | Symmetric], clean_ratio: float
) -> tuple[Trainer, float]:
    """Train on digits for 300 slots, and test the average."""
    data, seed = digits(), 2
    stream = Replay(
        data.inputs, data.labels, noise(10), Constant(clean_ratio), 300, rows_per_slot=4, seed=seed
    )
    model = start(mlp, data.input_shape, 10, seed)
    optimizer = torch.optim.SGD(model.parameters(), 0.3)
    trainer = Trainer(model, optimizer, kind(), Sliding(1000), window="average", seed=seed)
    for _ in trainer.run(stream):
        pass
    return trainer, trainer.accuracy(data.test_inputs, data.test_labels).ema


def held(clean_ratio: float = 0.5) -> tuple[Samples, ModelView]:
    """Digits that a trained model holds, and the model."""
    trainer, _ = trained(Plausible, Symmetric, clean_ratio)
    return trainer.buffer.pool(), trainer.view


def copy_of(selector: Plausible, **settings: object) -> Plausible:
    fresh = Plausible(**settings)
    fresh.load_state_dict(copy.deepcopy(selector.state_dict()))
    return fresh


@pytest.mark.parametrize("slots", [0, 1, 30, 120])
def test_saved_and_resumed_equals_unbroken(slots: int) -> None:
    (pool, view), generator = held(), Generator().manual_seed(0)
    unbroken, resumed = Plausible(), Plausible()
    for _ in range(slots):
        unbroken.select(pool, view, 16, generator)
    resumed.load_state_dict(copy.deepcopy(unbroken.state_dict()))
    again = Generator().manual_seed(0)
    again.set_state(generator.get_state())
    for _ in range(REFIT + 5):
        theirs = unbroken.select(pool, view, 16, generator)
        ours = resumed.select(pool, view, 16, again)
        assert ours.rows.tolist() == theirs.rows.tolist()
        torch.testing.assert_close(ours.targets, theirs.targets, rtol=0, atol=1e-6)
    torch.testing.assert_close(resumed.state_dict(), unbroken.state_dict(), rtol=0, atol=1e-5)


def test_what_is_loaded_is_what_was_saved_to_the_last_digit() -> None:
    (pool, view), generator, selector = held(), Generator().manual_seed(0), Plausible()
    selector.select(pool, view, 16, generator)
    fresh = copy_of(selector)
    torch.testing.assert_close(fresh.state_dict(), selector.state_dict(), rtol=0, atol=0)
    assert fresh.clean_ratio() == selector.clean_ratio()


def test_what_was_saved_does_not_change_when_the_selector_goes_on() -> None:
    (pool, view), generator, selector = held(), Generator().manual_seed(0), Plausible()
    selector.select(pool, view, 16, generator)
    saved = selector.state_dict()
    kept = copy.deepcopy(saved)
    selector.select(pool, view, 16, generator)
    torch.testing.assert_close(saved, kept, rtol=0, atol=0)


def test_no_more_is_kept_after_many_slots_than_after_few() -> None:
    (pool, view), generator, selector = held(), Generator().manual_seed(0), Plausible(voters=100)

    def sizes(slots: int) -> dict[str, tuple[int, ...]]:
        for _ in range(slots):
            selector.select(pool, view, 4, generator)
        return {name: tuple(part.shape) for name, part in selector.state_dict().items()}

    few = sizes(10)
    assert few["directions"] == (100, 256)
    assert sizes(290) == few


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [16, 64])
def test_right_labels_are_plausible_to_a_model_that_knows_nothing(k: int, seed: int) -> None:
    data, accepted = digits(), []
    view = ModelView(start(mlp, data.input_shape, 10, seed))
    generator, memory = Generator().manual_seed(seed), Memory(10, 256, 2048, FOREVER)
    for _ in range(20):
        ids = draw_rows(len(data.labels), LEAST_PER_PICK * k, generator, CPU)
        seen = look_at(Samples.of(data.inputs, data.labels)[ids], view)
        accepted.append(memory.judge(seen, ids, SHARP).plausible.float().mean())
    assert min(accepted) > 0.9
    assert sum(accepted) / len(accepted) > 0.95


def test_wrong_labels_stay_implausible_when_the_same_rows_are_seen_again_and_again(
    blobs: Samples, blob_model: nn.Module
) -> None:
    view, generator, selector = ModelView(blob_model), Generator().manual_seed(0), Plausible()
    purity = [
        purity_of(blobs, selector.select(blobs, view, 16, generator)).item()
        for _ in range(3 * REFIT)
    ]
    for first in range(0, 3 * REFIT, REFIT):
        assert sum(purity[first : first + REFIT]) / REFIT > 0.85, f"from slot {first}"


def test_it_learns_which_classes_get_mixed_up_and_how_often() -> None:
    trainer, _ = trained(Plausible, PairFlip, 0.6)
    confusion = trainer.selector._memory.confusion(128)
    torch.testing.assert_close(confusion.sum(dim=1), torch.ones(10))
    mixed_up = confusion.fill_diagonal_(0).argmax(dim=1)
    assert (mixed_up == (torch.arange(10) + 1) % 10).sum() >= 8
    assert trainer.selector.clean_ratio() == pytest.approx(0.6, abs=0.1)


def test_nothing_is_known_of_the_clean_ratio_before_the_first_slot() -> None:
    assert Plausible().clean_ratio() is None
    assert Plausible().state_dict() == {}


def test_mended_picks_aim_at_the_posterior_and_plausible_ones_at_their_label() -> None:
    """The verdict is asked for again, by the same chance, of a memory in the same state."""
    pool, view = held()
    trainer, _ = trained(Plausible, Symmetric, 0.5)
    mended = kept = 0
    for seed in range(5):
        selector = copy_of(trainer.selector)
        memory = copy.deepcopy(selector._memory)
        picks = selector.select(pool, view, 32, Generator().manual_seed(seed))
        rows = draw_rows(len(pool), LEAST_PER_PICK * 32, Generator().manual_seed(seed), CPU)
        seen = look_at(pool[rows], view)
        verdict = memory.judge(seen, pool.ids[rows], SHARP, pool.ids, rows)
        place = {row: at for at, row in enumerate(rows.tolist())}
        for row, target in zip(picks.rows.tolist(), picks.targets, strict=True):
            at = place[row]
            if verdict.plausible[at]:
                kept += 1
                assert torch.equal(target, torch.eye(10)[pool.labels[row]])
            else:
                mended += 1
                assert torch.equal(target, verdict.posterior[at])
                assert target.argmax() != pool.labels[row]
    assert mended >= 10
    assert kept >= 10


def test_without_mending_picks_have_no_targets_and_their_labels_are_plausible() -> None:
    pool, view = held()
    trainer, _ = trained(Plausible, Symmetric, 0.5)
    mends, sieves = copy_of(trainer.selector), copy_of(trainer.selector, mend=False)
    for seed in range(5):
        memory = copy.deepcopy(sieves._memory)
        picks = sieves.select(pool, view, 32, Generator().manual_seed(seed))
        rows = draw_rows(len(pool), LEAST_PER_PICK * 32, Generator().manual_seed(seed), CPU)
        verdict = memory.judge(look_at(pool[rows], view), pool.ids[rows], SHARP)
        assert picks.targets is None
        assert set(picks.rows.tolist()) <= set(rows[verdict.plausible].tolist())
        assert mends.select(pool, view, 32, Generator().manual_seed(seed)).targets is not None


def spoil(pool: Samples) -> tuple[Samples, Tensor]:
    """Make a third of the rows unusable, by inputs or by labels."""
    inputs, labels = pool.inputs.clone(), pool.labels.clone()
    inputs[::6] = torch.nan
    labels[3::6] = -1
    bad = torch.zeros(len(pool), dtype=torch.bool)
    bad[::3] = True
    return replace(pool, inputs=inputs, labels=labels), bad


@pytest.mark.parametrize("mend", [True, False])
def test_rows_that_cannot_be_used_are_never_picked(mend: bool) -> None:
    (pool, view), generator = held(), Generator().manual_seed(0)
    pool, bad = spoil(pool)
    selector = Plausible(mend=mend)
    for k in [1, 3, 16] * 20:
        picks = selector.select(pool, view, k, generator)
        assert not bad[picks.rows].any()
        assert mend is (picks.targets is not None)
        assert not mend or picks.targets.isfinite().all()
    assert all(part.isfinite().all() for part in selector.state_dict().values())


def test_rows_that_cannot_be_used_never_vote() -> None:
    """Twins of a row with a wrong label make it plausible, if only they can be used."""
    views = clusters()
    twin = torch.cat([torch.arange(60), torch.zeros(20, dtype=torch.long)])
    views, ids = part_of(views, twin), torch.arange(80)
    for good, plausible in ((True, True), (False, False)):
        views.good[60:] = good
        verdicts = judge_often(views, [ids] * 5)
        assert [verdict.plausible[0].item() for verdict in verdicts] == [plausible] * 5


def test_rows_that_cannot_be_used_leave_the_verdict_on_others_as_it_was() -> None:
    views = make_views(40, 5, 6, 0)
    memories = [Memory(5, 6, 4096, 1000.0) for _ in range(2)]
    for slot in range(REFIT + 5):
        ids = slot * 100 + torch.randperm(40, generator=Generator().manual_seed(slot))
        seen, among = part_of(views, ids % 100), part_of(views, torch.arange(50) % 40)
        for column, rows in zip(among, seen, strict=True):
            column[:40] = rows
        among.good[40:], among.features[40:], among.beliefs[40:] = False, 0, 0
        alone = memories[0].judge(seen, ids, SHARP)
        both = memories[1].judge(among, torch.cat([ids, slot * 100 + torch.arange(40, 50)]), SHARP)
        for one, other in zip(alone, both, strict=True):
            torch.testing.assert_close(one, other[:40], rtol=0, atol=1e-4)


@pytest.mark.parametrize("bad", [0, 8])
def test_where_nothing_is_plausible_the_likeliest_rows_that_can_be_used_are_picked(
    blobs: Samples, blob_model: nn.Module, bad: int
) -> None:
    view, generator = ModelView(blob_model), Generator().manual_seed(0)
    selector = Plausible(mend=False)
    blobs = replace(blobs, uses=torch.full_like(blobs.uses, 100))  # so voters are weighed
    for _ in range(5):
        selector.select(blobs, view, 16, generator)
    wrong = blobs[~blobs.clean][:14]
    labels = torch.where(torch.arange(14) < bad, -1, wrong.labels)
    pool = replace(wrong, labels=labels)
    memory = copy.deepcopy(selector._memory)
    verdict = memory.judge(look_at(pool, view), pool.ids, SHARP)
    assert not verdict.plausible[bad:].any()
    likeliest = bad + verdict.right[bad:].topk(LEAST).indices
    picks = selector.select(pool, view, 8, generator)
    assert sorted(picks.rows.tolist()) == sorted(likeliest.tolist())


@pytest.mark.parametrize(
    "settings",
    [
        {"voters": 0},
        {"sharpness": 0.0},
        {"sharpness": -1.0},
        {"half_life": 0.0},
        {"half_life": -1.0},
    ],
    ids=str,
)
def test_settings_out_of_range_are_told_in_one_sentence(settings: dict, blobs: Samples) -> None:
    view, generator = ModelView(nn.Linear(2, 3)), Generator().manual_seed(0)
    with pytest.raises(ValueError, match=r"^[A-Z][^\n]* above 0, got [^\n]*\.$"):
        Plausible(**settings).select(blobs, view, 16, generator)


def test_it_ends_above_random_picks_where_half_of_the_labels_are_wrong() -> None:
    ours, naive = (trained(kind, Symmetric, 0.5)[1] for kind in (Plausible, Naive))
    assert ours > naive + 0.02


def test_it_ends_no_lower_than_random_picks_where_nearly_all_labels_are_right() -> None:
    ours, naive = (trained(kind, Symmetric, 0.95)[1] for kind in (Plausible, Naive))
    assert ours > naive - 0.01


def test_picked_in_a_loop_of_ones_own_rows_are_known_again_by_their_ids() -> None:
    pool, view = held()
    known, unknown = Sieve(view.model, 8), Sieve(view.model, 8)
    for first in range(0, 256, 64):
        batch = pool[first : first + 64]
        assert len(known.pick(batch.inputs, batch.labels, batch.ids).targets) <= 8
        unknown.pick(batch.inputs, batch.labels, torch.arange(64))
    assert (
        len(known.selector.state_dict()["ids"].unique())
        > 2 * len(unknown.selector.state_dict()["ids"].unique()) - 2
    )


def test_rows_that_close_a_gap_are_not_taken_for_new(blobs, blob_model) -> None:
    selector, view, generator = Plausible(), ModelView(blob_model), torch.Generator().manual_seed(0)
    for _ in range(20):
        selector.select(blobs, view, 100, generator)
    before = selector.state_dict()["turnover"]
    selector.remove(blobs.ids[:30])
    selector.select(blobs[slice(30, None)], view, 100, generator)
    assert selector.state_dict()["turnover"] < before
    selector.select(blobs[slice(30, None)], view, 100, generator)
    assert selector.state_dict()["turnover"] < 0.95 * before
