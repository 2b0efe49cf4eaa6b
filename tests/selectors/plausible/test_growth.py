"""Plausible after a class came up: its parts are those of one that had the class at no share."""

from __future__ import annotations

import pytest
import torch
from torch import Generator

from tamis.selectors.plausible import Plausible
from tamis.selectors.plausible.candidates import Candidates
from tamis.selectors.plausible.confusion import Confusion
from tests.support.identical import identical


def candidates_of(classes: int, seed: int, count: int = 40) -> tuple[Candidates, torch.Tensor]:
    generator = Generator().manual_seed(seed)
    labels = torch.randint(classes, (count,), generator=generator)
    features = torch.eye(10)[labels % 10] + 0.3 * torch.randn(count, 10, generator=generator)
    logits = 3 * torch.randn(count, classes, generator=generator)
    logits = logits.scatter_add(1, labels[:, None], torch.full((count, 1), 3.0))
    ids = torch.arange(count) + 1000 * seed
    usable = torch.ones(count, dtype=torch.bool)
    uses = torch.zeros(count)
    found = Candidates(features, logits.softmax(dim=1), labels, usable, uses, features)
    return found, ids


def judged(selector: Plausible, classes: int, seeds: range) -> None:
    for seed in seeds:
        candidates, ids = candidates_of(classes, seed)
        selector.judge(candidates, ids, torch.zeros(len(ids), dtype=torch.bool), 500)


@pytest.mark.parametrize("classes", [(4, 6), (4, 140), (130, 140)])
def test_it_judges_on_and_is_resumed(classes: tuple[int, int]) -> None:
    few, many = classes
    selector = Plausible()
    selector.grow(few)  # before the first slot there is nothing to grow
    judged(selector, few, range(20))
    selector.grow(many)
    selector.grow(few)
    again = Plausible()
    again.load_state_dict(selector.state_dict())
    for one in (selector, again):
        judged(one, many, range(20, 30))
    assert identical(again.state_dict(), selector.state_dict())


def test_the_confusion_of_known_classes_stays() -> None:
    confusion = Confusion()
    for seed in range(20):
        candidates, _ = candidates_of(4, seed)
        posterior = confusion.posterior(candidates, candidates.probabilities, 0.7)
        confusion.update(candidates, posterior, posterior.topk(2, dim=1).indices)
    before = confusion.counts(confusion.state_dict()["joint"], 40)
    confusion.grow(6)
    after = confusion.counts(confusion.state_dict()["joint"], 40)
    torch.testing.assert_close(after[:4, :4], before)
    assert after[4:].eq(confusion.prior_count).all()
    assert after[:, 4:].eq(confusion.prior_count).all()
    matrix = confusion.matrix(0.7, 40)
    torch.testing.assert_close(matrix.sum(dim=1), torch.ones(6))
    assert matrix[5, 5] == pytest.approx(0.7)


def test_beyond_128_classes_the_posterior_is_that_of_the_matrix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same confusion, grown by a class: once within the limit of a matrix, once beyond."""
    posteriors = []
    for limit in (128, 6):
        monkeypatch.setattr("tamis.noise.pairs.MANY_CLASSES", 128)
        confusion = Confusion()
        for seed in range(20):
            candidates, _ = candidates_of(5, seed)
            posterior = confusion.posterior(candidates, candidates.probabilities, 0.7)
            confusion.update(candidates, posterior, posterior.topk(2, dim=1).indices)
        monkeypatch.setattr("tamis.noise.pairs.MANY_CLASSES", limit)
        confusion.grow(7)
        candidates, _ = candidates_of(7, 50)
        posteriors.append(confusion.posterior(candidates, candidates.probabilities, 0.7))
    torch.testing.assert_close(*posteriors)


def test_a_state_from_before_votes_by_inputs_is_resumed() -> None:
    selector = Plausible()
    judged(selector, 4, range(5))
    state = selector.state_dict()
    later = ("input_votes.", "agreements.confirmed", "agreements.backed", "agreements.at_first")
    before = {name: part for name, part in state.items() if not name.startswith(later)}
    assert len(before) < len(state)
    again = Plausible()
    again.load_state_dict(before)
    assert again.clean_ratio() == selector.clean_ratio()
    judged(again, 4, range(5, 10))
    assert again.state_dict().keys() == state.keys()
