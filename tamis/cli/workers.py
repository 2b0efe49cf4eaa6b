"""A command on many processes: torchrun's launcher starts them, and each is a rank of one run."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import uuid
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path

from tamis.checkpoint import make_folder
from tamis.cli.crew import Crew
from tamis.distributed import RankCheckpoints, RankLostError, Ranks
from tamis.errors import TamisError, UsageError
from tamis.runs import RunFiles
from tamis.training.folder import check_folder, lock_folder

Train = Callable[[Namespace, Crew], int]
EXIT_FILE = "TAMIS_EXIT_FILE"
"""Names the file in which the first rank leaves the exit code of a command: one that is not 0 would
have the ranks started again."""
LOST = 75
TIMEOUT = 120.0
"""Seconds that a rank may be silent."""


def train_on_workers(options: Namespace, alone: Callable[[Namespace], int], together: Train) -> int:
    """Train in this process, or start the processes that train, or be one of them."""
    if getattr(options, "dry_run", False):
        return alone(options)
    ranked = "WORLD_SIZE" in os.environ
    if options.ray and not ranked and options.workers is None:
        raise UsageError("--ray needs --workers N.")
    if not ranked and options.workers is None and options.shards is None:
        saved = RankCheckpoints(options.out / RunFiles.checkpoints)
        if options.resume and saved.slots():
            raise UsageError(f"{options.out} was trained in shards: resume it with --workers.")
        if options.overwrite and saved.slots():
            with lock_folder(options.out):  # unless a run is in progress
                saved.clear()
        return alone(options)
    check_together(options)
    if not ranked and options.ray:
        return launch_on_ray(options)
    if not ranked and (options.workers or 1) > 1:
        options.results.wanted = False  # the first rank writes them
        return launch(options.workers, options.restarts, options.arguments)
    if int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)):
        options.resume, options.overwrite = True, False
    return leave(be_rank(options, together))


def be_rank(options: Namespace, train: Train) -> int:
    """Train as one of the ranks; only the first of them prints."""
    from tamis.cli.main import one_line
    from tamis.integrations.ray_processes import end_with_parent

    try:
        end_with_parent()
        ranks = Ranks.join(options.device, TIMEOUT)
        options.results.wanted &= ranks.number == 0
        with Crew(options, ranks) as crew, quiet(ranks):
            return train(options, crew)
    except RankLostError as error:
        print(f"{options.prog}: {one_line(error)}", file=sys.stderr)
        raise SystemExit(LOST) from None
    except (TamisError, OSError) as error:
        if EXIT_FILE not in os.environ:
            raise
        if os.environ["RANK"] == "0":
            print(f"{options.prog}: {one_line(error)}", file=sys.stderr)
        return 2


@contextmanager
def quiet(ranks: Ranks) -> Iterator[None]:
    """Leave printing, and signals, to the first rank."""
    if not ranks.number:
        yield
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        yield


def leave(code: int) -> int:
    """Leave the exit code to whoever has started the ranks."""
    path = os.environ.get(EXIT_FILE)
    if path is None:
        return code
    if os.environ.get("RANK") == "0":
        Path(path).write_text(str(code))
    return 0


def check_together(options: Namespace) -> None:
    """Refuse what ranks cannot do, in one sentence."""
    refused = {
        "--device": options.device != "cpu",
        "--annotator": options.annotator,
        "--max-classes": getattr(options, "max_classes", None),
        "--window": options.window not in ("auto", "average") and options.window > 1,
        f"--on-bad {getattr(options, 'on_bad', '')}": getattr(options, "on_bad", "skip") != "skip",
        "--wait-seconds": getattr(options, "wait_seconds", None),
    }
    for name, given in refused.items():
        if given:
            raise UsageError(f"{name} is not for --workers yet: leave one of the two out.")


def launch_on_ray(options: Namespace) -> int:
    """Run the command on so many workers of a Ray cluster, and return its exit code."""
    from tamis.integrations.ray_processes import run_on_ray

    options.results.wanted = False  # the first rank writes them
    check_folder(options.out, options.resume, options.overwrite)
    make_folder(options.out)
    with tempfile.TemporaryDirectory(prefix=".ray-", dir=options.out) as folder:
        return run_on_ray(
            options.arguments, options.workers, address=options.ray, folder=Path(folder),
            restarts=options.restarts, exit_file=EXIT_FILE,
        )  # fmt: skip


def launch(workers: int, restarts: int, arguments: Sequence[str]) -> int:
    """Run the command on so many processes of this machine, and return its exit code."""
    from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    logging.getLogger("torch.distributed.elastic").setLevel(logging.ERROR)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    config = LaunchConfig(
        1, 1, workers, logs_specs=DefaultLogsSpecs(), run_id=str(uuid.uuid4()),
        rdzv_backend="c10d", rdzv_endpoint="localhost:0", max_restarts=restarts,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = os.environ[EXIT_FILE] = str(Path(folder) / "code")
        try:
            with suppress(SignalException):
                elastic_launch(config, sys.executable)("-m", "tamis", *arguments)
        except ChildFailedError:
            raise UsageError(
                f"A worker has ended {restarts + 1} times: --resume continues at the checkpoint."
            ) from None
        finally:
            del os.environ[EXIT_FILE]
        if not Path(path).exists():
            raise TamisError("The workers were ended before they could save: --resume continues.")
        return int(Path(path).read_text())
