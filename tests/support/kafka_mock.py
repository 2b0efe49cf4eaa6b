"""The mock broker inside Kafka's client library, in a process of its own.

It keeps messages and committed offsets in memory, so it cannot be ended and begun again as a real
broker can: `down` makes it close all connections and refuse new ones, `up` lets it answer again.

python -m tests.support.kafka_mock TOPIC PARTITIONS, then `down` or `up` as lines on its input
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import confluent_kafka

BROKER = 1


def load() -> ctypes.CDLL:
    """Find the library that the client brought along."""
    folder = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    (path,) = folder.glob("librdkafka-*.so*")
    library = ctypes.CDLL(str(path))
    library.rd_kafka_new.restype = ctypes.c_void_p
    library.rd_kafka_conf_new.restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_new.restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    return library


def main(topic: str, partitions: int) -> None:
    library = load()
    reason = ctypes.create_string_buffer(512)
    producer, conf = 0, ctypes.c_void_p(library.rd_kafka_conf_new())
    handle = ctypes.c_void_p(library.rd_kafka_new(producer, conf, reason, len(reason)))
    cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(handle, 1))
    library.rd_kafka_mock_topic_create(cluster, topic.encode(), partitions, 1)
    library.rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, 0)
    print(library.rd_kafka_mock_cluster_bootstraps(cluster).decode(), flush=True)
    for line in sys.stdin:
        if line.strip() == "down":
            library.rd_kafka_mock_broker_set_down(cluster, BROKER)
        elif line.strip() == "up":
            library.rd_kafka_mock_broker_set_up(cluster, BROKER)
        print("ok", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
