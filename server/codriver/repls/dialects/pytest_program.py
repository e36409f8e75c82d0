"""The part of a Python REPL's test program that has pytest run the tests; `python_tests` has the rest.

What pytest is given are files and folders; where it is given none, it looks where the project's settings say, and the
files of test modules that are loaded count too.
"""

from __future__ import annotations

from typing import Final

PYTEST: Final = """

ELSEWHERE = (("xdist", "--numprocesses=0"), ("pytest_cov", "--no-cov"), ("timeout", "--timeout-method=signal"))
NO_LISP = ["-p", "no:basilisp_test_runner"]
INTERNAL = "INTERNALERROR> "
LISP, WALKED = (".lpy", ".cljc"), 20000
wrapper = pytest.hookimpl(hookwrapper=True) if pytest else staticmethod
early = pytest.hookimpl(tryfirst=True) if pytest else staticmethod


class Plugin:
    def __init__(self, targets, names, extra, wanted, only):
        self.names, self.extra, self.only = names, extra, only
        self.hy = {os.path.realpath(one) for one in (*targets, *names) if one.endswith(".hy")}
        self.wanted = wanted.replace("::", ".")
        self.running, self.stopped = None, None
        self.rows, self.seen, self.output, self.times = [], set(), [], {}
        self.saved, self.errors, self.causes = {}, {}, {}
        self.before, self.patterns, self.is_silent = set(sys.modules), [], sys.dont_write_bytecode
        self.broken, self.is_known, self.is_stopped = None, False, False

    def tests(self, patterns):
        for name, module in list(sys.modules.items()):
            file = file_of(module)
            if own(file) and name != "__main__":
                base = os.path.splitext(os.path.basename(file))[0] + ".py"
                if any(fnmatch.fnmatch(base, pattern.rpartition("/")[2]) for pattern in patterns):
                    yield name

    def take(self, patterns):
        # pytest would use what is loaded; a test file that was edited must be read again.
        self.patterns += patterns
        self.saved.update({name: sys.modules.pop(name) for name in self.tests(patterns)})

    def put_back(self):
        # What the run alone has loaded is not there for the next one, which finds it or not.
        for name in self.tests(self.patterns):
            if name not in self.before or name.rpartition(".")[2] == "conftest":
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
        # Cached code is told apart by size and second alone, and an edit may come sooner. Plugins are edited by nobody,
        # and some take longer to compile than a run may last.
        sys.dont_write_bytecode = True
        yield

    def pytest_configure(self, config):
        self.take(config.getini("python_files"))
        config.args[:] = [*config.args, *self.extra]

    def pytest_collect_file(self, file_path, parent):
        if os.path.realpath(str(file_path)) in self.hy:
            return pytest.Module.from_parent(parent, path=file_path)

    @early
    def pytest_collection_modifyitems(self, config, items):
        # A file that is named beside its folder is collected twice.
        once = {item.nodeid: item for item in items}
        kept = [item for item in once.values() if self.is_wanted(item)]
        config.hook.pytest_deselected(items=[item for item in once.values() if item not in kept])
        self.is_known = bool(kept)
        items[:] = kept

    def is_wanted(self, item):
        name = full_name(item)
        if self.only:
            return [self.home(item), name] in self.only or [self.home(item), "(collection)"] in self.only
        plain = name.partition("[")[0]
        return not self.wanted or self.wanted in (name, plain) or plain.startswith(self.wanted + ".")

    def home(self, item):
        file = os.path.realpath(str(item.reportinfo()[0]))
        return self.names.get(file) or beneath(file)

    @early
    def pytest_sessionfinish(self, session):
        sys.dont_write_bytecode = self.is_silent

    @early
    def pytest_runtest_protocol(self, item, nextitem):
        self.running = item

    @early
    def pytest_keyboard_interrupt(self, excinfo):
        be_deaf()
        self.is_stopped = issubclass(excinfo.type, KeyboardInterrupt)
        if self.is_stopped and self.running is not None:
            self.stopped = self.place(self.running, excinfo.tb)

    def pytest_exception_interact(self, node, call, report):
        if not isinstance(node, pytest.Item) and call.excinfo is not None:
            self.broken = call.excinfo.value.__cause__ or call.excinfo.value
            self.causes[report.nodeid] = self.broken

    def pytest_collectreport(self, report):
        if not report.passed:
            file = os.path.realpath(report.nodeid.partition("::")[0])
            skipped = report.skipped and isinstance(report.longrepr, tuple)
            cause = None if report.skipped else self.causes.get(report.nodeid)
            told = {"actual": None if report.skipped else str(report.longrepr)[-TEXT:]}
            if cause:
                told = cause_of(cause, file)
            self.rows.append({
                "test": "(collection)", "ns": self.names.get(file, report.nodeid), "file": file,
                "outcome": "pass" if report.skipped else "error", "skipped": report.skipped,
                "message": report.longrepr[2] if skipped else None,
                **told,
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
        named = (self.home(item), full_name(item))
        self.times[named] = self.times.get(named, 0) + report.duration
        expected = getattr(report, "wasxfail", None)
        if report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            words = "skipped: " + reason.replace("Skipped: ", "", 1)
            self.row(item, "pass", "failed as expected" if expected is not None else words, skipped=True)
        elif report.failed:
            wrong = error is None or issubclass(error.type, (AssertionError, pytest.fail.Exception))
            words = getattr(report, "sub_test_description", str)() if report.when == "call" else "in its " + report.when
            self.row(item, "fail" if wrong and report.when == "call" else "error", words or None, error, report)
        elif report.when == "call":
            self.row(item, "pass", None if expected is None else "was expected to fail and passed")

    def place(self, item, trace):
        path, line, _ = item.reportinfo()
        file = os.path.realpath(str(path))
        row = {"test": full_name(item), "ns": self.home(item), "file": file, "line": None if line is None else line + 1}
        frames = traceback.extract_tb(trace) if trace else ()
        for frame in frames:
            if os.path.realpath(frame.filename) == file:
                row["line"] = frame.lineno
        return dict(row, frames=frames_of(frames))

    def row(self, item, outcome, message, error=None, report=None, skipped=False):
        row = dict(self.place(item, error.tb if error else None), outcome=outcome, message=message, skipped=skipped)
        if report is not None:
            row["actual"] = (words_of(error) if error else str(report.longrepr))[:TEXT]
            for title, text in report.sections:
                if title.endswith(report.when):
                    self.output.append(f"--- {row['test']}: {title} ---\\n{text[-TEXT:].rstrip()}\\n")
        self.rows.append(row)


def cause_of(error, file):
    # Not pytest's report, which begins with its own frames: a reader who sees but the beginning learns no reason of it.
    frames = traceback.extract_tb(error.__traceback__)
    lines = [one.lineno for one in frames if os.path.realpath(one.filename) == file]
    imports = os.sep + "importlib" + os.sep
    told = [one for one in frames_of(frames) if imports not in one["file"] and one["file"][0] != "<"]
    words = str(error) if type(error).__name__ == "CollectError" else "".join(
        traceback.format_exception_only(type(error), error)
    )
    return {"actual": words.strip()[:TEXT], "line": lines[-1] if lines else None, "frames": told}


def reason_in(said):
    # Of an error in a hook the last lines have the place and the words; before them stand pytest's own hundred.
    inner = [one[len(INTERNAL):] for one in said.splitlines() if one.startswith(INTERNAL)]
    return "\\n".join(inner[-6:]) if inner else said[-TEXT:]


def words_of(error):
    shown = getattr(error.value, "formatrepr", None)
    return getattr(shown and shown(), "errorstring", None) or error.exconly()


def full_name(item):
    names = []
    while item is not None and not isinstance(item, pytest.File):
        names.insert(0, item.name)
        item = item.parent
    return ".".join(names)


def options(files, match):
    # What the project's settings say holds, but for what would take the output or the process.
    given = ["--capture=sys", "-p", "no:faulthandler", "--continue-on-collection-errors"]
    given += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    given += ["-k", match] if match else []
    # What pytest rewrites to explain a failure is Python's text, not Hy's.
    given += ["--assert=plain"] if any(file.endswith(".hy") for file in files) else []
    return given


def has_lisp(targets):
    # Whether Basilisp's plugin, which compiles all of Basilisp first, may find something: a great folder counts as yes.
    seen = 0
    for target in targets or ["."]:
        if target.endswith(LISP):
            return True
        for at, folders, files in os.walk(target):
            folders[:] = [one for one in folders if not is_foreign(at, one)]
            seen += len(folders) + len(files)
            if seen > WALKED or any(one.endswith(LISP) for one in files):
                return True
    return False


def is_foreign(at, name):
    return name.startswith(".") or name == "node_modules" or os.path.isfile(os.path.join(at, name, "pyvenv.cfg"))


def by_pytest(targets, names, extra, wanted, match, only, is_one):
    plugin, screen = Plugin(targets, names, extra, wanted, only), io.StringIO()
    path = sys.path[:]
    importlib.invalidate_caches()
    try:
        plugin.take(["conftest.py"])
        with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen):
            given = options([*names, *targets], match) + ([] if has_lisp(targets) else NO_LISP)
            status = pytest.main([*given, *targets], plugins=[plugin])
    finally:
        sys.path[:], sys.dont_write_bytecode = path, plugin.is_silent
        plugin.put_back()
    print("".join(plugin.output)[-OUTPUT:], end="")
    if plugin.is_stopped and not plugin.stopped:
        raise KeyboardInterrupt
    if status in (3, 4) and not plugin.rows:
        raise RuntimeError("pytest could not run:\\n" + reason_in(screen.getvalue().strip()))
    if status == 2 and not plugin.stopped:
        print(screen.getvalue().strip()[-TEXT:])
    if is_one and plugin.broken and not plugin.seen:
        raise plugin.broken
    if wanted and not match and plugin.is_known and not plugin.seen and not plugin.stopped:
        raise LookupError(f"the test {wanted} is there, and the project's settings of pytest deselect it")
    times = [[*named, seconds] for named, seconds in plugin.times.items()]
    return len(plugin.seen), times, plugin.rows, plugin.stopped
"""
