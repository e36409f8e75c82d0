"""`edit_files` in a project of Python: definitions are changed in the file, and only they are loaded."""

import pytest
from live_server import serving

SHOP = """\
from __future__ import annotations

import datetime

sold = 0


def rate(order: Missing) -> int:
    return 2


class Order:
    def total(self):
        return rate(self)
"""


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("live"), "--repl", "python") as running:
        yield running


@pytest.fixture
def shop(live, client, request):
    name = f"shop_{abs(hash(request.node.name))}"
    file = live.workspace / f"{name}.py"
    file.write_text(SHOP)
    assert client.call("load_file", filePath=str(file))["ok"]
    assert client.call("evaluate_code", code=f"import {name} as shop\nshop.sold = 7\norder = shop.Order()")["ok"]
    return file


def edit(client, file, *edits, **arguments):
    return client.call("edit_files", edits=[{"filePath": file.name, **one} for one in edits], detail=False, **arguments)


def evaluate(client, code):
    answer = client.call("evaluate_code", code=code)
    assert answer["ok"], answer
    return answer["result"]


RATE = {"type": "replace_def", "name": "rate", "code": "def rate(order: Missing) -> int:\n    return 3"}
HALF = {"type": "insert_def", "name": "Order", "side": "in", "code": "def half(self):\n    return self.total() / 2"}


def test_what_changed_is_loaded_and_what_the_module_holds_stays(live, client, shop):
    answer = edit(client, shop, RATE, HALF, load=True)
    assert answer["ok"], answer
    assert (
        shop.read_text()
        == SHOP.replace("return 2", "return 3") + "\n    def half(self):\n        return self.total() / 2\n"
    )
    assert evaluate(client, "shop.sold, order.total(), order.half(), shop.rate.__annotations__['order']") == (
        "(7, 3, 1.5, 'Missing')"
    )
    assert client.call("undo_edit")["ok"]
    assert shop.read_text() == SHOP


def test_a_comment_is_no_reason_to_run_anything(client, shop):
    answer = edit(
        client, shop, {**RATE, "code": "def rate(order: Missing) -> int:\n    # two\n    return 2"}, load=True
    )
    assert answer["files"][0]["notLoaded"] == "no code of it changed"


def test_what_is_taken_out_of_the_file_is_taken_out_of_the_module(client, shop):
    assert edit(client, shop, {"type": "replace_def", "name": "Order", "code": ""}, load=True)["ok"]
    assert evaluate(client, "hasattr(shop, 'Order'), shop.rate(1)") == "(False, 2)"


def test_a_refused_edit_names_what_there_is_and_touches_nothing(client, shop):
    refused = edit(client, shop, RATE, {**HALF, "name": "Ordr"}, load=True)
    assert refused["reason"] == "edits-refused"
    assert "there is no function or class Ordr; there is Order" in refused["message"]
    assert shop.read_text() == SHOP
    for wrong in (
        {**RATE, "newForm": "x"},
        {**HALF, "side": "below"},
        {"type": "insert_def", "side": "in", "code": "x"},
    ):
        assert edit(client, shop, wrong)["reason"] == "bad-arguments"
