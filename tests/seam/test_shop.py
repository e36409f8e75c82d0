"""A Flask shop with a background thread, inspected over the relay: an agent finds each of its bugs in a few calls."""

import json
import re
import shutil
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from live_server import serving, until
from shop_agent import COMPLAINTS
from web_application import application, environment

SHOP = Path(__file__).parent / "shop"
PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "seam.md").read_text()
SOURCE = (SHOP / "shop.py").read_text().splitlines()

MAX_CALLS = 6
KEY = "live-key-of-the-shop"
FOUND = {
    "nothing_is_shipped_any_more": ("        area = session.get(", "'gus'", "thread orders"),
    "tea_gets_cheaper_by_and_by": ('@seam.handler("event", "order/place")', "TEN", "360 -> 324"),
    "the_sales_are_slow": ("        return jsonify([[row.number", "7 times SELECT customers"),
}
"""By complaint, the beginning of the line of the shop that is at fault, and words that say why."""


def order(shop, **arguments):
    return json.loads(shop.get("/orders", json.dumps({"product": "mug", "count": 1, **arguments})))["number"]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Return the shop after its users bought something, one with a coupon and the last one without an address."""
    environment()
    with serving(tmp_path_factory.mktemp("shop"), "--repl", "none") as live:
        shutil.copy(SHOP / "shop.py", live.workspace)
        words = ["flask", "--app", "shop", "run", "--debug", "--port", "PORT"]
        with live.relay() as client, application(live, client, *words) as shop:
            numbers = [order(shop, customer=name) for name in ("ada", "bob", "cy", "dan", "eve", "flo")]
            numbers.append(order(shop, customer="ada", product="tea", coupon="TEN"))
            last = order(shop, customer="gus")
            for number in numbers:
                until(lambda number=number: "shipped" in shop.get(f"/orders/{number}"), "what was ordered to be sent")
            until(lambda: "new" in shop.get(f"/orders/{last}"), "the last order to be taken")
            shop.get("/sales")
            until(lambda: "inspect_app" in client.tools(), "the application to show itself")
            until(lambda: "thread=" in str(client.call("inspect_app", what="issues")), "the thread to die")
            yield shop


def of_page(name):
    return re.search(rf"<!-- {name} -->\n```\w+\n(.*?)```\n<!-- /{name} -->", PAGE, re.DOTALL)[1]


def test_the_documentation_page_contains_the_seam_code_of_the_shop():
    assert of_page("shop-app") in "\n".join(SOURCE)


def without_numbers(line):
    """Return a line without the words that vary."""
    return re.sub(r"(?<=[ =])d?[\d.:]+(e-\d+)?(ms)?(?=[ ,)]|$)|(?<=_internal.py:)\d+", "#", f" {line.strip()}")


def test_the_session_in_the_documentation_matches_the_answers_an_agent_gets(shop):
    requests = [line for line in of_page("shop-session").splitlines() if line and not line.startswith('"')]
    lines, read, dispatch = [], [], None
    for line in requests:
        if line.startswith("inspect_app"):
            arguments = json.loads(line.partition(" ")[2])
            if "dispatchId" in arguments.get("filter", {}):
                arguments["filter"]["dispatchId"] = dispatch
            lines = shop.client.call("inspect_app", **arguments)["lines"]
            dispatch = next((int(number) for reported in lines for number in re.findall(r" d(\d+) ", reported)), None)
            read += [line, *lines]
    assert [*map(without_numbers, read)] == [*map(without_numbers, requests)]


@pytest.mark.parametrize("search", COMPLAINTS)
def test_an_agent_finds_each_bug_in_six_calls_without_reading_source(shop, search):
    made = []

    def call(tool, **arguments):
        made.append(tool)
        answer = shop.client.call(tool, **arguments)
        assert answer["ok"], answer
        assert KEY not in json.dumps(answer)
        return answer

    output = search(call)
    line, *words = FOUND[search.__name__]
    number = next(number for number, text in enumerate(SOURCE, 1) if text.startswith(line))
    assert output.startswith(f"shop.py:{number}"), output
    assert [word for word in words if word not in output] == [], output
    assert len(made) <= MAX_CALLS
    assert set(made) <= {"inspect_app", "change_app"}


def test_a_failing_request_ends_the_wait_of_another_client_with_its_location(shop):
    watched = shop.client.call("watch_app", topic="error")
    with shop.live.client(name="other") as other:
        waiting = other.begin_call("wait_for", query=watched["query"], since=watched["since"], timeoutMs=60_000)
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"http://127.0.0.1:{shop.port}/orders/999")
        answer = json.loads(other.answer(waiting)["result"]["content"][0]["text"])
    number = next(number for number, text in enumerate(SOURCE, 1) if 'state["orders"][number]["status"])' in text)
    assert "error KeyError - /orders/999 " in str(answer["result"])
    assert f" at=shop.py:{number}" in str(answer["result"])
    assert shop.client.call("watch_app", stop=watched["subId"])["existed"]
