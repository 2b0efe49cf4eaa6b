"""A log read as columns, also while it is written and after a resume."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tamis import Monitor, Naive, Sliding, Trainer
from tamis.monitoring import Accuracy
from tamis.runs import History


def line(slot: int, **numbers: object) -> str:
    return json.dumps({"slot": slot, **numbers}) + "\n"


def test_a_real_log(tmp_path: Path, blobs, blob_model) -> None:
    trainer = Trainer(
        blob_model, torch.optim.SGD(blob_model.parameters(), 0.1), Naive(), Sliding(100), k=8
    )
    with Monitor(tmp_path / "log.jsonl", lambda: Accuracy(0.5, 0.6), every=5) as monitor:
        for at in range(20):
            monitor.update(trainer.step(blobs[slice(10 * at, 10 * at + 10)]))
    history = History(tmp_path / "log.jsonl")
    assert len(history) == 20
    assert history.measured("accuracy_ema")[0].tolist() == [4, 9, 14, 19]
    assert history.last("accuracy_ema") == 0.6
    assert history.column("seen").tolist() == [10 * slot + 10 for slot in range(20)]
    assert 0.3 < history.mean("purity") < 1


def test_it_grows(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(line(0, loss=1.0) + '{"slot": 1, "lo')
    history = History(tmp_path / "log.jsonl")
    assert len(history) == 1
    with log.open("a") as file:
        file.write('ss": 0.5}\n')
    assert history.refresh()
    assert history.column("loss").tolist() == [1.0, 0.5]
    assert not history.refresh()


def test_a_slot_written_again_counts_as_written_last(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("".join(line(slot, loss=slot, warnings=[f"{slot}"]) for slot in range(6)))
    history = History(tmp_path / "log.jsonl")
    with log.open("a") as file:
        file.write(line(3, loss=30) + line(4, loss=40))
    history.refresh()
    assert history.column("slot").tolist() == [0, 1, 2, 3, 4]
    assert history.column("loss").tolist() == [0, 1, 2, 30, 40]
    assert [warned.slot for warned in history.warnings] == [0, 1, 2]


def test_a_log_cut_back_is_read_again(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("".join(line(slot, loss=slot) for slot in range(100)))
    history = History(tmp_path / "log.jsonl")
    log.write_text("".join(line(slot, loss=-slot) for slot in range(120)))
    history.refresh()
    assert history.column("loss").tolist() == [-slot for slot in range(120)]


def test_odd_values_are_no_numbers(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(
        line(0, loss=None) + line(1, loss="<b>", warnings="x") + '{"no": 1}\n' + line(2, loss=3)
    )
    history = History(tmp_path / "log.jsonl")
    assert history.measured("loss")[1].tolist() == [3]
    assert history.last("purity") is None
    assert history.mean("purity") is None
    assert not len(history.smooth("purity")[0])


@pytest.mark.parametrize("count", [1, 7, 200, 201, 1000])
def test_smooth_keeps_the_mean(tmp_path: Path, count: int) -> None:
    values = np.random.default_rng(0).random(count)
    (tmp_path / "log.jsonl").write_text(
        "".join(line(slot, purity=value) for slot, value in enumerate(values))
    )
    slots, means = History(tmp_path / "log.jsonl").smooth("purity", 50)
    assert len(slots) == min(50, count)
    assert means.mean() == pytest.approx(values.mean(), abs=0.02)
    assert (np.diff(slots) > 0).all()


def test_no_run_is_an_empty_history(tmp_path: Path) -> None:
    assert len(History(tmp_path / "log.jsonl")) == 0
