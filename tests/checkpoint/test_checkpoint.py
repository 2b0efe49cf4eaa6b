"""A saved model comes back equal, a saved run goes on as if it had not stopped."""

from __future__ import annotations

import errno
import json
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from tamis import (
    Alarm,
    Execution,
    Monitor,
    Naive,
    Plausible,
    Samples,
    Sliding,
    Slot,
    Tracker,
    Trainer,
    Validator,
)
from tamis.buffers import BUFFERS, PuriDivER
from tamis.checkpoint import (
    Checkpoints,
    DamagedCheckpointWarning,
    MismatchError,
    NotSavedError,
    RefusedError,
    load_model,
    save_model,
    write_atomically,
)
from tamis.checkpoint.packing import pack, unpack
from tamis.losses import LOSSES, Forward, NoiseAdaptation, even_confusion
from tamis.models import logistic, mlp, resnet18, start
from tamis.models.hedge import HedgeLoss, HedgeMLP
from tamis.optim import ADMM, CAdam
from tamis.selectors import O2U, SELECTORS
from tamis.selectors.o2u import cyclical
from tamis.selectors.plausible import Neighbours
from tamis.training.augment import Mixup
from tamis.training.pairs import PAIRS
from tests.support.identical import comparable, identical


def test_a_model_comes_back(tmp_path: Path) -> None:
    saved, loaded = resnet18((3, 8, 8), 4).eval(), resnet18((3, 8, 8), 4).eval()
    save_model(saved, tmp_path / "model.safetensors", {"classes": ["a", "b"], "slots": 7})
    about = load_model(loaded, tmp_path / "model.safetensors")
    assert about == {"classes": ["a", "b"], "slots": 7}
    images = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(saved(images), loaded(images))


def test_damage_gets_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with pytest.raises(ValueError, match="model"):
        load_model(mlp((2,), 2), path)
    save_model(mlp((2,), 2), path, {})
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match="not a readable model file"):
        load_model(mlp((2,), 2), path)


def test_an_atomic_write_replaces_the_old_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.bin"
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(path.parent.iterdir()) == [path]


def small(seed: int = 0) -> nn.Module:
    return start(
        lambda *_: nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3)), (2,), 3, seed
    )


def make_trainer(selector: Any = None, **settings: Any) -> Trainer:
    model = settings.pop("model", None) or small()
    optimizer = settings.pop("optimizer", lambda weights: torch.optim.SGD(weights, 0.1, 0.9))
    buffer = settings.pop("buffer", Sliding(60))
    extra = list(settings["criterion"].parameters()) if "layer" in settings else []
    settings.pop("layer", None)
    trainer = Trainer(
        model,
        optimizer([*model.parameters(), *extra]),
        selector or Naive(),
        buffer,
        k=8,
        **settings,
    )
    if isinstance(buffer, PuriDivER):
        buffer.view = trainer.averaged
    return trainer


def stream_of(blobs: Samples) -> Iterator[Samples]:
    for start_row in range(0, len(blobs), 5):
        yield blobs[slice(start_row, start_row + 5)]


Make = Callable[[], Trainer]


def goes_on_as_if_unbroken(make: Make, stream: list[Any], folder: Path, others: Any = None) -> None:
    """Stop half way, build all again, go on: slots and whatever is remembered must be the same."""
    half = len(stream) // 2
    parts = others or (lambda trainer: {})

    def play(trainer: Trainer, more: dict[str, Any], items: list[Any]) -> list[Slot]:
        slots = []
        for item in items:
            slots.append(trainer.step(item))
            for part in more.values():
                part.step() if hasattr(part, "step") else part.update(slots[-1])
        return slots

    trainer = make()
    more = parts(trainer)
    play(trainer, more, stream[:half])
    Checkpoints(folder).save(trainer, {"half": half}, more)
    before = comparable(play(trainer, more, stream[half:])), trainer.state_dict()
    torch.manual_seed(99)  # what a new process would find
    again = make()
    more = parts(again)
    restored = Checkpoints(folder).load(again, more)
    assert (restored.slot, restored.offset) == (half, {"half": half})
    after = comparable(play(again, more, stream[half:])), again.state_dict()
    assert identical(before, after)


@pytest.mark.parametrize("kind", SELECTORS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("window", ["average", pytest.param(3, marks=pytest.mark.slow)])
def test_every_selector_goes_on(kind, window: Any, blobs: Samples, tmp_path: Path) -> None:
    def make() -> Trainer:
        return make_trainer(kind(), window=window, warm_up=3)

    goes_on_as_if_unbroken(make, list(stream_of(blobs))[:36], tmp_path)


@pytest.mark.parametrize("kind", BUFFERS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(("refresh", "disk"), [(None, False), (32, False), (32, True)])
def test_every_buffer_goes_on(
    kind, refresh: int | None, disk: bool, blobs: Samples, tmp_path: Path
) -> None:
    def make() -> Trainer:
        buffer = kind(40, disk=tmp_path if disk else None)
        return make_trainer(Plausible(), buffer=buffer, execution=Execution(refresh=refresh))

    goes_on_as_if_unbroken(make, list(stream_of(blobs)), tmp_path)


@pytest.mark.parametrize("kind", PAIRS, ids=lambda kind: kind.__name__)
def test_every_pair_goes_on(kind, blobs: Samples, tmp_path: Path) -> None:
    def make() -> Trainer:
        models = (small(0), small(1))
        optimizers = tuple(torch.optim.Adam(model.parameters()) for model in models)
        return kind(models, optimizers, Sliding(60), 8)

    goes_on_as_if_unbroken(make, list(stream_of(blobs)), tmp_path)


def normed() -> nn.Module:
    def build(*_: Any) -> nn.Module:
        return nn.Sequential(
            nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3)
        )

    return start(build, (2,), 3, 0)


def hedged(criterion: Any) -> Trainer:
    model = start(lambda *_: HedgeMLP(2, 3, hidden=3, width=6), (2,), 3, 0)
    return make_trainer(model=model, criterion=HedgeLoss(model, criterion))


def adapted(kind: type[NoiseAdaptation] = NoiseAdaptation) -> Trainer:
    layer = kind(even_confusion(3, 0.8))
    return make_trainer(criterion=layer, layer=True)


PARTS: dict[str, Make] = {
    "adam": lambda: make_trainer(optimizer=torch.optim.Adam),
    "amsgrad": lambda: make_trainer(optimizer=lambda w: torch.optim.AdamW(w, amsgrad=True)),
    "rmsprop": lambda: make_trainer(optimizer=lambda w: torch.optim.RMSprop(w, momentum=0.5)),
    "adagrad": lambda: make_trainer(optimizer=torch.optim.Adagrad),
    "adafactor": lambda: make_trainer(optimizer=torch.optim.Adafactor),
    "cadam": lambda: make_trainer(optimizer=lambda w: CAdam(w, amsgrad=True)),
    "admm": lambda: make_trainer(model=start(logistic, (2,), 3, 0), optimizer=ADMM),
    "batch norm and dropout": lambda: make_trainer(model=normed(), window=2),
    "hedge": lambda: hedged(Forward()),
    "mixup": lambda: make_trainer(augment=Mixup()),
    "tracker": lambda: make_trainer(tracker=Tracker(3)),
    "alarm": lambda: make_trainer(tracker=Alarm(3, half_life=30)),
    "pool": lambda: make_trainer(Plausible(), pool_size=20),
    "no average": lambda: make_trainer(ema=None),
    "bfloat16": lambda: make_trainer(execution=Execution(precision=torch.bfloat16, refresh=8)),
}


@pytest.mark.parametrize("kind", LOSSES, ids=lambda kind: kind.__name__)
def test_every_loss_goes_on(kind, blobs: Samples, tmp_path: Path) -> None:
    def make() -> Trainer:
        if isinstance(kind, type) and issubclass(kind, NoiseAdaptation):
            return adapted(kind)
        return make_trainer(criterion=kind() if isinstance(kind, type) else kind)

    goes_on_as_if_unbroken(make, list(stream_of(blobs))[:24], tmp_path)


@pytest.mark.parametrize("name", PARTS)
def test_whatever_remembers_goes_on(name: str, blobs: Samples, tmp_path: Path) -> None:
    goes_on_as_if_unbroken(PARTS[name], list(stream_of(blobs)), tmp_path)


schedulers = torch.optim.lr_scheduler
SCHEDULERS = {
    "step": lambda optimizer: schedulers.StepLR(optimizer, 7, 0.5),
    "constant": lambda optimizer: schedulers.ConstantLR(optimizer, 0.5, 35),
    "exponential": lambda optimizer: schedulers.ExponentialLR(optimizer, 0.97),
    "polynomial": lambda optimizer: schedulers.PolynomialLR(optimizer, 50, 2.0),
    "restarts": lambda optimizer: schedulers.CosineAnnealingWarmRestarts(optimizer, 13),
    "triangles": lambda optimizer: schedulers.CyclicLR(optimizer, 0.01, 0.2, 7),
    "lambda": lambda optimizer: schedulers.LambdaLR(optimizer, lambda epoch: 0.97**epoch),
    "product": lambda optimizer: schedulers.MultiplicativeLR(optimizer, lambda epoch: 0.97),
    "chain": lambda optimizer: schedulers.ChainedScheduler(
        [schedulers.StepLR(optimizer, 9, 0.5), schedulers.ExponentialLR(optimizer, 0.98)]
    ),
    "steps": lambda optimizer: schedulers.MultiStepLR(optimizer, [10, 35, 40]),
    "one cycle": lambda optimizer: schedulers.OneCycleLR(optimizer, 0.2, 60),
    "sequence": lambda optimizer: schedulers.SequentialLR(
        optimizer,
        [
            schedulers.LinearLR(optimizer, total_iters=20),
            schedulers.CosineAnnealingLR(optimizer, 40),
        ],
        [20],
    ),
    "cyclical": lambda optimizer: cyclical(optimizer, 7, 0.2, 0.01),
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_scheduler_goes_on(name: str, blobs: Samples, tmp_path: Path) -> None:
    goes_on_as_if_unbroken(
        lambda: make_trainer(O2U(cycle=7) if name == "cyclical" else Naive()),
        list(stream_of(blobs))[:40],
        tmp_path,
        lambda trainer: {"scheduler": SCHEDULERS[name](trainer.optimizer)},
    )


def test_a_plateau_whose_best_is_infinite_is_json(tmp_path: Path) -> None:
    trainer = make_trainer()
    plateau = schedulers.ReduceLROnPlateau(trainer.optimizer)
    Checkpoints(str(tmp_path)).save(trainer, others={"plateau": plateau})
    plateau.best = 0.0
    Checkpoints(tmp_path).load(trainer, {"plateau": plateau})
    assert plateau.best == torch.inf


def test_odd_streams_go_on(blobs: Samples, tmp_path: Path) -> None:
    """Bad rows are counted on, slots that bring nothing count, classes need not be known."""
    bad = (torch.tensor([[0.0, torch.nan], [1.0, 1.0]]), torch.tensor([0, 9]))
    pairs = [(part.inputs, part.labels) for part in stream_of(blobs)]
    stream = [None, bad, *pairs[:20], None, bad, *pairs[20:40], bad]
    goes_on_as_if_unbroken(
        lambda: make_trainer(validator=Validator(on_bad="skip")), stream, tmp_path / "skip"
    )
    goes_on_as_if_unbroken(make_trainer, [None] * 6, tmp_path / "empty")


def test_a_monitor_goes_on(blobs: Samples, tmp_path: Path) -> None:
    monitors: list[Monitor] = []

    def others(trainer: Trainer) -> dict[str, Any]:
        monitors.append(Monitor(patience=20))
        return {"monitor": monitors[-1]}

    one = replace(blobs, labels=torch.where(torch.arange(300) < 200, blobs.labels, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        goes_on_as_if_unbroken(make_trainer, list(stream_of(one)), tmp_path, others)
    unbroken, broken = monitors
    assert (broken.slots, broken.purity, broken.warnings) == (
        unbroken.slots,
        unbroken.purity,
        unbroken.warnings,
    )


def test_a_run_is_rolled_back_in_place(blobs: Samples, tmp_path: Path) -> None:
    """For instance after a divergence: the same trainer goes on from its last good checkpoint."""
    trainer, stream = make_trainer(Plausible()), list(stream_of(blobs))
    list(trainer.run(stream[:20]))
    Checkpoints(tmp_path).save(trainer)
    before = comparable(trainer.run(stream[20:]))
    Checkpoints(tmp_path).load(trainer)
    assert trainer.slots == 20
    assert identical(before, comparable(trainer.run(stream[20:])))


STATES: list[Any] = [
    None, True, 3, -2.5, torch.inf, -torch.inf, "text", [1, [2.0, None]], (1, ("a",)),
    {"a": 1, "b": {"c": (2,)}}, {1: "x", "2": {}}, {"$tensor": "not one"}, Counter({3: 4, 1: 2}),
    {}, [], 2**70,
]  # fmt: skip


@pytest.mark.parametrize("state", STATES, ids=repr)
def test_what_is_packed_is_unpacked_identically(state: Any) -> None:
    packed = json.loads(json.dumps(pack({"it": state}, {}), allow_nan=False))
    again = unpack(packed, {}, torch.device("cpu"))["it"]
    assert again == state
    assert type(again) is type(state)
    if isinstance(state, dict):
        assert list(again) == list(state)


def test_what_takes_pickle_is_refused() -> None:
    for odd in (object(), {1, 2}, b"bytes", lambda: None):
        with pytest.raises(TypeError, match="takes pickle"):
            pack({"it": odd}, {})


def test_tensors_that_would_be_lost_are_refused() -> None:
    one = torch.zeros(1)
    for odd in ({"it": torch.zeros(1, dtype=torch.complex64)}, {"a": {"b": one}, "a/b": one}):
        with pytest.raises(TypeError, match="is a tensor of"):
            pack(odd, {})


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is synced and renamed from now on, in order."""
    found: list[str] = []
    sync, rename = os.fsync, Path.rename

    def fsync(handle: int) -> None:
        found.append("sync " + Path(f"/proc/self/fd/{handle}").readlink().name)
        sync(handle)

    def named(path: Path, target: Path) -> Path:
        found.append(f"rename {path.name}")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", named)
    return found


def saving(number: int, folder: Path) -> list[str]:
    """Return what makes a generation safe, in order."""
    files = ("tensors.safetensors", "state.json", "manifest.json", "manifest.sha256")
    part = f"{number:08d}.part"
    return [
        *(f"sync {name}" for name in files),
        f"sync {part}",
        f"rename {part}",
        f"sync {folder.name}",
    ]


class TestFolder:
    """Generations: two are kept, each complete."""

    def test_tensors_are_a_plain_safetensors_file(self, blobs: Samples, tmp_path: Path) -> None:
        trainer = make_trainer(Plausible())
        trainer.step(blobs)
        Checkpoints(tmp_path).save(trainer)
        found = load_file(tmp_path / "00000001" / "tensors.safetensors")
        assert torch.equal(found["/run/model/0.weight"], trainer.model[0].weight)
        assert torch.equal(found["/run/buffer/rows/ids"], trainer.buffer.pool().ids)

    def test_checksums_are_those_of_sha256sum(self, tmp_path: Path) -> None:
        Checkpoints(tmp_path).save(make_trainer())
        folder = tmp_path / "00000001"
        digest, name = (folder / "manifest.sha256").read_text().split()
        assert name == "manifest.json"
        assert digest == sha256((folder / name).read_bytes()).hexdigest()
        files = json.loads((folder / "manifest.json").read_text())["files"]
        assert set(files) == {"tensors.safetensors", "state.json"}
        for name, seal in files.items():
            content = (folder / name).read_bytes()
            assert seal == {"size": len(content), "sha256": sha256(content).hexdigest()}

    def test_two_generations_are_kept(self, tmp_path: Path) -> None:
        trainer, checkpoints = make_trainer(), Checkpoints(tmp_path / "new" / "folder")
        for number in range(1, 6):
            trainer.step()
            assert checkpoints.save(trainer) == number
            names = sorted(path.name for path in checkpoints.folder.iterdir())
            assert names == [f"{n:08d}" for n in range(max(1, number - 1), number + 1)]

    def test_what_a_crash_left_is_removed(self, tmp_path: Path) -> None:
        (tmp_path / "00000007.part").mkdir()
        (tmp_path / "00000007.part" / "state.json").write_text("{")
        (tmp_path / "mine.part").mkdir()
        Checkpoints(tmp_path).save(make_trainer())
        assert sorted(path.name for path in tmp_path.iterdir()) == ["00000001", "mine.part"]

    def test_a_damaged_one_is_reported_and_does_not_count_as_kept(self, tmp_path: Path) -> None:
        trainer, checkpoints = make_trainer(), Checkpoints(tmp_path)
        for _ in range(2):
            trainer.step()
            checkpoints.save(trainer, offset=trainer.slots)
        (tmp_path / "00000002" / "state.json").write_text("{}")
        checkpoints = Checkpoints(tmp_path)
        with pytest.warns(
            DamagedCheckpointWarning, match=r"Checkpoint 2 .* state.json has 2 bytes"
        ):
            assert checkpoints.load(trainer).offset == 1
        assert list(checkpoints.damaged) == [2]
        checkpoints.save(trainer)
        assert checkpoints.generations() == [1, 3]

    def test_none_left_is_one_sentence(self, tmp_path: Path) -> None:
        with pytest.raises(RefusedError, match="holds no checkpoint"):
            Checkpoints(tmp_path / "nowhere").load(make_trainer())
        Checkpoints(tmp_path).save(make_trainer())
        (tmp_path / "00000001" / "manifest.json").unlink()
        with (
            pytest.warns(DamagedCheckpointWarning),
            pytest.raises(RefusedError, match=r"No checkpoint .* manifest.json cannot be opened"),
        ):
            Checkpoints(tmp_path).load(make_trainer())

    def test_everything_is_synced_before_it_is_named(self, tmp_path: Path, done: list[str]) -> None:
        Checkpoints(tmp_path).save(make_trainer())
        assert done == saving(1, tmp_path)

    def test_a_new_folder_is_synced_by_its_name(self, tmp_path: Path, done: list[str]) -> None:
        folder = tmp_path / "run" / "checkpoints"
        Checkpoints(folder).save(make_trainer())
        assert done == [f"sync {tmp_path.name}", "sync run", *saving(1, folder)]

    def test_the_older_is_removed_once_the_new_is_safe(
        self, tmp_path: Path, done: list[str]
    ) -> None:
        checkpoints = Checkpoints(tmp_path)
        for _ in range(3):
            checkpoints.save(make_trainer())
        before = [*saving(1, tmp_path), *saving(2, tmp_path)]
        assert done == [*before, *saving(3, tmp_path), "rename 00000001"]
        assert checkpoints.generations() == [2, 3]

    def test_a_disk_that_fails_costs_a_warning_and_no_generation(
        self, tmp_path: Path, monkeypatch
    ) -> None:
        trainer, checkpoints = make_trainer(), Checkpoints(tmp_path)
        checkpoints.save(trainer)

        def full(handle: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(NotSavedError, match="No space left"):
            checkpoints.save(trainer)
        monkeypatch.undo()
        assert checkpoints.failed == 1
        assert [path.name for path in tmp_path.iterdir()] == ["00000001"]
        assert checkpoints.load(trainer).generation == 1


PLACES = {
    "torch": "torch.__version__",
    "numpy": "numpy.__version__",
    "tamis": "tamis.__version__",
    "threads": "torch.get_num_threads",
    "machine": "platform.machine",
    "instructions": "torch.backends.cpu.get_cpu_capability",
}
"""Where the versions and the machine of a run are read."""


class TestMismatch:
    """Whatever would change the numbers is refused by name."""

    @pytest.mark.parametrize(
        ("settings", "text"),
        [
            ({"k": 9}, "k was 8 and is 9"),
            ({"seed": 1}, "seed was 0 and is 1"),
            ({"warm_up": 2}, "warm_up was 0 and is 2"),
            ({"selector": Plausible()}, r"selector was 'Naive\(\)' and is 'Plausible"),
            (
                {"selector": Plausible(), "from": Plausible(neighbours=Neighbours(voters=9))},
                "voters=9.*voters=2048",
            ),
            ({"buffer": Sliding(61)}, r"buffer was 'Sliding\(capacity=60\)'"),
            ({"optimizer": lambda w: torch.optim.SGD(w, 0.2, 0.9)}, "optimizer was .*'lr': 0.1"),
            ({"model": nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3))}, "Tanh"),
            ({"criterion": Forward()}, "criterion was .*cross_entropy"),
            ({"tracker": Tracker(3, 500)}, r"tracker was 'None' .*half_life=500"),
            ({"k": 9, "seed": 1}, "k was .*; seed was"),
        ],
    )
    def test_settings(self, settings: dict[str, Any], text: str, tmp_path: Path) -> None:
        Checkpoints(tmp_path).save(make_trainer(settings.pop("from", None)))
        k = settings.pop("k", 8)
        other = make_trainer(**settings)
        other.k = k
        with pytest.raises(MismatchError, match=text):
            Checkpoints(tmp_path).load(other)

    def test_a_flag_allows_it(self, blobs: Samples, tmp_path: Path) -> None:
        trainer = make_trainer()
        trainer.step(blobs)
        Checkpoints(tmp_path).save(trainer)
        other = make_trainer(seed=1, optimizer=lambda w: torch.optim.SGD(w, 0.2, 0.9))
        Checkpoints(tmp_path).load(other, allow_mismatch=True)
        assert identical(other.state_dict(), trainer.state_dict())

    def test_what_does_not_fit_is_refused_flag_or_not(self, blobs: Samples, tmp_path: Path) -> None:
        trainer = make_trainer()
        trainer.step(blobs)
        Checkpoints(tmp_path).save(trainer)
        for other, text in (
            (make_trainer(model=start(mlp, (2,), 3, 0)), "the model has or lacks"),
            (make_trainer(buffer=Sliding(59)), "59 rows cannot hold"),
            (make_trainer(Plausible()), "window"),
            (make_trainer(optimizer=torch.optim.Adam), "optimizer has other groups"),
        ):
            with pytest.raises(RefusedError, match=text):
                Checkpoints(tmp_path).load(other, allow_mismatch=True)

    @pytest.mark.parametrize(("name", "place"), PLACES.items())
    def test_versions(self, name: str, place: str, tmp_path: Path, monkeypatch) -> None:
        """As they are on another machine, where each is read."""
        trainer = make_trainer()
        Checkpoints(tmp_path).save(trainer)
        value = "another" if "version" in place else lambda: "another"
        monkeypatch.setattr(place, value)
        with pytest.raises(MismatchError, match=f"numbers: {name} was [^;]* and is 'another'.$"):
            Checkpoints(tmp_path).load(trainer)
        Checkpoints(tmp_path).load(trainer, allow_mismatch=True)

    def test_another_device_is_refused(self, tmp_path: Path, monkeypatch) -> None:
        trainer = make_trainer()
        Checkpoints(tmp_path).save(trainer)
        monkeypatch.setattr(trainer, "device", torch.device("meta"))
        with pytest.raises(MismatchError, match="device was 'cpu' and is 'meta'"):
            Checkpoints(tmp_path).load(trainer)

    def test_another_python_changes_no_number(self, tmp_path: Path, monkeypatch) -> None:
        trainer = make_trainer()
        Checkpoints(tmp_path).save(trainer)
        monkeypatch.setattr("platform.python_version", lambda: "9.9")
        Checkpoints(tmp_path).load(trainer)

    def test_the_callers_own(self, tmp_path: Path) -> None:
        Checkpoints(tmp_path, {"file": "a.csv"}).save(make_trainer())
        with pytest.raises(MismatchError, match=r"file was 'a.csv' and is 'b.csv'"):
            Checkpoints(tmp_path, {"file": "b.csv"}).load(make_trainer())
