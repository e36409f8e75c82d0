"""Tests in exported Python documents, run by pytest at the location of their file."""

import sys

import pytest
from accepted import accept
from python_projects import project

from codriver.features.export.documents.layout import DocumentBuilder
from codriver.features.export.fresh_runs import FreshRuns

pytestmark = pytest.mark.anyio

DOCUMENT = """import shop


def test_first():
    shop.seen.append(1)
    assert shop.seen == [1]


def test_second():
    assert shop.price() == 3
"""


def runs(folder, python=sys.executable, timeout_s=60):
    return FreshRuns(folder, "python", timeout_s, python=str(python), file=folder / "tests" / "test_shop.py")


async def failures(found, text=DOCUMENT):
    page = DocumentBuilder()
    page.write(text)
    return [
        (test_run.test, test_run.lines, test_run.error.partition("\n")[0])
        for test_run in await found.run_python_tests(page)
    ]


def write_shop(folder, price=3):
    (folder / "shop.py").write_text(f"seen = []\n\n\ndef price():\n    return {price}\n")


@pytest.mark.parametrize("has_pytest", [True, False])
async def test_each_failure_includes_its_test_and_line(tmp_path, has_pytest):
    place = project(tmp_path, has_pytest=has_pytest)
    write_shop(place, 4)
    found = await failures(runs(place, place / ".venv" / "bin" / "python"))
    ((name, lines, error),) = found
    assert (name, lines) == ("test_second", (10,))
    assert error == ("AssertionError: assert 4 == 3" if has_pytest else "AssertionError")
    assert not (place / "tests").exists()


async def test_the_conftest_of_a_trusted_project_is_used(tmp_path):
    write_shop(tmp_path)
    (tmp_path / "conftest.py").write_text("import shop\nshop.price = lambda: 5\n")
    assert await failures(runs(tmp_path)) == []
    accept(tmp_path)
    assert [name for name, _, _ in await failures(runs(tmp_path))] == ["test_second"]


async def test_tests_are_also_run_in_reverse_order(tmp_path):
    write_shop(tmp_path)
    text = DOCUMENT.replace("shop.price() == 3", "shop.seen")
    assert [name for name, _, _ in await failures(runs(tmp_path), text)] == ["test_second"]


async def test_an_endless_test_times_out(tmp_path):
    text = "import time\n\n\ndef test_endless():\n    time.sleep(600)\n"
    assert [error for _, _, error in await failures(runs(tmp_path, timeout_s=2), text)] == [
        "the test did not finish in time"
    ]


async def test_a_document_that_cannot_be_imported_fails_as_a_whole(tmp_path):
    assert [failure[:2] for failure in await failures(runs(tmp_path), "import os\n\nos.missing()\n")] == [("", (3,))]
