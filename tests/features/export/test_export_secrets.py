"""Sensitive values of an application in exports and replays: no document, report or line contains one, in any
format.
"""

import shutil

import pytest
import real_repls
from alike import rounds
from live_server import serving, until
from needs import NODE_MODULES
from seam_lisp import SEAM, compiled_seam

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
FORMATS = {"test": "test_it.py", "notebook": "it.ipynb"}


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("secrets"), "--repl", "python") as running:
        (running.workspace / "shop.py").write_text(SHOP)
        with running.client() as client:
            for code in STEPS:
                client.call("evaluate_code", code=code, timeoutMs=60_000)
        yield running


@pytest.mark.parametrize("form", FORMATS)
def test_no_document_or_message_contains_a_sensitive_value(live, form):
    file = live.workspace / FORMATS[form]
    done = live.run("export", "--last", str(len(STEPS)), "--format", form, "-o", str(file))
    assert done.returncode == 0, done.stderr
    written = file.read_text()
    assert "1 + 2" in written
    for text in (written, done.stdout, done.stderr):
        assert TOKEN not in text
        assert "hunter2" not in text


def test_a_replay_prints_no_sensitive_value_that_its_recording_lacked(live):
    recording, report = live.workspace / "it.jsonl", live.workspace / "report.xml"
    done = live.run("export", "--last", str(len(STEPS)), "--format", "recording", "-o", str(recording))
    assert done.returncode == 0, done.stderr
    replayed = live.run("replay", str(recording), "--junit", str(report))
    assert "evaluations: " in replayed.stdout, replayed.stderr
    for text in (recording.read_text(), replayed.stdout, replayed.stderr, report.read_text()):
        assert "hunter2" not in text


def test_a_replay_prints_no_sensitive_value_in_a_difference(live):
    """The recorded value has no mark and the new one is a secret: both texts of the difference would reveal it."""
    recording, report = live.workspace / "other.jsonl", live.workspace / "other.xml"
    live.run("export", "--last", str(len(STEPS)), "--format", "recording", "-o", str(recording))
    recording.write_text(recording.read_text().replace("<<redacted:shop user.token>>", "nothing at all"))
    replayed = live.run("replay", str(recording), "--junit", str(report))
    assert replayed.returncode == 1
    assert "<<redacted:shop user.token>>" in replayed.stdout
    assert "hunter2" not in replayed.stdout + replayed.stderr + report.read_text()


LISP = f"""
(ns shop (:require [codriver.seam :as seam]))
(seam/install! true)
(def db (atom {{:user {{:name "ann" :token "{TOKEN}"}}}}))
(defn login [] (throw (ex-info (get-in @db [:user :token]) {{}})))
(defn show [] (println (get-in @db [:user :token])))
(seam/watch-atom! :shop db {{:sensitive [[:user :token]]}})
"""
LISP_STEPS = (
    "(require 'shop)",
    "@shop/db",
    "(get-in @shop/db [:user :token])",
    "(shop/show)",
    "(+ 1 2)",
    "(shop/login)",
)


@pytest.fixture(scope="module", params=rounds(["nbb", "jvm"], ["nbb"]))
def lisp(request, tmp_path_factory):
    """Run a server with an external Lisp REPL whose application declares a value sensitive."""
    real_repls.need(request.param)
    word, ending = {"jvm": ("clojure", "clj"), "nbb": ("nbb", "cljs")}[request.param]
    seam = compiled_seam() if request.param == "jvm" else None
    folder = tmp_path_factory.mktemp(request.param)
    with real_repls.short_lived_recipes(), serving(folder, "--repl", word) as live:
        source = live.workspace / "src"
        shutil.copytree(seam or SEAM, source)
        (source / f"shop.{ending}").write_text(LISP)
        if request.param == "nbb":
            (live.workspace / "nbb.edn").write_text('{:paths ["src"]}')
            (live.workspace / "node_modules").symlink_to(NODE_MODULES)
        with live.client() as client:
            until(lambda: "evaluate_code" in client.tools(), "the REPL's tools")
            for code in LISP_STEPS:
                client.call("evaluate_code", code=code, timeoutMs=60_000)
        yield live


def test_no_lisp_document_or_message_contains_a_sensitive_value(lisp):
    [application] = (lisp.workspace / "src").glob("shop.*")
    file = lisp.workspace / f"test_it{application.suffix}"
    done = lisp.run("export", "--last", str(len(LISP_STEPS)), "--format", "test", "-o", str(file))
    assert done.returncode == 0, done.stderr
    written = file.read_text()
    assert "(+ 1 2)" in written
    assert "Left out" not in written, "the application is in the fresh REPL too"
    for text in (written, done.stdout, done.stderr):
        assert "hunter2" not in text


def test_a_lisp_replay_prints_no_sensitive_value(lisp):
    """With and without a mark in place of the value, as if something else had been there."""
    recording, report = lisp.workspace / "it.jsonl", lisp.workspace / "it.xml"
    done = lisp.run("export", "--last", str(len(LISP_STEPS)), "-o", str(recording))
    assert done.returncode == 0, done.stderr
    head, *marked = recording.read_text().splitlines(keepends=True)
    assert sum("<<redacted:shop>>" in row for row in marked) == 4
    unmarked = [row.replace("<<redacted:shop>>", "nothing at all") for row in marked]
    recording.write_text("".join([head, *marked, *unmarked]))
    replayed = lisp.run("replay", str(recording), "--junit", str(report))
    assert f"{2 * len(LISP_STEPS)} evaluations: " in replayed.stdout, replayed.stderr
    assert "nothing at all" in replayed.stdout
    for output in (recording.read_text(), replayed.stdout, replayed.stderr, report.read_text()):
        assert "hunter2" not in output
