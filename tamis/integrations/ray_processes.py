"""A command on a Ray cluster: each worker of Ray Train runs one process of it, and watches it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, TextIO

import torch.distributed as dist

from tamis.distributed import Ranks
from tamis.errors import UsageError
from tamis.integrations.ray import train_on_ray
from tamis.training.signals import StopSignal

LOCAL = "local"
"""The address of a cluster that is started on this machine, and ends with the command."""
REACHED = 10.0
"""Seconds within which a cluster is to answer."""
TICK = 0.2
"""Seconds from one look at a process, or at what it has printed, to the next."""


class Mailbox:
    """What crosses between the command that was typed and its processes, in an actor of its own."""

    def __init__(self) -> None:
        self._printed: list[tuple[int, str]] = []
        self._stop = self._starts = 0

    def start(self) -> int:
        """Return how often the first process was started before."""
        self._starts += 1
        return self._starts - 1

    def print(self, stream: int, text: str) -> None:
        """Store what the first process printed, on stream 1 or 2."""
        self._printed.append((stream, text))

    def exchange(self, stop: int) -> list[tuple[int, str]]:
        """Return what was printed since the last call, and note a signal that has come."""
        self._stop = stop
        printed, self._printed = self._printed, []
        return printed

    def stop(self) -> int:
        """Return the signal that the processes are to get; 0 for none."""
        return self._stop


def run_on_ray(
    arguments: Sequence[str],
    workers: int,
    *,
    address: str,
    folder: Path,
    restarts: int,
    exit_file: str,
) -> int:
    """Run `tamis` with these arguments on so many workers of a cluster; return its exit code.

    The first process leaves its exit code in a file that the variable `exit_file` names. What it
    prints is printed here, and a signal that comes here it gets.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise UsageError("--ray needs Ray: pip install 'tamis[ray]'.") from None
    connect(ray, address, workers)
    answers: list[Any] = []
    failed: list[Exception] = []
    try:
        mailbox: Any = ray.remote(Mailbox).options(num_cpus=0).remote()
        work = worker_of(list(arguments), mailbox, exit_file, Path.cwd())

        def fit() -> None:
            try:
                found = train_on_ray(work, workers, folder=folder, restarts=restarts)
                answers.extend(found)
            except Exception as error:  # the command's own thread raises it
                failed.append(error)

        # In a thread: Ray Train would take Ctrl-C for itself.
        thread = Thread(target=fit, name="tamis on ray", daemon=True)
        with StopSignal() as stop:
            thread.start()
            while thread.is_alive():
                thread.join(TICK)
                write_all(ray.get(mailbox.exchange.remote(stop.number)))
            write_all(ray.get(mailbox.exchange.remote(stop.number)))
    finally:
        ray.shutdown()
    if failed:
        raise UsageError(
            f"A worker has ended {restarts + 1} times: --resume continues at the checkpoint."
        ) from failed[0]
    return int(answers[0])


def connect(ray: Any, address: str, workers: int) -> None:
    """Connect to a cluster, or start one on this machine."""
    os.environ.setdefault("RAY_worker_niceness", "0")  # else whatever else runs comes first
    quiet: Mapping[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if address == LOCAL:
            ray.init(address, num_cpus=workers + 1, include_dashboard=False, **quiet)
        else:
            host, colon, port = address.rpartition("/")[2].rpartition(":")
            if colon:  # Ray itself tries for minutes
                socket.create_connection((host, int(port)), REACHED).close()
            ray.init(address, **quiet)
    except (OSError, ValueError, RuntimeError) as error:
        why = str(error).splitlines()[0].rstrip(".")
        raise UsageError(f"--ray {address}: no cluster can be reached ({why}).") from None


def write_all(printed: Sequence[tuple[int, str]]) -> None:
    """Print what the first process has printed."""
    for stream, text in printed:
        file = sys.__stdout__ if stream == 1 else sys.__stderr__
        if file:
            file.write(text)
            file.flush()


def worker_of(
    arguments: list[str], mailbox: Any, exit_file: str, place: Path
) -> Callable[[Ranks], int]:
    """Return what each worker of Ray Train does: run one process to its end."""

    def work(ranks: Ranks) -> int:
        import ray

        starts = ray.get(mailbox.start.remote()) if ranks.number == 0 else 0
        met = [(*meeting_point(address_of(ray)), starts)]
        dist.broadcast_object_list(met, 0)
        host, port, starts = met[0]
        with TemporaryDirectory() as folder:
            path = Path(folder) / "code"
            environment = os.environ | {
                "RANK": str(ranks.number), "WORLD_SIZE": str(ranks.size),
                "MASTER_ADDR": host, "MASTER_PORT": str(port),
                "TORCHELASTIC_RESTART_COUNT": str(starts), "OMP_NUM_THREADS": "1",
                exit_file: str(path), PARENT: str(os.getpid()),
            }  # fmt: skip
            with subprocess.Popen(  # noqa: S603 (the command that was typed)
                [sys.executable, "-m", "tamis", *arguments],
                cwd=place, env=environment, text=True, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            ) as process:  # fmt: skip
                watch(process, mailbox, ranks.number)
            if process.returncode:
                raise RuntimeError(f"rank {ranks.number} ended with {process.returncode}")
            return int(path.read_text()) if path.exists() else 0

    return work


def watch(process: subprocess.Popen[str], mailbox: Any, rank: int) -> None:
    """Wait for the end of a process; pass on what the first prints, and a signal to it."""
    import ray

    def forward(stream: int, file: TextIO | None) -> None:
        for line in file or ():
            if rank == 0:
                ray.get(mailbox.print.remote(stream, line))

    pipes = enumerate((process.stdout, process.stderr), 1)
    threads = [Thread(target=forward, args=pair, daemon=True) for pair in pipes]
    for thread in threads:
        thread.start()
    stopped = False
    while process.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(TICK)
        if rank == 0 and not stopped and (number := ray.get(mailbox.stop.remote())):
            process.send_signal(number)
            stopped = True
    for thread in threads:
        thread.join()


def address_of(ray: Any) -> str:
    """Return the address of this node, as the others of the cluster see it."""
    return str(ray.util.get_node_ip_address())


def meeting_point(host: str) -> tuple[str, int]:
    """Return an address of this machine with a port that is free."""
    with socket.socket() as free:
        free.bind(("", 0))
        return host, int(free.getsockname()[1])


PARENT = "TAMIS_PARENT"
"""Names the process without which a rank is to end at once."""


def end_with_parent() -> None:
    """End this process when the worker of Ray that started it dies; let signals in."""
    if (parent := os.environ.pop(PARENT, None)) is None:
        return
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    if sys.platform == "linux":
        from ctypes import CDLL

        CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != int(parent):
        os.kill(os.getpid(), signal.SIGKILL)
