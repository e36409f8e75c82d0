"""Edits of applications in the layout that their framework's documentation recommends, with a module for each part."""

from edit_cases import edits_of, with_expected

FLASK_M = """\
from site_app import create_app
from site_app.models import BOOKS
app = create_app()
"""
FLASK = {
    "site_app.__init__": """\
from flask import Flask, jsonify
from . import config
from .views import pages
from .api import api
from .errors import install
def create_app(settings=config.Production):
    app = Flask(__name__)
    app.config.from_object(settings)
    app.register_blueprint(pages)
    app.register_blueprint(api, url_prefix=f'/api/v{config.API}')
    install(app)
    @app.context_processor
    def names():
        return {'site': settings.NAME}
    @app.route('/health')
    def health():
        return {'ok': True, 'name': app.config['NAME']}
    return app
""",
    "site_app.config": """\
API = 1
class Base:
    NAME = 'books'
    PAGE_SIZE = 2
class Production(Base):
    DEBUG = False
    NAME = 'books live'
""",
    "site_app.models": """\
from dataclasses import asdict, dataclass, field
@dataclass
class Book:
    title: str
    year: int = 2000
    tags: list = field(default_factory=list)
    def as_json(self):
        return asdict(self)
BOOKS = [Book('Sun', 1990), Book('Moon', 2010, ['sky']), Book('Sea')]
def search(text, books=BOOKS):
    return [book for book in books if text.lower() in book.title.lower()]
""",
    "site_app.views": """\
from flask import Blueprint, current_app, render_template_string, request
from .models import search
from .tools import cached, paginate
pages = Blueprint('pages', __name__)
TEMPLATE = '{{ site }}: {{ books | map(attribute="title") | join(", ") }}'
@pages.before_request
def check():
    if request.args.get('bad'):
        return 'bad', 400
@pages.route('/')
@cached
def index():
    return render_template_string(TEMPLATE, books=paginate(search(request.args.get('q', '')), current_app.config['PAGE_SIZE']))
@pages.route('/about', methods=['GET'])
def about():
    return 'about'
@pages.app_template_filter('loud')
def loud(value):
    return value.upper()
""",
    "site_app.tools": """\
from functools import wraps
def cached(view):
    @wraps(view)
    def call(*args, **kwargs):
        return view(*args, **kwargs)
    return call
def paginate(rows, size, page=0):
    return rows[page * size:(page + 1) * size]
""",
    "site_app.api": """\
from flask import Blueprint, abort, jsonify
from .models import BOOKS, Book
api = Blueprint('api', __name__)
@api.get('/books')
def books():
    return jsonify([book.as_json() for book in BOOKS])
@api.get('/books/<int:number>')
def book(number):
    if number >= len(BOOKS):
        abort(404)
    return BOOKS[number].as_json()
@api.errorhandler(404)
def missing(error):
    return {'error': 'missing'}, 404
""",
    "site_app.errors": """\
class Conflict(Exception):
    code = 409
def on_conflict(error):
    return {'error': 'conflict'}, error.code
HANDLERS = {Conflict: on_conflict}
def install(app):
    for kind, handler in HANDLERS.items():
        app.register_error_handler(kind, handler)
""",
}
GET = "(lambda r: (r.status_code, r.get_data(as_text=True)))(m.app.test_client().get('%s'))"
FLASK_PROBES = (
    GET % "/", GET % "/?q=s", GET % "/?bad=1", GET % "/about", GET % "/health", GET % "/api/v1/books", GET % "/api/v1/books/1", GET % "/api/v1/books/9",
    "sorted((r.rule, r.endpoint, sorted(r.methods)) for r in m.app.url_map.iter_rules())", "m.app.config['NAME'], m.app.config['PAGE_SIZE'], m.app.config['DEBUG']",
    "sorted(m.app.jinja_env.filters['loud']('x')) if 'loud' in m.app.jinja_env.filters else None", "[b.title for b in models.search('s')], m.BOOKS",
    "m.app.view_functions['pages.index'].__name__",
)  # fmt: skip
FLASK_EDITS = edits_of(
    "flask site",
    FLASK_M,
    [
        ("a template", '| join(", ")', '| join("; ")', FLASK_PROBES, {"edited": "site_app.views"}),
        ("a body of a view that is wrapped", "request.args.get('q', '')", "request.args.get('q', 'o')", FLASK_PROBES, {"edited": "site_app.views"}),
        ("a wrapper of views", "return view(*args, **kwargs)", "return view(*args, **kwargs) + '!'", FLASK_PROBES, {"edited": "site_app.tools"}),
        ("a page size", "PAGE_SIZE = 2", "PAGE_SIZE = 3", FLASK_PROBES, {"edited": "site_app.config"}),
        ("a version of a prefix", "API = 1", "API = 2", FLASK_PROBES, {"edited": "site_app.config"}),
        ("a default of a parameter", "page=0", "page=1", FLASK_PROBES, {"edited": "site_app.tools"}),
        ("a field of a row", "    year: int = 2000\n", "    year: int = 1999\n", FLASK_PROBES, {"edited": "site_app.models"}),
        ("a field more of a row", "    tags: list", "    pages: int = 0\n    tags: list", FLASK_PROBES, {"edited": "site_app.models", "more": [("site_app.models", "['sky']", "1, ['sky']")]}),
        ("a row more", "Book('Sea')]", "Book('Sea'), Book('Star')]", FLASK_PROBES, {"edited": "site_app.models"}),
        ("a method of a row", "return asdict(self)", "return {**asdict(self), 'old': self.year < 2000}", FLASK_PROBES, {"edited": "site_app.models"}),
        ("a view more", "@pages.app_template_filter", "@pages.route('/help')\ndef help_page():\n    return 'help'\n@pages.app_template_filter", (*FLASK_PROBES, GET % "/help"), {"edited": "site_app.views"}),
        ("a rule of a view", "'/about', methods", "'/info', methods", (*FLASK_PROBES, GET % "/info"), {"edited": "site_app.views"}),
        ("methods of a view", "methods=['GET']", "methods=['GET', 'POST']", FLASK_PROBES, {"edited": "site_app.views"}),
        ("a condition before requests", "request.args.get('bad')", "request.args.get('worse')", FLASK_PROBES, {"edited": "site_app.views"}),
        ("no function before requests", "@pages.before_request\n", "", FLASK_PROBES, {"edited": "site_app.views"}),
        ("a name of a filter", "app_template_filter('loud')", "app_template_filter('big')", FLASK_PROBES, {"edited": "site_app.views"}),
        ("a code of an error", "code = 409", "code = 410", FLASK_PROBES, {"edited": "site_app.errors"}),
        ("a handler of an error", "{'error': 'missing'}, 404", "{'error': 'none'}, 404", FLASK_PROBES, {"edited": "site_app.api"}),
        ("a message of a handler", "{'error': 'conflict'}, error.code", "{'error': 'clash'}, error.code", FLASK_PROBES, {"edited": "site_app.errors"}),
        ("a body of a factory", "'ok': True", "'ok': 1", FLASK_PROBES, {"edited": "site_app.__init__"}),
        ("a name of a site", "NAME = 'books'", "NAME = 'shelf'", FLASK_PROBES, {"edited": "site_app.config"}),
        ("a settings class", "settings=config.Production", "settings=config.Base", (*FLASK_PROBES, "m.app.config.get('DEBUG'), m.create_app.__defaults__[0].__name__"), {"edited": "site_app.__init__"}),
        ("a helper moves", "def paginate(rows, size, page=0):\n    return rows[page * size:(page + 1) * size]\n", "from .paging import paginate\n", FLASK_PROBES,
         {"edited": "site_app.tools", "more": [("site_app.paging", "", "def paginate(rows, size, page=0):\n    return rows[page * size:(page + 1) * size][::-1]\n")]}),
        ("a function is renamed with its caller", "def search(", "def find(", tuple(p for p in FLASK_PROBES if "search" not in p), {"edited": "site_app.models", "more": [("site_app.views", "import search", "import find"), ("site_app.views", "search(request", "find(request")]}),
        ("a view, then its text, then no view", "@pages.app_template_filter", "@pages.route('/help')\ndef help_page():\n    return 'help'\n@pages.app_template_filter", (*FLASK_PROBES, GET % "/help"),
         {"edited": "site_app.views", "then": [[("site_app.views", "return 'help'", "return 'HELP'")]]}),
        ("a template and back", '| join(", ")', '| join("; ")', FLASK_PROBES, {"edited": "site_app.views", "then": [[("site_app.views", '| join("; ")', '| join(", ")')]]}),
    ],
    others=FLASK,
    needs=("flask",),
)  # fmt: skip

API_M = """\
from api_app.main import app
"""
API = {
    "api_app.__init__": "",
    "api_app.settings": """\
from pydantic import BaseModel
class Settings(BaseModel):
    title: str = 'store'
    limit: int = 2
    prefix: str = '/items'
settings = Settings()
""",
    "api_app.schemas": """\
from enum import Enum
from typing import Annotated, Literal, Union
from pydantic import BaseModel, ConfigDict, Field, computed_field, field_validator
Name = Annotated[str, Field(min_length=1, max_length=8)]
class Kind(str, Enum):
    TOY = 'toy'
    FOOD = 'food'
class ItemIn(BaseModel):
    model_config = ConfigDict(extra='forbid')
    name: Name
    price: float = Field(gt=0)
    kind: Kind = Kind.TOY
    @field_validator('name')
    @classmethod
    def strip(cls, value):
        return value.strip()
class ItemOut(ItemIn):
    id: int
    @computed_field
    @property
    def label(self) -> str:
        return f'{self.name}#{self.id}'
class Cash(BaseModel):
    type: Literal['cash']
    paid: float
class Card(BaseModel):
    type: Literal['card']
    number: str
class Payment(BaseModel):
    method: Union[Cash, Card] = Field(discriminator='type')
""",
    "api_app.deps": """\
from typing import Annotated
from fastapi import Depends, Header, HTTPException, Query
from .settings import settings
DATA = []
def get_data():
    return DATA
def paging(skip: int = 0, limit: int = Query(default=settings.limit, le=10)):
    return slice(skip, skip + limit)
def user(x_user: str = Header(default='guest')):
    if x_user == 'bad':
        raise HTTPException(status_code=403, detail='no')
    return x_user
Data = Annotated[list, Depends(get_data)]
Page = Annotated[slice, Depends(paging)]
""",
    "api_app.items": """\
from fastapi import APIRouter, Depends, status
from .deps import Data, Page, user
from .schemas import ItemIn, ItemOut, Payment
from .settings import settings
router = APIRouter(prefix=settings.prefix, tags=['items'])
def make(item: ItemIn, number: int) -> ItemOut:
    return ItemOut(id=number, **item.model_dump())
@router.get('', response_model=list[ItemOut])
def list_items(data: Data, page: Page):
    return data[page]
@router.post('', status_code=status.HTTP_201_CREATED, response_model=ItemOut)
def add_item(item: ItemIn, data: Data, name: str = Depends(user)):
    made = make(item, len(data))
    return made
@router.post('/pay')
def pay(payment: Payment):
    return {'type': payment.method.type}
""",
    "api_app.main": """\
from contextlib import asynccontextmanager
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from . import items
from .schemas import ItemOut
from .deps import DATA
from .settings import settings
EVENTS = []
@asynccontextmanager
async def lifespan(app):
    EVENTS.append('up')
    yield {'started': True}
    EVENTS.append('down')
class Missing(Exception):
    status = 404
app = FastAPI(title=settings.title, lifespan=lifespan)
app.include_router(items.router)
@app.exception_handler(Missing)
async def on_missing(request: Request, error: Missing):
    return JSONResponse({'error': 'missing'}, status_code=error.status)
@app.middleware('http')
async def mark(request, call_next):
    response = await call_next(request)
    response.headers['x-app'] = settings.title
    return response
@app.get('/none')
def none():
    raise Missing
def seed(count=settings.limit):
    return [ItemOut(id=number, name=f'n{number}', price=number + 1) for number in range(count)]
DATA[:] = seed()
""",
}
CLIENT = """
def call(method, path, **words):
    from fastapi.testclient import TestClient
    answer = TestClient(sys.modules['api_app.main'].app).request(method, path, **words)
    return answer.status_code, answer.json(), answer.headers.get('x-app')
"""
API_PROBES = (
    "call('GET', '/items')", "call('GET', '/items?limit=1')", "call('GET', '/items?limit=50')[0]", "call('POST', '/items', json={'name': ' a ', 'price': 2})",
    "call('POST', '/items', json={'name': 'abcdefghijkl', 'price': 2})[0]", "call('POST', '/items', json={'name': 'a', 'price': -1})[0]", "call('POST', '/items', json={'name': 'a', 'price': 1, 'x': 1})[0]",
    "call('POST', '/items', json={'name': 'a', 'price': 1, 'kind': 'food'})", "call('POST', '/items', json={'name': 'a', 'price': 1}, headers={'x-user': 'bad'})", "call('POST', '/items/pay', json={'method': {'type': 'cash', 'paid': 1}})",
    "call('POST', '/items/pay', json={'method': {'type': 'cheque', 'paid': 1}})[0]", "call('GET', '/none')", "sorted((r.path, sorted(getattr(r, 'methods', ()) or ())) for r in m.app.routes)",
    "m.app.openapi()['components']['schemas']['ItemIn']", "m.app.openapi()['components']['schemas']['ItemOut']", "m.app.title, main.EVENTS", "deps.DATA, main.seed()",
    "schemas.ItemOut(id=1, name='q', price=1).model_dump(), type(deps.DATA[0]) is schemas.ItemOut", "list(schemas.Kind)",
)  # fmt: skip
API_EDITS = edits_of(
    "fastapi store",
    API_M,
    [
        ("a handler's body", "return data[page]", "return data[page][::-1]", API_PROBES, {"edited": "api_app.items"}),
        ("a helper of a handler", "ItemOut(id=number, **", "ItemOut(id=number + 100, **", API_PROBES, {"edited": "api_app.items"}),
        ("a constraint in an alias", "max_length=8", "max_length=20", API_PROBES, {"edited": "api_app.schemas"}),
        ("a constraint of a field", "Field(gt=0)", "Field(gt=-5)", API_PROBES, {"edited": "api_app.schemas"}),
        ("a configuration", "extra='forbid'", "extra='ignore'", API_PROBES, {"edited": "api_app.schemas"}),
        ("a validator's body", "return value.strip()", "return value.strip().upper()", API_PROBES, {"edited": "api_app.schemas"}),
        ("a field more", "    kind: Kind = Kind.TOY\n", "    kind: Kind = Kind.TOY\n    stock: int = 3\n", API_PROBES, {"edited": "api_app.schemas"}),
        ("a computed field", "f'{self.name}#{self.id}'", "f'{self.id}:{self.name}'", API_PROBES, {"edited": "api_app.schemas"}),
        ("a member more", "    FOOD = 'food'\n", "    FOOD = 'food'\n    BOOK = 'book'\n", (*API_PROBES, "call('POST', '/items', json={'name': 'a', 'price': 1, 'kind': 'book'})"), {"edited": "api_app.schemas"}),
        ("a member of a union more", "class Payment(", "class Cheque(BaseModel):\n    type: Literal['cheque']\n    paid: float\nclass Payment(", API_PROBES, {"edited": "api_app.schemas", "more": [("api_app.schemas", "Union[Cash, Card]", "Union[Cash, Card, Cheque]")]}),
        ("a body of a dependency", "return slice(skip, skip + limit)", "return slice(skip, skip + limit * 2)", API_PROBES, {"edited": "api_app.deps"}),
        ("a default of a dependency", "skip: int = 0", "skip: int = 1", API_PROBES, {"edited": "api_app.deps"}),
        ("a bound of a query", "le=10", "le=100", API_PROBES, {"edited": "api_app.deps"}),
        ("a setting", "limit: int = 2", "limit: int = 1", API_PROBES, {"edited": "api_app.settings"}),
        ("a title", "title: str = 'store'", "title: str = 'mart'", API_PROBES, {"edited": "api_app.settings"}),
        ("a prefix", "prefix: str = '/items'", "prefix: str = '/goods'", API_PROBES, {"edited": "api_app.settings"}),
        ("a refusal", "status_code=403", "status_code=401", API_PROBES, {"edited": "api_app.deps"}),
        ("a route more", "@router.post('/pay')", "@router.get('/count')\ndef count(data: Data):\n    return len(data)\n@router.post('/pay')", (*API_PROBES, "call('GET', '/items/count')"), {"edited": "api_app.items"}),
        ("a route more at the end", "    return {'type': payment.method.type}\n", "    return {'type': payment.method.type}\n@router.get('/count')\ndef count(data: Data):\n    return len(data)\n", (*API_PROBES, "call('GET', '/items/count')"), {"edited": "api_app.items"}),
        ("a status of a route", "HTTP_201_CREATED", "HTTP_200_OK", API_PROBES, {"edited": "api_app.items"}),
        ("a status of an error", "status = 404", "status = 410", API_PROBES, {"edited": "api_app.main"}),
        ("a header of a middleware", "response.headers['x-app'] = settings.title", "response.headers['x-app'] = settings.title + '!'", API_PROBES, {"edited": "api_app.main"}),
        ("a lifespan's body", "EVENTS.append('up')", "EVENTS.append('start')", API_PROBES, {"edited": "api_app.main"}),
        ("an annotation of a helper", "def make(item: ItemIn, number: int) -> ItemOut:", "def make(item, number):", API_PROBES, {"edited": "api_app.items"}),
        ("a field, then a validator, then no field", "    kind: Kind = Kind.TOY\n", "    kind: Kind = Kind.TOY\n    stock: int = 3\n", API_PROBES,
         {"edited": "api_app.schemas", "then": [[("api_app.schemas", "return value.strip()", "return value.strip().title()")], [("api_app.schemas", "    stock: int = 3\n", "")]]}),
    ],
    others=API,
    needs=("fastapi", "fastapi.testclient"),
    setup=CLIENT,
)  # fmt: skip

DATA_M = """\
from data_app import session
from data_app.models import Author, Base, Post
from data_app.queries import by_name, recent
def titles(**words):
    with session.Session() as active:
        return [post.title for post in active.scalars(recent(**words))]
"""
DATA = {
    "data_app.__init__": "",
    "data_app.base": """\
from datetime import datetime, timezone
from sqlalchemy import MetaData, String
from sqlalchemy.orm import DeclarativeBase, Mapped, declared_attr, mapped_column
class Base(DeclarativeBase):
    metadata = MetaData()
    def as_dict(self):
        return {name: getattr(self, name) for name in self.__mapper__.columns.keys()}
class Named:
    name: Mapped[str] = mapped_column(String(20))
    def __repr__(self):
        return f'<{type(self).__name__} {self.name}>'
def slug(text):
    return text.lower().replace(' ', '-')
""",
    "data_app.models": """\
from typing import Optional
from sqlalchemy import ForeignKey, event
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import Mapped, mapped_column, relationship, validates
from .base import Base, Named, slug
class Author(Named, Base):
    __tablename__ = 'authors'
    id: Mapped[int] = mapped_column(primary_key=True)
    posts: Mapped[list['Post']] = relationship(back_populates='author', cascade='all')
    @validates('name')
    def check(self, key, value):
        return value.strip()
class Post(Base):
    __tablename__ = 'posts'
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    words: Mapped[int] = mapped_column(default=10)
    author_id: Mapped[int] = mapped_column(ForeignKey('authors.id'))
    author: Mapped[Author] = relationship(back_populates='posts')
    @hybrid_property
    def is_long(self):
        return self.words > 50
    @property
    def slug(self):
        return slug(self.title)
SEEN = []
@event.listens_for(Post, 'before_insert')
def stamp(mapper, connection, target):
    SEEN.append(target.title)
""",
    "data_app.session": """\
from sqlalchemy import create_engine
from sqlalchemy.orm import sessionmaker
from sqlalchemy.pool import StaticPool
from .models import Author, Base, Post
engine = create_engine('sqlite://', poolclass=StaticPool)
Session = sessionmaker(engine, expire_on_commit=False)
def fill():
    Base.metadata.create_all(engine)
    with Session() as active:
        author = Author(name=' Ann ')
        author.posts = [Post(title='One Two', words=60), Post(title='Three')]
        active.add(author)
        active.commit()
""",
    "data_app.queries": """\
from sqlalchemy import func, select
from .models import Author, Post
LIMIT = 5
RECENT = select(Post).order_by(Post.id.desc())
def recent(limit=LIMIT):
    return RECENT.limit(limit)
def by_name(name):
    return select(Author).where(func.lower(Author.name) == name.lower())
""",
}
FILL = "session.fill()"
DATA_PROBES = (
    "m.titles(), m.titles(limit=1)", "str(m.recent())", "str(m.by_name('Ann'))", "m.Post(title='A B', words=99).slug, m.Post(title='A', words=99).is_long, str(m.Post.is_long)",
    "m.Author(name=' x ').name, repr(m.Author(name='y'))", "m.Post(title='t').as_dict()", "sorted(c.name for c in m.Author.__table__.columns), [c.name for c in m.Post.__table__.columns]",
    "[a.name for a in session.Session().scalars(m.by_name('ann'))]", "[p.title for p in session.Session().scalars(m.by_name('ann')).first().posts]", "(models.stamp(None, None, m.Post(title='z')), models.SEEN[-1])[1]", "m.Author.posts.property.cascade.delete",
)  # fmt: skip
DATA_EDITS = edits_of(
    "sqlalchemy posts",
    DATA_M,
    [
        ("a limit of a query", "LIMIT = 5", "LIMIT = 1", DATA_PROBES, {"edited": "data_app.queries"}),
        ("an order of a query", "Post.id.desc()", "Post.title", DATA_PROBES, {"edited": "data_app.queries"}),
        ("a condition of a query", "func.lower(Author.name) == name.lower()", "Author.name == name", DATA_PROBES, {"edited": "data_app.queries"}),
        ("a body of a hybrid", "self.words > 50", "self.words > 70", DATA_PROBES, {"edited": "data_app.models"}),
        ("a validator's body", "return value.strip()", "return value.strip().title()", DATA_PROBES, {"edited": "data_app.models"}),
        ("a helper in another module", "replace(' ', '-')", "replace(' ', '_')", DATA_PROBES, {"edited": "data_app.base"}),
        ("a method of the base", "return {name:", "return {name.upper():", DATA_PROBES, {"edited": "data_app.base"}),
        ("a method of a mixin", "f'<{type(self).__name__} {self.name}>'", "f'<{self.name}>'", DATA_PROBES, {"edited": "data_app.base"}),
        ("a length in a mixin", "String(20)", "String(40)", DATA_PROBES, {"edited": "data_app.base"}),
        ("a column more", "    words: Mapped[int]", "    draft: Mapped[bool] = mapped_column(default=False)\n    words: Mapped[int]", DATA_PROBES, {"edited": "data_app.models"}),
        ("a default of a column", "default=10", "default=20", DATA_PROBES, {"edited": "data_app.models"}),
        ("a cascade", "cascade='all'", "cascade='save-update'", DATA_PROBES, {"edited": "data_app.models"}),
        ("a listener's body", "SEEN.append(target.title)", "SEEN.append(target.title.upper())", DATA_PROBES, {"edited": "data_app.models"}),
        ("a property of a model", "return slug(self.title)", "return slug(self.title) + '!'", DATA_PROBES, {"edited": "data_app.models"}),
        ("a method more of a model", "SEEN = []", "    def shout(self):\n        return self.title.upper()\nSEEN = []", (*DATA_PROBES, "m.Post(title='t').shout()"), {"edited": "data_app.models"}),
        ("a hybrid more", "    @property\n    def slug", "    @hybrid_property\n    def is_short(self):\n        return self.words < 5\n    @property\n    def slug", (*DATA_PROBES, "m.Post(title='t', words=1).is_short, str(m.Post.is_short)"), {"edited": "data_app.models"}),
    ],
    others=DATA,
    needs=("sqlalchemy",),
    hold=FILL,
)  # fmt: skip

TOOL_M = """\
from tool_app.cli import cli
from tool_app.jobs import app, report
from tool_app.records import Config, Entry
DEFAULT = Config()
ENTRIES = [Entry('a', '3'), Entry('b', 4)]
SUM = sum(entry.size for entry in ENTRIES)
"""
TOOL = {
    "tool_app.__init__": "",
    "tool_app.records": """\
import attrs
from attrs import define, field, validators
def to_int(value):
    return int(value)
LIMIT = 100
@define
class Entry:
    name: str = field(validator=validators.instance_of(str))
    size: int = field(default=1, converter=to_int)
    @size.validator
    def _check(self, attribute, value):
        if value > LIMIT:
            raise ValueError(value)
    @property
    def label(self):
        return f'{self.name}={self.size}'
@define(frozen=True, kw_only=True)
class Config:
    level: str = 'info'
    paths: tuple = attrs.Factory(tuple)
    depth: int = field(default=2, validator=[validators.ge(0), validators.le(5)])
    def deeper(self, by=1):
        return attrs.evolve(self, depth=self.depth + by)
""",
    "tool_app.params": """\
import click
FORMATS = ['text', 'json']
class Size(click.ParamType):
    name = 'size'
    units = {'k': 1000}
    def convert(self, value, param, context):
        if isinstance(value, int):
            return value
        factor = self.units.get(value[-1:], 1)
        try:
            return int(value.rstrip('km')) * factor
        except ValueError:
            self.fail(f'{value} is no size', param, context)
SIZE = Size()
def common(function):
    function = click.option('--format', type=click.Choice(FORMATS), default=FORMATS[0], show_default=True)(function)
    return click.option('-v', '--verbose', is_flag=True, help='Print more.')(function)
def upper(context, param, value):
    return value.upper()
""",
    "tool_app.cli": """\
import click
from . import commands
from .params import SIZE, common, upper
VERSION = '1.0'
@click.group(context_settings={'help_option_names': ['-h', '--help']})
@click.version_option(VERSION, prog_name='tool')
@click.pass_context
def cli(context):
    'A tool.'
    context.obj = {'version': VERSION}
@cli.command()
@common
@click.option('--size', type=SIZE, default='2k')
@click.argument('name', default='x', callback=upper)
def show(name, size, format, verbose):
    'Show it.'
    click.echo(f'{name} {size} {format} {verbose}')
cli.add_command(commands.clean)
cli.add_command(commands.db)
""",
    "tool_app.commands": """\
import click
from .params import common
@click.command()
@click.option('--all', 'everything', is_flag=True)
@click.pass_obj
def clean(obj, everything):
    click.echo(f"clean {everything} {obj['version']}")
@click.group()
def db():
    pass
@db.command('migrate')
@click.option('--steps', default=1)
def migrate(steps):
    click.echo(f'{steps} steps')
""",
    "tool_app.jobs": """\
from celery import Celery, shared_task
from celery.schedules import crontab
from .records import LIMIT
app = Celery('tool', broker='memory://', backend='cache+memory://')
app.conf.update(task_always_eager=True, task_default_queue='low')
EVERY = 30
@app.task(bind=True, max_retries=3)
def report(self, name, width=LIMIT):
    return f'{self.name}:{name}:{width}'
@shared_task(name='jobs.add')
def add(first, second=1):
    return first + second
app.conf.beat_schedule = {'report': {'task': 'tool_app.jobs.report', 'schedule': EVERY, 'args': ('x',)}}
""",
}
RUN = """
def run(*words):
    from click.testing import CliRunner
    found = CliRunner().invoke(sys.modules['tool_app.cli'].cli, list(words))
    return found.exit_code, found.output
"""
TOOL_PROBES = (
    "run('show')", "run('show', 'ab', '--size', '3k', '-v')", "run('show', '--format', 'json')", "run('show', '--format', 'xml')", "run('show', '--help')", "run('--help')", "run('--version')", "run('clean')",
    "run('clean', '--all')", "run('db', 'migrate')", "run('db', '--help')", "run('show', '--size', 'q')", "m.DEFAULT, m.DEFAULT.deeper()", "m.ENTRIES, m.SUM, [e.label for e in m.ENTRIES]", "m.Config(depth=9)",
    "m.Entry('c', 500)", "m.Entry(3)", "m.Entry('d', '7').size, m.Entry('d')", "m.report.delay('q').get(), jobs.add.delay(1).get()", "m.app.conf.beat_schedule, m.app.conf.task_default_queue",
    "m.report.max_retries, sorted(n for n in m.app.tasks if not n.startswith('celery'))",
)  # fmt: skip
TOOL_EDITS = edits_of(
    "tool",
    TOOL_M,
    [
        ("a version", "VERSION = '1.0'", "VERSION = '1.1'", TOOL_PROBES, {"edited": "tool_app.cli"}),
        ("a body of a command", "click.echo(f'{name} {size}", "click.echo(f'{name}: {size}", TOOL_PROBES, {"edited": "tool_app.cli"}),
        ("a default of an option", "default='2k'", "default='5k'", TOOL_PROBES, {"edited": "tool_app.cli"}),
        ("a unit of a type", "{'k': 1000}", "{'k': 1024, 'm': 10 ** 6}", TOOL_PROBES, {"edited": "tool_app.params"}),
        ("a message of a type", "is no size", "is not a size", TOOL_PROBES, {"edited": "tool_app.params"}),
        ("a callback's body", "return value.upper()", "return value.title()", TOOL_PROBES, {"edited": "tool_app.params"}),
        ("a format more", "['text', 'json']", "['text', 'json', 'xml']", TOOL_PROBES, {"edited": "tool_app.params"}),
        ("a help of a shared option", "Print more.", "Print much more.", TOOL_PROBES, {"edited": "tool_app.params"}),
        ("a shared option more", "    return click.option('-v'", "    function = click.option('--quiet', is_flag=True, expose_value=False)(function)\n    return click.option('-v'", TOOL_PROBES, {"edited": "tool_app.params"}),
        ("a docstring of a command", "Show it.", "Show something.", TOOL_PROBES, {"edited": "tool_app.cli"}),
        ("a command more", "cli.add_command(commands.clean)", "@cli.command()\ndef extra():\n    click.echo('extra')\ncli.add_command(commands.clean)", (*TOOL_PROBES, "run('extra')"), {"edited": "tool_app.cli"}),
        ("an option of a command in another module", "'--all', 'everything'", "'--every', 'everything'", (*TOOL_PROBES, "run('clean', '--every')"), {"edited": "tool_app.commands"}),
        ("a body of a command in another module", 'f"clean {everything}', 'f"cleaned {everything}', TOOL_PROBES, {"edited": "tool_app.commands"}),
        ("a default of a nested command", "default=1", "default=2", TOOL_PROBES, {"edited": "tool_app.commands"}),
        ("a nested command more", "@db.command('migrate')", "@db.command('drop')\ndef drop():\n    click.echo('drop')\n@db.command('migrate')", (*TOOL_PROBES, "run('db', 'drop')"), {"edited": "tool_app.commands"}),
        ("a nested command is renamed", "@db.command('migrate')", "@db.command('up')", (*TOOL_PROBES, "run('db', 'up')"), {"edited": "tool_app.commands"}),
        ("a command is no longer added", "cli.add_command(commands.clean)\n", "", TOOL_PROBES, {"edited": "tool_app.cli"}),
        ("a converter's body", "return int(value)", "return int(value) * 10", TOOL_PROBES, {"edited": "tool_app.records"}),
        ("a limit of a validator and a default", "LIMIT = 100", "LIMIT = 1000", TOOL_PROBES, {"edited": "tool_app.records"}),
        ("a bound of a validator", "validators.le(5)", "validators.le(9)", TOOL_PROBES, {"edited": "tool_app.records"}),
        ("a default of a field", "default=2, validator", "default=3, validator", TOOL_PROBES, {"edited": "tool_app.records"}),
        ("a field more", "    level: str = 'info'\n", "    level: str = 'info'\n    color: bool = False\n", TOOL_PROBES, {"edited": "tool_app.records"}),
        ("no slots", "@define\nclass Entry", "@define(slots=False)\nclass Entry", (*TOOL_PROBES, "hasattr(m.ENTRIES[0], '__dict__')"), {"edited": "tool_app.records"}),
        ("a default of a method", "by=1", "by=2", TOOL_PROBES, {"edited": "tool_app.records"}),
        ("a body of a task", "{name}:{width}", "{width}:{name}", TOOL_PROBES, {"edited": "tool_app.jobs"}),
        ("a number of retries", "max_retries=3", "max_retries=5", TOOL_PROBES, {"edited": "tool_app.jobs"}),
        ("a schedule", "EVERY = 30", "EVERY = 60", TOOL_PROBES, {"edited": "tool_app.jobs"}),
        ("a queue", "'low'", "'high'", TOOL_PROBES, {"edited": "tool_app.jobs"}),
        ("a default of a shared task", "second=1", "second=2", TOOL_PROBES, {"edited": "tool_app.jobs"}),
        ("a task more", "@shared_task(name='jobs.add')", "@app.task\ndef ping():\n    return 'pong'\n@shared_task(name='jobs.add')", TOOL_PROBES, {"edited": "tool_app.jobs"}),
        ("an option and back", "default='2k'", "default='5k'", TOOL_PROBES, {"edited": "tool_app.cli", "then": [[("tool_app.cli", "default='5k'", "default='2k'")]]}),
        ("a command more, then its text, then less", "cli.add_command(commands.clean)", "@cli.command()\ndef extra():\n    click.echo('extra')\ncli.add_command(commands.clean)", (*TOOL_PROBES, "run('extra')"),
         {"edited": "tool_app.cli", "then": [[("tool_app.cli", "click.echo('extra')", "click.echo('more')")], [("tool_app.cli", "@cli.command()\ndef extra():\n    click.echo('more')\n", "")]]}),
    ],
    others=TOOL,
    needs=("click", "click.testing", "attrs", "celery"),
    setup=RUN,
)  # fmt: skip

DJANGO_SET_UP = """
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=['django.contrib.contenttypes', 'django.contrib.auth', 'blog'], ROOT_URLCONF='blog.urls', SECRET_KEY='x', USE_TZ=False,
    DATABASES={'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}}, ALLOWED_HOSTS=['*'], DEFAULT_AUTO_FIELD='django.db.models.AutoField',
    TEMPLATES=[{'BACKEND': 'django.template.backends.django.DjangoTemplates'}], MIDDLEWARE=['blog.middleware.Mark'],
)
django.setup()
def get(path, **data):
    from django.test import Client
    answer = Client(raise_request_exception=False).get(path, data)
    return answer.status_code, answer.content.decode(), answer.headers.get('x-mark')
"""
DJANGO_M = """\
import blog.urls
from blog.models import Author, Entry
from blog.forms import EntryForm
"""
DJANGO = {
    "blog.__init__": "",
    "blog.apps": """\
from django.apps import AppConfig
class BlogConfig(AppConfig):
    name = 'blog'
    def ready(self):
        from . import signals
""",
    "blog.models": """\
from django.core.validators import MaxLengthValidator
from django.db import models
STATES = [('d', 'draft'), ('p', 'public')]
class EntryQuerySet(models.QuerySet):
    def public(self):
        return self.filter(state='p')
class Author(models.Model):
    name = models.CharField(max_length=20)
    def __str__(self):
        return self.name
class Entry(models.Model):
    title = models.CharField(max_length=30)
    state = models.CharField(max_length=1, choices=STATES, default='d')
    author = models.ForeignKey(Author, on_delete=models.CASCADE, related_name='entries', null=True)
    objects = EntryQuerySet.as_manager()
    class Meta:
        ordering = ['title']
        verbose_name = 'post'
    def __str__(self):
        return f'{self.title} ({self.get_state_display()})'
    @property
    def is_public(self):
        return self.state == 'p'
    def get_absolute_url(self):
        from django.urls import reverse
        return reverse('entry', args=[self.pk])
""",
    "blog.forms": """\
from django import forms
from .models import Entry
class EntryForm(forms.ModelForm):
    notify = forms.BooleanField(required=False, label='Notify')
    class Meta:
        model = Entry
        fields = ['title', 'state']
        labels = {'title': 'Heading'}
    def clean_title(self):
        title = self.cleaned_data['title']
        if title.islower():
            raise forms.ValidationError('no capitals')
        return title
""",
    "blog.signals": """\
from django.db.models.signals import post_init
from django.dispatch import Signal, receiver
from .models import Entry
published = Signal()
SEEN = []
@receiver(post_init, sender=Entry)
def on_init(sender, instance, **words):
    SEEN.append(instance.title)
@receiver(published)
def on_published(sender, **words):
    return f'published {sender}'
""",
    "blog.views": """\
from django.http import HttpResponse, JsonResponse
from django.views import View
from django.views.decorators.http import require_GET
from .forms import EntryForm
from .models import Entry
PAGE = 2
@require_GET
def index(request):
    return HttpResponse(f'index {PAGE}')
def entry(request, pk):
    return HttpResponse(f'entry {pk}')
class Api(View):
    kind = 'api'
    def get(self, request):
        return JsonResponse({'kind': self.kind, 'page': PAGE})
""",
    "blog.urls": """\
from django.urls import include, path
from . import views
from .api_urls import urlpatterns as api_patterns
urlpatterns = [
    path('', views.index, name='index'),
    path('entry/<int:pk>/', views.entry, name='entry'),
    path('api/', include((api_patterns, 'api'))),
]
""",
    "blog.api_urls": """\
from django.urls import path
from .views import Api
urlpatterns = [path('list/', Api.as_view(kind='list'), name='list')]
""",
    "blog.middleware": """\
MARK = 'm'
class Mark:
    def __init__(self, get_response):
        self.get_response = get_response
    def __call__(self, request):
        response = self.get_response(request)
        response['x-mark'] = MARK
        return response
""",
}
DJANGO_PROBES = (
    "get('/')", "get('/entry/3/')", "get('/api/list/')", "get('/info/')[0]", "str(m.Entry(title='T', state='p')), m.Entry(state='p').is_public", "m.Entry(pk=4).get_absolute_url()",
    "str(m.Entry.objects.public().query)", "str(m.Entry.objects.all().query)", "m.EntryForm({'title': 'Ab', 'state': 'p'}).is_valid(), m.EntryForm({'title': 'ab', 'state': 'p'}).errors", "m.EntryForm().as_p()",
    "[f.name for f in m.Entry._meta.get_fields()], m.Entry._meta.verbose_name", "[(f.__name__, r) for f, r in signals.published.send('s')]", "(m.Entry(title='seen'), signals.SEEN[-1:])[1]", "__import__('django.urls').urls.reverse('api:list')",
    "str(m.Author(name='n')), [f.name for f in m.Author._meta.get_fields()]", "m.EntryForm({'title': 'A' * 40, 'state': 'p'}).errors", "len(m.Entry.objects.none())",
)  # fmt: skip
DJANGO_EDITS = edits_of(
    "django blog",
    DJANGO_M,
    [
        ("a body of a view", "f'entry {pk}'", "f'entry no. {pk}'", DJANGO_PROBES, {"edited": "blog.views"}),
        ("a constant of views", "PAGE = 2", "PAGE = 3", DJANGO_PROBES, {"edited": "blog.views"}),
        ("a class view's attribute", "    kind = 'api'\n", "    kind = 'rest'\n    extra = 1\n", DJANGO_PROBES, {"edited": "blog.views"}),
        ("a class view's body", "{'kind': self.kind,", "{'type': self.kind,", DJANGO_PROBES, {"edited": "blog.views"}),
        ("a route more", "    path('entry/", "    path('info/', views.index, name='info'),\n    path('entry/", DJANGO_PROBES, {"edited": "blog.urls"}),
        ("a route's pattern", "'entry/<int:pk>/'", "'post/<int:pk>/'", (*DJANGO_PROBES, "get('/post/3/')"), {"edited": "blog.urls"}),
        ("a route of an included list", "path('list/', Api.as_view(kind='list'), name='list')", "path('all/', Api.as_view(kind='all'), name='list')", (*DJANGO_PROBES, "get('/api/all/')"), {"edited": "blog.api_urls"}),
        ("a view with its route", "def entry(request, pk):", "def info(request):\n    return HttpResponse('info')\ndef entry(request, pk):", DJANGO_PROBES, {"edited": "blog.views", "more": [("blog.urls", "    path('entry/", "    path('info/', views.info, name='info'),\n    path('entry/")]}),
        ("a state more", "('p', 'public')]", "('p', 'public'), ('x', 'gone')]", DJANGO_PROBES, {"edited": "blog.models"}),
        ("a method of a query set", "self.filter(state='p')", "self.exclude(state='d')", DJANGO_PROBES, {"edited": "blog.models"}),
        ("an order", "ordering = ['title']", "ordering = ['-title']", DJANGO_PROBES, {"edited": "blog.models"}),
        ("a verbose name", "verbose_name = 'post'", "verbose_name = 'article'", DJANGO_PROBES, {"edited": "blog.models"}),
        ("a text of a model", "f'{self.title} (", "f'{self.title} [", DJANGO_PROBES, {"edited": "blog.models"}),
        ("a property of a model", "self.state == 'p'", "self.state != 'd'", DJANGO_PROBES, {"edited": "blog.models"}),
        ("a length of a field", "max_length=30", "max_length=50", DJANGO_PROBES, {"edited": "blog.models"}),
        ("a field more", "    author = models.ForeignKey", "    body = models.TextField(default='')\n    author = models.ForeignKey", DJANGO_PROBES, {"edited": "blog.models"}),
        ("a form's label", "'Heading'", "'Headline'", DJANGO_PROBES, {"edited": "blog.forms"}),
        ("a form's field", "label='Notify'", "label='Tell'", DJANGO_PROBES, {"edited": "blog.forms"}),
        ("a form's check", "title.islower()", "title.isupper()", DJANGO_PROBES, {"edited": "blog.forms"}),
        ("a form's fields", "['title', 'state']", "['title']", DJANGO_PROBES, {"edited": "blog.forms"}),
        ("a receiver's body", "SEEN.append(instance.title)", "SEEN.append(instance.title.upper())", DJANGO_PROBES, {"edited": "blog.signals"}),
        ("a receiver less", "@receiver(published)\ndef on_published(sender, **words):\n    return f'published {sender}'\n", "", DJANGO_PROBES, {"edited": "blog.signals"}),
        ("a mark of a middleware", "MARK = 'm'", "MARK = 'n'", DJANGO_PROBES, {"edited": "blog.middleware"}),
        ("a body of a middleware", "response['x-mark'] = MARK", "response['x-mark'] = MARK * 2", DJANGO_PROBES, {"edited": "blog.middleware"}),
    ],
    others=DJANGO,
    needs=("django", "django.test", "django.forms", "django.contrib.auth", "django.contrib.contenttypes"),
    setup=DJANGO_SET_UP,
)  # fmt: skip
ALL = with_expected(
    [*FLASK_EDITS, *API_EDITS, *DATA_EDITS, *TOOL_EDITS, *DJANGO_EDITS],
    reported=[
        "sqlalchemy posts: a column more",
        "sqlalchemy posts: a cascade",
        "sqlalchemy posts: a hybrid more",
    ],
    false=[
        "sqlalchemy posts: a length in a mixin",
        "sqlalchemy posts: a default of a column",
    ],
)
