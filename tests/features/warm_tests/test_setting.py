"""The setting that enables warm test runs."""

from pathlib import Path

import pytest
from live_server import until
from tools_in_memory import serving

from codriver.features.warm_tests.decisions import MIN_SAVING_S
from codriver.features.warm_tests.warm_options import IS_FORK_SAFE, WarmOptions

DOCTOR = "codriver-doctor"
"""A client that gets whole answers."""
pytestmark = pytest.mark.skipif(not IS_FORK_SAFE, reason="processes cannot be copied safely on this system")


def test_a_process_is_preloaded_if_that_saves_at_least_200_milliseconds():
    assert WarmOptions().min_saving_s == MIN_SAVING_S == 0.2


@pytest.mark.parametrize("is_enabled", [True, False])
def test_a_server_learns_from_runs_only_with_the_setting(tmp_path, is_enabled):
    cache = tmp_path / "cache"
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "test_sum.py").write_text("def test_sum():\n    assert sum([1, 2]) == 3\n")
    variables = {"XDG_CACHE_HOME": str(cache)}
    with (
        serving(tmp_path, settings={"warm_tests": is_enabled}, variables=variables) as live,
        live.client(name="codriver-doctor") as client,
    ):
        assert client.call("run_tests", paths=["test_sum.py"], timeoutMs=60_000)["passed"] == 1
        saved = cache / "codriver" / "warm-tests"
        (row,) = client.call("list_sessions")["testRuns"]
        if is_enabled:
            until(lambda: list(saved.glob("*")), "the plan of the project")
            assert Path(row["python"]).exists()
        else:
            assert row == {"start": "plain", "why": "the setting warmTests is off"}
            assert not saved.exists()
