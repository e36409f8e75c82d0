"""The tests that the README's command leaves out because they take much processor time; `.ci/run` distributes them over
days.

`tests/weight.txt` lists them, one per line: the seconds of processor time that are saved, the path, and the name of
the test. `[*]` after a name leaves out all of its cases but one, so that the behaviour is still tested in each run.
`daily` at the end makes `.ci/run` run the test each time; every other test has one day in thirteen.

`CODRIVER_TESTS=weight` runs the whole list and nothing else, `CODRIVER_TESTS=weight:3` the daily tests and the third
share, `CODRIVER_TESTS=weight:0` only the daily tests. Naming a file, a test or a keyword runs everything it names.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from zlib import crc32

LIST = Path(__file__).parents[1] / "weight.txt"
ALL_BUT_ONE = "[*]"
SHARES = 12
"""Number of shares. `.ci/run` runs one a day; on each thirteenth day it has time for another Python."""


@dataclass(frozen=True)
class Entry:
    """One test function of the list, and the seconds saved by leaving it out."""

    path: str
    function: str
    seconds: float
    keeps_one: bool = False
    is_daily: bool = False


Listed = Mapping[tuple[str, str], Entry]
"""Entries by path and function."""


def parse(text: str) -> Listed:
    """Return the entries of a list."""
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            seconds, test, *more = line.split()
            path, function = test.split("::")
            name = function.removesuffix(ALL_BUT_ONE)
            found[path, name] = Entry(path, name, float(seconds), name != function, more == ["daily"])
    return found


@cache
def entries() -> Listed:
    """Return the entries of `tests/weight.txt`."""
    return parse(LIST.read_text(encoding="utf-8"))


def shares(listed: Iterable[Entry], number: int = SHARES) -> tuple[frozenset[str], ...]:
    """Divide the files of a list into shares of about the same duration: the longest file first, to the shortest
    share.
    """
    seconds: dict[str, float] = defaultdict(float)
    for entry in listed:
        if not entry.is_daily:
            seconds[entry.path] += entry.seconds
    filled = [0.0] * number
    paths: list[set[str]] = [set() for _ in range(number)]
    for path in sorted(seconds, key=lambda second: (-seconds[second], second)):
        least = filled.index(min(filled))
        filled[least] += seconds[path]
        paths[least].add(path)
    return tuple(map(frozenset, paths))


def requested() -> str | None:
    """Return which share of the list `CODRIVER_TESTS` requests: "" for all of it, None if it is left out."""
    kind, _, share = os.environ.get("CODRIVER_TESTS", "").partition(":")
    return share if kind == "weight" else None


def names_files(config) -> bool:
    """Return whether the command line names a file or a test, which then runs completely."""
    return any(".py" in argument for argument in config.args)


def heavy(items, path_of, listed: Listed) -> Iterator:
    """Yield each test of the list with its entry. Which case remains depends only on the name of the test."""
    groups = defaultdict(list)
    for item in items:
        entry = listed.get((path_of(item), getattr(item, "originalname", None) or item.name))
        if entry is not None:
            groups[entry].append(item)
    for entry, members in groups.items():
        stays = crc32(f"{entry.path}{entry.function}".encode()) % len(members) if entry.keeps_one else None
        yield from ((item, entry) for number, item in enumerate(members) if number != stays)


def omitted_tests(items, path_of, listed: Listed | None = None) -> set:
    """Return the tests that do not run: those of the list or, if they are requested, all others."""
    listed = entries() if listed is None else listed
    found = dict(heavy(items, path_of, listed))
    if requested() is None:
        return set(found)
    paths = _paths_of_share(listed)
    return {item for item in items if item not in found or not (found[item].is_daily or found[item].path in paths)}


def _paths_of_share(listed: Listed) -> frozenset[str]:
    """Return the files of the requested share, or of all shares."""
    share = requested()
    by_day = (frozenset(), *shares(listed.values()))
    return by_day[int(share)] if share else frozenset().union(*by_day)


def files_to_collect(listed: Listed | None = None) -> frozenset[str] | None:
    """Return the only files with tests to run, or None if all files may have some.

    A share needs less than half of the files, and each process would spend five seconds on collecting all of them.
    """
    if requested() is None:
        return None
    listed = entries() if listed is None else listed
    return _paths_of_share(listed) | {entry.path for entry in listed.values() if entry.is_daily}


def is_daily(item, path_of) -> bool:
    """Return whether a test of the list runs each time, and so before those for which there may be too little time."""
    entry = entries().get((path_of(item), getattr(item, "originalname", None) or item.name))
    return requested() is not None and entry is not None and entry.is_daily
