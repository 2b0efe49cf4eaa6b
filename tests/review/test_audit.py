"""The audit sample: drawn at random and once, and what people find reaches the trainer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tamis import Growing, Naive, Plausible, Samples, Tracker, Trainer, TrainingRun
from tamis.models import mlp, start
from tamis.review.exchange import import_decisions
from tamis.review.exchange.rows import from_cells
from tamis.runs import AuditSample, Decision, Decisions, Run, RunMetadata, read_lines
from tamis.selectors.protocol import Audited
from tamis.training.run import SaveEvery
from tamis.web.run_page import render_run

CLASSES = ("cat", "dog", "fox")
ROWS, PER_SLOT = 900, 10
SLOTS = ROWS // PER_SLOT


class AuditedNaive(Naive):
    """Keeps what it is passed, and the labels that the rows have then."""

    trainer: Trainer

    def __init__(self) -> None:
        self.calls: list[tuple[list[int], list[int]]] = []
        self.labels: dict[int, int] = {}

    def audit(self, ids: Tensor, right: Tensor) -> None:
        assert right.dtype == torch.int8
        self.calls.append((ids.tolist(), right.tolist()))
        held = self.trainer.held()
        self.labels |= dict(zip(held.ids.tolist(), held.labels.tolist(), strict=True))

    def state_dict(self) -> dict[str, Tensor]:
        found = {id_: one for call in self.calls for id_, one in zip(*call, strict=True)}
        return {"ids": torch.tensor(list(found)), "right": torch.tensor(list(found.values()))}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.calls = [(state["ids"].tolist(), state["right"].tolist())]


class AuditedTracker(Tracker):
    """Counts calls."""

    audits = 0

    def audit(self, ids: Tensor, right: Tensor) -> None:
        self.audits += 1


def make_trainer(**settings) -> Trainer:
    model = start(mlp, (3,), 3, 0)
    selector = settings.pop("selector", Plausible())
    trainer = Trainer(
        model, torch.optim.SGD(model.parameters(), 0.1), selector, Growing(2000), k=8, **settings
    )
    if isinstance(selector, AuditedNaive):
        selector.trainer = trainer
    return trainer


@pytest.fixture(scope="module")
def stream() -> list[Samples]:
    generator = torch.Generator().manual_seed(0)
    right = torch.randint(3, (ROWS,), generator=generator)
    inputs = 3 * torch.eye(3)[right] + torch.randn(ROWS, 3, generator=generator)
    clean = torch.rand(ROWS, generator=generator) < 0.8
    labels = torch.where(clean, right, (right + 1) % 3)
    parts = zip(inputs.split(PER_SLOT), labels.split(PER_SLOT), clean.split(PER_SLOT), strict=True)
    return [
        Samples.of(*part[:2], first_id=at * PER_SLOT, clean=part[2])
        for at, part in enumerate(parts)
    ]


def begin(folder: Path, trainer: Trainer | None = None, **how) -> TrainingRun:
    return TrainingRun(folder, trainer or make_trainer(), RunMetadata("rows", CLASSES), **how)


def drawn(folder: Path) -> list[str]:
    return [row.id for row in AuditSample(folder)]


def decide(folder: Path, name: str, action: str, label: str | None = None) -> None:
    row = AuditSample(folder).get(name)
    given = row.given if row else None
    Decisions(folder / "decisions.jsonl").decide(Decision(name, action, label, given), sync=False)


@pytest.fixture(scope="module")
def once(stream: list[Samples], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train without a decision; nobody may change it."""
    folder = tmp_path_factory.mktemp("once")
    with begin(folder) as run:
        list(run.train(stream))
    return folder


def test_a_hundred_rows_at_random_once_500_are_held(once: Path, stream: list[Samples]) -> None:
    rows = list(AuditSample(once))
    assert len({row.id for row in rows}) == 100
    numbers = [row.row for row in rows]
    assert max(numbers) < 500  # of the rows held when there were enough
    assert numbers != sorted(numbers)
    labels = torch.cat([part.labels for part in stream])
    assert [row.given for row in rows] == [CLASSES[int(labels[row])] for row in numbers]
    assert all(len(row.preview["columns"]) == 3 for row in rows)
    clean = torch.cat([part.clean for part in stream])
    assert clean[torch.tensor(numbers)].float().mean() == pytest.approx(0.8, abs=0.1)
    if os.name != "nt":
        assert (once / "audit.jsonl").stat().st_mode & 0o077 == 0


def test_the_seed_draws_it(once: Path, stream, tmp_path: Path) -> None:
    folders = tmp_path / "same", tmp_path / "other"
    for seed, folder in enumerate(folders):
        with begin(folder, make_trainer(seed=seed)) as run:
            list(run.train(stream))
    assert drawn(folders[0]) == drawn(once) != drawn(folders[1])


def test_of_a_short_run_it_is_drawn_at_the_end(stream: list[Samples], tmp_path: Path) -> None:
    with begin(tmp_path) as run:
        for _ in run.train(stream[:4]):
            assert drawn(tmp_path) == []
    assert sorted(map(int, drawn(tmp_path))) == list(range(40))


def test_decisions_about_the_sample_reach_the_trainer_before_labels_change(
    stream: list[Samples], tmp_path: Path
) -> None:
    selector, tracker = AuditedNaive(), AuditedTracker(3)
    assert isinstance(selector, Audited)
    assert not isinstance(Naive(), Audited)
    trainer = make_trainer(selector=selector, tracker=tracker)
    calls: dict[int, list] = {}
    with begin(tmp_path, trainer) as run:
        for slot in run.train(stream):
            calls[slot.number] = list(selector.calls)
            if slot.number == 60:
                kept, wrong, gone, skipped = drawn(tmp_path)[:4]
                other = next(str(row) for row in range(600) if str(row) not in drawn(tmp_path))
                given = AuditSample(tmp_path).get(wrong).given
                to = next(name for name in CLASSES if name != given)
                for name, action in ((kept, "keep"), (gone, "drop"), (skipped, "skip")):
                    decide(tmp_path, name, action)
                decide(tmp_path, wrong, "relabel", to)
                decide(tmp_path, other, "drop")  # a suspect, as it were
            if slot.number == 70:
                decide(tmp_path, wrong, "undo")
    first = ([int(kept), int(wrong), int(gone)], [1, 0, 0])
    assert calls[60] == []
    assert calls[61] == calls[70] == [first]
    assert calls[71] == selector.calls == [first, ([int(wrong)], [-1])]
    assert tracker.audits == 2
    assert Run(tmp_path).audit.tally(Decisions(tmp_path / "decisions.jsonl")) == (1, 1, 100)
    labels = torch.cat([part.labels for part in stream])
    assert selector.labels[int(gone)] == labels[int(gone)]  # still held, with its label


def test_what_was_decided_before_the_draw_counts(stream: list[Samples], tmp_path: Path) -> None:
    """The row came with the label that was changed then."""
    selector = AuditedNaive()
    with begin(tmp_path, make_trainer(selector=selector)) as run:
        decisions = Decisions(tmp_path / "decisions.jsonl")
        for slot in run.train(stream):
            if slot.number == 2:
                for row, label in enumerate(stream[0].labels.tolist()):
                    to = CLASSES[(label + 1) % 3]
                    decisions.decide(Decision(str(row), "relabel", to, CLASSES[label]))
    found = [row for row in AuditSample(tmp_path) if row.row < 10]
    assert found
    for row in found:
        assert row.given == CLASSES[int(stream[0].labels[row.row])]
    assert selector.calls == [([row.row for row in found], [0] * len(found))]


@pytest.mark.parametrize("last", [20, 65])
def test_left_and_resumed_it_is_the_unbroken_run(
    last: int, once: Path, stream: list[Samples], tmp_path: Path
) -> None:
    """Left before the sample would be drawn, or after it."""
    with begin(tmp_path) as run:
        for slot in run.train(stream):
            if slot.number == last:
                break
    assert len(drawn(tmp_path)) == 100
    with begin(tmp_path, resume=True) as run:
        list(run.train(stream))
    for name in ("audit.jsonl", "model.safetensors", "suspects.jsonl"):
        assert (tmp_path / name).read_bytes() == (once / name).read_bytes()


def test_resumed_what_was_passed_on_is_not_passed_on_again(
    stream: list[Samples], tmp_path: Path
) -> None:
    """And what was not saved is, in the slot that comes next."""
    selector = AuditedNaive()
    with begin(tmp_path, make_trainer(selector=selector), save_every=SaveEvery(5)) as run:
        for slot in run.train(stream):
            if slot.number == 60:
                name, late = drawn(tmp_path)[:2]
                decide(tmp_path, name, "keep")
            if slot.number == 70:
                break
    assert selector.calls == [([int(name)], [1])]
    decide(tmp_path, late, "drop")
    selector = AuditedNaive()
    with begin(tmp_path, make_trainer(selector=selector), resume=True) as run:
        list(run.train(stream))
    assert selector.calls == [([int(name)], [1]), ([int(late)], [0])]


def test_a_sample_that_somebody_worked_on_stays(stream: list[Samples], tmp_path: Path) -> None:
    """Drawn at the end of a part, it is that of the run."""
    with begin(tmp_path) as run:
        list(run.train(stream[:4]))
    names = drawn(tmp_path)
    decide(tmp_path, names[0], "keep")
    with begin(tmp_path, resume=True) as run:
        list(run.train(stream))
    assert drawn(tmp_path) == names


def test_a_new_run_draws_a_new_one(stream: list[Samples], tmp_path: Path) -> None:
    for count in (4, 3):
        with begin(tmp_path, overwrite=True) as run:
            list(run.train(stream[:count]))
        assert len(drawn(tmp_path)) == PER_SLOT * count


def test_an_audit_is_of_one_number_for_each_id() -> None:
    trainer = make_trainer()
    trainer.audit(torch.tensor([1, 2]), torch.tensor([1, -1], dtype=torch.int8))  # to nobody
    for right in ([1], [1, 2]):
        with pytest.raises(ValueError, match="1, 0 or -1 for each id"):
            trainer.audit(torch.tensor([1, 2]), torch.tensor(right, dtype=torch.int8))


@pytest.fixture
def audited(stream: list[Samples], tmp_path: Path) -> Iterator[Path]:
    """Train for a while, then find 10 of 12 labels right."""
    with begin(tmp_path) as run:
        list(run.train(stream[:55]))
    names = drawn(tmp_path)
    for name in names[:10]:
        decide(tmp_path, name, "keep")
    decide(tmp_path, names[10], "drop")
    row = AuditSample(tmp_path).get(names[11])
    decide(tmp_path, names[11], "relabel", next(name for name in CLASSES if name != row.given))
    return tmp_path


def test_what_follows_is_one_sentence(audited: Path) -> None:
    run = Run(audited)
    tally = run.audit.tally(run.decisions)
    assert tally == (10, 2, 100)
    assert tally.text == (
        "10 of 12 audited labels are right: between 61% and 95% of all (90% band)."
    )
    assert f"<p>{tally.text}</p>" in render_run(run)
    last = drawn(audited)[11]
    decide(audited, last, "relabel", run.audit.get(last).given)  # the one it has: a keep
    run.refresh()
    assert run.audit.tally(run.decisions) == (11, 1, 100)


def test_other_tools_may_decide_about_the_sample(audited: Path) -> None:
    name = drawn(audited)[20]
    rows = [from_cells({"id": name, "label": "fox"}), from_cells({"id": "nobody", "label": "fox"})]
    assert import_decisions(audited, rows) == (1, 0, 1)
    made = Decisions(audited / "decisions.jsonl").of(name)
    assert made.given == AuditSample(audited).get(name).given


def test_lines_that_are_no_rows_are_left_out(audited: Path) -> None:
    lines = read_lines(audited / "audit.jsonl")
    with (audited / "audit.jsonl").open("a") as file:
        file.write('{"id": "x"}\n{"given": "cat"}\n[1]\n{"id": 7, "given": "cat", "preview": 3}\n')
    assert len(AuditSample(audited)) == len(lines) + 1
