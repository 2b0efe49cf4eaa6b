"""Data frames of pandas and Polars: suspects of a frame, as a frame of the same kind."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tamis.review import find_suspects as search
from tamis.review.scorer import spread_over
from tamis.runs import Suspect
from tamis.selectors import Selector
from tamis.sources import Validator, open_table
from tamis.sources.schema.cells import Cells, texts_of
from tamis.sources.schema.frames import columns_of
from tamis.training.fitting import fit_table


def find_suspects(
    table: Any,
    label: str,
    *,
    drop: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    text: str | None = None,
    encoder: str | None = None,
    selector: Selector | None = None,
    seed: int = 0,
) -> Any:
    """Return the rows whose label looks wrong, worst first: row, given and suggested label, score.

    A model is trained on the table, as by `tamis train`; nothing is written. A frame of pandas or
    Polars comes back as one of the same kind, that of pandas with the index of the rows that it
    names; anything else as a list of records. A row without a label is left out.

        suspects = tamis.find_suspects(frame, label="kind")
        print(frame.loc[suspects.index])

    Parameters
    ----------
    table: a frame, a list of records, columns by name, or the name of a file; one column may be the
        paths of pictures.
    label: column of the labels.
    drop: columns to leave out.
    kinds: kinds of columns by name, in place of those found out.
    text: column of text that is the only input, beside those that `kinds` names.
    encoder: model of Hugging Face, by its folder or name, that encodes the text.
    selector: how rows are picked; None is `Plausible()`.
    seed: seed of all random draws.
    """
    opened = open_table(
        table, str(label), Validator(on_bad="skip"), drop=tuple(map(str, drop)), kinds=kinds,
        text=text, encoder=encoder,
    )  # fmt: skip
    trainer = fit_table(opened, selector=selector, seed=seed)
    held = spread_over(trainer.held())
    found = search(trainer.averaged, opened.named(), opened.classes, held)
    values: Mapping[str, Any] = {}
    if not isinstance(table, str) and not hasattr(table, "__fspath__"):
        values = values_by_text(columns_of(table)[str(label)])
    return suspect_frame(found, values, table)


def values_by_text(labels: Cells) -> dict[str, Any]:
    """Return labels as a frame has them by their text: 1 by "1"."""
    values = labels.tolist() if isinstance(labels, np.ndarray) else labels
    found: dict[str, Any] = {}
    for text, value in zip(texts_of(labels), values, strict=True):
        found.setdefault(text, value)
    return found


def suspect_frame(suspects: Sequence[Suspect], values: Mapping[str, Any], like: Any) -> Any:
    """Return suspects as a frame of the kind of another, else as records."""
    columns = {
        "row": [suspect.row for suspect in suspects],
        "given": [values.get(suspect.given, suspect.given) for suspect in suspects],
        "suggested": [values.get(suspect.suggested, suspect.suggested) for suspect in suspects],
        "score": [suspect.score for suspect in suspects],
    }
    if is_frame(like, "pandas"):
        index = like.index[np.array(columns["row"], np.int64)]
        found = sys.modules["pandas"].DataFrame(columns, index=index)
        return found.astype({"row": "int64", "score": "float64"})
    if is_frame(like, "polars"):
        return polars_frame(columns, values)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def polars_frame(columns: Mapping[str, list[Any]], values: Mapping[str, Any]) -> Any:
    """Return columns as a frame of Polars, of the same types where there are no rows."""
    polars = sys.modules["polars"]
    label = polars.Series(list(values.values()), strict=False).dtype
    types = {"row": polars.Int64, "given": label, "suggested": label, "score": polars.Float64}
    return polars.DataFrame(columns, schema_overrides=types, strict=False)


def empty_like(table: Any) -> Any:
    """Return a frame without columns of the kind and index of another; None where it is none."""
    if is_frame(table, "pandas"):
        return table.iloc[:, :0]
    return table.head(0) if is_frame(table, "polars") else None


def is_frame(table: Any, package: str) -> bool:
    """Return whether a table is a data frame of a package, which is not imported for it."""
    found = sys.modules.get(package)
    return found is not None and isinstance(table, found.DataFrame)
