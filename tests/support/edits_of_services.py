"""Edits to services as agents write them with Flask, FastAPI, Django, SQLAlchemy, pydantic, attrs, click, Celery, pytest."""

from edit_cases import Edit, with_expected

FLASK_APP = """\
from flask import Flask, g, jsonify
from n import bp, ApiError
import n as views
class Config:
    DEBUG = False
    PAGE = 5
    TITLE = 'shop'
def create(config=Config, **extra):
    app = Flask('shop')
    app.config.from_object(config)
    app.config.update(extra)
    app.register_blueprint(bp, url_prefix='/v1')
    @app.errorhandler(ApiError)
    def failed(error):
        return {'error': str(error)}, error.status
    @app.after_request
    def stamp(response):
        response.headers['X-Shop'] = app.config['TITLE']
        return response
    return app
app = create(LIMIT=3)
"""
FLASK_BP = """\
from flask import Blueprint, current_app, g, request
from flask.views import MethodView
class ApiError(Exception):
    status = 400
bp = Blueprint('items', __name__)
ITEMS = {'a': 1, 'b': 2}
@bp.before_request
def load():
    g.user = request.headers.get('X-User', 'nobody')
@bp.get('/items')
def index():
    return {'items': sorted(ITEMS), 'user': g.user, 'page': current_app.config['PAGE']}
@bp.get('/items/<key>')
def show(key):
    if key not in ITEMS:
        raise ApiError(f'no {key}')
    return {'item': ITEMS[key]}
class Stock(MethodView):
    unit = 'pieces'
    def get(self):
        return {'unit': self.unit}
bp.add_url_rule('/stock', view_func=Stock.as_view('stock'))
@bp.app_errorhandler(404)
def missing(error):
    return {'error': 'missing'}, 404
"""
FB = {"n": FLASK_BP}


def get(path, more=""):
    return f"(lambda r: (r.status_code, r.json))(m.app.test_client().get({path!r}{more}))"


FLASK_RULES = (
    "sorted((str(r), r.endpoint, sorted(r.methods)) for r in m.app.url_map.iter_rules() if 'static' not in str(r))"
)
FLASK_ONE = """\
import flask, functools
app = flask.Flask(__name__)
ROLES = {'admin': 2, 'user': 1}
def require(role):
    level = ROLES[role]
    def decorate(view):
        @functools.wraps(view)
        def inner(*args, **kw):
            if int(flask.request.args.get('level', 0)) < level:
                flask.abort(403)
            return view(*args, **kw)
        return inner
    return decorate
@app.route('/admin')
@require('admin')
def admin():
    return {'page': 'admin'}
@app.route('/me')
@require('user')
def me():
    return {'page': 'me'}
@app.template_filter('shout')
def shout(text):
    return text.upper() + '!'
@app.route('/hello')
def hello():
    return {'text': flask.render_template_string("{{ 'a'|shout }} {{ version }}")}
@app.context_processor
def names():
    return {'version': 1}
@app.url_defaults
def lang(endpoint, values):
    values.setdefault('lang', 'en')
for name in ('x', 'y'):
    app.add_url_rule(f'/{name}', name, functools.partial(lambda n: {'n': n}, name))
"""
FASTAPI_APP = """\
from contextlib import asynccontextmanager
from typing import Annotated
from fastapi import Depends, FastAPI, APIRouter, HTTPException, Query, Path, Request
from fastapi.responses import JSONResponse
from n import ItemIn, ItemOut, Settings, get_settings, make
STATE = {}
@asynccontextmanager
async def lifespan(app):
    STATE['started'] = 'yes'
    yield
    STATE.clear()
class NotFound(Exception):
    pass
def user(name: str = 'guest'):
    return {'name': name}
def admin(current: Annotated[dict, Depends(user)]):
    if current['name'] != 'root':
        raise HTTPException(status_code=403)
    return current
router = APIRouter(prefix='/items', tags=['items'], dependencies=[Depends(user)])
@router.get('/{key}', response_model=ItemOut)
def read(key: Annotated[int, Path(ge=1)], settings: Annotated[Settings, Depends(get_settings)], q: str = 'none'):
    if key > 50:
        raise NotFound
    return make(key, settings.currency)
@router.post('', status_code=201)
def create(item: ItemIn, who: dict = Depends(admin)) -> ItemOut:
    return ItemOut(**item.model_dump(), total=item.price * 2)
app = FastAPI(title='shop', lifespan=lifespan)
app.include_router(router)
@app.exception_handler(NotFound)
async def not_found(request: Request, error: NotFound):
    return JSONResponse({'missing': True}, status_code=404)
@app.middleware('http')
async def stamp(request, call_next):
    response = await call_next(request)
    response.headers['x-shop'] = 'a'
    return response
"""
FASTAPI_MODELS = """\
from functools import lru_cache
from pydantic import BaseModel, Field
class Settings(BaseModel):
    currency: str = 'EUR'
    page: int = 10
@lru_cache
def get_settings():
    return Settings()
class ItemBase(BaseModel):
    name: str = Field(default='pen', max_length=5)
    price: float = 1.0
class ItemIn(ItemBase):
    tags: list[str] = []
class ItemOut(ItemBase):
    total: float = 0
    currency: str = 'none'
def make(key, currency):
    return ItemOut(name='n', price=key, currency=currency)
"""
FM = {"n": FASTAPI_MODELS}
CLIENT = "__import__('fastapi.testclient').testclient.TestClient(m.app)"


def fget(path, method="get", more=""):
    return f"(lambda r: (r.status_code, r.json()))({CLIENT}.{method}({path!r}{more}))"


DJANGO = """\
import django.conf
if not django.conf.settings.configured:
    django.conf.settings.configure(ROOT_URLCONF='m', SECRET_KEY='x', ALLOWED_HOSTS=['*'],
        INSTALLED_APPS=['django.contrib.contenttypes', 'django.contrib.auth', 'django.contrib.admin', 'django.contrib.messages'],
        DATABASES={'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}})
    import django
    django.setup()
"""
DJ_VIEWS = """\
from django.http import JsonResponse
from django.views import View
from django.views.decorators.http import require_http_methods
PAGE = 10
def index(request):
    return JsonResponse({'page': PAGE})
@require_http_methods(['GET'])
def only(request, pk=0):
    return JsonResponse({'pk': pk})
class Detail(View):
    template = 'a'
    def get(self, request, slug):
        return JsonResponse({'slug': slug, 'template': self.template})
"""
DJ_URLS = """\
from django.urls import path, include
import n
app_name = 'shop'
items = [path('<int:pk>/', n.only, name='one'), path('x/<slug:slug>/', n.Detail.as_view(template='b'), name='detail')]
urlpatterns = [path('', n.index, name='index'), path('items/', include(items))]
handler404 = 'n.index'
"""
DJ_GET = "__import__('django.test').test.Client().get({!r}).content"
DJ_MODELS = """\
from django.db import models
from django import forms
from django.contrib import admin
from django.dispatch import Signal, receiver
from django.core.validators import MinValueValidator
from django.core.exceptions import ValidationError
MAX = 30
class Status(models.TextChoices):
    DRAFT = 'd', 'Draft'
    LIVE = 'l', 'Live'
class LiveQuery(models.QuerySet):
    def live(self):
        return self.filter(status=Status.LIVE)
class Article(models.Model):
    title = models.CharField(max_length=MAX, help_text='short')
    status = models.CharField(max_length=1, choices=Status.choices, default=Status.DRAFT)
    rank = models.IntegerField(default=1, validators=[MinValueValidator(0)])
    objects = LiveQuery.as_manager()
    class Meta:
        app_label = 'auth'
        verbose_name = 'piece'
    @property
    def label(self):
        return f'{self.title} ({self.get_status_display()})'
    def clean(self):
        if self.title == 'bad':
            raise ValidationError('bad title')
def no_shout(value):
    if value.isupper():
        raise ValidationError('shouting')
class ArticleForm(forms.Form):
    title = forms.CharField(max_length=MAX, validators=[no_shout])
    rank = forms.IntegerField(required=False, initial=3)
    def clean_title(self):
        return self.cleaned_data['title'].strip()
class ArticleAdmin(admin.ModelAdmin):
    list_display = ('title', 'status')
    @admin.display(description='Loud')
    def loud(self, article):
        return article.title.upper()
site = admin.AdminSite('own')
site.register(Article, ArticleAdmin)
published = Signal()
SENT = []
@receiver(published)
def on_published(sender, **kw):
    SENT.append('published')
SAMPLE = Article(title='one')
"""
ORM = """\
from sqlalchemy import ForeignKey, String, event, select, func, UniqueConstraint, CheckConstraint
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship, validates, declared_attr
class Base(DeclarativeBase):
    type_annotation_map = {str: String(40)}
class Stamped:
    stamp: Mapped[int] = mapped_column(default=lambda: 7)
    @declared_attr.directive
    def __tablename__(cls):
        return cls.__name__.lower()
def rank_of(context):
    return 5
class User(Stamped, Base):
    id: Mapped[int] = mapped_column(primary_key=True)
    first: Mapped[str]
    last: Mapped[str] = mapped_column(String(20), default='x')
    rank: Mapped[int] = mapped_column(default=rank_of)
    orders: Mapped[list['Order']] = relationship(back_populates='user', cascade='all')
    @hybrid_property
    def full(self):
        return self.first + ' ' + self.last
    @validates('first')
    def check(self, key, value):
        return value.strip()
    def __repr__(self):
        return f'User({self.first})'
class Order(Stamped, Base):
    __table_args__ = (CheckConstraint('amount > 0', name='positive'),)
    id: Mapped[int] = mapped_column(primary_key=True)
    amount: Mapped[int] = mapped_column(default=1)
    user_id: Mapped[int] = mapped_column(ForeignKey('user.id'))
    user: Mapped[User] = relationship(back_populates='orders')
BIG = select(Order).where(Order.amount > 100)
COUNT = select(func.count()).select_from(User)
@event.listens_for(User, 'init')
def started(target, args, kwargs):
    kwargs.setdefault('last', 'init')
"""
PYDANTIC = """\
from typing import Annotated, Generic, Literal, TypeVar, Union
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, computed_field, field_serializer, field_validator, model_validator, BeforeValidator
T = TypeVar('T')
def clean(value):
    return value.strip() if isinstance(value, str) else value
Name = Annotated[str, BeforeValidator(clean)]
class Base(BaseModel):
    model_config = ConfigDict(frozen=False, populate_by_name=True)
class Cat(Base):
    kind: Literal['cat'] = 'cat'
    lives: int = Field(9, ge=1, alias='Lives')
class Dog(Base):
    kind: Literal['dog'] = 'dog'
    name: Name = 'rex'
    @field_validator('name')
    @classmethod
    def short(cls, value):
        if len(value) > 8:
            raise ValueError('long')
        return value
Pet = Annotated[Union[Cat, Dog], Field(discriminator='kind')]
class Page(Base, Generic[T]):
    items: list[T] = []
    number: int = 1
    @computed_field
    def count(self) -> int:
        return len(self.items)
class Owner(Base):
    pets: list[Pet] = []
    best: Dog = Dog()
    @model_validator(mode='after')
    def full(self):
        if len(self.pets) > 2:
            raise ValueError('many')
        return self
    @field_serializer('best')
    def out(self, value):
        return value.name
PETS = TypeAdapter(list[Pet])
Cats = Page[Cat]
OWNER = Owner(pets=[{'kind': 'cat'}])
DUMP = OWNER.model_dump()
"""
ATTRS = """\
import attrs
from attrs import define, field, validators, converters
LIMIT = 10
def upper(instance, attribute, value):
    if value > LIMIT:
        raise ValueError(attribute.name)
@define
class Size:
    w: int = field(default=1, validator=[validators.instance_of(int), upper])
    h: int = field(default=2, converter=int)
    tags: list = field(factory=list)
    area: int = field(init=False)
    @area.default
    def _area(self):
        return self.w * self.h
    @h.validator
    def _check(self, attribute, value):
        if value < 0:
            raise ValueError('negative')
@attrs.frozen(kw_only=True, slots=False)
class Box(Size):
    name: str = field(default='box', converter=converters.optional(str))
    def __attrs_post_init__(self):
        object.__setattr__(self, 'done', True)
SMALL = Size(2, '3')
BOX = Box(w=2)
NAMES = [one.name for one in attrs.fields(Box)]
"""
CLICK = """\
import click
from click.testing import CliRunner
LEVELS = ('info', 'debug')
class Context:
    def __init__(self, level):
        self.level = level
pass_context = click.make_pass_decorator(Context)
def verbose(function):
    return click.option('-v', '--verbose', count=True, help='more')(function)
class Positive(click.ParamType):
    name = 'positive'
    def convert(self, value, param, ctx):
        if int(value) < 1:
            self.fail('not positive')
        return int(value)
@click.group()
@click.option('--level', type=click.Choice(LEVELS), default=LEVELS[0])
@click.version_option('1.0')
@click.pass_context
def cli(ctx, level):
    ctx.obj = Context(level)
@cli.command()
@click.argument('count', type=Positive())
@verbose
@pass_context
def run(context, count, verbose):
    click.echo(f'{context.level} {count} {verbose}')
@cli.group('db')
def database():
    pass
@database.command('up')
@click.option('--to', default='head', show_default=True)
def upgrade(to):
    click.echo('up ' + to)
"""
CLI = "CliRunner().invoke(m.cli, {}).output"
CELERY = """\
from celery import Celery, Task, shared_task, chain
from celery.schedules import crontab
RETRIES = 3
class Base(Task):
    name_prefix = 'a'
    def on_failure(self, *args):
        return 'failed'
app = Celery('shop', broker='memory://', backend='cache+memory://')
app.conf.task_always_eager = True
app.conf.task_routes = {'shop.add': {'queue': 'math'}}
@app.task(name='shop.add', bind=True, max_retries=RETRIES, base=Base)
def add(self, x, y=1):
    return x + y
@app.task(rate_limit='10/m')
def double(x):
    return add(x, x)
app.conf.beat_schedule = {'every': {'task': 'shop.add', 'schedule': crontab(minute=5), 'args': (1, 2)}}
both = chain(add.s(1), double.s())
"""
PYTEST = """\
import pytest
CASES = [(1, 2), (2, 3)]
def make(n=1):
    return {'n': n}
class Fake:
    calls = ()
    def get(self, key):
        return key
@pytest.fixture(scope='module', params=['a', 'b'])
def thing(request):
    return Fake()
@pytest.mark.parametrize('x, y', CASES, ids=str)
@pytest.mark.slow
def test_add(x, y):
    assert x + 1 == y
class TestShop:
    pytestmark = [pytest.mark.skipif(len(CASES) > 5, reason='many')]
    def test_one(self, thing):
        assert make()['n'] == 1
def pytest_collection_modifyitems(items):
    items.sort(key=lambda one: one.name)
"""
F, FA, DJ, SA, PY, AT, CL, CE, PT = (
    ("flask",),
    ("fastapi", "httpx2"),
    ("django",),
    ("sqlalchemy",),
    ("pydantic",),
    ("attrs",),
    ("click",),
    ("celery",),
    ("pytest",),
)


def flask(name, old, new, probe, edited="n", **more):
    return Edit(f"flask service: {name}", FLASK_APP, old, new, probe, FB, needs=F, edited=edited, **more)


def one(name, old, new, probe, **more):
    return Edit(f"flask module: {name}", FLASK_ONE, old, new, probe, needs=F, **more)


def fast(name, old, new, probe, edited="m", **more):
    return Edit(f"fastapi service: {name}", FASTAPI_APP, old, new, probe, FM, needs=("fastapi",), edited=edited, **more)


def urls(name, old, new, probe, edited="n", **more):
    return Edit(
        f"django urls: {name}", DJ_URLS, old, new, probe, {"n": DJ_VIEWS}, setup=DJANGO, needs=DJ, edited=edited, **more
    )


def dj(name, old, new, probe, **more):
    return Edit(f"django models: {name}", DJ_MODELS, old, new, probe, setup=DJANGO, needs=DJ, **more)


def orm(name, old, new, probe, **more):
    return Edit(f"sqlalchemy service: {name}", ORM, old, new, probe, needs=SA, **more)


def pyd(name, old, new, probe, **more):
    return Edit(f"pydantic service: {name}", PYDANTIC, old, new, probe, needs=PY, **more)


def att(name, old, new, probe, **more):
    return Edit(f"attrs service: {name}", ATTRS, old, new, probe, needs=AT, **more)


def cli(name, old, new, probe, **more):
    return Edit(
        f"click service: {name}", CLICK, old, new, probe, setup="from click.testing import CliRunner", needs=CL, **more
    )


def cel(name, old, new, probe, **more):
    return Edit(f"celery service: {name}", CELERY, old, new, probe, needs=CE, **more)


def pt(name, old, new, probe, **more):
    return Edit(f"pytest service: {name}", PYTEST, old, new, probe, needs=PT, **more)


ALL = [
    flask("a view's body", "'items': sorted(ITEMS)", "'all': sorted(ITEMS)", (get("/v1/items"),)),
    flask("data of the views", "'b': 2}", "'b': 2, 'c': 3}", (get("/v1/items"), get("/v1/items/c"))),
    flask(
        "a route more on a registered blueprint",
        "class Stock",
        "@bp.get('/count')\ndef count():\n    return {'n': len(ITEMS)}\nclass Stock",
        (get("/v1/count"), get("/v1/items")),
    ),
    flask(
        "a rule is another",
        "@bp.get('/items/<key>')",
        "@bp.get('/item/<key>')",
        (get("/v1/item/a"), get("/v1/items/a"), FLASK_RULES),
    ),
    flask(
        "a view is deleted",
        "@bp.get('/items/<key>')\ndef show(key):\n    if key not in ITEMS:\n        raise ApiError(f'no {key}')\n    return {'item': ITEMS[key]}\n",
        "",
        (get("/v1/items/a"), FLASK_RULES),
    ),
    flask("before a request", "'nobody')", "'anonymous')", (get("/v1/items"),)),
    flask("the status of an error", "status = 400", "status = 422", (get("/v1/items/zz"),)),
    flask("an attribute of a view's class", "unit = 'pieces'", "unit = 'boxes'", (get("/v1/stock"),)),
    flask(
        "a method of a view's class",
        "    def get(self):\n",
        "    def post(self):\n        return {'posted': 1}\n    def get(self):\n",
        (get("/v1/stock"), FLASK_RULES),
    ),
    flask("the endpoint of a view's class", "as_view('stock')", "as_view('store')", (FLASK_RULES, get("/v1/stock"))),
    flask(
        "an error handler of the application",
        "return {'error': 'missing'}, 404",
        "return {'error': 'gone'}, 410",
        (get("/v1/none"),),
    ),
    flask("an error handler's code", "app_errorhandler(404)", "app_errorhandler(405)", (get("/v1/none"),)),
    flask(
        "another name of the blueprint",
        "Blueprint('items'",
        "Blueprint('things'",
        (get("/v1/items"), "sorted(m.app.blueprints)"),
    ),
    flask("a configured title", "TITLE = 'shop'", "TITLE = 'store'", ("m.app.config['TITLE']", get("/v1/items")), "m"),
    flask("a configured size", "PAGE = 5", "PAGE = 50", ("m.app.config['PAGE']", get("/v1/items")), "m"),
    flask("a prefix in a factory", "url_prefix='/v1'", "url_prefix='/v2'", (get("/v2/items"), get("/v1/items")), "m"),
    flask(
        "a limit of the factory's call",
        "create(LIMIT=3)",
        "create(LIMIT=4)",
        ("m.app.config['LIMIT']", get("/v1/items")),
        "m",
    ),
    flask("a handler in a factory", "{'error': str(error)}", "{'failed': str(error)}", (get("/v1/items/zz"),), "m"),
    flask(
        "a hook in a factory",
        "'X-Shop'",
        "'X-Store'",
        ("m.app.test_client().get('/v1/items').headers.get('X-Store')",),
        "m",
    ),
    one("a level of a role", "'user': 1", "'user': 3", (get("/me?level=2"), get("/admin?level=2"))),
    one("a decorator's argument", "@require('user')", "@require('admin')", (get("/me?level=1"), get("/me?level=2"))),
    one("a decorator's body", "flask.abort(403)", "flask.abort(401)", (get("/me"),)),
    one("a filter's body", "text.upper() + '!'", "text.upper() + '?'", (get("/hello"),)),
    one("a filter's name", "template_filter('shout')", "template_filter('loud')", (get("/hello"),)),
    one("a context", "{'version': 1}", "{'version': 2}", (get("/hello"),)),
    one("a loop of rules", "('x', 'y')", "('x', 'y', 'z')", (get("/z"), get("/x"), FLASK_RULES)),
    one("a lambda in a loop of rules", "{'n': n}", "{'name': n}", (get("/x"),)),
    one("a decorator less", "@app.route('/me')\n@require('user')\n", "@app.route('/me')\n", (get("/me"),)),
    one(
        "the order of decorators",
        "@app.route('/me')\n@require('user')\n",
        "@require('user')\n@app.route('/me')\n",
        (get("/me"),),
    ),
    one(
        "a default of a rule",
        "values.setdefault('lang', 'en')",
        "values.setdefault('lang', 'de')",
        ("m.app.url_default_functions[None][0].__name__", "(lambda d: (m.lang('x', d), d))({})"),
    ),
    fast("a handler's body", "make(key, settings.currency)", "make(key * 2, settings.currency)", (fget("/items/3"),)),
    fast("a constraint of a path", "Path(ge=1)", "Path(ge=5)", (fget("/items/3"),)),
    fast("a default of a query", "q: str = 'none'", "q: int = 1", (fget("/items/3?q=a"),)),
    fast("a dependency's rule", "!= 'root'", "!= 'admin'", (fget("/items?name=admin", "post", ", json={}"),)),
    fast("a dependency's default", "name: str = 'guest'", "name: str = 'root'", (fget("/items", "post", ", json={}"),)),
    fast(
        "a dependency's parameter",
        "def user(name: str = 'guest'):\n    return {'name': name}",
        "def user(login: str = 'guest'):\n    return {'name': login}",
        (fget("/items?login=root", "post", ", json={}"),),
    ),
    fast("a status", "status_code=201", "status_code=202", (fget("/items?name=root", "post", ", json={}"),)),
    fast("a handler of an exception", "{'missing': True}", "{'gone': True}", (fget("/items/60"),)),
    fast("a middleware's body", "= 'a'", "= 'b'", (f"{CLIENT}.get('/items/3').headers['x-shop']",)),
    fast(
        "a title",
        "title='shop'",
        "title='store'",
        ("m.app.title", "m.app.openapi()['info']['title']", fget("/items/3")),
    ),
    fast("a prefix", "prefix='/items'", "prefix='/things'", (fget("/things/3"), fget("/items/3"))),
    fast(
        "a lifespan's body",
        "STATE['started'] = 'yes'",
        "STATE['started'] = 'now'",
        (f"(lambda c: (c.__enter__(), dict(m.STATE), c.__exit__(None, None, None)))({CLIENT})[1]",),
    ),
    fast(
        "a route more",
        "app = FastAPI(",
        "@router.get('/x/all')\ndef every():\n    return ['all']\napp = FastAPI(",
        (fget("/items/x/all"), fget("/items/3")),
    ),
    fast(
        "a route less",
        "@router.post('', status_code=201)\ndef create(item: ItemIn, who: dict = Depends(admin)) -> ItemOut:\n    return ItemOut(**item.model_dump(), total=item.price * 2)\n",
        "",
        (fget("/items?name=root", "post", ", json={}"), fget("/items/3")),
    ),
    fast(
        "a model's field",
        "price: float = 1.0",
        "price: float = 2.0",
        (fget("/items?name=root", "post", ", json={}"),),
        "n",
    ),
    fast(
        "a model's constraint",
        "max_length=5",
        "max_length=2",
        (fget("/items?name=root", "post", ", json={'name': 'abcd'}"),),
        "n",
    ),
    fast(
        "a field of the answer",
        "currency: str = 'none'",
        "currency: str = 'none'\n    extra: int = 4",
        (fget("/items/3"),),
        "n",
    ),
    fast(
        "a cached setting",
        "currency: str = 'EUR'",
        "currency: str = 'USD'",
        (fget("/items/3"), "m.get_settings().currency"),
        "n",
    ),
    fast(
        "a model's base",
        "class ItemIn(ItemBase)",
        "class ItemIn(BaseModel)",
        (fget("/items?name=root", "post", ", json={}"),),
        "n",
        more=(("n", "    tags: list[str] = []", "    tags: list[str] = []\n    price: float = 8"),),
    ),
    fast("a helper of another module", "ItemOut(name='n'", "ItemOut(name='m'", (fget("/items/3"),), "n"),
    urls("a constant that a view reads", "PAGE = 10", "PAGE = 20", (DJ_GET.format("/"),)),
    urls("a view's body", "{'page': PAGE}", "{'size': PAGE}", (DJ_GET.format("/"),)),
    urls(
        "allowed methods",
        "['GET']",
        "['POST']",
        ("__import__('django.test').test.Client().get('/items/4/').status_code",),
    ),
    urls("a body of a decorated view", "{'pk': pk}", "{'id': pk}", (DJ_GET.format("/items/4/"),)),
    urls("a method of a view's class", "'slug': slug", "'s': slug", (DJ_GET.format("/items/x/a/"),)),
    urls(
        "an attribute of a view's class",
        "template = 'a'",
        "template = 'c'\n    extra = 1",
        ("n.Detail.template", DJ_GET.format("/items/x/a/")),
    ),
    urls(
        "a view's class that is renamed",
        "class Detail",
        "class Page",
        (DJ_GET.format("/items/x/a/"),),
        more=(("m", "n.Detail", "n.Page"),),
    ),
    urls("an argument of a view", "template='b'", "template='d'", (DJ_GET.format("/items/x/a/"),), "m"),
    urls(
        "a pattern more",
        "path('', n.index, name='index'),",
        "path('', n.index, name='index'), path('more/', n.index, name='more'),",
        (DJ_GET.format("/more/"), "len(m.urlpatterns)"),
        "m",
    ),
    urls(
        "an included pattern more",
        "items = [",
        "items = [path('all/', n.index, name='all'), ",
        (DJ_GET.format("/items/all/"),),
        "m",
    ),
    urls("a pattern's name", "name='index'", "name='home'", ("__import__('django.urls').urls.reverse('home')",), "m"),
    dj(
        "a length by a constant",
        "MAX = 30",
        "MAX = 40",
        ("m.Article._meta.get_field('title').max_length", "m.ArticleForm.base_fields['title'].max_length"),
    ),
    dj(
        "a choice",
        "    LIVE = 'l', 'Live'\n",
        "    LIVE = 'l', 'Live'\n    OLD = 'o', 'Old'\n",
        ("m.Status.choices", "m.Article._meta.get_field('status').choices"),
    ),
    dj("a label of a choice", "'Draft'", "'New'", ("m.Status.choices", "m.SAMPLE.label")),
    dj("a query set's method", "status=Status.LIVE", "status=Status.DRAFT", ("str(m.Article.objects.live().query)",)),
    dj(
        "a query set's method more",
        "class Article(",
        "    def none_of(self):\n        return 7\nclass Article(",
        ("m.Article.objects.none_of()",),
    ),
    dj("a property", "{self.title} ({", "{self.title} [{", ("m.SAMPLE.label",)),
    dj("a default", "default=1, validators", "default=2, validators", ("m.Article().rank", "m.SAMPLE.rank")),
    dj(
        "a validator",
        "MinValueValidator(0)",
        "MinValueValidator(5)",
        ("m.Article._meta.get_field('rank').validators[0].limit_value",),
    ),
    dj("a method of validation", "== 'bad'", "== 'worse'", ("m.Article(title='bad').clean()",)),
    dj("an option", "verbose_name = 'piece'", "verbose_name = 'article'", ("str(m.Article._meta.verbose_name)",)),
    dj(
        "a field more",
        "    objects = Live",
        "    note = models.TextField(default='')\n    objects = Live",
        ("[f.name for f in m.Article._meta.fields]",),
    ),
    dj("a validator's function", "value.isupper()", "value.islower()", ("m.ArticleForm({'title': 'AB'}).is_valid()",)),
    dj("a form's initial value", "initial=3", "initial=4", ("m.ArticleForm().fields['rank'].initial",)),
    dj(
        "a form's clean method",
        ".strip()",
        ".strip().lower()",
        ("(lambda f: (f.is_valid(), f.cleaned_data.get('title')))(m.ArticleForm({'title': ' Ab '}))",),
    ),
    dj(
        "a form's field less",
        "    rank = forms.IntegerField(required=False, initial=3)\n",
        "",
        ("sorted(m.ArticleForm.base_fields)",),
    ),
    dj(
        "columns of an admin", "('title', 'status')", "('title', 'loud')", ("m.site._registry[m.Article].list_display",)
    ),
    dj("a method of an admin", ".upper()\n", ".lower()\n", ("m.site._registry[m.Article].loud(m.SAMPLE)",)),
    dj(
        "a description in an admin",
        "'Loud'",
        "'Quiet'",
        ("m.ArticleAdmin.loud.short_description", "type(m.site._registry[m.Article]).loud.short_description"),
    ),
    dj(
        "a receiver's body",
        "SENT.append('published')",
        "SENT.append('sent')",
        ("(m.published.send(None), m.SENT[-1])[1]",),
    ),
    dj(
        "a receiver is deleted",
        "@receiver(published)\ndef on_published(sender, **kw):\n    SENT.append('published')\n",
        "",
        ("len(m.published._live_receivers(None)[0])",),
    ),
    dj("a sample", "title='one'", "title='two'", ("m.SAMPLE.label",)),
    orm(
        "a hybrid property",
        "self.first + ' ' + self.last",
        "self.last + ' ' + self.first",
        ("m.User(first='a', last='b').full", "str(m.User.full)"),
    ),
    orm("a validator", "value.strip()", "value.strip().title()", ("m.User(first=' ann ').first",)),
    orm(
        "a validator of another column",
        "@validates('first')",
        "@validates('last')",
        ("m.User(first=' a ', last=' b ').first", "m.User(first=' a ', last=' b ').last"),
    ),
    orm("a repr", "f'User({self.first})'", "f'<{self.first}>'", ("m.User(first='a')",)),
    orm("a default's function", "return 5", "return 6", ("m.User.__table__.c.rank.default.arg(None)",)),
    orm(
        "a lambda of a mixin",
        "lambda: 7",
        "lambda: 8",
        ("m.User.__table__.c.stamp.default.arg(None)", "m.Order.__table__.c.stamp.default.arg(None)"),
    ),
    orm(
        "a mixin's table name",
        "cls.__name__.lower()",
        "cls.__name__.lower() + 's'",
        ("m.User.__tablename__", "m.User.__table__.name"),
    ),
    orm(
        "a relationship's option",
        "cascade='all'",
        "cascade='all, delete-orphan'",
        ("m.User.orders.property.cascade.delete_orphan",),
    ),
    orm(
        "a constraint",
        "amount > 0",
        "amount > 1",
        ("[str(c.sqltext) for c in m.Order.__table__.constraints if c.name == 'positive']",),
    ),
    orm("a bound of a query", "> 100", "> 200", ("m.BIG.compile().params",)),
    orm("a listener's body", "'last', 'init'", "'last', 'event'", ("m.User(first='a').last",)),
    orm(
        "a listener's event",
        "@event.listens_for(User, 'init')\ndef started(target, args, kwargs):\n    kwargs.setdefault('last', 'init')",
        "@event.listens_for(Order, 'init')\ndef started(target, args, kwargs):\n    kwargs.setdefault('amount', 3)",
        ("m.Order().amount", "m.User(first='a').last"),
    ),
    orm("a type of the base", "String(40)", "String(50)", ("m.User.__table__.c.first.type.length",)),
    orm(
        "a column more",
        "    amount: Mapped[int]",
        "    note: Mapped[str] = mapped_column(default='')\n    amount: Mapped[int]",
        ("sorted(m.Order.__table__.c.keys())", "str(m.BIG)"),
    ),
    orm(
        "a method more",
        "    def __repr__",
        "    def short(self):\n        return self.first[:1]\n    def __repr__",
        ("m.User(first='ann').short()",),
    ),
    pyd("a default", "Field(9, ge=1", "Field(7, ge=1", ("m.Cat().lives", "m.OWNER.pets[0].lives", "m.DUMP")),
    pyd("an alias", "alias='Lives'", "alias='lifes'", ("m.Cat(lifes=3).lives", "m.Cat(Lives=3).lives", "m.DUMP")),
    pyd("a function before validation", "value.strip()", "value.strip().lower()", ("m.Dog(name=' REX ').name",)),
    pyd("a validator's limit", "> 8", "> 2", ("m.Dog(name='abc')", "m.Owner(pets=[{'kind': 'dog', 'name': 'abc'}])")),
    pyd(
        "a member of a union",
        "Pet = Annotated[Union[Cat, Dog]",
        "class Fish(Base):\n    kind: Literal['fish'] = 'fish'\nPet = Annotated[Union[Cat, Dog, Fish]",
        ("m.Owner(pets=[{'kind': 'fish'}]).pets[0].kind", "m.PETS.validate_python([{'kind': 'fish'}])"),
    ),
    pyd(
        "a configuration of the base",
        "frozen=False",
        "frozen=True",
        ("setattr(m.Cat(), 'lives', 3)", "setattr(m.Owner(), 'pets', [])"),
    ),
    pyd(
        "a field of a generic",
        "number: int = 1",
        "number: int = 1\n    size: int = 20",
        ("m.Cats().size", "m.Page[int]().size"),
    ),
    pyd(
        "a computed field",
        "len(self.items)",
        "len(self.items) * 2",
        ("m.Cats(items=[m.Cat()]).count", "m.Cats(items=[m.Cat()]).model_dump()['count']"),
    ),
    pyd("a validator of the model", "> 2:", "> 1:", ("m.Owner(pets=[{'kind': 'cat'}] * 2)", "m.Owner().pets")),
    pyd(
        "a serializer's body",
        "return value.name",
        "return value.kind",
        ("m.OWNER.model_dump()['best']", "m.DUMP['best']"),
    ),
    pyd(
        "a default that is a model",
        "best: Dog = Dog()",
        "best: Dog = Dog(name='bob')",
        ("m.Owner().best.name", "m.OWNER.best.name", "m.DUMP['best']"),
    ),
    pyd(
        "a default of a model that is a default",
        "name: Name = 'rex'",
        "name: Name = 'max'",
        ("m.Owner().best.name", "m.Dog().name", "m.DUMP['best']"),
    ),
    pyd(
        "a mode of a validator",
        "@field_validator('name')",
        "@field_validator('name', mode='before')",
        ("m.Dog(name='  abcdefgh  ')",),
    ),
    pyd(
        "a parameter of a generic",
        "Cats = Page[Cat]",
        "Cats = Page[Dog]",
        ("m.Cats(items=[{'kind': 'dog'}]).items[0].kind",),
    ),
    att("a limit by a constant", "LIMIT = 10", "LIMIT = 4", ("m.Size(5)", "m.SMALL.w")),
    att("a validator's function", "value > LIMIT", "value >= LIMIT", ("m.Size(10)",)),
    att("a default's method", "self.w * self.h", "self.w + self.h", ("m.SMALL.area", "m.Size().area", "m.BOX.area")),
    att("a converter", "converter=int)", "converter=float)", ("m.SMALL.h", "m.Size(1, '2').h")),
    att("a validator's method", "value < 0", "value < -5", ("m.Size(1, -2)",)),
    att("a factory", "factory=list", "factory=dict", ("m.SMALL.tags", "m.Box().tags")),
    att(
        "a field more",
        "    area: int",
        "    depth: int = 4\n    area: int",
        ("m.NAMES", "m.Size().depth", "m.Box().depth"),
    ),
    att("a default of a subclass", "default='box'", "default='crate'", ("m.BOX.name", "m.Box().name")),
    att("a hook after creation", "'done', True", "'done', 'yes'", ("m.BOX.done", "m.Box().done")),
    att("not frozen", "@attrs.frozen(kw_only=True", "@attrs.define(kw_only=True", ("setattr(m.Box(), 'name', 'x')",)),
    cli("a body", "{context.level} {count}", "{count} {context.level}", (CLI.format("['run', '3']"),)),
    cli(
        "a level more",
        "('info', 'debug')",
        "('warn', 'info', 'debug')",
        (CLI.format("['--level', 'warn', 'run', '3']"), CLI.format("['run', '3']")),
    ),
    cli("a version", "version_option('1.0')", "version_option('2.0')", (CLI.format("['--version']"),)),
    cli("a type's rule", "int(value) < 1", "int(value) < 5", (CLI.format("['run', '3']"),)),
    cli(
        "a shared option",
        "'-v', '--verbose', count=True",
        "'-v', '--verbose', is_flag=True",
        (CLI.format("['run', '3', '-v']"),),
    ),
    cli("a default of a nested command", "default='head'", "default='base'", (CLI.format("['db', 'up']"),)),
    cli(
        "a name of a nested command",
        "command('up')",
        "command('upgrade')",
        (CLI.format("['db', 'upgrade']"), "sorted(m.database.commands)"),
    ),
    cli(
        "a group's name",
        "cli.group('db')",
        "cli.group('data')",
        (CLI.format("['data', 'up']"), "sorted(m.cli.commands)"),
    ),
    cli(
        "a nested command more",
        "@database.command('up')",
        "@database.command('down')\ndef downgrade():\n    click.echo('down')\n@database.command('up')",
        (CLI.format("['db', 'down']"), CLI.format("['db', 'up']")),
    ),
    cli("a context's attribute", "self.level = level", "self.level = level.upper()", (CLI.format("['run', '3']"),)),
    cli(
        "an argument is optional",
        "@click.argument('count', type=Positive())",
        "@click.argument('count', type=Positive(), default=2)",
        (CLI.format("['run']"),),
    ),
    cel("a body", "return x + y", "return x * y", ("m.add(3, 2)", "m.double(3)")),
    cel("a default", "y=1", "y=10", ("m.add(3)",)),
    cel("retries by a constant", "RETRIES = 3", "RETRIES = 9", ("m.add.max_retries",)),
    cel("a rate", "'10/m'", "'20/m'", ("m.double.rate_limit",)),
    cel("a schedule's minute", "minute=5", "minute=6", ("m.app.conf.beat_schedule['every']['schedule'].minute",)),
    cel("a route", "'queue': 'math'", "'queue': 'sums'", ("m.app.conf.task_routes['shop.add']",)),
    cel(
        "a name",
        "name='shop.add'",
        "name='shop.plus'",
        ("m.add.name", "'shop.add' in m.app.tasks", "'shop.plus' in m.app.tasks"),
    ),
    cel("an attribute of the base", "name_prefix = 'a'", "name_prefix = 'b'", ("m.add.name_prefix",)),
    cel("a method of the base", "return 'failed'", "return 'broken'", ("m.add.on_failure()",)),
    cel("a chain", "add.s(1), double.s()", "add.s(2), double.s()", ("m.both.tasks[0].args",)),
    cel(
        "another name of the application",
        "Celery('shop'",
        "Celery('store'",
        ("m.app.main", "m.add.app is m.app", "'shop.add' in m.app.tasks"),
    ),
    pt(
        "a case more",
        "(2, 3)]",
        "(2, 3), (3, 4)]",
        ("[one.args for one in m.test_add.pytestmark if one.name == 'parametrize']",),
    ),
    pt("a helper's default", "n=1", "n=2", ("m.make()",)),
    pt("an attribute of a fake", "calls = ()", "calls = (1,)", ("m.Fake.calls",)),
    pt(
        "a fixture's parameters",
        "params=['a', 'b']",
        "params=['a']",
        ("list((getattr(m.thing, '_fixture_function_marker', None) or m.thing._pytestfixturefunction).params)",),
    ),
    pt(
        "a mark more",
        "@pytest.mark.slow\n",
        "@pytest.mark.slow\n@pytest.mark.net\n",
        ("sorted(one.name for one in m.test_add.pytestmark)",),
    ),
    pt("a condition", "len(CASES) > 5", "len(CASES) > 1", ("m.TestShop.pytestmark[0].args",)),
    pt(
        "a hook's lambda",
        "one.name)",
        "one.nodeid)",
        ("m.pytest_collection_modifyitems.__code__.co_consts[1].co_names",),
    ),
]
# What a load of an edit gives, if it is not right.
ALL = with_expected(
    ALL,
    false=[
        "django models: a label of a choice",
    ],
    reported=[
        "sqlalchemy service: a mixin's table name",
        "sqlalchemy service: a validator of another column",
        "sqlalchemy service: a lambda of a mixin",
        "sqlalchemy service: a relationship's option",
        "sqlalchemy service: a constraint",
        "sqlalchemy service: a listener's event",
        "sqlalchemy service: a type of the base",
        "sqlalchemy service: a column more",
        "celery service: another name of the application",
    ],
)
