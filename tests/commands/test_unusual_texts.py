"""Sessions with unusual texts survive export and replay: empty text, separators, lone surrogates, huge numbers."""

import ast
import json

import pytest
from live_server import serving

CODES = (
    "",
    " \n",
    "'a\u2028b\x85c\x0bd\x0ce\x1cf'",
    "print('a\u2028b\x85c\x1c')",
    "'a\\ud800b'",
    "print('a\\udfffb')",
    "9" * 4999,
    "9" * 4000 + " + 1",
    "10 ** 4400",
    "float('1e999'), -0.0, float('nan')",
    "# nothing but this",
    "x = '''a\r\nb\rc'''\nx",
)
FORMATS = {"notebook": "odd.ipynb", "test": "test_odd.py"}


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("odd"), "--repl", "python") as running:
        with running.client() as client:
            for code in CODES:
                client.call("evaluate_code", code=code)
        yield running


def test_a_recording_of_unusual_texts_is_replayed_without_differences(live):
    file = live.workspace / "odd.jsonl"
    done = live.run("export", "--format", "recording", "-o", str(file))
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in file.read_text().split("\n")[1:] if line]
    assert {"", " \n", CODES[2], CODES[3], CODES[-1]} <= {row["code"] for row in rows}
    report = live.workspace / "odd.xml"
    done = live.run("replay", str(file), "--junit", str(report))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rows)} evaluations: {len(rows)} the same, 0 differ" in done.stdout


@pytest.mark.parametrize("form", FORMATS)
def test_every_export_format_can_contain_unusual_texts(live, form):
    file = live.workspace / FORMATS[form]
    done = live.run("export", "--format", form, "-o", str(file))
    assert done.returncode == 0, done.stderr
    text = file.read_text()
    assert "10 ** 4400" in text
    if form == "test":
        assert "float('1e999'), -0.0" in ast.unparse(ast.parse(text))
    assert "repr() takes" not in done.stderr
