"""Find the workspace from the client's roots if neither the environment nor the current directory determines it.

This module is imported only in that case.
"""

from __future__ import annotations

import sys
import time

from codriver_relay.connection import Handshake
from codriver_relay.messages import Backlog, Message, cancelled_request_key, classify_line, encode_answer, encode_error
from codriver_relay.streams import POLLIN, Input, Output, PollSet, print_to_stderr
from codriver_relay.workspace_search import (
    describe_untrusted_directory,
    is_workspace,
    resolve_workspace,
    searched_directories,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

ROOTS_REQUEST_KEY = b'"codriver-relay-roots"'
"""The id of the relay's request for roots, as JSON."""
ROOTS_REQUEST = b'{"jsonrpc":"2.0","id":%s,"method":"roots/list"}\n' % ROOTS_REQUEST_KEY
MAX_CONSIDERED_ROOTS = 100
"""Maximum number of a client's roots that are considered."""
METHOD_NOT_FOUND_CODE = -32601
"""The error code for an unknown method. Source: JSON-RPC 2.0."""
HANDSHAKE_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""The protocol versions with a handshake, newest first. Source: the Python SDK, HANDSHAKE_PROTOCOL_VERSIONS."""
GREETING = {
    "capabilities": {
        "logging": {},
        "prompts": {"listChanged": False},
        "resources": {"listChanged": True, "subscribe": True},
        "tools": {"listChanged": True},
    },
    "serverInfo": {"name": "codriver", "title": "Codriver", "version": "relay"},
    "instructions": "Codriver: live REPLs of this workspace, shared with the human and other agents. list_sessions "
    "lists them. First read skill://live-repl/SKILL.md, which explains how to work in a REPL.",
}
"""The greeting for a client whose workspace is not known yet. It has the capabilities that all servers have."""


class RootsDiscovery:
    """The exchange with a client whose workspace is not known yet, until one of its roots is chosen.

    The relay answers the handshake itself and requests the client's roots. Other requests wait. They get errors if the
    client has no roots or does not answer in time. Later answers still count, for example after the client's roots have
    changed.
    """

    def __init__(self, log: Callable[[str], None], roots_s: float) -> None:
        self.log = log
        self.roots_s = roots_s
        self.input, self.output = Input(), Output()
        self.watch = PollSet(self.output)
        self.handshake = Handshake()
        self.backlog = Backlog()
        """The messages for the server, once there is one."""
        self.deadline: float | None = None
        """The time at which the client must have answered, or None if its roots are not being requested."""
        self.failure = ""
        """The reason why no workspace can be found, once that is certain."""
        self.workspace: str | None = None

    def run(self) -> str | None:
        """Exchange messages until the workspace is known, and return it. Return None if stdin ends before that."""
        while self.workspace is None and not self.input.is_at_end:
            self.run_once()
        if self.workspace is None:
            self.fail("stdin ended before the client named its roots")
            self.output.wait()
        return self.workspace

    def run_once(self) -> None:
        """Wait for input from the client or for the time limit, and process what happened."""
        self.watch.set_events(self.input.fd, 0 if self.output.is_busy else POLLIN)
        left = None if self.deadline is None else max(0.0, self.deadline - time.monotonic())
        for fd, _ in self.watch.wait(left):
            if fd == self.input.fd:
                self.read_client()
        if self.deadline is not None and self.workspace is None:
            if time.monotonic() >= self.deadline:
                self.fail(f"the client did not answer roots/list within {self.roots_s:g} s")
            elif self.backlog.is_full:
                self.fail("the client sends too much without answering roots/list")

    def read_client(self) -> None:
        """Read messages from the client. Queue them for the server once the workspace is known."""
        for line in self.input.read_lines():
            message = classify_line(line)
            if self.workspace is None:
                self.handle(message)
            else:
                self.backlog.add(message)

    def handle(self, message: Message) -> None:
        """Process a message that was received before the workspace is known."""
        if message.method == b"initialize" and message.is_request:
            self.answer_initialize(message)
        elif message.method == b"ping" and message.is_request:
            self.output.write(encode_answer(message, result={}))
        elif message.is_response:
            if message.key == ROOTS_REQUEST_KEY:
                self.read_roots(message.line)
        elif message.method == b"notifications/roots/list_changed":
            self.request_roots()
        elif self.handshake.initialize is None or (self.failure and message.method != b"notifications/initialized"):
            self.refuse_requests(message)
        else:
            if message.method == b"notifications/initialized":
                self.handshake.initialized = message
            elif message.method == b"notifications/cancelled":
                cancelled = cancelled_request_key(message.line)
                self.backlog.drop(lambda other: other.key is not None and other.key == cancelled)
            else:
                self.backlog.add(message)
            if self.deadline is None and not self.failure:
                self.request_roots()

    def answer_initialize(self, request: Message) -> None:
        """Answer `initialize` in place of the server. Refuse it if the client has no roots."""
        import json

        try:
            params = json.loads(request.line)["params"]
            requested, has_roots = params["protocolVersion"], isinstance(params["capabilities"].get("roots"), dict)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            requested, has_roots = "", False
        if not has_roots:
            self.refuse_requests(request, "the client does not support requests for its roots")
            return
        version = requested if requested in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[0]
        self.handshake.initialize = request
        self.failure = ""
        self.output.write(encode_answer(request, result={"protocolVersion": version, **GREETING}))

    def request_roots(self) -> None:
        """Request the client's roots, and restart the time limit. Do nothing before the handshake."""
        if self.handshake.initialize is not None:
            self.deadline, self.failure = time.monotonic() + self.roots_s, ""
            self.output.write(ROOTS_REQUEST)

    def read_roots(self, line: bytes) -> None:
        """Choose the workspace from the client's roots. If none is suitable, fail the waiting requests."""
        self.workspace = choose_root(line)
        if self.workspace is None:
            skipped = describe_untrusted_directory(root_directories(line))
            reason = f" ({skipped})" if skipped else ""
            self.fail(f"none of the client's roots is a folder of this user that can be a workspace{reason}")
        else:
            self.log(f"the workspace is {self.workspace}, a root of the client")

    def fail(self, why: str) -> None:
        """Answer all waiting requests with an error. `why` is the reason why there is no workspace."""
        self.deadline, self.failure = None, why
        print_to_stderr(no_workspace_message(why))
        for message in self.backlog.pop_all():
            self.refuse_requests(message)

    def refuse_requests(self, message: Message, why: str = "") -> None:
        """Answer the requests in a message with an error that explains how to specify the workspace.

        For `server/discover`, the error is that of an unknown method, because clients then fall back to a handshake.
        """
        why = why or self.failure or "the client's roots can only be requested during a handshake"
        for request in message.parts or (message,):
            if request.method == b"server/discover":
                error = {"code": METHOD_NOT_FOUND_CODE, "message": f"Method not found: {no_workspace_message(why)}"}
                self.output.write(encode_answer(request, error=error))
            elif request.is_request:
                self.output.write(encode_error(request, no_workspace_message(why), "no-workspace"))


def no_workspace_message(why: str) -> str:
    """Return an error message that says that no workspace was found, why, and what to do."""
    skipped = describe_untrusted_directory(searched_directories())
    boundary = f": {skipped}, so neither this folder nor one above it is used" if skipped else ""
    return (
        "codriver-relay --workspace auto found no workspace: CLAUDE_PROJECT_DIR is not set to one, neither the "
        "current folder nor one above it has .calva/mcp-server, codriver.toml, a project file or .git (home, temporary "
        f"folders and folders of other users do not count{boundary}), and {why}. This request was not carried out. "
        "Set the folder in the client's entry: --workspace DIR"
    )


def choose_root(answer: bytes) -> str | None:
    """Return the first of the client's roots that looks like a workspace, else its first valid root, else None.

    Directories above the roots are not considered, because roots limit where a server may work.
    """
    directories = [resolve_workspace(path) for path in root_directories(answer)]
    possible = [directory for directory in directories if directory is not None]
    return next(filter(is_workspace, possible), possible[0] if possible else None)


def root_directories(answer: bytes) -> list[str]:
    """Return the paths of the client's roots from its answer, or an empty list if the answer is malformed."""
    import json

    try:
        roots = json.loads(answer)["result"]["roots"][:MAX_CONSIDERED_ROOTS]
        return [file_uri_to_path(root["uri"]) for root in roots]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []


def file_uri_to_path(uri: str) -> str:
    """Return the local path of a `file:` URI, or "" for any other URI."""
    from urllib.parse import unquote, urlsplit  # needed only if roots are requested

    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return ""
    path = unquote(parts.path, errors="surrogateescape")
    if sys.platform == "win32":
        from codriver_relay.windows import local_path

        path = local_path(path)
    return "" if "\0" in path else path
