"""Headless Chromium over its debugging pipe: no driver, no package, no port."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)
PATIENCE = 30.0


def chromium() -> str | None:
    """Path of a Chromium, or None."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next((found for found in map(shutil.which, names) if found), None)


class Browser:
    """One page of a headless Chromium, and everything it asked for or complained of."""

    def __init__(self, profile: Path) -> None:
        command_read, command_write = os.pipe()
        answer_read, answer_write = os.pipe()
        self._in, self._out, self._rest = command_write, answer_read, b""
        self.events: list[dict[str, Any]] = []
        self._last = 0
        self._session: str | None = None

        def place() -> None:
            # Chromium reads commands from descriptor 3 and writes answers to 4.
            clear = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (command_read, answer_write)]
            os.dup2(clear[0], 3)
            os.dup2(clear[1], 4)

        executable = chromium()
        assert executable is not None
        self._process = subprocess.Popen(
            [executable, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=place,
            close_fds=False,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(command_read)
        os.close(answer_write)

    def __enter__(self) -> Browser:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._in)
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._out)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._in, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer.get("result", {})
            self.events.append(answer)

    def _read(self) -> dict[str, Any]:
        limit = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._out], [], [], max(limit - time.monotonic(), 0.0))
            part = os.read(self._out, 1 << 16) if ready else b""
            if not part:
                raise TimeoutError("Chromium did not answer")
            self._rest += part
        first, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(first)
        return message

    def open(self, path: Path, width: int = 1280, height: int = 900, **features: str) -> None:
        """Show a file in a window of this size; `features` are media features."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        media = [{"name": name.replace("_", "-"), "value": v} for name, v in features.items()]
        self.call("Emulation.setEmulatedMedia", features=media)
        self.call("Page.navigate", url=path.absolute().as_uri())
        limit = time.monotonic() + PATIENCE
        while self.value("document.readyState + location.protocol") != "completefile:":
            assert time.monotonic() < limit, "the page did not load"
            time.sleep(0.05)

    def value(self, expression: str) -> Any:
        """What a JavaScript expression is on the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """The whole page as PNG."""
        taken = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(taken["data"]))

    def pdf(self, path: Path) -> None:
        """The page as it prints."""
        path.write_bytes(base64.b64decode(self.call("Page.printToPDF")["data"]))

    def requests(self) -> list[str]:
        """Addresses asked for, short of the page itself and what lies within it."""
        sent = [e["params"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        addresses = [one["request"]["url"] for one in sent]
        return [url for url in addresses if not url.startswith(("file:", "data:", "about:"))]

    def complaints(self) -> list[str]:
        """Exceptions, errors and warnings of the console."""
        found = []
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
            elif method == "Log.entryAdded":
                found.append(str(params["entry"]))
            elif method == "Runtime.consoleAPICalled":
                found.append(str(params["args"]))
        return found
