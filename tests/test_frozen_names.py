"""The public names of the product: what programs, configurations and agents rely on is listed in
`frozen_names.toml`.

Each list is derived from the product and compared with the file, so that a public name appears or disappears only by a
decision.
"""

import ast
import inspect
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import click
import needs
import pytest
from pydantic import BaseModel

import codriver_seam
from codriver.app import features
from codriver.app.features import server_hooks
from codriver.app.workspace_settings import settings_model
from codriver.commands import all_servers, call, cli, log, mistaken_client
from codriver.errors import Reason, StartError
from codriver.files import codriver_paths
from codriver.log.log_entries import Category
from codriver.log.output_log import BASE_QUERY_SOURCES
from codriver.protocol import prompts, resources
from codriver.repls import kinds
from codriver.repls.contract.capabilities import CAPABILITIES
from codriver.repls.nrepl import probe
from codriver.repls.worker.basics import features as worker_features
from codriver.settings import acceptance_records, durations, model
from codriver.tools import manifest
from codriver.tools.calls import argument_reading, caller_slugs
from codriver.tools.calls.arguments import ArgumentModel
from codriver.tools.calls.tool import Tool
from codriver_relay import command_line, hook, safe_files
from codriver_seam import accessors

FILE = Path(__file__).with_name("frozen_names.toml")
ASKED = BASE_QUERY_SOURCES.with_sources(
    [(source, None) for hooks in server_hooks() for source, _ in hooks.query_sources]
)
ROOT = Path(__file__).parents[1]
SERVER, SEAM, RELAY = ROOT / "server" / "codriver", ROOT / "server" / "codriver_seam", ROOT / "relay" / "codriver_relay"
Names = Mapping[str, frozenset[str]]
TOOLS = tuple(features.manifest().called.values())
"""Every tool that a call can name."""


@cache
def content(file: Path) -> str:
    """Return the text of a file."""
    return file.read_text(encoding="utf-8")


@cache
def literals(file: Path) -> frozenset[str]:
    """Return the string literals of a Python file, including docstrings."""
    nodes = ast.walk(ast.parse(content(file)))
    return frozenset(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


@cache
def files_below(folder: Path) -> tuple[Path, ...]:
    """Return the Python files in a directory."""
    return tuple(sorted(folder.rglob("*.py")))


def files_with(text: str, *folders: Path) -> Iterator[Path]:
    """Yield the Python files in these directories that contain a text, short ones first."""
    found = [file for folder in folders for file in files_below(folder) if text in content(file)]
    yield from sorted(found, key=lambda file: len(content(file)))


def commands(command: click.Command, name: str = "codriver") -> Iterator[tuple[str, click.Command]]:
    """Yield a command and its subcommands, each by its full name."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from commands(found, f"{name} {below}")


def options(command: click.Command) -> Iterator[str]:
    """Yield the options of a command as they are written, and its arguments in capitals."""
    for parameter in command.params:
        yield from (opt.upper() if isinstance(parameter, click.Argument) else opt for opt in parameter.opts)
        yield from parameter.secondary_opts


def choices(command: click.Command) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the options of a command that accept only certain words, with these words."""
    for parameter in command.params:
        if isinstance(parameter.type, click.Choice):
            yield max(parameter.opts, key=len), frozenset(map(str, parameter.type.choices))


def exit_statuses() -> Iterator[str]:
    """Yield the exit statuses of the commands, after every command is imported."""
    found: list[type[StartError]] = [StartError]
    for kind in found:
        found += kind.__subclasses__()
        yield str(kind.exit_status)
    yield from map(
        str,
        (
            0,
            cli.FAILED_STATUS,
            all_servers.NO_SERVER_STATUS,
            log.INTERRUPTED_STATUS,
            mistaken_client.MISTAKEN_CLIENT_STATUS,
        ),
    )
    yield from map(str, (call.TIMED_OUT, call.WRONG_USAGE, *call.STATUS_BY_REASON.values()))


def fields_of(schema: Any, path: str = "") -> Iterator[str]:
    """Yield the fields that a JSON schema declares, those of nested objects after a dot."""
    if isinstance(schema, dict):
        for name, inner in schema.get("properties", {}).items():
            yield path + name
            yield from fields_of(inner, f"{path}{name}.")
        for inner in (
            schema.get("items"),
            *(item for key in ("anyOf", "oneOf", "allOf") for item in schema.get(key, ())),
        ):
            yield from fields_of(inner, path)


def arguments_of(model: type[ArgumentModel], tool: Tool) -> Iterator[str]:
    """Yield the names of a tool's arguments, those of nested objects after a dot."""
    for name, field in argument_reading.model_fields(model).items():
        yield name
        inner = field.expected.model or (field.expected.item and field.expected.item.model)
        for item in (inner, *tool.added_inside.get(inner, ())) if inner else ():
            yield from (f"{name}.{found}" for found in arguments_of(item, tool))


def values_of(schema: Any) -> frozenset[str]:
    """Return the words that a JSON schema of an argument accepts, if it accepts only certain ones."""
    if not isinstance(schema, dict):
        return frozenset()
    inner = (schema.get("items"), *(item for key in ("anyOf", "oneOf", "allOf") for item in schema.get(key, ())))
    words = {*schema.get("enum", ()), *([schema["const"]] if "const" in schema else [])}
    return frozenset(map(str, words)).union(*map(values_of, inner))


def argument_models() -> Iterator[type[ArgumentModel]]:
    """Yield every model of arguments."""
    found: list[type[ArgumentModel]] = [ArgumentModel]
    for kind in found:
        found += kind.__subclasses__()
        yield kind


def edit_types() -> frozenset[str]:
    """Return the types of edits."""
    fields = [kind.model_fields["type"] for kind in argument_models() if "type" in kind.model_fields]
    return frozenset(
        argument for field in fields for argument in get_args(field.annotation) if isinstance(argument, str)
    )


def wire_names() -> frozenset[str]:
    """Return the names in Codriver's namespace in messages to and from REPLs and clients."""
    files = files_with("codriver/", SERVER, SEAM, RELAY)
    return frozenset(text for file in files for text in literals(file) if re.fullmatch(r"codriver/[a-z-]+", text))


def variables() -> frozenset[str]:
    """Return the environment variables of Codriver that do not belong to a setting."""
    texts = {text for file in files_with("CODRIVER_", SERVER, SEAM, RELAY) for text in literals(file)}
    named = {name for text in texts for name in re.findall(r"\bCODRIVER_[A-Z_]*[A-Z]\b", text)}
    return frozenset(named - {model.environment_variable(name) for name in settings_model().model_fields})


def settings_choices(name: str) -> frozenset[str]:
    """Return the values of a setting that accepts only certain words."""
    return frozenset(
        argument for argument in get_args(model.Settings.model_fields[name].annotation) if isinstance(argument, str)
    )


def refusals_of_the_seam() -> frozenset[str]:
    """Return the reasons with which an application's seam refuses."""
    texts = [file.read_text(encoding="utf-8") for file in SEAM.glob("*.py")]
    found = {name for text in texts for name in re.findall(r'(?:Refusal\(|FAILED_REASON = )\s*"([a-z-]+)"', text)}
    return frozenset(found)


def seam_functions() -> Iterator[str]:
    """Yield the public functions of the Python seam, each with its parameters."""
    for name in codriver_seam.__all__:
        found = getattr(codriver_seam, name)
        parameters = inspect.signature(found).parameters.values() if callable(found) else ()
        stars: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
        words = ", ".join(stars.get(parameter.kind, "") + parameter.name for parameter in parameters)
        yield f"{name}({words})" if callable(found) else name


def clojure_seam() -> frozenset[str]:
    """Return the public functions and macros of the Clojure seam."""
    text = (SEAM / "clojure" / "codriver" / "seam.cljc").read_text(encoding="utf-8")
    return frozenset(re.findall(r"^\(def(?:n|macro) ([a-z][\w!?*-]*)", text, re.MULTILINE))


def uris() -> frozenset[str]:
    """Return the addresses of resources, and templates of such."""
    rows = (row.uri for family in features.resources() for row in (*family.listed, *family.templates))
    return frozenset(value for value in vars(resources).values() if isinstance(value, str) and "://" in value[:20]) | {
        *rows
    }


def worker_operations() -> frozenset[str]:
    """Return the operations of nREPL that the server sends, or that the worker answers."""
    folder = SERVER / "repls" / "worker" / "serving"
    tree = ast.parse((folder / "nrepl_server.py").read_text(encoding="utf-8"))
    keys = {
        key.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Attribute) and target.attr == "_ops" and isinstance(node.value, ast.Dict)
        for key in node.value.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }
    of_features = {op for feature in worker_features.load_features() for op in feature.ops}
    return frozenset(
        keys
        | of_features
        | {op for ops in probe.OPS_BY_CAPABILITY.values() for op in ops}
        | {op for capability in features.adapter_hooks().capabilities for op in capability.ops}
    )


def state_files() -> frozenset[str]:
    """Return the names of the files and directories of state: see `codriver_paths`."""
    workspace = Path("workspace")
    found = {codriver_paths.server_directory(workspace), codriver_paths.port_file(workspace)}
    inside = {file.relative_to(workspace).as_posix() for file in found}
    redirect = import_module("codriver.features.page.page_redirect").redirect_file(workspace)
    state = {codriver_paths.history_file(workspace).name, redirect.name, acceptance_records.ACCEPTANCE_FILE}
    own = {codriver_paths.relay_file().name, codriver_paths.hook_file(codriver_paths.relay_file()).name}
    return frozenset(
        inside | state | own | {codriver_paths.user_settings_file().name, "/".join(safe_files.SERVER_DIRECTORY)}
    )


def kernel_entry() -> type[BaseModel]:
    """Return the model of an entry of the setting `kernels`."""
    found: type[BaseModel] = import_module("codriver.features.jupyter.kernel_entries").NamedKernelEntry
    return found


def derived() -> Names:
    """Return every list of public names, by its table and key in the file."""
    found: dict[str, Iterable[str]] = {}
    for name, command in commands(cli.cli):
        found[f"commands.{name}"] = options(command)
        found |= {f"choices.{name} {option}": words for option, words in choices(command)}
    for tool in TOOLS:
        found[f"arguments.{tool.name}"] = {
            *found.get(f"arguments.{tool.name}", ()),
            *(name for model in (tool.arguments, *tool.added) for name in arguments_of(model, tool)),
        }
        found[f"answers.{tool.name}"] = {*found.get(f"answers.{tool.name}", ()), *fields_of(tool.output)}
        unlisted: Mapping[str, Any] = tool.arguments.model_json_schema(by_alias=True)["properties"]
        for name, schema in {**unlisted, **tool.schema["properties"]}.items():
            if words := values_of(schema):
                found[f"values.{tool.name} {name}"] = words
    found["answers.repl_output_log"] = {
        *found["answers.repl_output_log"],
        *(event_log.counted_as for event_log in features.event_logs()),
    }
    found |= {
        "exit.statuses": exit_statuses(),
        "values.edit types": edit_types(),
        "tools.arguments_by_other_names": {
            *argument_reading.OTHER_NAMES, *(name for kind in argument_models() for name in kind.OTHER_NAMES)
        },
        "tools.capabilities": {
            *CAPABILITIES, *(capability.name for capability in features.adapter_hooks().capabilities),
            *(need for tool in TOOLS for need in tool.needs),
        },
        "tools.dialects": {item for kind in kinds.REPL_KINDS for item in (kind.dialect, kind.file_dialect) if item},
        "tools.repl_words": kinds.kinds_by_word(features.repl_kinds()),
        "backseat_driver.tools": (name for tool in TOOLS for name in tool.other_names),
        "backseat_driver.arguments": {*manifest.ARGUMENT_NAMES, *manifest.IGNORED_ARGUMENTS},
        "backseat_driver.skills": {*manifest.SKILL_NAMES, *manifest.PAGE_PATHS},
        "callers.reserved": caller_slugs.RESERVED_SLUGS - {""},
        "settings.names": map(model.name_in_files, settings_model().model_fields),
        "settings.toolset": settings_choices("toolset"),
        "settings.event_loop": settings_choices("event_loop"),
        "settings.kernels": {info.alias for info in kernel_entry().model_fields.values()},
        "settings.durations": {*durations.Durations.__dataclass_fields__, *features.feature_durations()} - {"others"},
        "settings.variables": variables(),
        "answers.reasons": get_args(Reason),
        "log.attributes": {
            *ASKED.schema.attributes,
            *(
                attribute if schema.namespace == ASKED.schema.namespace else f"{schema.namespace}/{attribute}"
                for schema in ASKED.schema.alongside
                for attribute in schema.attributes
            ),
        },
        "log.categories": get_args(Category),
        "log.sources": tuple(name for name, _ in ASKED.schema.sources),
        "resources.uris": uris(),
        "resources.prompts": (prompt.name for prompt in (*prompts.BASE_PROMPTS, *features.prompts())),
        "resources.skills": (path.parent.name for path in (ROOT / "skills").glob("*/SKILL.md")),
        "relay.options": re.findall(r"^  (--[a-z-]+)", command_line.USAGE, re.MULTILINE),
        "hook.clients": hook.EVENT_NAMES_BY_CLIENT,
        "hook.events": hook.EVENT_KINDS,
        "state.files": state_files(),
        "seam.python": seam_functions(),
        "seam.clojure": clojure_seam(),
        "seam.calls": accessors.ACCESSORS,
        "seam.refusals": refusals_of_the_seam(),
        "wire.operations": worker_operations(),
        "wire.names": wire_names(),
    }  # fmt: skip
    return {key: frozenset(names) for key, names in found.items()}


@cache
def listed() -> Mapping[str, Any]:
    """Return the content of the file."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def names_in(tables: Mapping[str, Mapping[str, Any]]) -> Names:
    """Return the lists of some tables by table and key. A text instead of a list names the list it is equal to."""
    found: dict[str, frozenset[str]] = {}
    for table, rows in tables.items():
        for key, names in rows.items():
            found[f"{table}.{key}"] = frozenset(rows[names] if isinstance(names, str) else names)
    return found


def compared(product: Names, frozen: Names) -> list[str]:
    """Return a sentence for each name that only the product or only the file has."""
    faults = []
    for key in sorted({*product, *frozen}):
        present, expected = product.get(key, frozenset()), frozen.get(key, frozenset())
        faults += [
            f"{key}: {name} is new; add it to the file if it is meant to be public"
            for name in sorted(present - expected)
        ]
        faults += [f"{key}: {name} is in the file, and the product lost it" for name in sorted(expected - present)]
    return faults  # fmt: skip


def test_public_names_match_the_frozen_list():
    needs.every_feature()
    tables = {name: rows for name, rows in listed().items() if name != "written"}
    assert compared(derived(), names_in(tables)) == []


def test_frozen_names_used_only_inside_functions_still_exist():
    """These are keys and words inside functions: each must be a complete string literal."""
    needs.every_feature()
    lost = {
        (key, name)
        for key, names in listed()["written"].items()
        for name in names
        if not any(name in literals(file) for file in files_with(f'"{name}"', SERVER, RELAY, SEAM))
    }
    assert lost == set()


@pytest.mark.parametrize(
    ("product", "frozen", "faults"),
    [
        ({"a": {"x"}}, {"a": {"x"}}, []),
        ({"a": {"x", "y"}}, {"a": {"x"}}, ["a: y is new; add it to the file if it is meant to be public"]),
        ({"a": set()}, {"a": {"x"}}, ["a: x is in the file, and the product lost it"]),
        ({}, {"a": {"x"}}, ["a: x is in the file, and the product lost it"]),
    ],
)
def test_the_comparison_with_the_frozen_list_finds_added_and_removed_names(product, frozen, faults):
    assert compared(product, frozen) == faults
