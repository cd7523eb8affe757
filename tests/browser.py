"""A headless Chromium, spoken to over a pipe in its own protocol: no driver, no port, no package."""

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
         "--no-first-run", "--disable-extensions", "--disable-background-networking")  # fmt: skip
PATIENCE = 60.0


def executable():
    """Where a Chromium is, or a skip that says what was looked for."""
    for name in (os.environ.get("CHROMIUM"), *NAMES):
        if name and (path := shutil.which(name)):
            return path
    pytest.skip(f"no browser found: looked for {', '.join(NAMES)} and $CHROMIUM")


class Browser:
    """One page at a time; everything it complains of is kept in `complaints`."""

    def __init__(self, profile: Path):
        to_read, self.writing = os.pipe()
        self.reading, to_write = os.pipe()
        # Chromium listens on file 3 and speaks on file 4.
        command = ["sh", "-c", f'exec "$0" "$@" 3</dev/fd/{to_read} 4>/dev/fd/{to_write}', executable(), *FLAGS,
                   f"--user-data-dir={profile}", "about:blank"]  # fmt: skip
        self.process = subprocess.Popen(command, pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        os.set_blocking(self.reading, False)
        self.rest, self.number, self.session, self.complaints = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=PATIENCE)
        os.close(self.reading)
        os.close(self.writing)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        message |= {} if self.session is None else {"sessionId": self.session}
        os.write(self.writing, json.dumps(message).encode() + b"\0")
        for answer in self._answers():
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
        raise AssertionError(f"{method}: no answer from Chromium in {PATIENCE:g} s")

    def _answers(self):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                self.rest += os.read(self.reading, 1 << 20)
            except BlockingIOError:
                time.sleep(0.01)
                continue
            *whole, self.rest = self.rest.split(b"\0")
            for text in whole:
                answer = json.loads(text)
                self._listen(answer)
                yield answer

    def _listen(self, message):
        method, found = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(found["exceptionDetails"].get("exception", found)))
        if method == "Log.entryAdded" and found["entry"]["level"] in ("error", "warning"):
            self.complaints.append(found["entry"]["text"])
        if method == "Runtime.consoleAPICalled" and found["type"] in ("error", "warning", "assert"):
            self.complaints.append(" ".join(str(a.get("value", a)) for a in found["args"]))
        if method == "Network.requestWillBeSent":
            address = found["request"]["url"]
            if not address.startswith(("file:", "data:", "about:")):
                self.complaints.append(f"asked the network for {address}")

    def ask(self, expression):
        """The value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait_until(self, expression):
        deadline = time.monotonic() + PATIENCE
        while not self.ask(expression):
            assert time.monotonic() < deadline, f"never true: {expression}"
            time.sleep(0.05)

    def open(self, path, width):
        self.complaints.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url=Path(path).resolve().as_uri())
        self.wait_until("document.readyState == 'complete'")
        self.wait_until("[...document.querySelectorAll('.chart')].every(c => c.querySelector('svg'))")

    def hover(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, path):
        """The whole page."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        Path(path).write_bytes(base64.b64decode(shot["data"]))
