"""The session used by a call that names none: the rules are the same for every tool."""

import pytest
from refusals import refused_as

from codriver.core.profiles import Profile
from codriver.core.records import replace
from codriver.core.state import DroppedRepl, Origin, Repl, State
from codriver.tools.calls.gate import is_choice_open
from codriver.tools.calls.session_choice import find_serving_repl, resolve_session

UNASKED = Origin("process", "python", is_unasked=True)
CONFIGURED = Origin("process", "python")
FILE = Origin("port-file", "/w/.codriver/app.port")


def repl(key, origin, *, application="", dialect="python", phase="connected"):
    profile = Profile(dialect=dialect, application=application)
    return Repl(f"id of {key}", key, origin, phase=phase, profile=profile, generation=1)


OURS = repl("py", UNASKED)
PROJECT = repl("py-2", CONFIGURED)
SHOP = repl("shop", FILE, application="shop")
WORKER = repl("worker", Origin("port-file", "/w/.codriver/app-2.port"), application="worker")
CLOJURE = repl("clj", Origin("port-file", "/w/.nrepl-port"), dialect="clojure")


def state_of(*repls):
    return State(repls={item.id: item for item in repls})


@pytest.mark.parametrize(
    ("repls", "used", "key", "reason"),
    [
        ([OURS], [], "py", "the only REPL"),
        ([OURS, SHOP], [], "shop", "the running application"),
        ([OURS, SHOP], [OURS], "py", "as before"),
        ([OURS, SHOP], [SHOP, OURS], "py", "as before"),
        ([OURS, SHOP], [OURS, SHOP], "shop", "as before"),
        ([PROJECT, SHOP], [], "shop", "the running application"),
        ([OURS, PROJECT], [], "py-2", "the project's REPL"),
        ([OURS, CLOJURE], [], "clj", "the project's REPL"),
        ([SHOP, WORKER], [WORKER], "worker", "as before"),
    ],
    ids=lambda value: "+".join(item.key for item in value) if isinstance(value, list) else value,
)
def test_the_first_matching_rule_chooses_the_session(repls, used, key, reason):
    for given in (repls, repls[::-1]):
        target = resolve_session(state_of(*given), None, used=[item.id for item in used])
        assert (target.key, target.reason) == (key, reason)
        assert sorted(target.alternatives) == sorted(item.key for item in repls if item.key != key)


def worker(number, pid):
    origin = Origin("program", "gunicorn -w 2 shop:app", has_several_processes=True)
    aliases = (str(pid), *(["shop"] if number == 1 else []))
    return replace(repl(f"shop/{number}", origin, application="shop"), aliases=aliases)


def test_processes_of_one_program_count_as_one_application():
    first, second = worker(1, 501), worker(2, 502)
    for given in ([OURS, first, second], [second, first, OURS]):
        target = resolve_session(state_of(*given), None)
        assert (target.key, target.reason) == ("shop/1", "the running application")
    with refused_as("ambiguous-session"):
        resolve_session(state_of(first, second, SHOP), None)


@pytest.mark.parametrize(
    ("named", "key"), [("shop/2", "shop/2"), ("shop", "shop/1"), ("501", "shop/1"), ("502", "shop/2"), ("py", "py")]
)
def test_a_session_is_found_by_its_key_or_an_alias(named, key):
    assert resolve_session(state_of(worker(2, 502), worker(1, 501), OURS), named).key == key
    with refused_as("unknown-session"):
        resolve_session(state_of(worker(2, 502)), "503")


def test_a_key_takes_precedence_over_an_alias_of_another_session():
    assert resolve_session(state_of(worker(1, 501), SHOP), "shop").key == "shop"


@pytest.mark.parametrize(
    ("repls", "named"),
    [([OURS, SHOP, WORKER], "shop, worker"), ([PROJECT, CLOJURE], "py-2, clj")],
    ids=["applications", "project"],
)
def test_a_call_must_name_one_of_several_sessions_of_equal_rank(repls, named):
    with refused_as("ambiguous-session") as refused:
        resolve_session(state_of(*repls), None)
    assert refused.value.hint.endswith(f"one of: {named}.")


KERNEL = repl("analysis", Origin("kernel", "/run/kernel-1.json", is_discovered_only=True))


@pytest.mark.parametrize("others", [[], [OURS], [OURS, CLOJURE], [SHOP]])
def test_a_discovered_kernel_is_used_only_if_the_caller_has_named_it(others, tmp_path):
    state = state_of(KERNEL, *others)
    assert resolve_session(state, "analysis").key == "analysis"
    assert find_serving_repl(tmp_path / "a.py", others, tmp_path) is find_serving_repl(
        tmp_path / "a.py", [KERNEL, *others], tmp_path
    )
    assert resolve_session(state, None, used=[KERNEL.id]).key == "analysis"
    if others:
        expected = resolve_session(state_of(*others), None).key
        assert resolve_session(state, None).key == expected
        used_later = [KERNEL.id, state_of(*others).repls["id of " + expected].id]
        assert resolve_session(state, None, used=used_later).key == expected
        return
    with refused_as("no-repl") as refused:
        resolve_session(state, None)
    assert refused.value.hint == "To use a kernel that somebody else started, pass replSessionKey analysis."


@pytest.mark.parametrize("is_dropped", [True, False], ids=["dropped", "stopped"])
def test_no_other_session_is_silently_chosen_after_a_named_kernel_ends(is_dropped):
    stopped = replace(KERNEL, phase="stopped", note="the kernel died")
    state = state_of(OURS) if is_dropped else state_of(OURS, stopped)
    if is_dropped:
        left = DroppedRepl(KERNEL.key, 1, "the kernel died", is_discovered_only=True)
        state = replace(state, forgotten={KERNEL.id: left})
        with refused_as("unknown-session") as refused:
            resolve_session(state, "analysis")
        assert refused.value.message == "the REPL session analysis has ended: the kernel died"
    with refused_as("unknown-session") as refused:
        resolve_session(state, None, used=[OURS.id, KERNEL.id])
    assert refused.value.message == "the REPL session analysis, which you used last, has ended: the kernel died"
    assert refused.value.hint == "To use another session, pass replSessionKey, which is one of: py."
    assert resolve_session(state, None, used=[KERNEL.id, OURS.id]).key == "py"


def test_a_fallback_repl_is_not_replaced_by_a_kernel_that_the_caller_named():
    stand_in = replace(OURS, awaits_trust=True)
    target = resolve_session(state_of(KERNEL, stand_in), None, used=[KERNEL.id])
    assert (target.key, target.displaced, target.alternatives) == ("analysis", (), ("py",))


def test_a_stopped_repl_is_not_chosen_even_if_it_was_used_before():
    stopped = repl("py", UNASKED, phase="stopped")
    assert resolve_session(state_of(stopped, SHOP), None, used=[stopped.id]).key == "shop"


CONNECTING = replace(WORKER, phase="connecting", profile=None, generation=0)


@pytest.mark.parametrize(
    ("repls", "used", "is_open"),
    [
        ([SHOP, CONNECTING], [], True),
        ([OURS, CONNECTING], [], True),
        ([OURS, CONNECTING], [OURS], False),
        ([CONNECTING], [], False),
        ([SHOP, WORKER], [], False),
        ([SHOP, replace(CONNECTING, phase="waiting")], [], False),
        ([SHOP, replace(CONNECTING, phase="connecting", generation=1)], [], False),
        ([SHOP, replace(CONNECTING, origin=CONFIGURED)], [], False),
        ([OURS, KERNEL, CONNECTING], [KERNEL], False),
        ([OURS, KERNEL, CONNECTING], [], True),
    ],
)
def test_choosing_a_session_waits_for_a_repl_that_may_be_an_application(repls, used, is_open):
    assert is_choice_open(state_of(*repls), [item.id for item in used]) is is_open


def test_a_file_is_served_by_the_session_that_a_call_would_choose(tmp_path):
    file = tmp_path / "a.py"

    def application(name, root=None):
        profile = Profile(dialect="python", application=name, project_root=root)
        origin = Origin("port-file", str(tmp_path / ".codriver" / f"{name}.port"))
        return replace(repl(name, origin), profile=profile)

    ours = replace(OURS, profile=Profile(dialect="python", project_root=str(tmp_path)))
    shop, worker = application("shop"), application("worker")
    assert find_serving_repl(file, [OURS, shop], tmp_path) is shop
    assert find_serving_repl(file, [OURS, shop], tmp_path, used=[OURS.id]) is OURS
    assert find_serving_repl(file, [OURS, CLOJURE], tmp_path) is OURS
    started_elsewhere, of_a_part = application("shop", "/"), application("shop", str(tmp_path / "backend"))
    assert find_serving_repl(file, [ours, started_elsewhere], tmp_path) is started_elsewhere
    assert find_serving_repl(file, [ours, of_a_part], tmp_path) is ours
    unclear = find_serving_repl(file, [shop, worker], tmp_path)
    assert isinstance(unclear, str)
    assert "replSessionKey" in unclear
