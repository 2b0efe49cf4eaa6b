"""The sieve, and PyTorch's loaders around it."""

from __future__ import annotations

import importlib
import sys

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, TensorDataset

from tamis import OGRS, Naive, Plausible
from tamis.integrations import Columns, Sieve, SieveLoader, SieveSampler
from tamis.selectors import RHO, MentorNet

NUMBERED = Columns(ids=2)
NEEDS = {
    "lightning": ("lightning", "lightning"),
    "transformers": ("transformers", "hf"),
    "skorch": ("skorch", "sklearn"),
    "sklearn": ("sklearn", "sklearn"),
    "river": ("river", "river"),
    "cleanlab": ("cleanlab", "audit"),
}


def train(model: nn.Module, batches) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets, *_ in batches:
        optimizer.zero_grad()
        cross_entropy(model(inputs), targets).backward()
        optimizer.step()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_picks_as_the_plain_loop_does(
    fresh, rows, net, recording, train_plainly, same_weights, workers: int
) -> None:
    model, other, sieve = net(), net(), recording(fresh())
    data = TensorDataset(rows.inputs, rows.labels, rows.ids)
    pools = DataLoader(data, 64, num_workers=workers)
    for _ in range(2):
        train(model, SieveLoader(pools, model, sieve, NUMBERED))
    assert sieve.log == train_plainly(fresh(), other, rows.pools())
    assert same_weights(model, other)


@pytest.mark.parametrize("selector", [lambda: Plausible(mend=False), OGRS, RHO])
def test_a_sampler_without_workers_picks_as_the_plain_loop_does(
    selector, rows, net, recording, train_plainly, same_weights
) -> None:
    model, other, sieve = net(), net(), recording(selector())
    data = TensorDataset(rows.inputs, rows.labels)
    pools = BatchSampler(SequentialSampler(data), 64, drop_last=False)
    loader = DataLoader(data, batch_sampler=SieveSampler(pools, data, model, sieve))
    assert len(loader) == 4
    for _ in range(2):
        train(model, loader)
    assert sieve.log == train_plainly(selector(), other, rows.pools())
    assert same_weights(model, other)


def test_a_sampler_with_workers_picks_by_an_old_model(rows, net, recording, train_plainly) -> None:
    """Two workers ask for four batches ahead: a whole epoch is picked by the first model."""
    model, sieve = net(), recording(OGRS())
    data = TensorDataset(rows.inputs, rows.labels)
    pools = BatchSampler(SequentialSampler(data), 64, drop_last=False)
    sampler = SieveSampler(pools, data, model, sieve)
    train(model, DataLoader(data, batch_sampler=sampler, num_workers=2))
    still = recording(OGRS())
    for pool in rows.pools()[:4]:
        still.pick(net(), *pool)
    assert sieve.log == still.log
    assert sieve.log != train_plainly(OGRS(), net(), rows.pools()[:4])


def test_a_sampler_refuses_what_indices_cannot_carry(rows, net) -> None:
    data = TensorDataset(rows.inputs, rows.labels)
    sampler = SieveSampler([[0, 1, 2]], data, net(), Sieve(Plausible(), 2))
    with pytest.raises(TypeError, match=r"Plausible\(mend=False\)"):
        next(iter(sampler))


def test_weights_are_factors_on_shares(rows, net, recording, train_plainly) -> None:
    model, other, sieve = net(), net(), recording(MentorNet())
    train(model, SieveLoader(rows.pools(), model, sieve, NUMBERED))
    assert sieve.log == train_plainly(MentorNet(), other, rows.pools())
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one, two)


class Masked(nn.Module):
    """Takes its inputs by name, and returns an output with logits, as a transformer does."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, points: Tensor, mask: Tensor) -> nn.Module:
        found = nn.Module()
        found.logits = self.inner(points * mask)
        return found


def test_inputs_by_name(fresh, rows, net, recording) -> None:
    bare, masked = recording(fresh()), recording(fresh())
    model = net()
    named = Masked(model)
    for inputs, labels, ids in rows.pools():
        bare.pick(model, inputs, labels, ids)
        bare.update(model)
        batch = {"mask": torch.ones_like(inputs), "points": inputs, "y": labels, "row": ids}
        batch["name"] = "kept"
        found = masked.sift(named, batch, Columns(("points", "mask"), "y", "row"))
        assert found["name"] == "kept"
        assert len(found["points"]) == len(found["mask"]) == len(found["y"])
        assert found["row"].tolist() == masked.log[-1]
        masked.update(named)
    assert masked.log == bare.log


class Cast(nn.Module):
    """Ends in a linear layer and a cast, as under accelerate; or in something more."""

    def __init__(self, inner: nn.Module, factor: float) -> None:
        super().__init__()
        self.inner = inner
        self.factor = factor

    def forward(self, inputs: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            logits = self.inner(inputs)
        return logits.float() * self.factor


def test_a_cast_of_the_logits_is_no_other_head(rows, net) -> None:
    Sieve(OGRS(), 8).pick(Cast(net(), 1), rows.inputs, rows.labels)
    with pytest.raises(TypeError, match="ends in a linear layer"):
        Sieve(OGRS(), 8).pick(Cast(net(), 2), rows.inputs, rows.labels)


def test_weights_with_inputs_by_name(rows, net) -> None:
    inputs, labels, _ = rows.pools()[0]
    batch = {"points": inputs, "mask": torch.ones_like(inputs), "y": labels}
    found = Sieve(MentorNet(), 8).sift(Masked(net()), batch, Columns(("points", "mask"), "y"))
    assert found["y"].shape == (len(found["mask"]), 3)


def test_saved_and_resumed_equals_unbroken(fresh, rows, net, recording) -> None:
    def go_through(sieve, pools) -> None:
        for inputs, labels, ids in pools:
            sieve.pick(model, inputs, labels, ids)
            sieve.update(model)

    model, whole, first, second = net(), *(recording(fresh()) for _ in range(3))
    go_through(whole, rows.pools())
    go_through(first, rows.pools()[:3])
    second.load_state_dict(first.state_dict())
    go_through(second, rows.pools()[3:])
    assert first.log + second.log == whole.log
    assert second.chain == whole.chain != first.chain


def test_rows_without_ids_are_numbered_as_they_come(rows, net) -> None:
    sieve = Sieve(Naive(), 64, ema=None)
    for inputs, labels, _ in rows.pools()[:2]:
        sieve.pick(net(), inputs, labels)
    assert sorted(sieve.picked.tolist()) == list(range(64, 128))


def test_clear_sentences(rows, net) -> None:
    with pytest.raises(ValueError, match="at least 1 pick"):
        Sieve(Naive(), 0)
    with pytest.raises(ValueError, match="None of 256 rows can be trained on"):
        Sieve(Naive(), 1).pick(net(), rows.inputs * torch.nan, rows.labels)


@pytest.mark.parametrize("name", NEEDS)
def test_without_its_library_there_is_one_sentence(name: str, monkeypatch) -> None:
    library, extra = NEEDS[name]
    for loaded in [library, *(name for name in sys.modules if name.startswith(f"{library}."))]:
        monkeypatch.setitem(sys.modules, loaded, None)
    monkeypatch.delitem(sys.modules, f"tamis.integrations.{name}", raising=False)
    with pytest.raises(ImportError) as caught:
        importlib.import_module(f"tamis.integrations.{name}")
    named = "scikit-learn" if library == "sklearn" else library
    wanted = f"tamis.integrations.{name} needs {named}: pip install 'tamis[{extra}]'"
    assert str(caught.value) == wanted
