"""Known MCP clients, recognized by name, and the behavior that answers have to take into account."""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver.core.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping


ENVELOPE_BYTES = 1000
"""Size of an answer without its text, in bytes: other fields, and notes about other callers."""


MAX_LIFTED_CHARACTERS = 300_000
"""Maximum length of an answer that Claude Code accepts from tools with `anthropic/maxResultSizeChars` in `_meta`."""


LIFTED_TOOLS = frozenset({"get_evaluation", "repl_output_log"})
"""Tools whose callers request more than a usual answer contains."""


MAX_COMMAND_CHARACTERS = 64 * 2**20
"""Maximum number of characters in an answer to Codriver's commands, which people and programs read."""


@dataclass(frozen=True, slots=True)
class ClientTraits:
    """Properties of a known client that affect its answers. The defaults are for unknown clients."""

    answer_characters: int = 20_000
    """Longest JSON answer that reaches the model whole. Of a longer one, it sees only a part or a file name."""
    lifts_limit: bool = False
    """Whether answers from `LIFTED_TOOLS` may have up to `MAX_LIFTED_CHARACTERS` characters."""
    has_budget: bool = True
    """Whether the setting `maxTextBytes` limits an answer's text, unless the call requests more."""
    accepts_structure: bool = True
    """Whether answers also contain `structuredContent`, and descriptions of tools its schema."""
    reads_whole: bool = False
    """Whether values are printed whole unless the call sets a limit, because the client is a script."""
    wants_detail: bool = False
    """Whether answers about evaluations contain every field, unless the call specifies otherwise."""
    shows_images: bool = True
    """Whether the client passes images to its model. Otherwise the text names a file that the client can open."""
    wait_ms: int = 25_000
    """How long a call waits by default: the time that the client tolerates without a progress report, with a margin.

    Some clients give up after 30 s without cancelling the call.
    """
    reads_resources: bool = False
    """Whether the client gives its model a tool that reads resources."""
    lists_again: bool = False
    """Whether the client lists the tools again when it is notified of changes."""
    who: str = ""
    """Default `who` of the client's callers. If empty, the client's name in kebab-case is used."""


HUMAN_CLIENT_NAME: Final = "codriver-human"
"""Name of a client that a person uses. Its callers are called `human`."""


TRAITS: Mapping[str, ClientTraits] = MappingProxyType(
    {
        "claude-code": ClientTraits(
            answer_characters=50_000,
            lifts_limit=True,
            reads_resources=True,
            lists_again=True,
            wait_ms=50_000,
            who="claude-code",
        ),
        "copilot-cli": ClientTraits(
            answer_characters=20_000, shows_images=False, lists_again=True, wait_ms=50_000, who="copilot-cli"
        ),
        "codex-mcp-client": ClientTraits(
            answer_characters=12_000, accepts_structure=False, reads_resources=True, wait_ms=50_000, who="codex"
        ),
        "gemini-cli-mcp-client": ClientTraits(
            answer_characters=40_000, reads_resources=True, lists_again=True, wait_ms=50_000, who="gemini"
        ),
        "opencode": ClientTraits(
            answer_characters=48_000,
            shows_images=False,
            reads_resources=True,
            lists_again=True,
            wait_ms=50_000,
            who="opencode",
        ),
        "qwen-cli-mcp-client": ClientTraits(answer_characters=20_000, shows_images=False, who="qwen"),
        "@cline/": ClientTraits(accepts_structure=False, who="cline"),
        "factory-cli": ClientTraits(who="droid"),
        "augment-mcp-client": ClientTraits(who="auggie"),
        HUMAN_CLIENT_NAME: ClientTraits(
            answer_characters=MAX_LIFTED_CHARACTERS, lists_again=True, wants_detail=True, who="human"
        ),
        "codriver-": ClientTraits(
            answer_characters=MAX_COMMAND_CHARACTERS,
            lists_again=True,
            has_budget=False,
            reads_whole=True,
            wants_detail=True,
        ),
    }
)
"""Traits by the beginning of `clientInfo.name`.

Qwen Code adds the server's name, and Codriver's commands are `codriver-cli`, `codriver-log` and so on. Source: Claude
Code 2.1.330, Copilot CLI 1.0.102, Codex 0.169, Gemini CLI 0.61, opencode 1.18.33, Qwen Code 0.24, Cline 3.0.65, droid
0.215 and auggie 0.36, observed. opencode, Copilot CLI and Qwen Code do not pass images to a model without known vision.
Codex drops text and images next to structured content. Cline passes on both, and its model reads everything twice.
"""


_DEFAULT_TRAITS = ClientTraits()
"""Traits of an unknown client."""


_KNOWN_NAME_PREFIXES = tuple(TRAITS)
"""Prefixes that identify the names of known clients."""


@lru_cache(maxsize=64)
def find_traits(client_name: str) -> ClientTraits:
    """Return the traits of the client with this name."""
    if not client_name.startswith(_KNOWN_NAME_PREFIXES):
        return _DEFAULT_TRAITS
    return next(traits for start, traits in TRAITS.items() if client_name.startswith(start))


def max_answer_bytes(client_name: str, tool: str = "") -> int:
    """Return the maximum number of bytes of an answer's text that reach the client's model."""
    traits = find_traits(client_name)
    is_lifted = traits.lifts_limit and tool in LIFTED_TOOLS
    return (MAX_LIFTED_CHARACTERS if is_lifted else traits.answer_characters) - ENVELOPE_BYTES
