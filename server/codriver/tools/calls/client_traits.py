"""Traits of clients by the name that they give themselves: one table, an entry for each that is special."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ENVELOPE_BYTES = 1000
"""The bytes of an answer beside its texts: its other fields, and notes on what others did."""
LIFTED_CHARACTERS = 300_000
"""Claude Code hands on as much of a tool whose `_meta` says so in `anthropic/maxResultSizeChars`."""
LIFTED_TOOLS = frozenset({"get_evaluation", "repl_output_log"})
"""The tools by which more is asked for than answers have by themselves."""
OWN_CHARACTERS = 64 * 2**20
"""Of our own commands, which read for a person or a program: all that can be asked for."""


@dataclass(frozen=True, slots=True)
class Traits:
    """The differences of a client from one of which nothing is known."""

    answer_characters: int = 20_000
    """The longest answer, as JSON, that reaches the model whole; of a longer one it sees a part, or a file's name."""
    lifts_limit: bool = False
    """Whether that is `LIFTED_CHARACTERS` for the tools that say so."""
    has_budget: bool = True
    """Whether an answer has no more text than the setting `maxTextBytes` says, where no more is asked for."""
    takes_structure: bool = True
    """Whether an answer has its `structuredContent` too, and each tool the schema of it."""
    reads_whole: bool = False
    """Whether values are printed whole for it, where the call does not say how much: it is a script's, no model's."""
    wants_detail: bool = False
    """Whether answers about evaluations have every field, where the call does not say otherwise."""
    shows_images: bool = True
    """Whether the client hands image content on to its model; else the text names a file, which its own tool opens."""
    lists_once: bool = False
    """Whether it asks for the list of tools once, whatever it is told of changes later."""
    who: str = ""
    """The name of its callers where they give none; empty for the client's own name in kebab-case."""


TRAITS: Mapping[str, Traits] = MappingProxyType(
    {
        "claude-code": Traits(answer_characters=50_000, lifts_limit=True, who="claude-code"),
        "copilot-cli": Traits(answer_characters=20_000, shows_images=False, who="copilot-cli"),
        "codex-mcp-client": Traits(answer_characters=12_000, takes_structure=False, lists_once=True, who="codex"),
        "gemini-cli-mcp-client": Traits(answer_characters=40_000, who="gemini"),
        "opencode": Traits(answer_characters=48_000, shows_images=False, who="opencode"),
        "qwen-cli-mcp-client": Traits(answer_characters=20_000, lists_once=True, who="qwen"),
        "@cline/": Traits(takes_structure=False, who="cline"),
        "factory-cli": Traits(who="droid"),
        "augment-mcp-client": Traits(who="auggie"),
        "codriver-page": Traits(answer_characters=LIFTED_CHARACTERS, wants_detail=True, who="human"),
        "codriver-": Traits(answer_characters=OWN_CHARACTERS, has_budget=False, reads_whole=True, wants_detail=True),
    }
)
"""By the beginning of `clientInfo.name`: Qwen Code adds the server's name, and our own commands are `codriver-cli`,
`codriver-log` and so on. Source: Claude Code 2.1.330, Copilot CLI 1.0.102, Codex 0.169, Gemini CLI 0.61, opencode
1.18.33, Qwen Code 0.24, Cline 3.0.65, droid 0.215 and auggie 0.36, observed. opencode and Copilot CLI hand no image
part on to a model that is not known to see. Codex drops the text and the images that
stand beside a structure; Cline hands on both, so that its model reads everything twice."""
_ORDINARY = Traits()
_SPECIAL = tuple(TRAITS)


@lru_cache(maxsize=64)
def traits_of(client_name: str) -> Traits:
    """The traits of the client of this name."""
    if not client_name.startswith(_SPECIAL):
        return _ORDINARY
    return next(traits for start, traits in TRAITS.items() if client_name.startswith(start))


def most_bytes(client_name: str, tool: str = "") -> int:
    """The most bytes of text that reach the model in one answer of this tool, however much is asked for."""
    traits = traits_of(client_name)
    is_lifted = traits.lifts_limit and tool in LIFTED_TOOLS
    return (LIFTED_CHARACTERS if is_lifted else traits.answer_characters) - ENVELOPE_BYTES
