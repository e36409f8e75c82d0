"""Recordings: evaluations as the log has them, read from its entries, chosen from, and kept as lines of JSON."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from codriver.core.values import CHECKPOINT, checkpoint_name
from codriver.errors import CodriverError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

FORMAT: Final = "codriver-recording"
VERSION: Final = 1
LOADED: Final = "load "
"""How the log begins to say that what follows is a file's text; its absolute path follows."""


class RecordingError(CodriverError):
    """A file is no recording that this version reads."""

    def __init__(self, why: str) -> None:
        super().__init__(f"this is no recording: {why}; `codriver export --format recording` writes one")


class NothingChosenError(CodriverError):
    """The log has nothing of what was asked for."""

    def __init__(self, asked: str) -> None:
        super().__init__(f"no evaluation in the log {asked}: `codriver log` shows those there are")


@dataclass(frozen=True, slots=True)
class Recorded:
    """One evaluation: its code, where it ran, and what came of it. `time` is epoch milliseconds.

    `values` are those of its forms or expressions in order. `file` is given where the code is that file's text.
    `ending` says how it ended where it did not by itself, as when it was interrupted.
    """

    id: str
    code: str
    who: str = ""
    namespace: str = ""
    description: str = ""
    file: str = ""
    values: tuple[str, ...] = ()
    out: str = ""
    err: str = ""
    ending: str = ""
    time: int = 0


@dataclass(frozen=True, slots=True)
class Recording:
    """Evaluations of one session in order, and the REPL they ran in: its dialect, and the words that start one."""

    dialect: str
    repl: str
    evaluations: tuple[Recorded, ...]
    is_of_kernel: bool = False
    """Whether they are cells: a kernel tells what each displays, and the value of its last form alone."""


T = TypeVar("T")
UNKNOWN_NAME: Final = re.compile(r"\bname '(\w+)' is not defined|nable to resolve symbol:? '?([^\s']+)")
"""How REPLs say that a name is unknown to them."""
NAME: Final = re.compile(r"[^\s()\[\]{}\"'`,;:.@^~=+*/<>|&%#\\]+")
SURROGATE: Final = re.compile("[\ud800-\udfff]")
TEXTS: Final = {
    "evaluationResults": "values",
    "evaluationOutput": "out",
    "evaluationErrorOutput": "err",
    "otherErrorOutput": "ending",
}
"""By category of an entry: the field that its text is added to."""


def recorded(entries: Iterable[Mapping[str, Any]]) -> tuple[Recorded, ...]:
    """The evaluations that entries of the log tell of, in the order in which they began.

    One whose code is not among the entries is left out: the log has let go of it.
    """
    found: dict[str, Recorded] = {}
    said: dict[str, str] = {}
    for entry in entries:
        name, text = str(entry.get("evaluation", "")), str(entry["text"])
        if not name:
            continue
        if entry["category"] == "otherOutput" and name not in found:
            said[name] = text
        elif entry["category"] == "evaluatedCode":
            found[name] = _begun(entry, name, said.get(name, ""))
        elif name in found and (field := TEXTS.get(entry["category"])):
            found[name] = _with(found[name], field, text)
    return tuple(found.values())


def _begun(entry: Mapping[str, Any], name: str, said: str) -> Recorded:
    file = said.removeprefix(LOADED) if said.startswith((f"{LOADED}/", f"{LOADED}~")) else ""
    return Recorded(
        name,
        str(entry["text"]),
        who=str(entry.get("who", "")),
        namespace=str(entry.get("ns", "")),
        description="" if file else said,
        file=file,
        time=int(entry.get("timestamp", 0)),
    )


def _with(before: Recorded, field: str, text: str) -> Recorded:
    if field == "values":
        return replace(before, values=(*before.values, text))
    return replace(before, **{field: getattr(before, field) + text})


def since_checkpoint(evaluations: Sequence[Recorded], name: str) -> tuple[Recorded, ...]:
    """The evaluations from the newest checkpoint of this name on, itself among them.

    Raises:
        NothingChosenError: there is none.
    """
    wanted = " ".join(name.split())
    for place in range(len(evaluations) - 1, -1, -1):
        if wanted and checkpoint_name(evaluations[place].description) == wanted:
            return tuple(evaluations[place:])
    raise NothingChosenError(f"is described as `{CHECKPOINT}: {name}`")


def names_unknown(notes: Iterable[str]) -> frozenset[str]:
    """The names that, as these notes on steps say, a fresh REPL does not know."""
    return frozenset(found[1] or found[2].rpartition("/")[2] for note in notes for found in UNKNOWN_NAME.finditer(note))


def last_that_define(evaluations: Sequence[Recorded], last: int, names: Iterable[str]) -> int:
    """The number of evaluations, from the last one back, that define these names too, and what those need.

    It is `last` where none before them does. What defines a name is known by the shape of the code.
    """
    needed, most = set(names), last
    for number in range(last + 1, len(evaluations) + 1):
        code = evaluations[-number].code
        defined = {name for name in needed if _defines(code, name)}
        if defined:
            needed, most = needed - defined | set(NAME.findall(code)), number
    return most


def _defines(code: str, name: str) -> bool:
    if name not in code:
        return False
    word = rf"(?<![\w.-]){re.escape(name)}(?![\w-])"
    assigned = rf"^(?:[\w, *]+,\s*)?{word}[\w, *]*(?::[^=\n]*)?=(?!=)"
    python = rf"^(?:async\s+)?(?:def|class)\s+{word}|^(?:import|from)\s.*{word}|{assigned}"
    lisp = rf"^\s*\([^\s()]*def[^\s()]*\s+(?:\^\S+\s+)*{word}|:as\s+{word}|:refer\s+\[[^\]]*{word}"
    return re.search(f"{python}|{lisp}", code, re.MULTILINE) is not None


def of_ids(evaluations: Sequence[Recorded], ids: Iterable[str]) -> tuple[Recorded, ...]:
    """The evaluations of these ids, in the order in which they ran.

    Raises:
        NothingChosenError: one is not there.
    """
    wanted = set(ids)
    if missing := wanted - {evaluation.id for evaluation in evaluations}:
        raise NothingChosenError(f"has the id {', '.join(sorted(missing))}")
    return tuple(evaluation for evaluation in evaluations if evaluation.id in wanted)


def as_lines(recording: Recording) -> str:
    """A recording as a file: a line of JSON on the whole, and one for each evaluation; a line feed alone ends one.

    Half of a surrogate pair, which UTF-8 cannot hold, is written as JSON escapes it.
    """
    head = {"format": FORMAT, "version": VERSION, "dialect": recording.dialect, "repl": recording.repl}
    head |= {"cells": True} if recording.is_of_kernel else {}
    rows = [head, *(_row(one) for one in recording.evaluations)]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def _row(one: Recorded) -> dict[str, Any]:
    """The fields of an evaluation that say something; its id and code always, which a reader asks for."""
    return {name: value for name, value in asdict(one).items() if value or name in {"id", "code"}}


def from_lines(text: str) -> Recording:
    """The recording in a file.

    Raises:
        RecordingError: it holds none, or one of a newer version.
    """
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise RecordingError("it is empty")
    dialect, repl, is_of_kernel = _parsed(*lines[0], _head)
    evaluations = tuple(_parsed(number, line, _read) for number, line in lines[1:])
    return Recording(dialect, repl, evaluations, is_of_kernel)


def _parsed(number: int, line: str, read: Callable[[Mapping[str, Any]], T]) -> T:
    """One line of a recording, read.

    Raises:
        RecordingError: it cannot be; the line is named.
    """
    try:
        row = json.loads(line)
        if not isinstance(row, dict):
            raise RecordingError(f"line {number} is no JSON object")
        return read(row)
    except KeyError as error:
        raise RecordingError(f"line {number} has no {error}") from error
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise RecordingError(f"line {number} cannot be read ({error})") from error


def _head(row: Mapping[str, Any]) -> tuple[str, str, bool]:
    """The dialect and the REPL that the first line names, and whether that was a kernel."""
    if row["format"] != FORMAT or row["version"] != VERSION:
        raise RecordingError(f"it is of the format {row['format']!r}, version {row['version']!r}")
    return str(row["dialect"]), str(row["repl"]), row.get("cells") is True


def _read(row: Mapping[str, Any]) -> Recorded:
    texts = {
        name: str(row[name])
        for name in ("who", "namespace", "description", "file", "out", "err", "ending")
        if name in row
    }
    told = row.get("values", [])
    if not isinstance(told, list):
        raise TypeError(f"its values are no list but {type(told).__name__}")
    values = tuple(map(str, told))
    return Recorded(str(row["id"]), str(row["code"]), values=values, time=int(row.get("time", 0)), **texts)
