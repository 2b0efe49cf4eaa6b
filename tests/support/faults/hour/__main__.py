"""An hour of everything at once: restarts, rotations, a reviewer, a full disk, bad rows.

python -m tests.support.faults.hour [--minutes 60 | --ticks 80] [--seed 0] [--out DIR]
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.faults.hour.play import PACE, Plan, played
from tests.support.faults.hour.verdict import judge, table


def main(arguments: Sequence[str] | None = None) -> int:
    """Play it, print the verdict; 1 where a check is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="of the clock (default 60)")
    parser.add_argument("--ticks", type=int, help="bursts of rows instead, as fast as they go")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a new folder (default: a temporary one)")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # else children of nohup ignore it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no process is left behind
    ticks = options.ticks or int(options.minutes * 60 / PACE)
    plan = Plan.of(ticks, 0.0 if options.ticks else PACE)
    folder = options.out or Path(tempfile.mkdtemp(prefix="hour-"))
    print(f"Events, outputs and tapes: {folder}", flush=True)
    with played(folder, plan, options.seed) as result:
        checks = judge(result)
        text = table(checks)
        (folder / "verdict.md").write_text(text + "\n", encoding="utf-8")
        print(text, flush=True)
    return int(not all(check.met for check in checks))


if __name__ == "__main__":
    sys.exit(main())
