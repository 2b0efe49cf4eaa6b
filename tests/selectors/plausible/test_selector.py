"""Plausible against its rule in loops, and how it behaves under known noise."""

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
from tamis.lab.ablation import ABLATIONS
from tamis.model_view import ModelView
from tamis.models import mlp, start
from tamis.monitoring.metrics import purity_of
from tamis.selectors import Plausible, Selector
from tamis.selectors.plausible import Agreements, Calibration, Neighbours
from tamis.selectors.plausible.candidates import Candidates, in_range, look
from tamis.selectors.plausible.selector import Verdict
from tamis.selectors.sampling import LEAST_PER_PICK, all_rows, draw_rows, is_trainable
from tamis.streams import Constant, PairFlip, Steps, Symmetric, digits
from tests.support.plausible_loops import (
    FOREVER,
    AgreementLoops,
    CalibrationLoops,
    ClassBalanceLoops,
    ConfusionLoops,
    InputVoteLoops,
    NeighbourLoops,
    Row,
    assert_near,
    double,
    make_candidates,
    part_of,
)

REFIT = Calibration().refit_every
CPU = torch.device("cpu")


class Loops:
    """The rule, put together from the loops of its parts."""

    def __init__(self, classes: int, rule: Plausible) -> None:
        self.rule = rule
        self.neighbours = NeighbourLoops(classes, rule.neighbours)
        self.input_votes = InputVoteLoops(classes, rule.input_votes)
        self.class_balance = ClassBalanceLoops(classes, rule.class_balance)
        self.agreements = AgreementLoops(classes, rule.agreements)
        self.calibration = CalibrationLoops(classes, rule.calibration)
        self.confusion = ConfusionLoops(classes, rule.confusion)

    def judge(
        self,
        features: list[Row],
        probabilities: list[Row],
        labels: list[int],
        uses: list[float],
        inputs: list[Row],
        ids: list[int],
    ):
        votes = self.neighbours.update(features, labels, uses, ids, self.calibration.ratio)
        scaled = self.class_balance.update(labels, votes, probabilities)
        evidence = self.evidence(*scaled)
        by_inputs = self.input_votes.update(inputs, labels, uses, ids)
        self.agreements.update(labels, *scaled, evidence, probabilities, by_inputs)
        classes = self.calibration.update(evidence, labels, math.inf, self.agreements)
        each = [self.calibration.ratio * share for share in self.agreements.by_class()]
        ratios = [min(max(ratio, 0.005), 0.995) for ratio in each]
        posteriors = self.confusion.update(classes, labels, ratios)
        right = [row[y] for row, y in zip(posteriors, labels, strict=True)]
        self.neighbours.set_weights(right)
        order = [sorted(row, reverse=True) for row in posteriors]
        margin = [first - second for first, second, *_ in order]
        plausible = [row.index(max(row)) == y for row, y in zip(posteriors, labels, strict=True)]
        return posteriors, right, [first for first, *_ in order], margin, plausible

    def evidence(self, votes: list[Row], probabilities: list[Row]) -> list[Row]:
        rule = self.rule
        return [
            [
                rule.vote_weight * math.log(v + rule.smoothing)
                + rule.model_weight * math.log(p + rule.smoothing)
                for v, p in zip(*pair, strict=True)
            ]
            for pair in zip(votes, probabilities, strict=True)
        ]

    def classify(self, features: list[Row], probabilities: list[Row], ids: list[int]) -> list[Row]:
        """Return the posterior of rows without labels, from what is known, and learn nothing."""
        balance, near = self.class_balance, self.neighbours
        votes = [near.vote(near.direct(row), own) for row, own in zip(features, ids, strict=True)]
        scaled = (
            balance.scale(votes, balance.voted),
            balance.scale(probabilities, balance.predicted),
        )
        return self.calibration.calibrate(self.evidence(*scaled))


def judge(rule: Plausible, candidates: Candidates, ids: Tensor) -> Verdict:
    """Judge rows of which none is new, in a pool without end."""
    return rule.judge(candidates, ids, torch.zeros_like(ids, dtype=torch.bool), math.inf)


def make_rule(voters: int = 4096, half_life: float = FOREVER, **settings: object) -> Plausible:
    neighbours, calibration = Neighbours(voters=voters), Calibration(half_life=half_life)
    return Plausible(neighbours=neighbours, calibration=calibration, **settings)


def look_at(samples: Samples, view: ModelView) -> Candidates:
    return look(samples, view, is_trainable(samples, all_rows(samples)))


@pytest.mark.parametrize(
    ("classes", "width", "voters", "first"),
    [(2, 1, 30, 12), (3, 4, 50, 12), (4, 6, 9, 12), (5, 8, 200, 1), (10, 3, 60, 12)],
)
def test_a_verdict_is_that_of_the_loops(classes: int, width: int, voters: int, first: int) -> None:
    """The ring fills up and wraps round, rows recur, features drift, the ratio is refitted.

    One case has fewer voters than a slot has rows; one begins with a row that has no neighbour.
    """
    every, generator = make_candidates(40, classes, width, classes), Generator().manual_seed(1)
    rule = make_rule(voters)
    loops, verdicts = Loops(classes, rule), []
    for slot in range(REFIT + 4):
        ids = torch.randperm(40, generator=generator)[: first if slot == 0 else 12]
        rows = double(part_of(every, ids), 1 + slot / 50, slot % 7)  # the loops' floats are double
        found = judge(rule, rows, ids)
        columns = (
            rows.features, rows.probabilities, rows.labels, rows.uses, rows.inputs, ids,
        )  # fmt: skip
        expected = loops.judge(*(column.tolist() for column in columns))
        for ours, theirs in zip(found, expected, strict=True):
            assert_near(ours, theirs)
        verdicts += expected[4]
    assert 0 < sum(verdicts) < len(verdicts), "a case of one verdict only shows little"


def clusters(classes: int = 3, each: int = 20, width: int = 10) -> Candidates:
    """Return rows nearer to those of their class than to others, but nearest by far to themselves.

    The labels are right but for that of row 0, and the model knows next to nothing.
    """
    generator = Generator().manual_seed(0)
    true = torch.arange(classes * each) % classes
    features = 2.0 * functional.one_hot(true, width)
    features = features + 0.3 * torch.randn(features.shape, generator=generator)
    labels = true.clone()
    labels[0] = 1
    nearly_even = (0.3 * functional.one_hot(true, classes)).softmax(dim=1)
    good = torch.ones(len(true), dtype=torch.bool)
    uses = torch.full((len(true),), 100.0)
    return Candidates(features, nearly_even, labels, good, uses, features)


def judge_often(candidates: Candidates, ids_of: list[Tensor]) -> list[Verdict]:
    rule = make_rule()
    verdicts = []
    for ids in ids_of:
        new = rule.first_looks.update(ids, torch.arange(len(ids)))
        verdicts.append(rule.judge(candidates, ids, new, len(ids)))
    return verdicts


def test_a_row_never_votes_for_itself_however_often_it_is_remembered() -> None:
    """Under an id of its own each time, its past selves do vote: then the verdict flips."""
    rows, ids = clusters(), torch.arange(60)
    known = judge_often(rows, [ids] * 20)
    assert not any(verdict.plausible[0] for verdict in known)
    assert all(verdict.plausible[1:].all() for verdict in known)
    disguised = [ids.index_fill(0, torch.tensor([0]), 100 + slot) for slot in range(20)]
    assert judge_often(rows, disguised)[-1].plausible[0]


def test_a_row_that_comes_back_alone_does_not_vote_for_itself() -> None:
    """It is a voter from an earlier slot only."""
    rows, rule = clusters(), make_rule()
    for _ in range(5):
        judge(rule, rows, torch.arange(60))
    first = torch.tensor([0, 3, 4, 5])
    for stranger, flips in ((0, False), (999, True)):
        ids = torch.tensor([stranger, 3, 4, 5])
        verdict = judge(copy.deepcopy(rule), part_of(rows, first), ids)
        assert verdict.plausible.tolist() == [flips, True, True, True]


def test_where_no_row_is_new_first_looks_change_nothing(blobs: Samples, blob_model) -> None:
    chosen = []
    for make in (Plausible, ABLATIONS["first looks"]):
        selector, generator = make(), Generator().manual_seed(0)
        view = ModelView(copy.deepcopy(blob_model))
        picks = [selector.select(blobs, view, 8, generator).rows for _ in range(60)]
        chosen.append((torch.cat(picks), selector.clean_ratio()))
    assert torch.equal(chosen[0][0], chosen[1][0])
    assert chosen[0][1] == chosen[1][1]


@pytest.mark.slow
def test_a_fall_of_the_clean_ratio_is_noticed() -> None:
    """By rows looked at for the first time, and without them by the second reading."""
    data, found = digits(), []
    for make in (Plausible, ABLATIONS["first looks"]):
        stream = Replay(
            data.inputs, data.labels, Symmetric(10), Steps((0.9, 0.4)), slots=500, rows_per_slot=6
        )
        model = start(mlp, data.input_shape, 10, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.3)
        trainer = Trainer(model, optimizer, make(), Sliding(300), k=10)
        ratios = [
            trainer.selector.clean_ratio() for slot in trainer.run(stream) if slot.number >= 350
        ]
        found.append(sum(ratios) / len(ratios))
    assert max(found) < 0.7


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
    (pool, view), generator, selector = held(), Generator().manual_seed(0), make_rule(100)

    def sizes(slots: int) -> dict[str, tuple[int, ...]]:
        for _ in range(slots):
            selector.select(pool, view, 4, generator)
        return {name: tuple(part.shape) for name, part in selector.state_dict().items()}

    few = sizes(10)
    assert few["neighbours.directions"] == (100, 256)
    assert sizes(290) == few


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [16, 64])
def test_right_labels_are_plausible_to_a_model_that_knows_nothing(k: int, seed: int) -> None:
    data, accepted = digits(), []
    view = ModelView(start(mlp, data.input_shape, 10, seed))
    generator, rule = Generator().manual_seed(seed), make_rule(2048)
    for _ in range(20):
        ids = draw_rows(len(data.labels), LEAST_PER_PICK * k, generator, CPU)
        seen = look_at(Samples.of(data.inputs, data.labels)[ids], view)
        accepted.append(judge(rule, seen, ids).plausible.float().mean())
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
    selector = trainer.selector
    confusion = selector.confusion.matrix(selector.clean_ratio(), 128)
    torch.testing.assert_close(confusion.sum(dim=1), torch.ones(10))
    mixed_up = confusion.fill_diagonal_(0).argmax(dim=1)
    assert (mixed_up == (torch.arange(10) + 1) % 10).sum() >= 8
    assert trainer.selector.clean_ratio() == pytest.approx(0.6, abs=0.1)


def test_nothing_is_known_of_the_clean_ratio_before_the_first_slot() -> None:
    assert Plausible().clean_ratio() is None
    assert Plausible().state_dict() == {}


def test_targets_are_the_posterior_or_a_plausible_label_mixed_with_it() -> None:
    """The verdict is repeated with the same generator by a copy of the selector."""
    pool, view = held()
    trainer, _ = trained(Plausible, Symmetric, 0.5)
    relabelled = kept = 0
    for seed in range(5):
        selector = copy_of(trainer.selector)
        again = copy.deepcopy(selector)
        picks = selector.select(pool, view, 32, Generator().manual_seed(seed))
        rows = draw_rows(len(pool), LEAST_PER_PICK * 32, Generator().manual_seed(seed), CPU)
        seen = look_at(pool[rows], view)
        new = again.first_looks.update(pool.ids, rows)
        verdict = again.judge(seen, pool.ids[rows], new, len(pool))
        place = {row: at for at, row in enumerate(rows.tolist())}
        weighting = again.agreements.weighting()
        softness = 0.5 * again.fallback.strength(weighting, again.calibration.clean_ratio)
        for row, target in zip(picks.rows.tolist(), picks.targets, strict=True):
            at = place[row]
            if verdict.plausible[at]:
                kept += 1
                label = torch.eye(10)[pool.labels[row]]
                mixed = torch.lerp(label, verdict.posterior[at], softness)
                torch.testing.assert_close(target, mixed)
            else:
                relabelled += 1
                assert torch.equal(target, verdict.posterior[at])
                assert target.argmax() != pool.labels[row]
    assert relabelled >= 10
    assert kept >= 10


def test_without_pseudo_labels_picks_have_no_targets_and_plausible_labels() -> None:
    pool, view = held()
    trainer, _ = trained(Plausible, Symmetric, 0.5)
    relabels = copy_of(trainer.selector)
    drops = copy_of(trainer.selector, pseudo_labels=False)
    for seed in range(5):
        again = copy.deepcopy(drops)
        picks = drops.select(pool, view, 32, Generator().manual_seed(seed))
        rows = draw_rows(len(pool), LEAST_PER_PICK * 32, Generator().manual_seed(seed), CPU)
        verdict = judge(again, look_at(pool[rows], view), pool.ids[rows])
        assert picks.targets is None
        assert set(picks.rows.tolist()) <= set(rows[verdict.plausible].tolist())
        assert relabels.select(pool, view, 32, Generator().manual_seed(seed)).targets is not None


def corrupt(pool: Samples) -> tuple[Samples, Tensor]:
    """Make a third of the rows unusable, by inputs or by labels."""
    inputs, labels = pool.inputs.clone(), pool.labels.clone()
    inputs[::6] = torch.nan
    labels[3::6] = -1
    bad = torch.zeros(len(pool), dtype=torch.bool)
    bad[::3] = True
    return replace(pool, inputs=inputs, labels=labels), bad


@pytest.mark.parametrize("pseudo_labels", [True, False])
def test_rows_that_cannot_be_used_are_never_picked(pseudo_labels: bool) -> None:
    (pool, view), generator = held(), Generator().manual_seed(0)
    pool, bad = corrupt(pool)
    selector = Plausible(pseudo_labels=pseudo_labels)
    for k in [1, 3, 16] * 20:
        picks = selector.select(pool, view, k, generator)
        assert not bad[picks.rows].any()
        assert pseudo_labels is (picks.targets is not None)
        assert not pseudo_labels or picks.targets.isfinite().all()
    assert all(part.isfinite().all() for part in selector.state_dict().values())


def test_rows_that_cannot_be_used_never_vote() -> None:
    """Twins of a row with a wrong label make it plausible, if only they can be used."""
    rows = clusters()
    twin = torch.cat([torch.arange(60), torch.zeros(20, dtype=torch.long)])
    rows, ids = part_of(rows, twin), torch.arange(80)
    for good, plausible in ((True, True), (False, False)):
        rows.usable[60:] = good
        verdicts = judge_often(rows, [ids] * 5)
        assert [verdict.plausible[0].item() for verdict in verdicts] == [plausible] * 5


def test_rows_that_cannot_be_used_leave_the_verdict_on_others_as_it_was() -> None:
    rows = make_candidates(40, 5, 6, 0)
    rules = [make_rule(half_life=1000.0) for _ in range(2)]
    for slot in range(REFIT + 5):
        ids = slot * 100 + torch.randperm(40, generator=Generator().manual_seed(slot))
        seen, among = part_of(rows, ids % 100), part_of(rows, torch.arange(50) % 40)
        for column, mine in zip(among, seen, strict=True):
            column[:40] = mine
        among.usable[40:], among.features[40:], among.probabilities[40:] = False, 0, 0
        alone = judge(rules[0], seen, ids)
        both = judge(rules[1], among, torch.cat([ids, slot * 100 + torch.arange(40, 50)]))
        for one, other in zip(alone, both, strict=True):
            torch.testing.assert_close(one, other[:40], rtol=0, atol=1e-4)


@pytest.mark.parametrize("bad", [0, 8])
def test_where_nothing_is_plausible_the_likeliest_rows_that_can_be_used_are_picked(
    blobs: Samples, blob_model: nn.Module, bad: int
) -> None:
    view, generator = ModelView(blob_model), Generator().manual_seed(0)
    selector = Plausible(pseudo_labels=False)
    blobs = replace(blobs, uses=torch.full_like(blobs.uses, 100))  # so that voters are weighted
    for _ in range(5):
        selector.select(blobs, view, 16, generator)
    wrong = blobs[~blobs.clean][:14]
    labels = torch.where(torch.arange(14) < bad, -1, wrong.labels)
    pool = replace(wrong, labels=labels)
    verdict = judge(copy.deepcopy(selector), look_at(pool, view), pool.ids)
    assert not verdict.plausible[bad:].any()
    likeliest = bad + verdict.label_probability[bad:].topk(selector.least_picks).indices
    picks = selector.select(pool, view, 8, generator)
    assert sorted(picks.rows.tolist()) == sorted(likeliest.tolist())


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (Neighbours, {"voters": 0}),
        (Neighbours, {"sharpness": 0.0}),
        (Neighbours, {"reuse_scale": -1.0}),
        (Calibration, {"half_life": 0.0}),
        (Calibration, {"turnover": -1.0}),
        (Calibration, {"refit_every": 0}),
    ],
    ids=str,
)
def test_settings_out_of_range_are_refused_in_one_sentence(kind: type, settings: dict) -> None:
    with pytest.raises(ValueError, match=r"^[A-Z][^\n]* above 0, got [^\n]*\.$"):
        kind(**settings)


def test_it_ends_above_random_picks_where_half_of_the_labels_are_wrong() -> None:
    ours, naive = (trained(kind, Symmetric, 0.5)[1] for kind in (Plausible, Naive))
    assert ours > naive + 0.02


@pytest.mark.slow
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
        len(known.selector.state_dict()["neighbours.ids"].unique())
        > 2 * len(unknown.selector.state_dict()["neighbours.ids"].unique()) - 2
    )


def test_rows_that_close_a_gap_are_not_taken_for_new(blobs, blob_model) -> None:
    selector, view, generator = Plausible(), ModelView(blob_model), torch.Generator().manual_seed(0)
    for _ in range(20):
        selector.select(blobs, view, 100, generator)
    before = selector.state_dict()["first_looks.share_new"]
    selector.remove(blobs.ids[:30])
    selector.select(blobs[slice(30, None)], view, 100, generator)
    assert selector.state_dict()["first_looks.share_new"] < before
    selector.select(blobs[slice(30, None)], view, 100, generator)
    assert selector.state_dict()["first_looks.share_new"] < 0.95 * before


@pytest.mark.parametrize("value", [1e12, 1e18, 1e20, 1e30, 3e38])
@pytest.mark.parametrize("kept", [False, True], ids=["passed", "kept features"])
def test_one_huge_row_leaves_no_trace(value: float, kept: bool) -> None:
    data, rule, rng = digits(), Plausible(), Generator().manual_seed(0)
    model = start(mlp, data.input_shape, 10, 0)
    pool = Samples.of(data.inputs[:200].clone(), data.labels[:200])
    pool.inputs[3] = value
    view = ModelView(model)
    if kept:
        pool = replace(pool, features=view.features(pool.inputs))
    for _ in range(20):
        picks = rule.select(pool, view, 50, rng)
        assert len(picks)
        assert 3 not in picks.rows
    state = rule.state_dict()
    assert all(bool(part.isfinite().all()) for part in state.values())
    usual = view.features(data.inputs[:200]).square().max()
    assert state["neighbours.square.value"].max() <= usual


@pytest.mark.parametrize("value", [1e6, 1e12, 1e18])
def test_a_huge_row_alone_in_the_first_slot_is_forgotten(value: float) -> None:
    """The running scale begins again where it is far beyond what came since."""
    data, rule, rng = digits(), Plausible(), Generator().manual_seed(0)
    view = ModelView(start(mlp, data.input_shape, 10, 0))
    first = Samples.of(torch.full((1, *data.input_shape), value), torch.tensor([0]), 10**6)
    rule.select(first, view, 50, rng)
    usual = Plausible()
    pool = Samples.of(data.inputs[:200].clone(), data.labels[:200])
    for _ in range(3):
        rule.select(pool, view, 50, rng)
        usual.select(pool, view, 50, rng)
    state, expected = rule.state_dict(), usual.state_dict()
    assert all(bool(part.isfinite().all()) for part in state.values())
    for name in ("neighbours.mean.value", "neighbours.square.value"):
        torch.testing.assert_close(state[name], expected[name], rtol=0.1, atol=0.1)


@pytest.mark.parametrize("median", [1e-3, 1.0, 70.0])
def test_a_row_is_left_out_10_000_times_beyond_the_median(median: float) -> None:
    """Or beyond 10,000, where features are smaller than 1."""
    bound = 10_000 * max(1.0, median)
    features = torch.full((9, 3), -median)
    features[0, 1], features[1, 2], features[2] = 0.99 * bound, 1.01 * bound, -1.01 * bound
    features[3] = torch.nan
    usable = torch.arange(9) != 3
    assert in_range(features, usable)[usable].tolist() == [True, False, False, *[True] * 5]


def test_a_slot_without_usable_rows_changes_no_scale() -> None:
    rule = Plausible()
    state = {}
    for usable in (True, False):
        features = torch.full((4, 3), 1e5)
        candidates = Candidates(
            features * usable, torch.full((4, 2), 0.5), torch.tensor([0, 1, 0, 1]),
            torch.full((4,), usable), torch.zeros(4), features,
        )  # fmt: skip
        rule.judge(candidates, torch.arange(4), torch.zeros(4, dtype=torch.bool), 4)
        state[usable] = rule.state_dict()["neighbours.square.value"]
    assert torch.allclose(state[False], 0.95 * state[True])


@pytest.mark.parametrize(("classes", "width", "voters"), [(2, 1, 30), (4, 6, 9), (10, 3, 60)])
def test_the_class_of_a_row_without_label_is_that_of_the_loops(
    classes: int, width: int, voters: int
) -> None:
    """Between the slots of labelled rows; a row that has voted does not vote for itself."""
    every, generator = make_candidates(40, classes, width, classes), Generator().manual_seed(1)
    rule = make_rule(voters)
    loops = Loops(classes, rule)
    for slot in range(REFIT + 4):
        ids = torch.randperm(40, generator=generator)[:12]
        rows = double(part_of(every, ids), 1 + slot / 50, slot % 7)
        judge(rule, rows, ids)
        columns = (
            rows.features, rows.probabilities, rows.labels, rows.uses, rows.inputs, ids,
        )  # fmt: skip
        loops.judge(*(column.tolist() for column in columns))
        others = torch.randperm(40, generator=generator)[:9]
        waiting = double(part_of(every, others), 1 + slot / 50)
        columns = (waiting.features, waiting.probabilities, others)
        assert_near(
            rule.classify(waiting, others), loops.classify(*(column.tolist() for column in columns))
        )
        assert float(rule.calibration.lasting_trust) == pytest.approx(
            loops.calibration.lasting, abs=1e-4
        )


def lasting(**settings: object) -> tuple[Plausible, Samples, ModelView]:
    """Return a selector that has earned trust, rows without labels, and the model."""
    trainer, _ = trained(Plausible, Symmetric, 0.5)
    pool = trainer.buffer.pool()
    rule = copy_of(trainer.selector, **settings)
    rule.calibration._lasting = torch.tensor(0.9)
    ids = pool.ids + 10_000  # rows of their own
    return rule, replace(pool, labels=torch.full_like(pool.labels, -1), ids=ids), trainer.view


def test_picks_without_labels_are_those_of_a_loop() -> None:
    """Certain rows, drawn by margin and by what is left to learn, with the posterior as target."""
    rule, rows, view = lasting()
    picked = 0
    for seed in range(5):
        picks = rule.select_unlabelled(rows, view, 12, Generator().manual_seed(seed))
        again = Generator().manual_seed(seed)
        drawn = draw_rows(len(rows), LEAST_PER_PICK * 12, again, CPU)
        uniform = torch.rand(len(drawn), generator=again).tolist()
        seen = look(rows[drawn], view, torch.ones(len(drawn), dtype=torch.bool))
        posterior = rule.classify(seen, rows.ids[drawn])
        keys = {}
        for at, (row, target, predicted) in enumerate(
            zip(drawn.tolist(), posterior.tolist(), seen.probabilities.tolist(), strict=True)
        ):
            first, second, *_ = sorted(target, reverse=True)
            left = 1.01 - sum(q * p for q, p in zip(target, predicted, strict=True))
            if first >= rule.pseudo_label_confidence:
                weighting = float(rule.agreements.weighting())
                power = weighting * float(rule.agreements.evenness())
                weight = max(first - second, 1e-4) ** weighting * left**power
                keys[row] = math.log(weight) - math.log(-math.log(uniform[at]))
        expected = sorted(keys, key=keys.__getitem__, reverse=True)[:12]
        assert picks.rows.tolist() == expected
        place = {row: at for at, row in enumerate(drawn.tolist())}
        assert picks.targets is not None
        assert picks.targets.equal(posterior[[place[row] for row in expected]])
        picked += len(picks)
    assert picked >= 20


@pytest.mark.parametrize(
    ("settings", "trust"),
    [
        ({}, 0.84),
        ({"pseudo_label_confidence": 1.1}, 0.9),
        ({"use_unlabelled": False}, 0.9),
        ({"pseudo_labels": False}, 0.9),
    ],
)
def test_rows_without_labels_that_are_not_trusted_are_not_picked(
    settings: dict[str, object], trust: float
) -> None:
    rule, rows, view = lasting(**settings)
    rule.calibration._lasting = torch.tensor(trust)
    assert not len(rule.select_unlabelled(rows, view, 32, Generator().manual_seed(0)))


def test_trust_lasts_only_after_hundreds_of_slots() -> None:
    """However confident the first fits are."""
    calibration, confident = Calibration(), torch.tensor([[9.0, 0.0], [0.0, 9.0]])
    labels, weights, new = torch.arange(2), torch.full((2,), 0.5), torch.zeros(2, dtype=torch.bool)
    agreements, every = Agreements(), torch.ones(2, dtype=torch.bool)
    rows = Candidates(confident, confident, labels, every, torch.ones(2), confident)
    for slot in range(1000):
        agreements.update(rows, confident, confident, confident)
        calibration.update(confident, labels, weights, new, math.inf, agreements)
        assert calibration.trust > 0.9
        if slot < 300:
            assert calibration.lasting_trust < 0.85
    assert calibration.lasting_trust > 0.9
    resumed = Calibration()
    resumed.load_state_dict(calibration.state_dict())
    assert resumed.lasting_trust == calibration.lasting_trust


def test_rows_without_labels_change_nothing_that_labels_are_judged_by() -> None:
    rule, rows, view = lasting()
    before, ratio = copy.deepcopy(rule.state_dict()), rule.clean_ratio()
    for seed in range(3):
        assert len(rule.select_unlabelled(rows, view, 32, Generator().manual_seed(seed)))
    torch.testing.assert_close(rule.state_dict(), before, rtol=0, atol=0)
    assert rule.clean_ratio() == ratio


def test_most_guesses_of_classes_are_right() -> None:
    rule, rows, view = lasting()
    data = digits()
    classes = {
        image.numpy().tobytes(): y for image, y in zip(data.inputs, data.labels, strict=True)
    }
    picks = rule.select_unlabelled(rows, view, 100, Generator().manual_seed(0))
    assert picks.targets is not None
    truth = torch.stack([classes[image.numpy().tobytes()] for image in rows.inputs[picks.rows]])
    assert (picks.targets.argmax(dim=1) == truth).float().mean() > 0.8


def test_labels_learned_by_heart_are_noticed() -> None:
    """Rows that come into a pool, most with a wrong label, and are then trained on for long."""
    rule, rows, ids = Plausible(), clusters(4, 100), torch.arange(400)
    right = functional.one_hot(torch.arange(400) % 4, 4).float()
    wrong = rows._replace(labels=(torch.arange(400) + (torch.arange(400) >= 80)) % 4)
    assert rule.learned_by_heart() is None
    rule.judge(rows._replace(probabilities=right), ids, torch.zeros(400, dtype=torch.bool), 400)
    assert rule.learned_by_heart() is None
    seen = wrong._replace(probabilities=right)
    rule.judge(seen, 400 + ids, torch.ones(400, dtype=torch.bool), 400)
    learned = functional.one_hot(wrong.labels, 4).float()
    for _ in range(150):
        features = 2.0 * functional.one_hot(wrong.labels, 10)
        by_heart = wrong._replace(probabilities=learned, features=features)
        rule.judge(by_heart, 400 + ids, torch.zeros(400, dtype=torch.bool), 400)
    found = rule.learned_by_heart()
    assert found is not None
    at_first, now = found
    assert at_first == pytest.approx(0.2, abs=0.1)
    assert now > 0.9
    assert rule.estimate().low < 0.3
