"""Results of mutants, one line each, and the part of docs/reliability.md that is made of them."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from tests.support.mutation.operators import Mutant

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "results" / "mutation" / "mutants.csv"
REASONS = Path(__file__).with_name("reasons.csv")
PAGE = ROOT / "docs" / "reliability.md"
START, END = (
    "<!-- mutants: written by python -m tests.support.mutation -->",
    "<!-- end of mutants -->",
)


@dataclass(frozen=True)
class Result:
    """A mutant and the test that killed it; a survivor has none."""

    seed: int
    room: str
    file: str
    line: int
    scope: str
    operator: str
    code: str
    change: str
    nth: int
    killed_by: str = ""

    @classmethod
    def of(cls, mutant: Mutant, seed: int) -> Result:
        """Return the result of a mutant that no test has seen yet."""
        named = {name: getattr(mutant, name) for name in COLUMNS[2:-1]}
        return cls(seed, mutant.file.split("/")[1], **named)

    @property
    def key(self) -> str:
        """The mutant's key."""
        return f"{self.file}|{self.scope}|{self.operator}|{self.code}|{self.change}|{self.nth}"

    def __str__(self) -> str:
        end = f"killed by {self.killed_by}" if self.killed_by else "SURVIVED"
        return f"{self.file}:{self.line} {self.change}: {self.code} -> {end}"


COLUMNS = [field.name for field in fields(Result)]


def read() -> dict[str, Result]:
    """Return all results by the mutants' keys."""
    results = {}
    for row in _rows(RESULTS):
        numbers = {name: int(row[name]) for name in ("seed", "line", "nth")}
        result = Result(**row | numbers)  # type: ignore[arg-type]
        results[result.key] = result
    return results


def reasons() -> dict[str, str]:
    """Return why a survivor may live, by its key."""
    return {row["mutant"]: row["reason"] for row in _rows(REASONS)}


def save(results: dict[str, Result]) -> None:
    """Write all results."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with RESULTS.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(result) for result in results.values())


def section() -> str:
    """Return the page's part: share killed by room, and the survivors with their reasons."""
    results, why = list(read().values()), reasons()
    killed = [result for result in results if result.killed_by]
    seeds = ", ".join(str(seed) for seed in sorted({result.seed for result in results}))
    total, of_room = (Counter(one.room for one in some) for some in (results, killed))
    rooms = ", ".join(f"{room} {of_room[room]} of {total[room]}" for room in total)
    share = f"{len(killed) / max(1, len(results)):.0%}; seeds {seeds}"
    lines = [
        f"{len(killed)} of {len(results)} mutants are killed ({share}): {rooms}.",
        "",
        "| survivor | change | why no test notices |",
        "| --- | --- | --- |",
        *(
            f"| `{one.file}` `{_cell(one.code)}` | {_cell(one.change)} | {why.get(one.key, '?')} |"
            for one in results
            if not one.killed_by
        ),
    ]
    return "\n".join(lines)


def write_page() -> int:
    """Put the section between its marks, and print it; 1 where a survivor has no reason."""
    print(section())
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{START}\n{section()}\n{END}{tail}", encoding="utf-8")
    return int(any(not one.killed_by and one.key not in reasons() for one in read().values()))


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
