"""Lightning against the plain loop."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from tamis import Plausible
from tamis.integrations import Columns

NUMBERED = Columns(ids=2)
# Lightning's own call of torch; nobody here can change it.
pytestmark = pytest.mark.filterwarnings("ignore:`isinstance\\(treespec, LeafSpec\\)` is deprecated")


@pytest.fixture(scope="module")
def lightning() -> ModuleType:
    """Imported late: it takes seconds, and only the worker that runs this file needs it."""
    import lightning.pytorch

    return lightning.pytorch


@pytest.fixture
def module(lightning):
    class Module(lightning.LightningModule):
        def __init__(self, net: nn.Module) -> None:
            super().__init__()
            self.net = net

        def forward(self, inputs):
            return self.net(inputs)

        def training_step(self, batch, _):
            return cross_entropy(self(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Module


@pytest.fixture
def trainer(lightning, tmp_path):
    from tamis.integrations.lightning import SieveCallback

    def make(sieve, epochs=2, **settings):
        return lightning.Trainer(
            max_epochs=epochs,
            callbacks=[SieveCallback(sieve, NUMBERED)],
            accelerator="cpu",
            default_root_dir=tmp_path,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            **settings,
        )

    return make


@pytest.fixture
def pools(rows) -> DataLoader:
    return DataLoader(TensorDataset(rows.inputs, rows.labels, rows.ids), 64)


def test_it_picks_as_the_plain_loop_does(
    fresh, rows, net, pools, recording, module, trainer, train_plainly, same_weights
) -> None:
    found, other = module(net()), net()
    sieve = recording(found, fresh())
    trainer(sieve).fit(found, pools)
    assert sieve.log == train_plainly(fresh(), other, rows.pools())
    assert same_weights(found.net, other)
    assert "on_after_batch_transfer" not in vars(found)


def test_validation_sees_all_rows(net, pools, recording, module, trainer) -> None:
    class Validated(module):
        rows = 0

        def validation_step(self, batch, _):
            self.rows += len(batch[0])

    found = Validated(net())
    trainer(recording(found, Plausible()), num_sanity_val_steps=0).fit(found, pools, pools)
    assert found.rows == 2 * 256


class Stream(IterableDataset):
    """Pools that come one by one, nobody knows how many."""

    def __init__(self, pools) -> None:
        self.pools = pools

    def __iter__(self):
        yield from self.pools


def test_a_stream_without_length(
    rows, net, recording, module, trainer, train_plainly, same_weights
) -> None:
    found, other = module(net()), net()
    sieve = recording(found, Plausible())
    trainer(sieve, epochs=1).fit(found, DataLoader(Stream(rows.pools()), batch_size=None))
    assert sieve.log == train_plainly(Plausible(), other, rows.pools())
    assert same_weights(found.net, other)


def test_gathered_gradients(
    rows, net, pools, recording, module, trainer, train_plainly, same_weights
) -> None:
    found, other = module(net()), net()
    sieve = recording(found, Plausible())
    trainer(sieve, accumulate_grad_batches=2).fit(found, pools)
    assert sieve.log == train_plainly(Plausible(), other, rows.pools(), gathered=2)
    assert same_weights(found.net, other)


def test_resumed_equals_unbroken(
    fresh, rows, net, pools, recording, module, trainer, same_weights, tmp_path
) -> None:
    unbroken, resumed = module(net()), module(net())
    reference = recording(unbroken, fresh())
    trainer(reference).fit(unbroken, pools)
    started = module(net())
    first, second = recording(started, fresh()), recording(resumed, fresh())
    begun = trainer(first, epochs=1)
    begun.fit(started, pools)
    begun.save_checkpoint(tmp_path / "half.ckpt")
    trainer(second).fit(resumed, pools, ckpt_path=tmp_path / "half.ckpt")
    assert first.log + second.log == reference.log
    assert same_weights(resumed.net, unbroken.net)


@pytest.mark.parametrize("own_hook", [False, True])
def test_a_data_module(
    rows, net, pools, recording, module, trainer, train_plainly, lightning, own_hook: bool
) -> None:
    class Data(lightning.LightningDataModule):
        def train_dataloader(self):
            return pools

    class Doubling(Data):
        def on_after_batch_transfer(self, batch, dataloader_idx):
            return [2 * batch[0], *batch[1:]]

    found = module(net())
    sieve = recording(found, Plausible())
    trainer(sieve).fit(found, datamodule=Doubling() if own_hook else Data())
    factor = 2 if own_hook else 1
    scaled = [(factor * inputs, labels, ids) for inputs, labels, ids in rows.pools()]
    assert sieve.log == train_plainly(Plausible(), net(), scaled)


def test_a_sieve_of_another_module_is_refused(net, pools, recording, module, trainer) -> None:
    with pytest.raises(ValueError, match="sieve was built for another model"):
        trainer(recording(module(net()), Plausible())).fit(module(net()), pools)
