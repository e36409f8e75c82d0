"""What the doctor reports about programs that can be started with `codriver run`."""

import platform

from codriver.features.run.doctor_checks import check_programs, find_start_commands


def write(folder, **sources):
    for name, text in sources.items():
        file = folder / f"{name.replace('__', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_commands_are_suggested_for_the_applications_in_the_source_files(tmp_path):
    write(
        tmp_path,
        manage="import django\n",
        shop="from flask import Flask\napp = Flask(__name__)\n",
        store__api="from fastapi import FastAPI\napi = FastAPI(title='x')\n",
        store__jobs="import celery\napp = celery.Celery('jobs')\n",
        tests__test_shop="app = Flask(__name__)\n",
        factory="def make():\n    app = Flask(__name__)\n",
    )
    assert find_start_commands(tmp_path) == [
        "python manage.py runserver",
        "flask --app shop run",
        "uvicorn store.api:api",
        "celery -A store.jobs worker",
    ]


def test_a_flask_application_with_another_name_below_src_is_named_with_its_variable(tmp_path):
    write(tmp_path, src__web="import flask\nsite: flask.Flask = flask.Flask(__name__)\n")
    assert find_start_commands(tmp_path) == ["flask --app web:site run"]


def test_nothing_is_suggested_without_python_sources(tmp_path):
    assert [*check_programs(tmp_path)] == []
    (tmp_path / "deps.edn").write_text("{}")
    assert [*check_programs(tmp_path)] == []


def test_any_program_can_be_started_if_no_application_was_found(tmp_path, monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    write(tmp_path, report="print(1)\n")
    (check,) = check_programs(tmp_path)
    assert (check.area, check.state) == ("programs", "ok")
    assert check.text.endswith("start it with: codriver run -- COMMAND, for any Python program")


def test_an_alternative_command_is_suggested_on_other_systems(tmp_path, monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: "Windows")
    write(tmp_path, report="print(1)\n")
    (check,) = check_programs(tmp_path)
    assert check.text == (
        "`codriver run` works only on Linux and macOS. "
        "On other systems, a program can call codriver_seam.start_repl(True)"
    )
