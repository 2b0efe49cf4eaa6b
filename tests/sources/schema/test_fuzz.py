"""Tables made at random, damaged at random: no crash, and no column changes in silence."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tamis.errors import TamisError
from tamis.sources import Schema, Table, Validator, open_table

ENCODINGS = ("utf-8", "utf-8-sig", "cp1252", "utf-16")
WORDS = (
    "naïve",
    "café",
    "Zürich",
    "a;b",
    "x|y",
    'an "x"',
    "tab\tbed",
    "two words",
    "NA",
    "0x1F",
    "",
)
Draw = np.random.Generator


def number(draw: Draw) -> str:
    return repr(float(draw.choice([draw.normal(), draw.normal() * 1e9, draw.integers(-9, 9)])))


def comma(draw: Draw) -> str:
    return number(draw).replace(".", ",")


def integer(draw: Draw) -> str:
    return str(draw.integers(-5, 2**40))


def code(draw: Draw) -> str:
    return f"{draw.integers(0, 60):05d}"


def word(draw: Draw) -> str:
    return str(draw.choice(WORDS[:6]))


def prose(draw: Draw) -> str:
    return " ".join(draw.choice([word for word in WORDS if word], draw.integers(1, 12)))


def day(draw: Draw) -> str:
    return f"{draw.integers(1, 29):02d}.{draw.integers(1, 13):02d}.{draw.integers(1900, 2100)}"


def moment(draw: Draw) -> str:
    return (
        f"{2000 + draw.integers(0, 40)}-0{draw.integers(1, 10)}-11T0{draw.integers(0, 10)}:30:00Z"
    )


def flag(draw: Draw) -> str:
    return str(draw.choice(["yes", "no", "Yes"]))


def token(draw: Draw) -> str:
    return f"{draw.integers(0, 2**60):x}"


def constant(draw: Draw) -> str:
    return "same"


def nothing(draw: Draw) -> str:
    return ""


def anything(draw: Draw) -> str:
    return str(
        draw.choice([number(draw), word(draw), day(draw), "", "nan", "inf", "1e400", "\u0000"])
    )


MAKERS = (
    number, comma, integer, code, word, prose, day, moment, flag, token, constant, nothing,
    anything,
)  # fmt: skip
LOSSLESS = {"number", "category", "boolean"}


def make(draw: Draw) -> dict[str, list[str]]:
    rows, columns = int(draw.integers(2, 70)), int(draw.integers(1, 7))
    table = {}
    for at in range(columns):
        maker = MAKERS[draw.integers(len(MAKERS))]
        gaps = draw.choice([0, 0, 0.1, 0.6])
        name = f"{draw.choice(['col', 'a b', 'Größe', 'x,y', 'q'])} {at}"
        table[name] = ["" if draw.random() < gaps else maker(draw) for _ in range(rows)]
    labels = draw.choice(["ant", "bee", "été", ""], rows, p=[0.4, 0.35, 0.2, 0.05])
    return table | {"label": labels.tolist()}


def as_csv(table: dict[str, list[str]], delimiter: str) -> str:
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return file.getvalue()


def as_lines(table: dict[str, list[str]]) -> str:
    names = list(table)
    rows = zip(*table.values(), strict=True)
    records = ({n: c for n, c in zip(names, row, strict=True) if c != ""} for row in rows)
    return "".join(json.dumps(record) + "\n" for record in records)


def damaged(content: bytes, draw: Draw) -> bytes:
    """Return bytes changed, taken out, doubled or cut off somewhere."""
    for _ in range(int(draw.integers(1, 5))):
        at = int(draw.integers(0, max(len(content), 1)))
        junk = draw.bytes(int(draw.integers(1, 6)))
        content = [
            content[:at] + junk + content[at + len(junk) :],
            content[:at] + content[at + 1 :],
            content[:at] + b'"' + content[at:],
            content[:at] + content[at // 2 :],
            content[: max(at, 1)],
        ][draw.integers(5)]
    return content


def write(folder: Path, table: dict[str, list[str]], draw: Draw) -> Path:
    ending = str(draw.choice([".csv", ".csv", ".tsv", ".jsonl"]))
    path = folder / f"table{ending}"
    if ending == ".jsonl":
        path.write_text(as_lines(table))
        return path
    delimiter = "\t" if ending == ".tsv" else str(draw.choice([",", ";", "|"]))
    encoding = str(draw.choice(ENCODINGS))
    path.write_bytes(as_csv(table, delimiter).encode(encoding, errors="replace"))
    return path


def check_values(table: Table, written: dict[str, list[str]]) -> None:
    """Every value is read back as it was written, or is counted as missing or unreadable."""
    schema = table.schema
    read = table.records(range(table.rows))
    cells = {c.name: [record.get(c.name, "") for record in read.values()] for c in schema.columns}
    encoded, missing, unreadable = schema.read(cells)
    assert np.isfinite(encoded).all()
    for column in schema.columns:
        if column.kind not in LOSSLESS:
            continue
        for at, row in enumerate(read):
            cell = written[column.name][row].strip()
            value = schema.decode(encoded[at])[column.name]
            gone = column.name in missing and missing[column.name][at]
            wrong = column.name in unreadable and unreadable[column.name][at]
            if gone:
                assert wrong or not cell or cell.lower() in ("na", "nan"), (column, cell)
            elif column.kind == "category":
                assert value in (cell, "(other)"), (column, cell)
            elif column.kind == "boolean":
                assert (value or "").lower() == cell.lower(), (column, cell)
            else:
                number = float(cell.replace(",", "."))
                assert math.isclose(float(value or "nan"), number, rel_tol=1e-6), (column, cell)


def one(folder: Path, seed: int) -> str:
    """Write a table, read it, and return how that ended."""
    draw = np.random.default_rng(seed)
    table = make(draw)
    path = write(folder, table, draw)
    broken = draw.random() < 0.5
    if broken:
        path.write_bytes(damaged(path.read_bytes(), draw))
    validator = Validator(on_bad="skip")
    try:
        opened = open_table(path, "label", validator, rows_per_slot=7)
    except TamisError as error:
        return "refused" if len(str(error).splitlines()) == 1 else f"refused in lines: {error}"
    rows = [samples for samples in opened if len(samples)]
    assert sum(map(len, rows)) + validator.rejects.total == opened.rows
    assert all(samples.inputs.isfinite().all() for samples in rows)
    again = Schema.from_json(json.loads(json.dumps(opened.schema.to_json())))
    assert again == opened.schema
    if not broken:
        check_values(opened, table)
    return "broken" if broken else "read"


def test_two_hundred_tables_are_read_or_refused_in_one_sentence(tmp_path: Path) -> None:
    ends = [one(tmp_path, seed) for seed in range(200)]
    assert set(ends) == {"read", "broken", "refused"}
    assert ends.count("read") > 60
    assert ends.count("broken") > 30


@pytest.mark.slow
def test_many_tables_are_read_or_refused_in_one_sentence(tmp_path: Path) -> None:
    for seed in range(1000, 6000):
        assert one(tmp_path, seed) in {"read", "broken", "refused"}


def test_a_damaged_schema_is_refused(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    path = tmp_path / "table.csv"
    path.write_text("a,b,c,y\n" + "1,x,2024-01-01,p\n2,z,2024-02-03,q\n" * 30)
    state: Any = open_table(path, "y", Validator()).schema.to_json()
    for _ in range(100):
        damage = json.loads(json.dumps(state))
        place = draw.choice(["version", "label", "classes", "id", "columns", "kind", "name"])
        value = draw.choice(np.array([None, 3, "x", [1], {}], object))
        if place in ("kind", "name"):
            damage["columns"][int(draw.integers(3))][place] = value
        else:
            damage[place] = value
        try:
            Schema.from_json(damage)
        except TamisError:
            continue
