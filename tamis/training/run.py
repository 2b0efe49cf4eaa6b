"""One training run in one folder: built or resumed, recorded, corrected, saved, ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, NamedTuple, Self

from tamis.checkpoint import Checkpoints, NotSavedError, make_folder, save_model
from tamis.data import Slot
from tamis.errors import TamisError
from tamis.monitoring import Accuracy, Monitor
from tamis.monitoring.collapse import NO_INFORMATION
from tamis.monitoring.logger_group import LoggerGroup
from tamis.review import Rows, check_labels
from tamis.review.scorer import spread_over
from tamis.runs import RunFiles, RunMetadata, Suspect, write_suspects_csv
from tamis.runs.metadata import End
from tamis.sources import Schema
from tamis.sources.validation import BadInputError, finite_rows
from tamis.training.divergence import DivergedError
from tamis.training.folder import check_folder, lock_folder
from tamis.training.positions import Counted, Positioned, as_arrived, as_positioned
from tamis.training.protocol import RecordedTrainer, RunCheckpoints
from tamis.training.recorder import RunRecorder
from tamis.training.signals import StopSignal


class NotWrittenError(TamisError):
    """Files of a run that could not be written, in one sentence."""


class SaveEvery(NamedTuple):
    """How often to save: every so many slots, or every so many seconds."""

    slots: int | None = None
    seconds: float | None = 60.0

    def due(self, slots: int, since: float) -> bool:
        """Return whether to save after this slot, the last time being at `since`."""
        if self.slots:
            return slots % self.slots == 0
        return monotonic() - since >= (self.seconds or 0)


class TrainingRun:
    """Owns a run: folder, checkpoints, log, suspects, decisions, signals.

        with TrainingRun("run", trainer) as run:
            for slot in run.train(source):
                ...

    Every slot is recorded in the folder, for `tamis watch` and `tamis report`; decisions that
    people make there are trained on at once; a checkpoint is saved when it is due. Ctrl-C and
    SIGTERM end the loop after the slot in progress. Leaving the block saves, and writes the model
    and the suspects; `finish` does so earlier, and returns the suspects. A `TamisError` or an
    `OSError` that ends the block does the same first, with a note of what was saved.

    A run that was resumed continues bit for bit where its last checkpoint was. Where a mismatch is
    allowed, the learning rate is the one that the optimiser was built with.

    Parameters
    ----------
    folder: where the run is kept.
    trainer: what trains; built the same way for a resumed run.
    metadata: what pages show of the run: name, class names, input shape, columns, planned slots.
        Without class names, classes are numbered; without a shape, the first samples give it.
    settings: what must not differ when the run is resumed, beside the trainer's own settings.
    resume: continue from the last checkpoint, if the folder holds one.
    allow_mismatch: resume although settings or versions differ, and with them the numbers.
    overwrite: replace a run that the folder holds.
    save_every: when to save.
    corrections: a file of decisions of another run, followed as it grows.
    evaluate: measures accuracy on held-out data; called now and then.
    loggers: experiment trackers that get the numbers of every slot.
    others: further parts to save by name, as a scheduler of torch.
    model_info: what a reader of the model's file should know beside shape and classes.
    schema: what the columns are; kept in the folder and in the model's file.
    checkpoints: what saves the run, in place of `Checkpoints` with these settings.
    """

    def __init__(
        self,
        folder: str | Path,
        trainer: RecordedTrainer,
        metadata: RunMetadata | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        resume: bool = False,
        allow_mismatch: bool = False,
        overwrite: bool = False,
        save_every: SaveEvery = SaveEvery(),  # noqa: B008
        corrections: Path | None = None,
        evaluate: Callable[[], Accuracy] | None = None,
        loggers: LoggerGroup | None = None,
        others: Mapping[str, object] | None = None,
        model_info: Mapping[str, object] | None = None,
        schema: Schema | None = None,
        checkpoints: RunCheckpoints | None = None,
    ) -> None:
        self.folder, self.trainer = Path(folder), trainer
        check_folder(self.folder, resume, overwrite)
        make_folder(self.folder)
        self.resume, self.allow_mismatch = resume, allow_mismatch
        self.save_every = save_every
        self.model_info = dict(model_info or {})
        self.loggers = loggers or LoggerGroup(())
        place = self.folder / RunFiles.checkpoints
        self.checkpoints: RunCheckpoints = checkpoints or Checkpoints(place, settings)
        self.monitor = Monitor(self.folder / RunFiles.log, evaluate)
        metadata = metadata or RunMetadata()
        self.recorder = RunRecorder(self.folder, trainer, metadata, corrections, schema)
        self.stop, self.save_error = StopSignal(), ""
        self.resumed = self.finished = self._in_step = False
        self.saved_slot: int | None = None
        self._others = {"monitor": self.monitor, "recorder": self.recorder, **(others or {})}
        self._stream: Positioned = Counted(())
        self._saved_at = monotonic()
        self._offset: Any = None
        self._refused: Any = None  # offset before samples that were refused
        self._unwritten: dict[str, str] = {}
        self._stack = ExitStack()

    def train(
        self, source: Any, slots: int | None = None, *, continue_after_end: bool = False
    ) -> Iterator[Slot]:
        """Train on what a source yields, and yield the slots.

        The source is a `Feed`, a table's `play()`, or any iterable of `Samples`, of pairs of inputs
        and labels, or of samples with the ids of their rows. Training ends after `slots` in all,
        counted from the run's first, or with the source; with `continue_after_end` it then goes on
        with the rows that are held until the slots are done.
        """
        self._stream = as_positioned(source)
        if self._offset is not None:
            self._stream.seek(self._offset)
            self._offset = None
        else:
            self.save()  # should training diverge at once, this is the last good state
        self.recorder.follow(self._stream)
        try:
            with self.stop.closing(self._stream):
                yield from self._loop(slots, continue_after_end)
        except DivergedError as error:
            where = f"The last good checkpoint is in {self.checkpoints.folder}."
            raise DivergedError(f"{error} {where}") from None

    def save(self) -> bool:
        """Save state and position as one, then release the source; return whether it is saved."""
        if self.saved_slot == self.trainer.slots:
            return True
        self._saved_at = monotonic()
        offset = self._stream.offset if self._refused is None else self._refused
        try:
            self.checkpoints.save(self.trainer, offset, self._others)
        except NotSavedError as error:
            self.save_error = str(error)
            return False
        self.saved_slot = self.trainer.slots
        if self._refused is None:  # or the next run acknowledges
            self._stream.acknowledge()
        return True

    def finish(
        self, rows: Callable[[], Rows] | None = None, rows_per_slot: int | None = None
    ) -> list[Suspect] | None:
        """Save, write the model and the suspects, and return the suspects still to be decided.

        Suspects are looked for among `rows`, samples with the ids of their rows as text; without
        it, among the rows held. `rows_per_slot` is how many arrived a slot, where rows are
        numbered as they came. Returns None where a signal left no time to look. What cannot be
        written does not keep the rest from it; `NotWrittenError` then names it.
        """
        self.finished = True
        self.save()
        suspects = self._write_results(rows or self.recorder.held_rows, rows_per_slot)
        self._end("stopped" if suspects is None or self.stop else "done")
        if self._unwritten:
            names, why = " and ".join(self._unwritten), next(iter(self._unwritten.values()))
            raise NotWrittenError(f"{self.folder} lacks {names}, not written: {why}.")
        return suspects

    def warnings(self) -> list[str]:
        """Return what went wrong and did not stop the run, a sentence each without a full stop."""
        found = [
            f"checkpoint {number} is damaged, and the one before it was taken ({why})"
            for number, why in self.checkpoints.damaged.items()
        ]
        if self.checkpoints.failed:
            why = self.save_error.rstrip(".")
            found.append(f"{self.checkpoints.failed} checkpoints were not saved ({why})")
        if self.monitor.lost:
            found.append(f"{self.monitor.lost} lines of the log could not be written")
        if self.monitor.uninformative() and NO_INFORMATION not in self.monitor.warnings:
            found.append(NO_INFORMATION)
        if self.trainer.skipped_steps:
            found.append(
                f"{self.trainer.skipped_steps} steps were not taken: their loss was not finite, or "
                "their gradient far too steep"
            )
        return [*self.monitor.warnings, *found, *self.loggers.warnings, *self.recorder.warnings()]

    def __enter__(self) -> Self:
        self._stack.enter_context(lock_folder(self.folder))
        self._stack.enter_context(self.stop)
        self._stack.enter_context(self.monitor)
        self._stack.callback(self.loggers.close)
        with self._stack.pop_all() as stack:
            try:
                self._begin()
            except OSError as error:
                why = error.strerror or error
                raise NotWrittenError(f"{self.folder} cannot be written to: {why}.") from error
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._stack:
            if error is None and not self.finished:
                self.finish()
            elif isinstance(error, TamisError | OSError) and not self.finished:
                with suppress(Exception):  # the error that ends the run is the one to report
                    self._finish_after(error)

    def _begin(self) -> None:
        """Restore the last checkpoint, or clear what an earlier run left in the folder."""
        if self.resume and self.checkpoints.generations():
            rates = [group["lr"] for group in self.trainer.optimizer.param_groups]
            restored = self.checkpoints.load(self.trainer, self._others, self.allow_mismatch)
            for group, rate in zip(self.trainer.optimizer.param_groups, rates, strict=True):
                if self.allow_mismatch and group.get("initial_lr", group["lr"]) != rate:
                    group["lr"] = rate
            self._offset, self.saved_slot = restored.offset, self.trainer.slots
            self.resumed = True
        else:
            self.checkpoints.clear()
            rejects = self.trainer.validator.rejects
            if not rejects.total:  # the file, if there is one, is an earlier run's
                rejects.clear()
        self.recorder.begin(self.resumed)

    def _loop(self, slots: int | None, continue_after_end: bool) -> Iterator[Slot]:
        items = self._stream.named()
        while slots is None or self.trainer.slots < slots:
            before = self._stream.offset
            item, names = next(items, (None, None))
            if item is None and (self.stop or not (continue_after_end and self.trainer.held_count)):
                return  # also where a signal has closed the source: another slot is one too many
            self._in_step = True
            try:
                slot = self._step(item, names)
            except BadInputError:  # before anything was learned: they are to be met again
                self._refused, self._in_step = before, False
                raise
            self._in_step = False
            yield slot
            if self.stop:
                return
            if self.save_every.due(self.trainer.slots, self._saved_at):
                self.save()

    def _step(self, item: Any, names: Sequence[str] | None) -> Slot:
        """Train one slot, correct what arrives before it, and record what came of it."""
        item = self.trainer.validator.numbered(item)
        came = as_arrived(item, self.trainer.validator.seen)
        # Before names of arriving rows are known: a decision about them is for `correct`.
        self.recorder.apply_decisions()
        if came is not None:
            item, names = self.recorder.correct(came, names)
        slot = self.trainer.step(item)
        self.recorder.update(slot, None if came is None else item, names)
        self.loggers.update(self.monitor.update(slot))
        return slot

    def _finish_after(self, error: BaseException) -> None:
        """Save and write what can be, and note it on the error that ends the run."""
        # Within a step the state is half of one slot and half of the next.
        saved = self.trainer.slots > 0 and not self._in_step and self.save()
        found = [f"slot {self.trainer.slots} is saved"] if saved else []
        try:
            suspects = self._write_results(self.recorder.held_rows, None)
            if self.trainer.held_count and RunFiles.model not in self._unwritten:
                found.append("the model is written")
            if suspects is not None and RunFiles.table not in self._unwritten:
                found.append("the suspects are listed")
        finally:
            self._end("diverged" if isinstance(error, DivergedError) else "stopped")
            if found:
                error.add_note(f"In {self.folder} {', '.join(found)}.")

    def _write_results(
        self, rows: Callable[[], Rows], rows_per_slot: int | None
    ) -> list[Suspect] | None:
        """Write the model and the suspects; None where there are no rows, no time or no space."""
        if not self.trainer.held_count:
            return None
        about = self.recorder.model_info() | self.model_info
        with self._writing(RunFiles.model):
            save_model(self.trainer.best_model(), self.folder / RunFiles.model, about)
        with suppress(TimeoutError), self._writing(RunFiles.table):
            return self._list_suspects(rows, rows_per_slot)
        return None

    def _list_suspects(self, rows: Callable[[], Rows], rows_per_slot: int | None) -> list[Suspect]:
        view, held = self.trainer.averaged, spread_over(self.trainer.held())
        classes = self.recorder.metadata.classes
        checked = check_labels(
            view, self._in_time(rows()), classes, held, rows_per_slot=rows_per_slot
        )
        checked = self.recorder.count_labels(checked)
        suspects = self.recorder.undecided(checked.suspects)
        with self._writing(RunFiles.table):
            write_suspects_csv(self.folder / RunFiles.table, suspects)
        if not self.stop:  # previews take time, and somebody waits for the end
            with self._writing(f"{RunFiles.suspects} or {RunFiles.neighbours}"):
                self.recorder.write_suspects(checked.suspects, self._in_time(rows()))
        return suspects

    def _end(self, ended: End) -> None:
        with self._writing(RunFiles.audit):
            self.recorder.draw_audit()
        with self._writing(RunFiles.metadata):
            self.recorder.end(ended)

    @contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        """Note a file that could not be written, so that the others still are."""
        try:
            yield
        except TimeoutError:
            raise
        except OSError as error:
            self._unwritten[name] = error.strerror or str(error)

    def _in_time(self, rows: Rows) -> Rows:
        """Yield the rows that can be trained on, on the device, while there is time."""
        for samples, names in self.recorder.annotated.once(rows):
            if self.stop.overdue:
                raise TimeoutError
            finite = finite_rows(samples.inputs, self.trainer.validator.scale)
            kept = [name for name, good in zip(names, finite.tolist(), strict=True) if good]
            yield samples[finite].to(self.trainer.device), kept
