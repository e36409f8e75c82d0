"""Files that `codriver init` writes for agents: skills, and a section in AGENTS.md."""

import subprocess
import sys

import pytest
from live_server import environ

from codriver.setup import agent_files
from codriver.setup.agent_files import (
    AGENTS_BLOCK,
    BLOCK_BEGIN_LINE,
    BLOCK_END_LINE,
    SKILL_DIRECTORIES,
    AgentFileOptions,
    plan_agent_files,
    sign_text,
    skill_files,
)
from codriver.setup.change_plan import apply_change
from codriver.setup.environment import Environment
from codriver.setup.init import InitOptions, run_init
from codriver.setup.relay_launch import Launch

SKILLS = AgentFileOptions(skills=True, agents_md=False)
UNSKILLED = AgentFileOptions(skills=True, agents_md=False, remove=True)
ADVICE = AgentFileOptions(skills=False, agents_md=True)
UNADVISED = AgentFileOptions(skills=False, agents_md=True, remove=True)


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "app"
    folder.mkdir()
    return folder


def do(workspace, expected):
    changes = plan_agent_files(workspace, expected)
    for change in changes:
        apply_change(change)
    return [change.state for change in changes]


def files(workspace):
    return {path.relative_to(workspace).as_posix() for path in workspace.rglob("*") if path.is_file()}


# The skills


def test_each_skill_is_written_where_clients_read_it(workspace):
    assert set(do(workspace, SKILLS)) == {"add"}
    assert files(workspace) == {f"{folder}/{path}" for folder in SKILL_DIRECTORIES for path in skill_files()}
    assert "live-repl/SKILL.md" in skill_files()


def test_the_lisp_skill_is_not_written_into_a_pure_python_project(workspace):
    (workspace / "pyproject.toml").write_text('[project]\nname = "shop"\n')
    do(workspace, SKILLS)
    assert not list(workspace.rglob("editing-lisp-files"))
    (workspace / "backend").mkdir()
    (workspace / "backend" / "deps.edn").write_text("{}")
    do(workspace, SKILLS)
    assert len(list(workspace.rglob("editing-lisp-files"))) == len(SKILL_DIRECTORIES)


def test_a_skill_file_starts_with_the_front_matter_clients_expect(workspace):
    do(workspace, SKILLS)
    for path in workspace.rglob("SKILL.md"):
        assert path.read_text().startswith(f"---\nname: {path.parent.name}\ndescription: ")


def test_a_skill_file_refers_to_the_reference_file_in_its_directory(workspace):
    do(workspace, SKILLS)
    for path in workspace.rglob("SKILL.md"):
        assert "skill://" not in path.read_text()
        assert ("`REFERENCE.md`" in path.read_text()) is path.with_name("REFERENCE.md").exists()


def test_writing_skills_twice_changes_nothing(workspace):
    do(workspace, SKILLS)
    assert set(do(workspace, SKILLS)) == {"same"}


def test_removing_skills_leaves_no_file_or_directory_behind(workspace):
    do(workspace, SKILLS)
    assert set(do(workspace, UNSKILLED)) == {"remove"}
    assert files(workspace) == set()
    assert set(do(workspace, UNSKILLED)) == {"absent"}


def test_a_skill_file_of_an_older_codriver_is_replaced(workspace):
    do(workspace, SKILLS)
    file = workspace / SKILL_DIRECTORIES[0] / "live-repl" / "SKILL.md"
    newest = file.read_text()
    file.write_text(sign_text("what it said a year ago\n"))
    assert sorted(set(do(workspace, SKILLS))) == ["replace", "same"]
    assert file.read_text() == newest


def test_a_file_of_a_skill_that_no_longer_exists_is_removed(workspace):
    gone = workspace / SKILL_DIRECTORIES[1] / "older-skill" / "SKILL.md"
    gone.parent.mkdir(parents=True)
    gone.write_text(sign_text("of last year\n"))
    (gone.parent / "OWN.md").write_text("the user's\n")
    do(workspace, SKILLS)
    assert not gone.exists()
    assert (gone.parent / "OWN.md").read_text() == "the user's\n"


@pytest.mark.parametrize("changed", ["my own skill\n", sign_text("of codriver\n") + "and mine\n", ""])
@pytest.mark.parametrize("expected", [SKILLS, UNSKILLED])
def test_a_modified_skill_file_is_kept_unless_forced(workspace, changed, expected):
    file = workspace / SKILL_DIRECTORIES[0] / "live-repl" / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text(changed)
    (change,) = (change for change in plan_agent_files(workspace, expected) if change.file == file)
    assert (change.state, "--force" in change.fix) == ("refused", True)
    do(workspace, expected)
    assert file.read_text() == changed
    do(workspace, AgentFileOptions(skills=True, agents_md=False, remove=expected.remove, force=True))
    assert not file.exists() if expected.remove else file.read_text() == sign_text(skill_files()["live-repl/SKILL.md"])


def test_line_endings_changed_by_git_do_not_count_as_a_modification(workspace):
    do(workspace, SKILLS)
    for path in workspace.rglob("*.md"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert set(do(workspace, SKILLS)) == {"same"}
    assert set(do(workspace, UNSKILLED)) == {"remove"}


def test_skills_are_written_once_if_one_client_directory_links_to_another(workspace):
    (workspace / ".agents" / "skills").mkdir(parents=True)
    (workspace / ".claude").mkdir()
    (workspace / ".claude" / "skills").symlink_to("../.agents/skills")
    assert len(do(workspace, SKILLS)) == len(skill_files())


def test_nothing_is_written_through_a_link_out_of_the_workspace(workspace, tmp_path):
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (workspace / ".agents").symlink_to(outside)
    changes = [change for change in plan_agent_files(workspace, SKILLS) if ".agents" in change.file.parts]
    assert {change.state for change in changes} == {"refused"}
    assert not list(outside.iterdir())


# AGENTS.md

TEXTS = [
    "",
    "# Mine\n",
    "# Mine, and no line end",
    "a\r\nb\r\n",
    "a\r\nb",
    "\ufeff# With a mark\n",
    "\n\n",
    "ä\tö \n\n\n",
]


@pytest.mark.parametrize("text", TEXTS, ids=repr)
def test_removal_restores_agents_md_byte_for_byte(workspace, text):
    file = workspace / "AGENTS.md"
    file.write_bytes(text.encode())
    assert do(workspace, ADVICE) == ["add"]
    written = file.read_bytes().decode()
    assert written.startswith(text)
    assert written.replace("\r\n", "\n").count(AGENTS_BLOCK) == 1
    assert ("\r\n" in written) == ("\r\n" in text)
    assert do(workspace, ADVICE) == ["same"]
    assert do(workspace, UNADVISED) == ["remove"]
    assert (file.read_bytes().decode() if file.exists() else "") == text


def test_without_agents_md_only_the_section_is_written_and_removed_again(workspace):
    assert do(workspace, ADVICE) == ["add"]
    assert (workspace / "AGENTS.md").read_text() == f"{BLOCK_BEGIN_LINE}\n{AGENTS_BLOCK}{BLOCK_END_LINE}\n"
    do(workspace, UNADVISED)
    assert files(workspace) == set()


def test_the_section_in_agents_md_has_six_lines():
    assert len(AGENTS_BLOCK.splitlines()) == 6


def test_text_after_the_section_in_agents_md_is_kept(workspace):
    file = workspace / "AGENTS.md"
    file.write_text("# Mine\n")
    do(workspace, ADVICE)
    file.write_text(file.read_text() + "more of mine\n")
    assert do(workspace, ADVICE) == ["same"]
    do(workspace, UNADVISED)
    assert file.read_text() == "# Mine\nmore of mine\n"


def test_an_older_section_is_replaced_in_place(workspace):
    file = workspace / "AGENTS.md"
    file.write_text(f"before\n\n{BLOCK_BEGIN_LINE}\nas of last year\n{BLOCK_END_LINE}\n\nbehind\n")
    assert do(workspace, ADVICE) == ["replace"]
    assert file.read_text() == f"before\n\n{BLOCK_BEGIN_LINE}\n{AGENTS_BLOCK}{BLOCK_END_LINE}\n\nbehind\n"


@pytest.mark.parametrize(
    "text",
    [
        BLOCK_BEGIN_LINE,
        BLOCK_END_LINE,
        f"{BLOCK_END_LINE}\n{BLOCK_BEGIN_LINE}",
        f"{BLOCK_BEGIN_LINE}\n{BLOCK_BEGIN_LINE}\n{BLOCK_END_LINE}",
        f"{BLOCK_BEGIN_LINE}{BLOCK_END_LINE}{BLOCK_END_LINE}",
    ],
)
@pytest.mark.parametrize("expected", [ADVICE, UNADVISED])
def test_an_agents_md_with_unpaired_section_markers_is_not_changed(workspace, text, expected):
    (workspace / "AGENTS.md").write_text(text)
    (change,) = plan_agent_files(workspace, expected)
    assert (change.state, "do not form a pair" in change.reason) == ("refused", True)
    do(workspace, expected)
    assert (workspace / "AGENTS.md").read_text() == text


def test_an_agents_md_that_is_not_text_is_left_alone(workspace):
    (workspace / "AGENTS.md").write_bytes(b"\xff\xfe")
    assert do(workspace, ADVICE) == ["refused"]
    assert (workspace / "AGENTS.md").read_bytes() == b"\xff\xfe"


# As a part of `codriver init`


@pytest.fixture
def init(workspace, tmp_path):
    launch = Launch(tmp_path / "python", tmp_path / "codriver_relay.py", workspace)
    machine = Environment(tmp_path / "home", "linux", {})
    return lambda **options: run_init(launch, InitOptions(start_repl=False, **options), machine)


def test_init_writes_agent_files_only_on_request(workspace, init):
    init(clients=["vscode"])
    assert files(workspace) == {".vscode/mcp.json"}
    assert init(clients=["vscode"], skills=True, agents_md=True).exit_status == 0
    assert len(files(workspace)) == 2 + 2 * len(skill_files())


def test_a_dry_run_writes_no_agent_files(workspace, init):
    displayed = init(clients=["vscode"], skills=True, agents_md=True, dry_run=True).text
    assert files(workspace) == set()
    assert "+## Live REPL" in displayed


def test_a_second_init_sets_up_no_other_client(workspace, init):
    init(clients=["vscode"], skills=True, agents_md=True)
    before = files(workspace)
    init(skills=True, agents_md=True)
    assert files(workspace) == before


def test_removing_agent_files_removes_no_other_setup(workspace, init):
    init(clients=["vscode"], skills=True, agents_md=True)
    init(remove=True, skills=True)
    assert files(workspace) == {".vscode/mcp.json", "AGENTS.md"}
    init(remove=True, agents_md=True)
    assert files(workspace) == {".vscode/mcp.json"}


def test_a_full_removal_also_removes_the_directories(workspace, init):
    init(clients=["vscode"], skills=True, agents_md=True)
    assert init(remove=True).exit_status == 0
    assert not list(workspace.iterdir())


@pytest.mark.parametrize("options", [{"clients": ["vscode"]}, {"scope": "user"}], ids=["a client", "a scope"])
def test_a_partial_removal_keeps_files_shared_by_all_clients(workspace, init, options):
    init(clients=["vscode"], skills=True, agents_md=True)
    init(remove=True, **options)
    assert {"AGENTS.md", f"{SKILL_DIRECTORIES[0]}/live-repl/SKILL.md"} <= files(workspace)


def test_a_full_removal_keeps_a_modified_skill_and_reports_it(workspace, init):
    init(clients=["vscode"], skills=True)
    file = workspace / SKILL_DIRECTORIES[0] / "live-repl" / "SKILL.md"
    file.write_text("mine\n")
    report = init(remove=True)
    assert (report.exit_status, files(workspace)) == (0, {file.relative_to(workspace).as_posix()})
    assert f"skipped: {file}: the file has been changed since Codriver wrote it" in report.text


def test_the_command_accepts_the_agent_file_options(workspace, tmp_path):
    command = [sys.executable, "-m", "codriver", "init", "-w", str(workspace), "--client", "vscode"]
    for more in (["--skills", "--agents-md"], ["--remove", "--skills", "--agents-md"]):
        done = subprocess.run([*command, *more], env=environ(tmp_path), capture_output=True, check=False, timeout=60)
        assert done.returncode == 0, done
        assert (workspace / "AGENTS.md").exists() == (workspace / ".agents").exists() == ("--remove" not in more)


def test_only_a_limited_number_of_skill_files_is_inspected(workspace, monkeypatch):
    monkeypatch.setattr(agent_files, "MAX_SKILL_FILES", 1)
    for name in ("a", "b"):
        file = workspace / SKILL_DIRECTORIES[0] / name / "SKILL.md"
        file.parent.mkdir(parents=True)
        file.write_text(sign_text(name))
    do(workspace, SKILLS)
    assert (workspace / SKILL_DIRECTORIES[0] / "b" / "SKILL.md").exists()
