"""Queries with the messages of the protocol: completion, inspection, and the syntax of code.

They run none of the user's code. A query waits until the kernel's main shell is free. While a cell runs, it is sent to
a subshell if the kernel has one. Otherwise the kernel is reported as busy.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import anyio

from codriver.errors import refused
from codriver.repls.contract.adapter import OpTimedOutError
from codriver.repls.contract.adapter_values import SyntaxIssue
from codriver.wire.untrusted import NOTHING, mapping_of, strings_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.features.jupyter.kernels.kernel import Kernel
    from codriver.features.jupyter.kernels.messages import Message

    Fields = Mapping[str, object]

    """A value in the form of `execute_result`, or an error; empty if the kernel told nothing."""


BUSY_S: Final = 2.0
"""The wait of a question for a busy kernel without a subshell."""
GATE_S: Final = 0.5
"""The wait before a question about code, as the kernel is busy for a moment after each answer."""
MAX_CHECKED_CHARACTERS: Final = 2**18
"""The longest code that is asked about: for longer code the kernel's answer takes longer than a failing run."""
MAX_COMPLETIONS: Final = 500
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
        worth = self._kernel.info.quirks.syntax_check
        is_worth_checking = worth in ("complete", "incomplete") and code.strip() and len(code) <= MAX_CHECKED_CHARACTERS
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
    return list(found.values())[:MAX_COMPLETIONS]


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
