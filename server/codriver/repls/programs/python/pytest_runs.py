"""Test runs by pytest: of the given files and folders, else as the project's settings say.

Test modules and `conftest.py` are imported anew for each run, so an edit counts as soon as it is saved; the modules
that they import stay as loaded. The REPL's own record of the project's functions, if there is one, gets the functions
that each test executes. After the run the REPL has its own modules, paths and streams again.
"""

from __future__ import annotations

import contextlib
import fnmatch
import importlib
import io
import os
import re
import sys
import traceback

from .run_values import OUTPUT, TEXT, SoFar, be_deaf, beneath, file_of, frames_of, is_project_file, pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import ModuleType
    from typing import Any

    from .run_values import Row

    Item = Any  # pytest's own objects, of any of its versions

    Error = Any

    Report = Any

    Outcome = tuple[int, list[list[object]], list[Row], "Row | None"]


TYPE_CHECKING = False

UNSUITABLE_PLUGINS = (("xdist", "--numprocesses=0"), ("pytest_cov", "--no-cov"), ("timeout", "--timeout-method=signal"))
NO_LISP = ["-p", "no:basilisp_test_runner"]
INTERNAL = "INTERNALERROR> "
COLLECTION = "(collection)"
"""In place of a test's name: a file that could not be collected, or all of its tests."""
LISP, WALKED = (".lpy", ".cljc"), 20000
SETTLED_NS = 10 * 10**9
"""The longest compilation: code compiled this long after its test file was written is of no former text."""
wrapper: Callable[..., Any] = pytest.hookimpl(hookwrapper=True) if pytest else staticmethod
early: Callable[..., Any] = pytest.hookimpl(tryfirst=True) if pytest else staticmethod


class Plugin:
    """A plugin of pytest for one run: the tests to run, and the rows of results."""

    def __init__(
        self, targets: list[str], names: dict[str, str], extra: list[str], selected: str, only: list[list[str]]
    ) -> None:
        self.names, self.extra, self.only = names, extra, only
        self.hy = {os.path.realpath(one) for one in (*targets, *names) if one.endswith(".hy")}
        self.selected = selected.replace("::", ".")
        self.running: Item = None
        self.stopped: Row | None = None
        self.rows: list[Row] = []
        self.seen: set[str] = set()
        self.broken: set[str] = set()
        self.output: list[str] = []
        self.times: dict[tuple[str, str], float] = {}
        self.saved: dict[str, ModuleType] = {}
        self.errors: dict[tuple[str, str], tuple[Item, Error]] = {}
        self.causes: dict[str, BaseException] = {}
        self.patterns: list[str] = []
        self.before, self.is_silent = set(sys.modules), sys.dont_write_bytecode
        self.so_far = SoFar(sys.stdout)
        self.is_known = self.is_stopped = False

    def tests(self, patterns: Iterable[str]) -> Iterator[str]:
        """The names of modules loaded from the project's test files."""
        matches = [re.compile(fnmatch.translate(pattern.rpartition("/")[2])).match for pattern in patterns]
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if not isinstance(file, str) or name == "__main__":
                continue
            base = os.path.splitext(os.path.basename(file))[0] + ".py"
            # Looking at the name takes a hundredth of the time for the file, and there are many modules.
            if any(match(base) for match in matches) and is_project_file(file_of(module)):
                yield name

    def add_patterns(self, patterns: list[str]) -> None:
        """Take test modules out, as pytest would use loaded ones, and an edited file must be read again."""
        self.patterns += patterns
        self.saved.update({name: sys.modules.pop(name) for name in self.tests(patterns)})

    def put_back(self) -> None:
        """Put the modules back. The next run finds the modules that only this one loaded by itself."""
        for name in self.tests(self.patterns):
            if name not in self.before or name.rpartition(".")[2] == "conftest":
                del sys.modules[name]
        for name, module in self.saved.items():
            sys.modules[name] = module
            parent, _, child = name.rpartition(".")
            if parent in sys.modules:
                setattr(sys.modules[parent], child, module)

    @wrapper
    def pytest_load_initial_conftests(self, early_config: Any, args: list[str]) -> Iterator[None]:
        """Turn off plugins that would run the tests in other processes, trace this process, or end it after a time."""
        for plugin, option in UNSUITABLE_PLUGINS:
            if early_config.pluginmanager.has_plugin(plugin):
                args[:] = [*args, option]
        early_config.known_args_namespace.no_cov = True
        # Cached code is told apart by size and second alone, and an edit may come sooner. Nobody edits plugins, and
        # some take longer to compile than a run may last.
        sys.dont_write_bytecode = True
        yield

    def pytest_configure(self, config: Any) -> None:
        """Take the test modules out, and add the files that are given beside pytest's own."""
        self.add_patterns(config.getini("python_files"))
        given = [*config.args, *self.extra]
        config.args[:] = [one for one in given if not self.is_left_out(config, one)] or given

    def is_left_out(self, config: Any, target: str) -> bool:
        """True for a file of a whole run that the project's settings exclude."""
        file = os.path.realpath(target)
        if [beneath(file), COLLECTION] not in self.only:
            return False
        root = os.path.realpath(str(getattr(config, "rootpath", None) or config.rootdir))
        paths = [os.path.realpath(os.path.join(root, one)) for one in config.getini("testpaths")]
        if any(map(os.path.isdir, paths)) and not any(f"{file}/".startswith(f"{one}/") for one in paths):
            return True
        parts = os.path.dirname(os.path.relpath(file, root)).split(os.sep)
        prefixes = ["/" + "/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        return any(
            fnmatch.fnmatch(one, "*/" + pattern.strip("/"))
            for one in prefixes
            for pattern in config.getini("norecursedirs")
        )

    def pytest_collect_file(self, file_path: Any, parent: Any) -> Any:
        """The module of a Hy file to run; None leaves the file to other plugins."""
        is_hy = os.path.realpath(str(file_path)) in self.hy
        return pytest.Module.from_parent(parent, path=file_path) if is_hy else None

    @early
    def pytest_collection_modifyitems(self, config: Any, items: list[Item]) -> None:
        """Keep only the wanted tests, each once."""
        # A file named beside its folder is collected twice.
        once = {item.nodeid: item for item in items}
        selected_items = [item for item in once.values() if self.is_selected(item)]
        config.hook.pytest_deselected(items=[item for item in once.values() if item not in selected_items])
        self.is_known = bool(selected_items)
        items[:] = selected_items
        self.so_far.of = len(selected_items)

    def is_selected(self, item: Item) -> bool:
        """True for a wanted test."""
        name = full_name(item)
        if self.only:
            return [self.home(item), name] in self.only or [self.home(item), COLLECTION] in self.only
        plain = name.partition("[")[0]
        return not self.selected or self.selected in (name, plain) or plain.startswith(self.selected + ".")

    def home(self, item: Item) -> str:
        """The namespace of a test: its module's name, else its file."""
        file = os.path.realpath(str(item.reportinfo()[0]))
        return self.names.get(file) or beneath(file)

    @early
    def pytest_sessionfinish(self) -> None:
        """Let bytecode be written again as before."""
        sys.dont_write_bytecode = self.is_silent

    @early
    def pytest_runtest_protocol(self, item: Item) -> None:
        """Note the running test."""
        self.running = item

    @early
    def pytest_keyboard_interrupt(self, excinfo: Error) -> None:
        """Note the place at which the run was stopped."""
        be_deaf()
        self.is_stopped = issubclass(excinfo.type, KeyboardInterrupt)
        if self.is_stopped and self.running is not None:
            self.stopped = self.location(self.running, excinfo.tb)

    def pytest_exception_interact(self, node: Any, call: Any, report: Report) -> None:
        """Note the reason why a file could not be collected."""
        if not isinstance(node, pytest.Item) and call.excinfo is not None:
            self.causes[report.nodeid] = call.excinfo.value.__cause__ or call.excinfo.value

    def pytest_collectreport(self, report: Report) -> None:
        """Add the row of a file that could not be collected, or was skipped."""
        if not report.passed:
            file = os.path.realpath(report.nodeid.partition("::")[0])
            skipped = report.skipped and isinstance(report.longrepr, tuple)
            cause = None if report.skipped else self.causes.get(report.nodeid)
            row: Row = {"actual": None if report.skipped else str(report.longrepr)[-TEXT:]}
            if cause:
                row = cause_of(cause, file)
            self.rows.append(
                {
                    "test": COLLECTION,
                    "ns": self.names.get(file, report.nodeid),
                    "file": file,
                    "outcome": "pass" if report.skipped else "error",
                    "how": "skipped" if report.skipped else "",
                    "message": report.longrepr[2] if skipped else None,
                    **row,
                }
            )

    def pytest_runtest_makereport(self, item: Item, call: Any) -> None:
        """Note the error of a part of a test."""
        self.errors[item.nodeid, call.when] = (item, call.excinfo)

    def pytest_runtest_logreport(self, report: Report) -> None:
        """Add the row of a part of a test. Plugins that rerun a test report its parts when all are over."""
        known = (report.nodeid, report.when)
        if known not in self.errors or report.outcome == "rerun":
            return
        item, error = self.errors[known]
        self.seen.add(report.nodeid)
        named = (self.home(item), full_name(item))
        self.times[named] = self.times.get(named, 0) + report.duration
        expected = getattr(report, "wasxfail", None)
        # A test of several parts counts once: only failed parts have rows. Pytest 9 has parts, before a plugin had
        # them.
        described = getattr(report, "_sub_test_description", getattr(report, "sub_test_description", None))
        if described is not None and report.failed:
            self.broken.add(report.nodeid)
        elif described is not None or (report.failed and error is None and report.nodeid in self.broken):
            return
        if report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            words = "skipped: " + reason.replace("Skipped: ", "", 1)
            is_expected = expected is not None
            words = "failed as expected" if is_expected else words
            self.row(item, "pass", words, how="xfailed" if is_expected else "skipped")
        elif report.failed:
            wrong = error is None or issubclass(error.type, (AssertionError, pytest.fail.Exception))
            words = (described or str)() if report.when == "call" else "in its " + report.when
            self.row(item, "fail" if wrong and report.when == "call" else "error", words or None, error, report)
        elif report.when == "call" and report.nodeid not in self.broken:
            is_unexpected = expected is not None
            note = "was expected to fail and passed" if is_unexpected else None
            self.row(item, "pass", note, how="xpassed" if is_unexpected else "")

    def pytest_runtest_logfinish(self) -> None:
        """Tell the state of the run."""
        self.so_far.report(len(self.seen), self.rows)

    def location(self, item: Item, trace: Any) -> Row:
        """The place of a test: the line at which a failure left its file, else its first line."""
        path, line, _ = item.reportinfo()
        file = os.path.realpath(str(path))
        row = {"test": full_name(item), "ns": self.home(item), "file": file, "line": None if line is None else line + 1}
        frames = traceback.extract_tb(trace)
        for frame in frames:
            if os.path.realpath(frame.filename) == file:
                row["line"] = frame.lineno
        return dict(row, frames=frames_of(frames))

    def row(
        self,
        item: Item,
        outcome: str,
        message: str | None,
        error: Error = None,
        report: Report = None,
        *,
        how: str = "",
    ) -> None:
        """Add a row, with the output of a failed test."""
        trace = error.tb if error else None
        row = dict(self.location(item, trace), outcome=outcome, message=message, how=how, trace=trace)
        if report is not None:
            row["actual"] = (words_of(error) if error else str(report.longrepr))[:TEXT]
            for title, text in report.sections:
                if title.endswith(report.when):
                    self.output.append("--- " + row["test"] + ": " + title + " ---\n" + text[-TEXT:].rstrip() + "\n")
        self.rows.append(row)


def cause_of(error: BaseException, file: str) -> Row:
    """The cause of a failed collection: pytest's report begins with its own frames, and tells no reason before."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [one.lineno for one in frames if os.path.realpath(one.filename) == file]
    if isinstance(error, SyntaxError) and error.filename and os.path.realpath(error.filename) == file:
        lines.append(error.lineno)
    imports = os.sep + "importlib" + os.sep
    row = [one for one in frames_of(frames) if imports not in one["file"] and one["file"][0] != "<"]
    words = (
        str(error)
        if type(error).__name__ == "CollectError"
        else "".join(traceback.format_exception_only(type(error), error))
    )
    line = lines[-1] if lines else None
    return {"actual": words.strip()[:TEXT], "line": line, "frames": row, "trace": error.__traceback__}


def reason_in(reason: str) -> str:
    """The reason in a report of an error in a hook: its last lines; before them stand pytest's own hundred."""
    inner = [one[len(INTERNAL) :] for one in reason.splitlines() if one.startswith(INTERNAL)]
    return "\n".join(inner[-6:]) if inner else reason[-TEXT:]


def words_of(error: Error) -> str:
    """An error in its own words, if it has any."""
    formatted = getattr(error.value, "formatrepr", None)
    return str(getattr(formatted and formatted(), "errorstring", None) or error.exconly())


def full_name(item: Item) -> str:
    """A test's name below its file, with points between."""
    names: list[str] = []
    while item is not None and not isinstance(item, pytest.File):
        names.insert(0, item.name)
        item = item.parent
    return ".".join(names)


def options(files: Iterable[str], match: str) -> list[str]:
    """The options of a run: the project's settings without those that would take the output or the process."""
    given = ["--capture=sys", "-p", "no:faulthandler", "--continue-on-collection-errors"]
    given += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    given += ["-k", match] if match else []
    # What pytest rewrites to explain a failure is Python's text, not Hy's.
    given += ["--assert=plain"] if any(file.endswith(".hy") for file in files) else []
    return given


def has_lisp(targets: Sequence[str]) -> bool:
    """True if Basilisp's plugin, which first compiles all of Basilisp, may find tests; a large folder counts so."""
    seen = 0
    for target in targets or ["."]:
        if target.endswith(LISP):
            return True
        for at, prefixes, files in os.walk(target):
            prefixes[:] = [one for one in prefixes if not is_foreign(at, one)]
            seen += len(prefixes) + len(files)
            if seen > WALKED or any(one.endswith(LISP) for one in files):
                return True
    return False


def is_foreign(at: str, name: str) -> bool:
    """True for a folder without anything of the project's own."""
    return name.startswith(".") or name == "node_modules" or os.path.isfile(os.path.join(at, name, "pyvenv.cfg"))


@contextlib.contextmanager
def without_cached_code() -> Iterator[None]:
    """A context in which pytest believes its cached code of a test file only if that is well newer than the file.

    pytest tells texts apart by second and size alone, and a quick edit may change neither.
    """
    rewriting: Any = sys.modules.get("_pytest.assertion.rewrite")
    read: Any = getattr(rewriting, "_read_pyc", None)

    def read_newer(source: Any, compiled: Any, *more: Any, **named: Any) -> object:
        try:
            status = os.stat(source)
            is_newer = os.stat(compiled).st_mtime_ns > max(status.st_mtime_ns, status.st_ctime_ns) + SETTLED_NS
        except OSError:
            return None
        return read(source, compiled, *more, **named) if is_newer else None

    if read is None:
        yield
        return
    rewriting._read_pyc = read_newer
    try:
        yield
    finally:
        rewriting._read_pyc = read


def by_pytest(
    targets: list[str],
    names: dict[str, str],
    extra: list[str],
    selected: str,
    match: str,
    only: list[list[str]],
) -> Outcome:
    """The number of tests run, the time of each, their rows, and the row of a stopped one."""
    plugin, screen = Plugin(targets, names, extra, selected, only), io.StringIO()
    path = sys.path[:]
    importlib.invalidate_caches()
    try:
        plugin.add_patterns(["conftest.py"])
        with without_cached_code(), contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen):
            given = options([*names, *targets], match) + ([] if has_lisp(targets) else NO_LISP)
            status = pytest.main([*given, *targets], plugins=[plugin])
    finally:
        sys.path[:], sys.dont_write_bytecode = path, plugin.is_silent
        plugin.put_back()
    print("".join(plugin.output)[-OUTPUT:], end="")
    if plugin.is_stopped and not plugin.stopped:
        raise KeyboardInterrupt
    if status in (3, 4) and not plugin.rows:
        raise RuntimeError("pytest could not run:\n" + reason_in(screen.getvalue().strip()))
    if status == 2 and not plugin.stopped:
        print(screen.getvalue().strip()[-TEXT:])
    if selected and not match and plugin.is_known and not (plugin.seen or plugin.rows) and not plugin.stopped:
        raise LookupError("the test " + selected + " is there, and the project's settings of pytest deselect it")
    times: list[list[object]] = [[*named, seconds] for named, seconds in plugin.times.items()]
    return len(plugin.seen), times, plugin.rows, plugin.stopped
