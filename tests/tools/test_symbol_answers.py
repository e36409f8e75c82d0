"""Names in a namespace and names matching a pattern, in every REPL that supports it."""

import os
import re

import pytest
import real_repls
from all_tools import BY_NAME
from jsonschema import validate
from live_server import serving, until_connected
from real_repls import repl

PYTHON = '''
"""Shapes and their sizes."""

import os
from json import dumps

LIMIT = 3

class Round:
    """A round shape."""

def area(width, height=1, *, scale=LIMIT):
    """The area of a rectangle.

    In one unit.
    """
    return width * height

def _concealed(): ...
'''
LISP = """(ns shapes.core "Shapes and their sizes.")

(def limit 3)

(defn area
  "The area of a rectangle.
  In one unit."
  ([w] (area w w))
  ([w h] (* w h)))

(defmacro twice "Runs it two times." [x] `(do ~x ~x))

(defn- hidden [])
"""

pytestmark = pytest.mark.served("python", "lisp")


@pytest.fixture(scope="module")
def live(live):
    with live.client() as client:
        for name, file, text in (("py", "shapes.py", PYTHON), ("lpy", "shapes.lpy", LISP)):
            (live.workspace / file).write_text(text)
            loaded = client.call("load_file", filePath=file, replSessionKey=name, timeoutMs=120_000)
            assert loaded["ok"], loaded
    return live


def symbol_info(client, **arguments):
    """Return the answer, which must match its output schema."""
    answer = client.call("symbol_info", **arguments)
    validate(answer, BY_NAME["symbol_info"].output)
    return answer


def lines(client, key, symbol, **arguments):
    answer = symbol_info(client, symbol=symbol, replSessionKey=key, **arguments)
    assert answer["ok"], answer
    assert answer["count"] == len(answer["names"])
    return answer["names"]


def test_a_python_module_lists_its_public_names_one_per_line(client):
    assert lines(client, "py", "shapes") == [
        "LIMIT: int = 3", "Round() — A round shape.", "area(width, height=1, *, scale=3) — The area of a rectangle.",
    ]  # fmt: skip
    assert symbol_info(client, symbol="shapes", replSessionKey="py")["doc"] == "Shapes and their sizes."


def test_a_lisp_namespace_lists_its_public_names_one_per_line(client):
    expected = ["area [w] [w h] — The area of a rectangle.", "limit", "twice"]
    found = lines(client, "lpy", "shapes.core")
    assert [line if "twice" not in line else "twice" for line in found] == expected
    assert found[2].endswith("(macro) — Runs it two times.")


def test_an_alias_lists_the_names_of_its_namespace(client):
    client.call("evaluate_code", code="(require '[basilisp.string :as words])", replSessionKey="lpy")
    assert lines(client, "lpy", "words", namespace="user") == lines(client, "lpy", "basilisp.string")


def test_names_defined_in_the_session_are_listed_in_its_module(client):
    client.call("evaluate_code", code="def measure(x):\n    'Its length.'\n    import os", replSessionKey="py")
    assert "measure(x) — Its length." in lines(client, "py", "user")
    assert lines(client, "py", "*ASURE") == ["measure(x) — Its length."]


def test_a_matching_submodule_is_listed_once(live, client):
    folder = live.workspace / "emporium"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "price_list.py").write_text("")
    client.call("evaluate_code", code="import emporium.price_list", replSessionKey="py")
    assert lines(client, "py", "*price_li*") == ["emporium.price_list (module)"]


def test_a_pattern_finds_modules_and_names_where_they_are_defined(client):
    assert lines(client, "py", "*area*")[0].startswith("shapes.area(width, ")
    assert lines(client, "py", "shap*") == ["shapes (module) — Shapes and their sizes."]
    assert [line.partition("(")[0] for line in lines(client, "py", "*.dumps")] == ["json.dumps", "marshal.dumps"]
    (namespace,) = lines(client, "lpy", "shapes*")
    assert namespace.startswith("shapes.core (namespace)")
    assert lines(client, "lpy", "AREA*") == ["shapes.core/area [w] [w h] — The area of a rectangle."]
    assert len(lines(client, "lpy", "shapes.*/*")) == 3


def test_a_pattern_after_an_alias_searches_the_module(client):
    client.call("evaluate_code", code="import shapes as forms", replSessionKey="py")
    assert lines(client, "py", "forms.*are*") == lines(client, "py", "shapes.*are*") != []


def test_a_module_constant_is_described_without_the_doc_of_its_class(client):
    client.call("evaluate_code", code="import shapes", replSessionKey="py")
    found = symbol_info(client, symbol="shapes.LIMIT", replSessionKey="py")
    assert (found["ns"], found["extra"]["value"], "doc" in found) == ("shapes", "3", False)


def test_documentation_is_omitted_if_the_source_contains_it(client):
    for key, symbol in (("py", "shapes.area"), ("lpy", "shapes.core/area")):
        assert "In one unit." in symbol_info(client, symbol=symbol, replSessionKey=key)["doc"]
        found = symbol_info(client, symbol=symbol, replSessionKey=key, source=True)
        assert ("In one unit." in found["source"], "doc" in found) == (True, False)


def test_long_documentation_is_reduced_to_a_paragraph_if_the_source_omits_it(live, client):
    body = "".join(
        f"    total += {number}  # a long line so that the source exceeds an answer\n" for number in range(150)
    )
    doc = "Add numbers.\n\n" + "".join(f"    Detail {number} of the sum.\n" for number in range(40))
    code = f'def add_numbers(total):\n    """{doc}    """\n{body}    return total\n'
    (live.workspace / "sums.py").write_text(code)
    assert "Detail 39" in symbol_info(client, symbol="sums.add_numbers", replSessionKey="py")["doc"]
    found = symbol_info(client, symbol="sums.add_numbers", replSessionKey="py", source=True)
    assert ("(docstring)" in found["source"], found["doc"]) == (True, "Add numbers.")


def test_private_names_are_found_only_by_an_explicit_pattern(client):
    assert lines(client, "py", "*conceal*") == []
    assert lines(client, "py", "_conceal*") == ["shapes._concealed() :19"]


def test_a_name_containing_an_asterisk_is_looked_up_first(client):
    found = symbol_info(client, symbol="*ns*", replSessionKey="lpy")
    assert (found["name"], "names" in found) == ("*ns*", False)


def test_names_beyond_the_first_fifty_are_only_counted(client):
    answer = symbol_info(client, symbol="*e*", replSessionKey="lpy")
    assert answer["count"] <= 50
    assert answer["omitted"] > 100
    owners = [line.partition("/")[0] for line in answer["names"] if "/" in line.partition(" ")[0]]
    assert owners.index("shapes.core") < owners.index("basilisp.core"), "the user's own come first"


def test_a_search_without_matches_returns_an_empty_list_with_a_note(client):
    for key in ("py", "lpy"):
        assert lines(client, key, "*no-such-name-anywhere*") == []
        notes = symbol_info(client, symbol="*no-such-name-anywhere*", replSessionKey=key)["notes"]
        assert notes == ["no loaded name matches: load or import the code first"]


def test_listing_names_runs_no_user_code(client):
    code = (
        "class Loud:\n    def __repr__(self): raise SystemExit\n    def __getattr__(self, name): raise SystemExit\n"
        "loud = Loud()\ndef quiet(x=loud): ..."
    )
    client.call("evaluate_code", code=code, replSessionKey="py")
    assert lines(client, "py", "*loud") == ["Loud()", "loud: Loud"]
    assert lines(client, "py", "quie*") == ["quiet(x=...)"]


def source(client, key, symbol, **arguments):
    answer = symbol_info(client, symbol=symbol, replSessionKey=key, source=True, **arguments)
    assert answer["ok"], answer
    return answer.get("source")


def part_of(text, start, end):
    """Return the text of a file from `start` to `end`, without newlines at its end."""
    return text[text.index(start) : text.index(end)].rstrip("\n")


def numbered_part(text, start, end):
    """Return the numbered lines of a file from the line with `start` to the one before `end`."""
    first = text[: text.index(start)].count("\n") + 1
    lines = part_of(text, start, end).splitlines()
    width = len(str(first + len(lines) - 1))
    return "\n".join(f" {number:>{width}} {line}".rstrip() for number, line in enumerate(lines, first))


def test_source_code_has_line_numbers_in_lisp_but_not_in_python(client):
    assert source(client, "py", "shapes.area") == part_of(PYTHON, "def area", "\ndef _")
    assert source(client, "py", "shapes.Round") == 'class Round:\n    """A round shape."""'
    assert source(client, "py", "shapes.LIMIT") == "LIMIT = 3"
    assert source(client, "py", "json.dumps").startswith("def dumps(obj, ")
    assert source(client, "lpy", "shapes.core/area") == numbered_part(LISP, "(defn area", "\n\n(defmacro")
    assert re.match(r" \d+ \(defn map-indexed", source(client, "lpy", "map-indexed"))


def test_an_answer_with_the_source_repeats_neither_the_request_nor_what_the_source_contains(client):
    client.call("evaluate_code", code="import shapes", replSessionKey="py")
    found = symbol_info(client, symbol="shapes.area", replSessionKey="py", source=True)
    assert {*found} == {"ok", "file", "line", "source", "sessionKey"}
    assert (found["file"], PYTHON.splitlines()[found["line"] - 1]) == ("shapes.py", found["source"].partition("\n")[0])
    found = symbol_info(client, symbol="area", namespace="shapes", replSessionKey="py", source=True)
    assert (found["name"], found["ns"], "arglists" in found) == ("area", "shapes", False)


def test_a_docstring_is_left_out_only_if_the_code_does_not_fit_with_it(live, client):
    code = "".join(f"    value += {number}\n" for number in range(100))
    for name, words in (("short", "Words.\n" * 3), ("long", "Many words.\n" * 2000)):
        text = f'def {name}(value):\n    """Add.\n\n{words}    """\n{code}    return value\n'
        (live.workspace / f"{name}_doc.py").write_text(text)
        client.call("load_file", filePath=f"{name}_doc.py", replSessionKey="py")
    short = symbol_info(client, symbol="short_doc.short", source=True, replSessionKey="py")
    assert ("Words." in short["source"], "notes" in short) == (True, False)
    long = symbol_info(client, symbol="long_doc.long", source=True, replSessionKey="py")
    lines = long["source"].splitlines()
    assert (lines[0], lines[1]) == ("def long(value):", " 2-2004 (docstring)")
    assert (lines[-1], "notes" in long) == ("    return value", False)


def test_the_source_of_evaluated_code_is_returned_as_evaluated(client):
    code = "rate = 1\n@staticmethod\ndef paid(x):\n    return x\nclass Paid:\n    class Late:\n        fee = 2\n"
    client.call("evaluate_code", code=code, replSessionKey="py")
    client.call("evaluate_code", code="rate = [\n  2]", replSessionKey="py")
    assert source(client, "py", "rate") == "rate = [\n  2]"
    assert source(client, "py", "paid") == "@staticmethod\ndef paid(x):\n    return x\n"
    assert source(client, "py", "Paid.Late") == "    class Late:\n        fee = 2\n"
    client.call("evaluate_code", code="1 (defn paid\n  [x] x) 2", replSessionKey="lpy")
    assert source(client, "lpy", "paid") == "(defn paid\n  [x] x)"


def test_a_python_value_is_described_by_class_count_line_and_location(live, client):
    code = "prices = {'tea': [1, 2], 'long': 'x' * 500}\nmany = list(range(1000))\nvast = 10 ** 5000\nempty = set()"
    client.call("evaluate_code", code=code, replSessionKey="py")
    found = symbol_info(client, symbol="prices", replSessionKey="py")
    message = {"type": "variable", "class": "dict", "count": "2", "value": "{'tea': [1, 2], 'long': <str of 500>}"}
    assert (found["extra"], found["line"]) == (message, 1)
    assert (
        symbol_info(client, symbol="many", replSessionKey="py")["extra"]["value"]
        == "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...]"
    )
    assert symbol_info(client, symbol="vast", replSessionKey="py")["extra"]["value"] == "<int of 16610 bits>"
    assert symbol_info(client, symbol="empty", replSessionKey="py")["extra"]["value"] == "set()"
    limit = symbol_info(client, symbol="shapes.LIMIT", replSessionKey="py")
    assert (limit["file"], limit["line"], limit["extra"]["value"]) == ("shapes.py", 7, "3")


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("lisp", ("basilisp.lang.map.PersistentMap", "<basilisp.lang.seq.LazySeq>", "str")),
        ("jvm", ("clojure.lang.PersistentArrayMap", "<clojure.lang.Iterate>", "String")),
        ("nbb", ("map", "<seq>", "String")),
        ("basilisp", ("basilisp.lang.map.PersistentMap", "<basilisp.lang.seq.LazySeq>", "String")),
    ],
)
def test_a_lisp_value_is_described_by_class_count_and_one_line(tmp_path, name, kinds):
    code = (
        f'(def prices {{:tea [1 2] "long" "{"x" * 500}"}})\n(def many (vec (range 1000)))\n(def lazy [(iterate inc 0)])'
    )
    with serving(tmp_path, "--nrepl", f"r={repl(name).endpoint}", "--repl", "none") as live, live.client() as client:
        until_connected(client)
        assert client.call("evaluate_code", code=code, timeoutMs=120_000)["ok"]
        found = symbol_info(client, symbol="prices")["extra"]
        assert (found["class"], found["count"]) == (kinds[0], "2")
        assert f'"long" <{kinds[2]} of 500>' in found["value"]
        assert ":tea [1 2]" in found["value"]
        assert symbol_info(client, symbol="many")["extra"]["value"] == "[0 1 2 3 4 5 6 7 8 9 ...]"
        assert symbol_info(client, symbol="lazy")["extra"]["value"] == f"[{kinds[1]}]"


def test_a_hy_value_is_described_by_class_count_and_one_line(tmp_path):
    code = """(setv prices {"tea" [1 2] "long" (* "x" 500)} the-many (list (range 1000)))
    (defclass Mute [] (defn __repr__ [self] (raise SystemExit))) (setv held [(Mute)])"""
    with serving(tmp_path, "--nrepl", f"r={repl('hy').endpoint}", "--repl", "none") as live, live.client() as client:
        until_connected(client)
        assert client.call("evaluate_code", code=code)["ok"]
        found = symbol_info(client, symbol="prices")["extra"]
        assert (found["class"], found["count"]) == ("dict", "2")
        assert found["value"] == "{'tea': [1, 2], 'long': <str of 500>}"
        assert symbol_info(client, symbol="the-many")["extra"]["value"] == "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...]"
        assert symbol_info(client, symbol="held")["extra"]["value"] == "[<Mute>]"


def test_an_instance_of_a_user_class_is_described_without_calling_it(client):
    code = "class Mute:\n    def __repr__(self): raise SystemExit\nmute = Mute()\nheld = [Mute()]"
    client.call("evaluate_code", code=code, replSessionKey="py")
    assert symbol_info(client, symbol="mute", replSessionKey="py")["extra"] == {
        "type": "variable",
        "class": "__main__.Mute",
    }
    assert symbol_info(client, symbol="held", replSessionKey="py")["extra"]["value"] == "[<__main__.Mute>]"


def test_an_unknown_source_is_reported_as_unknown(client):
    answer = symbol_info(client, symbol="len", source=True, replSessionKey="py")
    assert (answer["ok"], "source" in answer, "is unknown" in answer["notes"][0]) == (True, False, True)


def test_a_long_source_is_truncated_with_a_pointer_to_the_rest(live, client):
    (live.workspace / "long.py").write_text("def endless():\n" + "    x = 1\n" * 3000)
    client.call("load_file", filePath="long.py", replSessionKey="py")
    answer = symbol_info(client, symbol="endless", namespace="long", source=True, replSessionKey="py")
    displayed = answer["source"].count("\n")
    assert 100 < displayed < 3000
    place = f"{live.workspace / 'long.py'} from line {displayed + 1} on"
    assert answer["notes"] == [f"source has the first {displayed} of 3002 lines. The rest is in {place}"]


def test_names_are_listed_while_the_session_is_busy(live, client):
    gate = live.workspace / "gate"
    code = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)"
    began = client.call("evaluate_code", code=code, timeoutMs=1000, replSessionKey="py")
    assert began["status"] == "running"
    assert lines(client, "py", "area*")
    gate.touch()
    ended = client.call("get_evaluation", evaluationId=began["evaluationId"], waitMs=20_000)
    assert ended["status"] == "done"


def test_secrets_are_redacted_in_lists_of_names_even_if_truncated(tmp_path, monkeypatch):
    monkeypatch.setenv("SHOP_TOKEN", secret := "s3cr3t-" + "x" * 200)
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        until_connected(client)
        client.call("evaluate_code", code="import os\ndef leak(): ...\nleak.__doc__ = os.environ['SHOP_TOKEN']")
        assert os.environ["SHOP_TOKEN"] == secret
        assert symbol_info(client, symbol="leak*")["names"] == ["leak() — <<redacted:SHOP_TOKEN>>"]
        client.call("evaluate_code", code="word = 'a' * 700 + os.environ['SHOP_TOKEN']")
        reported = symbol_info(client, symbol="word")["extra"]["value"]
        assert (secret[:8] in reported, reported.startswith("'aaa")) == (False, True)


DEFINE = {
    "jvm": LISP.replace("shapes.core", "jvm.shapes"),
    "nbb": LISP.replace("shapes.core", "nbb.shapes"),
    "basilisp": LISP.replace("shapes.core", "basilisp-shapes"),
}


@pytest.mark.parametrize("name", DEFINE)
def test_a_real_lisp_lists_its_names(tmp_path, name):
    space = DEFINE[name].partition(" ")[2].partition(" ")[0]
    with serving(tmp_path, "--nrepl", f"r={repl(name).endpoint}", "--repl", "none") as live, live.client() as client:
        until_connected(client)
        assert client.call("evaluate_code", code=DEFINE[name], replSessionKey="r")["ok"]
        found = lines(client, "r", space)
        assert found[:2] == ["area [w] [w h] — The area of a rectangle.", "limit"]
        assert found[2].startswith("twice ")
        assert len(found) == 3
        assert lines(client, "r", f"{space[:5]}*/AREA") == [f"{space}/area [w] [w h] — The area of a rectangle."]
        matching = symbol_info(client, symbol="*map*")
        assert matching["count"] <= 50
        assert any(line.split()[0].endswith(".core/map-indexed") for line in matching["names"])
        assert source(client, "r", f"{space}/area") == LISP[LISP.index("(defn area") : LISP.index("\n\n(defmacro")]
        if name != "nbb":  # whose files are bundled in its program
            assert re.match(r" \d+ \(defn map-indexed", source(client, "r", "map-indexed"))
        refused = symbol_info(client, symbol="no.such.namespace")
        assert refused["reason"] == "unknown-symbol"


def test_hy_lists_names_of_modules_and_of_the_session(tmp_path):
    with serving(tmp_path, "--nrepl", f"r={repl('hy').endpoint}", "--repl", "none") as live, live.client() as client:
        until_connected(client)
        code = '(import json) (defn area-of [w [h 1]] "The area." (* w h))'
        assert client.call("evaluate_code", code=code)["ok"]
        assert source(client, "r", "area-of").startswith("(defn area-of [w")
        assert lines(client, "r", "area-o*") == ["area_of(w, h) — The area."]
        assert any(line.startswith("dumps(obj, ") for line in lines(client, "r", "json"))


def test_a_repl_of_an_unknown_dialect_evaluates_but_cannot_search(tmp_path):
    options = ("--nrepl", f"r={repl(real_repls.UNKNOWN).endpoint}", "--repl", "none")
    with serving(tmp_path, *options) as live, live.client() as client:
        until_connected(client)
        assert client.call("evaluate_code", code="(+ 1 2)")["result"] == "3"
        answer = symbol_info(client, symbol="*map*")
        assert answer["reason"] == "capability-missing"
        assert answer["hint"]
