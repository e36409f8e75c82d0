"""The pages of packages that are useful on their own: they are short, and their examples work."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

SERVER = Path(__file__).parents[2] / "server"
PAGES = sorted([*SERVER.glob("codriver/*/README.md"), *SERVER.glob("codriver_*/README.md")])


def test_each_independently_useful_package_has_a_page():
    assert [page.parent.name for page in PAGES] == ["editing", "wire", "codriver_datalog", "codriver_lisp"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_each_package_page_is_short_and_its_example_works(page):
    assert len(page.read_text("utf-8").splitlines()) <= 40
    example = re.search(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)[1]
    done = doctest.DocTestRunner().run(doctest.DocTestParser().get_doctest(example, {}, page.parent.name, str(page), 0))
    assert done.attempted > 1
    assert done.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_each_entry_point_named_by_a_package_page_exists(page):
    rows = [line.split("|")[1] for line in page.read_text("utf-8").splitlines() if line.startswith("| `")]
    assert len(rows) >= 3
    for module, *path in [name.split(".") for row in rows for name in re.findall(r"`([\w.]+)", row)]:
        package = ".".join(page.parent.relative_to(SERVER).parts)
        there = importlib.import_module(f"{package}.{module}")
        for name in path:
            there = getattr(there, name)
