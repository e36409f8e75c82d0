"""The page's port, spoken to as the page does, and byte for byte."""

import contextlib
import http.client
import json
import re
import socket
import time

from live_server import WAIT_S

ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/#([A-Za-z0-9_-]{43})\n")


def opened(live):
    """The page of a server, opened by the command: its port and its token."""
    done = live.run("watch", "--web")
    found = ADDRESS.fullmatch(done.stdout)
    assert found, (done.stdout, done.stderr)
    return PageClient(int(found[1]), found[2])


class PageClient:
    """What the page does with its port."""

    def __init__(self, port, token):
        self.port, self.token = port, token
        self.origin = f"http://127.0.0.1:{port}"
        self.address = f"{self.origin}/#{token}"

    def headers(self, **others):
        given = {
            "Host": f"127.0.0.1:{self.port}", "Origin": self.origin, "Sec-Fetch-Site": "same-origin",
            "Content-Type": "application/json", "Codriver-Token": self.token,
        }  # fmt: skip
        return {name: value for name, value in {**given, **others}.items() if value is not None}

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)

    def call(self, name, /, **arguments):
        """The answer to a call."""
        connection = self.connection()
        try:
            connection.request("POST", f"/do/{name}", json.dumps(arguments), self.headers())
            answer = connection.getresponse()
            assert answer.status == 200, (answer.status, name)
            return json.loads(answer.read())
        finally:
            connection.close()

    def tool(self, name, /, **arguments):
        return self.call(name, **arguments)["answer"]

    def frame(self, address):
        """What is at the address of a table: its status, its headers and its text."""
        connection = self.connection()
        try:
            connection.request("GET", address, headers={"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "iframe"})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()

    def raw(self, data):
        """All that comes back for these bytes until the server hangs up, or our side is closed."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S) as sock:
            came = b""
            with contextlib.suppress(OSError):
                sock.sendall(data)
                sock.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionError):
                while more := sock.recv(65536):
                    came += more
            return came


class Events:
    """The events that the page is told. A context manager."""

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
        """The next event, by its name, and its data; what is said of rows is kept in `rows`."""
        name = None
        while line := self._answer.readline().decode():  # an empty one comes every few seconds, if nothing else does
            assert time.monotonic() < deadline, f"waited in vain; the rows are {self.rows}"
            word, _, rest = line.rstrip("\n").partition(": ")
            if word == "event":
                name = rest
            elif word == "data":
                data = json.loads(rest)
                for row in data.get("rows", ()) if name == "rows" else ():
                    known = self.rows.setdefault(row["id"], {"said": ""})
                    said = known["said"] + row.get("said", "")
                    known.update(row, said=said)
                return name, data
        raise ConnectionError("the events are over")

    def until(self, is_so):
        """Read until something is so of the rows; what it gave."""
        deadline = time.monotonic() + WAIT_S
        while not (found := is_so([*self.rows.values()])):
            self.next(deadline)
        return found

    def row(self, **wanted):
        """Read until a row has all of this."""
        return self.until(lambda rows: next((r for r in rows if wanted.items() <= r.items()), None))
