"""One dialect: the limits and habits of its server, the expressions that ask the server, and the syntax of its code.

Expressions ask a Lisp for the namespaces of files below a folder and the survivors in them, take names out of
namespaces, and have a REPL of Python or Hy run a program of ours: its tests, names, and mends of hy-nrepl. Answering
code is compiled once and kept in the REPL, as compiling takes longer than running it. Thread dumps are cut to the
user's own code.
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
from codriver.repls.contract.questions import LivesOn, Loaded, LoadedNamespace, LoadedVar
from codriver.repls.programs import Programs, Written, program, python_text
from codriver.wire.untrusted import as_list

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from codriver.core.values import PrintLimits
    from codriver.repls.programs import Code
    from codriver.wire.bencode import Value


Words = Union[str, "Sequence[Words]"]
"""A text, or a list of texts, in the form of a literal for our code."""

_NAME: Final = re.compile(r"\$([a-z]+)")

_PRINT: Final = "nrepl.middleware.print"


Isolation = Literal["session", "connection", "none"]
"""What has a namespace and last values of its own on a server: each session, each connection, or nothing."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One dialect: facts of its server, known once the server showed its dialect. Sources: the answers in the tests."""

    name: str
    json: Code = "VALUE"
    """Code around an expression, `VALUE`, for its value as one JSON text."""
    preserve_last: Code = ""
    """Code before ours that preserves `*1`, `*2`, `*3` and `*e` when ours runs in the user's session."""
    python_text: bool = False
    """Whether printed strings are Python literals, not JSON-like ones."""
    namespace_by: Literal["key", "in-ns", "ns", "none"] = "key"
    """The way to evaluate code in a namespace: the key `ns`, or a switch there and back, or not at all."""
    facts: Code | None = None
    """An expression that only this dialect evaluates: `root`, a cheap `pid`, and the answer to `$seam`."""
    process_id: str | None = None
    expressions: Mapping[str, str] = field(default_factory=dict)
    """By capability, an expression that gives its answer; `$name`, `$ns`, `$code`, `$session` are string literals.

    When a test run goes on after its answer, `pending`, `test-rest` asks for the rest. `test-unloaded` gives the
    namespaces of test files to load first, if the expression of the run cannot load them. `test-fresh` runs tests in a
    process of their own.
    """
    before: Mapping[str, str] = field(default_factory=dict)
    """By capability, the requirements of its expression: a form is compiled whole before any part of it runs."""
    call_cached: Code | None = None
    """Code that calls the function of the text `FORM`, compiled once and kept as `NAME`, with `ARGUMENTS`."""
    cached: frozenset[str] = frozenset()
    """The capabilities whose expressions are kept in this way, since compiling takes longer than running them."""
    tooling: tuple[str, ...] = ()
    """Parts of file or class names whose stack frames are not the user's."""
    unsafe_bytes: int | None = None
    """Longer requests that are not all ASCII break this server."""
    no_file: str | None = None
    """The file name for code without a file, since a session keeps the last name told."""
    send_gap_s: float = 0.0
    print_limits: str | None = None
    """An expression that prints more than two parts, if limits may be honoured."""
    fixes: tuple[Code, ...] = ()
    """Code that mends the server, each evaluated once a connection; a server without the fault stays as it is."""
    printer: Code | None = None
    """Code that defines `codriver.kept/print`, in which the user's settings win over limits that nobody asked for."""
    file_evaluator: Code | None = None
    """Code that defines a function to evaluate code of a file, and gives the function's name; for a server that leaves
    the file's name out of stack traces.
    """
    broken: frozenset[str] = frozenset()
    """Capabilities with listed ops that do not work."""
    adapted: Mapping[str, str] = field(default_factory=dict)
    """Capabilities that we give without an op of their own, and the means."""
    counts_lines: bool = True
    """Whether the server honours `line`, so that its lines are those of the caller's file."""
    accepts_missing_position: bool = False
    """Whether code without a place begins in line 1, column 1. Source: nREPL's `interruptible-eval`, our worker."""
    columns_from_zero: bool = False
    """Whether its op for symbols counts columns from 0."""
    completes_within: bool = False
    """Whether its op for completion also gives names that only contain the typed text, and the owner of a name as a
    name.
    """
    home: str = "user"
    """The namespace in which a new session evaluates."""
    expanders: tuple[str, str] = ("macroexpand-1", "clojure.walk/macroexpand-all")
    """The functions that expand once, and until nothing is left."""
    interrupt_note: str | None = None
    """The reason why a confirmed interrupt does not prove that the code stopped."""
    interrupts_reads: bool = True
    """Whether an interrupt also ends code that waits for input; other servers answer nothing until input comes."""
    sends_traceback: bool = False
    """Whether a failure comes with its whole trace, so that nobody has to ask for it."""
    load_moves_namespace: bool = False
    answers_while_busy: bool = False
    """Whether its server answers questions while code runs."""
    isolates: Isolation | None = None
    """What the dialect's only server keeps apart; None if each server is asked."""
    shares: str = "namespaces and what is defined in them are shared: define in one of your own"
    """The things that a separate session shares with the others, in words."""
    joins: str | None = None
    """The code by which a session takes over the names of the main one, `$main`, if sessions share none."""
    is_serial: bool = False
    """Whether sessions keep their namespaces apart and still wait for each other, as everything runs on one thread."""
    runs_files: bool = False
    """Whether tests are run by file too: our own code takes paths and finds the files itself."""
    notes: tuple[str, ...] = ()

    def print_fields(
        self,
        bounds: PrintLimits,
        *,
        knows_defaults: bool = False,
        for_session: bool = False,
        preserves_loaders: bool = False,
    ) -> dict[str, Value]:
        """The fields of an `eval` that limit its printing. Source: nREPL documentation, "Pretty Printing".

        In a REPL that `knows_defaults` the user's settings win over limits that nobody asked for. `for_session`: our
        printer has the session keep the limits from then on. `preserves_loaders`: our printer leaves a session's
        loaders alone.
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
        # Python's separators are blanks in a Lisp.
        return self.quote(words) if isinstance(words, str) else f"[{', '.join([self._literal(one) for one in words])}]"

    def quote(self, text: str) -> str:
        """Return `text` as a string literal of the dialect."""
        # Node's servers count a request in characters where it comes in pieces; ASCII is safe from that.
        return json.dumps(text, ensure_ascii=not self.python_text)

    def expression(self, capability: str, **names: Words) -> str:
        """The code that asks for `capability`, with `names` in it as literals; its value is one JSON text."""
        code = self.expressions[capability]
        if capability in self.cached:
            code = self._call(code)
        return self.filled(code, before=self.before.get(capability, ""), **names)

    def filled(self, code: str, /, *, before: str = "", **names: Words) -> str:
        """Return the code for the value of a program as one JSON text, with `names` in it as literals."""
        literals = {name: self._literal(words) for name, words in names.items()}
        if isinstance(expand := names.get("expand"), str):
            literals["expand"] = expand
        code = _NAME.sub(lambda match: literals.get(match[1], match[0]), code)
        return f"{self.preserve_last}{before}{self.as_json(code)}"

    def _call(self, code: str) -> str:
        """Return the call of a kept function, with the question's values as arguments."""
        names = sorted(set(_NAME.findall(code)))
        body = _NAME.sub(r"asked-\1", code)
        form = f"(fn [{' '.join([f'asked-{name}' for name in names])}] {body})"
        digest = hashlib.blake2b(form.encode(), digest_size=6).hexdigest()
        holes = {"NAME": self.quote(f"form-{digest}"), "FORM": self.quote(form)}
        holes["ARGUMENTS"] = " ".join([f"${name}" for name in names])
        return re.sub("NAME|FORM|ARGUMENTS", lambda match: holes[match[0]], str(self.call_cached))

    def json_code(self, expression: str) -> str:
        """Return the code for the value of `expression` as one JSON text."""
        return f"{self.preserve_last}{self.as_json(expression)}"

    def as_json(self, expression: str) -> str:
        """Return the code for the value of `expression` as one JSON text."""
        return str(self.json).replace("VALUE", expression, 1)

    def read(self, printed: str) -> object:
        """Return the data whose JSON text a server printed as a string.

        Raises:
            ValueError: the text is no such string.
        """
        # Clojure leaves control characters in a printed string as they are; JSON refuses them.
        text = ast.literal_eval(printed) if self.python_text else json.loads(printed, strict=False)
        return json.loads(str(text), strict=False)


_LOADED: Final = program("clojure/loaded.clj")


@cache
def _cached_name() -> str:
    """Return the name of the kept code. A REPL outlives its server, and the next server may ask with other code."""
    return f"loaded-{hashlib.blake2b(str(_LOADED).encode(), digest_size=6).hexdigest()}"


CALL_LOADED: Final = Written(
    lambda: f"(if-let [f (ns-resolve (create-ns 'codriver.kept) '{_cached_name()})] (f $known $root) {{:absent true}})"
)
CACHE_LOADED: Final = Written(lambda: f"(do (intern (create-ns 'codriver.kept) '{_cached_name()} {_LOADED}) nil)")


def read_loaded(data: Mapping[str, object]) -> Loaded:
    """Return the loaded code told in an answer."""
    started = str(data.get("began") or "0")
    spaces = (_namespace(one) for one in as_list(data.get("spaces")) if isinstance(one, dict))
    lists = [[str(word) for word in one] for one in as_list(data.get("old")) if isinstance(one, list) and len(one) == 4]
    counted = [one for one in as_list(data.get("instances")) if isinstance(one, list) and len(one) == 3]
    old = [LivesOn(home, name, "former" if kind == "former" else "old", of) for home, name, kind, of in lists]
    old += [LivesOn(str(home), str(name), "instances", str(count)) for home, name, count in counted]
    return Loaded(
        int(started) if started.isdigit() else 0,
        frozenset(str(data.get("names") or "").split()),
        tuple(spaces),
        tuple(old),
    )


def _namespace(one: Mapping[str, object]) -> LoadedNamespace:
    found = [_var(row) for row in as_list(one.get("vars")) if isinstance(row, list) and len(row) == 5]
    files = tuple(str(file) for file in as_list(one.get("files")))
    return LoadedNamespace(str(one.get("ns")), str(one.get("mark")), files, tuple(found))


def _var(row: list[object]) -> LoadedVar:
    name, file, line, root, stamp = row
    position = file if isinstance(file, str) else "", (line or None) if isinstance(line, int) else None
    return LoadedVar(str(name), *position, str(root), str(stamp))


@cache
def program_of_tests() -> str:
    """Return the program that runs tests, as a text whose `answer` gives the report of a run."""
    return python_text("python/run_values.py", "python/pytest_runs.py", "python/run_answers.py")


@cache
def _fresh() -> str:
    return python_text("python/run_values.py", "python/runs_anew.py")


@cache
def _process() -> str:
    return python_text("python/new_process.py")


def _test() -> str:
    """Return the expression that runs tests.

    `$ns`, `$name` and `$match` are string literals, empty for all; `$only` lists namespaces with tests; `$root` is the
    directory to run in, empty for the REPL's own; `$words` is `$match` as alternatives of words that all must hold,
    with an exclamation mark before those that must not.

    The program stands on a line of its own, on which no call begins, since tracebacks and stacks show the line of a
    call.
    """
    return (
        '[space["answer"]($ns, $name, $match, $words, $only, root=$root)\n'
        ' for space in [{"__name__": "tests"}]\n'
        f" for _ in [exec(\n{program_of_tests()!r}\n, space)]][0]"
    )


def _test_hy() -> str:
    """The expression in Hy, which runs the same program; its modules are imported and collected as Python's are.

    `$session` is the id of the session whose definitions count too, a string literal.
    """
    return (
        '(get (lfor\n space [{"__name__" "tests"}]\n'
        f" _ [(exec {json.dumps(program_of_tests())} space)]\n"
        ' (.loads (__import__ "json") ((get space "answer") $ns $name $match $words $only $session :root $root))) 0)'
    )


def _test_fresh() -> str:
    """The expression that runs the tests in a process of their own: the same program, without the loaded code."""
    return (
        '[space["run_in_new_process"](process, program, $root, $ns, $name, $match, $words, $only)\n'
        ' for space in [{"__name__": "tests"}]\n'
        f" for process, program in [({_process()!r}, {program_of_tests()!r})]\n"
        f" for _ in [exec(\n{_fresh()!r}\n, space)]][0]"
    )


def _test_fresh_hy() -> str:
    """Return the expression in Hy. A session's definitions are not in a new process."""
    return (
        '(get (lfor\n space [{"__name__" "tests"}]\n'
        f" _ [(exec {json.dumps(_fresh())} space)]\n"
        ' (.loads (__import__ "json") ((get space "run_in_new_process")\n'
        f" {json.dumps(_process())} {json.dumps(program_of_tests())} $root $ns $name $match $words $only))) 0)"
    )


def _hy_names(call: str) -> Callable[[], str]:
    """The expression in Hy that runs a function of the program about names in a namespace of its own.

    `$session` is the id of the session whose definitions count too.
    """

    def expression() -> str:
        code = json.dumps(python_text("hy/hy_names.py"))
        return f'((fn [space] (exec {code} space) {call}) {{"__name__" "names"}})'

    return expression


PYTHON_EXPRESSIONS: Final = Programs({"test": Written(_test), "test-fresh": Written(_test_fresh)})
HY_EXPRESSIONS: Final = Programs(
    {
        "test": Written(_test_hy),
        "test-fresh": Written(_test_fresh_hy),
        "names": Written(_hy_names('((get space "answer") $name $pattern $session)')),
        "glimpse": Written(_hy_names('((get space "glimpse") $name $session)')),
    }
)
"""By capability, as in `Dialect.ask`."""


def _fix(path: str) -> Written:
    return Written(lambda: f"(exec {json.dumps(python_text(path))} {{}})")


HY_FIXES: Final = (
    _fix("hy/quiet_server.py"), _fix("hy/request_reader.py"), _fix("hy/output_by_context.py"),
)  # fmt: skip
"""Mends, evaluated in order: the first makes room for longer ones."""


_REMOVE: Final = program("lisp/remove.cljc")
REMOVALS: Final[dict[str, Code]] = {
    "clojure": _REMOVE,
    "babashka": _REMOVE,
    "nbb": _REMOVE,
    "basilisp": program("basilisp/remove.lpy"),
    "hy": '(do (.pop (globals) ((. (__import__ "hy") mangle) $name) None) None)',
}


def removal(dialect: str, namespace: str, name: str, home: str) -> tuple[str, str] | None:
    """Code that takes `home`'s `name` out of another namespace, and the same in a few words for the log.

    None for a dialect without a way to do that.
    """
    values = {"$ns": namespace, "$name": name, "$home": home}
    code = REMOVALS.get(dialect)
    # In one pass: a name may look like a place for another.
    if code is None:
        return None
    description = f"(del {name})" if dialect == "hy" else f"(ns-unmap '{namespace} '{name})"
    whole = re.sub(r"\$(?:ns|name|home)\b", lambda found: json.dumps(values[found[0]], ensure_ascii=False), str(code))
    return whole, description


_MODULE: Final = re.compile(r"^(?:[^/() ]*//|[\w.]+@[^/() ]+/)")
"""The loader or module that the JVM writes before a class."""
_PYTHON_FRAME: Final = re.compile(r'^ +File "')


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread: its name, and its frames in the order shown."""

    title: str
    frames: tuple[str, ...]


def dump_of(threads: Sequence[Thread], tooling: tuple[str, ...]) -> ThreadDump | None:
    """The dump of threads, in which frames in code named by `tooling` are not the user's; None without any."""
    if not threads:
        return None
    user_threads = [
        Thread(thread.title, tuple(f for f in thread.frames if not _is_tooling(f, tooling))) for thread in threads
    ]
    return ThreadDump(_dump_text(threads), _dump_text([thread for thread in user_threads if thread.frames]))


def read_python(text: str) -> tuple[Thread, ...]:
    """Return the threads of a dump in Python's notation: blocks parted by blank lines, two lines a frame."""
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
