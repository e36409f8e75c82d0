"""Each feature can be removed: a copy of the packages without it starts, and does everything that the base promises."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import needs
import pytest
from live_server import environ
from without_features import remove_features

from codriver.app import features

ROOT = Path(__file__).parents[1]
EVERY = {feature.name: feature for feature in features.features()}
COMMAND_S = 120


def without(folder, names):
    """Copy the packages without the directories of these features, and without their names in the list."""
    server = folder / "server"
    for package in ("codriver", "codriver_seam"):
        shutil.copytree(ROOT / "server" / package, server / package)
    for name in ("skills", "wrapper-config", "relay"):
        (folder / name).symlink_to(ROOT / name, target_is_directory=True)
    remove_features(server, names)
    return server


def environment(folder, server):
    path = [server, ROOT / "relay", ROOT / "tests" / "support", ROOT / "tests"]
    return {**environ(folder), "PYTHONPATH": os.pathsep.join(map(str, path)), "CODRIVER_MCP_SOCKET_SERVER_PORT": "0"}


def with_dependents(names):
    """Return these features and those that require one of them."""
    return set(names) | {item.name for item in EVERY.values() if set(item.requires) & set(names)}


def tools_of(names):
    return {tool.name for name in names for tool in EVERY[name].server().tools}


@pytest.mark.parametrize("names", [*([name] for name in EVERY), list(EVERY)], ids=lambda names: "-".join(names)[:40])
def test_the_server_works_without_the_removed_features(names, tmp_path):
    server = without(tmp_path / "copy", names)
    program = ROOT / "tests" / "support" / "one_of_each.py"
    done = subprocess.run([sys.executable, program, tmp_path], env=environment(tmp_path, server), capture_output=True,
                          text=True, timeout=COMMAND_S, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found["features"]) == set(EVERY) - with_dependents(names)
    assert not set(found["tools"]) & tools_of(with_dependents(names))
    assert not set(found["commands"]) & {
        command.name for name in with_dependents(names) for command in EVERY[name].commands
    }
    assert (found["value"], found["loaded"], found["failed"], found["log"]) == ("42", True, 1, True)
    assert (found["edited"]["passed"], found["edited"]["failed"]) == (1, 0)


@pytest.mark.parametrize("repl", ["python", "basilisp"])
def test_a_real_repl_works_without_any_feature(repl, tmp_path):
    if repl == "basilisp":
        needs.modules("basilisp")
    server, workspace = without(tmp_path / "copy", list(EVERY)), tmp_path / "workspace"
    workspace.mkdir()

    def run(*words):
        command = [sys.executable, "-m", "codriver", *words, "--workspace", str(workspace)]
        return subprocess.run(command, cwd=tmp_path, env={**environment(tmp_path, server), "CODRIVER_REPL": repl},
                              capture_output=True, text=True, timeout=COMMAND_S, check=False)  # fmt: skip

    code = "40 + 2" if repl == "python" else "(+ 40 2)"
    try:
        called = run("call", "--start", "evaluate_code", json.dumps({"code": code, "timeoutMs": 60_000}))
        assert json.loads(called.stdout)["result"] == "42", called.stderr
    finally:
        assert run("stop").returncode == 0


def test_a_feature_that_fails_to_import_stops_the_server_with_its_traceback(tmp_path):
    needs.every_feature()
    server = without(tmp_path / "copy", [])
    name = features.NAMES[0]
    declaration = server / "codriver" / "features" / name / "__init__.py"
    declaration.write_text("raise ImportError('no such library')\n")
    done = subprocess.run([sys.executable, "-m", "codriver", "serve", "--workspace", str(tmp_path)],
                          env=environment(tmp_path, server), capture_output=True, text=True, timeout=COMMAND_S,
                          check=False)  # fmt: skip
    assert done.returncode != 0
    assert str(declaration) in done.stderr
    assert "ImportError: no such library" in done.stderr
