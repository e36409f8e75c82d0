"""The program that runs the tests of a Python REPL: by pytest where its interpreter has it, else by `unittest`.

It is sent as text and runs in the project's interpreter, so it uses the standard library, and the project's own pytest
where that is installed. It gives JSON in the shape of `codriver.repls.nrepl.responses.tests_of`.

pytest runs files. Test modules and `conftest.py` are imported anew for each run, so an edit counts as soon as it is
saved; what they import is what is loaded, so the code under test is the live one. After the run the REPL has its own
modules, paths and streams again. Tests that are in no file, and all of them without pytest, are run by `unittest`:
classes of it, and plain functions named `test…`. What a session of hy-nrepl defines is in a module that no table knows:
it is found among all objects, by the session's id.
"""

from __future__ import annotations

import json
from typing import Final

_COMMON: Final = """
import contextlib, fnmatch, gc, importlib, importlib.util, inspect, io, json, os, sys, traceback, unittest

try:
    import pytest
except ImportError:
    pytest = None
if not hasattr(pytest, "version_tuple"):
    # Before version 7 its hooks were others.
    pytest = None
TEXT, OUTPUT, ROWS = 4000, 50000, 2000


HY_SESSION = "hy-nrepl-session-"


def shown(module):
    return "user" if module == "__main__" else "Hy" if module.startswith(HY_SESSION) else module


def home_of(session):
    name, module = HY_SESSION + session, type(sys)
    found = [one for one in gc.get_objects() if type(one) is module] if session else []
    return next((one for one in found if vars(one).get("__name__") == name), None)


def file_of(module):
    file = getattr(module, "__file__", None)
    return os.path.realpath(file) if isinstance(file, str) and os.path.isfile(file) else None


def own(file):
    return bool(file) and file.startswith(os.path.realpath(os.getcwd()) + os.sep) and "site-packages" not in file


def is_test(name, value, module):
    if getattr(value, "__module__", None) != module.__name__:
        return False
    if isinstance(value, type):
        return issubclass(value, unittest.TestCase) or name.startswith("Test")
    return inspect.isfunction(value) and name.startswith("test")
"""

_UNITTEST: Final = """

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


def tests_of(module):
    for name, value in sorted(vars(module).items()):
        if not is_test(name, value, module):
            continue
        if isinstance(value, type):
            if issubclass(value, unittest.TestCase):
                for case in unittest.defaultTestLoader.loadTestsFromTestCase(value):
                    yield name + "." + case._testMethodName, name, case
            continue
        parameters = inspect.signature(value).parameters.values()
        if any(p.default is p.empty for p in parameters) or inspect.iscoroutinefunction(value):
            how = "save it, as pytest runs files" if pytest else "install pytest 7 or later in this REPL's environment"
            print(f"not run: {module.__name__}.{name} takes arguments or is async; {how}")
        else:
            yield name, name, unittest.FunctionTestCase(value)


def by_unittest(modules, wanted):
    seen, suite = set(), unittest.TestSuite()
    for module in modules:
        for full, short, case in tests_of(module):
            if (not wanted or wanted in (full, short)) and (module.__name__, full) not in seen:
                seen.add((module.__name__, full))
                suite.addTest(case)
    recorder = Recorder()
    suite.run(recorder)
    return len(seen), recorder.rows
"""

_PYTEST: Final = """

ELSEWHERE = (("xdist", "--numprocesses=0"), ("pytest_cov", "--no-cov"), ("timeout", "--timeout-method=signal"))
wrapper = pytest.hookimpl(hookwrapper=True) if pytest else staticmethod


class Plugin:
    def __init__(self, names, wanted):
        self.names = names
        self.wanted = wanted.replace("::", ".")
        self.rows, self.seen, self.output = [], set(), []
        self.saved, self.errors = {}, {}
        self.broken, self.is_known, self.is_stopped = None, False, False

    def take(self, patterns):
        # pytest would use what is loaded; a test file that was edited must be read again.
        for name, module in list(sys.modules.items()):
            file = file_of(module)
            if own(file) and name != "__main__":
                base = os.path.splitext(os.path.basename(file))[0] + ".py"
                if any(fnmatch.fnmatch(base, pattern.rpartition("/")[2]) for pattern in patterns):
                    self.saved[name] = sys.modules.pop(name)

    def put_back(self):
        for name in [name for name, module in list(sys.modules.items()) if name.rpartition(".")[2] == "conftest"]:
            if own(file_of(sys.modules[name])):
                del sys.modules[name]
        for name, module in self.saved.items():
            sys.modules[name] = module
            parent, _, child = name.rpartition(".")
            if parent in sys.modules:
                setattr(sys.modules[parent], child, module)

    @wrapper
    def pytest_load_initial_conftests(self, early_config, args):
        # Plugins that would run the tests in other processes, trace this one, or end it after a time.
        for plugin, option in ELSEWHERE:
            if early_config.pluginmanager.has_plugin(plugin):
                args[:] = [*args, option]
        early_config.known_args_namespace.no_cov = True
        yield

    def pytest_configure(self, config):
        self.take(config.getini("python_files"))

    def pytest_collect_file(self, file_path, parent):
        if file_path.suffix == ".hy" and os.path.realpath(str(file_path)) in self.names:
            return pytest.Module.from_parent(parent, path=file_path)

    def pytest_collection_modifyitems(self, config, items):
        if self.wanted:
            kept = [item for item in items if self.is_wanted(full_name(item))]
            config.hook.pytest_deselected(items=[item for item in items if item not in kept])
            self.is_known = bool(kept)
            items[:] = kept

    def is_wanted(self, name):
        plain = name.partition("[")[0]
        return self.wanted in (name, plain) or plain.startswith(self.wanted + ".")

    def pytest_keyboard_interrupt(self, excinfo):
        self.is_stopped = issubclass(excinfo.type, KeyboardInterrupt)

    def pytest_exception_interact(self, node, call, report):
        if not isinstance(node, pytest.Item) and call.excinfo is not None:
            self.broken = call.excinfo.value.__cause__ or call.excinfo.value

    def pytest_collectreport(self, report):
        if not report.passed:
            file = os.path.realpath(report.nodeid.partition("::")[0])
            skipped = report.skipped and isinstance(report.longrepr, tuple)
            self.rows.append({
                "test": "(collection)", "ns": self.names.get(file, report.nodeid), "file": file,
                "outcome": "pass" if report.skipped else "error",
                "message": report.longrepr[2] if skipped else None,
                "actual": None if report.skipped else str(report.longrepr)[-TEXT:],
            })

    def pytest_runtest_makereport(self, item, call):
        self.errors[item.nodeid, call.when] = (item, call.excinfo)

    def pytest_runtest_logreport(self, report):
        # Plugins that run a test again tell of its parts when all of them are over.
        known = (report.nodeid, report.when)
        if known not in self.errors or report.outcome == "rerun":
            return
        item, error = self.errors[known]
        self.seen.add(report.nodeid)
        expected = getattr(report, "wasxfail", None)
        if report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            words = "skipped: " + reason.replace("Skipped: ", "", 1)
            self.row(item, "pass", "failed as expected" if expected is not None else words)
        elif report.failed:
            wrong = error is None or issubclass(error.type, (AssertionError, pytest.fail.Exception))
            words = getattr(report, "sub_test_description", str)() if report.when == "call" else "in its " + report.when
            self.row(item, "fail" if wrong and report.when == "call" else "error", words or None, error, report)
        elif report.when == "call":
            self.row(item, "pass", None if expected is None else "was expected to fail and passed")

    def row(self, item, outcome, message, error=None, report=None):
        path, line, _ = item.reportinfo()
        file = os.path.realpath(str(path))
        row = {
            "test": full_name(item), "ns": self.names.get(file) or file, "outcome": outcome,
            "message": message, "file": file, "line": None if line is None else line + 1,
        }
        if report is not None:
            row["actual"] = (words_of(error) if error else str(report.longrepr))[:TEXT]
            for frame in traceback.extract_tb(error.tb) if error else ():
                if os.path.realpath(frame.filename) == file:
                    row["line"] = frame.lineno
            for title, text in report.sections:
                if title.endswith(report.when):
                    self.output.append(f"--- {row['test']}: {title} ---\\n{text[-TEXT:].rstrip()}\\n")
        self.rows.append(row)


def words_of(error):
    shown = getattr(error.value, "formatrepr", None)
    return getattr(shown and shown(), "errorstring", None) or error.exconly()


def full_name(item):
    names = []
    while item is not None and not isinstance(item, pytest.File):
        names.insert(0, item.name)
        item = item.parent
    return ".".join(names)


def options(files):
    # What the project's settings say holds, but for what would take the output or the process.
    given = ["--capture=sys", "-p", "no:faulthandler", "--continue-on-collection-errors"]
    given += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    # What pytest rewrites to explain a failure is Python's text, not Hy's.
    given += ["--assert=plain"] if any(file.endswith(".hy") for file in files) else []
    return [*given, *files]


def by_pytest(names, wanted, is_one):
    plugin, screen = Plugin(names, wanted), io.StringIO()
    path, is_silent = sys.path[:], sys.dont_write_bytecode
    importlib.invalidate_caches()
    # Cached code is told apart by size and second alone, and an edit may come sooner.
    sys.dont_write_bytecode = True
    try:
        plugin.take(["conftest.py"])
        with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen):
            status = pytest.main(options(names), plugins=[plugin])
    finally:
        sys.path[:], sys.dont_write_bytecode = path, is_silent
        plugin.put_back()
    print("".join(plugin.output)[-OUTPUT:], end="")
    if plugin.is_stopped:
        raise KeyboardInterrupt
    if status in (3, 4) and not plugin.rows:
        raise RuntimeError("pytest could not run:\\n" + screen.getvalue().strip()[-TEXT:])
    if status == 2:
        print(screen.getvalue().strip()[-TEXT:])
    if is_one and plugin.broken and not plugin.seen:
        raise plugin.broken
    if plugin.is_known and not plugin.seen:
        raise LookupError(f"the test {wanted} is there, and the project's settings of pytest deselect it")
    return len(plugin.seen), plugin.rows
"""

_ANSWER: Final = """

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


def chosen(ns, home):
    if home and ns in ("Hy", "__main__"):
        return {}, [home]
    if not ns:
        loaded = [one for _, one in sorted(sys.modules.items()) if isinstance(one, type(sys))]
        modules = [one for one in loaded if own(file_of(one)) or one.__name__ == "__main__"]
        modules += [home] if home else []
        modules = [one for one in modules if any(is_test(name, value, one) for name, value in list(vars(one).items()))]
        files = {file_of(one): shown(one.__name__) for one in modules if pytest and file_of(one)}
        return files, [one for one in modules if file_of(one) not in files]
    module = sys.modules.get(ns)
    file = file_of(module) if module else importlib.util.find_spec(ns).origin
    file = file and os.path.realpath(file)
    if pytest and own(file) and os.path.isfile(file):
        return {file: shown(ns)}, []
    return {}, [module or importlib.import_module(ns)]


def answer(ns, wanted, session=""):
    home = home_of(session)
    ns = "__main__" if ns == "user" else ns
    # Hy's names may be written with hyphens, Python's have none.
    name, bracket, parameters = wanted.partition("[")
    wanted = name.replace("-", "_") + bracket + parameters
    if ns and not (home and ns == "Hy") and not is_there(ns):
        return json.dumps({"missing": True})
    files, modules = chosen(ns, home)
    count, rows = by_pytest(files, wanted, bool(ns)) if files else (0, [])
    more, others = by_unittest(modules, wanted)
    if wanted and not count + more:
        raise LookupError(f"there is no test {wanted} in {shown(ns) or 'the loaded modules'}")
    worst = {"error": 0, "fail": 1, "pass": 2}
    results = sorted(rows + others, key=lambda row: worst[row["outcome"]])[:ROWS]
    return json.dumps({"tests": count + more, "results": results})
"""

_PROGRAM: Final = _COMMON + _UNITTEST + _PYTEST + _ANSWER

TEST: Final = f'(lambda space: exec({_PROGRAM!r}, space) or space["answer"]($ns, $name))({{"__name__": "tests"}})'
"""The expression; `$ns` and `$name` are string literals, empty for all."""

HY_TEST: Final = (
    f"((fn [space] (exec {json.dumps(_PROGRAM)} space)"
    ' (.loads (__import__ "json") ((get space "answer") (.replace $ns "-" "_") $name $session))) {"__name__" "tests"})'
)
"""The same in Hy, which runs the same program; its modules are imported and collected as Python's are.

`$session` is the id of the session whose definitions count too, a string literal.
"""
