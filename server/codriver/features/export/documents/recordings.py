"""Read evaluations from the log, and save them to a file as a recording."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from codriver.core.checkpoints import CHECKPOINT_PREFIX, checkpoint_name
from codriver.errors import CodriverError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

FORMAT_NAME: Final = "codriver-recording"
"""The name of the format, in the first line of a recording."""
FORMAT_VERSION: Final = 1
"""The version of the format."""
LOADED_FILE_PREFIX: Final = "load "
"""Prefix of a log entry with the text of a loaded file. The file's absolute path follows."""


class RecordingError(CodriverError):
    """Raised when a file is not a recording or has an unsupported version."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"this is not a recording: {why}. To write a recording, run `codriver export --format recording`"
        )


class EvaluationsNotFoundError(CodriverError):
    """Raised when the log does not contain the requested evaluations."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: `codriver log` lists the recorded evaluations")


@dataclass(frozen=True, slots=True)
class RecordedEvaluation:
    """A recorded evaluation: its code, where it ran, and its results."""

    id: str
    code: str
    who: str = ""
    namespace: str = ""
    description: str = ""
    file: str = ""
    """The file that was loaded, if any. The code is then the text of the file."""
    values: tuple[str, ...] = ()
    """The values of the evaluated forms or expressions, in order."""
    out: str = ""
    err: str = ""
    ending: str = ""
    """The external event that ended the evaluation, such as an interrupt."""
    time: int = 0
    """The time of the evaluation, in milliseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The evaluations of one session in order.

    `repl` is the kind of REPL, as accepted by the option `--repl`.
    """

    dialect: str
    repl: str
    evaluations: tuple[RecordedEvaluation, ...]
    is_of_kernel: bool = False
    """Whether the evaluations are notebook cells. Kernels report all displays, but only a cell's last value."""


T = TypeVar("T")
UNKNOWN_NAME_MESSAGE: Final = re.compile(r"\bname '(\w+)' is not defined|nable to resolve symbol:? '?([^\s']+)")
"""Matches messages in which REPLs report an unknown name."""
NAME_PATTERN: Final = re.compile(r"[^\s()\[\]{}\"'`,;:.@^~=+*/<>|&%#\\]+")
SURROGATE_PATTERN: Final = re.compile("[\ud800-\udfff]")
"""Matches a lone surrogate, which cannot be encoded in UTF-8."""
FIELDS_BY_CATEGORY: Final = {
    "evaluationResults": "values",
    "evaluationOutput": "out",
    "evaluationErrorOutput": "err",
    "otherErrorOutput": "ending",
}
"""Maps the category of a log entry to the field that its text is added to."""


def read_recorded_evaluations(entries: Iterable[Mapping[str, Any]]) -> tuple[RecordedEvaluation, ...]:
    """Collect evaluations from log entries, in the order in which they started.

    Evaluations whose code is no longer in the log are omitted.
    """
    found: dict[str, RecordedEvaluation] = {}
    descriptions: dict[str, str] = {}
    for entry in entries:
        name, text = str(entry.get("evaluation", "")), str(entry["text"])
        if not name:
            continue
        if entry["category"] == "otherOutput" and name not in found:
            descriptions[name] = text
        elif entry["category"] == "evaluatedCode":
            found[name] = _create_evaluation(entry, name, descriptions.get(name, ""))
        elif name in found and (field := FIELDS_BY_CATEGORY.get(entry["category"])):
            found[name] = _append_text(found[name], field, text)
    return tuple(found.values())


def _create_evaluation(entry: Mapping[str, Any], name: str, description: str) -> RecordedEvaluation:
    """Create an evaluation from the log entry that contains its code.

    `description` describes the evaluation or the loaded file.
    """
    file = (
        description.removeprefix(LOADED_FILE_PREFIX)
        if description.startswith((f"{LOADED_FILE_PREFIX}/", f"{LOADED_FILE_PREFIX}~"))
        else ""
    )
    return RecordedEvaluation(
        name,
        str(entry["text"]),
        who=str(entry.get("who", "")),
        namespace=str(entry.get("ns", "")),
        description="" if file else description,
        file=file,
        time=int(entry.get("timestamp", 0)),
    )


def _append_text(before: RecordedEvaluation, field: str, text: str) -> RecordedEvaluation:
    """Return a copy of an evaluation with `text` appended to a field."""
    if field == "values":
        return replace(before, values=(*before.values, text))
    return replace(before, **{field: getattr(before, field) + text})


def evaluations_since_checkpoint(
    evaluations: Sequence[RecordedEvaluation], name: str
) -> tuple[RecordedEvaluation, ...]:
    """Return the evaluations from the latest checkpoint with this name onwards, including the checkpoint itself.

    Raises:
        EvaluationsNotFoundError: no checkpoint has this name.
    """
    normalized = " ".join(name.split())
    for index in range(len(evaluations) - 1, -1, -1):
        if normalized and checkpoint_name(evaluations[index].description) == normalized:
            return tuple(evaluations[index:])
    raise EvaluationsNotFoundError(f"no evaluation in the log is described as `{CHECKPOINT_PREFIX}: {name}`")


def unknown_names(notes: Iterable[str]) -> frozenset[str]:
    """Return the names that were undefined in the fresh REPL, according to the error messages in `notes`."""
    return frozenset(
        found[1] or found[2].rpartition("/")[2] for note in notes for found in UNKNOWN_NAME_MESSAGE.finditer(note)
    )


def count_with_definitions(evaluations: Sequence[RecordedEvaluation], last: int, names: Iterable[str]) -> int:
    """Return how many of the latest evaluations are needed to include the definitions of `names`, at least `last`.

    Dependencies of the definitions are included as well. Definitions are recognized by the form of the code.
    """
    needed, most = set(names), last
    for number in range(last + 1, len(evaluations) + 1):
        code = evaluations[-number].code
        defined = {name for name in needed if _defines(code, name)}
        if defined:
            needed, most = needed - defined | set(NAME_PATTERN.findall(code)), number
    return most


def _defines(code: str, name: str) -> bool:
    """Return whether code appears to define or import a name."""
    if name not in code:
        return False
    word = rf"(?<![\w.-]){re.escape(name)}(?![\w-])"
    assigned = rf"^(?:[\w, *]+,\s*)?{word}[\w, *]*(?::[^=\n]*)?=(?!=)"
    python = rf"^(?:async\s+)?(?:def|class)\s+{word}|^(?:import|from)\s.*{word}|{assigned}"
    lisp = rf"^\s*\([^\s()]*def[^\s()]*\s+(?:\^\S+\s+)*{word}|:as\s+{word}|:refer\s+\[[^\]]*{word}"
    return re.search(f"{python}|{lisp}", code, re.MULTILINE) is not None


def evaluations_with_ids(
    evaluations: Sequence[RecordedEvaluation], ids: Iterable[str]
) -> tuple[RecordedEvaluation, ...]:
    """Return the evaluations with these ids, in the order in which they ran.

    Raises:
        EvaluationsNotFoundError: the log has no evaluation with one of the ids.
    """
    requested = set(ids)
    if missing := requested - {evaluation.id for evaluation in evaluations}:
        raise EvaluationsNotFoundError(f"no evaluation in the log has the id {', '.join(sorted(missing))}")
    return tuple(evaluation for evaluation in evaluations if evaluation.id in requested)


def encode_recording(recording: Recording) -> str:
    """Encode a recording as JSON lines. The first line describes the recording, and each other line is an evaluation.

    Unpaired surrogates, which UTF-8 cannot represent, are written as JSON escapes.
    """
    head = {"format": FORMAT_NAME, "version": FORMAT_VERSION, "dialect": recording.dialect, "repl": recording.repl}
    head |= {"cells": True} if recording.is_of_kernel else {}
    rows = [head, *(_to_row(evaluation) for evaluation in recording.evaluations)]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return SURROGATE_PATTERN.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def _to_row(record: RecordedEvaluation) -> dict[str, Any]:
    """Return an evaluation as JSON, without its empty optional fields."""
    return {name: value for name, value in asdict(record).items() if value or name in {"id", "code"}}


def parse_recording(text: str) -> Recording:
    """Parse the text of a recording.

    Raises:
        RecordingError: the text is not a recording or has a newer version.
    """
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise RecordingError("the file is empty")
    dialect, repl, is_of_kernel = _parse_line(*lines[0], _parse_head)
    evaluations = tuple(_parse_line(number, line, _parse_evaluation) for number, line in lines[1:])
    return Recording(dialect, repl, evaluations, is_of_kernel)


def _parse_line(number: int, line: str, read: Callable[[Mapping[str, Any]], T]) -> T:
    """Parse a line of a recording, and convert the object with `read`.

    Raises:
        RecordingError: the line is invalid. The message contains its number.
    """
    try:
        row = json.loads(line)
        if not isinstance(row, dict):
            raise RecordingError(f"line {number} is not a JSON object")
        return read(row)
    except KeyError as error:
        raise RecordingError(f"line {number} has no field {error}") from error
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise RecordingError(f"line {number} cannot be read ({error})") from error


def _parse_head(row: Mapping[str, Any]) -> tuple[str, str, bool]:
    """Return the dialect, the REPL, and whether it was a kernel, from the first line of a recording."""
    if row["format"] != FORMAT_NAME or row["version"] != FORMAT_VERSION:
        raise RecordingError(f"the file has the format {row['format']!r}, version {row['version']!r}")
    return str(row["dialect"]), str(row["repl"]), row.get("cells") is True


def _parse_evaluation(row: Mapping[str, Any]) -> RecordedEvaluation:
    """Create an evaluation from a line of a recording."""
    strings = {
        name: str(row[name])
        for name in ("who", "namespace", "description", "file", "out", "err", "ending")
        if name in row
    }
    listed = row.get("values", [])
    if not isinstance(listed, list):
        raise TypeError(f"`values` must be a list, not {type(listed).__name__}")
    values = tuple(map(str, listed))
    return RecordedEvaluation(str(row["id"]), str(row["code"]), values=values, time=int(row.get("time", 0)), **strings)
