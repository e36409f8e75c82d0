"""Complete, inspect and check code with Jupyter protocol messages.

Queries run none of the user's code. A query waits until the kernel's main shell is free. While a cell is running, the
query is sent to a subshell if the kernel has one. Otherwise, the kernel is reported as busy.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import anyio

from codriver.errors import refused
from codriver.repls.contract.adapter import OpTimedOutError
from codriver.repls.contract.symbols import SyntaxIssue
from codriver.wire.untrusted import EMPTY_MAPPING, mapping_at, strings_at, text_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.features.jupyter.kernels.kernel import Kernel
    from codriver.features.jupyter.kernels.messages import Message


BUSY_TIMEOUT_S: Final = 2.0
"""Maximum time to wait for a busy kernel without a subshell."""
SYNTAX_CHECK_TIMEOUT_S: Final = 0.5
"""Maximum time to wait for a busy kernel before a syntax check. Kernels are busy for a moment after each reply."""
MAX_CHECKED_CHARACTERS: Final = 2**18
"""Maximum length of code to check. For longer code, a check would take more time than running it until it fails."""
MAX_COMPLETIONS: Final = 500
"""Maximum number of completions to return."""
COMPLETION_TYPES_KEY: Final = "_jupyter_types_experimental"
"""The key in IPython's metadata that contains the kinds of completions."""
_ANSI_SEQUENCE: Final = re.compile(r"\x1b\[[0-9;]*m")
"""Matches an escape sequence with which terminals color text."""
_OVERPRINTED_CHARACTER: Final = re.compile(".\x08")
"""Matches a character that is overprinted by the next one, as in R's bold titles."""
_R_NO_HELP_TEXT: Final = re.compile(
    r"(?:# Help document:\s*)?No documentation for .* in specified packages and libraries:"
)
"""Matches the text returned by IRkernel for an unknown name."""
_TITLE_LINE: Final = re.compile(r"^([A-Z][A-Za-z ]{1,20}): ?(.*)$")
"""Matches a line in IPython's description of a name, such as `Signature: f(x)`."""
_IPYTHON_TITLES: Final = frozenset({
    "Signature", "Init signature", "Call signature", "Docstring", "Class docstring", "Init docstring", "Call docstring",
    "File", "Type", "String form", "Length", "Namespace", "Subclasses", "Source", "Repr", "Base Class",
})  # fmt: skip
"""The titles in IPython's description of an object. Source: IPython, `core.oinspect`."""
_KINDS_BY_JEDI_TYPE: Final = {
    "instance": "variable",
    "statement": "variable",
    "param": "variable",
    "<unknown>": None,
    "": None,
}
"""Maps jedi types to Codriver's kinds of names, where the two differ. None means that the kind is unknown."""
INCOMPLETE_MESSAGE: Final = "the code is incomplete"
INVALID_MESSAGE: Final = "the kernel cannot parse the code"


class KernelQueries:
    """Sends completion, inspection and syntax queries to one connected kernel."""

    def __init__(self, kernel: Kernel, *, op_timeout_s: float) -> None:
        self._kernel = kernel
        self._op_timeout_s = op_timeout_s
        self._completing = anyio.Lock()
        """Held during a request. IPython returns nothing for one of two simultaneous requests, or never answers it."""

    async def complete(self, prefix: str) -> Mapping[str, object]:
        """Return the completions of `prefix` in the user's namespace as fields for the query `Complete`."""
        async with self._completing:
            reply = await self._request("complete_request", {"code": prefix, "cursor_pos": len(prefix)})
        return {"completions": read_completions(prefix, reply.content)}

    async def inspect(self, symbol: str) -> Mapping[str, object]:
        """Return the kernel's description of `symbol` as fields for the query `Lookup`."""
        content = {"code": symbol, "cursor_pos": len(symbol), "detail_level": 0}
        reply = await self._request("inspect_request", content)
        if reply.content.get("found") is not True:
            return EMPTY_MAPPING
        return read_symbol(symbol, text_at(reply.mapping_field("data"), "text/plain"))

    async def check_syntax(self, code: str) -> SyntaxIssue | None:
        """Return the syntax error in `code`, or None if there is none or it cannot be determined.

        If the kernel is busy and has no subshells, the check is skipped. Any error then appears when the code runs.
        """
        reliability = self._kernel.info.quirks.syntax_check
        is_checked = reliability in ("complete", "incomplete") and code.strip() and len(code) <= MAX_CHECKED_CHARACTERS
        if not is_checked or not await self._is_free_within(SYNTAX_CHECK_TIMEOUT_S):
            return None
        try:
            # The blank lines end a block, because nobody is typing more.
            reply = await self._request("is_complete_request", {"code": f"{code}\n\n"})
        except OpTimedOutError:
            return None
        status = reply.text("status")
        if status == "incomplete":
            return SyntaxIssue(INCOMPLETE_MESSAGE)
        return SyntaxIssue(INVALID_MESSAGE) if status == "invalid" and reliability == "complete" else None

    async def can_query(self) -> bool:
        """Return whether the kernel can answer a query without waiting for code that is running."""
        return not self._kernel.is_busy or await self._kernel.ensure_subshell() is not None

    async def wait_until_free(self) -> None:
        """Wait briefly until the kernel can answer queries.

        Raises:
            RefusedError: the kernel remains busy.
        """
        if await self._is_free_within(BUSY_TIMEOUT_S):
            return
        code_owner = "Codriver" if self._kernel.foreign_request_id is None else "another client"
        implementation = self._kernel.info.implementation or "this kernel"
        raise refused(
            "repl-busy",
            f"the kernel is running code from {code_owner}, and {implementation} cannot answer queries in the "
            "meantime, because it does not support subshells",
            hint="retry when the kernel is idle, which wait_for and get_evaluation report, or interrupt the code",
        )

    async def _is_free_within(self, timeout_s: float) -> bool:
        """Wait until the kernel can answer queries. Return False if it cannot within `timeout_s`."""
        if await self.can_query():
            return True
        with anyio.move_on_after(timeout_s):
            async with self._kernel.reserve_main_shell():
                return True
        return False

    async def _request(self, msg_type: str, content: Mapping[str, object]) -> Message:
        await self.wait_until_free()
        return await self._kernel.request(msg_type, content, timeout_s=self._op_timeout_s, while_busy=True)


def read_completions(prefix: str, content: Mapping[str, object]) -> list[dict[str, str | None]]:
    """Return the completions in a `complete_reply` as complete names.

    This adds the prefix up to the last dot for kernels that return only the part after it.
    """
    start = content.get("cursor_start")
    unchanged_prefix = prefix[:start] if isinstance(start, int) else ""
    types = mapping_at(content, "metadata").get(COMPLETION_TYPES_KEY)
    kinds_by_name = {}
    for row in types if isinstance(types, list) else ():
        if isinstance(row, dict):
            kinds_by_name[text_at(row, "text")] = text_at(row, "type")
    completions: dict[str, dict[str, str | None]] = {}
    for match in strings_at(content, "matches"):
        candidate = unchanged_prefix + match
        if candidate.lower().startswith(prefix.lower()):  # others correct the prefix
            kind = kinds_by_name.get(match, "")
            completions.setdefault(candidate, {"candidate": candidate, "type": _KINDS_BY_JEDI_TYPE.get(kind, kind)})
    return list(completions.values())[:MAX_COMPLETIONS]


def read_symbol(symbol: str, text: str) -> Mapping[str, object]:
    """Parse the description of a symbol in an `inspect_reply`. Return an empty mapping for an empty description."""
    plain_text = _OVERPRINTED_CHARACTER.sub("", _ANSI_SEQUENCE.sub("", text)).replace("\r\n", "\n").strip()
    if not plain_text or _R_NO_HELP_TEXT.match(plain_text):
        return EMPTY_MAPPING
    parts = _parse_sections(plain_text)
    if not parts:
        return {"name": symbol, "doc": plain_text}
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


def _parse_sections(text: str) -> dict[str, str]:
    """Return the sections of an IPython description by title, or an empty mapping for other kernels."""
    parts: dict[str, list[str]] = {}
    title = ""
    for line in text.split("\n"):
        match = _TITLE_LINE.match(line)
        if match and match[1] in _IPYTHON_TITLES:
            title = match[1]
            parts[title] = [match[2].strip()]
        elif title:
            parts[title].append(line)
        else:
            return {}
    return {name: "\n".join(lines).strip() for name, lines in parts.items()}
