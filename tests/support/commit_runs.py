"""Load the changes of real commits into a live package, and compare every module of it with a fresh import.

`python commit_runs.py` reads cases as JSON lines and prints an outcome for each. A case has the directories `old` and
`new` with the two versions, the `package`, and the `changed` files. The libraries that the package needs are imported
once, and each case runs in forks, so that the versions of the package do not mix.
"""

import importlib
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "server"))

from edit_runs import STAYS, Texts, in_fork

from codriver.repls.worker.basics.undo_records import UndoRecords
from codriver.repls.worker.fresh.leaves import LeafDescriber
from codriver.repls.worker.python.module_loads import ModuleLoad
from codriver.repls.worker.python.python_drift import Drift

LEAF_SECONDS = 60
MAX_IMPORT_SECONDS, MAX_CASE_SECONDS = 120, 300
LIBRARIES = """
import json, sys
sys.path.insert(0, sys.argv[1])
sys.path.insert(0, {support!r})
import commit_runs
commit_runs.import_package(sys.argv[1], sys.argv[2])
first = sys.argv[2].partition(".")[0]
print(json.dumps([name for name in sys.modules if name.partition(".")[0] != first and "." not in name]))
"""


def modules_of(folder, package):
    """Return the names of the modules in a package, except its tests and programs."""
    root = Path(folder, package)
    found = []
    for path in sorted(root.rglob("*.py")):
        parts = [package, *path.relative_to(root).with_suffix("").parts]
        if parts[-1] == "__init__":
            parts.pop()
        if parts[-1] != "__main__" and not {"tests", "testing", "_vendor"} & set(parts):
            found.append(".".join(parts))
    return found or [package]


def import_package(folder, package):
    """Import all modules of a package, and return the names of those that can be imported."""
    imported = []
    for name in modules_of(folder, package):
        try:
            importlib.import_module(name)
            imported.append(name)
        except Exception:  # noqa: BLE001  # a module may need a library or system that is missing
            pass
    return imported


def shapes(names):
    """Return the leaves of some modules."""
    shaper = LeafDescriber(names, LEAF_SECONDS)
    found = {}
    for name in names:
        found.update(shaper.describe_module(name))
    return found


def fresh(case, folder):
    """Return the imported modules of the version in `folder`, and their leaves."""
    place(case, folder, "old")
    place(case, folder, "new")
    names = import_package(folder, case["package"])
    return {"names": names, "leaves": shapes(names)}


def place(case, folder, version):
    """Copy the files of a version into a directory."""
    root = Path(case[version])
    for path in root.rglob("*"):
        if path.is_file():
            target = Path(folder, path.relative_to(root))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())


def live(case, folder):
    """Import the old version, load the changed files, and return the rows of the load and the leaves."""
    place(case, folder, "old")
    texts = Texts(folder)
    texts.start_recording()
    drift = Drift(texts)
    names = import_package(folder, case["package"])
    texts.record_names()
    texts.read_recent_sources()
    files = {name: getattr(sys.modules[name], "__file__", "") for name in list(sys.modules) if name in names}
    changed = [name for name, file in files.items() if os.path.relpath(file, folder) in case["changed"]]
    place(case, folder, "new")
    rows, errors = {}, {}
    for name in changed:
        rows[name], errors[name] = load(name, files[name], drift)
    for name in [name for name, error in errors.items() if error]:  # it may have needed a module that came later
        rows[name], errors[name] = load(name, files[name], drift)
    found = [row for of_module in rows.values() for row in of_module]
    found += drift.find_differences(folder)
    found = [row for row in found if row["kind"] in (*STAYS, "detached")]
    return {"names": names, "leaves": shapes(names), "rows": found, "errors": list(filter(None, errors.values()))}


def load(name, file, drift):
    """Load a module, and return the rows about it and the error."""
    text = Path(file).read_text()
    made = ModuleLoad(name, file, text, UndoRecords([]).record_for(""), drift, home=sys)
    made.prepare()
    error, has_failed = "", True
    try:
        steps = made.plan_steps()
        if steps is None:
            return [], "the whole module would run"
        for step in steps:
            step.act()
        has_failed = False
    except Exception:  # noqa: BLE001  # it is the outcome
        error = traceback.format_exc()[-600:]
    finally:
        made.finish(has_failed=has_failed)
    return made.renewed, error


def import_libraries(case):
    """Import the libraries that a package imports, except those that import the package itself."""
    program = LIBRARIES.format(support=str(Path(__file__).parent))
    command = [sys.executable, "-c", program, case["old"], case["package"]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=MAX_IMPORT_SECONDS)
    names = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 and done.stdout else []
    first = case["package"].partition(".")[0]
    for name in names:
        before = set(sys.modules)
        try:
            importlib.import_module(name)
        except Exception:  # noqa: BLE001  # it then is imported in the forks
            continue
        if any(each.partition(".")[0] == first for each in sys.modules):
            for each in set(sys.modules) - before:
                del sys.modules[each]


def main():
    sys.dont_write_bytecode = True
    is_first = True
    for line in sys.stdin:
        case = json.loads(line)
        if is_first:
            import_libraries(case)
            is_first = False
        acts = {"live": live, "fresh": fresh, "again": fresh}
        outcome = {name: in_fork(act, case, MAX_CASE_SECONDS) for name, act in acts.items()}
        sys.stdout.write(json.dumps(outcome) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
