"""What `import tamis.sources` may need: nothing but what `import tamis` does."""

from __future__ import annotations

import subprocess
import sys

EXTRAS = "fsspec pyarrow PIL redis nats confluent_kafka datasets"


def test_clients_are_imported_where_they_serve() -> None:
    program = (
        f"import sys\nfor name in {EXTRAS!r}.split(): sys.modules[name] = None\n"
        "from tamis.sources import *\n"
        "for build in (lambda: RedisStream('redis://h', 's', 'g'), "
        "lambda: NatsStream('nats://h', 's', 'd'), lambda: KafkaTopic('h', 't', 'g'), "
        "lambda: Images('c', 'l', 2, (4, 4))):\n"
        "    try: build()\n"
        "    except SourceError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [line.split(": ")[-1] for line in done.stdout.splitlines()] == [
        *["pip install 'tamis[brokers]'."] * 3,
        "pip install 'tamis[images]'.",
    ]
