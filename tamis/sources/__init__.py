"""Where real streams come from: files that grow, message brokers, and anything iterable."""

from tamis.sources.address import open_source
from tamis.sources.ahead import Policy, ReadAhead
from tamis.sources.feed import Feed, SourceStats, TooManyBadError
from tamis.sources.files import Files
from tamis.sources.images import Images
from tamis.sources.items import Items
from tamis.sources.journal import BacklogError, Journal, NotWrittenRecordsError
from tamis.sources.kafka_topic import KafkaTopic
from tamis.sources.messages import LostMessagesWarning, Pace
from tamis.sources.nats_stream import NatsStream
from tamis.sources.protocol import (
    BadRecordError,
    Batch,
    ReplacedError,
    Source,
    SourceError,
    Unreadable,
    from_json,
)
from tamis.sources.redis_stream import RedisStream
from tamis.sources.rejects import Rejects
from tamis.sources.rows import Columns, Row
from tamis.sources.schema import Schema, infer_schema, read_schema, write_schema
from tamis.sources.schema_rows import SchemaRows
from tamis.sources.table_files import open_reader
from tamis.sources.tables import Table, open_table
from tamis.sources.validation import BadInputError, OnBad, Validator

__all__ = [
    "BacklogError",
    "BadInputError",
    "BadRecordError",
    "Batch",
    "Columns",
    "Feed",
    "Files",
    "Images",
    "Items",
    "Journal",
    "KafkaTopic",
    "LostMessagesWarning",
    "NatsStream",
    "NotWrittenRecordsError",
    "OnBad",
    "Pace",
    "Policy",
    "ReadAhead",
    "RedisStream",
    "Rejects",
    "ReplacedError",
    "Row",
    "Schema",
    "SchemaRows",
    "Source",
    "SourceError",
    "SourceStats",
    "Table",
    "TooManyBadError",
    "Unreadable",
    "Validator",
    "from_json",
    "infer_schema",
    "open_reader",
    "open_source",
    "open_table",
    "read_schema",
    "write_schema",
]
