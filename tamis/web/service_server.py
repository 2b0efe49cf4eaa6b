"""The HTTP server of a service: uvicorn in a thread, with limits that it lacks."""

from __future__ import annotations

import asyncio
import socket
from http import HTTPStatus
from threading import Thread
from typing import Any, Self, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tamis.web.access import HEADERS
from tamis.web.server import BUSY, refusal

REQUEST_SECONDS = 20.0
"""Seconds within which a request must have come, head and body."""
IDLE_SECONDS = 30
"""Seconds that a connection is kept between two requests."""
MOST_CONNECTIONS = 256
"""Connections at a time, at the most."""
MOST_HEAD = 2**14
"""Bytes of the head of a request, at the most."""
STOP_SECONDS = 3
"""Seconds that requests in progress have when the server ends."""


class LimitedProtocol(H11Protocol):
    """A connection that is closed where a request does not come in time, or there are too many."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        if len(self.connections) >= MOST_CONNECTIONS:
            transport.write(BUSY)
            transport.close()
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take in a part of a request; what comes after the connection is closed is not read."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._unset_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, with the headers of every other refusal."""
        self.transport.write(refusal(HTTPStatus.BAD_REQUEST))
        self.transport.close()

    def _watch(self) -> None:
        """Wait for the rest of a request, from its beginning on."""
        state = self.conn.their_state
        begun = self.cycle is None or bool(self.conn.trailing_data[0])
        if state is h11.SEND_BODY or (state is h11.IDLE and begun):
            if self._timer is None:
                self._timer = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)
        else:
            self._unset_timer()

    def _unset_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class ServiceServer:
    """Serves an app in a thread of its own, on a socket that is open already."""

    def __init__(self, app: Any, listening: socket.socket) -> None:
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                http=cast(Any, LimitedProtocol),
                ws="none",
                lifespan="off",
                loop="asyncio",
                log_config=None,
                log_level="error",
                access_log=False,  # addresses may hold ids
                server_header=False,
                headers=[("Server", "tamis"), *HEADERS.items()],
                limit_concurrency=MOST_CONNECTIONS + 1,
                timeout_keep_alive=IDLE_SECONDS,
                timeout_graceful_shutdown=STOP_SECONDS,
                h11_max_incomplete_event_size=MOST_HEAD,
            )
        )
        self._thread = Thread(
            target=self._server.run, args=([listening],), name="tamis serves", daemon=True
        )

    def __enter__(self) -> Self:
        """Begin to answer."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Accept no more connections; return when requests in progress are answered."""
        self._server.should_exit = True
        self._thread.join()


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that accepts connections; raise OSError where the address is taken or bad."""
    plain = host.strip("[]")
    family = socket.AF_INET6 if ":" in plain else socket.AF_INET
    # By its protocol asyncio knows that it may turn off Nagle's algorithm, which costs 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((plain, port))
        listening.listen()  # who connects before the server has started waits, and is not refused
    except BaseException:
        listening.close()
        raise
    return listening
