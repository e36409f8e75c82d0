"""Messages of the Jupyter protocol, parsed from objects of any shape."""

import pytest

from codriver.features.jupyter.kernels.messages import parse_message


def test_a_message_has_the_fields_of_its_headers():
    raw = {
        "header": {"msg_id": "m1", "msg_type": "status", "session": "kernel"},
        "parent_header": {
            "msg_id": "p1", "msg_type": "execute_request", "session": "us", "subshell_id": "s",
        },
        "metadata": {"started": "now"},
        "content": {"execution_state": "busy"},
    }  # fmt: skip
    message = parse_message("iopub", raw)
    assert (message.socket, message.type, message.id, message.session) == ("iopub", "status", "m1", "kernel")
    assert (message.parent_id, message.parent_type, message.parent_session) == ("p1", "execute_request", "us")
    assert message.parent_subshell == "s"
    assert (message.state, message.metadata["started"]) == ("busy", "now")


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"header": None, "parent_header": None, "content": None, "metadata": None},
        {"header": {"msg_id": None, "msg_type": 3}, "parent_header": [], "content": "text"},
    ],
    ids=["nothing", "null", "other types"],
)
def test_a_message_without_header_or_content_has_empty_fields(raw):
    message = parse_message("shell", raw)
    assert (message.type, message.id, message.parent_id, message.state) == ("", "", "", "")
    assert dict(message.content) == {}


def test_only_a_status_message_has_a_state():
    raw = {"header": {"msg_type": "stream"}, "content": {"execution_state": "idle"}}
    assert parse_message("iopub", raw).state == ""
