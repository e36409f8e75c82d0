"""Generate test files, scripts and rich comments for Clojure and related Lisps."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codriver.features.export.documents.comparison import pattern_for_text
from codriver.features.export.documents.layout import (
    DocumentBuilder,
    comment_out,
    header_lines,
    name_tests,
    write_omitted_steps,
)
from codriver.features.export.documents.step_verification import DEFAULT_NAMESPACES
from codriver.features.export.documents.steps import LAST_VALUE_SYMBOLS, declared_namespace
from codriver_lisp.reader import read_forms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.features.export.documents.layout import Layout, Origin
    from codriver.features.export.documents.step_verification import CheckedStep


@dataclass(frozen=True, slots=True)
class TestLibrary:
    """The test library of a Lisp dialect.

    `anything` is the base class of all errors.
    """

    library: str
    anything: str
    prefix: str = ""
    """The prefix for error classes without a package. If it is empty, such classes are not written by name."""
    names_classes: bool = True
    """Whether the qualified name of a class can be written unchanged."""


TEST_LIBRARIES: Final = {
    "clojure": TestLibrary("clojure.test", "Throwable"),
    "babashka": TestLibrary("clojure.test", "Throwable"),
    "basilisp": TestLibrary("basilisp.test", "python/Exception", prefix="python/", names_classes=False),
    "nbb": TestLibrary("cljs.test", "js/Error", names_classes=False),
    "clojurescript": TestLibrary("cljs.test", "js/Error", names_classes=False),
}
"""The test libraries by dialect. Hy is missing because it has no test library that could run these files."""

DEFAULT_NAMESPACE: Final = "user"
"""The namespace in which a Lisp REPL starts."""
MAX_ASSERTED_CHARACTERS: Final = 2000
"""Maximum length of a printed value to assert in full. For longer ones, only the length is asserted."""
_BUILTIN_ERRORS: Final = re.compile(r"[A-Z]\w*(?:Error|Exception|Iteration|Interrupt|Exit)")
"""Matches class names that look like built-in Python exceptions."""
_UNREADABLE_PART: Final = re.compile(r"#(?!\{|uuid|inst|[\w.]+\{)|<[a-zA-Z]|#object|##|\.\.\.")
"""Matches parts of printed values that the dialect's reader cannot read."""
_RECORD_START: Final = re.compile(r"#[\w.]+\{")
"""Matches the beginning of a printed record."""
_UNQUOTED_VALUE: Final = re.compile(
    r"[-+]?\d[\d./MNe+-]*|true|false|:[\w.*+!?<>=/-]+|\"(?:[^\"\\]|\\.)*\"|\\\w+", re.DOTALL
)
"""Matches printed values that can be compared without a quote."""


def render_test_file(layout: Layout, checked: Sequence[CheckedStep], origin: Origin, dialect: str) -> DocumentBuilder:
    """Return a test file in a Lisp dialect. Forms that cannot run are appended as comments with the reasons."""
    framework = TEST_LIBRARIES[dialect]
    page = DocumentBuilder()
    for line in header_lines(origin, checked):
        page.write(f";; {line}")
    _write_ns(page, layout, checked, origin, framework)
    for check in layout.above:
        if not _is_ns(check) and not check.of.file:
            page.write()
            _write_note(page, check, "")
            page.write(check.step.text, check)
    tests = [[check for check in test if not uses_last_value(check)] for test in layout.tests]
    for name, test in zip(name_tests(tests, "-", layout.names), tests, strict=True):
        if test:
            _write_test(page, f"{name.replace('_', '-')}-test", test, framework)
    above_ids = set(map(id, layout.above))
    if absent := [check for check in checked if _is_omitted(check) and id(check) not in above_ids]:
        page.write()
        write_omitted_steps(page, absent, ";;")
    return page


def uses_last_value(check: CheckedStep) -> bool:
    """Return whether a form uses a variable that exists only in a REPL, such as `*1`."""
    return bool(check.step.uses & LAST_VALUE_SYMBOLS)


def _is_omitted(check: CheckedStep) -> bool:
    return check.verdict == "absent" or check.is_patch or uses_last_value(check)


def _is_ns(check: CheckedStep) -> bool:
    return check.step.text.startswith(("(ns ", "(ns\n", "(in-ns "))


def _write_ns(
    page: DocumentBuilder, layout: Layout, checked: Sequence[CheckedStep], origin: Origin, framework: TestLibrary
) -> None:
    """Write the file's `ns` form, which requires the test library and the namespaces that the session used."""
    required, clauses, made = [f"[{framework.library} :refer [deftest is]]"], list[str](), set[str]()
    for check in layout.above:
        if not check.of.file and check.step.text.startswith(("(ns ", "(ns\n")):
            made.add(declared_namespace(check.step.text))
            for head, parts, text in _parse_ns_clauses(check.step.text):
                if head == ":require":
                    required += parts
                else:
                    clauses.append(text)
    loaded = [
        name
        for check in checked
        if check.of.file and check.verdict == "ran" and (name := declared_namespace(check.of.code))
    ]
    used = [check.of.namespace for check in checked if check.verdict != "absent"]
    given = sorted({name for check in checked if not check.of.file and not check.is_patch for name in check.step.gives})
    exclude = f" :exclude [{' '.join(given)}]" if given and framework.library == "clojure.test" else ""
    for name in dict.fromkeys([*loaded, *used]):
        if name not in DEFAULT_NAMESPACES | made:
            required.append(f"[{name} :refer :all{exclude}]" if name in used else f"[{name}]")
    page.ensure_blank_lines(1)
    page.write(f"(ns {origin.name}")
    # Write a single clause, because Basilisp uses only the last of several.
    page.write("\n  ".join(["  (:require " + "\n            ".join(dict.fromkeys(required)) + ")", *clauses]) + ")")


def _parse_ns_clauses(text: str) -> list[tuple[str, list[str], str]]:
    """Return the clauses of an `ns` form. Each consists of a keyword, arguments and the source."""
    found = []
    for clause in read_forms(text).forms[0].children[2:]:
        parts = [text[part.start : part.end] for part in clause.children]
        if clause.kind == "list" and parts:
            found.append((parts[0], parts[1:], text[clause.start : clause.end]))
    return found


def _write_note(page: DocumentBuilder, check: CheckedStep, indent: str) -> None:
    """Write the note on a step as a comment, if there is one."""
    if check.note:
        page.write(comment_out(check.note, f"{indent};;"))


def _write_test(page: DocumentBuilder, name: str, test: Sequence[CheckedStep], framework: TestLibrary) -> None:
    page.write(f"\n(deftest {name}")
    last_description = ""
    for index, check in enumerate(test):
        if check.of.description and check.of.description != last_description:
            last_description = check.of.description
            page.write(comment_out(last_description, "  ;;"))
        _write_note(page, check, "  ")
        closing = ")" if index == len(test) - 1 else ""
        page.write(_indent(_test_form(check, framework)) + closing, check)


def _test_form(check: CheckedStep, framework: TestLibrary) -> str:
    form = _with_assertion(check, framework)
    if not check.out:
        return form
    return f"(let [printed (with-out-str {form})]\n  (is (= {_string_literal(check.out)} printed)))"


def _with_assertion(check: CheckedStep, framework: TestLibrary) -> str:
    """Return a step's code inside an assertion about its result, or unchanged if the result cannot be asserted."""
    code, value = check.step.text, check.value
    if check.verdict == "raises" and check.raised is not None:
        message = pattern_for_text(check.raised.message)
        if not message:
            return f"(is (thrown? {_error_class(check.raised.type, framework)} {code}))"
        return f"(is (thrown-with-msg? {_error_class(check.raised.type, framework)} {_regex_literal(message)} {code}))"
    if value is None or check.step.role != "expression" or check.verdict not in {"same", "varies"}:
        return code
    if check.verdict == "varies":
        return f"(is (re-matches {_regex_literal(check.pattern)} (pr-str {code})))"
    if len(value) > MAX_ASSERTED_CHARACTERS:
        return f"(is (= {len(value)} (count (pr-str {code}))))"
    if value == "nil":
        return code if check.out else f"(is (nil? {code}))"
    if _RECORD_START.search(value) or _UNREADABLE_PART.search(value) or not _is_one_form(value):
        return f"(is (= {_string_literal(value)} (pr-str {code})))"
    quoted = value if _UNQUOTED_VALUE.fullmatch(value) else f"'{value}"
    return f"(is (= {quoted} {code}))"


def _is_one_form(value: str) -> bool:
    """Return whether a printed value is a single form and can therefore be quoted."""
    reading = read_forms(value)
    return reading.imbalance is None and [(form.start, form.end) for form in reading.forms] == [(0, len(value))]


def _error_class(name: str, framework: TestLibrary) -> str:
    """Return an error's class as written in the file, or the base class of all errors if that is not possible."""
    if "." in name and framework.names_classes:
        return name
    return framework.prefix + name if framework.prefix and _BUILTIN_ERRORS.fullmatch(name) and name != "ExceptionInfo" else framework.anything  # fmt: skip  # noqa: E501


def _regex_literal(pattern: str) -> str:
    """Return a Lisp regex literal for a pattern."""
    plain = re.sub(r"\\([ \-#&~<>=:;,'/@!%`])", r"\1", pattern)
    return '#"' + plain.replace('"', '\\"').replace("\n", "\\n") + '"'


def _string_literal(text: str) -> str:
    """Return a Lisp string literal for a string."""
    escaped = (
        text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    )
    return f'"{escaped}"'


def _indent(code: str) -> str:
    """Indent code, except for lines inside a string."""
    inside: set[int] = set()
    waiting = list(read_forms(code).forms)
    while waiting:
        form = waiting.pop()
        waiting += form.children
        if form.kind == "string":
            first = code.count("\n", 0, form.start)
            inside |= set(range(first + 1, first + 1 + code.count("\n", form.start, form.end)))
    lines = enumerate(code.split("\n"))
    return "\n".join(line if number in inside else f"  {line}" for number, line in lines)
