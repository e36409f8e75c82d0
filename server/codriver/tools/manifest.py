"""The manifest: all tools, in the order in which clients see them, and the smaller toolsets.

The lean toolset is five tools, for models whose tokens are dear. Its calls go through the same gate and give the same
answers as calls by the tools' own names. Names and arguments of Backseat Driver, which many agents know, are answered,
too, though never listed.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, unquote

from pydantic import Field

from codriver.core.values import LISP
from codriver.errors import refused
from codriver.tools import (
    balance_brackets,
    complete_symbol,
    connect_repl,
    edit_files,
    evaluate_code,
    get_evaluation,
    inspect_app,
    interrupt_evaluation,
    list_cells,
    list_sessions,
    load_file,
    macroexpand,
    note_edit,
    repl_output_log,
    restart_repl,
    run_cell,
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
from codriver.tools.calls.base import Answer, Arguments, Call, Manifest, Tool, answer_schema, traits_of
from codriver.tools.calls.gate import on_offer, refusal, run
from codriver.tools.get_evaluation import GetArguments

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from codriver.core.state import State
    from codriver.settings.model import Settings
    from codriver.tools.calls.base import AddedArguments


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
    *inspect_app.TOOLS,
    list_cells.TOOL,
    run_cell.TOOL,
)

USUAL = (
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
    "run_cell",
    "inspect_app",
    "change_app",
    "watch_app",
)
"""The names of the tools in the default toolset, in the order in which clients see them: what most tasks need.

What the other tools read is reached through `status`. The last three are listed only while an application shows itself
by its seam.
"""


ACTIONS: Mapping[str, str] = MappingProxyType(
    {"get": "get_evaluation", "interrupt": "interrupt_evaluation", "input": "send_input"}
)
"""The tool behind each action."""


class ActionArguments(GetArguments):
    """Arguments of the lean `get_evaluation`: those of the tool behind the action."""

    evaluation_id: str | None = None
    action: Literal["get", "interrupt", "input"] = "get"
    text: str | None = None
    allow_restart: bool = False
    repl_session_key: str | None = None


class RunArguments(Arguments):
    """Arguments of `codriver`."""

    tool: str | None = None
    arguments: dict[str, Any] = Field(default_factory=dict)
    help: bool = False


async def act(call: Call, arguments: ActionArguments) -> Answer:
    """Get, interrupt, or give input to, an evaluation."""
    tool = call.services.manifest.by_name[ACTIONS[arguments.action]]
    given = arguments.model_dump(by_alias=True, exclude_unset=True)
    given.pop("action", None)
    return await run(tool, call, given)


async def run_tool(call: Call, arguments: RunArguments) -> Answer:
    """Run a tool by its name, or describe its call."""
    if arguments.tool is None:
        return _names(
            tool
            for tool in call.services.manifest.tools
            if refusal(tool, call.state, call.services.live.settings) is None
        )
    caller = {} if arguments.who is None else {"who": arguments.who}
    tool = call.services.manifest.called.get(arguments.tool)
    if tool is None:
        raise refused(
            "unknown-tool",
            f"there is no tool {arguments.tool!r} to run",
            hint="call codriver with help: true alone for the names, with tool for the arguments of one",
        )
    if arguments.help:
        return Answer({"tool": tool.name, "description": tool.description, "inputSchema": tool.schema})
    return await run(tool, call, translated(tool, arguments.tool, {**caller, **arguments.arguments}))


def _names(tools: Iterable[Tool]) -> Answer:
    rows = [{"name": tool.name, "description": tool.description} for tool in tools]
    return Answer({"tools": rows, "count": len(rows)})


def _with_less(tool: Tool, *unlisted: str) -> Tool:
    """The tool, with a schema without rarely given arguments; it takes them all the same."""
    shorter = replace(tool)
    kept = {name: value for name, value in tool.schema["properties"].items() if name not in unlisted}
    object.__setattr__(shorter, "schema", {**tool.schema, "properties": kept})
    return shorter


def _lean(by_name: Mapping[str, Tool]) -> tuple[Tool, ...]:
    """Return at most five tools in the order in which clients see them, annotated by the strongest that each runs."""
    behind = [by_name[name] for name in ACTIONS.values()]
    return (
        _with_less(by_name["evaluate_code"], "allowRestart", "frame", "isolate", "maxImages"),
        _with_less(
            replace(
                by_name["get_evaluation"],
                description="Status and result of an evaluation, or part of its text; waitMs waits. "
                "action: interrupt, or a line of input as text.",
                arguments=ActionArguments,
                run=act,
                read_only=False,
                destructive=any(tool.destructive for tool in behind),
                idempotent=False,
                open_world=any(tool.open_world for tool in behind),
            ),
            "maxImages",
            "diffWith",
            "replSessionKey",
        ),
        _with_less(by_name["repl_output_log"], "maxImages", "maxTextBytes"),
        replace(by_name["edit_files"], languages=(LISP,), elsewhere=None),  # for Python, clients' own tools edit well
        Tool(
            name="codriver",
            title="Other tools",
            description=(
                "Run any other tool: load_file {filePath}, symbol_info {symbol}, run_tests {namespace}, stacktrace, "
                "list_sessions, restart_repl and more. help: true tells all."
            ),
            arguments=RunArguments,
            output=answer_schema(),
            run=run_tool,
            destructive=True,
            open_world=True,
            is_core=True,
        ),
    )


def manifest_with(
    tools: tuple[Tool, ...] = (), added: tuple[AddedArguments, ...] = (), parts: tuple[str, ...] = ()
) -> Manifest:
    """Return the manifest of a server whose features add these tools, arguments, and values of `part`."""
    every = tuple([_extended(tool, added, parts) for tool in (*BASE_TOOLS, *tools)])
    by_name = {tool.name: tool for tool in every}
    usual = (*(by_name[name] for name in USUAL), *(by_name[tool.name] for tool in tools if tool.is_usual))
    return Manifest(every, usual, _lean(by_name), note_edit.TOOLS)


def _extended(tool: Tool, added: tuple[AddedArguments, ...], parts: tuple[str, ...]) -> Tool:
    """Return a tool with the arguments that features add to it, and with the values that they add to its `part`."""
    models = tuple(one.model for one in added if tool.name in one.tools)
    extended = replace(tool, added=models) if models else tool
    if parts and tool.name == "get_evaluation":
        part = extended.schema["properties"]["part"]
        pattern = part["pattern"].removesuffix(")$")
        properties = {**extended.schema["properties"], "part": {**part, "pattern": "|".join([pattern, *parts]) + ")$"}}
        extended = replace(extended)
        object.__setattr__(extended, "schema", {**extended.schema, "properties": properties})
    return extended


def is_lean(settings: Settings, client_name: str) -> bool:
    """Whether the client gets the lean toolset: by the settings, all clients do, or those whose names begin so."""
    return settings.toolset == "lean" or client_name.startswith(settings.lean_clients)


def tools_offered(
    manifest: Manifest, state: State, settings: Settings, client_name: str, *, expected: bool = True
) -> tuple[Tool, ...]:
    """Return the tools to list to the client of this name now, from its set.

    `expected`: whether a client that lists once also gets those that a REPL would make usable: see `on_offer`.
    """
    usual = manifest.tools if settings.toolset == "full" else manifest.usual
    tools = manifest.lean if is_lean(settings, client_name) else usual
    return on_offer(tools, state, settings, lists_again=not expected or traits_of(client_name).lists_again)


def tool_called(
    manifest: Manifest, settings: Settings, client_name: str, name: str, arguments: dict[str, Any]
) -> tuple[Tool, dict[str, Any]] | None:
    """Return the tool that a client calls by a name, also an unlisted one, and its arguments; None if there is none."""
    lean = {tool.name: tool for tool in manifest.lean} if is_lean(settings, client_name) else {}
    tool = lean.get(name) or manifest.called.get(name)
    return None if tool is None else (tool, translated(tool, name, arguments))


ARGUMENTS: Mapping[str, str] = MappingProxyType({"clojureSymbol": "symbol"})
"""Backseat Driver's arguments, if ours have other names."""
WITHOUT_MEANING = frozenset({"targetRuntimeId", "includeAllRuntimes"})
"""Backseat Driver's arguments for choosing an editor's window, of which there are none here."""
SKILLS: Mapping[str, str] = MappingProxyType(
    {"backseat-driver": "live-repl", "editing-clojure-files": "editing-lisp-files"}
)
"""Backseat Driver's skills, and ours."""


PAGES: Mapping[str, str] = MappingProxyType({"references/output-log-queries.md": "REFERENCE.md"})
"""The page of Backseat Driver's skill, and ours with the same content."""
SYMBOL_PARTS = 3


def translated(tool: Tool, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call under Codriver's names, if it names the tool as Backseat Driver does."""
    if name not in tool.other_names:
        return arguments
    return {ARGUMENTS.get(key, key): value for key, value in arguments.items() if key not in WITHOUT_MEANING}


def address(uri: str, plain_kinds: Collection[str] = ()) -> str:
    """Return the address of Codriver that one of Backseat Driver means; any other unchanged.

    `plain_kinds`: the resources of features that have the address `/KIND/PART` there. Source: Backseat Driver,
    `resources/templates/list`: `/symbol-info/{symbol}@{session-key}@{namespace}`, `/skills/{name}/{file}`.
    """
    scheme, _, rest = uri.partition("://")
    if scheme == "skill":
        name, slash, path = rest.partition("/")
        if name not in SKILLS:
            return uri
        return f"skill://{SKILLS[name]}/{PAGES.get(path, path) if slash else 'SKILL.md'}"
    kind, _, rest = uri.removeprefix("/").partition("/") if uri.startswith("/") else ("", "", "")
    if kind == "skills":
        return address(f"skill://{rest}")
    if kind in plain_kinds and rest:
        return f"codriver://{kind}/{_part(rest)}"
    if kind == "symbol-info":
        parts = rest.rsplit("@", 2)
        if len(parts) == SYMBOL_PARTS:
            symbol, key, namespace = map(_part, parts)
            return f"codriver://symbol/{key}/{namespace}/{symbol}"
    return uri


def _part(text: str) -> str:
    """A part of an address of ours, in which slashes are encoded; encoded ones stay."""
    return quote(unquote(text), safe="")
