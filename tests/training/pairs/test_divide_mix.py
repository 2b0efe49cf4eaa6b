"""DivideMix against the authors' algorithm, written for two linear models without autograd's aid
from the package: split, refine, guess, mix, descend."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.mixture import GaussianMixture
from torch import Generator, Tensor, nn

from tamis.data import Samples
from tamis.models import logistic, start
from tamis.training.pairs import DivideMix

RATE, RAMP, STRENGTH = 0.2, 6, 5.0


def trust(losses: Tensor, seed: int) -> list[float]:
    scaled = (losses - losses.min()) / (losses.max() - losses.min())
    mixture = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=seed)
    points = scaled.detach().numpy()[:, None]
    return mixture.fit(points).predict_proba(points)[:, mixture.means_.argmin()].tolist()


def sharper(shares: Tensor) -> Tensor:
    return shares**2 / (shares**2).sum()


def authors_step(
    model: nn.Module, other: nn.Module, batch: Samples, trusted: list[float], k: int,
    weight: float, rng: Generator,
) -> None:  # fmt: skip
    """Train one model on the division by the other, as the authors' `train` does for a batch."""
    labelled = [row for row, w in enumerate(trusted) if w > 0.5][:k]
    rest = [row for row, w in enumerate(trusted) if w <= 0.5][: len(labelled)]
    with torch.no_grad():
        own, theirs = (one(batch.inputs).softmax(1) for one in (model, other))
    targets = []
    for row in labelled:
        given = torch.zeros(3, dtype=torch.float64)
        given[batch.labels[row]] = 1
        targets.append(sharper(trusted[row] * given + (1 - trusted[row]) * own[row]))
    targets += [sharper((own[row] + theirs[row]) / 2) for row in rest]
    rows = labelled + rest
    seed = int(torch.randint(2**63 - 1, (), generator=rng))
    share = np.random.default_rng(seed).beta(4.0, 4.0)
    share = max(share, 1 - share)
    order = torch.randperm(len(rows), generator=rng).tolist()
    loss_x, loss_u, mean = torch.zeros(()), torch.zeros(()), torch.zeros(3)
    for place, partner in enumerate(order):
        x = share * batch.inputs[rows[place]] + (1 - share) * batch.inputs[rows[partner]]
        wanted = share * targets[place] + (1 - share) * targets[partner]
        p = model(x[None])[0].softmax(0)
        mean = mean + p / len(rows)
        if place < len(labelled):
            loss_x = loss_x - (wanted * p.log()).sum() / len(labelled)
        else:
            loss_u = loss_u + (p - wanted).square().sum() / 3 / len(rest)
    penalty = sum(torch.log(1 / 3 / part) / 3 for part in mean)
    loss = loss_x + weight * loss_u + penalty
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    with torch.no_grad():
        for part, gradient in zip(model.parameters(), gradients, strict=True):
            part -= RATE * gradient


def test_slots_are_the_authors(blobs: Samples, make_pair) -> None:
    exact = replace(blobs, inputs=blobs.inputs.double())
    ours, mine = (
        tuple(start(logistic, (2,), 3, seed).double() for seed in (0, 1)) for _ in range(2)
    )
    pair = make_pair(
        DivideMix, models=ours, rate=RATE, batch=40, k=12, strength=STRENGTH, ramp=RAMP, seed=3
    )
    rng, uneven = Generator().manual_seed(3), 0
    for number in range(8):
        batch = exact[torch.randperm(300, generator=rng)[:40]]
        seen = []
        for model in mine:
            losses = nn.functional.cross_entropy(
                model(batch.inputs), batch.labels, reduction="none"
            )
            seen.append(trust(losses, int(torch.randint(2**31 - 1, (1,), generator=rng))))
        weight = STRENGTH * min(1.0, number / RAMP)
        before = [[part.detach().clone() for part in model.parameters()] for model in mine]
        authors_step(mine[0], mine[1], batch, seen[1], 12, weight, rng)
        after = [part.detach().clone() for part in mine[0].parameters()]
        for part, old in zip(mine[0].parameters(), before[0], strict=True):
            part.data.copy_(old)  # the second is trained with the first as it was
        authors_step(mine[1], mine[0], batch, seen[0], 12, weight, rng)
        for part, new in zip(mine[0].parameters(), after, strict=True):
            part.data.copy_(new)
        pair.step(exact if number == 0 else None)
        for one, other in zip(ours, mine, strict=True):
            for part, wanted in zip(one.parameters(), other.parameters(), strict=True):
                torch.testing.assert_close(part, wanted, rtol=1e-5, atol=1e-6)
        uneven += seen[0] != seen[1]
    assert uneven  # else it would not show whose division is whose


def test_in_the_warm_up_all_labels_are_learned(blobs: Samples, make_pair) -> None:
    pair = make_pair(DivideMix, warm_up=20, k=16)
    slots = list(pair.run([blobs] + [None] * 59))
    assert {len(slot.ids) for slot in slots[:20]} == {16}
    early, late = (
        sum(slot.purity for slot in part) / len(part) for part in (slots[:20], slots[40:])
    )
    assert early == pytest.approx(0.7, abs=0.1)
    assert max(len(slot.ids) for slot in slots[20:]) > 16  # guessed rows are picks as well
    assert late < 0.9  # wrong labels are among them, and are not learned
    right = torch.where(blobs.clean, blobs.labels, (blobs.labels - 1) % 3)
    assert pair.accuracy(blobs.inputs, right).ema > 0.97


@pytest.mark.parametrize("settings", [{"threshold": 1.0}, {"strength": -1.0}, {"ramp": 0}])
def test_wrong_settings_get_a_sentence(make_pair, settings: dict) -> None:
    with pytest.raises(ValueError, match="DivideMix needs"):
        make_pair(DivideMix, **settings)
