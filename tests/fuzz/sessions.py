"""Notebooks, and what kernels send and leave in files, as targets."""

# ruff: noqa: PT017  # to be refused in good order is one of two good ends

import json
import struct
from itertools import accumulate
from pathlib import Path
from unittest.mock import patch

from codriver.errors import RefusedError
from codriver.features.jupyter.kernels import content_reader, server_frames
from codriver.features.jupyter.kernels import zmtp as zmtp_wire
from codriver.features.jupyter.kernels.cell_outputs import CellOutputs
from codriver.features.jupyter.kernels.connection_files import NotebookServer, read_connection_file, read_server_file
from codriver.features.jupyter.kernels.kernel_failures import failure_from_error, format_report, parse_error
from codriver.features.jupyter.kernels.kernel_queries import read_completions, read_symbol
from codriver.features.jupyter.kernels.messages import parse_message
from codriver.features.jupyter.kernels.python_programs import answer_data, parse_printed_json
from codriver.features.jupyter.kernels.server_sessions import NotebookServerError, read_sessions
from codriver.features.jupyter.kernels.signed_messages import Assembler, Signer
from codriver.features.jupyter.kernels.zmtp import GREETING, ready_command
from codriver.features.jupyter.notebook_files import parse_notebook, replace_outputs
from codriver.repls.contract.adapter import EvaluationFailedError
from codriver.repls.contract.queries import Complete, Lookup
from fuzz.drawing import splits, text_of

FILE = Path("file.json")
PRINTED = {"output_type": "stream", "name": "stdout", "text": "a\nb\u2028c\ud800"}


def zmtp(data):
    """Check that a kernel's bytes give the same messages or error however they are split, and store no more bytes."""
    whole, cut = splits(data)
    greeted = GREETING + ready_command("ROUTER")

    def fed(parts):
        decoder, assembler, found = zmtp_wire.Decoder(), Assembler(Signer(b"", "")), []
        try:
            for part in (greeted, *parts):
                found += filter(None, map(assembler.add, decoder.feed(part)))
        except zmtp_wire.ZmtpError:
            return None
        assert sum(message.size_bytes for message in found) <= len(whole)
        joined = [(item.header, item.parent, item.metadata, *map(b"".join, (item.head, item.tail)), item.omitted_bytes)
                  for item in found]  # fmt: skip
        return joined, assembler.unsigned

    assert fed([whole]) == fed(cut)


def kernel_content(data):
    """Check that a content is read as the object that Python reads, at once or in turns, or is rejected."""
    with patch.object(content_reader, "MAX_SHORT_BYTES", 4), patch.object(content_reader, "CHUNK_BYTES", 24):
        work = content_reader.parse_content(data, "\ufdd0")
        try:
            while True:
                next(work)
        except StopIteration as done:
            assert done.value == json.loads(data.decode(errors="replace"))
        except content_reader.UnreadableContentError as error:
            assert error.cause


def notebook(data):
    """Check that a cell of a notebook can receive outputs without other changes, or that the file is rejected."""
    try:
        found = parse_notebook(data, "a.ipynb")
    except RefusedError as error:
        assert "a.ipynb" in str(error)
        return
    text = data.decode()
    for cell in found.cells[:3]:
        assert found.cell(str(cell.index)) in found.cells
        changed = replace_outputs(data, "a.ipynb", cell.index, [PRINTED], 7).decode()
        again = parse_notebook(changed.encode(), "a.ipynb").cells[cell.index]
        assert again.execution_count == 7
        assert again.outputs == ("stream",)
        stored = json.loads(changed.removeprefix("\ufeff"))["cells"][cell.index]["outputs"]
        assert ["".join(item["text"]) for item in stored] == [PRINTED["text"]]
        before, after = (_without(version, cell.index) for version in (text, changed))
        assert before == after


def _without(text, index):
    """Return the notebook without the outputs of the cell, as text, because NaN does not equal itself."""
    whole = json.loads(text.removeprefix("\ufeff"))
    for name in ("outputs", "execution_count"):
        whole["cells"][index].pop(name, None)
    return repr(whole)


def _framed(segments):
    """Return a valid frame of these segments, with correct sizes."""
    start = server_frames.OFFSET_BYTES * (len(segments) + 2)
    offsets = list(accumulate(map(len, segments), initial=start))
    return struct.pack(f"<{1 + len(offsets)}Q", len(offsets), *offsets) + b"".join(segments)


def kernel_message(data):
    """Check that every reader accepts a message, which is unchanged when sent again, or that the frame is rejected."""
    whole = b'{"channel": "iopub", "header": {}, "content": ' + data + b"}"
    framed = _framed([b"iopub", b"{}", b"{}", b"{}", *data.split(b"\x00")])
    for read, given in (
        (server_frames.decode, data),
        (server_frames.decode, framed),
        (server_frames.decode_legacy, data),
        (server_frames.decode_legacy, text_of(data)),
        (server_frames.decode_legacy, text_of(whole)),
    ):
        try:
            frame = read(given)
        except server_frames.FrameError as error:
            assert error.cause
            continue
        raw = {name: getattr(frame, name) for name in (*server_frames.PART_NAMES, "buffers")}
        again = server_frames.decode_legacy(server_frames.encode_text(frame))
        assert repr(dict(again.content)) == repr(dict(frame.content))
        for kind in ("stream", "execute_result", "display_data", "update_display_data", "error", "clear_output"):
            message = parse_message("iopub", {**raw, "header": {"msg_type": kind}})
            outputs = CellOutputs(1000)
            outputs.receive(message)
            json.dumps(outputs.run().outputs)
        _read_content(message)


def _read_content(message):
    """Read the content of replies."""
    reported = parse_error(message.content)
    for language in ("python", "bash", "javascript"):
        assert format_report(failure_from_error(reported, language=language, cell=1), language=language)
    for completion in Complete("ab").read({"completions": read_completions("ab", message.content)}):
        assert completion.candidate.lower().startswith("ab")
    Lookup("a.b").read(read_symbol("a.b", message.text("text")))
    try:
        answer_data("a question", parse_printed_json("a question", message.content))
    except EvaluationFailedError as error:
        assert str(error)


def kernel_file(data):
    """Check that a Jupyter file names a kernel or a server, and a server's answer its sessions, or is rejected."""
    for read in (read_connection_file, read_server_file):
        try:
            read(FILE, data)
        except ValueError as error:
            assert str(error).startswith(("the file does not contain a JSON object", "the file has no valid "))
    try:
        for session in read_sessions(NotebookServer(FILE, "http://127.0.0.1:1/", Path("/work"), 1), data):
            assert session.path.is_absolute()
    except NotebookServerError as error:
        assert "something other than a list" in str(error)
