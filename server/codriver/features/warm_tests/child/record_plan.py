"""Run a script like Python does, and record what it imports: `python record_plan.py RECORD SCRIPT ARGUMENT...`.

Recording the order in which imports start adds an importlib frame to each import.
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


def start_record(path: str) -> RunRecord:
    """Return a record of imports that is written when the process exits, after all other exit handlers have run."""
    import atexit

    run = RunRecord(path, BASE_MODULES)
    atexit.register(run.write)
    run.watch()
    if "atexit" not in BASE_MODULES:
        del sys.modules["atexit"]
    return run


if __name__ == "__main__":
    _record = start_record(sys.argv[1])
    _code = compile_script(sys.argv[2])
    exec(_code, create_main_namespace(sys.argv[2], sys.argv[3:], _record))
