"""A headless Chromium, told over a pipe what to do: what a page loads, logs and shows."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from base64 import b64decode
from fcntl import F_DUPFD_CLOEXEC, fcntl
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SWITCHES = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE = 300  # seconds for one answer


def installed():
    """Return the path of a Chromium, or None."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    kept = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH", Path.home() / ".cache/ms-playwright"))
    return found or next(map(str, sorted(kept.glob("chromium*/chrome-*/*chrome*"))), None)


class Browser:
    """One page in a browser of its own; what happens in it gathers in `events`."""

    def __init__(self, home):
        self.events, self.last, self.buffer = [], 0, b""
        reading, self.told = os.pipe()
        self.heard, writing = os.pipe()
        command = [installed(), *SWITCHES, f"--user-data-dir={home}", "about:blank"]
        ends = [fcntl(end, F_DUPFD_CLOEXEC, 10) for end in (reading, writing)]

        def wire():
            """Have the browser read from 3 and write to 4."""
            for end, place in zip(ends, (3, 4), strict=True):
                os.dup2(end, place)

        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=wire
        )
        for end in (reading, writing, *ends):
            os.close(end)
        self.session = None
        (page,) = [one for one in self.ask("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        attached = self.ask("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.process.terminate()
        self.process.wait(PATIENCE)
        os.close(self.told)
        os.close(self.heard)

    def ask(self, method, **parameters):
        """Return the answer to one command."""
        self.last += 1
        session = {"sessionId": self.session} if self.session else {}
        command = {"id": self.last, "method": method, "params": parameters, **session}
        os.write(self.told, json.dumps(command).encode() + b"\0")
        answer = self._await(lambda one: one.get("id") == self.last)
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, path):
        """Open a file and wait until all of it is there."""
        self.ask("Page.navigate", url=path.absolute().as_uri())
        self._await(lambda one: one.get("method") == "Page.loadEventFired")

    def value(self, script):
        """Return the value of an expression in the page, or what it promises."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    @property
    def complaints(self):
        """What the page or the browser complained of."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [one["params"] for one in self.events if one["method"] in kinds]

    @property
    def requests(self):
        """The addresses of all that was asked for."""
        return [
            one["params"]["request"]["url"] for one in self.events if one["method"] == "Network.requestWillBeSent"
        ]

    def look(self, path, width=1200, height=900, dark=False, whole=True):
        """Keep a picture of the page."""
        self.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        shot = self.ask("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(b64decode(shot["data"]))

    def resize(self, width, height=900):
        """Make the window as wide and high as that of some device."""
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def print(self, path):
        """Print the page to a PDF."""
        path.write_bytes(b64decode(self.ask("Page.printToPDF", printBackground=True)["data"]))

    def _await(self, wanted):
        until = time.monotonic() + PATIENCE
        while True:
            while b"\0" in self.buffer:
                text, _, self.buffer = self.buffer.partition(b"\0")
                one = json.loads(text)
                if "method" in one:
                    self.events.append(one)
                if wanted(one):
                    return one
            ready, _, _ = select.select([self.heard], [], [], max(0.0, until - time.monotonic()))
            more = os.read(self.heard, 1 << 20) if ready else b""
            if not more:
                raise RuntimeError("the browser does not answer")
            self.buffer += more
