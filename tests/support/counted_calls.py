"""Function calls of a server in this process that belong to evaluations, counted by a profiler in its thread.

A call belongs to an evaluation if a function below it on the stack answers a tool call or handles an event from the
REPL. Work that timers cause is therefore not counted, and the counts do not depend on the speed of the machine.
"""

import threading
from collections import Counter
from pathlib import Path

from tools_in_memory import serving

import codriver
from codriver.repls.event_recorder import EventRecorder
from codriver.tools.calls.gate import answer_call

PACKAGE = Path(codriver.__file__).parent
FEATURES = f"{PACKAGE / 'features'}/"
ROOTS = frozenset({answer_call.__code__, EventRecorder.receive.__code__})
"""The functions with which the work for an evaluation starts."""
WARM_UP, ROUNDS = 5, 20


class CallCounter:
    """Counts calls while `is_counting`: those from the base to each feature, and those within each feature."""

    def __init__(self):
        self.is_counting = False
        self.from_base = Counter()
        self.within = Counter()

    def profile(self, frame, event, _argument):
        """Count a call. A profiler for `sys.setprofile`."""
        if not self.is_counting or event != "call":
            return
        feature = _feature_of(frame)
        if feature and _belongs_to_evaluation(frame):
            counts = self.within if _feature_of(frame.f_back) else self.from_base
            counts[feature] += 1


def _feature_of(frame):
    """Return the feature that defines the function of a frame, or an empty string."""
    file = frame.f_code.co_filename
    return Path(file).relative_to(FEATURES).parts[0] if file.startswith(FEATURES) else ""


def _belongs_to_evaluation(frame):
    while frame is not None:
        if frame.f_code in ROOTS:
            return True
        frame = frame.f_back
    return False


def count_calls_of_features(folder):
    """Return the calls to each feature during `ROUNDS` evaluations: those from the base and those within it."""
    counter, before = CallCounter(), threading.getprofile()
    threading.setprofile(counter.profile)
    try:
        with serving(folder) as live, live.client() as client:
            for number in range(WARM_UP + ROUNDS):
                counter.is_counting = number >= WARM_UP
                assert client.call("evaluate_code", code="(+ 1 2)")["result"] == "3"
            counter.is_counting = False
    finally:
        threading.setprofile(before)
    return counter.from_base, counter.within
