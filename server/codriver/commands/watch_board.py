"""The board of `codriver watch`: one row an evaluation, from the log's entities to lines of a screen. No terminal."""

from __future__ import annotations

import re
import time
import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from codriver.commands.followers import APP_EVENT
from codriver.commands.terminal import NOT_ENDED, Styled
from codriver.core.pictures import marked, pictures_in
from codriver.log.control_characters import visible
from codriver.log.handoff_report import LOADED, RAN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_ROWS = 2000
MAX_EVENTS = 500
LOOKED_AT = 2000
"""Characters kept of a text: a row shows a fraction, and a search looks through these."""
ASKED_AT_START = 60
"""The number of earlier evaluations whose end is asked for at the start: about as many as a screen shows."""
WHO_CELLS, WHERE_CELLS, TOOK_CELLS = 14, 10, 9
"""The widest time is `59 m 59 s`: an evaluation may take a day."""
ROOMY, NARROW, TIGHT = 80, 60, 34
"""Screen widths with room for the time, for the session, and for the result."""
PALETTE = ("cyan", "magenta", "blue", "yellow", "green", "bright_cyan", "bright_magenta", "bright_blue")
BROKEN = frozenset({"failed", "lost", "interrupted"})
SIGNS = {"queued": "·", "running": "…", "needs-input": "?", "failed": "✗", "lost": "✗", "interrupted": "✗"}
ENDED_BY_OTHERS = frozenset({"lost", "interrupted"})
ENDED = re.compile(r"evaluation \S+ of \S+(?: was lost)?: ")
"""The beginning of the words on an evaluation that did not end by itself; the reason follows."""
KEYS_HELP = (
    ("↑ ↓ PgUp PgDn", "go back and forth, which pauses; Home and End too, and j and k"),
    ("space", "pause, or go on live"),
    ("f F", "show errors alone, or one caller after the other"),
    ("a", "hide or show what applications tell"),
    ("/", "search; Enter ends typing, Esc takes the search away"),
    ("Esc", "show everything again"),
    ("? q", "close these words; quit"),
)
NOTHING = frozenset({"", "None", "nil"})
"""Results that say less than any output does."""


JOINERS = dict.fromkeys(map(ord, "\u200c\u200d"))

Line = tuple["str | Styled", ...]
"""A line of the screen, as pieces of text."""


@dataclass(slots=True)
class Row:
    """One evaluation, or one entry without an evaluation. Times are epoch milliseconds."""

    line: int
    who: str
    where: str
    text: str
    began: int
    evaluation: str | None = None
    status: str = "running"
    result: str = ""
    error: str = ""
    said: str = ""
    """The last line of output."""
    took_ms: int | None = None
    is_event: bool = False
    """Whether the row is an application's event."""
    is_tests: bool = False
    """Whether the row is a run of tests."""
    pictures: int = 0
    """The number of pictures that the evaluation showed."""

    @property
    def is_broken(self) -> bool:
        """Whether the row ended otherwise than it should, or is an error itself."""
        return self.status in BROKEN or bool(self.error)

    def has(self, wanted: str) -> bool:
        """Whether any of the row's texts contains `wanted`, in lower case."""
        texts = (self.who, self.where, self.text, self.result, self.error, self.said, "picture" * bool(self.pictures))
        return any(wanted in text.lower() for text in texts)


@dataclass(slots=True)
class View:
    """The part of the board to show. `only`: None for everything, `ERRORS`, or a `who`. `back`: rows above the end."""

    only: str | None = None
    search: str = ""
    typing: bool = False
    """Whether typed text goes into the search."""
    paused_at: int | None = None
    """The newest line when the screen was paused."""
    back: int = 0
    hides_events: bool = False
    shows_keys: bool = False


ERRORS = "!"
"""The filter for errors; no `who`, as those are slugs."""


@dataclass(slots=True)
class Board:
    """The rows of entries seen. `head` names the workspace; `trouble` replaces it while no server is reached."""

    head: str
    trouble: str = ""
    root: str = ""
    """The workspace, in which files are named from it."""
    rows: list[Row] = field(default_factory=list)
    _by_evaluation: dict[str, Row] = field(default_factory=dict)
    _colours: dict[str, str] = field(default_factory=dict)
    _loads: dict[str, str] = field(default_factory=dict)
    """By evaluation that has not begun: the file that its code loads."""
    last_line: int = 0
    _lines_before: int = 0
    """The number added to a line, so that the lines of one server come after those of the server before."""

    def begin_server(self) -> None:
        """Expect the log of another server from now on, whose lines may begin anywhere."""
        self._lines_before = self.last_line

    def end_server(self, now: int) -> None:
        """End the running evaluations, as their server is gone."""
        for row in self.rows:
            if row.evaluation and row.status in NOT_ENDED:
                row.status, row.error, row.took_ms = "lost", "its server ended", max(0, now - row.began)

    def take(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Take in entities of the log, in the order of their lines."""
        for entry in entries:
            self.last_line = max(self.last_line, self._lines_before + entry["line"])
            self._take(entry)
        self._drop_events()
        if len(self.rows) > MAX_ROWS:
            for gone in self.rows[:-MAX_ROWS]:
                self._by_evaluation.pop(gone.evaluation or "", None)
            del self.rows[:-MAX_ROWS]

    def _drop_events(self) -> None:
        """Drop the oldest events, so that evaluations stay among however many events."""
        events = [row.line for row in self.rows if row.is_event]
        if len(events) > MAX_EVENTS:
            first = events[-MAX_EVENTS]
            self.rows = [row for row in self.rows if not row.is_event or row.line >= first]

    def _take(self, entry: Mapping[str, Any]) -> None:
        category, text = entry["category"], clean(entry["text"])
        if category == APP_EVENT:
            # The event's evaluation has a row of its own.
            event = self._row({**entry, "evaluation": None}, text, status="")
            event.is_event, event.error = True, text if entry.get("op") == "error" else ""
            return
        evaluation = entry.get("evaluation")
        row = self._by_evaluation.get(evaluation) if evaluation else None
        if category in ("otherOutput", "otherErrorOutput"):
            if evaluation is None:
                said = self._row(entry, text, status="")
                said.error = text if category == "otherErrorOutput" else ""
            else:
                self._take_word(entry, row)
            return
        if row is None:
            code = self._loads.pop(evaluation or "", "") or text
            row = self._row(entry, code if category == "evaluatedCode" else "", status="running")
        if category == "evaluationResults":
            count = len(pictures_in(entry["text"]))
            row.pictures += count
            # A shown figure stands beside the value of the code, and is no value itself.
            row.result = clean(marked(entry["text"], lambda _one: "")) if count else text
        elif category != "evaluatedCode":
            row.said = text or row.said

    def _take_word(self, entry: Mapping[str, Any], row: Row | None) -> None:
        """Take the server's words on an evaluation: the file it loads, its tests' outcome, the reason of its end."""
        evaluation, text = entry["evaluation"], entry["text"].strip()
        if loaded := LOADED.fullmatch(text):
            self._loads[evaluation] = clean(f"load {loaded[1].removeprefix(f'{self.root}/')}")
        elif ran := RAN.fullmatch(text):
            row = row or self._row(entry, "", status="")
            row.is_tests, row.text = True, clean(f"tests: {ran['what']}")
            red = int(ran["failed"]) + int(ran["errors"])
            if row.status in NOT_ENDED or row.took_ms is None:
                row.took_ms = max(0, entry["timestamp"] - row.began) or None
            row.status = "failed" if red or ran["stopped"] else "done"
            row.result = f"{ran['tests']} passed" if not red else ""
            row.error = clean(f"{red} of {ran['tests']} red: {ran['names'] or ''}") if red else ""
            if ran["stopped"]:
                row.error = clean(f"stopped in {ran['stopped']}" + (f"; {row.error}" if row.error else ""))
        elif row is not None and (why := ENDED.match(text)):
            row.error = clean(text[why.end() :])

    def note_tests(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Note the runs of tests under way, of which the log says nothing before their end."""
        for told in rows:
            if told["kind"] == "run-tests" and told["evaluationId"] not in self._by_evaluation:
                began = {"line": self.last_line - self._lines_before, "timestamp": told["began"]}
                named = {"who": told["who"], "repl-session-key": told["sessionKey"], "evaluation": told["evaluationId"]}
                row = self._row({**began, **named}, clean(f"tests: {told['code']}"), status=str(told["status"]))
                row.is_tests = True

    def _row(self, entry: Mapping[str, Any], text: str, *, status: str) -> Row:
        row = Row(
            line=self._lines_before + entry["line"],
            who=clean(entry.get("who", "")),
            where=clean(entry.get("repl-session-key", "")),
            text=text,
            began=entry["timestamp"],
            evaluation=entry.get("evaluation"),
            status=status,
        )
        self.rows.append(row)
        if row.evaluation:
            self._by_evaluation[row.evaluation] = row
            self._colours.setdefault(row.who, PALETTE[len(self._colours) % len(PALETTE)])
        return row

    def unfinished(self) -> list[str]:
        """The evaluations whose end is unknown, the oldest first."""
        return [row.evaluation for row in self.rows if row.evaluation and row.status in NOT_ENDED]

    def note_status(self, evaluation: str, answer: Mapping[str, Any]) -> None:
        """Note the status that `get_evaluation` tells; an answer that does not know is the last question."""
        row = self._by_evaluation.get(evaluation)
        if row is None:
            return
        row.status = answer.get("status", "unknown")
        row.took_ms = answer.get("elapsedMs")
        if row.is_tests:
            if row.status in NOT_ENDED and "tests" in answer:
                red = int(answer["failed"]) + int(answer["errors"])
                of = f" of {answer['of']}" if answer.get("of") else ""
                row.said = f"{answer['tests']}{of}" + (f", {red} red" if red else "")
            return  # the log tells the evaluation's end
        error = answer.get("error") or {}
        kind = str(error.get("class") or "").rsplit(".", 1)[-1]  # the package would take the room of the message
        told = clean(": ".join(filter(None, (kind, str(error.get("message") or "")))))
        row.error = told or row.error

    def callers(self) -> list[str]:
        """Everybody who evaluated, in the order of their first evaluations."""
        return list(self._colours)

    def shown(self, view: View) -> list[Row]:
        """The rows that the view lets through."""
        wanted = view.search.lower()
        return [
            row
            for row in self.rows
            if (view.paused_at is None or row.line <= view.paused_at)
            and (view.only is None or (row.is_broken if view.only == ERRORS else row.who == view.only))
            and (not wanted or row.has(wanted))
            and not (view.hides_events and row.is_event)
        ]

    def screen(self, view: View, columns: int, lines: int, now: int) -> list[Line]:
        """The lines of a screen of this size, from the top, coloured; none is wider than the screen."""
        if lines < 3:
            return [self._footer(view, columns), ()][:lines]
        shown = self.shown(view)
        room = lines - 2
        view.back = max(0, min(view.back, len(shown) - room))
        end = len(shown) - view.back
        body: list[Line] = [self._line(row, columns, now) for row in shown[max(0, end - room) : end]]
        if view.shows_keys:
            body = self._keys(columns)[:room]
        return [self._header(view, columns), *body, *[()] * (room - len(body)), self._footer(view, columns)]

    @staticmethod
    def _keys(columns: int) -> list[Line]:
        return [(fit(f"  {keys:16} {does}", columns),) for keys, does in KEYS_HELP]

    def _header(self, view: View, columns: int) -> Line:
        running = sum(row.status in NOT_ENDED for row in self.rows)
        broken = sum(row.is_broken for row in self.rows)
        state = "live"
        if view.paused_at is not None:
            state = f"paused, {sum(row.line > view.paused_at for row in self.rows)} new"
        callers, errors = _counted(len(self.callers()), "caller"), _counted(broken, "error")
        counts = f"{callers}  {running} running  {errors}  {state}"
        left = clean(self.trouble or self.head)
        room = columns - width(counts) - 2
        text = fit(left, room) + "  " + counts if room >= 10 else counts
        return (Styled(fit(text, columns), reverse=True, bold=bool(self.trouble)),)

    def _footer(self, view: View, columns: int) -> Line:
        if view.typing:
            return (fit(f"/{clean(view.search, keep_end=True)}_", columns),)
        only = {None: "all", ERRORS: "errors"}.get(view.only, clean(view.only or ""))
        search = f" {clean(view.search)}" if view.search else ""
        events = f"  a {'show' if view.hides_events else 'hide'} app" if any(row.is_event for row in self.rows) else ""
        keys = f"q quit  space pause  f show: {only}{events}  / search{search}  ↑↓ back  ? keys"
        return (Styled(fit(keys, columns), dim=True),)

    def _line(self, row: Row, columns: int, now: int) -> Line:
        cells: list[tuple[str, int, dict[str, Any]]] = []
        if columns >= ROOMY:
            cells.append((time.strftime("%H:%M:%S", time.localtime(row.began / 1000)), 8, {"dim": True}))
        who = min(WHO_CELLS, max(4, columns // 5), columns)
        cells.append((row.who or "-", who, {"fg": self._colours.get(row.who), "bold": True}))
        if columns >= NARROW:
            cells.append((row.where, WHERE_CELLS, {"dim": True}))
        took = [(_took(row, now), TOOK_CELLS, {"dim": True})] if columns >= TIGHT else []
        left = columns - sum(size + 1 for _, size, _ in [*cells, *took])
        colour = "red" if row.is_broken else "yellow" if row.status in NOT_ENDED else None
        if not row.evaluation:
            cells.append((row.text, left, {"fg": colour or "bright_black"}))
        elif columns >= TIGHT:
            code = left * 11 // 20
            cells += [(row.text, code, {}), (_outcome(row), left - code - 1, {"fg": colour or "green"})]
        else:
            cells.append((row.text, left, {"fg": colour}))
        pieces: list[str | Styled] = []
        for text, size, style in [*cells, *took]:
            if size > 0:
                pieces += [" " if pieces else "", Styled(fit(text, size), **style)]
        return tuple(pieces)


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"


def _outcome(row: Row) -> str:
    """The outcome of an evaluation, if known."""
    sign = SIGNS.get(row.status, "=" if row.result else "")
    nothing = row.status in NOT_ENDED or row.result in NOTHING
    text = row.error or (row.said or row.result if nothing else row.result)
    if not row.error and row.status in ENDED_BY_OTHERS:
        text = row.status  # the last line of output is no reason
    more = "  (and output)" if row.said and text != row.said and not row.is_tests else ""
    drawn = f"  ({_counted(row.pictures, 'picture')})" if row.pictures else ""
    return f"{sign} {text}{drawn}{more}".strip()


def _took(row: Row, now: int) -> str:
    """The duration so far or in all, right-aligned."""
    taken = now - row.began if row.status in NOT_ENDED else row.took_ms
    if taken is None or not row.evaluation:
        return ""
    if taken < 1000:
        shown = f"{max(0, taken)} ms"
    elif taken < 60_000:
        shown = f"{taken / 1000:.1f} s"
    elif taken < 3_600_000:
        shown = f"{taken // 60_000} m {taken // 1000 % 60:02} s"
    else:
        shown = f"{taken // 3_600_000} h {taken // 60_000 % 60:02} m"
    return shown.rjust(TOOK_CELLS)


def clean(text: str, *, keep_end: bool = False) -> str:
    """The text on one line, harmless to a terminal: control characters are spelt out, joiners left out."""
    kept = text[-LOOKED_AT:] if keep_end else text[:LOOKED_AT]
    kept = kept.replace("\n", " ").replace("\t", " ") if keep_end else " ".join(kept.split())
    if kept.isascii() and kept.isprintable():
        return kept
    # Each terminal decides for itself how many cells joined characters take.
    return visible(kept).translate(JOINERS)


def width(text: str) -> int:
    """The cells that a text takes in a terminal."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def fit(text: str, cells: int) -> str:
    """The text in exactly so many cells: filled up, or cut with an ellipsis."""
    if cells <= 0:
        return ""
    taken = width(text)
    if taken <= cells:
        return text + " " * (cells - taken)
    kept: list[str] = []
    left = cells - 1
    for char in text:
        left -= _cells(char)
        if left < 0:
            left += _cells(char)
            break
        kept.append(char)
    return "".join(kept) + "…" + " " * left


def next_filter(choices: Sequence[str], current: str | None, step: int) -> str | None:
    """The next filter in the ring of everything, errors, and each caller."""
    ring: list[str | None] = [None, ERRORS, *choices]
    place = ring.index(current) if current in ring else 0
    return ring[(place + step) % len(ring)]
