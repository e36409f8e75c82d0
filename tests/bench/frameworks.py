"""Agent frameworks as clients of a cold server: eight checks each, in environments of their own, twice.

`python tests/bench/frameworks.py FOLDER [NAME…]` makes the missing environments in FOLDER with uv, runs what FOLDER's
`results.json` does not have yet, and prints the table. Delete an entry there to run it again. A framework counts if all
eight checks pass in two runs.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "support")]

from live_server import RELAY, environ  # noqa: E402

PYTHON = os.environ.get("FRAMEWORKS_PYTHON", "3.12")
RUNS = 2
LIMIT_S = 600
REQUIREMENTS = {
    "fastmcp": ["fastmcp==4.2.3"],
    "pydantic_ai": ["pydantic-ai-slim[mcp]==2.68.0"],
    "openai_agents": ["openai-agents==0.24.0"],
    "langchain": ["langchain-mcp-adapters==0.3.2"],
    "smolagents": ["smolagents[mcp]==1.26.0", "mcp<2"],
    "agent_framework": ["agent-framework-core==1.23.0", "mcp", "tenacity"],
    "strands": ["strands-agents==1.62.0"],
    "mcp_use": ["mcp-use==1.7.1"],
    "llama_index": ["llama-index-tools-mcp==0.6.0"],
    "autogen": ["autogen-ext[mcp]==0.7.5", "mcp<2"],
    "agno": ["agno==3.1.10", "fastmcp>=4,<5", "openai"],
    "haystack": ["mcp-haystack==2.1.1"],
    "dspy": ["dspy==3.4.1", "mcp"],
    "google_adk": ["google-adk[mcp]==2.13.0", "mcp"],
    "semantic_kernel": ["semantic-kernel[mcp]==1.45.0"],
    "crewai": ["crewai-tools[mcp]", "crewai"],
    "crewai_adapter": ["crewai-tools[mcp]", "crewai"],
}
SHARED = {"crewai_adapter": "crewai"}
"""The adapters that use the environment of another one."""


def environment(folder, name):
    """Return the Python of a framework's environment, which is created if it is missing."""
    venv = folder / SHARED.get(name, name)
    if not (venv / "ok").exists():
        subprocess.run(["uv", "venv", "-q", "--clear", "-p", PYTHON, venv], check=True)
        subprocess.run(["uv", "pip", "install", "-q", "-p", venv / "bin" / "python", *REQUIREMENTS[name]], check=True)
        (venv / "ok").touch()
    return venv / "bin" / "python"


def checked(python, name):
    """Return the results of one run against a server that the framework has to start."""
    with tempfile.TemporaryDirectory() as place:
        workspace = Path(place) / "app"
        workspace.mkdir()
        (workspace / "app.py").write_text("")
        port_file = workspace / ".calva" / "mcp-server" / "port"
        shared = {key: value for key, value in environ(Path(place)).items() if not key.startswith("XDG_")}
        found = Path(place) / "found.json"
        quiet = {"OTEL_SDK_DISABLED": "true", "CREWAI_DISABLE_TELEMETRY": "true", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
        env = {**shared, **quiet, "HOME": place, "CODRIVER_MCP_SOCKET_SERVER_PORT": "0", "CHECKS_FILE": str(found)}
        relay = [sys.executable, "-I", "-S", str(RELAY), str(port_file), "--start"]
        command = [python, HERE / "framework_checks.py", name, port_file.with_name("server.json"), *relay]
        own = [sys.executable, "-m", "codriver"]
        subprocess.run([*own, "trust", "--workspace", workspace], env=env, capture_output=True, check=True)
        try:
            done = subprocess.run(
                command, cwd=workspace, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=LIMIT_S, check=False,
            )  # fmt: skip
            if found.exists():
                return json.loads(found.read_text())
            return {"connect": done.stderr[-600:]}
        except subprocess.TimeoutExpired:
            return json.loads(found.read_text()) if found.exists() else {"connect": f"no end within {LIMIT_S} s"}
        finally:
            subprocess.run([*own, "stop", "--workspace", workspace], env=env, capture_output=True, check=False)


def main(folder, names):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "results.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    for name in names or REQUIREMENTS:
        python = environment(folder, name)
        for run in range(len(results.get(name, [])), RUNS):
            results.setdefault(name, []).append(checked(python, name))
            file.write_text(json.dumps(results, indent=1))
            print(f"{name}, run {run + 1}: {faults(results[name][-1]) or 'all eight'}", flush=True)
    good = [name for name, runs in results.items() if len(runs) >= RUNS and not any(map(faults, runs))]
    print(f"{len(good)} of {len(REQUIREMENTS)} frameworks pass all eight checks in {RUNS} runs: {', '.join(good)}")


def faults(run):
    """Return the failed checks of a run, with their reasons."""
    return {check: what for check, what in run.items() if what is not True}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
