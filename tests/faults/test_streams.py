"""Short form of the matrix: long streams, bursts of noise, labels without information."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from torch import nn

from tamis.cli.main import main
from tamis.streams import Constant, Redrawn, Replay, digits
from tests.support.faults.streams import many_rows, no_information, noise_burst


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc to see its memory")
def test_memory_does_not_grow_with_the_stream() -> None:
    row = many_rows(300_000)
    assert float(row.figure.split()[0]) < 5, row  # in so few rows, a page more or less shows


@pytest.mark.slow
def test_a_burst_of_noise_passes() -> None:
    row = noise_burst(1, slots=500)
    assert row.met, row


@pytest.mark.slow
def test_labels_without_information_are_reported() -> None:
    row = no_information(1)
    assert row.met, row


@pytest.mark.slow
@pytest.mark.parametrize(("ratio", "warned"), [(0.1, True), (0.3, False)])
def test_train_reports_it(ratio: float, warned: bool, tmp_path: Path, capsys) -> None:
    data = digits()
    inputs = nn.functional.avg_pool2d(data.inputs, 2)  # each suspect is written with its columns
    stream = Replay(inputs, data.labels, Redrawn(10), Constant(ratio), slots=4300, rows_per_slot=1)
    table = tmp_path / "digits.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*range(16), "digit"])
        for row in stream:
            writer.writerow([*row.inputs.flatten().tolist(), row.labels.item()])
    arguments = ["train", str(table), "--label", "digit", "--out", str(tmp_path / "run")]
    assert main([*arguments, "--slots", "430", "--capacity", "1000"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert ("Warning: the labels carry no information" in printed) == warned
