"""Recording an application's events from frames: each event once, up to a rate, and the rest counted."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from codriver.core.actions import AddRepl, ReplConnected, ReplLost
from codriver.core.dispatch import Core
from codriver.core.effects import EFFECTS
from codriver.core.handlers import HANDLERS
from codriver.core.profiles import Profile
from codriver.core.state import Lifecycle, Origin, State
from codriver.features.applications.app_event_recorder import MAX_EVENTS_PER_WINDOW, AppEventRecorder
from codriver.features.applications.app_log import AppLog
from codriver.log.output_log import OutputLog
from codriver.settings.model import Settings

PROFILE = Profile(dialect="python")


class Recording:
    """A recorder whose seconds end when a test says so."""

    def __init__(self):
        self.performers = dict.fromkeys(EFFECTS, [].append)
        self.core = Core(
            state=State(lifecycle=Lifecycle(phase="started", session_id="abcdef")),
            settings=Settings(), now=lambda: 5000,
            handlers=HANDLERS, performers=lambda _: self.performers,
        )  # fmt: skip
        self.core.report(
            AddRepl("r1", "py", Origin("address", "x:1"), "x:1"),
            ReplConnected("r1", PROFILE, "x:1"),
        )
        self.log = AppLog(OutputLog().allocate_line)
        self.begun = []
        tasks = SimpleNamespace(start_soon=lambda *job: self.begun.append(job))
        self.recorder = AppEventRecorder(self.core, self.log, tasks, Path("/home/ann/shop"))

    def receive_events(self, *events, sub="s1", **fields):
        self.receive(json.dumps({"sub": sub, "dropped": 0, "events": list(events), **fields}))

    def receive(self, text, repl="r1"):
        self.recorder.receive(repl, None, text)

    async def second(self):
        [(close, repl)] = self.begun
        self.begun.clear()
        await close(repl)

    @property
    def rows(self):
        return self.log.entries(limit=3000)

    @property
    def texts(self):
        return [row["text"] for row in self.rows]


@pytest.fixture
def recording():
    return Recording()


def event(number, **more):
    return {"id": number, "time": 12.5, "opType": "fx", "operation": "db/write", "line": f"{number} fx", **more}


def test_an_event_is_recorded_with_all_its_fields(recording):
    origin = {"who": "ann", "evaluation": "e1"}
    line = "7 error at=/home/ann/shop/orders.py:3"
    recording.receive_events(event(7, opType="error", frame="shop", dispatchId=4, ms=0.5, origin=origin, line=line))
    [row] = recording.rows
    assert row == {
        "line": 1, "category": "appEvent", "text": "7 error at=orders.py:3", "timestamp": 12500, "op": "error",
        "name": "db/write", "frame": "shop", "cause": 4, "ms": 0.5, "app-id": 7, "who": "ann", "evaluation": "e1",
        "repl-session-key": "py",
    }  # fmt: skip


@pytest.mark.parametrize(
    "frame",
    [
        {},
        {"sub": 7, "events": None},
        {"events": [None, 1, "x", [], {}, {"line": 3}]},
        {"dropped": "many", "events": "none"},
    ],
)
def test_malformed_events_are_skipped(recording, frame):
    recording.receive(json.dumps(frame))
    assert recording.rows == []


@pytest.mark.parametrize("text", ["", "{not json", "[1]", "7", "[" * 100_000])
def test_malformed_event_frames_and_frames_from_removed_repls_are_ignored(recording, text):
    recording.receive(text)
    recording.receive(json.dumps({"sub": "s1", "events": [event(1)]}), repl="r9")
    assert recording.rows == []


def test_fields_of_the_wrong_type_are_omitted(recording):
    odd = {"id": True, "time": "now", "opType": 3, "ms": float("nan"), "dispatchId": [1], "origin": "me", "line": "x"}
    recording.receive_events(odd)
    [row] = recording.rows
    assert row.keys() == {"line", "category", "text", "timestamp", "repl-session-key"}


@pytest.mark.anyio
async def test_an_event_in_several_streams_is_recorded_once_per_repl_generation(recording):
    recording.receive_events(event(1))
    recording.receive_events(event(1), event(2), sub="s2")
    assert recording.texts == ["1 fx", "2 fx"]
    recording.core.report(ReplLost("r1", "gone"))
    recording.core.report(ReplConnected("r1", PROFILE, "x:1"))
    recording.receive_events(event(1), sub="s9")
    assert recording.texts == ["1 fx", "2 fx", "1 fx"]


@pytest.mark.anyio
async def test_events_beyond_the_rate_limit_are_summarized_in_one_line(recording, monkeypatch):
    monkeypatch.setattr("codriver.features.applications.app_event_recorder.WINDOW_S", 0)
    recording.receive_events(*map(event, range(MAX_EVENTS_PER_WINDOW + 30)), dropped=7)
    assert len(recording.rows) == MAX_EVENTS_PER_WINDOW
    await recording.second()
    assert recording.texts[-1] == (
        "37 events of s1 were dropped. The newest ones are in the application's trace: "
        "inspect_app trace, filter since 199"
    )
    assert recording.log.dropped == 37
    recording.receive_events(event(1000))
    assert recording.texts[-1] == "1000 fx"
    await recording.second()
    assert recording.texts[-1] == "1000 fx", "nothing was left out of that second"
