"""Edits to applications that are written with a framework: each has several parts that name one another."""

from edit_cases import Edit

FLASK = """\
from flask import Flask, Blueprint, jsonify
PREFIX = '/api'
VERSION = 1
bp = Blueprint('items', __name__, url_prefix=PREFIX)
ITEMS = {1: 'pen'}

@bp.route('/items/<int:item_id>', methods=['GET', 'DELETE'])
def item(item_id):
    return jsonify(name=ITEMS.get(item_id), version=VERSION)

@bp.before_request
def check():
    return None

app = Flask(__name__)
app.register_blueprint(bp)
app.config['LIMIT'] = VERSION * 10

@app.context_processor
def inject():
    return {'v': VERSION}

@app.cli.command('seed')
def seed():
    return 'seeded'

@app.errorhandler(404)
def missing(error):
    return {'error': 'missing'}, 404
"""
RULES = "sorted(str(one) for one in m.app.url_map.iter_rules())"
GET = "m.app.test_client().get('/api/items/1').get_json()"
FASTAPI = """\
from typing import Annotated
from fastapi import FastAPI, Depends, APIRouter, Header, Query
from pydantic import BaseModel, Field
PAGE = 20
class Item(BaseModel):
    name: str = Field(max_length=10)
    price: float = 1.0
class Page(BaseModel):
    items: list[Item] = []
    size: int = PAGE
def paging(size: Annotated[int, Query(le=100)] = PAGE):
    return size
Size = Annotated[int, Depends(paging)]
router = APIRouter(prefix='/items', tags=['items'])
@router.get('/', response_model=Page)
def index(size: Size):
    return Page(size=size)
@router.post('/', status_code=201)
def create(item: Item):
    return item
app = FastAPI()
app.include_router(router)
"""
PATHS = "sorted((path, method) for path, one in m.app.openapi()['paths'].items() for method in one)"
CALL = "__import__('starlette.testclient').testclient.TestClient(m.app)"
SQLA = """\
from sqlalchemy import ForeignKey, String, select, Index
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship
LENGTH = 30
class Base(DeclarativeBase):
    pass
class Stamped:
    created: Mapped[int] = mapped_column(default=0)
class User(Stamped, Base):
    __tablename__ = 'users'
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(LENGTH))
    posts: Mapped[list['Post']] = relationship(back_populates='user')
    def title(self):
        return self.name.title()
class Post(Base):
    __tablename__ = 'posts'
    id: Mapped[int] = mapped_column(primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey('users.id'))
    user: Mapped[User] = relationship(back_populates='posts')
ALL = select(User).where(User.name == 'ann')
TABLES = sorted(Base.metadata.tables)
"""
PYD = """\
from enum import Enum
from typing import Optional, Annotated
from pydantic import BaseModel, Field, ConfigDict, field_validator, computed_field, model_validator
LOW = 0
class Kind(str, Enum):
    A = 'a'
    B = 'b'
Amount = Annotated[int, Field(ge=LOW)]
class Line(BaseModel):
    model_config = ConfigDict(extra='forbid')
    amount: Amount = 1
    kind: Kind = Kind.A
    @field_validator('amount')
    @classmethod
    def even(cls, value):
        if value % 2 and value != 1:
            raise ValueError('odd')
        return value
class Order(BaseModel):
    lines: list[Line] = Field(default_factory=list)
    note: Optional[str] = None
    @computed_field
    @property
    def total(self) -> int:
        return sum(one.amount for one in self.lines)
SAMPLE = Order(lines=[Line(amount=2)])
SCHEMA = Order.model_json_schema()
"""
ATTRS = """\
import attrs
from attrs import define, field, validators
MAX = 5
def double(value):
    return value * 2
@define
class Point:
    x: int = field(default=0, validator=validators.le(MAX))
    y: int = field(default=0, converter=double)
    @property
    def norm(self):
        return self.x + self.y
@define(kw_only=True)
class Named(Point):
    name: str = 'p'
ORIGIN = Point()
NAMES = [one.name for one in attrs.fields(Named)]
"""
CLICK = """\
import click
DEFAULT = 'world'
LEVELS = ['low', 'high']
def common(function):
    function = click.option('--verbose', is_flag=True)(function)
    function = click.option('--level', type=click.Choice(LEVELS), default=LEVELS[0])(function)
    return function
@click.group(invoke_without_command=True)
@click.option('--debug/--no-debug', default=False)
@click.pass_context
def cli(ctx, debug):
    ctx.obj = debug
@cli.command('hi')
@click.argument('name', default=DEFAULT)
@common
def hello(name, level, verbose):
    click.echo(f'{name} {level}')
@cli.group()
def db():
    pass
@db.command()
@common
def init(level, verbose):
    click.echo('init ' + level)
"""
RUN = "__import__('click.testing').testing.CliRunner().invoke(m.cli, {}).output"
CELERY = """\
from celery import Celery, shared_task
QUEUE = 'default'
app = Celery('shop')
app.conf.task_routes = {'m.*': {'queue': QUEUE}}
app.conf.beat_schedule = {'clean': {'task': 'm.clean', 'schedule': 60.0}}
RETRIES = 3
@app.task(bind=True, max_retries=RETRIES)
def pay(self, amount):
    return amount
@app.task(name='m.clean')
def clean():
    return 'clean'
"""
DJANGO_SETUP = "import django\nfrom django.conf import settings\nsettings.configure(INSTALLED_APPS=[], ROOT_URLCONF='m', DATABASES={'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}}, ALLOWED_HOSTS=['*'])\ndjango.setup()"
DJANGO = """\
from django.db import models
from django.http import JsonResponse
from django.urls import path, include
from django import forms
SIZE = 40
class Author(models.Model):
    name = models.CharField(max_length=SIZE)
    class Meta:
        app_label = 'm'
        ordering = ['name']
    def __str__(self):
        return self.name
class AuthorForm(forms.Form):
    name = forms.CharField(max_length=SIZE, help_text='the name')
def index(request, word='x'):
    return JsonResponse({'word': word})
def detail(request, pk):
    return JsonResponse({'pk': pk})
api = [path('authors/', index, {'word': 'all'}, name='authors'), path('authors/<int:pk>/', detail, name='author')]
urlpatterns = [path('api/', include((api, 'api')))]
"""
DGET = "__import__('django.test').test.Client().get('/api/authors/{}').content"
PYTEST = """\
import pytest
CASES = [(1, 2), (2, 3)]
IDS = [f'{a}-{b}' for a, b in CASES]
slow = pytest.mark.slow
def make_user(name='ann', *, admin=False):
    return {'name': name, 'admin': admin}
@pytest.fixture(params=CASES, ids=IDS)
def pair(request):
    return request.param
@pytest.fixture
def user():
    return make_user()
@pytest.mark.parametrize('a, b', CASES, ids=IDS)
@slow
def test_next(a, b):
    assert a + 1 == b
class TestThings:
    pytestmark = [slow]
    @pytest.mark.skipif(len(CASES) > 2, reason='many')
    def test_one(self):
        assert True
"""
F = ("flask",)
FA = ("fastapi", "pydantic")
S = ("sqlalchemy",)
P = ("pydantic",)
A = ("attrs",)
C = ("click",)
CE = ("celery",)
D = ("django",)
PT = ("pytest",)

ALL = [
    Edit(
        "flask app: a version in a config and a context",
        FLASK,
        "VERSION = 1",
        "VERSION = 2",
        (GET, "m.app.config['LIMIT']", "m.inject()"),
        needs=F,
    ),
    Edit(
        "flask app: a prefix of a blueprint",
        FLASK,
        "PREFIX = '/api'",
        "PREFIX = '/v2'",
        (RULES, GET),
        needs=F,
    ),
    Edit(
        "flask app: methods of a route",
        FLASK,
        "methods=['GET', 'DELETE']",
        "methods=['GET']",
        ("sorted(sorted(one.methods) for one in m.app.url_map.iter_rules() if 'items' in str(one))",),
        needs=F,
    ),
    Edit(
        "flask app: a handler of another code",
        FLASK,
        "@app.errorhandler(404)",
        "@app.errorhandler(405)",
        (
            "m.app.test_client().get('/none').status_code, m.app.test_client().get('/none').is_json",
            "m.app.test_client().post('/api/items/1').is_json",
        ),
        needs=F,
    ),
    Edit(
        "flask app: a body of an error handler",
        FLASK,
        "'missing'}, 404",
        "'gone'}, 410",
        ("m.app.test_client().get('/none').status_code",),
        needs=F,
    ),
    Edit(
        "flask app: a hook that answers",
        FLASK,
        "    return None",
        "    return 'stop'",
        (GET.replace(".get_json()", ".data"),),
        needs=F,
    ),
    Edit(
        "flask app: a hook that is deleted",
        FLASK,
        "@bp.before_request\ndef check():\n    return None\n",
        "",
        ("m.app.before_request_funcs", "hasattr(m, 'check')"),
        needs=F,
    ),
    Edit(
        "flask app: a command is renamed",
        FLASK,
        "'seed')",
        "'load')",
        ("sorted(m.app.cli.commands)",),
        needs=F,
    ),
    Edit("flask app: data that a view reads", FLASK, "{1: 'pen'}", "{1: 'ink'}", (GET,), needs=F),
    Edit("flask app: a route's converter", FLASK, "<int:item_id>", "<item_id>", (RULES, GET), needs=F),
    Edit(
        "flask app: a view is renamed",
        FLASK,
        "def item(item_id)",
        "def show(item_id)",
        ("sorted(m.app.view_functions)", GET),
        needs=F,
    ),
    Edit(
        "fastapi app: a page size",
        FASTAPI,
        "PAGE = 20",
        "PAGE = 50",
        ("m.Page().size", CALL + ".get('/items/').json()['size']"),
        needs=FA,
    ),
    Edit(
        "fastapi app: a dependency's constraint",
        FASTAPI,
        "Query(le=100)",
        "Query(le=10)",
        (CALL + ".get('/items/?size=50').status_code",),
        needs=FA,
    ),
    Edit("fastapi app: a prefix", FASTAPI, "prefix='/items'", "prefix='/things'", (PATHS,), needs=FA),
    Edit(
        "fastapi app: a status code",
        FASTAPI,
        "status_code=201",
        "status_code=202",
        (CALL + ".post('/items/', json={'name': 'a'}).status_code",),
        needs=FA,
    ),
    Edit(
        "fastapi app: a field's constraint",
        FASTAPI,
        "max_length=10",
        "max_length=2",
        (CALL + ".post('/items/', json={'name': 'abc'}).status_code",),
        needs=FA,
    ),
    Edit(
        "fastapi app: a field more",
        FASTAPI,
        "    price: float = 1.0\n",
        "    price: float = 1.0\n    tags: list[str] = []\n",
        (CALL + ".post('/items/', json={'name': 'a', 'tags': ['x']}).json()",),
        needs=FA,
    ),
    Edit(
        "fastapi app: a body",
        FASTAPI,
        "    return item\n",
        "    return {'made': item.name}\n",
        (CALL + ".post('/items/', json={'name': 'a'}).json()",),
        needs=FA,
    ),
    Edit(
        "fastapi app: a route is deleted",
        FASTAPI,
        "@router.post('/', status_code=201)\ndef create(item: Item):\n    return item\n",
        "",
        (PATHS,),
        needs=FA,
    ),
    Edit(
        "fastapi app: a tag",
        FASTAPI,
        "tags=['items']",
        "tags=['things']",
        ("m.app.openapi()['paths']['/items/']['get']['tags']",),
        needs=FA,
    ),
    Edit(
        "fastapi app: the dependency's code",
        FASTAPI,
        "    return size\nSize",
        "    return size * 2\nSize",
        (CALL + ".get('/items/?size=3').json()['size']",),
        needs=FA,
    ),
    Edit(
        "sqlalchemy models: a length",
        SQLA,
        "LENGTH = 30",
        "LENGTH = 60",
        ("m.User.__table__.c.name.type.length",),
        needs=S,
        expects="reported",
    ),
    Edit("sqlalchemy models: a query", SQLA, "== 'ann'", "== 'bob'", ("m.ALL.compile().params",), needs=S),
    Edit(
        "sqlalchemy models: a mixin's default",
        SQLA,
        "mapped_column(default=0)",
        "mapped_column(default=5)",
        ("m.User.__table__.c.created.default.arg",),
        needs=S,
        expects="reported",
    ),
    Edit(
        "sqlalchemy models: a table's name",
        SQLA,
        "__tablename__ = 'posts'",
        "__tablename__ = 'entries'",
        ("m.TABLES", "m.Post.__table__.name"),
        needs=S,
        expects="reported",
    ),
    Edit(
        "sqlalchemy models: a column is deleted",
        SQLA,
        "    name: Mapped[str] = mapped_column(String(LENGTH))\n",
        "    name: str = 'x'\n",
        ("'name' in m.User.__table__.c",),
        needs=S,
        expects="reported",
    ),
    Edit(
        "sqlalchemy models: a model is deleted",
        SQLA.replace(
            "ALL = ",
            "class Extra(Base):\n    __tablename__ = 'extra'\n    id: Mapped[int] = mapped_column(primary_key=True)\nALL = ",
        ),
        "class Extra(Base):\n    __tablename__ = 'extra'\n    id: Mapped[int] = mapped_column(primary_key=True)\n",
        "",
        ("m.TABLES", "sorted(m.Base.metadata.tables)"),
        needs=S,
        expects="reported",
    ),
    Edit(
        "pydantic order: a lower bound by a constant",
        PYD,
        "LOW = 0",
        "LOW = 2",
        (
            "m.Line.model_validate({'amount': 2}).amount",
            "m.SCHEMA['$defs']['Line']['properties']['amount']",
            "m.Order.model_validate({'lines': [{'amount': 2}]}).total",
        ),
        needs=P,
    ),
    Edit(
        "pydantic order: a member of an enumeration",
        PYD,
        "    B = 'b'\n",
        "    B = 'b'\n    C = 'c'\n",
        ("m.Line(kind='c').kind.value", "m.SCHEMA['$defs']['Kind']['enum']"),
        needs=P,
    ),
    Edit(
        "pydantic order: extra is ignored",
        PYD,
        "extra='forbid'",
        "extra='ignore'",
        (
            "m.Line(other=1).amount",
            "m.Order.model_validate({'lines': [{'x': 1}]}).total",
            "'additionalProperties' in m.SCHEMA['$defs']['Line']",
        ),
        needs=P,
    ),
    Edit(
        "pydantic order: a validator's body",
        PYD,
        "value != 1",
        "value != 3",
        ("m.Line(amount=3).amount", "m.Order.model_validate({'lines': [{'amount': 3}]}).total"),
        needs=P,
    ),
    Edit(
        "pydantic order: a computed field",
        PYD,
        "sum(one.amount",
        "-sum(one.amount",
        ("m.SAMPLE.total", "m.Order().model_dump()"),
        needs=P,
    ),
    Edit(
        "pydantic order: a computed field is renamed",
        PYD,
        "def total",
        "def amount",
        ("m.SAMPLE.model_dump()", "sorted(m.Order.model_computed_fields)"),
        needs=P,
    ),
    Edit(
        "pydantic order: an optional field's default",
        PYD,
        "note: Optional[str] = None",
        "note: Optional[str] = '-'",
        ("m.SAMPLE.note", "m.Order().note"),
        needs=P,
    ),
    Edit("attrs: a limit by a constant", ATTRS, "MAX = 5", "MAX = 9", ("m.Point(8).x",), needs=A),
    Edit("attrs: a converter's body", ATTRS, "value * 2", "value * 3", ("m.Point(0, 2).y", "m.Named(y=1).y"), needs=A),
    Edit(
        "attrs: a property",
        ATTRS,
        "self.x + self.y",
        "self.x - self.y",
        ("m.ORIGIN.norm", "m.Named(y=1).norm"),
        needs=A,
    ),
    Edit(
        "attrs: a field of the base",
        ATTRS,
        "    @property\n",
        "    z: int = 0\n    @property\n",
        ("m.NAMES", "m.Named().z", "m.ORIGIN.z"),
        needs=A,
    ),
    Edit("attrs: a default of a subclass", ATTRS, "name: str = 'p'", "name: str = 'q'", ("m.Named().name",), needs=A),
    Edit(
        "click tool: a default by a constant",
        CLICK,
        "'world'",
        "'all'",
        (RUN.format("['hi']"),),
        needs=C,
    ),
    Edit(
        "click tool: a shared decorator's choices",
        CLICK,
        "['low', 'high']",
        "['mid', 'high']",
        (RUN.format("['hi', 'a']"), RUN.format("['db', 'init', '--level', 'mid']")),
        needs=C,
    ),
    Edit(
        "click tool: an option less in a shared decorator",
        CLICK,
        "    function = click.option('--verbose', is_flag=True)(function)\n",
        "",
        ("[one.name for one in m.hello.params]", "[one.name for one in m.init.params]"),
        needs=C,
    ),
    Edit(
        "click tool: a flag's default",
        CLICK,
        "default=False)",
        "default=True)",
        ("m.cli.params[0].default",),
        needs=C,
    ),
    Edit(
        "click tool: a command's name",
        CLICK,
        "cli.command('hi')",
        "cli.command('hello')",
        ("sorted(m.cli.commands)",),
        needs=C,
    ),
    Edit("click tool: a subcommand's body", CLICK, "'init '", "'start '", (RUN.format("['db', 'init']"),), needs=C),
    Edit(
        "click tool: a group is renamed",
        CLICK,
        "def db():\n    pass\n@db.",
        "def data():\n    pass\n@data.",
        ("sorted(m.cli.commands)", "hasattr(m, 'db')"),
        needs=C,
    ),
    Edit("celery tasks: a queue", CELERY, "QUEUE = 'default'", "QUEUE = 'fast'", ("m.app.conf.task_routes",), needs=CE),
    Edit(
        "celery tasks: retries by a constant",
        CELERY,
        "RETRIES = 3",
        "RETRIES = 7",
        ("m.pay.max_retries",),
        needs=CE,
    ),
    Edit("celery tasks: a schedule", CELERY, "60.0", "30.0", ("m.app.conf.beat_schedule",), needs=CE),
    Edit(
        "celery tasks: a body of a bound task",
        CELERY,
        "return amount",
        "return amount * 2",
        ("m.pay.run(2)", "m.app.tasks['m.pay'].run(2)"),
        needs=CE,
    ),
    Edit(
        "celery tasks: a task is renamed",
        CELERY,
        "def pay",
        "def charge",
        ("sorted(one for one in m.app.tasks if one[:2] == 'm.')",),
        needs=CE,
        expects="reported",
    ),
    Edit(
        "django app: a size by a constant",
        DJANGO,
        "SIZE = 40",
        "SIZE = 80",
        ("m.Author._meta.get_field('name').max_length", "m.AuthorForm().fields['name'].max_length"),
        setup=DJANGO_SETUP,
        needs=D,
    ),
    Edit(
        "django app: __str__",
        DJANGO,
        "return self.name\n",
        "return self.name.upper()\n",
        ("str(m.Author(name='a'))",),
        setup=DJANGO_SETUP,
        needs=D,
    ),
    Edit(
        "django app: an ordering",
        DJANGO,
        "ordering = ['name']",
        "ordering = ['-name']",
        ("m.Author._meta.ordering",),
        setup=DJANGO_SETUP,
        needs=D,
    ),
    Edit(
        "django app: arguments of a path",
        DJANGO,
        "{'word': 'all'}",
        "{'word': 'some'}",
        (DGET.format(""),),
        setup=DJANGO_SETUP,
        needs=D,
    ),
    Edit(
        "django app: a view's body",
        DJANGO,
        "{'pk': pk}",
        "{'id': pk}",
        (DGET.format("3/"),),
        setup=DJANGO_SETUP,
        needs=D,
    ),
    Edit(
        "django app: a path that was used",
        DJANGO,
        "'authors/<int:pk>/'",
        "'authors/<str:pk>/'",
        (DGET.format("a/"),),
        use=DGET.format("3/"),
        setup=DJANGO_SETUP,
        needs=D,
    ),
    Edit(
        "django app: a form's help",
        DJANGO,
        "'the name'",
        "'a name'",
        ("m.AuthorForm().fields['name'].help_text",),
        setup=DJANGO_SETUP,
        needs=D,
    ),
    Edit(
        "pytest module: a case",
        PYTEST,
        "(2, 3)]",
        "(2, 3), (3, 4)]",
        ("len(m.test_next.pytestmark[1].args[1])", "m.IDS", "m.TestThings.test_one.pytestmark[0].args"),
        needs=PT,
    ),
    Edit(
        "pytest module: a mark",
        PYTEST,
        "pytest.mark.slow",
        "pytest.mark.quick",
        ("m.test_next.pytestmark[0].name", "m.TestThings.pytestmark[0].name"),
        needs=PT,
    ),
    Edit("pytest module: a helper's default", PYTEST, "admin=False", "admin=True", ("m.make_user()",), needs=PT),
    Edit(
        "pytest module: a reason",
        PYTEST,
        "reason='many'",
        "reason='few'",
        ("m.TestThings.test_one.pytestmark[0].kwargs",),
        needs=PT,
    ),
    Edit("pytest module: ids", PYTEST, "{a}-{b}", "{a}to{b}", ("m.IDS", "m.test_next.pytestmark[1].kwargs"), needs=PT),
]
