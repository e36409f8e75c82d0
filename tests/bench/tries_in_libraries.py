"""How often the right one of three drawn fixes is kept by `try_code`, in functions of real libraries.

`python tests/bench/tries_in_libraries.py [--cases N] [--seed N] [NAME…]` installs the libraries by pip into a temporary
environment, copies each into a workspace, and draws by the seed: a function with examples in its docstring, and a
change of its syntax tree with which they fail. That is the bug, loaded in the live REPL. The candidates are the
function as it was and two more changes of the same kind, in an order that is drawn too; the test runs the examples.

`drawn_bugs.py` does so with the libraries' own tests, in methods and decorated functions too.
"""

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parents[2] / "server"))

from live_server import serving, until

LIBRARIES = {"boltons": "boltons", "more-itertools": "more_itertools", "toolz": "toolz", "networkx": "networkx"}
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
TEST = """import doctest, importlib


def test_examples():
    module = importlib.import_module({module!r})
    function = module.{name}
    finder = doctest.DocTestFinder(recurse=False)
    runner = doctest.DocTestRunner(verbose=False)
    for examples in finder.find(function, {name!r}, module=module):
        runner.run(examples, out=lambda _: None)
    assert runner.summarize(verbose=False).attempted
    assert not runner.failures
"""


def places(function):
    """The nodes of a function that can be changed, without its docstring."""
    body = function.body[1:]
    for statement in body:
        for node in ast.walk(statement):
            operator = getattr(node, "op", None) or (node.ops[0] if isinstance(node, ast.Compare) else None)
            is_number = isinstance(node, ast.Constant) and type(node.value) is int
            if type(operator) in OPERATORS or is_number or (isinstance(node, ast.Return) and node.value is not None):
                yield node


def changed(node):
    """Change a node."""
    if isinstance(node, ast.Compare):
        node.ops[0] = OPERATORS[type(node.ops[0])]()
    elif isinstance(node, ast.Constant):
        node.value += 1
    elif isinstance(node, ast.Return):
        node.value = ast.Constant(None)
    else:
        node.op = OPERATORS[type(node.op)]()


def variants(function, draw):
    """The function's text with one change each, in an order that is drawn."""
    count = len(list(places(function)))
    for place in draw.sample(range(count), count):
        other = copy.deepcopy(function)
        changed(list(places(other))[place])
        yield ast.unparse(other)


def functions(package, draw):
    """Functions at the top of modules that have examples, with their files, in an order that is drawn."""
    found = []
    for file in sorted(package.rglob("*.py")):
        if "tests" in file.parts or (file.name.startswith("_") and file.name != "__init__.py"):
            continue
        try:
            tree = ast.parse(file.read_text("utf-8"))
        except SyntaxError:
            continue
        own = [node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.decorator_list]
        found += [
            (file, node) for node in own if ">>> " in (ast.get_docstring(node) or "") and len(list(places(node))) > 2
        ]
    return draw.sample(found, len(found))


class Case:
    """One bug in a live REPL."""

    def __init__(self, client, workspace, file, function):
        self.client, self.workspace, self.file = client, workspace, file
        self.name, self.text = function.name, file.read_text("utf-8")
        self.module = ".".join(file.relative_to(workspace).with_suffix("").parts)
        self.own = ast.unparse(function)

    def edit(self, code):
        return {
            "type": "replace_def",
            "filePath": str(self.file.relative_to(self.workspace)),
            "name": self.name,
            "code": code,
        }

    def passes(self):
        """Whether the examples pass in the REPL."""
        return self.client.call("run_tests", namespace="test_examples.py", again=False, load=False)["ok"]

    def does(self, code):
        """Write and load a text of the function."""
        return self.client.call("edit_files", edits=[self.edit(code)], load=True)["ok"]

    def begin(self):
        """Have the module loaded, and the test be there."""
        (self.workspace / "test_examples.py").write_text(TEST.format(module=self.module, name=self.name))
        loaded = self.client.call("evaluate_code", code=f"import importlib; importlib.import_module({self.module!r})")
        return loaded["ok"] and self.does(self.own) and self.passes()

    def put_back(self):
        self.file.write_text(self.text, "utf-8")
        self.client.call("load_file", filePath=str(self.file.relative_to(self.workspace)))


def kept_right(case, function, draw):
    """Whether the right one of three is kept; None where no such bug and no such candidates are drawn."""
    wrong = [text for text in variants(function, draw) if text != case.own]
    bug = next((text for text in wrong[:6] if case.does(text) and not case.passes()), None)
    if bug is None:
        return None
    others = []
    for text in [one for one in wrong if one != bug][:6]:
        tried = case.client.call(
            "try_code", candidates=[{"label": "a", "edits": [case.edit(text)]}], test=["test_examples.py"]
        )
        if tried["ok"] and tried["candidates"][0]["outcome"] == "failed":
            others.append(text)
        if len(others) == 2:
            break
    if len(others) < 2:
        return None
    texts = draw.sample([case.own, *others], 3)
    labels = ["one", "two", "three"]
    given = [{"label": label, "edits": [case.edit(text)]} for label, text in zip(labels, texts, strict=True)]
    answer = case.client.call("try_code", candidates=given, test=["test_examples.py"], keep="first-green")
    return answer.get("kept") == labels[texts.index(case.own)] and case.passes()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(LIBRARIES))
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--seed", type=int, default=20261125)
    asked = parser.parse_args()
    drawn, right = in_examples(asked)
    sys.stdout.write(f"{right} of {drawn}\n")
    return 0 if right == drawn == asked.cases else 1


def in_examples(asked):
    """How many bugs were drawn in functions with examples, and for how many the right one was kept."""
    draw, right, drawn = random.Random(asked.seed), 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "env", with_pip=True)
        python = folder / "env/bin/python"
        subprocess.run([python, "-m", "pip", "install", "-q", "pytest", *asked.names], check=True)
        (site,) = (folder / "env/lib").glob("python*/site-packages")
        os.environ["PATH"] = f"{folder / 'env/bin'}{os.pathsep}{os.environ['PATH']}"
        workspace = folder / "live" / "workspace"
        workspace.mkdir(parents=True)
        packages = [shutil.copytree(site / LIBRARIES[one], workspace / LIBRARIES[one]) for one in asked.names]
        with serving(folder / "live", "--repl", "python") as live, live.client() as client:
            until(lambda: "try_code" in client.tools(), "the REPL's tools")
            found = [functions(Path(one), draw) for one in packages]
            while drawn < asked.cases and any(found):
                for of_one in [one for one in found if one]:
                    if drawn == asked.cases:
                        break
                    file, function = of_one.pop()
                    case = Case(client, workspace, file, function)
                    try:
                        how = kept_right(case, function, draw) if case.begin() else None
                    finally:
                        case.put_back()
                    if how is not None:
                        drawn, right = drawn + 1, right + how
                        sys.stdout.write(f"{case.module}.{case.name}: {'kept' if how else 'NOT KEPT'}\n")
                        sys.stdout.flush()
    return drawn, right


if __name__ == "__main__":
    sys.exit(main())
