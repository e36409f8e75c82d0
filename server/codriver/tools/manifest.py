"""The manifest: all tools in the order in which clients list them, and the default toolset.

Backseat Driver's tools and arguments, which many agents know, are also accepted, but never listed.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from codriver.tools import (
    balance_brackets,
    complete_symbol,
    connect_repl,
    edit_files,
    evaluate_code,
    get_evaluation,
    interrupt_evaluation,
    list_sessions,
    load_file,
    macroexpand,
    note_edit,
    repl_output_log,
    restart_repl,
    run_tests,
    send_input,
    server_health,
    stacktrace,
    status,
    symbol_info,
    undo_edit,
    wait_for,
    what_changed,
)
from codriver.tools.calls.call import NO_HOOKS
from codriver.tools.calls.client_traits import find_traits
from codriver.tools.calls.gate import tools_to_list
from codriver.tools.calls.tool import Manifest, Tool

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from codriver.core.state import State
    from codriver.settings.model import Settings
    from codriver.tools.calls.arguments import AddedArguments
    from codriver.tools.calls.call import CallHooks


BASE_TOOLS: tuple[Tool, ...] = (
    evaluate_code.TOOL,
    load_file.TOOL,
    get_evaluation.TOOL,
    interrupt_evaluation.TOOL,
    send_input.TOOL,
    symbol_info.TOOL,
    complete_symbol.TOOL,
    macroexpand.TOOL,
    run_tests.TOOL,
    stacktrace.TOOL,
    what_changed.TOOL,
    status.TOOL,
    connect_repl.TOOL,
    restart_repl.TOOL,
    list_sessions.TOOL,
    server_health.TOOL,
    repl_output_log.TOOL,
    wait_for.TOOL,
    balance_brackets.TOOL,
    edit_files.TOOL,
    undo_edit.TOOL,
)
"""The tools that every server has, in the order in which clients list them."""

DEFAULT_TOOLSET = (
    "evaluate_code",
    "run_tests",
    "edit_files",
    "load_file",
    "get_evaluation",
    "send_input",
    "interrupt_evaluation",
    "symbol_info",
    "status",
    "connect_repl",
)
"""Names of the tools in the default toolset, in order. They cover most tasks.

`status` gives access to the information of the other tools.
"""


def create_manifest(
    tools: tuple[Tool, ...] = (),
    added: tuple[AddedArguments, ...] = (),
    hooks: CallHooks = NO_HOOKS,
    guides: tuple[tuple[str, str], ...] = (),
) -> Manifest:
    """Create a server's manifest from the base tools and features' additions.

    Each guide is a pair of a skill and the tool that it is about. See `Manifest.guides`.
    """
    every = tuple([_extend_tool(tool, added, hooks) for tool in (*BASE_TOOLS, *tools)])
    by_name = {tool.name: tool for tool in every}
    default = (*(by_name[name] for name in DEFAULT_TOOLSET), *(by_name[tool.name] for tool in tools if tool.is_default))
    return Manifest(every, default, note_edit.TOOLS, dict(guides))


def _extend_tool(tool: Tool, added: tuple[AddedArguments, ...], hooks: CallHooks) -> Tool:
    """Add features' arguments, parts of evaluations, and subjects of `status` to a tool."""
    models = tuple(arguments.model for arguments in added if tool.name in arguments.tools)
    inside = {arguments.inside for arguments in added if arguments.inside is not None}
    added_inside = {
        model: tuple(arguments.model for arguments in added if arguments.inside is model) for model in inside
    }
    extended = replace(tool, added=models, added_inside=MappingProxyType(added_inside)) if models or inside else tool
    if hooks.evaluation_parts and tool.name == "get_evaluation":
        part = extended.schema["properties"]["part"]
        pattern = part["pattern"].removesuffix(")$")
        properties = {"part": {**part, "pattern": "|".join([pattern, *hooks.evaluation_parts]) + ")$"}}
        extended = extended.with_properties(properties)
    if hooks.status_subjects and tool.name == "status":
        return status.with_subjects(extended, hooks.status_subjects)
    return extended


def offered_tools(
    manifest: Manifest, state: State, settings: Settings, client_name: str, *, expected: bool = True
) -> tuple[Tool, ...]:
    """Return the tools to list now to the client with this name.

    With `expected`, the list includes tools that become usable when a REPL connects, for clients that list tools only
    once. See `tools_to_list`.
    """
    tools = manifest.tools if settings.toolset == "full" else manifest.default
    return tools_to_list(tools, state, settings, lists_again=not expected or find_traits(client_name).lists_again)


def find_called_tool(manifest: Manifest, name: str, arguments: dict[str, Any]) -> tuple[Tool, dict[str, Any]] | None:
    """Return the tool with the given name and its arguments, or None if there is no such tool.

    The tool need not be listed.
    """
    tool = manifest.called.get(name)
    return None if tool is None else (tool, translate_arguments(tool, name, arguments))


ARGUMENT_NAMES: Mapping[str, str] = MappingProxyType({"clojureSymbol": "symbol"})
"""Codriver's name for each of Backseat Driver's arguments whose name differs."""
IGNORED_ARGUMENTS = frozenset({"targetRuntimeId", "includeAllRuntimes"})
"""Backseat Driver's arguments that select an editor window, which Codriver does not have."""
SKILL_NAMES: Mapping[str, str] = MappingProxyType(
    {"backseat-driver": "live-repl", "editing-clojure-files": "editing-lisp-files"}
)
"""Codriver's skill for each Backseat Driver skill."""


PAGE_PATHS: Mapping[str, str] = MappingProxyType({"references/output-log-queries.md": "REFERENCE.md"})
"""Codriver's page for each page of Backseat Driver's skills."""
SYMBOL_URI_PARTS = 3
"""Number of parts of a Backseat Driver URI for a symbol: symbol, session key and namespace."""


def translate_arguments(tool: Tool, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Translate the names of arguments from Backseat Driver's to Codriver's.

    Arguments are only translated if the call uses Backseat Driver's name of the tool.
    """
    if name not in tool.other_names:
        return arguments
    return {ARGUMENT_NAMES.get(key, key): value for key, value in arguments.items() if key not in IGNORED_ARGUMENTS}


def translate_uri(uri: str, plain_kinds: Collection[str] = ()) -> str:
    """Translate a Backseat Driver URI to a Codriver URI. Other URIs are returned unchanged.

    `plain_kinds` are features' resources whose URI in Backseat Driver is `/KIND/PART`. Source: Backseat Driver,
    `resources/templates/list`: `/symbol-info/{symbol}@{session-key}@{namespace}`, `/skills/{name}/{file}`.
    """
    scheme, _, rest = uri.partition("://")
    if scheme == "skill":
        name, slash, path = rest.partition("/")
        if name not in SKILL_NAMES:
            return uri
        return f"skill://{SKILL_NAMES[name]}/{PAGE_PATHS.get(path, path) if slash else 'SKILL.md'}"
    kind, _, rest = uri.removeprefix("/").partition("/") if uri.startswith("/") else ("", "", "")
    if kind == "skills":
        return translate_uri(f"skill://{rest}")
    if kind in plain_kinds and rest:
        return f"codriver://{kind}/{_encode_part(rest)}"
    if kind == "symbol-info":
        parts = rest.rsplit("@", 2)
        if len(parts) == SYMBOL_URI_PARTS:
            symbol, key, namespace = map(_encode_part, parts)
            return f"codriver://symbol/{key}/{namespace}/{symbol}"
    return uri


def _encode_part(text: str) -> str:
    """Percent-encode a part of a URI, including its slashes. Parts that are already encoded are unchanged."""
    return quote(unquote(text), safe="")
