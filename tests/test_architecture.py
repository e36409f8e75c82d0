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

# The subpackages of `tools`. Each may import those before it.
TOOL_PACKAGES = ("tools/ledgers", "tools/calls", "tools/answers", "tools/execution")

# Each package, and the packages that it may import.
MAY_IMPORT = {
    "errors": set(),
    "python_syntax": set(),
    "systems": set(),
    "files": {"systems"},
    "wire": {"errors"},
    "core": {"errors"},
    "net": {"core", "errors", "files", "systems"},
    "log": {"core", "errors", "files"},
    "editing": {"errors", "files", "python_syntax", "systems", "wire"},
    "skills": {"errors", "files"},
    "repls": {"core", "errors", "files", "log", "net", "systems", "wire"},
    "testing": {"core", "errors", "files", "log", "python_syntax", "repls", "systems"},
    "settings": {"errors", "files", "net", "repls", "systems"},
    "setup": {"errors", "files", "net", "repls", "settings", "skills", "systems", "wire"},
    "tools/ledgers": {"core", "editing", "errors", "files", "log", "repls"},
    "tools/calls": {
        "core", "editing", "errors", "files", "log", "net", "python_syntax", "repls", "settings", "testing",
        "tools/ledgers", "wire",
    },
    "tools/answers": {
        "core", "editing", "errors", "files", "log", "net", "repls", "tools/calls", "tools/ledgers",
    },
    "tools/execution": {
        "core", "editing", "errors", "files", "log", "net", "repls", "settings", "systems", "testing",
        "tools/answers", "tools/calls", "wire",
    },
    "tools": {
        "core", "editing", "errors", "files", "log", "net", "repls", "settings", "systems", *TOOL_PACKAGES,
    },
    "protocol": {
        "core", "errors", "log", "net", "server_hooks", "skills", "tools", "tools/answers", "tools/calls", "wire",
    },
    "protocol/sdk": {
        "core", "errors", "log", "net", "protocol", "skills", "tools", "tools/answers", "tools/calls",
    },
    "feature": {"log", "repls", "server_hooks", "settings", "setup"},
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
FEATURES = {feature.name: feature for feature in features()}
MAY_IMPORT |= {
    f"features/{name}": {*BASE, *(f"features/{other}" for other in item.requires)} for name, item in FEATURES.items()
}

# Libraries, and the packages that may import them.
IMPORTERS = {
    "codriver_datalog": {"features/applications", "features/traces", "log", "tools", "tools/answers", "tools/calls"},
    "codriver_lisp": {
        "editing",
        "features/export",
        "features/jupyter",
        "repls",
        "tools",
        "tools/execution",
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
    "psutil": {"features/run"},
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
        "tools/execution",
        "protocol/sdk",
    },
    "pydantic_core": {"protocol", "log"},
    "jupyter_client": {"features/jupyter"},
    "websockets": {"features/jupyter"},
    "yaml": {"skills"},
}

# Packages without I/O: they get time, ids and limits as arguments.
SANS_IO = {"core", "wire"}
SANS_IO_PARTS = SERVER / "features" / "export" / "documents"
IO_MODULES = {
    "socket", "subprocess", "asyncio", "anyio", "os", "pathlib", "logging", "threading", "signal", "random", "datetime",
}  # fmt: skip


def modules():
    return [path for path in sorted(SERVER.rglob("*.py")) if path != SERVER / "__init__.py"]


def package_of_parts(parts):
    """Return the package of a module by its path: the first part, unless a nested package is listed separately."""
    within = "/".join(parts[:2])
    return within if within in MAY_IMPORT else parts[0]


def package_of(path):
    return package_of_parts(path.relative_to(SERVER).with_suffix("").parts)


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
    for cached in (tree, nodes, imports):
        cached.cache_clear()


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
            # Only the worker has relative imports, because its package has another name in the project's Python.
            package = path.parents[node.level - 1].relative_to(SERVER.parent).parts if node.level else ()
            module = ".".join([*package, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def imported_packages(path):
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "codriver" and len(parts) > 1 and not parts[1].startswith("__"):
            yield package_of_parts(parts[1:])


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
    assert {package_of(path) for path in modules()} <= MAY_IMPORT.keys()


def test_a_package_imports_only_what_the_table_allows():
    assert (
        broken(lambda path: set(imported_packages(path)) - MAY_IMPORT[package_of(path)] - {package_of(path)}, modules())
        == {}
    )


def test_a_third_party_library_is_imported_only_by_its_listed_packages():
    def unlisted(path):
        return [
            name
            for name, importers in IMPORTERS.items()
            if name in packages(path) and package_of(path) not in importers
        ]

    assert broken(unlisted, modules()) == {}


def test_packages_without_io_import_no_io():
    paths = [*(p for p in modules() if package_of(p) in SANS_IO), *SANS_IO_PARTS.rglob("*.py"), *LIBRARIES]
    assert broken(lambda path: packages(path) & IO_MODULES, paths) == {}


def test_the_datalog_and_lisp_packages_import_nothing_of_codriver():
    known = sys.stdlib_module_names | {"regex"}
    assert broken(lambda path: packages(path) - known - {path.parent.name}, LIBRARIES) == {}


def test_the_base_imports_no_feature():
    def imported_features(path):
        return [package for package in imported_packages(path) if package.startswith("features")]

    assert broken(imported_features, [path for path in modules() if not package_of(path).startswith("features")]) == {}


def test_every_feature_is_listed():
    assert {path.name for path in (SERVER / "features").iterdir() if (path / "__init__.py").exists()} == set(FEATURES)


def test_the_import_table_has_no_cycle():
    TopologicalSorter(MAY_IMPORT).prepare()


def imported_parts(folder):
    """Return the pairs of parts of a directory, modules or packages, of which the first imports the second."""
    package = folder.relative_to(SERVER.parent).parts
    for path in sorted(folder.rglob("*.py")):
        importer = path.relative_to(folder).parts[0].removesuffix(".py")
        for name in imports(path):
            parts = tuple(name.split("."))
            part = parts[len(package)] if parts[: len(package)] == package and len(parts) > len(package) else importer
            if part != importer and ((folder / part).is_dir() or (folder / f"{part}.py").is_file()):
                yield importer, part


@pytest.mark.parametrize("folder", [SERVER, DATALOG, LISP, SEAM, RELAY], ids=lambda folder: folder.name)
def test_no_modules_import_each_other_in_a_cycle(folder):
    paths = [path for path in folder.rglob("*.py") if path != folder / "__init__.py"]
    files = {".".join(path.relative_to(folder.parent).with_suffix("").parts): path for path in paths}
    known = {name.removesuffix(".__init__"): path for name, path in files.items()}

    def module_of(name):
        """Return the module that an import of `name` runs: itself, or the one that contains it."""
        return name if name in known else name.rpartition(".")[0]

    graph = {name: {module_of(used) for used in imports(path)} & known.keys() for name, path in known.items()}
    TopologicalSorter(graph).prepare()


def test_the_relay_uses_only_the_standard_library():
    allowed = sys.stdlib_module_names | {"codriver_relay"}
    assert broken(lambda path: packages(path) - allowed, RELAY.rglob("*.py")) == {}


# The modules of the relay. Each may import those before it.
RELAY_MODULES = (
    "durations", "windows", "messages", "streams", "safe_files", "workspace_search", "peer", "hosts",
    "server_verification", "connection", "starter", "stored_answers", "roots", "main_loop", "command_line",
    "__init__", "hook", "__main__",
)  # fmt: skip


def test_relay_modules_import_only_modules_listed_before_them():
    assert {path.stem for path in RELAY.glob("*.py")} == set(RELAY_MODULES)
    for index, module in enumerate(RELAY_MODULES):
        names = {name.split(".")[1] for name in imports(RELAY / f"{module}.py") if name.startswith("codriver_relay.")}
        assert names & set(RELAY_MODULES) <= set(RELAY_MODULES[:index]), module


def test_the_embedded_worker_uses_only_the_standard_library_and_its_lisp():
    for path in WORKER.rglob("*.py"):
        used = {name for name in imports(path) if not name.startswith("codriver.repls.worker.")}
        assert {name.split(".")[0] for name in used} <= sys.stdlib_module_names, path
        assert "basilisp" not in path.read_text() or path.stem in {"lisp", "start"}


# The subpackages or modules of a large package, and those that each may import. Modules that are not listed may import
# all of them, and are imported by none of them.
ADAPTER_PARTS = {
    "stack_traces", "namespace_failures", "form_positions", "evaluation_tasks", "test_runs", "test_results",
}  # fmt: skip
SUBPACKAGES = {
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
        "nrepl": {"contract", "dialects", *ADAPTER_PARTS},
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
        "stored_bundles": set(),
        "zmtp": set(),
        "cell_outputs": {"messages"},
        "channel": {"messages"},
        "execution": {"kernel_failures", "kernel_quirks", "messages"},
        "kernelspecs": {"jupyter_paths"},
        "named_kernels": set(),
        "python_programs": {"kernel_failures"},
        "server_frames": {"content_reader"},
        "server_sessions": {"connection_files", "http_exchange"},
        "signed_messages": {"zmtp"},
        "started_kernels": {"connection_files", "kernel_ports"},
        "inbox": {"signed_messages"},
        "kernel": {"channel", "kernel_quirks", "messages"},
        "workspace_kernels": {"connection_files", "kernel_processes", "server_sessions"},
        "lost_messages": {"signed_messages"},
        "server_api": {"http_exchange", "named_kernels"},
        "evaluator": {"cell_outputs", "execution", "kernel", "kernel_failures", "messages"},
        "foreign_evaluations": {"execution", "kernel", "kernel_failures", "messages"},
        "kernel_discovery": {"jupyter_paths", "workspace_kernels"},
        "kernel_queries": {"kernel", "messages"},
        "server_socket": {"content_reader", "server_api", "server_frames"},
        "silent_expressions": {"kernel", "messages"},
        "zmq_socket": {"inbox", "lost_messages", "signed_messages", "zmtp"},
        "kernel_access": {"kernel", "kernel_queries", "messages", "silent_expressions"},
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
            "cell_outputs",
            "channel",
            "evaluator",
            "foreign_evaluations",
            "kernel",
            "kernel_introspection",
            "kernel_profile",
            "kernel_access",
            "kernel_tests",
            "stored_bundles",
            "subshell_evaluations",
            "zmq_channel",
        },
        "jupyter_server_kernels": {
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


@pytest.mark.parametrize("large", SUBPACKAGES)
def test_subpackages_of_a_large_package_follow_its_import_table(large):
    table, folder = SUBPACKAGES[large], SERVER / large
    TopologicalSorter(table).prepare()
    assert {path.parent.name for path in folder.glob("*/__init__.py")} <= table.keys()
    violations = [
        (importer, part)
        for importer, part in imported_parts(folder)
        if importer in table and part not in table[importer]
    ]
    assert violations == []


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


# Modules that open files without `codriver.files`, and what they open. No other module may.
OPENERS = {
    "repls/worker/loading.py": "runs in the program, before anything of Codriver is loaded",
    "systems/file_system.py": "the one that all others use, through `codriver.files`",
    "repls/worker/serving/start.py": "runs in the project's Python, without Codriver: /dev/null, what is installed",
    "repls/worker/basics/source_files.py": "runs in the project's Python, without Codriver: source files, for look-ups",
    "repls/worker/fresh/isolation.py": "runs in the project's Python, without Codriver: /proc",
    "repls/worker/fresh/import_program.py": "runs in the project's Python, without Codriver: the modules to import",
    "repls/worker/basics/systems.py": "runs in an application, without Codriver: the kernel's word in /proc",
    "repls/worker/serving/embedded.py": "runs in an application, without Codriver: the kernel's table, its port file",
    "repls/worker/serving/standard_streams.py": "runs in the project's Python, without Codriver: /dev/null",
    "net/kernel_sockets.py": "the kernel's tables in /proc",
    "features/jupyter/kernels/kernel_processes.py": "the kernel's tables in /proc",
    "repls/launch/listening_programs.py": "the kernel's tables in /proc",
    "setup/clients.py": "the templates that come with Codriver",
    "setup/shared_command.py": "the metadata of the installed package",
    "setup/agent_files.py": "the skills that come with Codriver",
    "features/applications/framework_forms.py": "the forms that come with Codriver",
    "features/run/command.py": "/dev/null",
    "features/run/linux_processes.py": "/proc",
    "features/run/run_directory.py": "the private directory of all runs, to lock it",
    "features/run/program_sockets.py": "its own sockets in a private directory",
    "features/run/program_copy.py": "a draft of the copy next to its place, in the private cache",
    "features/run/program/answer.py": "runs in the program, without Codriver: the request, and the REPL next to it",
    "features/run/program/sitecustomize.py": "runs in the program, without Codriver: the file next to it",
    "features/page/page_files.py": "the files of the page, which come with Codriver",
    "repls/programs/__init__.py": "the programs that come with Codriver",
    "repls/programs/python/new_process_launch.py": "runs in the project's Python, without Codriver",
    "repls/programs/python/new_process.py": "runs in the project's Python, without Codriver: a test run's directory",
    "features/warm_tests/child/__main__.py": "runs in the project's Python, without Codriver: what the server wrote",
    "features/warm_tests/child/hide.py": "runs in the project's Python, without Codriver: the sources of packages",
    "features/warm_tests/child/process_state.py": "runs in the project's Python, without Codriver: /proc",
    "features/warm_tests/child/scripts.py": "runs in the project's Python, without Codriver: imports",
    "features/warm_tests/stamps.py": "what is installed in the project's environment, and the project's own name",
    "features/warm_tests/process_pool.py": "its own directory, for what runs write for it, and /proc",
    "features/warm_tests/warm_run.py": "what a run wrote in the directory of the pool",
    "systems/watchdog.py": "/dev/null",
    "systems/other_processes.py": "/dev/null",
    "commands/demo.py": "its own directory, made for the demonstration",
    "editing/diagnostics.py": "its own directory, made for a linter",
    "features/jupyter/kernels/kernel_ports.py": "/proc",
    "features/export/fresh_repl.py": "its own directory, made for a REPL that writes its port there",
    "testing/plain_process.py": "the output and events of a test run, in its own directory",
    "testing/retained_process.py": "requests and answers, in the directory of a test run",
    "testing/start_files.py": "its own directory, made for a test run",
    "testing/program_bundle.py": "the programs that come with Codriver",
    "testing/programs/boot.py": "runs in the project's Python, without Codriver: what the server wrote",
    "testing/programs/start.py": "runs in the project's Python, without Codriver: what the server wrote",
    "testing/programs/replaced_files.py": "runs in the project's Python, without Codriver: what the server wrote",
    "testing/programs/lines_recorder.py": "runs in the project's Python, without Codriver: the project's source files",
    "testing/programs/retained_process.py": "runs in the project's Python, without Codriver: /proc",
    "testing/programs/secret_values.py": "runs in the project's Python, without Codriver: the project's .env",
    "testing/programs/process.py": "runs in the project's Python, without Codriver: the project's manage.py",
}
OPENING_METHODS = {"read_text", "read_bytes", "write_text", "write_bytes", "touch"}
OPENING_MODULES = {"tempfile", "shutil.copy", "shutil.copyfile", "shutil.copytree", "shutil.move", "io.FileIO"}


def openings(path):
    """Return the lines on which a module opens a file itself."""
    allowed_owners = {"files", "toml_file"}
    for node in nodes(path):
        if isinstance(node, ast.Import) and any(alias.name == "tempfile" for alias in node.names):
            yield node.lineno
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        owner, _, name = called.rpartition(".")
        is_path_open = name == "open" and (owner == "os" or "path" in owner.lower() or "file" in owner.lower())
        if owner.split(".")[0] not in allowed_owners and (
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


# Receivers and keywords that distinguish an append to an output log from one to a list.
LOG_MARKS = {"log", "may_wait"}


def receiver_and_keywords(call):
    """Return the object on which a method is called, and the names of the keyword arguments."""
    receiver = ast.unparse(call.func).split(".")[-2:-1]
    return {*receiver, *(keyword.arg for keyword in call.keywords)}


def log_writers(path):
    """Return the functions of a module that create an output log, or append to one."""
    for call, function in calls_with_their_function(path):
        if getattr(call.func, "attr", getattr(call.func, "id", None)) not in ("OutputLog", "append"):
            continue
        called = ast.unparse(call.func)
        creates = called.rpartition(".")[2] == "OutputLog"
        appends = called.endswith(".append") and bool(LOG_MARKS.intersection(receiver_and_keywords(call)))
        if creates or appends:
            yield path.relative_to(SERVER).as_posix(), function


def test_only_one_function_writes_to_the_output_log():
    functions = [function for path in modules() for function in log_writers(path)]
    assert sorted(functions) == [("log/logbook.py", "__init__"), ("log/logbook.py", "record")]


# A refusal has its own class only if that class is caught somewhere. All others are raised by their reason.
def refusals():
    """Return each subclass of `RefusedError`, with its module."""
    found = {"RefusedError": "codriver.errors"}
    classes = [(path, node) for path in modules() for node in nodes(path) if isinstance(node, ast.ClassDef)]
    while subclasses := {
        node.name: ".".join(path.relative_to(SERVER.parent).with_suffix("").parts)
        for path, node in classes
        if node.name not in found and found.keys() & {ast.unparse(base).split(".")[-1] for base in node.bases}
    }:
        found |= subclasses
    del found["RefusedError"]
    return found


def checked_classes(path):
    """Return the full name of each class that a module catches or tests for, as imported there or defined there."""
    expressions = []
    for node in nodes(path):
        if isinstance(node, ast.ExceptHandler) and node.type is not None:
            expressions.append(node.type)
        elif isinstance(node, ast.MatchClass):
            expressions.append(node.cls)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in {"isinstance", "suppress"}:
            expressions += node.args
    names = {name.id for expression in expressions for name in ast.walk(expression) if isinstance(name, ast.Name)}
    module = ".".join(path.relative_to(SERVER.parent).with_suffix("").parts)
    return {f"{module}.{name}" for name in names} | {name for name in imports(path) if name.rpartition(".")[2] in names}


def test_every_refusal_class_is_caught_somewhere():
    checked = {name for path in modules() for name in checked_classes(path)}

    def is_caught(name, module):
        # A package may re-export a class of its modules.
        packages = accumulate(module.split("."), lambda package, part: f"{package}.{part}")
        return any(f"{package}.{name}" in checked for package in packages)

    assert {name for name, module in refusals().items() if not is_caught(name, module)} == set()


# Packages that redact secrets, before text is added to the log or a transcript, or a message is sent to a client.
REDACTING_PACKAGES = {"log", "protocol", "protocol/sdk", "features/applications", "features/traces"}
# Modules that create a redactor and pass it on.
REDACTOR_CREATORS = {
    "app/wiring.py": "for a server",
    "app/first_answers.py": "for the first answers that `init` stores",
    "features/export/fresh_runs.py": "for a REPL without a server, whose output is not logged",
}


def named(path):
    """Return every name in a module: variables, attributes, arguments and imports."""
    for node in nodes(path):
        for field in ("id", "attr", "arg", "name", "asname", "module"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                yield name


def is_of_redactor(name):
    """Return whether a name denotes the redactor, its module, or its methods that redact.

    The functions of the log and the transcripts that return text without secrets have other names, such as `redact`.
    """
    return "redactor" in name.lower() or "redaction" in name.lower() or name == "redact_json"


def test_only_the_listed_modules_redact_secrets():
    makers = {SERVER / name for name in REDACTOR_CREATORS}
    others = [path for path in modules() if package_of(path) not in REDACTING_PACKAGES and path not in makers]
    assert broken(lambda path: {name for name in named(path) if is_of_redactor(name)}, others) == {}


@pytest.mark.parametrize(
    "name", ["Redactor", "redactor", "new_stream_redactor", "codriver.log.redaction", "redact_json"]
)
def test_every_name_of_the_redactor_is_recognized(name):
    assert is_of_redactor(name)


@pytest.mark.parametrize("maker", REDACTOR_CREATORS)
def test_a_module_that_makes_the_redactor_never_uses_it(maker):
    needs.every_feature()
    called = [ast.unparse(call.func) for call, _ in calls_with_their_function(SERVER / maker)]
    assert [name for name in called if "redact" in name.lower()] == ["Redactor.from_environment"]


# Commands only print through this module, which makes control characters visible.
TERMINAL = SERVER / "commands" / "terminal.py"
WRITERS = {"print", "input", "click.echo", "click.secho", "click.echo_via_pager", "click.prompt", "click.confirm",
           "click.style", "click.progressbar", "click.get_text_stream", "click.get_binary_stream"}  # fmt: skip
STREAM_USE = re.compile(r"sys\.(__)?std(out|err)(__)?\.(?!isatty$|fileno$)\w+")
# Functions that write to a pipe.
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
    commands = [path for path in modules() if package_of(path).startswith("commands") and path != TERMINAL]
    assert broken(lambda path: list(writes(path)), commands) == {}


def test_mypy_checks_every_test_package():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["overrides"]
    named = {name.removesuffix(".*") for override in settings for name in override["module"]}
    tests = ROOT / "tests"
    packages = {path.name for path in tests.iterdir() if path.is_dir() and list(path.glob("*.py"))}
    modules = {path.stem for folder in (tests, tests / "support") for path in folder.glob("*.py")}
    missing = (packages | modules) - {"bench", "support"} - named
    assert not missing, f"name {missing} in the first of pyproject's overrides for mypy: its modules are taken for code"


MODULE_NAME = re.compile(r"`codriver\.([a-z_]+(?:\.[A-Za-z_]+)*)`")
OTHER_NAMES = frozenset({"toml", "forms"})
"""Names that look like modules: `codriver.toml` and the Clojure namespace `codriver.forms`."""


def exists_in_source(name):
    """Return whether a dotted name below the package refers to a directory, a module, or something in its source."""
    path = SERVER
    for part in name.split("."):
        if path.is_dir():
            file = path / f"{part}.py"
            path = path / part if (path / part).is_dir() else file if file.exists() else path / "__init__.py"
            if path == file or path.is_dir():
                continue
        if not re.search(rf"\b{part}\b", path.read_text("utf-8")):
            return False
    return True


def test_every_module_named_in_docstrings_or_comments_exists():
    paths = {*modules(), *LIBRARIES, *RELAY.rglob("*.py"), *SEAM.rglob("*.py")}
    named = {
        (str(path.relative_to(ROOT)), name) for path in paths for name in MODULE_NAME.findall(path.read_text("utf-8"))
    }
    assert {(path, name) for path, name in named if name not in OTHER_NAMES and not exists_in_source(name)} == set()
