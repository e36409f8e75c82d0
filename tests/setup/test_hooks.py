"""`codriver init --hooks`: what it installs for each client, what it leaves alone, and how it is removed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from needs import node

from codriver.setup.change_plan import apply_change
from codriver.setup.client_hooks import CODRIVER_MARKS, known_hooks, plan_hooks, plan_hooks_removal
from codriver.setup.clients import known_clients
from codriver.setup.environment import Environment
from codriver.setup.init import InitOptions, run_init
from codriver.setup.relay_launch import Launch
from codriver_relay.hook import EVENT_NAMES_BY_CLIENT

CLIENTS_WITH_HOOKS = tuple(known_hooks())


@pytest.fixture
def directory(tmp_path):
    for name in ("home", "app", "bin"):
        (tmp_path / name).mkdir()
    return tmp_path


def machine(directory, *, has_program=True):
    program = directory / "bin" / "codriver-hook"
    if has_program:
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    return Environment(directory / "home", "linux", {"PATH": str(directory / "bin")})


def launch(directory):
    return Launch(Path(sys.executable), directory / "config dir" / "codriver_relay.py", directory / "app")


def clients(*names):
    return [known_clients()[name] for name in names]


def files(directory):
    return {path.relative_to(directory / "app").as_posix() for path in (directory / "app").rglob("*") if path.is_file()}


def install(directory, *names, **more):
    changes = plan_hooks(clients(*names), launch(directory), machine(directory), **more)
    for change in changes:
        apply_change(change)
    return changes


def remove(directory, *names):
    for change in plan_hooks_removal(clients(*names), launch(directory)):
        apply_change(change)


def test_hooks_can_be_installed_for_exactly_the_clients_that_the_hook_program_supports():
    assert set(CLIENTS_WITH_HOOKS) == set(EVENT_NAMES_BY_CLIENT)
    assert set(CLIENTS_WITH_HOOKS) <= set(known_clients())


@pytest.mark.parametrize("name", CLIENTS_WITH_HOOKS)
def test_hooks_are_installed_and_recognized_and_their_removal_restores_the_file(directory, name):
    installed = install(directory, name)
    assert {change.state for change in installed} == {"add"}
    assert {change.state for change in plan_hooks(clients(name), launch(directory), machine(directory))} == {"same"}
    for change in installed:
        text = change.file.read_text()
        assert any(word in text for word in CODRIVER_MARKS)
        assert "{{" not in text
    remove(directory, name)
    assert files(directory) == set()


@pytest.mark.parametrize("name", CLIENTS_WITH_HOOKS)
def test_each_event_is_registered_once_by_the_clients_own_name(directory, name):
    install(directory, name)
    text = "".join((directory / "app" / file).read_text() for file in sorted(files(directory)))
    for event, own in EVENT_NAMES_BY_CLIENT[name].items():
        by_program = text.count(f'{name} {event}"') + text.count(f"{name} {event}\n")
        by_tool = text.count(f'"event": "{event}"')
        is_plugin = name == "opencode" and f'runHook("{event}"' in text
        bash_and_powershell = 2 if name == "copilot" else 1
        assert is_plugin or by_program == bash_and_powershell or by_tool == 1, (event, text)
        named = own in text or any(own in file for file in files(directory))
        assert named or name == "opencode"


def test_existing_hooks_settings_and_comments_are_kept(directory):
    file = directory / "app" / ".gemini" / "settings.json"
    file.parent.mkdir()
    theirs = {"matcher": "write_file", "hooks": [{"type": "command", "command": "lint"}]}
    before = f'{{\n  // mine\n  "theme": "dark",\n  "hooks": {{ "AfterTool": [{json.dumps(theirs)}] }}\n}}\n'
    file.write_text(before)
    install(directory, "gemini")
    text = file.read_text()
    assert "// mine" in text
    assert '"lint"' in text
    assert "codriver-hook gemini edited" in text
    remove(directory, "gemini")
    left = file.read_text()
    assert "// mine" in left
    assert '"lint"' in left
    assert "codriver" not in left


def test_an_older_hook_is_replaced_and_none_is_duplicated(directory):
    file = directory / "app" / ".qwen" / "settings.json"
    file.parent.mkdir()
    old = {"hooks": [{"type": "command", "command": "/old/python /old/codriver_hook.py qwen edited"}]}
    file.write_text(json.dumps({"hooks": {"PostToolUse": [old]}, "other": 1}))
    (change,) = install(directory, "qwen")
    assert change.state == "replace"
    hooks = json.loads(file.read_text())["hooks"]
    assert [len(groups) for groups in hooks.values()] == [1, 1, 1, 1]
    assert "/old/" not in file.read_text()


@pytest.mark.parametrize("text", ["{", "[]", '{"hooks": []}', '{"hooks": {"Stop": {}}}', '{"hooks": 1}'])
def test_a_file_with_an_unexpected_structure_is_refused_and_stays_unchanged(directory, text):
    file = directory / "app" / ".claude" / "settings.local.json"
    file.parent.mkdir()
    file.write_text(text)
    (change,) = plan_hooks(clients("claude-code"), launch(directory), machine(directory))
    assert change.state == "refused"
    assert file.read_text() == text


def test_a_foreign_plugin_named_codriver_is_kept_unless_forced(directory):
    file = directory / "app" / ".opencode" / "plugins" / "codriver.js"
    file.parent.mkdir(parents=True)
    file.write_text("export const Mine = 1\n")
    (change,) = plan_hooks(clients("opencode"), launch(directory), machine(directory))
    assert (change.state, change.reason) == ("refused", "Codriver did not write the file")
    (change,) = plan_hooks(clients("opencode"), launch(directory), machine(directory), force=True)
    assert change.state == "add"
    assert plan_hooks_removal(clients("opencode"), launch(directory))[0].state == "absent"


def test_a_link_out_of_the_workspace_is_not_written_through(directory):
    outside = directory / "outside"
    outside.mkdir()
    (directory / "app" / ".github").symlink_to(outside)
    (change,) = plan_hooks(clients("copilot"), launch(directory), machine(directory))
    assert change.state == "refused" or not change.is_pending
    assert list(outside.iterdir()) == []


def test_files_shared_by_git_contain_no_local_paths(directory):
    (directory / "app" / ".git").mkdir()
    bare = machine(directory, has_program=False)
    changes = plan_hooks(clients(*CLIENTS_WITH_HOOKS), launch(directory), bare)
    states = {change.file.relative_to(directory / "app").as_posix(): change.state for change in changes}
    # The one is nobody else's, and the hooks in the other are calls of a tool.
    assert (states.pop(".claude/settings.local.json"), states.pop(".codex/hooks.json")) == ("add", "add")
    assert set(states.values()) == {"skipped"}
    for change in install(directory, *CLIENTS_WITH_HOOKS):
        if change.file.name != "settings.local.json":
            assert str(directory) not in change.file.read_text()


def test_a_program_that_is_not_on_path_is_written_with_its_quoted_full_path(directory):
    changes = plan_hooks(clients("cline", "opencode"), launch(directory), machine(directory, has_program=False))
    script = str(directory / "config dir" / "codriver_hook.py")
    *cline, plugin = changes
    assert f"exec {sys.executable} -I -S '{script}' cline edited\n" in "".join(item.after or "" for item in cline)
    words = next(line for line in (plugin.after or "").splitlines() if line.startswith("const HOOK"))
    assert json.loads(words.partition("= ")[2]) == [sys.executable, "-I", "-S", script]


def test_cline_hooks_are_executable_scripts(directory):
    for change in install(directory, "cline"):
        assert change.file.stat().st_mode & 0o111
        assert change.file.read_text().startswith("#!/bin/sh\n")


def test_the_opencode_plugin_is_a_valid_javascript_module(directory):
    install(directory, "opencode")
    file = directory / "app" / ".opencode" / "plugins" / "codriver.js"
    module = directory / "codriver.mjs"
    module.write_text(file.read_text())
    done = subprocess.run([node(), "--check", str(module)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def options(*names, **more):
    return InitOptions(names, start_repl=False, **more)


def test_init_installs_hooks_only_on_request(directory):
    run_init(launch(directory), options("gemini"), machine(directory))
    assert "codriver-hook" not in (directory / "app" / ".gemini" / "settings.json").read_text()
    report = run_init(launch(directory), options("gemini", hooks=True), machine(directory))
    assert report.exit_status == 0
    text = (directory / "app" / ".gemini" / "settings.json").read_text()
    assert "codriver-hook gemini started" in text
    assert "mcpServers" in text
    assert "restart gemini" in report.text


def test_hooks_can_be_removed_together_with_the_entry_or_alone(directory):
    file = directory / "app" / ".gemini" / "settings.json"
    run_init(launch(directory), options("gemini", hooks=True), machine(directory))
    run_init(launch(directory), options("gemini", hooks=True, remove=True), machine(directory))
    assert "codriver-hook" not in file.read_text()
    assert "mcpServers" in file.read_text()
    run_init(launch(directory), options("gemini", hooks=True), machine(directory))
    run_init(launch(directory), options("gemini", remove=True), machine(directory))
    assert not file.exists()


def test_a_dry_run_shows_the_hooks_and_writes_none(directory):
    report = run_init(launch(directory), options("claude-code", hooks=True, dry_run=True), machine(directory))
    assert '+            "tool": "note_edit",' in report.text
    assert files(directory) == set()


def test_removal_also_removes_hooks_of_clients_that_are_not_detected(directory):
    for name in CLIENTS_WITH_HOOKS:
        install(directory, name)
    run_init(launch(directory), options(remove=True), machine(directory))
    assert files(directory) == set()


def test_removing_other_setup_files_keeps_the_hooks(directory):
    install(directory, "qwen")
    run_init(launch(directory), options("qwen", remove=True, skills=True), machine(directory))
    assert files(directory) == {".qwen/settings.json"}
