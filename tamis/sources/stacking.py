"""Rows of records as samples, or as events where rows and labels come apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tamis.data import NO_SAMPLES, UNLABELLED, Event, Events, Samples
from tamis.sources.protocol import BadRecordError
from tamis.sources.rows import Row


def result_or_fault(step: Callable[[Any], Any], item: Any) -> Any:
    """Return the result of a step, or the fault that rejects the record of its item."""
    try:
        return step(item)
    except BadRecordError as error:
        return error
    except Exception as error:  # neither a record nor a user's mistake may stop a stream
        return BadRecordError(type(error).__name__, str(error))


def stack(rows: list[Row]) -> Samples | Events:
    """Return rows as samples; as events where one lacks its label or its input, or has more."""
    with_input = [row for row in rows if row.input is not None]
    samples = stack_rows(with_input) if with_input else NO_SAMPLES
    if all(
        row.label is not None and row.input is not None and row.time is row.annotator is None
        for row in rows
    ):
        return samples
    places = iter(range(len(rows)))
    return Events(
        samples,
        tuple(
            Event(
                row.id or 0,
                None if row.input is None else next(places),
                row.label,
                row.annotator,
                row.time,
                row.name,
            )
            for row in rows
        ),
    )


def stack_rows(rows: list[Row]) -> Samples:
    """Return rows with inputs as samples."""
    ids = torch.tensor([row.id for row in rows])
    labels = torch.tensor([UNLABELLED if row.label is None else row.label for row in rows])
    return Samples(stack_inputs(rows), labels, ids, torch.zeros_like(ids))


def stack_inputs(rows: list[Row]) -> Tensor:
    """Return the inputs of rows as one tensor."""
    return torch.from_numpy(np.stack([np.asarray(row.input) for row in rows]))
