"""IDO against the gradient of its loss, its mixture against a loop, and its counts."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Generator, nn

from tamis.data import Samples
from tamis.losses import cross_entropy
from tamis.model_view import ModelView
from tamis.models import mlp, start
from tamis.selectors import IDO
from tamis.selectors.ido import START, fit_step, rates, shares_of, targets_for


def density(at: float, alpha: float, beta: float) -> float:
    scale = math.gamma(alpha + beta) / math.gamma(alpha) / math.gamma(beta)
    return scale * at ** (alpha - 1) * (1 - at) ** (beta - 1)


def authors_step(parts: list[list[float]], at: list[float]) -> list[list[float]]:
    """One step of EM by moments, one rate at a time."""
    shares = []
    for x in at:
        likely = [weight * density(x, alpha, beta) for alpha, beta, weight in parts]
        shares.append([each / sum(likely) for each in likely])
    found = []
    for k in range(2):
        total = sum(share[k] for share in shares)
        mean = sum(share[k] * x for share, x in zip(shares, at, strict=True)) / total
        spread = sum(s[k] * (x - mean) ** 2 for s, x in zip(shares, at, strict=True)) / total
        alpha = mean * (mean * (1 - mean) / spread - 1)
        beta = alpha * (1 - mean) / mean
        if k == 0 and beta < 1.02:
            beta = 1.1
        if k == 1 and alpha < 1.02:
            alpha = 1.1
        found.append([alpha, beta, total / len(at)])
    return found


def test_the_mixture_is_the_authors(generator: Generator) -> None:
    uses = torch.randint(1, 20, (80,), generator=generator)
    wrong = (uses * torch.rand(80, generator=generator).square()).long()
    at = rates(torch.stack([wrong, uses], dim=1))
    assert at.tolist() == pytest.approx(
        [(w + 1) / (u + 2) for w, u in zip(wrong.tolist(), uses.tolist(), strict=True)]
    )
    ours, theirs = START, START.tolist()
    for _ in range(6):
        ours, theirs = fit_step(ours, at), authors_step(theirs, at.tolist())
        for mine, other in zip(ours.tolist(), theirs, strict=True):
            assert mine == pytest.approx(other, rel=1e-3)


def test_targets_give_the_gradient_of_the_authors_loss(generator: Generator) -> None:
    """P (CE + CE) + (1 - P) entropy, halved, where both views are the row as it is."""
    logits = torch.randn(30, 4, generator=generator).double().requires_grad_()
    labels = torch.randint(4, (30,), generator=generator)
    clean = torch.rand(30, generator=generator).double()
    total = logits.new_zeros(())
    for z, label, share in zip(logits, labels, clean, strict=True):
        p = z.softmax(dim=0)
        total = total + 2 * share * -p[label].log() - (1 - share) * (p * p.log()).sum()
    theirs = torch.autograd.grad(total / 2, logits, retain_graph=True)[0]
    targets = targets_for(logits.detach().softmax(dim=1), labels, clean)
    torch.testing.assert_close(targets.sum(dim=1), torch.ones(30).double())
    ours = torch.autograd.grad(cross_entropy(logits, targets).sum(), logits)[0]
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_wrong_events_are_counted_by_row(blobs: Samples) -> None:
    model, selector, counts = start(mlp, (2,), 3, seed=0), IDO(), {}
    for slot in range(12):
        picks = selector.select(blobs, ModelView(model), 40, Generator().manual_seed(slot))
        predicted = model(blobs.inputs).argmax(dim=1)
        for row in picks.rows.tolist():
            wrong, uses = counts.get(row, (0, 0))
            missed = predicted[row] != blobs.labels[row]
            counts[row] = wrong + int(missed), uses + 1
        with torch.no_grad():
            model[-1].weight.add_(0.1 * torch.randn_like(model[-1].weight))
    state = selector.state_dict()
    kept = zip(state["ids"].tolist(), state["counts"].tolist(), strict=True)
    assert {row: tuple(pair) for row, pair in kept} == counts


def test_wrong_labels_come_to_weigh_little(blobs: Samples, blob_model: nn.Module) -> None:
    selector, view, g = IDO(), ModelView(blob_model), Generator().manual_seed(0)
    for _ in range(100):
        selector.select(blobs, view, 60, g)
    state = selector.state_dict()
    clean = shares_of(state["mixture"], rates(state["counts"]))[0]
    right = blobs.clean[state["ids"]]
    assert clean[right].mean() > 0.95
    assert clean[~right].mean() < 0.1
