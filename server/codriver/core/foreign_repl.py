"""A foreign REPL: a stale port file may lead to one of another project, which serves the same port now."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codriver.core.state import Repl, State
    from codriver.core.values import Evaluation


def stray(state: State, repl: Repl) -> str | None:
    """The warning about a REPL that a port file led to and that runs elsewhere; None when nothing speaks for that.

    At home is what runs in the workspace, or above it. A REPL that somebody named by its address is never suspected:
    in a container, or behind a tunnel, it has other folders.
    """
    root = repl.profile.project_root if repl.profile is not None else None
    if repl.origin.kind != "port-file" or not root or not state.life.workspace:
        return None
    if _is_within(root, state.life.workspace) or _is_within(state.life.workspace, root):
        return None
    file = repl.origin.text
    return (
        f"REPL {repl.key} runs in {root}, neither in nor above this workspace: the port file {file} may be left from "
        "a REPL that is gone, and then code runs in another project. If so, delete the file and start the REPL again; "
        f"if it is the right one, in a container say, name it with --nrepl {repl.address} and this is not said"
    )


def _is_within(path: str, folder: str) -> bool:
    """Whether an absolute path is a folder's own or of something in it."""
    return f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")


def is_first(state: State, evaluation: Evaluation) -> bool:
    """Whether its caller evaluated nothing before it in its REPL, since that was connected."""
    return not any(
        (other.repl, other.generation, other.client, other.who)
        == (evaluation.repl, evaluation.generation, evaluation.client, evaluation.who)
        for other in state.evaluations.values()
        if other.number < evaluation.number
    )
