"""What a try costs: three candidates, each an edit and two tests, in a REPL that holds 700 MB, and in an empty one.

Beside it: the same two tests, run in the REPL itself. Run with `python tests/bench/tries_bench.py [MEGABYTES]`.
"""

import json
import statistics
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from report import Report, timed_ms
from worker_client import Repl, texts

from codriver.repls.dialects import WORKER_PYTHON
from codriver.repls.dialects.server_dialect import program_of_tests

SHOP = "rate = 1\n\n\ndef price(n):\n    return n + rate\n"
TEST = "import shop\n\n\ndef test_price():\n    assert shop.price(4) == 8\n\n\ndef test_nothing():\n    assert 1\n"
BODIES = ("n * 2", "n + 4", "n - rate")
OBJECTS = "held = [{'number': n, 'text': str(n)} for n in range({})]"
OBJECTS_A_MB = 2700
WARM_MS, FIRST_MS = 250, 600


def candidates(folder):
    """Three edits of one file."""
    edited = [SHOP.replace("n + rate", body) for body in BODIES]
    files = [{"path": str(folder / "shop.py"), "data": text, "text": text, "lines": None} for text in edited]
    return [{"label": str(number), "files": [one], "code": ""} for number, one in enumerate(files)]


def attempt(repl):
    """Try them, and make sure that the first alone passes."""
    asked = {
        "candidates": candidates(repl.folder),
        "check": "",
        "program": program_of_tests(),
        "tests": [["test_shop.py", "", "", [], [], "", str(repl.folder)]],
        "folders": [str(repl.folder)],
        "wallMs": 60_000,
    }
    (told,) = texts(repl.ask("codriver/try", code=json.dumps(asked)), "value")
    ended = [set(one["ended"].values()) for one in json.loads(told)["told"]]
    assert ended == [{"pass"}, {"pass"}, {"pass", "fail"}] or ended[0] == {"pass"}, ended


def run_tests(repl):
    """The same tests in the REPL itself."""
    code = WORKER_PYTHON.expression(
        "test", ns="test_shop.py", name="", match="", words=[], only=(), root=str(repl.folder)
    )
    assert not texts(repl.evaluate(code), "ex")


def measure(report, megabytes=700):
    for size in (0, megabytes):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "shop.py").write_text(SHOP)
            (folder / "test_shop.py").write_text(TEST)
            with closing(Repl(folder)) as repl, repl.fresh_session():
                repl.evaluate("import shop")
                repl.evaluate(OBJECTS.replace("{}", str(size * OBJECTS_A_MB)))
                first = [timed_ms(lambda: attempt(repl))]
                run_tests(repl)
                rounds = report.rounds(5)
                own = [timed_ms(lambda: run_tests(repl)) for _ in range(rounds)]
                warm = [timed_ms(lambda: attempt(repl)) for _ in range(rounds)]
        title = f"three candidates, an edit and two tests each, in a REPL that holds {size} MB"
        rows = {"the tests in the REPL itself": own, "a try, after tests were run": warm, "the first try": first}
        report.table(title, "ms", rows, base="the tests in the REPL itself")
        report.fact(title, "a try, after tests were run", statistics.median(warm), "ms", at_most=WARM_MS)
        report.fact(title, "the first try", first[0], "ms", at_most=FIRST_MS)


if __name__ == "__main__":
    measure(Report(), *map(int, sys.argv[1:]))
