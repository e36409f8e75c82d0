import os
import sys
from pathlib import Path

import pytest

from codriver.repls.kinds import by_word
from codriver.repls.launch import recipes
from codriver.repls.launch.recipes import RecipeError, recipe


def install(folder, name, text="#!/bin/sh\n"):
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(text)
    program.chmod(0o755)
    return program


@pytest.fixture
def place(tmp_path):
    """An empty workspace, and an environment in which nothing is installed."""
    (tmp_path / "work").mkdir()
    (tmp_path / "bin").mkdir()
    return tmp_path / "work", {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}


def test_python_runs_in_the_active_environment_first(place, tmp_path):
    workspace, environ = place
    active = install(tmp_path / "active/bin", "python")
    install(workspace / ".venv/bin", "python")
    made = recipe("python", workspace, {**environ, "VIRTUAL_ENV": str(tmp_path / "active")})
    assert made.command == (
        str(active), str(recipes.WORKER), "--dialect", "python", "--supervised", "--workspace", str(workspace)
    )  # fmt: skip
    assert by_word()["python"].key == "py"


@pytest.mark.parametrize("name", [".venv", "venv"])
def test_python_runs_in_the_projects_own_environment(place, name):
    workspace, environ = place
    own = install(workspace / name / "bin", "python")
    assert recipe("python", workspace, environ).command[0] == str(own)


def test_python_runs_with_python3_of_path_else_with_our_own(place):
    workspace, environ = place
    assert recipe("python", workspace, environ).command[0] == sys.executable
    found = install(Path(environ["PATH"]), "python3")
    assert recipe("python", workspace, environ).command[0] == str(found)


def test_lisp_says_whose_interpreter_is_used_when_the_projects_has_no_basilisp(place):
    pytest.importorskip("basilisp", reason="install codriver[lisp]")
    workspace, environ = place
    install(workspace / ".venv/bin", "python")
    made = recipe("lisp", workspace, environ)
    assert made.command[0] == sys.executable
    assert "has no Basilisp" in made.notes[0]


def test_lisp_runs_in_the_projects_interpreter_when_it_has_basilisp(place):
    workspace, environ = place
    own = install(workspace / ".venv/bin", "python")
    library = workspace / ".venv/lib/python3.12/site-packages/basilisp"
    library.mkdir(parents=True)
    (library / "__init__.py").touch()
    assert recipe("lisp", workspace, environ).command[0] == str(own)


def test_no_child_is_told_to_write_no_bytecode(place):
    workspace, environ = place
    made = recipe("python", workspace, {**environ, "PYTHONDONTWRITEBYTECODE": "1", "OTHER": "x"})
    assert made.env == {**environ, "OTHER": "x"}


def test_the_clojure_cli_is_given_nrepl_and_the_flag_to_interrupt(place):
    workspace, environ = place
    install(Path(environ["PATH"]), "clojure", "#!/bin/sh\n# knows -Sdeps\n")
    made = recipe("clj", workspace, environ)
    assert made.command[1] == "-J-Djdk.attach.allowAttachSelf"
    assert "nrepl/nrepl" in made.command[3]
    assert made.port_file == workspace / ".nrepl-port"


def test_debians_launcher_is_no_clojure_cli_so_its_jars_are_used(place, tmp_path, monkeypatch):
    workspace, environ = place
    install(Path(environ["PATH"]), "clojure", "#!/bin/sh\nexec java\n")
    java = install(Path(environ["PATH"]), "java")
    monkeypatch.setattr(recipes, "JAR_FOLDERS", (tmp_path / "jars",))
    with pytest.raises(RecipeError, match="apt install clojure libnrepl-clojure"):
        recipe("clojure", workspace, environ)
    (tmp_path / "jars").mkdir()
    for name in ("clojure", "spec.alpha", "core.specs.alpha", "nrepl"):
        (tmp_path / "jars" / f"{name}.jar").touch()
    (workspace / "src").mkdir()
    (workspace / "deps.edn").touch()
    made = recipe("clojure", workspace, environ)
    assert made.command[0] == str(java)
    assert made.command[3].split(os.pathsep)[0] == str(workspace / "src")
    assert "deps.edn is not read" in made.notes[1]


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("clojure", "install a JDK"),
        ("lein", r"leiningen\.org"),
        ("bb", r"babashka\.org"),
        ("nbb", "npm install nbb"),
        ("shadow-cljs", "npm install --save-dev shadow-cljs"),
        ("no-such-repl --x", "no command 'no-such-repl' in PATH"),
        ("sh 'unclosed", "no command line"),
        ("", "names nothing"),
    ],
)
def test_what_cannot_work_here_says_what_to_install(place, words, advice):
    workspace, environ = place
    with pytest.raises(RecipeError, match=advice):
        recipe(words, workspace, environ)


def test_a_program_of_the_projects_node_modules_is_found_first(place):
    workspace, environ = place
    install(Path(environ["PATH"]), "nbb")
    own = install(workspace / "node_modules/.bin", "nbb")
    assert recipe("nbb", workspace, environ).command == (str(own), "nrepl-server")


def test_any_command_line_is_taken_as_it_is(place):
    workspace, environ = place
    install(Path(environ["PATH"]), "mine")
    made = recipe("mine --port 'a b'", workspace, environ)
    assert made.command == ("mine", "--port", "a b")
    assert made.port_file == workspace / ".nrepl-port"


@pytest.mark.parametrize(
    ("words", "program"),
    [("python", ".venv/bin/python"), ("nbb", "node_modules/.bin/nbb"), ("./mine", "mine"), ("hy", "venv/bin/hy")],
)
def test_no_program_of_a_workspace_that_nobody_accepted_is_started(place, words, program):
    workspace, environ = place
    own = workspace / program
    for name in {own.name, "python"} if "bin/" in program else {own.name}:
        install(own.parent, name)
    assert str(own) in str(workspace / recipe(words, workspace, environ).command[0])
    with pytest.raises(RecipeError, match=r"nobody has accepted.*codriver trust"):
        recipe(words, workspace, environ, is_accepted=False)


def test_an_active_environment_in_a_workspace_that_nobody_accepted_is_none(place):
    workspace, environ = place
    install(workspace / "mine" / "bin", "python")
    environ = {**environ, "VIRTUAL_ENV": str(workspace / "mine")}
    with pytest.raises(RecipeError, match="lies in the workspace"):
        recipe("python", workspace, environ, is_accepted=False)


def test_what_lies_elsewhere_is_started_in_any_workspace(place):
    workspace, environ = place
    install(Path(environ["PATH"]), "bb")
    assert recipe("bb", workspace, environ, is_accepted=False) == recipe("bb", workspace, environ)
