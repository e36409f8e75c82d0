"""The doctor's row on the seam: its frames if there is one, or else why there is none and what to do."""

import sys
from pathlib import Path

import pytest
from live_server import serving

from codriver.errors import StartError
from codriver.features.applications.seam_checks import CHECKS, seam_row
from codriver.features.applications.seam_setup import (
    CONTRACT_VERSION,
    SETUP_HINTS,
    SETUP_STEPS,
    UNSUPPORTED_LANGUAGE_HINT,
)
from codriver.setup.doctor import diagnose
from codriver.setup.doctor_checks import CapabilityRow
from codriver.setup.environment import Environment
from codriver.setup.relay_launch import Launch
from codriver_seam import status_accessors

PYTHON = SETUP_STEPS["python"]
SESSION = {"key": "py", "dialect": "python", "phase": "connected"}
SEAM = {"seam": {"support": "native", "op": "codriver/seam"}}
SHOWN = {"provider": "codriver", "frames": ["shop", "cart"]}
LOST = "Traceback (most recent call last):\n  …\nModuleNotFoundError: No module named 'codriver_seam'\n"
UNKNOWN = {"ok": False, "reason": "unknown-symbol"}


def asking(**answers):
    """Return a server that only answers these tools."""

    def call_tool(tool, _arguments):
        if tool not in answers:
            raise StartError("no server answers")
        return answers[tool]

    return call_tool


def logged(text, **fields):
    entry = {"category": "evaluationErrorOutput", "text": text, "repl-session-key": "py"}
    return {"ok": True, "result": [entry | fields], "count": 1}


def detail(**fields):
    row = {**SESSION, "capabilities": SEAM, "seam": {**SHOWN, **fields}}
    return seam_row(row, "works", asking()).detail


def why(**answers):
    row = seam_row(SESSION, None, asking(**answers))
    assert (row.capability, row.support) == ("seam", "missing")
    return row.detail


def test_frames_are_listed_by_name():
    assert detail() == "by codriver/seam; frames: shop, cart"


def test_a_seam_without_frames_is_reported_with_how_to_register_a_frame():
    assert detail(frames=[]) == (
        f"by codriver/seam; the seam has no frames, so no state is visible: evaluate {PYTHON.code}"
    )


def test_a_seam_of_a_different_version_is_reported_with_both_versions():
    assert f"the seam uses contract 7, but this version of Codriver uses {CONTRACT_VERSION}" in detail(contract=7)
    assert status_accessors.CONTRACT_VERSION == CONTRACT_VERSION


def test_a_seam_that_was_not_queried_is_described_by_the_name_of_its_provider():
    assert seam_row({**SESSION, "capabilities": SEAM}, "works", asking()) == CapabilityRow(
        "seam", "works", "by codriver/seam"
    )


def test_a_disabled_seam_is_reported_with_its_file():
    found = {"ok": True, "name": "install", "arglists": ["()"], "file": "/copy/codriver_seam/recording.py"}
    assert why(symbol_info=found, repl_output_log=logged(LOST)) == (
        f"codriver_seam was imported from /copy/codriver_seam/recording.py but is not active: evaluate {PYTHON.code}"
    )


def test_a_seam_that_was_only_found_as_a_file_is_not_reported_as_imported():
    found = {"ok": True, "name": "install", "arglists": ["()"], "file": "/env/codriver_seam/recording.py"}
    assert why(symbol_info={**found, "extra": {"type": "function", "imported": "no"}}) == SETUP_HINTS["python"]


def test_a_failed_import_of_the_seam_is_reported_with_its_error():
    assert why(symbol_info=UNKNOWN, repl_output_log=logged(LOST)) == (
        "importing codriver_seam failed (ModuleNotFoundError: No module named 'codriver_seam'): "
        f"load_file {PYTHON.file}, then evaluate {PYTHON.code}"
    )


OTHER_ERRORS = {
    "of another module": logged(LOST.replace("codriver_seam", "numpy")),
    "in another REPL": logged(LOST, **{"repl-session-key": "jup"}),
    "that only passed through it": logged("  codriver_seam/web_requests.py\nKeyError: 'cart'\n"),
    "without text": logged(" \n"),
    "of another shape": {"ok": True, "result": None},
}


@pytest.mark.parametrize("answer", OTHER_ERRORS.values(), ids=OTHER_ERRORS)
def test_an_unrelated_error_is_not_attributed_to_the_seam(answer):
    assert why(symbol_info=UNKNOWN, repl_output_log=answer) == SETUP_HINTS["python"]


def test_setup_advice_is_given_if_the_seam_gave_no_answers():
    assert why() == SETUP_HINTS["python"]


def test_the_seam_is_reported_as_unsupported_for_a_language_without_one():
    assert seam_row({**SESSION, "dialect": "bash"}, None, asking()) == CapabilityRow(
        "seam", "missing", UNSUPPORTED_LANGUAGE_HINT
    )


def test_a_left_over_port_file_is_reported_with_a_fix():
    gone = {**SESSION, "phase": "waiting", "kind": "port-file", "origin": "/w/.py-port"}
    assert seam_row(gone, None, asking()).detail == (
        "no REPL listens on the port in /w/.py-port: restart the application, or rm /w/.py-port if you "
        "no longer need it"
    )
    assert seam_row({**gone, "kind": "process"}, None, asking()) is None


def test_the_doctor_reports_whether_an_application_is_visible_through_the_seam(tmp_path):
    launch = Launch(Path(sys.executable), tmp_path / "codriver_relay.py", tmp_path)
    machine = Environment(tmp_path / "home", "linux", {"PATH": ""})
    with serving(tmp_path, "--repl", "python") as live, live.client(name="codriver-doctor") as client:
        client.call("evaluate_code", code="1")

        def seam_rows():
            report = diagnose(
                launch, lambda tool, given: client.call(tool, **given), machine, lambda *_: None, of_features=[CHECKS]
            )
            return [row for repl in report.repls for row in repl.rows if row.capability == "seam"]

        assert seam_rows() == [CapabilityRow("seam", "missing", SETUP_HINTS["python"])]
        client.call("evaluate_code", code="import sys; sys.modules['codriver_seam'] = None; import codriver_seam")
        assert "importing codriver_seam failed (ModuleNotFoundError: " in seam_rows()[0].detail
        client.call("evaluate_code", code="del sys.modules['codriver_seam']; import codriver_seam as seam")
        assert "codriver_seam was imported from " in seam_rows()[0].detail
        client.call("evaluate_code", code="seam.install(True)")
        assert "has no frames" in seam_rows()[0].detail
        client.call("evaluate_code", code="seam.frame('shop', get=dict)")
        assert seam_rows() == [CapabilityRow("seam", "works", "by codriver/seam; frames: shop")]
