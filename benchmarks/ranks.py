"""What ranks cost and keep: equal picks, agreement, bytes on the wire, killed and started again.

python -m benchmarks.ranks [--parts PART ...] [--trials 20] [--page]

Every part starts jobs of its own by torchrun. Files go to docs/scale, tables into docs/scale.md.
Run nothing else meanwhile: two ranks want two cores.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from scipy.stats import t as student
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from benchmarks.page import Line, Row, machine, read, save, save_rows, table, verdict
from benchmarks.timing import ROUNDS, race, ratio
from tamis import ITLM, OGRS, LocalModel, Naive, Plausible, Replay, Samples, Sliding, Tracker
from tamis.models import mlp, resnet18, start
from tamis.ranks import RankCheckpoints, RankLost, Ranks, RankTrainer
from tamis.ranks.pool import COLUMNS, SIDES, Header
from tamis.selectors import Selector
from tamis.streams import Steps, Symmetric, digits

FOLDER, PAGE = Path("docs/scale"), Path("docs/scale.md")
SLOTS = 500
SELECTORS: dict[str, Callable[[], Selector]] = {
    "Naive": Naive, "ITLM": ITLM, "OGRS": OGRS, "Plausible": Plausible,
}  # fmt: skip
WORKLOADS: dict[str, tuple[Callable[..., nn.Module], tuple[int, ...], int, int, int]] = {
    # factory, shape of an input, k, rows held by a shard, slots timed at a time
    "MLP, 784 inputs, k = 32": (mlp, (784,), 32, 2_000, 20),
    "MLP, 784 inputs, k = 256": (mlp, (784,), 256, 2_000, 10),
    "ResNet-18, 32 x 32 x 3, k = 32": (resnet18, (3, 32, 32), 32, 300, 1),
}
SELDOM = 10
COST = ("model", "selector", "every", "slot_ms", "agreement_ms", "agreement", "over_ddp", "ddp_ms")
WIRE = ("selector", "held", "pool", "views", "gradients", "all", "kernel")
MODEL = (
    "workers", "every", "k", "pool_bytes", "view_bytes", "gradient_bytes", "agreement_s",
    "gradient_s", "select_s", "slot_s", "agreement", "hours",
)  # fmt: skip
ALL_SAMPLES, READ, PICKED = 10_000_000_000, 64, 16
"""Of the model: samples of the stream, and rows that a worker reads and picks in a slot."""
PARAMETERS, WIDTH = 11_173_962, 512
"""Of ResNet-18: numbers in a gradient, and in the features of a row."""
TEN_GIGABITS = 1.25e9


class Mirror(Ranks):
    """Ranks that agree with themselves: what selection needs does not cross, gradients do.

    The work is the same, so that what it saves is what agreement costs. Rows of the other ranks
    are made of this one's, under other ids; what is seen of them was seen of these before, each
    number in a row of its own. `Plausible` finds fewer of them plausible and so has less to train
    on here: what agreement costs it is a little less than the difference.
    """

    def __init__(self, number: int, size: int) -> None:
        super().__init__(number, size)
        self._seen: dict[int, Tensor] = {}

    def gather(
        self, name: str, mine: Tensor, meanwhile: Callable[[], None] | None = None
    ) -> Tensor:
        if name not in ("pool", "views"):
            return super().gather(name, mine, meanwhile)
        if meanwhile:
            meanwhile()
        everyone = mine.repeat(self.size, *[1] * mine.dim())
        for number in range(self.size):
            if number == self.number:
                continue
            if name == "views":
                seen = self._seen.get(number)
                if seen is None or len(seen) < len(mine):
                    seen = self._seen[number] = shuffle(mine, number)
                everyone[number] = seen[: len(mine)]
            else:
                first, shown = split_record(mine.shape[-1])
                everyone[number, :, first + shown : first + 2 * shown] += number * 10**12
        return everyone


def shuffle(rows: Tensor, seed: int) -> Tensor:
    """Put every number into another row."""
    generator = torch.Generator().manual_seed(seed)
    return rows.gather(0, torch.rand(rows.shape, generator=generator).argsort(dim=0))


def split_record(length: int) -> tuple[int, int]:
    """Say where the columns of a shard's record begin, and how many rows it can show."""
    first = len(Header._fields) + SIDES
    return first, (length - first) // COLUMNS


def make_up(shard: int, slots: int, rows: int, shape: tuple[int, ...]) -> Iterator[Samples]:
    generator = torch.Generator().manual_seed(shard)
    for slot in range(slots):
        inputs = torch.randn(rows, *shape, generator=generator)
        labels = torch.randint(10, (rows,), generator=generator)
        yield Samples.of(inputs, labels, 10**9 * shard + rows * slot)


def train_on_digits(ranks: Ranks, selector: Selector, **more: Any) -> tuple[RankTrainer, Any]:
    data = digits()
    model = start(mlp, data.input_shape, 10, 0)
    trainer = RankTrainer(
        ranks,
        model,
        torch.optim.SGD(model.parameters(), 0.3, momentum=0.5),
        selector,
        lambda shard: Sliding(400),
        shards=2,
        pool_size=512,
        window=None,
        tracker=Tracker(10),
        **more,
    )
    stream = Replay(
        data.inputs, data.labels, Symmetric(10), Steps((0.9, 0.5, 0.8, 0.4)), slots=2 * SLOTS
    )
    return trainer, lambda shard, first=0: islice(stream, shard + 2 * first, None, 2)


def end_of(trainer: RankTrainer) -> dict[str, Any]:
    """Say what a run came to, to the last bit."""
    digest = hashlib.sha256()
    for value in trainer.model.state_dict().values():
        digest.update(value.numpy().tobytes())
    return {"slots": trainer.slots, "chain": trainer.chain, "weights": digest.hexdigest()}


def job_picks(ranks: Ranks, folder: Path) -> dict[str, Any]:
    ends = {}
    for name, selector in SELECTORS.items():
        trainer, read_shard = train_on_digits(ranks, selector())
        for _ in trainer.run(*map(read_shard, trainer.own)):
            pass
        ends[name] = end_of(trainer)
    return ends


def job_killed(ranks: Ranks, folder: Path) -> dict[str, Any]:
    """Train with checkpoints, and say when another rank was found to be gone."""
    (folder / f"pid-{ranks.number}").write_text(str(os.getpid()))
    trainer, read_shard = train_on_digits(ranks, Plausible())
    checkpoints = RankCheckpoints(folder / "checkpoints")
    offsets = checkpoints.load(trainer)
    streams = [read_shard(shard, at or 0) for shard, at in zip(trainer.own, offsets, strict=True)]
    try:
        for _ in trainer.run(*streams):
            if trainer.slots % 10 == 0:
                checkpoints.save(trainer, [trainer.slots] * len(trainer.own))
            if trainer.slots == 150:
                break
    except RankLost:
        (folder / "lost").write_text(str(time.time()))
        raise
    return end_of(trainer)


def job_cost(ranks: Ranks, folder: Path) -> list[Line]:
    return [line for name in WORKLOADS for line in cost_of(ranks, name)]


def cost_of(ranks: Ranks, name: str) -> list[Line]:
    """Agreement as a share of a slot: the slot beside one in which nothing is agreed."""
    factory, shape, k, held, many = WORKLOADS[name]
    mirror = Mirror(ranks.number, ranks.size)
    contenders: dict[Any, Callable[[], object]] = {}
    settings = [("Plausible", 1)]
    if many > 1:  # a slot of the others takes too long
        settings += [("OGRS", 1), ("Naive", 1), ("Plausible", SELDOM)]
    for kind in (ranks, mirror):
        for selector, every in settings:
            model = start(factory, shape, 10, 0)
            trainer = RankTrainer(
                kind,
                model,
                torch.optim.SGD(model.parameters(), 0.01),
                SELECTORS[selector](),
                lambda shard: Sliding(held),
                k,
                every=every,
                window=None,
            )
            stream = make_up(ranks.number, 10**9, 8, shape)
            trainer.step(next(make_up(100 + ranks.number, 1, held, shape)))
            contenders[kind is ranks, selector, every] = partial(
                play, trainer, stream, max(many, every)
            )
    model = DistributedDataParallel(start(factory, shape, 10, 0))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    stream = make_up(ranks.number, 10**9, k // ranks.size, shape)
    contenders["ddp"] = partial(plain, model, optimizer, stream, many)
    times = race(contenders, ROUNDS if many == 1 else 2 * ROUNDS, dist.barrier)
    lines = []
    for selector, every in settings:
        ours, alone = (
            times[agreed, selector, every] / max(many, every) for agreed in (True, False)
        )
        plainly = times["ddp"] / many
        lines.append(
            {
                "model": name,
                "selector": selector,
                "every": str(every),
                "slot_ms": f"{1000 * ours.median():.2f}",
                "agreement_ms": f"{1000 * (ours - alone).median():.2f}",
                "agreement": str(ratio(ours - alone, ours)),
                "over_ddp": str(ratio(ours, plainly)),
                "ddp_ms": f"{1000 * plainly.median():.2f}",
            }
        )
    return lines


def play(trainer: RankTrainer, stream: Iterator[Samples], slots: int) -> None:
    for _ in range(slots):
        trainer.step(next(stream))


def plain(
    model: nn.Module, optimizer: torch.optim.Optimizer, stream: Iterator[Samples], slots: int
) -> None:
    """Steps of plain DDP on whatever comes."""
    for _ in range(slots):
        batch = next(stream)
        optimizer.zero_grad()
        cross_entropy(model(batch.inputs), batch.labels).backward()
        optimizer.step()


def job_wire(ranks: Ranks, folder: Path) -> list[Line]:
    """Bytes that a rank sends in a slot, by what they are for, over rows held."""
    lines, slots = [], 50
    for selector in SELECTORS:
        for held in (1_000, 10_000, 100_000):
            model = start(mlp, (64,), 10, 0)
            counted = Ranks(ranks.number, ranks.size)
            trainer = RankTrainer(
                counted,
                model,
                torch.optim.SGD(model.parameters(), 0.01),
                SELECTORS[selector](),
                lambda shard, held=held: Sliding(held),
                window=None,
            )
            trainer.step(next(make_up(ranks.number, 1, held, (64,))))
            counted.sent.clear()
            dist.barrier()
            before = on_loopback()
            play(trainer, make_up(10 + ranks.number, slots, 8, (64,)), slots)
            dist.barrier()
            seen = (on_loopback() - before) / slots / ranks.size
            sent = {name: counted.sent[name] / slots for name in ("pool", "views", "gradients")}
            numbers = {**sent, "all": sum(sent.values()), "kernel": seen}
            told = {name: f"{value:.0f}" for name, value in numbers.items()}
            lines.append({"selector": selector, "held": str(held), **told})
    return lines


def on_loopback() -> int:
    """Bytes that the kernel has carried within this machine, or this network namespace."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.split()[0] == "lo:")


def job_constants(ranks: Ranks, folder: Path) -> dict[str, float]:
    """Seconds of a message and of a byte, and of a selection."""
    sizes = (1_000, 100_000, 1_000_000, 4_000_000)
    found = {}
    for name in ("gather", "add"):
        medians = []
        for size in sizes:
            mine = torch.zeros(size // 4)
            run = partial(getattr(ranks, name), "trial", mine)
            medians.append(race({"it": run}, 60, dist.barrier)["it"].median())
        line = torch.tensor([[1.0, size] for size in sizes])
        weight = 1 / torch.stack(medians)[:, None]
        start_up, byte = torch.linalg.lstsq(line * weight, torch.ones(len(sizes), 1)).solution
        found[f"{name}_message_s"], found[f"{name}_byte_s"] = start_up.item(), byte.item()
    pool = next(make_up(0, 1, 8_192, (WIDTH,)))
    model = start(mlp, (WIDTH,), 10, 0)
    for count in (512, 4_096):
        local, generator = LocalModel(model), torch.Generator().manual_seed(0)
        rule = Plausible()
        run = partial(rule.select, pool, local, count // 4, generator)
        found[f"select_{count}_s"] = race({"it": run}, 10)["it"].median().item()
    return found


JOBS: dict[str, Callable[[Ranks, Path], Any]] = {
    "picks": job_picks, "killed": job_killed, "cost": job_cost, "wire": job_wire,
    "constants": job_constants,
}  # fmt: skip


def be_rank(job: str, folder: Path) -> None:
    torch.set_num_threads(1)
    ranks = Ranks.join(timeout=30)
    answer = JOBS[job](ranks, folder)
    if ranks.number == 0:
        (folder / f"{job}.json").write_text(json.dumps(answer))


def launch(job: str, folder: Path, ranks: int = 2, restarts: int = 0) -> subprocess.Popen[str]:
    """Start a job by torchrun; one rank needs none."""
    torchrun = [] if ranks == 1 else ["-m", "torch.distributed.run", "--standalone"]
    torchrun += [] if ranks == 1 else ["--nproc-per-node", str(ranks)]
    torchrun += ["--max-restarts", str(restarts)] if restarts else []
    command = [sys.executable, *torchrun, "-m", "benchmarks.ranks", "--job", job]
    if job == "wire":  # in a network of its own, so that the kernel's count is of this job
        command = ["unshare", "-rn", "sh", "-c", 'ip link set lo up; exec "$@"', "sh", *command]
    return subprocess.Popen(
        [*command, "--folder", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def finish(process: subprocess.Popen[str], job: str, folder: Path) -> Any:
    """Wait for a job, and return what it says."""
    told, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{job} ended with {process.returncode}:\n{told[-3000:]}")
    return json.loads((folder / f"{job}.json").read_text())


def run_job(job: str, ranks: int = 2) -> Any:
    with tempfile.TemporaryDirectory() as name:
        return finish(launch(job, Path(name), ranks), job, Path(name))


def picks(_: int) -> list[Row]:
    one, two = (run_job("picks", ranks) for ranks in (1, 2))
    rows = []
    for name in SELECTORS:
        chain = "equal" if one[name]["chain"] == two[name]["chain"] else "not equal"
        weights = "equal" if one[name]["weights"] == two[name]["weights"] else "not equal"
        slots = two[name]["slots"]
        rows.append((f"picks of 2 ranks and of 1, {name}, {slots} slots", chain, "equal"))
        rows.append((f"weights of 2 ranks and of 1, {name}, every bit", weights, "equal"))
    return rows


def kills(trials: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        unbroken = finish(launch("killed", Path(name)), "killed", Path(name))
    chance = random.Random(0)  # noqa: S311
    ends, noticed, again = [], [], []
    for trial in range(trials):
        with tempfile.TemporaryDirectory() as name:
            folder, victim = Path(name), chance.randrange(2)
            process = launch("killed", folder)
            wait_for(folder, chance.randrange(10, 130), process)
            killed = kill(folder, victim)
            process.communicate()
            ends.append(time.time() - killed)
            started = time.time()
            restarted = finish(launch("killed", folder), "killed", folder)
            again.append((time.time() - started, restarted == unbroken))
            print(f"kill {trial + 1}: job over after {ends[-1]:.1f} s, {again[-1]}", flush=True)
    for _ in range(max(1, trials // 4)):
        noticed.append(notice(chance))
    good = sum(equal for _, equal in again)
    seconds = sorted(seconds for seconds, _ in again)
    return [
        (f"job started again after kill -9 of a rank, of {trials}", f"{good}", f">= {trials}"),
        ("seconds from the kill to the end of the job, most", f"{max(ends):.1f}", "<= 10"),
        ("seconds until the other rank notices by itself, most", f"{max(noticed):.2f}", "<= 10"),
        ("seconds of the second start to its end, median", f"{seconds[len(seconds) // 2]:.1f}", ""),
    ]


def in_place(trials: int) -> list[Row]:
    """What comes of it where torchrun restarts the workers by itself."""
    back, tried, limit = 0, max(1, trials // 4), 60
    for _ in range(tried):
        with tempfile.TemporaryDirectory() as name:
            process = launch("killed", Path(name), restarts=3)
            wait_for(Path(name), 40, process)
            kill(Path(name), 1)
            try:
                process.communicate(timeout=limit)
                back += process.returncode == 0
            except subprocess.TimeoutExpired:
                process.terminate()
                process.communicate()
    what = f"for comparison: back within {limit} s by torchrun --max-restarts=3, of {tried}"
    return [(what, str(back), "")]


def notice(chance: random.Random) -> float:
    """Seconds until a rank that nobody watches over knows that the other is gone."""
    with socket.socket() as free, tempfile.TemporaryDirectory() as name:
        free.bind(("127.0.0.1", 0))
        port, folder, victim = free.getsockname()[1], Path(name), chance.randrange(2)
        free.close()
        here = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
        command = [sys.executable, "-m", "benchmarks.ranks", "--job", "killed", "--folder", name]
        processes = [
            subprocess.Popen(
                command,
                env=os.environ | here | {"RANK": str(rank), "OMP_NUM_THREADS": "1"},
                stderr=subprocess.DEVNULL,
            )
            for rank in range(2)
        ]
        wait_for(folder, 20, processes[0])
        killed = kill(folder, victim)
        for process in processes:
            process.wait(60)
        return float((folder / "lost").read_text()) - killed


def kill(folder: Path, rank: int) -> float:
    os.kill(int((folder / f"pid-{rank}").read_text()), signal.SIGKILL)
    return time.time()


def wait_for(folder: Path, slot: int, process: subprocess.Popen[str]) -> None:
    """Wait until a checkpoint of this slot, or a later one, is there."""
    checkpoints = RankCheckpoints(folder / "checkpoints")
    while not any(saved >= slot for saved in checkpoints.slots()):
        if process.poll() is not None:
            raise RuntimeError(f"the job has ended: {process.communicate()[0]}")
        time.sleep(0.02)


def cost(_: int) -> list[Row]:
    lines = run_job("cost")
    save(FOLDER / "cost.csv", (*COST, "machine"), [line | {"machine": machine()} for line in lines])
    return [
        (
            f"agreement as a share of a slot, {line['model']}, {line['selector']},"
            f" every {line['every']}",
            line["agreement"],
            "<= 0.1",
        )
        for line in lines
    ]


def wire(_: int) -> list[Row]:
    lines = run_job("wire")
    save(FOLDER / "wire.csv", WIRE, lines)
    rows = []
    for selector in SELECTORS:
        mine = [int(line["all"]) for line in lines if line["selector"] == selector]
        grown = mine[-1] / mine[0]
        rows.append(
            (f"bytes a slot at 100,000 rows held over 1,000, {selector}", f"{grown:.3f}", "<= 1.02")
        )
    return rows


def model(_: int) -> list[Row]:
    """Work out what more workers would cost, from what was measured here."""
    found = run_job("constants")
    save_rows(
        FOLDER / "constants.csv", [(name, f"{value:.3e}", "") for name, value in found.items()]
    )
    lines = [expect(found, workers, every) for workers in (2, 10, 100, 1000) for every in (1, 100)]
    save(FOLDER / "model.csv", MODEL, lines)
    return []


def expect(found: dict[str, float], workers: int, every: int) -> Line:
    """Follow a ring of workers: its hops, and the bytes that go past each."""
    k = PICKED * workers
    candidates, pool = 4 * k, max(1024, 4 * k)
    pool_bytes, view_bytes, gradient_bytes = 40 * pool, 4 * WIDTH * candidates, 4 * PARAMETERS
    hops = workers - 1
    message, byte = found["gather_message_s"], 1 / TEN_GIGABITS
    each = (found["select_4096_s"] - found["select_512_s"]) / (4_096 - 512)
    met = 2 * hops * message + (pool_bytes + view_bytes) * byte * hops / workers
    own = PICKED * 4  # candidates of a shard that picks by itself
    select = each * (candidates / every + own * (1 - 1 / every))
    agreement = met / every
    gradient = 2 * hops * message + 2 * gradient_bytes * byte * hops / workers
    slot = agreement + gradient + select
    return {
        "workers": str(workers),
        "every": str(every),
        "k": str(k),
        "pool_bytes": f"{pool_bytes / every:.0f}",
        "view_bytes": f"{view_bytes / every:.0f}",
        "gradient_bytes": str(2 * gradient_bytes),
        "agreement_s": f"{agreement:.4f}",
        "gradient_s": f"{gradient:.4f}",
        "select_s": f"{select:.4f}",
        "slot_s": f"{slot:.4f}",
        "agreement": f"{agreement / slot:.3f}",
        "hours": f"{ALL_SAMPLES / (READ * workers) * slot / 3600:.1f}",
    }


def on_ray(_: int) -> list[Row]:
    """The demo's stream on two workers of Ray and on one machine, seed by seed."""
    done = subprocess.run(
        [sys.executable, "examples/ray_train.py", "--seeds", "10"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    found = json.loads(done.stdout.splitlines()[-1])
    ray, single = (torch.tensor(found[name], dtype=torch.float64) for name in ("ray", "single"))
    apart, seeds = ray - single, len(ray)
    error = (apart.std() / seeds**0.5).item()
    noise = float(student.ppf(0.975, seeds - 1)) * error
    word = "within noise" if apart.mean().abs() <= noise else "apart"
    return [
        (f"accuracy on 2 workers of Ray, mean of {seeds} seeds", f"{ray.mean():.4f}", ""),
        (f"accuracy of one trainer, mean of {seeds} seeds", f"{single.mean():.4f}", ""),
        ("their difference, and half of its 95% interval", f"{apart.mean():.4f}, {noise:.4f}", ""),
        ("2 workers of Ray against one trainer", word, "within noise"),
    ]


PARTS: dict[str, Callable[[int], list[Row]]] = {
    "picks": picks, "wire": wire, "model": model, "cost": cost, "kills": kills,
    "in_place": in_place, "ray": on_ray,
}  # fmt: skip


def tables() -> dict[str, str]:
    """Write the tables of the page from the files alone."""
    rows = read(FOLDER / "results.csv")
    judged = [
        (row["what"], row["measured"], row["bar"], verdict(row["measured"], row["bar"]))
        for row in rows
    ]
    return {
        "bars": table(("what", "measured", "bar", "holds"), judged),
        "cost": plain_table(COST, read(FOLDER / "cost.csv")),
        "wire": plain_table(WIRE, read(FOLDER / "wire.csv")),
        "model": plain_table(MODEL, read(FOLDER / "model.csv")),
    }


def plain_table(columns: tuple[str, ...], lines: list[Line]) -> str:
    titles = [column.replace("_", " ") for column in columns]
    return table(titles, [[line[column] for column in columns] for line in lines])


def fill_page(text: str) -> str:
    """Put the tables between their marks."""
    for name, content in tables().items():
        first, last = f"<!-- {name}: written by python -m benchmarks.ranks -->", "<!-- end -->"
        before, _, rest = text.partition(first)
        _, _, after = rest.partition(last)
        text = f"{before}{first}\n{content}\n{last}{after}"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--trials", type=int, default=20, help="kills (default 20)")
    parser.add_argument("--page", action="store_true", help="only write the page from the files")
    parser.add_argument("--job", choices=JOBS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        be_rank(options.job, options.folder)
        return
    rows = {
        row["what"]: (row["what"], row["measured"], row["bar"])
        for row in read(FOLDER / "results.csv")
    }
    for part in [] if options.page else options.parts:
        for row in PARTS[part](options.trials):
            print(*row, verdict(row[1], row[2]), sep=" | ", flush=True)
            rows[row[0]] = row
        save_rows(FOLDER / "results.csv", list(rows.values()))
    PAGE.write_text(fill_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
