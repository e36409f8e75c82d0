"""What lanes and the notes on conflicts cost an evaluation where nothing conflicts: microseconds, medians side by side.

Run with `python tests/bench/run.py lanes`.
"""

import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

from report import main

from codriver.core.actions import AddRepl, ClientConnected, Evaluate, EvaluationFinished, ReplConnected
from codriver.core.dispatch import Core
from codriver.core.effects import EFFECTS
from codriver.core.evaluation_queue import next_evaluation_id
from codriver.core.handlers import HANDLERS
from codriver.core.profiles import Capability, Profile
from codriver.core.requests import Request
from codriver.core.state import Lifecycle, Origin, State
from codriver.features.handoff.conflict_ledger import Conflicts
from codriver.features.handoff.conflict_notes import conflict_notes, record_sent_code
from codriver.settings.model import Settings
from codriver.tools.calls.call import Call
from codriver.tools.calls.session_choice import caller_lane, resolve_session

TITLE = "the server's part of an evaluation where nothing conflicts"
ALONE = "one session for all, one client"
PARTS = {
    "session": "choosing the session",
    "core": "the core's part",
    "kept": "keeping the code",
    "told": "looking for conflicts",
}
CODES = ("(+ 1 2)", "(total (map :qty (orders 12)))", "(defn total-{0} [orders] (reduce + (map :qty orders)))")
CAN = {"evaluate": Capability("eval"), "interrupt": Capability("interrupt")}


def server(*, lanes):
    """Create the core and the services that are needed to choose a session and to report conflicts."""
    core = Core(
        state=State(lifecycle=Lifecycle(phase="started", session_id="abcdef")),
        settings=Settings(),
        now=lambda: 1000,
        handlers=HANDLERS,
        performers=lambda _: dict.fromkeys(EFFECTS, lambda _effect: None),
    )
    core.dispatch(
        {},
        (
            AddRepl("r1", "clj", Origin("address", "x:1"), "x:1"),
            ReplConnected("r1", Profile("clojure", capabilities=CAN), "x:1"),
        ),
    )
    return SimpleNamespace(
        core=core,
        live=SimpleNamespace(settings=Settings(lanes=lanes)),
        workspace=Path("/w"),
        now=lambda: 1000,
        part={Conflicts: Conflicts()}.__getitem__,
    )


def client(services, name):
    services.core.dispatch({}, (ClientConnected(name),))
    return Call(services, name, name, None)


def evaluate(call, code, times):
    """Start and report one evaluation as the tools do, with separate times for each part."""
    core = call.services.core

    def timed(part, act):
        began = time.perf_counter_ns()
        value = act()
        times.setdefault(part, []).append((time.perf_counter_ns() - began) / 1000)
        return value

    target = timed("session", lambda: caller_lane(call, resolve_session(call.state, None), call.client_name))
    request = Request(next_evaluation_id(core.state), code, target.session.name)
    timed(
        "core",
        lambda: call.dispatch(Evaluate("r1", request, code[:80], target.lane), who=call.client_name),
    )
    timed("kept", lambda: record_sent_code(call, target.repl, target.session, request))
    core.dispatch({}, (EvaluationFinished(request.id, "done", "user"),))
    notes = conflict_notes(call, core.state.evaluations[request.id])
    found = timed("told", lambda: run_now(notes))
    assert found == []


def run_now(coroutine):
    """Return the result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


def times_of(*, lanes, clients, rounds):
    """Return the microseconds of each evaluation, by part."""
    services = server(lanes=lanes)
    calls = [client(services, f"c{number}") for number in range(clients)]
    times = {}
    for number in range(rounds):
        evaluate(calls[number % clients], CODES[number % len(CODES)].format(number), times)
    return times


def measure(report):
    ways = {
        ALONE: partial(times_of, lanes=False, clients=1),
        "lanes, one client": partial(times_of, lanes=True, clients=1),
        "lanes, two clients": partial(times_of, lanes=True, clients=2),
        "lanes, 64 clients": partial(times_of, lanes=True, clients=64),
    }
    found = {name: way(rounds=report.rounds(2000)) for name, way in ways.items()}
    whole = {name: [sum(parts) for parts in zip(*times.values(), strict=True)] for name, times in found.items()}
    report.table(TITLE, "µs", whole, base=ALONE)
    for part, words in PARTS.items():
        report.table(f"of it {words}", "µs", {name: times[part] for name, times in found.items()}, base=ALONE)


if __name__ == "__main__":
    main(measure)
