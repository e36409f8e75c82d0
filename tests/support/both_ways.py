"""Random sequences of valid and invalid messages, sent to two servers that must give the same answers.

One server answers plain requests itself, the other leaves every message to the SDK. To compare them for longer:
`python tests/support/both_ways.py 10000 --seed 7`.
"""

import argparse
import json
import random
import socket
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

from live_server import Live

WAIT_S = 60
VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "1999-01-01"]
WITHOUT = "without-plain-way"
MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
CAPABILITIES = [
    {},
    {"roots": {"listChanged": True}, "elicitation": {}},
    {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "experimental": {"x": {"y": [1]}}},
    {"tasks": {"list": {}, "cancel": {}}},
    {"extensions": {f"{PREFIX}ui": {}}},
    {"extensions": {f"{PREFIX}tasks": {}}},
    {"unheard-of": 7},
]
CLIENTS = [
    {"name": "one", "version": "1"},
    {"name": "@cline/core", "version": "3", "title": "Cline"},
    {"name": "claude-code", "version": "2", "description": "an agent", "websiteUrl": "https://example.org"},
]
"""Two of them get answers of their own shape."""
ALL_CHANGES = {"toolsListChanged": True, "resourceSubscriptions": ["codriver://log"]}
REQUESTS = [
    ("ping", [{}]),
    ("server/discover", [{}]),
    ("tools/list", [{}, {"cursor": "x"}]),
    ("resources/list", [{}]),
    ("resources/templates/list", [{}]),
    ("prompts/list", [{}]),
    ("skills/list", [{}, {"cursor": "x"}]),
    ("skills/get", [{"uri": "skill://live-repl/SKILL.md"}, {"uri": "skill://nobody/SKILL.md"}, {}]),
    ("resources/directory/read", [{"uri": "skill://live-repl"}, {"uri": "skill://live-repl/SKILL.md"}]),
    ("logging/setLevel", [{"level": "error"}, {"level": "loud"}]),
    ("resources/subscribe", [{"uri": "codriver://log"}, {"uri": "codriver://nothing"}, {"uri": "skill://nobody/x"}]),
    ("resources/unsubscribe", [{"uri": "codriver://log"}, {"uri": "codriver://nothing"}]),
    ("subscriptions/listen", [{"notifications": {}}, {"notifications": ALL_CHANGES}]),
    ("tools/call", [
        {"name": "balance_brackets", "arguments": {"text": "(a"}},
        {"name": "balance_brackets", "arguments": {"text": 7}},
        {"name": "list_sessions"},
        {"name": "evaluate_code", "arguments": {"code": "1"}},
        {"name": "no_such_tool", "arguments": {}},
    ]),
    ("resources/read", [{"uri": "codriver://handoff"}, {"uri": "codriver://nothing"}]),
    ("prompts/get", [{"name": "explain_last_error"}, {"name": "nothing"}]),
    ("tasks/list", [{}]),
    ("no/such/method", [{}]),
]  # fmt: skip
NOTIFICATIONS = [
    ("notifications/initialized", [{}]),
    ("notifications/cancelled", [{"requestId": 999, "reason": "late"}, {"requestId": "nobody"}, {"requestId": None}]),
    ("notifications/roots/list_changed", [{}]),
    ("notifications/no/such", [{}]),
]
UNUSUAL_VALUES = [None, True, False, 0, -1, 1.5, 2**70, "", "x", [], [1], {}, {"a": None}]
EXTRA_META_MEMBERS = [{"traceparent": "00-1"}, {"progressToken": 5}, {"progressToken": "t"}, {"progressToken": True}]


class WithoutPlainWay(Live):
    """A server that leaves every message to the SDK."""

    def command(self, name, *options):
        python, _, _, *rest = super().command(name, *options)
        return [python, __file__, WITHOUT, *rest]


@contextmanager
def two_servers(folder):
    """Start one server of each kind, without REPLs."""
    with ExitStack() as servers:
        found = []
        for kind, name in ((Live, "a"), (WithoutPlainWay, "b")):
            found.append(kind(Path(folder) / name, "--repl", "none"))
            servers.callback(found[-1].stop)
        yield found


class Author:
    """Generates sequences, each determined by its seed."""

    def __init__(self, seed):
        self.chance = random.Random(seed)

    def sequence(self):
        """Return the messages, each with whether it is sent only after the previous one was answered."""
        pick = self.chance
        is_modern, is_in_turns = pick.random() < 0.4, pick.random() < 0.5
        who = self.envelope()
        text = [] if is_modern or pick.random() < 0.1 else self.handshake()
        for _ in range(pick.randint(1, 7)):
            method, choices = pick.choice(REQUESTS if pick.random() < 0.85 else NOTIFICATIONS)
            message = {"jsonrpc": "2.0", "method": method}
            params = dict(pick.choice(choices))
            if (method, choices) in REQUESTS:
                message["id"] = pick.choice([len(text) + 1, f"id {len(text)}"])
            if is_modern and "id" in message:
                params["_meta"] = {**who, **(pick.choice(EXTRA_META_MEMBERS) if pick.random() < 0.2 else {})}
            elif pick.random() < 0.1:
                params["_meta"] = pick.choice(EXTRA_META_MEMBERS)
            if params or pick.random() < 0.5:
                message["params"] = params
            text.append(message)
            if is_in_turns and pick.random() < 0.05:  # else an answer that is still to come may be for either
                who = self.envelope()
        if is_in_turns and pick.random() < 0.3:
            text.insert(pick.randint(0, len(text)), self.handshake()[0])
        text = [self.mutated(message) if pick.random() < 0.15 else message for message in text]
        if pick.random() < 0.1:
            at = pick.randint(0, len(text) - 1)
            text[at:] = [text[at:]]  # the rest as a batch
        return text, is_in_turns

    def handshake(self):
        pick = self.chance
        params = {
            "protocolVersion": pick.choice(VERSIONS),
            "capabilities": pick.choice(CAPABILITIES),
            "clientInfo": pick.choice(CLIENTS),
        }
        hello = {"jsonrpc": "2.0", "id": pick.choice([0, "hello"]), "method": "initialize", "params": params}
        notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        return [hello, notification] if pick.random() < 0.85 else [hello]

    def envelope(self):
        pick = self.chance
        message = {
            "protocolVersion": MODERN if pick.random() < 0.95 else "2027-01-01",
            "clientCapabilities": pick.choice(CAPABILITIES),
        }
        if pick.random() < 0.8:
            message["clientInfo"] = pick.choice(CLIENTS)
        if pick.random() < 0.1:
            message["logLevel"] = pick.choice(["error", "loud"])
        return {f"{PREFIX}{name}": value for name, value in message.items()}

    def mutated(self, message):
        """Return the message with one member, at any depth, removed, replaced by something unusual, or added."""
        pick = self.chance
        copy = json.loads(json.dumps(message))
        holder = copy
        while True:
            inner = [value for value in holder.values() if isinstance(value, dict) and value]
            if not inner or pick.random() < 0.4:
                break
            holder = pick.choice(inner)
        name = pick.choice(list(holder))
        match pick.choice(["out", "odd", "more"]):
            case "out":
                del holder[name]
            case "odd":
                holder[name] = pick.choice(UNUSUAL_VALUES)
            case "more":
                holder[pick.choice(["beside", "task", "_meta", "id"])] = pick.choice(UNUSUAL_VALUES)
        return copy


def is_answered(message):
    """Return whether the server is certain to answer this message before the connection ends."""
    if isinstance(message, list):
        return False
    is_request = type(message.get("id")) in (int, str) and type(message.get("method")) is str
    return is_request and message.get("jsonrpc") == "2.0" and message["method"] != "subscriptions/listen"


def answers(live, text, *, is_in_turns):
    """Return everything that a server sends for a sequence until it disconnects, counted and without varying parts."""
    with socket.create_connection(("127.0.0.1", live.port), timeout=WAIT_S) as sock, sock.makefile("rb") as file:
        found = []
        lines = [json.dumps(message).encode() + b"\n" for message in text]
        if is_in_turns:
            for message, line in zip(text, lines, strict=True):
                sock.sendall(line)
                while is_answered(message):
                    found.append(file.readline())
                    if not found[-1] or json.loads(found[-1]).get("id", message["id"]) == message["id"]:
                        break
        else:
            sock.sendall(b"".join(lines))
        sock.shutdown(socket.SHUT_WR)
        found += file.readlines()
    return Counter(_alike(line, live) for line in found if line.strip())


def _alike(line, live):
    reported = json.loads(line.replace(str(live.folder).encode(), b"FOLDER"))
    parts = reported if isinstance(reported, list) else [reported]
    for part in parts:
        for content in part.get("result", {}).get("content", ()):
            fields = json.loads(content["text"])
            fields.pop("elapsedMs", None)
            content["text"] = fields
        part.get("result", {}).get("structuredContent", {}).pop("elapsedMs", None)
    return json.dumps(sorted(parts, key=json.dumps), sort_keys=True)


def differences(servers, count, seed):
    """Yield the sequences that the two servers answer differently, with the answers that only one of them gave."""
    author = Author(seed)
    for number in range(count):
        text, is_in_turns = author.sequence()
        item, other = (answers(live, text, is_in_turns=is_in_turns) for live in servers)
        if item != other:
            yield number, is_in_turns, text, item - other, other - item


def report(seed, number, is_in_turns, message, item, other):
    """Describe a difference."""
    parts = (("said", map(json.dumps, message)), ("the plain way alone", item), ("the SDK alone", other))
    lines = ["\n    ".join([f"  {title}:", *lines]) for title, lines in parts]
    return "\n".join([f"sequence {number} of seed {seed}{', in turns' if is_in_turns else ''}", *lines])


def main():
    """Compare as many sequences as requested and print the differences."""
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    requested = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, two_servers(folder) as servers:
        found = [
            report(requested.seed, *difference) for difference in differences(servers, requested.count, requested.seed)
        ]
    sys.stdout.write("\n".join([*found, f"{requested.count} sequences, {len(found)} not answered alike\n"]))
    raise SystemExit(bool(found))


def serve_without_plain_way():
    """Run the command line in a process that leaves every message to the SDK."""
    from codriver.commands.cli import main as command_line  # noqa: PLC0415  # the comparison needs none of it
    from codriver.protocol.requests_without_sdk import PlainRequests  # noqa: PLC0415  # as above

    with patch.object(PlainRequests, "accept", lambda _plain, _line, _read=None: False):
        del sys.argv[1]
        command_line()


if __name__ == "__main__":
    if sys.argv[1:2] == [WITHOUT]:
        serve_without_plain_way()
    main()
