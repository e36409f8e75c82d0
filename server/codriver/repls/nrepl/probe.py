"""The probe of a REPL's capabilities, which sends `describe` and evaluates expressions without side effects.

Names and versions are not trusted. One server claims to be a different one, and another reports Clojure's version
without being Clojure.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, Literal

from codriver.core.print_limits import PrintLimits
from codriver.core.profiles import Capability, Profile
from codriver.errors import join_first
from codriver.repls import dialects
from codriver.repls.contract.adapter import OpTimedOutError
from codriver.repls.contract.capabilities import CAPABILITIES
from codriver.repls.nrepl.replies import BACKGROUND_OP, FRAME_OP, OUTPUT_OPS, STORED_VALUE_OP
from codriver.wire.untrusted import EMPTY_MAPPING, int_or_none, mapping_or_empty, text_or_none

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.repls.contract.capabilities import ServerCapability
    from codriver.repls.dialects.server_dialect import Dialect
    from codriver.repls.nrepl.connection import Message, NreplConnection
    from codriver.repls.nrepl.opened_sessions import OpenedSessions
    from codriver.wire.bencode import Value

PROBE_TIMEOUT_S: Final = 10.0
"""Seconds to wait for each probe. A server that takes longer to evaluate a constant is busy."""

MIN_JAVA_NEEDING_ATTACH: Final = 21
"""The first JDK in which only an agent attached to the process can stop a thread. Source: nREPL 1.3."""

ROOT_OUTPUT_DIALECTS: Final = frozenset({"clojure", "babashka"})
"""Dialects in which new threads print to the process's standard output instead of the evaluation's."""
OUTPUT_IN_TERMINAL_NOTE: Final = "the standard output of the REPL's process. nREPL 1.1 or newer would forward it"
"""Where the output of threads that outlive their evaluation appears, phrased as part of a note."""

OPS_BY_CAPABILITY: Final[Mapping[str, tuple[str, ...]]] = {
    "evaluate": ("eval",),
    "load-file": ("load-file",),
    "interrupt": ("interrupt",),
    "complete": ("completions", "complete", "cider/complete"),
    "lookup": ("info", "lookup", "cider/info"),
    "stdin": ("stdin",),
    "macroexpand": ("macroexpand", "cider/macroexpand"),
    "test": ("test", "cider/test"),
    "stacktrace": ("analyze-last-stacktrace", "cider/analyze-last-stacktrace", "stacktrace"),
    "frame": (FRAME_OP,),
    "drift": ("codriver/drift", "codriver/loaded"),
    "restore": ("codriver/restore",),
}
"""The ops that provide each capability, in order of preference. Source: nREPL and cider-nrepl documentation, "Ops"."""

MISSING_CAPABILITY_HINTS: Final[Mapping[str, str]] = {
    "restart": (
        "start the REPL with `codriver serve --repl COMMAND`, because Codriver can restart only REPLs that it started"
    ),
    "interrupt": "the server has no op `interrupt`. If Codriver started the REPL, restart it instead",
    "complete": "the server has no op for completion. List names by evaluating code",
    "lookup": "the server has no op for lookup. Look the name up by evaluating code, or read the source",
    "stdin": "the server has no op `stdin`. Pass the input to the code as a value",
    "sessions": "the server does not isolate sessions. Start another REPL for separate work",
    "print-limits": "the server ignores print limits, so long values are shortened after they are printed",
    "macroexpand": "the server has no op for macro expansion. Evaluate a call to macroexpand, if the language has it",
    "test": "run the project's test command in a shell",
    "stacktrace": "the server sends only the message. Print the error's stack trace in your code",
    "frame": "the server does not retain the frames of an error. Evaluate parts of the failing form, or call it with "
    "other values",
    "drift": "this REPL does not report where its definitions are from. Load changed files with load_file",
    "restore": "omit onFailure, look at the failures, and use undo_edit and load_file",
}
"""One-line hints on how to get each capability, or what to do without it."""

CIDER_HINT: Final = (
    "start nREPL with cider-nrepl: add cider/cider-nrepl to its dependencies, and "
    "--middleware '[cider.nrepl/cider-middleware]' to its command"
)
"""How to get cider-nrepl's capabilities."""
CIDER_CAPABILITY_HINTS: Final[Mapping[str, str]] = {
    "complete": CIDER_HINT,
    "lookup": CIDER_HINT,
    "macroexpand": CIDER_HINT,
    "test": f"run the project's test command in a shell, or {CIDER_HINT}",
}
"""Hints for missing capabilities that cider-nrepl provides."""
HINTS_BY_DIALECT: Final[Mapping[str, Mapping[str, str]]] = {
    "clojure": CIDER_CAPABILITY_HINTS,
    "unknown": CIDER_CAPABILITY_HINTS,
    "python": {"macroexpand": "Python has no macros"},
    "nbb": {
        "drift": "Codriver does not compare nbb's definitions. Load changed files with load_file. symbol_info "
        "returns the file and line of a definition"
    },
    "hy": {
        "drift": "Hy compiles to Python and keeps no forms, and evaluated code is separate from the modules of "
        "files. Load changed files with load_file"
    },
    "basilisp": {
        "drift": (
            "`codriver serve --repl lisp` starts a Basilisp whose code can be compared with its files. Otherwise, "
            "use load_file"
        )
    },
}
"""Hints for dialects that need hints other than `MISSING_CAPABILITY_HINTS`."""


def missing_capability_hint(capability: str, dialect: str) -> str | None:
    """Return a hint on how to get a capability in a REPL of this dialect."""
    return HINTS_BY_DIALECT.get(dialect, {}).get(capability) or MISSING_CAPABILITY_HINTS.get(capability)


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The profile of a REPL, and the characteristics of its server."""

    profile: Profile
    ops: frozenset[str]
    """The ops that `describe` lists."""
    dialect: Dialect
    honours_print_limits: bool
    stores_print_limits: bool
    """Whether a session remembers print limits for later requests without limits."""
    accepts_positions: bool
    """Whether requests may contain `line` and `column`.

    To handle them, nREPL before 0.3 (`clojure.tools.nrepl`) accesses a Java class that is inaccessible in Java 16 and
    later. The evaluating thread then dies, and the evaluation never ends.
    """
    file_evaluator: str | None = None
    """The function to send in the field `eval` with code from a file, or None if the server does not support it."""
    description: Mapping[str, object] = field(default_factory=lambda: EMPTY_MAPPING)
    """The fields in the server's reply to `describe`."""


def parse_ops(answer: Sequence[Message]) -> frozenset[str]:
    """Return the names of the ops in a reply to `describe`. Servers send a list, or a map with the ops as keys."""
    for message in answer:
        listed = message.fields.get("ops")
        if isinstance(listed, dict) and listed:
            return frozenset(listed)
        if isinstance(listed, list) and listed:
            return frozenset(op for op in listed if isinstance(op, str))
    return frozenset()


def parse_versions(answer: Sequence[Message]) -> dict[str, str]:
    """Return the versions that the server reports, by name. They are only used for display."""
    versions: dict[str, str] = {}
    for message in answer:
        for name, version in mapping_or_empty(message.fields.get("versions")).items():
            text = text_or_none(mapping_or_empty(version).get("version-string")) or text_or_none(version)
            if text:
                versions[name] = text
    return versions


MAX_NAMED_PACKAGES: Final = 5
"""Maximum number of packages named in a note. They suffice to recognize where the packages come from."""


def describe_outside_packages(answer: Sequence[Message]) -> str | None:
    """Describe the packages that the worker imported from outside the project's working tree, or return None."""
    found: dict[str, object] = {}
    for message in answer:
        found.update(mapping_or_empty(message.fields.get("codriver/outside")))
    if not found:
        return None
    named = join_first([f"{name} ({text_or_none(path)})" for name, path in found.items()], MAX_NAMED_PACKAGES)
    return (
        f"imported from outside this working tree: {named}. Edits in this working tree have no effect on these "
        "packages. Install the project into an environment in this working tree"
    )


@dataclass(frozen=True, slots=True)
class HostApplication:
    """The application in which a REPL runs, as described by its worker."""

    name: str
    """A short name, such as `manage` or `shop`."""
    program: str
    process_id: int | None

    @property
    def note(self) -> str:
        """Return a note about the application for users of the REPL."""
        return (
            f"runs in the application {self.program}, process {self.process_id}. Its modules are live, and the "
            "application's own output is not captured"
        )


def parse_application(answer: Sequence[Message]) -> HostApplication | None:
    """Return the application in which the worker runs, or None if the REPL has its own process."""
    for message in answer:
        app = mapping_or_empty(message.fields.get("codriver/app"))
        if app:
            program = text_or_none(app.get("program")) or "python"
            return HostApplication(
                text_or_none(app.get("name")) or PurePath(program).stem, program, int_or_none(app.get("pid"))
            )
    return None


async def probe(
    connection: NreplConnection,
    answer: Sequence[Message],
    opened: OpenedSessions,
    *,
    ops: frozenset[str],
    added: Sequence[ServerCapability] = (),
) -> ProbeResult:
    """Determine the dialect and capabilities of a server. `answer` is its reply to `describe`.

    The sessions that the probe opens are registered in `opened`. `added` contains the capabilities added by features.

    Raises:
        ReplDisconnectedError: the connection ended first.
        OpTimedOutError: the server is too busy to answer.
    """
    dialect, facts = await _identify(connection, ops)
    if dialect is dialects.CLOJURE and facts.get("babashka"):
        dialect = dialects.BABASHKA
    for code in dialect.fixes:
        await _runs_without_error(connection, str(code))
    process_id = await _process_id(connection, dialect, facts)
    limits, stores_limits = await _probe_print_limits(connection, dialect, opened, ops)
    isolation = dialect.isolates or await _probe_isolation(connection, opened, ops)
    support = _support(dialect, ops, isolation=isolation, limits=limits)
    support |= {
        capability.name: Capability(op)
        for capability in added
        if (op := next((op for op in capability.ops if op in ops), None))
    }
    outside, application = describe_outside_packages(answer), parse_application(answer)
    notes = (
        *dialect.notes,
        *_java_notes(facts, support),
        *filter(None, (outside, application.note if application else None)),
    )
    root = facts.get("root")
    profile = Profile(
        dialect=dialect.name,
        versions=parse_versions(answer),
        capabilities=support,
        missing={
            name: line
            for name in CAPABILITIES
            if name not in support and (line := missing_capability_hint(name, dialect.name))
        },
        isolation=isolation,
        outside=outside,
        application=application.name if application else "",
        shares=dialect.shares,
        runs_concurrently=BACKGROUND_OP in ops
        or (isolation == "session" and not dialect.is_serial and "interrupt" in support),
        is_serial=dialect.is_serial,
        process_id=process_id,
        project_root=root if isinstance(root, str) else None,
        thread_output=OUTPUT_IN_TERMINAL_NOTE
        if dialect.name in ROOT_OUTPUT_DIALECTS and ops.isdisjoint(OUTPUT_OPS)
        else "",
        notes=notes,
    )
    accepts_positions = not facts.get("tools-nrepl")
    evaluator = await _probe_evaluator(connection, dialect)
    described = {name: value for message in answer for name, value in message.fields.items()}
    return ProbeResult(profile, ops, dialect, limits, stores_limits, accepts_positions, evaluator, described)


async def _identify(connection: NreplConnection, ops: frozenset[str]) -> tuple[Dialect, Mapping[str, object]]:
    """Return the dialect of a server, and the value of the dialect's expression `facts`.

    The ops decide which dialects are tried first. A busy server must not count as unknown for the lifetime of the
    connection, so expressions that timed out are sent again if another one was answered.

    Raises:
        OpTimedOutError: no expression was answered.
    """
    likely: tuple[Dialect, ...]
    if any(op.startswith(dialects.WORKER_OP_PREFIX) for op in ops):
        likely = (dialects.WORKER_PYTHON, dialects.WORKER_LISP)
    elif "interrupt" in ops:
        likely = (dialects.CLOJURE, dialects.HY, dialects.CLOJURESCRIPT)
    elif "lookup" in ops:
        likely = (dialects.NBB, dialects.CLOJURE, dialects.BASILISP, dialects.CLOJURESCRIPT)
    else:
        likely = (dialects.BASILISP, dialects.CLOJURE, dialects.NBB)
    candidates: Sequence[Dialect] = likely
    for _ in range(2):
        silent: list[tuple[Dialect, OpTimedOutError]] = []
        for dialect in candidates:
            try:
                facts = await _evaluate(connection, dialect, str(dialect.facts or "nil"))
            except OpTimedOutError as error:
                silent.append((dialect, error))
                continue
            if isinstance(facts, dict):
                return dialect, facts
        if len(silent) == len(likely):
            raise silent[0][1]
        candidates = [dialect for dialect, _ in silent]
    return dialects.UNKNOWN, {}


async def _evaluate(connection: NreplConnection, dialect: Dialect, expression: str) -> object:
    """Evaluate an expression and return its data, or None if the expression fails in this dialect.

    Raises:
        OpTimedOutError: no reply was received in time.
    """
    messages = await connection.request("eval", timeout_s=PROBE_TIMEOUT_S, code=dialect.json_code(expression))
    printed = [value for message in messages if (value := message.text("value")) is not None]
    if not printed or any(message.is_failed for message in messages):
        return None
    try:
        return dialect.read(printed[-1])
    except (ValueError, SyntaxError):
        return None


async def _process_id(connection: NreplConnection, dialect: Dialect, facts: Mapping[str, object]) -> int | None:
    """Return the id of the server's process, or None if it is unknown."""
    process_id = int_or_none(facts.get("pid"))
    if process_id is None and dialect.process_id:
        with suppress(OpTimedOutError):
            process_id = int_or_none(await _evaluate(connection, dialect, dialect.process_id))
    return process_id


async def _runs_without_error(connection: NreplConnection, code: str) -> bool:
    """Evaluate code, and return whether it ran without an error. A timeout counts as success."""
    try:
        messages = await connection.request("eval", timeout_s=PROBE_TIMEOUT_S, code=code)
    except OpTimedOutError:
        return True
    return not any(message.is_failed for message in messages)


async def _probe_print_limits(
    connection: NreplConnection, dialect: Dialect, opened: OpenedSessions, ops: frozenset[str]
) -> tuple[bool, bool]:
    """Return whether the server honors print limits, and whether a session remembers them."""
    if dialect.print_limits is None:
        return False, False
    knows_defaults = STORED_VALUE_OP in ops
    keeper = "clone" in ops and (knows_defaults or dialect.printer is not None)
    limits = PrintLimits(max_length=2, max_value_bytes=1000, is_length_explicit=not keeper)
    fields = dialect.print_fields(limits, knows_defaults=knows_defaults, for_session=keeper)
    honours = stores = False
    with suppress(OpTimedOutError):
        if dialect.printer is not None:
            await connection.request("eval", timeout_s=PROBE_TIMEOUT_S, code=str(dialect.printer))
        identity = await opened.clone(connection, timeout_s=PROBE_TIMEOUT_S) if keeper else None
        session: dict[str, Value] = {"session": identity} if identity else {}
        honours = await _is_value_cut(connection, code=dialect.print_limits, **session, **fields)
        if session:
            stores = honours and await _is_value_cut(connection, code=dialect.print_limits, **session)
        if identity:
            await opened.close(identity)
    return honours, stores


async def _probe_evaluator(connection: NreplConnection, dialect: Dialect) -> str | None:
    """Return the function that makes the server record a file's name in compiled code, or None if it has no effect."""
    if dialect.file_evaluator is None:
        return None
    name = "codriver_probe.clj"
    request: dict[str, Value] = {"code": "*source-path*", "file": f"src/{name}"}
    try:
        defined = await connection.request("eval", timeout_s=PROBE_TIMEOUT_S, code=str(dialect.file_evaluator))
        function = next((value for message in defined if (value := message.text("value"))), "").strip('"')
        if "/" not in function:
            return None
        messages = await connection.request("eval", timeout_s=PROBE_TIMEOUT_S, **request, eval=function)
    except OpTimedOutError:
        return None
    return function if any(message.text("value") == f'"{name}"' for message in messages) else None


async def _is_value_cut(connection: NreplConnection, **fields: Value) -> bool:
    """Return whether `eval` with these fields truncates the printed value."""
    messages = await connection.request("eval", timeout_s=PROBE_TIMEOUT_S, **fields)
    return any("..." in (message.text("value") or "") for message in messages)


async def _probe_isolation(
    connection: NreplConnection, opened: OpenedSessions, ops: frozenset[str]
) -> Literal["session", "none"]:
    """Return `session` if one session's `*1` is invisible in another, and `none` otherwise."""
    if "clone" not in ops:
        return "none"
    try:
        first, other = [await opened.clone(connection, timeout_s=PROBE_TIMEOUT_S) for _ in range(2)]
        if not first or not other or first == other:
            return "none"
        await connection.request("eval", timeout_s=PROBE_TIMEOUT_S, code='"codriver-probe"', session=first)
        seen = await connection.request("eval", timeout_s=PROBE_TIMEOUT_S, code="*1", session=other)
        for session in (first, other):
            await opened.close(session)
    except OpTimedOutError:
        return "none"
    values = [value for message in seen if (value := message.text("value"))]
    return "session" if values and "codriver-probe" not in values[-1] else "none"


def _support(dialect: Dialect, ops: frozenset[str], *, isolation: str, limits: bool) -> dict[str, Capability]:
    support: dict[str, Capability] = {}
    for name in CAPABILITIES:
        given = next((op for op in OPS_BY_CAPABILITY.get(name, ()) if op in ops and name not in dialect.broken), None)
        if given:
            support[name] = Capability(given)
        elif name in dialect.expressions or name in dialect.adapted:
            support[name] = Capability(dialect.adapted.get(name, "eval"), adapted=True)
    if isolation == "session":
        support["sessions"] = Capability("clone")
    elif isolation == "connection":
        support["sessions"] = Capability("one connection each", adapted=True)
    if limits:
        support["print-limits"] = Capability("eval")
    return {name: support[name] for name in CAPABILITIES if name in support}


def _java_notes(facts: Mapping[str, object], support: Mapping[str, Capability]) -> tuple[str, ...]:
    java = int_or_none(facts.get("java"))
    if java is None or java < MIN_JAVA_NEEDING_ATTACH or "interrupt" not in support or facts.get("attach"):
        return ()
    note = (
        f"on Java {java}, an endless loop can be stopped only if the JVM was started with "
        "-Djdk.attach.allowAttachSelf. Without that option, an interrupt ends only code that is waiting"
    )
    return (note,)
