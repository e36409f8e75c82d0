"""Fuzzing targets for code that reads bytes from outside: functions of bytes that fail if a promise is broken.

The first sentence of each docstring is the invariant. Hypothesis runs all targets in CI with the corpus. `fuzz.py` runs
one target, guided by coverage, for any duration.
"""

# ruff: noqa: PT017  # to be refused in good order is one of two good ends

import json
import os
import re
import tempfile
from pathlib import Path
from unittest.mock import patch

from all_tools import MANIFEST

from codriver.app.features import NAMES
from codriver.app.workspace_settings import load_workspace_settings
from codriver.errors import RefusedError
from codriver.log import redaction
from codriver.log.history import History
from codriver.log.log_entries import Entry
from codriver.log.transit_format import EntryDecoder, NewerFormatError, UnreadableError, check_version, encode_file
from codriver.net.admission import classify_first_bytes
from codriver.net.client_sessions import PendingRequests
from codriver.net.fair_threads import FairThreads
from codriver.net.server_record import read_record
from codriver.protocol.message_stream import MessageStream
from codriver.protocol.replies import Replies
from codriver.protocol.sdk.sdk_server import SdkConnection
from codriver.repls.nrepl import connection
from codriver.settings.layers import SettingsError, setting_rows
from codriver.setup import jsonc
from codriver.wire import untrusted
from codriver.wire.bencode import BencodeError, Decoder, encode
from codriver.wire.framing import LineBudget, LineDecoder, LineTooLongError
from codriver_relay.messages import LineBuffer, classify_line, parse_message, scan_line
from fuzz.drawing import splits, text_of, worded
from fuzz.languages import datalog, datalog_answers, edit, edn_reader, lisp_reader, parinfer

LONGEST = 8192
"""Maximum number of bytes for a target, because what fails with many also fails with fewer."""


def lines(data):
    """Check that lines do not depend on how the bytes are split, and that a line beyond the limit is rejected."""
    whole, cut = splits(data)

    def fed(parts):
        decoder, found = LineDecoder(max_line_bytes=50), []
        try:
            for part in parts:
                found += decoder.feed(part)
        except LineTooLongError as error:
            assert error.line_bytes > error.limit_bytes == 50
            return None
        return found

    expected = [line.removesuffix(b"\r") for line in whole.split(b"\n")[:-1]]
    is_long = any(len(line) > 50 for line in whole.split(b"\n"))
    for parts in ([whole], cut):
        assert fed(parts) == (None if is_long else [line for line in expected if line.strip()])


def relay_lines(data):
    """Check that the relay's lines consist of all bytes unchanged, and that each ends at its newline."""
    whole, cut = splits(data)
    framer, found = LineBuffer(), []
    for part in cut:
        found += framer.feed(part)
    assert b"".join([*found, *framer.rest]) == whole
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in found)


def relay_survey(data):
    """Check that the relay's quick scan of a line agrees with a complete parse."""
    line = data.partition(b"\n")[0] + b"\n"
    found = classify_line(line)
    assert found.line == line
    try:
        value = json.loads(line, object_pairs_hook=list)
    except (ValueError, RecursionError):
        return  # the server answers it with an error without an id, whatever it seems to be
    # A list of pairs is an object here, or a list of lists of two, which begins otherwise.
    is_object = line.lstrip()[:1] == b"{"
    if is_object and len({name for name, _ in value}) < len(value):
        return  # JSON does not define which of two equal names counts
    if is_object and isinstance(dict(value).get("id"), float):
        return  # MCP has no such ids
    whole, quick = parse_message(line), scan_line(line)
    if quick is not None:
        assert (quick.is_request, quick.is_response) == (whole.is_request, whole.is_response), line
        if quick.is_request or quick.is_response:
            assert quick.key == whole.key, line


def bencode(data):
    """Check that values and errors do not depend on how the bytes are split, and that values survive a round trip."""
    whole, cut = splits(data)

    def fed(parts):
        decoder, found = Decoder(max_depth=20, max_string_bytes=1000), []
        try:
            for part in parts:
                found += decoder.feed(part)
        except BencodeError as error:
            return [*found, *error.decoded], True
        return found, False

    found = fed([whole])
    assert found == fed(cut)
    for value in found[0]:
        assert Decoder().feed(encode(value)) == [value]


def nrepl_message(data):
    """Check that every field of a bencode value can be accessed as a message, or that the value is rejected."""
    decoder = Decoder(max_depth=20, max_string_bytes=1000)
    try:
        values = decoder.feed(data)
    except BencodeError as error:
        values = error.decoded
    for value in values:
        try:
            found = connection.parse_message(value)
        except connection.NotAMessageError:
            assert not isinstance(value, dict)
            continue
        assert found.is_done in (True, False)
        assert found.is_failed in (True, False)
        for given in found.fields.values():
            untrusted.text_or_none(given)
            untrusted.int_or_none(given)
            untrusted.mapping_or_empty(given)
            untrusted.list_or_empty(given)


def door(data):
    """Check that a verdict never changes when more bytes are received, and that no line of HTTP is admitted."""
    verdicts = [classify_first_bytes(data[:size]) for size in range(min(len(data), 200) + 1)]
    decided = [verdict for verdict in verdicts if verdict != "wait"]
    assert len(set(decided)) <= 1
    if re.match(rb"[\t\r\n ]*[!#$%&'*+.^_`|~0-9A-Za-z-]+ [^\r\n ]+ HTTP/[0-9]\.[0-9]\r\n", data[:200]):
        assert "json" not in verdicts


def transit(data):
    """Check that the readable part of a history survives a round trip, or that the file is rejected."""
    try:
        check_version(data)
        entries = list(EntryDecoder([data]).decode_entries())
    except (UnreadableError, NewerFormatError) as error:
        assert str(error)
        return
    again = EntryDecoder(encode_file(entries))
    assert [_whole(entry) for entry in again.decode_entries()] == [_whole(entry) for entry in entries]
    assert not again.broken


def _whole(entry):
    """Return an entry as a file can store it, with a marker for each lone surrogate."""
    return {
        name: re.sub("[\ud800-\udfff]", "\ufffd", value) if isinstance(value, str) else value
        for name, value in entry.to_json().items()
    }


def history(data):
    """Check that a history starts whatever its files contain, assigns new line numbers, and stores what is added."""
    kind, content = data[:1], data[1:]
    names = ("", ".lines", ".tmp")
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        path = Path(folder) / "eval-history.transit.json"
        name = names[kind[0] % len(names) if kind else 0]
        path.with_name(path.name + name).write_bytes(content)
        item = History(path)
        loaded = item.load()
        line = loaded.next_line
        assert line > max((entry.line for entry in loaded.entities), default=0)
        item.add(Entry(line, "evaluatedCode", "(+ 1 2)", 0))
        item.close()
        again = History(path).load()
        newer = loaded.report is not None and "is left unchanged" in loaded.report
        assert newer or "(+ 1 2)" in [entry.text for entry in again.entities]
        assert newer or again.next_line > line


def settings(data):
    """Check that settings survive being printed and read again, or that the error names the file.

    The text of an environment variable follows a zero byte.
    """
    content, _, variable = data.partition(b"\x00")
    environ = {"CODRIVER_REPL": text_of(variable)} if variable else {}
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        file = Path(folder) / "codriver.toml"
        file.write_bytes(content)
        try:
            found = load_workspace_settings(Path(folder), environ=environ)
        except SettingsError as error:
            assert "codriver.toml" in str(error) or "CODRIVER_REPL" in str(error)
            return
        assert set(found.origins) == set(type(found.settings).model_fields)
        file.unlink()
        # As the user's own file, in which everything counts.
        own = Path(folder) / "config" / "codriver" / "codriver.toml"
        own.parent.mkdir(parents=True)
        own.write_text("".join(f"{name} = {value}\n" for name, value, _ in setting_rows(found)), encoding="utf-8")
        with patch.dict(os.environ, {"XDG_CONFIG_HOME": str(Path(folder) / "config")}):
            again = load_workspace_settings(Path(folder), environ={})
        assert again.settings == found.settings
        assert {origin.layer for origin in again.origins.values()} == {"user"}


def record(data):
    """Check that a server's record is either usable or rejected."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        (Path(folder) / "server.json").write_bytes(data)
        found = read_record(Path(folder))
    if found is not None:
        assert found.pid > 0
        assert 0 < found.port < 65536
        assert isinstance(found.host, str)
        assert isinstance(found.started_at, int)


def client_file(data):
    """Check that setting a member of a client's file changes nothing else, and that removing it restores the file."""
    text = text_of(data)
    try:
        root = jsonc.parse_jsonc(text)
    except jsonc.FileFormatError as error:
        assert error.line >= 1
        return
    if root is None:
        return
    path = ("mcpServers", "codriver-fuzzed")
    try:
        changed = jsonc.set_member(text, path, {"command": "x"})
    except jsonc.FileFormatError:
        return
    after = jsonc.parse_jsonc(changed)
    holder = after.member("mcpServers").node
    assert holder.member("codriver-fuzzed").node.value == {"command": "x"}
    without = jsonc.parse_jsonc(jsonc.remove_member(changed, path))
    before = {member.key: member.node.value for member in root.members}
    kept = {member.key: member.node.value for member in without.members}
    assert {key: value for key, value in kept.items() if key in before} == before


def redacted(data):
    """Check that a text without secrets is unchanged, and that redacting does not depend on how a text is split."""
    whole, cut = splits(data)
    whole, cut = text_of(whole), [text_of(part) for part in cut]
    if "".join(cut) != whole:
        return  # cut within a character
    redactor = redaction.Redactor.from_environment({"SOME_TOKEN": "abababab", "OTHER_KEY": "babababac"})
    text, stream = redactor(whole), redactor.new_stream_redactor()
    assert "abababab" not in text
    assert "ababab" in whole or text == whole
    assert "".join([*map(stream.feed, cut), stream.flush()]) == text


class _Nothing:
    """A client session that records the lines in its outbox, and does nothing with calls."""

    max_open_requests = 10
    handshake_version = "2025-11-25"
    sends_envelopes = False

    def __init__(self):
        self.outbox, self.lines, self.open_requests = self, [], PendingRequests()
        self.replies = Replies(self)

    def put(self, line):
        self.lines.append(line)

    def limit_violation(self, size):
        """Return None, because no limit applies."""

    def cancel(self, identity):
        """Do nothing, because nothing that could be cancelled is running."""


def client_line(data):
    """Check that a client's line is either a message or answered with a one-line error, but never both."""
    line = data.replace(b"\n", b" ")
    if not line.strip():
        return
    session = _Nothing()
    stream = MessageStream(
        session,
        None,
        max_line_bytes=10_000,
        plain=session,
        open_sdk_channel=None,
        threads=FairThreads(1),
        line_budget=LineBudget(2**20),
        drain_s=5,
    )
    behind = SdkConnection(None, session, session, redact=None)
    whole = stream._without_lone_surrogates(line)
    message = None if whole is None else behind.read(whole)
    behind.discard_messages()
    assert (message is not None) + len(session.lines) <= 1
    for answer in session.lines:
        assert answer.count(b"\n") == 1
        assert json.loads(answer)["error"]["code"] in (-32700, -32600, -32602)


def arguments(data):
    """Check that a tool's model accepts or rejects arguments, and raises nothing else."""
    try:
        given = json.loads(data[1:])
    except (ValueError, RecursionError):
        return
    if not isinstance(given, dict) or not data:
        return
    from pydantic import ValidationError  # noqa: PLC0415  # beside its one use

    tool = MANIFEST[data[0] % len(MANIFEST)]
    try:
        tool.arguments.model_validate(given)
    except (ValidationError, RefusedError):
        return


OF_JUPYTER, OF_EXPORT = (), ()
if "jupyter" in NAMES:
    from fuzz.sessions import kernel_content, kernel_file, kernel_message, notebook, zmtp

    OF_JUPYTER = (zmtp, kernel_content, notebook, kernel_message, kernel_file)
if "export" in NAMES:
    from fuzz.exported import python_session, recording

    OF_EXPORT = (recording, python_session)

TARGETS = {
    target.__name__: worded(target)
    for target in (
        lines, relay_lines, relay_survey, bencode, nrepl_message, door, edn_reader, datalog,
        datalog_answers, lisp_reader, parinfer,
        edit, transit, history, settings, record, client_file, redacted, client_line, arguments,
        *OF_JUPYTER, *OF_EXPORT,
    )
}  # fmt: skip
