"""How known clients differ from unknown ones, by the names under which they introduce themselves."""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver.core.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping


ENVELOPE_BYTES = 1000
"""The bytes of an answer beside its texts: its other fields, and notes on others' acts."""


LIFTED_CHARACTERS = 300_000
"""The characters that Claude Code hands on for a tool whose `_meta` says so in `anthropic/maxResultSizeChars`."""


LIFTED_TOOLS = frozenset({"get_evaluation", "repl_output_log"})
"""The tools by which a caller asks for more than an answer has by itself."""


OWN_CHARACTERS = 64 * 2**20
"""The characters for our own commands, which read for a person or a program: all that can be asked for."""


@dataclass(frozen=True, slots=True)
class Traits:
    """The differences of a known client from an unknown one."""

    answer_characters: int = 20_000
    """The longest answer, as JSON, that reaches the model whole; of a longer one the model sees a part, or a file's
    name."""
    lifts_limit: bool = False
    """Whether the longest answer has `LIFTED_CHARACTERS` for the tools that ask for that."""
    has_budget: bool = True
    """Whether an answer's text is bounded by the setting `maxTextBytes`, unless more is asked for."""
    takes_structure: bool = True
    """Whether an answer has its `structuredContent` too, and each tool the schema of it."""
    reads_whole: bool = False
    """Whether values are printed whole unless the call sets a bound: the client is a script, and no model."""
    wants_detail: bool = False
    """Whether answers about evaluations have every field, unless the call says otherwise."""
    shows_images: bool = True
    """Whether the client hands image content on to its model; else the text names a file, which its own tool opens."""
    wait_ms: int = 25_000
    """How long a call waits by default: the longest that a client is known to wait without a progress report, with a
    margin. There are clients that give up after 30 s and cancel nothing."""
    lists_again: bool = False
    """Whether the client is known to list the tools again when it is notified that they changed."""
    who: str = ""
    """The `who` of the client's callers that give none; empty for the client's own name in kebab-case."""


HUMAN_CLIENT: Final = "codriver-human"
"""The name of a client by which a person acts: its callers are `human`."""


TRAITS: Mapping[str, Traits] = MappingProxyType(
    {
        "claude-code": Traits(
            answer_characters=50_000, lifts_limit=True, lists_again=True, wait_ms=50_000, who="claude-code"
        ),
        "copilot-cli": Traits(
            answer_characters=20_000, shows_images=False, lists_again=True, wait_ms=50_000, who="copilot-cli"
        ),
        "codex-mcp-client": Traits(answer_characters=12_000, takes_structure=False, wait_ms=50_000, who="codex"),
        "gemini-cli-mcp-client": Traits(answer_characters=40_000, lists_again=True, wait_ms=50_000, who="gemini"),
        "opencode": Traits(
            answer_characters=48_000, shows_images=False, lists_again=True, wait_ms=50_000, who="opencode"
        ),
        "qwen-cli-mcp-client": Traits(answer_characters=20_000, shows_images=False, who="qwen"),
        "@cline/": Traits(takes_structure=False, who="cline"),
        "factory-cli": Traits(who="droid"),
        "augment-mcp-client": Traits(who="auggie"),
        HUMAN_CLIENT: Traits(answer_characters=LIFTED_CHARACTERS, lists_again=True, wants_detail=True, who="human"),
        "codriver-": Traits(
            answer_characters=OWN_CHARACTERS, lists_again=True, has_budget=False, reads_whole=True, wants_detail=True
        ),
    }
)
"""By the beginning of `clientInfo.name`: Qwen Code adds the server's name, and our own commands are `codriver-cli`,
`codriver-log` and so on. Source: Claude Code 2.1.330, Copilot CLI 1.0.102, Codex 0.169, Gemini CLI 0.61, opencode
1.18.33, Qwen Code 0.24, Cline 3.0.65, droid 0.215 and auggie 0.36, observed. opencode, Copilot CLI and Qwen Code hand
no image part on to a model without known vision. Codex drops the text and the images that stand beside a structure;
Cline hands on both, so that its model reads everything twice."""


_ORDINARY = Traits()


_SPECIAL = tuple(TRAITS)


@lru_cache(maxsize=64)
def traits_of(client_name: str) -> Traits:
    """Return the traits of the client of this name."""
    if not client_name.startswith(_SPECIAL):
        return _ORDINARY
    return next(traits for start, traits in TRAITS.items() if client_name.startswith(start))


def most_bytes(client_name: str, tool: str = "") -> int:
    """The most bytes of text that reach the model in one answer of this tool, however many are asked for."""
    traits = traits_of(client_name)
    is_lifted = traits.lifts_limit and tool in LIFTED_TOOLS
    return (LIFTED_CHARACTERS if is_lifted else traits.answer_characters) - ENVELOPE_BYTES
