"""Recordings: evaluations as the log has them, read from its entries, chosen from, and kept as lines of JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from codriver.core.values import CHECKPOINT, checkpoint_name
from codriver.errors import CodriverError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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
    """A recording as a file: a line of JSON on the whole, and one for each evaluation."""
    head = {"format": FORMAT, "version": VERSION, "dialect": recording.dialect, "repl": recording.repl}
    rows = [head, *({name: value for name, value in asdict(one).items() if value} for one in recording.evaluations)]
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def from_lines(text: str) -> Recording:
    """The recording in a file.

    Raises:
        RecordingError: it holds none, or one of a newer version.
    """
    try:
        head, *rows = (json.loads(line) for line in text.splitlines() if line.strip())
        if head["format"] != FORMAT or head["version"] != VERSION:
            raise RecordingError(f"it is of the format {head['format']!r}, version {head['version']!r}")
        evaluations = tuple(_read(row) for row in rows)
        return Recording(str(head["dialect"]), str(head["repl"]), evaluations)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise RecordingError(f"a line of it cannot be read ({error})") from error


def _read(row: Mapping[str, Any]) -> Recorded:
    texts = {
        name: str(row[name])
        for name in ("who", "namespace", "description", "file", "out", "err", "ending")
        if name in row
    }
    values = tuple(str(value) for value in row.get("values", ()))
    return Recorded(str(row["id"]), str(row["code"]), values=values, time=int(row.get("time", 0)), **texts)
