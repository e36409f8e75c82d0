"""The program `codriver-hook`, which clients run when a session starts, after an edit, and at the end of a turn.

::

    client's hook ──its input, JSON, on stdin──> codriver-hook ──note_edit over TCP──> codriver serve
                  <──its answer, JSON, on stdout──

The program reads the event from its input, calls the `note_edit` tool of the workspace's running server, and writes the
result in the client's format. If anything is missing, late, too long or malformed, it prints `{}` and exits with status
0, so the client continues as if there were no hook. It never starts a server. In the workspace it reads only the files
with which the relay finds a server, with the same checks: links are not followed, the directory must belong to the user
alone, and the listener must hold the lock next to the port file.

Clients wait for the hook, so like the relay it imports only modules that are cheap to load. `json` is imported only if
there is a server to call.
"""

from __future__ import annotations

import os
import sys
import time
from _thread import allocate_lock, start_new_thread

from codriver_relay.durations import Durations
from codriver_relay.safe_files import SERVER_DIRECTORY
from codriver_relay.server_verification import Target, UnreachableError
from codriver_relay.streams import open_streams
from codriver_relay.workspace_search import is_search_boundary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Json = Mapping[str, Any]

__all__ = ["EVENT_KINDS", "EVENT_NAMES_BY_CLIENT", "HOOK_CLIENT_NAME", "main", "render_answer", "tool_arguments"]

EVENT_KINDS = ("started", "writing", "edited", "stopping")
"""The kinds of events that a hook can report.

They are the start of a session, a write that is about to happen, a finished edit, and the end of a turn.
"""
EVENT_NAMES_BY_CLIENT: Mapping[str, Mapping[str, str]] = {
    "claude-code": {"started": "SessionStart", "writing": "PreToolUse", "edited": "PostToolUse", "stopping": "Stop"},
    "codex": {"started": "SessionStart", "writing": "PreToolUse", "edited": "PostToolUse", "stopping": "Stop"},
    "qwen": {"started": "SessionStart", "writing": "PreToolUse", "edited": "PostToolUse", "stopping": "Stop"},
    "gemini": {"started": "SessionStart", "writing": "BeforeTool", "edited": "AfterTool", "stopping": "AfterAgent"},
    "copilot": {"started": "sessionStart", "writing": "preToolUse", "edited": "postToolUse", "stopping": "agentStop"},
    "cursor": {"started": "sessionStart", "edited": "afterFileEdit", "stopping": "stop"},
    "cline": {"started": "TaskStart", "writing": "PreToolUse", "edited": "PostToolUse"},
    "opencode": {"started": "started", "writing": "writing", "edited": "edited", "stopping": "stopping"},
}
"""The client's name for each kind of event that it supports.

Source: the observed behavior of the clients, and the documentation of Cursor and Cline.
"""
CALLER_NAMES = {"copilot": "copilot-cli"}
"""Caller names of the clients whose name differs from their id. Source: `codriver.tools.calls.call`, `who`."""
HOOK_CLIENT_NAME = "codriver-hook"
"""The name with which the program identifies itself as a client."""

DEADLINE_S = 1.5
"""Number of seconds after its start at which the hook prints an empty answer."""
MAX_DEADLINE_S = 60.0
"""Maximum number of seconds that `CODRIVER_HOOK_DEADLINE_S` may set."""
GATE_DEADLINE_S = 25.0
"""Deadline at the end of a turn, in seconds. It leaves time for tests, which the server limits to 20 s."""
MAX_INPUT_BYTES = 8 << 20
"""Maximum size, in bytes, of the input that a client sends to the hook."""
MAX_ANSWER_BYTES = 1 << 16
"""Maximum size, in bytes, of the server's answer."""
READ_CHUNK_BYTES = 1 << 16
MAX_PATH_CHARACTERS = 4096
"""Maximum length of a file's path in the input."""
CONTEXT_LOSS_SOURCES = ("compact", "resume")
"""Sources of a session start after which an agent may have forgotten its earlier work."""
MAX_SEARCHED_PARENTS = 64
"""Maximum number of parent directories that are searched for a server."""

PATH_FIELDS = ("file_path", "filePath", "path", "absolute_path", "notebook_path")
"""The names under which clients pass a file's path."""
CONTENT_FIELDS = ("content", "file_text")
"""The names of the fields in which clients pass a file's whole content."""
OLD_TEXT_FIELDS = ("old_string", "oldString", "old_str")
"""The names of the fields in which clients pass the text that an edit replaces."""
NEW_TEXT_FIELDS = ("new_string", "newString", "new_str")
"""The names of the fields in which clients pass the replacement text of an edit."""


class ProcessExit:
    """Exits the process once, either with an answer or at the deadline with an empty answer."""

    def __init__(self, seconds: float) -> None:
        self._turn = allocate_lock()
        start_new_thread(self._wait, (seconds,))

    def exit_with_answer(self, text: str = "{}") -> None:
        """Print an answer and exit with status 0. Later callers block until the process has exited."""
        self._turn.acquire()
        try:
            data = text.encode("utf-8", "replace") + b"\n"
            while data:
                data = data[os.write(1, data) :]
        except OSError:
            os._exit(0)
        os._exit(0)

    def _wait(self, seconds: float) -> None:
        time.sleep(seconds)
        self.exit_with_answer()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the hook, then exit the process with status 0. Return 2 if the command line is invalid."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if len(words) != 2 or words[0] not in EVENT_NAMES_BY_CLIENT or words[1] not in EVENT_NAMES_BY_CLIENT[words[0]]:
        os.write(
            2,
            f"usage: {HOOK_CLIENT_NAME} CLIENT EVENT\n  {', '.join(EVENT_NAMES_BY_CLIENT)}; "
            f"{', '.join(EVENT_KINDS)}\n".encode(),
        )
        return 2
    client, event = words
    open_streams()
    ending = ProcessExit(GATE_DEADLINE_S if event == "stopping" else read_deadline_s())
    try:
        ending.exit_with_answer(answer_event(client, event))
    except Exception:  # noqa: BLE001  # the client must continue, whatever happens
        ending.exit_with_answer()
    return 0


def read_deadline_s() -> float:
    """Return the deadline in seconds.

    This is `CODRIVER_HOOK_DEADLINE_S` if that is a positive number of at most 60 seconds, otherwise the default.
    """
    try:
        given = float(os.environ.get("CODRIVER_HOOK_DEADLINE_S", DEADLINE_S))
    except ValueError:
        return DEADLINE_S
    return given if 0 < given <= MAX_DEADLINE_S else DEADLINE_S


def answer_event(client: str, event: str) -> str:
    """Report a client's event to the server, and return the answer for the client as JSON."""
    workspace = find_served_workspace()
    # Copilot also runs the hooks in Claude Code's settings, and has hooks of its own for the same events.
    if workspace is None or (client == "claude-code" and "COPILOT_CLI" in os.environ):
        return "{}"
    import json

    given = json.loads(read_input())
    arguments = tool_arguments(client, event, given)
    if arguments is None:
        return "{}"
    answer = call_server(workspace, json.dumps(build_request(arguments)).encode())
    return json.dumps(render_answer(client, event, answer), ensure_ascii=False)


def read_input() -> bytes:
    """Read all of stdin.

    Raises:
        ValueError: the input is longer than `MAX_INPUT_BYTES`.
    """
    chunks: list[bytes] = []
    size = 0
    while data := os.read(0, READ_CHUNK_BYTES):
        size += len(data)
        if size > MAX_INPUT_BYTES:
            raise ValueError(f"the input is longer than {MAX_INPUT_BYTES} bytes")
        chunks.append(data)
    return b"".join(chunks)


def find_served_workspace() -> str | None:
    """Return the nearest directory that contains a server's port file, or None.

    The search goes up from the client's project directory, then from the current directory. It stops at directories
    that cannot be a workspace.
    """
    for start in (os.environ.get("CLAUDE_PROJECT_DIR", ""), os.getcwd()):
        directory = os.path.realpath(start) if os.path.isabs(start) else ""
        for _ in range(MAX_SEARCHED_PARENTS if directory else 0):
            if is_search_boundary(directory):
                break
            if os.path.lexists(os.path.join(directory, *SERVER_DIRECTORY, "port")):
                return directory
            directory = os.path.dirname(directory)
    return None


def tool_arguments(client: str, event: str, given: object) -> dict[str, object] | None:
    """Return the `note_edit` arguments for a hook's input, or None if the input does not concern Codriver."""
    if not isinstance(given, dict):
        return None
    named = given.get("hook_event_name", given.get("hookName", EVENT_NAMES_BY_CLIENT[client][event]))
    if named != EVENT_NAMES_BY_CLIENT[client][event]:
        return None
    arguments: dict[str, object] = {"event": event, "who": CALLER_NAMES.get(client, client)}
    cwd = first_text(given, ("cwd",), MAX_PATH_CHARACTERS)
    if cwd:
        arguments["cwd"] = cwd
    if event == "started":
        source = given.get("source")
        return {**arguments, "source": source} if source in CONTEXT_LOSS_SOURCES else arguments
    if event == "stopping":
        loops = given.get("loop_count", 0)
        is_again = given.get("stop_hook_active") is True or (isinstance(loops, int) and loops > 0)
        return None if is_again else arguments
    edit = extract_edit(client, given)
    # Before a write, only complete content can be checked.
    return (
        None
        if edit is None or (event == "writing" and not edit.keys() & {"content", "patch"})
        else {**arguments, **edit}
    )


def extract_edit(client: str, given: Json) -> dict[str, object] | None:
    """Return the files that one of the client's tools changes, and any known changes, as arguments for `note_edit`.

    Returns None if the tool failed or changes no file.
    """
    tool_use = first_object(given, "postToolUse", "preToolUse") if client == "cline" else given
    made = given if client == "cursor" else first_object(tool_use, "tool_input", "toolArgs", "parameters")
    result = first_object(tool_use, "tool_response", "tool_result", "toolResult")
    if result.get("resultType", "success") != "success" or tool_use.get("success") is False:
        return None
    patch = made.get("command", made.get("patchText"))
    if isinstance(patch, str) and "*** Begin Patch" in patch:
        return {"patch": patch} if len(patch) <= MAX_INPUT_BYTES else None
    path = first_text(made, PATH_FIELDS, MAX_PATH_CHARACTERS)
    if not path:
        return None
    edit: dict[str, object] = {"filePaths": [path]}
    contents = first_text(made, CONTENT_FIELDS, MAX_INPUT_BYTES)
    if contents is not None:
        edit["content"] = contents
    before = first_text(
        first_object(result, "returnDisplay") or result, ("originalFile", "originalContent"), MAX_INPUT_BYTES
    )
    edits = made.get("edits")
    replacements = [extract_replacement(change) for change in (edits if isinstance(edits, list) else [made])]
    if before is not None:
        edit["before"] = before
    elif all(replacements) and contents is None:
        edit["replaced"] = replacements
    return edit


def extract_replacement(edit: object) -> list[str] | None:
    """Return the old and the new text of an edit, or None if either is missing."""
    if not isinstance(edit, dict):
        return None
    old, new = first_text(edit, OLD_TEXT_FIELDS, MAX_INPUT_BYTES), first_text(edit, NEW_TEXT_FIELDS, MAX_INPUT_BYTES)
    return None if old is None or new is None else [old, new]


def first_object(given: Json, *names: str) -> Json:
    """Return the first of the named members that is an object, or {} if there is none."""
    found = (given.get(name) for name in names)
    return next((value for value in found if isinstance(value, dict)), {})


def first_text(given: Json, names: Sequence[str], most: int) -> str | None:
    """Return the first of the named members that is a string of at most `most` characters, or None."""
    found = (given.get(name) for name in names)
    return next((value for value in found if isinstance(value, str) and len(value) <= most), None)


def build_request(arguments: Json) -> dict[str, object]:
    """Return a `tools/call` request for `note_edit` that needs no handshake.

    Source: MCP 2026-07-28.
    """
    about = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": HOOK_CLIENT_NAME, "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "note_edit", "arguments": arguments, "_meta": about}
    return {"jsonrpc": "2.0", "id": HOOK_CLIENT_NAME, "method": "tools/call", "params": params}


def call_server(workspace: str, request: bytes) -> Json:
    """Send a request to the workspace's server and return the fields of its answer.

    Raises:
        UnreachableError: no server is running, or it serves a different workspace.
        OSError, ValueError, LookupError, TypeError: the answer is invalid.
    """
    import json

    connection = Target(os.path.join(workspace, *SERVER_DIRECTORY, "port"), None, Durations()).connect()
    connection.sendall(request + b"\n")
    received = b""
    while len(received) <= MAX_ANSWER_BYTES:
        data = connection.recv(READ_CHUNK_BYTES)
        if not data:
            raise UnreachableError("the server closed the connection")
        *lines, received = (received + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if message.get("id") == HOOK_CLIENT_NAME:
                fields: Json = json.loads(message["result"]["content"][0]["text"])
                return fields if fields["ok"] is True else {}
    raise ValueError(f"the answer is longer than {MAX_ANSWER_BYTES} bytes")


def render_answer(client: str, event: str, answer: Json) -> dict[str, object]:
    """Convert the server's answer to the client's format. Return {} if the client has no use for it.

    The server's answer has either `context`, a string for the agent, or `block`, the reason why the client should stop.
    """
    context, block = answer.get("context"), answer.get("block")
    event_name = EVENT_NAMES_BY_CLIENT[client].get(event, "")
    if client == "opencode":
        return {name: text for name, text in (("context", context), ("block", block)) if isinstance(text, str) and text}
    if isinstance(block, str) and block:
        return blocking_answer(client, event, event_name, block)
    if not isinstance(context, str) or not context or event == "stopping":
        return {}
    if client == "copilot":
        return {"additionalContext": context}
    if client == "cursor":
        return {"additional_context": context}
    if client == "cline":
        return {"cancel": False, "contextModification": context}
    return {"hookSpecificOutput": {"hookEventName": event_name, "additionalContext": context}}


def blocking_answer(client: str, event: str, event_name: str, why: str) -> dict[str, object]:
    """Return an answer, in the client's format, that blocks the client's next action for the reason `why`."""
    if event == "stopping":
        return {"followup_message": why} if client == "cursor" else {"decision": "block", "reason": why}
    if event != "writing":
        return {}
    if client == "cline":
        return {"cancel": True, "errorMessage": why}
    if client == "gemini":
        return {"decision": "deny", "reason": why}
    decision: dict[str, object] = {"permissionDecision": "deny", "permissionDecisionReason": why}
    return decision if client == "copilot" else {"hookSpecificOutput": {"hookEventName": event_name, **decision}}
