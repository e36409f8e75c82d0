"""Run tests with pytest, in the given files and directories or those from the project's settings.

Test modules and `conftest.py` are imported again for each run, so an edit takes effect as soon as it is saved. The
modules that they import stay loaded. If the REPL records which functions run, those run by each test are recorded.
After the run, the REPL's modules, paths and streams are restored.
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

from .run_values import (
    OUTPUT,
    TEXT,
    SoFar,
    failure_frames,
    ignore_interrupts,
    is_project_file,
    module_file,
    path_in_test_ids,
    pytest,
)

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
"""Plugins that would disturb a run in this process, each with the option that prevents this."""
NO_BASILISP_OPTIONS = ["-p", "no:basilisp_test_runner"]
"""pytest options that disable Basilisp's plugin."""
INTERNAL_ERROR_PREFIX = "INTERNALERROR> "
COLLECTION_TEST_NAME = "(collection)"
"""The name under which a file that could not be collected or was skipped is listed."""
LISP, WALKED = (".lpy", ".cljc"), 20000
"""Suffixes of Basilisp files, and the maximum number of directory entries to search for them."""
MAX_COMPILATION_NS = 10 * 10**9
"""The assumed maximum duration of a compilation, in nanoseconds. See `new_process`."""
wrapper: Callable[..., Any] = pytest.hookimpl(hookwrapper=True) if pytest else staticmethod
early: Callable[..., Any] = pytest.hookimpl(tryfirst=True) if pytest else staticmethod


class Plugin:
    """A pytest plugin that selects the tests of one run and collects their results."""

    def __init__(
        self, targets: list[str], names: dict[str, str], extra: list[str], selected: str, only: list[list[str]]
    ) -> None:
        self.names, self.extra, self.only = names, extra, only
        self.hy = {os.path.realpath(target) for target in (*targets, *names) if target.endswith(".hy")}
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

    def project_test_modules(self, patterns: Iterable[str]) -> Iterator[str]:
        """Yield the names of loaded modules that are the project's test files."""
        matches = [re.compile(fnmatch.translate(pattern.rpartition("/")[2])).match for pattern in patterns]
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if not isinstance(file, str) or name == "__main__":
                continue
            base = os.path.splitext(os.path.basename(file))[0] + ".py"
            # Comparing names takes a hundredth of the time that resolving files does, and there are many modules.
            if any(match(base) for match in matches) and is_project_file(module_file(module)):
                yield name

    def hide_test_modules(self, patterns: list[str]) -> None:
        """Remove loaded test modules from `sys.modules`, because pytest would use them instead of edited files."""
        self.patterns += patterns
        self.saved.update({name: sys.modules.pop(name) for name in self.project_test_modules(patterns)})

    def restore_modules(self) -> None:
        """Restore the removed modules. Modules loaded for the first time by this run stay loaded."""
        for name in self.project_test_modules(self.patterns):
            if name not in self.before or name.rpartition(".")[2] == "conftest":
                del sys.modules[name]
        for name, module in self.saved.items():
            sys.modules[name] = module
            parent, _, child = name.rpartition(".")
            if parent in sys.modules:
                setattr(sys.modules[parent], child, module)

    @wrapper
    def pytest_load_initial_conftests(self, early_config: Any, args: list[str]) -> Iterator[None]:
        """Disable plugins that would use other processes, trace this process, or end it after a timeout."""
        for plugin, option in UNSUITABLE_PLUGINS:
            if early_config.pluginmanager.has_plugin(plugin):
                args[:] = [*args, option]
        early_config.known_args_namespace.no_cov = True
        # Cached bytecode is identified by size and second, which is too coarse for quick edits. Plugins are not edited,
        # and some take longer to compile than a run may last.
        sys.dont_write_bytecode = True
        yield

    def pytest_configure(self, config: Any) -> None:
        """Remove loaded test modules, and add the files of loaded tests to those collected by pytest."""
        self.hide_test_modules(config.getini("python_files"))
        given = [*config.args, *self.extra]
        config.args[:] = [item for item in given if not self.is_excluded(config, item)] or given

    def is_excluded(self, config: Any, target: str) -> bool:
        """Return whether the project's settings exclude a file when all tests are run."""
        file = os.path.realpath(target)
        if [path_in_test_ids(file), COLLECTION_TEST_NAME] not in self.only:
            return False
        root = os.path.realpath(str(getattr(config, "rootpath", None) or config.rootdir))
        paths = [os.path.realpath(os.path.join(root, directory)) for directory in config.getini("testpaths")]
        if any(map(os.path.isdir, paths)) and not any(f"{file}/".startswith(f"{path}/") for path in paths):
            return True
        parts = os.path.dirname(os.path.relpath(file, root)).split(os.sep)
        prefixes = ["/" + "/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        return any(
            fnmatch.fnmatch(prefix, "*/" + pattern.strip("/"))
            for prefix in prefixes
            for pattern in config.getini("norecursedirs")
        )

    def pytest_collect_file(self, file_path: Any, parent: Any) -> Any:
        """Collect a Hy file. Return None to leave other files to other plugins."""
        is_hy = os.path.realpath(str(file_path)) in self.hy
        return pytest.Module.from_parent(parent, path=file_path) if is_hy else None

    @early
    def pytest_collection_modifyitems(self, config: Any, items: list[Item]) -> None:
        """Keep only the selected tests, without duplicates."""
        # A file named together with its directory is collected twice.
        once = {item.nodeid: item for item in items}
        selected_items = [item for item in once.values() if self.is_selected(item)]
        config.hook.pytest_deselected(items=[item for item in once.values() if item not in selected_items])
        self.is_known = bool(selected_items)
        items[:] = selected_items
        self.so_far.of = len(selected_items)

    def is_selected(self, item: Item) -> bool:
        """Return whether a test is selected."""
        name = test_name_in_file(item)
        if self.only:
            return [self.test_namespace(item), name] in self.only or [
                self.test_namespace(item),
                COLLECTION_TEST_NAME,
            ] in self.only
        plain = name.partition("[")[0]
        return not self.selected or self.selected in (name, plain) or plain.startswith(self.selected + ".")

    def test_namespace(self, item: Item) -> str:
        """Return the namespace of a test, which is the name of its module or its path."""
        file = os.path.realpath(str(item.reportinfo()[0]))
        return self.names.get(file) or path_in_test_ids(file)

    @early
    def pytest_sessionfinish(self) -> None:
        """Restore the setting for writing bytecode."""
        sys.dont_write_bytecode = self.is_silent

    @early
    def pytest_runtest_protocol(self, item: Item) -> None:
        """Store which test is running."""
        self.running = item

    @early
    def pytest_keyboard_interrupt(self, excinfo: Error) -> None:
        """Store the position at which the run was interrupted."""
        ignore_interrupts()
        self.is_stopped = issubclass(excinfo.type, KeyboardInterrupt)
        if self.is_stopped and self.running is not None:
            self.stopped = self.location(self.running, excinfo.tb)

    def pytest_exception_interact(self, node: Any, call: Any, report: Report) -> None:
        """Store the error that prevented a file from being collected."""
        if not isinstance(node, pytest.Item) and call.excinfo is not None:
            self.causes[report.nodeid] = call.excinfo.value.__cause__ or call.excinfo.value

    def pytest_collectreport(self, report: Report) -> None:
        """Add a result for a file that could not be collected or was skipped."""
        if not report.passed:
            file = os.path.realpath(report.nodeid.partition("::")[0])
            skipped = report.skipped and isinstance(report.longrepr, tuple)
            cause = None if report.skipped else self.causes.get(report.nodeid)
            row: Row = {"actual": None if report.skipped else str(report.longrepr)[-TEXT:]}
            if cause:
                row = describe_collection_error(cause, file)
            self.rows.append(
                {
                    "test": COLLECTION_TEST_NAME,
                    "ns": self.names.get(file, report.nodeid),
                    "file": file,
                    "outcome": "pass" if report.skipped else "error",
                    "how": "skipped" if report.skipped else "",
                    "message": report.longrepr[2] if skipped else None,
                    **row,
                }
            )

    def pytest_runtest_makereport(self, item: Item, call: Any) -> None:
        """Store the error from a phase of a test."""
        self.errors[item.nodeid, call.when] = (item, call.excinfo)

    def pytest_runtest_logreport(self, report: Report) -> None:
        """Add a result for a phase of a test. Plugins that rerun tests report all phases at the end."""
        known = (report.nodeid, report.when)
        if known not in self.errors or report.outcome == "rerun":
            return
        item, error = self.errors[known]
        self.seen.add(report.nodeid)
        named = (self.test_namespace(item), test_name_in_file(item))
        self.times[named] = self.times.get(named, 0) + report.duration
        expected = getattr(report, "wasxfail", None)
        # A test with subtests counts once, and only failed subtests have results. pytest 9 has them built in, older
        # versions in a plugin.
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
            note = "was expected to fail but passed" if is_unexpected else None
            self.row(item, "pass", note, how="xpassed" if is_unexpected else "")

    def pytest_runtest_logfinish(self) -> None:
        """Report the progress of the run."""
        self.so_far.report(len(self.seen), self.rows)

    def location(self, item: Item, trace: Any) -> Row:
        """Return the position of a test: the last line of its file in the traceback, or the test's first line."""
        path, line, _ = item.reportinfo()
        file = os.path.realpath(str(path))
        row = {
            "test": test_name_in_file(item),
            "ns": self.test_namespace(item),
            "file": file,
            "line": None if line is None else line + 1,
        }
        frames = traceback.extract_tb(trace)
        for frame in frames:
            if os.path.realpath(frame.filename) == file:
                row["line"] = frame.lineno
        return dict(row, frames=failure_frames(frames))

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
        """Add a result and, for a failed test, its output."""
        trace = error.tb if error else None
        row = dict(self.location(item, trace), outcome=outcome, message=message, how=how, trace=trace)
        if report is not None:
            row["actual"] = (error_message(error) if error else str(report.longrepr))[:TEXT]
            for title, text in report.sections:
                if title.endswith(report.when):
                    self.output.append("--- " + row["test"] + ": " + title + " ---\n" + text[-TEXT:].rstrip() + "\n")
        self.rows.append(row)


def describe_collection_error(error: BaseException, file: str) -> Row:
    """Describe why a file could not be collected, without pytest's own frames."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if os.path.realpath(frame.filename) == file]
    if isinstance(error, SyntaxError) and error.filename and os.path.realpath(error.filename) == file:
        lines.append(error.lineno)
    imports = os.sep + "importlib" + os.sep
    row = [frame for frame in failure_frames(frames) if imports not in frame["file"] and frame["file"][0] != "<"]
    words = (
        str(error)
        if type(error).__name__ == "CollectError"
        else "".join(traceback.format_exception_only(type(error), error))
    )
    line = lines[-1] if lines else None
    return {"actual": words.strip()[:TEXT], "line": line, "frames": row, "trace": error.__traceback__}


def shorten_hook_error(reason: str) -> str:
    """Return the last lines of an error in a hook, omitting about a hundred lines of pytest's own frames."""
    inner = [
        splitline[len(INTERNAL_ERROR_PREFIX) :]
        for splitline in reason.splitlines()
        if splitline.startswith(INTERNAL_ERROR_PREFIX)
    ]
    return "\n".join(inner[-6:]) if inner else reason[-TEXT:]


def error_message(error: Error) -> str:
    """Return the message of an error, as formatted by the error itself if possible."""
    formatted = getattr(error.value, "formatrepr", None)
    return str(getattr(formatted and formatted(), "errorstring", None) or error.exconly())


def test_name_in_file(item: Item) -> str:
    """Return the name of a test within its file, with dots as separators."""
    names: list[str] = []
    while item is not None and not isinstance(item, pytest.File):
        names.insert(0, item.name)
        item = item.parent
    return ".".join(names)


def overriding_options(files: Iterable[str], match: str) -> list[str]:
    """Return command-line options that override project settings that would redirect output or end the process."""
    given = ["--capture=sys", "-p", "no:faulthandler", "--continue-on-collection-errors"]
    given += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    given += ["-k", match] if match else []
    # pytest's assertion rewriting explains failures with Python source, not Hy.
    given += ["--assert=plain"] if any(file.endswith(".hy") for file in files) else []
    return given


def may_have_basilisp_tests(targets: Sequence[str]) -> bool:
    """Return whether there may be Basilisp tests, without which Basilisp's plugin is disabled.

    The plugin first compiles all of Basilisp. A directory with too many files to search counts as if it had such tests.
    """
    seen = 0
    for target in targets or ["."]:
        if target.endswith(LISP):
            return True
        for at, prefixes, files in os.walk(target):
            prefixes[:] = [prefix for prefix in prefixes if not is_foreign_directory(at, prefix)]
            seen += len(prefixes) + len(files)
            if seen > WALKED or any(file.endswith(LISP) for file in files):
                return True
    return False


def is_foreign_directory(at: str, name: str) -> bool:
    """Return whether a directory contains only files that are not the project's."""
    return name.startswith(".") or name == "node_modules" or os.path.isfile(os.path.join(at, name, "pyvenv.cfg"))


@contextlib.contextmanager
def ignore_recent_test_bytecode() -> Iterator[None]:
    """Make pytest ignore cached bytecode for a test file unless it was written well after the file.

    pytest compares only seconds and sizes, and a quick edit may change neither.
    """
    rewriting: Any = sys.modules.get("_pytest.assertion.rewrite")
    read: Any = getattr(rewriting, "_read_pyc", None)

    def read_newer(source: Any, compiled: Any, *more: Any, **named: Any) -> object:
        try:
            status = os.stat(source)
            is_newer = os.stat(compiled).st_mtime_ns > max(status.st_mtime_ns, status.st_ctime_ns) + MAX_COMPILATION_NS
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


def run_pytest(
    targets: list[str],
    names: dict[str, str],
    extra: list[str],
    selected: str,
    match: str,
    only: list[list[str]],
) -> Outcome:
    """Run tests with pytest. Return their number, their durations, the results, and the interrupted test, if any."""
    plugin, screen = Plugin(targets, names, extra, selected, only), io.StringIO()
    path = sys.path[:]
    importlib.invalidate_caches()
    try:
        plugin.hide_test_modules(["conftest.py"])
        with ignore_recent_test_bytecode(), contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen):
            given = overriding_options([*names, *targets], match) + (
                [] if may_have_basilisp_tests(targets) else NO_BASILISP_OPTIONS
            )
            status = pytest.main([*given, *targets], plugins=[plugin])
    finally:
        sys.path[:], sys.dont_write_bytecode = path, plugin.is_silent
        plugin.restore_modules()
    print("".join(plugin.output)[-OUTPUT:], end="")
    if plugin.is_stopped and not plugin.stopped:
        raise KeyboardInterrupt
    if status in (3, 4) and not plugin.rows:
        raise RuntimeError("pytest could not run:\n" + shorten_hook_error(screen.getvalue().strip()))
    if status == 2 and not plugin.stopped:
        print(screen.getvalue().strip()[-TEXT:])
    if selected and not match and plugin.is_known and not (plugin.seen or plugin.rows) and not plugin.stopped:
        raise LookupError("the test " + selected + " exists, but the project's pytest settings deselect it")
    times: list[list[object]] = [[*named, seconds] for named, seconds in plugin.times.items()]
    return len(plugin.seen), times, plugin.rows, plugin.stopped
