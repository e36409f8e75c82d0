"""Output of evaluations that run at once in hy-nrepl: each prints to whoever asked for it.

hy-nrepl 1.0.4 puts a stream of its own into `sys.stdout` at the beginning of each evaluation, and the one before back
at its end (`ops/eval.hy`): of two that overlap, one prints to the other's client or to nobody. What is worse, the
stream is freed while `print` still writes to it, at which Python before 3.14 crashes (python/cpython#130163): two
agents who print end the REPL. One stream for all stays in `sys.stdout` instead, and looks up in the context of who
prints whose evaluation it is.
"""

from __future__ import annotations

import json
from typing import Final

_BY_CONTEXT: Final = """
import io, sys
from contextvars import ContextVar
ops = sys.modules["hy_nrepl.ops.eval"]
Own, run, own = ops.StreamingOut, ops.InterruptibleEval.run, ContextVar("own")
class Output(io.TextIOBase):
    running, process = [], sys.__stdout__
    def write(self, text):
        return (own.get(None) or next(reversed(self.running), self.process)).write(text)
    def flush(self):
        self.process.flush()
out = Output()
def open_own(writer):
    own.set(Own(writer))
    out.running.append(own.get())
    return out
def run_apart(thread):
    if not out.running and sys.stdout is not out:
        out.process = sys.stdout
    sys.stdout = out
    try:
        run(thread)
    finally:
        if own.get(None) in out.running:
            out.running.remove(own.get())
if not hasattr(ops, "codriver"):
    ops.codriver, ops.StreamingOut, ops.InterruptibleEval.run = out, open_own, run_apart
"""
"""A thread without a context of an evaluation prints to the one that began last, as before, and to the process's own
stream where none runs."""

PRINT_BY_CONTEXT: Final = f"(exec {json.dumps(_BY_CONTEXT)} {{}})"
