"""The seam of the application in this process, if the application has one; found by name among the modules."""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NAME = "codriver_seam"
FILE = os.path.join(NAME, "__init__.py")
PLACE = os.path.join(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 4)), FILE)
"""It lies beside the package that this is a part of."""


class _Beside:
    """Finds the seam beside Codriver for code that imports it and whose environment does not have it."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> Any:
        """See `importlib.abc.MetaPathFinder`."""
        del path, target
        if name != NAME or not os.path.isfile(PLACE):
            return None
        import importlib.util

        return importlib.util.spec_from_file_location(name, PLACE)


def offer() -> None:
    """Let code in this process import the seam; one that it has itself comes first."""
    sys.meta_path.append(_Beside)


def installed() -> Any:
    """The seam, where the application has one and it is switched on."""
    module = sys.modules.get(NAME)
    return module if getattr(module, "session_id", None) else None


def told() -> dict[str, str]:
    """The field by which a client learns that there is a seam: none where there is none, or it is switched off."""
    module = installed()
    return {"codriver/seam": str(module.session_id)} if module else {}


def answer(name: str, arguments: str, origin: str) -> str | None:
    """The answer of an accessor of the seam, as JSON; None where there is none."""
    module = installed()
    return str(module.call(name, arguments, origin)) if module else None


def subscribe(
    arguments: str, origin: str, push: Callable[[str], bool], at_end: list[Callable[[], object]]
) -> str | None:
    """Subscribe to a stream, whose frames `push` takes, and answer as `answer` does; `at_end` is given what ends it."""
    module = installed()
    if module is None:
        return None
    told = str(module.call("subscribe", arguments, origin, push))
    identity = json.loads(told).get("subId")
    if identity:
        at_end.append(lambda: answer("unsubscribe", json.dumps({"subId": identity}), "null"))
    return told


def note_load() -> None:
    """Tell the seam that code was loaded anew."""
    module = installed()
    if module:
        module.loaded()
