"""FiftyOne: the folder that its importer for image classification reads.

`fiftyone.Dataset.from_dir(folder, fiftyone.types.FiftyOneImageClassificationDataset)` opens it:
pictures are in `data`, labels and attributes in `labels.json`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tamis.checkpoint import write_atomically
from tamis.review.exchange.rows import COLUMNS, ReviewedRow, UnreadableFileError, from_cells


def write_folder(rows: Sequence[ReviewedRow], classes: Sequence[str], path: Path) -> None:
    """Write pictures and labels. Files are numbered, since an id may be no valid file name."""
    labels = {}
    for number, row in enumerate(rows):
        name, cells = f"{number:06d}", row.cells()
        write_picture(path / "data" / f"{name}.png", row)
        labels[name] = {
            "label": cells["given"],
            "confidence": None if cells["score"] is None else 1 - cells["score"],
            "attributes": {key: value for key, value in cells.items() if value is not None},
        }
    content = json.dumps({"classes": list(classes), "labels": labels}, allow_nan=False)
    write_atomically(path / "labels.json", content.encode())


def write_picture(path: Path, row: ReviewedRow) -> None:
    """Write the thumbnail of a row."""
    try:
        content = base64.b64decode(row.preview["image"], validate=True)
    except (KeyError, TypeError, binascii.Error):
        raise UnreadableFileError(
            f"FiftyOne shows pictures, and row {row.id[:40]!r} has none: choose another format."
        ) from None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def read_folder(path: Path) -> list[ReviewedRow]:
    """Read the labels of a folder as FiftyOne exports it.

    A label that differs from the given one is a decision to relabel.
    """
    file = path / "labels.json" if path.is_dir() else path
    try:
        content = json.loads(file.read_bytes())
        labels, classes = content["labels"], content.get("classes")
        entries = list(labels.values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UnreadableFileError(f"{file} holds no labels of FiftyOne's.") from None
    return [read_entry(entry, classes) for entry in entries]


def read_entry(entry: Any, classes: Any) -> ReviewedRow:
    """Read one label."""
    attributes = entry.get("attributes") if isinstance(entry, dict) else None
    if not isinstance(attributes, dict):
        raise UnreadableFileError(
            "FiftyOne's labels have no attributes, and so no ids: export them, too."
        )
    label = entry.get("label")
    if isinstance(label, int) and isinstance(classes, list) and 0 <= label < len(classes):
        label = classes[label]
    cells = {key: attributes.get(key) for key in COLUMNS}
    if label is not None and label != attributes.get("given"):
        cells |= {"decision": "relabel", "label": label}
    return from_cells(cells)
