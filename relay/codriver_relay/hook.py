"""The hook program, `codriver-hook CLIENT EVENT`: a client runs it at a start, at an edit, at the end of a turn.

::

    client's hook ──its input, JSON, on stdin──> codriver-hook ──note_edit over TCP──> codriver serve
                  <──its answer, JSON, on stdout──

The program reads the event's subject from the input, asks the running server of the workspace by the tool `note_edit`,
and writes the answer in the client's own shape. If anything is absent, late, too long or of another shape, it prints
`{}` and ends with status 0, and the client goes on as if there were no hook. It never starts a server. Of the workspace
it reads nothing but the files by which the relay finds a server, in the relay's way: no link is followed, the folder
has to be the user's alone, and the listener has to hold the lock beside the port file.

Clients wait for it, so it keeps to modules that cost nothing to import, as the relay does; `json` is imported where a
server is there to be asked.
"""

from __future__ import annotations

import os
import sys
import time
from _thread import allocate_lock, start_new_thread

from codriver_relay.durations import Durations
from codriver_relay.own_files import PLACE
from codriver_relay.streams import open_streams
from codriver_relay.target import Target, UnreachableError, is_border

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Json = Mapping[str, Any]

__all__ = ["CLIENTS", "EVENTS", "MARK", "main", "question", "render"]

EVENTS = ("started", "writing", "edited", "stopping")
CLIENTS: Mapping[str, Mapping[str, str]] = {
    "claude-code": {"started": "SessionStart", "writing": "PreToolUse", "edited": "PostToolUse", "stopping": "Stop"},
    "codex": {"started": "SessionStart", "writing": "PreToolUse", "edited": "PostToolUse", "stopping": "Stop"},
    "qwen": {"started": "SessionStart", "writing": "PreToolUse", "edited": "PostToolUse", "stopping": "Stop"},
    "gemini": {"started": "SessionStart", "writing": "BeforeTool", "edited": "AfterTool", "stopping": "AfterAgent"},
    "copilot": {"started": "sessionStart", "writing": "preToolUse", "edited": "postToolUse", "stopping": "agentStop"},
    "cursor": {"started": "sessionStart", "edited": "afterFileEdit", "stopping": "stop"},
    "cline": {"started": "TaskStart", "writing": "PreToolUse", "edited": "PostToolUse"},
    "opencode": {"started": "started", "writing": "writing", "edited": "edited", "stopping": "stopping"},
}
"""Each client's own names of the events that it has. Source: their programs, observed; Cursor's and Cline's pages."""
CALLERS = {"copilot": "copilot-cli"}
"""The name of a client's callers, if other than its id. Source: `codriver.tools.calls.call`, `who`."""
MARK = "codriver-hook"
"""The option and the name by which the program introduces itself as a client."""

DEADLINE_S = 1.5
MOST_DEADLINE_S = 60.0
GATE_DEADLINE_S = 25.0
"""At the end of a turn tests may run, which the server bounds to 20 s."""
INPUT_BYTES = 8 << 20
ANSWER_BYTES = 1 << 16
READ_BYTES = 1 << 16
PATH_CHARACTERS = 4096
FORGOTTEN = ("compact", "resume")
"""The kinds of start of an agent that was here before."""
MOST_FOLDERS = 64
"""Folders above the current one in which a server is looked for."""

PATHS = ("file_path", "filePath", "path", "absolute_path", "notebook_path")
CONTENTS = ("content", "file_text")
OLDS = ("old_string", "oldString", "old_str")
NEWS = ("new_string", "newString", "new_str")


class Ending:
    """The end of the process, which is reached once: by its answer, or by its deadline."""

    def __init__(self, seconds: float) -> None:
        self._turn = allocate_lock()
        start_new_thread(self._wait, (seconds,))

    def end(self, text: str = "{}") -> None:
        """Print this and end with status 0; a second caller waits for the end of the process."""
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
        self.end()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the hook; it ends the process, with status 0 but for a wrong command line."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if len(words) != 2 or words[0] not in CLIENTS or words[1] not in CLIENTS[words[0]]:
        os.write(2, f"usage: {MARK} CLIENT EVENT\n  {', '.join(CLIENTS)}; {', '.join(EVENTS)}\n".encode())
        return 2
    client, event = words
    open_streams()
    ending = Ending(GATE_DEADLINE_S if event == "stopping" else deadline_s())
    try:
        ending.end(answer_of(client, event))
    except Exception:  # noqa: BLE001 - the client goes on, whatever it is
        ending.end()
    return 0


def deadline_s() -> float:
    """The seconds after which the hook answers nothing: `CODRIVER_HOOK_DEADLINE_S`, up to a minute, else its own."""
    try:
        given = float(os.environ.get("CODRIVER_HOOK_DEADLINE_S", DEADLINE_S))
    except ValueError:
        return DEADLINE_S
    return given if 0 < given <= MOST_DEADLINE_S else DEADLINE_S


def answer_of(client: str, event: str) -> str:
    """Return the answer to the client, as JSON."""
    workspace = find_served()
    # Copilot runs the hooks of Claude Code's settings too, and has hooks of its own for the same.
    if workspace is None or (client == "claude-code" and "COPILOT_CLI" in os.environ):
        return "{}"
    import json

    given = json.loads(read_input())
    asked = question(client, event, given)
    if asked is None:
        return "{}"
    told = ask(workspace, json.dumps(request_of(asked)).encode())
    return json.dumps(render(client, event, told), ensure_ascii=False)


def read_input() -> bytes:
    """Return all of stdin.

    Raises:
        ValueError: the input is too long.
    """
    pieces: list[bytes] = []
    size = 0
    while data := os.read(0, READ_BYTES):
        size += len(data)
        if size > INPUT_BYTES:
            raise ValueError(f"the input is longer than {INPUT_BYTES} bytes")
        pieces.append(data)
    return b"".join(pieces)


def find_served() -> str | None:
    """The nearest folder with a server's port file, from the client's project folder, or the current one.

    The search goes upward, and never into a folder that no workspace may be.
    """
    for start in (os.environ.get("CLAUDE_PROJECT_DIR", ""), os.getcwd()):
        folder = os.path.realpath(start) if os.path.isabs(start) else ""
        for _ in range(MOST_FOLDERS if folder else 0):
            if is_border(folder):
                break
            if os.path.lexists(os.path.join(folder, *PLACE, "port")):
                return folder
            folder = os.path.dirname(folder)
    return None


def question(client: str, event: str, given: object) -> dict[str, object] | None:
    """Return the arguments of `note_edit` for a hook's input; None for an input that does not concern us."""
    if not isinstance(given, dict):
        return None
    named = given.get("hook_event_name", given.get("hookName", CLIENTS[client][event]))
    if named != CLIENTS[client][event]:
        return None
    asked: dict[str, object] = {"event": event, "who": CALLERS.get(client, client)}
    cwd = text_of(given, ("cwd",), PATH_CHARACTERS)
    if cwd:
        asked["cwd"] = cwd
    if event == "started":
        source = given.get("source")
        return {**asked, "source": source} if source in FORGOTTEN else asked
    if event == "stopping":
        loops = given.get("loop_count", 0)
        is_again = given.get("stop_hook_active") is True or (isinstance(loops, int) and loops > 0)
        return None if is_again else asked
    edit = edit_of(client, given)
    # Before a write only a whole text can be judged.
    return (
        None if edit is None or (event == "writing" and not edit.keys() & {"content", "patch"}) else {**asked, **edit}
    )


def edit_of(client: str, given: Json) -> dict[str, object] | None:
    """Return the files that a tool of the client changes, and the known changes; None for none."""
    held = dict_of(given, "postToolUse", "preToolUse") if client == "cline" else given
    made = given if client == "cursor" else dict_of(held, "tool_input", "toolArgs", "parameters")
    result = dict_of(held, "tool_response", "tool_result", "toolResult")
    if result.get("resultType", "success") != "success" or held.get("success") is False:
        return None
    patch = made.get("command", made.get("patchText"))
    if isinstance(patch, str) and "*** Begin Patch" in patch:
        return {"patch": patch} if len(patch) <= INPUT_BYTES else None
    path = text_of(made, PATHS, PATH_CHARACTERS)
    if not path:
        return None
    edit: dict[str, object] = {"filePaths": [path]}
    contents = text_of(made, CONTENTS, INPUT_BYTES)
    if contents is not None:
        edit["content"] = contents
    before = text_of(dict_of(result, "returnDisplay") or result, ("originalFile", "originalContent"), INPUT_BYTES)
    pieces = made.get("edits")
    replacements = [pair_of(one) for one in (pieces if isinstance(pieces, list) else [made])]
    if before is not None:
        edit["before"] = before
    elif all(replacements) and contents is None:
        edit["replaced"] = replacements
    return edit


def pair_of(edit: object) -> list[str] | None:
    """Return the text that an edit removes and its replacement; None for an edit without both."""
    if not isinstance(edit, dict):
        return None
    old, new = text_of(edit, OLDS, INPUT_BYTES), text_of(edit, NEWS, INPUT_BYTES)
    return None if old is None or new is None else [old, new]


def dict_of(given: Json, *names: str) -> Json:
    """Return the first object among these members; empty without any."""
    found = (given.get(name) for name in names)
    return next((one for one in found if isinstance(one, dict)), {})


def text_of(given: Json, names: Sequence[str], most: int) -> str | None:
    """Return the first text among these members that is no longer than this; None without any."""
    found = (given.get(name) for name in names)
    return next((one for one in found if isinstance(one, str) and len(one) <= most), None)


def request_of(asked: Json) -> dict[str, object]:
    """Return the call of `note_edit`, as a client without a handshake makes it. Source: MCP 2026-07-28."""
    about = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": MARK, "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "note_edit", "arguments": asked, "_meta": about}
    return {"jsonrpc": "2.0", "id": MARK, "method": "tools/call", "params": params}


def ask(workspace: str, request: bytes) -> Json:
    """Return the fields of the answer of the workspace's server.

    Raises:
        UnreachableError: no server runs, or the server is another workspace's. OSError, ValueError, LookupError,
            TypeError: the answer is useless.
    """
    import json

    connection = Target(os.path.join(workspace, *PLACE, "port"), "127.0.0.1", Durations()).connect()
    connection.sendall(request + b"\n")
    said = b""
    while len(said) <= ANSWER_BYTES:
        data = connection.recv(READ_BYTES)
        if not data:
            raise UnreachableError("it hung up")
        *lines, said = (said + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if message.get("id") == MARK:
                fields: Json = json.loads(message["result"]["content"][0]["text"])
                return fields if fields["ok"] is True else {}
    raise ValueError(f"the answer is longer than {ANSWER_BYTES} bytes")


def render(client: str, event: str, told: Json) -> dict[str, object]:
    """The server's answer in the client's shape; empty for an empty answer, or one that the client cannot take.

    `told` has `context`, words for the agent, or `block`, why the client should not go on.
    """
    context, block = told.get("context"), told.get("block")
    own = CLIENTS[client].get(event, "")
    if client == "opencode":
        return {name: text for name, text in (("context", context), ("block", block)) if isinstance(text, str) and text}
    if isinstance(block, str) and block:
        return refusal(client, event, own, block)
    if not isinstance(context, str) or not context or event == "stopping":
        return {}
    if client == "copilot":
        return {"additionalContext": context}
    if client == "cursor":
        return {"additional_context": context}
    if client == "cline":
        return {"cancel": False, "contextModification": context}
    return {"hookSpecificOutput": {"hookEventName": own, "additionalContext": context}}


def refusal(client: str, event: str, own: str, why: str) -> dict[str, object]:
    """Return the answer that keeps the client from its next action."""
    if event == "stopping":
        return {"followup_message": why} if client == "cursor" else {"decision": "block", "reason": why}
    if event != "writing":
        return {}
    if client == "cline":
        return {"cancel": True, "errorMessage": why}
    if client == "gemini":
        return {"decision": "deny", "reason": why}
    decision: dict[str, object] = {"permissionDecision": "deny", "permissionDecisionReason": why}
    return decision if client == "copilot" else {"hookSpecificOutput": {"hookEventName": own, **decision}}
