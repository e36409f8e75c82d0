"""A recorded kernel session can be exported to each document and replayed, with and without a kernel."""

import json
import os
import re
import subprocess
import sys

import pytest
from live_server import serving, user_settings_file
from needs import do_without
from real_kernels import VENV, variables

PLOTS = {
    "plot": "%matplotlib inline\nimport matplotlib.pyplot as plt\nfigure, axes = plt.subplots()\naxes.plot([1, 3])",
    "several": "for height in (1, 2, 3):\n    plt.plot([0, height])\n    plt.show()",
    "value": "fig, ax = plt.subplots()\nax.plot([1, 2])\nlen('abc')",
    "display": "display(figure)\ndisplay('shown')\nfigure",
    "quiet": "plt.plot([4, 2]);",
    "object": """import io
class Plot:
    def _repr_png_(self):
        drawn = io.BytesIO()
        figure.savefig(drawn)
        return drawn.getvalue(), {'width': 320}
Plot()""",
    "values": "1 + 1\nprint('out')\n{2 + 2}",
    "none": "print('again')",
    "failing": "display(figure)\nlen('a')\n1 / 0",
}
IMAGE_TYPES = {"plot": 1, "several": 3, "value": 1, "display": 2, "quiet": 1, "object": 1, "failing": 1}


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    python = VENV / "bin" / "python"
    requests = [python, "-c", "import ipykernel, matplotlib"]
    if not python.exists() or subprocess.run(requests, capture_output=True, check=False).returncode:
        do_without("ipykernel and matplotlib are needed: pip install -r tests/jupyter/kernels.txt")
    folder = tmp_path_factory.mktemp("kernel-sessions")
    user_settings_file(folder).write_text(f"python = {str(python)!r}\n")
    with variables(MPLCONFIGDIR=folder / "fonts"), serving(folder, "--repl", "jupyter") as served:
        with served.client() as client:
            served.ids = {}
            for name, code in PLOTS.items():
                client.call("evaluate_code", code=code, timeoutMs=120_000, maxImages=0)
                log = client.call("repl_output_log", category=["evaluatedCode"])["result"]
                served.ids[name] = log[-1]["evaluation"]
        served.recording = served.workspace / "session.jsonl"
        ran(served, "export", *served.ids.values(), "-o", str(served.recording))
        yield served


def ran(live, *words):
    done = live.run(*words)
    assert (done.returncode, "base64" in done.stdout) == (0, False), f"{done.stdout}\n{done.stderr}"
    return done


def test_a_kernel_session_with_plots_is_replayed_in_a_kernel(live):
    rows = list(map(json.loads, live.recording.read_text().splitlines()))
    assert rows[0]["repl"] == "jupyter"
    assert {row["id"]: "".join(row.get("values", ())).count("<<image/png") for row in rows[1:]} == {
        item: IMAGE_TYPES.get(name, 0) for name, item in live.ids.items()
    }
    done = ran(live, "replay", str(live.recording), "--pictures", "strict")
    assert f"{len(PLOTS)} evaluations: {len(PLOTS)} the same, 0 differ" in done.stdout


def test_a_kernel_session_is_replayed_without_a_kernel(live):
    kept = [live.ids[name] for name in ("several", "value", "quiet", "values")]
    file = live.workspace / "plain.jsonl"
    ran(live, "export", live.ids["plot"], *kept, "--force", "-o", str(file))
    file.write_text(file.read_text().replace("%matplotlib inline\\n", ""))
    done = ran(live, "replay", str(file), "--repl", "python")
    assert f"{len(kept) + 1} evaluations: {len(kept) + 1} the same, 0 differ" in done.stdout
    few = live.workspace / "few.jsonl"
    ran(live, "export", live.ids["values"], "-o", str(few))
    done = ran(live, "replay", str(few), "--python", sys.executable)  # which has no kernel
    assert "no kernel can be started, so a fresh python runs the cells" in done.stderr
    lines = list(map(json.loads, few.read_text().splitlines()))
    few.write_text("".join(json.dumps({**item, "values": item.get("values", [])[:-1]}) + "\n" for item in lines))
    assert live.run("replay", str(few), "--repl", "python").returncode == 1


def test_an_exported_notebook_contains_every_display_of_the_session_in_all_media_types(live):
    done = ran(live, "export", *live.ids.values(), "--format", "notebook")
    check = "import sys; sys.modules['rfc3987_syntax'] = None  # half a second of the import\n"
    check += "import nbformat; nbformat.validate(nbformat.reads(sys.stdin.read(), 4))"
    subprocess.run([VENV / "bin" / "python", "-c", check], input=done.stdout, text=True, check=True)
    cells = [cell for cell in json.loads(done.stdout)["cells"] if cell["cell_type"] == "code"]
    assert ["".join(cell["source"]) for cell in cells] == list(PLOTS.values())
    outputs = [[item for item in cell["outputs"] if "data" in item] for cell in cells]
    pictures = [
        "".join(item["output_type"][0] for item in displayed if "image/png" in item["data"]) for displayed in outputs
    ]
    assert dict(zip(PLOTS, pictures, strict=True)) == {
        "plot": "d", "several": "ddd", "value": "d", "display": "de", "quiet": "d", "object": "e", "values": "",
        "none": "", "failing": "d",
    }  # fmt: skip
    assert cells[-1]["outputs"][-1]["ename"] == "ZeroDivisionError"
    texts = {"".join(item["data"].get("text/plain", ())) for rendered in outputs for item in rendered}
    assert {"<Figure size 640x480 with 1 Axes>", "'shown'", "{4}", "3"} <= texts


def test_a_test_of_a_kernel_session_runs_as_plain_python(live, tmp_path):
    ids = [live.ids[name] for name in ("plot", "value", "values", "failing")]
    file = tmp_path / "test_exported.py"
    file.write_text(text := ran(live, "export", *ids).stdout)
    command = [VENV / "bin" / "python", "-m", "pytest", "-q", file]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={"MPLBACKEND": "agg", "MPLCONFIGDIR": os.environ["MPLCONFIGDIR"]},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall("# displays an image, which is left out: image/png", text)) == 3
    assert {"    assert {2 + 2} == {4}", "from IPython.display import display"} <= set(text.splitlines())


def test_a_session_in_another_language_is_replayed_but_not_exported_as_code(tmp_path):
    if not (VENV / "share" / "jupyter" / "kernels" / "bash").exists():
        do_without("bash_kernel is needed: pip install bash_kernel, python -m bash_kernel.install --sys-prefix")
    user_settings_file(tmp_path).write_text(f"python = {str(VENV / 'bin' / 'python')!r}\n")
    with serving(tmp_path, "--repl", "jupyter:bash") as live:
        with live.client() as client:
            for code in ("ran=ran; touch $ran", "echo $(ls ran)"):
                assert client.call("evaluate_code", code=code, timeoutMs=60_000)["ok"]
        (live.workspace / "ran").unlink()
        for form in ("test", "notebook"):
            refused = live.run("export", "--format", form)
            assert refused.returncode == 1
            assert (
                f"a {form} can only be written in Python or a Lisp, and this session uses neither: choose --format "
                "recording" in (refused.stderr)
            )
        assert not (live.workspace / "ran").exists(), "what cannot be written runs no code"
        file = live.workspace / "session.jsonl"
        ran(live, "export", "-o", str(file))
        done = ran(live, "replay", str(file))
        assert "2 evaluations: 2 the same, 0 differ" in done.stdout
        assert "command not found" not in done.stderr, "nothing runs but what was recorded"
