"""Programs that are sent to REPLs: whole files in their languages, with every placeholder filled in."""

import ast
import re
import subprocess
from pathlib import Path

import needs
import pytest

from codriver.repls import dialects, programs
from codriver.repls.dialects.removal import REMOVAL_PROGRAMS
from codriver.repls.dialects.server_dialect import Dialect
from codriver.repls.worker.basics.plain_values import SECRET_NAME_PATTERN
from codriver_lisp.reader import read_forms, top_level_forms

PLACE = Path(programs.__file__).parent
LISP = sorted(path for path in PLACE.rglob("*") if path.suffix in (".clj", ".cljc", ".cljs", ".lpy"))
PYTHON = sorted(path for path in PLACE.glob("*/*.py") if path.stem != "__init__")
HOLES = re.compile(
    r"(?<![\w\"/.$])(?:ARGUMENTS|BODY|CLASS|FORM|HAS|KNOWN|LOWER|MEANT|NAME|RESOLVED|SESSION|TEXTS|VALUE)(?![\w\"])"
)
ALL = [var for var in vars(dialects).values() if isinstance(var, Dialect)]


def name_of(path):
    return str(path.relative_to(PLACE))


def test_checking_for_a_program_does_not_generate_its_code():
    of_tests = programs.Programs({"test": programs.GeneratedCode(lambda: pytest.fail("nobody asked for its text"))})
    assert "test" in of_tests
    assert "source" not in of_tests


@pytest.mark.parametrize("path", LISP, ids=name_of)
def test_a_lisp_program_file_contains_one_form_after_a_comment(path):
    text = path.read_text("utf-8")
    reading = read_forms(text)
    assert reading.imbalance is None
    assert len(top_level_forms(text, reading)) == 1
    assert text.startswith(";; ")
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize("dialect", ALL, ids=lambda dialect: dialect.name)
def test_sent_programs_have_no_placeholders_and_no_comments(dialect):
    sent = [*dialect.expressions.values(), *map(str, dialect.fixes)]
    sent += [str(item) for item in (dialect.printer, dialect.file_evaluator, dialect.facts) if item]
    assert [HOLES.findall(code) for code in sent if HOLES.search(code)] == []
    if dialect.name not in ("python", "hy"):
        assert [code for code in sent if re.search(r"^\s*;", code, re.MULTILINE)] == []


def test_queries_with_different_arguments_use_the_same_function():
    item, other = (dialects.BASILISP.program_code("source", ns="shop", name=name) for name in ("price", "$ns"))
    (form,) = {re.search(r'"form-\w+"', code)[0] for code in (item, other)}
    assert other == item.replace('"price"', '"$ns"')
    assert HOLES.search(item) is None
    assert form in item


@pytest.mark.parametrize("name", REMOVAL_PROGRAMS)
def test_programs_that_remove_a_name_contain_no_unfilled_placeholder(name):
    assert not HOLES.search(str(REMOVAL_PROGRAMS[name]))


def test_every_program_file_is_used_by_a_module():
    needs.every_feature()
    source = "".join(path.read_text("utf-8") for path in PLACE.parents[1].rglob("*.py"))
    assert [name_of(path) for path in [*LISP, *PYTHON] if f'"{name_of(path)}"' not in source] == []


def modules_of(path, before=()):
    """Return a Python module with those that it imports from its directory, each after those that it needs."""
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            before = modules_of(path.parent / f"{node.module}.py", before)
    return before if path in before else (*before, path)


@pytest.mark.parametrize("path", PYTHON, ids=name_of)
def test_combined_python_programs_parse_on_the_oldest_version_without_duplicate_names(path):
    parts = modules_of(path)
    text = programs.join_python_modules(*map(name_of, parts))
    tree = ast.parse(text, feature_version=(3, 8))
    defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    assert len(defined) == len(set(defined)), "two of a name would be one, as all are in one namespace"
    assert not any(isinstance(node, ast.ImportFrom) and node.level for node in tree.body)


def test_clojure_and_the_worker_recognize_the_same_secret_names():
    (form,) = re.findall(r'"\(\?i\)"((?:\s+"[^"]*")+)', (PLACE / "clojure/call_texts.clj").read_text("utf-8"))
    assert "".join(re.findall(r'"([^"]*)"', form)) == SECRET_NAME_PATTERN.pattern


def test_clj_kondo_finds_no_error_in_any_file():
    kondo = needs.program("clj-kondo", install="see its page of installations", is_expected=False)
    rules = "{:linters {:unresolved-symbol {:level :off} :unresolved-namespace {:level :off}}}"
    text = subprocess.run(
        [kondo, "--lint", *map(str, LISP), "--config", rules, "--fail-level", "error"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert text.returncode == 0, text.stdout
