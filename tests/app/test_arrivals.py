"""Who comes to a server and goes, as its terminal is told."""

from types import SimpleNamespace

from codriver.app.serve import Arrivals


def repl(key, phase="connected"):
    return SimpleNamespace(key=key, phase=phase, dialect="python", origin=SimpleNamespace(text="flask"))


def client(identity, name):
    return {"id": identity, "name": name}


def test_each_that_comes_or_goes_is_one_line_and_our_own_commands_none():
    arrivals = Arrivals()
    assert list(arrivals.lines([repl("py", "starting")], [client("c1", "")])) == []
    both = [client("c1", "claude-code"), client("c2", "codriver-cli")]
    assert list(arrivals.lines([repl("py")], both)) == [
        "REPL py is connected (flask, python)",
        "client claude-code came; 1 is connected",
    ]
    assert list(arrivals.lines([repl("py")], both)) == []
    assert list(arrivals.lines([repl("py", "waiting")], [])) == [
        "REPL py is no longer connected: `codriver status` says why",
        "client claude-code left; none is connected",
    ]
