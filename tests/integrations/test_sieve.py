"""The sieve, and PyTorch's loaders around it."""

from __future__ import annotations

import importlib
import sys

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, TensorDataset

from tamis import OGRS, Naive, Plausible, Sieve, Sliding, Trainer
from tamis.integrations import Columns, SieveLoader, SieveSampler
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


def test_it_picks_as_a_trainer_with_a_new_pool_a_slot(fresh, rows, net, same_weights) -> None:
    model, other = net(), net()
    sieve = Sieve(model, 16, fresh(), warm_up=1)
    log = []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, labels, ids in rows.pools()[:4]:
        chosen, targets = sieve(inputs, labels, ids)
        log.append(sieve.picked.tolist())
        optimizer.zero_grad()
        cross_entropy(model(chosen), targets).backward()
        optimizer.step()
        sieve.update()
    trainer = Trainer(
        other, torch.optim.SGD(other.parameters(), lr=0.1), fresh(), Sliding(64), k=16,
        warm_up=1, predict_first=False,
    )  # fmt: skip
    pools = [(inputs, labels) for inputs, labels, _ in rows.pools()[:4]]
    assert log == [slot.ids.tolist() for slot in trainer.run(pools)]
    assert same_weights(model, other)


def test_it_counts_the_uses_of_every_id_and_forgets_the_oldest(rows, net) -> None:
    class Watched(Naive):
        def select(self, pool, *given):
            seen.append(dict(zip(pool.ids.tolist(), pool.uses.tolist(), strict=True)))
            return super().select(pool, *given)

    seen: list[dict[int, int]] = []
    sieve = Sieve(net(), 16, Watched(), warm_up=0)
    short = Sieve(net(), 64, Naive(), remembered=64)
    used = dict.fromkeys(range(256), 0)
    for inputs, labels, ids in rows.pools():
        sieve(inputs, labels, ids)
        short(inputs, labels, ids)
        assert seen[-1] == {row: used[row] for row in ids.tolist()}
        for row in sieve.picked.tolist():
            used[row] += 1
    assert sum(used.values()) == 128
    assert max(used.values()) == 2
    assert short.uses.of(rows.ids).tolist() == [0] * 192 + [1] * 64
    again = Sieve(net(), 16, Watched(), warm_up=0)
    again.load_state_dict(sieve.state_dict())
    assert again.uses.of(rows.ids).tolist() == list(used.values())


def test_the_default_is_plausible_through_averaged_weights(net) -> None:
    sieve = Sieve(net(), 8)
    assert isinstance(sieve.selector, Plausible)
    assert (sieve.window, sieve.warm_up) == (None, 0)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_picks_as_the_plain_loop_does(
    fresh, rows, net, recording, train_plainly, same_weights, workers: int
) -> None:
    model, other = net(), net()
    sieve = recording(model, fresh())
    data = TensorDataset(rows.inputs, rows.labels, rows.ids)
    pools = DataLoader(data, 64, num_workers=workers)
    for _ in range(2):
        train(model, SieveLoader(pools, sieve, NUMBERED))
    assert sieve.log == train_plainly(fresh(), other, rows.pools())
    assert same_weights(model, other)


@pytest.mark.parametrize("selector", [lambda: Plausible(pseudo_labels=False), OGRS, RHO])
def test_a_sampler_without_workers_picks_as_the_plain_loop_does(
    selector, rows, net, recording, train_plainly, same_weights
) -> None:
    model, other = net(), net()
    sieve = recording(model, selector())
    data = TensorDataset(rows.inputs, rows.labels)
    pools = BatchSampler(SequentialSampler(data), 64, drop_last=False)
    loader = DataLoader(data, batch_sampler=SieveSampler(pools, data, sieve))
    assert len(loader) == 4
    for _ in range(2):
        train(model, loader)
    assert sieve.log == train_plainly(selector(), other, rows.pools())
    assert same_weights(model, other)


def test_a_sampler_with_workers_picks_by_an_old_model(rows, net, recording, train_plainly) -> None:
    """Two workers ask for four batches ahead: a complete epoch is picked by the first model."""
    model = net()
    sieve = recording(model, OGRS())
    data = TensorDataset(rows.inputs, rows.labels)
    pools = BatchSampler(SequentialSampler(data), 64, drop_last=False)
    sampler = SieveSampler(pools, data, sieve)
    train(model, DataLoader(data, batch_sampler=sampler, num_workers=2))
    still = recording(net(), OGRS())
    for pool in rows.pools()[:4]:
        still.pick(*pool)
    assert sieve.log == still.log
    assert sieve.log != train_plainly(OGRS(), net(), rows.pools()[:4])


def test_a_sampler_refuses_what_indices_cannot_carry(rows, net) -> None:
    data = TensorDataset(rows.inputs, rows.labels)
    sampler = SieveSampler([[0, 1, 2]], data, Sieve(net(), 2))
    with pytest.raises(TypeError, match=r"Plausible\(pseudo_labels=False\)"):
        next(iter(sampler))


def test_weights_are_factors_on_shares(rows, net, recording, train_plainly) -> None:
    model, other = net(), net()
    sieve = recording(model, MentorNet())
    train(model, SieveLoader(rows.pools(), sieve, NUMBERED))
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
    model = net()
    bare, masked = recording(model, fresh()), recording(Masked(model), fresh())
    for inputs, labels, ids in rows.pools():
        bare.pick(inputs, labels, ids)
        bare.update()
        batch = {"mask": torch.ones_like(inputs), "points": inputs, "y": labels, "row": ids}
        batch["name"] = "kept"
        found = masked.sift(batch, Columns(("points", "mask"), "y", "row"))
        assert found["name"] == "kept"
        assert len(found["points"]) == len(found["mask"]) == len(found["y"])
        assert found["row"].tolist() == masked.log[-1]
        masked.update()
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
    Sieve(Cast(net(), 1), 8, OGRS(), warm_up=0).pick(rows.inputs, rows.labels)
    with pytest.raises(TypeError, match="ends in a linear layer"):
        Sieve(Cast(net(), 2), 8, OGRS(), warm_up=0).pick(rows.inputs, rows.labels)


def test_weights_with_inputs_by_name(rows, net) -> None:
    inputs, labels, _ = rows.pools()[0]
    batch = {"points": inputs, "mask": torch.ones_like(inputs), "y": labels}
    found = Sieve(Masked(net()), 8, MentorNet(), warm_up=0).sift(
        batch, Columns(("points", "mask"), "y")
    )
    assert found["y"].shape == (len(found["mask"]), 3)


def test_saved_and_resumed_equals_unbroken(fresh, rows, net, recording) -> None:
    def go_through(sieve, pools) -> None:
        for inputs, labels, ids in pools:
            sieve.pick(inputs, labels, ids)
            sieve.update()

    model = net()
    reference, first, second = (recording(model, fresh()) for _ in range(3))
    go_through(reference, rows.pools())
    go_through(first, rows.pools()[:3])
    second.load_state_dict(first.state_dict())
    go_through(second, rows.pools()[3:])
    assert first.log + second.log == reference.log
    assert second.checksum == reference.checksum != first.checksum


def test_rows_without_ids_are_numbered_as_they_come(rows, net) -> None:
    sieve = Sieve(net(), 64, Naive(), ema=None)
    for inputs, labels, _ in rows.pools()[:2]:
        sieve.pick(inputs, labels)
    assert sorted(sieve.picked.tolist()) == list(range(64, 128))


def test_clear_sentences(rows, net) -> None:
    with pytest.raises(ValueError, match="at least 1 pick"):
        Sieve(net(), 0)
    with pytest.raises(ValueError, match="None of 256 rows can be trained on"):
        Sieve(net(), 1, Naive()).pick(rows.inputs * torch.nan, rows.labels)


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
