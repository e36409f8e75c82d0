"""What every test shares."""

import contextlib
import functools
import gc
import os
import re
import signal
import sys
from pathlib import Path

import alike
import compilation_cache
import hung_tests
import lent_servers
import needs
import not_on_windows
import pytest
import real_kernels
import real_repls
import weight
from hypothesis import HealthCheck, settings

os.environ["TESTS_OF_CODRIVER_FORK"] = "1"
from live_server import FULL, serving, user_settings_file  # it starts servers in the way that the variable specifies

# The tests' JVMs end before a second compiler pays off, which takes two thirds of the processor time of their start.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Each pytest that a test starts would load Basilisp for its plugin, which takes three seconds of processor time.
os.environ["PYTEST_ADDOPTS"] = "-p no:basilisp_test_runner"

# Everything imported and collected lives as long as the tests, so garbage collection skips it.
gc.disable()

# How long an example takes says more about the machine than about the code. Each run draws new examples, so a few per
# run add up to many.
settings.register_profile(
    "codriver", max_examples=alike.rounds(100, 40), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
# For runs that measure what tests reach, not what they find.
settings.register_profile("brief", settings.get_profile("codriver"), max_examples=20)
settings.load_profile("codriver")

# A shell starts what runs in the background with SIGINT ignored, and every process of the tests would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

HERE = Path(__file__).parent
SLOW = {
    "app": "event_loop hot_reload left_sessions portability serving shutdown stderr",
    "clients": "client_libraries inspector sdk_clients trust_question",
    "commands": "commands demo first_hour kernel_sessions pictures running terminal testing unusual_texts watch",
    "datalog": "against_reference",
    "docs": "ci_recipe github_action server_pages",
    "editing": "batch_records transactions",
    "lisp": "edit_laws",
    "features/applications": "seam_streams watch_app",
    "features/run": "waiting_programs",
    "features/traces": "traces call_watches watch_calls",
    "features/clojuredocs": "clojuredocs",
    "features/export": "export export_secrets exported_sessions",
    "features/page": "page page_of_another_user page_server",
    "features/try_code": "try_code",
    "log": "evaluation_transcripts history_crash memory recorded_evaluations secrets spill_live",
    "net": "on_demand registration server_verification",
    "protocol": "both_ways deferred_packages evaluation_tasks log_messages unusual_messages",
    "relay": "find_workspace hook relay_life relay_pressure stored_answers survey",
    "repls": "adapter_connections adapter_queries adapter_sessions adapter_values capability_table "
    "connectors foreign_repls others_evaluations",
    "features/jupyter": "found_kernels_of_a_server kernel_introspection kernels_of_a_server kernels_on_servers "
    "notebook_cells real_kernels server_api server_channel",
    "repls/launch": "discovery recipes",
    "repls/nrepl": "late_answers leiningen",
    "repls/worker": "connections embedded_port_file interpreters minimal_load python_drift",
    "seam": "applications clojure clojure_events copies framework_forms other_repls re_frame2 shop",
    "settings": "reload_live",
    "setup": "doctor real_agents real_clients real_hooks real_packages real_restarts shared_entries",
    "skills": "skills_live",
    "tools": "affected_tests background byte_budgets client_traits edit_failures edit_files edit_loads edit_python "
    "edit_transactions error_chains failure_positions found_tests frames images interrupt_evaluation "
    "isolation lanes lisp_failure_sources listed_tools note_edit python_tests restart_repl run_tests served_tools "
    "stacktrace symbol_answers symbol_info tests_of_other_repls wait_for what_changed "
    "what_changed_in_lisp",
    "trust": "arguments browser cancellation edits_stay_inside faults files gone_clients hostile_checkout invariants "
    "kernel_floods limits load nrepl_floods planted_modules presence_files python_path random_kills starving "
    "unaccepted_projects",
}
"""Test files, by directory, that take about 3 s of processor time or wait for 10 s. `-m "not slow"` leaves them out."""


LONGEST = (
    "docs/test_github_action.py", "trust/test_load.py", "trust/test_hostile_checkout.py", "setup/test_real_",
    "repls/test_adapter_", "features/export/test_export_secrets.py", "features/page/test_page.py",
    "commands/test_commands.py",
    "app/test_serving.py", "commands/test_terminal.py", "tools/test_found_tests.py", "tools/test_run_tests.py",
    "tools/test_python_tests.py", "tools/test_affected_tests.py", "tools/test_interrupt_evaluation.py",
    "tools/test_edit_transactions.py", "relay/",
    "lisp/test_edit_laws.py", "trust/", "tools/test_edit_loads.py", "tools/test_note_edit.py",
    "commands/test_pictures.py", "app/", "clients/", "net/", "seam/test_other_repls.py", "log/test_history_crash.py",
)  # fmt: skip
"""The beginnings of the paths of the longest tests. They run first, or all processes would wait for them at the end."""
BY_TEST = (
    "setup/test_real_agents.py", "setup/test_real_clients.py", "setup/test_real_packages.py",
    "setup/test_real_restarts.py", "clients/test_client_libraries.py", "net/test_on_demand.py",
    "net/test_registration.py", "lisp/test_edit_laws.py", "relay/test_relay_life.py", "repls/launch/test_recipes.py",
    "trust/test_hostile_checkout.py", "features/warm_tests/test_warm_runs.py",
)  # fmt: skip
"""Long files whose tests share nothing that takes time, and so can be run by several processes."""
KIND = re.compile(rf"[\[-]({'|'.join(map(re.escape, (*real_repls.NAMES, *real_kernels.NAMES)))})[\]-]")


def unit_of(nodeid):
    """Return the unit of a test: one process runs all tests of a unit.

    The adapter contract is run by one process for each kind of REPL, which starts it once; tests that name no kind
    mostly use Clojure.
    """
    path, _, test = nodeid.removeprefix("tests/").partition("::")
    if path.startswith("repls/test_adapter_"):
        kind = KIND.search(test)
        return kind[1] if kind else "jvm"
    return nodeid if path in BY_TEST else path


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Return the scheduler of `--dist loadfile` that uses the units of `unit_scheduler`."""
    if config.getvalue("dist") != "loadfile":
        return None
    from unit_scheduler import UnitScheduling  # noqa: PLC0415  # xdist is there where it asks

    compiling = compilation_cache.basilisp()  # while the processes of the run collect
    return UnitScheduling(config, log, unit_of=unit_of, before=compiling.wait if compiling else lambda: None)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session):
    """Let processes that collect the same tests for the first time do so one after the other."""
    with compilation_cache.one_collects_first() if hasattr(session.config, "workerinput") else contextlib.nullcontext():
        return (yield)


def pytest_ignore_collect(collection_path, config):
    """Ignore files without any of the listed tests that are requested. None leaves the decision to others."""
    if collection_path.suffix != ".py" or weight.names_files(config):
        return None
    files = files_to_collect()
    return True if files is not None and path_within(collection_path) not in files else None


@functools.cache
def files_to_collect():
    """Return the only files with tests to run, or None if all files may have some."""
    return weight.files_to_collect()


def pytest_configure(config):
    """Make pytest-xdist assign units in the order used here, and not those with the fewest tests last."""
    config.option.loadscopereorder = False
    lent_servers.run_directory()  # before there are other processes, which inherit it


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark the slow files, leave out what others represent, and put the longest first.

    This way no processor is idle while another finishes a long file.
    """
    # The tests of a removed feature are gone, too: see `without_features.py`.
    rooms = {room: names for room, names in SLOW.items() if (HERE / room).is_dir()}
    slow = {HERE / room / f"test_{name}.py" for room, names in rooms.items() for name in names.split()}
    assert all(path.exists() for path in slow), f"gone: {[str(path) for path in slow if not path.exists()]}"
    ranks = {}
    for item in items:
        if item.path in slow:
            item.add_marker(pytest.mark.slow)
        if item.path not in ranks:
            path = path_of(item)
            rank = next((rank for rank, start in enumerate(LONGEST) if path.startswith(start)), len(LONGEST))
            ranks[item.path] = rank, item.path not in slow
    if sys.platform == "win32":
        not_on_windows.leave_out(items, path_of)
    out = set()
    if not alike.is_whole(config):
        out = alike.omitted_tests(items, path_of)
        if not weight.names_files(config):
            out |= weight.omitted_tests([item for item in items if item not in out], path_of)
    if needs.runs_only_tests_with_requirements():
        out |= {item for item in items if not needs.may_lack_something(item)}
    config.hook.pytest_deselected(items=[item for item in items if item in out])
    run = (item for item in items if item not in out)
    items[:] = sorted(run, key=lambda item: (not weight.is_daily(item, path_of), ranks[item.path]))


def path_of(item):
    """Return the path of a test's file below `tests`."""
    return path_within(item.path)


@functools.cache
def path_within(path):
    """Return a path relative to `tests`, cached because each file has many tests."""
    return path.relative_to(HERE).as_posix()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup():
    """Let no test or fixture wait forever, which would hide the results of the others."""
    with hung_tests.ended_after(hung_tests.LIMIT_S):
        return (yield)


pytest_runtest_call = pytest_runtest_teardown = pytest_runtest_setup


def pytest_collection_finish():
    """Exclude the tests themselves from garbage collection: each collection took a third of a second."""
    gc.freeze()
    gc.enable()


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module", autouse=True)
def _fail_if_left_open():
    """Fail in the module that left something open, such as a socket, not in a later one. Return borrowed servers."""
    yield
    lent_servers.give_back()
    gc.collect()
    gc.freeze()  # so that imported objects are not collected again


def served(request):
    """Return what a module declares with the mark `served`: the REPLs, and arguments of `live` and its clients."""
    mark = request.node.get_closest_marker("served")
    return (mark.args or ("python",), mark.kwargs) if mark else (("python",), {})


@pytest.fixture(scope="module")
def live(request, tmp_path_factory):
    """Run a server for all tests of a module, which may prepare it in a fixture of the same name."""
    repls, more = served(request)
    options = [word for repl in repls for word in ("--repl", repl)]
    folder = tmp_path_factory.mktemp("live")
    if repls == ("memory",):
        import tools_in_memory  # noqa: PLC0415  # all of a server is imported where one runs

        given = {name: value for name, value in more.items() if name in ("durations", "settings")}
        with tools_in_memory.serving(folder, **given) as running:
            yield running
        return
    if "settings" in more:
        user_settings_file(folder).write_text(FULL + more["settings"])
    with serving(folder, *options, durations=more.get("durations", "")) as running:
        yield running


@pytest.fixture
def client(request, live):
    with live.client(name=served(request)[1].get("client", "bare")) as connected:
        yield connected


@pytest.fixture
def other(request, live):
    with live.client(name=served(request)[1].get("other", "other")) as connected:
        yield connected
