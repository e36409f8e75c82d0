"""The architecture rule: which package may import which. Data flows one way, and the table in this file says how."""

import ast
import gc
import re
import subprocess
import sys
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from itertools import accumulate
from pathlib import Path

import needs
import pytest

from codriver.app.features import features

ROOT = Path(__file__).parents[1]
SERVER = ROOT / "server" / "codriver"
RELAY = ROOT / "relay" / "codriver_relay"
SEAM = ROOT / "server" / "codriver_seam"
WORKER = SERVER / "repls" / "worker"
DATALOG = ROOT / "server" / "codriver_datalog"
LISP = ROOT / "server" / "codriver_lisp"
LIBRARIES = [*sorted(DATALOG.rglob("*.py")), *sorted(LISP.rglob("*.py"))]

# The rooms behind the tools, of which each may import those before it.
WINGS_OF_TOOLS = ("tools/ledgers", "tools/calls", "tools/answers", "tools/acts")

# Each room, and the rooms whose code it may import. What is not here may import nothing of ours.
MAY_IMPORT = {
    "errors": set(),
    "systems": set(),
    "files": {"systems"},
    "wire": {"errors"},
    "core": {"errors"},
    "net": {"core", "errors", "files", "systems"},
    "log": {"core", "errors", "files"},
    "editing": {"errors", "files", "systems", "wire"},
    "skills": {"errors", "files"},
    "repls": {"core", "errors", "files", "log", "net", "systems", "wire"},
    "testing": {"core", "errors", "files", "log", "repls", "systems"},
    "settings": {"errors", "files", "net", "repls", "systems"},
    "setup": {"errors", "files", "net", "repls", "settings", "skills", "systems", "wire"},
    "tools/ledgers": {"core", "editing", "errors", "files", "log", "repls"},
    "tools/calls": {
        "core", "editing", "errors", "files", "log", "net", "repls", "settings", "testing",
        "tools/ledgers", "wire",
    },
    "tools/answers": {
        "core", "editing", "errors", "files", "log", "net", "repls", "tools/calls", "tools/ledgers",
    },
    "tools/acts": {
        "core", "editing", "errors", "files", "log", "net", "repls", "settings", "systems", "testing",
        "tools/answers", "tools/calls", "wire",
    },
    "tools": {
        "core", "editing", "errors", "files", "log", "net", "repls", "settings", "systems", *WINGS_OF_TOOLS,
    },
    "protocol": {
        "core", "errors", "log", "net", "server_hooks", "skills", "tools", "tools/answers", "tools/calls", "wire",
    },
    "protocol/sdk": {
        "core", "errors", "log", "net", "protocol", "skills", "tools", "tools/answers", "tools/calls",
    },
    "feature": {"log", "server_hooks", "settings", "setup"},
    "server_hooks": {"core", "editing", "log", "net", "repls", "settings", "tools/calls"},
    "features": set(),
    "app": {
        "core", "editing", "errors", "feature", "files", "log", "net", "protocol", "protocol/sdk", "repls",
        "server_hooks",
        "settings", "setup", "skills", "systems", "testing", "tools", "tools/calls", "tools/ledgers",
    },
    "commands": {
        "app", "core", "errors", "feature", "files", "log", "net", "repls", "settings", "setup", "systems", "testing",
    },
    "__main__": {"commands", "errors", "files", "net"},  # its short way leaves the commands out
}  # fmt: skip

# A feature may import the base's packages that it needs, and another feature only if its declaration requires that one.
BASE = frozenset(MAY_IMPORT) - {"features", "app", "__main__"}
FEATURES = {one.name: one for one in features()}
MAY_IMPORT |= {
    f"features/{name}": {*BASE, *(f"features/{other}" for other in one.requires)} for name, one in FEATURES.items()
}

# Libraries that only these rooms know.
DOORS = {
    "codriver_datalog": {"features/applications", "features/traces", "log", "tools", "tools/calls"},
    "codriver_lisp": {
        "editing",
        "features/export",
        "features/jupyter",
        "repls",
        "tools",
        "tools/acts",
        "tools/answers",
        "tools/calls",
        "tools/ledgers",
    },
    "mcp": {"protocol/sdk", "commands"},
    "mcp_types": {"protocol/sdk"},
    "click": {
        "commands",
        "features/applications",
        "features/export",
        "features/handoff",
        "features/jupyter",
        "features/page",
        "features/run",
    },
    "h11": {"features/page"},
    "tinydb": {"log"},
    "transit": {"log"},
    "pydantic": {
        "features/applications",
        "features/clojuredocs",
        "features/jupyter",
        "features/traces",
        "features/try_code",
        "settings",
        "tools",
        "tools/calls",
        "tools/answers",
        "tools/acts",
        "protocol/sdk",
    },
    "pydantic_core": {"protocol", "log"},
    "jupyter_client": {"features/jupyter"},
    "websockets": {"features/jupyter"},
    "yaml": {"skills"},
}

# Rooms without I/O: they get time, ids and limits as arguments.
SANS_IO = {"core", "wire"}
SANS_IO_PARTS = SERVER / "features" / "export" / "documents"
IO_MODULES = {
    "socket", "subprocess", "asyncio", "anyio", "os", "pathlib", "logging", "threading", "signal", "random", "datetime",
}  # fmt: skip


def modules():
    return [path for path in sorted(SERVER.rglob("*.py")) if path != SERVER / "__init__.py"]


def room_of(parts):
    """Return the package of a module by its path: the first part, unless a nested package is listed separately."""
    within = "/".join(parts[:2])
    return within if within in MAY_IMPORT else parts[0]


def room(path):
    return room_of(path.relative_to(SERVER).with_suffix("").parts)


@cache
def tree(path):
    """Return the syntax tree of a module, parsed once for all rules."""
    return ast.parse(path.read_text())


@pytest.fixture(scope="module", autouse=True)
def _trees():
    """Exclude the trees from garbage collection, which takes longer than parsing them, and drop them afterwards."""
    gc.disable()
    yield
    gc.enable()
    for kept in (tree, nodes, imports):
        kept.cache_clear()


@cache
def nodes(path):
    """Return all nodes in the tree of a module."""
    return tuple(ast.walk(tree(path)))


@cache
def imports(path):
    """Return the full name of every imported module, including those imported for type checking."""
    return tuple(_imports(path))


def _imports(path):
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # Of the worker alone, whose package has another name where it runs.
            package = path.parents[node.level - 1].relative_to(SERVER.parent).parts if node.level else ()
            home = ".".join([*package, *([node.module] if node.module else [])])
            yield from (f"{home}.{alias.name}" for alias in node.names)


def rooms_of(path):
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "codriver" and len(parts) > 1 and not parts[1].startswith("__"):
            yield room_of(parts[1:])


def name_of(path):
    return str(path.relative_to(ROOT))


def packages(path):
    """Return the top-level names of imported modules."""
    return {name.split(".")[0] for name in imports(path)}


def broken(rule, paths):
    """Return the modules that break a rule, and how. All are checked in one test, because separate cases take longer
    than the rule.
    """
    return {name_of(path): wrong for path in paths if (wrong := rule(path))}


def test_each_package_is_in_the_import_table():
    assert {room(path) for path in modules()} <= MAY_IMPORT.keys()


def test_a_package_imports_only_what_the_table_allows():
    assert broken(lambda path: set(rooms_of(path)) - MAY_IMPORT[room(path)] - {room(path)}, modules()) == {}


def test_a_third_party_library_is_imported_only_by_its_listed_packages():
    def known(path):
        return [name for name, doors in DOORS.items() if name in packages(path) and room(path) not in doors]

    assert broken(known, modules()) == {}


def test_packages_without_io_import_no_io():
    paths = [*(p for p in modules() if room(p) in SANS_IO), *SANS_IO_PARTS.rglob("*.py"), *LIBRARIES]
    assert broken(lambda path: packages(path) & IO_MODULES, paths) == {}


def test_the_datalog_and_lisp_packages_import_nothing_of_codriver():
    known = sys.stdlib_module_names | {"regex"}
    assert broken(lambda path: packages(path) - known - {path.parent.name}, LIBRARIES) == {}


def test_the_base_imports_no_feature():
    def imported(path):
        return [one for one in rooms_of(path) if one.startswith("features")]

    assert broken(imported, [path for path in modules() if not room(path).startswith("features")]) == {}


def test_every_feature_is_listed():
    assert {path.name for path in (SERVER / "features").iterdir() if (path / "__init__.py").exists()} == set(FEATURES)


def test_the_import_table_has_no_cycle():
    TopologicalSorter(MAY_IMPORT).prepare()


def arrows(folder):
    """Return the pairs of parts of a directory, modules or packages, of which the first imports the second."""
    package = folder.relative_to(SERVER.parent).parts
    for path in sorted(folder.rglob("*.py")):
        own = path.relative_to(folder).parts[0].removesuffix(".py")
        for name in imports(path):
            parts = tuple(name.split("."))
            part = parts[len(package)] if parts[: len(package)] == package and len(parts) > len(package) else own
            if part != own and ((folder / part).is_dir() or (folder / f"{part}.py").is_file()):
                yield own, part


@pytest.mark.parametrize("folder", [SERVER, DATALOG, LISP, SEAM, RELAY], ids=lambda folder: folder.name)
def test_no_modules_import_each_other_in_a_cycle(folder):
    ours = [path for path in folder.rglob("*.py") if path != folder / "__init__.py"]
    files = {".".join(path.relative_to(folder.parent).with_suffix("").parts): path for path in ours}
    known = {name.removesuffix(".__init__"): path for name, path in files.items()}

    def module_of(name):
        """Return the module that an import of `name` runs: itself, or the one that contains it."""
        return name if name in known else name.rpartition(".")[0]

    graph = {name: {module_of(used) for used in imports(path)} & known.keys() for name, path in known.items()}
    TopologicalSorter(graph).prepare()


def test_the_relay_uses_only_the_standard_library():
    own = sys.stdlib_module_names | {"codriver_relay"}
    assert broken(lambda path: packages(path) - own, RELAY.rglob("*.py")) == {}


# The relay's modules in one straight line: each may import those before it.
LINE = (
    "durations", "windows", "messages", "streams", "own_files", "peer", "target", "connection",
    "starter", "kept_lists", "roots", "reconnect", "command_line", "__init__", "hook", "__main__",
)  # fmt: skip


def test_relay_modules_import_only_earlier_ones_in_the_list():
    assert {path.stem for path in RELAY.glob("*.py")} == set(LINE)
    for place, module in enumerate(LINE):
        names = {name.split(".")[1] for name in imports(RELAY / f"{module}.py") if name.startswith("codriver_relay.")}
        assert names & set(LINE) <= set(LINE[:place]), module


def test_the_embedded_worker_uses_only_the_standard_library_and_its_lisp():
    for path in WORKER.rglob("*.py"):
        used = {name for name in imports(path) if not name.startswith("codriver.repls.worker.")}
        assert {name.split(".")[0] for name in used} <= sys.stdlib_module_names, path
        assert "basilisp" not in path.read_text() or path.stem in {"lisp", "start"}


# The wings of a large room, or its modules, and those that each may import. The modules at the door may import all of
# them, and nothing here imports from the door.
OF_ALL_ADAPTERS = {
    "stack_traces", "namespace_failures", "form_positions", "evaluation_tasks", "test_runs", "test_results",
}  # fmt: skip
WINGS = {
    "repls": {
        "contract": set(),
        "kinds": set(),
        "programs": set(),
        "worker": set(),
        "dialects": {"contract", "programs"},
        "stack_traces": {"contract", "dialects"},
        "namespace_failures": {"contract"},
        "form_positions": {"contract", "stack_traces"},
        "evaluation_tasks": {"contract"},
        "test_results": {"contract", "dialects", "stack_traces"},
        "test_runs": {"contract", "dialects", "evaluation_tasks"},
        "nrepl": {"contract", "dialects", *OF_ALL_ADAPTERS},
        "launch": {"contract", "kinds"},
    },
    "repls/worker": {
        "basics": set(),
        "python": {"basics"},
        "lisp": {"basics"},
        "features": {"basics", "python"},
        "fresh": {"basics", "python"},
        "serving": {"basics", "python", "lisp", "fresh"},
    },
    "features/jupyter/kernels": {
        "connection_files": set(),
        "content_reader": set(),
        "http_exchange": set(),
        "jupyter_paths": set(),
        "kernel_failures": set(),
        "kernel_processes": set(),
        "kernel_quirks": set(),
        "messages": set(),
        "session_keys": set(),
        "stored_bundles": set(),
        "zmtp": set(),
        "cell_outputs": {"messages"},
        "channel": {"messages"},
        "execution": {"kernel_failures", "kernel_quirks", "messages"},
        "kernelspecs": {"jupyter_paths"},
        "named_kernels": {"session_keys"},
        "python_programs": {"kernel_failures"},
        "server_frames": {"content_reader"},
        "server_sessions": {"connection_files", "http_exchange"},
        "signed_messages": {"zmtp"},
        "started_kernels": {"connection_files"},
        "inbox": {"signed_messages"},
        "kernel": {"channel", "kernel_quirks", "messages"},
        "kernel_search": {"connection_files", "kernel_processes", "server_sessions", "session_keys"},
        "lost_messages": {"signed_messages"},
        "server_api": {"http_exchange", "named_kernels"},
        "evaluator": {"cell_outputs", "execution", "kernel", "kernel_failures", "messages"},
        "foreign_evaluations": {"execution", "kernel", "kernel_failures", "messages"},
        "kernel_discovery": {"jupyter_paths", "kernel_search"},
        "kernel_queries": {"kernel", "messages"},
        "server_socket": {"content_reader", "server_api", "server_frames"},
        "silent_expressions": {"kernel", "messages"},
        "zmq_socket": {"inbox", "lost_messages", "signed_messages", "zmtp"},
        "kernel_seam": {"kernel", "kernel_queries", "messages", "silent_expressions"},
        "python_queries": {"kernel", "kernel_queries", "python_programs", "silent_expressions"},
        "server_channel": {"channel", "messages", "server_api", "server_frames", "server_socket"},
        "subshell_evaluations": {"evaluator", "kernel", "silent_expressions"},
        "zmq_channel": {
            "channel",
            "connection_files",
            "content_reader",
            "inbox",
            "kernel_processes",
            "lost_messages",
            "messages",
            "signed_messages",
            "zmq_socket",
            "zmtp",
        },
        "kernel_introspection": {"kernel", "kernel_queries", "python_programs", "python_queries"},
        "kernel_profile": {"kernel", "kernel_processes", "silent_expressions", "subshell_evaluations"},
        "kernel_tests": {"execution", "kernel", "python_programs", "python_queries", "silent_expressions"},
        "jupyter_adapter": {
            "channel",
            "evaluator",
            "foreign_evaluations",
            "kernel",
            "kernel_introspection",
            "kernel_profile",
            "kernel_seam",
            "kernel_tests",
            "stored_bundles",
            "subshell_evaluations",
            "zmq_channel",
        },
        "server_kernels": {
            "channel",
            "connection_files",
            "jupyter_adapter",
            "jupyter_paths",
            "named_kernels",
            "server_api",
            "server_channel",
            "server_sessions",
            "zmq_channel",
        },
    },
}


@pytest.mark.parametrize("large", WINGS)
def test_subpackages_of_a_large_package_follow_its_import_table(large):
    wings, folder = WINGS[large], SERVER / large
    TopologicalSorter(wings).prepare()
    assert {path.parent.name for path in folder.glob("*/__init__.py")} <= wings.keys()
    back = [(own, part) for own, part in arrows(folder) if own in wings and part not in wings[own]]
    assert back == []


def unknown_to_the_oldest(path):
    """Return how the oldest Python that the worker supports refuses a module, if it does."""
    try:
        ast.parse(path.read_text(), feature_version=(3, 8))
    except SyntaxError as error:
        return str(error)
    return None


def test_the_embedded_worker_uses_only_syntax_of_its_oldest_python():
    assert broken(unknown_to_the_oldest, WORKER.rglob("*.py")) == {}


def test_the_seam_uses_only_the_standard_library_of_its_oldest_python():
    def others(path):
        used = {name for name in imports(path) if not name.startswith(("codriver_seam.", "codriver.repls.worker."))}
        return {name.split(".")[0] for name in used} - sys.stdlib_module_names

    assert broken(others, SEAM.rglob("*.py")) == {}
    assert broken(unknown_to_the_oldest, SEAM.rglob("*.py")) == {}


def test_the_server_does_not_import_the_seam():
    assert [name_of(path) for path in modules() if "codriver_seam" in packages(path)] == []


def test_code_in_another_language_is_in_a_file_of_that_language():
    """A string of six or more lines must be a text for people; code for REPLs is in files below `repls/programs`."""
    long = [
        f"{name_of(path)}:{node.lineno}"
        for path in [*(SERVER / "repls").rglob("*.py"), *(SERVER / "features" / "export").rglob("*.py")]
        for node in nodes(path)
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant | ast.JoinedStr)
        if (node.value.end_lineno or 0) - node.value.lineno >= 5
    ]
    assert long == []


# Who opens files without `codriver.files`, and why; what is not here may not.
OPENERS = {
    "repls/worker/loading.py": "runs in the program, before anything of Codriver is loaded",
    "systems/file_system.py": "the one that all others use, through `codriver.files`",
    "repls/worker/serving/start.py": "runs in the project's own Python, without ours: /dev/null, what is installed",
    "repls/worker/basics/dialect.py": "runs in the project's own Python, without ours: source files, for look-ups",
    "repls/worker/fresh/shield.py": "runs in the project's Python, without Codriver: /proc",
    "repls/worker/fresh/import_program.py": "runs in the project's own Python, without ours: the modules to import",
    "repls/worker/basics/systems.py": "runs in an application, without ours: the kernel's word in /proc",
    "repls/worker/serving/embedded.py": "runs in an application, without ours: the kernel's table, its port file",
    "repls/worker/serving/standard_streams.py": "runs in the project's own Python, without ours: /dev/null",
    "net/kernel_sockets.py": "the kernel's tables in /proc",
    "features/jupyter/kernels/kernel_processes.py": "the kernel's tables in /proc",
    "repls/launch/discovery.py": "the kernel's tables in /proc",
    "setup/clients.py": "the templates that come with us",
    "setup/agent_files.py": "the skills that come with us",
    "repls/dialects/re_frame.py": "the forms that come with us",
    "features/run/processes.py": "/proc",
    "features/run/run_directory.py": "the private directory of all runs, to lock it",
    "features/run/requests.py": "its own sockets and requests in a private directory, which it checks",
    "features/run/program_copy.py": "a draft of the copy next to its place, in the private cache",
    "features/run/program/answer.py": "runs in the program, without Codriver: the request, and the REPL next to it",
    "features/run/program/sitecustomize.py": "runs in the program, without Codriver: the file next to it",
    "features/page/page_files.py": "the files of the page, which come with us",
    "repls/programs/__init__.py": "the programs that come with us",
    "repls/programs/python/runs_anew.py": "runs in the project's own Python, without ours: a test run's own folder",
    "repls/programs/python/new_process.py": "runs in the project's own Python, without ours: a test run's own folder",
    "features/warm_tests/child/__main__.py": "runs in the project's Python, without Codriver: what the server wrote",
    "features/warm_tests/child/preload.py": "runs in the project's Python, without Codriver: the sources of packages",
    "features/warm_tests/child/process_state.py": "runs in the project's Python, without Codriver: /proc",
    "features/warm_tests/child/scripts.py": "runs in the project's Python, without Codriver: imports",
    "features/warm_tests/stamps.py": "what is installed in the project's environment, and the project's own name",
    "features/warm_tests/starter.py": "a folder of its own, for what runs write for it",
    "systems/watchdog.py": "/dev/null",
    "systems/other_processes.py": "/dev/null",
    "commands/demo.py": "a folder of its own, made for the demonstration",
    "editing/diagnostics.py": "a folder of its own, made for a linter",
    "features/export/fresh_repl.py": "a folder of its own, made for a REPL that writes its port there",
    "testing/plain_process.py": "a folder of its own, made for a test run",
    "testing/program_bundle.py": "the programs that come with us",
    "testing/programs/boot.py": "runs in the project's Python, without Codriver: what the server wrote",
    "testing/programs/start.py": "runs in the project's Python, without Codriver: what the server wrote",
    "testing/programs/replaced_files.py": "runs in the project's own Python, without ours: what the server wrote",
    "testing/programs/lines_recorder.py": "runs in the project's own Python, without ours: the project's source files",
    "testing/programs/retained_process.py": "runs in the project's Python, without Codriver: /proc",
    "testing/programs/secret_values.py": "runs in the project's Python, without Codriver: the project's .env",
    "testing/programs/process.py": "runs in the project's own Python, without ours: the project's manage.py",
}
OPENING_METHODS = {"read_text", "read_bytes", "write_text", "write_bytes", "touch"}
OPENING_MODULES = {"tempfile", "shutil.copy", "shutil.copyfile", "shutil.copytree", "shutil.move", "io.FileIO"}


def openings(path):
    """Return the lines on which a module opens a file itself."""
    ours = {"files", "toml_file"}
    for node in nodes(path):
        if isinstance(node, ast.Import) and any(alias.name == "tempfile" for alias in node.names):
            yield node.lineno
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        owner, _, name = called.rpartition(".")
        is_path_open = name == "open" and (owner == "os" or "path" in owner.lower() or "file" in owner.lower())
        if owner.split(".")[0] not in ours and (
            called == "open" or called in OPENING_MODULES or name in OPENING_METHODS or is_path_open
        ):
            yield node.lineno


def test_only_the_listed_modules_open_files():
    needs.every_feature()
    found = {path.relative_to(SERVER).as_posix(): lines for path in modules() if (lines := list(openings(path)))}
    assert {name: lines for name, lines in found.items() if name not in OPENERS} == {}
    assert OPENERS.keys() <= found.keys(), "this one opens none any more"


def test_importing_the_packages_opens_no_socket_and_writes_no_file():
    code = (
        "import sys, socket\n"
        "def refuse(event, args):\n"
        "    if event in ('socket.bind', 'socket.connect', 'subprocess.Popen') or (\n"
        "        event == 'open' and isinstance(args[1], str) and set(args[1]) & set('wax+')):\n"
        "        raise SystemExit(f'{event} {args}')\n"
        "sys.dont_write_bytecode = True\n"
        "sys.addaudithook(refuse)\n"
        "import codriver, codriver_relay, codriver_seam, codriver.app.serve, codriver.commands.cli\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def calls_with_their_function(path):
    """Return each call in a module, with the name of the innermost function around it."""
    stack = [(tree(path), "")]
    while stack:
        node, function = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
        if isinstance(node, ast.Call):
            yield node, function
        stack += [(child, function) for child in ast.iter_child_nodes(node)]


# By these an append to an output log is told from one to a list of ours.
WAYS_TO_THE_LOG = {"log", "may_wait"}


def words_of(call):
    """Return what a call is made on, and the names of its arguments."""
    on = ast.unparse(call.func).split(".")[-2:-1]
    return {*on, *(keyword.arg for keyword in call.keywords)}


def entrances(path):
    """Return the functions of a module that create an output log, or append to one."""
    for call, function in calls_with_their_function(path):
        if getattr(call.func, "attr", getattr(call.func, "id", None)) not in ("OutputLog", "append"):
            continue
        called = ast.unparse(call.func)
        is_made = called.rpartition(".")[2] == "OutputLog"
        is_appended = called.endswith(".append") and bool(WAYS_TO_THE_LOG.intersection(words_of(call)))
        if is_made or is_appended:
            yield path.relative_to(SERVER).as_posix(), function


def test_only_one_function_writes_to_the_output_log():
    found = [place for path in modules() for place in entrances(path)]
    assert sorted(found) == [("log/logbook.py", "__init__"), ("log/logbook.py", "record")]


# A refusal has a class of its own where somebody tells it from others by its type; else it is raised by its reason.
def refusals():
    """Return each subclass of `RefusedError`, with its module."""
    below = {"RefusedError": "codriver.errors"}
    classes = [(path, node) for path in modules() for node in nodes(path) if isinstance(node, ast.ClassDef)]
    while more := {
        node.name: ".".join(path.relative_to(SERVER.parent).with_suffix("").parts)
        for path, node in classes
        if node.name not in below and below.keys() & {ast.unparse(base).split(".")[-1] for base in node.bases}
    }:
        below |= more
    del below["RefusedError"]
    return below


def told_apart(path):
    """Return the full name of each class that a module catches or tests for, as imported there or defined there."""
    places = []
    for node in nodes(path):
        if isinstance(node, ast.ExceptHandler) and node.type is not None:
            places.append(node.type)
        elif isinstance(node, ast.MatchClass):
            places.append(node.cls)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in {"isinstance", "suppress"}:
            places += node.args
    asked = {name.id for place in places for name in ast.walk(place) if isinstance(name, ast.Name)}
    own = ".".join(path.relative_to(SERVER.parent).with_suffix("").parts)
    return {f"{own}.{name}" for name in asked} | {name for name in imports(path) if name.rpartition(".")[2] in asked}


def test_every_refusal_class_is_caught_somewhere():
    known = {name for path in modules() for name in told_apart(path)}

    def is_caught(name, module):
        # A package hands on what its modules have.
        packages = accumulate(module.split("."), lambda package, part: f"{package}.{part}")
        return any(f"{package}.{name}" in known for package in packages)

    assert {name for name, module in refusals().items() if not is_caught(name, module)} == set()


# Where secrets are taken out: as text enters the log or a transcript, and as a message leaves for a client.
SECRETS_DOORS = {"log", "protocol", "protocol/sdk", "features/applications", "features/traces"}
# Who makes the object that takes them out, and hands it on.
REDACTOR_IS_MADE_BY = {
    "app/wiring.py": "the server's, for those two doors",
    "app/first_session.py": "that of `init`, for what the second door says first",
    "features/export/fresh_runs.py": "that of a REPL without a server, whose texts enter no log",
}


def named(path):
    """Return every name in a module: variables, attributes, arguments and imports."""
    for node in nodes(path):
        for field in ("id", "attr", "arg", "name", "asname", "module"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                yield name


def test_only_the_listed_modules_redact_secrets():
    makers = {SERVER / name for name in REDACTOR_IS_MADE_BY}
    others = [path for path in modules() if room(path) not in SECRETS_DOORS and path not in makers]
    assert broken(lambda path: {name for name in named(path) if "redact" in name.lower()}, others) == {}


@pytest.mark.parametrize("maker", REDACTOR_IS_MADE_BY)
def test_a_module_that_makes_the_redactor_never_uses_it(maker):
    needs.every_feature()
    called = [ast.unparse(call.func) for call, _ in calls_with_their_function(SERVER / maker)]
    assert [name for name in called if "redact" in name.lower()] == ["Redactor.from_environment"]


# Whoever shows something to a person does it by `codriver.commands.terminal`, where control characters become visible.
SHOWN_BY = SERVER / "commands" / "terminal.py"
WRITERS = {"print", "input", "click.echo", "click.secho", "click.echo_via_pager", "click.prompt", "click.confirm",
           "click.style", "click.progressbar", "click.get_text_stream", "click.get_binary_stream"}  # fmt: skip
STREAM_USE = re.compile(r"sys\.(__)?std(out|err)(__)?\.(?!isatty$|fileno$)\w+")
# What else writes to a descriptor, in these functions alone: a pipe.
DESCRIPTORS = {("daemon", "daemonize"), ("daemon", "reached")}


def writes(path):
    """Return each function that writes without the allowed one: by a writer's name, a stream, or a descriptor."""
    for scope in nodes(path):
        if not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(scope):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                if name in WRITERS or (name == "os.write" and (path.stem, scope.name) not in DESCRIPTORS):
                    yield scope.name, name
            elif isinstance(node, ast.Attribute) and STREAM_USE.fullmatch(ast.unparse(node)):
                yield scope.name, ast.unparse(node)


def test_commands_write_only_through_the_escaping_function():
    commands = [path for path in modules() if room(path).startswith("commands") and path != SHOWN_BY]
    assert broken(lambda path: list(writes(path)), commands) == {}


def test_mypy_is_told_about_every_test_package():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["overrides"]
    named = {name.removesuffix(".*") for override in settings for name in override["module"]}
    tests = ROOT / "tests"
    rooms = {path.name for path in tests.iterdir() if path.is_dir() and list(path.glob("*.py"))}
    modules = {path.stem for folder in (tests, tests / "support") for path in folder.glob("*.py")}
    missing = (rooms | modules) - {"bench", "support"} - named
    assert not missing, f"name {missing} in the first of pyproject's overrides for mypy: its modules are taken for code"


NAMED = re.compile(r"`codriver\.([a-z_]+(?:\.[A-Za-z_]+)*)`")
NO_MODULES = frozenset({"toml", "forms"})
"""A file of settings, and a namespace of Clojure."""


def is_there(name):
    """Return whether a dotted name below the package refers to a directory, a module, or something in its source."""
    place = SERVER
    for part in name.split("."):
        if place.is_dir():
            file = place / f"{part}.py"
            place = place / part if (place / part).is_dir() else file if file.exists() else place / "__init__.py"
            if place == file or place.is_dir():
                continue
        if not re.search(rf"\b{part}\b", place.read_text("utf-8")):
            return False
    return True


def test_a_module_named_in_prose_exists():
    paths = {*modules(), *LIBRARIES, *RELAY.rglob("*.py"), *SEAM.rglob("*.py")}
    named = {(str(path.relative_to(ROOT)), name) for path in paths for name in NAMED.findall(path.read_text("utf-8"))}
    assert {(path, name) for path, name in named if name not in NO_MODULES and not is_there(name)} == set()
