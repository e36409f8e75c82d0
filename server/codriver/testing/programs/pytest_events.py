"""The pytest plugin that writes the events of a run. It requires pytest 7 or later.

A failure is described in the process that runs the test. The description is attached to the report, which plugins such
as xdist send to another process. Everything else is read from the reports.
"""

from __future__ import annotations

import inspect
import os
import sys
from contextlib import suppress

import pytest

from .bytecode import ignore_unsettled_rewrites
from .event_file import encode_json
from .failures import class_name, describe_error, error_message, executed_functions_getter, frame_values, shorten_middle
from .parsed_files import ParsedFiles
from .secret_values import SecretValues

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import CodeType
    from typing import Any

    from .event_file import EventFile

    Item = Any  # pytest's objects, from any of its versions

    Report = Any

    Values = dict[str, Any]

OLDEST_VERSION = (7, 0)
"""Oldest supported version of pytest."""
DESCRIPTION_ATTRIBUTE = "_codriver_failure"
"""Attribute of a pytest report that holds the description of its failure."""
MAX_DESCRIBED_FAILURES = 200
"""Maximum number of failures reported with frames and variables."""
MAX_UNAWAITED = 3
"""Maximum number of reported warnings about coroutines that were never awaited."""
UNAWAITED_ENDING = "was never awaited"
"""The end of the first line of Python's warning about a coroutine that was never awaited."""
OUTCOMES_BY_PRIORITY = ("error", "failed", "xpassed", "xfailed", "skipped", "passed")
"""Outcomes, highest priority first. A test has the outcome of the phase with the highest priority."""
NO_DEBUGGER_MESSAGE = (
    "a debugger was started, but a test run has no terminal. Remove breakpoint() or set_trace(), and evaluate code "
    "in a frame of the failure instead"
)
WORKER_SETUP_TEMPLATE = """
try:
    space = {{"__name__": "boot"}}
    with open({0}) as file:
        exec(compile(file.read(), "<boot>", "exec"), space)
    space["attach"]({1}, {2})
except OSError:
    pass  # a worker on another machine
"""
"""Code that an xdist worker runs before it configures pytest."""
WORKER_START_LINE = 'if __name__ == "__channelexec__":\n'
"""Line that starts an xdist worker in its program. Source: xdist, `remote.py`."""
SYS_PATH_IMPORT_MODES = ("prepend", "append")
"""Values of pytest's option `--import-mode` with which the names of test files must be unique."""
COUNT_NAMES = {
    "passed": "passed",
    "failed": "failed",
    "error": "errors",
    "skipped": "skipped",
    "xfailed": "xfailed",
    "xpassed": "xpassed",
    "deselected": "deselected",
    "rerun": "reruns",
    "subtests passed": "subtests_passed",
    "subtests failed": "subtests_failed",
}
"""Names of the counts, by the categories of pytest's terminal summary."""
wrapper: Callable[..., Any] = pytest.hookimpl(hookwrapper=True)
early: Callable[..., Any] = pytest.hookimpl(tryfirst=True)
early_wrapper: Callable[..., Any] = pytest.hookimpl(hookwrapper=True, tryfirst=True)


def attach(
    events: EventFile, request: Mapping[str, Any], modules: Mapping[str, Any], *, is_worker: bool = False
) -> Values | None:
    """Register the plugins when pytest is next configured. Return an error if the version of pytest is too old."""
    version = getattr(pytest, "version_tuple", None) or (0, 0)
    if version[:2] < OLDEST_VERSION:
        return {"kind": "old-pytest", "message": "pytest " + str(pytest.__version__) + " is installed"}
    config: Any = sys.modules["_pytest.config"]
    plain = config.get_config

    def get_config(*given: Any, **named: Any) -> Any:
        config.get_config = plain
        made = plain(*given, **named)
        rewrite = sys.modules.get("_pytest.assertion.rewrite")
        if rewrite is not None:
            ignore_unsettled_rewrites(rewrite)
        parsed = ParsedFiles()
        parsed.share_with_pytest(sys.modules.get("_pytest._code.code"))
        recorders = [modules[name].recorder(options) for name, options in request["recorders"]]
        keeper = None if is_worker else request.get("keeper")
        made.pluginmanager.register(
            FailurePlugin(keeper, executed_functions_getter(recorders), parsed), "codriver-failures"
        )
        if not is_worker:
            plugin = EventsPlugin(events, request)
            made.pluginmanager.register(plugin, "codriver-events")
            # pytest calls this while it handles an error. Wrappers of hooks would add frames to its traceback.
            made.add_cleanup(lambda: plugin.write_usage_error(sys.exc_info()[1]))
        if request["chosen"]:
            made.pluginmanager.register(ChosenPlugin(*request["chosen"]), "codriver-chosen")
        if recorders:
            made.pluginmanager.register(RecorderPlugin(events, recorders), "codriver-recorders")
        return made

    config.get_config = get_config
    return None


class FailurePlugin:
    """A pytest plugin that describes failures in the process in which they occur."""

    def __init__(self, keeper: Any, executed: Callable[[], Sequence[CodeType] | None], parsed: ParsedFiles) -> None:
        self.keeper = keeper
        self.executed = executed
        self.parsed = parsed
        self.config: Any = None
        self.count = 0

    @early
    def pytest_sessionstart(self, session: Any) -> None:
        """Note that the frames of failures are not available if workers of pytest-xdist run the tests."""
        self.config = session.config
        if self.keeper is not None and session.config.pluginmanager.has_plugin("dsession"):
            self.keeper.obstacle = "the test ran in a pytest-xdist worker"

    @early_wrapper
    def pytest_runtest_makereport(self, item: Item, call: Any) -> Iterator[None]:
        """Describe the failure of a test phase before fixtures are torn down."""
        outcome: Any = yield
        if call.excinfo is None or outcome.excinfo is not None:
            return
        report = outcome.get_result()
        if report.failed or getattr(report, "outcome", "") == "rerun":
            self.describe(report, call.excinfo)
            if self.keeper is not None:
                self.keeper.store_first(display_test_id(item.config, item.nodeid), call.excinfo.tb)

    @early
    def pytest_runtest_logreport(self, report: Report) -> None:
        """Discard the stored failure of a test that is run again."""
        if self.keeper is not None and report.outcome == "rerun":
            self.keeper.discard(display_test_id(self.config, report.nodeid))

    @early_wrapper
    def pytest_make_collect_report(self, collector: Any) -> Iterator[None]:
        """Describe the error that prevented a file from being collected."""
        outcome: Any = yield
        if outcome.excinfo is not None:
            return
        report = outcome.get_result()
        call = getattr(report, "call", None)
        if report.failed and call is not None and call.excinfo is not None:
            self.describe(report, call.excinfo)

    @early
    def pytest_enter_pdb(self, config: Any, pdb: Any) -> None:
        """Fail a test that starts a debugger, because the debugger would wait for input."""
        capture = config.pluginmanager.get_plugin("capturemanager")
        if capture is not None:
            capture.resume()
        raise pytest.fail.Exception(NO_DEBUGGER_MESSAGE)

    def describe(self, report: Report, excinfo: Any) -> None:
        """Attach a description of a failure to its report."""
        self.count += 1
        if self.count > MAX_DESCRIBED_FAILURES:
            return
        try:
            setattr(report, DESCRIPTION_ATTRIBUTE, describe_exception(excinfo, self.executed(), self.parsed))
        except Exception as failure:  # attributes of an error may be anything
            setattr(report, DESCRIPTION_ATTRIBUTE, {"type": class_name(excinfo.type), "frames": [], "chain": [],
                                          "problem": type(failure).__name__})  # fmt: skip


def describe_exception(excinfo: Any, executed: Sequence[CodeType] | None, parsed: ParsedFiles) -> Values:
    """Describe an exception. If pytest raised it because of another exception, describe that one."""
    error = excinfo.value
    kind = type(error).__name__
    inner = error.__cause__ if kind == "CollectError" else error.cause if kind == "ConftestImportFailure" else None
    if not isinstance(inner, BaseException):
        return describe_error(error, excinfo.tb, executed, parsed)
    return dict(
        describe_error(inner, inner.__traceback__), message=class_name(type(inner)) + ": " + error_message(inner)
    )


class Test:
    """The state of a test that is running."""

    __test__ = False

    def __init__(self) -> None:
        self.outcomes: set[str] = set()
        self.failures: list[Values] = []
        self.seconds = 0.0
        self.reason = ""
        self.worker = ""
        self.reruns = 0
        self.is_rerunning = False
        """Whether the last attempt to run the test failed, and another attempt follows."""
        self.location: tuple[Any, ...] = ()
        self.has_failed_part = False


class DebuggerOptionPlugin:
    """Turns off the option `--pdb`, which would wait for input and which pytest-xdist refuses."""

    @early
    def pytest_cmdline_main(self, config: Any) -> None:
        """Turn off the option `--pdb`."""
        if getattr(config.option, "usepdb", False):
            config.option.usepdb = False


class EventsPlugin:
    """A pytest plugin that writes the events of a run.

    With pytest-xdist, it runs in the process that distributes the tests.
    """

    def __init__(self, events: EventFile, request: Mapping[str, Any]) -> None:
        self.events = events
        self.request = request
        self.secrets = SecretValues(events)
        self.config: Any = None
        self.tests: dict[str, Test] = {}
        self.printed: dict[str, str] = {}
        self.paths: dict[str, str] = {}
        """Absolute paths of test files, as JSON."""
        self.encoded: dict[str, str] = {}
        """Ids of tests, as JSON."""
        self.counts: dict[str, int] = {}
        self.deselected = 0
        self.status: int | None = None
        self.unawaited: dict[tuple[str, str, int], None] = {}
        """Warnings about coroutines that were never awaited, each with its file and line."""
        self.warned = 0
        self.is_collected = False
        self.collected = 0

    # The whole run

    @early
    def pytest_load_initial_conftests(self, early_config: Any) -> None:
        """Register the plugin that turns off `--pdb` after all installed plugins, so that its hook runs first."""
        early_config.pluginmanager.register(DebuggerOptionPlugin(), "codriver-debugger-option")

    def write_usage_error(self, error: Any) -> None:
        """Write an error that kept the run from starting, such as wrong arguments or a failing `conftest` file."""
        if isinstance(error, pytest.UsageError):
            self.events.write("problem", kind="usage", message="\n".join(str(argument) for argument in error.args))
        elif type(error).__name__ == "ConftestImportFailure":
            cause = getattr(error, "cause", None)
            cause = cause if isinstance(cause, BaseException) else error.excinfo[1]
            message = class_name(type(cause)) + ": " + error_message(cause)
            failure = dict(describe_error(cause, cause.__traceback__), phase="collect", message=message)
            self.events.write("problem", kind="usage", message=str(error.path) + ": " + message, failure=failure)

    @early
    def pytest_configure(self, config: Any) -> None:
        """Store pytest's configuration for the other hooks."""
        self.config = config

    @early
    def pytest_internalerror(self, excinfo: Any) -> None:
        """Write an internal error of pytest or of a plugin."""
        failure = dict(describe_error(excinfo.value, excinfo.tb), phase="call", message=excinfo.exconly(tryshort=True))
        self.events.write("problem", kind="internal", message=excinfo.exconly(), failure=failure)

    @early
    def pytest_keyboard_interrupt(self, excinfo: Any) -> None:
        """Write the test and the stack at which the run was interrupted."""
        running = next(reversed(self.tests), "") if self.tests else ""
        if excinfo.type is KeyboardInterrupt:
            frames = frame_values(excinfo.tb)
            self.events.write(
                "interrupted", nodeid=self.display_id(running) if running else "", frames=frames, reason=""
            )
        elif not issubclass(excinfo.type, KeyboardInterrupt):
            self.events.write("interrupted", nodeid=running, frames=[], reason=str(excinfo.value))

    @early
    def pytest_warning_recorded(self, warning_message: Any, nodeid: str) -> None:
        """Count a warning, and store it if it is about a coroutine that was never awaited."""
        self.warned += 1
        if len(self.unawaited) < MAX_UNAWAITED and issubclass(warning_message.category, RuntimeWarning):
            message = str(warning_message.message).partition("\n")[0]
            if message.endswith(UNAWAITED_ENDING):
                location = str(warning_message.filename), int(warning_message.lineno)
                self.unawaited[(shorten_middle(message, 500), *location)] = None

    @early
    def pytest_sessionfinish(self, session: Any, exitstatus: Any) -> None:
        """Write the outcomes of tests whose end was not reported."""
        self.status = int(exitstatus)
        for nodeid in list(self.tests):
            if self.tests[nodeid].outcomes - {"passed"}:
                self.finish(nodeid)
        self.events.flush()

    @early
    def pytest_unconfigure(self, config: Any) -> None:
        """Write the event that ends the report of the run."""
        if self.config is None:
            return
        counts = self.counts
        terminal = config.pluginmanager.get_plugin("terminalreporter")
        stats = getattr(terminal, "stats", None)
        if isinstance(stats, dict):
            counts = {name: len(stats.get(category, ())) for category, name in COUNT_NAMES.items()}
            listed = [entry for entry in stats.get("warnings", ()) if getattr(entry, "count_towards_summary", True)]
            counts["warnings"] = len(listed)
        else:
            counts = dict(counts, warnings=self.warned, deselected=self.deselected)
        self.events.write(
            "finished",
            status=self.status,
            counts=dict(counts, collected=self.collected),
            unawaited=[list(warning) for warning in self.unawaited],
        )

    # The collection

    @early
    def pytest_sessionstart(self) -> None:
        """Report the secrets that are known after the conftest files were loaded."""
        self.secrets.report_all()

    @early
    def pytest_deselected(self, items: list[Item]) -> None:
        """Count the deselected tests."""
        self.deselected += len(items)

    @early
    def pytest_collection_finish(self, session: Any) -> None:
        """Write the ids of the collected tests. With pytest-xdist, the workers collect them."""
        self.secrets.report_all()
        if self.config.pluginmanager.has_plugin("dsession"):
            return
        for item in session.items:
            self.display_id(item.nodeid)
        self.write_collected([item.nodeid for item in session.items], self.deselected)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """Write the ids of the tests that the first worker of pytest-xdist has collected."""
        if not self.is_collected:
            self.write_collected(list(ids), 0)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Make a worker of pytest-xdist that is about to start describe failures and run recorders."""
        gateway = node.gateway
        plain_exec = gateway.remote_exec

        def remote_exec(source: Any, **named: Any) -> Any:
            del gateway.remote_exec
            arguments = (self.request["boot"], self.request["programs"], self.request["path"])
            # A second program next to that of xdist would be refused, and waiting for its end takes time.
            return plain_exec(insert_program(source, WORKER_SETUP_TEMPLATE.format(*map(repr, arguments))), **named)

        gateway.remote_exec = remote_exec

    def write_collected(self, nodeids: list[str], deselected: int) -> None:
        """Write the ids of the tests that will run."""
        self.is_collected, self.collected = True, len(nodeids) + deselected
        names = [self.display_id(nodeid) for nodeid in nodeids]
        self.events.write("collected", count=self.collected, deselected=deselected, nodeids=names)

    @early
    def pytest_collectreport(self, report: Report) -> None:
        """Write an event about a file that cannot be collected or is skipped."""
        if report.passed:
            return
        outcome = "skipped" if report.skipped else "error"
        self.count(outcome)
        path = os.path.join(str(self.root()), report.nodeid.partition("::")[0])
        self.events.write(
            "test",
            nodeid=self.display_id(report.nodeid),
            outcome=outcome,
            failures=[] if report.skipped else [self.failure(report, "collect")],
            reason=skip_reason(report) if report.skipped else "",
            file=path if os.path.isfile(path) else None,
            collector=True,
        )

    # Tests

    @early
    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        """Write an event about the start of a test."""
        if nodeid in self.tests:  # once more, after a rerun
            return
        self.tests[nodeid] = test = Test()
        test.location = location
        self.events.add_encoded('{"event":"started","nodeid":' + self.encode_id(nodeid) + "}")
        self.events.flush()

    @early
    def pytest_runtest_logreport(self, report: Report) -> None:
        """Record the outcome of a phase or a subtest of a test."""
        test = self.tests.get(report.nodeid)
        if test is None:
            test = self.tests[report.nodeid] = Test()
            test.location = report.location
        test.seconds += getattr(report, "duration", 0) or 0
        known = report.__dict__
        if report.outcome == "passed" and report.when != "call" and "node" not in known and not test.is_rerunning:
            test.outcomes.add("passed")
            return
        if "node" in known:
            test.worker = str(getattr(getattr(known["node"], "gateway", None), "id", "") or "")
        if report.outcome == "rerun":
            test.reruns += 1
            test.is_rerunning = True
            test.outcomes, test.failures = set(), []
            report.__dict__.pop(DESCRIPTION_ATTRIBUTE, None)
            return
        if test.is_rerunning and report.when != "setup":
            return  # the teardown of the failed attempt
        test.is_rerunning = False
        part = subtest_description(report)
        expected = getattr(report, "wasxfail", None)
        if report.skipped:
            test.reason = skip_reason(report) if expected is None else expected.replace("reason: ", "", 1)
            outcome = "skipped" if expected is None else "xfailed"
        elif report.passed:
            outcome = "passed" if expected is None or report.when != "call" else "xpassed"
            test.reason = expected.replace("reason: ", "", 1) if outcome == "xpassed" and expected else test.reason
        else:
            outcome = "error" if report.when in ("setup", "teardown") else "failed"
            is_summary = part is None and test.has_failed_part and not hasattr(report, DESCRIPTION_ATTRIBUTE)
            if not is_summary:
                test.failures.append(self.failure(report, report.when, part or ""))
            test.has_failed_part = test.has_failed_part or part is not None
        if part is None or outcome == "failed":
            test.outcomes.add(outcome)
        if report.when == "call" or outcome != "passed":
            self.count(outcome)
        if report.when == "???":  # the worker that ran it has crashed
            self.finish(report.nodeid)

    @early
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Write an event about the end of a test."""
        self.secrets.report_environment()
        self.finish(nodeid)

    def finish(self, nodeid: str) -> None:
        """Write the outcome of a test. Nothing is written for an interrupted test."""
        test = self.tests.get(nodeid)
        if test is None or test.is_rerunning:
            return
        del self.tests[nodeid]
        if not test.outcomes:
            return
        path, line = (test.location[0], test.location[1]) if len(test.location) > 1 else ("", None)
        parts = [
            '{"event":"test","nodeid":',
            self.encode_id(nodeid),
            ',"outcome":"',
            next(rank for rank in OUTCOMES_BY_PRIORITY if rank in test.outcomes),
            '","seconds":',
            str(round(test.seconds, 6)),
        ]
        if path:
            parts += [',"file":', self.paths.get(path) or self.encode_path(path)]
        if line is not None:
            parts += [',"line":', str(line + 1)]
        rest = {
            "failures": test.failures,
            "reason": shorten_middle(test.reason, 1000),
            "worker": test.worker,
            "reruns": test.reruns,
        }
        for name, value in rest.items():
            if value:
                parts += [',"', name, '":', encode_json(value)]
        parts.append("}")
        self.events.add_encoded("".join(parts))

    def encode_id(self, nodeid: str) -> str:
        """Return the displayed id of a test as JSON."""
        return self.encoded.get(nodeid) or self.encoded.setdefault(nodeid, encode_json(self.display_id(nodeid)))

    def encode_path(self, path: str) -> str:
        """Return the absolute path of a test file as JSON."""
        found = self.paths[path] = encode_json(os.path.normpath(os.path.join(str(self.root()), path)))
        return found

    def failure(self, report: Report, phase: str, part: str = "") -> Values:
        """Return the description of a failure, together with the text that pytest prints about it."""
        found = dict(report.__dict__.pop(DESCRIPTION_ATTRIBUTE, None) or {"type": "", "frames": [], "chain": []})
        longrepr = report.longrepr
        crash = getattr(getattr(longrepr, "reprcrash", None), "message", None)
        try:
            text = report.longreprtext
        except Exception as failure:
            text = "the failure cannot be displayed: " + type(failure).__name__
        plain = longrepr if isinstance(longrepr, str) else getattr(longrepr, "errorstring", None)
        message = found.get("message") or crash or plain or text
        sections = [
            [title, shorten_middle(content, 4000)] for title, content in getattr(report, "sections", ()) if content
        ]
        return dict(
            found, phase=phase if phase != "???" else "call", message=shorten_middle(str(message)),
            text=shorten_middle(text), sections=sections, part=part,
        )  # fmt: skip

    def count(self, outcome: str) -> None:
        """Count an outcome in the same way as pytest's terminal summary."""
        name = COUNT_NAMES[outcome]
        self.counts[name] = self.counts.get(name, 0) + 1

    def display_id(self, nodeid: str) -> str:
        """Return the id of a test relative to the directory in which pytest was started, as pytest prints it."""
        printed = self.printed.get(nodeid)
        if printed is None:
            printed = self.printed[nodeid] = display_test_id(self.config, nodeid)
        return printed

    def root(self) -> object:
        """Return the directory to which test ids are relative."""
        return getattr(self.config, "rootpath", None) or os.getcwd()


class ChosenPlugin:
    """A pytest plugin that runs only the chosen tests, in the given order.

    A file that cannot be collected does not stop the run, because the caller did not name the file.
    """

    def __init__(self, functions: list[str], files: list[str]) -> None:
        self.ranks = {name: rank for rank, name in enumerate(functions)}
        self.files = frozenset(files)
        self.import_mode = ""

    @early
    def pytest_load_initial_conftests(self, early_config: Any) -> None:
        """Choose a root directory that contains all chosen files."""
        include_arguments_in_root(early_config)

    @early
    def pytest_configure(self, config: Any) -> None:
        """Set pytest's option to continue after collection errors."""
        config.option.continue_on_collection_errors = True
        self.import_mode = str(getattr(config.option, "importmode", ""))

    @early
    def pytest_collectstart(self, collector: Any) -> None:
        """Import a file under another module name if its name is that of a file of another package.

        The caller did not choose to run the tests of both packages in one process, which pytest refuses.
        """
        if self.import_mode in SYS_PATH_IMPORT_MODES and isinstance(collector, pytest.Module):
            is_shared = shares_module_name(real_file(collector))
            collector.config.option.importmode = "importlib" if is_shared else self.import_mode

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: Any, items: list[Item]) -> None:
        """Deselect tests that were not chosen, remove duplicates, and sort the others."""
        chosen: dict[str, tuple[int, Item]] = {}
        left: list[Item] = []
        for item in items:
            name = display_test_id(config, item.nodeid)
            rank = self.ranks.get(name.partition("[")[0])
            if rank is None and name.partition("::")[0] not in self.files:
                left.append(item)
            else:
                chosen.setdefault(item.nodeid, (len(self.ranks) if rank is None else rank, item))
        items[:] = [item for _, item in sorted(chosen.values(), key=lambda entry: entry[0])]
        if left:
            config.hook.pytest_deselected(items=left)


def include_arguments_in_root(config: Any) -> None:
    """Choose a root directory for pytest that contains all files and directories of the command line.

    If several packages have their own configuration, pytest uses that of the first one as the root. Files in the other
    packages then have no path in their ids, so tests of the same name in different files have the same id.
    """
    arguments = config.known_args_namespace
    if (
        getattr(arguments, "rootdir", None)
        or getattr(arguments, "numprocesses", None)
        or not hasattr(config, "_rootpath")
    ):
        return  # workers of pytest-xdist determine their root themselves
    start = str(config.invocation_params.dir)
    names = [str(name).partition("::")[0] for name in getattr(arguments, "file_or_dir", ())]
    paths = [path for path in (os.path.normpath(os.path.join(start, name)) for name in names) if os.path.exists(path)]
    root = str(config.rootpath)
    with suppress(ValueError):  # several drives
        if os.path.commonpath([root, *paths]) != root and os.path.commonpath([start, root, *paths]) == start:
            config._rootpath = type(config.rootpath)(start)


def shares_module_name(file: str) -> bool:
    """Return whether a test file outside packages has the name of a module that was imported from another file."""
    directory, name = os.path.split(file)
    module = sys.modules.get(os.path.splitext(name)[0])
    other = getattr(module, "__file__", None)
    if not other or os.path.exists(os.path.join(directory, "__init__.py")):
        return False
    return bool(os.path.realpath(other) != os.path.realpath(file))


def insert_program(source: Any, program: str) -> Any:
    """Insert a program at the start of the program of an xdist worker.

    If the program is not recognized, it is returned unchanged.
    """
    try:
        text = source if isinstance(source, str) else inspect.getsource(source)
    except (OSError, TypeError):
        return source
    before, start, after = text.partition(WORKER_START_LINE)
    return before + start + "    exec(" + repr(program) + ")\n" + after if start else source


def display_test_id(config: Any, nodeid: str) -> str:
    """Return the id of a test relative to the directory in which pytest was started, as pytest prints it."""
    nodeid = str(nodeid)
    root, start = str(config.rootpath), str(config.invocation_params.dir)
    path, separator, rest = nodeid.partition("::")
    if root == start or not path:
        return nodeid
    try:
        return os.path.relpath(os.path.join(root, path), start).replace(os.sep, "/") + separator + rest
    except ValueError:  # another drive
        return nodeid


def skip_reason(report: Report) -> str:
    """Return the reason why a test was skipped."""
    longrepr = report.longrepr
    reason = longrepr[2] if isinstance(longrepr, tuple) and len(longrepr) == 3 else longrepr
    return str(reason or "").replace("Skipped: ", "", 1)


def subtest_description(report: Report) -> str | None:
    """Return the description of a subtest, or None for a report about a whole test."""
    describe = getattr(report, "_sub_test_description", getattr(report, "sub_test_description", None))
    return None if describe is None else str(describe()).strip()


class RecorderPlugin:
    """A pytest plugin that runs recorders during the tests, and writes their data at the end."""

    def __init__(self, events: EventFile, recorders: list[Any]) -> None:
        self.events, self.recorders = events, recorders
        self.context: tuple[str, ...] = ("", "")

    def set_context(self, *context: str) -> None:
        """Set the context to which recorders attribute executed code: a test, the import of a file, or a fixture."""
        self.context = context
        for recorder in self.recorders:
            recorder.set_context(*context)

    @early
    def pytest_load_initial_conftests(self) -> None:
        """Start the recorders that also record the import of `conftest` files."""
        for recorder in self.recorders:
            if getattr(recorder, "is_early", False):
                recorder.start()

    @early
    def pytest_sessionstart(self, session: Any) -> None:
        """Start the recorders that do not record the import of `conftest` files."""
        if session.config.pluginmanager.has_plugin("dsession"):  # the workers of xdist run the tests
            for recorder in self.recorders:
                recorder.finish()
            self.recorders = []
        for recorder in self.recorders:
            if not getattr(recorder, "is_early", False):
                recorder.start()

    @early
    def pytest_collection_modifyitems(self, config: Any, items: list[Item]) -> None:
        """Record the number of tests in each file, before any test is deselected."""
        in_part = [
            str(argument).partition("::")[0] for argument in getattr(config, "args", ()) if "::" in str(argument)
        ]
        start = str(config.invocation_params.dir)
        named = {os.path.realpath(os.path.join(start, argument)) for argument in in_part}
        names: dict[str, set[str]] = {}
        for item in items:
            names.setdefault(real_file(item), set()).add(item.nodeid)
        counts = {file: len(found) for file, found in names.items() if file not in named}
        for recorder in self.recorders:
            if hasattr(recorder, "collect"):
                recorder.collect(counts)

    @early_wrapper
    def pytest_make_collect_report(self, collector: Any) -> Iterator[None]:
        """Attribute code that runs during the import of a test file to this file."""
        if isinstance(collector, pytest.Module):
            self.set_context("module", real_file(collector))
        yield

    @early_wrapper
    def pytest_runtest_protocol(self, item: Item) -> Iterator[None]:
        """Attribute code that runs during a test, including its fixtures, to this test."""
        shared = [fixture for fixture in getattr(item, "fixturenames", ()) if isinstance(fixture, str)]
        nodeid = display_test_id(item.config, item.nodeid)
        for recorder in self.recorders:
            recorder.record_test(nodeid, real_file(item), shared)
        self.set_context("test", nodeid)
        yield
        self.set_context("", "")

    @early_wrapper
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        """Attribute code that runs in a shared fixture to this fixture."""
        before = self.context
        if fixturedef.scope != "function":
            self.set_context("fixture", fixturedef.argname)
        yield
        if fixturedef.scope != "function":
            self.set_context(*before)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Write the data of the recorders."""
        for recorder in self.recorders:
            self.events.write("recorded", recorder=recorder.name, **recorder.finish())


def real_file(node: Any) -> str:
    """Return the real path of the file to which a test or collector belongs."""
    return os.path.realpath(str(getattr(node, "path", None) or node.fspath))
