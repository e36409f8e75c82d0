"""Clients and REPLs that connect and disconnect, as printed in the server's terminal."""

from types import SimpleNamespace

from codriver.app.serve import ConnectionChanges


def repl(key, phase="connected"):
    return SimpleNamespace(key=key, phase=phase, dialect="python", origin=SimpleNamespace(text="flask"))


def client(identity, name):
    return {"id": identity, "name": name}


def test_each_connecting_or_disconnecting_repl_or_client_is_printed_on_one_line():
    arrivals = ConnectionChanges()
    assert list(arrivals.describe_changes([repl("py", "starting")], [client("c1", "")])) == []
    both = [client("c1", "claude-code"), client("c2", "codriver-cli")]
    assert list(arrivals.describe_changes([repl("py")], both)) == [
        "REPL py is connected (flask, python)",
        "client claude-code connected; 1 client now",
    ]
    assert list(arrivals.describe_changes([repl("py")], both)) == []
    assert list(arrivals.describe_changes([repl("py", "waiting")], [])) == [
        "REPL py is no longer connected. See `codriver status`",
        "client claude-code disconnected; no clients now",
    ]
