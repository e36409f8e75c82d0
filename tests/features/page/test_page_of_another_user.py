"""A second local user and the page: before, during and after a server, and with the next one on that port.

Real users, a real browser, a real server: everything that user's pages and workers obtain is searched for rows, source,
typed text, codes and valid tokens.
"""

import base64
import contextlib
import errno
import json
import re
import subprocess
import sys
from pathlib import Path

import alike
import pytest
from browser import Browser
from live_server import serving, until
from other_user import BECOME, needs_root
from page_client import PageClient, address_of, opened

pytestmark = [needs_root, pytest.mark.slow]

PROGRAM = Path(__file__).parents[2] / "support" / "hostile_pages.py"
BEGIN = f"""
import asyncio, base64, contextlib, encodings.idna, json, os, resource, socket, sys, threading
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
{BECOME}
exec(sys.argv[1])
"""
STOPPED = "The server has stopped. Run `codriver watch --web`."
TOKEN = re.compile(r"(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])")
CODE = re.compile(r"(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{32}(?![A-Za-z0-9_-])")


class Hostile:
    """The program of the other user, controlled by commands."""

    def __init__(self):
        command = [sys.executable, "-I", "-c", BEGIN, PROGRAM.read_text()]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/")
        assert self.process.stdout.readline() == '"up"\n'

    def request(self, *command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return json.loads(base64.b64decode(self.process.stdout.readline()))

    def listen(self, port):
        """Take the port of a server that has ended.

        The other address stays in use for a minute because of the browser's closing connections.
        """
        until(lambda: self.request("listen", "127.0.0.1", port) == {"port": port}, f"port {port} to be free")

    def loot(self):
        return [Loot(*item) for item in self.request("loot")]

    def close(self):
        self.process.kill()
        self.process.communicate()


class Loot:
    def __init__(self, port, head, body):
        self.port, self.head, self.body = port, head, body
        self.line = head.partition("\r\n")[0]
        with contextlib.suppress(ValueError, AttributeError):
            self.kind = json.loads(body).get("kind")

    kind = None


@pytest.fixture
def hostile():
    with contextlib.closing(Hostile()) as running:
        yield running


@pytest.fixture
def browser(tmp_path):
    with contextlib.closing(Browser(tmp_path)) as running:
        yield running


def reports(hostile, kind):
    return [item for item in hostile.loot() if item.kind == kind]


def text_of(loot):
    return "\n".join(f"{item.head}{item.body}" for item in loot)


def test_another_user_cannot_read_a_page_before_during_or_after_the_run_of_its_server(hostile, browser, tmp_path):
    count = alike.rounds(200, 20)
    taken = [hostile.request("listen", host, 0)["port"] for _ in range(count) for host in ("127.0.0.1", "::1")]
    with serving(tmp_path) as live, live.client() as client:
        client.call("evaluate_code", code="source_of_first = 'first ' + 'row'; source_of_first", timeoutMs=60_000)
        client.begin_call("evaluate_code", code="input('prompt? ')")
        served, unused = opened(live), PageClient(live, address_of(live))
        assert served.port not in taken
        with browser.page(served.address) as tab:
            tab.shows("first row", "#rows")
            # While the server runs, nobody else can use its port, at either address or at one that covers both.
            for host in ("127.0.0.1", "::1", "0.0.0.0", "::"):
                assert hostile.request("listen", host, served.port) == {"errno": errno.EADDRINUSE}
            tab.click(".alive .line", "prompt?")
            tab.until("Boolean(document.querySelector('.answer input'))")
            tab.run("document.querySelector('#search').value = 'searched text'")
            live.process.kill()
            live.process.wait()
            hostile.listen(served.port)
            _assert_only_challenges_received(hostile, tab, served)
            # The person reloads the page and gets that of the other user.
            tab.run("setTimeout(() => location.reload(), 0); true")
            until(lambda: reports(hostile, "typed"), "the other user's page")
        # The person also opens an address printed earlier, where the worker of that user now answers.
        with browser.page(f"{unused.origin}/#{unused.code}") as tab:
            tab.shows("hijacked by a worker")
        # Then that user leads a tab through all ports, at the names that are known, and registers a worker at each.
        origins = [f"http://{host}:{port}/" for port in taken[::2] for host in ("127.0.0.1", "localhost")]
        with browser.page("about:blank") as tab:
            for batch in range(0, len(origins), 40):
                first, *others = expected = origins[batch : batch + 40]
                hostile.request("visit", *others)
                tab.request("Page.navigate", url=first)
                until(lambda expected=expected: {*expected} <= {*hostile.request("workers")}, "a worker at each port")
            _assert_nothing_but_dead_secrets(hostile, served, unused)
            with serving(tmp_path) as again, again.client() as other:
                other.call(
                    "evaluate_code", code="source_of_second = 'second ' + 'row'; source_of_second", timeoutMs=60_000
                )
                _assert_the_next_server_is_out_of_reach(hostile, browser, again, served)
        hostile.request("release")
        # Control: these workers are real, and answer where no program listens any longer.
        with browser.page(f"http://127.0.0.1:{taken[0]}/") as tab:
            tab.shows("hijacked by a worker")


def _assert_only_challenges_received(hostile, tab, served):
    tab.until(f"document.querySelector('#connection').innerText === {json.dumps(STOPPED)}", "the end of the server")
    tab.run("document.querySelector('.answer input').focus()")
    tab.type("typed by a person")
    tab.press("Enter")
    tab.shows(STOPPED, ".detail")
    for view in ("Handoff", "History", "Query"):
        tab.click("[role=tab]", view)
    tab.run("document.querySelector('textarea').value = 'typed query'")
    tab.click("#panel button", "Run")
    tab.shows(STOPPED, "#panel")
    here = until(lambda: [item for item in hostile.loot() if item.port == served.port][1:], "two challenges")
    assert {item.line for item in here} == {"POST /prove HTTP/1.1"}
    for item in here:
        assert re.fullmatch(r'\{"nonce":"[0-9a-f]{64}"\}', item.body)
        assert "codriver-token" not in item.head.lower()


def _assert_nothing_but_dead_secrets(hostile, served, unused):
    found = text_of(hostile.loot())
    # The controls: the token of the dead server and the code of an unused address were really within reach.
    assert served.token in found
    assert unused.code in found
    for text in ("first row", "source_of_first", "typed by a person", "searched text", "typed query", "prompt?"):
        assert text not in found


def _assert_the_next_server_is_out_of_reach(hostile, browser, again, served):
    address = address_of(again)
    page = PageClient(again, address)
    hosts = ["127.0.0.1", "localhost", "[::1]", served.host]
    hostile.request("target", {"port": page.port, "hosts": hosts, "tokens": [served.token]})
    with browser.page(address) as tab:
        tab.shows("second row", "#rows")
        tab.click(".line", "second row")
        tab.press("/")
        tab.type("typed into the search")
        tried = len(reports(hostile, "tried"))
        until(
            lambda: len(reports(hostile, "tried")) >= tried + 2, "the other user's page to have tried everything twice"
        )
        living = opened(again)
        found = text_of(hostile.loot())
        assert reports(hostile, "answer") == []
        for text in ("second row", "source_of_second", "typed into the search", living.token, page.code, living.code):
            assert text not in found
        assert living.host not in found
        tokens, codes = set(TOKEN.findall(found)), set(CODE.findall(found))
        assert served.token in tokens
        for token in tokens:
            with pytest.raises(ConnectionError):
                living.post("/do/handoff", headers={"Codriver-Token": token})
        for code in codes:
            assert living.post("/enter", code=code) == {"refused": "unknown"}
