"""What a client gets that lists the tools once, as soon as the server it started answers."""

import pytest
from live_server import serving

OF_A_REPL = {"evaluate_code", "load_file", "symbol_info", "complete_symbol", "run_tests", "send_input"}


def test_the_tools_of_a_starting_repl_are_listed_at_once(tmp_path):
    with serving(tmp_path, "--repl", "python", durations="settling_s=60") as live, live.client() as client:
        assert set(client.tools()) >= OF_A_REPL


@pytest.mark.parametrize(
    ("name", "listed"),
    [("opencode", {"evaluate_code", "load_file"}), ("a client that lists once", OF_A_REPL)],
)
def test_a_repl_that_does_not_start_delays_only_the_tool_list_and_only_briefly(tmp_path, name, listed):
    with (
        serving(tmp_path, "--repl", "sleep 300", durations="settling_s=0.3") as live,
        live.client(name=name) as client,
    ):
        listing = client.begin("tools/list")
        assert client.request("ping")["result"] == {}
        names = {tool["name"] for tool in client.answer(listing)["result"]["tools"]}
        assert OF_A_REPL & names == listed
