"""Where real streams come from: files that grow, message brokers, and anything iterable."""

from tamis.sources.address import open_source
from tamis.sources.ahead import Policy, ReadAhead
from tamis.sources.dead_letters import DeadLetters
from tamis.sources.feed import Feed, Figures, TooManyBadError
from tamis.sources.files import Files
from tamis.sources.images import Images
from tamis.sources.intake import BadInputError, Intake, OnBad
from tamis.sources.items import Items
from tamis.sources.kafka_topic import KafkaTopic
from tamis.sources.messages import MissedWarning, Pace
from tamis.sources.nats_stream import NatsStream
from tamis.sources.protocol import BadRecordError, Batch, Source, SourceError, Unreadable, from_json
from tamis.sources.redis_stream import RedisStream
from tamis.sources.rows import Columns, Row
from tamis.sources.tables import Table, open_table

__all__ = [
    "BadInputError",
    "BadRecordError",
    "Batch",
    "Columns",
    "DeadLetters",
    "Feed",
    "Figures",
    "Files",
    "Images",
    "Intake",
    "Items",
    "KafkaTopic",
    "MissedWarning",
    "NatsStream",
    "OnBad",
    "Pace",
    "Policy",
    "ReadAhead",
    "RedisStream",
    "Row",
    "Source",
    "SourceError",
    "Table",
    "TooManyBadError",
    "Unreadable",
    "from_json",
    "open_source",
    "open_table",
]
