"""`run_tests` for files that changed elsewhere, as in an editor: the server chooses the tests that can break."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.editing.batch import FileResult
from codriver.editing.file_changes import MISSING, Change
from codriver.errors import refused
from codriver.tools.acts.affected_tests import choose
from codriver.tools.acts.edit_acts import AFFECTED, paths_of
from codriver.tools.acts.test_runs import run_tests
from codriver.tools.calls.session_choice import server_of

if TYPE_CHECKING:
    from pathlib import Path

    from codriver.core.state import Repl
    from codriver.tools.acts.test_arguments import TestArguments
    from codriver.tools.calls.base import Answer, Call


async def run_chosen_tests(call: Call, arguments: TestArguments) -> Answer:
    """Run the tests that the arguments name, or those that changes of the named files can break."""
    if not arguments.affected_by:
        if AFFECTED in arguments.paths and not (call.services.workspace / AFFECTED).exists():
            raise refused(
                "bad-arguments", f"there is no test {AFFECTED!r}", hint="name the changed files in affectedBy"
            )
        return await run_tests(call, arguments)
    changed = [await _changed(call, file) for file in arguments.affected_by]
    choice = await choose(call, changed, lambda path: _server(call, path), with_failed=False)
    whole = {name for run in choice.runs for name, _ in run.only if "::" not in name}
    paths = [path for path in paths_of(choice.runs) if path in whole or path.partition("::")[0] not in whole]
    if not paths:
        files = ", ".join(arguments.affected_by)
        raise refused("no-tests", f"no test runs, imports or is named after {files}", hint="name tests in paths")
    update: dict[str, object] = {"paths": [*arguments.paths, *paths], "affected_by": []}
    keys = [run.repl for run in choice.runs if run.namespace and run.repl]
    if keys and arguments.repl_session_key is None:
        update["repl_session_key"] = keys[0]
    return await run_tests(call, arguments.model_copy(update=update))


async def _changed(call: Call, file: str) -> FileResult:
    """Return a file as if all of it were new: what somebody else changed in it is unknown."""
    path, now = await call.services.editor.read(file, allow_outside=False)
    return FileResult(Change(path, MISSING, now.data), file, {}, "")


def _server(call: Call, path: Path) -> Repl | str:
    return server_of(path, call.state.repls.values(), call.services.workspace) or "no REPL serves it"
