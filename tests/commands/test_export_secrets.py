"""Export and replay of an application's sensitive values: no document, report or line holds one, in any format."""

import pytest
from live_server import serving

TOKEN = "hunter2-hunter2-XYZ"
SHOP = f"""
import codriver_seam as seam

state = {{"user": {{"name": "ann", "token": "{TOKEN}"}}}}


def login():
    raise PermissionError(state["user"]["token"])


def show():
    print(state["user"]["token"])


seam.install(True)
seam.frame("shop", lambda: state, sensitive=[("user", "token")])
"""
STEPS = ("import shop", "shop.state", "shop.state['user']['token']", "shop.show()", "1 + 2", "shop.login()")
FORMATS = {"test": "test_it.py", "script": "it_script.py", "comment": "it_comment.py", "notebook": "it.ipynb"}


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("secrets"), "--repl", "python") as running:
        (running.workspace / "shop.py").write_text(SHOP)
        with running.client() as client:
            for code in STEPS:
                client.call("evaluate_code", code=code)
        yield running


@pytest.mark.parametrize("form", FORMATS)
def test_no_document_and_no_line_beside_it_holds_a_declared_value(live, form):
    file = live.workspace / FORMATS[form]
    done = live.run("export", "--last", str(len(STEPS)), "--format", form, "-o", str(file))
    assert done.returncode == 0, done.stderr
    written = file.read_text()
    assert "1 + 2" in written
    for text in (written, done.stdout, done.stderr):
        assert TOKEN not in text
        assert "hunter2" not in text


def test_a_replay_tells_no_declared_value_where_its_recording_had_none(live):
    recording, report = live.workspace / "it.jsonl", live.workspace / "report.xml"
    done = live.run("export", "--last", str(len(STEPS)), "--format", "recording", "-o", str(recording))
    assert done.returncode == 0, done.stderr
    replayed = live.run("replay", str(recording), "--junit", str(report))
    assert "evaluations: " in replayed.stdout, replayed.stderr
    for text in (recording.read_text(), replayed.stdout, replayed.stderr, report.read_text()):
        assert "hunter2" not in text


def test_a_replay_tells_no_declared_value_that_stood_elsewhere_when_it_was_recorded(live):
    """The recorded value has no mark, and the fresh one is a secret: both texts of the difference would show it."""
    recording, report = live.workspace / "other.jsonl", live.workspace / "other.xml"
    live.run("export", "--last", str(len(STEPS)), "--format", "recording", "-o", str(recording))
    recording.write_text(recording.read_text().replace("<<redacted:shop user.token>>", "nothing at all"))
    replayed = live.run("replay", str(recording), "--junit", str(report))
    assert replayed.returncode == 1
    assert "<<redacted:shop user.token>>" in replayed.stdout
    assert "hunter2" not in replayed.stdout + replayed.stderr + report.read_text()
