"""Edits to modules that use frameworks: Flask, FastAPI, Django, SQLAlchemy, click, Celery, pytest."""

from edit_cases import Edit

FLASK = "from flask import Flask\napp = Flask('a')\n@app.route('/')\ndef index():\n    return 'i'\n"
BLUE = "from flask import Flask, Blueprint\nbp = Blueprint('b', __name__)\n@bp.route('/b')\ndef b():\n    return 'b'\napp = Flask('a')\napp.register_blueprint(bp)\n"
FAST = "from fastapi import FastAPI\napp = FastAPI(title='a')\n@app.get('/')\ndef index():\n    return 'i'\n"
ROUTER = "from fastapi import APIRouter, FastAPI\nrouter = APIRouter()\n@router.get('/r')\ndef r():\n    return 'r'\napp = FastAPI(title='a')\napp.include_router(router)\n"
CLICK = "import click\n@click.group()\ndef cli():\n    pass\n@cli.command()\ndef go():\n    click.echo('go')\n"
OPTION = "import click\n@click.command()\n@click.option('--n', default=1)\ndef cli(n):\n    click.echo(n)\n"
TABLES = "from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column\nclass Base(DeclarativeBase):\n    pass\nclass U(Base):\n    __tablename__ = 'u'\n    id: Mapped[int] = mapped_column(primary_key=True)\n    name: Mapped[str]\n    def label(self):\n        return 1\n"
DJANGO = "from django.db import models\nclass U(models.Model):\n    name = models.CharField(max_length=9)\n    class Meta:\n        app_label = 'm'\n    def label(self):\n        return 1\n"
SET_UP = "import django\nfrom django.conf import settings\nsettings.configure(DATABASES={'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}}, ROOT_URLCONF='m')\ndjango.setup()\n"
CELERY = "from celery import Celery\napp = Celery('a', broker='memory://')\n@app.task(name='add')\ndef add(x):\n    return x + 1\n"
PYTEST = "import pytest\n@pytest.fixture\ndef one():\n    return 1\n"
GET = "m.app.test_client().get('/').text"
PATHS = "sorted(str(r) for r in m.app.url_map.iter_rules() if 'static' not in str(r))"
ROUTES = "[r.path for r in m.app.routes if hasattr(r, 'endpoint') and r.path[:2] not in ('/o', '/d') and 'redoc' not in r.path]"
CALL = "from click.testing import CliRunner\ndef call(c, *a):\n    return CliRunner().invoke(c, a).output\n"
TEST = "from fastapi.testclient import TestClient\ndef get(app, path='/'):\n    r = TestClient(app).get(path)\n    return r.status_code, r.json()\n"


def flask(name, *given, **words):
    return Edit("flask: " + name, *given, needs=("flask",), **words)  # type: ignore[misc]


def fast(name, *given, **words):
    return Edit("fastapi: " + name, *given, needs=("fastapi", "fastapi.testclient"), setup=TEST, **words)  # type: ignore[misc]


def click(name, *given, **words):
    return Edit("click: " + name, *given, needs=("click.testing",), setup=CALL, **words)  # type: ignore[misc]


def tables(name, *given, **words):
    return Edit("sqlalchemy: " + name, *given, needs=("sqlalchemy.orm",), **words)  # type: ignore[misc]


def django(name, *given, **words):
    return Edit("django: " + name, *given, needs=("django",), setup=SET_UP, **words)  # type: ignore[misc]


def celery(name, *given, **words):
    return Edit("celery: " + name, *given, needs=("celery",), **words)  # type: ignore[misc]


def fixtures(name, *given, **words):
    return Edit("pytest: " + name, *given, needs=("pytest",), **words)  # type: ignore[misc]


ALL = [
    flask("a view's body", FLASK, "return 'i'", "return 'j'", GET, hold="m.app.test_client().get('/')"),
    flask("another name of the application", FLASK, "Flask('a')", "Flask('b')", (GET, "m.app.import_name", PATHS)),
    flask(
        "a route that is added",
        FLASK,
        "    return 'i'\n",
        "    return 'i'\n@app.route('/x')\ndef x():\n    return 'x'\n",
        PATHS,
    ),
    flask("a route that is edited", FLASK, "route('/')", "route('/z')", PATHS),
    flask(
        "a route that is removed",
        FLASK + "@app.route('/x')\ndef x():\n    return 'x'\n",
        "@app.route('/x')\ndef x():\n    return 'x'\n",
        "",
        PATHS,
    ),
    flask("a setting", FLASK + "app.config['N'] = 1\n", "= 1", "= 2", "m.app.config['N']"),
    flask(
        "a setting by a constant", "N = 1\n" + FLASK + "app.config['N'] = N\n", "N = 1", "N = 2", "m.app.config['N']"
    ),
    flask("a blueprint's view", BLUE, "return 'b'", "return 'c'", "m.app.test_client().get('/b').text"),
    flask(
        "another name of an application with a blueprint",
        BLUE,
        "Flask('a')",
        "Flask('c')",
        ("m.app.import_name", PATHS),
    ),
    flask("a blueprint's prefix", BLUE, "__name__)", "__name__, url_prefix='/p')", PATHS),
    flask(
        "an error handler",
        FLASK + "@app.errorhandler(404)\ndef lost(e):\n    return 'lost', 404\n",
        "'lost', 404",
        "'gone', 404",
        "m.app.test_client().get('/q').text",
    ),
    flask(
        "an application with a hook",
        FLASK + "@app.before_request\ndef before():\n    pass\n",
        "Flask('a')",
        "Flask('b')",
        ("m.app.import_name", "len(m.app.before_request_funcs)", PATHS),
    ),
    flask(
        "an extension that fills the application",
        "def init_app(app):\n    app.extensions['e'] = 1\n" + FLASK + "init_app(app)\n",
        "Flask('a')",
        "Flask('b')",
        ("m.app.import_name", "m.app.extensions", PATHS),
    ),
    flask(
        "an application that a library wraps",
        FLASK + "from werkzeug.middleware.proxy_fix import ProxyFix\napp.wsgi_app = ProxyFix(app.wsgi_app)\n",
        "Flask('a')",
        "Flask('b')",
        ("m.app.import_name", "type(m.app.wsgi_app).__name__"),
        expects="reported",
    ),
    flask(
        "views in another module",
        "from flask import Flask\napp = Flask('a')\n",
        "Flask('a')",
        "Flask('b')",
        ("m.app.import_name", PATHS),
        {"views": "from m import app\n@app.route('/')\ndef index():\n    return 'i'\n"},
    ),
    flask(
        "a decorated view",
        "import functools\ndef loud(f):\n    @functools.wraps(f)\n    def w():\n        return f().upper()\n    return w\n"
        + FLASK.replace("def index", "@loud\ndef index"),
        "f().upper()",
        "f() * 2",
        GET,
    ),
    flask(
        "a view's default methods",
        FLASK,
        "route('/')",
        "route('/', methods=['POST'])",
        "m.app.test_client().post('/').status_code",
    ),
    flask(
        "a factory's body",
        "from flask import Flask\ndef make():\n    app = Flask('a')\n    app.config['N'] = 1\n    return app\napp = make()\n",
        "= 1",
        "= 2",
        "m.app.config['N']",
    ),
    fast("a handler's body", FAST, "return 'i'", "return 'j'", "get(m.app)"),
    fast("another title", FAST, "title='a'", "title='b'", (ROUTES, "m.app.title", "get(m.app)")),
    fast(
        "a route that is added",
        FAST,
        "    return 'i'\n",
        "    return 'i'\n@app.get('/x')\ndef x():\n    return 'x'\n",
        "get(m.app, '/x')",
    ),
    fast("a route that is edited", FAST, "get('/')", "get('/z')", "get(m.app)"),
    fast("a router's handler", ROUTER, "return 'r'", "return 's'", "get(m.app, '/r')"),
    fast(
        "another title of an application with a router",
        ROUTER,
        "title='a'",
        "title='b'",
        ("m.app.title", "get(m.app, '/r')"),
    ),
    fast("a router's prefix", ROUTER, "APIRouter()", "APIRouter(prefix='/p')", "get(m.app, '/p/r')"),
    fast(
        "a model of a body",
        "from pydantic import BaseModel\nclass B(BaseModel):\n    x: int = 1\n"
        + FAST.replace("def index():\n    return 'i'", "def index() -> B:\n    return B()"),
        "x: int = 1",
        "x: int = 1\n    y: int = 2",
        "get(m.app)",
    ),
    fast(
        "a dependency's body",
        "from fastapi import Depends\ndef dep():\n    return 1\n"
        + FAST.replace("def index():\n    return 'i'", "def index(d=Depends(dep)):\n    return d"),
        "return 1",
        "return 2",
        "get(m.app)",
    ),
    fast(
        "an exception handler",
        FAST + "@app.exception_handler(ValueError)\ndef bad(request, e):\n    return None\n",
        "title='a'",
        "title='b'",
        ("m.app.title", "ValueError in m.app.exception_handlers"),
    ),
    fast("a parameter", FAST, "def index():", "def index(q: int = 3):", "get(m.app, '/?q=x')[0]"),
    fast(
        "a default of a parameter by a constant",
        "N = 1\n" + FAST.replace("def index():\n    return 'i'", "def index(q: int = N):\n    return q"),
        "N = 1",
        "N = 2",
        "get(m.app)",
    ),
    fast(
        "a middleware",
        FAST + "app.add_middleware(type('M', (), {}))\n",
        "title='a'",
        "title='b'",
        "(m.app.title, len(m.app.user_middleware))",
    ),
    click("a command's body", CLICK, "echo('go')", "echo('went')", "call(m.cli, 'go')"),
    click(
        "a group's help",
        CLICK,
        "@click.group()",
        "@click.group(help='h')",
        ("sorted(m.cli.commands)", "m.cli.help", "call(m.cli, 'go')"),
    ),
    click(
        "a command's help",
        CLICK,
        "@cli.command()",
        "@cli.command(help='h')",
        ("m.cli.commands['go'].help", "call(m.cli, 'go')"),
    ),
    click(
        "a command that is added",
        CLICK,
        "    pass\n",
        "    pass\n@cli.command()\ndef more():\n    click.echo('more')\n",
        ("sorted(m.cli.commands)", "call(m.cli, 'more')"),
    ),
    click(
        "a command that is removed",
        CLICK + "@cli.command()\ndef more():\n    pass\n",
        "@cli.command()\ndef more():\n    pass\n",
        "",
        "sorted(m.cli.commands)",
    ),
    click("a command that is renamed", CLICK, "def go", "def run", "sorted(m.cli.commands)"),
    click("an option's default", OPTION, "default=1", "default=2", "call(m.cli)"),
    click("an option's default by a constant", "N = 1\n" + OPTION.replace("=1", "=N"), "N = 1", "N = 2", "call(m.cli)"),
    click(
        "an option that is added",
        OPTION,
        "@click.option('--n', default=1)\ndef cli(n)",
        "@click.option('--n', default=1)\n@click.option('--k', default=5)\ndef cli(n, k)",
        "call(m.cli, '--k', '3')",
    ),
    click(
        "a group with add_command",
        CLICK + "@click.command()\ndef other():\n    pass\ncli.add_command(other)\n",
        "@click.group()",
        "@click.group(help='h')",
        ("sorted(m.cli.commands)", "m.cli.help"),
    ),
    click(
        "a nested group",
        CLICK + "@cli.group()\ndef sub():\n    pass\n@sub.command()\ndef deep():\n    click.echo('deep')\n",
        "@click.group()",
        "@click.group(help='h')",
        ("call(m.cli, 'sub', 'deep')", "m.cli.help"),
    ),
    click(
        "a command's docstring",
        CLICK.replace("def go():\n", "def go():\n    '''One.'''\n"),
        "One",
        "Two",
        "m.cli.commands['go'].help",
    ),
    tables("a method", TABLES, "return 1", "return 2", "u.label()", hold="u = m.U(name='a')"),
    tables(
        "a new method",
        TABLES,
        "    def label",
        "    def more(self):\n        return 5\n    def label",
        "u.more()",
        hold="u = m.U(name='a')",
    ),
    tables(
        "a column",
        TABLES,
        "    name: Mapped[str]\n",
        "    name: Mapped[str]\n    nick: Mapped[str]\n",
        "sorted(m.U.__table__.columns.keys())",
        expects="reported",
    ),
    tables(
        "a column's type",
        TABLES,
        "name: Mapped[str]",
        "name: Mapped[int]",
        "str(m.U.__table__.columns['name'].type)",
        expects="reported",
    ),
    tables(
        "a column that is removed",
        TABLES,
        "    name: Mapped[str]\n",
        "",
        "sorted(m.U.__table__.columns.keys())",
        expects="reported",
    ),
    tables(
        "a column with a value",
        TABLES,
        "    name: Mapped[str]\n",
        "    name: Mapped[str]\n    age: Mapped[int] = mapped_column(default=3)\n",
        "sorted(m.U.__table__.columns.keys())",
    ),
    tables("a table's name", TABLES, "'u'", "'users'", "m.U.__table__.name", expects="reported"),
    tables(
        "a constant in a column",
        "N = 5\n" + TABLES.replace("name: Mapped[str]", "name: Mapped[str] = mapped_column(default=N)"),
        "N = 5",
        "N = 6",
        "m.U.__table__.columns['name'].default.arg",
        expects="reported",
    ),
    tables(
        "a table",
        "from sqlalchemy import Column, Integer, MetaData, Table\nmeta = MetaData()\nt = Table('t', meta, Column('id', Integer))\n",
        "Column('id', Integer)",
        "Column('k', Integer)",
        "sorted(m.t.columns.keys())",
        expects="reported",
    ),
    tables(
        "tables that are created",
        "from sqlalchemy import Column, Integer, MetaData, Table, create_engine\nmeta = MetaData()\nt = Table('t', meta, Column('id', Integer))\nengine = create_engine('sqlite://')\nmeta.create_all(engine)\n",
        "MetaData()",
        "MetaData(info={'a': 1})",
        "m.meta.info",
        expects="reported",
    ),
    tables(
        "the declarative base",
        TABLES,
        "class Base(DeclarativeBase):\n    pass",
        "class Base(DeclarativeBase):\n    def short(self):\n        return 9",
        "u.short()",
        hold="u = m.U(name='a')",
    ),
    tables(
        "an engine by a constant",
        "from sqlalchemy import create_engine\nURL = 'sqlite:///a.db'\nengine = create_engine(URL)\n",
        "a.db",
        "b.db",
        "str(m.engine.url)",
        expects="reported",
    ),
    django("a method", DJANGO, "return 1", "return 2", "u.label()", hold="u = m.U(name='a')"),
    django(
        "a new method",
        DJANGO,
        "    def label",
        "    def more(self):\n        return 5\n    def label",
        "u.more()",
        hold="u = m.U(name='a')",
    ),
    django(
        "a field",
        DJANGO,
        "    class Meta",
        "    age = models.IntegerField(default=1)\n    class Meta",
        "[f.name for f in m.U._meta.get_fields()]",
    ),
    django("a field's length", DJANGO, "max_length=9", "max_length=99", "m.U._meta.get_field('name').max_length"),
    django(
        "a field that is removed",
        DJANGO,
        "    name = models.CharField(max_length=9)\n",
        "",
        "[f.name for f in m.U._meta.get_fields()]",
    ),
    django(
        "a model's options",
        DJANGO,
        "app_label = 'm'",
        "app_label = 'm'\n        ordering = ['name']",
        "m.U._meta.ordering",
    ),
    django(
        "a constant in a field",
        "N = 9\n" + DJANGO.replace("=9", "=N"),
        "N = 9",
        "N = 99",
        "m.U._meta.get_field('name').max_length",
    ),
    django(
        "url patterns",
        "from django.urls import path\ndef a(r):\n    pass\nurlpatterns = [path('a', a)]\n",
        "path('a', a)",
        "path('a', a), path('b', a)",
        "[str(p.pattern) for p in m.urlpatterns]",
    ),
    django(
        "a view's body",
        "from django.urls import path\nfrom django.http import HttpResponse\ndef a(r):\n    return HttpResponse('1')\nurlpatterns = [path('a', a)]\n",
        "'1'",
        "'2'",
        "m.urlpatterns[0].callback(None).content",
    ),
    django(
        "a form",
        "from django import forms\nclass F(forms.Form):\n    a = forms.CharField()\n",
        "a = forms.CharField()",
        "a = forms.CharField()\n    b = forms.CharField(required=False)",
        "sorted(m.F.base_fields)",
    ),
    django(
        "a manager's method",
        DJANGO.replace(
            "class U", "class Mine(models.Manager):\n    def count_it(self):\n        return 1\nclass U"
        ).replace("    class Meta", "    objects = Mine()\n    class Meta"),
        "count_it(self):\n        return 1",
        "count_it(self):\n        return 2",
        "m.U.objects.count_it()",
    ),
    django(
        "a signal's receiver",
        "from django.dispatch import Signal, receiver\ndone = Signal()\n@receiver(done)\ndef hear(sender, **kw):\n    return 1\n",
        "return 1",
        "return 2",
        "m.done.send(None)[0][1]",
    ),
    celery("a task's body", CELERY, "x + 1", "x + 2", "m.app.tasks['add'](1)"),
    celery(
        "a task's option",
        CELERY,
        "name='add'",
        "name='plus'",
        "sorted(n for n in m.app.tasks if 'celery' not in n)",
    ),
    celery(
        "a task that is added",
        CELERY,
        "    return x + 1\n",
        "    return x + 1\n@app.task(name='sub')\ndef sub(x):\n    return x - 1\n",
        "sorted(n for n in m.app.tasks if 'celery' not in n)",
    ),
    celery(
        "a task that is removed",
        CELERY + "@app.task(name='sub')\ndef sub(x):\n    return x - 1\n",
        "@app.task(name='sub')\ndef sub(x):\n    return x - 1\n",
        "",
        "sorted(n for n in m.app.tasks if 'celery' not in n)",
        expects="reported",
    ),
    celery(
        "another name of the application", CELERY, "Celery('a'", "Celery('b'", ("m.app.main", "'add' in m.app.tasks")
    ),
    celery(
        "a setting",
        CELERY + "app.conf.task_always_eager = False\n",
        "eager = False",
        "eager = True",
        "m.app.conf.task_always_eager",
    ),
    celery(
        "a schedule by a constant",
        "N = 5\n" + CELERY + "app.conf.beat_schedule = {'a': {'task': 'add', 'schedule': N}}\n",
        "N = 5",
        "N = 6",
        "m.app.conf.beat_schedule['a']['schedule']",
    ),
    fixtures(
        "a fixture's body",
        PYTEST,
        "return 1",
        "return 2",
        "getattr(m.one, '_fixture_function', None) and m.one._fixture_function()",
    ),
    fixtures(
        "a fixture's scope",
        PYTEST,
        "@pytest.fixture\n",
        "@pytest.fixture(scope='module')\n",
        "m.one._fixture_function_marker.scope",
    ),
    fixtures(
        "a parametrisation",
        "import pytest\n@pytest.mark.parametrize('x', [1])\ndef test_x(x):\n    pass\n",
        "[1]",
        "[1, 2]",
        "m.test_x.pytestmark[0].args",
    ),
    fixtures(
        "a parametrisation by a constant",
        "import pytest\nXS = [1]\n@pytest.mark.parametrize('x', XS)\ndef test_x(x):\n    pass\n",
        "XS = [1]",
        "XS = [1, 2]",
        "m.test_x.pytestmark[0].args",
    ),
    fixtures(
        "a mark that is removed",
        "import pytest\n@pytest.mark.slow\ndef test_x():\n    pass\n",
        "@pytest.mark.slow\n",
        "",
        "getattr(m.test_x, 'pytestmark', [])",
    ),
    fixtures(
        "the module's marks", "import pytest\npytestmark = pytest.mark.slow\n", "slow", "fast", "m.pytestmark.name"
    ),
]
