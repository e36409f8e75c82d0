"""Notes for callers whose code runs in Codriver's REPL although a program is running."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core.profiles import PYTHON
from codriver.features.run.programs import Programs

if TYPE_CHECKING:
    from codriver.core.evaluations import Evaluation
    from codriver.tools.calls.call import Call


async def running_program_notes(call: Call, evaluation: Evaluation) -> list[str]:
    """Return a note for each program that runs in the workspace and has no REPL yet.

    A caller stays in the REPL that it used before the program was started, where modules are not those of the program.
    Each caller receives the note about a program only once.
    """
    programs, repl = call.services.part(Programs), call.state.repls.get(evaluation.repl)
    if repl is None or not repl.is_owned or repl.dialect != PYTHON or not programs.has_runs():
        return []
    notes = call.services.delivered.repls
    unused = await programs.find_unused(lambda run: notes.may_be_new(evaluation, run))
    return [
        f"this ran in {repl.key}, not in the running program {member.run.name}. To use the program, pass "
        f"replSessionKey {member.named.key}"
        for member in unused
        if notes.is_new(evaluation, member.run.directory.name)
    ]
