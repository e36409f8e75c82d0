"""What a client finds that lists the tools once, as soon as the server that it started is there."""

import itertools
import time

from live_server import serving

from codriver.protocol.results import SETTLING_S

OF_A_REPL = {"evaluate_code", "load_file", "symbol_info", "complete_symbol", "run_tests", "send_input"}
TIMES = 20
"""How often a REPL may come too late, on a busy machine, for a list that waits no longer."""


def listed_at_once(folder):
    """The tools that a client finds at once, and whether the server had no time left to wait for its REPL."""
    began = time.monotonic()
    with serving(folder, "--repl", "python") as live, live.client() as client:
        return set(client.tools()), time.monotonic() - began >= SETTLING_S


def test_the_tools_of_a_repl_on_its_way_are_listed_to_who_asks_at_once(tmp_path):
    for attempt in itertools.count():
        names, was_late = listed_at_once(tmp_path / str(attempt))
        if names >= OF_A_REPL:
            return
        assert was_late, "the list did not wait for the REPL"
        assert attempt < TIMES, f"the REPL was not there within {SETTLING_S} s, {TIMES} times"


def test_a_repl_that_does_not_come_holds_no_list_for_long_and_nothing_else(tmp_path):
    with serving(tmp_path, "--repl", "sleep 300") as live, live.client() as client:
        listing = client.begin("tools/list")
        assert client.request("ping")["result"] == {}
        names = {tool["name"] for tool in client.answer(listing)["result"]["tools"]}
        assert OF_A_REPL & names == {"evaluate_code", "load_file"}
