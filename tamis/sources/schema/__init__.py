"""The schema of a table: the kind of each column, and rows of numbers by it."""

from tamis.sources.schema.array import Array
from tamis.sources.schema.category import Category
from tamis.sources.schema.column import Column
from tamis.sources.schema.encoded_text import EncodedText
from tamis.sources.schema.image import Image
from tamis.sources.schema.infer import KINDS
from tamis.sources.schema.left_out import Constant, Id
from tamis.sources.schema.number import Boolean, Number
from tamis.sources.schema.record import Schema, infer_schema, read_schema, write_schema
from tamis.sources.schema.text import Text
from tamis.sources.schema.times import DateTime

__all__ = [
    "KINDS",
    "Array",
    "Boolean",
    "Category",
    "Column",
    "Constant",
    "DateTime",
    "EncodedText",
    "Id",
    "Image",
    "Number",
    "Schema",
    "Text",
    "infer_schema",
    "read_schema",
    "write_schema",
]
