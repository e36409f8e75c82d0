"""Edits of the programs of eight departments, from a clinic's API to the tools of a workshop."""

from edit_cases import edits_of, with_expected

CLINIC_M = """\
from contextlib import asynccontextmanager
from typing import Annotated
from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.middleware.base import BaseHTTPMiddleware
from clinic import config, errors
from clinic.routers import appointments, patients
from clinic.routers.admin import build_router
from clinic.deps import audit, current_doctor, limits
from clinic.errors import ClinicError, NotFound
STATE = {}
@asynccontextmanager
async def lifespan(app):
    STATE['region'] = config.REGION
    yield {'region': config.REGION}
    STATE.clear()
class Timing(BaseHTTPMiddleware):
    header = 'X-Unit'
    def __init__(self, app, unit='ms'):
        super().__init__(app)
        self.unit = unit
    async def dispatch(self, request, call_next):
        response = await call_next(request)
        response.headers[self.header] = self.unit
        return response
app = FastAPI(title='Clinic', version=config.VERSION, lifespan=lifespan, dependencies=[Depends(audit)])
app.add_middleware(Timing, unit=config.UNIT)
@app.exception_handler(ClinicError)
async def clinic_error(request: Request, error: ClinicError):
    return JSONResponse({'error': error.code, 'detail': str(error)}, status_code=error.status)
app.add_exception_handler(errors.Busy, errors.busy)
for _router in (patients.router, appointments.router):
    app.include_router(_router, prefix=config.PREFIX)
app.include_router(build_router('admin', config.ROLES), prefix='/admin', tags=['staff'])
sub = FastAPI()
@sub.get('/ping')
def ping():
    return {'pong': config.REGION}
app.mount('/sub', sub)
@app.get('/me', response_class=PlainTextResponse)
def me(doctor: Annotated[str, Depends(current_doctor)], page: Annotated[dict, Depends(limits)]):
    return f'{doctor} {page}'
def fake_doctor():
    return 'dr. who'
app.dependency_overrides[current_doctor] = fake_doctor
"""
CLINIC = {
    "clinic.__init__": "",
    "clinic.config": "REGION = 'north'\nVERSION = '1.0'\nUNIT = 'ms'\nPREFIX = '/v1'\nROLES = ('nurse', 'doctor')\nMAX_PAGE = 50\n",
    "clinic.errors": """\
from fastapi.responses import JSONResponse
class ClinicError(Exception):
    status = 400
    code = 'clinic'
class NotFound(ClinicError):
    status = 404
    code = 'not_found'
class Busy(Exception):
    pass
def busy(request, error):
    return JSONResponse({'busy': True}, status_code=503, headers={'Retry-After': '5'})
""",
    "clinic.schemas": """\
from datetime import date
from enum import Enum
from typing import Annotated, Generic, Literal, Optional, TypeVar, Union
from pydantic import BaseModel, ConfigDict, Field, computed_field, field_validator
T = TypeVar('T')
class Species(str, Enum):
    cat = 'cat'
    dog = 'dog'
class Visit(BaseModel):
    kind: Literal['visit'] = 'visit'
    minutes: int = Field(30, ge=5, le=120)
class Surgery(BaseModel):
    kind: Literal['surgery'] = 'surgery'
    theatre: str = 'A'
Slot = Annotated[Union[Visit, Surgery], Field(discriminator='kind')]
class Patient(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True, from_attributes=True)
    name: str = Field(min_length=1, max_length=20)
    species: Species = Species.cat
    owner: Optional[str] = None
    @field_validator('name')
    @classmethod
    def no_digits(cls, value):
        if any(char.isdigit() for char in value):
            raise ValueError('no digits')
        return value
    @computed_field
    @property
    def label(self) -> str:
        return f'{self.name} ({self.species.value})'
class Envelope(BaseModel, Generic[T]):
    data: T
    count: int = 1
class Booking(BaseModel):
    patient: Patient
    slot: Slot
""",
    "clinic.deps": """\
from typing import Annotated
from fastapi import Depends, Header, Query
from clinic import config
AUDIT = []
def token(x_token: Annotated[str, Header()] = 'anon'):
    return x_token
def current_doctor(token: Annotated[str, Depends(token)]):
    return token.upper()
def limits(page: int = 1, size: Annotated[int, Query(le=config.MAX_PAGE)] = 10):
    return {'page': page, 'size': size}
async def audit(token: Annotated[str, Depends(token)]):
    AUDIT.append(f'in {token}')
    try:
        yield token
    finally:
        AUDIT.append(f'out {token}')
class Pager:
    default = 5
    def __init__(self, step: int):
        self.step = step
    def __call__(self, start: int = 0):
        return list(range(start, start + self.default * self.step, self.step))
by_two = Pager(2)
""",
    "clinic.routers.__init__": "from . import appointments, patients\n",
    "clinic.routers.patients": """\
from fastapi import APIRouter, BackgroundTasks, Depends, status
from clinic.deps import by_two, limits
from clinic.errors import NotFound
from clinic.schemas import Envelope, Patient, Species
router = APIRouter(prefix='/patients', tags=['patients'], responses={404: {'description': 'unknown'}})
DB = {1: Patient(name='Tom'), 2: Patient(name='Rex', species='dog', owner='Ann')}
SENT = []
def notify(name):
    SENT.append(f'hello {name}')
@router.get('', response_model=Envelope[list[Patient]], response_model_exclude_none=True)
def list_patients(species: Species | None = None, page=Depends(limits)):
    found = [item for item in DB.values() if species in (None, item.species)]
    return Envelope(data=found[: page['size']], count=len(found))
@router.get('/steps')
def steps(found=Depends(by_two)):
    return found
@router.get('/{number}', response_model=Patient)
def get_patient(number: int):
    if number not in DB:
        raise NotFound(f'no patient {number}')
    return DB[number]
@router.post('', status_code=status.HTTP_201_CREATED)
def create(patient: Patient, tasks: BackgroundTasks):
    tasks.add_task(notify, patient.name)
    return patient
""",
    "clinic.routers.appointments": """\
from fastapi import APIRouter, HTTPException
from clinic.errors import Busy
from clinic.schemas import Booking
router = APIRouter(prefix='/bookings')
@router.post('/')
def book(booking: Booking):
    if booking.slot.kind == 'surgery':
        raise Busy
    return {'kind': booking.slot.kind, 'who': booking.patient.label}
@router.get('/teapot')
def teapot():
    raise HTTPException(418, 'short')
""",
    "clinic.routers.admin": """\
from fastapi import APIRouter
def build_router(name, roles):
    router = APIRouter(prefix=f'/{name}')
    for role in roles:
        @router.get(f'/{role}', name=f'list-{role}')
        def members(role=role):
            return {'role': role}
    return router
""",
}
CLINIC_SETUP = """\
from fastapi.testclient import TestClient
def call(path, method='get', **words):
    found = TestClient(sys.modules['m'].app, raise_server_exceptions=False).request(method, path, **words)
    return found.status_code, found.text, found.headers.get('x-unit'), found.headers.get('retry-after')
"""
CLINIC_PROBES = (
    "call('/v1/patients'), call('/v1/patients?species=dog&size=1'), call('/v1/patients?size=60')", "call('/v1/patients/1'), call('/v1/patients/9'), call('/v1/patients/steps')", "call('/v1/patients', 'post', json={'name': ' Kit '}), call('/v1/patients', 'post', json={'name': 'K1'}), call('/v1/patients', 'post', json={'name': 'K' * 25})", "call('/v1/bookings/', 'post', json={'patient': {'name': 'Kit'}, 'slot': {'kind': 'visit', 'minutes': 150}}), call('/v1/bookings/', 'post', json={'patient': {'name': 'Kit'}, 'slot': {'kind': 'visit'}}), call('/v1/bookings/', 'post', json={'patient': {'name': 'Kit'}, 'slot': {'kind': 'surgery'}})", "call('/v1/bookings/teapot'), call('/admin/admin/nurse'), call('/sub/ping'), call('/me?size=3', headers={'x-token': 'ann'})", "sorted((str(path), sorted(item)) for path, item in m.app.openapi()['paths'].items()), m.app.openapi()['info']", "repr(m.app.openapi()['components'])", "(deps.AUDIT.clear(), patients.SENT.clear(), call('/v1/patients', 'post', json={'name': 'Kit'}), deps.AUDIT, patients.SENT)[2:]", "(m.STATE.clear(), TestClient(m.app).__enter__(), dict(m.STATE))[2]",
)  # fmt: skip
CLINIC_EDITS = edits_of(
    "clinic",
    CLINIC_M,
    [
        ("what a lifespan stores", "STATE['region'] = config.REGION", "STATE['region'] = config.REGION.upper()", CLINIC_PROBES),
        ("a header of middleware", "header = 'X-Unit'", "header = 'Retry-After'", CLINIC_PROBES),
        ("an argument of middleware", "unit=config.UNIT", "unit='s'", CLINIC_PROBES),
        ("a handler's body", "'error': error.code", "'problem': error.code", CLINIC_PROBES),
        ("a handler of a narrower error", "@app.exception_handler(ClinicError)", "@app.exception_handler(NotFound)", CLINIC_PROBES),
        ("a router less in a loop", "(patients.router, appointments.router)", "(patients.router,)", CLINIC_PROBES),
        ("a mount elsewhere", "app.mount('/sub'", "app.mount('/below'", (*CLINIC_PROBES, "call('/below/ping')")),
        ("an override less", "app.dependency_overrides[current_doctor] = fake_doctor\n", "", CLINIC_PROBES),
        ("a dependency of the application less", ", dependencies=[Depends(audit)]", "", CLINIC_PROBES),
        ("a class of responses", "response_class=PlainTextResponse", "response_class=JSONResponse", CLINIC_PROBES),
        ("a region", "REGION = 'north'", "REGION = 'south'", CLINIC_PROBES, {"edited": "clinic.config"}),
        ("a prefix", "PREFIX = '/v1'", "PREFIX = '/v2'", (*CLINIC_PROBES, "call('/v2/patients')"), {"edited": "clinic.config"}),
        ("a role more", "('nurse', 'doctor')", "('nurse', 'doctor', 'owner')", (*CLINIC_PROBES, "call('/admin/admin/owner')"), {"edited": "clinic.config"}),
        ("a page's limit", "MAX_PAGE = 50", "MAX_PAGE = 100", CLINIC_PROBES, {"edited": "clinic.config"}),
        ("a status of an error", "status = 404", "status = 410", CLINIC_PROBES, {"edited": "clinic.errors"}),
        ("a header of a handler", "'Retry-After': '5'", "'Retry-After': '9'", CLINIC_PROBES, {"edited": "clinic.errors"}),
        ("another base of an error", "class Busy(Exception)", "class Busy(ClinicError)", CLINIC_PROBES, {"edited": "clinic.errors"}),
        ("a bound of a nested model", "le=120", "le=180", CLINIC_PROBES, {"edited": "clinic.schemas"}),
        ("a member of an enumeration", "    dog = 'dog'\n", "    dog = 'dog'\n    bird = 'bird'\n", CLINIC_PROBES, {"edited": "clinic.schemas"}),
        ("a computed label", "f'{self.name} ({self.species.value})'", "f'{self.name}: {self.species.value}'", CLINIC_PROBES, {"edited": "clinic.schemas"}),
        ("a validator's message", "'no digits'", "'digits are not allowed'", CLINIC_PROBES, {"edited": "clinic.schemas"}),
        ("a default of a generic model", "count: int = 1", "count: int = 0\n    more: bool = False", CLINIC_PROBES, {"edited": "clinic.schemas"}),
        ("a member of a union more", "Slot = Annotated[Union[Visit, Surgery]", "class Call(BaseModel):\n    kind: Literal['call'] = 'call'\nSlot = Annotated[Union[Visit, Surgery, Call]", (*CLINIC_PROBES, "call('/v1/bookings/', 'post', json={'patient': {'name': 'Kit'}, 'slot': {'kind': 'call'}})"), {"edited": "clinic.schemas"}),
        ("no stripping", "str_strip_whitespace=True", "str_strip_whitespace=False", CLINIC_PROBES, {"edited": "clinic.schemas"}),
        ("a dependency's text", "token.upper()", "token.title()", CLINIC_PROBES, {"edited": "clinic.deps"}),
        ("a default of a header", "= 'anon'", "= 'guest'", CLINIC_PROBES, {"edited": "clinic.deps"}),
        ("an end of a dependency", "f'out {token}'", "f'left {token}'", CLINIC_PROBES, {"edited": "clinic.deps"}),
        ("a class attribute of a dependency", "default = 5", "default = 3", CLINIC_PROBES, {"edited": "clinic.deps"}),
        ("a parameter of a called dependency", "start: int = 0", "start: int = 1, step: int = 0", CLINIC_PROBES, {"edited": "clinic.deps"}),
        ("an argument of a dependency's object", "by_two = Pager(2)", "by_two = Pager(3)", CLINIC_PROBES, {"edited": "clinic.deps"}),
        ("a task in the background", "f'hello {name}'", "f'welcome {name}'", CLINIC_PROBES, {"edited": "clinic.routers.patients"}),
        ("a response model", "response_model=Envelope[list[Patient]], response_model_exclude_none=True", "response_model=Envelope[list[Patient]]", CLINIC_PROBES, {"edited": "clinic.routers.patients"}),
        ("a status of a creation", "status.HTTP_201_CREATED", "status.HTTP_202_ACCEPTED", CLINIC_PROBES, {"edited": "clinic.routers.patients"}),
        ("a patient more", "2: Patient(", "3: Patient(name='Kit'), 2: Patient(", CLINIC_PROBES, {"edited": "clinic.routers.patients"}),
        ("a route in front", "@router.get('/steps')", "@router.get('/first')\ndef first():\n    return 1\n@router.get('/steps')", (*CLINIC_PROBES, "call('/v1/patients/first')"), {"edited": "clinic.routers.patients"}),
        ("a route's error", "HTTPException(418, 'short')", "HTTPException(400, 'tall')", CLINIC_PROBES, {"edited": "clinic.routers.appointments"}),
        ("a function that builds a router", "return {'role': role}", "return {'role': role, 'router': name}", CLINIC_PROBES, {"edited": "clinic.routers.admin"}),
        ("a prefix that a function builds", "prefix=f'/{name}'", "prefix=f'/{name}s'", (*CLINIC_PROBES, "call('/admin/admins/nurse')"), {"edited": "clinic.routers.admin"}),
    ],
    others=CLINIC,
    needs=("fastapi", "httpx2"),
    setup=CLINIC_SETUP,
)  # fmt: skip

GALLERY_M = """\
import click
from flask import Flask, current_app, g, jsonify, render_template_string, request, url_for
from flask.cli import AppGroup
from flask.json.provider import DefaultJSONProvider
from gallery import settings
from gallery.extensions import Cache, cache, signals
from gallery.views import albums, pictures
from gallery.problems import Problem, handlers
class Provider(DefaultJSONProvider):
    sort_keys = True
    @staticmethod
    def default(value):
        return sorted(value) if isinstance(value, set) else DefaultJSONProvider.default(value)
class Site(Flask):
    json_provider_class = Provider
    def make_response(self, value):
        if isinstance(value, set):
            value = jsonify(sorted(value))
        return super().make_response(value)
app = Site(__name__)
app.config.from_object(settings)
app.config.from_mapping(TITLE='Gallery', LANGS=settings.LANGS[:1])
cache.init_app(app)
albums.bp.register_blueprint(pictures.bp, url_prefix='/<album>/pictures')
app.register_blueprint(albums.bp, url_prefix='/<lang>/albums')
for kind, handler in handlers().items():
    app.register_error_handler(kind, handler)
@app.url_defaults
def add_lang(endpoint, values):
    if app.url_map.is_endpoint_expecting(endpoint, 'lang'):
        values.setdefault('lang', g.get('lang', settings.LANGS[0]))
@app.url_value_preprocessor
def pull_lang(endpoint, values):
    g.lang = (values or {}).pop('lang', settings.LANGS[0])
@app.before_request
def check_lang():
    if g.lang not in settings.LANGS:
        raise Problem(f'no {g.lang}')
@app.after_request
def stamp(response):
    response.headers['X-Title'] = app.config['TITLE']
    return response
@app.teardown_appcontext
def forget(error):
    settings.LOG.append('forgotten')
@app.template_filter('shout')
def shout(text):
    return text.upper() + '!'
@app.template_test('long')
def is_long(text):
    return len(text) > settings.LONG
@app.context_processor
def names():
    return {'title': app.config['TITLE'], 'size': len(settings.LANGS)}
@app.route('/')
def index():
    return render_template_string("{{ title|shout }} {{ size }} {{ 'x' is long }} {{ url_for('albums.show', album='a') }}")
@app.route('/tags')
def tags():
    return {'b', 'a'}
admin = AppGroup('admin', help='Manage albums.')
@admin.command('purge')
@click.option('--days', default=settings.LONG, show_default=True)
def purge(days):
    click.echo(f'purged {days}')
app.cli.add_command(admin)
@app.cli.command()
@click.argument('langs', nargs=-1)
def translate(langs):
    click.echo(','.join(langs or settings.LANGS))
@signals.uploaded.connect
def uploaded(sender, name=None):
    settings.LOG.append(f'{sender} {name}')
"""
GALLERY = {
    "gallery.__init__": "from .settings import *\n",
    "gallery.settings": "LANGS = ['en', 'de']\nLONG = 3\nTESTING = False\nTITLE = 'x'\nLOG = []\n",
    "gallery.problems": """\
from flask import jsonify
from werkzeug.exceptions import HTTPException, NotFound
class Problem(Exception):
    status = 400
    def body(self):
        return {'problem': str(self)}
class Gone(Problem):
    status = 410
def problem(error):
    return jsonify(error.body()), error.status
def missing(error):
    return jsonify(missing=error.description[:9]), 404
def handlers():
    return {Problem: problem, 404: missing}
""",
    "gallery.extensions": """\
from blinker import Namespace
from flask import current_app
class Cache:
    timeout = 60
    def __init__(self, app=None):
        self.hits = 0
        if app is not None:
            self.init_app(app)
    def init_app(self, app):
        app.extensions['cache'] = self
        app.config.setdefault('CACHE_TIMEOUT', self.timeout)
        app.before_request(self.count)
        app.jinja_env.globals['hits'] = lambda: self.hits
    def count(self):
        self.hits += 1
    def describe(self):
        return f"{current_app.config['CACHE_TIMEOUT']} s"
cache = Cache()
class signals:
    space = Namespace()
    uploaded = space.signal('uploaded')
    removed = space.signal('removed')
""",
    "gallery.views.__init__": "",
    "gallery.views.albums": """\
from flask import Blueprint, request, url_for
from flask.views import MethodView
from gallery.problems import Gone
from gallery.extensions import cache
bp = Blueprint('albums', __name__)
ALBUMS = {'a': ['one', 'two'], 'b': []}
@bp.before_request
def refuse():
    if request.args.get('old'):
        raise Gone('too old')
@bp.get('/')
def listing():
    return list(ALBUMS)
@bp.get('/<album>')
def show(album):
    return {'album': album, 'size': len(ALBUMS[album]), 'url': url_for('.show', album=album), 'cache': cache.describe()}
class AlbumAPI(MethodView):
    init_every_request = False
    decorators = []
    def __init__(self, table):
        self.table = table
    def put(self, album):
        return {'put': album, 'known': album in self.table}
    def delete(self, album):
        return {'deleted': album}
bp.add_url_rule('/<album>', view_func=AlbumAPI.as_view('edit', ALBUMS))
@bp.errorhandler(KeyError)
def unknown(error):
    return f'unknown {error}', 404
""",
    "gallery.views.pictures": """\
from flask import Blueprint, g, request
from gallery.extensions import signals
from gallery.views.albums import ALBUMS
bp = Blueprint('pictures', __name__, cli_group='pics')
@bp.url_value_preprocessor
def load(endpoint, values):
    g.album = values.pop('album')
@bp.get('/')
def listing():
    return {'album': g.album, 'pictures': ALBUMS.get(g.album, [])}
@bp.post('/<name>')
def upload(name):
    signals.uploaded.send(g.album, name=name)
    return '', 204
@bp.cli.command('count')
def count():
    print(sum(map(len, ALBUMS.values())))
""",
}
GALLERY_SETUP = """\
def call(path, method='get', **words):
    found = getattr(sys.modules['m'].app.test_client(), method)(path, **words)
    return found.status_code, found.text, found.headers.get('X-Title')
def shell(*words):
    return sys.modules['m'].app.test_cli_runner().invoke(args=list(words)).output
"""
GALLERY_PROBES = (
    "call('/'), call('/tags'), call('/nothing')", "call('/de/albums/'), call('/fr/albums/'), call('/en/albums/a'), call('/en/albums/z'), call('/en/albums/?old=1')", "call('/de/albums/a/pictures/'), call('/en/albums/a', 'put'), call('/en/albums/a', 'delete'), call('/en/albums/a', 'patch')", "(settings.LOG.clear(), call('/de/albums/a/pictures/new', 'post'), list(settings.LOG))[1:]", "shell('admin', '--help'), shell('admin', 'purge'), shell('translate'), shell('translate', 'x', 'y'), shell('pics', 'count')", "sorted(map(str, m.app.url_map.iter_rules())), sorted(m.app.view_functions), sorted(map(str, m.app.blueprints))", "[m.app.config.get(n) for n in ('TITLE', 'LANGS', 'LONG', 'CACHE_TIMEOUT', 'TESTING')], m.app.extensions['cache'] is extensions.cache, extensions.cache.timeout", "{k: [f.__name__ for f in v] for k, v in m.app.before_request_funcs.items()}, len(m.app.template_context_processors[None]), sorted(m.app.cli.commands)", "(setattr(extensions.cache, 'hits', 0), call('/'), extensions.cache.hits)[1:], m.app.jinja_env.globals['hits']()", "gallery.LANGS is settings.LANGS, gallery.LONG, len(list(extensions.signals.uploaded.receivers))",
)  # fmt: skip
GALLERY_EDITS = edits_of(
    "gallery",
    GALLERY_M,
    [
        ("a provider's default", "sorted(value) if isinstance(value, set)", "list(reversed(sorted(value))) if isinstance(value, set)", GALLERY_PROBES),
        ("what makes a response", "jsonify(sorted(value))", "jsonify(tags=sorted(value))", GALLERY_PROBES),
        ("a title in a mapping", "TITLE='Gallery'", "TITLE='Museum'", GALLERY_PROBES),
        ("a value less in a mapping", ", LANGS=settings.LANGS[:1]", "", GALLERY_PROBES),
        ("a prefix of a nested blueprint", "url_prefix='/<album>/pictures'", "url_prefix='/<album>/images'", (*GALLERY_PROBES, "call('/de/albums/a/images/')")),
        ("a prefix with a parameter", "url_prefix='/<lang>/albums'", "url_prefix='/<lang>/books'", (*GALLERY_PROBES, "call('/de/books/a')")),
        ("a default in URLs", "values.setdefault('lang', g.get('lang', settings.LANGS[0]))", "values.setdefault('lang', 'xx')", GALLERY_PROBES),
        ("a hook less before requests", "@app.before_request\ndef check_lang", "def check_lang", GALLERY_PROBES),
        ("a header after requests", "'X-Title'", "'X-Name'", GALLERY_PROBES),
        ("a filter's other name", "@app.template_filter('shout')", "@app.template_filter('loud')", GALLERY_PROBES),
        ("a test's body", "len(text) > settings.LONG", "len(text) >= settings.LONG - 2", GALLERY_PROBES),
        ("a name less in contexts", ", 'size': len(settings.LANGS)", "", GALLERY_PROBES),
        ("a help of a group", "help='Manage albums.'", "help='Manage the gallery.'", GALLERY_PROBES),
        ("a command of a group renamed", "@admin.command('purge')", "@admin.command('clear')", (*GALLERY_PROBES, "shell('admin', 'clear')")),
        ("arguments of a command", "nargs=-1", "nargs=1", GALLERY_PROBES),
        ("a receiver of another signal", "@signals.uploaded.connect", "@signals.removed.connect", GALLERY_PROBES),
        ("a language more", "['en', 'de']", "['en', 'de', 'fr']", GALLERY_PROBES, {"edited": "gallery.settings"}),
        ("a length", "LONG = 3", "LONG = 0", GALLERY_PROBES, {"edited": "gallery.settings"}),
        ("testing", "TESTING = False", "TESTING = True", GALLERY_PROBES, {"edited": "gallery.settings"}),
        ("a status of a class", "status = 400", "status = 422", GALLERY_PROBES, {"edited": "gallery.problems"}),
        ("a body of a class", "{'problem': str(self)}", "{'problem': str(self), 'status': self.status}", GALLERY_PROBES, {"edited": "gallery.problems"}),
        ("a handler more in a table", "404: missing}", "404: missing, 405: missing}", GALLERY_PROBES, {"edited": "gallery.problems"}),
        ("a time out of an extension", "timeout = 60", "timeout = 90", GALLERY_PROBES, {"edited": "gallery.extensions"}),
        ("a lambda of an extension", "lambda: self.hits", "lambda: self.hits + 100", GALLERY_PROBES, {"edited": "gallery.extensions"}),
        ("a hook less of an extension", "        app.before_request(self.count)\n", "", GALLERY_PROBES, {"edited": "gallery.extensions"}),
        ("a value of an extension's text", "self.hits += 1", "self.hits += 2", GALLERY_PROBES, {"edited": "gallery.extensions"}),
        ("an album more", "'b': []", "'b': [], 'c': ['three']", GALLERY_PROBES, {"edited": "gallery.views.albums"}),
        ("a method of a view class", "    def delete(self", "    def patch(self, album):\n        return {'patched': album}\n    def delete(self", GALLERY_PROBES, {"edited": "gallery.views.albums"}),
        ("a method less of a view class", "    def delete(self, album):\n        return {'deleted': album}\n", "", GALLERY_PROBES, {"edited": "gallery.views.albums"}),
        ("a decorator of a view class", "decorators = []", "decorators = [lambda view: lambda **words: {'wrapped': view(**words)}]", GALLERY_PROBES, {"edited": "gallery.views.albums"}),
        ("a handler of a blueprint", "@bp.errorhandler(KeyError)", "@bp.errorhandler(LookupError)", GALLERY_PROBES, {"edited": "gallery.views.albums"}),
        ("a hook of a blueprint", "request.args.get('old')", "request.args.get('ancient')", GALLERY_PROBES, {"edited": "gallery.views.albums"}),
        ("a rule in a blueprint", "@bp.post('/<name>')", "@bp.post('/add/<name>')", (*GALLERY_PROBES, "call('/de/albums/a/pictures/add/x', 'post')"), {"edited": "gallery.views.pictures"}),
        ("a group of commands", "cli_group='pics'", "cli_group='images'", (*GALLERY_PROBES, "shell('images', 'count')"), {"edited": "gallery.views.pictures"}),
    ],
    others=GALLERY,
    needs=("flask",),
    setup=GALLERY_SETUP,
)  # fmt: skip

LIBRARY_M = """\
from django.urls import include, path, register_converter
from django.http import JsonResponse
from library.models import Author, Book, Loan, Novel
from library.forms import BookForm, SearchForm
from library import views, middleware, signals
class YearConverter:
    regex = '[0-9]{4}'
    def to_python(self, value):
        return int(value)
    def to_url(self, value):
        return f'{value:04d}'
register_converter(YearConverter, 'year')
app_name = 'library'
urlpatterns = [
    path('books/', views.BookList.as_view(), name='books'),
    path('books/<year:year>/', views.by_year, {'order': 'title'}, name='year'),
    path('fail/', views.fail),
]
handler404 = 'library.views.not_found'
"""
LIBRARY = {
    "library.__init__": "",
    "library.fields": """\
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models
isbn = RegexValidator(r'^[0-9-]+$', 'not an ISBN')
def positive(value):
    if value < 0:
        raise ValidationError('%(value)s is negative', params={'value': value})
class UpperField(models.CharField):
    suffix = ''
    def get_prep_value(self, value):
        value = super().get_prep_value(value)
        return value and value.upper() + self.suffix
    def formfield(self, **words):
        return super().formfield(help_text='upper case', **words)
""",
    "library.models": """\
from django.db import models
from django.db.models import F, Q
from django.urls import reverse
from .fields import UpperField, isbn, positive
LANGUAGES = [('en', 'English'), ('de', 'German')]
class Stamped(models.Model):
    created = models.DateField(auto_now_add=True)
    class Meta:
        abstract = True
        ordering = ['created']
class BookQuerySet(models.QuerySet):
    def cheap(self):
        return self.filter(price__lt=10)
    def titled(self, text):
        return self.filter(title__icontains=text)
class BookManager(models.Manager.from_queryset(BookQuerySet)):
    def get_queryset(self):
        return super().get_queryset().exclude(title='')
    def create_book(self, title):
        return self.model(title=title, price=5)
class Author(Stamped):
    name = models.CharField(max_length=30, unique=True)
    code = UpperField(max_length=5, default='x')
    def __str__(self):
        return self.name
class Book(Stamped):
    class Kind(models.TextChoices):
        NOVEL = 'n', 'Novel'
        ESSAY = 'e', 'Essay'
    title = models.CharField('the title', max_length=40, help_text='in full')
    isbn = models.CharField(max_length=20, validators=[isbn], blank=True)
    kind = models.CharField(max_length=1, choices=Kind.choices, default=Kind.NOVEL)
    language = models.CharField(max_length=2, choices=LANGUAGES, default='en')
    price = models.IntegerField(default=0, validators=[positive])
    author = models.ForeignKey(Author, models.CASCADE, null=True, blank=True, related_name='books')
    year = models.IntegerField(default=2000)
    objects = BookManager()
    class Meta(Stamped.Meta):
        ordering = ['title']
        verbose_name = 'book'
        constraints = [models.CheckConstraint(condition=Q(price__gte=0), name='price_not_negative')]
        indexes = [models.Index(fields=['year'], name='by_year')]
    def __str__(self):
        return f'{self.title} ({self.get_kind_display()})'
    def clean(self):
        self.title = self.title.strip()
    @property
    def is_old(self):
        return self.year < 1990
class Novel(Book):
    class Meta:
        proxy = True
        ordering = ['-year']
class Loan(models.Model):
    book = models.ForeignKey('Book', models.PROTECT)
    days = models.PositiveSmallIntegerField(default=14)
    def fee(self, rate=2):
        return max(0, self.days - 14) * rate
""",
    "library.forms": """\
from django import forms
from django.core.exceptions import ValidationError
from .models import Book, LANGUAGES
class SearchForm(forms.Form):
    q = forms.CharField(max_length=10, required=False, label='Search')
    language = forms.ChoiceField(choices=LANGUAGES)
    pages = forms.IntegerField(min_value=1, initial=1)
    def clean_q(self):
        return self.cleaned_data['q'].lower()
class BookForm(forms.ModelForm):
    agree = forms.BooleanField(required=False)
    class Meta:
        model = Book
        fields = ['title', 'isbn', 'price', 'language']
        widgets = {'title': forms.Textarea(attrs={'rows': 2})}
        labels = {'price': 'Cost'}
    def clean(self):
        data = super().clean()
        if data.get('price', 0) > 100:
            raise ValidationError('too dear')
        return data
BookFormSet = forms.formset_factory(SearchForm, extra=2, max_num=5)
""",
    "library.views": """\
import json
from django.http import Http404, HttpResponse, JsonResponse
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_http_methods
from django.views.generic import ListView, TemplateView
from .models import Book
class JsonMixin:
    key = 'items'
    def render_to_response(self, context, **words):
        return JsonResponse({self.key: self.get_data(context)})
class BookList(JsonMixin, TemplateView):
    http_method_names = ['get', 'head']
    extra_context = {'shelf': 'A'}
    def get_data(self, context):
        return [context['shelf'], str(Book.objects.cheap().query).count('price')]
@require_http_methods(['GET'])
def by_year(request, year, order):
    return HttpResponse(f'{year + 1} {order} {request.shelf}')
def fail(request):
    raise Http404('nothing')
def not_found(request, exception):
    return HttpResponse(f'not found: {exception}', status=404)
""",
    "library.middleware": """\
class ShelfMiddleware:
    shelf = 'A'
    def __init__(self, get_response):
        self.get_response = get_response
    def __call__(self, request):
        request.shelf = self.shelf
        response = self.get_response(request)
        response['X-Shelf'] = self.shelf
        return response
def stamp_middleware(get_response):
    def middleware(request):
        response = get_response(request)
        response['X-Stamp'] = 'stamped'
        return response
    return middleware
""",
    "library.signals": """\
from django.core.signals import setting_changed
from django.db.models.signals import post_init, pre_save
from django.dispatch import Signal, receiver
from .models import Author, Book
LOG = []
borrowed = Signal()
@receiver(borrowed)
def on_borrowed(sender, days=0, **words):
    LOG.append(f'{sender} for {days}')
@receiver([post_init], sender=Author, dispatch_uid='author-init')
def on_author(sender, instance, **words):
    LOG.append(f'author {instance.name}')
def on_book(sender, instance, **words):
    LOG.append(f'book {instance.title}')
post_init.connect(on_book, sender=Book)
""",
    "library.templatetags.__init__": "",
    "library.templatetags.shelf": """\
from django import template
from django.utils.safestring import mark_safe
register = template.Library()
@register.filter
def spine(value, length=3):
    return str(value)[:length].upper()
@register.filter(name='bold', is_safe=True)
def strong(value):
    return mark_safe(f'<b>{value}</b>')
@register.simple_tag(takes_context=True)
def shelf(context, suffix='!'):
    return context.get('name', 'none') + suffix
class RepeatNode(template.Node):
    sep = '-'
    def __init__(self, nodes, n):
        self.nodes, self.n = nodes, n
    def render(self, context):
        return self.sep.join([self.nodes.render(context)] * self.n)
@register.tag
def repeat(parser, token):
    _, n = token.split_contents()
    nodes = parser.parse(('endrepeat',))
    parser.delete_first_token()
    return RepeatNode(nodes, int(n))
""",
}
LIBRARY_SETUP = """\
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=['django.contrib.contenttypes', 'library'], ROOT_URLCONF='m', SECRET_KEY='x', USE_TZ=False,
    DATABASES={'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}}, ALLOWED_HOSTS=['*'],
    DEFAULT_AUTO_FIELD='django.db.models.AutoField',
    MIDDLEWARE=['library.middleware.ShelfMiddleware', 'library.middleware.stamp_middleware'],
    TEMPLATES=[{'BACKEND': 'django.template.backends.django.DjangoTemplates', 'OPTIONS': {'libraries': {'shelf': 'library.templatetags.shelf'}}}],
)
django.setup()
def get(path, **data):
    from django.test import Client
    answer = Client(raise_request_exception=False).get(path, data)
    return answer.status_code, answer.content.decode()[:300], answer.headers.get('X-Shelf'), answer.headers.get('X-Stamp')
def render(text, **words):
    from django.template import Context, Template
    return Template('{% load shelf %}' + text).render(Context(words))
def errors(form):
    return form.errors.get_json_data(), getattr(form, 'cleaned_data', None)
def checked(item):
    try:
        return item.full_clean(validate_unique=False, validate_constraints=False), str(item)
    except Exception as error:
        return str(error)
"""
LIBRARY_PROBES = (
    "get('/books/'), get('/books/1999/'), get('/books/99/'), get('/fail/')", "str(m.Book.objects.cheap().query), str(m.Book.objects.titled('x').query), str(m.Book.objects.create_book('t')), str(m.Novel.objects.all().query), m.Book.objects.create_book('t').price", "errors(m.SearchForm({'q': 'ABC', 'language': 'de', 'pages': '0'})), errors(m.SearchForm({'q': 'A' * 12, 'language': 'fr', 'pages': '1'})), m.SearchForm().as_p()", "errors(m.BookForm({'title': ' t ', 'isbn': 'x', 'price': '101', 'language': 'en'})), m.BookForm().as_p()", "checked(m.Book(title=' t ', isbn='1-2', price=-1)), checked(m.Book(title=' t ', isbn='a', kind='q')), checked(m.Book(title='x' * 41)), checked(m.Book(title=' t ', kind='e'))", "[(f.name, f.max_length, f.default, str(f.verbose_name)) for f in m.Book._meta.fields if hasattr(f, 'max_length') and f.name not in ('created', 'author')], m.Book._meta.ordering, m.Novel._meta.ordering, m.Author._meta.ordering, [(c.name, str(c.condition)) for c in m.Book._meta.constraints]", "(signals.LOG.clear(), m.Author(name='ann'), m.Book(title='b'), signals.borrowed.send('x', days=3), signals.LOG)[4]", "render('{{ \"hello\"|spine }} {{ \"hello\"|spine:2 }} {{ \"x\"|bold }} {% shelf %} {% repeat 2 %}a{% endrepeat %}', name='n')", "m.Author._meta.get_field('code').get_prep_value('ab'), m.Author._meta.get_field('code').formfield().help_text, m.Author(name='q').code, m.Loan(days=20).fee(), m.Book(year=1980).is_old, m.Book.Kind.labels", "len(__import__('library.forms').forms.BookFormSet().forms), __import__('django').urls.reverse('year', kwargs={'year': 7})",
)  # fmt: skip
LIBRARY_EDITS = edits_of(
    "library",
    LIBRARY_M,
    [
        ("a converter's pattern", "'[0-9]{4}'", "'[0-9]{2,4}'", LIBRARY_PROBES),
        ("a converter's value", "return int(value)", "return int(value) + 1000", LIBRARY_PROBES),
        ("an extra argument of a path", "{'order': 'title'}", "{'order': 'price'}", LIBRARY_PROBES),
        ("a message of a validator object", "'not an ISBN'", "'no ISBN'", LIBRARY_PROBES, {"edited": "library.fields"}),
        ("a validator's body", "if value < 0", "if value < -5", LIBRARY_PROBES, {"edited": "library.fields"}),
        ("a method of a field", "value.upper()", "value.title()", LIBRARY_PROBES, {"edited": "library.fields"}),
        ("an attribute of a field", "suffix = ''", "suffix = '-'", LIBRARY_PROBES, {"edited": "library.fields"}),
        ("a language more", "('de', 'German')", "('de', 'German'), ('fr', 'French')", LIBRARY_PROBES, {"edited": "library.models"}),
        ("a method of a query set", "price__lt=10", "price__lt=20", LIBRARY_PROBES, {"edited": "library.models"}),
        ("a method more of a query set", "    def titled(", "    def dear(self):\n        return self.filter(price__gt=99)\n    def titled(", (*LIBRARY_PROBES, "str(m.Book.objects.dear().query)"), {"edited": "library.models"}),
        ("a method of a manager", "price=5)", "price=7)", LIBRARY_PROBES, {"edited": "library.models"}),
        ("what a manager leaves out", "exclude(title='')", "exclude(title='', price=0)", LIBRARY_PROBES, {"edited": "library.models"}),
        ("a choice more", "ESSAY = 'e', 'Essay'", "ESSAY = 'e', 'Essay'\n        QUIZ = 'q', 'Quiz'", LIBRARY_PROBES, {"edited": "library.models"}),
        ("a label of a choice", "'e', 'Essay'", "'e', 'An essay'", LIBRARY_PROBES, {"edited": "library.models"}),
        ("a length of a title", "max_length=40", "max_length=50", LIBRARY_PROBES, {"edited": "library.models"}),
        ("an ordering of a proxy", "ordering = ['-year']", "ordering = ['year']", LIBRARY_PROBES, {"edited": "library.models"}),
        ("an ordering of an abstract base", "ordering = ['created']", "ordering = ['-created']", LIBRARY_PROBES, {"edited": "library.models"}),
        ("a constraint's condition", "Q(price__gte=0)", "Q(price__gte=1)", LIBRARY_PROBES, {"edited": "library.models"}),
        ("a default of a method", "rate=2", "rate=3", LIBRARY_PROBES, {"edited": "library.models"}),
        ("a clean method of a model", "self.title.strip()", "self.title.strip().title()", LIBRARY_PROBES, {"edited": "library.models"}),
        ("a property of a model", "self.year < 1990", "self.year < 1970", LIBRARY_PROBES, {"edited": "library.models"}),
        ("a label of a form", "label='Search'", "label='Find'", LIBRARY_PROBES, {"edited": "library.forms"}),
        ("a clean method of a field", ".lower()", ".upper()", LIBRARY_PROBES, {"edited": "library.forms"}),
        ("a field less of a model form", "'isbn', 'price'", "'price'", LIBRARY_PROBES, {"edited": "library.forms"}),
        ("a widget of a model form", "'rows': 2", "'rows': 4", LIBRARY_PROBES, {"edited": "library.forms"}),
        ("a limit of a form", "> 100", "> 200", LIBRARY_PROBES, {"edited": "library.forms"}),
        ("a number of forms", "extra=2", "extra=3", LIBRARY_PROBES, {"edited": "library.forms"}),
        ("a key of a mixin", "key = 'items'", "key = 'books'", LIBRARY_PROBES, {"edited": "library.views"}),
        ("a context of a view", "'shelf': 'A'", "'shelf': 'B'", LIBRARY_PROBES, {"edited": "library.views"}),
        ("methods of a view", "(['GET'])", "(['POST'])", LIBRARY_PROBES, {"edited": "library.views"}),
        ("a handler by its name", "f'not found: {exception}'", "f'missing: {exception}'", LIBRARY_PROBES, {"edited": "library.views"}),
        ("an attribute of middleware", "shelf = 'A'", "shelf = 'C'", LIBRARY_PROBES, {"edited": "library.middleware"}),
        ("a body of a middleware function", "'stamped'", "'sealed'", LIBRARY_PROBES, {"edited": "library.middleware"}),
        ("a body of a receiver", "f'{sender} for {days}'", "f'{sender}: {days}'", LIBRARY_PROBES, {"edited": "library.signals"}),
        ("a body of a receiver by identity", "f'author {instance.name}'", "f'AUTHOR {instance.name}'", LIBRARY_PROBES, {"edited": "library.signals"}),
        ("a sender of a receiver", "sender=Book)", "sender=Author)", LIBRARY_PROBES, {"edited": "library.signals"}),
        ("a connection less", "post_init.connect(on_book, sender=Book)\n", "", LIBRARY_PROBES, {"edited": "library.signals"}),
        ("a default of a filter", "length=3", "length=4", LIBRARY_PROBES, {"edited": "library.templatetags.shelf"}),
        ("a filter's name", "name='bold'", "name='strong'", (*LIBRARY_PROBES, "render('{{ \"x\"|strong }}')"), {"edited": "library.templatetags.shelf"}),
        ("a default of a tag", "suffix='!'", "suffix='?'", LIBRARY_PROBES, {"edited": "library.templatetags.shelf"}),
        ("an attribute of a node", "sep = '-'", "sep = '+'", LIBRARY_PROBES, {"edited": "library.templatetags.shelf"}),
        ("a tag's end", "'endrepeat'", "'stop'", (*LIBRARY_PROBES, "render('{% repeat 2 %}a{% stop %}')"), {"edited": "library.templatetags.shelf"}),
    ],
    others=LIBRARY,
    needs=("django",),
    setup=LIBRARY_SETUP,
)  # fmt: skip

LAB_M = """\
from typing import Optional
from sqlalchemy import Column, DateTime, Enum, ForeignKey, Index, Integer, MetaData, String, Table, create_engine, event, func, select, text
from sqlalchemy.ext.associationproxy import association_proxy
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.ext.hybrid import hybrid_method, hybrid_property
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, composite, declared_attr, mapped_column, relationship, sessionmaker, validates
from sqlalchemy.sql.expression import FunctionElement
from lab import kinds
from lab.kinds import Grams, Level, Range
from lab.base import Base, HasTags, Stamped, metadata
class span(FunctionElement):
    inherit_cache = True
    name = 'span'
@compiles(span)
def compile_span(element, compiler, **words):
    return 'SPAN(%s)' % compiler.process(element.clauses, **words)
links = Table('links', metadata, Column('sample_id', ForeignKey('sample.id'), primary_key=True), Column('person_id', ForeignKey('person.id'), primary_key=True))
class Person(Stamped, Base):
    name: Mapped[str] = mapped_column(String(20))
    samples: Mapped[list['Sample']] = relationship(secondary=links, back_populates='people', order_by='Sample.id.desc()')
    titles = association_proxy('samples', 'title')
class Sample(HasTags, Stamped, Base):
    title: Mapped[str]
    kind: Mapped[str] = mapped_column(String(10))
    level: Mapped[Level] = mapped_column(Enum(Level), default=Level.LOW)
    weight: Mapped[Optional[float]] = mapped_column(Grams())
    low: Mapped[int] = mapped_column(default=0)
    high: Mapped[int] = mapped_column(default=kinds.HIGH)
    range: Mapped[Range] = composite(Range, 'low', 'high')
    people: Mapped[list[Person]] = relationship(secondary=links, back_populates='samples')
    __mapper_args__ = {'polymorphic_on': 'kind', 'polymorphic_identity': 'plain'}
    @hybrid_property
    def width(self):
        return self.high - self.low
    @width.inplace.expression
    @classmethod
    def _width(cls):
        return span(cls.low, cls.high)
    @hybrid_method
    def heavier(self, limit=kinds.HEAVY):
        return self.weight > limit
    @validates('title')
    def check_title(self, key, value):
        if len(value) > kinds.TITLE:
            raise ValueError(f'{key} is too long')
        return value.strip()
class Liquid(Sample):
    __mapper_args__ = {'polymorphic_identity': 'liquid'}
    volume: Mapped[Optional[int]] = mapped_column(use_existing_column=True)
class Rack(Base):
    slots: Mapped[int] = mapped_column(server_default=text('4'))
    owner_id: Mapped[Optional[int]] = mapped_column(ForeignKey('person.id', ondelete='SET NULL'))
    owner: Mapped[Optional[Person]] = relationship(backref='racks')
@event.listens_for(Sample.title, 'set', retval=True)
def shorten(target, value, old, initiator):
    return value.replace('sample', 's')
@event.listens_for(Base, 'init', propagate=True)
def note(target, args, words):
    kinds.LOG.append(f'new {type(target).__name__}')
engine = create_engine('sqlite://')
@event.listens_for(engine, 'before_cursor_execute')
def count(conn, cursor, statement, *rest):
    kinds.LOG.append(statement.split()[0])
Base.metadata.create_all(engine)
make_session = sessionmaker(engine, expire_on_commit=False, info={'unit': kinds.UNIT})
@event.listens_for(make_session, 'before_flush')
def stamp(session, context, instances):
    for item in session.new:
        item.by = session.info['unit']
HEAVY = select(Sample).where(Sample.weight > kinds.HEAVY).order_by(Sample.title).limit(kinds.PAGE)
BY_LEVEL = {level: select(Sample.id).where(Sample.level == level) for level in Level}
def store(**words):
    with make_session() as session:
        item = Sample(**words)
        session.add(item)
        session.flush()
        found = item.by, item.weight, item.title, item.tags
        session.rollback()
    return found
"""
LAB = {
    "lab.__init__": "",
    "lab.kinds": """\
import enum
from dataclasses import dataclass
from sqlalchemy.types import Float, TypeDecorator
HIGH = 10
HEAVY = 5
TITLE = 12
PAGE = 3
UNIT = 'g'
LOG = []
class Level(enum.Enum):
    LOW = 'low'
    MID = 'mid'
class Grams(TypeDecorator):
    impl = Float
    cache_ok = True
    factor = 1000
    def process_bind_param(self, value, dialect):
        return None if value is None else value * self.factor
    def process_result_value(self, value, dialect):
        return None if value is None else value / self.factor
@dataclass
class Range:
    low: int
    high: int
    def __contains__(self, value):
        return self.low <= value <= self.high
""",
    "lab.base": """\
from sqlalchemy import JSON, MetaData, String
from sqlalchemy.orm import DeclarativeBase, Mapped, declared_attr, mapped_column
NAMING = {'ix': 'ix_%(column_0_label)s', 'pk': 'pk_%(table_name)s'}
metadata = MetaData(naming_convention=NAMING)
class Base(DeclarativeBase):
    metadata = metadata
    type_annotation_map = {dict: JSON, str: String(40)}
    @declared_attr.directive
    def __tablename__(cls):
        return cls.__name__.lower() if cls.__name__ != 'Liquid' else None
    id: Mapped[int] = mapped_column(primary_key=True, sort_order=-1)
    def __repr__(self):
        return f'<{type(self).__name__} {self.id}>'
class Stamped:
    by: Mapped[str] = mapped_column(String(8), default='nobody')
class HasTags:
    tag_default = 'new'
    @declared_attr
    def tags(cls):
        return mapped_column(JSON, default=lambda: [cls.tag_default])
    def tagged(self, tag):
        return tag in (self.tags or ())
""",
}
LAB_PROBES = (
    "plain([(t.name, [(c.name, str(c.type), str(c.default), c.nullable, str(c.server_default and c.server_default.arg)) for c in t.c], sorted(str(k.ondelete) for k in t.foreign_keys)) for t in m.metadata.sorted_tables])", "m.store(title=' sample a ', weight=2.5), m.store(title='b', level=m.Level.LOW)", "str(m.HEAVY.compile(compile_kwargs={'literal_binds': True})), [(k.name, str(s.compile(m.engine))) for k, s in m.BY_LEVEL.items()]", "str(m.select(m.Sample.width)), m.Sample(low=1, high=4).width, m.Sample(weight=6).heavier(), str(m.select(m.Sample.heavier()).compile(compile_kwargs={'literal_binds': True}))", "raised(lambda: m.Sample(title='x' * 20)), repr(m.Sample(id=1)), 3 in m.Sample(low=1, high=4).range, m.Sample(tags=['a']).tagged('a')", "list(m.Person(samples=[m.Sample(title='one')]).titles), str([str(c) for c in m.Person.samples.property.order_by]), sorted(p.key for p in m.Person.__mapper__.attrs), m.Person(name='q').racks", "(kinds.LOG.clear(), m.Rack(), m.Liquid(title='sample'), kinds.LOG)[3], (kinds.LOG.clear(), m.store(title='c'), kinds.LOG)[2]", "{k: v.class_.__name__ for k, v in m.Sample.__mapper__.polymorphic_map.items()}, m.Person.__table__.primary_key.name, m.make_session.kw['info'], [p.key for p in m.Liquid.__mapper__.attrs]",
)  # fmt: skip
LAB_SETUP = """\
import re
def plain(value):
    return re.sub(' at 0x[0-9a-f]+', '', repr(value))
def raised(act):
    try:
        return repr(act())
    except Exception as error:
        return type(error).__name__, str(error)[:150]
"""
LAB_EDITS = edits_of(
    "lab",
    LAB_M,
    [
        ("how a function compiles", "'SPAN(%s)'", "'WIDTH(%s)'", LAB_PROBES),
        ("an order of a relationship", "order_by='Sample.id.desc()'", "order_by='Sample.title'", LAB_PROBES),
        ("an attribute of a proxy", "association_proxy('samples', 'title')", "association_proxy('samples', 'kind')", LAB_PROBES),
        ("a hybrid's body", "return self.high - self.low", "return self.high - self.low + 1", LAB_PROBES),
        ("a hybrid's expression", "return span(cls.low, cls.high)", "return span(cls.high, cls.low)", LAB_PROBES),
        ("a hybrid method's default", "limit=kinds.HEAVY", "limit=7", LAB_PROBES),
        ("a validator of an attribute", "value.strip()", "value.strip().title()", LAB_PROBES),
        ("another validated attribute", "@validates('title')", "@validates('title', 'by')", LAB_PROBES),
        ("a server's default", "text('4')", "text('8')", LAB_PROBES),
        ("a deletion", "ondelete='SET NULL'", "ondelete='CASCADE'", LAB_PROBES),
        ("a listener of an attribute", "value.replace('sample', 's')", "value.replace('sample', 'S.')", LAB_PROBES),
        ("a listener of a base", "f'new {type(target).__name__}'", "f'made {type(target).__name__}'", LAB_PROBES),
        ("a listener of an engine", "statement.split()[0]", "statement.split()[0].lower()", LAB_PROBES),
        ("a listener of sessions", "item.by = session.info['unit']", "item.by = session.info['unit'].upper()", LAB_PROBES),
        ("a listener less", "@event.listens_for(engine, 'before_cursor_execute')\n", "", LAB_PROBES),
        ("a back reference", "backref='racks'", "backref='shelves'", (*LAB_PROBES, "m.Person(name='q').shelves")),
        ("a high value", "HIGH = 10", "HIGH = 20", LAB_PROBES, {"edited": "lab.kinds"}),
        ("a heavy value", "HEAVY = 5", "HEAVY = 8", LAB_PROBES, {"edited": "lab.kinds"}),
        ("a unit", "UNIT = 'g'", "UNIT = 'kg'", LAB_PROBES, {"edited": "lab.kinds"}),
        ("a page", "PAGE = 3", "PAGE = 4", LAB_PROBES, {"edited": "lab.kinds"}),
        ("a level more", "MID = 'mid'", "MID = 'mid'\n    TOP = 'top'", LAB_PROBES, {"edited": "lab.kinds"}),
        ("a factor of a type", "factor = 1000", "factor = 100", LAB_PROBES, {"edited": "lab.kinds"}),
        ("a bound of a composite", "<= value <=", "< value <", LAB_PROBES, {"edited": "lab.kinds"}),
        ("a mixin's default", "default='nobody'", "default='someone'", LAB_PROBES, {"edited": "lab.base"}),
        ("a default of a declared attribute", "tag_default = 'new'", "tag_default = 'fresh'", LAB_PROBES, {"edited": "lab.base"}),
        ("a body of a declared attribute", "lambda: [cls.tag_default]", "lambda: [cls.tag_default, '!']", LAB_PROBES, {"edited": "lab.base"}),
        ("a name of tables", "return cls.__name__.lower()", "return cls.__name__.lower() + ('s' if cls.__name__ == 'Rack' else '')", LAB_PROBES, {"edited": "lab.base"}),
        ("a naming convention", "'pk_%(table_name)s'", "'pk__%(table_name)s'", LAB_PROBES, {"edited": "lab.base"}),
        ("a type of annotations", "String(40)", "String(60)", LAB_PROBES, {"edited": "lab.base"}),
        ("a representation", "f'<{type(self).__name__} {self.id}>'", "f'{type(self).__name__}({self.id})'", LAB_PROBES, {"edited": "lab.base"}),
    ],
    others=LAB,
    needs=("sqlalchemy",),
    setup=LAB_SETUP,
)  # fmt: skip

SCHEMAS_M = """\
import attrs
from attrs import cmp_using, define, evolve, field, frozen, setters, validators
from typing import Annotated, Any, Generic, Literal, Optional, TypeVar, Union
from pydantic import AfterValidator, AliasGenerator, BaseModel, ConfigDict, Discriminator, Field, PlainSerializer, PrivateAttr, RootModel, Tag, TypeAdapter, WrapValidator, computed_field, create_model, field_serializer, field_validator, model_serializer, model_validator, validate_call
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass
import schema_rules as rules
from schema_rules import Tagged, code, limit, settings, trimmed
T = TypeVar('T', bound=BaseModel)
Code = Annotated[str, AfterValidator(code), Field(max_length=rules.MAX_CODE)]
Cents = Annotated[int, PlainSerializer(lambda value: f'{value / 100:.2f}', return_type=str)]
class Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra=rules.EXTRA)
    def dump(self):
        return self.model_dump(by_alias=True)
class Part(Model):
    part_code: Code
    unit_price: Cents = rules.PRICE
    _seen: int = PrivateAttr(default=rules.SEEN)
    def see(self):
        self._seen += 1
        return self._seen
class Cat(Tagged):
    tag: Literal['cat'] = 'cat'
    lives: int = 9
class Dog(Tagged):
    tag: Literal['dog'] = 'dog'
    tricks: list[str] = Field(default_factory=lambda: list(rules.TRICKS))
def kind_of(value):
    return value.get('tag', 'cat') if isinstance(value, dict) else value.tag
Pet = Annotated[Union[Annotated[Cat, Tag('cat')], Annotated[Dog, Tag('dog')]], Discriminator(kind_of)]
class Box(Model, Generic[T]):
    content: T
    size: int = Field(1, gt=0, description=rules.TEXT)
    @model_validator(mode='before')
    @classmethod
    def unwrap(cls, data):
        return data.get('box', data) if isinstance(data, dict) else data
    @field_validator('size', mode='wrap')
    @classmethod
    def to_size(cls, value, handler):
        return handler(len(value) if isinstance(value, list) else value)
    @computed_field(alias='isBig')
    @property
    def is_big(self) -> bool:
        return self.size > rules.BIG
class PartBox(Box[Part]):
    label: str = 'parts'
class Names(RootModel[list[str]]):
    def __iter__(self):
        return iter(self.root)
    @model_validator(mode='after')
    def unique(self):
        self.root = sorted(set(self.root))
        return self
class Point(BaseModel):
    x: int
    y: int
    @model_serializer
    def serialize(self):
        return f'{self.x};{self.y}'
Made = create_model('Made', __base__=Model, made_by=(str, rules.MAKER), pet=(Optional[Pet], None))
Pets = TypeAdapter(dict[str, Pet])
@validate_call(validate_return=True)
def repeat(text: Code, times: Annotated[int, Field(le=rules.TIMES)] = 2) -> str:
    return text * times
@dataclass(config=ConfigDict(validate_assignment=True))
class Job:
    name: Annotated[str, WrapValidator(trimmed)]
    hours: int = Field(default=rules.HOURS, ge=0)
def strip(instance, attribute, value):
    return value.strip()
def all_repr(cls, fields):
    return [item.evolve(repr=len) if item.name == 'secret' else item for item in fields]
@define(on_setattr=[strip, setters.validate], field_transformer=all_repr)
class Account:
    name: str = field(validator=[validators.instance_of(str), validators.max_len(rules.NAME)])
    secret: str = field(default='xyz', kw_only=True)
    short: str = field(init=False)
    @short.default
    def _short(self):
        return self.name[:rules.SHORT]
    @secret.validator
    def _check(self, attribute, value):
        if len(value) < 3:
            raise ValueError(f'{attribute.name} is short')
@frozen(order=True, slots=True)
class Version:
    major: int = field(converter=attrs.converters.pipe(str.strip, int))
    minor: int = field(default=attrs.Factory(lambda self: self.major * 2, takes_self=True), metadata={'unit': rules.TEXT})
    raw: str = field(default='', eq=cmp_using(eq=lambda a, b: a.lower() == b.lower()), order=False, alias='text')
    def bump(self):
        return evolve(self, minor=self.minor + rules.STEP)
Pair = attrs.make_class('Pair', {'left': field(default=rules.LEFT), 'right': field(factory=list)}, bases=(rules.Shown,))
"""
SCHEMAS = {
    "schema_rules": """\
from pydantic import BaseModel, ConfigDict
MAX_CODE = 6
EXTRA = 'ignore'
PRICE = 150
SEEN = 0
TRICKS = ('sit',)
TEXT = 'a size'
BIG = 3
MAKER = 'nobody'
TIMES = 5
HOURS = 8
NAME = 10
SHORT = 2
STEP = 1
LEFT = 'l'
def code(value):
    if not value.isalnum():
        raise ValueError('only letters and digits')
    return value.upper()
def trimmed(value, handler):
    return handler(value).strip()
def limit(value):
    return value
class Tagged(BaseModel):
    model_config = ConfigDict(frozen=True)
    name: str = 'pet'
    def hello(self):
        return f'{self.name} the {self.tag}'
class Settings(BaseModel):
    debug: bool = False
    level: int = 1
settings = Settings(debug=True)
class Shown:
    def __str__(self):
        return f'<{self.left}>'
""",
}
SCHEMAS_PROBES = (
    "m.Part(partCode='ab1').dump(), raised(lambda: m.Part(part_code='a-b')), raised(lambda: m.Part(part_code='abcdefgh')), raised(lambda: m.Part(part_code='a', more=1).dump()), m.Part(part_code='a').see()", "m.Pets.validate_python({'a': {'tag': 'dog'}, 'b': {}}), raised(lambda: m.Pets.validate_python({'a': {'tag': 'cow'}})), m.Cat().hello(), raised(lambda: setattr(m.Cat(), 'name', 'x'))", "m.Box[m.Part](box={'content': {'partCode': 'q'}, 'size': [1, 2, 3, 4, 5]}).dump(), m.PartBox(content={'part_code': 'q'}).dump(), raised(lambda: m.PartBox(content={'part_code': '-'}, size=0))", "m.Names(['b', 'a', 'b']).root, m.Point(x=1, y=2).model_dump(), m.Made(pet={'tag': 'dog'}).dump(), m.repeat('ab'), raised(lambda: m.repeat('ab', 6)), raised(lambda: m.repeat('abcdefg', 1)), raised(lambda: m.repeat('a-'))", "m.Job(' a '), raised(lambda: setattr(m.Job('a'), 'hours', -1)), m.settings, m.PartBox.model_json_schema(), m.Made.model_json_schema()", "m.Account('ann'), raised(lambda: m.Account('x' * 11)), raised(lambda: m.Account('a', secret='x')), (lambda a: (setattr(a, 'name', ' bob '), a))(m.Account('ann'))[1]", "m.Version(' 3 '), m.Version('1').bump(), m.Version('1', text='A') == m.Version('1', text='a'), m.Version('1') < m.Version('2'), m.attrs.fields(m.Version).minor.metadata['unit']", "m.Pair(), str(m.Pair()), m.Pair(1).right",
)  # fmt: skip
SCHEMAS_EDITS = edits_of(
    "schemas",
    SCHEMAS_M,
    [
        ("a generator of aliases", "alias_generator=to_camel", "alias_generator=str.upper", SCHEMAS_PROBES),
        ("a lambda that serializes", "{value / 100:.2f}", "{value / 100:.1f} EUR", SCHEMAS_PROBES),
        ("a discriminator's function", "value.get('tag', 'cat')", "value.get('tag', 'dog')", SCHEMAS_PROBES),
        ("a member of a union less", "Union[Annotated[Cat, Tag('cat')], Annotated[Dog, Tag('dog')]]", "Union[Annotated[Cat, Tag('cat')], Annotated[Cat, Tag('dog')]]", SCHEMAS_PROBES),
        ("a validator before a generic model", "data.get('box', data)", "data.get('crate', data)", SCHEMAS_PROBES),
        ("a wrapping validator", "len(value) if", "len(value) * 2 if", SCHEMAS_PROBES),
        ("a computed field's alias", "alias='isBig'", "alias='big'", SCHEMAS_PROBES),
        ("a bound of a generic field", "gt=0", "ge=0", SCHEMAS_PROBES),
        ("a default of a subclass of a generic model", "label: str = 'parts'", "label: str = 'pieces'", SCHEMAS_PROBES),
        ("a validator after a root", "sorted(set(self.root))", "sorted(set(self.root), reverse=True)", SCHEMAS_PROBES),
        ("a serializer of a model", "f'{self.x};{self.y}'", "f'{self.x},{self.y}'", SCHEMAS_PROBES),
        ("a method of the base model", "by_alias=True", "by_alias=False", SCHEMAS_PROBES),
        ("a private attribute", "self._seen += 1", "self._seen += 10", SCHEMAS_PROBES),
        ("a validated call's body", "text * times", "'-'.join([text] * times)", SCHEMAS_PROBES),
        ("an assignment that is not validated", "validate_assignment=True", "validate_assignment=False", SCHEMAS_PROBES),
        ("a hook of attributes", "return value.strip()", "return value.strip().title()", SCHEMAS_PROBES),
        ("a transformer of fields", "repr=len", "repr=False", SCHEMAS_PROBES),
        ("a decorated default", "self.name[:rules.SHORT]", "self.name[-rules.SHORT:]", SCHEMAS_PROBES),
        ("a decorated validator", "len(value) < 3", "len(value) < 1", SCHEMAS_PROBES),
        ("a factory with the object", "self.major * 2", "self.major * 3", SCHEMAS_PROBES),
        ("a comparison by a lambda", "a.lower() == b.lower()", "a == b", SCHEMAS_PROBES),
        ("no order", "@frozen(order=True, slots=True)", "@frozen(slots=True)", SCHEMAS_PROBES),
        ("a maximum of a code", "MAX_CODE = 6", "MAX_CODE = 8", SCHEMAS_PROBES, {"edited": "schema_rules"}),
        ("extra values", "EXTRA = 'ignore'", "EXTRA = 'forbid'", SCHEMAS_PROBES, {"edited": "schema_rules"}),
        ("a price", "PRICE = 150", "PRICE = 250", SCHEMAS_PROBES, {"edited": "schema_rules"}),
        ("a trick more", "('sit',)", "('sit', 'roll')", SCHEMAS_PROBES, {"edited": "schema_rules"}),
        ("a bound of a computed field", "BIG = 3", "BIG = 9", SCHEMAS_PROBES, {"edited": "schema_rules"}),
        ("a maker", "MAKER = 'nobody'", "MAKER = 'us'", SCHEMAS_PROBES, {"edited": "schema_rules"}),
        ("a body of a validator", "value.upper()", "value.lower()", SCHEMAS_PROBES, {"edited": "schema_rules"}),
        ("a base of tagged models", "ConfigDict(frozen=True)", "ConfigDict(frozen=False)", SCHEMAS_PROBES, {"edited": "schema_rules"}),
        ("a setting's default", "level: int = 1", "level: int = 2", SCHEMAS_PROBES, {"edited": "schema_rules"}),
        ("a base of a made class", "f'<{self.left}>'", "f'[{self.left}]'", SCHEMAS_PROBES, {"edited": "schema_rules"}),
        ("a length of a name", "NAME = 10", "NAME = 12", SCHEMAS_PROBES, {"edited": "schema_rules"}),
        ("a text in metadata", "TEXT = 'a size'", "TEXT = 'the size'", SCHEMAS_PROBES, {"edited": "schema_rules"}),
    ],
    others=SCHEMAS,
    needs=("pydantic", "attrs"),
    setup=LAB_SETUP,
)  # fmt: skip

WORKSHOP_M = """\
import click
from celery import Celery, Task, chain, chord, group, shared_task, signals
from celery.schedules import crontab
from kombu import Exchange, Queue
from shop_options import COLORS, COMMANDS, Duration, OPTIONS, common, pass_box, version
import shop_options as opts
class Aliased(click.Group):
    aliases = {'mk': 'make'}
    def get_command(self, ctx, name):
        return super().get_command(ctx, self.aliases.get(name, name))
    def list_commands(self, ctx):
        return sorted(self.commands, reverse=True)
@click.group(cls=Aliased, chain=True, context_settings={'auto_envvar_prefix': 'SHOP', 'show_default': True})
@click.version_option(opts.VERSION, message='%(version)s')
@click.option('--verbose', '-v', count=True, callback=lambda ctx, param, value: value * opts.FACTOR)
@click.pass_context
def cli(ctx, verbose):
    ctx.obj = opts.Box(verbose)
@cli.result_callback()
def done(results, verbose):
    click.echo(f'{len(results)} done {verbose}')
@cli.command()
@common(OPTIONS)
@click.option('--color', type=click.Choice(COLORS, case_sensitive=False), default=COLORS[0])
@click.option('--wait', type=Duration(), default='2m')
@pass_box
def make(box, color, wait, **words):
    click.echo(f'make {color} {wait} {box.level} {sorted(words.items())}')
    return color
for _name, _text in COMMANDS.items():
    @cli.command(_name, help=_text)
    @click.argument('paths', nargs=-1, metavar=opts.METAVAR)
    def _command(paths, _name=_name):
        click.echo(f'{_name} {paths}')
app = Celery('workshop', broker='memory://', backend='cache+memory://')
app.conf.update(task_always_eager=True, task_eager_propagates=True, timezone=opts.ZONE)
app.conf.task_queues = [Queue(name, Exchange(name), routing_key=f'{name}.#') for name in opts.QUEUES]
class Counted(Task):
    abstract = True
    tag = 'counted'
    def on_success(self, value, task_id, args, words):
        opts.LOG.append(f'{self.tag} {value}')
@app.task(bind=True, base=Counted, autoretry_for=(KeyError,), max_retries=opts.RETRIES, retry_backoff=True, name='shop.cut')
def cut(self, size, by=opts.CUT):
    return size - by + self.request.retries
@app.task(bind=True, max_retries=2, default_retry_delay=0)
def flaky(self, fail=0):
    if self.request.retries < fail:
        raise self.retry(exc=ValueError('again'), countdown=0)
    return f'after {self.request.retries}'
@shared_task(queue=opts.QUEUES[0], rate_limit=f'{opts.RATE}/m')
def glue(parts, sep='+'):
    return sep.join(map(str, parts))
PIPELINE = chain(cut.s(10), cut.s(by=opts.CUT * 2))
PARTS = group(cut.s(n) for n in range(5, 5 + opts.PARTS))
ALL = chord(PARTS, glue.s(sep=opts.SEP))
app.conf.beat_schedule = {
    'nightly': {'task': cut.name, 'schedule': crontab(hour=opts.HOUR, minute=0), 'args': (opts.CUT,)},
    **{f'every-{n}': {'task': 'shop.cut', 'schedule': n * 60.0} for n in opts.EVERY},
}
def route(name, args, words, options, task=None, **more):
    return {'queue': opts.QUEUES[-1]} if name.startswith('shop.') else None
app.conf.task_routes = (route,)
@signals.task_prerun.connect
def before(task_id=None, task=None, **words):
    opts.LOG.append(f'run {task.name}')
@app.on_after_finalize.connect
def finalized(sender, **words):
    opts.LOG.append('finalized')
"""
WORKSHOP = {
    "shop_options": """\
import functools
import click
VERSION = '1.2'
COLORS = ['red', 'blue']
FACTOR = 1
METAVAR = 'PATH...'
COMMANDS = {'pack': 'Pack things.', 'ship': 'Ship things.'}
QUEUES = ('low', 'high')
ZONE = 'UTC'
RETRIES = 3
CUT = 2
RATE = 10
PARTS = 3
SEP = '/'
HOUR = 3
EVERY = [5, 10]
LOG = []
class Duration(click.ParamType):
    name = 'duration'
    units = {'s': 1, 'm': 60}
    def convert(self, value, param, ctx):
        if isinstance(value, int):
            return value
        if value[-1] not in self.units:
            self.fail(f'{value} has no unit of {sorted(self.units)}', param, ctx)
        return int(value[:-1]) * self.units[value[-1]]
class Box:
    def __init__(self, level=0):
        self.level = level
pass_box = click.make_pass_decorator(Box)
OPTIONS = [
    click.option('--dry/--wet', default=True),
    click.option('--size', type=click.IntRange(1, 10), default=4, envvar='SIZE'),
]
def common(options):
    def decorate(f):
        return functools.reduce(lambda done, option: option(done), reversed(options), f)
    return decorate
version = f'v{VERSION}'
""",
}
WORKSHOP_SETUP = """\
from click.testing import CliRunner
def shell(*words, **env):
    return CliRunner().invoke(sys.modules['m'].cli, list(words), env=env).output
def raised(act):
    try:
        return repr(act())
    except Exception as error:
        return type(error).__name__, str(error)[:150]
"""
WORKSHOP_PROBES = (
    "shell('--help'), shell('--version'), shell('make'), shell('mk', '--color', 'BLUE')", "shell('-vv', 'make', '--wait', '3s', '--wet', '--size', '11'), shell('make', '--wait', '3x'), shell('make', '--help'), shell('make', SIZE='7')", "shell('pack', 'a'), shell('ship', '--help'), shell('nothing')", "m.cut(5), m.cut.s(9).apply().get(), m.cut.max_retries, m.flaky.s(fail=2).apply().get(), raised(lambda: m.flaky.s(fail=3).apply().get())", "m.PIPELINE.apply().get(), m.PARTS.apply().get(), m.ALL.apply().get(), str(m.PIPELINE), str(m.ALL)", "sorted((k, str(v)) for k, v in m.app.conf.beat_schedule.items())", "[(q.name, q.routing_key) for q in m.app.conf.task_queues], m.app.conf.timezone, str(m.app.amqp.router.route({}, 'shop.cut', (), {})['queue'].name), m.glue.rate_limit, m.glue.queue, m.glue([1, 2])", "(opts.LOG.clear(), m.cut.s(9).apply(), opts.LOG)[2], sorted(n for n in m.app.tasks if not n.startswith('celery')), m.version",
)  # fmt: skip
WORKSHOP_EDITS = edits_of(
    "workshop",
    WORKSHOP_M,
    [
        ("an alias", "{'mk': 'make'}", "{'mk': 'make', 'p': 'pack'}", (*WORKSHOP_PROBES, "shell('p', 'x')")),
        ("an order of commands", "reverse=True", "reverse=False", WORKSHOP_PROBES),
        ("a message of a version", "message='%(version)s'", "message='v%(version)s'", WORKSHOP_PROBES),
        ("a lambda of an option", "value * opts.FACTOR", "value * 10", WORKSHOP_PROBES),
        ("a result's callback", "f'{len(results)} done {verbose}'", "f'done {len(results)}'", WORKSHOP_PROBES),
        ("a result's callback less", "@cli.result_callback()\n", "", WORKSHOP_PROBES),
        ("context settings", "'show_default': True", "'show_default': False", WORKSHOP_PROBES),
        ("a group that does not chain", ", chain=True", "", WORKSHOP_PROBES),
        ("a command's body", "f'make {color}", "f'made {color}", WORKSHOP_PROBES),
        ("a body of commands in a loop", "f'{_name} {paths}'", "f'{_name}: {paths}'", WORKSHOP_PROBES),
        ("an attribute of an abstract task", "tag = 'counted'", "tag = 'done'", WORKSHOP_PROBES),
        ("a hook of an abstract task", "f'{self.tag} {value}'", "f'{self.tag}={value}'", WORKSHOP_PROBES),
        ("a body of a bound task", "size - by", "size - by * 10", WORKSHOP_PROBES),
        ("a maximum of retries", "bind=True, max_retries=2", "bind=True, max_retries=4", WORKSHOP_PROBES),
        ("a default of a shared task", "sep='+'", "sep='-'", WORKSHOP_PROBES),
        ("a step of a chain", "cut.s(by=opts.CUT * 2)", "cut.s(by=opts.CUT * 3)", WORKSHOP_PROBES),
        ("a callback of a chord", "glue.s(sep=opts.SEP)", "glue.si([9], sep=opts.SEP)", WORKSHOP_PROBES),
        ("a schedule less", "'nightly': {'task': cut.name, 'schedule': crontab(hour=opts.HOUR, minute=0), 'args': (opts.CUT,)},", "", WORKSHOP_PROBES),
        ("a body of a router", "name.startswith('shop.')", "name.startswith('none.')", WORKSHOP_PROBES),
        ("a body of a signal's receiver", "f'run {task.name}'", "f'start {task.name}'", WORKSHOP_PROBES),
        ("a receiver less", "@signals.task_prerun.connect\n", "", WORKSHOP_PROBES),
        ("a setting more", "timezone=opts.ZONE)", "timezone=opts.ZONE, task_ignore_result=False, task_default_queue='low')", (*WORKSHOP_PROBES, "m.app.conf.task_default_queue")),
        ("a version", "VERSION = '1.2'", "VERSION = '1.3'", WORKSHOP_PROBES, {"edited": "shop_options"}),
        ("a color more", "['red', 'blue']", "['green', 'red', 'blue']", WORKSHOP_PROBES, {"edited": "shop_options"}),
        ("a unit more", "'m': 60", "'m': 60, 'x': 3600", WORKSHOP_PROBES, {"edited": "shop_options"}),
        ("a command more by a loop", "'ship': 'Ship things.'", "'ship': 'Ship things.', 'sell': 'Sell.'", (*WORKSHOP_PROBES, "shell('sell')"), {"edited": "shop_options"}),
        ("a help by a loop", "'Ship things.'", "'Send things.'", WORKSHOP_PROBES, {"edited": "shop_options"}),
        ("an option's default in a list", "default=4", "default=5", WORKSHOP_PROBES, {"edited": "shop_options"}),
        ("an option more in a list", "OPTIONS = [\n", "OPTIONS = [\n    click.option('--new', is_flag=True),\n", WORKSHOP_PROBES, {"edited": "shop_options"}),
        ("an order of options", "reversed(options)", "options", WORKSHOP_PROBES, {"edited": "shop_options"}),
        ("a queue more", "('low', 'high')", "('low', 'high', 'top')", WORKSHOP_PROBES, {"edited": "shop_options"}),
        ("a cut", "CUT = 2", "CUT = 1", WORKSHOP_PROBES, {"edited": "shop_options"}),
        ("a number of parts", "PARTS = 3", "PARTS = 2", WORKSHOP_PROBES, {"edited": "shop_options"}),
        ("a separator of a chord", "SEP = '/'", "SEP = '|'", WORKSHOP_PROBES, {"edited": "shop_options"}),
        ("an hour", "HOUR = 3", "HOUR = 4", WORKSHOP_PROBES, {"edited": "shop_options"}),
        ("schedules by a comprehension", "EVERY = [5, 10]", "EVERY = [5, 15]", WORKSHOP_PROBES, {"edited": "shop_options"}),
        ("a rate", "RATE = 10", "RATE = 20", WORKSHOP_PROBES, {"edited": "shop_options"}),
    ],
    others=WORKSHOP,
    needs=("celery",),
    setup=WORKSHOP_SETUP,
)  # fmt: skip

OFFICE_M = """\
import argparse
import contextlib
import enum
import functools
import importlib
import logging.config
import operator
import weakref
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Callable, NamedTuple, ParamSpec, Protocol, TypeVar, runtime_checkable
import office
from office import *
from office import registry, tools
from office.registry import PLUGINS, Meta, Named, plugin
from office.tools import Typed, traced
P = ParamSpec('P')
R = TypeVar('R')
class Weekday(enum.Flag):
    MON = enum.auto()
    TUE = enum.auto()
    WORK = MON | TUE
class Priority(tools.Ranked, enum.Enum):
    LOW = 1
    HIGH = tools.TOP
@runtime_checkable
class Closer(Protocol):
    def close(self) -> None: ...
class Exporter(metaclass=Meta):
    def export(self, rows):
        return f'{self.kind}:{len(rows)}'
class CsvExporter(Exporter):
    sep = ','
    def export(self, rows):
        return self.sep.join(map(str, rows))
class JsonExporter(Exporter, kind='json5'):
    pass
class Invoice(Named):
    total = Typed(int, default=tools.TOTAL)
    note = Typed(str)
    lines: list = []
    def __init__(self, **words):
        for name, value in words.items():
            setattr(self, name, value)
    @functools.cached_property
    def tax(self):
        return self.total * tools.RATE
    @functools.singledispatchmethod
    def add(self, item):
        return f'other {item}'
    @add.register
    def _(self, item: int):
        return f'int {item}'
    @add.register(str)
    def _add_text(self, item):
        return f'text {item}'
@plugin('mail', order=2)
def mail(to='all'):
    return f'mail {to}'
@plugin('print')
@traced
def printed(text):
    return f'print {text}'
@dataclass
class Desk:
    drawers: list = field(default_factory=lambda: [tools.TOP] * 2)
    tags: dict = field(default_factory=dict, repr=False, metadata={'unit': tools.UNIT})
    limit: int = field(default=tools.TOTAL, compare=False)
    def __post_init__(self):
        self.drawers.append(self.limit)
@contextlib.contextmanager
def opened(name, mode='r'):
    tools.LOG.append(f'open {name} {mode}')
    try:
        yield f'<{name}>'
    finally:
        tools.LOG.append('close')
def handle_create(args):
    return f'create {args.name}'
def handle_drop(args):
    return f'drop {args.name} {args.force}'
HANDLERS = {name[7:]: value for name, value in list(globals().items()) if name.startswith('handle_')}
SORTED = sorted(PLUGINS.values(), key=lambda item: (-item.order, item.name))
PIPE = functools.reduce(lambda f, g: lambda x: g(f(x)), [tools.double, tools.inc, str])
COUNTER = (n * tools.TOP for n in range(3))
double_then = functools.partial(tools.apply, tools.double, times=tools.TIMES)
by_kind = {cls.kind: cls for cls in Meta.classes}
LIVE = weakref.WeakSet([Exporter, CsvExporter])
LOADED = {name: importlib.import_module(f'office.{name}') for name in registry.MODULES}
def build_parser():
    parser = argparse.ArgumentParser(prog='office', description=tools.UNIT)
    sub = parser.add_subparsers(dest='command', required=True)
    for name, handler in HANDLERS.items():
        child = sub.add_parser(name)
        child.add_argument('name', nargs='?', default=tools.UNIT)
        child.set_defaults(act=handler, force=False)
    return parser
PARSER = build_parser()
PARSER.add_argument('--level', type=int, choices=range(tools.TOP), default=1)
LOGGING = {
    'version': 1,
    'disable_existing_loggers': False,
    'formatters': {'short': {'format': '%(levelname).1s ' + tools.UNIT}},
    'handlers': {'null': {'class': 'logging.NullHandler', 'formatter': 'short'}},
    'loggers': {'office': {'level': 'INFO', 'handlers': ['null'], 'propagate': False}},
}
logging.config.dictConfig(LOGGING)
log = logging.getLogger('office')
def main(*words):
    args = PARSER.parse_args(words)
    return args.act(args), args.level
"""
OFFICE = {
    "office.__init__": """\
from .registry import *
from .tools import double, UNIT
from . import registry
def __getattr__(name):
    if name == 'lazy':
        return f'lazy {UNIT}'
    raise AttributeError(name)
""",
    "office.registry": """\
from dataclasses import dataclass
__all__ = ['PLUGINS', 'plugin', 'Named']
PLUGINS = {}
MODULES = ['first']
@dataclass(frozen=True)
class Plugin:
    name: str
    func: object
    order: int = 1
    def __call__(self, *args):
        return self.func(*args)
def plugin(name, **words):
    def decorate(func):
        PLUGINS[name] = Plugin(name, func, **words)
        return func
    return decorate
class Meta(type):
    classes = []
    def __new__(mcs, name, bases, space, kind=None):
        cls = super().__new__(mcs, name, bases, space)
        cls.kind = kind or name.lower().replace('exporter', '') or 'base'
        mcs.classes.append(cls)
        return cls
    def __init__(cls, name, bases, space, **words):
        super().__init__(name, bases, space)
    def __repr__(cls):
        return f'<{cls.kind}>'
class Named:
    known = {}
    def __init_subclass__(cls, prefix='the ', **words):
        super().__init_subclass__(**words)
        cls.title = prefix + cls.__name__
        Named.known[cls.title] = cls
""",
    "office.tools": """\
import functools
import operator
from typing import Callable, ParamSpec, TypeVar
P = ParamSpec('P')
R = TypeVar('R')
TOP = 3
TOTAL = 100
RATE = 2
UNIT = 'EUR'
TIMES = 2
LOG = []
class Ranked:
    def __lt__(self, other):
        return self.value < other.value
    @property
    def shown(self):
        return f'{self.name.lower()}={self.value}'
class Typed:
    def __init__(self, kind, default=None):
        self.kind = kind
        self.default = default
    def __set_name__(self, owner, name):
        self.name = name
        owner.fields = (*getattr(owner, 'fields', ()), name)
    def __get__(self, item, owner=None):
        return self if item is None else vars(item).get(self.name, self.default)
    def __set__(self, item, value):
        if not isinstance(value, self.kind):
            raise TypeError(f'{self.name} is no {self.kind.__name__}')
        vars(item)[self.name] = value
def traced(func: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(func)
    def wrapper(*args: P.args, **words: P.kwargs) -> R:
        LOG.append(f'call {func.__name__}')
        return func(*args, **words)
    wrapper.calls = 0
    return wrapper
def double(x):
    return x * 2
def inc(x):
    return x + 1
def apply(f, x, times=1):
    for _ in range(times):
        x = f(x)
    return x
""",
    "office.first": """\
import office.registry as registry
from office.registry import plugin
from office import tools
@plugin('first', order=tools.TOP)
def first():
    return 'first'
NAMES = list(registry.PLUGINS)
""",
}
OFFICE_PROBES = (
    "list(m.Weekday), m.Weekday.WORK, m.Weekday(3), sorted(m.Priority), m.Priority.HIGH.shown, isinstance(m.opened, m.Closer)", "m.Exporter.kind, m.CsvExporter().export([1, 2]), m.JsonExporter().export([1]), m.Meta.classes, m.by_kind, len(m.LIVE)", "m.Invoice(total=5).tax, m.Invoice().total, m.Invoice.fields, raised(lambda: m.Invoice(total='x')), m.Invoice.title, list(registry.Named.known), [m.Invoice().add(v) for v in (1, 'a', None)]", "list(m.PLUGINS), [(p.name, p.order) for p in m.SORTED], m.PLUGINS['mail'](), m.PLUGINS['print']('x'), m.PLUGINS['first'].order, m.printed.__name__, m.PLUGINS['mail'].func is m.mail, m.PLUGINS['first']()", "m.Desk(), m.Desk() == m.Desk(limit=1), m.Desk.__dataclass_fields__['tags'].metadata['unit']", "(tools.LOG.clear(), m.opened('f').__enter__(), m.printed('q'), tools.LOG)[1:]", "sorted(m.HANDLERS), m.PIPE(4), m.double_then(3), sorted(m.LOADED), m.LOADED['first'].NAMES", "raised(lambda: m.main('create', 'x')), raised(lambda: m.main('--level', '2', 'drop')), m.PARSER.format_help()", "m.log.level, m.log.propagate, m.log.handlers[0].formatter._fmt, office.lazy, m.office.UNIT, m.UNIT, office.double is tools.double, 'Named' in vars(m)",
)  # fmt: skip
OFFICE_EDITS = edits_of(
    "office",
    OFFICE_M,
    [
        ("a flag more", "TUE = enum.auto()\n    WORK = MON | TUE", "TUE = enum.auto()\n    WED = enum.auto()\n    WORK = MON | TUE | WED", OFFICE_PROBES),
        ("a class keyword", "kind='json5'", "kind='json'", OFFICE_PROBES),
        ("a body of a class with a metaclass", "f'{self.kind}:{len(rows)}'", "f'{self.kind}={len(rows)}'", OFFICE_PROBES),
        ("an attribute of a registered class", "sep = ','", "sep = ';'", OFFICE_PROBES),
        ("a class more of a metaclass", "class Invoice(Named):", "class XmlExporter(Exporter):\n    pass\nclass Invoice(Named):", OFFICE_PROBES),
        ("a default of a descriptor", "Typed(int, default=tools.TOTAL)", "Typed(int, default=1)", OFFICE_PROBES),
        ("a descriptor more", "    note = Typed(str)\n", "    note = Typed(str)\n    paid = Typed(bool)\n", OFFICE_PROBES),
        ("a cached property", "self.total * tools.RATE", "self.total * tools.RATE + 1", OFFICE_PROBES),
        ("a body of a dispatched method", "f'int {item}'", "f'number {item}'", OFFICE_PROBES),
        ("a type of a dispatched method", "@add.register(str)", "@add.register(bytes)", OFFICE_PROBES),
        ("an order of a plugin", "order=2", "order=5", OFFICE_PROBES),
        ("a plugin less", "@plugin('mail', order=2)\n", "", OFFICE_PROBES),
        ("a plugin of another name", "@plugin('print')", "@plugin('paper')", OFFICE_PROBES),
        ("a factory of a field", "[tools.TOP] * 2", "[tools.TOP] * 3", OFFICE_PROBES),
        ("a field that compares", "compare=False", "compare=True", OFFICE_PROBES),
        ("what a context manager yields", "yield f'<{name}>'", "yield f'[{name}]'", OFFICE_PROBES),
        ("a handler more in globals", "HANDLERS = {", "def handle_list(args):\n    return 'list'\nHANDLERS = {", (*OFFICE_PROBES, "raised(lambda: m.main('list'))")),
        ("a handler's body", "f'create {args.name}'", "f'new {args.name}'", OFFICE_PROBES),
        ("a handler less in globals", "def handle_drop(args):\n    return f'drop {args.name} {args.force}'\n", "", OFFICE_PROBES),
        ("a key of a sorted table", "(-item.order, item.name)", "(item.order, item.name)", OFFICE_PROBES),
        ("a step of a pipe less", "[tools.double, tools.inc, str]", "[tools.double, str]", OFFICE_PROBES),
        ("a generator", "n * tools.TOP for n in range(3)", "n * tools.TOP for n in range(4)", (*OFFICE_PROBES, "list(m.COUNTER)")),
        ("a builder of a parser", "nargs='?', default", "nargs='?', metavar='NAME', default", OFFICE_PROBES),
        ("a default in subparsers", "force=False", "force=True", OFFICE_PROBES),
        ("a level of logging", "'level': 'INFO'", "'level': 'DEBUG'", OFFICE_PROBES),
        ("a format of logging", "'%(levelname).1s '", "'%(levelname)s '", OFFICE_PROBES),
        ("a top", "TOP = 3", "TOP = 4", OFFICE_PROBES, {"edited": "office.tools"}),
        ("a total", "TOTAL = 100", "TOTAL = 50", OFFICE_PROBES, {"edited": "office.tools"}),
        ("a unit", "UNIT = 'EUR'", "UNIT = 'USD'", OFFICE_PROBES, {"edited": "office.tools"}),
        ("times", "TIMES = 2", "TIMES = 3", OFFICE_PROBES, {"edited": "office.tools"}),
        ("a function in a pipe", "return x * 2", "return x * 3", OFFICE_PROBES, {"edited": "office.tools"}),
        ("a mixed-in property", "f'{self.name.lower()}={self.value}'", "f'{self.name}={self.value}'", OFFICE_PROBES, {"edited": "office.tools"}),
        ("a comparison of members", "self.value < other.value", "self.value > other.value", OFFICE_PROBES, {"edited": "office.tools"}),
        ("a check of a descriptor", "f'{self.name} is no {self.kind.__name__}'", "f'{self.name} must be {self.kind.__name__}'", OFFICE_PROBES, {"edited": "office.tools"}),
        ("what a descriptor's owner gets", "(*getattr(owner, 'fields', ()), name)", "(name, *getattr(owner, 'fields', ()))", OFFICE_PROBES, {"edited": "office.tools"}),
        ("a wrapper with parameters", "f'call {func.__name__}'", "f'called {func.__name__}'", OFFICE_PROBES, {"edited": "office.tools"}),
        ("a default order", "order: int = 1", "order: int = 4", OFFICE_PROBES, {"edited": "office.registry"}),
        ("a call of a plugin", "return self.func(*args)", "return f'<{self.func(*args)}>'", OFFICE_PROBES, {"edited": "office.registry"}),
        ("a name of a kind", "or 'base'", "or 'root'", OFFICE_PROBES, {"edited": "office.registry"}),
        ("a prefix of a hook", "prefix='the '", "prefix='a '", OFFICE_PROBES, {"edited": "office.registry"}),
        ("a module less", "MODULES = ['first']", "MODULES = []", OFFICE_PROBES, {"edited": "office.registry"}),
        ("a public name less", "['PLUGINS', 'plugin', 'Named']", "['PLUGINS', 'plugin']", OFFICE_PROBES, {"edited": "office.registry"}),
        ("a lazy name", "f'lazy {UNIT}'", "f'late {UNIT}'", OFFICE_PROBES, {"edited": "office.__init__"}),
        ("a plugin of a plugin module", "return 'first'", "return 'FIRST'", OFFICE_PROBES, {"edited": "office.first"}),
        ("a plugin's name in a plugin module", "@plugin('first'", "@plugin('one'", (*OFFICE_PROBES, "m.PLUGINS['one']()"), {"edited": "office.first"}),
    ],
    others=OFFICE,
    setup=LAB_SETUP,
)  # fmt: skip
SETTINGS_PROBES = (
    "CONF.PAGE_SIZE, CONF.INSTALLED_APPS, CONF.ALLOWED_HOSTS, m.PAGE_SIZE, m.is_local('a')",
    "[each.name for each in apps.get_app_configs()]",
)
SETTINGS_EDITS = edits_of(
    "settings",
    """\
from basic_settings import *
PAGE_SIZE = 10
ALLOWED_HOSTS = ['a']
def is_local(name):
    return name == 'a'
""",
    [
        ("a number", "PAGE_SIZE = 10", "PAGE_SIZE = 20", SETTINGS_PROBES),
        ("a host more", "['a']", "['a', 'b']", SETTINGS_PROBES),
        ("a function", "name == 'a'", "name == 'b'", SETTINGS_PROBES),
        ("an application more", "['django.contrib.contenttypes']", "['django.contrib.contenttypes', 'django.contrib.sites']", SETTINGS_PROBES, {"edited": "basic_settings"}),
    ],
    others={"basic_settings": "INSTALLED_APPS = ['django.contrib.contenttypes']\nUSE_TZ = True\n"},
    needs=("django",),
    setup="import os\nos.environ['DJANGO_SETTINGS_MODULE'] = 'm'\n",
    hold="import django\ndjango.setup()\nfrom django.apps import apps\nfrom django.conf import settings as CONF\n",
)  # fmt: skip
ALL = with_expected(
    [
        *CLINIC_EDITS,
        *GALLERY_EDITS,
        *LIBRARY_EDITS,
        *LAB_EDITS,
        *SCHEMAS_EDITS,
        *WORKSHOP_EDITS,
        *OFFICE_EDITS,
        *SETTINGS_EDITS,
    ],
    false=[
        "clinic: what a lifespan stores",
        "clinic: a router less in a loop",
        "clinic: a function that builds a router",
        "library: a method of a field",
        "library: a method more of a query set",
        "library: a method of a manager",
        "library: what a manager leaves out",
        "library: a choice more",
        "library: a label of a choice",
        "library: an ordering of an abstract base",
        "library: a constraint's condition",
        "library: a label of a form",
        "library: a sender of a receiver",
        "lab: a hybrid method's default",
        "lab: another validated attribute",
        "lab: a default of a declared attribute",
        "lab: a body of a declared attribute",
        "workshop: a setting more",
        "office: a class more of a metaclass",
        "office: a type of a dispatched method",
    ],
    reported=[
        "gallery: a prefix of a nested blueprint",
        "gallery: a rule in a blueprint",
        "gallery: a group of commands",
        "library: a converter's pattern",
        "library: a message of a validator object",
        "library: a language more",
        "library: a length of a title",
        "library: a connection less",
        "lab: an order of a relationship",
        "lab: an attribute of a proxy",
        "lab: a server's default",
        "lab: a deletion",
        "lab: a listener less",
        "lab: a back reference",
        "lab: a high value",
        "lab: a heavy value",
        "lab: a unit",
        "lab: a page",
        "lab: a level more",
        "lab: a factor of a type",
        "lab: a mixin's default",
        "lab: a name of tables",
        "lab: a naming convention",
        "lab: a type of annotations",
        "schemas: a maximum of a code",
        "workshop: a queue more",
        "workshop: a cut",
        "workshop: an hour",
        "workshop: schedules by a comprehension",
        "office: a class keyword",
        "office: a default of a descriptor",
        "office: a top",
        "office: a total",
        "office: what a descriptor's owner gets",
        "office: a name of a kind",
        "office: a prefix of a hook",
        "settings: a number",
        "settings: an application more",
    ],
)
