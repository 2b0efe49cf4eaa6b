"""A run to look at, a server for it, and a real browser."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from tamis.runs import Run
from tamis.web.review_api import ReviewAPI
from tamis.web.server import Server
from tests.support.chromium import Chromium, find_chromium
from tests.support.sample_run import make_run


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a run on digits, once; nobody may change it."""
    threads = torch.get_num_threads()
    folder = tmp_path_factory.mktemp("runs") / "finished"
    make_run(folder, slots=300)
    torch.set_num_threads(threads)
    return folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    """Return a copy for one test."""
    copy = tmp_path / "run"
    shutil.copytree(finished, copy)
    return copy


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Serve runs until the test ends."""
    servers: list[Server] = []

    def begin(folder: Path, token: str | None = None, host: str = "127.0.0.1") -> Server:
        server = Server(ReviewAPI(Run(folder), "ann"), host, 0, token)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return server

    yield begin
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    """Start chromium, where there is one."""
    if not find_chromium():
        pytest.skip("chromium is not on this machine")
    with Chromium() as browser:
        yield browser
