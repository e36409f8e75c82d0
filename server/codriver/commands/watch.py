"""`codriver watch`: evaluations live in the terminal, with callers, sessions and results, on a screen or as lines."""

from __future__ import annotations

import os
import sys
import threading
import time
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from codriver.commands.followers import APP_EVENT, GAP, RETRY_S, Follower, FollowError, followed
from codriver.commands.log import INTERRUPTED, SHOWN_BYTES, shown
from codriver.commands.options import workspace_option
from codriver.commands.terminal import reading, say
from codriver.commands.watch_board import ASKED_AT_START, Board, View, next_filter
from codriver.errors import CodriverError
from codriver.files.own_folders import page_redirect_file
from codriver.net import client
from codriver.net.page_redirect import write_redirect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from codriver.commands.watch_screen import Screen

AT_START = 500
"""The number of earlier entities shown at the start."""
LOOK_AGAIN_MS = 500
"""How long the end of a silent evaluation may go unseen."""
TESTS_MS = 1000
"""How long the begin of a run of tests may go unseen, as no log entry tells it."""
CLOSES = (
    "Open it in a browser on this machine. The address works once, within ten minutes. "
    "The page closes ten minutes after nobody looks at it any more."
)
WEAKER = (
    "127.0.0.1 is the weaker choice: whatever other programs once served at the same address and port (pages, service "
    "workers) can read this page. Use it only where your browser cannot open the page's own name."
)
NO_BROWSER = "No browser could be started: open the address yourself."
CLOCK_S = 0.5
"""How often the time of running evaluations is drawn anew."""


@click.command("watch")
@click.option("--who", help="Only what this caller evaluates.")
@click.option("--search", default="", help="Only entries that contain this text.")
@click.option("--web", is_flag=True, help="Print the address of a page that shows it, for a browser here.")
@click.option("--open", "opens", is_flag=True, help="With --web: open the page in your browser.")
@click.option(
    "--address",
    type=click.Choice(["127.0.0.1"]),
    help="With --web: the host in the address, for a browser that cannot open the page's own name. Weaker.",
)
@workspace_option
def watch_command(
    *, who: str | None, search: str, web: bool, opens: bool, address: str | None, workspace: Path
) -> None:
    """Watch live who evaluates what, where, and what comes of it. Keys: space, f, a, /, arrows, q; ? says them."""
    workspace = workspace.resolve()
    if web:
        if who or search:
            raise click.UsageError("--web takes neither --who nor --search: the page has fields for both")
        if opens and address:
            raise click.UsageError("--open works with the page's own name only: leave one of --open and --address out")
        _show_page(workspace, address or "", opens=opens)
        return
    if opens or address:
        raise click.UsageError("--open and --address belong to --web")
    try:
        if sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb" and (screen := _screen()):
            _watch_on_screen(workspace, View(only=who, search=search), screen)
        else:
            _watch_plainly(workspace, who, search.lower())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


class NoPageError(CodriverError):
    """The server cannot open its page."""


def page_address(workspace: Path, host: str = "") -> str:
    """Return an address that opens the page of the workspace's server once.

    `host`: the host in the address, `""` for the page's own name.

    Raises:
        NoServerError: there is no server.
        NoPageError: the server cannot open its page.
    """
    answer = client.ask_for_page(workspace, host)
    address = answer.get("address")
    if not isinstance(address, str):
        raise NoPageError(str(answer.get("problem") or "the server gave no address: restart it"))
    return address


def _show_page(workspace: Path, host: str, *, opens: bool) -> None:
    say(page_address(workspace, host))
    say(CLOSES, err=True)
    if host:
        say(WEAKER, err=True)
    if opens:
        import webbrowser  # noqa: PLC0415  # only for this

        # A code of its own, in a file: others can read the command line of the browser.
        file = page_redirect_file(workspace)
        write_redirect(file, page_address(workspace, host))
        if not webbrowser.open(file.as_uri()):
            say(NO_BROWSER, err=True)


def _screen() -> Screen | None:
    """The terminal as a screen; None, after a word on the reason, for one that cannot be a screen."""
    try:
        from codriver.commands.watch_screen import Screen, UnknownTerminalError  # noqa: PLC0415  # only for a terminal
    except (ImportError, KeyError):  # no curses, or no signals
        say("the live screen needs curses, which Python has on Linux and macOS: here come plain lines", err=True)
        return None
    try:
        return Screen(is_coloured=not os.environ.get("NO_COLOR"))
    except UnknownTerminalError:
        say("the live screen needs a terminal that terminfo describes: here come plain lines; set TERM", err=True)
        return None


def _watch_plainly(workspace: Path, who: str | None, search: str) -> None:
    """Print one entity after the other, for ever."""
    with client.connect(workspace, name="codriver-watch") as connection:
        entries, since = _newest(connection, AT_START)
        follower = Follower(connection, since, who, max_text_bytes=SHOWN_BYTES, events=True)
        entries = [entry for entry in entries if who is None or entry.get("who") == who]
        for coming in chain([entries], followed(follower, workspace, "codriver-watch")):
            with reading("repl_output_log"):
                lines = [shown(entry) for entry in coming if search in entry["text"].lower()]
            for line in lines:
                say(*line)


def _newest(connection: client.Connection, count: int) -> tuple[list[dict[str, Any]], int]:
    """The newest entities of the log, with the newest events of applications among them, and the line to go on from.

    Raises:
        FollowError: the server refuses.
    """
    answer = _listed(connection, limit=count)
    with reading("repl_output_log"):
        entries: list[dict[str, Any]] = answer["result"]
        last_line = max([int(entry["line"]) for entry in entries], default=0)
        if answer.get("appEvents"):
            events = _listed(connection, limit=count, category=[APP_EVENT])["result"]
            entries = sorted([*entries, *events], key=lambda entry: int(entry["line"]))
        # Entities that came in between come again, as they have later lines.
        return [entry for entry in entries if entry["line"] <= last_line], last_line


def _listed(connection: client.Connection, **asked: object) -> dict[str, Any]:
    answer = connection.call("repl_output_log", {"maxTextBytes": SHOWN_BYTES, **asked})
    if not answer.get("ok"):
        raise FollowError(answer)
    return answer


def _watch_on_screen(workspace: Path, view: View, terminal: Screen) -> None:
    """Draw the board at each change, until `q`."""
    connection = client.connect(workspace, name="codriver-watch")  # without a server the reason is plain text
    feed = _Feed(workspace, connection)
    with terminal as screen:
        threading.Thread(target=feed.run, args=(screen.wake,), daemon=True).start()
        while True:
            with feed.lock:
                lines = feed.board.screen(view, *screen.size, now=time.time_ns() // 1_000_000)
                busy = bool(feed.board.unfinished())
            screen.draw(lines)
            try:
                keys = screen.keys(CLOCK_S if busy else 60)
            except EOFError:
                return
            for key in keys:
                if not _press(key, view, feed, screen):
                    return


def _press(key: str, view: View, feed: _Feed, screen: Screen) -> bool:
    """Act on a key; false at the end."""
    if view.typing:
        _type(key, view)
        return True
    page = max(1, screen.size[1] - 3)
    moves = {"up": 1, "k": 1, "down": -1, "j": -1, "page-up": page, "page-down": -page, "home": 10**9, "end": -(10**9)}
    if key == "q":
        return False
    with feed.lock:
        if key == "?" or (view.shows_keys and key in ("escape", "enter")):
            view.shows_keys = not view.shows_keys
        elif key == " ":
            view.paused_at = feed.board.last_line if view.paused_at is None else None
            view.back = 0
        elif key in ("f", "F"):
            view.only = next_filter(feed.board.callers(), view.only, 1 if key == "f" else -1)
        elif key == "a":
            view.hides_events = not view.hides_events
        elif key == "/":
            view.typing = True
        elif key == "escape":
            view.only, view.search = None, ""
        elif key in moves:
            if view.paused_at is None:  # rows being read must not move away
                view.paused_at = feed.board.last_line
            view.back = max(0, view.back + moves[key])
    return True


def _type(key: str, view: View) -> None:
    """Take a key while the search is typed."""
    if key == "enter":
        view.typing = False
    elif key == "escape":
        view.typing, view.search = False, ""
    elif key == "backspace":
        view.search = view.search[:-1]
    elif len(key) == 1:
        view.search += key


class _Feed:
    """Keeps the board, which `lock` guards, up to date from a thread of its own; a restarted server is found again."""

    def __init__(self, workspace: Path, connection: client.Connection) -> None:
        self.board = Board(head=f"codriver watch {workspace}", root=str(workspace))
        self.lock = threading.Lock()
        self._workspace = workspace
        self._connection = connection
        self._session: str | None = None
        self._since = 0
        """The last line taken from the log of the server `_session`: the next server's lines may begin before it."""
        self._is_first = True

    def run(self, changed: Callable[[], None]) -> None:
        """Update for ever; `changed` is called after each change."""
        while True:
            try:
                self._follow(changed)
            except (CodriverError, OSError, ValueError) as error:
                self._say_trouble(error, changed)
            self._connection.close()
            self._connection = self._next_connection(changed)

    def _next_connection(self, changed: Callable[[], None]) -> client.Connection:
        while True:
            time.sleep(RETRY_S)
            try:
                return client.connect(self._workspace, name="codriver-watch")
            except (CodriverError, OSError, ValueError) as error:
                if isinstance(error, client.NoServerError):
                    with self.lock:
                        self.board.end_server(time.time_ns() // 1_000_000)
                self._say_trouble(error, changed)

    def _say_trouble(self, error: Exception, changed: Callable[[], None]) -> None:
        with self.lock:
            self.board.trouble = f"server lost, trying again: {error}"
        changed()

    def _follow(self, changed: Callable[[], None]) -> None:
        if self._is_first or self._session != self._connection.session:
            self._begin_server()
        with self.lock:
            self.board.trouble = ""
        follower = Follower(self._connection, self._since, max_text_bytes=SHOWN_BYTES, events=True)
        while True:
            self._ask_tests()
            busy = self._ask_unfinished()
            changed()
            entries, gap = follower.next(LOOK_AGAIN_MS if busy else TESTS_MS)
            with self.lock, reading("wait_for"):
                self.board.take(entries)
                self.board.trouble = GAP if gap else ""
            self._since = follower.since

    def _begin_server(self) -> None:
        """Take the present log of a server that was not followed before."""
        entries, self._since = _newest(self._connection, AT_START)
        with self.lock, reading("repl_output_log"):
            self.board.end_server(time.time_ns() // 1_000_000)
            self.board.begin_server()
            self.board.take(entries)
            for old in self.board.unfinished()[:-ASKED_AT_START]:
                self.board.note_status(old, {})
        self._is_first, self._session = False, self._connection.session

    def _ask_tests(self) -> None:
        """Ask for runs of tests under way: the log has them only at their end."""
        health, now = self._connection.call("server_health", {}), time.time_ns() // 1_000_000
        with self.lock, reading("server_health"):
            unfinished = health["evaluations"].get("unfinished", ())
            self.board.note_tests({**row, "began": now - row["elapsedMs"]} for row in unfinished)

    def _ask_unfinished(self) -> bool:
        """Ask for the standing of the unfinished evaluations; true if some still are."""
        with self.lock:
            asked = self.board.unfinished()
        for evaluation in asked:
            answer = self._connection.call("get_evaluation", {"evaluationId": evaluation, "maxImages": 0})
            with self.lock, reading("get_evaluation"):
                self.board.note_status(evaluation, answer)
        with self.lock:
            return bool(self.board.unfinished())
