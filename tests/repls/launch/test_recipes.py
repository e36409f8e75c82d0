import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from linked_tree import git, linked_tree, write
from live_server import serving, until
from needs import do_without, modules

from codriver.repls.kinds import kinds_by_word
from codriver.repls.launch import recipes
from codriver.repls.launch.projects import NOT_ACCEPTED, Acceptance
from codriver.repls.launch.recipes import RecipeError, find_recipe
from codriver.repls.worker.serving import start
from codriver_relay.starter import CLIENT_PYTHONPATH_VARIABLE


def nobody(_folder):
    """Return an acceptance: the user has accepted nothing."""
    return NOT_ACCEPTED


def install(folder, name, text="#!/bin/sh\n"):
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(text)
    program.chmod(0o755)
    return program


@pytest.fixture
def workspace_and_environ(tmp_path):
    """Create an empty workspace, and an environment in which nothing is installed."""
    (tmp_path / "work").mkdir()
    (tmp_path / "bin").mkdir()
    return tmp_path / "work", {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}


def test_the_active_environment_takes_precedence(workspace_and_environ, tmp_path):
    workspace, environ = workspace_and_environ
    active = install(tmp_path / "active/bin", "python")
    install(workspace / ".venv/bin", "python")
    made = find_recipe("python", workspace, {**environ, "VIRTUAL_ENV": str(tmp_path / "active")})
    assert made.command == (
        str(active), str(recipes.WORKER_PROGRAM), "--dialect", "python", "--supervised", "--workspace", str(workspace)
    )  # fmt: skip
    assert kinds_by_word()["python"].key == "py"


@pytest.mark.parametrize("name", [".venv", "venv"])
def test_python_runs_in_the_projects_own_environment(workspace_and_environ, name):
    workspace, environ = workspace_and_environ
    own = install(workspace / name / "bin", "python")
    assert find_recipe("python", workspace, environ).command[0] == str(own)


def test_python_falls_back_to_python3_on_path_and_then_to_the_interpreter_of_the_server(workspace_and_environ):
    workspace, environ = workspace_and_environ
    assert find_recipe("python", workspace, environ).command[0] == sys.executable
    found = install(Path(environ["PATH"]), "python3")
    assert find_recipe("python", workspace, environ).command[0] == str(found)


def test_lisp_runs_in_the_servers_interpreter_with_a_note_if_the_project_lacks_basilisp(workspace_and_environ):
    modules("basilisp")
    workspace, environ = workspace_and_environ
    install(workspace / ".venv/bin", "python")
    made = find_recipe("lisp", workspace, environ)
    assert made.command[0] == sys.executable
    assert "has no Basilisp" in made.notes[0]


def test_lisp_runs_in_the_project_interpreter_if_it_has_basilisp(workspace_and_environ):
    workspace, environ = workspace_and_environ
    own = install(workspace / ".venv/bin", "python")
    library = workspace / ".venv/lib/python3.12/site-packages/basilisp"
    library.mkdir(parents=True)
    (library / "__init__.py").touch()
    assert find_recipe("lisp", workspace, environ).command[0] == str(own)


def test_child_processes_may_write_bytecode(workspace_and_environ):
    workspace, environ = workspace_and_environ
    made = find_recipe("python", workspace, {**environ, "PYTHONDONTWRITEBYTECODE": "1", "OTHER": "x"})
    assert made.env == {**environ, "OTHER": "x"}


def test_the_clojure_cli_gets_nrepl_and_the_flag_that_allows_interrupts(workspace_and_environ):
    workspace, environ = workspace_and_environ
    install(Path(environ["PATH"]), "clojure", "#!/bin/sh\n# knows -Sdeps\n")
    made = find_recipe("clj", workspace, environ)
    assert made.command[1] == "-J-Djdk.attach.allowAttachSelf"
    assert "nrepl/nrepl" in made.command[3]
    assert made.port_file == workspace / ".nrepl-port"


def test_clojure_from_debian_is_started_with_its_installed_jars(workspace_and_environ, tmp_path, monkeypatch):
    workspace, environ = workspace_and_environ
    install(Path(environ["PATH"]), "clojure", "#!/bin/sh\nexec java\n")
    java = install(Path(environ["PATH"]), "java")
    monkeypatch.setattr(recipes, "JAR_DIRECTORIES", (tmp_path / "jars",))
    with pytest.raises(RecipeError, match="apt install clojure libnrepl-clojure"):
        find_recipe("clojure", workspace, environ)
    (tmp_path / "jars").mkdir()
    for name in ("clojure", "spec.alpha", "core.specs.alpha", "nrepl"):
        (tmp_path / "jars" / f"{name}.jar").touch()
    (workspace / "src").mkdir()
    (workspace / "deps.edn").touch()
    made = find_recipe("clojure", workspace, environ)
    assert made.command[0] == str(java)
    assert made.command[3].split(os.pathsep)[0] == str(workspace / "src")
    assert made.notes[1].startswith("without the Clojure CLI (clojure.org/guides), nothing from deps.edn can be used")
    for name in ("src/main", "lib", "test"):
        (workspace / name).mkdir(parents=True)
    paths = '["lib" :shared #_"old" "src/main" "gone"]'
    (workspace / "deps.edn").write_text(f"; of the shop\n{{:deps {{}}, #_:paths #_[]\n :paths {paths}}}")
    made = find_recipe("clojure", workspace, environ)
    sources = [str(workspace / name) for name in ("lib", "src/main", "test")]
    assert made.command[3].split(os.pathsep)[:3] == sources
    assert "only :paths" in made.notes[1]
    assert made.notes[1].endswith("the classpath contains lib, src/main, test")
    (workspace / "deps.edn").write_text("{:paths [")
    assert find_recipe("clojure", workspace, environ).command[3].split(os.pathsep)[0] == str(workspace / "src")


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("clojure", "Install a JDK"),
        ("lein", r"leiningen\.org"),
        ("bb", r"babashka\.org"),
        ("nbb", "npm install nbb"),
        ("shadow-cljs", "npm install --save-dev shadow-cljs"),
        ("no-such-repl --x", "no command 'no-such-repl' in PATH"),
        ("sh 'unclosed", "not a valid command line"),
        ("", "the command line is empty"),
    ],
)
def test_a_missing_program_is_reported_with_what_to_install(workspace_and_environ, words, advice):
    workspace, environ = workspace_and_environ
    with pytest.raises(RecipeError, match=advice):
        find_recipe(words, workspace, environ)


def test_the_error_for_a_missing_hy_server_says_what_to_install(workspace_and_environ):
    workspace, environ = workspace_and_environ
    install(workspace / "venv" / "bin", "python")
    install(workspace / "venv" / "bin", "hy")
    ((words, remedy),) = find_recipe("hy", workspace, environ).remedies
    assert words == "No module named 'hy_nrepl'"
    missing = f"{workspace / 'venv' / 'bin' / 'hy'} exists, but hy-nrepl is not installed in the same environment"
    assert remedy == f"{missing}; run `pip install hy hy-nrepl` in that environment"


def test_a_failed_start_is_reported_with_advice_and_not_retried_by_each_evaluation(tmp_path):
    workspace = tmp_path / "workspace"
    install(workspace / "venv" / "bin", "python")
    reported = "ImportError: (ModuleNotFoundError: No module named 'hy_nrepl')"
    install(workspace / "venv" / "bin", "hy", f'#!/bin/sh\necho x >> starts\necho "{reported}" >&2\nexit 1\n')
    with serving(tmp_path, "--repl", "hy") as live, live.client() as client:
        answer = str(client.call("evaluate_code", code="1", timeoutMs=60_000))
        assert "run `pip install hy hy-nrepl` in that environment" in answer
        assert (workspace / "starts").read_text() == "x\n"


def test_a_program_in_node_modules_takes_precedence_over_one_on_path(workspace_and_environ):
    workspace, environ = workspace_and_environ
    install(Path(environ["PATH"]), "nbb")
    own = install(workspace / "node_modules/.bin", "nbb")
    assert find_recipe("nbb", workspace, environ).command == (str(own), "nrepl-server")


def test_the_program_of_a_custom_command_line_is_resolved_to_its_path(workspace_and_environ):
    workspace, environ = workspace_and_environ
    mine = install(Path(environ["PATH"]), "mine")
    made = find_recipe("mine --port 'a b'", workspace, environ)
    assert made.command == (str(mine), "--port", "a b")
    own = install(workspace / "node_modules/.bin", "other")
    assert find_recipe("other nrepl-server", workspace, environ).command == (str(own), "nrepl-server")
    assert made.port_file == workspace / ".nrepl-port"


@pytest.mark.parametrize(
    ("words", "program"),
    [("python", ".venv/bin/python"), ("nbb", "node_modules/.bin/nbb"), ("./mine", "mine")],
)
def test_no_program_in_an_untrusted_workspace_is_started(workspace_and_environ, words, program):
    workspace, environ = workspace_and_environ
    own = workspace / program
    for name in {own.name, "python"} if "bin/" in program else {own.name}:
        install(own.parent, name)
    assert str(own) in str(workspace / find_recipe(words, workspace, environ).command[0])
    if words == "python":
        made = find_recipe(words, workspace, environ, acceptance_of=nobody)
        assert made.command[0] == sys.executable
        own = "not the project's own environment"
        assert made.caution == (
            f"this is {sys.executable}, {own}: to use that one, ask your human to run: codriver trust (in {workspace})"
        )
        return
    with pytest.raises(
        RecipeError, match=rf"nobody has accepted.*ask your human to run: codriver trust \(in {workspace}\)"
    ):
        find_recipe(words, workspace, environ, acceptance_of=nobody)


def test_a_python_on_path_outside_an_untrusted_workspace_is_used(workspace_and_environ, tmp_path):
    workspace, environ = workspace_and_environ
    install(workspace / ".venv/bin", "python")
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    assert find_recipe("python", workspace, environ, acceptance_of=nobody).command[0] == str(
        tmp_path / "bin" / "python3"
    )


@pytest.mark.parametrize("path", ["bin", ".", "", "{workspace}/bin", "{link}", "{linked}"])
def test_a_python_on_path_inside_an_untrusted_checkout_is_not_run_even_through_links(
    workspace_and_environ, tmp_path, path
):
    workspace, environ = workspace_and_environ
    ran = tmp_path / "ran"
    for folder in ("bin", "."):
        install(workspace / folder, "python3", f"#!/bin/sh\necho x >> {ran}\n")
    (tmp_path / "link").symlink_to(workspace / "bin")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "python3").symlink_to(workspace / "bin" / "python3")
    places = {"workspace": workspace, "link": tmp_path / "link", "linked": tmp_path / "linked"}
    environ["PATH"] = path.format(**places) + os.pathsep + environ["PATH"]
    assert find_recipe("python", workspace, environ, acceptance_of=nobody).command[0] == sys.executable
    assert not ran.exists()


def test_querying_a_python_shim_for_its_interpreter_reads_no_file_of_the_checkout(workspace_and_environ, tmp_path):
    workspace, environ = workspace_and_environ
    reported = tmp_path / "told"
    shim = f'#!/bin/sh\n/bin/pwd > {reported}\nenv >> {reported}\nexec {sys.executable} "$@"\n'
    install(tmp_path / "bin", "python3", shim)
    environ |= {"PATH": f"{environ['PATH']}:/usr/bin:/bin", "PWD": str(workspace), "PYENV_DIR": str(workspace)}
    environ |= {"SHIM_FILE": f"{workspace}/.python-version", "PYTHONHOME": "x", "BASH_ENV": f"{workspace}/x"}
    assert find_recipe("python", workspace, environ, acceptance_of=nobody).command[0] == sys.executable
    assert reported.read_text().startswith("/\n")
    assert str(workspace) not in reported.read_text()
    assert "PYTHONHOME" not in reported.read_text()


@pytest.mark.parametrize("text", ["exit 1", "echo", "echo relative/python", "echo {workspace}/.venv/bin/python"])
def test_a_python_on_path_that_reports_no_valid_location_is_not_used(workspace_and_environ, tmp_path, text):
    workspace, environ = workspace_and_environ
    install(tmp_path / "bin", "python3", f"#!/bin/sh\n{text.format(workspace=workspace)}\n")
    assert find_recipe("python", workspace, environ, acceptance_of=nobody).command[0] == sys.executable


def test_no_program_of_an_untrusted_main_checkout_is_started_in_linked_trees(workspace_and_environ, tmp_path):
    workspace, environ = workspace_and_environ
    linked = tmp_path / "linked"
    git("init", "-q", str(workspace))
    git("-C", str(workspace), "commit", "-q", "--allow-empty", "-m", "a")
    git("-C", str(workspace), "worktree", "add", "-q", str(linked))
    own = install(workspace / ".venv/bin", "python")
    assert find_recipe("python", linked, environ).command[0] == str(own)
    made = find_recipe("python", linked, environ, acceptance_of=lambda item: Acceptance(item == linked))
    assert made.command[0] == sys.executable
    assert made.caution.endswith(f"ask your human to run: codriver trust (in {workspace})")
    assert made.awaits_trust
    assert find_recipe("python", linked, environ, acceptance_of=lambda item: Acceptance(item == workspace)).command[
        0
    ] == str(own)


def test_an_active_environment_in_an_untrusted_workspace_is_ignored(workspace_and_environ):
    workspace, environ = workspace_and_environ
    install(workspace / "mine" / "bin", "python")
    environ = {**environ, "VIRTUAL_ENV": str(workspace / "mine")}
    made = find_recipe("python", workspace, environ, acceptance_of=nobody)
    assert (made.command[0], "codriver trust" in made.caution) == (sys.executable, True)


@pytest.mark.parametrize("words", ["bb --main mine", "shadow-cljs"])
def test_repls_that_run_project_files_are_not_started_in_an_untrusted_workspace(workspace_and_environ, words):
    workspace, environ = workspace_and_environ
    for name in ("bb", "shadow-cljs"):
        install(Path(environ["PATH"]), name)
    assert find_recipe(words, workspace, environ).command
    with pytest.raises(RecipeError, match=r"nobody has accepted this checkout.*codriver trust.*runs project files"):
        find_recipe(words, workspace, environ, acceptance_of=nobody)


@pytest.mark.parametrize(("words", "program"), [("bb", "bb"), ("lein", "lein"), ("clojure", "lein"), ("hy", "hy")])
def test_a_lisp_repl_of_an_untrusted_workspace_starts_in_an_empty_directory(workspace_and_environ, words, program):
    workspace, environ = workspace_and_environ
    install(workspace / "node_modules" / ".bin", program)
    install(workspace / ".venv" / "bin", program)
    own = install(Path(environ["PATH"]), program)
    within = {
        "PATH": f"{workspace}/node_modules/.bin:bin:{environ['PATH']}",
        "NODE_OPTIONS": f"--require {workspace}/x",
    }
    made = find_recipe(words, workspace, {**environ, **within, "PWD": str(workspace)}, acceptance_of=nobody)
    assert made.command[0] in {str(own), str(Path(sys.executable).parent / program)}
    assert str(workspace) not in f"{made.command} {made.env} {made.port_file}"
    assert (made.is_apart, made.awaits_trust) == (True, True)
    assert made.caution.startswith("this is a plain ")
    assert made.caution.endswith(
        f"to use the project's own REPL, ask your human to run: codriver trust (in {workspace})"
    )


def test_a_jvm_repl_uses_no_file_of_an_untrusted_checkout(workspace_and_environ, tmp_path, monkeypatch):
    workspace, environ = workspace_and_environ
    install(Path(environ["PATH"]), "java")
    monkeypatch.setattr(recipes, "JAR_DIRECTORIES", (tmp_path / "jars",))
    (tmp_path / "jars").mkdir()
    for name in ("clojure", "spec.alpha", "core.specs.alpha", "nrepl"):
        (tmp_path / "jars" / f"{name}.jar").touch()
    (workspace / "src").mkdir()
    (workspace / "deps.edn").write_text('{:paths ["src"]}')
    assert str(workspace / "src") in str(find_recipe("clojure", workspace, environ).command)
    assert str(workspace) not in str(find_recipe("clojure", workspace, environ, acceptance_of=nobody).command)


def test_the_embedded_worker_is_started_in_any_workspace(workspace_and_environ):
    workspace, environ = workspace_and_environ
    accepted, unaccepted = (
        find_recipe("python", workspace, environ),
        find_recipe("python", workspace, environ, acceptance_of=nobody),
    )
    program, *arguments = accepted.command
    assert unaccepted.command == (program, "-I", *arguments, "--unaccepted")
    assert (accepted.awaits_trust, unaccepted.awaits_trust) == (False, True)
    assert (list(accepted.withheld), list(unaccepted.withheld)) == ([], ["test"])


def test_the_pythonpath_of_the_client_is_restored_only_in_a_trusted_workspace(workspace_and_environ):
    workspace, environ = workspace_and_environ
    environ = {**environ, CLIENT_PYTHONPATH_VARIABLE: "src", "PYTHONPATH": "/elsewhere"}
    env = find_recipe("python", workspace, environ).env
    assert start.CLIENT_PATH_VARIABLE == CLIENT_PYTHONPATH_VARIABLE
    assert (env["PYTHONPATH"], CLIENT_PYTHONPATH_VARIABLE in env) == ("src", False)
    assert find_recipe("python", workspace, environ, acceptance_of=nobody).env["PYTHONPATH"] == "/elsewhere"


def test_a_repl_of_an_untrusted_workspace_gets_project_paths_only_with_its_first_evaluation(workspace_and_environ):
    workspace, environ = workspace_and_environ
    environ = {**environ, "PYTHONPATH": f"{workspace}:/elsewhere"}
    env = find_recipe("python", workspace, environ, acceptance_of=nobody, is_requested=True).env
    assert (env["PYTHONPATH"], env[CLIENT_PYTHONPATH_VARIABLE]) == ("/elsewhere", environ["PYTHONPATH"])
    assert (
        find_recipe(f"{sys.executable} -V", workspace, environ, acceptance_of=nobody, is_requested=True).env == environ
    )


# Whose Python


def test_an_interpreter_chosen_by_the_user_takes_precedence_over_environments(workspace_and_environ, tmp_path):
    workspace, environ = workspace_and_environ
    install(workspace / ".venv/bin", "python")
    for chosen in (str(install(tmp_path / "other/bin", "python")), str(install(tmp_path / "bin", "python3.9"))):
        assert find_recipe("python", workspace, environ, python=chosen).command[0] == chosen
    assert find_recipe("python", workspace, environ, python="python3.9").command[0] == str(tmp_path / "bin/python3.9")
    assert find_recipe("python", workspace, environ, python="auto").command[0] == str(workspace / ".venv/bin/python")


def test_the_python_used_by_a_project_without_an_environment_is_reported(workspace_and_environ):
    workspace, environ = workspace_and_environ
    assert find_recipe("python", workspace, environ).remark is None
    (workspace / "pyproject.toml").touch()
    made = find_recipe("python", workspace, environ)
    assert made.caution is None
    assert sys.executable in made.remark
    assert "--python PATH" in made.remark
    install(workspace / ".venv/bin", "python")
    assert find_recipe("python", workspace, environ).remark is None


@pytest.fixture
def linked(tmp_path):
    """Create a git checkout and a linked working tree of it."""
    main, linked = tmp_path / "main", tmp_path / "linked"
    git("init", str(main))
    git("-C", str(main), "commit", "--allow-empty", "-m", "first")
    git("-C", str(main), "worktree", "add", str(linked))
    return main, linked


def test_a_linked_working_tree_uses_the_environment_of_its_main_checkout(workspace_and_environ, linked):
    main, workspace = linked
    python = install(main / ".venv/bin", "python")
    made = find_recipe("python", workspace, workspace_and_environ[1])
    assert made.command[0] == str(python)
    assert str(main) in made.caution
    own = install(workspace / ".venv/bin", "python")
    made = find_recipe("python", workspace, workspace_and_environ[1])
    assert (made.command[0], made.caution) == (str(own), None)


def test_a_checkout_posing_as_a_linked_tree_cannot_use_the_main_environment(workspace_and_environ, linked, tmp_path):
    main, workspace = linked
    install(main / ".venv/bin", "python")
    liar = tmp_path / "liar"
    liar.mkdir()
    (liar / ".git").write_text((workspace / ".git").read_text())
    assert find_recipe("python", liar, workspace_and_environ[1]).command[0] == sys.executable


def test_packages_imported_from_another_working_tree_are_reported(tmp_path):
    linked_tree(tmp_path / "main", tmp_path / "workspace")
    write(
        tmp_path / "workspace",
        {"test_own.py": "import unittest\nclass T(unittest.TestCase):\n    def test(self): pass\n"},
    )
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        until(lambda: "evaluate_code" in client.tools(), "the REPL")
        first, second = (client.call("evaluate_code", code="1", detail=False) for _ in range(2))
        (note,) = [note for note in first["notes"] if "from outside this working tree" in note]
        assert all(f"{name} (" in note for name in ("shop", "stock", "wares"))
        assert "own (" not in note
        assert "from outside this working tree" not in str(second)
        client.call("load_file", filePath="test_own.py")
        assert "from outside this working tree" not in str(client.call("run_tests", namespace="test_own"))
        with live.client(name="another") as other:
            assert "because this working tree has none" in str(other.call("run_tests", namespace="test_own"))


def test_no_packages_are_reported_for_a_checkout_with_its_own_environment(tmp_path):
    python = linked_tree(tmp_path / "workspace", tmp_path / "linked")
    with serving(tmp_path, "--repl", "python", "--python", python) as live, live.client() as client:
        until(lambda: "evaluate_code" in client.tools(), "the REPL")
        assert client.call("evaluate_code", code="1")["notes"] == []


@pytest.mark.parametrize("text", ["", "gitdir: /nowhere", "gitdir:", "nonsense", "gitdir: \0"])
def test_a_broken_link_to_a_main_checkout_is_ignored(workspace_and_environ, text):
    workspace, environ = workspace_and_environ
    (workspace / ".git").write_text(text)
    assert find_recipe("python", workspace, environ).command[0] == sys.executable


@pytest.mark.parametrize("version", ["3.6", "3.7"])
def test_a_python_that_is_too_old_is_reported(tmp_path, version):
    found = [str(path) for path in Path.home().glob(f".pyenv/versions/{version}*/bin/python")]
    python = next(iter(found), None) or shutil.which(f"python{version}")
    # pyenv's shim starts no Python unless this version is selected.
    if python is None or subprocess.run([python, "-c", ""], check=False, capture_output=True).returncode:
        do_without(f"python{version}, which is too old, is not installed: pyenv install it", is_expected=False)
    with serving(tmp_path, "--repl", "python", "--python", python) as live, live.client() as client:

        def note():
            return client.call("list_sessions")["sessions"][0].get("note", "")

        until(lambda: "or later" in note(), "the word that it is too old")
        assert python in note()
        assert f"is Python {version}" in note()
