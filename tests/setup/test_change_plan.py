"""Plans and changes of client files: other content is kept, nobody else's entry is overwritten, and nothing is half
done.
"""

import json
import os
import stat
import subprocess
import tomllib
from pathlib import Path

import posix_only
import pytest

from codriver.setup.change_plan import (
    CannotWriteError,
    FileChangedError,
    apply_change,
    find_entry,
    format_diff,
    plan_entries,
    plan_removal,
)
from codriver.setup.clients import known_clients
from codriver.setup.environment import Environment
from codriver.setup.relay_launch import Launch

CLIENTS = known_clients()


@pytest.fixture
def machine(tmp_path):
    return Environment(tmp_path / "home", "linux", {"PATH": ""})


@pytest.fixture
def launch(tmp_path):
    (tmp_path / "app").mkdir()
    return Launch(Path("/opt/python"), Path("/opt/codriver_relay.py"), tmp_path / "app")


@pytest.fixture
def one(machine, launch):
    """Return plans for one client."""

    def one(name, planner=plan_entries, **options):
        (change,) = planner([CLIENTS[name]], launch, machine, **options)
        return change

    return one


@pytest.fixture
def file_of(machine, launch):
    def file_of(name):
        client = CLIENTS[name]
        file = client.file(client.scopes[0], launch.workspace, machine)
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    return file_of


@pytest.mark.parametrize("name", CLIENTS)
def test_setting_up_twice_has_the_same_result_as_once(name, one, file_of):
    first = one(name)
    assert first.state == "add"
    apply_change(first)
    text = file_of(name).read_text()
    second = one(name)
    assert second.state == "same"
    assert format_diff(second) == ""
    apply_change(second)
    assert file_of(name).read_text() == text


@pytest.mark.parametrize("name", CLIENTS)
def test_removal_deletes_a_file_that_setup_created(name, one, file_of):
    apply_change(one(name))
    change = one(name, plan_removal)
    assert change.state == "remove"
    apply_change(change)
    assert not file_of(name).exists()
    assert one(name, plan_removal).state == "absent"


FOREIGN = {
    "vscode": '// mine\n{\n  "inputs": [], // none\n  "servers": {\n    "other": { "url": "http://x" },\n  },\n}\n',
    "zed": (
        '{\n  // the font\n  "buffer_font_size": 14,\n'
        '  "context_servers": {\n    "other": {"command": "x"} /* y */\n  }\n}\n'
    ),
    "claude-code": '{\n    "mcpServers": {\n        "other": {\n            "command": "x"\n        }\n    }\n}',
    "codex": (
        '# mine\nmodel = "x" # why\n\n[mcp_servers.other] # theirs\ncommand = "x"\n\n'
        '[projects."/a"]\ntrust_level = "trusted"\n'
    ),
    "opencode": '{"theme": "dark", "mcp": {"other": {"type": "local", "command": ["x"]}}}\r\n',
}


@pytest.mark.parametrize("name", FOREIGN)
def test_other_content_of_a_file_is_kept_by_setup_and_restored_by_removal(name, one, file_of):
    file = file_of(name)
    file.write_bytes(FOREIGN[name].encode())
    apply_change(one(name))
    text = file.read_bytes().decode()
    assert one(name).state == "same"
    # Every line of theirs is still there, at most with a comma more, and in order.
    lines = iter(text.split("\n"))
    for line in FOREIGN[name].rstrip("\r\n").split("\n"):
        if len(FOREIGN[name].splitlines()) > 1:
            assert any(found.replace(",", "") == line.replace(",", "") for found in lines), line
    apply_change(one(name, plan_removal))
    assert file.read_bytes().decode().rstrip() == FOREIGN[name].rstrip()


WITHOUT_SERVERS = [
    '{\n  "theme": "One Dark"\n}\n',
    '{"theme": "One Dark", "vim_mode": true}',
    '// mine\n{\n\t"theme": "One Dark", // dark\n\t"languages": {}\n}\n',
    '{\r\n  "theme": "One Dark",\r\n}\r\n',
    '{\n  "context_servers": {\n    // none yet\n  },\n  "theme": "One Dark"\n}\n',
]


@pytest.mark.parametrize("text", WITHOUT_SERVERS)
def test_structure_created_around_an_entry_is_removed_with_it(text, one, file_of):
    file_of("zed").write_bytes(text.encode())
    apply_change(one("zed"))
    assert "codriver" in file_of("zed").read_text()
    apply_change(one("zed", plan_removal))
    assert file_of("zed").read_bytes().decode() == text


@pytest.mark.parametrize("text", ["", "\n", '{"defaultAgent": "plan"}'])
def test_an_entry_is_added_to_a_file_without_servers(text, one, file_of):
    file_of("eca").write_text(text)
    apply_change(one("eca"))
    data = json.loads(file_of("eca").read_text())
    assert data.pop("mcpServers")["codriver"]["command"] == "/opt/python"
    assert data == json.loads(text.strip() or "{}")


def test_another_servers_entry_is_kept(one, file_of):
    file_of("codex").write_text(FOREIGN["codex"])
    apply_change(one("codex"))
    data = tomllib.loads(file_of("codex").read_text())
    assert data["mcp_servers"]["other"] == {"command": "x"}
    assert data["mcp_servers"]["codriver"]["command"] == "/opt/python"
    assert data["projects"] == {"/a": {"trust_level": "trusted"}}


TOML_SHAPES = [
    'a = 1\n\n[mcp_servers.codriver]\ncommand = "x"\n\n# about z\n[z]\nb = 2\n\n[mcp_servers.other]\ncommand = "y"\n',
    '[mcp_servers]\ncodriver = {command = "x", args = []}\n# kept\n\n[mcp_servers.other]\ncommand = "y"\n# end\n',
    'mcp_servers.codriver.command = "x"\nmcp_servers.other.command = "y" # kept\n',
    '# kept\n[mcp_servers.codriver]\nargs = [\n "a", # b\n]\n[mcp_servers.codriver.env]\nA = "b"\n# z\n[[z]]\nb = 1\n',
    '[mcp_servers.codriver]\r\ncommand = "x"\r\n\r\n# kept\r\n[z]\r\nb = 1\r\n',
    '[z]\nb = """\n[mcp_servers.codriver]\n"""\n\n[mcp_servers."codriver"]\ncommand = "x"\n# kept\n',
    '[ mcp_servers . codriver ]\ncommand = "#"\n',
    '\ufeff[mcp_servers.codriver]\ncommand = "x"\n',
    'mcp_servers = {codriver = {command = "x"}, other = {command = "y"}}\n',
]


def toml(text):
    return tomllib.loads(text.removeprefix("\ufeff"))


@pytest.mark.parametrize("text", TOML_SHAPES)
def test_a_toml_entry_in_any_notation_is_replaced_and_removed_alone(text, one, file_of):
    file = file_of("codex")
    rest = toml(text)
    del rest["mcp_servers"]["codriver"]
    for planner in (plan_entries, plan_removal):
        file.write_bytes(text.encode())
        change = one("codex", planner, force=True)
        apply_change(change)
        after = file.read_bytes().decode() if file.exists() else ""
        left = toml(after)
        entry = left.setdefault("mcp_servers", {}).pop("codriver", None)
        assert left == rest
        assert (entry or {}).get("command") == ("/opt/python" if change.state == "replace" else None)
        comments = [line for line in text.splitlines() if line.startswith("#")]
        assert [line for line in after.splitlines() if line.startswith("#")] == comments
        if "\r\n" in text:
            assert after.count("\r\n") == after.count("\n")


OTHER_ENTRY = {
    "claude-code": '{"mcpServers": {"codriver": {"command": "other"}}}',
    "codex": (
        '[mcp_servers.codriver]\ncommand = "other"\nenabled = false\n\n[mcp_servers.codriver.env]\nA = "1"\n# last\n'
    ),
}


@pytest.mark.parametrize("name", OTHER_ENTRY)
def test_a_different_entry_is_replaced_only_if_forced(name, one, file_of):
    file_of(name).write_text(OTHER_ENTRY[name])
    refused = one(name)
    assert refused.state == "refused"
    assert "--force" in refused.fix
    apply_change(refused)
    assert file_of(name).read_text() == OTHER_ENTRY[name]
    forced = one(name, force=True)
    assert forced.state == "replace"
    apply_change(forced)
    assert one(name).state == "same"


@pytest.mark.parametrize("name", OTHER_ENTRY)
def test_an_entry_not_written_by_codriver_is_removed_only_if_forced(name, one, file_of):
    file_of(name).write_text(OTHER_ENTRY[name])
    assert one(name, plan_removal).state == "refused"
    assert one(name, plan_removal, force=True).state == "remove"


@pytest.mark.parametrize(
    "command", ['"codriver-relay"', '"/x/codriver_relay.py"', '["python", "/x/codriver_relay.py"]']
)
def test_an_entry_that_starts_a_relay_at_another_path_can_be_removed(command, one, file_of):
    file_of("eca").write_text(f'{{"mcpServers": {{"codriver": {{"command": {command}}}}}}}')
    assert one("eca", plan_removal).state == "remove"


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("claude-code", '{\n  "mcpServers": {\n', "line 3, column 1"),
        ("claude-code", '{\n  // hello\n  "mcpServers": {}\n}', "line 2, column 3: a comment is not allowed"),
        ("gemini", '{ // fine\n "a": 1,\n}', "line 3, column 1: a comma before }"),
        ("vscode", "[1]", "line 1, column 1: expected an object here"),
        ("vscode", '{\n "servers": 3}', "line 2, column 13: expected an object here"),
        ("codex", "a = 1\nb = \n", "line 2, column 5"),
        ("codex", "mcp_servers = 3\n", "write mcp_servers as [mcp_servers.NAME] tables"),
    ],
)
def test_a_broken_file_is_left_unchanged_and_its_error_is_located(name, text, problem, one, file_of):
    file_of(name).write_text(text)
    change = one(name)
    assert change.state == "refused"
    assert problem in change.reason
    assert CLIENTS[name].title in change.reason
    apply_change(change)
    assert file_of(name).read_text() == text


def test_a_file_that_is_not_text_is_left_alone(one, file_of):
    file_of("vscode").write_bytes(b"{}\xff")
    assert one("vscode").reason == "the file is not UTF-8 (byte 2)"


def test_a_diff_shows_the_change_and_can_be_applied_by_git(one, file_of, tmp_path):
    file_of("claude-code").write_text('{\n  "a": 1\n}')
    change = one("claude-code")
    patch = format_diff(change).replace(str(change.file), "x.json")
    (tmp_path / "x.json").write_text(change.before)
    subprocess.run(["git", "apply", "-p0", "-"], input=patch, text=True, cwd=tmp_path, check=True, timeout=60)
    assert (tmp_path / "x.json").read_text() == change.after


def test_the_diff_of_a_new_file_starts_from_dev_null(one):
    assert format_diff(one("claude-code")).startswith("--- /dev/null\n")


def test_a_file_changed_since_the_plan_is_left_alone(one, file_of):
    change = one("claude-code")
    file_of("claude-code").write_text("{}")
    with pytest.raises(FileChangedError, match="Run the command again"):
        apply_change(change)
    assert file_of("claude-code").read_text() == "{}"


@pytest.mark.parametrize("scope", ["workspace", "user"])
def test_mode_and_link_of_a_file_are_preserved(one, launch, machine, tmp_path, scope):
    real = (launch.workspace if scope == "workspace" else tmp_path) / "dotfiles.json"
    real.write_text("{}")
    real.chmod(0o640)
    file = CLIENTS["zed"].file(scope, launch.workspace, machine)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.symlink_to(real)
    apply_change(one("zed", scope=scope))
    assert file.is_symlink()
    assert real.read_text() != "{}"
    assert len(json.loads(real.read_text())["context_servers"]) == 1
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


@pytest.mark.parametrize("planner", [plan_entries, plan_removal])
def test_a_workspace_file_linked_to_the_outside_is_refused(one, file_of, tmp_path, planner):
    apply_change(one("zed"))
    real = tmp_path / "elsewhere.json"
    file_of("zed").rename(real)
    text = real.read_text()
    file_of("zed").symlink_to(real)
    change = one("zed", planner, force=True)
    assert change.state == "refused"
    assert "leads outside of" in change.reason
    apply_change(change)
    assert real.read_text() == text


def test_a_file_replaced_by_a_link_since_the_plan_is_left_alone(one, file_of, tmp_path):
    change = one("zed")
    real = tmp_path / "elsewhere.json"
    real.write_text("{}")
    file_of("zed").symlink_to(real)
    with pytest.raises(CannotWriteError, match="leads outside of"):
        apply_change(change)
    assert real.read_text() == "{}"


@pytest.mark.parametrize("shape", ["pipe", "/dev/zero", "/dev/ptmx"])
def test_a_file_that_is_not_regular_is_refused(one, file_of, shape):
    posix_only.make_pipe(file_of("zed")) if shape == "pipe" else file_of("zed").symlink_to(shape)
    assert one("zed").state == "refused"


def test_a_new_file_has_the_default_mode(one, file_of, tmp_path):
    apply_change(one("zed"))
    (tmp_path / "any").write_text("")
    assert file_of("zed").stat().st_mode == (tmp_path / "any").stat().st_mode


def test_no_temporary_file_is_left_behind(one, file_of):
    apply_change(one("vscode"))
    assert [entry.name for entry in file_of("vscode").parent.iterdir()] == ["mcp.json"]


def test_an_unwritable_file_is_reported(one, file_of):
    change = one("vscode")
    file_of("vscode").parent.rmdir()
    file_of("vscode")
    file_of("vscode").parent.rmdir()
    change.file.parent.write_text("in the way")
    with pytest.raises(CannotWriteError, match="cannot be written"):
        apply_change(change)


@pytest.mark.skipif(os.name == "nt", reason="a folder cannot be read as a file in other words there")
def test_a_directory_in_place_of_a_file_is_reported(one, file_of):
    file_of("claude-code").mkdir()
    assert "cannot be read" in one("claude-code").reason


ODD = [
    "", "[]", "1", "null", "{}", "\ufeff{}", "// c", "/* c */ {}", "{\r\n}\r\n", "\x00", '{"mcpServers": []}',
    '{"mcpServers": null}', '{"mcpServers": {"codriver": 1}}', '{"mcpServers": {"codriver": null}}', '{"servers": 3}',
    '{"mcp": {"codriver": []}}', '{"context_servers": "x"}', '{"mcpServers": {"a": {},}}', '{"mcpServers": {}} x',
    '{"mcpServers": {}, "mcpServers": {}}', "mcp_servers = 3", "[mcp_servers]\ncodriver = 3", "[[mcp_servers]]\na = 1",
    'mcp_servers.codriver = {command = "x"}', "[mcp_servers.codriver.env]\nA = 'b'", "[mcp_servers]\ncodriver = []",
]  # fmt: skip


@pytest.mark.parametrize("text", ODD)
@pytest.mark.parametrize("name", CLIENTS)
def test_an_entry_is_written_or_refused_whatever_the_file_contains(name, text, one, file_of):
    file = file_of(name)
    file.write_bytes(text.encode())
    change = one(name, force=True)
    if change.state in ("refused", "skipped"):
        assert change.reason
        assert file.read_bytes() == text.encode()
    else:
        apply_change(change)
        assert one(name).state == "same"


def planned(names, machine, launch, planner=plan_entries, **options):
    return planner([CLIENTS[name] for name in names], launch, machine, **options)


def test_clients_that_read_the_same_file_share_one_entry(machine, launch):
    for change in planned(["claude-code", "copilot"], machine, launch):
        apply_change(change)
    assert [change.state for change in planned(["copilot", "claude-code"], machine, launch)] == ["same", "same"]
    file = launch.workspace / ".mcp.json"
    assert list(json.loads(file.read_text())["mcpServers"]) == ["codriver"]
    removal = planned(["claude-code", "copilot"], machine, launch, plan_removal)
    assert [change.state for change in removal] == ["remove", "absent"]
    for change in removal:
        apply_change(change)
    assert not file.exists()


@pytest.mark.parametrize(("first", "second"), [("workspace", "user"), ("user", "workspace")])
def test_a_client_that_reads_two_files_gets_one_entry(machine, launch, one, first, second):
    apply_change(one("copilot", scope=first))
    change = one("copilot", scope=second)
    assert change.state == "skipped"
    assert "would start Codriver twice" in change.reason
    assert f"--remove --client copilot --scope {first}" in change.fix
    assert not change.file.exists()
    apply_change(one("copilot", plan_removal, scope=first))
    assert one("copilot", scope=second).state == "add"


@pytest.mark.parametrize("name", ["claude-code", "copilot", "visual-studio"])
def test_keys_of_two_clients_are_never_mixed_in_one_file(one, file_of, name):
    key = CLIENTS[name].foreign[0]
    theirs = f'{{\n  "{key}": {{}}\n}}\n'
    file_of(name).write_text(theirs)
    change = one(name, force=True)
    assert change.state == "skipped"
    assert f"the file has the key {key}" in change.reason
    apply_change(change)
    assert file_of(name).read_text() == theirs


def test_the_first_of_two_clients_that_cannot_share_a_file_gets_it(machine, launch):
    for change in planned(["claude-code", "visual-studio"], machine, launch):
        apply_change(change)
    assert list(json.loads((launch.workspace / ".mcp.json").read_text())) == ["mcpServers"]


APPROVING: dict[str, dict[str, object]] = {
    "gemini": {"trust": True},
    "qwen": {"trust": True},
    "codex": {"default_tools_approval_mode": "approve"},
}


def entry_in(name, file):
    client = CLIENTS[name]
    node = tomllib.loads(file.read_text()) if client.is_toml else json.loads(file.read_text())
    for key in client.entry_path():
        node = node[key]
    return node["codriver"]


def test_entries_of_clients_that_support_it_can_approve_tools():
    assert {name: dict(client.approval) for name, client in CLIENTS.items() if client.approval} == APPROVING


@pytest.mark.parametrize("name", APPROVING)
def test_tools_are_approved_only_on_request(name, one, file_of, launch):
    file, plain = file_of(name), CLIENTS[name].entry(launch, "codriver")
    apply_change(one(name))
    assert entry_in(name, file) == plain
    change = one(name, approve=True)
    assert change.state == "replace"
    apply_change(change)
    assert entry_in(name, file) == {**plain, **APPROVING[name]}
    assert one(name, approve=True).state == "same"
    assert one(name).state == "same"
    apply_change(one(name, force=True))
    assert entry_in(name, file) == plain


@pytest.mark.parametrize("name", APPROVING)
def test_an_approving_entry_can_be_written_directly_and_removed_completely(name, one, file_of):
    file = file_of(name)
    file.write_text(FOREIGN["codex"] if name == "codex" else '// mine\n{\n  "theme": "dark" // why\n}\n')
    before = file.read_text()
    apply_change(one(name, approve=True))
    assert APPROVING[name].items() <= entry_in_text(name, file).items()
    apply_change(one(name, plan_removal))
    assert file.read_text() == before


def entry_in_text(name, file):
    return find_entry(CLIENTS[name], file.read_text(), "codriver")


def test_an_entry_not_written_by_codriver_is_not_approved_unless_forced(one, file_of):
    file_of("gemini").write_text('{"mcpServers": {"codriver": {"command": "x"}}}')
    assert one("gemini", approve=True).state == "refused"
    file_of("qwen").write_text("{")
    assert one("qwen", approve=True).state == "refused"
