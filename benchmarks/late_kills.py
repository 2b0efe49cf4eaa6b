"""Kill -9 at random moments while labels come late, and compare with the run that nothing broke.

    python -m benchmarks.late_kills --kills 20

A run of the default rule over rows of MNIST, seen once, whose labels come late, some twice, some
withdrawn. With --data mnist they are 5,000, else all. It is killed at random moments and resumed
until it ends. Rows go to results/late.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from safetensors.torch import load_file

from tamis.buffers import WaitingRoom
from tamis.lab.late import REPEATED, ROOM, WITHDRAWN
from tamis.lab.pages.measurements import machine, save_rows
from tamis.lab.scene import PLACES, Scene
from tamis.noise import Alarm
from tamis.selectors import Plausible
from tamis.streams import LateLabels
from tamis.training.run import SaveEvery, TrainingRun

RESULTS = Path("results/late/kills.csv")


def train(folder: Path, data: str, clean: float, slots: int, late: int) -> None:
    """Train a run to its end, or from its last checkpoint on."""
    place = replace(PLACES[data], once=True)
    scene = Scene(place, place.load(None), "symmetric", clean, slots, 0)
    room = WaitingRoom(round(ROOM * late * -(-len(scene.held) // slots)))
    trainer = scene.trainer(
        Plausible(), warm_up=0, predict_first=True, waiting=room, tracker=Alarm(scene.classes)
    )
    stream = LateLabels(list(scene.stream()), late, repeated=REPEATED, withdrawn=WITHDRAWN, seed=0)
    with TrainingRun(folder, trainer, resume=True, save_every=SaveEvery(slots // 20)) as run:
        for _ in run.train(stream):
            pass


def start(folder: Path, options: argparse.Namespace) -> subprocess.Popen[bytes]:
    """Start a process that trains the run in a folder."""
    words = [
        "--child", str(folder), "--data", options.data, "--clean", str(options.clean),
        "--slots", str(options.slots), "--late", str(options.late),
    ]  # fmt: skip
    return subprocess.Popen([sys.executable, "-m", "benchmarks.late_kills", *words])


def logged(folder: Path) -> list[str]:
    """Return the lines of the log, without times."""
    lines = (folder / "log.jsonl").read_text().splitlines()
    return [line.partition('"select_seconds"')[0] for line in lines]


def main() -> None:
    """Run the child's part, or both runs and their comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--data", default="mnist-once", choices=list(PLACES))
    parser.add_argument("--clean", type=float, default=0.7)
    parser.add_argument("--slots", type=int, default=10_000)
    parser.add_argument("--late", type=int, default=500)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        train(options.child, options.data, options.clean, options.slots, options.late)
        return
    draw = random.Random(0)  # noqa: S311
    with TemporaryDirectory() as place:
        unbroken, broken = Path(place, "unbroken"), Path(place, "broken")
        began = monotonic()
        if start(unbroken, options).wait():
            raise SystemExit("the unbroken run failed")
        takes = monotonic() - began
        kills = 0
        while kills < options.kills:
            child = start(broken, options)
            sleep(draw.uniform(0.05, 2 * takes / options.kills + 5))
            if child.poll() is not None:
                break
            child.send_signal(signal.SIGKILL)
            child.wait()
            kills += 1
        if start(broken, options).wait():
            raise SystemExit("the broken run could not be resumed")
        one, other = (load_file(folder / "model.safetensors") for folder in (unbroken, broken))
        same = all(one[name].equal(other[name]) for name in one) and one.keys() == other.keys()
        lines = logged(unbroken) == logged(broken)
    what = f"{options.data}, clean ratio {options.clean}, labels {options.late} slots late"
    rows = [
        (f"{what}: kills at random moments", str(kills), f">= {options.kills}"),
        ("weights of both runs, bit for bit", "the same" if same else "different", "the same"),
        ("lines of both logs but for times", "the same" if lines else "different", "the same"),
        ("machine", machine(), ""),
    ]
    save_rows(RESULTS, rows)
    for row in rows:
        print(*row, sep=" | ")


if __name__ == "__main__":
    main()
