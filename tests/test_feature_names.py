"""The base knows no feature by name: what only one feature declares is written in that feature's package alone."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from codriver.app import features
from codriver.feature import Feature
from codriver.repls.contract.adapter_values import CAPABILITIES
from codriver.settings.model import Settings, spelled
from codriver.tools.calls import argument_reading
from codriver.tools.calls.arguments import Given
from codriver.tools.calls.tool import Tool
from codriver.tools.manifest import BASE_TOOLS

SERVER = Path(__file__).parents[1] / "server" / "codriver"
LIST = SERVER / "app" / "features.py"


def arguments_of(tools: tuple[Tool, ...]) -> Iterator[str]:
    """Yield the names of the arguments of tools, as clients and as code spell them."""
    for tool in tools:
        yield from fields_of(tool.arguments)


def fields_of(model: type[Given]) -> Iterator[str]:
    """Yield the names of the fields of a model of arguments, as clients and as code spell them."""
    yield from argument_reading.fields_of(model)
    yield from model.model_fields


def values_of(schema: object) -> Iterator[str]:
    """Yield the words that a JSON schema accepts, if it accepts only certain ones."""
    if isinstance(schema, dict):
        yield from schema.get("enum", ())
        for inner in schema.values():
            yield from values_of(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from values_of(inner)


OF_THE_BASE = frozenset({
    *(tool.name for tool in BASE_TOOLS),
    *arguments_of(BASE_TOOLS),
    *(word for tool in BASE_TOOLS for word in values_of(tool.arguments.model_json_schema(by_alias=True))),
    *Settings.model_fields,
    *CAPABILITIES,
    # Ordinary words, which the base uses in other senses: runs of tests and of the server, traces of errors, ids and
    # values in protocols, and the command `stop`.
    "run", "trace", "id", "value", "stop", "event", "topic", "what", "filter",
})  # fmt: skip


def names_of(feature: Feature) -> frozenset[str]:
    """Return the names that a feature declares and the base does not."""
    hooks = feature.server()
    settings = [name for one in feature.settings for name in (one.name, spelled(one.name))]
    capabilities = [name for one in hooks.adapters.capabilities for name in (one.name, *one.ops)]
    return frozenset({
        *(tool.name for tool in hooks.tools),
        *arguments_of(hooks.tools),
        *(name for added in hooks.added_arguments for name in fields_of(added.model)),
        *hooks.calls.subjects,
        *(source.name for source, _ in hooks.query_sources),
        *hooks.adapters.reply_fields,
        *(one.name for one in feature.commands),
        *(name for name, _ in feature.durations),
        *(one.kind for one in hooks.resources),
        *(one.name for one in hooks.prompts),
        *settings,
        *capabilities,
    }) - OF_THE_BASE  # fmt: skip


@cache
def literals() -> dict[str, frozenset[str]]:
    """Return the string literals of each module of the base, by the module's path."""
    found = {}
    for path in sorted(SERVER.rglob("*.py")):
        if "features" not in path.relative_to(SERVER).parts and path != LIST:
            nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            texts = (one.value for one in nodes if isinstance(one, ast.Constant))
            found[str(path.relative_to(SERVER))] = frozenset(text for text in texts if isinstance(text, str))
    return found


@pytest.mark.parametrize("feature", features.features(), ids=lambda one: one.name)
def test_no_module_of_the_base_names_what_a_feature_declares(feature):
    names = names_of(feature)
    assert names
    assert {path: found for path, texts in literals().items() if (found := names & texts)} == {}
