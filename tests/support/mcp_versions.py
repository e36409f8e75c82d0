"""Clients of every protocol version that check each message in both directions against the types of the specification.

The types are those that the `mcp-types` package generates from the official schemas of 2025-11-25 and 2026-07-28.
Messages to clients of earlier versions are checked by the former, which accepts everything that these define. The
tasks extension of 2026-07-28 has no types there: its shapes are defined below, from the text of the extension.
"""

import json
import sys
from contextlib import contextmanager
from functools import cache

import jsonschema
from live_server import RELAY, Relayed
from mcp_types import _v2025_11_25 as handshake
from mcp_types import _v2026_07_28 as modern
from pydantic import TypeAdapter, ValidationError

OLDER = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
MODERN = "2026-07-28"
EVERY = [*OLDER, MODERN]
TASKS = "io.modelcontextprotocol/tasks"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"

RESULTS = {
    "initialize": "InitializeResult",
    "server/discover": "DiscoverResult",
    "ping": "EmptyResult",
    "logging/setLevel": "EmptyResult",
    "prompts/list": "ListPromptsResult",
    "prompts/get": "GetPromptResult",
    "resources/list": "ListResourcesResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "resources/read": "ReadResourceResult",
    "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult",
    "tasks/get": "GetTaskResult",
    "tasks/update": "UpdateTaskResult",
    "tasks/list": "ListTasksResult",
    "tasks/cancel": "CancelTaskResult",
    "tasks/result": "CallToolResult",
}
REQUESTS = {
    "server/discover": "DiscoverRequest",
    "logging/setLevel": "SetLevelRequest",
    "prompts/get": "GetPromptRequest",
    "resources/read": "ReadResourceRequest",
    "tools/list": "ListToolsRequest",
    "tools/call": "CallToolRequest",
    "tasks/get": "GetTaskRequest",
    "tasks/update": "UpdateTaskRequest",
    "tasks/list": "ListTasksRequest",
    "tasks/cancel": "CancelTaskRequest",
    "tasks/result": "GetTaskPayloadRequest",
    "subscriptions/listen": "SubscriptionsListenRequest",
}


TASK = {
    "type": "object",
    "properties": {
        "taskId": {"type": "string"},
        "status": {"enum": ["working", "input_required", "completed", "failed", "cancelled"]},
        "statusMessage": {"type": "string"},
        "createdAt": {"type": "string"},
        "lastUpdatedAt": {"type": "string"},
        "ttlMs": {"type": ["integer", "null"]},
        "pollIntervalMs": {"type": "integer"},
    },
    "required": ["taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs"],
}


def whenever(status, field):
    """Return a schema: tasks with this status must have this field, an object."""
    has = {"properties": {field: {"type": "object"}}, "required": [field]}
    return {"if": {"properties": {"status": {"const": status}}}, "then": has}


DETAILED = {
    "allOf": [
        TASK,
        whenever("completed", "result"),
        whenever("failed", "error"),
        whenever("input_required", "inputRequests"),
    ]
}


def result_of(kind, *shapes):
    return {"allOf": [{"properties": {"resultType": {"const": kind}}, "required": ["resultType"]}, *shapes]}


def request_of(method, **params):
    given = {"type": "object", "properties": params, "required": list(params)}
    return {"properties": {"method": {"const": method}, "params": given}, "required": ["id", "method", "params"]}


ID = {"type": "string"}
EXTENSION = {
    "CreateTaskResult": result_of("task", TASK),
    "GetTaskResult": result_of("complete", DETAILED),
    "UpdateTaskResult": result_of("complete"),
    "CancelTaskResult": result_of("complete"),
    "GetTaskRequest": request_of("tasks/get", taskId=ID),
    "UpdateTaskRequest": request_of("tasks/update", taskId=ID, inputResponses={"type": "object"}),
    "CancelTaskRequest": request_of("tasks/cancel", taskId=ID),
    "TaskStatusNotification": {
        "properties": {"method": {"const": "notifications/tasks"}, "params": DETAILED},
        "required": ["method", "params"],
        "not": {"required": ["id"]},
    },
}
"""By name: the shapes of the tasks extension. Source: SEP-2663."""


@cache
def adapter(version, kind):
    """Return the validator of one type of a version."""
    return TypeAdapter(getattr(modern if version == MODERN else handshake, kind))


def check(version, kind, value):
    """Fail unless `value` has the type `kind` of a version or of the tasks extension."""
    if version == TASKS:
        problem = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(EXTENSION[kind]).iter_errors(value))
    else:
        problem = None
        try:
            adapter(version, kind).validate_json(json.dumps(value), strict=True)
        except ValidationError as error:
            problem = error
    assert problem is None, f"{version} {kind}: {problem}\nin {json.dumps(value)[:2000]}"


class Versioned:
    """A client of one version, connected directly or through the relay, that checks all messages."""

    def __init__(self, bare, version, *, capabilities=None, name="versioned", log_level=None):
        self.bare, self.version = bare, version
        self.capabilities, self.name, self.log_level = capabilities or {}, name, log_level
        self.methods = {}
        self.messages = []
        """Notifications and requests from the server that have not been handled yet."""
        if version != MODERN:
            who = {"name": name, "version": "1"}
            requested = {"protocolVersion": version, "capabilities": self.capabilities, "clientInfo": who}
            self.about = self.request("initialize", **requested)
            self.bare.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        else:
            self.about = self.request("server/discover")

    @property
    def is_modern(self):
        return self.version == MODERN

    @property
    def has_tasks(self):
        return self.is_modern and TASKS in self.capabilities.get("extensions", {})

    def owner(self, method):
        """Return the version, or the extension, that describes a method."""
        return TASKS if self.is_modern and "tasks" in method else self.version

    def meta(self):
        about = {"protocolVersion": MODERN, "clientCapabilities": self.capabilities}
        about["clientInfo"] = {"name": self.name, "version": "1"}
        pop_notification = {f"io.modelcontextprotocol/{key}": value for key, value in about.items()}
        return pop_notification | ({LOG_LEVEL: self.log_level} if self.log_level else {})

    def begin(self, method, *, is_valid=True, **params):
        self.bare.number += 1
        identity = self.bare.number
        if self.is_modern:
            params["_meta"] = self.meta() | params.get("_meta", {})
        message = {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}
        if is_valid and method in REQUESTS:
            check(self.owner(method), REQUESTS[method], message)
        self.methods[identity] = method
        self.bare.send(message)
        return identity

    def receive(self):
        message = self.bare.receive()
        assert message is not None, "the server hung up"
        if "method" in message:
            self.check_notification(message)
        else:
            self.check_answer(message)
        return message

    def check_notification(self, message):
        if "id" in message:
            assert not self.is_modern
            check(self.version, "ServerRequest", message)
        elif message["method"] == "notifications/tasks":
            check(TASKS, "TaskStatusNotification", message)
        else:
            check(self.version, "ServerNotification", message)

    def check_answer(self, message):
        method = self.methods.pop(message["id"])
        if "error" in message:
            check(self.version, "JSONRPCErrorResponse", message)
            return
        result = message["result"]
        check(self.version, "JSONRPCResultResponse", message)
        if method == "tools/call" and (result.get("resultType") == "task" or "task" in result):
            check(TASKS if self.is_modern else self.version, "CreateTaskResult", result)
        elif method in RESULTS:
            check(self.owner(method), RESULTS[method], result)

    def answer(self, identity):
        """Return the result or error that answers a request; earlier messages are stored in `messages`."""
        while True:
            message = self.receive()
            if "method" in message or message["id"] != identity:
                self.messages.append(message)
            else:
                return message.get("result", message.get("error"))

    def request(self, method, *, is_valid=True, **params):
        return self.answer(self.begin(method, is_valid=is_valid, **params))

    def pop_message(self, condition):
        """Wait for the first message that satisfies a condition, and remove it from those received."""
        while True:
            for message in self.messages:
                if condition(message):
                    self.messages.remove(message)
                    return message
            self.messages.append(self.receive())

    def pop_notification(self, method):
        return self.pop_message(lambda message: message.get("method") == method)

    def call(self, tool, **arguments):
        """Return the fields of a tool's answer."""
        return json.loads(self.request("tools/call", name=tool, arguments=arguments)["content"][0]["text"])


@contextmanager
def speaking(live, version, *, relayed=False, **about):
    """Connect a client of a version for the duration of the context."""
    relay = [sys.executable, "-I", "-S", RELAY, str(live.port_file)]
    bare = Relayed(relay, live.relay_environ, handshake=False) if relayed else live.client(handshake=False)
    with bare:
        yield Versioned(bare, version, **about)
