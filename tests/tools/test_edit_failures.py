"""An edit whose tests fail displays the code that raised, as a run of tests does, but not the edited code."""

import pytest
from live_server import serving

SHOP = '''\
"""A shop."""

RATE = 20


def net(item):
    return item["price"] - item.get("discount", 0)


def gross(item):
    return net(item) * (100 + RATE) // 100


def label(item):
    if "price" not in item:
        raise ValueError(f"no price: {sorted(item)}")
    return f"{item['name']}: {gross(item)}"
'''
TESTS = """\
from shop import gross, label


def test_gross():
    assert gross({"price": 100}) == 120


def test_label():
    assert label({"name": "tea", "price": 100}) == "tea: 120"
"""


@pytest.fixture
def live(tmp_path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "shop.py").write_text(SHOP)
    (tmp_path / "workspace" / "test_shop.py").write_text(TESTS)
    with serving(tmp_path, "--repl", "python") as running:
        yield running


def edit(client, *edits, **act):
    texts = [{"filePath": "shop.py", "oldText": old, "newText": new} for old, new in edits]
    return client.call("edit_files", edits=texts, load=True, test=["test_shop.py"], **act)


def test_code_that_raised_is_displayed_with_its_lines_in_the_restored_file(live, client):
    longer = ('"""A shop."""\n', '"""A shop.\n\nIt sells tea.\n"""\n')
    wrong = ("    return net(item) * (100 + RATE) // 100\n", "    return net({})\n")
    answer = edit(client, longer, wrong, onFailure="restore")
    assert (live.workspace / "shop.py").read_text() == SHOP
    (row,) = answer["results"]
    assert row["alike"] == ["::test_label"]
    assert row["source"].splitlines() == [
        "shop.py:7 in net",
        "def net(item):",
        '>   return item["price"] - item.get("discount", 0)',
    ]


def test_code_of_a_kept_edit_is_displayed_with_its_current_line_numbers(client):
    longer = ('"""A shop."""\n', '"""A shop.\n\nIt sells tea.\n"""\n')
    wrong = ("    return net(item) * (100 + RATE) // 100\n", "    return net({})\n")
    (row,) = edit(client, longer, wrong)["results"]
    assert row["source"].splitlines()[:2] == ["shop.py:10 in net", "def net(item):"]


def test_code_that_the_edit_itself_changed_is_not_displayed_again(client):
    (row,) = edit(client, ('item["price"] -', 'item["cost"] -'))["results"]
    assert "KeyError" in row["message"]
    assert "source" not in row


def test_a_test_that_failed_before_an_edit_is_described_only_if_its_message_changed(client):
    edit(client, ("RATE = 20", "RATE = 25"))
    same = edit(client, ("RATE = 25", "RATE = 25  # percent"), onFailure="restore")
    assert (same["tests"]["failed"], "results" in same) == (2, False)
    assert "had already failed before it" in same["kept"]
    other = edit(client, ("RATE = 25", "RATE = 30"), onFailure="restore")
    assert "had already failed before it" in other["kept"]
    assert [row["message"].partition("\n")[0] for row in other["results"]][:1] == ["assert 130 == 120"]
