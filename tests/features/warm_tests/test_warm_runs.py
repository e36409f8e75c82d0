"""Warm runs of small projects with the pytest of this test suite: they report what a plain process reports."""

import math
import os
import shutil
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import process_runs
import pytest
import warm_runs
from warm_runs import Project, comparable, differences

import codriver
from codriver.features.warm_tests import decisions, process_pool, starter
from codriver.features.warm_tests.known_packages import KNOWN_PACKAGES
from codriver.features.warm_tests.saved_plans import SavedPlans
from codriver.features.warm_tests.warm_options import IS_FORK_SAFE, WarmOptions

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not IS_FORK_SAFE, reason="processes cannot be copied safely on this system"),
]

INI = "[pytest]\naddopts = -p no:cacheprovider -p no:randomly\n"
LIMIT_S = 240


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Create an environment with these tests' pytest and a writable site-packages directory."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    ours = Path(pytest.__file__).parents[1]
    names = ["pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"]
    metadata = [path for name in names for path in ours.glob(f"{name}-*.dist-info")]
    for found in [*(ours / name for name in names), *metadata, ours / "py.py"]:
        name = found.name
        if found.is_dir():
            shutil.copytree(found, site / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(found, site)
    return folder / "bin" / "python", site


@pytest.fixture
def project(environment, tmp_path):
    """Run `act` with a project whose runs have become warm."""
    python, site = environment
    installed = []

    def install(**modules):
        for name, text in modules.items():
            path = site / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            installed.append(path)
            path.write_text(text)

    def run(act, files, *, packages=None, unknown=(), **options):
        install(**(packages or {}))
        names = {path.relative_to(site).parts[0].removesuffix(".py") for path in installed}
        known = KNOWN_PACKAGES | names - {*unknown}

        @asynccontextmanager
        async def opened():
            async with warm_runs.project(
                python, tmp_path, {"pytest.ini": INI, **files}, **{"packages": known, **options}
            ) as made:
                yield made

        async def main():
            with anyio.fail_after(LIMIT_S):
                async with opened() as made:
                    return await act(made)

        return anyio.run(main)

    run.install = install  # type: ignore[attr-defined]
    yield run
    for path in installed:
        path.unlink(missing_ok=True)
        if path.parent != site:
            shutil.rmtree(path.parent, ignore_errors=True)


async def agree(made, *arguments, **variables):
    """Compare a warm run with a plain one, and return the warm one."""
    warm = await made.warm_up(*arguments, **variables)
    assert warm.is_warm, (made.status, warm.output)
    assert differences(await made.plain(*arguments, **variables), warm) == []
    return warm


async def agree_with_a_shell(made, *arguments):
    """Compare a warm run with `python -m pytest`, including the last line that it prints, and return the warm one."""
    warm = await made.warm_up(*arguments)
    assert warm.is_warm, (made.status, warm.output)
    status, text = await warm_runs.run_pytest(made.python, made.directory, *arguments)
    assert comparable(text) == comparable(warm.output)
    assert status == warm.report.exit_status
    return warm


async def agree_with_a_shell_plainly(made):
    """Compare a run that has to be plain with `python -m pytest`, and return it."""
    plain = await made.run()
    assert not plain.is_warm
    status, text = await warm_runs.run_pytest(made.python, made.directory)
    assert (status, comparable(text)) == (plain.report.exit_status, comparable(plain.output))
    return plain


def test_the_first_test_run_uses_a_new_process_and_the_next_one_a_preloaded_process(project):
    async def act(made):
        first = await made.run()
        assert not first.is_warm
        second = await made.run()
        assert second.is_warm
        assert differences(first, second) == []
        assert made.status.is_warm
        assert made.status.hash_seed == second.report.finished.hash_seed
        assert made.status.memory_mb > 0

    project(act, {"test_a.py": "def test_a(): pass\ndef test_b(): assert 1 == 2\n"})


def test_a_project_whose_first_run_fails_becomes_warm_while_failed_processes_are_retained(project):
    async def act(made):
        first = await made.run(is_retained=True)
        assert first.report.finished.is_retained
        warm = await made.run(is_retained=True)
        assert warm.is_warm, made.status
        assert warm.report.finished.is_retained
        assert differences(first, warm) == []

    project(act, {"test_a.py": "def test_a(): assert 1 == 2\n"})


def test_unknown_packages_are_imported_by_each_run(project):
    async def act(made):
        warm = await agree_with_a_shell(made)
        assert warm.report.counts.failed == 1
        assert {"pytest", "_pytest.python", "pluggy", "known"} <= made.preloaded
        assert made.preloaded.isdisjoint({"library", "plugin", "imports_library"})

    test = "import library, known, imports_library, sys\ndef test_m(): assert 0, sorted(sys.modules)\n"
    ini = INI.replace("addopts =", "addopts = -p plugin")
    packages = {"library": "", "plugin": "", "known": "", "imports_library": "import library"}
    project(act, {"test_m.py": test, "pytest.ini": ini}, packages=packages, unknown=("library", "plugin"))


def test_modules_that_the_build_of_python_generates_are_preloaded(project):
    async def act(made):
        await agree(made)
        assert {*packages} <= made.preloaded

    # Python 3.15 imports the first one with `traceback`, and thus with pytest.
    generated = ("_missing_stdlib_info", "_sysconfigdata__other_platform")
    packages = {**dict.fromkeys(generated, ""), "known": f"import {', '.join(generated)}\n"}
    project(act, {"test_a.py": "import known\ndef test_a(): pass\n"}, packages=packages, unknown=generated)


def test_a_package_that_imports_the_implementation_of_importlib_is_preloaded(project):
    async def act(made):
        await agree(made)
        assert "known" in made.preloaded

    packages = {"known": "import importlib._bootstrap\n"}  # as `pydoc` does, which pandas imports
    project(act, {"test_a.py": "import known\ndef test_a(): pass\n"}, packages=packages)


def test_a_known_package_sees_changes_made_by_an_unknown_package(project):
    async def act(made):
        await agree(made)

    packages = {
        "unknown": "import calendar\ncalendar.isleap = lambda year: 'changed'\n",
        "known": "from calendar import isleap\n",
    }
    test = "import unknown, known\ndef test_a(): assert known.isleap(2000) == 'changed'\n"
    project(act, {"test_a.py": test}, packages=packages, unknown=("unknown",))


def test_a_changed_file_that_python_reads_at_startup_affects_the_next_run(project, tmp_path):
    async def act(made):
        variables = {"PYTHONPATH": str(tmp_path / "paths")}
        warm = await made.warm_up(**variables)
        assert warm.is_warm, (made.status, warm.output)
        made.write({"paths/sitecustomize.py": "import os\nos.environ['ADDED'] = 'yes'\n"})
        run = await made.run(**variables)
        assert not run.is_warm
        assert run.report.counts.failed == 1

    test = "import os\ndef test_a(): assert 'ADDED' not in os.environ\n"
    project(act, {"test_a.py": test, "paths/note.txt": ""})


def test_a_warm_run_has_the_same_imported_modules_as_a_new_process(project):
    async def act(made):
        await agree(made)

    listing = "import sys, gettext\ndef test_m(): assert 0, sorted(sys.modules)\n"
    project(act, {"test_m.py": listing})


def test_modules_are_in_the_order_in_which_a_new_process_imports_them(project):
    async def act(made):
        await agree(made)

    packages = {"one": "import two, three", "two": "import four", "three": "", "four": ""}
    listing = f"import one, sys\ndef test_m(): assert 0, [name for name in sys.modules if name in {[*packages]}]\n"
    project(act, {"test_m.py": listing}, packages=packages)


@pytest.mark.parametrize("order", ["replaces, uses, binds", "uses, binds, replaces"])
def test_modules_that_only_call_a_function_replaced_by_another_import_are_preloaded(project, order):
    async def act(made):
        await agree(made)
        assert {"owner", "replaces", "uses"} <= made.preloaded

    packages = {
        "owner": "def f(): return 1\n",
        "replaces": "import owner\nowner.f = lambda: 2\n",
        "uses": "import owner\ndef used(): return owner.f()\n",
        "binds": "from owner import f\n",
    }
    expected = 2 if order.startswith("replaces") else 1
    test = f"import {order}\ndef test_a(): assert (uses.used(), binds.f()) == (2, {expected})\n"
    project(act, {"test_a.py": test}, packages=packages)


def test_a_submodule_imported_only_by_another_test_is_not_available(project):
    async def act(made):
        await made.warm_up()
        warm = await agree(made, "test_b.py")
        assert warm.report.counts.failed == 1

    project(
        act,
        {
            "test_a.py": "import xml.dom\ndef test_a(): pass\n",
            "test_b.py": "import xml\ndef test_b(): assert xml.dom\n",
        },
    )


@pytest.mark.parametrize("name", ["colorsys", "installed"])
def test_a_new_workspace_file_shadows_a_preloaded_module(project, name):
    async def act(made):
        await agree(made)
        made.write({f"{name}.py": "HIDDEN = 1\n"})
        run = await made.run()
        assert run.report.counts.failed == 1
        made.write({f"{name}.py": None})
        await agree(made)

    text = f"import {name}\ndef test_a(): assert not hasattr({name}, 'HIDDEN')\n"
    project(act, {"test_a.py": text}, packages={"installed": ""})


OWNER = (
    "REGISTRY = {}\nPLUGINS = []\nclass Base:\n    kinds = set()\nclass Table: pass\nTABLE = Table()\nTABLE.rows = {}\n"
)
PLUGIN = """
import owner
owner.REGISTRY["p"] = 1
owner.PLUGINS.append("p")
owner.Base.kinds.add("p")
owner.TABLE.rows["p"] = []
"""
NAMES = "[*owner.REGISTRY], owner.PLUGINS, [*owner.Base.kinds], [*owner.TABLE.rows]"


def test_registrations_in_another_package_appear_only_with_their_module(project):
    async def act(made):
        await agree(made)
        assert "plugin" in made.preloaded
        without = await agree(made, "test_without.py")
        assert without.report.counts.passed == 1

    project(
        act,
        {
            "test_with.py": f"import owner, plugin\ndef test_w(): assert ({NAMES}) == (['p'], ['p'], ['p'], ['p'])\n",
            "test_without.py": f"import owner\ndef test_w(): assert ({NAMES}) == ([], [], [], [])\n",
        },
        packages={"owner": OWNER, "plugin": PLUGIN},
    )


def test_a_module_whose_import_modifies_another_module_is_not_preloaded(project):
    async def act(made):
        await agree(made)
        assert "remover" not in made.preloaded
        assert (await agree(made, "test_without.py")).report.counts.passed == 1

    project(
        act,
        {
            "test_with.py": "import owner, remover\ndef test_w(): assert owner.NAMES == []\n",
            "test_without.py": "import owner\ndef test_w(): assert owner.NAMES == ['a']\n",
        },
        packages={"owner": "NAMES = ['a']\n", "remover": "import owner\nowner.NAMES.clear()\n"},
    )


def test_a_warm_process_that_failed_to_start_is_retried_once_the_cause_is_gone(project):
    async def act(made):
        await made.run()
        assert not (await made.run()).is_warm
        assert "html" in made.status.reason
        made.write({"html.py": None})
        assert (await made.warm_up()).is_warm

    project(act, {"html.py": "HIDDEN = 1\n", "test_a.py": "def test_a(): pass\n"})


def test_a_project_becomes_warm_again_once_a_file_that_hides_a_module_is_gone(project):
    async def act(made):
        await made.warm_up()
        made.write({"calendar.py": "HIDDEN = 1\n"})
        await made.run()
        await made.run()
        assert "pytest imports calendar" in made.status.reason
        made.write({"calendar.py": None})
        assert (await made.warm_up()).is_warm
        assert {"calendar", "installed"} <= made.preloaded

    files = {"test_a.py": "import installed\ndef test_a(): pass\n"}
    project(act, files, packages={"installed": "import calendar\n"})


FROZEN = """
import datetime, time
class Frozen(datetime.datetime): pass
def test_a():
    real, datetime.datetime = datetime.datetime, Frozen
    try:
        import {name}
    finally:
        datetime.datetime = real
    assert {name}.now()
"""


def test_a_clock_replaced_during_an_import_is_detected_only_if_the_module_stores_it(project):
    async def act(made):
        unfinished = await made.warm_up()
        assert unfinished.report.error.kind == "preloaded"
        assert unfinished.report.error.message.startswith("the run was not finished: bound ")
        warm = await agree(made)
        assert warm.report.counts.passed == 2
        assert {"by_module", "bound"} & made.preloaded == {"by_module"}

    project(
        act,
        {f"test_{name}.py": FROZEN.format(name=name) for name in ("by_module", "bound")},
        packages={
            "by_module": "import datetime\ndef now(): return datetime.datetime.now()\n",
            "bound": "from datetime import datetime\ndef now(): return datetime.now()\n",
        },
    )


FREEZE = """
import pytest, time
@pytest.fixture
def frozen(monkeypatch): monkeypatch.setattr(time, "time", lambda: 5.0)
"""


def test_packages_imported_under_a_replaced_clock_are_known_after_the_first_run(project):
    async def act(made):
        assert (await made.run()).report.counts.passed == 2
        warm = await made.run()
        assert warm.is_warm
        assert warm.report.error is None
        assert warm.report.counts.passed == 2
        assert {"first", "second", "fit"} & made.preloaded == {"fit"}

    project(
        act,
        {
            "conftest.py": FREEZE,
            "test_a.py": "import fit\ndef test_a(frozen):\n    import first; assert first.time() == 5\n"
            "def test_b(frozen):\n    import second; assert second.time() == 5\n",
        },
        packages={"first": "from time import time\n", "second": "from time import time\n", "fit": ""},
    )


def test_the_test_run_after_an_unfinished_one_uses_a_new_process(project):
    async def act(made):
        await made.warm_up()
        made.write({"test_a.py": "def test_a(): pass\ndef test_b(frozen):\n    import first\n    import second\n"})
        unfinished = await made.run()
        assert unfinished.report.error.kind == "preloaded"
        assert unfinished.report.interruption is None
        plain = await made.run()
        assert not plain.is_warm
        assert plain.report.counts.passed == 2
        assert "not finished" in made.status.reason

    project(
        act,
        {"conftest.py": FREEZE, "test_a.py": "import first, second\ndef test_a(): pass\n"},
        packages={"first": "from time import time\n", "second": "from time import time\n"},
    )


@pytest.mark.parametrize(
    "text", ["print('site')\n", "import os\nos.write(1, b'site\\n')\n", "import os\nos.write(2, b'site\\n')\n"]
)
def test_runs_are_plain_if_python_prints_at_startup(project, text):
    async def act(made):
        for _ in range(2):
            plain = await agree_with_a_shell_plainly(made)
            assert "site" in plain.output
        assert "'site" in made.status.reason

    project(act, {"test_a.py": "def test_a(): pass\n"}, packages={"sitecustomize": text})


def test_loggers_created_by_an_import_have_the_class_that_conftest_sets(project):
    async def act(made):
        await agree(made)
        assert "logs" in made.preloaded
        made.write({"conftest.py": "import logging\nclass L(logging.Logger): pass\nlogging.setLoggerClass(L)\n"})
        assert (await made.run()).report.counts.failed == 1
        assert (await agree(made)).report.counts.failed == 1

    check = "import logs\ndef test_a(): assert type(logs.LOG).__name__ == 'Logger'\n"
    project(act, {"test_a.py": check}, packages={"logs": "import logging\nLOG = logging.getLogger('logs')\n"})


EFFECTS = """
import atexit, codecs, copyreg, logging, os, sys, threading, warnings
class Finder:
    def find_spec(self, *_): pass
sys.meta_path.append(Finder())
os.environ["MADE_BY_IMPORT"] = "1"
logging.getLogger("made.by.import")
logging.addLevelName(7, "SEVEN")
warnings.filterwarnings("ignore", message="quiet")
warnings.warn("imported", FutureWarning)
class Pickled: pass
copyreg.pickle(Pickled, lambda one: (Pickled, ()))
codecs.register(lambda name: codecs.lookup("ascii") if name == "made_by_import" else None)
atexit.register(print, "at the end")
threading.settrace
print("printed by import")
"""
EFFECT_TESTS = """
import os, sys, warnings, logging, copyreg, codecs
before = "MADE_BY_IMPORT" in os.environ, any(type(f).__name__ == "Finder" for f in sys.meta_path)
before += ("made.by.import" in logging.root.manager.loggerDict, logging.getLevelName(7))
before += (any(t.__name__ == "Pickled" for t in copyreg.dispatch_table),)
import effects
def test_before(): assert before == (False, False, False, "Level 7", False)
def test_after():
    assert os.environ["MADE_BY_IMPORT"] == "1" and any(type(f).__name__ == "Finder" for f in sys.meta_path)
    assert "made.by.import" in logging.root.manager.loggerDict and logging.getLevelName(7) == "SEVEN"
    assert effects.Pickled in copyreg.dispatch_table and codecs.lookup("made_by_import").name == "ascii"
"""


def test_side_effects_of_an_import_appear_with_its_module(project):
    async def act(made):
        warm = await agree(made)
        assert warm.report.counts.passed == 2
        assert warm.report.counts.warnings == 1
        assert "at the end" in warm.output
        without = await agree(made, "test_without.py")
        assert "at the end" not in without.output

    without = "import os, logging\ndef test_w(): assert 'MADE_BY_IMPORT' not in os.environ\n"
    project(act, {"test_e.py": EFFECT_TESTS, "test_without.py": without}, packages={"effects": EFFECTS})


LIBRARY = """
import collections, functools, logging
logging.getLogger("library").addHandler(logging.NullHandler())
ORDERED, DEFAULT, QUEUE, LISTED = collections.OrderedDict(), collections.defaultdict(list), collections.deque(), []
TABLES = {}, {}
LIMIT = 1
class Frame:
    level = 1
@functools.singledispatch
def show(value): return "anything"
"""
CHANGES = """
import collections, logging, library
library.added = 1
library.LIMIT = 2
library.Frame.accessor = object()
library.Frame.level = 2
library.ORDERED["key"] = library.TABLES[0]["key"] = 1
library.DEFAULT["key"].append(1)
library.QUEUE.append(1)
library.LISTED.append(1)
library.show.register(int, lambda value: "number")
collections.Mapping = dict
logging.getLogger("library").setLevel(logging.ERROR)
logging.getLogger("library").addHandler(logging.NullHandler())
"""
CHANGED_TESTS = """
import collections, logging, library
def found():
    logger = logging.getLogger("library")
    return [
        hasattr(library, "added"), library.LIMIT == 2, hasattr(library.Frame, "accessor"), library.Frame.level == 2,
        len(library.ORDERED), len(library.TABLES[0]), len(library.DEFAULT), len(library.QUEUE), len(library.LISTED),
        library.show(1) == "number", hasattr(collections, "Mapping"), logger.level == 40, len(logger.handlers) - 1,
    ]
"""


def test_changes_made_by_an_import_to_other_packages_appear_only_with_its_module(project):
    async def act(made):
        await made.run()
        assert (await agree(made, "test_changed.py")).report.counts.passed == 1
        assert "changes" in made.preloaded
        assert (await agree(made, "test_unchanged.py")).report.counts.passed == 1

    files = {
        "test_changed.py": f"import changes\n{CHANGED_TESTS}def test_changed(): assert found() == [1] * 13\n",
        "test_unchanged.py": f"{CHANGED_TESTS}def test_unchanged(): assert found() == [0] * 13\n",
    }
    # One of the modules has imported a container by name.
    packages = {"library": LIBRARY, "alias": "from library import LISTED\n", "changes": f"import alias\n{CHANGES}"}
    project(act, files, packages=packages)


REPLACED = {
    "module": "monkeypatch.setitem(sys.modules, 'used', types.SimpleNamespace(V=2, f=abs))",
    "module that is missing": "monkeypatch.setitem(sys.modules, 'used', None)",
    "module imported again": "del sys.modules['used']; import used; used.V = 2",
    "function": "import used; monkeypatch.setattr(used, 'f', abs)",
    "constant": "import used; monkeypatch.setattr(used, 'V', 2)",
    "function of the standard library": "import shutil; monkeypatch.setattr(shutil, 'which', abs)",
}
USER = """
from shutil import which
try:
    from used import V, f
except ImportError:
    V = f = None
"""


@pytest.mark.parametrize("how", REPLACED)
def test_an_import_uses_objects_that_a_test_replaced_before_it(project, how):
    async def act(made):
        assert (await made.run()).report.counts.passed == 1
        for _ in range(3):  # one run is not finished, and the next one is plain
            warm = await made.run()
        assert warm.is_warm, made.status
        assert differences(await made.plain(), warm) == []
        assert "user" not in made.preloaded

    check = "assert (user.V, user.f, user.which) != (used_before.V, used_before.f, real_which)"
    test = f"""
import sys, types, shutil, used as used_before
used_before = types.SimpleNamespace(V=used_before.V, f=used_before.f)
real_which = shutil.which
def test_a(monkeypatch):
    {REPLACED[how]}
    import user
    {check}
"""
    packages = {"used": "V = 1\ndef f(): pass\n", "user": USER}
    project(act, {"test_a.py": test}, packages=packages)


@pytest.mark.parametrize(
    "text",
    [
        "import sys\nsys.setrecursionlimit(1234)\n",
        "import signal\nsignal.signal(signal.SIGUSR1, lambda *_: None)\n",
        "import os\nTOKEN = os.urandom(8)\n",
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n",
        "import socket\nSOCKET = socket.socket()\n",
        "import tempfile\nFOLDER = tempfile.TemporaryDirectory()\n",
        "import tempfile\nopen(tempfile.gettempdir() + '/written-by-an-import', 'w').close()\n",
        "import subprocess, sys\nOUT = subprocess.check_output([sys.executable, '-c', ''])\n",
        "import decimal\ndecimal.getcontext().prec = 7\n",
        "import os\nos.umask(0o27)\n",
        "import sys\nsys.set_int_max_str_digits(10_000)\n",
        "import logging\nHANDLER = logging.StreamHandler()\n",
    ],
    ids=[
        "recursion", "signal", "urandom", "thread", "socket", "folder", "file", "process", "decimal", "umask", "digits",
        "stream",
    ],
)  # fmt: skip
def test_a_module_whose_import_cannot_be_repeated_is_imported_by_each_run(project, text):
    async def act(made):
        warm = await agree(made)
        assert warm.report.counts.passed == 1
        assert "unfit" not in made.preloaded
        assert "fit" in made.preloaded

    packages = {"unfit": text, "fit": ""}
    project(act, {"test_a.py": "import unfit, fit\ndef test_a(): pass\n"}, packages=packages)


def test_a_process_id_stored_by_an_import_is_the_process_id_of_the_run(project):
    async def act(made):
        warm = await agree(made)
        assert warm.report.counts.passed == 1
        assert "fit" in made.preloaded

    check = "import os, fit\ndef test_a(): assert fit.PID == os.getpid()\n"
    project(act, {"test_a.py": check}, packages={"fit": "import os\nPID = os.getpid()\n"})


def test_a_finalizer_created_by_an_import_runs_only_where_it_was_imported(project):
    async def act(made):
        warm = await agree_with_a_shell(made)
        assert "finalized" in warm.output
        assert "fit" in made.preloaded
        assert "finalized" not in (await agree_with_a_shell(made, "test_b.py")).output

    fit = "import weakref\nclass C: pass\nC_ = C()\nweakref.finalize(C_, print, 'finalized')\n"
    tests = {"test_a.py": "import fit\ndef test_a(): pass\n", "test_b.py": "def test_b(): pass\n"}
    project(act, tests, packages={"fit": fit})


def test_a_failed_import_has_the_frames_of_a_plain_process(project):
    async def act(made):
        await made.warm_up()
        made.write({"shop/util.py": "missing\n"})
        warm = await agree_with_a_shell(made)
        assert "_find_and_load_unlocked" in warm.output

    files = {"shop/__init__.py": "import shop.util\n", "shop/util.py": "", "shop/tests/__init__.py": ""}
    project(act, {**files, "shop/tests/test_a.py": "def test_a(): pass\n"})


def test_objects_created_by_an_import_are_tracked_by_the_garbage_collector(project):
    async def act(made):
        assert (await agree(made)).report.counts.passed == 1
        assert "makes" in made.preloaded

    check = "import gc, makes\ndef test_a(): assert gc.get_referrers(makes.C) and gc.get_freeze_count() == 0\n"
    project(act, {"test_a.py": check}, packages={"makes": "class C: pass\n"})


def test_a_preloaded_module_using_random_numbers_is_imported_again_if_they_may_be_seeded(project):
    async def act(made):
        assert (await agree(made)).report.counts.passed == 1
        assert "draws" in made.preloaded
        made.write({"conftest.py": "import random\nrandom.seed(3)\nimport draws\nNEXT = random.random()\n"})
        made.write({"test_a.py": "import conftest\ndef test_a(): assert 0, conftest.NEXT\n"})
        await agree(made)

    packages = {"draws": "import random\nV = random.random()\n"}
    project(act, {"test_a.py": "import draws\ndef test_a(): assert draws.V >= 0\n"}, packages=packages)


def test_a_warning_names_the_importing_line(project):
    async def act(made):
        warm = await agree_with_a_shell(made)
        assert "uses.py:2" in warm.output

    packages = {
        "warns": "import warnings\nwarnings.warn('old', FutureWarning, stacklevel=2)\n",
        "uses": "\nimport warns\n",
    }
    project(act, {"test_a.py": "import uses\ndef test_a(): pass\n"}, packages=packages)


def test_native_threads_cause_no_warning(project):
    async def act(made):
        warm = await agree_with_a_shell(made)
        assert warm.report.counts.warnings == 0

    text = "import threading\nthread = threading.Thread(target=threading.Event().wait, daemon=True)\nthread.start()\n"
    project(act, {"test_a.py": "import starts\ndef test_a(): pass\n"}, packages={"starts": text})


def test_a_variable_set_by_one_import_can_be_read_by_another_in_either_order(project):
    async def act(made):
        await made.warm_up()
        for test in "test_a.py", "test_b.py":
            assert (await agree(made, test)).report.counts.passed == 1
        assert {"sets", "reads"} <= made.preloaded

    packages = {"sets": "import os\nos.environ.setdefault('SET', '1')\n", "reads": "import os\nos.environ.get('SET')\n"}
    tests = {"test_a.py": "import os, sets, reads\n", "test_b.py": "import os, reads, sets\n"}
    check = "def test_it(): assert os.environ['SET'] == '1'\n"
    project(act, {name: text + check for name, text in tests.items()}, packages=packages)


def test_a_class_of_a_module_that_was_not_imported_is_not_found(project):
    async def act(made):
        await made.warm_up()
        assert (await agree(made, "test_b.py")).report.counts.passed == 1

    packages = {
        "looks": "class Base: pass\ndef found(): return [c.__name__ for c in Base.__subclasses__()]\n",
        "defines": "import looks\nclass Found(looks.Base): pass\n",
    }
    tests = {
        "test_a.py": "import looks, defines\ndef test_a(): assert looks.found() == ['Found']\n",
        "test_b.py": "import looks\ndef test_b(): assert looks.found() == []\n",
    }
    project(act, tests, packages=packages)


LAZY = """
import importlib
def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(name)
    value = globals()[name] = importlib.import_module("." + name, __name__).V
    return value
"""


def test_an_attribute_loaded_lazily_by_a_package_is_loaded_again(project):
    async def act(made):
        await made.warm_up()
        assert "lazy.part" in made.preloaded
        assert (await agree(made, "test_b.py")).report.counts.passed == 1

    packages = {"lazy/__init__": LAZY, "lazy/part": "V = 1\n", "uses": "import lazy\nlazy.part\n"}
    tests = {
        "test_a.py": "import lazy, uses\ndef test_a(): assert lazy.part == 1\n",
        "test_b.py": "import sys, lazy\ndef test_b(): assert 'part' not in vars(lazy)\n",
    }
    project(act, tests, packages=packages)


def test_an_attribute_with_the_name_of_a_submodule_exists_until_the_submodule_is_imported(project):
    async def act(made):
        await made.warm_up()
        assert (await agree(made, "test_a.py")).report.counts.passed == 1
        assert (await agree(made, "test_b.py")).report.counts.passed == 2
        assert {"named.decoder", "named.tool", "uses"} <= made.preloaded

    packages = {
        # joblib's loky imports `synchronize` from multiprocessing, and has a submodule of this name.
        "named/__init__": "from json import decoder\ndef tool(): return decoder.__name__\n",
        "named/decoder": "",
        "named/tool": "",
        "uses": "import named\n",
    }
    imports = "import named.decoder, named.tool, uses"
    check = "assert (named.decoder.__name__, named.tool.__name__) == ('named.decoder', 'named.tool')"
    tests = {
        "test_a.py": f"{imports}\ndef test_a(): {check}\n",
        "test_b.py": "import named\ndef test_b(): assert named.tool() == 'json.decoder'\n"
        f"def test_c():\n    {imports}\n    {check}\n",
    }
    project(act, tests, packages=packages)


def test_a_new_server_waits_for_no_warm_process_and_then_uses_the_saved_plan(project, tmp_path):
    async def first(made):
        await made.run()
        await made.settle()

    async def second(made):
        assert not (await made.run()).is_warm
        await made.settle()
        assert (await made.run()).is_warm

    saved = SavedPlans(tmp_path / "saved")
    files = {"tests/test_a.py": "def test_a(): pass\n"}
    project(first, files, saved=saved)
    project(second, files, saved=saved)


READS = {
    "variable": ("import os\nV = os.environ.get('READ_AT_IMPORT')\n", {"READ_AT_IMPORT": "2"}),
    "environment": ("import os\nV = dict(os.environ).get('READ_AT_IMPORT')\n", {"READ_AT_IMPORT": "2"}),
    "bytes": ("import os\nV = os.environb.get(b'READ_AT_IMPORT')\n", {"READ_AT_IMPORT": "2"}),
}


@pytest.mark.parametrize("how", READS)
def test_a_variable_read_by_an_import_is_read_again(project, how):
    text, variables = READS[how]

    async def act(made):
        await agree(made)
        changed = await made.run(**variables)
        assert changed.report.counts.failed == 1
        assert changed.report.error is None

    project(act, {"test_a.py": "import reads\ndef test_a(): assert reads.V is None\n"}, packages={"reads": text})


def test_a_current_directory_read_by_an_import_is_read_again(project):
    async def act(made):
        await agree(made)
        made.write({"sub/a.txt": "", "conftest.py": "import os\nos.chdir('sub')\n"})
        assert (await agree(made)).report.counts.failed == 1

    check = "import reads\ndef test_a(): assert not reads.V.endswith('sub')\n"
    project(act, {"test_a.py": check}, packages={"reads": "import os\nV = os.getcwd()\n"})


def test_variables_set_by_conftest_are_learned(project):
    async def act(made):
        warm = await agree(made)
        assert warm.report.counts.passed == 1
        made.write({"conftest.py": "import os\nos.environ['READ_AT_IMPORT'] = 'other'\n"})
        assert (await made.run()).report.counts.failed == 1

    project(
        act,
        {
            "conftest.py": "import os\nos.environ['READ_AT_IMPORT'] = 'set'\n",
            "test_a.py": "import reads\ndef test_a(): assert reads.V == 'set'\n",
        },
        packages={"reads": READS["variable"][0]},
    )


def test_an_edit_of_an_installed_package_affects_the_next_run(project):
    async def act(made):
        await agree(made)
        project.install(edited="V = 2\n")
        assert (await made.run()).report.counts.failed == 1
        await agree(made)

    project(act, {"test_a.py": "import edited\ndef test_a(): assert edited.V == 1\n"}, packages={"edited": "V = 1\n"})


def test_a_file_read_by_an_import_is_read_again(project, tmp_path):
    async def act(made):
        await agree(made)
        made.write({"data.txt": "other"})
        assert (await made.run()).report.counts.failed == 1

    path = f"pathlib.Path({str(tmp_path)!r}, 'data.txt')"
    text = f"import pathlib\nPATH = {path}\nV = PATH.read_text() if PATH.exists() else ''\n"
    project(act, {"test_a.py": "import data\ndef test_a(): assert data.V == ''\n"}, packages={"data": text})


def test_a_module_binds_functions_that_were_replaced_before_its_import(project):
    async def act(made):
        warm = await made.warm_up()
        assert differences(await made.plain(), warm) == []
        assert warm.report.counts.passed == 1

    project(
        act,
        {
            "conftest.py": "import time\ntime.time = lambda: 1.5\n",
            "test_a.py": "import takes\ndef test_a(): assert takes.now() == 1.5\n",
        },
        packages={"takes": "from time import time as now\n"},
    )


def test_repeating_an_import_sets_its_attributes_on_other_modules_again(project):
    async def act(made):
        assert (await agree(made)).report.counts.passed == 1

    text = "import target\nbefore = target.f()\nimport setter\ndef test_a(): assert (before, target.f()) == (1, 2)\n"
    packages = {"target": "def f(): return 1\n", "setter": "import target\ntarget.f = lambda: 2\n"}
    project(act, {"test_a.py": text}, packages=packages)


def test_multiprocessing_with_spawn_works(project):
    async def act(made):
        assert (await agree(made)).report.counts.passed == 1

    text = """
import multiprocessing
def test_spawn():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(abs, [-1]) == [1]
"""
    project(act, {"test_s.py": text})


IDENTITY = """
import __main__, os, signal, sys, threading
def test_main(): assert __main__.__spec__.name == "pytest.__main__"
def test_argv(): assert sys.orig_argv[1:3] == ["-m", "pytest"] and sys.argv[0].endswith("__main__.py")
def test_signals(): assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
def test_threads(): assert len(os.listdir("/proc/self/task")) == 1
def test_descriptors(): assert 0, sorted(os.listdir("/proc/self/fd"))
def test_seed(): assert "PYTHONHASHSEED" not in os.environ
def test_path(): assert 0, sys.path
def test_finder(): assert 0, [str(f) for f in sys.meta_path]
"""


FROZEN_TEST = """
import gc, importlib.machinery, importlib.util
import makes
def test_a():
    other_gc = importlib.util.module_from_spec(importlib.machinery.BuiltinImporter.find_spec("gc"))
    frozen = other_gc.get_freeze_count()
    listed = any(type(found) is makes.C for found in gc.get_objects())
    referrers = [type(found).__name__ for found in gc.get_referrers(makes.C)]
    assert listed and "tuple" in referrers and other_gc.get_freeze_count() == 0
    assert type(gc.get_objects).__name__ == type(gc.get_referrers).__name__ == "builtin_function_or_method"
    print(f"frozen: {frozen > 1000}")
"""


def test_preloaded_objects_are_not_collected_unless_the_run_lists_objects(project):
    async def act(made):
        run = await made.warm_up("-s")
        assert run.is_warm, (made.status, run.output)
        assert run.report.counts.passed == 1, run.output
        assert "frozen: True" in run.output

    project(act, {"test_a.py": FROZEN_TEST}, packages={"makes": "class C: pass\nmade = C()\n"})


def test_tests_cannot_distinguish_the_child_from_python_m_pytest(project):
    async def act(made):
        await agree(made)

    project(act, {"test_i.py": IDENTITY})


def test_the_child_exits_like_a_plain_process(project):
    async def act(made):
        warm = await agree(made)
        assert warm.output.rstrip().endswith("finalized")

    text = """
import atexit, threading, time
class Last:
    def __del__(self): print("finalized", flush=True)
last = Last()
atexit.register(lambda: print("exit handler", flush=True))
def test_a(): pass
"""
    project(act, {"test_a.py": text})


def test_a_file_that_a_library_keeps_open_is_written_when_the_child_exits(project):
    async def act(made):
        file = made.directory / "written"
        for _ in range(2):
            file.unlink(missing_ok=True)
            run = await agree(made)
            assert "store" in made.preloaded, run.output
            assert file.read_text() == "all of it"

    test = "import store\ndef test_a(): store.files.append(open('written', 'w')); store.files[0].write('all of it')\n"
    project(act, {"test_a.py": test}, packages={"store": "files = []\n"})


def test_an_object_that_a_library_keeps_is_deleted_when_the_child_exits(project):
    async def act(made):
        warm = await agree_with_a_shell(made)
        assert "deleted" in warm.output

    text = """
import store
class Last:
    def __del__(self): print("deleted", flush=True)
def test_a(): store.values.append(Last())
"""
    project(act, {"test_a.py": text}, packages={"store": "values = []\n"})


KILLED_SERVER = """
import sys
import anyio, warm_runs
async def main():
    async with warm_runs.project(*sys.argv[1:3], None) as made:
        run = await made.warm_up("test_fast.py")
        assert run.is_warm, run.output
        await made.run("test_slow.py")
anyio.run(main)
"""
SLOW_TEST = """
import os, pathlib, time
def test_it():
    pathlib.Path("began.new").write_text(str(os.getpid()))
    os.rename("began.new", "began")
    time.sleep(600)
"""


def test_a_warm_run_ends_and_its_files_are_removed_when_the_server_is_killed(environment, tmp_path):
    folder, temporary = tmp_path / "project", tmp_path / "temporary"
    process_runs.write_project(
        folder, {"pytest.ini": INI, "test_fast.py": "def test_a(): pass\n", "test_slow.py": SLOW_TEST}
    )
    temporary.mkdir()
    paths = [str(Path(module.__file__).parents[levels]) for module, levels in ((warm_runs, 0), (codriver, 1))]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(temporary)}
    with subprocess.Popen([sys.executable, "-c", KILLED_SERVER, environment[0], folder], env=variables) as server:
        anyio.run(process_runs.appears, folder / "began")
        assert list(temporary.glob("codriver-tests-*"))
        server.kill()
    process_runs.assert_ended(int((folder / "began").read_text()))
    anyio.run(is_without, temporary, "codriver-tests-*")


async def is_without(directory, pattern):
    """Wait until no file in a directory matches a pattern."""
    with anyio.fail_after(LIMIT_S):
        while list(directory.glob(pattern)):
            await anyio.sleep(0.02)


def test_a_removed_directory_for_the_files_of_runs_is_created_again(project, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    async def act(made):
        assert (await made.warm_up()).is_warm
        shutil.rmtree(made.owner._pool._directory)
        assert (await agree(made)).report.passed

    project(act, {"test_a.py": "def test_a(): pass\n"})


def test_an_import_warning_is_an_error_if_warnings_are_errors(project):
    async def act(made):
        run = await made.warm_up()
        assert differences(await made.plain(), run) == []
        assert run.report.counts.errors == 1

    project(
        act,
        {"pytest.ini": INI + "filterwarnings = error\n", "test_a.py": "import warns\ndef test_a(): pass\n"},
        packages={"warns": "import warnings\nwarnings.warn('old', DeprecationWarning)\n"},
    )


def test_random_numbers_differ_in_each_run(project):
    async def act(made):
        await made.warm_up()
        runs = [await made.run() for _ in range(3)]
        assert all(run.is_warm for run in runs)
        assert len({run.report.results[0].failure.message for run in runs}) == 3

    text = "import random, generator\ndef test_r(): assert 0, (random.random(), generator.G.random())\n"
    project(act, {"test_r.py": text}, packages={"generator": "import random\nG = random.Random()\n"})


def test_a_hash_seed_is_used_for_at_most_ten_runs(project):
    async def act(made):
        await made.run()
        seeds = [run.report.finished.hash_seed for run in [await made.run() for _ in range(12)]]
        drawn = [seed for seed in seeds if seed is not None]
        assert max(map(drawn.count, drawn)) <= 10
        assert len(set(drawn)) > 1

    project(act, {"test_a.py": "def test_a(): pass\n"})


def test_stale_bytecode_is_not_used(project, tmp_path):
    async def act(made):
        await made.warm_up()
        status = (tmp_path / "m.py").stat()
        made.write({"m.py": "N = 2\n"})
        os.utime(tmp_path / "m.py", ns=(status.st_atime_ns, status.st_mtime_ns))
        assert (await made.run()).report.counts.failed == 1

    project(act, {"m.py": "N = 1\n", "test_m.py": "import m\ndef test_m(): assert m.N == 1\n"})


def test_workspace_modules_are_never_preloaded(project, environment, tmp_path):
    async def act(made):
        warm = await agree(made)
        assert warm.report.counts.passed == 1

    _, site = environment
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "editable.py").write_text("import os\nPID = os.getpid()\n")
    link = site / "editable.pth"
    link.write_text(str(tmp_path / "lib"))
    try:
        text = "import os, editable, uses\ndef test_a(): assert editable.PID == uses.PID == os.getpid()\n"
        project(act, {"test_a.py": text}, packages={"uses": "import editable, os\nPID = os.getpid()\n"})
    finally:
        link.unlink()


LATE = """
import os
def test_a(): os.environ["READ_AT_IMPORT"] = "1"
def test_b(): import late
"""


def test_a_run_is_unfinished_if_an_import_check_fails_after_a_test(project):
    async def act(made):
        assert (await made.warm_up("test_a.py::test_b")).is_warm
        run = await made.run()
        assert run.report.error.kind == "preloaded"
        assert "late" in run.report.error.message
        after = await made.run()
        assert after.report.error is None
        assert after.report.counts.passed == 2

    project(act, {"test_a.py": LATE}, packages={"late": READS["variable"][0]})


def test_no_process_is_preloaded_for_a_project_if_that_saves_little_time(project):
    async def act(made):
        await made.run()
        assert not (await made.run()).is_warm
        assert "saves too little" in made.status.reason

    project(act, {"test_a.py": "def test_a(): pass\n"}, min_saving_s=60.0)


def test_nothing_is_preloaded_before_the_first_run(project):
    async def act(made):
        await made.settle()
        assert made.owner.states()[0].reason == "no test has run yet, and the first run uses a plain process"
        assert not made.owner._pool.projects

    project(act, {"test_a.py": "def test_a(): pass\n"})


def test_an_idle_warm_process_is_ended(project, monkeypatch):
    monkeypatch.setattr(process_pool, "IDLE_CHECK_S", 0.05)

    async def act(made):
        assert (await made.warm_up()).is_warm
        (entry,) = made.owner._pool.projects.values()
        process = entry.process
        monkeypatch.setattr(decisions, "IDLE_TIMEOUT_S", 0.0)
        while process._process.returncode is None:
            await anyio.sleep(0.05)
        assert not made.status.is_warm
        monkeypatch.undo()
        assert not (await made.run()).is_warm
        assert (await made.run()).is_warm

    project(act, {"test_a.py": "def test_a(): pass\n"})


def test_runs_are_plain_where_processes_cannot_be_copied(project, monkeypatch):
    async def act(made):
        monkeypatch.setattr(starter, "IS_FORK_SAFE", False)
        for _ in range(2):
            assert not (await made.run()).is_warm
        assert made.status.reason == "processes cannot be copied safely on this system"

    project(act, {"test_a.py": "def test_a(): pass\n"})


def test_a_warm_process_over_its_memory_limit_is_not_kept(project):
    async def act(made):
        await made.run()
        assert not (await made.run()).is_warm
        assert "limit is 1 MB" in made.status.reason

    project(act, {"test_a.py": "def test_a(): pass\n"}, memory_mb=1)


def test_the_least_recently_used_warm_processes_end_if_together_they_exceed_the_memory_limit(project):
    async def act(made):
        await made.warm_up()
        limit = made.status.memory_mb * 3 // 2
        options = WarmOptions(is_enabled=True, min_saving_s=-math.inf, memory_mb=limit)
        made.owner._pool._current_options = lambda: options
        (made.directory / "other").mkdir()
        other = Project(made.owner, made.python, made.directory / "other")
        other.write({"test_b.py": "def test_b(): pass\n"})
        assert (await other.warm_up()).is_warm
        assert (other.status.is_warm, made.status.is_warm) == (True, False)
        assert "memory" in made.status.reason
        assert not (await made.run()).is_warm
        assert (await made.run()).is_warm
        assert (other.status.is_warm, made.status.is_warm) == (False, True)

    project(act, {"test_a.py": "def test_a(): pass\n"})


def test_a_hash_seed_set_by_the_caller_makes_a_run_plain(project):
    async def act(made):
        await made.warm_up()
        assert not (await made.run(PYTHONHASHSEED="5")).is_warm
        assert (await made.run()).is_warm

    project(act, {"test_a.py": "def test_a(): pass\n"})


def test_no_warm_process_outlives_its_context(project):
    async def act(made):
        await made.warm_up()
        return made.status.pid

    pid = project(act, {"test_a.py": "def test_a(): pass\n"})
    assert not Path(f"/proc/{pid}").exists()
