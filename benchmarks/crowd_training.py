"""Training on labels of several annotators: joint labels beside majority votes and first labels.

python -m benchmarks.crowd_training
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from tamis.buffers import Growing
from tamis.data import Events
from tamis.lab.pages.measurements import Row, machine, save_rows
from tamis.lab.pages.performance_page import FOLDER
from tamis.models import mlp, start
from tamis.noise import JointLabels
from tamis.selectors import Naive, Plausible
from tamis.streams import Crowd, CrowdStream, digits
from tamis.training import Trainer

SCENES = {
    "1 label a row": {"per_row": 1, "accuracy": 0.7},
    "1 to 3 labels a row": {"per_row": (1, 3), "accuracy": 0.7},
    "3 labels a row": {"per_row": 3, "accuracy": 0.6},
}
AFTER = 150
"""Slots after the last row has come."""


class FirstLabels(JointLabels):
    """The label that a row came with stays."""

    def update(self, ids, annotators, labels) -> Tensor:
        places = self._add_rows(np.asarray(ids))
        for place, label in zip(places.tolist(), labels, strict=True):
            if self._labels.values[place] < 0:
                self._labels.values[place] = label
        return self.labels(ids)


class MajorityLabels(JointLabels):
    """The label that most have given, of several such the first."""

    def _record(self, ids) -> Tensor:
        rows = np.unique(self._places.find(ids.tolist()))
        places, owners, labels = self._fit.labels_of(rows)
        people = owners >= self._fit.models
        for at, row in enumerate(rows.tolist()):
            given = labels[(places == at) & people]
            votes = np.bincount(given, minlength=self.classes)
            self._labels.values[row] = next(x for x in given if votes[x] == votes.max())
        return self.labels(ids)


class WithoutModel(JointLabels):
    """Joint labels of people alone."""

    def predict(self, ids, classes, confidence) -> None:
        pass


class Unbound(JointLabels):
    """Joint labels that may be what no person gave: the model can outvote the only one."""

    def _record(self, ids) -> Tensor:
        rows = np.unique(self._places.find(ids.tolist()))
        self._labels.values[rows] = self._fit._posterior.values[rows].argmax(axis=1)
        return self.labels(ids)


METHODS = {
    "first labels": FirstLabels,
    "majority": MajorityLabels,
    "joint labels, without the model": WithoutModel,
    "joint labels": JointLabels,
    "joint labels, not bound to those given": Unbound,
}


def train(kind: type[JointLabels], selector: object, scene: dict, seed: int) -> tuple[float, float]:
    """Return the share of right labels among the rows held, and the accuracy of the model."""
    data = digits()
    crowd = Crowd.draw(20, 10, accuracy=scene["accuracy"], spammers=4, turns=0.5, seed=seed)
    stream = CrowdStream(
        data.inputs, data.labels, crowd, scene["per_row"], rows_per_slot=10, spread=5, seed=seed
    )
    model = start(mlp, data.input_shape, 10, seed)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    trainer = Trainer(
        model, optimizer, selector, Growing(2000), warm_up="auto", annotators=kind(10), seed=seed
    )
    for came in stream:
        trainer.step(replace_first(came) if kind is FirstLabels else came)
    for _ in range(AFTER):
        trainer.step()
    held = trainer.held()
    right = held.labels == data.labels[stream.order()][held.ids]
    accuracy = trainer.accuracy(data.test_inputs, data.test_labels).ema
    return float(right.float().mean()), float(accuracy or 0)


def replace_first(came: Events) -> Events:
    """Return the labels alone that rows came with."""
    return replace(came, events=tuple(event for event in came.events if event.row is not None))


def measured(seeds: int, console: Console) -> Iterator[Row]:
    """Yield means over seeds, for each scene, selector and method."""
    for scene, settings in SCENES.items():
        for selector in (Naive, Plausible):
            for method, kind in METHODS.items():
                found = [train(kind, selector(), settings, seed) for seed in range(seeds)]
                labels, accuracy = np.mean(found, axis=0)
                where = f"{scene}, {selector.__name__}, {method}"
                console.print(where, round(labels, 4), round(accuracy, 4))
                yield f"{where}: right labels among the rows held", f"{labels:.4f}", ""
                yield f"{where}: test accuracy", f"{accuracy:.4f}", ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args()
    rows: list[Row] = [("machine", machine(), "")]
    rows += measured(options.seeds, Console())
    save_rows(options.out / "crowd_training.csv", rows)


if __name__ == "__main__":
    main()
