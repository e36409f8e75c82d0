"""Real agents with the entries that `codriver init` writes: a scripted model requests a tool, and the real client
calls it.
"""

import json
import sys
from pathlib import Path

import pytest
from live_server import RELAY
from real_clients import AGENTS, ClientHome, program
from scripted_model import SAID, serving_model

from codriver.setup.agent_files import AgentFileOptions, plan_agent_files
from codriver.setup.change_plan import apply_change, plan_entries
from codriver.setup.clients import known_clients
from codriver.setup.environment import Environment
from codriver.setup.relay_launch import Launch

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", AGENTS)
def test_a_real_agent_evaluates_code(tmp_path, name):
    home = ClientHome(tmp_path)
    home.trust()
    (home.workspace / "module.py").write_text("")
    launch = Launch(Path(sys.executable), Path(RELAY), home.workspace)
    machine = Environment(home.home, "linux", home.environment)
    (change,) = plan_entries([known_clients()[name]], launch, machine)
    apply_change(change)
    for change in plan_agent_files(home.workspace, AgentFileOptions(skills=True, agents_md=True)):
        apply_change(change)
    with serving_model({"code": "print('hé')\n6 * 7"}) as model:
        (command, *words), variables = AGENTS[name](home, model.url)
        agent = program(command)
        # An agent that is given its task at once does not wait long for servers, so this one is there before.
        home.codriver("eval", "--start", "0", CODRIVER_MCP_SOCKET_SERVER_PORT="0")
        try:
            displayed = home.run(agent, *words, **variables)
        finally:
            stopped = home.codriver("stop")
            home.stop_leftovers()
    assert SAID in displayed, displayed
    assert model.results, f"the tool was not called: {displayed}"
    (result,) = model.results
    reported = json.dumps(result, ensure_ascii=False).replace("\\", "").replace('": ', '":')
    assert '"result":"42"' in reported
    assert '"stdout":"hén"' in reported
    assert stopped.startswith("stopped pid"), stopped
    received = model.heard[-1]
    # Once, though some read both folders. The server's instructions have the beginning of it alone.
    assert received.count("Orient, explore, build up") == (name != "cline")
    assert ("Live REPL: the MCP server" in received) == (name != "gemini")


def test_the_first_model_request_of_an_agent_that_does_not_wait_includes_the_tools(tmp_path):
    home = ClientHome(tmp_path)
    home.trust()
    (home.workspace / "module.py").write_text("")
    with serving_model({"code": "6 * 7"}) as model:
        (command, *words), variables = AGENTS["codex"](home, model.url)
        agent = program(command)
        home.codriver("init", "--client", "codex")
        try:
            displayed = home.run(agent, *words, **variables)
        finally:
            home.codriver("stop")
    assert "evaluate_code" in model.heard[0], displayed
    reported = json.dumps(model.results[0]).replace("\\", "").replace('": ', '":')
    assert '"result":"42"' in reported, displayed
