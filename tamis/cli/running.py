"""What the commands that train share: how a run is opened, and what is printed at its end."""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import nn

import tamis
from tamis.buffers import WaitingRoom
from tamis.checkpoint import DamagedCheckpointWarning, MismatchError, RefusedError
from tamis.cli.building import check_device
from tamis.cli.config import write_config
from tamis.cli.next_steps import command, print_next
from tamis.data import Slot
from tamis.errors import UsageError
from tamis.monitoring import CollapseWarning
from tamis.monitoring.logger_group import LoggerError, LoggerGroup
from tamis.prediction.rebuilding import model_arguments
from tamis.runs import Decisions, EstimateHistory, RunFiles, RunMetadata, Suspect
from tamis.sources import Schema
from tamis.training.folder import FolderInUseError, check_folder
from tamis.training.protocol import RecordedTrainer, RunCheckpoints
from tamis.training.run import SaveEvery, TrainingRun

PRINTED = 10
"""Suspects printed at the end of a run."""


def check_options(options: Namespace) -> None:
    """Raise where a run would be lost by mistake, a device or a file of decisions is none."""
    check_device(options.device)
    try:
        check_folder(options.out, options.resume, options.overwrite)
    except FolderInUseError as error:
        raise UsageError(f"{error} (--out, --resume, --overwrite)") from None
    file: Path | None = options.corrections
    if file and not file.exists():
        raise UsageError(f"--corrections {file} does not exist.")
    if file and file.stat().st_size and not Decisions(file).lines:
        raise UsageError(f"--corrections {file} holds no decision; tamis import reads tables.")


@contextmanager
def open_run(
    options: Namespace,
    trainer: RecordedTrainer,
    metadata: RunMetadata,
    *,
    settings: Mapping[str, Any],
    loggers: LoggerGroup,
    evaluate: Any = None,
    schema: Schema | None = None,
    secret: Sequence[str] = (),
    checkpoints: RunCheckpoints | None = None,
) -> Iterator[TrainingRun]:
    """Open the run that the options describe, and write them into its folder, but for the secret.

    Warnings are collected, to be printed at its end.
    """
    with warnings.catch_warnings():
        for printed in (CollapseWarning, DamagedCheckpointWarning):
            warnings.simplefilter("ignore", printed)
        try:
            with TrainingRun(
                options.out,
                trainer,
                metadata,
                settings=settings,
                resume=options.resume,
                allow_mismatch=options.allow_mismatch,
                overwrite=options.overwrite,
                save_every=SaveEvery(*options.save_every),
                corrections=options.corrections,
                evaluate=evaluate,
                loggers=loggers,
                model_info=model_info(options, trainer.model),
                schema=schema,
                checkpoints=checkpoints,
            ) as run:
                write_config(options, run.folder / RunFiles.config, secret)
                yield run
        except MismatchError as error:
            raise UsageError(f"{error} (--allow-mismatch resumes all the same.)") from None
        except RefusedError as error:
            raise UsageError(str(error)) from None
        except OSError as error:
            if error.filename is None or not Path(error.filename).is_relative_to(options.out):
                raise
            raise UsageError(f"{options.out} cannot be written to: {error.strerror}.") from None


def open_loggers(options: Namespace, settings: Mapping[str, Any]) -> LoggerGroup:
    """Open the experiment trackers that --log names."""
    try:
        return LoggerGroup.of(options.log, options.out, settings)
    except LoggerError as error:
        raise UsageError(f"--log {error}") from None


def model_info(options: Namespace, model: nn.Module) -> dict[str, object]:
    """Return what a reader of the model's file should know."""
    return model_arguments(model) | {
        "tamis": tamis.__version__,
        "model": options.model,
        "selector": options.selector,
        "settings": options.set,
        "seed": options.seed,
    }


def slot_note(slot: Slot) -> str:
    """Return the loss and the rejected rows of a slot, to stand beside a progress bar."""
    parts = [] if slot.loss is None else [f"loss {slot.loss:.3f}"]
    parts += [f"rejected {slot.skipped}"] if slot.skipped else []
    return ", ".join(parts)


def print_outcome(
    run: TrainingRun, console: Console, trained_on: str, newest: bool = False
) -> None:
    """Print how a run ended: what was saved, what went wrong, what was rejected and why.

    With `newest`, the clean ratio of the newest rows is printed as well.
    """
    verb = "Stopped after" if run.stop else "Trained for"
    saved = run.saved_slot == run.trainer.slots
    state = "all is saved, and --resume continues" if saved else "the last checkpoint is older"
    console.print(f"{verb} {run.trainer.slots} slots {trained_on}; {state}.")
    for text in run.warnings():
        console.print(f"Warning: {text}.")
    for alarm in EstimateHistory(run.folder).alarms:
        if alarm.subject:
            console.print(f"Slot {alarm.slot}: {alarm.text}")
    rejects = run.trainer.validator.rejects
    if rejects.total:
        console.print(f"{rejects.summary()} See {rejects.path}.")
    if run.trainer.waiting and (sentence := waiting_sentence(run.trainer.waiting)):
        console.print(sentence)
    console.print(clean_ratio_sentence(run, newest))


def waiting_sentence(room: WaitingRoom) -> str:
    """Return how many rows have a label, and what became of the others; empty where all have."""
    if room.labelled in (None, 1.0) and not (room.waiting_labels or room.unmatched):
        return ""
    rows = f"{room.joined} of {room.came} rows have a label; {len(room)} wait for theirs"
    left = f", {room.unlabelled} were removed without one" if room.unlabelled else ""
    labels = f"; {room.waiting_labels} labels wait for their rows" if room.waiting_labels else ""
    lost = f", {room.unmatched} were removed without one" if room.unmatched else ""
    return f"{rows}{left}{labels}{lost}."


def print_next_step(run: TrainingRun, suspects: Sequence[Suspect] | None, console: Console) -> None:
    """Print where the results are, and what to do with them."""
    if decided := run.recorder.decided():
        console.print(f"{len(decided)} labels were decided by people.")
    console.print(f"Model, log{'' if suspects is None else ', suspects'}: {run.folder}")
    print_next(
        console,
        review_with=command("watch", run.folder),
        report_with=command("report", run.folder),
        predict_with=command("predict", run.folder, "FILE"),
    )


def run_results(
    run: TrainingRun, suspects: Sequence[Suspect] | None, **more: object
) -> dict[str, object]:
    """Return how a run ended, for --json."""
    about, rejects = run.recorder.metadata, run.trainer.validator.rejects
    return {
        "run": run.folder,
        "ended": about.ended,
        "slots": run.trainer.slots,
        "saved_slot": run.saved_slot,
        "clean_ratio": about.clean_ratio,
        "clean_band": about.clean_band,
        "labels": about.scored,
        "wrong": about.wrong,
        "suspects": None if suspects is None else len(suspects),
        "rejected": rejects.total,
        "warnings": run.warnings(),
        **more,
    }


def print_suspects(suspects: Sequence[Suspect], run: TrainingRun, console: Console) -> None:
    """Print how many labels are wrong, how many of them are listed, and the worst."""
    counts = run.recorder.metadata
    console.print(f"About {counts.wrong} of {counts.scored} labels are wrong.")
    console.print(
        f"{len(suspects)} suspects are listed. The worst, with the probability of an error:"
    )
    for suspect in suspects[:PRINTED]:
        labels = f"given {suspect.given}, suggested {suspect.suggested}"
        console.print(f"  {suspect.id}: {labels} ({suspect.score:.3f})")


def clean_ratio_sentence(run: TrainingRun, newest: bool) -> str:
    """Return the estimated clean ratio of all labels that were scored.

    With `newest`, for a stream, also that of the newest rows, with its band; noise may have
    changed. Where nothing was scored, it stands alone.
    """
    text = run.recorder.metadata.clean_ratio_text
    found = [text] if text else []
    if run.trainer.tracker and (newest or not found):
        value, low, high = run.trainer.tracker.estimate()
        rows = "for the newest rows, from predictions made before learning from them"
        found.append(f"{value:.2f} ({low:.2f} to {high:.2f}) {rows}")
    return f"Estimated clean ratio: {'; '.join(found) or 'not known'}."
