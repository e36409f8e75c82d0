"""Load edits of modules into a live process, and compare the result with a fresh import of the edited source.

`python edit_runs.py` reads cases as JSON and prints an outcome for each. Any Python from 3.8 that has the libraries
of the cases can run it. Each case runs in its own fork, so that a library is imported only once.
"""

import contextlib
import importlib
import io
import json
import os
import signal
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "server"))

from codriver.repls.worker.basics.undo_records import UndoRecords
from codriver.repls.worker.python.loaded_sources import LoadedSources
from codriver.repls.worker.python.module_loads import ModuleLoad
from codriver.repls.worker.python.python_drift import Drift

MAX_SECONDS = 30
"""The time after which the fork of a case ends: a case may wait for a thread that the fork does not have."""
STAYS = (
    "stays",
    "edited",
    "missing",
    "gone",
    "order",
    "redefined",
    "old",
    "instances",
    "closures",
    "unbound",
    "unknown",
)
"""Kinds of rows that report a difference."""


class Texts(LoadedSources):
    """The loads of a case's own directory."""

    def __init__(self, folder):
        super().__init__()
        self._folder = folder + os.sep

    def _modules(self):
        return (module for module in super()._modules() if module[2].startswith(self._folder))


def path_of(folder, name):
    return Path(folder, *name.split(".")).with_suffix(".py")


def written(folder, texts):
    for name, text in texts.items():
        path = path_of(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def module_of(name):
    """Return the name of the module with a text. That of a package is called `package.__init__`."""
    return name.rpartition(".")[0] if name.endswith(".__init__") else name


def imported(case):
    space = {"sys": sys}
    exec(case["setup"], space)
    for name in map(module_of, case["texts"]):
        space[name.rpartition(".")[2]] = importlib.import_module(name)
    exec(case["hold"], space)
    return space


def probed(case, space):
    found = []
    for probe in case["probes"]:
        try:
            found.append(repr(eval(probe, space)))
        except BaseException as error:  # noqa: BLE001  # it is the outcome
            found.append("raises " + type(error).__name__)
    return found


def edited(name, texts, edits):
    """Return the sources after edits, without the modules that they delete."""
    texts = dict(texts)
    for module, old, new in edits:
        assert old in texts.get(module, ""), (name, old)
        texts[module] = None if new is None else texts.get(module, "").replace(old, new, 1)
    return {module: text for module, text in texts.items() if text is not None}


def versions(case):
    """Return the sources after each round of edits."""
    found = [case["texts"]]
    for edits in case["rounds"]:
        found.append(edited(case["name"], found[-1], edits))
    return found[1:]


def fresh(case, folder):
    written(folder, case["texts"])
    return {"probed": probed(case, imported(case))}


def live(case, folder):
    written(folder, case["texts"])
    texts = Texts(folder)
    texts.start_recording()
    drift = Drift(texts)
    space = imported(case)
    texts.record_names()
    texts.read_recent_sources()
    probed(case, space)
    exec(case["use"], space)
    rounds = []
    for edits, after in zip(case["rounds"], versions(case)):  # noqa: B905  # `strict` is missing before Python 3.10
        names = list(dict.fromkeys(module for module, _, _ in edits))
        for name in names:
            if name not in after:
                path_of(folder, name).unlink()
        written(folder, {name: after[name] for name in names if name in after})
        loads = [loaded(name, str(path_of(folder, name)), after[name], drift) for name in names if name in after]
        rows = [row for some, _ in loads for row in some] + drift.find_differences(folder)
        errors = "".join(error for _, error in loads)
        rounds.append({"probed": probed(case, space), "rows": rows, "error": errors})
    return {"rounds": rounds}


def loaded(name, file, text, drift):
    """Load a file, and return the rows about it and the text of its error."""
    load = ModuleLoad(module_of(name), file, text, UndoRecords([]).record_for(""), drift, home=sys)
    is_new = module_of(name) not in sys.modules
    load.prepare()
    failed, error = True, ""
    try:
        steps = load.plan_steps()
        assert steps is not None or is_new, "the whole module would run"
        if steps is None:
            exec(compile(text, file, "exec", dont_inherit=True), load.module.__dict__)
        for step in steps or ():
            step.act()
        failed = False
    except Exception as caught:  # noqa: BLE001  # it is the outcome
        error = "".join(traceback.format_exception(type(caught), caught, caught.__traceback__)[-4:])
    finally:
        load.finish(has_failed=failed)
    return load.renewed, error


def in_fork(act, case, seconds=MAX_SECONDS):
    """Return the outcome of a function that runs in a fork, which is ended after at most `seconds`."""
    with tempfile.TemporaryDirectory() as place:
        folder = os.path.realpath(place)
        reading, writing = os.pipe()
        child = os.fork()  # type: ignore[attr-defined, unused-ignore]  # of Windows
        if not child:
            try:
                os.close(reading)
                signal.alarm(seconds)  # type: ignore[attr-defined, unused-ignore]  # of Windows
                sys.path.insert(0, folder)
                warnings.simplefilter("ignore")
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                    outcome = act(case, folder)
            except BaseException:  # noqa: BLE001  # it is the outcome
                outcome = {"failed": traceback.format_exc()}
            with os.fdopen(writing, "w") as end:
                json.dump(outcome, end, default=repr)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as end:
            text = end.read()
        try:
            outcome = json.loads(text)
        except ValueError:
            outcome = {"failed": f"did not end within {seconds} s"}
        os.waitpid(child, 0)
    return outcome


def main():
    sys.dont_write_bytecode = True
    cases = json.load(sys.stdin)
    for name in sorted({item for case in cases for item in case["needs"]}):
        importlib.import_module(name)
    outcomes = [
        {
            "live": in_fork(live, case),
            "fresh": [in_fork(fresh, {**case, "texts": texts}) for texts in versions(case)],
        }
        for case in cases
    ]
    json.dump(outcomes, sys.stdout)


if __name__ == "__main__":
    main()
