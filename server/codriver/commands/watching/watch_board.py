"""The board of `codriver watch`: one row an evaluation, from the log's entities to lines of a screen. No terminal."""

from __future__ import annotations

import time
import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from codriver.commands.answer_reading import NOT_ENDED
from codriver.commands.log_follower import APP_EVENT
from codriver.commands.terminal import Styled
from codriver.log.control_characters import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_ROWS = 2000
MAX_EVENTS = 500
LOOKED_AT = 2000
"""Characters of a text that are kept: a row shows a fraction, and a search looks through these."""
ASKED_AT_START = 60
"""Evaluations of before the start of which the end is asked for: about what the first screen shows."""
WHO_CELLS, WHERE_CELLS, TOOK_CELLS = 14, 10, 9
"""A time is as long as `59 m 59 s` at most: an evaluation may take a day."""
ROOMY, NARROW, TIGHT = 100, 60, 34
"""Screen widths from which on there is room for the time, for the session, and for the result."""
PALETTE = ("cyan", "magenta", "blue", "yellow", "green", "bright_cyan", "bright_magenta", "bright_blue")
BROKEN = frozenset({"failed", "lost", "interrupted"})
SIGNS = {"queued": "·", "running": "…", "needs-input": "?", "failed": "✗", "lost": "✗", "interrupted": "✗"}
NOTHING = frozenset({"", "None", "nil"})
"""Results that say less than any output."""


JOINERS = dict.fromkeys(map(ord, "\u200c\u200d"))

Line = tuple["str | Styled", ...]
"""A line of the screen, as pieces of text."""


@dataclass(slots=True)
class Row:
    """One evaluation, or one thing said by nobody's evaluation. Times are epoch milliseconds."""

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
    """Whether an application told it."""

    @property
    def is_broken(self) -> bool:
        """Whether it ended other than it should, or is an error itself."""
        return self.status in BROKEN or bool(self.error)

    def has(self, wanted: str) -> bool:
        """Whether any of its texts contains `wanted`, in lower case."""
        texts = (self.who, self.where, self.text, self.result, self.error, self.said)
        return any(wanted in text.lower() for text in texts)


@dataclass(slots=True)
class View:
    """The part of the board to show. `only`: None for everything, `ERRORS`, or a `who`. `back`: rows above the end."""

    only: str | None = None
    search: str = ""
    typing: bool = False
    """Whether what is typed goes into the search."""
    paused_at: int | None = None
    """The newest line when the screen was paused."""
    back: int = 0
    hides_events: bool = False


ERRORS = "!"
"""Not a `who`, as those are slugs."""


@dataclass(slots=True)
class Board:
    """The rows of all that was seen. `head` names what is watched; `trouble` replaces it while no server is reached."""

    head: str
    trouble: str = ""
    rows: list[Row] = field(default_factory=list)
    _by_evaluation: dict[str, Row] = field(default_factory=dict)
    _colours: dict[str, str] = field(default_factory=dict)
    last_line: int = 0
    _lines_before: int = 0
    """What is added to a line, so that those of one server come after those of the server before it."""

    def begin_server(self) -> None:
        """Expect the log of another server from now on, whose lines begin where they will."""
        self._lines_before = self.last_line

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
        """Let the oldest events go, so that evaluations stay among however many."""
        events = [row.line for row in self.rows if row.is_event]
        if len(events) > MAX_EVENTS:
            first = events[-MAX_EVENTS]
            self.rows = [row for row in self.rows if not row.is_event or row.line >= first]

    def _take(self, entry: Mapping[str, Any]) -> None:
        category, text = entry["category"], clean(entry["text"])
        if category == APP_EVENT:
            # Its evaluation has a row of its own.
            event = self._row({**entry, "evaluation": None}, text, status="")
            event.is_event, event.error = True, text if entry.get("op") == "error" else ""
            return
        evaluation = entry.get("evaluation")
        row = self._by_evaluation.get(evaluation) if evaluation else None
        if category in ("otherOutput", "otherErrorOutput"):
            if evaluation is None:
                said = self._row(entry, text, status="")
                said.error = text if category == "otherErrorOutput" else ""
            return
        if row is None:
            row = self._row(entry, text if category == "evaluatedCode" else "", status="running")
        if category == "evaluationResults":
            row.result = text
        elif category != "evaluatedCode":
            row.said = text or row.said

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
        """The evaluations whose end is not known, the oldest first."""
        return [row.evaluation for row in self.rows if row.evaluation and row.status in NOT_ENDED]

    def note_status(self, evaluation: str, answer: Mapping[str, Any]) -> None:
        """Note the status that `get_evaluation` tells; an answer that does not know is the end of asking."""
        row = self._by_evaluation.get(evaluation)
        if row is None:
            return
        row.status = answer.get("status", "unknown")
        row.took_ms = answer.get("elapsedMs")
        error = answer.get("error") or {}
        kind = str(error.get("class") or "").rsplit(".", 1)[-1]  # the package would take the room of the message
        row.error = clean(": ".join(filter(None, (kind, str(error.get("message") or "")))))

    def callers(self) -> list[str]:
        """Everybody who evaluated, in the order they first did."""
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
        body = [self._line(row, columns, now) for row in shown[max(0, end - room) : end]]
        return [self._header(view, columns), *body, *[()] * (room - len(body)), self._footer(view, columns)]

    def _header(self, view: View, columns: int) -> Line:
        running = sum(row.status in NOT_ENDED for row in self.rows)
        broken = sum(row.is_broken for row in self.rows)
        state = "live"
        if view.paused_at is not None:
            state = f"paused, {sum(row.line > view.paused_at for row in self.rows)} new"
        counts = f"{len(self.callers())} callers  {running} running  {broken} errors  {state}"
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
        return (Styled(fit(f"q quit  space pause  f show: {only}{events}  / search{search}", columns), dim=True),)

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


def _outcome(row: Row) -> str:
    """The outcome of an evaluation, as far as it is known."""
    sign = SIGNS.get(row.status, "=" if row.result else "")
    nothing = row.status in NOT_ENDED or row.result in NOTHING
    text = row.error or (row.said or row.result if nothing else row.result)
    more = "  (and output)" if row.said and text != row.said else ""
    return f"{sign} {text}{more}".strip()


def _took(row: Row, now: int) -> str:
    """The time it takes or took, right-aligned."""
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
    # How many cells joined characters take, each terminal decides for itself.
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
    """The filter after this one, in the ring of everything, errors, and each caller."""
    ring: list[str | None] = [None, ERRORS, *choices]
    place = ring.index(current) if current in ring else 0
    return ring[(place + step) % len(ring)]
