"""The declaration of a tool, and the manifest of a server's tools.

A tool is a description and one async function. The function receives a `Call`, which gives access to everything that it
may use, and its validated arguments. It returns an `Answer` or raises a `RefusedError`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pydantic.alias_generators import to_camel

from codriver.core.records import dataclass
from codriver.tools.calls.answer import ANY_ANSWER_SCHEMA, Answer
from codriver.tools.calls.arguments import UNLISTED_KEY, ArgumentModel, Arguments, Schema
from codriver.tools.calls.call import Call

if TYPE_CHECKING:
    from pydantic import BaseModel

    from codriver.core.state import Repl, State

UNLISTED_SCHEMA_KEYS: Final = frozenset(
    {"title", "additionalProperties", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"}
)
"""Schema keys that are not listed, because a refusal explains their effect when necessary."""


Run = Callable[[Call, Any], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class CapabilitySource:
    """Determines which REPLs can provide a capability, and how to get one of them."""

    may_have: Callable[[Repl], bool]
    """Return whether a REPL that is starting may have the capability."""
    advice: Callable[[State], str]
    """Describe how to get the capability if no such REPL is starting."""


@dataclass(frozen=True, slots=True)
class Tool:
    """The declaration of a tool: its name, its schemas, and the function that answers calls.

    The tool can be used if a REPL has one of the capabilities in `needs`, and if the setting named by `setting` is on.
    It is listed in workspaces with one of its `languages`, or everywhere if there are none. `open_world` is true if the
    tool can reach beyond the workspace, for example by running code.
    """

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    output: Schema
    run: Run
    needs: tuple[str, ...] = ()
    setting: str | None = None
    is_default: bool = False
    """Whether a feature's tool is in the default toolset."""
    is_rare: bool = False
    """Whether few workspaces use the tool. If so, it is listed only while a REPL has a capability that it needs."""
    other_names: tuple[str, ...] = ()
    """Names of this tool in Backseat Driver, accepted but not listed."""
    may_be_task: bool = False
    """Whether a client with tasks may call it as a task."""
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    languages: tuple[str, ...] = ()
    is_core: bool = False
    """Whether an agent needs the tool from the start. Clients can find others by searching `search_hint`."""
    search_hint: str = ""
    lists_output: bool = False
    """Whether the whole `output` is listed. The output of evaluations is described once."""
    added: tuple[type[ArgumentModel], ...] = ()
    """Models of arguments that features add."""
    added_inside: Mapping[type[ArgumentModel], tuple[type[ArgumentModel], ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """Models of arguments that features add to objects inside the arguments, by the model of the object.

    Pydantic passes this mapping to the objects' validators as their context.
    """
    source: CapabilitySource | None = None
    """Where the first capability of `needs` comes from, if only some REPLs can have it."""
    without_lisp: Tool | None = None
    """Variant without arguments for Lisp, which is listed in workspaces without Lisp."""
    schema: Schema = field(init=False)
    """JSON schema of the arguments."""
    base_arguments: frozenset[str] = field(init=False)
    """Arguments that no feature added."""

    @property
    def listed_output_schema(self) -> Schema:
        """Return the schema of answers that is listed for the tool.

        It must fit every answer, because clients validate answers with it.
        """
        return self.output if self.lists_output else ANY_ANSWER_SCHEMA

    def with_properties(self, properties: Mapping[str, Any]) -> Tool:
        """Return a copy of the tool whose schema has the given properties in place of those with the same names."""
        copied = replace(self)
        schema = {**self.schema, "properties": {**self.schema["properties"], **properties}}
        object.__setattr__(copied, "schema", schema)
        return copied

    def __post_init__(self) -> None:
        schema = _listed_schema(self.arguments)
        if self.added:
            parts = (schema, *map(_listed_schema, self.added))
            schema = {**schema, "properties": {name: of for part in parts for name, of in part["properties"].items()}}
        object.__setattr__(self, "schema", schema)
        argument_names = frozenset(info.alias or to_camel(name) for name, info in self.arguments.model_fields.items())
        object.__setattr__(self, "base_arguments", argument_names)


@dataclass(frozen=True)
class Manifest:
    """All tools of a server, in the order in which clients list them."""

    tools: tuple[Tool, ...]
    default: tuple[Tool, ...]
    """Tools in the default toolset."""
    for_hooks: tuple[Tool, ...] = ()
    """Tools that only clients' hooks call. They are never listed."""
    guides: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The tool that each skill is about, by skill. The skill is only useful where the tool is available."""
    by_name: Mapping[str, Tool] = field(init=False)
    """Listed tools by name."""
    rare: frozenset[str] = field(init=False)
    """Capabilities that only rare tools need."""
    called: Mapping[str, Tool] = field(init=False)
    """Every tool by each name that a call can use: its own, or its name in Backseat Driver."""

    def __post_init__(self) -> None:
        by_name = {tool.name: tool for tool in self.tools}
        others = {name: tool for tool in self.tools for name in tool.other_names}
        hooks = {tool.name: tool for tool in self.for_hooks}
        object.__setattr__(self, "by_name", MappingProxyType(by_name))
        object.__setattr__(self, "rare", frozenset(need for tool in self.tools if tool.is_rare for need in tool.needs))
        object.__setattr__(self, "called", MappingProxyType({**others, **by_name, **hooks}))


def _first(values: object) -> list[object]:
    """Return a list with the first of several values, or an empty list."""
    return values[:1] if isinstance(values, list) else []


@cache
def _listed_schema(model: type[BaseModel]) -> Schema:
    """Return the schema of a model in the form in which it is listed.

    It is cached, because computing it takes milliseconds, so callers must not change it.
    """
    return _simplify_schema(model.model_json_schema(by_alias=True))


def _simplify_schema(schema: Schema) -> Schema:
    """Simplify a pydantic schema: remove titles, which clients do not need, and inline references."""
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
            # Clients omit an optional argument instead of passing null, so only its type is listed.
            typed = next(option for option in options if option != {"type": "null"})
            node = {**typed, **{key: value for key, value in node.items() if key not in ("anyOf", "default")}}
        named = node.get("properties")
        plain = {
            key: visit(value) for key, value in node.items() if key not in UNLISTED_SCHEMA_KEYS and key != "properties"
        }
        if plain.get("default", True) in (None, False, 0, [], *_first(plain.get("enum"))):
            del plain["default"]
        if isinstance(named, dict):
            listed = {name: value for name, value in named.items() if UNLISTED_KEY not in value}
            plain["properties"] = {name: visit(value) for name, value in listed.items()}
        return plain

    result = visit(schema)
    assert isinstance(result, dict)  # noqa: S101  # the schema of a model is an object
    if not result.get("properties"):
        # Strict modes, such as that of OpenAI's models, reject an open object without properties.
        result["additionalProperties"] = False
    result.pop("description", None)
    return result
