"""JSON-RPC messages: the lines of a stream, the kind of each line, read only as far as needed, and our own answers.

The relay passes whole lines on, untouched. Of each message it knows whether the message is a request, and which answer
belongs to it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SURVEY_BYTES = 1 << 16
"""The bytes of a line that are walked through in Python. Beyond it, parsing the whole line in C is faster."""
BACKLOG_BYTES = 64 << 20
"""The bytes that may wait to be sent; beyond them stdin is not read on, and the client waits in its own write."""
MESSAGE_BYTES = 256
"""The bytes that a waiting message counts beside its line: empty lines, too, have to end somewhere."""
CONNECTION_CLOSED = -32000
"""The code MCP clients give to a closed connection. Source: the TypeScript SDK, `ErrorCode.ConnectionClosed`."""
NAMES = (b"id", b"method", b"result", b"error")
"""The members that tell requests, responses and notifications apart."""
META = "io.modelcontextprotocol/"
"""The beginning of the names in `_meta` by which each request of a client without a handshake describes it. Source: MCP
2026-07-28.
"""


class Lines:
    """Whole lines, newline included, out of pieces as they come. Lives as long as its stream."""

    def __init__(self) -> None:
        self.rest: list[bytes] = []

    def take_rest(self) -> list[bytes]:
        """Return the line that the end of the stream left without a newline, if any, with one."""
        rest, self.rest = b"".join(self.rest), []
        return [rest + b"\n"] if rest else []

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes. A line is copied once, however many chunks it came in."""
        newline = data.find(b"\n")
        if newline < 0:
            self.rest.append(data)
            return []
        if newline == len(data) - 1:
            lines, tail = [data], b""
        else:
            *whole, tail = data.split(b"\n")
            lines = [line + b"\n" for line in whole]
        if self.rest:
            lines[0] = b"".join([*self.rest, lines[0]])
        self.rest = [tail] if tail else []
        return lines


class Message:
    """A line in the relay's view. `id` is the received value as JSON text, `key` the same in one spelling.

    A response is a result or an error. `parts`: the messages of a batch, which has no id and no method itself.
    """

    __slots__ = ("id", "is_response", "is_result", "key", "line", "method", "parts")

    def __init__(
        self,
        line: bytes,
        method: bytes | None,
        id_: bytes | None,
        *,
        is_response: bool,
        is_result: bool = False,
        parts: Sequence[Message] = (),
    ) -> None:
        self.line = line
        self.parts = parts
        self.method = method
        self.id = id_ if id_ and id_[0] in b'"-0123456789' else None
        self.key = self.id if self.id is None or is_plain(self.id) else respell(self.id)
        self.is_response = is_response and method is None
        self.is_result = is_result and method is None

    @property
    def is_request(self) -> bool:
        """Return whether the peer that sent it waits for an answer."""
        return (self.method is not None and self.id is not None) or any(part.is_request for part in self.parts)


def is_plain(token: bytes) -> bool:
    """Return whether the JSON string or number `token` can only be spelt like this."""
    return token.isdigit() or (token[:1] == b'"' and b"\\" not in token)


def respell(token: bytes) -> bytes:
    """Return the JSON string or number `token` as every peer would spell it; unchanged for any other text."""
    import json  # costs as much as the interpreter's start, and plain ids never need it

    try:
        value = json.loads(token)
    except ValueError:
        return token
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


class Backlog:
    """Messages that wait for the server, in order, with the memory that they take."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.bytes = 0

    @property
    def is_full(self) -> bool:
        """Return true if no more of the client's lines should be read: the client then waits in its own write."""
        return self.bytes >= BACKLOG_BYTES

    def add(self, message: Message) -> None:
        """Let a message wait."""
        self.messages.append(message)
        self.bytes += len(message.line) + MESSAGE_BYTES

    def put_back(self, messages: list[Message]) -> None:
        """Let messages wait that were sent before all others here."""
        self.messages[:0] = messages
        self.bytes += sum([len(message.line) + MESSAGE_BYTES for message in messages])

    def take(self, most: int) -> list[Message]:
        """Return the first messages, until their lines have `most` bytes; they wait no longer."""
        count = size = 0
        for message in self.messages:
            count, size = count + 1, size + len(message.line)
            if size >= most:
                break
        taken = self.messages[:count]
        del self.messages[:count]
        self.bytes -= size + MESSAGE_BYTES * count
        return taken

    def take_all(self) -> list[Message]:
        """Return all of the messages; none waits any longer."""
        taken, self.messages, self.bytes = self.messages, [], 0
        return taken

    def drop(self, is_dropped: Callable[[Message], bool]) -> None:
        """Let some of the messages wait no longer."""
        self.messages = [message for message in self.messages if not is_dropped(message)]
        self.bytes = sum([len(message.line) + MESSAGE_BYTES for message in self.messages])


def survey(line: bytes) -> Message:
    """Return the kind of message `line` is.

    The line is read only as far as needed; without an object it is only a line.
    """
    return walk(line) or parse(line)


def parse(line: bytes) -> Message:
    """Return the kind of message `line` is, by parsing all of it."""
    import json

    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, list):
        parts = [describe(json.dumps(item).encode() + b"\n", item) for item in value]
        is_response = bool(parts) and all(part.is_response for part in parts)
        return Message(line, None, None, is_response=is_response, parts=parts)
    return describe(line, value)


def describe(line: bytes, value: object) -> Message:
    """Return the kind of message `line` is, whose JSON value is `value`."""
    import json

    if not isinstance(value, dict):
        return Message(line, None, None, is_response=False)
    method = value.get("method")
    return Message(
        line,
        method.encode("utf-8", "surrogatepass") if isinstance(method, str) else None,
        json.dumps(value.get("id")).encode(),
        is_response="result" in value or "error" in value,
        is_result="result" in value,
    )


def walk(line: bytes) -> Message | None:
    """Return the kind of message `line` is, from its top-level members up to the one that decides.

    Without its escaped quotes, a line split at the others is by turns text outside and inside of strings, so a member's
    name is a string at depth 1 with a colon behind it. None when `SURVEY_BYTES` do not decide, or a name or an id has
    escapes.
    """
    if line[:1] != b"{":
        return None
    parts = line[:SURVEY_BYTES].replace(b"\\\\", b"\\_").replace(b'\\"', b"\\_").split(b'"')
    found: dict[bytes, bytes] = {}
    depth = 0
    for index in range(0, len(parts) - 2, 2):
        outside, name, behind = parts[index], parts[index + 1], parts[index + 2]
        if outside not in b",:":  # most messages are one of these
            depth += outside.count(b"{") + outside.count(b"[") - outside.count(b"}") - outside.count(b"]")
        if depth != 1 or behind.lstrip()[:1] != b":":
            continue
        if b"\\" in name:
            return None
        if name in NAMES:
            scalar, comma, _ = behind.strip()[1:].replace(b"}", b",").partition(b",")
            is_string = not scalar.strip() and index + 4 < len(parts)
            value = b'"' + parts[index + 3] + b'"' if is_string else scalar.strip()
            if name in (b"id", b"method") and (b"\\" in value or not (is_string or comma)):
                return None  # the end of a value may lie beyond the limit
            found[name] = value
        if b"id" in found and len(found) > 1:
            break
    else:
        if len(line) > SURVEY_BYTES or not line.rstrip().endswith(b"}"):
            return None
    method = found.get(b"method")
    if method is not None and method[:1] != b'"':
        return None
    is_result = b"result" in found
    is_response = is_result or b"error" in found
    return Message(line, method and method[1:-1], found.get(b"id"), is_response=is_response, is_result=is_result)


def cancelled_key(line: bytes) -> bytes:
    """Return the key of the request that a `notifications/cancelled` names; empty when it names none."""
    import json

    try:
        return respell(json.dumps(json.loads(line)["params"]["requestId"]).encode())
    except (ValueError, LookupError, TypeError):
        return b""


def encode(**members: object) -> bytes:
    """Return a JSON-RPC message of ours as a line."""
    import json

    return json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n"


def encode_error(request: Message, message: str, reason: str) -> bytes:
    """Return the error that answers `request`."""
    return encode_answer(request, error={"code": CONNECTION_CLOSED, "message": message, "data": {"reason": reason}})


def encode_answer(request: Message, **members: object) -> bytes:
    """Return the answer to `request` with these members."""
    line = encode(id=0, **members)
    return line.replace(b'"id": 0', b'"id": ' + (request.id or b"null"), 1)
