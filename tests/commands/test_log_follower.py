"""A log follower uses one query for all new entries, including events of applications."""

import pytest

from codriver.app.features import event_logs
from codriver.commands.log_follower import Follower
from codriver.features.applications.app_log import APP_SOURCE, AppEvent, AppLog
from codriver.log.log_entries import UNASSIGNED_LINE, Entry
from codriver.log.output_log import OutputLog


class Logs:
    """Both logs of a server, answering `wait_for` as the server would."""

    def __init__(self):
        self.log = OutputLog()
        self.app_log = AppLog(self.log.allocate_line)
        self.log.sources = self.log.sources.with_sources([(APP_SOURCE, self.app_log)])
        for number in range(3):
            self.log.append(Entry(UNASSIGNED_LINE, "evaluatedCode", f"code {number}", 0, who="ann"))
            self.app_log.record(AppEvent(f"event {number}", 0, op="fx", who="bob" if number else "ann"))
        self.log.append(Entry(UNASSIGNED_LINE, "evaluationResults", "1", 0, who="ann"))

    def call(self, tool, requested):
        assert tool == "wait_for"
        found = self.log.query(requested["query"], inputs=requested["inputs"]).result
        return {"ok": True, "result": found, "lastLine": self.log.next_line - 1, "gap": False}


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ({}, [3, 5, 7]),
        ({"logs": event_logs()}, [2, 3, 4, 5, 6, 7]),
        ({"logs": event_logs(), "who": "ann"}, [2, 3, 5, 7]),
        ({"logs": event_logs(), "categories": ("appEvent",)}, [2, 4, 6]),
        ({"logs": event_logs(), "categories": ("appEvent", "evaluationResults"), "who": "bob"}, [4, 6]),
        ({"categories": ("evaluationResults",)}, [7]),
    ],
)
def test_a_log_follower_yields_matching_new_entries_in_line_order(options, lines):
    follower = Follower(Logs(), 1, **options)
    entries, gap = follower.next_entries()
    assert ([entry["line"] for entry in entries], gap, follower.since) == (lines, False, 7)
    assert all((entry["category"] == "appEvent") == ("op" in entry) for entry in entries)
