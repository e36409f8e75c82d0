"""Decide whether pytest would rewrite the assertions of a module, as its import hook does, but faster."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def find_rewriting_hook() -> Any:
    """Return the import hook with which pytest rewrites assertions, or None."""
    return next((finder for finder in sys.meta_path if type(finder).__name__ == "AssertionRewritingHook"), None)


class RewritingRules:
    """The present rules of pytest's import hook, which depend on its configuration and on the session's arguments."""

    def __init__(self, hook: Any) -> None:
        self.hook = hook
        storage = getattr(hook.config, "stash", None) or hook.config._store  # `_store` until 7.0
        states = [state for state in storage._storage.values() if type(state).__name__ == "AssertionState"]
        self.state: Any = states[0] if states else None
        self.has_checked_arguments = False
        fnmatch: Any = sys.modules.get("fnmatch")
        self.matches: Any = fnmatch and fnmatch.fnmatchcase
        """A function that matches file names, or None if patterns have to be matched by pytest itself."""
        if any(map(os.path.dirname, hook.fnpats)):
            self.matches = None

    def would_rewrite(self, name: str, origin: str) -> bool:
        """Return whether pytest would rewrite the assertions of a module."""
        if self.state is None or (self.has_checked_arguments and self.is_excluded(name)):
            return False
        self.has_checked_arguments = True  # the first call adds the names of the session's arguments to the hook
        if self.hook._early_rewrite_bailout(name, self.state):
            return False
        return bool(self.hook._should_rewrite(name, origin, self.state))

    def is_excluded(self, name: str) -> bool:
        """Return whether the name alone is enough to know that the module is not rewritten."""
        hook, last = self.hook, name.rpartition(".")[2]
        if self.matches is None or last in hook._basenames_to_check_rewrite:
            return False
        if any(self.matches(f"{last}.py", pattern) for pattern in hook.fnpats):
            return False
        return not any(name == marked or name.startswith(f"{marked}.") for marked in hook._must_rewrite)
