"""A client of the page's port that sends what the page sends, or any bytes."""

import contextlib
import http.client
import json
import re
import socket
import time

from live_server import WAIT_S

ADDRESS = re.compile(r"http://([0-9a-f]{32}\.localhost|127\.0\.0\.1):(\d+)/#([A-Za-z0-9_-]{32})\n")


def address_of(live, *options):
    """Open the page of a server by its command, and return the address that it prints."""
    done = live.run("watch", "--web", *options)
    assert ADDRESS.fullmatch(done.stdout), (done.stdout, done.stderr)
    return done.stdout.strip()


def opened(live, *options):
    """Open the page of a server by its command, and exchange the code for its token."""
    return PageClient(live, address_of(live, *options), *options).enter()


class PageClient:
    """What the page does with its port."""

    def __init__(self, live, address, *options):
        host, port, self.code = ADDRESS.fullmatch(f"{address}\n").groups()
        self.live, self.options = live, options
        self.host, self.port, self.token = host, int(port), None
        self.origin = f"http://{host}:{port}"

    def enter(self):
        self.token = self.post("/enter", code=self.code)["token"]
        return self

    @property
    def address(self):
        """Return an address for a browser, with a new code."""
        return address_of(self.live, *self.options)

    def headers(self, **others):
        given = {
            "Host": f"{self.host}:{self.port}", "Origin": self.origin, "Sec-Fetch-Site": "same-origin",
            "Content-Type": "application/json", "Codriver-Token": self.token,
        }  # fmt: skip
        return {name: value for name, value in {**given, **others}.items() if value is not None}

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)

    def call(self, name, /, **arguments):
        """Return the answer to a call."""
        return self.post(f"/do/{name}", **arguments)

    def post(self, target, /, *, headers=None, **arguments):
        connection = self.connection()
        try:
            connection.request("POST", target, json.dumps(arguments), self.headers(**headers or {}))
            answer = connection.getresponse()
            assert answer.status == 200, (answer.status, target)
            return json.loads(answer.read())
        finally:
            connection.close()

    def tool(self, name, /, **arguments):
        return self.call(name, **arguments)["answer"]

    def frame_headers(self):
        return {"Host": f"{self.host}:{self.port}", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "iframe"}

    def frame(self, address):
        """Return what is at the address of a table: its status, headers and text."""
        connection = self.connection()
        try:
            connection.request("GET", address, headers=self.frame_headers())
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()

    def raw(self, data, port=None):
        """Send these bytes, and return everything received until the server disconnects or our side is closed."""
        with socket.create_connection(("127.0.0.1", port or self.port), timeout=WAIT_S) as sock:
            came = b""
            with contextlib.suppress(OSError):
                sock.sendall(data)
                sock.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionError):
                while more := sock.recv(65536):
                    came += more
            return came


class Events:
    """The events that the page receives. A context manager."""

    def __init__(self, page, **given):
        self._connection = page.connection()
        self._connection.request("POST", "/do/events", json.dumps(given), page.headers())
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200
        self.rows = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._answer.close()
        self._connection.close()

    def next(self, deadline=float("inf")):
        """Return the name and data of the next event; rows are stored in `rows`."""
        name = None
        while line := self._answer.readline().decode():  # an empty one comes every few seconds, if nothing else does
            assert time.monotonic() < deadline, f"waited in vain; the rows are {self.rows}"
            word, _, rest = line.rstrip("\n").partition(": ")
            if word == "event":
                name = rest
            elif word == "data":
                data = json.loads(rest)
                for row in data.get("rows", ()) if name == "rows" else ():
                    known = self.rows.setdefault(row["id"], {"newOutput": ""})
                    parts = [known["newOutput"], row.get("newOutput", "")]
                    merged = {**row, **known} if data["older"] else {**known, **row}
                    known.update(merged, newOutput="".join(reversed(parts) if data["older"] else parts))
                return name, data
        raise ConnectionError("the events are over")

    def until(self, is_so):
        """Read until the rows satisfy a condition, and return its value."""
        deadline = time.monotonic() + WAIT_S
        while not (found := is_so([*self.rows.values()])):
            self.next(deadline)
        return found

    def row(self, **expected):
        """Read until a row has all of these values."""
        return self.until(lambda rows: next((r for r in rows if expected.items() <= r.items()), None))
