"""The pages of the pure rooms: short, and their examples give what they show."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOMS = Path(__file__).parents[2] / "server" / "codriver"
PAGES = sorted(ROOMS.glob("*/README.md"))


def test_each_room_that_others_may_want_by_itself_has_a_page():
    assert [page.parent.name for page in PAGES] == ["datalog", "editing", "lisp", "wire"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_a_page_is_read_in_a_minute_and_its_example_holds(page):
    assert len(page.read_text("utf-8").splitlines()) <= 40
    example = re.search(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)[1]
    done = doctest.DocTestRunner().run(doctest.DocTestParser().get_doctest(example, {}, page.parent.name, str(page), 0))
    assert done.attempted > 1
    assert done.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_each_entry_point_of_a_page_is_there(page):
    rows = [line.split("|")[1] for line in page.read_text("utf-8").splitlines() if line.startswith("| `")]
    assert len(rows) >= 3
    for module, *path in [name.split(".") for row in rows for name in re.findall(r"`([\w.]+)", row)]:
        there = importlib.import_module(f"codriver.{page.parent.name}.{module}")
        for name in path:
            there = getattr(there, name)
