"""A real browser, controlled over pipes by its own protocol: it opens isolated pages, types, clicks and takes
screenshots.

Source: Chrome DevTools Protocol. With `--remote-debugging-pipe` it uses descriptors 3 and 4, and a null byte after
each message.
"""

import base64
import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import posix_only
from live_server import WAIT_S
from needs import program

BEGIN = """
import fcntl, os, sys
read, write = [fcntl.fcntl(int(word), fcntl.F_DUPFD, 10) for word in sys.argv[1:3]]
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""A program that becomes a browser, with the descriptors given by number as its descriptors 3 and 4."""
SEEN_S = 30
"""How long a page may take to show something."""
LEAVES = "navigated or closed|context was destroyed|Cannot find (default execution )?context"
"""Matches the browser's error if a page navigates at the very moment of a request."""
NAMES = ("chromium", "chromium-browser", "google-chrome")
ALONE = (
    "--headless=new", "--disable-gpu", "--in-process-gpu", "--no-first-run", "--disable-extensions", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-default-apps",
    "--renderer-process-limit=1", "--process-per-site",
    "--disable-features=SpareRendererForSitePerProcess,Translate,OptimizationHints,MediaRouter",
)  # fmt: skip
"""Options for running without a screen and background work. Processes for future pages take a sixth of the time."""


def command(folder, *options):
    """Return the command line of a headless browser that stores all its files in one directory."""
    browser = program(*NAMES, install="install the package chromium")
    given = [browser, *ALONE, f"--user-data-dir={folder}", *options]
    # A browser's sandbox does not work for root.
    return [*given, "--no-sandbox"] if posix_only.is_root() else given


class BrowserRefusedError(AssertionError):
    """The browser refused a command, with its reason."""

    def __init__(self, method, why):
        super().__init__(f"{method}: {why}")
        self.why = why


class Browser:
    """One browser for the tests of a module."""

    def __init__(self, folder, *options):
        read, self._to = os.pipe()
        self._from, write = os.pipe()
        line = command(folder, "--remote-debugging-pipe", "--hide-scrollbars", *options)
        begin = [sys.executable, "-I", "-S", "-c", BEGIN, str(read), str(write), *line]
        with (Path(folder) / "log").open("wb") as log:
            self._process = subprocess.Popen(begin, stdout=log, stderr=log, pass_fds=(read, write))
        os.close(read)
        os.close(write)
        self._number, self._answers, self._pages = 0, {}, {}
        self._lock, self._come = threading.Lock(), threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        kept = b""
        while data := os.read(self._from, 2**20):
            *messages, kept = (kept + data).split(b"\0")
            for message in map(json.loads, messages):
                with self._come:
                    if "id" in message:
                        self._answers[message["id"]] = message
                    elif page := self._pages.get(message.get("sessionId")):
                        page.handle_event(message["method"], message["params"])
                    self._come.notify_all()

    def request(self, method, session=None, /, **params):
        """Return the answer from the browser or one of its pages."""
        with self._lock:
            self._number += 1
            number = self._number
            message = {"id": number, "method": method, "params": params}
            os.write(self._to, json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        with self._come:
            assert self._come.wait_for(lambda: number in self._answers, WAIT_S), f"no answer to {method}"
            answer = self._answers.pop(number)
        if "error" in answer:
            raise BrowserRefusedError(method, answer["error"]["message"])
        return answer["result"]

    @contextlib.contextmanager
    def page(self, address, *, width=1280, height=800, **media):
        """Open a page in a new tab. `media` sets CSS media features by name.

        All tabs share the browser's storage, which the page does not use, because separate storage for each tab would
        take twice the processor time.
        """
        target = self.request("Target.createTarget", url="about:blank")["targetId"]
        with self.attached(target) as page:
            page.size(width, height)
            features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
            page.request("Emulation.setEmulatedMedia", features=features)
            page.request("Page.navigate", url=address)
            yield page

    @contextlib.contextmanager
    def attached(self, target):
        """Attach to a page in an existing tab, which is closed at the end."""
        session = self.request("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.request(f"{domain}.enable")
        try:
            yield page
        finally:
            self.request("Target.closeTarget", targetId=target)
            del self._pages[session]

    def end(self):
        """Close the browser as a person would, so that it writes everything to disk."""
        self.request("Browser.close")
        self._process.wait(WAIT_S)

    def close(self):
        self._process.terminate()
        self._process.wait(WAIT_S)
        os.close(self._to)


class Page:
    """One page: what it shows, used as a person would use it, and the requests that it made to any server."""

    def __init__(self, browser, session):
        self._browser, self._session = browser, session
        self.requested, self.loaded, self.wrong = [], [], []

    def handle_event(self, method, params):
        if method == "Network.requestWillBeSent":
            self.requested.append(params["request"]["url"])
        elif method == "Network.responseReceived":
            self.loaded.append(params["response"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.wrong.append(params["exceptionDetails"])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.wrong.append(params["entry"])

    def request(self, method, **params):
        return self._browser.request(method, self._session, **params)

    def size(self, width, height):
        self.request(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    def run(self, script):
        """Return the value of an expression or of its promise. Try again if the page navigates in the meantime."""
        deadline = time.monotonic() + SEEN_S
        while True:
            try:
                answer = self.request("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
            except BrowserRefusedError as refused:
                if not re.search(LEAVES, refused.why) or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
                continue
            assert "exceptionDetails" not in answer, answer["exceptionDetails"]
            return answer["result"].get("value")

    def until(self, script, what=""):
        """Wait until an expression is true, and return its value."""
        deadline = time.monotonic() + SEEN_S
        while not (value := self.run(script)):
            output = f"{what or script}; it says: {self.text()[-2000:]} {self.wrong}"
            assert time.monotonic() < deadline, f"the page was waited for in vain: {output}"
            time.sleep(0.02)
        return value

    def text(self, of="body"):
        return self.run(f"document.querySelector({json.dumps(of)})?.innerText ?? ''")

    def shows(self, words, of="body"):
        """Wait until the page shows this text."""
        self.until(f"(document.querySelector({json.dumps(of)})?.innerText ?? '').includes({json.dumps(words)})", words)

    def click(self, selector, words=""):
        """Click the element that a selector finds, or the one with this text if there are several."""
        all_found = f"[...document.querySelectorAll({json.dumps(selector)})]"
        found = f"{all_found}.find(e => e.innerText.includes({json.dumps(words)}))"
        self.until(f"Boolean({found})", f"{selector} {words}")
        self.run(f"{found}.click()")

    def press_button(self, selector):
        """Click the element that a selector finds with the mouse: a browser lets only a person's click open a tab."""
        place = f"document.querySelector({json.dumps(selector)})"
        self.until(f"{place}?.checkVisibility()", selector)
        box = self.run(
            f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])({place}.getBoundingClientRect())"
        )
        for kind in ("mousePressed", "mouseReleased"):
            given = {"type": kind, "button": "left", "clickCount": 1}
            self.request("Input.dispatchMouseEvent", x=box[0], y=box[1], **given)

    def press(self, key):
        code = {"Enter": 13, "Escape": 27}.get(key, 0)
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if kind == "keyDown" and text else {}
            self.request("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **more)

    def type(self, text):
        self.request("Input.insertText", text=text)

    def picture(self, path):
        """Save a screenshot."""
        Path(path).write_bytes(base64.b64decode(self.request("Page.captureScreenshot")["data"]))
