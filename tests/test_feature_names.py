"""The base knows no feature by name: what only one feature declares is written in that feature's package alone."""

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from codriver.app import features
from codriver.feature import Feature
from codriver.repls.contract.capabilities import CAPABILITIES
from codriver.settings.model import Settings, name_in_files
from codriver.tools import note_edit
from codriver.tools.calls import argument_reading
from codriver.tools.calls.arguments import ArgumentModel
from codriver.tools.calls.tool import Tool
from codriver.tools.manifest import BASE_TOOLS

Names = dict[str, frozenset[str]]

SERVER = Path(__file__).parents[1] / "server" / "codriver"
LIST = SERVER / "app" / "features.py"


def arguments_of(tools: tuple[Tool, ...]) -> Iterator[str]:
    """Yield the names of the arguments of tools, as clients and as code spell them."""
    for tool in tools:
        yield from fields_of(tool.arguments)


def fields_of(model: type[ArgumentModel]) -> Iterator[str]:
    """Yield the names of the fields of a model of arguments, as clients and as code spell them."""
    yield from argument_reading.model_fields(model)
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


TOOLS_OF_THE_BASE = (*BASE_TOOLS, *note_edit.TOOLS)
OF_THE_BASE = frozenset({
    *(tool.name for tool in TOOLS_OF_THE_BASE),
    *arguments_of(TOOLS_OF_THE_BASE),
    *(word for tool in TOOLS_OF_THE_BASE for word in values_of(tool.arguments.model_json_schema(by_alias=True))),
    *Settings.model_fields,
    *CAPABILITIES,
})  # fmt: skip
GIVEN = {"arguments", "given"}
"""What the base calls the arguments of a call."""


def names_of(feature: Feature) -> frozenset[str]:
    """Return the names that a feature declares and the base does not."""
    hooks = feature.server()
    settings = [name for setting in feature.settings for name in (setting.name, name_in_files(setting.name))]
    capabilities = [name for capability in hooks.adapters.capabilities for name in (capability.name, *capability.ops)]
    return frozenset({
        *(tool.name for tool in hooks.tools),
        *(name for name in arguments_in(feature) if name != name.lower() or "_" in name),
        *hooks.calls.status_subjects,
        *(source.name for source, _ in hooks.query_sources),
        *hooks.adapters.reply_fields,
        *(name for kind, _ in feature.repl_kinds for name in (kind.key, kind.title)),
        *(name for name, _ in feature.durations),
        *(name for log in feature.logs for name in (log.category, log.counted_as, log.usage_as)),
        *(resource.kind for resource in hooks.resources),
        *(prompt.name for prompt in hooks.prompts),
        *settings,
        *capabilities,
    }) - OF_THE_BASE  # fmt: skip


def arguments_in(feature: Feature) -> frozenset[str]:
    """Return the names of the arguments that a feature declares and the base does not.

    Many of them are ordinary words. The base may use those in other senses, but not read them from a call.
    """
    hooks = feature.server()
    added = (name for added_argument in hooks.added_arguments for name in fields_of(added_argument.model))
    return frozenset({*arguments_of(hooks.tools), *added}) - OF_THE_BASE


def names_read(tree: ast.AST) -> Iterator[str]:
    """Yield the names of arguments that a module reads: `arguments.name`, `given["name"]` and `given.get("name")`."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner in GIVEN:
                yield name
            case ast.Subscript(value=ast.Name(id=owner), slice=ast.Constant(value=str(name))) if owner in GIVEN:
                yield name
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner)), args=[ast.Constant(value=str(name)), *_]) if (
                owner in GIVEN
            ):
                yield name


def commands_named(tree: ast.AST) -> Iterator[str]:
    """Yield the names of commands that a module declares or lists."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="command" | "group"), args=[ast.Constant(value=str(name)), *_]):
                yield name
            case ast.Assign(targets=[ast.Name(id="COMMANDS")], value=ast.Dict(keys=keys)):
                yield from (key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str))


@cache
def found_in_base(found_in: Callable[[ast.AST], Iterator[str]]) -> Names:
    """Return what a function finds in each module of the base."""
    return {path: frozenset(found_in(tree)) for path, tree in trees().items()}


def names_in_base(names: frozenset[str], found_in: Callable[[ast.AST], Iterator[str]], under: str = "") -> Names:
    """Return which of the names a function finds in which modules of the base."""
    found = {path: names & texts for path, texts in found_in_base(found_in).items() if path.startswith(under)}
    return {path: present for path, present in found.items() if present}


def literals_in(tree: ast.AST) -> Iterator[str]:
    """Yield the string literals of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            yield node.value if isinstance(node.value, str) else node.value.decode("latin-1")


@cache
def trees() -> dict[str, ast.AST]:
    """Return the syntax trees of the modules of the base, by the module's path."""
    return {
        path.relative_to(SERVER).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(SERVER.rglob("*.py"))
        if "features" not in path.relative_to(SERVER).parts and path != LIST
    }


@pytest.mark.parametrize("feature", features.features(), ids=lambda item: item.name)
def test_no_base_module_mentions_a_name_that_a_feature_declares(feature):
    names = names_of(feature)
    assert names
    assert names_in_base(names, literals_in) == {}


@pytest.mark.parametrize("feature", features.features(), ids=lambda item: item.name)
def test_no_base_module_reads_an_argument_of_a_feature(feature):
    assert names_in_base(arguments_in(feature), names_read) == {}


@pytest.mark.parametrize("feature", features.features(), ids=lambda item: item.name)
def test_no_base_command_has_the_name_of_a_feature_command(feature):
    names = frozenset(command.name for command in feature.commands)
    assert names_in_base(names, commands_named, under="commands/") == {}


@pytest.mark.parametrize("feature", features.features(), ids=lambda item: item.name)
def test_no_base_module_mentions_a_command_or_variable_of_a_feature(feature):
    names = [rf"codriver {re.escape(command.name)}\b" for command in feature.commands]
    names += [re.escape(repls.variable) for repls in feature.server().accepted]
    mentioned = re.compile("|".join(names) or r"(?!)")
    found = {path: [*filter(mentioned.search, texts)] for path, texts in found_in_base(literals_in).items()}
    assert {path: texts for path, texts in found.items() if texts} == {}


def test_uses_of_arguments_and_commands_in_a_module_are_found():
    read = ast.parse('arguments.topic; given["what"]; given.get("filter"); row["event"]; row.value')
    assert {*names_read(read)} >= {"topic", "what", "filter"}
    assert {*names_read(read)}.isdisjoint({"event", "value"})
    declared = ast.parse('@click.command("run")\ndef run(): call("stop")\nCOMMANDS = {"watch": "log"}\nROW = {"id": 1}')
    assert {*commands_named(declared)} == {"run", "watch"}


def identifiers_in(tree: ast.AST) -> Iterator[str]:
    """Yield the names of the functions, classes, parameters, variables and attributes in a module."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=str(name)) | ast.keyword(arg=str(name)) | ast.Name(id=name) | ast.Attribute(attr=name):
                yield name


def words_in_identifiers(tree: ast.AST) -> Iterator[str]:
    """Yield the lowercase words of each identifier in a module, joined by hyphens, with one at both ends."""
    for name in set(identifiers_in(tree)):
        separate = re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()
        yield f"-{'-'.join(re.findall('[a-z]+|[0-9]+', separate))}-"


WORKER = "repls/worker/"
"""The worker lets an application import the package of the seam, whose name contains that of its capability."""


@pytest.mark.parametrize("feature", features.features(), ids=lambda item: item.name)
def test_no_identifier_in_the_base_contains_the_name_of_a_feature_capability(feature):
    names = {capability.name for capability in feature.server().adapters.capabilities} - OF_THE_BASE
    mentioned = re.compile("|".join(f"-{re.escape(name)}-" for name in names) or r"(?!)")
    found = {path: [*filter(mentioned.search, words)] for path, words in found_in_base(words_in_identifiers).items()}
    assert {path: words for path, words in found.items() if words and not path.startswith(WORKER)} == {}


def test_words_in_identifiers_are_found_in_snake_and_camel_case():
    tree = ast.parse("class SeamFound: ...\ndef f(call_seam, SEAM_OP): x.seam = seamless(the_seams=1)\n")
    words = sorted(words_in_identifiers(tree))
    assert words == ["-call-seam-", "-f-", "-seam-", "-seam-found-", "-seam-op-", "-seamless-", "-the-seams-", "-x-"]
