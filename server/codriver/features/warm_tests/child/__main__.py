"""The main program of a warm process, from which test runs are forked.

The argument of the program is the path of a plan. The plan is a dict, written as a Python literal instead of JSON,
because the workspace may contain a module named `json`. `libraries` contains the interpreter's library directories,
each with a trailing separator. `early` and `late` are the modules to preload before and after the environment variables
in `variables` are set. Apart from the standard library, only modules in `packages` may be preloaded. `excluded` maps
other modules that must not be preloaded to reasons, `watched` lists attributes that imports replace, and `registries`
lists containers that imports of other modules change. A module cannot be unloaded. If some modules turn out to be
unsuitable, the process rewrites the plan and restarts without them.

Standard input and output carry such literals, one per line. The first line of output is the state (see `Forker.state`).
Each line of input is a run: a script to run like `python SCRIPT ARGUMENTS`, with `directory`, `environment`, `output`
(the file for its output), `record` and `min_imported_s` (the arguments of `RunRecord`), `answer` (a file for the reason
why it needs a plain process), `events` and `begun` (a file, and a string that it contains once a test has started).
Several children may run at once. Each run produces the lines `{"pid"}` and `{"pid", "status"}`, with an exit status as
in `subprocess`. At the end of standard input, the process kills its children, removes the files of their runs, and
exits.
"""

from __future__ import annotations

import sys

BASE_MODULES = set(sys.modules)
"""Names of the modules that a new interpreter has already loaded.

Until the recording starts, this program imports only from these modules.
"""

import os  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NEEDS_PLAIN_STATUS = 250
"""Exit status of a child whose run has to be repeated in a plain process."""
MIN_PYTHON_VERSION = (3, 11)
"""The oldest version of CPython whose processes can be forked safely."""
MAX_RESTARTS = 10
"""Maximum number of restarts. Each one excludes all unsuitable modules found so far."""
RESTARTS_EXHAUSTED_REASON = "the list of modules that must not be preloaded keeps growing"
"""Reason given for not warming a project after the maximum number of restarts."""

if not TYPE_CHECKING:
    __package__, __spec__ = "child", None
sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
from .frozen_objects import replace_listing_functions  # noqa: E402
from .hide import PreloadedModules  # noqa: E402
from .module_teardown import ModuleTeardown  # noqa: E402
from .preload import ExcludedModuleError, Preloader  # noqa: E402
from .process_state import file_stat, thread_ids  # noqa: E402
from .random_draws import find_generators  # noqa: E402
from .registries import Registries  # noqa: E402
from .reveal import Revealer  # noqa: E402
from .scripts import RunRecord, ScriptCache, create_main_namespace  # noqa: E402

for _name in [name for name in sys.modules if name not in BASE_MODULES]:
    del sys.modules[_name]


STARTUP_MODULES = ("sitecustomize", "usercustomize", "encodings")
"""Modules that Python imports from `PYTHONPATH` when it starts, if they exist there."""


def startup_files() -> dict[str, tuple[int, int, int] | None]:
    """Return the files that Python read or looked for at startup, with their state as returned by `file_stat`.

    Files in the directories of installed packages are omitted, because the server compares these directories itself.
    """
    paths = [getattr(sys.modules.get(name), "__file__", None) for name in BASE_MODULES - {"__main__"}]
    paths += [os.path.realpath(sys.executable), os.path.join(sys.prefix, "pyvenv.cfg")]
    site: Any = sys.modules.get("site")
    if site is not None and site.ENABLE_USER_SITE:
        paths.append(os.path.join(site.USER_SITE, ""))
    for directory in filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        for name in STARTUP_MODULES:
            paths += [os.path.join(directory, name), os.path.join(directory, f"{name}.py")]
    return {os.path.abspath(path) + path[len(path.rstrip(os.sep)) :]: file_stat(path) for path in paths if path}


def has_startup_code() -> bool:
    """Return whether the interpreter runs code from the environment at startup.

    Such code is in `sitecustomize`, in `usercustomize`, or in lines of `.pth` files that start with `import`. It may
    read any environment variable.
    """
    if not sys.modules.keys().isdisjoint(STARTUP_MODULES[:2]):
        return True
    for directory in sys.path:
        if not directory.endswith("-packages"):
            continue
        for name in os.listdir(directory) if os.path.isdir(directory) else ():
            if name.endswith(".pth"):
                with open(os.path.join(directory, name), "rb") as file:
                    if any(line.startswith((b"import ", b"import\t")) for line in file):
                        return True
    return False


def import_module(name: str) -> Any:
    """Import a module by name, even if `importlib` has not been imported."""
    return sys.modules["_frozen_importlib"]._gcd_import(name)


def load_private_module(name: str) -> Any:
    """Load a separate copy of a standard library module.

    It is not inserted into `sys.modules`, because the workspace may contain a module with the same name.
    """
    bootstrap: Any = sys.modules["_frozen_importlib"]
    external: Any = sys.modules["_frozen_importlib_external"]
    standard = os.path.dirname(os.__file__)
    paths = [standard, os.path.join(standard, "lib-dynload")]
    spec = bootstrap.BuiltinImporter.find_spec(name) or external.PathFinder.find_spec(name, paths)
    module = bootstrap.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Forker:
    """The warm process. It preloads modules, and forks a child process for each test run."""

    def __init__(self, plan_path: str) -> None:
        self.plan_path = plan_path
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()  # any output of Python at startup makes the process unsuitable
        self.seed = os.environ.pop("PYTHONHASHSEED", "")
        self.environment = dict(os.environ)
        # The lowest descriptors are free in a new process, so move these to higher ones.
        self.control = os.dup(0), os.dup(1)
        self.outputs = {name: os.memfd_create(name) for name in ("stdout", "stderr")}
        redirect_descriptor(0, os.devnull, os.O_RDONLY)
        for number, name in (1, "stdout"), (2, "stderr"):
            os.dup2(self.outputs[name], number)
        self.startup_files = startup_files()
        self.has_startup_code = has_startup_code()
        sys.path[0] = os.getcwd()
        self.select: Any = load_private_module("select")
        self.teardown = ModuleTeardown(load_private_module("gc"))
        self.preloader: Preloader
        self.plan: dict[str, Any]

    # Before the first run

    def preload(self) -> str:
        """Import the modules in the plan, and hide them from later imports.

        Return the reason why the process cannot be used, or an empty string.
        """
        base_files = [getattr(sys.modules.get(name), "__file__", None) for name in BASE_MODULES - {"__main__"}]
        # The plan lists the others, and it cannot be read before imports are recorded.
        standard = os.path.join(os.path.dirname(os.__file__), "")
        self.preloader = preloader = Preloader(BASE_MODULES, (standard,), frozenset(), {}, {})
        self.preloaded = PreloadedModules(preloader)
        with preloader.record_imports(self.outputs):
            with open(self.plan_path, encoding="ascii") as file:
                self.plan = eval(file.read(), {})
            preloader.libraries = tuple(self.plan["libraries"])
            preloader.packages = frozenset(self.plan["packages"])
            preloader.excluded.update(self.plan.get("excluded", {}))
            preloader.watched = self.plan.get("watched", {})
            preloader.registries = Registries(self.plan.get("registries", {}))
            try:
                hook = self.import_pytest()
            except ExcludedModuleError as error:
                reason = preloader.exclusion_reason(str(error))
                return f"pytest imports {error}, which cannot be preloaded ({reason})"
            preloader.preload(self.plan.get("early", []))
            os.environ.update(self.plan.get("variables", {}))
            preloader.preload(self.plan.get("late", []))
        gc, time = load_private_module("gc"), sys.modules["time"]
        if hook in sys.meta_path:
            sys.meta_path.remove(hook)
        os.environ.clear()
        os.environ.update(self.environment)
        time.tzset()
        outside = [file for file in base_files if file and not preloader.is_library(file)]
        if outside:
            return f"{outside[0]} is loaded whenever Python starts"
        changes, registries = preloader.unwatched_replacements(), preloader.registries.unwatched_changes()
        gc.collect()
        preloader.bit_generators = find_generators(gc.get_objects())
        self.preloaded.hide()
        self.restart_without(self.preloaded.obstacles(), changes, registries)
        self.teardown.check_preloaded(self.preloaded.hidden)
        if len(thread_ids(after_fork=True)) > 1:
            return "a thread that no module started is running"
        return ""

    def import_pytest(self) -> Any:
        """Import pytest and its plugins with assertion rewriting, and return pytest's hook that rewrites assertions."""
        try:
            config_module = import_module("_pytest.config")
            assertion = import_module("_pytest.assertion")
        except ImportError:
            return None
        version = getattr(sys.modules["_pytest"], "__version__", "")
        if [int(part) for part in version.split(".")[:2] if part.isdigit()] >= [8, 2]:
            os.environ["PYTEST_VERSION"] = version
        config = config_module.get_config()
        if not hasattr(config, "inicfg"):
            config.inicfg = {}
        hook = assertion.install_importhook(config)
        mark = config._mark_plugins_for_rewrite
        more = (False,) if mark.__code__.co_argcount > 2 else ()  # since pytest 8.4
        mark(hook, *more)
        self.preloader.preload(["pytest"])
        return hook

    def restart_without(
        self, obstacles: dict[str, str], changes: dict[str, list[str]], registries: dict[str, list[str]]
    ) -> None:
        """Restart the process with a changed plan. Do nothing if there are no changes.

        The new plan excludes modules that must not be preloaded, and watches modules that are changed by imports of
        other modules.
        """
        if not (obstacles or changes or registries):
            return
        restarts = self.plan.get("restarts", 0) + 1
        if restarts > MAX_RESTARTS:
            self.send({"problem": RESTARTS_EXHAUSTED_REASON})
            os._exit(1)
        known = {**self.plan.get("registries", {})}
        for name, paths in registries.items():
            known[name] = [*known.get(name, ()), *paths]
        self.plan["registries"] = known
        watched = self.plan.get("watched", {})
        for name, attributes in changes.items():
            watched[name] = sorted({*attributes, *watched.get(name, ())})
        self.plan.update(excluded={**self.plan.get("excluded", {}), **obstacles}, watched=watched, restarts=restarts)
        with open(self.plan_path, "w", encoding="ascii") as file:
            file.write(ascii(self.plan))
        os.dup2(self.control[0], 0)
        os.dup2(self.control[1], 1)
        redirect_descriptor(2, os.devnull, os.O_WRONLY)
        environment = {**self.environment, "PYTHONHASHSEED": self.seed}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606 - itself

    def state(self) -> dict[str, Any]:
        """Return the properties of the process that are sent to the server after preloading."""
        return {
            "pid": os.getpid(),
            "has_startup_code": self.has_startup_code,
            "hidden": list(self.preloaded.hidden),
            "excluded": self.plan.get("excluded", {}),
            "watched": self.plan.get("watched", {}),
            "registries": self.plan.get("registries", {}),
        }

    # Runs

    def send(self, value: dict[str, Any]) -> None:
        """Send a message to the server."""
        os.write(self.control[1], ascii(value).encode() + b"\n")

    def serve(self) -> dict[str, Any]:
        """Handle requests from the server, and fork a child for each run.

        Return only in a child process, with the run that the child is for.
        """
        rest, scripts = b"", ScriptCache()
        children: dict[int, tuple[int, str]] = {}
        while True:
            ready, _, _ = self.select.select([self.control[0], *children], [], [])
            for descriptor in ready:
                if descriptor in children:
                    os.close(descriptor)
                    pid, _ = children.pop(descriptor)
                    self.send({"pid": pid, "status": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])})
            if self.control[0] not in ready:
                continue
            received = os.read(self.control[0], 65536)
            if not received:
                for pid, run_directory in children.values():
                    kill_process_group(pid)
                    remove_tree(run_directory)
                os._exit(0)
            *lines, rest = (rest + received).split(b"\n")
            for line in lines:
                run: dict[str, Any] = eval(line, {})
                run["code"], run["compiled_programs"] = scripts.load(run["script"], run["arguments"][0])
                child = os.fork()
                if child == 0:
                    for descriptor in children:
                        os.close(descriptor)
                    return run
                children[os.pidfd_open(child)] = child, os.path.dirname(run["events"])
                self.send({"pid": child})

    def prepare_child(self, run: dict[str, Any]) -> RunRecord:
        """Make this child process look like a new `python SCRIPT ARGUMENT...`, and return the record of its imports."""
        self.child_pid = os.getpid()
        os.setsid()
        for descriptor in (*self.control, *self.outputs.values()):
            os.close(descriptor)
        redirect_descriptor(1, run["output"], os.O_WRONLY | os.O_APPEND)
        os.dup2(1, 2)
        os.chdir(run["directory"])
        os.environ.clear()
        os.environ.update(run["environment"])
        sys.path_importer_cache.clear()
        record = RunRecord(run["record"], BASE_MODULES, run["min_imported_s"])
        # The handlers that are registered first are called last.
        atexit = load_private_module("atexit")
        atexit.register(self.remove_preloaded_modules)
        atexit.register(record.write)
        for generator in self.preloader.generators:
            generator.seed()
        for generator in self.preloader.bit_generators:
            generator.state = type(generator)().state
        request = PlainProcessRequest(run)
        for path, stat in self.startup_files.items():
            if file_stat(path) != stat:
                request.request_plain(os.path.basename(path.rstrip(os.sep)), "startup", path, [])
        self.freeze_objects()
        Revealer(self.preloaded, record, request.request_plain).install()
        return record

    def remove_preloaded_modules(self) -> None:
        """Remove the preloaded modules before Python deletes the contents of all modules. See `ModuleTeardown`."""
        if os.getpid() == self.child_pid:
            loaded = self.preloaded.loaded
            self.teardown.remove({name: loaded[name] for name in self.preloaded.requirements})

    def freeze_objects(self) -> None:
        """Exclude all present objects from garbage collections, unless the run asks `gc` for them."""
        if (module := self.preloaded.hidden.get("gc")) is None:
            return
        vars(module)["freeze"]()
        # `check_modules` must not take these for replacements by the run.
        self.preloaded.namespaces.get("gc", {}).update(replace_listing_functions(module))


class PlainProcessRequest:
    """Aborts the run in a child process, so that the server repeats it in a plain process."""

    def __init__(self, run: dict[str, Any]) -> None:
        self.run = run
        self.pid = os.getpid()

    def request_plain(self, module: str, kind: str, about: str, others: list[str]) -> None:
        """Report why a plain process is needed, and abort the run.

        If no test has started, exit immediately. Otherwise, raise KeyboardInterrupt, so that fixtures are torn down.
        The arguments are those of `Revealer.request_plain`.
        """
        if os.getpid() != self.pid:  # a process that a test forked
            raise ImportError(f"{module} cannot be imported in this forked process: {kind} {about}")
        is_started = self.has_started()
        variables = {name: os.environ.get(name) for name in about.split()} if kind == "variable" else {}
        answer = {
            "module": module,
            "kind": kind,
            "about": about,
            "others": others,
            "variables": variables,
            "begun": is_started,
        }
        with open(self.run["answer"], "w", encoding="ascii") as file:
            file.write(ascii(answer))
        if is_started:
            raise KeyboardInterrupt
        if (atexit := sys.modules.get("atexit")) is not None:
            atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(NEEDS_PLAIN_STATUS)

    def has_started(self) -> bool:
        """Return whether a test has started. If so, repeating the run would repeat side effects."""
        try:
            with open(self.run["events"], "rb") as file:
                return self.run["begun"].encode() in file.read()
        except FileNotFoundError:
            return False


def redirect_descriptor(descriptor: int, path: str, flags: int) -> None:
    """Redirect a file descriptor to the file at `path`, opened with `flags`."""
    opened = os.open(path, flags)
    os.dup2(opened, descriptor)
    os.close(opened)


def kill_process_group(pid: int) -> None:
    """Kill a process group, if it exists."""
    try:  # noqa: SIM105 - `contextlib` may not be loaded
        os.killpg(pid, 9)
    except ProcessLookupError:
        pass


def remove_tree(path: str) -> None:
    """Remove a directory with everything in it, without following links. Ignore errors."""
    for parent, directories, names in os.walk(path, topdown=False):
        for name in names:
            ignore_errors(os.unlink, os.path.join(parent, name))
        for name in directories:
            ignore_errors(os.rmdir, os.path.join(parent, name))
    ignore_errors(os.rmdir, path)


def ignore_errors(function: Callable[[str], None], path: str) -> None:
    """Call a function with a path, and ignore errors of the operating system."""
    try:  # noqa: SIM105 - `contextlib` may not be loaded
        function(path)
    except OSError:
        pass


def describe_exception(error: BaseException) -> str:
    """Return the class, the message and the location of an exception."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    location = f" at {os.path.basename(frame.tb_frame.f_code.co_filename)}:{frame.tb_lineno}" if frame else ""
    return f"{type(error).__name__}: {error}{location}"


def unsupported_python_reason() -> str:
    """Return the reason why this interpreter cannot be used as a warm process, or an empty string."""
    if sys.implementation.name != "cpython" or sys.version_info < MIN_PYTHON_VERSION:
        oldest = ".".join(map(str, MIN_PYTHON_VERSION))
        return f"only processes of CPython {oldest} and later can be copied with their imported modules"
    return ""


def main() -> tuple[dict[str, Any], RunRecord]:
    """Preload modules, and fork a child process for each run.

    Return only in a child process, with its run and the record of its imports.
    """
    warm = Forker(sys.argv[1])
    try:
        reason = unsupported_python_reason() or warm.preload()
    except BaseException as error:
        reason = describe_exception(error)
    if reason:
        warm.send({"problem": reason})
        os._exit(1)
    warm.send(warm.state())
    run = warm.serve()
    return run, warm.prepare_child(run)


if __name__ == "__main__":
    _run, _record = main()
    exec(
        _run["code"],
        create_main_namespace(_run["script"], _run["arguments"], _record, _run["compiled_programs"]),
    )
