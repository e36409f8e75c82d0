"""Requests to the page, judged: what it and its reader send comes in, and nothing that another site can send does."""

import pytest

from codriver.page.page_admission import Request, address_of, kind_of

PORT, TOKEN = 4321, "T" * 43
OWN = {"host": f"127.0.0.1:{PORT}", "sec-fetch-site": "same-origin"}
OPENED = {
    "host": f"127.0.0.1:{PORT}", "sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document",
}  # fmt: skip
CALL = {**OWN, "origin": address_of(PORT), "content-type": "application/json", "codriver-token": TOKEN}
FRAME = {**OWN, "sec-fetch-dest": "iframe"}


def kind(method, target, headers):
    return kind_of(Request(method, target, headers), PORT, TOKEN)


def test_the_page_its_parts_its_tables_and_its_calls_come_in():
    assert kind("GET", "/", OPENED) == "file"
    assert kind("GET", "/main.js", OWN) == "file"
    assert kind("GET", "/frame/abc", FRAME) == "frame"
    assert kind("POST", "/do/events", CALL) == "call"


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("host", "localhost:4321"),
        ("host", "rebound.example:4321"),
        ("host", "127.0.0.1:4322"),
        ("host", "127.0.0.1"),
        ("host", None),
        ("host", f"127.0.0.1:{PORT}, evil.example"),
        ("origin", "http://127.0.0.1:4322"),
        ("origin", f"http://localhost:{PORT}"),
        ("origin", f"https://127.0.0.1:{PORT}"),
        ("origin", "null"),
        ("origin", None),
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "none"),
        ("sec-fetch-site", None),
        ("content-type", "text/plain"),
        ("content-type", None),
        ("codriver-token", "t" * 43),
        ("codriver-token", ""),
        ("codriver-token", None),
        ("codriver-token", "T" * 42),
        ("upgrade", "websocket"),
    ],
)
def test_a_call_with_one_thing_wrong_is_refused(header, value):
    headers = {name: given for name, given in {**CALL, header: value}.items() if given is not None}
    assert kind("POST", "/do/get_evaluation", headers) == "refuse"


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "post", "patch"])
def test_a_call_by_another_method_is_refused(method):
    assert kind(method, "/do/get_evaluation", CALL) == "refuse"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": OWN["host"]},
        {**OPENED, "sec-fetch-site": "cross-site"},
        {**OPENED, "sec-fetch-site": "same-site"},
        {**OPENED, "sec-fetch-dest": "iframe"},
        {**OPENED, "sec-fetch-mode": "cors"},
        {**OPENED, "host": "evil.example"},
        {**OWN, "origin": "http://evil.example"},
        FRAME,
    ],
)
def test_the_bare_page_is_given_to_nobody_but_who_opens_its_address(headers):
    assert kind("GET", "/", headers) == "refuse"


def test_a_part_of_the_page_is_given_to_the_page_alone():
    assert kind("GET", "/main.js", {**OPENED}) == "refuse"
    assert kind("GET", "/main.js", {**OWN, "sec-fetch-site": "cross-site"}) == "refuse"
    assert kind("POST", "/main.js", OWN) == "refuse"


def test_a_table_is_given_to_a_frame_of_the_page_alone():
    for site, dest in (
        ("cross-site", "iframe"),
        ("same-origin", "document"),
        ("none", "document"),
        ("same-origin", ""),
    ):
        assert kind("GET", "/frame/abc", {**OWN, "sec-fetch-site": site, "sec-fetch-dest": dest}) == "refuse"


def test_no_empty_token_opens_anything():
    assert kind_of(Request("POST", "/do/events", {**CALL, "codriver-token": ""}), PORT, "") == "refuse"
