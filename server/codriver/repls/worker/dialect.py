"""The contract of a dialect: what differs between the languages that the worker evaluates."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .jobs import Job

COMPLETIONS = 500
"""How many names a completion gives at most."""


class NamespaceMissingError(Exception):
    """Code was to be evaluated in a namespace that is not there."""


class Dialect:
    """One language, for the life of the worker. A namespace is what the language has for one."""

    expands = False
    """Whether it has macros to expand."""
    has_hooks = False
    """Whether `sys.excepthook` is the user's way to have errors shown."""
    home: Any
    """The namespace of the first session."""

    def versions(self) -> dict[str, str]:
        """Versions by name: of the language and of its interpreter."""
        raise NotImplementedError

    def take_streams(self) -> None:
        """Let threads of user code print to the worker's streams, where `sys.stdout` alone does not do it."""

    def name_of(self, namespace: Any) -> str:
        """What users call a namespace."""
        raise NotImplementedError

    def find(self, name: object) -> Any:
        """The namespace `name` if it is there, else None."""
        raise NotImplementedError

    def new_home(self) -> Any:
        """The first namespace of a session that is to be apart from others."""
        raise NotImplementedError

    def drop_home(self, namespace: Any) -> None:
        """Forget what `new_home` gave, where it was made for one session."""

    def evaluate(self, job: Job) -> None:
        """Run the job's code and tell its values. Whatever the code raises is raised.

        Raises:
            NamespaceMissingError: the request names a namespace that is not there.
        """
        raise NotImplementedError

    def explain(self, error: BaseException, job: Job) -> tuple[dict[str, Any], str]:
        """A failure in parts (`codriver/error`) and as text."""
        raise NotImplementedError

    def complete(self, prefix: str, namespace: Any) -> list[dict[str, str]]:
        """Names that begin with `prefix`, found without running user code."""
        raise NotImplementedError

    def lookup(self, name: str, namespace: Any) -> dict[str, Any] | None:
        """What is known of a name; None if it does not resolve."""
        raise NotImplementedError
