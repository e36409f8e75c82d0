"""Questions that any kernel may answer: completion, inspection, and whether code can be read to its end.

They wait their turn beside what runs. While a cell runs they are asked in a subshell, where the kernel has them; where
it has none, a kernel that stays busy is said to be so. No code of the user's runs for them. Python kernels evaluate
expressions silently, too, the `user_expressions` of an execution without code: no client sees them, and nothing counts
them.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio

from codriver.errors import CodriverError, RefusedError
from codriver.repls.contract.adapter_values import SyntaxFault
from codriver.repls.contract.errors import OpTimedOutError
from codriver.repls.jupyter.running.kernel import EXECUTE, Exchange
from codriver.wire.untrusted import NOTHING, mapping_of, text_of, texts_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.repls.jupyter.messages import Message
    from codriver.repls.jupyter.running.kernel import Kernel

    Told = Mapping[str, object]

    """A value as `execute_result` has one, or an error; empty where the kernel told nothing."""


BUSY_S: Final = 2.0
"""How long a question waits for a kernel that is busy and has no subshell."""
GATE_S: Final = 0.5
"""How long code waits to be asked about, as the kernel is busy for a moment after each answer."""
MOST_CHECKED: Final = 2**18
"""Characters of code that is asked about: with more, the kernel's answer takes longer than its failure."""
MOST_COMPLETIONS: Final = 500
TYPES: Final = "_jupyter_types_experimental"
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")
_STRUCK: Final = re.compile(".\x08")
"""A character that the next one is printed over, as R has its titles in bold."""
_NO_HELP: Final = re.compile(r"(?:# Help document:\s*)?No documentation for .* in specified packages and libraries:")
"""IRkernel's words on a name that it does not know."""
_TITLE: Final = re.compile(r"^([A-Z][A-Za-z ]{1,20}): ?(.*)$")
_PARTS: Final = frozenset({
    "Signature", "Init signature", "Call signature", "Docstring", "Class docstring", "Init docstring", "Call docstring",
    "File", "Type", "String form", "Length", "Namespace", "Subclasses", "Source", "Repr", "Base Class",
})  # fmt: skip
"""The titles in IPython's words on an object. Source: IPython, `core.oinspect`."""
_KINDS: Final = {"instance": "variable", "statement": "variable", "param": "variable", "<unknown>": None, "": None}
"""jedi's words for what a name is, where ours are others."""
NO_CODE: Final = "the code ends before it is complete"
NOT_READ: Final = "the kernel cannot read it"


class KernelBusyError(RefusedError):
    """The kernel runs code, and answers no questions meanwhile."""

    reason = "repl-busy"

    def __init__(self, implementation: str, who: str) -> None:
        super().__init__(
            f"the kernel runs code of {who}, and {implementation or 'this kernel'} answers no questions meanwhile, as "
            "it has no subshells",
            hint="ask again when it is idle: wait_for or get_evaluation tell when; an interrupt may end what runs",
        )


class Questions:
    """The questions to one kernel, for the life of its connection."""

    def __init__(self, kernel: Kernel, *, op_timeout_s: float) -> None:
        self._kernel = kernel
        self._op_timeout_s = op_timeout_s
        self._completing = anyio.Lock()
        """IPython asked for two completions at once gives none, or never answers one of them."""

    async def complete(self, prefix: str) -> Told:
        """The completions of `prefix` in the user's namespace, as `Complete` reads them."""
        async with self._completing:
            reply = await self._ask("complete_request", {"code": prefix, "cursor_pos": len(prefix)})
        return {"completions": read_completions(prefix, reply.content)}

    async def inspect(self, symbol: str) -> Told:
        """The kernel's words on `symbol`, as `Lookup` reads them."""
        content = {"code": symbol, "cursor_pos": len(symbol), "detail_level": 0}
        reply = await self._ask("inspect_request", content)
        if reply.content.get("found") is not True:
            return NOTHING
        return read_symbol(symbol, text_of(reply.mapping("data"), "text/plain"))

    async def fault_of(self, code: str) -> SyntaxFault | None:
        """Why the kernel could not read `code`, as far as its word is worth something; None if it can.

        A kernel that is busy and has no subshell is not asked: it says so when it comes to the code.
        """
        worth = self._kernel.info.quirks.gate
        is_asked = worth in ("complete", "incomplete") and code.strip() and len(code) <= MOST_CHECKED
        if not is_asked or not await self._is_free_within(GATE_S):
            return None
        try:
            # A block at the end is over: nobody goes on typing.
            reply = await self._ask("is_complete_request", {"code": f"{code}\n\n"})
        except OpTimedOutError:
            return None
        status = reply.text("status")
        if status == "incomplete":
            return SyntaxFault(NO_CODE)
        return SyntaxFault(NOT_READ) if status == "invalid" and worth == "complete" else None

    async def can_ask(self) -> bool:
        """Whether the kernel would answer a question now."""
        return not self._kernel.is_busy or await self._kernel.subshell() is not None

    async def wait_free(self) -> None:
        """Wait for a moment until questions are answered.

        Raises:
            KernelBusyError: they are not.
        """
        if await self._is_free_within(BUSY_S):
            return
        others = self._kernel.running_for_others is not None
        raise KernelBusyError(self._kernel.info.implementation, "another client" if others else "ours")

    async def _is_free_within(self, timeout_s: float) -> bool:
        """Whether questions are answered, now or within a time."""
        if await self.can_ask():
            return True
        with anyio.move_on_after(timeout_s):
            async with self._kernel.turn():
                return True
        return False

    async def _ask(self, type: str, content: Mapping[str, object]) -> Message:  # noqa: A002  # the protocol's word
        await self.wait_free()
        return await self._kernel.ask(type, content, timeout_s=self._op_timeout_s, while_busy=True)


def read_completions(prefix: str, content: Mapping[str, object]) -> list[dict[str, str | None]]:
    """The completions of a `complete_reply`: whole names, of which some kernels give but what is behind the dot."""
    start = content.get("cursor_start")
    before = prefix[:start] if isinstance(start, int) else ""
    told = mapping_of(content, "metadata").get(TYPES)
    kinds = {}
    for one in told if isinstance(told, list) else ():
        if isinstance(one, dict):
            kinds[text_of(one, "text")] = text_of(one, "type")
    found: dict[str, dict[str, str | None]] = {}
    for match in texts_of(content, "matches"):
        candidate = before + match
        if candidate.lower().startswith(prefix.lower()):  # others repair what was typed
            kind = kinds.get(match, "")
            found.setdefault(candidate, {"candidate": candidate, "type": _KINDS.get(kind, kind)})
    return list(found.values())[:MOST_COMPLETIONS]


def read_symbol(symbol: str, text: str) -> Told:
    """The parts of the symbol that the text of an `inspect_reply` describes; none if it says nothing."""
    plain = _STRUCK.sub("", _ANSI.sub("", text)).replace("\r\n", "\n").strip()
    if not plain or _NO_HELP.match(plain):
        return NOTHING
    parts = _parts_of(plain)
    if not parts:
        return {"name": symbol, "doc": plain}
    signature = next((parts[name] for name in ("Signature", "Init signature", "Call signature") if name in parts), "")
    doc = parts.get("Docstring") or parts.get("Class docstring") or parts.get("Init docstring")
    told = {
        "name": symbol.rpartition(".")[2],
        "doc": None if doc == "<no docstring>" else doc,
        "arglists": [signature[signature.find("(") :]] if "(" in signature else [],
        "file": parts.get("File"),
        "type": parts.get("Type"),
        "value": parts.get("String form"),
    }
    return {key: value for key, value in told.items() if value}


def _parts_of(text: str) -> dict[str, str]:
    """The parts of a text in IPython's form, by title; none if it has another."""
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
"""How long a kernel may take to end a subshell: code that holds the interpreter's lock holds that up too."""


async def expression(kernel: Kernel, code: str, *, timeout_s: float) -> Told:
    """The value of an expression; in a subshell while the kernel is busy, if it has one, else in its turn.

    Raises:
        OpTimedOutError: it was not answered, or did not get its turn, in time.
        ReplDisconnectedError: the connection is over.
    """
    return told_by(await kernel.ask(EXECUTE, silently(code), timeout_s=timeout_s, while_busy=True))


async def leave_subshell(kernel: Kernel, subshell: str | None) -> None:
    """End a subshell of ours, whose thread would stay in the kernel for its life. Never raises."""
    if subshell is None or kernel.cause is not None:
        return
    content = {"subshell_id": subshell}
    with anyio.CancelScope(shield=True), suppress(CodriverError):
        await kernel.ask("delete_subshell_request", content, socket="control", timeout_s=LEAVE_S)


async def expression_now(kernel: Kernel, code: str, *, timeout_s: float) -> Told:
    """The value of an expression, on the main shell in a turn that the caller has.

    Raises:
        OpTimedOutError: it was not answered in time.
        ReplDisconnectedError: the connection is over.
    """
    exchange = kernel.post("shell", EXECUTE, silently(code), Exchange())
    try:
        with anyio.move_on_after(timeout_s):
            await exchange.replied.wait()
            kernel.check_open()
            return told_by(exchange.reply)
    finally:
        kernel.finish(exchange)
    raise OpTimedOutError(EXECUTE, timeout_s)


def silently(code: str) -> dict[str, object]:
    """The content of a request that evaluates an expression and nothing else."""
    return {
        "code": "",
        "silent": True,
        "store_history": False,
        "user_expressions": {"it": code},
        "allow_stdin": False,
        "stop_on_error": False,
    }


def told_by(reply: Message | None) -> Told:
    """The value of the expression that a reply tells."""
    return mapping_of(reply.mapping("user_expressions"), "it") if reply is not None else {}
