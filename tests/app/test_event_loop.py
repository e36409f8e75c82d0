"""The server on uvloop, if it is installed: the same guarantees on another event loop."""

import sys
from pathlib import Path

import live_server
import pytest
from live_server import Live, until
from needs import modules

from codriver.app import serve
from codriver.settings.model import Settings


@pytest.fixture
def live(tmp_path, monkeypatch):
    modules("uvloop")
    usual = live_server.environ
    monkeypatch.setattr(live_server, "environ", lambda folder: {**usual(folder), "CODRIVER_EVENT_LOOP": "uvloop"})
    running = Live(tmp_path, "--repl", "python")
    yield running
    running.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_server_works_and_stops_cleanly_on_uvloop(live):
    assert "uvloop" in Path(f"/proc/{live.process.pid}/maps").read_text()
    direct, relayed = live.client(), live.relay()
    assert direct.call("evaluate_code", code="print('hé'); 6 * 7")["result"] == "42"
    assert relayed.call("evaluate_code", code="len('x' * 10_000_000)")["result"] == "10000000"
    big = direct.call("evaluate_code", code="'v' * 10_000_000")
    assert big["ok"]
    endless = direct.call("evaluate_code", code="while True: pass", timeoutMs=1000)
    assert endless["status"] == "running"
    relayed.call("interrupt_evaluation", evaluationId=endless["evaluationId"])
    until(
        lambda: direct.call("get_evaluation", evaluationId=endless["evaluationId"])["status"] == "interrupted",
        "the interrupt",
    )
    relayed.close()
    direct.close()
    live.stop()
    assert live.process.returncode == 0
    assert not live.port_file.exists()


def test_uvloop_is_used_if_installed_unless_disabled_by_a_setting(monkeypatch):
    monkeypatch.setattr(serve, "find_spec", lambda _name: object())
    assert serve._uses_uvloop(Settings())
    assert not serve._uses_uvloop(Settings(event_loop="asyncio"))


def test_a_missing_uvloop_is_an_error_only_if_a_setting_requires_it(monkeypatch):
    monkeypatch.setattr(serve, "find_spec", lambda _name: None)
    assert not serve._uses_uvloop(Settings())
    with pytest.raises(serve.UvloopMissingError, match=r"uv tool install '\.\[fast\]'"):
        serve._uses_uvloop(Settings(event_loop="uvloop"))
