"""Where real streams come from: files that grow, message brokers, and anything iterable."""

from tamis.sources.address import open_source
from tamis.sources.ahead import Policy, ReadAhead
from tamis.sources.dead_letters import DeadLetters
from tamis.sources.feed import Feed, Figures, TooManyBad
from tamis.sources.files import Files
from tamis.sources.images import Images
from tamis.sources.items import Items
from tamis.sources.kafka_topic import KafkaTopic
from tamis.sources.messages import Missed, Pace
from tamis.sources.nats_stream import NatsStream
from tamis.sources.protocol import BadRecord, Batch, Source, SourceError, Unreadable, from_json
from tamis.sources.redis_stream import RedisStream
from tamis.sources.rows import Columns, Row

__all__ = [
    "BadRecord",
    "Batch",
    "Columns",
    "DeadLetters",
    "Feed",
    "Figures",
    "Files",
    "Images",
    "Items",
    "KafkaTopic",
    "Missed",
    "NatsStream",
    "Pace",
    "Policy",
    "ReadAhead",
    "RedisStream",
    "Row",
    "Source",
    "SourceError",
    "TooManyBad",
    "Unreadable",
    "from_json",
    "open_source",
]
