"""The description of a dialect: the characteristics of its server, and the programs that it can run.

The programs report a Lisp's loaded namespaces, remove names from namespaces, and run Codriver's Python programs in
Python and Hy: tests, lists of names, and fixes for hy-nrepl. Programs that take longer to compile than to run are
compiled once and stored in the REPL. Thread dumps are reduced to the user's code.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final, Literal, Union

from codriver.repls.contract.adapter_values import ThreadDump
from codriver.repls.contract.questions import Loaded, LoadedNamespace, LoadedVar, SurvivingObject
from codriver.repls.programs import Programs, Written, program, python_text
from codriver.wire.untrusted import as_list

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from codriver.core.values import PrintLimits
    from codriver.repls.programs import Code
    from codriver.wire.bencode import Value


Words = Union[str, "Sequence[Words]"]
"""A string, or a nested list of strings, that becomes a literal in a program."""

_NAME: Final = re.compile(r"\$([a-z]+)")

_PRINT: Final = "nrepl.middleware.print"


Isolation = Literal["session", "connection", "none"]
"""What has its own namespace and last values on a server: each session, each connection, or nothing."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The characteristics of a dialect and its server. Source: the replies of the servers used in the tests."""

    name: str
    json: Code = "VALUE"
    """Code that returns the value of an expression, `VALUE`, as a JSON string."""
    preserve_last: Code = ""
    """Code that precedes Codriver's programs and preserves `*1`, `*2`, `*3` and `*e` of the session."""
    python_text: bool = False
    """Whether printed strings are Python literals instead of JSON-like ones."""
    namespace_by: Literal["key", "in-ns", "ns", "none"] = "key"
    """How to evaluate in a namespace: with the field `ns`, by switching to it and back, or not at all."""
    facts: Code | None = None
    """An expression that only this dialect can evaluate. Returns `root`, optionally `pid`, and the value of `$seam`."""
    process_id: str | None = None
    """An expression that returns the process id, if `facts` has none."""
    expressions: Mapping[str, str] = field(default_factory=dict)
    """The program for each capability. `$name`, `$ns`, `$code` and `$session` become string literals.

    If a test run continues after its reply, which is `pending`, `test-rest` returns the rest. `test-unloaded` returns
    the namespaces of test files that must be loaded first, if the program cannot load them.
    """
    before: Mapping[str, str] = field(default_factory=dict)
    """Code that must run before the program of a capability, because a form is compiled before any part of it runs."""
    call_cached: Code | None = None
    """Code that calls the function `FORM`, compiled once and stored as `NAME`, with `ARGUMENTS`."""
    cached: frozenset[str] = frozenset()
    """The capabilities whose programs are stored, because compiling takes longer than running them."""
    tooling: tuple[str, ...] = ()
    """Parts of file or class names that identify stack frames of tools."""
    unsafe_bytes: int | None = None
    """The length in bytes above which requests that are not pure ASCII break this server."""
    no_file: str | None = None
    """The file name for code without a file, in a server that remembers the last name in a session."""
    send_gap_s: float = 0.0
    """Seconds to wait before sending a request while another one runs."""
    print_limits: str | None = None
    """An expression that prints more than two elements, for servers that may honour print limits."""
    fixes: tuple[Code, ...] = ()
    """Fixes for the server, each evaluated once per connection. They have no effect on a server without the bug."""
    printer: Code | None = None
    """Code that defines `codriver.kept/print`, in which the user's settings take precedence over default limits."""
    file_evaluator: Code | None = None
    """Code that defines a function for evaluating code of a file, and returns its name.

    For servers that otherwise omit the name of the file from stack traces.
    """
    broken: frozenset[str] = frozenset()
    """Capabilities whose ops do not work."""
    adapted: Mapping[str, str] = field(default_factory=dict)
    """Capabilities that Codriver provides without an op, and how."""
    counts_lines: bool = True
    """Whether the server honours `line`, so that reported lines are those of the caller's file."""
    accepts_missing_position: bool = False
    """Whether code without a position starts in line 1, column 1. Source: nREPL's `interruptible-eval`."""
    columns_from_zero: bool = False
    """Whether the op for symbols counts columns from 0."""
    completes_within: bool = False
    """Whether the op for completion also returns names that contain the prefix elsewhere, and the owner of a name."""
    home: str = "user"
    """The namespace of a new session."""
    expanders: tuple[str, str] = ("macroexpand-1", "clojure.walk/macroexpand-all")
    """The functions that expand a macro once, and completely."""
    interrupt_note: str | None = None
    """Why a confirmed interrupt does not prove that the code has stopped."""
    interrupts_reads: bool = True
    """Whether an interrupt also ends code that waits for input. Other servers do not reply until they get input."""
    sends_traceback: bool = False
    """Whether a failure includes its complete trace."""
    load_moves_namespace: bool = False
    """Whether loading a file changes the namespace of the session."""
    answers_while_busy: bool = False
    """Whether the server replies to other requests while code runs."""
    isolates: Isolation | None = None
    """What the dialect's only server isolates, or None if each server must be probed."""
    shares: str = "namespaces and their definitions are shared: define names in a namespace of your own"
    """A description of what separate sessions have in common."""
    joins: str | None = None
    """Code that makes a session use the names of the session `$main`, if sessions have separate ones."""
    is_serial: bool = False
    """Whether sessions have separate namespaces but wait for each other because they share a thread."""
    runs_files: bool = False
    """Whether the test program accepts paths and finds files itself."""
    notes: tuple[str, ...] = ()
    """Notes on the limitations of the server."""

    def print_fields(
        self,
        bounds: PrintLimits,
        *,
        knows_defaults: bool = False,
        for_session: bool = False,
        preserves_loaders: bool = False,
    ) -> dict[str, Value]:
        """Return the fields that limit how `eval` prints. Source: nREPL documentation, "Pretty Printing".

        In a REPL that `knows_defaults`, the user's settings take precedence over default limits. With `for_session`,
        Codriver's printer remembers the limits in the session. With `preserves_loaders`, it does not discard class
        loaders.
        """
        if self.print_limits is None:
            return {}
        knows_defaults = knows_defaults or self.printer is not None
        length = "print" if bounds.is_length_explicit or not knows_defaults else "default"
        depth = "print" if bounds.is_depth_explicit or not knows_defaults else "default"
        limits = {f"{length}-length": bounds.max_length, f"{depth}-level": bounds.max_depth}
        options: dict[str, Value] = {name: limit for name, limit in limits.items() if limit is not None}
        fields: dict[str, Value] = {}
        if bounds.max_value_bytes is not None:
            fields[f"{_PRINT}/quota"] = bounds.max_value_bytes
            if for_session:
                options["quota"] = bounds.max_value_bytes
        if for_session:
            options["for-session"] = 1
        if preserves_loaders and self.printer:
            options["keep-loaders"] = 1
        if options:
            fields[f"{_PRINT}/options"] = options
        if options or self.printer:
            fields[f"{_PRINT}/print"] = "codriver.kept/print" if self.printer else "nrepl.util.print/pr"
        return fields

    def _literal(self, words: Words) -> str:
        # Python's separators are whitespace in a Lisp.
        return (
            self.quote(words) if isinstance(words, str) else f"[{', '.join([self._literal(word) for word in words])}]"
        )

    def quote(self, text: str) -> str:
        """Return `text` as a string literal of the dialect."""
        # Servers on Node count characters instead of bytes if a request is split, so it should be ASCII.
        return json.dumps(text, ensure_ascii=not self.python_text)

    def expression(self, capability: str, **names: Words) -> str:
        """Return the program for `capability`, with `names` as literals. Its value is a JSON string."""
        code = self.expressions[capability]
        if capability in self.cached:
            code = self._call(code)
        return self.filled(code, before=self.before.get(capability, ""), **names)

    def filled(self, code: str, /, *, before: str = "", **names: Words) -> str:
        """Return code for the value of a program as a JSON string, with `names` as literals."""
        literals = {name: self._literal(words) for name, words in names.items()}
        if isinstance(expand := names.get("expand"), str):
            literals["expand"] = expand
        code = _NAME.sub(lambda match: literals.get(match[1], match[0]), code)
        return f"{self.preserve_last}{before}{self.as_json(code)}"

    def _call(self, code: str) -> str:
        """Return a call of the stored function with the names as arguments."""
        names = sorted(set(_NAME.findall(code)))
        body = _NAME.sub(r"asked-\1", code)
        form = f"(fn [{' '.join([f'asked-{name}' for name in names])}] {body})"
        digest = hashlib.blake2b(form.encode(), digest_size=6).hexdigest()
        holes = {"NAME": self.quote(f"form-{digest}"), "FORM": self.quote(form)}
        holes["ARGUMENTS"] = " ".join([f"${name}" for name in names])
        return re.sub("NAME|FORM|ARGUMENTS", lambda match: holes[match[0]], str(self.call_cached))

    def json_code(self, expression: str) -> str:
        """Return code for the value of `expression` as a JSON string that preserves the session's last values."""
        return f"{self.preserve_last}{self.as_json(expression)}"

    def as_json(self, expression: str) -> str:
        """Return code for the value of `expression` as a JSON string."""
        return str(self.json).replace("VALUE", expression, 1)

    def read(self, printed: str) -> object:
        """Parse the JSON in a string that the server printed.

        Raises:
            ValueError: the text is not such a string.
        """
        # Clojure prints control characters in strings unescaped, which strict JSON forbids.
        text = ast.literal_eval(printed) if self.python_text else json.loads(printed, strict=False)
        return json.loads(str(text), strict=False)


_LOADED: Final = program("clojure/loaded.clj")


@cache
def _cached_program_name() -> str:
    """Return the name of the stored program. It depends on the code, because a REPL may serve several versions."""
    return f"loaded-{hashlib.blake2b(str(_LOADED).encode(), digest_size=6).hexdigest()}"


CALL_LOADED: Final = Written(
    lambda: (
        f"(if-let [f (ns-resolve (create-ns 'codriver.kept) '{_cached_program_name()})] "
        "(f $known $root) {:absent true})"
    )
)
CACHE_LOADED: Final = Written(
    lambda: f"(do (intern (create-ns 'codriver.kept) '{_cached_program_name()} {_LOADED}) nil)"
)


def read_loaded(data: Mapping[str, object]) -> Loaded:
    """Parse the reply of the program that lists loaded code."""
    started = str(data.get("began") or "0")
    spaces = (_namespace(item) for item in as_list(data.get("spaces")) if isinstance(item, dict))
    lists = [
        [str(word) for word in item] for item in as_list(data.get("old")) if isinstance(item, list) and len(item) == 4
    ]
    counted = [item for item in as_list(data.get("instances")) if isinstance(item, list) and len(item) == 3]
    old = [SurvivingObject(home, name, "former" if kind == "former" else "old", of) for home, name, kind, of in lists]
    old += [SurvivingObject(str(home), str(name), "instances", str(count)) for home, name, count in counted]
    return Loaded(
        int(started) if started.isdigit() else 0,
        frozenset(str(data.get("names") or "").split()),
        tuple(spaces),
        tuple(old),
    )


def _namespace(described: Mapping[str, object]) -> LoadedNamespace:
    found = [_var(row) for row in as_list(described.get("vars")) if isinstance(row, list) and len(row) == 5]
    files = tuple(str(file) for file in as_list(described.get("files")))
    return LoadedNamespace(str(described.get("ns")), str(described.get("mark")), files, tuple(found))


def _var(row: list[object]) -> LoadedVar:
    name, file, line, root, stamp = row
    position = file if isinstance(file, str) else "", (line or None) if isinstance(line, int) else None
    return LoadedVar(str(name), *position, str(root), str(stamp))


@cache
def test_program_source() -> str:
    """Return the source of the program that runs tests. Its function `answer` returns the report."""
    return python_text("python/run_values.py", "python/pytest_runs.py", "python/run_answers.py")


@cache
def _process_starter() -> str:
    return python_text("python/run_values.py", "python/runs_anew.py")


@cache
def _process() -> str:
    return python_text("python/new_process.py")


def _test() -> str:
    """Return the expression that runs tests in a new process, without the code that the REPL has loaded.

    `$ns`, `$name` and `$match` are string literals, empty for no restriction. `$only` lists namespaces with tests.
    `$root` is the directory to run in, or empty for the REPL's own. `$words` is `$match` as alternatives of words that
    must all match, with an exclamation mark before those that must not.

    The program is on a line of its own, because tracebacks and stacks display the line of a call.
    """
    return (
        '[space["run_in_new_process"](process, program, $root, $ns, $name, $match, $words, $only)\n'
        ' for space in [{"__name__": "tests"}]\n'
        f" for process, program in [({_process()!r}, {test_program_source()!r})]\n"
        f" for _ in [exec(\n{_process_starter()!r}\n, space)]][0]"
    )


def _test_hy() -> str:
    """Return the Hy expression that runs tests in the REPL with the same program.

    `$session` is the id of the session whose definitions are included.
    """
    return (
        '(get (lfor\n space [{"__name__" "tests"}]\n'
        f" _ [(exec {json.dumps(test_program_source())} space)]\n"
        ' (.loads (__import__ "json") ((get space "answer") $ns $name $match $words $only $session :root $root))) 0)'
    )


def _hy_names_expression(call: str) -> Callable[[], str]:
    """Return a function that creates the Hy expression for a call of the program about names.

    `$session` is the id of the session whose definitions are included.
    """

    def expression() -> str:
        code = json.dumps(python_text("hy/hy_names.py"))
        return f'((fn [space] (exec {code} space) {call}) {{"__name__" "names"}})'

    return expression


PYTHON_EXPRESSIONS: Final = Programs({"test": Written(_test)})
HY_EXPRESSIONS: Final = Programs(
    {
        "test": Written(_test_hy),
        "names": Written(_hy_names_expression('((get space "answer") $name $pattern $session)')),
        "glimpse": Written(_hy_names_expression('((get space "glimpse") $name $session)')),
    }
)
"""The programs for each capability. See `Dialect.expressions`."""


def _fix(path: str) -> Written:
    return Written(lambda: f"(exec {json.dumps(python_text(path))} {{}})")


HY_FIXES: Final = (
    _fix("hy/quiet_server.py"), _fix("hy/request_reader.py"), _fix("hy/output_by_context.py"),
)  # fmt: skip
"""Fixes for hy-nrepl, in order. The first one is needed so that longer ones can be sent."""


_REMOVE: Final = program("lisp/remove.cljc")
REMOVALS: Final[dict[str, Code]] = {
    "clojure": _REMOVE,
    "babashka": _REMOVE,
    "nbb": _REMOVE,
    "basilisp": program("basilisp/remove.lpy"),
    "hy": '(do (.pop (globals) ((. (__import__ "hy") mangle) $name) None) None)',
}


def removal(dialect: str, namespace: str, name: str, home: str) -> tuple[str, str] | None:
    """Return code that removes `name`, defined in `home`, from a namespace, and a short form of it for the log.

    Returns None for a dialect in which that is impossible.
    """
    values = {"$ns": namespace, "$name": name, "$home": home}
    code = REMOVALS.get(dialect)
    # Substituting in one pass is necessary because a name may look like a placeholder.
    if code is None:
        return None
    description = f"(del {name})" if dialect == "hy" else f"(ns-unmap '{namespace} '{name})"
    whole = re.sub(r"\$(?:ns|name|home)\b", lambda found: json.dumps(values[found[0]], ensure_ascii=False), str(code))
    return whole, description


_MODULE: Final = re.compile(r"^(?:[^/() ]*//|[\w.]+@[^/() ]+/)")
"""Matches the class loader or module that the JVM prints before a class."""
_PYTHON_FRAME: Final = re.compile(r'^ +File "')


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread in a dump: its title line and its frames in the printed order."""

    title: str
    frames: tuple[str, ...]


def dump_of(threads: Sequence[Thread], tooling: tuple[str, ...]) -> ThreadDump | None:
    """Build a dump of threads, or return None if there are none. `tooling` identifies frames of tools."""
    if not threads:
        return None
    user_threads = [
        Thread(thread.title, tuple(f for f in thread.frames if not _is_tooling(f, tooling))) for thread in threads
    ]
    return ThreadDump(_dump_text(threads), _dump_text([thread for thread in user_threads if thread.frames]))


def read_python(text: str) -> tuple[Thread, ...]:
    """Parse a dump in Python's format, which has blocks separated by blank lines and two lines per frame."""
    threads = []
    for block in text.strip("\n").split("\n\n"):
        title, *lines = block.split("\n")
        frames: list[str] = []
        for line in lines:
            if frames and not _PYTHON_FRAME.match(line):
                frames[-1] += f"\n{line}"
            else:
                frames.append(line)
        if title.strip():
            threads.append(Thread(title, tuple(frames)))
    return tuple(threads)


def _is_tooling(frame: str, tooling: tuple[str, ...]) -> bool:
    if _PYTHON_FRAME.match(frame):
        return any(part in frame.split("\n", 1)[0] for part in tooling)
    return _MODULE.sub("", frame.strip().removeprefix("at ")).startswith(tooling)


def _dump_text(threads: Sequence[Thread]) -> str:
    return "\n\n".join("\n".join([thread.title, *thread.frames]) for thread in threads)
