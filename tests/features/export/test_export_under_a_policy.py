"""Export on a machine whose policy disables evaluation."""

import pytest

from codriver.errors import StartError
from codriver.features.export.fresh_runs import FreshRuns
from codriver.settings import machine_policy


def test_export_and_replay_start_no_repl_if_evaluation_is_disabled(tmp_path, monkeypatch):
    policy = tmp_path / "policy.toml"
    monkeypatch.setattr(machine_policy, "policy_file", lambda: policy)
    runs = FreshRuns(tmp_path, "python", timeout_s=1)
    assert runs.repl() is not None
    policy.write_text("evaluation = false\n")
    with pytest.raises(StartError, match="switched off on this machine") as caught:
        runs.repl()
    assert str(policy) in str(caught.value)
