"""Answers of ops and of our own questions, read into one shape whatever server gave them.

nREPL nests a symbol under `info`, cider-nrepl and others give its parts flat; completions are maps or texts; nothing
found is a status, an empty list, or nothing at all. Answers to our own questions come as JSON under the same names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from codriver.lisp.reader import top_level_forms
from codriver.repls.adapter_values import ClojureDocs, Completion, StackFrame, StackTrace, Symbol, TestResult, TestRun
from codriver.repls.nrepl.message import (
    Message,
    as_int,
    as_list,
    as_map,
    as_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from codriver.repls.dialects.dialects import Dialect
    from codriver.wire.bencode import Value

_SYMBOL_KEYS: Final = frozenset({
    "id", "session", "status", "name", "ns", "doc", "docstring", "arglists", "arglists-str", "file", "line", "column",
    "macro", "protocol",
})  # fmt: skip

_WORST_FIRST: Final = {"error": 0, "fail": 1, "pass": 2}
_TOOLING_FLAGS: Final = frozenset({"tooling", "java", "dependency"})
OUTPUT_CHARS: Final = 50_000


def read_symbol(name: str, answer: Sequence[Message]) -> Symbol | None:
    """The symbol that an answer of `lookup` or `info` describes; None when it was not found."""
    fields: dict[str, Value] = {}
    for message in answer:
        fields.update(as_map(message.fields.get("info")) or message.fields)
    return symbol_of(name, fields)


def symbol_of(name: str, fields: Mapping[str, Value]) -> Symbol | None:
    """The symbol with these parts; None when they say nothing."""
    printed = as_text(fields.get("arglists-str")) or as_text(fields.get("arglists")) or ""
    arglists: list[Value] = as_list(fields.get("arglists")) or [*_arities(printed)]
    symbol = Symbol(
        name=as_text(fields.get("name")) or name,
        namespace=as_text(fields.get("ns")) or None,
        doc=as_text(fields.get("doc")) or as_text(fields.get("docstring")) or None,
        arglists=tuple(text for item in arglists if (text := as_text(item))),
        file=read_file(as_text(fields.get("file"))),
        line=as_int(fields.get("line")),
        column=as_int(fields.get("column")),
        macro=as_text(fields.get("macro")) in {"true", "True", "1"},
        extra={key: text for key, value in fields.items() if key not in _SYMBOL_KEYS and (text := as_text(value))},
    )
    is_known = as_text(fields.get("name")) or as_text(fields.get("class")) or symbol.doc or symbol.arglists
    return symbol if is_known else None


def _arities(printed: str) -> list[str]:
    """Argument lists, one an arity, from one a line or, as plain nREPL prints them, from a list of vectors."""
    if not (printed.startswith("([") and printed.endswith("])")):
        return printed.split("\n")
    inner = printed[1:-1]
    return [inner[span.start : span.end] for span in top_level_forms(inner)]


def read_completions(items: Iterable[Value]) -> tuple[Completion, ...]:
    """Completions from a list of maps, or of texts."""
    found = []
    for item in items:
        fields = as_map(item)
        if candidate := as_text(item) or as_text(fields.get("candidate")):
            kind, namespace = as_text(fields.get("type")), as_text(fields.get("ns"))
            found.append(Completion(candidate, kind or None, namespace or None))
    return tuple(found)


def read_tests(answer: Sequence[Message]) -> TestRun:
    """The run that cider-nrepl's `test` reports: results by namespace and test, and a summary."""
    results: list[TestResult] = []
    summary: Mapping[str, Value] = {}
    for message in answer:
        summary = as_map(message.fields.get("summary")) or summary
        for tests in as_map(message.fields.get("results")).values():
            for assertions in as_map(tests).values():
                results += [_result(as_map(item)) for item in as_list(assertions)]
    return _run(results, tests=as_int(summary.get("var")), output="")


def tests_of(data: object, *, output: str) -> TestRun:
    """The run that our own question reports."""
    fields = as_map(cast("Value", data))
    results = [_result(as_map(item)) for item in as_list(fields.get("results"))]
    return _run(results, tests=as_int(fields.get("tests")), output=output)


def _run(results: list[TestResult], *, tests: int | None, output: str) -> TestRun:
    outcomes = [result.outcome for result in results]
    return TestRun(
        tests=len({(result.namespace, result.test) for result in results}) if tests is None else tests,
        passed=outcomes.count("pass"),
        failed=outcomes.count("fail"),
        errors=outcomes.count("error"),
        results=tuple(sorted(results, key=lambda result: _WORST_FIRST[result.outcome])),
        output=output[-OUTPUT_CHARS:],
    )


def _result(fields: Mapping[str, Value]) -> TestResult:
    outcome = as_text(fields.get("outcome")) or as_text(fields.get("type"))
    file, line = read_file(as_text(fields.get("file"))), as_int(fields.get("line"))
    # An error is reported where it was thrown, which may be in a library; the test's own place says more.
    if fields.get("var-file") and (file is None or outcome == "error"):
        file, line = read_file(as_text(fields.get("var-file"))), as_int(fields.get("var-line"))
    context, message = as_text(fields.get("context")), as_text(fields.get("message"))
    return TestResult(
        test=as_text(fields.get("test")) or as_text(fields.get("var")) or "?",
        namespace=as_text(fields.get("ns")) or "?",
        outcome="pass" if outcome == "pass" else "fail" if outcome == "fail" else "error",
        message=": ".join(part for part in (context, message) if part) or None,
        expected=(as_text(fields.get("expected")) or "").rstrip() or None,
        actual=(as_text(fields.get("actual")) or as_text(fields.get("error")) or "").rstrip() or None,
        file=file,
        line=line,
    )


def read_stacktrace(answer: Sequence[Message]) -> StackTrace | None:
    """The innermost cause that cider-nrepl's stacktrace ops report, one message a cause; None without an error."""
    causes = [message for message in answer if message.text("class")]
    if not causes:
        return None
    root = causes[-1]
    return StackTrace(
        type=root.text("class") or "error",
        message=root.text("message") or "",
        frames=tuple(_cider_frame(as_map(frame)) for frame in as_list(root.fields.get("stacktrace"))),
        data=root.text("data"),
    )


def _cider_frame(fields: Mapping[str, Value]) -> StackFrame:
    name = as_text(fields.get("var")) or as_text(fields.get("name")) or "?"
    file, line = as_text(fields.get("file")), as_int(fields.get("line"))
    flags = {as_text(flag) for flag in as_list(fields.get("flags"))}
    return StackFrame(
        f"{name} ({file}:{line})", file=file, line=line, function=name, tooling=not _TOOLING_FLAGS.isdisjoint(flags)
    )


def stacktrace_of(data: object, dialect: Dialect) -> StackTrace | None:
    """The stack trace that our own question reports; None without an error."""
    fields = as_map(cast("Value", data))
    if not fields:
        return None
    frames = []
    for item in as_list(fields.get("frames")):
        frame = as_map(item)
        owner, method = as_text(frame.get("class")) or "?", as_text(frame.get("method"))
        file, line = as_text(frame.get("file")), as_int(frame.get("line"))
        tooling = owner.startswith(dialect.tooling)
        frames.append(StackFrame(f"{owner}/{method} ({file}:{line})", file, line, f"{owner}/{method}", tooling))
    return StackTrace(
        type=as_text(fields.get("type")) or "error",
        message=as_text(fields.get("message")) or "",
        frames=tuple(frames),
        data=as_text(fields.get("data")),
    )


def read_clojuredocs(answer: Sequence[Message]) -> ClojureDocs | None:
    """The entry that cider-nrepl's `clojuredocs-lookup` gives; None when it has none."""
    for message in answer:
        if fields := as_map(message.fields.get("clojuredocs")):
            return ClojureDocs(
                name=as_text(fields.get("name")) or "?",
                namespace=as_text(fields.get("ns")) or "?",
                examples=_texts(fields.get("examples")),
                see_alsos=_texts(fields.get("see-alsos")),
                notes=_texts(fields.get("notes")),
                doc=as_text(fields.get("doc")),
                href=as_text(fields.get("href")),
            )
    return None


def _texts(value: Value | None) -> tuple[str, ...]:
    return tuple(text for item in as_list(value) if (text := as_text(item)))


def read_file(name: str | None) -> str | None:
    """A file's name as a path where it is one; None for the words that mean that there is no file."""
    if not name or name in {"NO_SOURCE_PATH", "NO_SOURCE_FILE", "REPL", "<nREPL Input>", "<string>", "null"}:
        return None
    # nbb gives the text of a loaded file in the place of its name.
    if "\n" in name:
        return None
    if name.startswith("file:"):
        return "/" + name.removeprefix("file:").lstrip("/")
    return name
