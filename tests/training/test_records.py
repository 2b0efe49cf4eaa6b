"""Rows as they were written, kept in the folder of a run for its review."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tamis import Growing, Naive, Trainer, TrainingRun, Validator
from tamis.cli.main import main
from tamis.models import Scale, mlp, start
from tamis.runs import RunMetadata, read_lines
from tamis.sources import Feed, SchemaRows, infer_schema, open_source, open_table
from tamis.training import recorder
from tests.support.mixed_table import write_mixed

ROWS = 160


def make_trainer(schema, records: list[dict[str, str]]) -> Trainer:
    inputs = torch.from_numpy(schema.encode(records))
    scale = Scale(inputs.mean(dim=0), inputs.std(dim=0).clamp_min(1e-6))
    model = nn.Sequential(scale, start(mlp, schema.input_shape, 2, 0))
    return Trainer(
        model, torch.optim.SGD(model.parameters(), 0.1), Naive(), Growing(1_000), k=32,
        validator=Validator(2), seed=0,
    )  # fmt: skip


def metadata(schema) -> RunMetadata:
    return RunMetadata("customers", schema.classes, schema.input_shape, schema.names)


def check_cells(folder: Path, records: list[dict[str, str]]) -> None:
    """Compare what is kept of suspects and neighbours with what was written."""
    written = {record["customer"]: record for record in records}
    suspects = read_lines(folder / "suspects.jsonl")
    near = read_lines(folder / "neighbours.jsonl")
    displayed = suspects + [other for line in near for other in line["neighbours"]]
    assert len(suspects) >= 3
    assert len(near) == len(suspects)
    for row in displayed:
        record = written[row["id"]]
        columns = {name: value or None for name, value in record.items()}
        del columns["customer"], columns["churn"]
        assert row["preview"]["columns"] == columns
    assert all(abs(sum(row["probabilities"].values()) - 1) < 1e-3 for row in suspects)
    assert any("differs" in row["preview"] for row in suspects)


def test_rows_of_a_table_are_kept_as_they_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "customers.csv"
    records = write_mixed(path, ROWS)
    table = open_table(path, "churn", Validator(2), id_column="customer")
    trainer = make_trainer(table.schema, records)
    with TrainingRun(tmp_path / "run", trainer, metadata(table.schema), schema=table.schema) as run:
        for _ in run.train(table.play()):
            pass
        run.recorder.live.rescore(trainer.slots - 1)
        check_cells(run.folder, records)  # while it runs
        monkeypatch.setattr(recorder, "MOST_REREAD", ROWS - 1)
        run.recorder.live.rescore(trainer.slots - 1)
        first = read_lines(run.folder / "suspects.jsonl")[0]["preview"]["columns"]
        assert set(first) == {"age", "town", "joined", "income", "member", "note"}  # decoded
        assert "€" not in (first["income"] or "")
        run.finish(table.named)
    path.unlink()
    check_cells(tmp_path / "run", records)


def test_a_table_that_is_lost_on_the_way_costs_no_slot(tmp_path: Path) -> None:
    path = tmp_path / "customers.csv"
    records = write_mixed(path, ROWS)
    table = open_table(path, "churn", Validator(2), id_column="customer")
    trainer = make_trainer(table.schema, records)
    with TrainingRun(tmp_path / "run", trainer, metadata(table.schema), schema=table.schema) as run:
        for _ in run.train(table.play(), 60, continue_after_end=True):
            if trainer.slots == 50:
                path.unlink()
                run.recorder.live.rescore(trainer.slots - 1)
        assert (trainer.slots, run.recorder.failures) == (60, 1)
        assert read_lines(run.folder / "suspects.jsonl")[0]["preview"]["columns"]["income"]
        assert run.finish()  # among the rows held
    assert read_lines(run.folder / "suspects.jsonl")[0]["preview"]["columns"]["income"]


def test_rows_of_a_stream_are_kept_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "customers.jsonl"
    records = write_mixed(path, ROWS)
    schema = infer_schema(records, label="churn", id="customer")

    def train(folder: str, *parts: int) -> Path:
        """Train on so many slots, then go on with as many, each time from the checkpoint."""
        for until in parts:
            source = Feed(open_source(str(path), rows=8), SchemaRows(schema))
            with TrainingRun(
                tmp_path / folder, make_trainer(schema, records), metadata(schema), schema=schema,
                resume=True,
            ) as run:  # fmt: skip
                for _ in run.train(source, until):
                    pass
        return tmp_path / folder

    unbroken = train("unbroken", 20)
    check_cells(unbroken, records)
    broken = train("broken", 9, 20)
    for name in ("suspects.jsonl", "neighbours.jsonl"):
        assert (broken / name).read_bytes() == (unbroken / name).read_bytes()


def test_a_picture_is_reviewed_with_its_path_and_the_columns_beside_it(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    lines = ["path,camera,kind"]
    for row in range(40):
        level = 200 if row % 2 else 20
        image.new("L", (8, 8), level + row % 7).save(tmp_path / f"{row}.png")
        lines.append(f"{row}.png,cam {row % 3},{'light' if row % 2 ^ (row < 6) else 'dark'}")
    (tmp_path / "t.csv").write_text("\n".join(lines))
    words = ["train", str(tmp_path / "t.csv"), "--label", "kind", "--model", "mlp", "--slots", "30"]
    assert main([*words, "--out", str(tmp_path / "run")]) == 0
    suspects = read_lines(tmp_path / "run" / "suspects.jsonl")
    assert suspects
    for suspect in suspects:
        row = int(suspect["id"])
        assert suspect["preview"]["columns"] == {"path": f"{row}.png", "camera": f"cam {row % 3}"}
        assert suspect["preview"]["image"]
