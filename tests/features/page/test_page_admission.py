"""Requests to the page: those of the page and its reader are admitted, and nothing that another site can send."""

import pytest

from codriver.features.page.http_connection import Request
from codriver.features.page.page_admission import classify_request
from codriver.features.page.page_credentials import PageAccess

ACCESS = PageAccess()
ACCESS.random_host, ACCESS.token = f"{'5e' * 16}.localhost", "T" * 43
OTHER_LIFE = f"{'a7' * 16}.localhost"
HOST = f"{ACCESS.random_host}:4321"
ORIGIN = f"http://{HOST}"
OWN = {"host": HOST, "sec-fetch-site": "same-origin"}
PART = {**OWN, "sec-fetch-dest": "script"}
OPENED = {"host": HOST, "sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
POST = {**OWN, "origin": ORIGIN, "content-type": "application/json"}
CALL = {**POST, "codriver-token": ACCESS.token}
FRAME = {**OWN, "sec-fetch-dest": "iframe"}


def kind(method, target, headers, access=ACCESS):
    return classify_request(Request(method, target, headers), access)


def changed(headers, **others):
    given = {**headers, **{name.replace("_", "-"): value for name, value in others.items()}}
    return {name: value for name, value in given.items() if value is not None}


def test_requests_for_the_page_and_its_files_tables_and_calls_are_admitted():
    assert kind("GET", "/", OPENED) == "file"
    assert kind("GET", "/", changed(OPENED, sec_fetch_site="same-origin")) == "file"
    assert kind("GET", "/main.js", PART) == "file"
    assert kind("GET", "/style.css", changed(PART, sec_fetch_dest="style")) == "file"
    assert kind("GET", "/frame/abc", FRAME) == "frame"
    assert kind("POST", "/enter", POST) == "enter"
    assert kind("POST", "/prove", POST) == "prove"
    assert kind("POST", "/do/events", CALL) == "call"


@pytest.mark.parametrize("port", ["", ":80", ":9999", ":65535"])
def test_any_port_is_allowed_if_the_origin_has_the_same_port(port):
    host = f"{ACCESS.random_host}{port}"
    assert kind("POST", "/do/events", changed(CALL, host=host, origin=f"http://{host}")) == "call"
    assert kind("POST", "/do/events", changed(CALL, host=host)) == "refuse"


WRONG = [
    ("host", "localhost:4321"),
    ("host", "127.0.0.1:4321"),
    ("host", "[::1]:4321"),
    ("host", "rebound.example:4321"),
    ("host", OTHER_LIFE),
    ("host", f"x.{HOST}"),
    ("host", f"{ACCESS.random_host}.:4321"),
    ("host", f"{ACCESS.random_host}:4321:1"),
    ("host", f"{ACCESS.random_host}:x"),
    ("host", f"{ACCESS.random_host.upper()}:4321"),
    ("host", f"{HOST}, evil.example"),
    ("host", ""),
    ("host", None),
    ("origin", f"http://{ACCESS.random_host}:4322"),
    ("origin", f"http://{OTHER_LIFE}:4321"),
    ("origin", "http://127.0.0.1:4321"),
    ("origin", f"https://{HOST}"),
    ("origin", "null"),
    ("origin", None),
    ("sec-fetch-site", "same-site"),
    ("sec-fetch-site", "cross-site"),
    ("sec-fetch-site", "none"),
    ("sec-fetch-site", None),
    ("content-type", "text/plain"),
    ("content-type", None),
    ("upgrade", "websocket"),
    ("service-worker", "script"),
]


@pytest.mark.parametrize(("header", "value"), WRONG)
def test_a_post_with_one_wrong_header_is_refused(header, value):
    for target, headers in (("/do/get_evaluation", CALL), ("/enter", POST), ("/prove", POST)):
        assert kind("POST", target, changed(headers, **{header: value})) == "refuse"


@pytest.mark.parametrize("token", ["t" * 43, "", None, "T" * 42, "T" * 44])
def test_a_call_without_the_token_is_refused(token):
    assert kind("POST", "/do/get_evaluation", changed(CALL, codriver_token=token)) == "refuse"


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "post", "patch"])
def test_calls_with_methods_other_than_post_are_refused(method):
    for target in ("/do/get_evaluation", "/enter", "/prove"):
        assert kind(method, target, CALL) == "refuse"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": HOST},
        changed(OPENED, sec_fetch_site="same-site"),
        changed(OPENED, sec_fetch_site=None),
        changed(OPENED, sec_fetch_dest="iframe"),
        changed(OPENED, sec_fetch_mode="cors"),
        changed(OPENED, host="evil.example"),
        changed(OPENED, host=OTHER_LIFE),
        changed(OPENED, service_worker="script"),
        changed(OWN, origin="http://evil.example"),
        FRAME,
    ],
)
def test_the_page_itself_is_served_only_to_a_tab_opening_its_address(headers):
    assert kind("GET", "/", headers) == "refuse"


def test_a_link_or_a_file_can_open_the_page_only_by_its_own_host_name():
    access = PageAccess()
    access.issue_code("127.0.0.1", 0)
    from_elsewhere = changed(OPENED, sec_fetch_site="cross-site")
    assert kind("GET", "/", changed(from_elsewhere, host=access.random_host), access) == "file"
    assert kind("GET", "/", changed(from_elsewhere, host="127.0.0.1:4321"), access) == "refuse"
    assert kind("GET", "/", changed(OPENED, host="127.0.0.1:4321"), access) == "file"


def test_calls_with_a_numeric_host_are_admitted_only_after_a_code_was_issued_for_it():
    access, own = PageAccess(), {"host": "127.0.0.1:4321", "origin": "http://127.0.0.1:4321"}
    call = changed(CALL, **own, codriver_token=access.token)
    access.issue_code(access.random_host, 0)
    assert kind("POST", "/do/events", call, access) == "refuse"
    access.issue_code("127.0.0.1", 0)
    assert kind("POST", "/do/events", call, access) == "call"
    assert kind("POST", "/do/events", changed(call, origin="http://127.0.0.1:4322"), access) == "refuse"


@pytest.mark.parametrize("dest", ["serviceworker", "worker", "sharedworker", "document", "iframe", "empty", "", None])
def test_files_of_the_page_are_served_only_to_the_page_and_to_no_worker(dest):
    assert kind("GET", "/main.js", changed(PART, sec_fetch_dest=dest)) == "refuse"


def test_files_of_the_page_are_not_served_to_other_sites():
    assert kind("GET", "/main.js", OPENED) == "refuse"
    assert kind("GET", "/main.js", changed(PART, sec_fetch_site="cross-site")) == "refuse"
    assert kind("GET", "/main.js", changed(PART, service_worker="script")) == "refuse"
    assert kind("POST", "/main.js", PART) == "refuse"


@pytest.mark.parametrize(
    ("site", "dest"),
    [("cross-site", "iframe"), ("same-origin", "document"), ("none", "document"), ("same-origin", "")],
)
def test_a_table_is_served_only_to_a_frame_of_the_page(site, dest):
    assert kind("GET", "/frame/abc", changed(OWN, sec_fetch_site=site, sec_fetch_dest=dest)) == "refuse"


def test_an_empty_token_grants_nothing():
    access = PageAccess()
    access.token = ""
    headers = {"host": access.random_host, "origin": f"http://{access.random_host}", "codriver-token": ""}
    assert kind("POST", "/do/events", changed(CALL, **headers), access) == "refuse"
