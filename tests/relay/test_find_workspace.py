"""`--workspace auto`: the workspace from the environment, the working directory, or the roots of the client."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import forked
import posix_only
import pytest
from live_server import environ
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from codriver.repls.kinds import project_file_names
from codriver_relay.roots import GREETING, HANDSHAKE_VERSIONS, choose_root, file_uri_to_path
from codriver_relay.workspace_search import PROJECT_FILES, is_search_boundary
from relay.relay_process import INITIALIZED, RELAY, WAIT_S, RelayProcess, answer, encode, polls_alone, request, waiting

QUESTION = {"jsonrpc": "2.0", "id": "codriver-relay-roots", "method": "roots/list"}
CHANGED = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
CLIENT = {"name": "agent", "version": "1"}
SERVER = """
import sys
print("it is for <" + sys.argv[sys.argv.index("--workspace") + 1] + ">", file=sys.stderr)
sys.exit(5)
"""
"""A server that only says for which workspace it is started, and is not to be waited for."""


def initialize(**capabilities):
    return request("first", "initialize", protocolVersion="2025-06-18", capabilities=capabilities, clientInfo=CLIENT)


def roots(*uris):
    return answer("codriver-relay-roots", {"roots": [{"uri": uri} for uri in uris]})


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    (folder / "src" / "app").mkdir(parents=True)
    (folder / "pyproject.toml").touch()
    return folder


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """Return an uninformative directory to run the relay in; the directory for temporary files ends the search
    upwards.
    """
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)
    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def auto(stack, directory, tmp_path):
    """Return a function that starts a relay that has to find its workspace, and a server that reports its own."""
    script = tmp_path / "server.py"
    script.write_text(SERVER)

    def start(*, folder=directory, program=None, words=("--workspace", "auto", "--start"), **environment):
        os.chdir(folder)
        command = shlex.join([sys.executable, str(script)])
        relay = RelayProcess(*words, environment={"CODRIVER_SERVER_COMMAND": command, **environment}, program=program)
        stack.callback(relay.close)
        return relay

    return start


def served(relay, number=1):
    """Return the workspace for which the relay starts a server when a request comes."""
    relay.send(request(number))
    text = relay.receive()["error"]["message"]
    assert "it is for <" in text, text
    return Path(text.partition("it is for <")[2].partition(">")[0])


def refusal(relay, number=1):
    """Return why there is no workspace."""
    relay.send(request(number))
    error = relay.receive()["error"]
    assert (error["code"], error["data"]) == (-32000, {"reason": "no-workspace"})
    assert "--workspace DIR" in error["message"]
    return error["message"]


# From the environment and the working directory


def test_the_relay_and_the_server_list_the_same_project_files():
    assert set(PROJECT_FILES) == {"codriver.toml", *project_file_names()}


def test_the_directory_named_by_the_client_takes_precedence(auto, project, tmp_path):
    named = tmp_path / "named"
    named.mkdir()
    assert served(auto(folder=project, CLAUDE_PROJECT_DIR=str(named))) == named


@pytest.mark.parametrize("mark", [*sorted(PROJECT_FILES), ".calva/mcp-server/lock", ".git/HEAD", ".git"])
def test_the_nearest_directory_with_a_marker_file_is_the_workspace(auto, directory, mark):
    inner = directory / "a" / "b"
    inner.mkdir(parents=True)
    (directory / "deps.edn").touch()
    (directory / "a" / mark).parent.mkdir(parents=True, exist_ok=True)
    (directory / "a" / mark).touch()  # `.git` as a file: a linked working tree
    assert served(auto(folder=inner)) == directory / "a"


@pytest.mark.parametrize("text", ["${CLAUDE_PROJECT_DIR}", "${workspaceFolder}"])
def test_an_unexpanded_variable_is_treated_as_auto(auto, project, text):
    assert served(auto(folder=project, words=("--workspace", text, "--start"))) == project


def test_a_directory_named_auto_can_still_be_given(auto, directory):
    (directory / "auto").mkdir()
    assert served(auto(words=("--workspace", "./auto", "--start"))) == directory / "auto"


def test_a_link_is_resolved_to_its_directory(auto, project, tmp_path):
    (tmp_path / "link").symlink_to(project)
    assert served(auto(CLAUDE_PROJECT_DIR=str(tmp_path / "link"))) == project


@pytest.mark.parametrize("named", ["", "named", "./named", "{home}", "{home}/link", "/", "/tmp", "{tmp}", "{tmp}/none",
                                   "{tmp}/file", "{tmp}/open", "${workspaceFolder}", "{tmp}/bad\udcff"])  # fmt: skip
def test_a_named_directory_that_does_not_belong_to_the_user_is_ignored(auto, project, tmp_path, named):
    home = tmp_path / "home"
    for folder in (home, tmp_path / "open", project / "named"):
        folder.mkdir()
    (home / "link").symlink_to(home)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "file").touch()
    named = named.replace("{home}", str(home)).replace("{tmp}", str(tmp_path))
    assert served(auto(folder=project / "src", CLAUDE_PROJECT_DIR=named, HOME=str(home))) == project


@pytest.mark.skipif(not posix_only.is_root(), reason="only root can give a folder away")
def test_a_directory_of_another_user_is_ignored_and_stops_the_search(auto, project, tmp_path):
    posix_only.give_away(project)
    assert f"{project} belongs to another user" in refusal(auto(CLAUDE_PROJECT_DIR=str(project)))
    assert f"{project} belongs to another user" in refusal(auto(folder=project))
    (tmp_path / "deps.edn").touch()
    assert f"{project} belongs to another user" in refusal(auto(folder=project, TMPDIR="/nowhere"))


def test_a_skipped_directory_is_named_only_if_it_was_skipped_because_of_other_users(auto, directory, project):
    project.chmod(0o777)
    assert f"{project} can be written to by all users" in refusal(auto(folder=project))
    assert "do not count), and" in refusal(auto(folder=directory))
    relay = greeted(auto(folder=directory))
    relay.send(roots(project.as_uri()))
    assert f"can be a workspace ({project} can be written to by all users)" in refusal(relay, 6)


def test_a_skipped_directory_that_the_client_named_is_reported_on_stderr(auto, directory, project, tmp_path):
    named = tmp_path / "named"
    named.mkdir()
    named.chmod(0o777)
    relay = auto(folder=project, CLAUDE_PROJECT_DIR=str(named))
    assert served(relay) == project
    relay.end()
    relay.wait()
    errors = relay.process.stderr.read().decode()
    assert f"CLAUDE_PROJECT_DIR is not used, because {named} can be written to by all users" in errors


@pytest.mark.parametrize("folder", ["home", "/", "/tmp"])
def test_home_root_and_temporary_directories_are_not_workspaces(auto, tmp_path, folder):
    home = tmp_path / "home"
    home.mkdir()
    (home / "pyproject.toml").touch()
    assert "found no workspace" in refusal(auto(folder=tmp_path / folder, HOME=str(home)))


def test_the_search_includes_directories_below_home_and_stops_at_home(auto, tmp_path):
    home = tmp_path / "home"
    (home / "app" / "src").mkdir(parents=True)
    (home / "plain").mkdir()
    (home / "app" / ".git").mkdir()
    for folder in (home, tmp_path):
        (folder / "deps.edn").touch()
    assert served(auto(folder=home / "app" / "src", HOME=str(home))) == home / "app"
    assert "found no workspace" in refusal(auto(folder=home / "plain", HOME=str(home), TMPDIR="/nowhere"))


def test_a_deleted_working_directory_is_not_a_workspace(auto, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    program = "import os; os.rmdir(os.getcwd()); import codriver_relay; codriver_relay.main()"
    assert "found no workspace" in refusal(auto(folder=gone, program=program))


def test_an_unreadable_directory_stops_the_search(tmp_path):
    assert is_search_boundary(str(tmp_path / "none"))
    assert not is_search_boundary(str(tmp_path))


# From the client's roots


def greeted(relay, **capabilities):
    """Return a client that was answered before its workspace is known, and is asked for its roots."""
    relay.send(initialize(roots={"listChanged": True}, **capabilities))
    greeting = relay.receive()
    assert (greeting["id"], greeting["result"]["protocolVersion"]) == ("first", "2025-06-18")
    relay.send(INITIALIZED)
    assert relay.receive() == QUESTION
    return relay


def test_a_root_of_the_client_is_the_workspace(auto, project):
    relay = greeted(auto())
    relay.send(roots(project.as_uri()))
    assert served(relay) == project


def test_requests_waiting_for_the_roots_are_handled_afterwards(auto, project):
    relay = greeted(auto())
    relay.send(request(7, "tools/list"), request(8, "ping"), request(9))
    assert relay.receive() == answer(8)
    relay.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}})
    relay.send(roots(project.as_uri()))
    assert relay.receive()["id"] == 7
    assert served(relay, 10) == project


@pytest.mark.parametrize(
    ("uris", "expected"),
    [
        (["file://{plain}", "file://{project}"], "project"),
        (["file://{plain}", "file://{other}"], "plain"),
        (["https://example.org/x", "untitled:Untitled-1", "file://host{project}", "file://{plain}"], "plain"),
        (["file://localhost{project}"], "project"),
        (["FILE://{project}/"], "project"),
        (["file://{link}"], "project"),
        (["file://{spaced}"], "with space é"),
        (["file:///", "file://{home}", "file:///tmp", "file://{project}/src"], "project/src"),
        (["file://{project}/%00", "file://{project}/%", "file://[", "", "file:project", "file://{plain}"], "plain"),
    ],
)
def test_the_first_root_that_is_a_workspace_or_else_the_first_is_used(project, tmp_path, monkeypatch, uris, expected):
    places = {name: tmp_path / name for name in ("plain", "other", "home", "with space é")}
    for folder in places.values():
        folder.mkdir()
    monkeypatch.setenv("HOME", str(places["home"]))
    (tmp_path / "link").symlink_to(project)
    named = {**places, "project": project, "link": tmp_path / "link"}
    filled = [uri.format(**named, spaced=places["with space é"].as_uri()[7:]) for uri in uris]
    assert choose_root(encode(roots(*filled))) == str(tmp_path / expected)


def test_a_path_with_undecodable_bytes_is_parsed():
    assert file_uri_to_path("file:///a%ff") == os.fsdecode(b"/a\xff")


@pytest.mark.parametrize(
    "message",
    [
        roots(),
        roots("https://example.org/"),
        roots("file:///", "file:///nowhere"),
        answer("codriver-relay-roots", {"roots": [{"name": "x"}]}),
        answer("codriver-relay-roots", {"roots": "x"}),
        answer("codriver-relay-roots", []),
        {"jsonrpc": "2.0", "id": "codriver-relay-roots", "error": {"code": -32601, "message": "no"}},
    ],
)
def test_a_client_without_a_usable_root_gets_an_error_that_says_to_name_the_workspace(auto, message):
    relay = greeted(auto())
    relay.send(request(5, "tools/list"), message)
    error = relay.receive()
    assert error["id"] == 5
    assert "none of the client's roots is a folder" in error["error"]["message"]
    refusal(relay, 6)


def test_changed_roots_are_requested_again_if_none_was_usable(auto, project):
    relay = greeted(auto())
    relay.send(roots())
    refusal(relay)
    relay.send(CHANGED)
    assert relay.receive() == QUESTION
    relay.send(roots(project.as_uri()))
    assert served(relay, 2) == project


def test_the_workspace_stays_the_same_when_the_roots_change(auto, project, tmp_path):
    relay = greeted(auto())
    relay.send(roots(project.as_uri()), CHANGED)
    assert served(relay) == project
    relay.send(CHANGED, roots(tmp_path.as_uri()))
    assert served(relay, 2) == project


def test_requests_fail_until_the_client_lists_its_roots_even_if_it_answers_late(auto, project):
    relay = auto(**waiting(roots_s=0.2))
    greeted(relay)
    relay.send(request(5, "tools/list"))
    error = relay.receive()
    assert error["id"] == 5
    assert "did not answer roots/list" in error["error"]["message"]
    refusal(relay, 6)
    relay.send(roots(project.as_uri()))
    assert served(relay, 7) == project


def test_a_client_without_roots_is_refused(auto):
    relay = auto()
    for capabilities in ({}, {"roots": None}):
        relay.send(initialize(**capabilities))
        assert "does not support requests for its roots" in relay.receive()["error"]["message"]


def test_a_client_without_a_handshake_gets_an_error_that_requests_a_handshake(auto, project):
    relay = auto()
    relay.send(request(1, "server/discover"))
    error = relay.receive()["error"]
    assert error["code"] == -32601
    assert "--workspace DIR" in error["message"]
    assert "during a handshake" in refusal(relay, 2)
    greeted(relay).send(roots(project.as_uri()))
    assert served(relay, 3) == project


def test_each_request_in_a_batch_is_refused(auto):
    relay = auto()
    relay.send([request(1), request(2), INITIALIZED])
    assert {relay.receive()["id"], relay.receive()["id"]} == {1, 2}


def test_the_relay_ends_if_stdin_ends_before_the_roots_arrive(auto):
    relay = greeted(auto())
    relay.send(request(5))
    relay.end()
    assert relay.receive()["id"] == 5
    assert relay.wait() == 1
    assert b"stdin ended" in relay.process.stderr.read()


@polls_alone
def test_the_relay_stops_waiting_for_roots_when_the_client_disconnects(directory):
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(RELAY), "--workspace", "auto"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        process.stdout.close()
        assert process.wait(timeout=WAIT_S) == 0


def test_messages_sent_before_the_roots_reach_the_server_unchanged(auto, project, start_host):
    host = start_host()
    relay = greeted(auto(words=(host.port, "--workspace", "auto")))
    relay.send(request(7, "tools/list"), encode(roots(project.as_uri())) + encode(request(8))[:-1])
    peer = host.accept()
    assert peer.read() == initialize(roots={"listChanged": True})
    peer.send(answer("first", {"instructions": "the server's own"}))
    assert [peer.read() for _ in range(2)] == [INITIALIZED, request(7, "tools/list")]
    relay.send(b"\n")
    assert peer.read() == request(8)
    assert relay.receive()["method"] == "notifications/tools/list_changed"
    peer.send(answer(7), answer(8))
    assert [relay.receive(), relay.receive()] == [answer(7), answer(8)]


# With a real server


def test_the_greeting_declares_only_capabilities_that_the_server_supports(stack, project, directory, tmp_path):
    ours = {name: value for name, value in environ(tmp_path).items() if name.startswith(("XDG_", "CODRIVER_"))}
    ours |= {"CODRIVER_MCP_SOCKET_SERVER_PORT": "0"}
    relay = RelayProcess("--workspace", "auto", "--start", environment=ours)
    stack.callback(forked.run, ["-w", str(project), "stop"], env=os.environ | ours)
    stack.callback(relay.close)
    greeted(relay)
    relay.send(roots(project.as_uri()), request(8, name="evaluate_code", arguments={"code": "1+2"}))
    result = next(line["result"] for line in iter(relay.receive, None) if line.get("id") == 8)
    assert result["structuredContent"]["result"] == "3"
    second = RelayProcess("--workspace", str(project), environment=ours)
    stack.callback(second.close)
    second.send(initialize())
    server = second.receive()["result"]
    greeting = json.loads(json.dumps(GREETING))
    for name, promised in greeting["capabilities"].items():
        assert promised.items() <= server["capabilities"][name].items()
    assert greeting["serverInfo"]["name"] == server["serverInfo"]["name"]
    assert set(HANDSHAKE_VERSIONS) == set(HANDSHAKE_PROTOCOL_VERSIONS)
    assert HANDSHAKE_VERSIONS[0] == HANDSHAKE_PROTOCOL_VERSIONS[-1]
