"""Warnings in the first answer of a REPL that is easily mistaken for another."""

from codriver.core.listening_program import ListeningProgram
from codriver.core.profiles import Profile
from codriver.core.state import Lifecycle, Origin, Repl, State, awaits_acceptance, first_answer_warnings


def state_of(*repls, programs=()):
    lifecycle = Lifecycle(workspace="/home/me/shop")
    return State(lifecycle=lifecycle, repls={repl.id: repl for repl in repls}, programs=programs)


def python_repl(**fields):
    profile = Profile("python", process_id=10, project_root="/home/me/shop")
    return Repl("r1", "py", Origin("process", "python"), phase="connected", profile=profile, **fields)


SHOP = ListeningProgram(20, "127.0.0.1:8000", start_advice="start it with `launch`")


def test_a_repl_started_by_codriver_warns_of_a_program_listening_in_the_workspace():
    (words,) = first_answer_warnings(state_of(python_repl(), programs=(SHOP,)), python_repl())
    assert "127.0.0.1:8000 (pid 20)" in words
    assert words.endswith("start it with `launch`, or call codriver_seam.start_repl(True) in it")


def test_a_program_with_a_repl_causes_no_warning():
    ours, other = python_repl(), Repl("r2", "shop", Origin("program", "flask"), address="127.0.0.1:8000")
    can_connect = ListeningProgram(21, "127.0.0.1:9000", can_connect=True)
    in_process = ListeningProgram(10, "127.0.0.1:9001")
    state = state_of(ours, other, programs=(SHOP, can_connect, in_process))
    assert first_answer_warnings(state, ours) == ()


def test_a_repl_inside_a_program_does_not_warn_of_listening_programs():
    state = state_of(programs=(SHOP,))
    profile = Profile("python", process_id=20)
    application = Repl("r1", "shop", Origin("program", "flask"), profile=profile)
    clojure = Repl("r2", "clj", Origin("process", "clojure"), profile=Profile("clojure"))
    assert first_answer_warnings(state, application) == first_answer_warnings(state, clojure) == ()


def test_a_caution_is_reported_together_with_the_foreign_directory_of_a_repl():
    profile = Profile("clojure", project_root="/home/you")
    repl = Repl("r1", "clj", Origin("port-file", "/home/me/shop/.nrepl-port"), profile=profile, caution="it is old")
    foreign, caution = first_answer_warnings(state_of(repl), repl)
    assert "/home/you" in foreign
    assert caution == "it is old"


def test_a_repl_of_another_working_tree_is_reported_with_that_tree():
    profile = Profile("clojure", project_root="/home/me/shop-wt/api", other_tree="/home/me/shop-wt")
    repl = Repl("r1", "clj", Origin("port-file", ".nrepl-port"), profile=profile)
    (words,) = first_answer_warnings(state_of(repl), repl)
    assert "in the working tree /home/me/shop-wt" in words


def test_a_stopped_repl_awaits_acceptance_only_if_trusting_the_workspace_would_start_it():
    refused = Repl("r1", "py", Origin("process", "python"), phase="stopped", is_not_accepted=True)
    assert awaits_acceptance(refused)
    assert not awaits_acceptance(Repl("r1", "py", Origin("process", "python"), phase="stopped", note="it ended"))
    ran_before = Repl("r1", "py", Origin("process", "python"), phase="stopped", generation=1, is_not_accepted=True)
    assert not awaits_acceptance(ran_before)
    assert not awaits_acceptance(Repl("r2", "clj", Origin("address", "x:1"), phase="stopped", is_not_accepted=True))
