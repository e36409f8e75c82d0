"""Run a script like Python does, and record what it imports: `python record_plan.py HOW RECORD SCRIPT ARGUMENT...`.

HOW is `in-order` or `unordered`. `in-order` also records the order in which imports start. This adds an importlib frame
to each import.
"""

from __future__ import annotations

import sys

BASE_MODULES = set(sys.modules)
"""Modules that a new interpreter has already loaded."""

import os  # noqa: E402

TYPE_CHECKING = False
if not TYPE_CHECKING:
    __package__, __spec__ = "child", None
sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
from .scripts import RunRecord, compile_script, create_main_namespace  # noqa: E402

for _name in [name for name in sys.modules if name not in BASE_MODULES]:
    del sys.modules[_name]


def start_record(path: str, *, is_ordered: bool) -> RunRecord:
    """Return a record of imports that is written when the process exits, after all other exit handlers have run."""
    import atexit

    run = RunRecord(path, BASE_MODULES)
    atexit.register(run.write)
    if is_ordered:
        run.watch()
    if "atexit" not in BASE_MODULES:
        del sys.modules["atexit"]
    return run


if __name__ == "__main__":
    _record = start_record(sys.argv[2], is_ordered=sys.argv[1] == "in-order")
    _code = compile_script(sys.argv[3])
    exec(_code, create_main_namespace(sys.argv[3], sys.argv[4:], _record))
