"""Add the notebooks of kernels to the sessions that `list_sessions` returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codriver.core.state import State
    from codriver.tools.calls.call import AddRows, Call


async def add_notebooks(call: Call) -> AddRows:
    """Return a function that adds the notebook of each kernel to the kernel's entry in the list of sessions."""
    notebooks = notebooks_by_key(call.state)

    def add(rows: list[dict[str, object]]) -> list[dict[str, object]]:
        return [row | {"notebook": notebooks[key]} if (key := str(row["key"])) in notebooks else row for row in rows]

    return add


def notebooks_by_key(state: State) -> dict[str, str]:
    """Return the paths of kernels' notebooks by session key. Paths inside the workspace are relative to it."""
    workspace = f"{state.lifecycle.workspace.rstrip('/')}/"
    return {repl.key: repl.document.removeprefix(workspace) for repl in state.repls.values() if repl.document}
