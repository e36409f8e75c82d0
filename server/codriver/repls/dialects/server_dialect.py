"""One dialect: the limits and habits of its server, the expressions that ask it, and how its code is written."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, Union

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    """What the dialect's one server keeps apart; None: asked of each server."""
    shares: str = "namespaces and what is defined in them are shared: define in one of your own"
    """What a session apart shares with the others, in words."""
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
        code = _NAME.sub(lambda match: literals.get(match[1], match[0]), self.ask[capability])
        return f"{self.keeps_last}{self.before.get(capability, '')}{self.as_json(code)}"

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
