"""The tests of a run as cases, and as the JUnit XML that CI servers read.

Source: the schema of Jenkins' xUnit plugin, `junit-10.xsd`, which pytest's own reports follow, too. It has no place for
a test's file and line, so they begin the text of its failure, where readers look for them; a suite names its file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

Outcome = Literal["pass", "skip", "fail", "error"]
ELEMENTS = {"skip": "skipped", "fail": "failure", "error": "error"}
"""By outcome: the element that tells it."""
WHOLE_RUN = "(run)"
"""The name of the case that stands for a run which gave no results, or not all of them."""
UNSAYABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, escaped or not. Source: its production 2, `Char`."""


@dataclass(frozen=True, slots=True)
class Case:
    """One test: its name and place, how it ended, and what is to be said of that."""

    namespace: str
    name: str
    outcome: Outcome
    message: str = ""
    """In one line, or as few as its test gave."""
    details: str = ""
    """All that each of its results that failed tells, beginning with the place of it."""
    file: str = ""
    """Below the workspace as its parts from there, else absolute; empty where nobody knows."""
    line: int | None = None
    seconds: float = 0.0
    kind: str = ""
    """Of a run that did not come about: `no-tests`, or `no-repl`; else blank."""

    @property
    def title(self) -> str:
        """Its name among those of all namespaces."""
        return f"{self.namespace}/{self.name}"


def cases_of(answer: Mapping[str, Any], workspace: Path) -> list[Case]:
    """The tests of which an answer of `run_tests` tells, in the order in which they ended, as far as it says.

    A test that asserts much is one case, which failed if anything of it did. One that asserted nothing passed.
    """
    seconds = {(namespace, test): float(took) for namespace, test, took in answer.get("times", ())}
    rows: dict[tuple[str, str], list[Mapping[str, Any]]] = {named: [] for named in seconds}
    for row in answer.get("results", ()):
        rows.setdefault((row["ns"], row["test"]), []).append(row)
    return [
        replace(_case(named, of_test, workspace), seconds=seconds.get(named, 0.0)) for named, of_test in rows.items()
    ]


def stopped_case(row: Mapping[str, Any], message: str, workspace: Path) -> Case:
    """The test in which a run was stopped, and why."""
    return replace(_case((row["ns"], row["test"]), [{**row, "outcome": "error"}], workspace), message=message)


def _case(named: tuple[str, str], rows: Sequence[Mapping[str, Any]], workspace: Path) -> Case:
    wrong = [row for row in rows if row["outcome"] != "pass"]
    skipped = [row for row in rows if row.get("skipped")]
    told = (wrong or skipped or rows or [{}])[0]
    outcome: Outcome = "pass"
    if wrong:
        outcome = "error" if any(row["outcome"] == "error" for row in wrong) else "fail"
    elif skipped:
        outcome = "skip"
    return Case(
        *named,
        outcome,
        message=_message(told) if outcome != "pass" else "",
        details="\n\n".join(_details(row, workspace) for row in wrong),
        file=_shown(told.get("file"), workspace),
        line=told.get("line"),
    )


def _message(row: Mapping[str, Any]) -> str:
    if row.get("skipped"):
        return str(row.get("message", "")).removeprefix("skipped: ")
    first = str(row.get("actual", "")).partition("\n")[0]
    against = f"expected {row['expected']}, got {first}" if _has_both(row) else first
    return ": ".join(part for part in (str(row.get("message", "")).removesuffix("."), against) if part)


def _has_both(row: Mapping[str, Any]) -> bool:
    """Whether what was expected explains what came; of an error it says nothing."""
    return row["outcome"] == "fail" and bool(row.get("expected")) and row.get("actual") is not None


def _details(row: Mapping[str, Any], workspace: Path) -> str:
    """All that a result tells."""
    file, line = _shown(row.get("file"), workspace), row.get("line")
    place = f"{file}:{line}" if file and line else file
    head = ": ".join(str(part) for part in (place, row.get("message")) if part)
    actual = str(row.get("actual") or "")
    against = [f"expected: {row['expected']}", f"  actual: {actual}"] if _has_both(row) else [actual]
    return "\n".join(
        [*(text for text in (head, *against) if text), *(f"  at {frame}" for frame in row.get("frames", ()))]
    )


def _shown(file: object, workspace: Path) -> str:
    path = Path(str(file)) if file else None
    if path is None or not path.is_relative_to(workspace):
        return str(file or "")
    return path.relative_to(workspace).as_posix()


def xml_of(cases: Iterable[Case], began: datetime, output: str = "") -> bytes:
    """The report, a suite for each namespace. `output` is what the tests printed, told where there is one suite."""
    suites = [(name, list(of)) for name, of in groupby(sorted(cases, key=_namespace), key=_namespace)]
    root = ET.Element("testsuites", {"name": "codriver test", **_counts([case for _, of in suites for case in of])})
    for name, of in suites:
        files = {case.file for case in of if case.file}
        about = {"name": _sayable(name), **_counts(of), "skipped": _count(of, "skip")}
        about |= {"file": _sayable(files.pop())} if len(files) == 1 else {}
        suite = ET.SubElement(root, "testsuite", {**about, "timestamp": began.isoformat(timespec="seconds")})
        suite.extend(map(_element, of))
        if output and len(suites) == 1:
            ET.SubElement(suite, "system-out").text = _sayable(output)
    ET.indent(root)
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode").encode() + b"\n"


def _namespace(case: Case) -> str:
    return case.namespace


def _counts(cases: Sequence[Case]) -> dict[str, str]:
    seconds = f"{sum(case.seconds for case in cases):.3f}"
    failures, errors = _count(cases, "fail"), _count(cases, "error")
    return {"tests": str(len(cases)), "failures": failures, "errors": errors, "time": seconds}


def _count(cases: Sequence[Case], outcome: Outcome) -> str:
    return str(sum(case.outcome == outcome for case in cases))


def _element(case: Case) -> ET.Element:
    """A test; its class is its namespace, in which dots part what slashes do in a path."""
    home = case.namespace.removesuffix(".py").replace("/", ".") if case.namespace.endswith(".py") else case.namespace
    named = {"classname": _sayable(home), "name": _sayable(case.name), "time": f"{case.seconds:.3f}"}
    element = ET.Element("testcase", named)
    if tag := ELEMENTS.get(case.outcome):
        kind = {"type": case.kind} if case.kind else {}
        ET.SubElement(element, tag, {"message": _sayable(case.message), **kind}).text = _sayable(case.details) or None
    return element


def _sayable(text: str) -> str:
    """The text with what XML cannot hold spelt out, as source code has it."""
    return UNSAYABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text.replace("\r\n", "\n"))
