"""Load the namespaces or modules that depend on a loaded file, and remove names that a Lisp file no longer defines.

Dependents are the loaded namespaces whose `ns` forms require the file's namespace, directly or indirectly. Each is
loaded after those that it requires, in a separate evaluation. The first load that does not finish stops the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from codriver.core.requests import Form
from codriver.errors import join_first, refused
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.repls.contract.queries import Dependents
from codriver.repls.dialects.removal import removal_code
from codriver.tools.answers.load_notes import load_notes
from codriver.tools.answers.loaded_code_comparison import find_drift

if TYPE_CHECKING:
    from codriver.core.evaluations import Evaluation
    from codriver.core.state import Repl
    from codriver.tools.calls.call import Call


class FileLoader(Protocol):
    """Loads files and evaluates forms in one session, within the time limit of a call."""

    async def file(self, path: Path) -> Evaluation:
        """Load a file and return its evaluation, which is unfinished if time ran out."""
        ...

    async def evaluate_forms(self, namespace: str, forms: tuple[Form, ...]) -> Evaluation:
        """Evaluate forms in a namespace and return their evaluation, which is unfinished if time ran out."""
        ...


@dataclass(frozen=True, slots=True)
class DependentLoads:
    """The result of loading dependents.

    `notes` are for the answer. `unfinished` is the evaluation that failed or is still running, if any.
    """

    notes: tuple[str, ...] = ()
    unfinished: Evaluation | None = None


def check_dependent_load(repl: Repl, *, prune: bool, is_whole: bool) -> None:
    """Check that a REPL can load dependents and that its language supports the arguments.

    `prune` removes deleted names, and `is_whole` loads a Python file completely.

    Raises:
        RefusedError: an argument is not supported for this language.
        CapabilityMissingError: the REPL cannot report which namespaces are loaded.
    """
    profile = repl.profile
    if repl.dialect == "python" and prune:
        raise refused(
            "bad-arguments",
            "nothing was loaded, because prune is only for Lisp",
            hint="Omit prune. In Python, load_file already removes deleted names.",
        )
    if repl.dialect == "python" and not is_whole:
        raise refused(
            "bad-arguments",
            "nothing was loaded, because dependents needs whole: true in Python",
            hint="Add `whole: true` to run the module and every module that imports it. If you omit "
            "`dependents` and `whole`, `load_file` updates imported references without running other modules.",
        )
    if profile is None or "drift" not in profile.capabilities:
        raise CapabilityMissingError("drift", profile.missing.get("drift") if profile is not None else None)


async def reload_python_dependents(call: Call, repl: Repl, file: Path, loads: FileLoader) -> DependentLoads:
    """Run all loaded modules that import the module of a file.

    Each module runs after the modules that it imports. The first one that does not finish stops the rest.
    """
    waiting = await call.services.repls.adapter(repl.id).query(Dependents(file))
    notes = dict.fromkeys(await load_notes(call, repl))
    done: list[str] = []
    for number, (name, path) in enumerate(waiting):
        evaluation = await loads.file(Path(path))
        if evaluation.status != "done":
            notes.update(dict.fromkeys([f"also loaded: {join_first(done)}"] if done else []))
            notes[f"{name} did not load" if evaluation.is_finished else f"{name} is being loaded"] = None
            left = [module for module, _ in waiting[number + 1 :]]
            notes.update(dict.fromkeys([f"not loaded: {join_first(left)}"] if left else []))
            return DependentLoads(tuple(notes), evaluation)
        done.append(name)
        notes.update(dict.fromkeys(await load_notes(call, repl)))
    return DependentLoads((*([f"also loaded: {join_first(done, len(done))}"] if done else []), *notes))


async def prune_and_load_dependents(
    call: Call, repl: Repl, namespace: str, loads: FileLoader, *, prune: bool, dependents: bool
) -> DependentLoads:
    """Remove deleted names from a Lisp namespace, load the namespaces that depend on it, or do both.

    With `prune`, the names that the file of `namespace` no longer defines are removed. With `dependents`, the
    namespaces that require it are loaded.
    """
    found = await find_drift(call, repl)
    drift = call.services.ledger.lisp.drifts.get(repl.id)
    notes = []
    if prune:
        gone = [
            difference.name
            for difference in found
            if (difference.module, difference.kind, difference.evaluated) == (namespace, "gone", False)
        ]
        codes = filter(None, (removal_code(repl.dialect, namespace, name, namespace) for name in gone))
        forms = tuple(Form(code, 1, 1, description) for code, description in codes)
        if forms:
            evaluation = await loads.evaluate_forms(namespace, forms)
            if evaluation.status != "done":
                return DependentLoads(
                    (f"some names were not removed from {namespace}: {join_first(gone)}",), evaluation
                )
            notes.append(f"removed, because the file no longer defines it: {join_first(gone)}")
    if dependents and drift is not None:
        waiting = drift.dependents(namespace)
        for number, (name, file) in enumerate(waiting):
            evaluation = await loads.file(Path(file))
            if evaluation.status != "done":
                before = [module for module, _ in waiting[:number]]
                after = [module for module, _ in waiting[number + 1 :]]
                notes += [f"also loaded: {join_first(before)}"] if before else []
                notes.append(f"{name} did not load" if evaluation.is_finished else f"{name} is being loaded")
                notes += [f"not loaded: {join_first(after)}"] if after else []
                return DependentLoads(tuple(notes), evaluation)
        notes += [f"also loaded: {join_first([name for name, _ in waiting], len(waiting))}"] if waiting else []
    return DependentLoads(tuple(notes))
