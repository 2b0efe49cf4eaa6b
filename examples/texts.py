"""Texts in a table: which part of Python's library a docstring is of, a fifth labelled wrongly."""

import ast
import csv
import random
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import tamis

LIBRARY = Path(sysconfig.get_path("stdlib"))
PARTS = ("asyncio", "email", "importlib", "logging", "xml")


def first_paragraphs(folder: Path) -> set[str]:
    """Return the first paragraph of every docstring in a folder."""
    found = set()
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                text = (ast.get_docstring(node) or "").split("\n\n")[0]
                found.add(" ".join(text.split()))
    return {text for text in found if len(text) > 20}


rng = random.Random(0)  # noqa: S311
rows = [(text, part) for part in PARTS for text in sorted(first_paragraphs(LIBRARY / part))]
rng.shuffle(rows)
train, test = rows[: len(rows) * 4 // 5], rows[len(rows) * 4 // 5 :]
given = [rng.choice(PARTS) if rng.random() < 0.25 else part for _, part in train]

with tempfile.TemporaryDirectory() as name:
    table, run = Path(name, "docstrings.csv"), Path(name, "run")
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "part"])
        writer.writerows((text, label) for (text, _), label in zip(train, given, strict=True))
    subprocess.run(  # noqa: S603
        [sys.executable, "-m", "tamis.cli", "train", table, "--label", "part", "--text", "text",
         "--out", run],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    suspects = [int(line.split(",")[0]) for line in (run / "suspects.csv").open().readlines()[1:]]
    predicted = tamis.load(run).predict([{"text": text} for text, _ in test])
right = sum(one == part for one, (_, part) in zip(predicted, test, strict=True)) / len(test)
found = sum(train[row][1] != given[row] for row in suspects) / len(suspects)
print(f"texts: accuracy {right:.3f}, suspects {len(suspects)}, share of them wrong {found:.3f}")
