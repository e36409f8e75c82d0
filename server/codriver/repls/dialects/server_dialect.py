"""The description of a dialect: the characteristics of its server, and the programs that it can run."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, Union

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.core.print_limits import PrintLimits
    from codriver.repls.programs import Code
    from codriver.wire.bencode import Value


Words = Union[str, "Sequence[Words]"]
"""A string, or a nested list of strings, that becomes a literal in a program."""

_PLACEHOLDER_PATTERN: Final = re.compile(r"\$([a-z]+)")
"""Matches a placeholder in a program, such as `$name`."""

_PRINT_MIDDLEWARE: Final = "nrepl.middleware.print"
"""The nREPL middleware whose options limit printed values."""


Isolation = Literal["session", "connection", "none"]
"""What has its own namespace and last values on a server: each session, each connection, or nothing."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The characteristics of a dialect and its nREPL server.

    Source: the replies of the servers used in the tests.
    """

    name: str
    json: Code = "VALUE"
    """Code that returns the value of an expression, `VALUE`, as a JSON string."""
    preserve_last: Code = ""
    """Code that precedes Codriver's programs and preserves the session's `*1`, `*2`, `*3` and `*e`."""
    python_text: bool = False
    """Whether printed strings are Python literals instead of JSON-like ones."""
    namespace_by: Literal["key", "in-ns", "ns", "none"] = "key"
    """How to evaluate in a namespace: with the field `ns`, by switching to it and back, or not at all."""
    facts: Code | None = None
    """An expression that only this dialect can evaluate. Its value contains `root`, and optionally `pid`."""
    process_id: str | None = None
    """An expression that returns the process id, if `facts` has none."""
    expressions: Mapping[str, str] = field(default_factory=dict)
    """The program for each capability. `$name`, `$ns`, `$code` and `$session` become string literals.

    If a test run continues after its reply, the reply is `pending` and `test-rest` returns the rest. `test-unloaded`
    returns the namespaces of test files that must be loaded first if the program cannot load them.
    """
    before: Mapping[str, str] = field(default_factory=dict)
    """Code that must run before a capability's program, because a form is compiled before any part of it runs."""
    call_cached: Code | None = None
    """Code that calls the function `FORM`, compiled once and stored as `NAME`, with `ARGUMENTS`."""
    cached: frozenset[str] = frozenset()
    """The capabilities whose programs are stored, because compiling them takes longer than running them."""
    tooling: tuple[str, ...] = ()
    """Parts of file or class names that identify tool frames in a stack."""
    unsafe_bytes: int | None = None
    """The length in bytes above which requests that are not pure ASCII break this server."""
    no_file: str | None = None
    """The file name to send with code that has no file, for servers that would otherwise reuse the last file name."""
    send_gap_s: float = 0.0
    """Seconds to wait before sending a request while another one is running."""
    print_limits: str | None = None
    """An expression whose value has more than two elements, for testing whether the server honors print limits.

    It is None for servers that never do.
    """
    fixes: tuple[Code, ...] = ()
    """Code that fixes bugs in the server, evaluated once per connection. It has no effect on servers without them."""
    printer: Code | None = None
    """Code that defines `codriver.kept/print`, in which the user's settings take precedence over default limits."""
    file_evaluator: Code | None = None
    """Code that defines a function for evaluating code from a file, and returns its name.

    This is for servers that otherwise omit the name of the file from stack traces.
    """
    broken: frozenset[str] = frozenset()
    """Capabilities whose ops do not work."""
    adapted: Mapping[str, str] = field(default_factory=dict)
    """Capabilities that Codriver provides without an op, and how."""
    counts_lines: bool = True
    """Whether the server honors `line`, so that reported lines are those in the caller's file."""
    accepts_missing_position: bool = False
    """Whether code without a position starts at line 1, column 1. Source: nREPL's `interruptible-eval`."""
    columns_from_zero: bool = False
    """Whether the op for symbols counts columns from 0."""
    completes_within: bool = False
    """Whether the op for completion also returns names that contain the prefix in the middle, and the owner of a name.
    """
    home: str = "user"
    """The namespace of a new session."""
    expanders: tuple[str, str] = ("macroexpand-1", "clojure.walk/macroexpand-all")
    """The functions that expand a macro once, and completely."""
    interrupt_note: str | None = None
    """The reason why a confirmed interrupt does not prove that the code has stopped."""
    interrupts_reads: bool = True
    """Whether an interrupt also ends code waiting for input. Other servers do not reply until they get input."""
    sends_traceback: bool = False
    """Whether a failure includes its complete trace."""
    load_moves_namespace: bool = False
    """Whether loading a file changes the namespace of the session."""
    answers_while_busy: bool = False
    """Whether the server replies to other requests while code is running."""
    isolates: Isolation | None = None
    """What the dialect's only server isolates, or None if each server must be probed."""
    shares: str = "namespaces and their definitions are shared, so define names in a namespace of your own"
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
        """Return the request fields that limit what `eval` prints.

        In a REPL that `knows_defaults`, the user's settings take precedence over default limits. With `for_session`,
        Codriver's printer remembers the limits in the session. With `preserves_loaders`, it does not discard class
        loaders.

        Source: nREPL documentation, "Pretty Printing".
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
            fields[f"{_PRINT_MIDDLEWARE}/quota"] = bounds.max_value_bytes
            if for_session:
                options["quota"] = bounds.max_value_bytes
        if for_session:
            options["for-session"] = 1
        if preserves_loaders and self.printer:
            options["keep-loaders"] = 1
        if options:
            fields[f"{_PRINT_MIDDLEWARE}/options"] = options
        if options or self.printer:
            fields[f"{_PRINT_MIDDLEWARE}/print"] = "codriver.kept/print" if self.printer else "nrepl.util.print/pr"
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

    def program_code(self, capability: str, **names: Words) -> str:
        """Return the program for a capability with `names` filled in as literals. Its value is a JSON string."""
        code = self.expressions[capability]
        if capability in self.cached:
            code = self._call(code)
        return self.fill_program(code, before=self.before.get(capability, ""), **names)

    def fill_program(self, code: str, /, *, before: str = "", **names: Words) -> str:
        """Fill `names` into a program as literals, and return code for its value as a JSON string."""
        literals = {name: self._literal(words) for name, words in names.items()}
        if isinstance(expand := names.get("expand"), str):
            literals["expand"] = expand
        code = _PLACEHOLDER_PATTERN.sub(lambda match: literals.get(match[1], match[0]), code)
        return f"{self.preserve_last}{before}{self.as_json_code(code)}"

    def _call(self, code: str) -> str:
        """Return code that calls the cached function for a program, with the placeholders as arguments."""
        names = sorted(set(_PLACEHOLDER_PATTERN.findall(code)))
        body = _PLACEHOLDER_PATTERN.sub(r"asked-\1", code)
        form = f"(fn [{' '.join([f'asked-{name}' for name in names])}] {body})"
        digest = hashlib.blake2b(form.encode(), digest_size=6).hexdigest()
        holes = {"NAME": self.quote(f"form-{digest}"), "FORM": self.quote(form)}
        holes["ARGUMENTS"] = " ".join([f"${name}" for name in names])
        return re.sub("NAME|FORM|ARGUMENTS", lambda match: holes[match[0]], str(self.call_cached))

    def json_code(self, expression: str) -> str:
        """Return code for the value of an expression as a JSON string. The session's `*1` and `*e` are preserved."""
        return f"{self.preserve_last}{self.as_json_code(expression)}"

    def as_json_code(self, expression: str) -> str:
        """Return code for the value of an expression as a JSON string."""
        return str(self.json).replace("VALUE", expression, 1)

    def read(self, printed: str) -> object:
        """Parse JSON from a string literal that the server printed.

        Raises:
            ValueError: the text is not a literal, or the string is not JSON.
        """
        return json.loads(self.parse_string(printed), strict=False)

    def parse_string(self, printed: str) -> str:
        """Parse a string literal that the server printed.

        Raises:
            ValueError, SyntaxError: the text is not a literal.
        """
        # Clojure prints control characters in strings unescaped, which strict JSON forbids.
        return str(ast.literal_eval(printed) if self.python_text else json.loads(printed, strict=False))
