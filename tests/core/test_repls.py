"""REPLs and evaluations in the core, which is pure, so that any sequence of events can be tested."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from codriver.core.actions import (
    AddRepl,
    AddServerLine,
    CancelQueued,
    ClientDisconnected,
    DropRepl,
    Evaluate,
    EvaluationFinished,
    InputRequested,
    InputSent,
    LatchError,
    ReplConnected,
    ReplLost,
    ReplProgress,
    ReplStarted,
    RestartRepl,
    RetryDue,
    ServerStopped,
    SessionClosed,
    SessionOpened,
    StopRequested,
    StopServer,
)
from codriver.core.dispatch import Core
from codriver.core.effects import (
    EFFECTS,
    AppendEntry,
    CloseSession,
    ConnectRepl,
    EndRepl,
    NotifyClients,
    RetryRepl,
    RunEvaluation,
    StartRepl,
    StopEvaluation,
    StoreDocument,
    WakeWaiters,
)
from codriver.core.evaluation_queue import MAX_FINISHED, next_evaluation_id
from codriver.core.handlers import HANDLERS
from codriver.core.profiles import Capability, Profile
from codriver.core.requests import Request
from codriver.core.state import Lifecycle, Origin, State

ADDRESS = Origin("address", "127.0.0.1:7888")
PROCESS = Origin("process", "python")
CLOJURE = Profile(
    dialect="clojure", capabilities={"evaluate": Capability("eval"), "interrupt": Capability("interrupt")}
)
SETTINGS = SimpleNamespace(max_run_ms=600_000, max_length=25, max_depth=7)
NOTHING_APART = replace(CLOJURE, dialect="nbb", isolation="none")


def connections(performed):
    return [effect for effect in performed if isinstance(effect, ConnectRepl)]


def core_of(server, life):
    return Core(
        state=State(lifecycle=life),
        settings=SETTINGS,
        now=lambda: server.now,
        handlers=HANDLERS,
        performers=lambda _: dict.fromkeys(EFFECTS, server.effects.append),
    )


class Server:
    """A core that records the effects it is asked to perform."""

    def __init__(self):
        self.effects = []
        self.now = 1000
        self.core = core_of(self, Lifecycle(phase="started", session_id="abcdef"))

    def do(self, *actions, **context):
        self.effects.clear()
        self.core.dispatch(context, actions)
        return list(self.effects)

    def of(self, kind):
        return [effect for effect in self.effects if isinstance(effect, kind)]

    @property
    def state(self):
        return self.core.state

    def connect(self, profile=CLOJURE, origin=ADDRESS, key="clj", identity="r1", *, keyed=True):
        self.do(AddRepl(identity, key, origin, "127.0.0.1:7888", keyed=keyed))
        return self.do(ReplConnected(identity, profile, "127.0.0.1:7888", "clj"))

    def evaluate(self, code="1", who="a", session="main", identity="r1", client="c1", description=None):
        evaluation = next_evaluation_id(self.state)
        request = Request(evaluation, code, session, description=description or f"why {code}")
        self.do(Evaluate(identity, request, head=code), who=who, client=client)
        return evaluation

    def status(self, evaluation):
        return self.state.evaluations[evaluation].status

    def log(self):
        return [(e.category, e.text) for e in self.of(AppendEntry)]


@pytest.fixture
def server():
    return Server()


def test_a_discovered_repl_is_connected_and_its_tools_are_announced(server):
    server.do(AddRepl("r1", "clj", ADDRESS, "127.0.0.1:7888"))
    assert server.of(ConnectRepl) == [ConnectRepl(id="r1")]
    server.do(ReplConnected("r1", CLOJURE, "127.0.0.1:7888"))
    assert server.of(NotifyClients) == [NotifyClients(changed="tools")]
    assert server.state.repls["r1"].generation == 1


def test_discovering_the_same_repl_again_changes_nothing(server):
    server.connect()
    before = server.state
    assert server.do(AddRepl("r1", "clj", ADDRESS, "127.0.0.1:7888")) == []
    assert server.state is before


def test_a_rewritten_port_file_of_a_lost_repl_leads_to_the_new_address(server):
    server.connect()
    server.do(ReplLost("r1", "gone"))
    server.do(AddRepl("r1", "clj", ADDRESS, "127.0.0.1:9999"))
    assert server.state.repls["r1"].address == "127.0.0.1:9999"
    assert server.of(ConnectRepl) == [ConnectRepl(id="r1")]


def test_a_lost_repl_is_retried_immediately_when_its_port_file_is_rewritten(server):
    server.connect()
    server.do(ReplLost("r1", "gone"), ReplLost("r1", "nobody listens"))
    again = AddRepl("r1", "clj", ADDRESS, "127.0.0.1:7888", rewritten=True)
    assert connections(server.do(again)) == [ConnectRepl(id="r1")]
    assert server.do(RetryDue("r1", 2)) == [], "the pause that was under way is void"
    server.do(ReplConnected("r1", CLOJURE, "127.0.0.1:7888"))
    assert connections(server.do(again)) == [], "a connected REPL is left alone"
    assert server.state.repls["r1"].generation == 2


def test_a_repl_known_by_its_address_gets_its_key_from_the_first_dialect_it_reports(server):
    server.connect(key="nrepl-7888", keyed=False)
    assert server.state.repls["r1"].key == "clj"
    server.do(ReplLost("r1", "gone"), ReplConnected("r1", NOTHING_APART, "x:1", "nbb"))
    assert server.state.repls["r1"].key == "clj"


def test_two_repls_of_one_dialect_get_different_keys(server):
    server.connect(key="nrepl", keyed=False)
    server.connect(key="nrepl", keyed=False, identity="r2")
    assert [r.key for r in server.state.repls.values()] == ["clj", "clj-2"]


def test_a_lost_connection_is_retried_with_delays_doubling_up_to_ten_seconds(server):
    server.connect()
    delays = []
    for _ in range(8):
        server.do(ReplLost("r1", "gone"))
        delays.append(server.of(RetryRepl)[0].delay_s)
        server.do(RetryDue("r1", server.state.repls["r1"].failures))
    assert delays == [0.25, 0.5, 1, 2, 4, 8, 10, 10]


def test_a_stale_port_file_is_reported_and_retried_once_a_minute_until_rewritten(server):
    left = Origin("port-file", "/shop/.nrepl-port")
    server.do(AddRepl("r1", "py", left, "127.0.0.1:7888"))
    delays = []
    for _ in range(11):
        server.do(
            ReplLost("r1", "no REPL could be reached at x:1: nothing is listening at this address", is_unreachable=True)
        )
        delays.append(server.of(RetryRepl)[0].delay_s)
        server.do(RetryDue("r1", server.state.repls["r1"].failures))
    assert delays == [0.25, 0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    server.do(ReplLost("r1", "nothing is listening at this address", is_unreachable=True))
    text = server.state.repls["r1"].note
    assert text == (
        "nothing is listening at this address; /shop/.nrepl-port is probably left over from a process that has ended"
    )
    again = AddRepl("r1", "py", left, "127.0.0.1:7888", rewritten=True)
    assert connections(server.do(again)) == [ConnectRepl(id="r1")]


def test_a_scheduled_retry_does_nothing_after_a_later_failure_replaced_it(server):
    server.connect()
    server.do(ReplLost("r1", "gone"))
    server.do(RetryDue("r1", 1))
    server.do(ReplLost("r1", "gone again"))
    assert server.do(RetryDue("r1", 1)) == []


def test_a_reconnect_increments_the_generation_and_resets_the_delay(server):
    server.connect()
    server.do(ReplLost("r1", "gone"), ReplConnected("r1", CLOJURE, "x:1"))
    assert (server.state.repls["r1"].generation, server.state.repls["r1"].failures) == (2, 0)


def test_losing_a_repl_removes_its_tools_and_notifies_clients(server):
    server.connect()
    server.do(ReplLost("r1", "gone"))
    assert server.of(NotifyClients) == [NotifyClients(changed="tools")]
    assert server.state.capabilities() == frozenset()


def test_a_process_that_keeps_exiting_is_abandoned_with_its_reason(server):
    server.do(AddRepl("r1", "py", PROCESS))
    for _ in range(3):
        server.do(ReplLost("r1", "exit status 1"))
        assert server.state.repls["r1"].phase == "waiting"
        server.do(RetryDue("r1", server.state.repls["r1"].failures))
        assert server.of(StartRepl)
    server.do(ReplLost("r1", "exit status 1"))
    given_up = server.state.repls["r1"]
    assert given_up.phase == "stopped"
    assert "exit status 1" in given_up.note
    assert "4 times within a minute" in given_up.note
    assert not server.of(RetryRepl)
    latch = server.state.latches["repl-given-up:py"]
    assert latch.text == f"Codriver gave up on REPL py: {given_up.note}"
    (kept,) = server.of(StoreDocument)
    assert (kept.kind, kept.name, kept.text) == ("given up", "py", given_up.note)
    assert server.state.repls_awaiting_acceptance() == [given_up]
    server.do(RestartRepl("r1", "asked"), ReplConnected("r1", CLOJURE, "127.0.0.1:1"))
    assert not server.state.latches
    assert not server.state.repls_awaiting_acceptance()


def test_a_process_that_exits_only_once_an_hour_is_restarted_each_time(server):
    server.do(AddRepl("r1", "py", PROCESS))
    for _ in range(10):
        server.now += 3_600_000
        server.do(ReplLost("r1", "exit status 1"), RetryDue("r1", server.state.repls["r1"].failures + 1))
    assert server.state.repls["r1"].phase == "starting"


def test_setting_the_clock_back_does_not_make_old_starts_recent(server):
    server.do(AddRepl("r1", "py", PROCESS))
    for _ in range(10):
        server.now -= 3_600_000
        server.do(ReplLost("r1", "exit status 1"), RetryDue("r1", server.state.repls["r1"].failures + 1))
    assert server.state.repls["r1"].phase == "starting"


def test_a_deleted_port_file_removes_a_lost_repl_but_not_a_connected_one(server):
    server.connect()
    server.do(DropRepl("r1"))
    assert "r1" in server.state.repls
    server.do(ReplLost("r1", "gone"), DropRepl("r1"))
    assert "r1" not in server.state.repls


def test_a_repl_that_returns_with_its_port_file_continues_its_generations(server):
    server.connect()
    server.do(ReplLost("r1", "gone"), DropRepl("r1"))
    server.connect()
    assert server.state.repls["r1"].generation == 2
    server.do(ReplLost("r1", "gone"), DropRepl("r1"))
    server.connect(identity="r2")
    assert server.state.repls["r2"].generation == 1, "another REPL has its own"


def test_evaluations_of_a_removed_repl_keep_their_session_key(server):
    server.connect()
    evaluation = server.evaluate()
    key = server.state.repls["r1"].key
    server.do(ReplLost("r1", "gone"), DropRepl("r1"))
    assert key != "r1"
    assert server.state.evaluation_session_key(server.state.evaluations[evaluation]) == key


def test_an_evaluation_in_a_free_session_runs_immediately_and_is_logged(server):
    server.connect()
    server.evaluate("(+ 1 2)")
    assert [type(e) for e in server.effects] == [RunEvaluation, AppendEntry, AppendEntry]
    assert server.log() == [("otherOutput", "why (+ 1 2)"), ("evaluatedCode", "(+ 1 2)")]


def test_a_description_with_a_checkpoint_is_remembered_beyond_the_run(server):
    server.connect()
    server.now = 5000
    evaluation = server.evaluate(description="Checkpoint:  the parser\n works ")
    (kept,) = server.of(StoreDocument)
    reported = (kept.kind, kept.name, kept.text, kept.now)
    assert reported == ("checkpoint", "the parser works", f"by a in clj ({evaluation})", 5000)
    assert ("otherOutput", "Checkpoint:  the parser\n works ") in server.log()


@pytest.mark.parametrize("description", ["checkpoint", "checkpoint: ", "set a checkpoint: here", "why: checkpoint:"])
def test_a_description_in_another_form_sets_no_checkpoint(server, description):
    server.connect()
    server.evaluate(description=description)
    assert server.of(StoreDocument) == []


def test_evaluations_of_one_session_run_one_at_a_time_in_order(server):
    server.connect()
    first, second, third = (server.evaluate(str(n)) for n in range(3))
    assert [server.status(e) for e in (first, second, third)] == ["running", "queued", "queued"]
    server.do(EvaluationFinished(first, "done"))
    assert [e.request.id for e in server.of(RunEvaluation)] == [second]
    server.do(EvaluationFinished(second, "failed"))
    assert server.status(third) == "running"


def test_a_queued_evaluation_is_logged_when_it_starts(server):
    server.connect()
    first, _ = server.evaluate("1"), server.evaluate("2")
    assert server.log() == []
    server.do(EvaluationFinished(first, "done"))
    assert ("evaluatedCode", "2") in server.log()


def test_sessions_run_concurrently(server):
    server.connect()
    server.do(SessionOpened("r1", "b", "b", "c2"))
    first, second = server.evaluate(), server.evaluate(session="b")
    assert (server.status(first), server.status(second)) == ("running", "running")


def test_a_repl_without_isolation_runs_one_evaluation_at_a_time(server):
    server.connect(NOTHING_APART)
    server.do(SessionOpened("r1", "b", "b", "c2"))
    first, second = server.evaluate(), server.evaluate(session="b")
    assert (server.status(first), server.status(second)) == ("running", "queued")


def test_an_evaluation_waiting_for_input_still_occupies_its_session(server):
    server.connect()
    first, second = server.evaluate(), server.evaluate()
    server.do(InputRequested(first))
    assert (server.status(first), server.status(second)) == ("needs-input", "queued")
    server.do(InputSent(first))
    assert server.status(first) == "running"


@pytest.mark.parametrize("ends", [[], [ServerStopped()]])
def test_a_stopping_server_starts_no_evaluation(server, ends):
    server.connect()
    server.do(StopServer("told to"), *ends)
    late = server.evaluate()
    ended = server.state.evaluations[late]
    assert (ended.status, ended.failure.type) == ("lost", "server-stopped")
    assert "never sent" in ended.failure.message
    assert server.of(RunEvaluation) == []
    assert [effect.evaluation for effect in server.of(WakeWaiters)] == [late], "its call is answered"
    assert not server.state.live


def test_an_evaluation_waits_for_a_starting_repl(server):
    server.do(AddRepl("r1", "py", PROCESS))
    evaluation = server.evaluate()
    assert server.status(evaluation) == "queued"
    server.do(ReplConnected("r1", CLOJURE, "x:1"))
    assert server.status(evaluation) == "running"
    assert server.state.evaluations[evaluation].generation == 1


def test_a_starting_repl_already_has_the_capability_to_evaluate(server):
    server.do(AddRepl("r1", "py", PROCESS))
    assert server.state.capabilities() == {"evaluate", "restart"}


def test_a_lost_connection_ends_running_and_queued_evaluations_without_resending(server):
    server.connect()
    ran, queued = server.evaluate(), server.evaluate()
    server.do(ReplLost("r1", "the socket closed"))
    assert (server.status(ran), server.status(queued)) == ("lost", "lost")
    assert "may have run" in server.state.evaluations[ran].failure.message
    assert "never sent" in server.state.evaluations[queued].failure.message
    server.do(ReplConnected("r1", CLOJURE, "x:1"))
    assert server.of(RunEvaluation) == []


def test_a_failed_connection_attempt_keeps_evaluations_queued(server):
    server.do(AddRepl("r1", "clj", ADDRESS, "127.0.0.1:7888"))
    evaluation = server.evaluate()
    server.do(ReplLost("r1", "connection refused"))
    assert server.status(evaluation) == "queued"


def test_a_second_report_that_an_evaluation_ended_is_ignored(server):
    server.connect()
    evaluation = server.evaluate()
    server.do(EvaluationFinished(evaluation, "done", "user"))
    before = server.state
    assert server.do(EvaluationFinished(evaluation, "failed")) == []
    assert server.state is before


def test_only_a_queued_evaluation_can_be_cancelled(server):
    server.connect()
    running, queued = server.evaluate(), server.evaluate()
    server.do(CancelQueued(queued, "cancelled"), CancelQueued(running, "cancelled"))
    assert (server.status(running), server.status(queued)) == ("running", "interrupted")


def test_a_restart_interrupts_running_evaluations_and_restarts_the_process(server):
    server.connect(origin=PROCESS)
    ran, queued = server.evaluate(), server.evaluate()
    server.do(RestartRepl("r1", "asked"))
    assert (server.status(ran), server.status(queued)) == ("interrupted", "lost")
    assert [type(e) for e in server.effects if hasattr(e, "id")] == [
        EndRepl,
        StartRepl,
    ]


def test_an_external_repl_is_never_restarted(server):
    server.connect()
    before = server.state
    assert server.do(RestartRepl("r1", "asked")) == []
    assert server.state is before


def test_sessions_of_a_disconnected_client_are_closed(server):
    server.connect()
    server.do(SessionOpened("r1", "b", "b", "c2"))
    server.do(ClientDisconnected("c2"))
    assert server.of(CloseSession) == [CloseSession(id="r1", name="b")]
    server.do(SessionClosed("r1", "b"))
    assert list(server.state.repls["r1"].sessions) == ["main"]


def test_evaluations_in_a_clients_own_session_end_before_the_session(server):
    server.connect()
    server.do(SessionOpened("r1", "b", "b", "c2"))
    running, queued = server.evaluate(session="b"), server.evaluate(session="b")
    server.do(ClientDisconnected("c2"))
    assert (server.status(running), server.status(queued)) == ("running", "interrupted")
    assert [effect.evaluation for effect in server.of(StopEvaluation)] == [running]
    assert server.of(CloseSession) == []
    server.do(EvaluationFinished(running, "interrupted"))
    assert server.of(CloseSession) == [CloseSession(id="r1", name="b")]
    server.do(SessionClosed("r1", "b"))
    assert list(server.state.repls["r1"].sessions) == ["main"]


def test_an_evaluation_in_a_session_that_just_ended_leaves_no_state_behind(server):
    server.connect()
    late = server.evaluate(session="gone")
    server.do(EvaluationFinished(late, "failed"))
    assert server.of(CloseSession) == [CloseSession(id="r1", name="gone")]
    server.do(SessionClosed("r1", "gone"))
    assert list(server.state.repls["r1"].sessions) == ["main"]


def test_only_an_abandoned_session_can_be_closed(server):
    server.connect()
    server.do(SessionOpened("r1", "b", "b", "c2"), SessionClosed("r1", "b"), SessionClosed("r1", "main"))
    assert list(server.state.repls["r1"].sessions) == ["main", "b"]


def test_isolated_sessions_end_with_the_connection(server):
    server.connect()
    server.do(SessionOpened("r1", "b", "b", "c2"))
    server.do(ReplLost("r1", "it went away"))
    assert list(server.state.repls["r1"].sessions) == ["main"]


def test_sessions_of_a_serial_repl_wait_for_each_other(server):
    server.connect(profile=Profile("python", is_serial=True))
    server.do(SessionOpened("r1", "b", "b", "c2"))
    first, second = server.evaluate(), server.evaluate(session="b")
    assert (server.status(first), server.status(second)) == ("running", "queued")
    server.do(EvaluationFinished(first, "done"))
    assert server.status(second) == "running"


def test_each_evaluation_records_the_number_of_its_callers_previous_one(server):
    server.connect()
    mine = server.evaluate(who="me")
    server.do(EvaluationFinished(mine, "done"))
    server.evaluate(who="you")
    again = server.evaluate(who="me")
    assert server.state.evaluations[again].previous == 1
    assert server.state.repls["r1"].sessions["main"].last_evaluation_by == {"me": 3, "you": 2}


def test_only_the_beginning_of_the_code_of_a_finished_evaluation_is_retained(server):
    server.connect()
    evaluation = server.evaluate("x" * 1000)
    server.do(EvaluationFinished(evaluation, "done"))
    ended = server.state.evaluations[evaluation]
    assert (ended.request, len(ended.head)) == (None, 200)


def test_only_a_limited_number_of_finished_evaluations_is_remembered(server):
    server.connect()
    for _ in range(2 * MAX_FINISHED + 5):
        server.do(EvaluationFinished(server.evaluate(), "done"))
    assert MAX_FINISHED <= len(server.state.evaluations) <= 2 * MAX_FINISHED
    assert server.state.evaluated == 2 * MAX_FINISHED + 5


def test_an_evaluation_sets_the_namespace_of_its_session(server):
    server.connect()
    server.do(EvaluationFinished(server.evaluate(), "done", "app.core"))
    assert server.state.repls["r1"].sessions["main"].namespace == "app.core"


def test_isolated_sessions_are_named_after_the_repls_key(server):
    server.connect()
    assert server.state.repls["r1"].session_key("main") == "clj"
    assert server.state.repls["r1"].session_key("me") == "clj/me"


def test_evaluation_ids_start_with_the_servers_own_id(server):
    server.connect()
    assert server.evaluate() == "abcd-1"


def test_server_messages_are_logged(server):
    server.do(AddServerLine("hello"), AddServerLine("oh", error=True))
    assert server.log() == [("otherOutput", "hello"), ("otherErrorOutput", "oh")]


def test_a_repeated_error_is_counted(server):
    server.do(LatchError("x", "one"), LatchError("x", "two"))
    assert (server.state.latches["x"].text, server.state.latches["x"].count) == ("two", 2)


@pytest.mark.parametrize(
    ("status", "notes"),
    [
        ("interrupted", ("the code was interrupted: ada asked for it",)),
        ("failed", ("the code failed after an interrupt: ada asked for it",)),
        ("done", ()),
        ("lost", ()),
    ],
)
def test_an_interrupted_evaluation_names_who_requested_the_interruption(server, status, notes):
    server.connect()
    evaluation = server.evaluate()
    server.do(StopRequested(evaluation, "its client left"))
    server.do(StopRequested(evaluation, "ada asked for it"))
    server.do(EvaluationFinished(evaluation, status))
    assert server.state.evaluations[evaluation].notes == notes
    server.do(StopRequested(evaluation, "it comes late"))
    assert server.state.evaluations[evaluation].stop_requested == "ada asked for it"


def test_events_of_an_unknown_repl_change_nothing(server):
    before = server.state
    assert server.do(ReplProgress("r9", "it starts"), ReplStarted("r9", "x:1"), ReplLost("r9", "gone")) == []
    assert server.state is before


def test_a_starting_repl_reports_its_progress_and_its_address(server):
    server.do(AddRepl("r1", "py", PROCESS))
    server.do(ReplProgress("r1", "downloading"))
    assert (server.state.repls["r1"].phase, server.state.repls["r1"].note) == ("starting", "downloading")
    server.do(ReplStarted("r1", "127.0.0.1:9"))
    assert (server.state.repls["r1"].phase, server.state.repls["r1"].address) == ("connecting", "127.0.0.1:9")


def test_a_repl_of_another_project_is_reported_on_connection(server):
    server.core = core_of(server, Lifecycle(phase="started", session_id="abcdef", workspace="/home/me/shop"))
    server.connect(replace(CLOJURE, project_root="/tmp/x"), Origin("port-file", "/home/me/shop/.nrepl-port"))
    assert [category for category, _ in server.log()] == ["otherOutput", "otherErrorOutput"]
    assert "/tmp/x" in server.log()[1][1]


def test_input_for_code_that_is_not_waiting_for_input_is_ignored(server):
    server.connect()
    running = server.evaluate()
    before = server.state
    assert server.do(InputSent(running)) == []
    assert server.state is before


def test_an_evaluation_can_end_after_its_repl_was_removed(server):
    server.do(AddRepl("r1", "clj", ADDRESS, "127.0.0.1:7888"))
    waiting = server.evaluate()
    server.do(DropRepl("r1"))
    assert server.status(waiting) == "lost"
    assert server.of(WakeWaiters) == [WakeWaiters(evaluation=waiting)]


def test_code_without_a_description_is_logged_without_a_description_line(server):
    server.connect()
    server.do(Evaluate("r1", Request("e-1", "(f)")), who="a", client=None)
    assert server.log() == [("evaluatedCode", "(f)")]


def test_limits_of_an_evaluation_come_from_the_current_settings(server):
    server.connect()
    server.core.settings = SimpleNamespace(max_run_ms=5, max_length=3, max_depth=2)
    server.evaluate()
    (run,) = server.of(RunEvaluation)
    assert (run.max_run_ms, run.max_length, run.max_depth) == (5, 3, 2)


@pytest.mark.parametrize(("named", "then"), [(None, "shop"), ("shop", "user")])
def test_code_with_an_explicit_namespace_does_not_change_the_namespace_of_the_session(server, named, then):
    server.connect()
    server.do(Evaluate("r1", Request("e-1", "1"), "1"), who="a", client=None)
    server.do(EvaluationFinished("e-1", "done", "user"))
    server.do(Evaluate("r1", Request("e-2", "1", namespace=named), "1"), who="a", client=None)
    server.do(EvaluationFinished("e-2", "done", "shop"))
    assert server.state.repls["r1"].sessions["main"].namespace == then
    assert server.state.evaluations["e-2"].namespace == "shop"
