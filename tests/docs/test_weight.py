"""The list of slow tests, which the README's command leaves out and `.ci/run` distributes over days."""

from types import SimpleNamespace

import needs
from weight import LIST, SHARES, entries, files_to_collect, names_files, omitted_tests, parse, shares

SMALL = parse(
    "# a comment\n\n2.0 a/test_a.py::test_one\n9.0 b/test_b.py::test_two[*]\n3.0 b/test_b.py::test_all daily\n"
)
ITEMS = [
    SimpleNamespace(path=path, originalname=function, name=f"{function}[{case}]")
    for path, function, cases in (
        ("a/test_a.py", "test_one", "x"),
        ("a/test_a.py", "test_cheap", "x"),
        ("b/test_b.py", "test_two", "xyz"),
        ("b/test_b.py", "test_all", "x"),
    )
    for case in cases
]


def run(monkeypatch, requested):
    monkeypatch.setenv("CODRIVER_TESTS", requested)
    out = omitted_names(SMALL)
    return sorted(item.originalname for item in ITEMS if item.name not in out)


def omitted_names(listed):
    items = [Hashable(item) for item in ITEMS]
    return {item.name for item in omitted_tests(items, lambda item: item.path, listed)}


class Hashable:
    """A test as pytest represents it: equal only to itself."""

    def __init__(self, item):
        self.path, self.originalname, self.name = item.path, item.originalname, item.name


def test_the_quick_run_keeps_one_case_of_a_marked_test_and_omits_the_other_slow_tests(monkeypatch):
    assert run(monkeypatch, "") == ["test_cheap", "test_two"]


def test_the_daily_shares_together_run_every_slow_test_and_each_runs_the_daily_ones(monkeypatch):
    assert run(monkeypatch, "weight") == ["test_all", "test_one", "test_two", "test_two"]
    by_day = [run(monkeypatch, f"weight:{number + 1}") for number in range(SHARES)]
    assert all("test_all" in names for names in by_day)
    assert run(monkeypatch, "weight:0") == ["test_all"]
    assert sorted(name for names in by_day for name in names if name != "test_all") == ["test_one", *["test_two"] * 2]


def test_only_files_of_the_requested_share_and_of_daily_tests_are_collected(monkeypatch):
    for requested in ("weight", "weight:0", *(f"weight:{number + 1}" for number in range(SHARES))):
        ran = {item.path for item in ITEMS if item.originalname in run(monkeypatch, requested)}
        assert files_to_collect(SMALL) == ran
    monkeypatch.setenv("CODRIVER_TESTS", "")
    assert files_to_collect(SMALL) is None


def test_the_daily_shares_of_the_slow_tests_take_about_the_same_time():
    listed = entries().values()
    found = shares(listed)
    sums = [sum(entry.seconds for entry in listed if not entry.is_daily and entry.path in paths) for paths in found]
    largest = max(sum(entry.seconds for entry in listed if entry.path == item) for item in {e.path for e in listed})
    assert max(sums) - min(sums) <= largest
    assert sum(map(len, found)) == len({entry.path for entry in listed if not entry.is_daily})


def test_each_test_on_the_list_of_slow_tests_exists():
    needs.every_feature()
    texts = {path: (LIST.parent / path).read_text(encoding="utf-8") for path, _ in entries()}
    gone = [f"{path}::{name}" for path, name in entries() if f"def {name}(" not in texts[path]]
    assert gone == [], "renamed or deleted: change tests/weight.txt"


def test_slow_tests_of_an_explicitly_named_file_run():
    assert names_files(SimpleNamespace(args=["tests/features/page/test_page.py"]))
    assert not names_files(SimpleNamespace(args=["tests/features/page"]))
