"""The classes of `tamis stream`: those named or of the first records, and how many may follow."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tamis.errors import UsageError
from tamis.sources import Schema, SchemaRows
from tamis.sources.class_numbers import NOT_A_CLASS, at_least_two
from tamis.sources.rejects import Rejects
from tamis.sources.rows import without_unused

MOST_CLASSES = 100
"""Limit of classes where none are named: labels that are not classes would go on for ever."""
FEWEST = ("0", "1")
"""Classes to begin with where a function reads records, and none are named."""


def check_classes(options: Namespace) -> None:
    """Refuse names or a limit that nothing can be learned with."""
    names, limit = options.classes or [], options.max_classes
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"--classes names {', '.join(twice)} more than once.")
    if len(names) == 1 and limit is None:
        raise UsageError("--classes names one class only: nothing can be learned from it.")
    if limit is not None and limit < max(2, len(names)):
        raise UsageError(f"--max-classes {limit} is below {max(2, len(names))}.")


def limit_of(options: Namespace) -> int | None:
    """Return how many classes there can be; None where those that are named are all."""
    if options.classes is None and options.max_classes is None:
        return MOST_CLASSES
    limit: int | None = options.max_classes
    return limit


def with_classes(
    options: Namespace, schema: Schema, records: Sequence[Mapping[str, Any]]
) -> Schema:
    """Return a schema with the classes to begin with: as named, or in the order of the records."""
    if options.classes is not None:
        return replace(schema, classes=at_least_two(options.classes))
    rows = SchemaRows(replace(schema, classes=()), limit_of(options), time=options.time)
    without_unused(rows.many(records), rows.numbers, 0)  # a bad record names no class
    return replace(schema, classes=at_least_two(list(rows.numbers)))


def classes_of(options: Namespace, schema: Schema | None) -> tuple[str, ...]:
    """Return the classes to begin with; they are those of the schema where there is one."""
    return schema.classes if schema else at_least_two(options.classes or FEWEST)


def hint_for(rejects: Rejects, options: Namespace) -> str:
    """Return what to do about labels that are not a class, if there were any."""
    if limit_of(options) is not None or not rejects.counts[NOT_A_CLASS]:
        return ""
    return "Labels that --classes does not name can be new classes: --max-classes N."
