"""The needs of tests: what may not be installed is skipped, and told, in one way."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
OTHER_WAYS = re.compile(r"importorskip\(|(pytest\.skip|skipif|pytest\.fail)\([^\n]*install")


def test_what_is_not_installed_is_done_without_by_the_one_helper():
    for path in TESTS.rglob("*.py"):
        is_installed = {"node_modules", ".venv", "out"} & set(path.relative_to(TESTS).parts)
        if path.name not in ("needs.py", Path(__file__).name) and not is_installed:
            found = OTHER_WAYS.search(path.read_text())
            assert found is None, f"{path.relative_to(TESTS)}: {found and found[0]}: see tests/support/needs.py"
