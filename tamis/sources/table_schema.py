"""The schema of a table that was read once, and what the table itself declares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from tamis.sources.first_reading import FirstReading
from tamis.sources.picture_folder import PictureFolder
from tamis.sources.pictures import PictureFiles
from tamis.sources.schema import Schema, infer_schema
from tamis.sources.schema.cells import listed
from tamis.sources.schema.encoded_text import EncodedText
from tamis.sources.schema.labels import check_classes
from tamis.sources.schema.record import in_order
from tamis.sources.schema.sample import RowSample
from tamis.sources.schema.text import Text
from tamis.sources.table_blocks import TableReader
from tamis.sources.validation import BadInputError


def learn_schema(
    first: FirstReading,
    files: PictureFiles,
    kinds: dict[str, str],
    *,
    id_column: str | None,
    drop: Sequence[str],
    text: str | None,
    encoder: str | None,
    side: int | None,
) -> Schema:
    """Return the schema of a table that was read once; raise where its labels are not classes."""
    label, reader = first.label, first.reader
    if kinds.pop(label, None) != "category":
        check_classes(reader.name, label, first.labels, first.rows)
    left = [label, *drop]
    if text:
        kinds.setdefault(text, "text")
        left += [name for name in first.names if name not in (*kinds, id_column)]
    declared = {
        name: kind
        for name, kind in reader.kinds.items()
        # The id is an input only where it is the path of a picture.
        if name not in left and (name != id_column or kind == "image")
    }
    columns = first.sample.columns()
    schema = infer_schema(
        columns, label=label, classes=in_order(first.labels), id=id_column,
        kinds=declared | kinds, drop=left, pictures=files, side=side,
    )  # fmt: skip
    if encoder and text:
        return replace(schema, columns=(EncodedText.infer(text, columns[text], encoder),))
    if text and schema[text].kind == "text" and len(schema.inputs) == 1:
        return replace(schema, columns=(Text.infer(text, columns[text], alone=True),))
    return schema


def label_of(reader: TableReader) -> str:
    """Return the column of labels that a table declares; raise where it declares none."""
    if isinstance(reader, PictureFolder):
        reader.check_classes()
    if reader.label:
        return reader.label
    names = next(iter(reader.blocks(1))).columns
    raise BadInputError(
        f"{reader.name}: name the column of labels (--label); there are {listed(names)}."
    )


def sample_of(schema: Schema, sample: RowSample) -> Tensor:
    """Return some encoded rows; none of pictures, which are scaled as one."""
    if len(schema.input_shape) > 1:
        return torch.empty(0, 0)
    return torch.from_numpy(schema.encode(sample.columns()))
