"""A headless Chromium, driven through its own DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
SECONDS = 120
"""How long a busy machine may take to answer."""


def why_not() -> str | None:
    """Return why no browser can be driven here, None if one can."""
    if CHROMIUM is None:
        return "Chromium is not installed"
    if find_spec("websocket") is None:
        return "websocket-client is not installed (pip install 'pucboost[browser]')"
    return None


def axe_source() -> str | None:
    """Return the source of axe-core: the file that AXE_CORE names, else the one in axe-core-python; None without."""
    named = os.environ.get("AXE_CORE")
    if named:
        return Path(named).read_text(encoding="utf-8")
    package = find_spec("axe_core_python")
    if package is None or package.origin is None:
        return None
    return (Path(package.origin).parent / "axe.min.js").read_text(encoding="utf-8")


class Page:
    """One tab of the browser."""

    def __init__(self, socket: Any) -> None:
        self._socket, self._calls = socket, 0
        self.events: list[dict[str, Any]] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result; events that arrive meanwhile are kept."""
        self._calls += 1
        self._socket.send(json.dumps({"id": self._calls, "method": method, "params": params}))
        while True:
            message = self._next()
            if message.get("id") == self._calls:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result

    def _next(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._socket.recv())
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, path: Path, *, width: int = 1280, dark: bool = False, scripts: bool = True) -> None:
        """Open a file in a window of a width, in light or dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="", features=[scheme])
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        while not self.happened("Page.loadEventFired"):
            self._next()

    def happened(self, method: str) -> list[dict[str, Any]]:
        """Return the parameters of all events of a kind since the page was opened."""
        return [event["params"] for event in self.events if event["method"] == method]

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression; promises are awaited."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press and release a key."""
        named = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **named)
        self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    def click(self, selector: str) -> None:
        """Click with the mouse into the middle of an element."""
        x, y = self.evaluate(
            f"(() => {{ const one = document.querySelector({json.dumps(selector)}); "
            "one.scrollIntoView({block: 'center', behavior: 'instant'}); "
            "const box = one.getBoundingClientRect(); "
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def photograph(self, path: Path) -> None:
        """Write a picture of the whole page."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def print(self) -> bytes:
        """Return the page as PDF."""
        return base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True)["data"])


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """Start a browser with a new profile and yield its tab."""
    import websocket

    assert CHROMIUM is not None
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-port=0", "--remote-allow-origins=*"]
    running = subprocess.Popen([*command, "about:blank"], stderr=subprocess.PIPE, text=True)
    try:
        with urllib.request.urlopen(f"http://{_address(running)}/json/list", timeout=SECONDS) as answer:
            tab = next(one for one in json.load(answer) if one["type"] == "page")
        with closing(websocket.create_connection(tab["webSocketDebuggerUrl"], timeout=SECONDS)) as socket:
            yield Page(socket)
    finally:
        running.terminate()
        running.wait(timeout=SECONDS)
        if running.stderr is not None:
            running.stderr.close()


def _address(running: subprocess.Popen[str]) -> str:
    """Return where the browser listens, which it says once it does."""
    assert running.stderr is not None
    said = []
    for line in running.stderr:
        said.append(line)
        found = re.search(r"DevTools listening on ws://([^/]+)/", line)
        if found:
            # It goes on talking, and must not wait for a reader.
            threading.Thread(target=running.stderr.read, daemon=True).start()
            return found[1]
    raise AssertionError(f"the browser did not start: {said}")
