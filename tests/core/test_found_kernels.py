"""Discovered kernels: tried a few times, reported once, never waited for, and never in the way of other REPLs."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from refusals import refused_as

from codriver.core.actions import AddRepl, DropRepl, ReplConnected, ReplLost, RestartRepl, RetryDue
from codriver.core.dispatch import Core
from codriver.core.effects import EFFECTS, AppendEntry, ConnectRepl, RetryRepl
from codriver.core.handlers import HANDLERS
from codriver.core.profiles import Profile
from codriver.core.repl_connections import MAX_DISCOVERED_REPL_ATTEMPTS
from codriver.core.state import Lifecycle, Origin, Repl, State
from codriver.tools.calls.session_choice import find_serving_repl, resolve_session
from codriver.tools.calls.syntax_check import possible_repls, speaks_lisp

FILE = "/run/jupyter/kernel-1.json"
ORIGIN = Origin("kernel", FILE, is_discovered_only=True)
KERNEL = AddRepl(f"kernel:{FILE}", "a-ipynb", ORIGIN, f"jupyter://{FILE}", document="/w/a.ipynb")
PYTHON = Profile(dialect="python")


class Server:
    """A core that records the effects of the latest actions."""

    def __init__(self):
        self.effects = []
        self.core = Core(
            state=State(lifecycle=Lifecycle(phase="started", session_id="abcdef")),
            settings=SimpleNamespace(max_run_ms=600_000, max_length=25, max_depth=7),
            now=lambda: 1000,
            handlers=HANDLERS,
            performers=lambda _: dict.fromkeys(EFFECTS, self.effects.append),
        )

    def do(self, *actions):
        self.effects.clear()
        self.core.dispatch({}, actions)
        return list(self.effects)

    def of(self, kind):
        return [effect for effect in self.effects if isinstance(effect, kind)]

    @property
    def state(self):
        return self.core.state


def repl(key, origin=ORIGIN, phase="connected", **fields):
    return Repl(f"{origin.kind}:{key}", key, origin, phase=phase, profile=PYTHON, generation=1, **fields)


def state_of(*repls):
    return State(repls={item.id: item for item in repls})


NAMED = [Origin("process", "python"), Origin("address", "127.0.0.1:7888"), Origin("kernel", "/named.json")]
OTHERS = [*NAMED, Origin("port-file", "/w/.nrepl-port")]


@pytest.mark.parametrize("other", OTHERS, ids=lambda origin: origin.kind)
def test_a_call_without_a_session_prefers_a_repl_over_discovered_kernels(other):
    state = state_of(repl("a-ipynb"), repl("py", other), repl("b-ipynb"))
    assert resolve_session(state, None).key == "py"
    assert resolve_session(state, "a-ipynb").key == "a-ipynb"


def test_a_discovered_kernel_is_never_chosen_unless_the_caller_used_it_last():
    for kernels in ([repl("a-ipynb")], [repl("a-ipynb"), repl("b-ipynb")]):
        assert resolve_session(state_of(*kernels), None, used=("kernel:a-ipynb",)).key == "a-ipynb"
        for used in ((), ("kernel:a-ipynb", "process:py")):
            with refused_as("no-repl") as refused:
                resolve_session(state_of(*kernels), None, used=used)
            assert refused.value.hint.endswith(
                "pass replSessionKey " + " or ".join(kernel.key for kernel in kernels) + "."
            )


@pytest.mark.parametrize("named", NAMED, ids=lambda origin: origin.kind)
def test_a_discovered_kernel_does_not_replace_an_abandoned_repl(named):
    with refused_as("no-repl") as refused:
        resolve_session(state_of(repl("a-ipynb"), repl("py", named, phase="stopped")), None)
    assert refused.value.hint.endswith("pass replSessionKey a-ipynb.")
    assert "a-ipynb" not in refused.value.message


def test_a_discovered_kernel_is_not_used_for_loading_files(tmp_path):
    own = repl("py", Origin("process", "python"))
    assert find_serving_repl(tmp_path / "a.py", [repl("a-ipynb"), own], tmp_path) is own
    assert find_serving_repl(tmp_path / "a.py", [repl("a-ipynb")], tmp_path) is None


def test_code_sent_without_a_session_is_parsed_in_the_language_of_its_repl():
    lisp = replace(repl("clj", Origin("port-file", "/w/.nrepl-port")), profile=Profile(dialect="clojure"))
    state = state_of(repl("a-ipynb"), lisp)
    assert speaks_lisp(possible_repls(state, None))
    assert not speaks_lisp(possible_repls(state, "a-ipynb"))


def test_no_evaluation_waits_for_a_discovered_kernel():
    server = Server()
    server.do(KERNEL)
    found = server.state.repls[KERNEL.id]
    assert (found.phase, found.document, found.is_owned) == ("connecting", "/w/a.ipynb", False)
    assert not found.is_awaited
    assert "evaluate" not in server.state.capabilities()


def test_a_dead_kernel_is_reported_once_and_abandoned_after_a_few_attempts():
    server = Server()
    server.do(KERNEL)
    received = []
    for tries in range(1, MAX_DISCOVERED_REPL_ATTEMPTS + 1):
        server.do(ReplLost(KERNEL.id, "nothing is listening at this address"))
        received += [effect for effect in server.of(AppendEntry) if "a-ipynb" in str(effect)]
        assert len(server.of(RetryRepl)) == (tries < MAX_DISCOVERED_REPL_ATTEMPTS)
        server.do(RetryDue(KERNEL.id, tries))
    known = server.state.repls[KERNEL.id]
    assert (known.phase, known.note) == ("stopped", "nothing is listening at this address")
    assert len(received) == 1
    assert FILE in str(received[0])
    assert not server.state.latches


def test_a_lost_kernel_is_reported_and_retried():
    server = Server()
    server.do(KERNEL)
    server.do(ReplConnected(KERNEL.id, PYTHON, KERNEL.address))
    server.do(ReplLost(KERNEL.id, "the kernel was restarted"))
    assert server.of(RetryRepl)
    assert any("a-ipynb lost: the kernel was restarted" in str(effect) for effect in server.of(AppendEntry))


def test_a_kernel_is_retried_when_its_file_is_rewritten():
    server = Server()
    server.do(KERNEL)
    server.do(ReplLost(KERNEL.id, "nothing is listening at this address", final=True))
    assert server.do(replace(KERNEL, rewritten=True))
    assert server.state.repls[KERNEL.id].phase == "connecting"


def test_an_abandoned_kernel_is_tried_once_each_time_it_is_discovered_again():
    server = Server()
    server.do(KERNEL)
    for tries in range(1, MAX_DISCOVERED_REPL_ATTEMPTS + 1):
        server.do(ReplLost(KERNEL.id, "it did not answer"))
        server.do(RetryDue(KERNEL.id, tries))
    server.do(KERNEL)
    again = server.state.repls[KERNEL.id]
    assert (again.phase, again.note) == ("connecting", "it did not answer")
    server.do(ReplLost(KERNEL.id, "it did not answer"))
    assert server.state.repls[KERNEL.id].phase == "stopped"
    assert not server.of(RetryRepl)
    assert not server.of(AppendEntry)


def test_a_kernel_with_a_renamed_notebook_is_known_by_the_new_name():
    server = Server()
    server.do(KERNEL)
    server.do(ReplConnected(KERNEL.id, PYTHON, KERNEL.address))
    assert not server.do(replace(KERNEL, key="b-ipynb", document="/w/b.ipynb"))
    renamed = server.state.repls[KERNEL.id]
    assert (renamed.key, renamed.document, renamed.phase, renamed.generation) == (
        "a-ipynb", "/w/b.ipynb", "connected", 1,
    )  # fmt: skip
    assert not server.do(replace(KERNEL, document=None))
    assert server.state.repls[KERNEL.id].document == "/w/b.ipynb"


def unnamed_kernel(number, document=None):
    file = f"/run/jupyter/kernel-{number}.json"
    origin = Origin("kernel", file, is_discovered_only=True)
    return AddRepl(f"kernel:{file}", "jup", origin, f"jupyter://{file}", document=document)


def end(server, kernel):
    server.do(ReplLost(kernel.id, "the kernel ended"))
    server.do(DropRepl(kernel.id, "the kernel is gone"))
    assert kernel.id not in server.state.repls


def test_the_key_of_a_kernel_that_has_ended_is_not_given_to_another_kernel():
    server = Server()
    first, second, third = map(unnamed_kernel, (1, 2, 3))
    for kernel in (first, second):
        server.do(kernel)
        server.do(ReplConnected(kernel.id, PYTHON, kernel.address))
    end(server, second)
    server.do(third)
    assert server.state.repls[third.id].key == "jup-3"
    with refused_as("unknown-session") as refused:
        resolve_session(server.state, "jup-2")
    assert refused.value.message == "the REPL session jup-2 has ended: the kernel is gone"
    assert refused.value.hint == "The sessions are jup, jup-3."
    server.do(second)
    server.do(ReplConnected(second.id, PYTHON, second.address))
    again = server.state.repls[second.id]
    assert (again.key, again.generation) == ("jup-2", 2)


def test_the_next_kernel_of_a_notebook_gets_its_key_with_a_new_generation():
    server = Server()
    server.do(KERNEL)
    server.do(ReplConnected(KERNEL.id, PYTHON, KERNEL.address))
    end(server, KERNEL)
    for number, document, key, generation in ((2, "/w/a.ipynb", "a-ipynb", 2), (3, "/v/a.ipynb", "a-ipynb-2", 1)):
        kernel = replace(unnamed_kernel(number, document), key="a-ipynb")
        server.do(kernel)
        server.do(ReplConnected(kernel.id, PYTHON, kernel.address))
        known = server.state.repls[kernel.id]
        assert (known.key, known.generation) == (key, generation)


def test_an_unusable_kernel_is_listed_but_no_connection_is_attempted():
    server = Server()
    server.do(replace(KERNEL, error="run pip install 'codriver[jupyter]'"))
    assert not server.of(ConnectRepl)
    known = server.state.repls[KERNEL.id]
    assert (known.phase, known.note) == ("stopped", "run pip install 'codriver[jupyter]'")


def test_a_discovered_kernel_is_never_restarted_as_a_process():
    server = Server()
    server.do(KERNEL)
    assert not server.do(RestartRepl(KERNEL.id, "ann asked for it"))


def test_connection_failures_of_other_repls_are_not_reported_as_kernel_failures():
    server = Server()
    server.do(AddRepl("address:x", "nrepl", Origin("address", "x"), "x"))
    server.do(ReplLost("address:x", "refused"))
    assert not server.of(AppendEntry)
    assert server.of(RetryRepl)
