"""The program that runs the loaded tests of a Python REPL: `unittest` classes, and plain functions named `test…`.

It is sent as text and runs in the project's interpreter, so it uses the standard library alone. It gives JSON in the
shape of `codriver.repls.answers.tests_of`.
"""

from __future__ import annotations

from typing import Final

_PROGRAM: Final = """
import importlib, importlib.util, inspect, json, os, sys, traceback, unittest


def shown(module):
    return "user" if module == "__main__" else module


class Recorder(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.rows = []

    def row(self, test, outcome, error=None, message=None):
        function = inspect.unwrap(getattr(test, "_testFunc", None) or getattr(type(test), test._testMethodName))
        code = getattr(function, "__code__", None)
        owner = "" if hasattr(test, "_testFunc") else type(test).__qualname__ + "."
        row = {
            "test": owner + function.__name__, "ns": shown(function.__module__), "outcome": outcome,
            "message": message, "file": code and code.co_filename, "line": code and code.co_firstlineno,
        }
        if error:
            kind, value, trace = error
            row["actual"] = "".join(traceback.format_exception_only(kind, value)).strip()
            for frame in traceback.extract_tb(trace):
                if frame.filename == row["file"]:
                    row["line"] = frame.lineno
        self.rows.append(row)

    def addSuccess(self, test):
        self.row(test, "pass")

    def addFailure(self, test, error):
        self.row(test, "fail", error)

    def addError(self, test, error):
        self.row(test, "error", error) if hasattr(test, "_testMethodName") else self.rows.append({
            "test": str(test), "ns": "", "outcome": "error",
            "actual": "".join(traceback.format_exception_only(*error[:2])).strip(),
        })

    def addSkip(self, test, reason):
        if hasattr(test, "_testMethodName"):
            self.row(test, "pass", message="skipped: " + reason)

    def addExpectedFailure(self, test, error):
        self.row(test, "pass", message="failed as expected")

    def addUnexpectedSuccess(self, test):
        self.row(test, "fail", message="was expected to fail and passed")

    def addSubTest(self, test, subtest, error):
        if error is not None:
            wrong = issubclass(error[0], test.failureException)
            self.row(test, "fail" if wrong else "error", error, subtest._subDescription())


def own(module):
    file = getattr(module, "__file__", None) or ""
    return (file.startswith(os.getcwd() + os.sep) and "site-packages" not in file) or module.__name__ == "__main__"


def tests_of(module):
    for name, value in sorted(vars(module).items()):
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if isinstance(value, type) and issubclass(value, unittest.TestCase):
            for case in unittest.defaultTestLoader.loadTestsFromTestCase(value):
                yield name + "." + case._testMethodName, name, case
        elif inspect.isfunction(value) and name.startswith("test"):
            parameters = inspect.signature(value).parameters.values()
            if any(p.default is p.empty for p in parameters) or inspect.iscoroutinefunction(value):
                print(f"not run: {module.__name__}.{name} takes arguments or is async; run it with pytest in a shell")
            else:
                yield name, name, unittest.FunctionTestCase(value)


def is_there(ns):
    if ns in sys.modules:
        return True
    try:
        return importlib.util.find_spec(ns) is not None
    except ModuleNotFoundError as error:
        if (ns + ".").startswith((error.name or "?") + "."):
            return False
        raise
    except ValueError:
        return False


def answer(ns, wanted):
    ns = "__main__" if ns == "user" else ns
    if ns and not is_there(ns):
        return json.dumps({"missing": True})
    if ns:
        modules = [sys.modules.get(ns) or importlib.import_module(ns)]
    else:
        modules = [module for _, module in sorted(sys.modules.items()) if isinstance(module, type(sys)) and own(module)]
    seen, suite = set(), unittest.TestSuite()
    for module in modules:
        for full, short, case in tests_of(module):
            if (not wanted or wanted in (full, short)) and (module.__name__, full) not in seen:
                seen.add((module.__name__, full))
                suite.addTest(case)
    if wanted and not seen:
        raise LookupError(f"there is no test {wanted} in {shown(ns) or 'the loaded modules'}")
    recorder = Recorder()
    suite.run(recorder)
    worst = {"error": 0, "fail": 1, "pass": 2}
    rows = sorted(recorder.rows, key=lambda row: worst[row["outcome"]])[:2000]
    return json.dumps({"tests": len(seen), "results": rows})
"""

TEST: Final = f'(lambda space: exec({_PROGRAM!r}, space) or space["answer"]($ns, $name))({{"__name__": "tests"}})'
"""The expression; `$ns` and `$name` are string literals, empty for all."""
