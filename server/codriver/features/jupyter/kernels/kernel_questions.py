"""Questions to a kernel, put silently: completion, inspection, the syntax of code, and questions to its application.

Questions wait for their turn beside running code. While a cell runs they are asked in a subshell, if the kernel has
any; without one, the answer is that the kernel is busy. No code of the user's runs for questions. Python kernels
evaluate expressions silently, too, the `user_expressions` of an execution without code: no client sees them, and
nothing counts them.

Such expressions ask the seam of an application. The seam is looked for when the kernel is connected, and after code
that may have loaded it. Frames of events come as output of the subscribing expression, from the application's own
threads.
"""

from __future__ import annotations

import ast
import json
import re
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.values import Capability, Failure, Request
from codriver.errors import CodriverError, refused
from codriver.features.jupyter.kernels.kernel import EXECUTE, Exchange, Kernel
from codriver.repls.contract.adapter import CapabilityMissingError, EvaluationFailedError, OpTimedOutError
from codriver.repls.contract.adapter_values import Listener, SeamFound, SyntaxIssue
from codriver.repls.dialects import seam_providers
from codriver.repls.dialects.seam_providers import FrameReader, learn_sensitive
from codriver.wire.untrusted import NOTHING, mapping_of, strings_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.features.jupyter.kernels.messages import Message

    Fields = Mapping[str, object]

    """A value in the form of `execute_result`, or an error; empty if the kernel told nothing."""


BUSY_S: Final = 2.0
"""The wait of a question for a busy kernel without a subshell."""
GATE_S: Final = 0.5
"""The wait before a question about code, as the kernel is busy for a moment after each answer."""
MOST_CHECKED: Final = 2**18
"""The longest code that is asked about: for longer code the kernel's answer takes longer than a failing run."""
MOST_COMPLETIONS: Final = 500
TYPES: Final = "_jupyter_types_experimental"
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")
_STRUCK: Final = re.compile(".\x08")
"""A character overprinted by the next one, as in R's bold titles."""
_NO_HELP: Final = re.compile(r"(?:# Help document:\s*)?No documentation for .* in specified packages and libraries:")
"""IRkernel's words on a name that it does not know."""
_TITLE: Final = re.compile(r"^([A-Z][A-Za-z ]{1,20}): ?(.*)$")
_PARTS: Final = frozenset({
    "Signature", "Init signature", "Call signature", "Docstring", "Class docstring", "Init docstring", "Call docstring",
    "File", "Type", "String form", "Length", "Namespace", "Subclasses", "Source", "Repr", "Base Class",
})  # fmt: skip
"""The titles in IPython's words on an object. Source: IPython, `core.oinspect`."""
_KINDS: Final = {"instance": "variable", "statement": "variable", "param": "variable", "<unknown>": None, "": None}
"""jedi's words for kinds of names that we call otherwise."""
NO_CODE: Final = "the code ends before it is complete"
NOT_READ: Final = "the kernel cannot read it"


class KernelQueries:
    """The questions to one kernel, for the life of its connection."""

    def __init__(self, kernel: Kernel, *, op_timeout_s: float) -> None:
        self._kernel = kernel
        self._op_timeout_s = op_timeout_s
        self._completing = anyio.Lock()
        """A lock: asked for two completions at once, IPython gives none, or never answers one of them."""

    async def complete(self, prefix: str) -> Fields:
        """Return the completions of `prefix` in the user's namespace, as `Complete` reads them."""
        async with self._completing:
            reply = await self._request("complete_request", {"code": prefix, "cursor_pos": len(prefix)})
        return {"completions": read_completions(prefix, reply.content)}

    async def inspect(self, symbol: str) -> Fields:
        """Return the kernel's words on `symbol`, as `Lookup` reads them."""
        content = {"code": symbol, "cursor_pos": len(symbol), "detail_level": 0}
        reply = await self._request("inspect_request", content)
        if reply.content.get("found") is not True:
            return NOTHING
        return read_symbol(symbol, text_of(reply.mapping("data"), "text/plain"))

    async def check_syntax(self, code: str) -> SyntaxIssue | None:
        """The reason why the kernel could not read `code`, if its word is reliable; None for readable code.

        A busy kernel without a subshell is not asked: running the code will tell.
        """
        worth = self._kernel.info.quirks.gate
        is_worth_checking = worth in ("complete", "incomplete") and code.strip() and len(code) <= MOST_CHECKED
        if not is_worth_checking or not await self._is_free_within(GATE_S):
            return None
        try:
            # A block at the end is over: nobody goes on typing.
            reply = await self._request("is_complete_request", {"code": f"{code}\n\n"})
        except OpTimedOutError:
            return None
        status = reply.text("status")
        if status == "incomplete":
            return SyntaxIssue(NO_CODE)
        return SyntaxIssue(NOT_READ) if status == "invalid" and worth == "complete" else None

    async def can_query(self) -> bool:
        """Return whether the kernel would answer a question now."""
        return not self._kernel.is_busy or await self._kernel.subshell() is not None

    async def wait_free(self) -> None:
        """Wait for a moment until questions are answered.

        Raises:
            RefusedError: they are not.
        """
        if await self._is_free_within(BUSY_S):
            return
        who = "ours" if self._kernel.running_for_others is None else "another client"
        implementation = self._kernel.info.implementation or "this kernel"
        raise refused(
            "repl-busy",
            f"the kernel runs code of {who}, and {implementation} answers no questions meanwhile, as it has no "
            "subshells",
            hint="ask again when it is idle: wait_for or get_evaluation tell when; an interrupt may end what runs",
        )

    async def _is_free_within(self, timeout_s: float) -> bool:
        """Return whether questions are answered, now or within a time."""
        if await self.can_query():
            return True
        with anyio.move_on_after(timeout_s):
            async with self._kernel.turn():
                return True
        return False

    async def _request(self, type: str, content: Mapping[str, object]) -> Message:  # noqa: A002  # the protocol's word
        await self.wait_free()
        return await self._kernel.request(type, content, timeout_s=self._op_timeout_s, while_busy=True)


def read_completions(prefix: str, content: Mapping[str, object]) -> list[dict[str, str | None]]:
    """The completions of a `complete_reply` as whole names; some kernels give only the part behind the dot."""
    start = content.get("cursor_start")
    before = prefix[:start] if isinstance(start, int) else ""
    types = mapping_of(content, "metadata").get(TYPES)
    kinds = {}
    for one in types if isinstance(types, list) else ():
        if isinstance(one, dict):
            kinds[text_of(one, "text")] = text_of(one, "type")
    found: dict[str, dict[str, str | None]] = {}
    for match in strings_of(content, "matches"):
        candidate = before + match
        if candidate.lower().startswith(prefix.lower()):  # other completions repair the typed text
            kind = kinds.get(match, "")
            found.setdefault(candidate, {"candidate": candidate, "type": _KINDS.get(kind, kind)})
    return list(found.values())[:MOST_COMPLETIONS]


def read_symbol(symbol: str, text: str) -> Fields:
    """The parts of the symbol that the text of an `inspect_reply` describes; none if the text says nothing."""
    plain = _STRUCK.sub("", _ANSI.sub("", text)).replace("\r\n", "\n").strip()
    if not plain or _NO_HELP.match(plain):
        return NOTHING
    parts = _parts_of(plain)
    if not parts:
        return {"name": symbol, "doc": plain}
    signature = next((parts[name] for name in ("Signature", "Init signature", "Call signature") if name in parts), "")
    doc = parts.get("Docstring") or parts.get("Class docstring") or parts.get("Init docstring")
    fields = {
        "name": symbol.rpartition(".")[2],
        "doc": None if doc == "<no docstring>" else doc,
        "arglists": [signature[signature.find("(") :]] if "(" in signature else [],
        "file": parts.get("File"),
        "type": parts.get("Type"),
        "value": parts.get("String form"),
    }
    return {key: value for key, value in fields.items() if value}


def _parts_of(text: str) -> dict[str, str]:
    """Return the parts of a text in IPython's form, by title; none for a text in another form."""
    parts: dict[str, list[str]] = {}
    title = ""
    for line in text.split("\n"):
        match = _TITLE.match(line)
        if match and match[1] in _PARTS:
            title = match[1]
            parts[title] = [match[2].strip()]
        elif title:
            parts[title].append(line)
        else:
            return {}
    return {name: "\n".join(lines).strip() for name, lines in parts.items()}


LEAVE_S: Final = 0.5
"""The time for a kernel to end a subshell: code that holds the interpreter's lock delays that too."""


async def expression(kernel: Kernel, code: str, *, timeout_s: float) -> Fields:
    """The value of an expression; in a subshell while the kernel is busy, if there is one, else in its turn.

    Raises:
        OpTimedOutError: the expression was not answered, or did not get its turn, in time.
        ReplDisconnectedError: the connection is over.
    """
    return expression_value(await kernel.request(EXECUTE, silently(code), timeout_s=timeout_s, while_busy=True))


async def leave_subshell(kernel: Kernel, subshell: str | None) -> None:
    """End a subshell of ours, whose thread would stay in the kernel for its life. Never raises."""
    if subshell is None or kernel.cause is not None:
        return
    content = {"subshell_id": subshell}
    with anyio.CancelScope(shield=True), suppress(CodriverError):
        await kernel.request("delete_subshell_request", content, socket="control", timeout_s=LEAVE_S)


async def expression_now(kernel: Kernel, code: str, *, timeout_s: float) -> Fields:
    """Return the value of an expression, on the main shell in a turn that the caller has.

    Raises:
        OpTimedOutError: no answer came in time.
        ReplDisconnectedError: the connection has finished.
    """
    exchange = kernel.post("shell", EXECUTE, silently(code), Exchange())
    try:
        with anyio.move_on_after(timeout_s):
            await exchange.replied.wait()
            kernel.check_open()
            return expression_value(exchange.reply)
    finally:
        kernel.finish(exchange)
    raise OpTimedOutError(EXECUTE, timeout_s)


def silently(code: str) -> dict[str, object]:
    """Return the content of a request that evaluates an expression and nothing else."""
    return {
        "code": "",
        "silent": True,
        "store_history": False,
        "user_expressions": {"it": code},
        "allow_stdin": False,
        "stop_on_error": False,
    }


def expression_value(reply: Message | None) -> Fields:
    """Return the value of the expression that a reply tells."""
    return mapping_of(reply.mapping("user_expressions"), "it") if reply is not None else {}


PYTHON: Final = "python"
SEARCH_S: Final = 0.5
"""The time for the look for an application."""
ANSWER_S: Final = 10.0
SEAM: Final = "the application's seam"


class KernelSeam:
    """The questions to the seam of the application in one Python kernel, for the life of its connection."""

    def __init__(self, kernel: Kernel, queries: KernelQueries, listener: Listener) -> None:
        self._kernel = kernel
        self._queries = queries
        self._listener = listener
        self._found: seam_providers.Found | None = None
        self._streams: dict[str, Exchange] = {}
        """The event streams, by the id of their subscription."""

    @staticmethod
    def laid_in(request: Request) -> Request:
        """The request; of one to load our package, whose file is a part of it alone, the code that brings it in."""
        code = seam_providers.laying_in(seam_providers.KERNEL, request.file)
        return replace(request, code=code, file=None, kind="evaluate") if code else request

    @property
    def accepts_origin(self) -> bool:
        """Return true for an application whose seam reads the messages of its kernel."""
        return self._found is not None

    @property
    def is_first(self) -> bool:
        """Return true if sensitive texts are requested before code runs."""
        return self._found is not None

    async def before(self) -> None:
        """Learn the texts at sensitive paths, before code that may show them. Never raises."""
        if self.is_first and not self._kernel.is_busy:
            await learn_sensitive(self.call, self._listener)

    def is_last(self, request: Request) -> bool:
        """True if an application is looked for after a request: none is known yet, and its code may have brought one.

        The effect of a file is not visible in the request that loads it.
        """
        is_load = request.kind != "evaluate"
        return self._found is None and (is_load or seam_providers.may_bring(PYTHON, request.code))

    async def after(self) -> None:
        """Search for an application after code that may have loaded one. Never raises."""
        await self.find_application()

    async def find_application(self) -> None:
        """Ask whether an application shows itself, unless the kernel is busy. Never raises."""
        if self._kernel.is_busy:
            return
        expression = f"__import__('json').dumps({seam_providers.search_expression(PYTHON)})"
        with suppress(CodriverError, ValueError), anyio.move_on_after(SEARCH_S):
            answer = await self._evaluate(expression, Exchange())
            self._found = seam_providers.found(PYTHON, json.loads(answer))
        if self._found is not None:
            self._listener(None, SeamFound(self._found.session_id, self._found.provider.name))

    def capability(self) -> tuple[str, Capability] | None:
        """Return the session id of the found seam, and the capability that the seam gives."""
        found = self._found
        return (found.session_id, Capability(found.provider.name, adapted=True)) if found else None

    async def call(self, accessor: str, arguments: str) -> str:
        """Return the answer to an accessor, as JSON."""
        if self._found is None:
            await self.find_application()
        if self._found is None:
            raise CapabilityMissingError("seam", seam_providers.WAYS[PYTHON])
        await self._queries.wait_free()
        provider, parsed = self._found.provider, json.loads(arguments)
        code = seam_providers.form(provider, PYTHON, accessor, parsed)
        if accessor == "subscribe":
            return await self._subscribe(code)
        answer = await self._evaluate(code, Exchange())
        for identity in seam_providers.finished_subscriptions(accessor, parsed, json.loads(answer), self._streams):
            del self._kernel.retained[self._streams.pop(identity).id]
        return answer

    async def _subscribe(self, code: str) -> str:
        frames = FrameReader()
        exchange = Exchange(lambda message: self._receive(message, frames))
        answer = await self._evaluate(code, exchange)
        frames.subscription = identity = json.loads(answer).get("subId")
        if identity is not None:
            self._kernel.retained[exchange.id] = exchange
            self._streams[identity] = exchange
        return answer

    def _receive(self, message: Message, frames: FrameReader) -> None:
        if message.type != "stream":
            return
        for found in frames.feed(text_of(message.content, "text")):
            if not isinstance(found, str):
                self._listener(None, found)

    async def _evaluate(self, code: str, exchange: Exchange) -> str:
        """Return the text that is the value of an expression.

        Raises:
            EvaluationFailedError: the expression failed, or gives no text.
        """
        reply = await self._kernel.request(
            EXECUTE, silently(code), timeout_s=ANSWER_S, while_busy=True, exchange=exchange
        )
        value = expression_value(reply)
        if text_of(value, "status") == "error":
            raise EvaluationFailedError(SEAM, Failure(text_of(value, "ename"), text_of(value, "evalue")))
        printed = text_of(mapping_of(value, "data"), "text/plain")
        try:
            return str(ast.literal_eval(printed))
        except (ValueError, SyntaxError) as error:
            failure = Failure("unreadable", f"it answered {printed[:200]!r}")
            raise EvaluationFailedError(SEAM, failure) from error
