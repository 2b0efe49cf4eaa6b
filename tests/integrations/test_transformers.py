"""The Hugging Face Trainer against the plain loop."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from tamis import Average, ModelView, Plausible, Samples

WORDS = 12


@pytest.fixture(scope="module")
def transformers() -> ModuleType:
    """Imported late: it takes seconds, and only the worker that runs this file needs it."""
    import transformers

    return transformers


@pytest.fixture
def settings(transformers, tmp_path):
    def make(**given):
        known = {
            "output_dir": str(tmp_path),
            "per_device_train_batch_size": 64,
            "num_train_epochs": 2,
            "optim": "sgd",
            "learning_rate": 0.1,
            "lr_scheduler_type": "constant",
            "max_grad_norm": 0.0,
            "train_sampling_strategy": "sequential",
            "remove_unused_columns": False,
            "save_strategy": "no",
            "report_to": [],
            "disable_tqdm": True,
            "use_cpu": True,
        }
        return transformers.TrainingArguments(**(known | given))

    return make


@pytest.fixture
def wrapped(transformers):
    """A model that takes and returns what models of transformers do."""

    class Wrapped(nn.Module):
        def __init__(self, net: nn.Module) -> None:
            super().__init__()
            self.net = net

        def forward(self, points, labels=None):
            logits = self.net(points)
            loss = {} if labels is None else {"loss": cross_entropy(logits, labels)}
            return transformers.utils.ModelOutput(**loss, logits=logits)

    return Wrapped


@pytest.fixture
def table(rows) -> list[dict]:
    return [
        {"points": points, "labels": label, "row": row}
        for points, label, row in zip(rows.inputs, rows.labels, rows.ids, strict=True)
    ]


@pytest.fixture
def sieve_trainer(transformers):
    from tamis.integrations.transformers import SieveTrainer

    return SieveTrainer


def test_it_picks_as_the_plain_loop_does(
    fresh,
    rows,
    net,
    table,
    recording,
    wrapped,
    settings,
    sieve_trainer,
    train_plainly,
    same_weights,
) -> None:
    found, other = wrapped(net()), net()
    sieve = recording(found, fresh())
    sieve_trainer(found, settings(), train_dataset=table, sieve=sieve, ids="row").train()
    assert sieve.log == train_plainly(fresh(), other, rows.pools())
    assert same_weights(found.net, other)


def test_gathered_gradients(
    rows, net, table, recording, wrapped, settings, sieve_trainer, train_plainly, same_weights
) -> None:
    found, other = wrapped(net()), net()
    sieve = recording(found, Plausible())
    given = settings(gradient_accumulation_steps=2)
    sieve_trainer(found, given, train_dataset=table, sieve=sieve, ids="row").train()
    assert sieve.log == train_plainly(Plausible(), other, rows.pools(), gathered=2)
    assert same_weights(found.net, other)


def test_resumed_equals_unbroken(
    fresh, net, table, recording, wrapped, settings, sieve_trainer, same_weights, tmp_path
) -> None:
    def trainer(model, sieve, **given):
        known = settings(save_strategy="steps", save_steps=4, **given)
        return sieve_trainer(model, known, train_dataset=table, sieve=sieve, ids="row")

    unbroken, resumed = wrapped(net()), wrapped(net())
    reference = recording(unbroken, fresh())
    trainer(unbroken, reference).train()
    second = recording(resumed, fresh())
    for folder in (str(tmp_path / "checkpoint-4"), True):
        trainer(resumed, second).train(resume_from_checkpoint=folder)
        if folder is not True:  # the last one is at the end: nothing is left to be done
            assert reference.log[4:] == second.log
        assert same_weights(resumed, unbroken)


def test_evaluation_sees_all_rows(
    rows, net, table, recording, wrapped, settings, sieve_trainer
) -> None:
    model = wrapped(net())
    sieve = recording(model, Plausible())
    trainer = sieve_trainer(model, settings(), sieve=sieve, ids="row")
    wanted = cross_entropy(model.net(rows.inputs), rows.labels).item()
    assert trainer.evaluate(table)["eval_loss"] == pytest.approx(wanted, rel=1e-5)
    unlabelled = [{name: row[name] for name in ("points", "row")} for row in table]
    assert trainer.predict(unlabelled).predictions.shape == (256, 3)
    assert sieve.log == []


def test_ids_must_not_be_removed(net, wrapped, recording, settings, sieve_trainer) -> None:
    with pytest.raises(ValueError, match="remove_unused_columns=False"):
        sieve_trainer(
            wrapped(net()),
            settings(remove_unused_columns=True),
            sieve=recording(net(), Plausible()),
            ids="row",
        )


def test_token_ids_and_their_mask_through_a_transformer(
    transformers, recording, settings, sieve_trainer, same_weights, fresh
) -> None:
    generator = torch.Generator().manual_seed(0)
    words = torch.randint(1, WORDS, (96, 7), generator=generator)
    mask = (torch.arange(7) < torch.randint(3, 8, (96, 1), generator=generator)).long()
    labels = torch.randint(2, (96,), generator=generator)
    columns = {"input_ids": words * mask, "attention_mask": mask}
    table = [
        {"labels": labels[row], **{name: part[row] for name, part in columns.items()}}
        for row in range(96)
    ]

    def make() -> nn.Module:
        torch.manual_seed(0)
        shape = transformers.BertConfig(
            vocab_size=WORDS, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=16, max_position_embeddings=8, hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )  # fmt: skip
        return transformers.BertForSequenceClassification(shape)

    model = make()
    sieve = recording(model, fresh())
    given = settings(per_device_train_batch_size=32, num_train_epochs=1)
    sieve_trainer(model, given, train_dataset=table, sieve=sieve).train()

    other, selector, log = make(), fresh(), []
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    rng, average = torch.Generator().manual_seed(0), Average(0.99)
    for ids in torch.arange(96).split(32):
        pool = {name: part[ids] for name, part in columns.items()}
        numbers = torch.arange(32)[:, None]
        given = Samples(numbers, labels[ids], ids, torch.zeros_like(ids))
        view = ModelView(other, average, columns=pool)
        picks = selector.select(given, view, 16, rng).real()
        log.append(ids[picks.rows].tolist())
        targets = labels[ids][picks.rows] if picks.targets is None else picks.targets
        logits = other(**{name: part[picks.rows] for name, part in pool.items()}).logits
        optimizer.zero_grad()
        cross_entropy(logits, targets).backward()
        optimizer.step()
        average.update(other)
    assert sieve.log == log
    assert same_weights(model, other)


def test_half_precision(net, table, recording, wrapped, settings, sieve_trainer) -> None:
    model = wrapped(net())
    sieve = recording(model, Plausible())
    trainer = sieve_trainer(model, settings(bf16=True), train_dataset=table, sieve=sieve, ids="row")
    trainer.train()
    assert len(sieve.log) == 8
