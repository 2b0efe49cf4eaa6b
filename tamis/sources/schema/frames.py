"""Tables in memory as mappings of columns: records, frames of pandas, Polars and pyarrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tamis.sources.schema.cells import Cells
from tamis.sources.validation import BadInputError


def columns_of(table: Any) -> dict[str, Cells]:
    """Return the columns of a table by name.

    A record that lacks a column which others have is missing there.

    >>> columns_of([{"a": 1, "b": "x"}, {"b": "y"}])
    {'a': [1, None], 'b': ['x', 'y']}
    """
    if isinstance(table, Mapping):
        columns = {str(name): as_cells(cells) for name, cells in table.items()}
        for name, cells in table.items():
            if isinstance(cells, Mapping):
                raise BadInputError(f"Column {str(name)!r} is a mapping, not a list of cells.")
    elif hasattr(table, "collect"):
        raise BadInputError("A lazy frame has no rows yet: pass frame.collect().")
    elif hasattr(table, "columns") or hasattr(table, "column_names"):
        columns = frame_columns(table)
    elif isinstance(table, Sequence) and all(isinstance(record, Mapping) for record in table):
        names = {str(name): name for record in table for name in record}
        columns = {text: [record.get(name) for record in table] for text, name in names.items()}
    else:
        raise BadInputError(
            "A table is a frame, a list of records or a mapping of columns, "
            f"not {type(table).__name__}."
        )
    lengths = {name: len(cells) for name, cells in columns.items()}
    if len(set(lengths.values())) > 1:
        raise BadInputError(f"Columns of a table have one length, not {lengths}.")
    return columns


def frame_columns(frame: Any) -> dict[str, Cells]:
    """Return the columns of a frame; those of numbers, booleans and times as arrays."""
    names = frame.column_names if hasattr(frame, "column_names") else list(frame.columns)
    texts = [str(name) for name in names]
    if len(set(texts)) < len(texts):
        twice = sorted({name for name in texts if texts.count(name) > 1})
        raise BadInputError(f"The frame has more than one column {', '.join(map(repr, twice))}.")
    return {text: as_cells(frame[name]) for text, name in zip(texts, names, strict=True)}


def as_cells(column: Any) -> Cells:
    """Return one column as an array where it is of numbers or times, else as a list.

    Integers and booleans with missing ones among them become a list, or floats with NaN.
    """
    if isinstance(column, list | tuple):
        return column
    try:
        array = np.asarray(column)
    except (TypeError, ValueError):
        array = np.empty(0, object)
    if array.dtype.kind in "fiubM" and len(array) == len(column):
        return array
    for method in ("to_pylist", "to_list", "tolist"):  # pyarrow; pandas and Polars; numpy
        if hasattr(column, method):
            found: list[Any] = getattr(column, method)()
            return found
    return list(column)


def frame_kinds(frame: Any) -> dict[str, str]:
    """Return kinds that a frame itself declares: a categorical column is a category."""
    if isinstance(frame, Mapping) or hasattr(frame, "collect"):
        return {}
    if not (hasattr(frame, "dtypes") and hasattr(frame, "columns")):
        return {}
    types = frame.dtypes
    pairs = zip(frame.columns, types, strict=True)
    return {
        str(name): "category"
        for name, type_ in pairs
        if str(type_).partition("(")[0].lower() in ("category", "categorical", "enum")
    }
