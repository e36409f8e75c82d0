"""A REPL that stands in for the project's own is used until that is there."""

from refusals import refused_as

from codriver.core.state import Origin, Repl, State
from codriver.core.values import Profile
from codriver.tools.calls.session_choice import resolve


def repl(key, dialect, *, waits=False, stands_in="", phase="connected", kind="process"):
    origin = Origin(kind, key, stand_in_note=stands_in)
    profile = Profile(dialect=dialect, capabilities={})
    return Repl(key, key, origin, phase=phase, expected_dialect=dialect, awaits_trust=waits, profile=profile)


def chosen(*repls, **how):
    target = resolve(State(repls={one.id: one for one in repls}), None, **how)
    return target.key, target.displaced


def test_it_gives_way_to_the_projects_own_also_for_who_has_used_it():
    stand_in, own = repl("clj", "clojure", waits=True), repl("nrepl", "clojure", kind="port-file")
    assert chosen(stand_in) == ("clj", ())
    assert chosen(stand_in, own, used=("clj",)) == ("nrepl", ("clj",))
    coming = repl("nrepl", "clojure", kind="port-file", phase="waiting")
    assert chosen(stand_in, coming) == ("clj", ())


def test_python_that_stands_in_for_a_lisp_gives_way_to_that_and_still_loads_files_of_python():
    stand_in, own = repl("py", "python", stands_in="this is Python instead"), repl("nbb", "nbb")
    assert chosen(stand_in, own) == ("nbb", ("py",))
    assert chosen(stand_in, own, dialects=("python",)) == ("py", ())


def test_a_python_that_waits_for_its_environment_gives_no_way_to_a_repl_of_another_language():
    with refused_as("ambiguous-session"):
        chosen(repl("py", "python", waits=True), repl("nrepl", "clojure", kind="port-file"))
