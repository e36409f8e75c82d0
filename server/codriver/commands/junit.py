"""Write JUnit XML reports of test runs.

Source: the schema of Jenkins' xUnit plugin, `junit-10.xsd`, which pytest's own reports also follow. The schema has no
attributes for the file and line of a test, so the text of a failure starts with them. A suite does have an attribute
for its file.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from xml.etree import ElementTree as ET

    from codriver.commands.test_cases import CaseResult, Outcome


ELEMENTS_BY_OUTCOME = {"skip": "skipped", "fail": "failure", "error": "error"}
"""The XML element for each outcome."""
XML_FORBIDDEN_PATTERN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Matches characters that XML 1.0 cannot contain, escaped or not. Source: production 2, `Char`."""


def render_junit_xml(cases: Iterable[CaseResult], started_at: datetime, output: str = "") -> bytes:
    """Render a JUnit report as XML, with one suite per namespace.

    `output` is only included if there is a single suite.
    """
    from xml.etree import ElementTree as ET  # noqa: PLC0415  # only needed for a report

    suites = [(name, list(of)) for name, of in groupby(sorted(cases, key=_namespace), key=_namespace)]
    root = ET.Element("testsuites", {"name": "codriver test", **_counts([case for _, of in suites for case in of])})
    for name, of in suites:
        files = {case.file for case in of if case.file}
        about = {"name": _escape_for_xml(name), **_counts(of), "skipped": _count(of, "skip")}
        about |= {"file": _escape_for_xml(files.pop())} if len(files) == 1 else {}
        suite = ET.SubElement(root, "testsuite", {**about, "timestamp": started_at.isoformat(timespec="seconds")})
        suite.extend(map(_create_element, of))
        if output and len(suites) == 1:
            ET.SubElement(suite, "system-out").text = _escape_for_xml(output)
    ET.indent(root)
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode").encode() + b"\n"


def _namespace(case: CaseResult) -> str:
    return case.namespace


def _counts(cases: Sequence[CaseResult]) -> dict[str, str]:
    seconds = f"{sum(case.seconds for case in cases):.3f}"
    failures, errors = _count(cases, "fail"), _count(cases, "error")
    return {"tests": str(len(cases)), "failures": failures, "errors": errors, "time": seconds}


def _count(cases: Sequence[CaseResult], outcome: Outcome) -> str:
    return str(sum(case.outcome == outcome for case in cases))


def _create_element(case: CaseResult) -> ET.Element:
    """Create the XML element of a test case. Its class name is the namespace, with dots instead of slashes."""
    from xml.etree import ElementTree as ET  # noqa: PLC0415  # as above

    home = case.namespace.removesuffix(".py").replace("/", ".") if case.namespace.endswith(".py") else case.namespace
    named = {"classname": _escape_for_xml(home), "name": _escape_for_xml(case.name), "time": f"{case.seconds:.3f}"}
    element = ET.Element("testcase", named)
    if tag := ELEMENTS_BY_OUTCOME.get(case.outcome):
        kind = {"type": case.kind} if case.kind else {}
        ET.SubElement(element, tag, {"message": _escape_for_xml(case.message), **kind}).text = (
            _escape_for_xml(case.details) or None
        )
    return element


def _escape_for_xml(text: str) -> str:
    """Replace characters that XML cannot contain with escape sequences, as in source code."""
    return XML_FORBIDDEN_PATTERN.sub(lambda found: f"\\u{ord(found[0]):04x}", text.replace("\r\n", "\n"))
