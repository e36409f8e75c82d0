"""One dialect: the limits and habits of its server, the expressions that ask it, and how its code is written.

Expressions ask a Lisp which namespaces are of files below a folder and what lives on in them, take names out of
namespaces, and have a REPL of Python or Hy run a program of ours: its tests, names, and mends of hy-nrepl. Code that
answers is compiled once and kept in the REPL, as compiling takes longer than all that the code does. Of a thread dump
the part is found that is in the user's own code.
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
"""A text, or a list of such, as it reaches our code: as a literal."""

_NAME: Final = re.compile(r"\$([a-z]+)")

_PRINT: Final = "nrepl.middleware.print"


@dataclass(frozen=True, slots=True)
class Dialect:
    """One dialect: facts of its server, known once it showed itself to be one. Sources: the answers in the tests."""

    name: str
    json: Code = "VALUE"
    """Code around an expression, `VALUE`, that gives its value as one JSON text."""
    keeps_last: Code = ""
    """Code before ours that leaves `*1`, `*2`, `*3` and `*e` as they are, where ours runs in the user's session."""
    python_text: bool = False
    """Printed strings are Python literals, not JSON-like ones."""
    namespace_by: Literal["key", "in-ns", "ns", "none"] = "key"
    """How code is evaluated in a namespace: the key `ns`, or a switch there and back, or not at all."""
    facts: Code | None = None
    """An expression that only this dialect evaluates: `root`, where it is cheap `pid`, and the answer to `$seam`."""
    process_id: str | None = None
    ask: Mapping[str, str] = field(default_factory=dict)
    """By capability, an expression that gives its answer; `$name`, `$ns`, `$code`, `$session` are string literals.

    Of a test run that goes on after its answer, `pending`, `test-rest` asks for the rest; `test-unloaded` gives the
    namespaces of test files that are to be loaded before, where the expression of the run cannot. `test-fresh` runs
    tests in a process of their own.
    """
    before: Mapping[str, str] = field(default_factory=dict)
    """By capability, what the expression requires: a form is compiled whole before any of it runs."""
    kept: Code | None = None
    """Code that calls the function of the text `FORM`, compiled once and kept as `NAME`, with `ARGUMENTS`."""
    keeps: frozenset[str] = frozenset()
    """The capabilities whose expressions are kept so: to compile them takes longer than all that they do."""
    confirm: Mapping[str, str] = field(default_factory=dict)
    """By capability, code that runs only where the server brings along what `ask` needs; evaluated once, at first."""
    tooling: tuple[str, ...] = ()
    """Parts of file or class names whose stack frames are not the user's."""
    unsafe_bytes: int | None = None
    """Requests that are longer and not all ASCII break this server."""
    no_file: str | None = None
    """The file of code that is in none, where a session keeps the one that it was told last."""
    send_gap_s: float = 0.0
    print_limits: str | None = None
    """An expression that prints more than two parts, where limits may be honoured."""
    mends: tuple[Code, ...] = ()
    """Code that mends the server, each evaluated once a connection; a server that it does not fit stays as it is."""
    printer: Code | None = None
    """Code that defines `codriver.kept/print`, where what the user has set wins over limits that nobody asked for."""
    file_evaluator: Code | None = None
    """Code that defines a function to evaluate what comes from a file, and gives its name; for a server that leaves the
    file's name out of stack traces."""
    broken: frozenset[str] = frozenset()
    """Capabilities whose ops are listed and do not work."""
    adapted: Mapping[str, str] = field(default_factory=dict)
    """Capabilities that we give without an op of their own, and by what."""
    counts_lines: bool = True
    """The server honours `line`, so that the lines it tells are those of the caller's file."""
    takes_beginning: bool = False
    """Code whose place is not said begins in line 1, column 1. Source: nREPL's `interruptible-eval`, our worker."""
    columns_from_zero: bool = False
    """Its op for symbols counts columns from 0."""
    completes_within: bool = False
    """Its op for completion also gives names that only contain what was typed, and the owner of a name as a name."""
    home: str = "user"
    """The namespace in which a new session evaluates."""
    expanders: tuple[str, str] = ("macroexpand-1", "clojure.walk/macroexpand-all")
    """The functions that expand once, and until nothing is left."""
    interrupt_note: str | None = None
    """Why an interrupt that was confirmed does not prove that the code stopped."""
    interrupts_reads: bool = True
    """An interrupt also ends code that waits for input; else the server answers nothing until input comes."""
    sends_traceback: bool = False
    """A failure comes with its whole trace, so the last one need not be asked for."""
    load_moves_namespace: bool = False
    answers_while_busy: bool = False
    """Its server answers questions while code runs."""
    keeps_apart: Literal["session", "connection", "none"] | None = None
    """The things that the dialect's one server keeps apart; None: asked of each server."""
    shares: str = "namespaces and what is defined in them are shared: define in one of your own"
    """The things that a session apart shares with the others, in words."""
    joins: str | None = None
    """The code by which a session takes the names of the main one, `$main`, for its own, where sessions share none."""
    is_serial: bool = False
    """Sessions keep their namespaces apart and still wait for each other: everything runs on one thread."""
    runs_files: bool = False
    """Tests are run by file too: our own code for them takes paths and finds the files itself."""
    notes: tuple[str, ...] = ()

    def print_fields(
        self,
        bounds: PrintLimits,
        *,
        knows_defaults: bool = False,
        for_session: bool = False,
        keeps_loaders: bool = False,
    ) -> dict[str, Value]:
        """The fields of an `eval` that limit what it prints. Source: nREPL documentation, "Pretty Printing".

        A REPL that `knows_defaults` lets what its user has set win over limits that nobody asked for. `for_session`:
        our printer has the session keep to them from then on. `keeps_loaders`: it leaves the session's class loaders.
        """
        if self.print_limits is None:
            return {}
        knows_defaults = knows_defaults or self.printer is not None
        length = "print" if bounds.length_is_asked or not knows_defaults else "default"
        depth = "print" if bounds.depth_is_asked or not knows_defaults else "default"
        limits = {f"{length}-length": bounds.max_length, f"{depth}-level": bounds.max_depth}
        options: dict[str, Value] = {name: limit for name, limit in limits.items() if limit is not None}
        fields: dict[str, Value] = {}
        if bounds.max_value_bytes is not None:
            fields[f"{_PRINT}/quota"] = bounds.max_value_bytes
            if for_session:
                options["quota"] = bounds.max_value_bytes
        if for_session:
            options["for-session"] = 1
        if keeps_loaders and self.printer:
            options["keep-loaders"] = 1
        if options:
            fields[f"{_PRINT}/options"] = options
        if options or self.printer:
            fields[f"{_PRINT}/print"] = "codriver.kept/print" if self.printer else "nrepl.util.print/pr"
        return fields

    def _literal(self, words: Words) -> str:
        # What separates in Python is blank in a Lisp.
        return self.quote(words) if isinstance(words, str) else f"[{', '.join([self._literal(one) for one in words])}]"

    def quote(self, text: str) -> str:
        """`text` as a string literal of the dialect."""
        # Node's servers count a request in characters where it comes in pieces; ASCII is safe from that.
        return json.dumps(text, ensure_ascii=not self.python_text)

    def expression(self, capability: str, **names: Words) -> str:
        """The code that asks for `capability`, with `names` in it as literals; its value is one JSON text."""
        literals = {name: self._literal(words) for name, words in names.items()}
        if isinstance(expand := names.get("expand"), str):
            literals["expand"] = expand
        code = self.ask[capability]
        if capability in self.keeps:
            code = self._call(code)
        code = _NAME.sub(lambda match: literals.get(match[1], match[0]), code)
        return f"{self.keeps_last}{self.before.get(capability, '')}{self.as_json(code)}"

    def _call(self, code: str) -> str:
        """The call of a function that is kept: its parameters are what the question fills in."""
        names = sorted(set(_NAME.findall(code)))
        body = _NAME.sub(r"asked-\1", code)
        form = f"(fn [{' '.join([f'asked-{name}' for name in names])}] {body})"
        digest = hashlib.blake2b(form.encode(), digest_size=6).hexdigest()
        holes = {"NAME": self.quote(f"form-{digest}"), "FORM": self.quote(form)}
        holes["ARGUMENTS"] = " ".join([f"${name}" for name in names])
        return re.sub("NAME|FORM|ARGUMENTS", lambda match: holes[match[0]], str(self.kept))

    def question(self, expression: str) -> str:
        """The code whose value is that of `expression`, as one JSON text."""
        return f"{self.keeps_last}{self.as_json(expression)}"

    def as_json(self, expression: str) -> str:
        """The code that gives the value of `expression` as one JSON text."""
        return str(self.json).replace("VALUE", expression, 1)

    def read(self, printed: str) -> object:
        """The data whose JSON text a server printed as a string.

        Raises:
            ValueError: it is none.
        """
        # Clojure leaves control characters in a printed string as they are; JSON would refuse them.
        text = ast.literal_eval(printed) if self.python_text else json.loads(printed, strict=False)
        return json.loads(str(text), strict=False)


_LOADED: Final = program("clojure/loaded.clj")


@cache
def _kept() -> str:
    """The name under which the code is kept. A REPL outlives its server, and the next one may ask with other code."""
    return f"loaded-{hashlib.blake2b(str(_LOADED).encode(), digest_size=6).hexdigest()}"


ASK_CLOJURE: Final = Written(
    lambda: f"(if-let [f (ns-resolve (create-ns 'codriver.kept) '{_kept()})] (f $known $root) {{:absent true}})"
)
KEEP_CLOJURE: Final = Written(lambda: f"(do (intern (create-ns 'codriver.kept) '{_kept()} {_LOADED}) nil)")


def read_loaded(data: Mapping[str, object]) -> Loaded:
    """The loaded code that an answer tells of."""
    began = str(data.get("began") or "0")
    spaces = (_namespace(one) for one in as_list(data.get("spaces")) if isinstance(one, dict))
    lists = [[str(word) for word in one] for one in as_list(data.get("old")) if isinstance(one, list) and len(one) == 4]
    counted = [one for one in as_list(data.get("instances")) if isinstance(one, list) and len(one) == 3]
    old = [LivesOn(home, name, "former" if kind == "former" else "old", of) for home, name, kind, of in lists]
    old += [LivesOn(str(home), str(name), "instances", str(count)) for home, name, count in counted]
    return Loaded(
        int(began) if began.isdigit() else 0,
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
    place = file if isinstance(file, str) else "", (line or None) if isinstance(line, int) else None
    return LoadedVar(str(name), *place, str(root), str(stamp))


@cache
def program_of_tests() -> str:
    """The program that runs tests, as a text whose `answer` gives the report of a run."""
    return python_text("python/run_values.py", "python/pytest_runs.py", "python/run_answers.py")


@cache
def _fresh() -> str:
    return python_text("python/run_values.py", "python/runs_anew.py")


@cache
def _process() -> str:
    return python_text("python/new_process.py")


def _test() -> str:
    """The expression that runs tests.

    `$ns`, `$name` and `$match` are string literals, empty for all; `$only` lists namespaces with tests; `$root` is the
    folder to run in, empty for the one that the REPL is in; `$words` is `$match` as alternatives of words that all must
    hold, an exclamation mark before what must not.

    The program stands on a line of its own, on which no call begins, as tracebacks and stacks show the line of what
    calls.
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
    """The expression that runs the tests in a process of their own: the same program, and nothing of what is loaded."""
    return (
        '[space["run_anew"](process, program, $root, $former, $ns, $name, $match, $words, $only)\n'
        ' for space in [{"__name__": "tests"}]\n'
        f" for process, program in [({_process()!r}, {program_of_tests()!r})]\n"
        f" for _ in [exec(\n{_fresh()!r}\n, space)]][0]"
    )


def _test_fresh_hy() -> str:
    """The expression in Hy. What a session defines is not in a new process."""
    return (
        '(get (lfor\n space [{"__name__" "tests"}]\n'
        f" _ [(exec {json.dumps(_fresh())} space)]\n"
        ' (.loads (__import__ "json") ((get space "run_anew")\n'
        f" {json.dumps(_process())} {json.dumps(program_of_tests())} $root $former $ns $name $match $words $only))) 0)"
    )


def _hy_names(call: str) -> Callable[[], str]:
    """The expression in Hy that runs a function of the program about names in a namespace of its own.

    `$session` is the id of the session whose definitions count too.
    """

    def expression() -> str:
        code = json.dumps(python_text("hy/hy_names.py"))
        return f'((fn [space] (exec {code} space) {call}) {{"__name__" "names"}})'

    return expression


ASK: Final = Programs({"test": Written(_test), "test-fresh": Written(_test_fresh)})
ASK_HY: Final = Programs(
    {
        "test": Written(_test_hy),
        "test-fresh": Written(_test_fresh_hy),
        "names": Written(_hy_names('((get space "answer") $name $pattern $session)')),
        "glimpse": Written(_hy_names('((get space "glimpse") $name $session)')),
    }
)
"""By capability, as `Dialect.ask` has it."""


def _mend(path: str) -> Written:
    return Written(lambda: f"(exec {json.dumps(python_text(path))} {{}})")


MENDS_HY: Final = (
    _mend("hy/quiet_server.py"), _mend("hy/request_reader.py"), _mend("hy/output_by_context.py"),
)  # fmt: skip
"""To be evaluated one after the other: the first makes room for longer ones."""


_REMOVE: Final = program("lisp/remove.cljc")
REMOVALS: Final[dict[str, Code]] = {
    "clojure": _REMOVE,
    "babashka": _REMOVE,
    "nbb": _REMOVE,
    "basilisp": program("basilisp/remove.lpy"),
    "hy": '(do (.pop (globals) ((. (__import__ "hy") mangle) $name) None) None)',
    "squint": program("squint/objects.cljs", BODY=program("squint/remove.cljs")),
}


def removal(dialect: str, namespace: str, name: str, home: str) -> tuple[str, str] | None:
    """Code that takes `name` out of a namespace where it is that of `home`, and the same in a few words for the log.

    None where the dialect has no way to.
    """
    texts = {"$ns": namespace, "$name": name, "$home": home}
    code = REMOVALS.get(dialect)
    # In one pass: a name may look like a place for another.
    if code is None:
        return None
    said = f"(del {name})" if dialect == "hy" else f"(ns-unmap '{namespace} '{name})"
    whole = re.sub(r"\$(?:ns|name|home)\b", lambda found: json.dumps(texts[found[0]], ensure_ascii=False), str(code))
    return whole, said


_MODULE: Final = re.compile(r"^(?:[^/() ]*//|[\w.]+@[^/() ]+/)")
"""The loader or module that the JVM writes before a class."""
_PYTHON_FRAME: Final = re.compile(r'^ +File "')


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread: what it is called, and its frames in the order they are shown."""

    title: str
    frames: tuple[str, ...]


def dump_of(threads: Sequence[Thread], tooling: tuple[str, ...]) -> ThreadDump | None:
    """The dump of threads whose frames in code that `tooling` names are not the user's; None without any."""
    if not threads:
        return None
    own = [Thread(thread.title, tuple(f for f in thread.frames if not _is_tooling(f, tooling))) for thread in threads]
    return ThreadDump(_say(threads), _say([thread for thread in own if thread.frames]))


def read_python(text: str) -> tuple[Thread, ...]:
    """The threads of a dump in Python's notation: blocks parted by blank lines, two lines a frame."""
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


def _say(threads: Sequence[Thread]) -> str:
    return "\n\n".join("\n".join([thread.title, *thread.frames]) for thread in threads)
