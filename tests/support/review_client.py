"""A client of the page of `tamis watch`: HTTP by hand, as a browser would send it."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any
from urllib.parse import urlencode

from tests.support.wait import END


class Client:
    """Asks a server by hand, with whatever headers."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.host = f"127.0.0.1:{self.port}"

    def ask(
        self, path: str, method: str = "GET", body: Any = None, **headers: str | None
    ) -> tuple[int, dict[str, str], str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=END)
        sent = {"Host": self.host} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body)
        content = content.encode() if isinstance(content, str) else content
        if method == "POST" and "Content-Length" not in sent:
            sent["Content-Length"] = str(len(content))
        for name, value in sent.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(content)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, dict(answer.getheaders()), text

    def send(self, text: str) -> str:
        """Send a text as it is, and return all that comes until the server hangs up."""
        with socket.create_connection(("127.0.0.1", self.port), END) as connection:
            connection.sendall(text.encode())
            pieces = []
            while piece := connection.recv(2**16):
                pieces.append(piece)
        return b"".join(pieces).decode()

    def get(self, path: str, **query: object) -> Any:
        suffix = f"?{urlencode(query)}" if query else ""
        status, _, text = self.ask(path + suffix)
        assert status == 200, text
        return json.loads(text)

    def post(self, body: Any, **headers: str | None) -> tuple[int, Any]:
        ours: dict[str, str | None] = {
            "Origin": f"http://{self.host}",
            "X_Tamis": "review",
            "Content_Type": "application/json",
        }
        status, _, text = self.ask("/decisions", "POST", body, **(ours | headers))
        return status, json.loads(text)
