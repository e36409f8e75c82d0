"""The names of programs and of their processes."""

import shlex

import pytest

from codriver.features.run.naming import close_gaps, name_processes, program_name
from codriver.features.run.processes import RunProcess


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python shop.py", "shop"),
        ("python3.12 -X dev -u src/shop.py --port 1", "shop"),
        ("flask --app shop run --debug", "shop"),
        ("flask --app=shop.web:create_app run", "web"),
        ("python manage.py runserver", "manage"),
        ("gunicorn -w 3 shop:app", "shop"),
        ("gunicorn --bind 127.0.0.1:8000 shop.wsgi:application", "shop"),
        ("uvicorn shop.main:app --reload", "shop"),
        ("uv run uvicorn shop:app", "shop"),
        ("uv run --with rich shop.py", "shop"),
        ("python -m flask --app shop run", "shop"),
        ("python -m shop.tasks", "shop.tasks"),
        ("celery -A tasks worker", "tasks"),
        ("gunicorn", "gunicorn"),
        ("celery -A", "celery"),
        ("fastapi dev shop/main.py", "main"),
        ("pytest -n 2", "pytest"),
        ("coverage run shop.py", "shop"),
        ("ddtrace-run python shop.py", "shop"),
        ("env A=1 ./shop.py", "shop"),
        ("python app.pyz x", "app"),
        ("sh start.sh 1", "start"),
        ("./bin/start.sh", "start"),
        ("python", "python"),
        ("python -", "python"),
        ("python3.12 -u - shop.py", "python"),
        ("python -c 'print(1)'", "python"),
        ("python -Bc 'import shop; shop.a=1'", "python"),
        ("python -Wonce shop.py", "shop"),
        ("sh -c 'exec python shop.py'", "sh"),
        ("bash -lc 'shop'", "bash"),
        ("uv run python -c 'import shop'", "python"),
    ],
)
def test_a_program_is_named_after_its_application_or_its_script(command, name, monkeypatch):
    monkeypatch.delenv("FLASK_APP", raising=False)
    assert program_name(shlex.split(command)) == name


def process(pid, parent, words, *, is_ready=True, environ=()):
    return RunProcess(pid, parent, pid, tuple(words.split(" ")), is_ready, environ=dict(environ))


RELOADED = [(b"WERKZEUG_RUN_MAIN", b"true")]
FLASK = "python /bin/flask --app shop run"
CELERY = "python /bin/celery -A shop worker"
SPAWNED = "python -c from_multiprocessing.spawn_import_spawn_main"


@pytest.mark.parametrize(
    ("members", "keys"),
    [
        ([process(1, 0, "python shop.py")], {1: "shop"}),
        ([process(1, 0, FLASK), process(2, 1, FLASK, environ=RELOADED)], {1: "shop:1", 2: "shop"}),
        (
            [
                process(1, 0, FLASK),
                process(2, 1, FLASK, environ=RELOADED),
                process(3, 2, "python -c 1", environ=RELOADED),
            ],
            {1: "shop:1", 2: "shop", 3: "shop:3"},
        ),
        (
            [
                process(1, 0, "python /bin/gunicorn shop:app"),
                *(process(n, 1, "python /bin/gunicorn shop:app") for n in (2, 3)),
            ],
            {1: "shop:1", 2: "shop/1", 3: "shop/2"},
        ),
        (
            [process(1, 0, "gunicorn: master [shop:app]"), process(2, 1, "gunicorn: worker [shop:app]")],
            {1: "shop:1", 2: "shop"},
        ),
        (
            [
                process(1, 0, "python /bin/uvicorn --reload shop:app"),
                process(2, 1, "python -c from multiprocessing.resource_tracker import main"),
                process(3, 1, SPAWNED),
            ],
            {1: "shop:1", 2: "shop:2", 3: "shop"},
        ),
        (
            [process(1, 0, CELERY), process(2, 1, CELERY), process(3, 1, CELERY)],
            {1: "shop:1", 2: "shop/1", 3: "shop/2"},
        ),
        (
            [process(1, 0, CELERY), process(2, 1, "python started_by_a_task.py")],
            {1: "shop", 2: "shop:2"},
        ),
        *(
            ([process(1, 0, f"{CELERY} {pool}"), process(2, 1, f"{CELERY} {pool}")], {1: "shop", 2: "shop:2"})
            for pool in ("-P solo", "-Pthreads", "--pool=gevent", "--pool eventlet")
        ),
        (
            [
                RunProcess(number, parent, number, (f"[celeryd: celery@host:{title}",), is_ready=True)
                for number, parent, title in (
                    (1, 0, "MainProcess] -active-"),
                    (2, 1, "ForkPoolWorker-1]"),
                    (3, 1, "beat]"),
                )
            ],
            {1: "shop:1", 2: "shop", 3: "shop:3"},
        ),
        (
            [process(1, 0, "python pool.py"), process(2, 1, "python pool.py"), process(3, 1, SPAWNED)],
            {1: "shop", 2: "shop:2", 3: "shop:3"},
        ),
        ([process(1, 0, "uv run shop.py", is_ready=False), process(2, 1, "python shop.py")], {1: "shop:1", 2: "shop"}),
        ([process(1, 0, "python -I shop.py", is_ready=False)], {1: "shop:1"}),
    ],
)
def test_the_name_selects_the_process_that_runs_the_programs_code(members, keys):
    assert {named.process.pid: named.key for named in name_processes("shop", members, {})} == keys


@pytest.mark.parametrize(
    ("command", "is_named"),
    [
        ("uvicorn --port 1 shop:app", True),
        ("uvicorn --workers 1 shop:app", True),
        ("uvicorn --workers 2 shop:app", False),
        ("uvicorn --workers=2 shop:app", False),
        ("uvicorn --reload shop:app", False),
        ("hypercorn -w 0 shop:app", True),
        ("hypercorn shop:app", False),
        ("gunicorn shop:app", False),
        ("granian shop:app", False),
        ("celery -A shop worker", True),
    ],
)
def test_a_process_that_only_supervises_does_not_get_the_name_before_its_children_start(command, is_named):
    (found,) = name_processes("shop", [process(1, 0, f"python /bin/{command}")], {})
    assert (found.key == "shop") is is_named


@pytest.mark.parametrize("command", [FLASK, CELERY, "python manage.py runserver"])
def test_a_supervisor_does_not_get_the_name_while_its_child_is_replaced(command):
    (alone,) = name_processes("shop", [process(1, 0, command)], {"1": 2}, {1})
    assert (alone.key, alone.role) == ("shop:1", "helps")
    (alone,) = name_processes("shop", [process(1, 0, command)], {}, {1})
    assert alone.key == "shop:1"


def test_a_process_keeps_its_number_and_a_new_one_gets_a_free_number():
    master = process(1, 0, "python /bin/gunicorn shop:app")
    workers = [process(number, 1, "python /bin/gunicorn shop:app") for number in (3, 4)]
    found = {
        named.slot: named
        for named in name_processes("shop", [master, *workers], {"1": 2, "2": 3})
        if named.role == "serves"
    }
    assert {slot: item.process.pid for slot, item in found.items()} == {"2": 3, "1": 4}
    assert found["1"].aliases[0] == "shop"
    (alone, _) = sorted(name_processes("shop", [master, workers[0]], {"2": 3}), key=lambda named: named.role)
    assert (alone.key, alone.aliases[0]) == ("shop/2", "shop"), "the plain name refers to the only worker"


@pytest.mark.parametrize(
    ("slots", "in_use", "expected"),
    [
        ({"3": 13, "4": 14}, (), {"1": 13, "2": 14}),
        ({"2": 12, "3": 13}, (), {"2": 12, "1": 13}),
        ({"1": 11, "2": 12}, (), {"1": 11, "2": 12}),
        ({"2": 12}, (), {"1": 12}),
        ({"2": 12}, ("2",), {"2": 12}),
        ({"3": 13, "4": 14}, ("3",), {"3": 13, "1": 14}),
        ({}, (), {}),
    ],
)
def test_workers_are_renumbered_to_free_lower_numbers_unless_their_numbers_are_in_use(slots, in_use, expected):
    assert close_gaps(slots, in_use) == expected
