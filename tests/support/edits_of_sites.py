"""Edits to small sites and services with Flask, FastAPI, Django and SQLAlchemy, and to the modules that they consist of."""

from edit_cases import edits_of, with_expected

SHOP_CONFIG = """\
import os
class Config:
    DEBUG = False
    CURRENCY = 'EUR'
    PER_PAGE = 25
    FEATURES = frozenset({'cart'})
    @property
    def label(self):
        return f'{self.CURRENCY}/{self.PER_PAGE}'
class Testing(Config):
    TESTING = True
    PER_PAGE = 2
CONFIGS = {'default': Config, 'testing': Testing}
"""
SHOP_ERRORS = """\
class ShopError(Exception):
    status = 400
    def payload(self):
        return {'error': str(self), 'status': self.status}
class NotFound(ShopError):
    status = 404
class SoldOut(ShopError):
    status = 409
"""
SHOP_API = """\
from flask import Blueprint, current_app, g, request
import errs
bp = Blueprint('api', __name__, url_prefix='/api')
STOCK = {'pen': 3, 'ink': 0}
ALLOWED = ('GET', 'HEAD')
def requires(*names):
    def decorate(view):
        view.needs = names
        def wrapper(*args, **kwargs):
            missing = [name for name in names if name not in request.args]
            if missing:
                raise errs.ShopError('missing ' + ','.join(missing))
            return view(*args, **kwargs)
        wrapper.__name__ = view.__name__
        return wrapper
    return decorate
@bp.before_request
def tag():
    g.tag = request.args.get('tag', 'none')
@bp.after_request
def stamp(response):
    response.headers['X-Tag'] = g.tag
    return response
@bp.route('/items/<name>', methods=ALLOWED)
def item(name):
    if name not in STOCK:
        raise errs.NotFound(name)
    return {'name': name, 'left': STOCK[name], 'cur': current_app.config['CURRENCY']}
@bp.route('/buy/<name>')
@requires('count')
def buy(name):
    if STOCK[name] < int(request.args['count']):
        raise errs.SoldOut(name)
    return {'bought': name}
@bp.app_template_filter('money')
def money(value):
    return f'{value:.2f}'
@bp.app_context_processor
def context():
    return {'shop': 'corner'}
"""
SHOP_APP = """\
from flask import Flask, render_template_string
import conf, errs
from api import bp
app = Flask(__name__)
app.config.from_object(conf.Config)
app.config['TITLE'] = 'Shop in ' + conf.Config.CURRENCY
app.register_blueprint(bp)
@app.errorhandler(errs.ShopError)
def handle(error):
    return error.payload(), error.status
@app.route('/')
def index():
    return render_template_string('{{ 1.5|money }} {{ shop }} {{ config.TITLE }}')
@app.cli.command('stock')
def stock():
    print('stock')
@app.teardown_appcontext
def close(error):
    CLOSED.append(1)
CLOSED = []
app.jinja_env.globals['version'] = '1.0'
app.add_url_rule('/ping', 'ping', lambda: 'pong')
"""
SHOP = {"conf": SHOP_CONFIG, "errs": SHOP_ERRORS, "api": SHOP_API}
WEB = "m.app.test_client().get({!r})"


def web(path):
    return f"(lambda r: (r.status_code, r.get_data(), r.headers.get('X-Tag')))({WEB.format(path)})"


PAGES = (
    web("/api/items/pen"), web("/api/items/gum"), web("/api/buy/pen?count=2"), web("/api/buy/ink?count=2&tag=a"),
    web("/api/buy/pen"), web("/"), web("/ping"),
    "sorted((str(r), r.endpoint, sorted(r.methods)) for r in m.app.url_map.iter_rules())", "sorted(m.app.cli.commands)",
    "sorted(m.app.jinja_env.globals)", "m.app.config['TITLE']", "m.app.config['PER_PAGE']",
    "sorted(m.app.before_request_funcs, key=str)",
    "[list(c.cell_contents.needs) for c in m.app.view_functions['api.buy'].__closure__ if hasattr(c.cell_contents, 'needs')]",
    "[type(c.cell_contents.needs) for c in m.app.view_functions['api.buy'].__closure__ if hasattr(c.cell_contents, 'needs')]",
)  # fmt: skip
SHOP_EDITS = [
    *edits_of(
        "flask shop",
        SHOP_APP,
        [
            ("a currency of the configuration", "'EUR'", "'USD'", PAGES, {"edited": "conf"}),
            ("a page size of the configuration", "PER_PAGE = 25", "PER_PAGE = 50", PAGES, {"edited": "conf"}),
            ("a configuration more", "    DEBUG = False\n", "    DEBUG = False\n    MAX_CONTENT_LENGTH = 99\n",
             (*PAGES, "m.app.config['MAX_CONTENT_LENGTH']"), {"edited": "conf"}),
            ("a status of an error", "status = 409", "status = 410", PAGES, {"edited": "errs"}),
            ("an inherited status", "    status = 400\n", "    status = 422\n", PAGES, {"edited": "errs"}),
            ("a payload of errors", "'error': str(self)", "'message': str(self)", PAGES, {"edited": "errs"}),
            ("an error with another base", "class SoldOut(ShopError)", "class SoldOut(NotFound)",
             (*PAGES, "issubclass(errs.SoldOut, errs.NotFound)"), {"edited": "errs"}),
            ("an error that no handler catches", "class SoldOut(ShopError)", "class SoldOut(LookupError)",
             (*PAGES, "m.app.error_handler_spec[None][None].keys() == {errs.ShopError}"), {"edited": "errs"}),
            ("a body of a hook", "'none'", "'empty'", PAGES, {"edited": "api"}),
            ("a hook less", "@bp.before_request\n", "", PAGES, {"edited": "api"}),
            ("a hook of the whole application", "@bp.before_request", "@bp.before_app_request", PAGES, {"edited": "api"}),
            ("a stock", "'ink': 0", "'ink': 5", PAGES, {"edited": "api"}),
            ("methods of a rule in a constant", "ALLOWED = ('GET', 'HEAD')", "ALLOWED = ('GET', 'POST')", PAGES,
             {"edited": "api"}),
            ("what a decorator of the application checks", "not in request.args", "not in request.headers", PAGES,
             {"edited": "api"}),
            ("an argument of a decorator", "@requires('count')", "@requires('count', 'tag')", PAGES, {"edited": "api"}),
            ("a decorator's own attribute", "view.needs = names", "view.needs = sorted(names)", PAGES, {"edited": "api"}),
            ("a decorator more", "@bp.route('/items/<name>', methods=ALLOWED)\n",
             "@bp.route('/items/<name>', methods=ALLOWED)\n@requires('tag')\n", PAGES, {"edited": "api"}),
            ("a filter's body", ".2f", ".3f", PAGES, {"edited": "api"}),
            ("a filter's name", "'money'", "'cash'", PAGES, {"edited": "api"}),
            ("a context processor", "'corner'", "'square'", PAGES, {"edited": "api"}),
            ("a route after use", "'/buy/<name>'", "'/sell/<name>'", (*PAGES, web("/api/sell/pen?count=1")),
             {"edited": "api", "hold": "c = m.app.test_client(); c.get('/ping')"}),
            ("a title", "'Shop in '", "'Store in '", PAGES),
            ("a handler for another error", "errorhandler(errs.ShopError)", "errorhandler(errs.NotFound)", PAGES),
            ("a handler more", "@app.route('/')", "@app.errorhandler(errs.SoldOut)\ndef sold(error):\n    return 'sold', 418\n@app.route('/')", PAGES),
            ("a command", "command('stock')", "command('inventory')", PAGES),
            ("a global of templates", "'1.0'", "'2.0'", (*PAGES, "m.app.jinja_env.globals['version']")),
            ("a global less", "app.jinja_env.globals['version'] = '1.0'\n", "", PAGES),
            ("a lambda of a rule", "lambda: 'pong'", "lambda: 'PONG'", PAGES),
            ("a rule by a function", "'/ping', 'ping', lambda: 'pong'", "'/ping', 'ping', index", PAGES),
            ("another configuration", "from_object(conf.Config)", "from_object(conf.Testing)", PAGES),
            ("a blueprint's prefix at its registration", "register_blueprint(bp)", "register_blueprint(bp, url_prefix='/v2')",
             (*PAGES, web("/v2/items/pen"))),
            ("a value next to the application", "CLOSED = []", "CLOSED = [0]", ("m.CLOSED", *PAGES)),
        ],
        others=SHOP,
        needs=("flask",),
    ),
]  # fmt: skip
CLASS_VIEWS = """\
from flask import Flask
from flask.views import MethodView, View
from flask.cli import AppGroup
import click
STATE = {'a': 1}
class Api(MethodView):
    init_every_request = False
    decorators = []
    def get(self, key):
        return {'value': STATE[key]}
    def put(self, key):
        STATE[key] = 9
        return {'value': 9}
class Page(View):
    methods = ['GET']
    def __init__(self, template):
        self.template = template
    def dispatch_request(self):
        return self.template.upper()
users = AppGroup('users', help='Manage users.')
@users.command('add')
@click.argument('name')
@click.option('--level', default='low')
def add(name, level):
    click.echo(f'{name} {level}')
def create_app(prefix='/v1', debug=False):
    app = Flask('views')
    app.debug = debug
    app.add_url_rule(prefix + '/keys/<key>', view_func=Api.as_view('keys'))
    app.add_url_rule(prefix + '/about', view_func=Page.as_view('about', template='about'))
    app.cli.add_command(users)
    register_errors(app)
    return app
def register_errors(app):
    app.register_error_handler(KeyError, on_key)
def on_key(error):
    return {'no': error.args[0]}, 404
app = create_app()
"""
VIEWED = (
    web("/v1/keys/a"), web("/v1/keys/b"), web("/v1/about"), web("/v2/about"),
    "sorted((str(r), r.endpoint, sorted(r.methods)) for r in m.app.url_map.iter_rules())",
    "m.app.test_cli_runner().invoke(args=['users', 'add', 'ann']).output", "m.app.debug",
    "sorted(e.__name__ for e in m.app.error_handler_spec[None][None])", "m.app.view_functions['about'].view_class.__bases__",
)  # fmt: skip
CLASS_VIEW_EDITS = edits_of(
    "flask views",
    CLASS_VIEWS,
    [
        ("a body of a view", "{'value': STATE[key]}", "{'val': STATE[key]}", VIEWED),
        ("a method more of a view", "    def put", "    def delete(self, key):\n        return {}\n    def put", VIEWED),
        ("a method less of a view", "    def put(self, key):\n        STATE[key] = 9\n        return {'value': 9}\n", "", VIEWED),
        ("methods of a view", "methods = ['GET']", "methods = ['GET', 'POST']", VIEWED),
        ("a constructor of a view", "self.template = template", "self.template = template + '!'", VIEWED),
        ("a template in a factory", "template='about'", "template='contact'", VIEWED),
        ("a default prefix of a factory", "prefix='/v1'", "prefix='/v2'", VIEWED),
        ("an argument of a factory", "create_app()", "create_app(debug=True)", VIEWED),
        ("a handler that a helper registers", "KeyError, on_key", "LookupError, on_key", VIEWED),
        ("a body of a handler", "}, 404", "}, 410", VIEWED),
        ("a helper that is no longer called", "    register_errors(app)\n", "", VIEWED),
        ("a default of an option", "default='low'", "default='high'", VIEWED),
        ("a name of a command", "command('add')", "command('create')", VIEWED),
        ("a state", "STATE = {'a': 1}", "STATE = {'a': 1, 'b': 2}", VIEWED),
        ("a decorator of a view", "    decorators = []", "    decorators = [lambda f: lambda **k: 'wrapped']", VIEWED),
        ("a view's base", "class Page(View)", "class Page(MethodView)", VIEWED),
    ],
    needs=("flask",),
)  # fmt: skip
API_DEPS = """\
from fastapi import Depends, Header, HTTPException, Query
from settings import settings
TOKENS = {'t1': 'ann', 't2': 'bob'}
class Pager:
    def __init__(self, most):
        self.most = most
    def __call__(self, limit: int = 10, offset: int = 0):
        return {'limit': min(limit, self.most), 'offset': offset}
pager = Pager(settings.most)
def current_user(token: str = Header('t1', alias='X-Token')):
    if token not in TOKENS:
        raise HTTPException(401, 'who?')
    return TOKENS[token]
def require(role):
    def check(user: str = Depends(current_user)):
        if role not in settings.roles.get(user, ()):
            raise HTTPException(403, f'needs {role}')
        return user
    return check
def database():
    connection = {'open': True}
    try:
        yield connection
    finally:
        connection['open'] = False
"""
API_SETTINGS = """\
from dataclasses import dataclass, field
@dataclass
class Settings:
    title: str = 'Notes'
    most: int = 50
    roles: dict = field(default_factory=lambda: {'ann': ('admin',)})
    origins: tuple = ('http://a',)
settings = Settings()
"""
API_SCHEMAS = """\
from typing import Annotated, Generic, Literal, TypeVar, Union
from pydantic import BaseModel, ConfigDict, Field
T = TypeVar('T')
MAX_TITLE = 20
class Note(BaseModel):
    kind: Literal['note'] = 'note'
    title: str = Field(max_length=MAX_TITLE)
    tags: list[str] = []
class Todo(BaseModel):
    kind: Literal['todo'] = 'todo'
    title: str
    done: bool = False
Entry = Annotated[Union[Note, Todo], Field(discriminator='kind')]
class Page(BaseModel, Generic[T]):
    model_config = ConfigDict(extra='ignore')
    items: list[T]
    total: int = 0
class NoteOut(BaseModel):
    title: str
"""
API_NOTES = """\
from typing import Annotated
from fastapi import APIRouter, BackgroundTasks, Body, Depends, status
from deps import current_user, database, pager, require
from schemas import Entry, Note, NoteOut, Page
router = APIRouter(prefix='/notes', tags=['notes'])
DB = [Note(title='one'), Note(title='two')]
SENT = []
def notify(title):
    SENT.append(title)
@router.get('', response_model=Page[NoteOut])
def index(page: dict = Depends(pager), user: str = Depends(current_user)):
    part = DB[page['offset']:page['offset'] + page['limit']]
    return {'items': part, 'total': len(DB)}
@router.post('/echo', status_code=status.HTTP_201_CREATED)
def echo(entry: Annotated[Entry, Body()], tasks: BackgroundTasks):
    tasks.add_task(notify, entry.title)
    return entry
@router.delete('/{number}', dependencies=[Depends(require('admin'))])
async def delete(number: int, connection: dict = Depends(database)):
    return {'open': connection['open'], 'number': number}
"""
API_MAIN = """\
from contextlib import asynccontextmanager
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from settings import settings
import notes
EVENTS = []
class Teapot(Exception):
    code = 418
@asynccontextmanager
async def lifespan(app):
    EVENTS.append('up')
    yield {'ready': True}
    EVENTS.append('down')
app = FastAPI(title=settings.title, lifespan=lifespan)
app.include_router(notes.router, prefix='/api')
@app.exception_handler(Teapot)
async def teapot(request, error):
    return JSONResponse({'tea': True}, error.code)
@app.middleware('http')
async def timing(request: Request, call_next):
    response = await call_next(request)
    response.headers['X-Time'] = 'fast'
    return response
@app.get('/tea')
def tea():
    raise Teapot()
@app.get('/health', include_in_schema=False)
async def health():
    return {'ok': True, 'origins': settings.origins}
"""
API = {"settings": API_SETTINGS, "deps": API_DEPS, "schemas": API_SCHEMAS, "notes": API_NOTES}
TC = "__import__('starlette.testclient').testclient.TestClient(m.app)"


def api(method, path, more=""):
    return f"(lambda r: (r.status_code, r.text, r.headers.get('x-time')))({TC}.{method}({path!r}{more}))"


CALLS = (
    api("get", "/api/notes"), api("get", "/api/notes?limit=1&offset=1"),
    api("get", "/api/notes", ", headers={'X-Token': 't9'}"),
    api("post", "/api/notes/echo", ", json={'kind': 'todo', 'title': 'x'}"),
    api("post", "/api/notes/echo", ", json={'kind': 'note', 'title': 'x' * 22}"),
    api("delete", "/api/notes/3"), api("delete", "/api/notes/3", ", headers={'X-Token': 't2'}"),
    api("get", "/tea"), api("get", "/health"), "m.app.openapi()", "m.app.title", "len(m.app.routes)",
)  # fmt: skip
SERVED = {"more": ()}
API_EDITS = edits_of(
    "fastapi notes",
    API_MAIN,
    [
        ("a title of the settings", "'Notes'", "'Memos'", CALLS, {"edited": "settings"}),
        ("a limit of the settings", "most: int = 50", "most: int = 1", CALLS, {"edited": "settings"}),
        ("a factory of the settings", "('admin',)", "('reader',)", CALLS, {"edited": "settings"}),
        ("an argument of the settings", "settings = Settings()", "settings = Settings(most=1)", CALLS, {"edited": "settings"}),
        ("a setting more", "    most: int = 50\n", "    most: int = 50\n    debug: bool = True\n",
         (*CALLS, "settings.settings.debug"), {"edited": "settings"}),
        ("a default of a callable dependency", "limit: int = 10", "limit: int = 1", CALLS, {"edited": "deps"}),
        ("a parameter of a callable dependency", "offset: int = 0", "offset: int = 0, sort: str = 'a'", CALLS, {"edited": "deps"}),
        ("a body of a callable dependency", "min(limit, self.most)", "min(limit, 1)", CALLS, {"edited": "deps"}),
        ("an alias of a header", "alias='X-Token'", "alias='X-Key'", CALLS, {"edited": "deps"}),
        ("a default of a header", "Header('t1'", "Header('t2'", CALLS, {"edited": "deps"}),
        ("a closure of a dependency", "'needs {role}'", "'requires {role}'", CALLS, {"edited": "deps"}),
        ("a dependency of a closure", "user: str = Depends(current_user)", "user: str = 'bob'", CALLS, {"edited": "deps"}),
        ("a generator of a dependency", "{'open': True}", "{'open': 'yes'}", CALLS, {"edited": "deps"}),
        ("a token", "'t2': 'bob'", "'t2': 'ann'", CALLS, {"edited": "deps"}),
        ("a length of a title", "MAX_TITLE = 20", "MAX_TITLE = 30", CALLS, {"edited": "schemas"}),
        ("a field more of an output", "class NoteOut(BaseModel):\n    title: str\n",
         "class NoteOut(BaseModel):\n    title: str\n    tags: list[str] = []\n", CALLS, {"edited": "schemas"}),
        ("a member more of a union", "Union[Note, Todo]", "Union[Note, Todo, NoteOut2]", CALLS,
         {"edited": "schemas", "more": [("schemas", "Entry = ", "class NoteOut2(BaseModel):\n    kind: Literal['out'] = 'out'\nEntry = ")]}),
        ("a literal of a member", "Literal['todo'] = 'todo'", "Literal['task'] = 'task'", CALLS, {"edited": "schemas"}),
        ("a default of a member", "done: bool = False", "done: bool = True", CALLS, {"edited": "schemas"}),
        ("a default of a generic", "total: int = 0", "total: int = 7", CALLS, {"edited": "schemas"}),
        ("a configuration of a generic", "extra='ignore'", "extra='ignore', title='P'", CALLS, {"edited": "schemas"}),
        ("a prefix of a router", "prefix='/notes'", "prefix='/memos'", CALLS, {"edited": "notes"}),
        ("a status code", "HTTP_201_CREATED", "HTTP_202_ACCEPTED", CALLS, {"edited": "notes"}),
        ("a role of a route", "require('admin')", "require('owner')", CALLS, {"edited": "notes"}),
        ("a response model", "response_model=Page[NoteOut]", "response_model=Page[Note]", CALLS, {"edited": "notes"}),
        ("a table", "Note(title='two')", "Note(title='TWO', tags=['x'])", CALLS, {"edited": "notes"}),
        ("a task in the background", "SENT.append(title)", "SENT.append(title * 2)", ("notes.SENT.clear()", CALLS[3], "notes.SENT"), {"edited": "notes"}),
        ("a route less", "@router.delete('/{number}', dependencies=[Depends(require('admin'))])\nasync def delete(number: int, connection: dict = Depends(database)):\n    return {'open': connection['open'], 'number': number}\n", "", CALLS, {"edited": "notes"}),
        ("an import of another name", "from deps import current_user, ", "from deps import current_user as current_user, ", CALLS, {"edited": "notes"}),
        ("a prefix of an inclusion", "prefix='/api'", "prefix='/v2'", CALLS),
        ("a lifespan", "'up'", "'started'", ("m.app.router.lifespan_context is not None", "m.lifespan.__wrapped__.__code__.co_consts", "m.EVENTS")),
        ("a middleware", "'fast'", "'slow'", CALLS),
        ("a middleware less", "@app.middleware('http')\n", "", CALLS),
        ("a middleware after use", "response.headers['X-Time'] = 'fast'", "response.headers['X-Time'] = 'faster'", CALLS,
         {"hold": f"{TC}.get('/health')"}),
        ("a code of an error", "code = 418", "code = 420", CALLS),
        ("a handler of an error less", "@app.exception_handler(Teapot)\n", "", CALLS),
        ("a route in the schema", ", include_in_schema=False", "", CALLS),
        ("a route of another method", "@app.get('/tea')", "@app.post('/tea')", CALLS),
        ("a route from a plain to an asynchronous function", "def tea():", "async def tea():", CALLS),
        ("a dependency of a route", "def tea():", "def tea(user: str = notes.Depends(notes.current_user)):", CALLS),
    ],
    others=API,
    needs=("fastapi", "pydantic", "starlette.testclient"),
)  # fmt: skip
DJANGO_SETUP = """
import django
from django.conf import settings
settings.configure(ROOT_URLCONF='m', ALLOWED_HOSTS=['*'], SECRET_KEY='x', USE_TZ=True,
    DATABASES={'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}},
    INSTALLED_APPS=['django.contrib.contenttypes', 'django.contrib.auth', 'django.contrib.admin', 'django.contrib.messages', 'django.contrib.sessions'],
    TEMPLATES=[{'BACKEND': 'django.template.backends.django.DjangoTemplates', 'APP_DIRS': True}],
    MIDDLEWARE=['mw.Stamp'], PAGE=5)
django.setup()
"""
DJ_MW = """\
LABEL = 'stamped'
class Stamp:
    header = 'X-Stamp'
    def __init__(self, get_response):
        self.get_response = get_response
    def __call__(self, request):
        response = self.get_response(request)
        response[self.header] = LABEL
        return response
"""
DJ_MODELS = """\
from django.core.validators import MinValueValidator, RegexValidator
from django.db import models
from django.db.models.signals import post_init, pre_save
from django.dispatch import Signal, receiver
SEEN = []
ordered = Signal()
class Status(models.TextChoices):
    OPEN = 'o', 'Open'
    DONE = 'd', 'Done'
class Recent(models.QuerySet):
    def open(self):
        return self.filter(status=Status.OPEN)
class Stamped(models.Model):
    note = models.CharField(max_length=10, blank=True)
    class Meta:
        abstract = True
class Order(Stamped):
    code = models.CharField(max_length=8, validators=[RegexValidator('^[A-Z]+$')])
    amount = models.IntegerField(default=1, validators=[MinValueValidator(0)])
    status = models.CharField(max_length=1, choices=Status.choices, default=Status.OPEN)
    objects = Recent.as_manager()
    class Meta:
        app_label = 'shop'
        ordering = ['code']
        verbose_name = 'order'
    def __str__(self):
        return f'{self.code}:{self.amount}'
    @property
    def total(self):
        return self.amount * 2
class Line(models.Model):
    order = models.ForeignKey(Order, models.CASCADE, related_name='lines')
    class Meta:
        app_label = 'shop'
@receiver(post_init, sender=Order)
def seen(sender, instance, **kwargs):
    SEEN.append(instance.code)
@receiver(ordered)
def on_ordered(sender, **kwargs):
    SEEN.append('ordered')
"""
DJ_FORMS = """\
from django import forms
from django.contrib import admin
from shop import Order, Status
MAX = 6
class Search(forms.Form):
    query = forms.CharField(max_length=MAX, required=False)
    status = forms.ChoiceField(choices=[('', 'any'), *Status.choices], required=False)
    def clean_query(self):
        return self.cleaned_data['query'].strip()
class OrderForm(forms.ModelForm):
    class Meta:
        model = Order
        fields = ['code', 'amount']
    def clean(self):
        data = super().clean()
        if data.get('amount', 0) > 100:
            raise forms.ValidationError('too many')
        return data
@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):
    list_display = ('code', 'amount')
    search_fields = ['code']
    @admin.display(description='Double')
    def double(self, order):
        return order.amount * 2
"""
DJ_URLS = """\
from django.conf import settings
from django.http import HttpResponse, JsonResponse
from django.urls import include, path, re_path, register_converter, reverse
from django.views import View
from django.views.decorators.http import require_http_methods
import forms_, shop
PAGE = getattr(settings, 'PAGE', 10)
class Year:
    regex = '[0-9]{4}'
    def to_python(self, value):
        return int(value)
    def to_url(self, value):
        return f'{value:04d}'
register_converter(Year, 'year')
def archive(request, year):
    return HttpResponse(f'{year + 1} {PAGE}')
@require_http_methods(['GET'])
def search(request):
    form = forms_.Search(request.GET)
    return JsonResponse({'ok': form.is_valid(), 'q': form.cleaned_data.get('query')})
class Detail(View):
    prefix = 'order'
    def get(self, request, code):
        return HttpResponse(f'{self.prefix} {shop.Order(code=code)}')
patterns = [path('<str:code>/', Detail.as_view(), name='detail'), path('', search, name='search')]
urlpatterns = [
    path('archive/<year:year>/', archive, name='archive'),
    path('orders/', include((patterns, 'orders'), namespace='orders')),
    re_path('^old/$', lambda request: HttpResponse('old')),
]
handler404 = lambda request, exception: HttpResponse('lost', status=404)
"""
DJ = {"mw": DJ_MW, "shop": DJ_MODELS, "forms_": DJ_FORMS}


def dj(method, path):
    return f"(lambda r: (r.status_code, r.content, r.headers.get('X-Stamp')))(__import__('django.test').test.Client().{method}({path!r}))"


SEENS = (
    dj("get", "/archive/1999/"), dj("get", "/orders/ABC/"), dj("get", "/orders/?query=%20a%20"), dj("post", "/orders/"),
    dj("get", "/old/"), dj("get", "/nowhere/"), "__import__('django.urls').urls.reverse('archive', args=[1999])",
)  # fmt: skip
MODELED = (
    "[(f.name, f.max_length, f.default if f.has_default() else None, f.choices, len(f.validators)) for f in shop.Order._meta.get_fields() if f.concrete]",
    "shop.Order._meta.ordering, shop.Order._meta.verbose_name", "str(shop.Order(code='A'))", "shop.Order(code='A').total",
    "str(shop.Order.objects.open().query)", "(shop.SEEN.clear(), shop.Order(code='B'), shop.ordered.send(None), list(shop.SEEN))[-1]",
    "[(e.message_dict) for e in [__import__('django.core').core.exceptions.ValidationError]] if 0 else None",
    "sorted(forms_.OrderForm({'code': 'a', 'amount': 200}).errors.items())", "list(forms_.OrderForm.base_fields)",
    "forms_.Search.base_fields['status'].choices", "forms_.Search({'query': 'abcdefg'}).is_valid()",
    "__import__('django.contrib').contrib.admin.site._registry[shop.Order].list_display",
    "__import__('django.contrib').contrib.admin.site._registry[shop.Order].double(shop.Order(amount=2))",
    "shop.Line._meta.get_field('order').remote_field.related_name", "shop.Line._meta.get_field('order').related_model is shop.Order",
    "forms_.OrderForm._meta.model is shop.Order",
)  # fmt: skip
DJ_EDITS = edits_of(
    "django shop",
    DJ_URLS,
    [
        ("a converter's pattern", "[0-9]{4}", "[0-9]{2}", SEENS),
        ("a converter's conversion", "return int(value)", "return int(value) - 1", SEENS),
        ("a page in a constant", "'PAGE', 10)", "'OTHER', 10)", SEENS),
        ("methods of a view", "['GET']", "['GET', 'POST']", SEENS),
        ("a view's attribute", "prefix = 'order'", "prefix = 'Order'", SEENS),
        ("a view's method more", "    def get(self", "    def post(self, request, code):\n        return HttpResponse('posted')\n    def get(self", (*SEENS, dj("post", "/orders/ABC/"))),
        ("an argument of a view", "Detail.as_view()", "Detail.as_view(prefix='X')", SEENS),
        ("a path of an included list", "path('', search", "path('find/', search", (*SEENS, dj("get", "/orders/find/"))),
        ("a namespace", "namespace='orders'", "namespace='o'", (*SEENS, "__import__('django.urls').urls.reverse('o:search')"),
         {"use": "__import__('django.urls').urls.reverse('orders:search')"}),
        ("a lambda of a view", "HttpResponse('old')", "HttpResponse('older')", SEENS, {"hold": "__import__('django.test').test.Client().get('/old/')"}),
        ("a handler of 404", "'lost'", "'gone'", SEENS, {"hold": "__import__('django.test').test.Client().get('/old/')"}),
        ("a name of a path", "name='archive'", "name='years'", (*SEENS, "__import__('django.urls').urls.reverse('years', args=[1999])"),
         {"use": "__import__('django.urls').urls.reverse('archive', args=[1999])"}),
        ("a label of a middleware", "'stamped'", "'sealed'", SEENS, {"edited": "mw"}),
        ("a header of a middleware", "'X-Stamp'", "'X-Seal'", SEENS, {"edited": "mw", "hold": "c = __import__('django.test').test.Client(); c.get('/old/')"}),
        ("a method of a query set", "status=Status.OPEN", "status=Status.DONE", MODELED, {"edited": "shop"}),
        ("a method more of a query set", "    def open(self):", "    def done(self):\n        return self.filter(status='d')\n    def open(self):",
         (*MODELED, "str(shop.Order.objects.done().query)"), {"edited": "shop"}),
        ("a choice more", "    DONE = 'd', 'Done'\n", "    DONE = 'd', 'Done'\n    LOST = 'l', 'Lost'\n", MODELED, {"edited": "shop"}),
        ("a label of a choice", "'Done'", "'Finished'", MODELED, {"edited": "shop"}),
        ("a field of an abstract model", "max_length=10, blank", "max_length=12, blank", MODELED, {"edited": "shop"}),
        ("a validator", "'^[A-Z]+$'", "'^[a-z]+$'", MODELED, {"edited": "shop"}),
        ("a default of a field", "default=1", "default=3", MODELED, {"edited": "shop"}),
        ("an order", "ordering = ['code']", "ordering = ['-code']", MODELED, {"edited": "shop"}),
        ("a text of a model", "{self.code}:", "{self.code}#", MODELED, {"edited": "shop"}),
        ("a property of a model", "self.amount * 2", "self.amount * 3", MODELED, {"edited": "shop"}),
        ("a property more of a model", "    @property\n    def total", "    @property\n    def big(self):\n        return self.amount > 9\n    @property\n    def total",
         (*MODELED, "shop.Order(amount=10).big"), {"edited": "shop"}),
        ("a related name", "related_name='lines'", "related_name='parts'", MODELED, {"edited": "shop"}),
        ("a receiver's body", "instance.code)", "instance.code.lower())", MODELED, {"edited": "shop"}),
        ("a receiver of another signal", "receiver(post_init, sender=Order)", "receiver(pre_save, sender=Order)", MODELED, {"edited": "shop"}),
        ("a receiver less", "@receiver(ordered)\n", "", MODELED, {"edited": "shop"}),
        ("a receiver renamed", "def on_ordered", "def when_ordered", MODELED, {"edited": "shop"}),
        ("a length in a form", "MAX = 6", "MAX = 7", MODELED, {"edited": "forms_"}),
        ("a method of a form", ".strip()", ".strip().upper()", (*SEENS, *MODELED), {"edited": "forms_"}),
        ("fields of a model's form", "['code', 'amount']", "['code', 'amount', 'note']", MODELED, {"edited": "forms_"}),
        ("a check of a form", "> 100", "> 300", MODELED, {"edited": "forms_"}),
        ("columns of an admin", "('code', 'amount')", "('code', 'amount', 'double')", MODELED, {"edited": "forms_"}),
        ("a method of an admin", "order.amount * 2", "order.amount * 4", MODELED, {"edited": "forms_"}),
        ("a choice more of a form", "('', 'any')", "('', 'all')", MODELED, {"edited": "forms_"}),
    ],
    others=DJ,
    needs=("django",),
    setup=DJANGO_SETUP,
)  # fmt: skip
ORM_BASE = """\
from sqlalchemy import MetaData, String, TypeDecorator
from sqlalchemy.orm import DeclarativeBase, Mapped, declared_attr, mapped_column
CONVENTION = {'ix': 'ix_%(column_0_label)s', 'pk': 'pk_%(table_name)s'}
class Upper(TypeDecorator):
    impl = String
    cache_ok = True
    def process_bind_param(self, value, dialect):
        return value.upper() if value else value
class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=CONVENTION)
    type_annotation_map = {str: String(50)}
    @declared_attr.directive
    def __tablename__(cls):
        return cls.__name__.lower() + 's'
class Timed:
    made: Mapped[int] = mapped_column(default=0)
"""
ORM_MODELS = """\
from typing import Optional
from sqlalchemy import CheckConstraint, ForeignKey, UniqueConstraint, event, func, select
from sqlalchemy.ext.hybrid import hybrid_method, hybrid_property
from sqlalchemy.orm import Mapped, column_property, mapped_column, relationship, validates
from base import Base, Timed, Upper
RATE = 2
LOG = []
class Customer(Timed, Base):
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(Upper(30), index=True)
    email: Mapped[Optional[str]]
    invoices: Mapped[list['Invoice']] = relationship(back_populates='customer', order_by='Invoice.amount')
    __table_args__ = (UniqueConstraint('email'),)
    @validates('email')
    def check(self, key, value):
        if '@' not in value:
            raise ValueError('no address')
        return value
class Invoice(Base):
    id: Mapped[int] = mapped_column(primary_key=True)
    customer_id: Mapped[int] = mapped_column(ForeignKey('customers.id'))
    amount: Mapped[int] = mapped_column(default=1)
    kind: Mapped[str] = mapped_column(default='plain')
    customer: Mapped[Customer] = relationship(back_populates='invoices')
    __mapper_args__ = {'polymorphic_on': 'kind', 'polymorphic_identity': 'plain'}
    @hybrid_property
    def gross(self):
        return self.amount * RATE
    @hybrid_method
    def above(self, limit):
        return self.amount > limit
    def describe(self):
        return f'{self.kind} {self.amount}'
class Credit(Invoice):
    id: Mapped[int] = mapped_column(ForeignKey('invoices.id'), primary_key=True)
    reason: Mapped[str] = mapped_column(default='')
    __mapper_args__ = {'polymorphic_identity': 'credit'}
@event.listens_for(Customer, 'init')
def on_init(target, args, kwargs):
    LOG.append(kwargs.get('name'))
@event.listens_for(Invoice.amount, 'set', retval=True)
def on_set(target, value, old, initiator):
    return abs(value)
LARGE = select(Invoice).where(Invoice.gross > 10)
NAMES = select(Customer.name).order_by(Customer.name)
"""
ORM = """\
from sqlalchemy import create_engine, func, select
from sqlalchemy.orm import Session, sessionmaker
from base import Base
from tables import Customer, Invoice, Credit, LARGE
engine = create_engine('sqlite://')
make_session = sessionmaker(engine, expire_on_commit=False)
TOTAL = select(func.sum(Invoice.amount)).where(Invoice.kind != 'void')
BY_NAME = {cls.__tablename__: cls for cls in (Customer, Invoice, Credit)}
def summary(session):
    return session.scalar(TOTAL)
"""
ORMS = {"base": ORM_BASE, "tables": ORM_MODELS}
QUERIES = (
    "[(c.name, str(c.type), c.default.arg if c.default else None, c.index, c.nullable) for c in tables.Customer.__table__.columns]",
    "[(c.name, str(c.type), c.default.arg if c.default else None) for c in tables.Invoice.__table__.columns]",
    "sorted(str(k.columns.keys()) for k in tables.Customer.__table__.constraints)", "sorted(map(str, base.Base.metadata.tables))",
    "str(tables.LARGE.compile(compile_kwargs={'literal_binds': True}))", "str(m.TOTAL)", "str(tables.NAMES)", "tables.Invoice(amount=-3).gross", "str(tables.Invoice.gross)",
    "tables.Invoice(amount=4).above(3)", "(tables.LOG.clear(), tables.Customer(name='x'), list(tables.LOG))[-1]",
    "tables.Customer(email='a')", "sorted(m.BY_NAME)", "str(__import__('sqlalchemy').select(tables.Credit))",
    "sorted(r.key for r in tables.Customer.__mapper__.relationships)", "sorted(tables.Invoice.__mapper__.polymorphic_map)",
    "str(tables.Customer.invoices.property.order_by)", "tables.Credit(amount=1).describe()", "sorted(i.name for i in tables.Customer.__table__.indexes)",
)  # fmt: skip
ORM_EDITS = edits_of(
    "sqlalchemy shop",
    ORM,
    [
        ("a rate of a hybrid", "RATE = 2", "RATE = 3", QUERIES, {"edited": "tables"}),
        ("a hybrid property", "self.amount * RATE", "self.amount + RATE", QUERIES, {"edited": "tables"}),
        ("a hybrid method", "self.amount > limit", "self.amount >= limit", QUERIES, {"edited": "tables"}),
        ("an expression of a hybrid", "    @hybrid_method\n", "    @gross.expression\n    def gross(cls):\n        return cls.amount * 100\n    @hybrid_method\n", QUERIES, {"edited": "tables"}),
        ("a column more", "    email: Mapped[Optional[str]]\n", "    email: Mapped[Optional[str]]\n    phone: Mapped[Optional[str]]\n", QUERIES, {"edited": "tables"}),
        ("a column less", "    email: Mapped[Optional[str]]\n", "", QUERIES, {"edited": "tables", "more": [("tables", "UniqueConstraint('email')", "UniqueConstraint('name')")]}),
        ("a column's length", "Upper(30)", "Upper(40)", QUERIES, {"edited": "tables"}),
        ("a column's default", "default='plain'", "default='simple'", QUERIES, {"edited": "tables"}),
        ("an optional column", "Mapped[Optional[str]]", "Mapped[str]", QUERIES, {"edited": "tables"}),
        ("a constraint", "UniqueConstraint('email')", "UniqueConstraint('email', 'name')", QUERIES, {"edited": "tables"}),
        ("an index", ", index=True", "", QUERIES, {"edited": "tables"}),
        ("a validation", "'@' not in value", "'.' not in value", (*QUERIES, "tables.Customer(email='a.b').email"), {"edited": "tables"}),
        ("what is validated", "@validates('email')", "@validates('name')", (*QUERIES, "tables.Customer(name='a')"), {"edited": "tables"}),
        ("an order of a relationship", "'Invoice.amount'", "'Invoice.id'", QUERIES, {"edited": "tables"}),
        ("a relationship more", "    @hybrid_property\n", "    payer: Mapped[Customer] = relationship(viewonly=True)\n    @hybrid_property\n",
         (*QUERIES, "sorted(r.key for r in tables.Invoice.__mapper__.relationships)"), {"edited": "tables"}),
        ("an identity", "'polymorphic_identity': 'credit'", "'polymorphic_identity': 'refund'", QUERIES, {"edited": "tables"}),
        ("a method that a subclass inherits", "{self.kind} {", "{self.kind}: {", QUERIES, {"edited": "tables"}),
        ("a listener's body", "kwargs.get('name')", "kwargs.get('name', '').upper()", QUERIES, {"edited": "tables"}),
        ("a listener's return", "return abs(value)", "return -abs(value)", QUERIES, {"edited": "tables"}),
        ("a listener of another attribute", "(Invoice.amount, 'set'", "(Invoice.customer_id, 'set'", QUERIES, {"edited": "tables"}),
        ("a listener less", "@event.listens_for(Customer, 'init')\n", "", QUERIES, {"edited": "tables"}),
        ("a query", "> 10", "> 20", QUERIES, {"edited": "tables"}),
        ("a query's order", "order_by(Customer.name)", "order_by(Customer.id)", QUERIES, {"edited": "tables"}),
        ("a conversion of a type", "value.upper()", "value.lower()", (*QUERIES, "base.Upper().process_bind_param('Ab', None)"), {"edited": "base"}),
        ("a type of an annotation", "String(50)", "String(60)", QUERIES, {"edited": "base"}),
        ("a convention", "'ix_%(column_0_label)s'", "'idx_%(column_0_label)s'", QUERIES, {"edited": "base"}),
        ("a table's name", "cls.__name__.lower() + 's'", "(cls.__name__ + 's').lower()", QUERIES, {"edited": "base"}),
        ("a default of a mixin", "default=0", "default=9", QUERIES, {"edited": "base"}),
        ("a column more of a mixin", "    made: ", "    changed: Mapped[int] = mapped_column(default=1)\n    made: ", QUERIES, {"edited": "base"}),
        ("a query of the main module", "'void'", "'credit'", (*QUERIES, "str(m.TOTAL.compile(compile_kwargs={'literal_binds': True}))")),
        ("an engine", "'sqlite://'", "'sqlite:///:memory:'", ("str(m.engine.url)", "m.make_session.kw['bind'] is m.engine")),
        ("an option of sessions", "expire_on_commit=False", "expire_on_commit=True", ("m.make_session.kw['expire_on_commit']",)),
    ],
    others=ORMS,
    needs=("sqlalchemy",),
)  # fmt: skip
ALL = with_expected(
    [*SHOP_EDITS, *CLASS_VIEW_EDITS, *API_EDITS, *DJ_EDITS, *ORM_EDITS],
    false=["sqlalchemy shop: a table's name"],
    reported=[
        "django shop: a converter's pattern",
        "sqlalchemy shop: a rate of a hybrid",
        "sqlalchemy shop: a hybrid property",
        "sqlalchemy shop: an expression of a hybrid",
        "sqlalchemy shop: a column more",
        "sqlalchemy shop: a column less",
        "sqlalchemy shop: a column's length",
        "sqlalchemy shop: a column's default",
        "sqlalchemy shop: an optional column",
        "sqlalchemy shop: a constraint",
        "sqlalchemy shop: an index",
        "sqlalchemy shop: what is validated",
        "sqlalchemy shop: an order of a relationship",
        "sqlalchemy shop: a relationship more",
        "sqlalchemy shop: an identity",
        "sqlalchemy shop: a listener of another attribute",
        "sqlalchemy shop: a listener less",
        "sqlalchemy shop: a type of an annotation",
        "sqlalchemy shop: a convention",
        "sqlalchemy shop: a default of a mixin",
        "sqlalchemy shop: a column more of a mixin",
        "sqlalchemy shop: an engine",
    ],
)
