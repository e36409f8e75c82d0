"""What every test shares."""

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

os.environ["TESTS_OF_CODRIVER_FORK"] = "1"
from live_server import serving  # it starts servers in the way that the variable says

# How long an example takes says more of the machine than of the code.
settings.register_profile("codriver", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Where tests are run for what they reach, and not for what they find.
settings.register_profile("brief", settings.get_profile("codriver"), max_examples=20)
settings.load_profile("codriver")

# A shell starts what runs in the background with SIGINT ignored, and every process of the tests would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

SLOW = {
    "app": "event_loop hot_reload serving shutdown",
    "clients": "client_libraries inspector sdk_clients",
    "commands": "commands demo terminal testing watch",
    "datalog": "against_reference",
    "docs": "ci_recipe server_pages",
    "lisp": "edit_laws",
    "lisp/rename": "meaning",
    "log": "history_crash memory secrets spill_live stderr_log transcripts",
    "net": "on_demand registration server_verification",
    "protocol": "corners",
    "relay": "find_workspace hook kept_lists relay_life relay_pressure survey",
    "repls": "adapter_contract capability_table connectors foreign_repls",
    "repls/jupyter": "real_kernels",
    "repls/launch": "discovery recipes",
    "repls/nrepl": "late_answers leiningen seam_streams",
    "repls/worker": "connections interpreters",
    "seam": "applications framework_forms other_repls re_frame2 shop",
    "settings": "reload_live",
    "setup": "doctor real_agents real_clients real_packages real_restarts shared_entries",
    "skills": "skills_live",
    "tools": "byte_budgets clojuredocs edit_acts edit_files edit_loads edit_python error_chains failure_places "
    "found_tests interrupt_evaluation isolation lanes lean_toolset listed_tools note_edit pytest_runs restart_repl "
    "run_tests stacktrace symbol_answers symbol_info tests_of_other_repls wait_for what_changed_in_lisp",
    "trust": "browser cancellation edits_stay_inside faults files gone_clients hostile_checkout invariants "
    "limits load presence_files starving",
}
"""Test files by room that took more than ten seconds each on two cores: `-m "not slow"` leaves them out."""


def pytest_configure(config):
    """Let pytest-xdist hand out files as they are ordered here, and not those with the fewest tests last."""
    config.option.loadscopereorder = False


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the slow files and put them first, so that no processor is idle while another ends with one of them."""
    here = Path(__file__).parent
    slow = {here / room / f"test_{name}.py" for room, names in SLOW.items() for name in names.split()}
    assert all(path.exists() for path in slow), f"gone: {[str(path) for path in slow if not path.exists()]}"
    for item in items:
        if item.path in slow:
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish():
    """Leave the tests themselves out of each module's search for garbage, which took a third of a second with them."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module", autouse=True)
def _left_open_here():
    """What a module leaves to the garbage collector, as a socket, fails there, and not in whatever comes next."""
    yield
    gc.collect()


def served(request):
    """What a module says of its server by the mark `served`: the REPLs, and the names of its clients."""
    mark = request.node.get_closest_marker("served")
    return (mark.args or ("python",), mark.kwargs) if mark else (("python",), {})


@pytest.fixture(scope="module")
def live(request, tmp_path_factory):
    """A server for all tests of a module, which may prepare it in a fixture of the same name."""
    repls, _ = served(request)
    options = [word for repl in repls for word in ("--repl", repl)]
    with serving(tmp_path_factory.mktemp("live"), *options) as running:
        yield running


@pytest.fixture
def client(request, live):
    with live.client(name=served(request)[1].get("client", "bare")) as connected:
        yield connected


@pytest.fixture
def other(request, live):
    with live.client(name=served(request)[1].get("other", "other")) as connected:
        yield connected
