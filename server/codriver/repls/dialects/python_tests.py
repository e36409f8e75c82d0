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

from codriver.repls.dialects.fresh_tests import FRESH
from codriver.repls.dialects.pytest_program import PYTEST

_COMMON: Final = """
import contextlib, fnmatch, gc, importlib, importlib.util, inspect, io, json, os, signal, sys, time, traceback, unittest

try:
    import pytest
except ImportError:
    pytest = None
if not hasattr(pytest, "version_tuple"):
    # Before version 7 its hooks were others.
    pytest = None
TEXT, OUTPUT, ROWS, TIMES, FRAMES = 4000, 50000, 2000, 20000, 40

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


def beneath(file):
    # As a node id has it.
    return os.path.relpath(file).replace(os.sep, "/") if own(file) else file


@contextlib.contextmanager
def in_folder(folder):
    # Evaluated code may have gone to another folder, or a test may: what is looked for there is not the project's.
    try:
        before = os.getcwd()
    except OSError:
        before = folder
    if folder and not os.path.isdir(folder):
        raise FileNotFoundError(f"the REPL's folder {folder} is gone")
    if folder:
        os.chdir(folder)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.chdir(before or ".")


def be_deaf():
    # Who interrupts goes on until all is over, and what passed is yet to be told; the worker hears again afterwards.
    if getattr(signal.getsignal(signal.SIGINT), "__name__", "") == "_on_signal":
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def frames_of(frames):
    run_by = [os.sep + name + os.sep for name in ("_pytest", "pluggy", "unittest")]
    told = [
        {"file": one.filename, "line": one.lineno, "function": one.name}
        for one in reversed(frames)
        if one.name != "_on_signal" and not any(name in one.filename for name in run_by)
    ]
    return told if len(told) <= FRAMES else told[:FRAMES // 2] + told[-FRAMES // 2:]


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
        self.times = []
        self.running = None

    def startTest(self, test):
        super().startTest(test)
        self.running, self.began = test, time.perf_counter()

    def stopTest(self, test):
        super().stopTest(test)
        name, module, _ = self.place(test)
        self.times.append([module, name, time.perf_counter() - self.began])

    def place(self, test):
        function = inspect.unwrap(getattr(test, "_testFunc", None) or getattr(type(test), test._testMethodName))
        owner = "" if hasattr(test, "_testFunc") else type(test).__qualname__ + "."
        return owner + function.__name__, shown(function.__module__), getattr(function, "__code__", None)

    def row(self, test, outcome, error=None, message=None, skipped=False):
        name, module, code = self.place(test)
        row = {
            "test": name, "ns": module, "outcome": outcome, "skipped": skipped,
            "message": message, "file": code and code.co_filename, "line": code and code.co_firstlineno,
        }
        if error:
            kind, value, trace = error
            row["actual"] = "".join(traceback.format_exception_only(kind, value)).strip()
            frames = traceback.extract_tb(trace)
            row["frames"] = frames_of(frames)
            for frame in frames:
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
            self.row(test, "pass", message="skipped: " + reason, skipped=True)

    def addExpectedFailure(self, test, error):
        self.row(test, "pass", message="failed as expected", skipped=True)

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


def by_unittest(modules, wanted, words, only):
    seen, suite = set(), unittest.TestSuite()
    for module in modules:
        for full, short, case in tests_of(module):
            home = shown(module.__name__)
            is_meant = [home, full] in only if only else not wanted or wanted in (full, short)
            if is_meant and matches(words, home + "/" + full) and (module.__name__, full) not in seen:
                seen.add((module.__name__, full))
                suite.addTest(case)
    recorder = Recorder()
    try:
        suite.run(recorder)
    except KeyboardInterrupt as error:
        be_deaf()
        if recorder.running is None:
            raise
        recorder.row(recorder.running, "error", (type(error), error, error.__traceback__))
        return len(seen), recorder.times, recorder.rows[:-1], recorder.rows[-1]
    return len(seen), recorder.times, recorder.rows, None


def matches(words, text):
    text = text.lower()
    return not words or any(all((one.lstrip("!") in text) != one.startswith("!") for one in every) for every in words)
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


def chosen(ns, home, only):
    # What pytest is given, the names that files have, the files it is given beside, and modules that are no files.
    if home and ns in ("Hy", "__main__"):
        return [], {}, [], [home]
    if not ns and only:
        files, names, modules = [], {}, []
        for name in dict.fromkeys(one for one, _ in only):
            if not is_path(name) and not is_there(name):
                continue
            more = chosen("__main__" if name == "user" else name, home, ())
            files += more[0]
            names.update(more[1])
            modules += more[3]
        return files, names, [], modules
    if not ns:
        loaded = [one for _, one in sorted(sys.modules.items()) if isinstance(one, type(sys))]
        modules = [one for one in loaded if own(file_of(one)) or one.__name__ == "__main__"]
        modules += [home] if home else []
        modules = [one for one in modules if any(is_test(name, value, one) for name, value in list(vars(one).items()))]
        names = {file_of(one): shown(one.__name__) for one in modules if pytest and file_of(one)}
        return [], names, list(names), [one for one in modules if file_of(one) not in names]
    if pytest and is_path(ns):
        return [ns], {}, [], []
    module = sys.modules.get(ns)
    file = file_of(module) if module else importlib.util.find_spec(ns).origin
    file = file and os.path.realpath(file)
    if pytest and own(file) and os.path.isfile(file):
        if os.path.basename(file) == "__init__.py":
            return [os.path.dirname(file)], {}, [], []
        return [file], {file: shown(ns)}, [], []
    return [], {}, [], [module or importlib.import_module(ns)]


def is_path(ns):
    folder = os.path.isdir(ns) and not os.path.isfile(os.path.join(ns, "__init__.py"))
    return folder or os.path.isfile(ns) or (os.path.isdir(ns) and "/" in ns)


def answer(ns, wanted, match, words, only, session="", root=""):
    with in_folder(root):
        return answer_here(ns, wanted, match, words, only, session)


def answer_here(ns, wanted, match, words, only, session):
    home = home_of(session)
    ns, _, node = ns.partition("::")
    if node:
        wanted = node
    if session and not is_path(ns):
        ns = ns.replace("-", "_")
    ns = "__main__" if ns == "user" else ns.rstrip("/")
    # Hy's names may be written with hyphens, Python's have none.
    name, bracket, parameters = wanted.partition("[")
    wanted = name.replace("-", "_") + bracket + parameters
    if ns and not (home and ns == "Hy") and not is_path(ns) and not is_there(ns):
        return json.dumps({"missing": True})
    if is_path(ns) and not pytest:
        raise LookupError("files need pytest 7 or later in this REPL's environment; give a module as namespace")
    targets, names, extra, modules = chosen(ns, home, only)
    count, times, rows, stopped = 0, [], [], None
    if pytest and (targets or not (ns or only)):
        count, times, rows, stopped = by_pytest(targets, names, extra, wanted, match, only, bool(ns))
    if modules and not stopped:
        if match and not words:
            raise ValueError(f"{match!r} is for pytest; write match here as: word and not other or word")
        more, others_times, others, stopped = by_unittest(modules, wanted, words, only)
        count, times, rows = count + more, times + others_times, rows + others
    if wanted and not count and not stopped:
        raise LookupError(f"there is no test {wanted} in {shown(ns) or 'the loaded modules'}")
    worst = {"error": 0, "fail": 1, "pass": 2}
    results = sorted(rows, key=lambda row: worst[row["outcome"]])[:ROWS]
    for row in results[FRAMES:]:
        row.pop("frames", None)
    return json.dumps({"tests": count, "times": times[:TIMES], "results": results, "stopped": stopped})
"""

_PROGRAM: Final = _COMMON + _UNITTEST + PYTEST + _ANSWER

_TEST: Final = (
    '[space["answer"]($ns, $name, $match, $words, $only, root=$root)\n'
    ' for space in [{"__name__": "tests"}]\n'
    f" for _ in [exec(\n{_PROGRAM!r}\n, space)]][0]"
)
"""The expression; `$ns`, `$name` and `$match` are string literals, empty for all; `$only` lists namespaces with tests.

`$root` is the folder to run in, empty for the one that the REPL is in.

The program stands on a line of its own, on which no call begins, as tracebacks and stacks show the line of what calls.

`$words` is `$match` as alternatives of words that all must hold, an exclamation mark before what must not.
"""

_TEST_HY: Final = (
    '(get (lfor\n space [{"__name__" "tests"}]\n'
    f" _ [(exec {json.dumps(_PROGRAM)} space)]\n"
    ' (.loads (__import__ "json") ((get space "answer") $ns $name $match $words $only $session :root $root))) 0)'
)
"""The expression in Hy, which runs the same program; its modules are imported and collected as Python's are.

`$session` is the id of the session whose definitions count too, a string literal.
"""

_TEST_FRESH: Final = (
    '[space["run_anew"](program, $root, $ns, $name, $match, $words, $only)\n'
    ' for space in [{"__name__": "tests"}]\n'
    f" for program in [{_PROGRAM!r}]\n"
    f" for _ in [exec(\n{FRESH!r}\n, space)]][0]"
)
"""The expression that runs the tests in a process of their own: the same program, and nothing of what is loaded."""

_TEST_FRESH_HY: Final = (
    '(get (lfor\n space [{"__name__" "tests"}]\n'
    f" _ [(exec {json.dumps(FRESH)} space)]\n"
    ' (.loads (__import__ "json") ((get space "run_anew")\n'
    f" {json.dumps(_PROGRAM)} $root $ns $name $match $words $only))) 0)"
)
"""The expression in Hy. What a session defines is not in a new process."""

ASK: Final = {"test": _TEST, "test-fresh": _TEST_FRESH}
ASK_HY: Final = {"test": _TEST_HY, "test-fresh": _TEST_FRESH_HY}
"""By capability, as `Dialect.ask` has it."""
