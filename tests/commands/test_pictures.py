"""Images for people: the command that saves them is named, and it saves them unchanged."""

import base64
import json
import re
import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest
from live_server import serving, user_settings_file
from needs import modules
from real_kernels import variables
from terminal import Terminal

MARK = r"<<image/png \d+x\d+, \d+ KB: codriver image {}>>"
DRAWING = "import matplotlib.pyplot as plt\nfigure, axes = plt.subplots()\nline = axes.plot([1, 3, 2])\nfigure"
SHOWING = "plt.plot([3, 1])\nplt.title('x')\nplt.show()\nlen('')"


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    modules("matplotlib")
    folder = tmp_path_factory.mktemp("pictures")
    user_settings_file(folder).write_text(f"python = {sys.executable!r}\n")
    with variables(MPLCONFIGDIR=folder / "fonts"), serving(folder, "--repl", "python") as served:
        with served.client() as client:
            served.ids = []
            for code in (DRAWING, SHOWING):
                client.call("evaluate_code", code=code, timeoutMs=120_000, maxImages=0)
                log = client.call("repl_output_log", category=["evaluatedCode"])["result"]
                served.ids.append(log[-1]["evaluation"])
        yield served


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def showing(kind, content):
    """Return code whose value is an image, but which contains none itself."""
    address = f"'data:{kind};base' + '64,{base64.b64encode(content).decode()}'"
    return f"type('Shown', (), {{'__repr__': lambda _: {address}}})()"


def ran(live, *words):
    done = live.run(*words)
    assert done.returncode == 0, done.stderr
    assert "base64" not in done.stdout
    return done


def test_the_log_and_eval_commands_name_the_command_that_saves_an_image(live):
    output = ran(live, "log").stdout
    assert len(re.findall(MARK.format(live.ids[0]), output)) == 1
    assert len(re.findall(MARK.format(live.ids[1]), output)) == 1
    assert "sha256:" not in output
    assert re.search(MARK.format("[^ ]+") + "\n$", ran(live, "eval", "figure").stdout)
    entries = map(json.loads, ran(live, "log", "--json").stdout.splitlines())
    assert any(re.search("<<image/png 556x413, [0-9]+ KB, sha256:[0-9a-f]{16}>>", entry["text"]) for entry in entries)


def test_images_are_saved_unchanged_and_the_newest_image_is_the_default(live, tmp_path):
    ran(live, "image", live.ids[0], "-o", str(tmp_path / "a.png"))
    assert (tmp_path / "a.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    piped = subprocess.run(live.command("image", live.ids[0]), env=live.environ, capture_output=True, check=True)
    assert piped.stdout == (tmp_path / "a.png").read_bytes()
    saved = ran(live, "image", "-o", str(tmp_path)).stderr
    assert re.search(r"saved: .*-1\.png\n", saved)


def test_an_evaluation_without_an_image_is_reported(live):
    for words, reported in [
        (("image", "nope"), "no image from the evaluation nope"),
        (("image", live.ids[0], "-n", "2"), "the evaluation has 1 image"),
        (("image", "--run", "-9"), "no stored run -9"),
    ]:
        done = live.run(*words)
        assert (done.returncode, reported in done.stderr) == (1, True), done.stderr


def test_the_call_command_reports_the_images_in_an_answer(live):
    done = ran(live, "call", "evaluate_code", '{"code": "figure"}')
    evaluation = json.loads(done.stdout)["evaluationId"]
    assert re.search(rf"an image, image/png 556x4\d\d, \d+ KB: codriver image {evaluation} saves it", done.stderr)


def test_a_session_with_plots_can_be_exported_and_replayed(live, tmp_path):
    done = ran(live, "export", *live.ids, "-o", str(live.workspace / "r.jsonl"), "--force")
    recording = (live.workspace / "r.jsonl").read_text()
    assert recording.count("<<image/png 556x4") == 2
    report = tmp_path / "report.xml"
    done = ran(live, "replay", str(live.workspace / "r.jsonl"), "--pictures", "strict", "--junit", str(report))
    assert "2 evaluations: 2 the same, 0 differ" in done.stdout
    assert ET.parse(report).getroot().attrib["failures"] == "0"
    done = ran(live, "export", *live.ids, "--format", "notebook")
    outputs = [item for cell in json.loads(done.stdout)["cells"] for item in cell.get("outputs", ())]
    kinds = [output["output_type"] for output in outputs if "image/png" in output.get("data", {})]
    assert kinds == ["execute_result", "display_data"]
    assert "differ" not in done.stderr
    done = ran(live, "export", *live.ids)
    assert done.stdout.count("# displays an image, which is left out: image/png 556x4") == 2


def test_a_replay_reports_a_differing_image_and_fails_in_strict_mode(live):
    file = live.workspace / "d.jsonl"
    with live.client() as client:
        ids = [client.call("evaluate_code", code=showing("image/png", PIXEL))["evaluationId"] for _ in range(2)]
    ran(live, "export", *ids, "-o", str(file))
    file.write_text(re.sub("sha256:[0-9a-f]{16}", "sha256:" + "0" * 16, file.read_text()))
    done = live.run("replay", str(file))
    assert (done.returncode, done.stdout.count("the image differs (image/png 1x1")) == (0, 2), done.stdout
    done = live.run("replay", str(file), "--pictures", "strict")
    assert (done.returncode, "2 differ" in done.stdout) == (1, True)
    file.write_text(file.read_text().replace("1x1", "1x2"))
    assert live.run("replay", str(file)).returncode == 1


def test_a_terminal_lists_images_and_how_to_save_them(live):
    with Terminal(live.command("image", live.ids[0]), live.environ, columns=200) as terminal:
        assert terminal.end() == 0
    assert re.search(rb"codriver image \S+ -n 1 -o FILE: image/png 556x413", terminal.output)
    assert b"\x1b" not in terminal.output


OTHERS = {
    "image/gif": b"GIF89a\1\0\1\0\x80\0\0\0\0\0\xff\xff\xff!\xf9\4\1\0\0\0\0,\0\0\0\0\1\0\1\0\0\2\2D\1\0;",
    "image/jpeg": b"\xff\xd8\xff\xc0\0\x0b\x08\0\1\0\1\1\1\x11\0\xff\xd9",
    "image/webp": b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\0\0\0\x10\7\x10\x11\x11\x88\x88\xfe\7\0",
}


@pytest.mark.parametrize("kind", OTHERS)
def test_an_image_of_any_type_is_saved_unchanged(live, tmp_path, kind):
    with live.client() as client:
        item = client.call("evaluate_code", code=showing(kind, OTHERS[kind]), detail=True, maxImages=0)["evaluationId"]
    ran(live, "image", item, "-n", "1", "-o", str(tmp_path / "p"))
    assert (tmp_path / "p").read_bytes() == OTHERS[kind]


def test_images_of_an_earlier_run_are_saved_and_never_printed(live, tmp_path):
    ran(live, "image", live.ids[0], "-o", str(tmp_path / "before.png"))
    live.run("stop")
    done = ran(live, "log", "--run", "-1")
    assert re.search(MARK.format(f"{live.ids[0]} --run -1"), done.stdout)
    ran(live, "image", live.ids[0], "--run", "-1", "-o", str(tmp_path / "again.png"))
    assert (tmp_path / "again.png").read_bytes() == (tmp_path / "before.png").read_bytes()
    done = ran(live, "export", *live.ids, "--run", "-1", "--format", "recording")
    assert done.stdout.count("<<image/png 556x4") == 2
