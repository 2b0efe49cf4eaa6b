"""FiftyOne: the folder that its importer of image classification reads, without its help.

`fiftyone.Dataset.from_dir(folder, fiftyone.types.FiftyOneImageClassificationDataset)` opens it:
pictures in `data`, labels and whatever else is known in `labels.json`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tamis.checkpoint import write_atomically
from tamis.review.exchange.reviewed import Reviewed, UnreadableFileError, from_cells

KEPT = ("id", "given", "suggested", "score", "row", "slot", "decision", "label", "author", "time")


def write_folder(reviewed: Sequence[Reviewed], classes: Sequence[str], path: Path) -> None:
    """Write pictures and labels. Files are numbered: an id is no name for a file."""
    labels = {}
    for number, one in enumerate(reviewed):
        name = f"{number:06d}"
        write_picture(path / "data" / f"{name}.png", one)
        attributes = {key: getattr(one, key) for key in KEPT if getattr(one, key) is not None}
        labels[name] = {
            "label": one.given,
            "confidence": None if one.score is None else 1 - one.score,
            "attributes": attributes,
        }
    content = json.dumps({"classes": list(classes), "labels": labels}, allow_nan=False)
    write_atomically(path / "labels.json", content.encode())


def write_picture(path: Path, one: Reviewed) -> None:
    """Write the thumbnail of a row."""
    try:
        content = base64.b64decode(one.show["image"], validate=True)
    except (KeyError, TypeError, binascii.Error):
        raise UnreadableFileError(
            f"FiftyOne shows pictures, and row {one.id[:40]!r} has none: choose another format."
        ) from None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def read_folder(path: Path) -> list[Reviewed]:
    """Read the labels of such a folder, as FiftyOne exports it.

    Whoever changed a label there has relabelled the row, unless its attributes say otherwise.
    """
    file = path / "labels.json" if path.is_dir() else path
    try:
        content = json.loads(file.read_bytes())
        labels, classes = content["labels"], content.get("classes")
        entries = list(labels.values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UnreadableFileError(f"{file} holds no labels of FiftyOne's.") from None
    return [read_entry(entry, classes) for entry in entries]


def read_entry(entry: Any, classes: Any) -> Reviewed:
    """Read one label."""
    attributes = entry.get("attributes") if isinstance(entry, dict) else None
    if not isinstance(attributes, dict):
        raise UnreadableFileError(
            "FiftyOne's labels have no attributes, and so no ids: export them, too."
        )
    label = entry.get("label")
    if isinstance(label, int) and isinstance(classes, list) and 0 <= label < len(classes):
        label = classes[label]
    cells = {key: attributes.get(key) for key in KEPT}
    if label is not None and label != attributes.get("given"):
        cells |= {"decision": "relabel", "label": label}
    return from_cells(cells)
