"""The declaration of a tool, and all tools of a server.

A tool is a description and one async function. The function gets a `Call`, through which it reaches everything it may
use, and its arguments, already checked; it returns an `Answer` or raises a `RefusedError`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any, Final

from pydantic.alias_generators import to_camel

from codriver.core.records import dataclass
from codriver.tools.calls.answer import ANY_ANSWER, Answer
from codriver.tools.calls.arguments import UNLISTED, Arguments, Given, Schema
from codriver.tools.calls.call import Call

SAID_BY_REFUSALS: Final = frozenset(
    {"title", "additionalProperties", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"}
)
"""Keys of a schema that no model needs to know before a refusal tells them."""


Run = Callable[[Call, Any], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Tool:
    """One entry of the manifest. `needs`: any one of these capabilities; `setting`: the setting that must be on.

    `languages`: the tool is listed in workspaces with one of them, everywhere if empty. The annotation `open_world` is
    for a tool that can reach beyond the workspace, as the code that it runs can.
    """

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    output: Schema
    run: Run
    needs: tuple[str, ...] = ()
    setting: str | None = None
    is_usual: bool = False
    """Whether a tool of a feature is in the default list."""
    other_names: tuple[str, ...] = ()
    """The names of this tool in Backseat Driver, answered and not listed."""
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    languages: tuple[str, ...] = ()
    is_core: bool = False
    """Whether an agent needs the tool from the start; others may be found by a client's search, by `search_hint`."""
    search_hint: str = ""
    lists_output: bool = False
    """Whether `output` is listed whole: an evaluation's is stated once, and no model is shown any."""
    added: tuple[type[Given], ...] = ()
    """The models of arguments that features add."""
    elsewhere: Tool | None = None
    """The tool listed in place of this one in a workspace without Lisp: the same, without arguments of Lisp."""
    schema: Schema = field(init=False)
    """The JSON schema of the arguments."""
    own_names: frozenset[str] = field(init=False)
    """The arguments that no feature added."""

    @property
    def listed_output(self) -> Schema:
        """The schema of the answer that clients get: they check each answer by it, so it has to fit all."""
        return self.output if self.lists_output else ANY_ANSWER

    def __post_init__(self) -> None:
        schema = _plain(self.arguments.model_json_schema(by_alias=True))
        for model in self.added:
            schema["properties"] |= _plain(model.model_json_schema(by_alias=True))["properties"]
        object.__setattr__(self, "schema", schema)
        own = frozenset(info.alias or to_camel(name) for name, info in self.arguments.model_fields.items())
        object.__setattr__(self, "own_names", own)


@dataclass(frozen=True)
class Manifest:
    """The tools of a server in the order in which clients see them: the base's, and those of its features."""

    tools: tuple[Tool, ...]
    usual: tuple[Tool, ...]
    """The tools in the default list."""
    for_hooks: tuple[Tool, ...] = ()
    """The tools that only clients' hooks call. No client lists them."""
    by_name: Mapping[str, Tool] = field(init=False)
    """The listed tools by their names."""
    called: Mapping[str, Tool] = field(init=False)
    """Every tool by each name that a call can give: its own, or its name in Backseat Driver."""

    def __post_init__(self) -> None:
        by_name = {tool.name: tool for tool in self.tools}
        others = {name: tool for tool in self.tools for name in tool.other_names}
        hooks = {tool.name: tool for tool in self.for_hooks}
        object.__setattr__(self, "by_name", MappingProxyType(by_name))
        object.__setattr__(self, "called", MappingProxyType({**others, **by_name, **hooks}))


def _first(values: object) -> list[object]:
    """Return the first value of an enumeration, which is also its default, if it has one."""
    return values[:1] if isinstance(values, list) else []


def _plain(schema: Schema) -> Schema:
    """Return a pydantic schema without titles, which tell a client nothing, and with references inlined."""
    definitions = schema.pop("$defs", {})

    def visit(node: object) -> object:
        if isinstance(node, list):
            return [visit(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            return visit(definitions[node["$ref"].rsplit("/", 1)[1]])
        options = node.get("anyOf")
        if options and {"type": "null"} in options and len(options) == 2:
            # An optional argument is left out, not null: only its type is listed, which every client understands.
            kept = next(option for option in options if option != {"type": "null"})
            node = {**kept, **{key: value for key, value in node.items() if key not in ("anyOf", "default")}}
        named = node.get("properties")
        plain = {
            key: visit(value) for key, value in node.items() if key not in SAID_BY_REFUSALS and key != "properties"
        }
        if plain.get("default", True) in (None, False, 0, [], *_first(plain.get("enum"))):
            del plain["default"]
        if isinstance(named, dict):
            shown = {name: value for name, value in named.items() if UNLISTED not in value}
            plain["properties"] = {name: visit(value) for name, value in shown.items()}
        return plain

    result = visit(schema)
    assert isinstance(result, dict)  # noqa: S101  # the schema of a model is an object
    if not result.get("properties"):
        # Strict modes, such as that of OpenAI's models, take no open object without properties.
        result["additionalProperties"] = False
    result.pop("description", None)
    return result
