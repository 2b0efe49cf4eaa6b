"""Mutants drawn by a seed over eight rooms; each is put to the tests, and the page lists survivors.

python -m tests.support.mutation [--seed N] [--each N] [--rooms NAME ...] [--again] [--complete]

Results are kept as they come, in results/mutation/mutants.csv: a second call goes on from there.
Why no test can notice a mutant is in tests/support/mutation/reasons.csv; one that is listed there
counts as a survivor, and runs with --again only.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic

from tests.support.mutation.draw import ROOMS, draw
from tests.support.mutation.operators import Mutant
from tests.support.mutation.results import Result, read, reasons, save, write_page
from tests.support.mutation.trial import ALL, NEAR, NO_END, Copy

ROOT = Path(__file__).parents[3]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mutants that have no result yet, and write file and page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="another seed draws other mutants")
    parser.add_argument("--each", type=int, default=9, help="mutants of a room")
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=ROOMS)
    parser.add_argument("--list", action="store_true", help="only list the mutants")
    parser.add_argument("--again", action="store_true", help="put survivors to the tests again")
    parser.add_argument("--complete", action="store_true", help="all tests, not the nearest alone")
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args(arguments)
    if options.page:
        return write_page()
    drawn = {mutant.key: mutant for mutant in draw(ROOT, options.seed, options.each, options.rooms)}
    if options.list:
        for mutant in drawn.values():
            print(f"{mutant.file}:{mutant.line} {mutant.change}: {mutant.code}")
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that tests end with it
    kept = read()
    due = {key for key in drawn if key not in kept or (options.again and not kept[key].killed_by)}
    explained = due & reasons().keys() if not options.again else set()  # they count as survivors
    save(kept | {key: Result.of(drawn[key], options.seed) for key in explained})
    due -= explained
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(ROOT, Path(folder))
        while due:
            for depth in range(ALL if options.complete else NEAR):
                print(f"{len(due)} mutants", flush=True)
                due -= {key for key in sorted(due) if killed(copy, drawn[key], depth, options.seed)}
            save(read() | {key: Result.of(drawn[key], options.seed) for key in due})
            found = {key: result for key, result in read().items() if key in drawn}
            failing = copy.leave_out_failing(
                sorted({one.killed_by for one in found.values()} - {"", NO_END})
            )
            due = {key for key, result in found.items() if result.killed_by in failing}
    return write_page()


def killed(copy: Copy, mutant: Mutant, depth: int, seed: int) -> bool:
    """Run the tests of a depth, print what became of the mutant, and keep it if it was killed."""
    started = monotonic()
    result = replace(Result.of(mutant, seed), killed_by=copy.killer(mutant, depth))
    print(f"{result} [{monotonic() - started:.0f} s]", flush=True)
    if result.killed_by:
        save(read() | {mutant.key: result})
    return bool(result.killed_by)


if __name__ == "__main__":
    sys.exit(main())
