"""Dependents of a loaded Lisp file, loaded after it, and names taken out that the file has no more.

Dependents are the loaded namespaces that require the file's, directly or not, by their `ns` forms; each is loaded after
those that it requires. All of it are evaluations of their own, which the log has as any other; the first that is not
done ends it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from codriver.core.values import Form
from codriver.errors import RefusedError
from codriver.repls.contract.errors import CapabilityMissingError
from codriver.repls.dialects.removals import removal
from codriver.tools.truth.drift_notes import drift_of, few

if TYPE_CHECKING:
    from codriver.core.state import Repl
    from codriver.core.values import Evaluation
    from codriver.tools.calls.base import Call


class PythonRenewsError(RefusedError):
    """The arguments `dependents` or `prune`, which are for Lisp, were given for Python."""

    reason = "bad-arguments"

    def __init__(self) -> None:
        super().__init__(
            "dependents and prune are for Lisp: nothing was loaded",
            hint="leave them out: in Python load_file renews what others hold, and takes out what the file has no more",
        )


class Loads(Protocol):
    """Ways to load a file, and to evaluate forms in a namespace, in the session and within the time of the load."""

    async def file(self, path: Path) -> Evaluation:
        """The evaluation that loads a file, when it is over or its time is."""
        ...

    async def forms(self, namespace: str, forms: tuple[Form, ...]) -> Evaluation:
        """The evaluation of forms, when it is over or its time is."""
        ...


@dataclass(frozen=True, slots=True)
class Followed:
    """The outcome in words, and the evaluation that is not done, if one is not."""

    notes: tuple[str, ...] = ()
    unfinished: Evaluation | None = None


def check(repl: Repl) -> None:
    """Refuse a REPL that has no namespaces of Lisp, or whose loaded ones are not known.

    Raises:
        PythonRenewsError, CapabilityMissingError: it is one.
    """
    profile = repl.profile
    if repl.dialect == "python":
        raise PythonRenewsError
    if profile is None or "drift" not in profile.capabilities:
        raise CapabilityMissingError("drift", profile.missing.get("drift") if profile is not None else None)


async def follow(call: Call, repl: Repl, namespace: str, loads: Loads, *, prune: bool, dependents: bool) -> Followed:
    """Take out what the file of `namespace` has no more, then load its dependents, as far as that is asked for."""
    found = await drift_of(call, repl)
    drift = call.services.ledger.lisp.drifts.get(repl.id)
    notes = []
    if prune:
        gone = [one.name for one in found if (one.module, one.kind, one.evaluated) == (namespace, "gone", False)]
        codes = filter(None, (removal(repl.dialect, namespace, name, namespace) for name in gone))
        forms = tuple(Form(code, 1, 1, said) for code, said in codes)
        if forms:
            evaluation = await loads.forms(namespace, forms)
            if evaluation.status != "done":
                return Followed((f"not all taken out of {namespace}: {few(gone)}",), evaluation)
            notes.append(f"taken out, as the file has it no more: {few(gone)}")
    if dependents and drift is not None:
        waiting = drift.dependents(namespace)
        for number, (name, file) in enumerate(waiting):
            evaluation = await loads.file(Path(file))
            if evaluation.status != "done":
                before = [one for one, _ in waiting[:number]]
                after = [one for one, _ in waiting[number + 1 :]]
                notes += [f"loaded, too: {few(before)}"] if before else []
                notes.append(f"{name} did not load" if evaluation.over else f"{name} is being loaded")
                notes += [f"not loaded: {few(after)}"] if after else []
                return Followed(tuple(notes), evaluation)
        notes += [f"loaded, too: {few([name for name, _ in waiting], len(waiting))}"] if waiting else []
    return Followed(tuple(notes))
