"""JSON-RPC messages: the lines of a stream, the kind of each message, and messages that the relay itself sends.

The relay forwards lines unchanged. It parses a message only far enough to know whether it is a request, and which
request a response answers.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_SURVEYED_BYTES = 1 << 16
"""Maximum number of bytes scanned in Python per line. For longer lines, `json` is faster."""
MAX_BACKLOG_BYTES = 64 << 20
"""Number of queued bytes above which stdin is not read, so that the client blocks when it writes."""
MESSAGE_OVERHEAD_BYTES = 256
"""Number of bytes added to the length of each queued message, so that the number of empty lines is limited, too."""
CONNECTION_CLOSED_CODE = -32000
"""The error code that MCP clients use for a closed connection. Source: the TypeScript SDK, `ErrorCode`."""
DISTINGUISHING_MEMBERS = (b"id", b"method", b"result", b"error")
"""The members that distinguish requests, responses and notifications."""
META_PREFIX = "io.modelcontextprotocol/"
"""The prefix of the `_meta` names that describe the client in requests without a handshake.

Source: MCP 2026-07-28.
"""


class LineBuffer:
    """A buffer that splits a stream of bytes into lines. The lines include their newlines."""

    def __init__(self) -> None:
        self.rest: list[bytes] = []

    def pop_rest(self) -> list[bytes]:
        """Return the rest of a finished stream after its last newline as a line, or [] if nothing remains."""
        rest, self.rest = b"".join(self.rest), []
        return [rest + b"\n"] if rest else []

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines completed by `data`. Each line is copied only once, however many chunks it spans."""
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
    """A JSON-RPC message or batch, and the line that contains it.

    `id` is the received id as JSON text, and `key` is its normalized form. A response is a result or an error. `parts`
    are the messages of a batch, which itself has neither an id nor a method. `line_number` is the number of the line
    among those sent over the current connection, or 0.
    """

    __slots__ = ("id", "is_response", "is_result", "key", "line", "line_number", "method", "parts")

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
        self.line_number = 0
        self.parts = parts
        self.method = method
        self.id = id_ if id_ and id_[0] in b'"-0123456789' else None
        self.key = self.id if self.id is None or has_unique_spelling(self.id) else normalize_json_scalar(self.id)
        self.is_response = is_response and method is None
        self.is_result = is_result and method is None

    @property
    def is_notification(self) -> bool:
        """Return whether the message is a single one to which no response is expected."""
        return self.method is not None and self.id is None

    @property
    def is_request(self) -> bool:
        """Return whether the sender expects a response to this message or to a part of it."""
        return (self.method is not None and self.id is not None) or any(part.is_request for part in self.parts)


def has_unique_spelling(token: bytes) -> bool:
    """Return whether a JSON string or number can be written in only one way."""
    return token.isdigit() or (token[:1] == b'"' and b"\\" not in token)


def normalize_json_scalar(token: bytes) -> bytes:
    """Return the normalized spelling of a JSON string or number. Return any other text unchanged."""
    import json  # importing it takes as long as starting the interpreter, and plain ids do not need it

    try:
        value = json.loads(token)
    except ValueError:
        return token
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


class Backlog:
    """A queue of messages waiting for the server, and the amount of memory that they use."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.bytes = 0

    @property
    def is_full(self) -> bool:
        """Return whether to stop reading from the client until queued messages have been sent."""
        return self.bytes >= MAX_BACKLOG_BYTES

    def add(self, message: Message) -> None:
        """Add a message to the end of the queue."""
        self.messages.append(message)
        self.bytes += len(message.line) + MESSAGE_OVERHEAD_BYTES

    def put_back(self, messages: list[Message]) -> None:
        """Insert messages at the front of the queue."""
        self.messages[:0] = messages
        self.bytes += sum([len(message.line) + MESSAGE_OVERHEAD_BYTES for message in messages])

    def pop(self, most: int) -> list[Message]:
        """Remove and return messages from the front, until they have at least `most` bytes or the queue is empty."""
        count = size = 0
        for message in self.messages:
            count, size = count + 1, size + len(message.line)
            if size >= most:
                break
        removed = self.messages[:count]
        del self.messages[:count]
        self.bytes -= size + MESSAGE_OVERHEAD_BYTES * count
        return removed

    def pop_all(self) -> list[Message]:
        """Remove and return all messages."""
        removed, self.messages, self.bytes = self.messages, [], 0
        return removed

    def drop(self, is_dropped: Callable[[Message], bool]) -> None:
        """Remove the queued messages for which `is_dropped` returns True."""
        self.messages = [message for message in self.messages if not is_dropped(message)]
        self.bytes = sum([len(message.line) + MESSAGE_OVERHEAD_BYTES for message in self.messages])


def classify_line(line: bytes) -> Message:
    """Return the message in a line, parsing only as much of the line as needed.

    A line that is not a JSON object or array becomes a message that is neither a request nor a response.
    """
    return scan_line(line) or parse_message(line)


def parse_message(line: bytes) -> Message:
    """Return the message in a line, parsing the whole line."""
    import json

    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, list):
        parts = [classify_value(json.dumps(item).encode() + b"\n", item) for item in value]
        is_response = bool(parts) and all(part.is_response for part in parts)
        return Message(line, None, None, is_response=is_response, parts=parts)
    return classify_value(line, value)


def classify_value(line: bytes, value: object) -> Message:
    """Return the message for a parsed line. `value` is the parsed JSON of `line`."""
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


def scan_line(line: bytes) -> Message | None:
    """Return the message in a line by scanning only its top-level members, or None if that is not possible.

    If a line without escaped quotes is split at its quotes, the parts are alternately outside and inside strings. The
    name of a member is a string at depth 1 that is followed by a colon. The scan fails if it needs more than
    `MAX_SURVEYED_BYTES`, or if a name or an id contains escapes.
    """
    if line[:1] != b"{":
        return None
    parts = line[:MAX_SURVEYED_BYTES].replace(b"\\\\", b"\\_").replace(b'\\"', b"\\_").split(b'"')
    found: dict[bytes, bytes] = {}
    depth = 0
    for index in range(0, len(parts) - 2, 2):
        outside, name, behind = parts[index], parts[index + 1], parts[index + 2]
        if outside not in b",:":  # most parts are one of these
            depth += outside.count(b"{") + outside.count(b"[") - outside.count(b"}") - outside.count(b"]")
        if depth != 1 or behind.lstrip()[:1] != b":":
            continue
        if b"\\" in name:
            return None
        if name in DISTINGUISHING_MEMBERS:
            scalar, comma, _ = behind.strip()[1:].replace(b"}", b",").partition(b",")
            is_string = not scalar.strip() and index + 4 < len(parts)
            value = b'"' + parts[index + 3] + b'"' if is_string else scalar.strip()
            if name in (b"id", b"method") and (b"\\" in value or not (is_string or comma)):
                return None  # the value may continue beyond the limit
            found[name] = value
        if b"id" in found and len(found) > 1:
            break
    else:
        if len(line) > MAX_SURVEYED_BYTES or not line.rstrip().endswith(b"}"):
            return None
    method = found.get(b"method")
    if method is not None and method[:1] != b'"':
        return None
    is_result = b"result" in found
    is_response = is_result or b"error" in found
    return Message(line, method and method[1:-1], found.get(b"id"), is_response=is_response, is_result=is_result)


def refused_line_number(line: bytes) -> int:
    """Return the number of the line that an error without an id is about, or 0 if the error does not contain one."""
    import json

    try:
        number = json.loads(line)["error"]["data"]["line"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return 0
    return number if type(number) is int else 0


def cancelled_request_key(line: bytes) -> bytes:
    """Return the key of the request that a `notifications/cancelled` message cancels, or b"" if the line is invalid."""
    import json

    try:
        return normalize_json_scalar(json.dumps(json.loads(line)["params"]["requestId"]).encode())
    except (ValueError, LookupError, TypeError):
        return b""


def encode(**members: object) -> bytes:
    """Encode a JSON-RPC message with these members as a line."""
    import json

    return json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n"


def encode_error(request: Message, message: str, reason: str) -> bytes:
    """Encode an error response to `request` as a line."""
    return encode_answer(
        request, error={"code": CONNECTION_CLOSED_CODE, "message": message, "data": {"reason": reason}}
    )


def encode_answer(request: Message, **members: object) -> bytes:
    """Encode a response to `request` with these members as a line."""
    line = encode(id=0, **members)
    return line.replace(b'"id": 0', b'"id": ' + (request.id or b"null"), 1)
