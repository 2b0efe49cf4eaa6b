"""The corrected table: labels changed, rows removed, every other byte as it was."""

from __future__ import annotations

import csv
import io
import json
import random
import stat
from pathlib import Path

import pytest

from tamis.cli.main import main
from tamis.review.exchange.changes import Changes
from tamis.review.exchange.corrected_text import correct_delimited
from tamis.runs import Decision, Decisions, RunMetadata, write_metadata
from tamis.sources import Schema, infer_schema, write_schema
from tamis.sources.delimited import DelimitedFile
from tamis.sources.table_files import open_reader

TABLE = [
    {"id": "a", "n": "1.50", "text": 'one, "two"\r\nthree', "y": "cat"},
    {"id": "b", "n": "", "text": "  spaces kept  ", "y": "dog"},
    {"id": "c", "n": "1e3", "text": "ü ☃", "y": "cat"},
    {"id": "d", "n": "007", "text": "'=1+1", "y": "dog"},
]


def make_run(folder: Path, source: Path, *, id_column: str | None = "id") -> Decisions:
    """Write what a run on a table leaves behind, and return its decisions."""
    kinds = {"n": "number", "text": "text"}
    inferred = infer_schema({name: [row[name] for row in TABLE] for name in kinds}, kinds=kinds)
    schema = Schema(inferred.columns, "y", ("cat", "dog, big"), id_column)
    folder.mkdir()
    digest = open_reader(source, ["y"]).digest
    write_metadata(folder, RunMetadata("t", schema.classes, source=str(source), digest=digest))
    write_schema(folder / "schema.json", schema)
    return Decisions(folder / "decisions.jsonl")


def decide_three(decisions: Decisions, names: tuple[str, str, str] = ("a", "b", "c")) -> None:
    """Relabel the first row, remove the second, keep the third."""
    first, second, third = names
    decisions.decide(Decision(first, "relabel", "dog, big", "cat", 0))
    decisions.decide(Decision(second, "drop", None, "dog", 1))
    decisions.decide(Decision(third, "keep", None, "cat", 2))


def export(run: Path, out: Path, *more: str) -> int:
    return main(["export", str(run), "--format", "corrected", "--out", str(out), *more])


def as_csv(delimiter: str = ",", end: str = "\r\n", quoting: int = csv.QUOTE_MINIMAL) -> str:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(
        out, list(TABLE[0]), delimiter=delimiter, lineterminator=end, quoting=quoting
    )
    writer.writeheader()
    writer.writerows(TABLE)
    return out.getvalue()


@pytest.mark.parametrize("id_column", ["id", None])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", as_csv().encode()),
        ("t.csv", "\ufeff".encode() + as_csv(";", "\n", csv.QUOTE_ALL).encode()),
        ("t.tsv", as_csv("\t", "\n").rstrip("\n").encode()),
        ("t.csv", as_csv(end="\r").encode("utf-16")),
        ("t.csv", as_csv(";").replace("☃", "!").encode("cp1252") + b"\r\nx;y\r\n\r\n"),
        ("t.csv", as_csv().encode() + b"e,1,damaged \xff\xfe \xc3\xa9\xc3\xbc\xe2\x82\xac,cat\n"),
    ],
)
def test_delimited_text_keeps_every_other_byte(
    tmp_path: Path, name: str, content: bytes, id_column: str | None, capsys
) -> None:
    source, out = tmp_path / name, tmp_path / ("out-" + name)
    source.write_bytes(content)
    decisions = make_run(tmp_path / "run", source, id_column=id_column)
    decide_three(decisions, ("a", "b", "c") if id_column else ("0", "1", "2"))
    assert export(tmp_path / "run", out) == 0
    assert "1 relabelled, 1 removed, 1 kept" in capsys.readouterr().out
    encoding = "utf-16" if b"\0" in content else "cp1252" if b"\xfc " in content else "utf-8"
    delimiter = next(sign for sign in ";\t," if sign.encode() in content.split(b"\n")[0])
    got = out.read_bytes().decode(encoding, "surrogateescape")
    quoted = '"dog, big"' if delimiter == "," or b'"id"' in content else "dog, big"
    wanted = []
    marks = {"id": ("tamis_decision", "tamis_original_label"), "a": ("relabelled", "cat")}
    for record in records_of(content.decode(encoding, "surrogateescape")):
        body = record.rstrip("\r\n")
        key = body.lstrip("\ufeff").replace('"', "").split(delimiter)[0]
        if key == "b":
            continue
        if key == "a":
            before = '"cat"' if body.endswith('"cat"') else "cat"
            body = body.removesuffix(before) + quoted
        added = ("kept", "") if key == "c" else marks.get(key, ("", ""))
        fits = key in ("id", "a", "c", "d", "e")
        wanted.append(delimiter.join([body, *added]) if fits else body)
        wanted.append(record[len(record.rstrip("\r\n")) :])
    assert got == "".join(wanted)
    assert not list(tmp_path.glob("*.part"))


def records_of(text: str) -> list[str]:
    """Return the records of delimited text, each with its end of line: quotes hold such ends."""
    found, inside, start, at = [], False, 0, 0
    while at < len(text):
        inside ^= text[at] == '"'
        if not inside and text[at] in "\r\n":
            at += text[at : at + 2] == "\r\n"
            found.append(text[start : at + 1])
            start = at + 1
        at += 1
    return found + ([text[start:]] if start < len(text) else [])


def test_json_lines_keep_their_bytes(tmp_path: Path) -> None:
    source, out = tmp_path / "t.jsonl", tmp_path / "out.jsonl"
    lines = [
        '{"id":"a", "n": 1.50,"y" : 3 , "text":"\\u00fc {\\"y\\": 1}"}\n',
        '{"id": "b", "y": 4}\r\n',
        "no json\n",
        '{ "y": 3, "id": "c" }\n',
        '{"id": "d", "y": 4, "n": 1E5}',
    ]
    source.write_text("".join(lines), newline="")
    decisions = make_run(tmp_path / "run", source)
    decisions.decide(Decision("a", "relabel", "4", "3", 0))
    decisions.decide(Decision("b", "drop", None, "4", 1))
    decisions.decide(Decision("c", "keep", None, "3", 3))
    assert export(tmp_path / "run", out) == 0
    first, second, third, fourth = out.read_text().splitlines(keepends=True)
    more = ', "tamis_decision": "relabelled", "tamis_original_label": 3}\n'
    assert first == lines[0].replace('"y" : 3', '"y" : 4').replace('}"}\n', '}"' + more)
    assert (second, fourth) == (lines[2], lines[4])
    assert json.loads(third) == {"y": 3, "id": "c", "tamis_decision": "kept"}


@pytest.mark.parametrize("dictionary", [False, True])
def test_parquet_keeps_types_and_values(tmp_path: Path, dictionary: bool) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    source, out = tmp_path / "t.parquet", tmp_path / "out.parquet"
    labels = pa.array(["cat", "dog", "cat", None, "dog, big"])
    table = pa.table({
        "id": pa.array(list("abcde")), "n": pa.array([1, None, 3, 4, 5], pa.int16()),
        "at": pa.array([0, 1, 2, 3, 4], pa.timestamp("us", "UTC")),
        "y": labels.dictionary_encode() if dictionary else labels,
    }).replace_schema_metadata({"made": "by us"})  # fmt: skip
    parquet.write_table(table, source, compression="zstd", row_group_size=2)
    decide_three(make_run(tmp_path / "run", source))
    assert export(tmp_path / "run", out) == 0
    found = parquet.read_table(out)
    assert found.schema.metadata[b"made"] == b"by us"
    assert found["y"].to_pylist() == ["dog, big", "cat", None, "dog, big"]
    assert found["tamis_decision"].to_pylist() == ["relabelled", "kept", None, None]
    assert found["tamis_original_label"].to_pylist() == ["cat", None, None, None]
    kept = table.take([0, 2, 3, 4])
    for name in ("id", "n", "at"):
        assert found[name].combine_chunks().equals(kept[name].combine_chunks())
    assert found.schema.field("y").type == table.schema.field("y").type
    assert parquet.ParquetFile(out).metadata.row_group(0).column(0).compression == "ZSTD"


def test_a_table_that_has_changed_is_reported(tmp_path: Path, capsys) -> None:
    source, out = tmp_path / "t.csv", tmp_path / "out.csv"
    source.write_text(as_csv(), newline="")
    decide_three(make_run(tmp_path / "run", source))
    rows = [dict(row) for row in TABLE]
    rows[2]["y"] = "dog"  # somebody else has changed the label that was kept
    del rows[1]
    with source.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows([rows[-1], *rows[:-1]])
    assert export(tmp_path / "run", out) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "has changed since the run" in printed
    assert "1 labels have changed since the decision, and are kept." in printed
    assert "1 decisions are about rows that t.csv does not have: b" in printed
    with out.open(newline="") as file:
        found = {row["id"]: (row["y"], row["tamis_decision"]) for row in csv.DictReader(file)}
    assert found == {"d": ("dog", ""), "a": ("dog, big", "relabelled"), "c": ("dog", "")}


def test_of_rows_of_one_id_the_one_decided_about(tmp_path: Path) -> None:
    source, out = tmp_path / "t.csv", tmp_path / "out.csv"
    source.write_text("id,n,text,y\na,1,x,cat\na,2,y,cat\n")
    decisions = make_run(tmp_path / "run", source)
    decisions.decide(Decision("a", "relabel", "dog", "cat", 1))
    assert export(tmp_path / "run", out) == 0
    assert out.read_text().splitlines()[1:] == ["a,1,x,cat,,", "a,2,y,dog,relabelled,cat"]


def test_who_may_not_read_the_table_may_not_read_the_corrected_one(tmp_path: Path) -> None:
    source, out = tmp_path / "t.csv", tmp_path / "out.csv"
    source.write_text("id,n,text,y\na,1,x,cat\n")
    make_run(tmp_path / "run", source)
    for mode in (0o600, 0o640):
        source.chmod(mode)
        assert export(tmp_path / "run", out) == 0
        assert stat.S_IMODE(out.stat().st_mode) == mode


def test_what_cannot_be_corrected_is_one_sentence(tmp_path: Path, capsys) -> None:
    source = tmp_path / "t.csv"
    source.write_text(as_csv(), newline="")
    run = tmp_path / "run"
    decide_three(make_run(run, source, id_column=None), ("0", "1", "2"))
    cases = [
        ((tmp_path / "out.parquet",), "must end in .csv"),
        ((source,), "is the table itself"),
        ((tmp_path / "out.csv", "--source", str(tmp_path / "no.csv")), "is not there any more"),
    ]
    for arguments, why in cases:
        assert export(run, *arguments) == 2
        assert why in " ".join(capsys.readouterr().err.split())
    source.write_text(as_csv().replace("007", "008"), newline="")
    assert export(run, tmp_path / "out.csv") == 2
    assert "without --id its rows cannot be found again" in " ".join(
        capsys.readouterr().err.split()
    )
    assert not (tmp_path / "out.csv").exists()
    (run / "schema.json").unlink()
    assert export(run, tmp_path / "out.csv") == 2
    assert "was not trained on a table" in capsys.readouterr().err


def test_columns_of_an_earlier_correction_stay(tmp_path: Path) -> None:
    source, out = tmp_path / "t.csv", tmp_path / "out.csv"
    source.write_text("id,n,text,y,tamis_decision\na,1,x,cat,kept\n")
    make_run(tmp_path / "run", source)
    assert export(tmp_path / "run", out) == 0
    assert out.read_text().splitlines() == [
        "id,n,text,y,tamis_decision,tamis_decision (2),tamis_original_label", "a,1,x,cat,kept,,",
    ]  # fmt: skip


def test_of_a_folder_of_pictures_a_list_of_files(tmp_path: Path) -> None:
    pictures, run, out = tmp_path / "photos", tmp_path / "run", tmp_path / "list.csv"
    for name in ("cat/1.png", "cat/a, b.png", "dog/1.png", "dog/2.png", "notes.png"):
        (pictures / name).parent.mkdir(parents=True, exist_ok=True)
        (pictures / name).write_bytes(b"x")
    run.mkdir()
    digest = open_reader(pictures).digest
    write_metadata(run, RunMetadata("p", source=str(pictures), digest=digest))
    write_schema(run / "schema.json", Schema((), "label", ("cat", "dog"), "file"))
    decisions = Decisions(run / "decisions.jsonl")
    decisions.decide(Decision("cat/a, b.png", "relabel", "dog", "cat"))
    decisions.decide(Decision("dog/1.png", "drop", None, "dog"))
    assert export(run, out) == 0
    assert out.read_text().splitlines() == [
        "file,label,tamis_decision,tamis_original_label", "cat/1.png,cat,,",
        '"cat/a, b.png",dog,relabelled,cat', "dog/2.png,dog,,", "notes.png,,,",
    ]  # fmt: skip


def test_of_other_formats_a_list_of_rows(tmp_path: Path) -> None:
    source, out = tmp_path / "t.json", tmp_path / "out.csv"
    source.write_text(json.dumps(TABLE))
    decide_three(make_run(tmp_path / "run", source, id_column=None), ("0", "1", "2"))
    assert export(tmp_path / "run", out) == 0
    assert out.read_text().splitlines() == [
        "row,y,tamis_decision,tamis_original_label", '0,"dog, big",relabelled,cat', "2,cat,kept,",
        "3,dog,,",
    ]  # fmt: skip


def test_of_any_table_only_labels_change(tmp_path: Path) -> None:
    """Cells of quotes, delimiters and ends of lines, in three styles of quoting."""
    rng = random.Random(0)  # noqa: S311
    parts = ["a", '"', ",", ";", "\n", "\r\n", " ", "ü", "\u2028", "'", "\t", "0.10", "=1"]
    for turn in range(60):
        delimiter, end = rng.choice(",;\t"), rng.choice(["\n", "\r\n"])
        rows = [
            [f"id{row}", *("".join(rng.choices(parts, k=rng.randrange(4))) for _ in range(2)),
             rng.choice(["cat", "dog"])]
            for row in range(12)
        ]  # fmt: skip
        text = io.StringIO(newline="")
        style = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
        writer = csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=style)
        writer.writerows([["id", "n", "text", "y"], *rows])
        file = DelimitedFile(tmp_path / f"{turn}.csv", ("id", "n", "text", "y"))
        file.path.write_text(text.getvalue(), encoding="utf-8", newline="")
        decisions = {
            f"id{row}": Decision(f"id{row}", "relabel", rng.choice(parts[1:7]), rows[row][3], row)
            for row in rng.sample(range(12), 4)
        }
        decisions["id0"] = Decision("id0", "drop", None, rows[0][3], 0)
        changes = Changes(decisions, numbered=True)
        out = b"".join(correct_delimited(file, "y", "id", changes)).decode()
        found = list(csv.reader(io.StringIO(out, newline=""), delimiter=delimiter))
        wanted = [["id", "n", "text", "y", "tamis_decision", "tamis_original_label"]]
        for row in rows[1:]:
            made = decisions.get(row[0])
            change = ["", ""] if made is None else ["relabelled", row[3]]
            wanted.append([*row[:3], made.label if made and made.label else row[3], *change])
        assert found == wanted
        assert not changes.unmatched
        raw = records_of(text.getvalue())
        untouched = [
            line for line, row in zip(raw[1:], rows, strict=True) if row[0] not in decisions
        ]
        for line in untouched:
            assert line.rstrip("\r\n") + delimiter * 2 + end in out
