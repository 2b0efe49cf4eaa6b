"""A real browser, driven by its own protocol over two pipes: no driver, no library.

Chromium reads commands from file 3 and writes answers to file 4, JSON ended by a null byte, when
it is started with --remote-debugging-pipe.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self

from tests.support.wait import END, wait_until

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--disable-dev-shm-usage --remote-debugging-pipe"
)
CODES = {"ArrowRight": 39, "ArrowLeft": 37, "Enter": 13, "Tab": 9}


def find_chromium() -> str | None:
    """Find the browser on this machine."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Chromium:
    """A headless browser with a profile of its own, gone with it."""

    def __init__(self) -> None:
        self._profile = tempfile.mkdtemp(prefix="tamis-chromium-")
        reads, self._to = os.pipe()
        self._from, writes = os.pipe()
        # The shell puts the pipes where the browser looks for them.
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{reads} 4>&{writes}', find_chromium() or "chromium"]
            + [*FLAGS.split(), f"--user-data-dir={self._profile}", "about:blank"],
            pass_fds=(reads, writes),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(reads)
        os.close(writes)
        self._held = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.call("Browser.close")
            self._process.wait(20)
        except (OSError, TimeoutError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self._profile, ignore_errors=True)

    def open(self, url: str, width: int = 1200, height: int = 900, scheme: str = "light") -> Tab:
        """Open a page, and return once it has loaded."""
        target = self.call("Target.createTarget", url="about:blank")
        session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)[
            "sessionId"
        ]
        tab = Tab(self, session, target["targetId"])
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.call(f"{domain}.enable")
        tab.resize(width, height)
        tab.call("Emulation.setFocusEmulationEnabled", enabled=True)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        tab.call("Emulation.setEmulatedMedia", features=features)
        tab.go(url)
        return tab

    def call(self, method: str, session: str | None = None, **settings: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; what else comes is kept in `events`."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": settings}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        until = monotonic() + END
        while monotonic() < until:
            for found in self._read(until):
                if found.get("id") == self._number:
                    if "error" in found:
                        raise RuntimeError(f"{method}: {found['error']}")
                    answer: dict[str, Any] = found["result"]
                    return answer
                self.events.append(found)
        raise TimeoutError(method)

    def settle(self, seconds: float) -> None:
        """Let time pass, and take in what the browser sends meanwhile."""
        until = monotonic() + seconds
        while monotonic() < until:
            self.events += self._read(until)

    def _read(self, until: float) -> list[dict[str, Any]]:
        ready, _, _ = select.select([self._from], [], [], max(0.0, until - monotonic()))
        if not ready:
            return []
        piece = os.read(self._from, 2**20)
        if not piece:
            raise OSError("The browser has ended.")
        *complete, self._held = (self._held + piece).split(b"\0")
        return [json.loads(message) for message in complete]


class Tab:
    """One page in the browser."""

    def __init__(self, browser: Chromium, session: str, target: str) -> None:
        self.browser = browser
        self.session = session
        self.target = target

    def call(self, method: str, **settings: Any) -> dict[str, Any]:
        """Send a command to this page."""
        return self.browser.call(method, self.session, **settings)

    def go(self, url: str) -> None:
        """Load a page."""
        found = self.call("Page.navigate", url=url)
        if found.get("errorText"):
            raise RuntimeError(f"{url}: {found['errorText']}")
        left = "" if url == "about:blank" else " && location.href !== 'about:blank'"
        self.wait(f"document.readyState === 'complete'{left}")

    def reload(self) -> None:
        """Load the page again."""
        self.run("window.old = true")
        self.call("Page.reload", ignoreCache=True)
        self.wait("window.old === undefined && document.readyState === 'complete'")

    def resize(self, width: int, height: int) -> None:
        """Make the window of this size."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip

    def run(self, script: str) -> Any:
        """Run a script in the page, and return what it comes to."""
        found = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(json.dumps(found["exceptionDetails"])[:2000])
        return found["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until a condition holds in the page."""

        def holds() -> bool:
            with suppress(RuntimeError):  # between two pages
                return bool(self.run(f"Boolean({condition})"))
            return False

        wait_until(holds, what=condition)

    def press(self, key: str) -> None:
        """Press a key."""
        code = CODES.get(key, ord(key.upper()) if len(key) == 1 else 0)
        named = {"key": key, "windowsVirtualKeyCode": code}
        # Enter presses a button only where it also writes a line end.
        text = {"text": "\r" if key == "Enter" else key} if len(key) == 1 or key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **named, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    def set(self, element: str, value: str) -> None:
        """Choose or write a value in an element, as a person would."""
        self.run(
            f"(() => {{ const e = document.getElementById({json.dumps(element)});"
            f" e.value = {json.dumps(value)};"
            " e.dispatchEvent(new Event('change', { bubbles: true })); })()"
        )

    def text(self, selector: str) -> str:
        """Return the text that an element shows."""
        return str(self.run(f"document.querySelector({json.dumps(selector)}).innerText"))

    def picture(self, path: Path, full_page: bool = False) -> None:
        """Save what the page looks like: the window, or all of it."""
        settings: dict[str, Any] = {}
        if full_page:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            settings = {"captureBeyondViewport": True, "clip": {**size, "x": 0, "y": 0, "scale": 1}}
        found = self.call("Page.captureScreenshot", format="png", **settings)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def troubles(self) -> list[str]:
        """Return errors, refusals by policy, and dialogs that scripts have opened."""
        self.browser.settle(0.2)
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            method, settings = event.get("method"), event.get("params", {})
            if method == "Page.javascriptDialogOpening":
                found.append(f"dialog: {settings.get('message')}")
            elif method == "Runtime.exceptionThrown":
                found.append(json.dumps(settings["exceptionDetails"])[:500])
            elif method == "Log.entryAdded" and settings["entry"]["level"] == "error":
                found.append(settings["entry"]["text"])
        return found

    def requested(self) -> list[str]:
        """Return every address that the page has requested."""
        return [
            event["params"]["request"]["url"]
            for event in self.browser.events
            if event.get("sessionId") == self.session
            and event.get("method") == "Network.requestWillBeSent"
        ]

    def close(self) -> None:
        """Close the page."""
        self.browser.call("Target.closeTarget", targetId=self.target)
