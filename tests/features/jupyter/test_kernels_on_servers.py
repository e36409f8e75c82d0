"""Kernels on Jupyter Servers as users see them: options and tools of a real Codriver server."""

import anyio
import pytest
from cutting_proxy import cutting_proxy
from jupyter_servers import TOKEN, jupyter_server
from live_server import Live, serving, until

from codriver.features.jupyter.kernels.named_kernels import TokenSource
from codriver.features.jupyter.kernels.server_api import ServerApi
from codriver.features.jupyter.kernels.server_channel import open_server_channel

pytestmark = pytest.mark.slow
LOST = "its outcome is not known"


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory):
    with jupyter_server(tmp_path_factory.mktemp("jupyter")) as server:
        yield server


@pytest.fixture(scope="module")
def token_file(tmp_path_factory):
    token = tmp_path_factory.mktemp("own") / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    return token


@pytest.fixture(scope="module")
def attached(jupyter):
    return jupyter.start_kernel()


@pytest.fixture(scope="module")
def live(jupyter, attached, token_file, tmp_path_factory):
    """Run a server with a Python REPL of its own, a kernel that it attached to, and one that it started."""
    directory = tmp_path_factory.mktemp("live")
    settings = directory / "config" / "codriver" / "codriver.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        f'[[kernels]]\nurl = "{jupyter.base}/api/kernels/{attached}"\nkey = "theirs"\ntokenFile = "{token_file}"\n'
    )
    with serving(directory, "--repl", "python", "--kernel", f"made={jupyter.base}/lab?kernel=python3") as running:
        yield running


@pytest.fixture
def client(live):
    with live.client() as client:
        until(lambda: {row["phase"] for row in rows(client)} == {"connected"}, "all REPLs")
        yield client


def rows(client):
    return client.call("list_sessions")["sessions"]


def evaluate(client, key, code, **arguments):
    return client.call("evaluate_code", code=code, replSessionKey=key, **arguments)


async def wait_for_first_message(jupyter, kernel):
    """Wait for the first message of a kernel."""
    api = ServerApi(jupyter.base, TokenSource(variable="T"), {"T": TOKEN})
    async with open_server_channel(api, kernel, lambda _: None):
        pass


def test_one_log_contains_evaluations_of_all_kernels(client):
    assert {row["key"] for row in rows(client)} == {"py", "theirs", "made"}
    for key in ("py", "theirs", "made"):
        assert evaluate(client, key, f"print('in {key}'); 6 * 7")["result"] == "42"
    query = "[:find ?key ?text :where [?e :output/repl-session-key ?key] [?e :output/text ?text]]"
    log = client.call("repl_output_log", query=query)
    assert all(f"in {key}" in str(log) for key in ("py", "theirs", "made")), log


def test_no_answer_contains_the_token(client, live):
    printed = evaluate(client, "made", f"print({TOKEN[:8]!r} + {TOKEN[8:]!r})")
    assert printed["stdout"] == "<<redacted:KERNEL_TOKEN>>\n"
    answers = f"{client.call('server_health')} {rows(client)} {live.run('status').stdout} {live.run('doctor').stdout}"
    assert TOKEN not in answers


def test_output_omitted_by_the_jupyter_server_is_noted(client):
    answer = evaluate(client, "made", "print('x' * 5_000_000); 1")
    assert "the Jupyter Server omitted" in str(answer["notes"])
    assert "IOPub data rate exceeded" in answer["stderr"]


def test_code_in_a_remote_kernel_can_be_interrupted(client):
    running = evaluate(client, "made", "while True: pass", timeoutMs=1000)
    stopped = client.call("interrupt_evaluation", evaluationId=running["evaluationId"])
    assert stopped["ok"], stopped
    until(lambda: evaluate(client, "made", "1 + 1").get("result") == "2", "the kernel to be free")


def test_a_remote_kernel_is_restarted_by_its_own_key(client, jupyter):
    evaluate(client, "made", "lost = 1")
    generation = next(row["generation"] for row in rows(client) if row["key"] == "made")
    answer = client.call("restart_repl", replSessionKey="made", timeoutMs=60_000)
    assert (answer["phase"], answer["generation"]) == ("connected", generation + 1), answer
    assert evaluate(client, "made", "lost")["status"] == "failed"


def test_a_dead_kernel_is_replaced_by_the_next_generation(client):
    generation = next(row["generation"] for row in rows(client) if row["key"] == "theirs")
    answer = evaluate(client, "theirs", "import os; os._exit(1)")
    assert answer["status"] == "lost", answer
    until(
        lambda: any(row["key"] == "theirs" and row["generation"] > generation for row in rows(client)),
        "the next generation",
    )
    assert evaluate(client, "theirs", "2 + 2")["result"] == "4"


def test_no_output_is_lost_when_the_connection_drops(jupyter, tmp_path, token_file):
    with cutting_proxy(jupyter.base) as (proxy, base):
        kernel = jupyter.start_kernel()
        options = ("--kernel", f"far={base}/api/kernels/{kernel}")
        settings = tmp_path / "config" / "codriver" / "codriver.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(
            f'[[kernels]]\nurl = "{base}/api/kernels/{kernel}"\nkey = "far"\ntokenFile = "{token_file}"\n'
        )
        with serving(tmp_path, *options) as live, live.client() as client:
            until(lambda: [row["phase"] for row in rows(client)] == ["connected"], "the kernel")
            code = "import time; print(1, flush=True); time.sleep(2); n = globals().get('n', 0) + 1; n"
            running = evaluate(client, "far", code, timeoutMs=1000)
            proxy.refuse()
            proxy.cut()
            until(lambda: jupyter.call("GET", f"/api/kernels/{kernel}")[1]["execution_state"] == "idle", "its end")
            proxy.refuse(is_refusing=False)
            done = until(
                lambda: (
                    (found := client.call("get_evaluation", evaluationId=running["evaluationId"]))["status"]
                    != "running"
                    and found
                ),
                "the result",
            )
            assert (done["status"], done["result"]) == ("done", "1"), done
        assert kernel in jupyter.kernels()


def test_only_kernels_that_the_server_started_end_with_it(jupyter, attached, tmp_path, token_file):
    kernels_before = jupyter.kernels()
    settings = tmp_path / "config" / "codriver" / "codriver.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        f'[[kernels]]\nurl = "{jupyter.base}/"\nkernel = "python3"\nkey = "a"\ntokenFile = "{token_file}"\n'
        f'[[kernels]]\nurl = "{jupyter.base}/?kernel=python3"\nkey = "b"\n'
    )
    with serving(tmp_path) as live, live.client() as client:
        until(lambda: [row["phase"] for row in rows(client)] == ["connected"] * 2, "two kernels")
        assert len(jupyter.kernels() - kernels_before) == 2
        assert {evaluate(client, key, "import os; os.getpid()")["result"] for key in "ab"}.__len__() == 2
    assert jupyter.kernels() == kernels_before
    assert attached in kernels_before


def test_a_local_server_needs_no_token_and_its_kernels_are_listed_once(tmp_path, monkeypatch):
    """One is discovered with its notebook, only through the server; one is started and not discovered again."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    with jupyter_server(workspace) as jupyter:
        monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(jupyter.runtime))
        session_model = {"path": "a.ipynb", "name": "a.ipynb", "type": "notebook", "kernel": {"name": "python3"}}
        session = jupyter.call("POST", "/api/sessions", session_model)[1]
        identity = session["kernel"]["id"]
        # Wait for the first message: a kernel that does not find its file creates another one with different ports.
        anyio.run(wait_for_first_message, jupyter, identity)
        (jupyter.runtime / f"kernel-{identity}.json").unlink()
        with serving(tmp_path, "--kernel", f"made={jupyter.base}/?kernel=python3") as live, live.client() as client:
            keys = {"made", "a-ipynb"}
            until(lambda: {row["key"] for row in rows(client) if row["phase"] == "connected"} == keys, "both kernels")
            assert {row["kind"] for row in rows(client)} == {"server"}
            for key in keys:
                assert evaluate(client, key, "6 * 7")["result"] == "42"
            assert {row["key"] for row in rows(client)} == keys
        assert jupyter.kernels() == {identity}


def test_a_wrong_token_is_reported_with_its_source(jupyter, attached, tmp_path):
    settings = tmp_path / "config" / "codriver" / "codriver.toml"
    settings.parent.mkdir(parents=True)
    wrong = tmp_path / "wrong"
    wrong.write_text("wrong-4711-wrong")
    wrong.chmod(0o600)
    settings.write_text(f'[[kernels]]\nurl = "{jupyter.base}/api/kernels/{attached}"\ntokenFile = "{wrong}"\n')
    with serving(tmp_path) as live, live.client() as client:
        (row,) = until(lambda: [row for row in rows(client) if row.get("note")], "the refusal")
        assert "requires a token, or a different one" in row["note"]
        assert "4711" not in str(row)


def test_a_url_with_a_token_or_plain_http_to_another_machine_prevents_the_start(tmp_path):
    for url, cause in (
        (f"http://box/lab?token={TOKEN}", "tokenFile or tokenEnv"),
        ("http://box/?kernel=", "not encrypted"),
    ):
        live = Live(tmp_path, "--kernel", url)
        output = live.greeting + live.process.stdout.read()
        live.stop()
        assert cause in output
        assert TOKEN not in output
