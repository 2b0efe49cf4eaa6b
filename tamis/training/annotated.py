"""Annotators of a run by name: joint labels of rows, and who gave the labels of suspects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from tamis.noise import JointLabels
from tamis.review import Rows
from tamis.runs import Suspect
from tamis.runs.annotators import named


class AnnotatedRows:
    """Rows with their joint labels, and suspects with the names of annotators.

    `stream` is what names annotators, as a `Feed` does; others are called by their numbers. Without
    joint labels, rows and suspects are as they were.
    """

    def __init__(self, labels: JointLabels | None) -> None:
        self.labels = labels
        self.stream: object = None

    def names(self) -> Sequence[str]:
        """Return the names of annotators by number."""
        found: Sequence[str] = getattr(self.stream, "annotator_names", ())
        return found

    def givers(self, rows: Sequence[int]) -> list[str]:
        """Return who gave the label of each row, by name; empty where that is not known."""
        if self.labels is None:
            return [""] * len(rows)
        names, numbers = self.names(), self.labels.givers(rows).tolist()
        return [named(names, number) if number >= 0 else "" for number in numbers]

    def name_givers(self, suspects: Sequence[Suspect]) -> list[Suspect]:
        """Return suspects with the names of those who gave their labels."""
        unknown = -1  # the number of no row
        givers = self.givers([unknown if one.row is None else one.row for one in suspects])
        return [
            replace(suspect, annotator=giver) if giver else suspect
            for suspect, giver in zip(suspects, givers, strict=True)
        ]

    def once(self, rows: Rows) -> Rows:
        """Yield every row once, with its joint label where there is one."""
        if self.labels is None:
            yield from rows
            return
        seen: set[int] = set()
        for samples, names in rows:
            first: list[int] = []
            for at, row in enumerate(samples.ids.tolist()):
                if row not in seen:
                    seen.add(row)
                    first.append(at)
            chosen = samples[torch.tensor(first, dtype=torch.long, device=samples.ids.device)]
            joint = self.labels.labels(chosen.ids).to(chosen.labels.device)
            labels = torch.where(joint >= 0, joint, chosen.labels)
            yield replace(chosen, labels=labels), [names[at] for at in first]
