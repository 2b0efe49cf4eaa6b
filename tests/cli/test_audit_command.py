"""tamis audit: the sample as CSV, and answers from one."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from tamis.cli.main import main
from tamis.runs import AuditRow, Decisions, RunMetadata, read_lines, write_audit, write_metadata

ROWS = [AuditRow("a", "cat", 0), AuditRow("=1", "dog", 1), AuditRow("c", "cat", 2)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run = tmp_path / "run"
    run.mkdir()
    write_metadata(run, RunMetadata("rows", ("cat", "dog")))
    write_audit(run, ROWS)
    return run


def printed_rows(folder: Path, capsys) -> list[dict[str, str]]:
    assert main(["audit", str(folder)]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_from_the_sample_to_answers_and_back(folder: Path, tmp_path: Path, capsys) -> None:
    rows = printed_rows(folder, capsys)
    assert rows == [
        {"id": "a", "given": "cat", "label": ""},
        {"id": "'=1", "given": "dog", "label": ""},
        {"id": "c", "given": "cat", "label": ""},
    ]
    answers = tmp_path / "answers.csv"
    answers.write_text("id,given,label\na,cat,cat\n'=1,dog,cat\nc,cat,\n")
    for added, unchanged in ((2, 0), (0, 2)):
        assert main(["audit", str(folder), "--answers", str(answers), "--author", "ann"]) == 0
        assert capsys.readouterr().out == (
            f"{added} decisions added, {unchanged} had been made before.\n"
            "2 of 3 audited. 1 of 2 audited labels are right: between 10% and 90% of all "
            f"(90% band).\nReport with: tamis report {folder}\n"
        )
    lines = read_lines(folder / "decisions.jsonl")
    assert [(line["id"], line["decision"], line["label"], line["given"]) for line in lines] == [
        ("a", "keep", None, "cat"), ("=1", "relabel", "cat", "dog"),
    ]  # fmt: skip
    assert {line["author"] for line in lines} == {"ann"}
    assert [row["label"] for row in printed_rows(folder, capsys)] == ["cat", "cat", ""]


def test_what_is_not_in_the_sample_is_not_added(folder: Path, tmp_path: Path, capsys) -> None:
    answers = tmp_path / "answers.csv"
    answers.write_text("id,label\nnobody,cat\nc,horse\n")
    assert main(["audit", str(folder), "--answers", str(answers)]) == 0
    printed = capsys.readouterr().out
    assert "0 decisions added" in printed
    assert "Warning: 2 answers name a row outside the sample, or no class." in printed
    assert "0 of 3 audited." in printed
    assert len(Decisions(folder / "decisions.jsonl")) == 0


def test_mistakes_cost_one_line(folder: Path, tmp_path: Path, capsys) -> None:
    assert main(["audit", str(folder), "--answers", str(tmp_path / "none.csv")]) == 2
    assert "none.csv does not exist." in capsys.readouterr().err
    (folder / "audit.jsonl").unlink()
    assert main(["audit", str(folder)]) == 2
    assert "has no audit sample: it is drawn once 500 rows are held" in capsys.readouterr().err
