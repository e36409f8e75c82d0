"""The events of a stream are printed until it is over, and no others."""

import json

import pytest

from codriver.features.applications.app_log import APP_SOURCE, AppEvent, AppLog
from codriver.features.applications.followed_streams import follow_stream
from codriver.log.log_entries import UNASSIGNED_LINE, Entry
from codriver.log.output_log import OutputLog


class Logs:
    """Both logs of a server, answering `wait_for` as it would."""

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
    ("topic", "message", "status"),
    [
        ("fx", ["event 1", "event 2", "s1-ab (fx) of me is over"], 1),
        ("trace", ["event 1", "event 2", "s2-ab (calls) of you is over", "s1-ab (fx) of me is over"], 1),
        ("calls", ["s2-ab (calls) of you is over", "s1-ab (fx) of me is over"], 0),
    ],
)
def test_a_followed_stream_prints_events_of_its_topic_until_it_ends(topic, message, status, capsys):
    logs = Logs()
    logs.app_log.record(AppEvent("s2-ab (calls) of you is over", 0, op="call", name="stream-over"))
    op = "call" if topic == "calls" else "fx"
    logs.app_log.record(AppEvent("s1-ab (fx) of me is over", 0, op=op, name="stream-over"))
    assert follow_stream(logs, {"subId": "s1-ab", "since": 2}, topic, as_json=True) == status
    assert [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()] == message
