"""The name of an application's REPL, from the command line of the program."""

import pytest

from codriver.repls.worker.serving.embedded import application_name


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("manage.py runserver", "manage"),
        ("/srv/shop/jobs.py", "jobs"),
        ("/srv/shop/__main__.py --verbose", "shop"),
        ("/env/bin/flask --app shop run --debug", "shop"),
        ("/env/bin/flask --app=web/shop.py run", "shop"),
        ("/env/bin/flask run", "flask"),
        ("/env/bin/uvicorn shop.web:app --port 8000", "web"),
        ("/env/bin/gunicorn -w 3 shop.wsgi:application", "shop"),
        ("/env/bin/gunicorn -b 127.0.0.1:8000 shop:create_app()", "shop"),
        ("/env/bin/celery -A shop.tasks worker", "tasks"),
        ("/env/bin/hypercorn main:app", "main"),
        ("/env/bin/pytest tests", "pytest"),
        ("-c", "python"),
        ("-m", "python"),
        ("", "python"),
    ],
)
def test_an_application_is_named_after_its_module_or_program(command, name, monkeypatch):
    monkeypatch.delenv("FLASK_APP", raising=False)
    assert application_name(command.split()) == name


def test_flask_applications_are_named_after_the_flask_app_variable(monkeypatch):
    monkeypatch.setenv("FLASK_APP", "shop.py")
    assert application_name(["/env/bin/flask", "run"]) == "shop"
