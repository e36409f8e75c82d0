"""A fallback REPL is used until the project's own REPL is available."""

from refusals import refused_as

from codriver.core.profiles import Profile
from codriver.core.state import Origin, Repl, State
from codriver.tools.calls.session_choice import resolve_session


def repl(key, dialect, *, waits=False, stands_in="", phase="connected", kind="process"):
    origin = Origin(kind, key, stand_in_note=stands_in)
    profile = Profile(dialect=dialect, capabilities={})
    return Repl(key, key, origin, phase=phase, expected_dialect=dialect, awaits_trust=waits, profile=profile)


def chosen(*repls, **how):
    target = resolve_session(State(repls={item.id: item for item in repls}), None, **how)
    return target.key, target.displaced


def test_a_fallback_repl_is_replaced_by_the_projects_own_repl_even_after_use():
    stand_in, own = repl("clj", "clojure", waits=True), repl("nrepl", "clojure", kind="port-file")
    assert chosen(stand_in) == ("clj", ())
    assert chosen(stand_in, own, used=("clj",)) == ("nrepl", ("clj",))
    coming = repl("nrepl", "clojure", kind="port-file", phase="waiting")
    assert chosen(stand_in, coming) == ("clj", ())


def test_a_fallback_python_repl_is_replaced_by_lisp_but_still_loads_python_files():
    stand_in, own = repl("py", "python", stands_in="this is Python instead"), repl("nbb", "nbb")
    assert chosen(stand_in, own) == ("nbb", ("py",))
    assert chosen(stand_in, own, dialects=("python",)) == ("py", ())


def test_a_python_repl_waiting_for_its_environment_is_not_replaced_by_other_languages():
    with refused_as("ambiguous-session"):
        chosen(repl("py", "python", waits=True), repl("nrepl", "clojure", kind="port-file"))
