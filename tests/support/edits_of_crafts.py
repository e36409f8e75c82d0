"""Edits of eight programs: a ledger, a rule language, a gate, a forum, a reader, pipes, codecs and a crane."""

from edit_cases import edits_of, with_expected

LEDGER = {
    "money": """\
import decimal
from decimal import Decimal, ROUND_HALF_UP
PLACES = Decimal('0.01')
CONTEXT = decimal.Context(prec=8, rounding=ROUND_HALF_UP)
class Money(tuple):
    __slots__ = ()
    currency = 'EUR'
    def __new__(cls, amount, currency=None):
        return super().__new__(cls, (CONTEXT.create_decimal(amount).quantize(PLACES, context=CONTEXT), currency or cls.currency))
    def __add__(self, other):
        return Money(self[0] + other[0], self[1])
    def __radd__(self, other):
        return self
    def __str__(self):
        return f'{self[0]} {self[1]}'
ZERO = Money(0)
""",
    "events": """\
from dataclasses import KW_ONLY, dataclass, field, replace
from money import Money, ZERO
VERSION = 1
@dataclass(frozen=True)
class Event:
    account: str
    _: KW_ONLY
    version: int = VERSION
    def kind(self):
        return type(self).__name__.lower()
@dataclass(frozen=True)
class Paid(Event):
    amount: Money = ZERO
@dataclass(frozen=True)
class Drawn(Event):
    amount: Money = ZERO
    fee: Money = field(default_factory=lambda: Money('0.50'))
@dataclass(frozen=True)
class Closed(Event):
    __match_args__ = ('account',)
    reason: str = 'none'
SAMPLE = [Paid('a', amount=Money(10)), Drawn('a', amount=Money(3)), Closed('a')]
AGAIN = replace(SAMPLE[0], version=VERSION + 1)
""",
    "views": """\
import collections
from events import Closed, Drawn, Event, Paid, SAMPLE
HANDLERS = collections.defaultdict(list)
def on(*kinds, first=False):
    def mark(function):
        for kind in kinds:
            HANDLERS[kind.__name__].insert(0 if first else len(HANDLERS[kind.__name__]), function)
        return function
    return mark
@on(Paid, Drawn)
def balance(state, event):
    sign = 1 if isinstance(event, Paid) else -1
    return {**state, 'balance': state.get('balance', 0) + sign * event.amount[0]}
@on(Drawn)
def fees(state, event):
    return {**state, 'fees': state.get('fees', 0) + event.fee[0]}
@on(Closed, first=True)
def closed(state, event):
    return {**state, 'open': False}
def apply(events, state=None):
    state = dict(state or {'open': True})
    for event in events:
        for handler in HANDLERS[type(event).__name__]:
            state = handler(state, event)
    return state
FINAL = apply(SAMPLE)
""",
}
LEDGER_M = """\
import events, money, views
from events import Closed, Drawn, Event, Paid, SAMPLE
from money import Money, ZERO
from views import FINAL, HANDLERS, apply
def describe(event):
    match event:
        case Paid(account=name, amount=amount):
            return f'{name} paid {amount}'
        case Drawn(account=name, amount=amount, fee=fee):
            return f'{name} drew {amount} for {fee}'
        case Closed(name):
            return f'{name} closed'
        case Event():
            return 'other'
LINES = tuple(map(describe, SAMPLE))
TOTAL = sum((event.amount for event in SAMPLE if hasattr(event, 'amount')), ZERO)
ORDER = {event.kind(): number for number, event in enumerate(SAMPLE)}
"""
LEDGER_PROBES = (
    "m.LINES, str(m.TOTAL), m.ORDER, m.FINAL", "[str(e) for e in events.SAMPLE], events.AGAIN, str(events.Drawn('b'))", "m.apply(events.SAMPLE), m.apply([events.Drawn('z')]), [(k, [f.__name__ for f in v]) for k, v in m.HANDLERS.items()]", "str(money.Money('1.005')), str(money.Money(2) + money.Money(3)), str(money.ZERO), m.describe(events.Paid('q')), m.describe(events.Event('w'))",
)  # fmt: skip
LEDGER_EDITS = edits_of(
    "ledger",
    LEDGER_M,
    [
        ("a precision", "Decimal('0.01')", "Decimal('0.1')", LEDGER_PROBES, {"edited": "money"}),
        ("a currency of a class", "currency = 'EUR'", "currency = 'USD'", LEDGER_PROBES, {"edited": "money"}),
        ("a rounding", "rounding=ROUND_HALF_UP", "rounding=decimal.ROUND_DOWN", LEDGER_PROBES, {"edited": "money"}),
        ("a text of an amount", "f'{self[0]} {self[1]}'", "f'{self[1]} {self[0]}'", LEDGER_PROBES, {"edited": "money"}),
        ("what zero is", "ZERO = Money(0)", "ZERO = Money(0, 'CHF')", LEDGER_PROBES, {"edited": "money"}),
        ("a version", "VERSION = 1", "VERSION = 3", LEDGER_PROBES, {"edited": "events"}),
        ("a fee of a factory", "Money('0.50')", "Money('0.75')", LEDGER_PROBES, {"edited": "events"}),
        ("a kind", ".__name__.lower()", ".__name__.upper()", LEDGER_PROBES, {"edited": "events"}),
        ("a sample more", "Closed('a')]", "Closed('a'), Paid('b', amount=Money(7))]", LEDGER_PROBES, {"edited": "events"}),
        ("what a match takes", "__match_args__ = ('account',)", "__match_args__ = ('reason',)", LEDGER_PROBES, {"edited": "events"}),
        ("a field more", "    reason: str = 'none'\n", "    reason: str = 'none'\n    by: str = 'bank'\n", LEDGER_PROBES, {"edited": "events"}),
        ("a frozen class thawed", "@dataclass(frozen=True)\nclass Event", "@dataclass(frozen=True, repr=False)\nclass Event", LEDGER_PROBES, {"edited": "events"}),
        ("a handler first", "@on(Drawn)\n", "@on(Drawn, first=True)\n", LEDGER_PROBES, {"edited": "views"}),
        ("a handler of more", "@on(Drawn)\n", "@on(Drawn, Paid)\n", (*LEDGER_PROBES[:2], "[(k, [f.__name__ for f in v]) for k, v in m.HANDLERS.items()]"), {"edited": "views", "more": [("views", "event.fee[0]", "getattr(event, 'fee', (1,))[0]")]}),
        ("a handler less", "@on(Drawn)\ndef fees(state, event):\n    return {**state, 'fees': state.get('fees', 0) + event.fee[0]}\n", "", LEDGER_PROBES, {"edited": "views"}),
        ("what a handler does", "sign = 1 if", "sign = 2 if", LEDGER_PROBES, {"edited": "views"}),
        ("how handlers are kept", "HANDLERS[kind.__name__].insert(", "HANDLERS[kind.__name__.lower()].insert(", LEDGER_PROBES, {"edited": "views"}),
        ("a first state", "{'open': True}", "{'open': True, 'fees': 1}", LEDGER_PROBES, {"edited": "views"}),
        ("a case of a match", "f'{name} closed'", "f'{name} is closed'", LEDGER_PROBES),
        ("a case less", "        case Closed(name):\n            return f'{name} closed'\n", "", LEDGER_PROBES),
    ],
    others=LEDGER,
)  # fmt: skip

RULES = {
    "terms": """\
import functools, operator
SYMBOLS = {'+': operator.add, '*': operator.mul}
class Term:
    level = 0
    def __add__(self, other):
        return Pair('+', self, wrap(other))
    def __mul__(self, other):
        return Pair('*', self, wrap(other))
    def __class_getitem__(cls, names):
        return [Name(name) for name in names]
    def show(self):
        return str(self)
class Name(Term):
    def __init__(self, name):
        self.name = name
    def __str__(self):
        return self.name
    def value(self, given):
        return given.get(self.name, self.level)
class Number(Term):
    def __init__(self, number):
        self.number = number
    def __str__(self):
        return repr(self.number)
    def value(self, given):
        return self.number
class Pair(Term):
    def __init__(self, symbol, left, right):
        self.symbol, self.left, self.right = symbol, left, right
    def __str__(self):
        return f'({self.left} {self.symbol} {self.right})'
    def value(self, given):
        return SYMBOLS[self.symbol](self.left.value(given), self.right.value(given))
@functools.singledispatch
def wrap(thing):
    raise TypeError(type(thing).__name__)
@wrap.register
def _(thing: Term):
    return thing
@wrap.register(int)
@wrap.register(float)
def _(thing):
    return Number(thing)
""",
    "rules": """\
from terms import Name, Number, Term, wrap
class Meta(type):
    def __prepare__(name, bases, **words):
        return {'unit': 'kg'}
    def __new__(meta, name, bases, body, factor=1):
        cls = super().__new__(meta, name, bases, body)
        cls.terms = {key: value * factor for key, value in body.items() if isinstance(value, Term)}
        return cls
    def __init__(cls, name, bases, body, **words):
        super().__init__(name, bases, body)
    def __call__(cls, **given):
        return {key: term.value(given) for key, term in cls.terms.items()}
class Checked:
    def __set_name__(self, owner, name):
        self.name = name
        owner.checked = (*getattr(owner, 'checked', ()), name)
    def __get__(self, thing, owner):
        return f'{owner.__name__}.{self.name}'
class Rule(metaclass=Meta):
    limit = Checked()
class Weight(Rule, factor=2):
    x, y = Term['x', 'y']
    total = x + y * 3
    label = f'{total} {unit}'
    other = Checked()
class Cost(Rule):
    price = Name('price') * 2 + 1
DEFAULTS = dict(x=1, y=2, price=5)
RESULTS = {rule.__name__: rule(**DEFAULTS) for rule in Rule.__subclasses__()}
def __getattr__(name):
    if name == 'lazy':
        return list(RESULTS)
    raise AttributeError(name)
""",
}
RULES_M = """\
import functools, terms, rules
from rules import Cost, RESULTS, Weight
class Runner:
    def __init__(self, rule=Weight, **defaults):
        self.rule, self.defaults = rule, defaults
    def run(self, scale, **given):
        return {key: value * scale for key, value in self.rule(**{**self.defaults, **given}).items()}
    once = functools.partialmethod(run, 1)
    twice = functools.partialmethod(run, scale=2)
RUNNERS = [Runner(), Runner(Cost, price=3)]
ONCE = [runner.once() for runner in RUNNERS]
double = functools.partial(RUNNERS[1].run, 2)
SHOWN = Weight.total.show() + Cost.price.show()
NAMES = rules.lazy
"""
RULES_PROBES = (
    "m.RESULTS, m.ONCE, m.SHOWN, m.NAMES, rules.lazy", "rules.Weight.label, rules.Weight.limit, rules.Weight.checked, rules.Weight.unit, [str(t) for t in rules.Weight.terms.values()]", "m.RUNNERS[0].once(x=4), m.RUNNERS[1].twice(), m.double(price=1), rules.Cost(price=2)", "str(terms.Name('a') + 1), [n.name for n in terms.Term['p', 'q']], str(terms.wrap(3)), m.Runner().rule is rules.Weight",
)  # fmt: skip
RULES_EDITS = edits_of(
    "rules",
    RULES_M,
    [
        ("a text of a pair", "f'({self.left} {self.symbol} {self.right})'", "f'{self.left}{self.symbol}{self.right}'", RULES_PROBES, {"edited": "terms"}),
        ("a symbol's meaning", "'+': operator.add", "'+': operator.sub", RULES_PROBES, {"edited": "terms"}),
        ("a value of a missing name", "level = 0", "level = 7", RULES_PROBES, {"edited": "terms"}),
        ("a symbol of an operator", "Pair('*', self", "Pair('+', self", RULES_PROBES, {"edited": "terms"}),
        ("what an index makes", "Name(name) for name", "Name(name.upper()) for name", RULES_PROBES, {"edited": "terms"}),
        ("what a number is wrapped as", "return Number(thing)", "return Number(thing * 10)", RULES_PROBES, {"edited": "terms"}),
        ("a type less", "@wrap.register(float)\n", "", (*RULES_PROBES, "sorted(t.__name__ for t in terms.wrap.registry)"), {"edited": "terms"}),
        ("a factor", "class Weight(Rule, factor=2)", "class Weight(Rule, factor=3)", RULES_PROBES, {"edited": "rules"}),
        ("a unit", "'unit': 'kg'", "'unit': 't'", RULES_PROBES, {"edited": "rules"}),
        ("a term", "x + y * 3", "x + y * 4", RULES_PROBES, {"edited": "rules"}),
        ("what a metaclass keeps", "isinstance(value, Term)}", "isinstance(value, Term) and key != 'x'}", RULES_PROBES, {"edited": "rules"}),
        ("what a call of a class does", "term.value(given)", "term.value(given) + 100", RULES_PROBES, {"edited": "rules"}),
        ("what a descriptor returns", "f'{owner.__name__}.{self.name}'", "f'{self.name} of {owner.__name__}'", RULES_PROBES, {"edited": "rules"}),
        ("a descriptor less", "    other = Checked()\n", "", RULES_PROBES, {"edited": "rules"}),
        ("a rule more", "DEFAULTS = dict", "class Size(Rule):\n    size = Name('x') + 5\nDEFAULTS = dict", RULES_PROBES, {"edited": "rules"}),
        ("a default", "price=5)", "price=6)", RULES_PROBES, {"edited": "rules"}),
        ("a lazy name", "return list(RESULTS)", "return sorted(RESULTS)", RULES_PROBES, {"edited": "rules"}),
        ("a default of a parameter", "rule=Weight", "rule=Cost", RULES_PROBES),
        ("an argument of a partial method", "partialmethod(run, 1)", "partialmethod(run, 5)", RULES_PROBES),
        ("a partial function", "functools.partial(RUNNERS[1].run, 2)", "functools.partial(RUNNERS[0].run, 3)", RULES_PROBES),
    ],
    others=RULES,
)  # fmt: skip

GATE = {
    "config": """\
import os
from functools import lru_cache
from pydantic import BaseModel, ConfigDict, Field
PREFIX = 'GATE_'
class Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra='ignore')
    name: str = 'gate'
    limit: int = Field(3, ge=1)
    tags: tuple[str, ...] = ('a', 'b')
def read(environ=os.environ):
    return {key.removeprefix(PREFIX).lower(): value for key, value in environ.items() if key.startswith(PREFIX)}
@lru_cache
def settings():
    return Settings(**read())
""",
    "schemas": """\
from datetime import date
from typing import Generic, Literal, TypeVar
from pydantic import BaseModel, field_validator, model_validator
T = TypeVar('T')
KINDS = ('car', 'bike')
class Plate(BaseModel):
    text: str
    kind: Literal['car', 'bike'] = KINDS[0]
    since: date = date(2024, 1, 2)
    @field_validator('text')
    @classmethod
    def upper(cls, value):
        return value.upper()
class Page(BaseModel, Generic[T]):
    items: list[T]
    total: int = 0
    @model_validator(mode='after')
    def count(self):
        self.total = self.total or len(self.items)
        return self
Plates = Page[Plate]
""",
    "routes": """\
from fastapi import APIRouter, Depends, HTTPException, Query, Request
from config import Settings, settings
from schemas import KINDS, Page, Plate, Plates
router = APIRouter(prefix='/plates', tags=['plates'])
STORE = {'a': Plate(text='a 1')}
class Full(Exception):
    status = 507
def limit(most: int = Query(2, le=5), found: Settings = Depends(settings)):
    return min(most, found.limit)
@router.get('', response_model=Plates, response_model_exclude={'items': {'__all__': {'since'}}})
def listed(most: int = Depends(limit)):
    return Page(items=list(STORE.values())[:most])
@router.get('/{key}', name='plate')
async def one(key: str, request: Request):
    if key not in STORE:
        raise HTTPException(404, detail=f'no {key}')
    return {'url': str(request.url_for('plate', key=key)), **STORE[key].model_dump(mode='json')}
@router.post('/{key}', status_code=201)
def add(key: str, plate: Plate, found: Settings = Depends(settings)):
    if len(STORE) >= found.limit:
        raise Full(key)
    return plate
""",
}
GATE_M = """\
from contextlib import asynccontextmanager
from fastapi import FastAPI
from fastapi.responses import JSONResponse
import config, routes, schemas
STATE = {'starts': 0}
@asynccontextmanager
async def lifespan(app):
    STATE['starts'] += 1
    app.state.greeting = f'hello {config.settings().name}'
    yield
app = FastAPI(title=config.settings().name, lifespan=lifespan)
app.include_router(routes.router)
@app.exception_handler(routes.Full)
async def full(request, error):
    return JSONResponse({'full': str(error)}, status_code=error.status)
@app.middleware('http')
async def stamp(request, call_next):
    answer = await call_next(request)
    answer.headers['x-tags'] = ','.join(config.settings().tags)
    return answer
@app.get('/')
def hello():
    return app.state.greeting
"""
GATE_SETUP = """\
def ask(path, method='GET', **words):
    from fastapi.testclient import TestClient
    with TestClient(sys.modules['m'].app, raise_server_exceptions=False) as client:
        answer = client.request(method, path, **words)
    return answer.status_code, answer.text[:300], answer.headers.get('x-tags')
"""
GATE_PROBES = (
    "ask('/'), ask('/plates'), ask('/plates?most=9'), ask('/plates/a'), ask('/plates/zz')", "ask('/plates/b', 'POST', json={'text': 'q'}), ask('/plates/b', 'POST', json={'text': 'q', 'kind': 'van'})", "sorted((p, sorted(v)) for p, v in m.app.openapi()['paths'].items()), m.app.title, m.app.openapi()['components']['schemas']['Plate']['properties'].keys()", "config.settings(), schemas.Plate(text='x'), schemas.Plates(items=[]).total, routes.STORE",
)  # fmt: skip
GATE_EDITS = edits_of(
    "gate",
    GATE_M,
    [
        ("a default of a setting", "name: str = 'gate'", "name: str = 'door'", GATE_PROBES, {"edited": "config"}),
        ("a limit of a setting", "Field(3, ge=1)", "Field(1, ge=1)", GATE_PROBES, {"edited": "config"}),
        ("a default tuple", "('a', 'b')", "('a', 'c')", GATE_PROBES, {"edited": "config"}),
        ("a validator", "value.upper()", "value.title()", GATE_PROBES, {"edited": "schemas"}),
        ("a kind first", "KINDS = ('car', 'bike')", "KINDS = ('bike', 'car')", GATE_PROBES, {"edited": "schemas"}),
        ("a literal more", "Literal['car', 'bike']", "Literal['car', 'bike', 'van']", GATE_PROBES, {"edited": "schemas"}),
        ("a field more", "    kind: Literal", "    owner: str = 'none'\n    kind: Literal", GATE_PROBES, {"edited": "schemas"}),
        ("a total", "len(self.items)", "len(self.items) + 1", GATE_PROBES, {"edited": "schemas"}),
        ("a prefix", "prefix='/plates'", "prefix='/signs'", (*GATE_PROBES, "ask('/signs')"), {"edited": "routes"}),
        ("an excluded field", "{'since'}", "{'kind'}", GATE_PROBES, {"edited": "routes"}),
        ("a query's bound", "Query(2, le=5)", "Query(1, le=9)", GATE_PROBES, {"edited": "routes"}),
        ("a status of an answer", "status_code=201", "status_code=202", GATE_PROBES, {"edited": "routes"}),
        ("a status of an error", "status = 507", "status = 503", (*GATE_PROBES, "ask('/plates/b', 'POST', json={'text': 'q'})"), {"edited": "routes", "more": [("config", "Field(3, ge=1)", "Field(1, ge=1)")]}),
        ("a dependency's result", "min(most, found.limit)", "0", GATE_PROBES, {"edited": "routes"}),
        ("a route less", "@router.get('/{key}', name='plate')\nasync def one(key: str, request: Request):\n    if key not in STORE:\n        raise HTTPException(404, detail=f'no {key}')\n    return {'url': str(request.url_for('plate', key=key)), **STORE[key].model_dump(mode='json')}\n", "", GATE_PROBES, {"edited": "routes"}),
        ("a greeting", "f'hello {", "f'good day {", GATE_PROBES),
        ("a middleware's header", "','.join", "';'.join", GATE_PROBES),
        ("an error's body", "{'full': str(error)}", "{'no room': str(error)}", GATE_PROBES),
        ("a mount of a router", "app.include_router(routes.router)", "app.include_router(routes.router, prefix='/v1')", (*GATE_PROBES, "ask('/v1/plates')")),
    ],
    others=GATE,
    needs=("fastapi", "pydantic"),
    setup=GATE_SETUP,
    use="ask('/'), ask('/plates')",
)  # fmt: skip

FORUM = {
    "mixins": """\
from datetime import datetime
from sqlalchemy import event
from sqlalchemy.orm import Mapped, declared_attr, mapped_column
START = datetime(2024, 1, 1)
LOG = []
class Stamped:
    created: Mapped[datetime] = mapped_column(default=START)
    @declared_attr.directive
    def __tablename__(cls):
        return cls.__name__.lower()
    @property
    def age(self):
        return (self.created or START).year - 2000
def log(kind):
    def listen(cls):
        @event.listens_for(cls, kind)
        def note(*given):
            LOG.append((cls.__name__, kind))
        return cls
    return listen
""",
    "models": """\
from sqlalchemy import CheckConstraint, ForeignKey, String, func, select
from sqlalchemy.ext.associationproxy import association_proxy
from sqlalchemy.ext.hybrid import hybrid_method, hybrid_property
from sqlalchemy.orm import DeclarativeBase, Mapped, column_property, mapped_column, relationship, validates
from mixins import Stamped, log
LENGTH = 20
class Base(DeclarativeBase):
    type_annotation_map = {str: String(LENGTH)}
class User(Stamped, Base):
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(default='anon')
    role: Mapped[str] = mapped_column(default='user')
    posts: Mapped[list['Post']] = relationship(back_populates='user', order_by='Post.id')
    titles = association_proxy('posts', 'title')
    __mapper_args__ = {'polymorphic_on': 'role', 'polymorphic_identity': 'user'}
    @validates('name')
    def clean(self, key, value):
        return value.strip()
    @hybrid_property
    def is_known(self):
        return self.name != 'anon'
    @hybrid_method
    def starts(self, text):
        return self.name.startswith(text)
class Admin(User):
    __tablename__ = None
    __mapper_args__ = {'polymorphic_identity': 'admin'}
    power = 9
@log('init')
class Post(Stamped, Base):
    __table_args__ = (CheckConstraint('score >= 0', name='positive'),)
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    score: Mapped[int] = mapped_column(default=1)
    user_id: Mapped[int | None] = mapped_column(ForeignKey('user.id'))
    user: Mapped[User | None] = relationship(back_populates='posts')
    double = column_property(score * 2)
POPULAR = select(Post.title).where(Post.score > 3).order_by(Post.score.desc())
""",
}
FORUM_M = """\
from sqlalchemy import create_engine, func, select
from sqlalchemy.orm import Session, sessionmaker
import mixins, models
from models import Admin, Base, POPULAR, Post, User
engine = create_engine('sqlite://')
Base.metadata.create_all(engine)
make = sessionmaker(engine, expire_on_commit=False)
def fill(session, count=2):
    user = Admin(name=' ann ') if count > 2 else User(name=' bob ')
    user.posts = [Post(title=f'p{n}', score=n * 2) for n in range(count)]
    session.add(user)
    session.flush()
    return user
COUNTS = select(User.name, func.count(Post.id)).join(User.posts).group_by(User.name)
"""
FORUM_SETUP = """\
def tried(count=2):
    m = sys.modules['m']
    try:
        with m.make() as session:
            user = m.fill(session, count)
            found = type(user).__name__, user.name, list(user.titles), user.is_known, user.starts('a'), user.age, [p.double for p in user.posts], session.execute(m.COUNTS).all(), session.execute(m.POPULAR).all()
            session.rollback()
            return found
    except Exception as error:
        return type(error).__name__, str(error)[:80]
"""
FORUM_PROBES = (
    "tried(), tried(4)", "str(m.POPULAR), str(m.COUNTS), str(m.User.__table__.c.name.type), m.User.name.property.columns[0].default.arg", "str(m.select(m.User).where(m.User.is_known)), str(m.select(m.User).where(m.User.starts('x')))", "(mixins.LOG.clear(), models.Post(title='x'), mixins.LOG)[2], models.Admin.power, models.Post.__table__.constraints and sorted(str(c.name) for c in models.Post.__table__.constraints), mixins.START",
)  # fmt: skip
FORUM_EDITS = edits_of(
    "forum",
    FORUM_M,
    [
        ("a start", "datetime(2024, 1, 1)", "datetime(2022, 1, 1)", FORUM_PROBES, {"edited": "mixins"}),
        ("an age", ".year - 2000", ".year - 1900", FORUM_PROBES, {"edited": "mixins"}),
        ("what is logged", "(cls.__name__, kind)", "(kind, cls.__name__)", FORUM_PROBES, {"edited": "mixins"}),
        ("a validator", "value.strip()", "value.strip().title()", FORUM_PROBES, {"edited": "models"}),
        ("a hybrid property", "self.name != 'anon'", "self.name != 'nobody'", FORUM_PROBES, {"edited": "models"}),
        ("a hybrid method", "self.name.startswith(text)", "self.name.endswith(text)", FORUM_PROBES, {"edited": "models"}),
        ("a length", "LENGTH = 20", "LENGTH = 30", FORUM_PROBES, {"edited": "models"}),
        ("a default of a column", "default='anon'", "default='nobody'", FORUM_PROBES, {"edited": "models"}),
        ("a class attribute", "power = 9", "power = 8", FORUM_PROBES, {"edited": "models"}),
        ("a computed column", "score * 2)", "score * 3)", FORUM_PROBES, {"edited": "models"}),
        ("a condition of a query", "Post.score > 3", "Post.score > 1", FORUM_PROBES, {"edited": "models"}),
        ("an order of a relationship", "order_by='Post.id'", "order_by='Post.id.desc()'", (*FORUM_PROBES, "str(m.User.posts.property.order_by)"), {"edited": "models"}),
        ("a proxy", "association_proxy('posts', 'title')", "association_proxy('posts', 'score')", FORUM_PROBES, {"edited": "models"}),
        ("a constraint", "'score >= 0', name='positive'", "'score >= 0', name='not_negative'", FORUM_PROBES, {"edited": "models"}),
        ("an event", "@log('init')", "@log('load')", FORUM_PROBES, {"edited": "models"}),
        ("a column more", "    title: Mapped[str]\n", "    title: Mapped[str]\n    text: Mapped[str | None]\n", (*FORUM_PROBES, "sorted(c.name for c in models.Post.__table__.c)"), {"edited": "models"}),
        ("what a session adds", "range(count)]", "range(count + 1)]", FORUM_PROBES),
        ("a query's grouping", "func.count(Post.id)", "func.max(Post.id)", FORUM_PROBES),
        ("an option of a session", "expire_on_commit=False", "expire_on_commit=True", (*FORUM_PROBES, "m.make.kw")),
    ],
    others=FORUM,
    needs=("sqlalchemy",),
    setup=FORUM_SETUP,
    use="tried()",
)  # fmt: skip

READER = {
    "ext": """\
from flask import current_app, g
class Store:
    name = 'store'
    def __init__(self, app=None, **defaults):
        self.defaults = defaults
        if app is not None:
            self.init_app(app)
    def init_app(self, app):
        for key, value in self.defaults.items():
            app.config.setdefault(key.upper(), value)
        app.extensions[self.name] = self
        app.teardown_appcontext(self.close)
    def close(self, error=None):
        g.pop('store', None)
    def get(self, key):
        return f'{key}@{current_app.config["PLACE"]}'
store = Store(place='shelf', size=2)
""",
    "site": """\
import re
from flask import Blueprint, Flask, abort, render_template_string, request, session, url_for
from werkzeug.routing import BaseConverter
from ext import store
PAGES = Blueprint('pages', __name__, url_prefix='/p')
WORDS = 'one two'.split()
class WordConverter(BaseConverter):
    regex = '|'.join(WORDS)
    def to_url(self, value):
        return value.lower()
@PAGES.record_once
def setup(state):
    state.app.jinja_env.globals['twice'] = lambda text: text * 2
@PAGES.context_processor
def words():
    return {'words': WORDS, 'shout': lambda text: text + '!'}
@PAGES.url_defaults
def language(endpoint, values):
    values.setdefault('lang', 'en')
@PAGES.get('/<word:name>')
def show(name):
    return render_template_string('{{ shout(name) }} {{ words|join(",") }} {{ twice("a") }} {{ link }}', name=name, link=url_for('.show', name='ONE'))
@PAGES.after_request
def mark(answer):
    answer.headers['X-Mark'] = store.get('x')
    return answer
def create(**config):
    app = Flask('reader')
    app.secret_key = 'k'
    app.config.update(config)
    app.url_map.converters['word'] = WordConverter
    store.init_app(app)
    app.register_blueprint(PAGES)
    @app.errorhandler(404)
    def missing(error):
        return f'nothing at {request.path}', 404
    @app.cli.command('count')
    def count():
        print(len(WORDS))
    @app.shell_context_processor
    def shell():
        return {'store': store}
    return app
""",
}
READER_M = """\
import ext, site_ as site
from ext import store
app = site.create(SIZE=5)
@app.template_test('long')
def is_long(text):
    return len(text) > app.config['SIZE']
@app.route('/check/<text>', defaults={'level': 1})
@app.route('/check/<text>/<int:level>')
def check(text, level):
    return site.render_template_string('{{ "long" if text is long else "short" }} {{ level }}', text=text, level=level)
"""
READER["site_"] = READER.pop("site")
READER_SETUP = """\
def get(path):
    answer = sys.modules['m'].app.test_client().get(path)
    return answer.status_code, answer.text, answer.headers.get('X-Mark')
"""
READER_PROBES = (
    "get('/p/one'), get('/p/two'), get('/p/three'), get('/none'), get('/check/abc'), get('/check/abcdefgh/3')", "m.app.config['PLACE'], m.app.config['SIZE'], sorted(m.app.extensions), m.app.test_cli_runner().invoke(args=['count']).output, sorted(m.app.make_shell_context())", "sorted(map(str, m.app.url_map.iter_rules()))",
)  # fmt: skip
READER_EDITS = edits_of(
    "reader",
    READER_M,
    [
        ("a default of an extension", "place='shelf'", "place='box'", READER_PROBES, {"edited": "ext"}),
        ("what an extension gives", "f'{key}@{", "f'{key} in {", READER_PROBES, {"edited": "ext"}),
        ("a name of an extension", "name = 'store'", "name = 'shop'", READER_PROBES, {"edited": "ext"}),
        ("a word more", "'one two'", "'one two three'", READER_PROBES, {"edited": "site_"}),
        ("a global of templates", "text * 2", "text * 3", READER_PROBES, {"edited": "site_"}),
        ("a context", "text + '!'", "text + '?'", READER_PROBES, {"edited": "site_"}),
        ("a converter's text", "value.lower()", "value.lower()[:2]", READER_PROBES, {"edited": "site_"}),
        ("a default of a link", "'lang', 'en'", "'lang', 'de'", READER_PROBES, {"edited": "site_"}),
        ("a header", "store.get('x')", "store.get('y')", READER_PROBES, {"edited": "site_"}),
        ("an answer in the factory", "f'nothing at {", "f'no page at {", READER_PROBES, {"edited": "site_"}),
        ("a command in the factory", "print(len(WORDS))", "print(len(WORDS) * 10)", READER_PROBES, {"edited": "site_"}),
        ("a prefix of a blueprint", "url_prefix='/p'", "url_prefix='/q'", (*READER_PROBES, "get('/q/one')"), {"edited": "site_"}),
        ("a route's path", "'/<word:name>'", "'/w/<word:name>'", (*READER_PROBES, "get('/p/w/one')"), {"edited": "site_"}),
        ("a handler less", "@PAGES.url_defaults\ndef language(endpoint, values):\n    values.setdefault('lang', 'en')\n", "", READER_PROBES, {"edited": "site_"}),
        ("a setting", "SIZE=5", "SIZE=2", READER_PROBES),
        ("a test of templates", "len(text) > ", "len(text) < ", READER_PROBES),
        ("a default of a route", "defaults={'level': 1}", "defaults={'level': 2}", READER_PROBES),
        ("a route less", "@app.route('/check/<text>/<int:level>')\n", "", READER_PROBES),
    ],
    others=READER,
    needs=("flask",),
    setup=READER_SETUP,
    use="get('/p/one')",
)  # fmt: skip

PIPES = {
    "kinds": """\
import abc, enum, typing
class Mode(enum.Flag):
    NONE = 0
    READ = enum.auto()
    WRITE = enum.auto()
    BOTH = READ | WRITE
class Color(str, enum.Enum):
    def _generate_next_value_(name, start, count, last):
        return name.lower()
    RED = enum.auto()
    BLUE = enum.auto()
    @classmethod
    def _missing_(cls, value):
        return cls.RED
class Point(typing.NamedTuple):
    x: int
    y: int = 2
    def far(self):
        return self.x + self.y
class Options(typing.TypedDict, total=False):
    name: str
    size: int
@typing.runtime_checkable
class Sized(typing.Protocol):
    def size(self) -> int: ...
class Stage(abc.ABC):
    stages: typing.ClassVar[dict] = {}
    def __init_subclass__(cls, /, key=None, **words):
        super().__init_subclass__(**words)
        if key:
            Stage.stages[key] = cls
    @abc.abstractmethod
    def run(self, items): ...
    @property
    def label(self):
        return type(self).__name__
""",
    "stages": """\
import contextvars, functools, itertools
from kinds import Color, Mode, Point, Stage
level = contextvars.ContextVar('level', default=1)
STEP = 2
class Take(Stage, key='take'):
    def __init__(self, count=STEP):
        self.count = count
    def run(self, items):
        return itertools.islice(items, self.count)
class Scale(Stage, key='scale'):
    by: int = STEP
    def run(self, items):
        return (item * self.by * level.get() for item in items)
    @functools.singledispatchmethod
    def of(self, thing):
        return repr(thing)
    @of.register
    def _(self, thing: int):
        return thing * self.by
    @of.register
    def _(self, thing: str):
        return thing.upper()
@Stage.register
class Loose:
    def run(self, items):
        return list(items)[::-1]
@functools.lru_cache(maxsize=None)
def power(n, base=STEP):
    return base ** n
TABLE = tuple(power(n) for n in range(4))
def compose(*stages):
    return functools.reduce(lambda done, stage: lambda items: stage.run(done(items)), stages, lambda items: items)
""",
}
PIPES_M = """\
import asyncio, kinds, stages
from kinds import Color, Mode, Point, Sized, Stage
from stages import Loose, Scale, Take, compose, level, power
LINE = compose(Scale(), Take(3), Loose())
DONE = LINE([1, 2, 3, 4])
ORIGIN = Point(0)
SHIFTED = ORIGIN._replace(x=5)
COLORS = {color: len(color.value) for color in Color}
RIGHTS = Mode.BOTH & ~Mode.READ
DEFAULT: Color = Color('green')
class Box:
    def size(self):
        return 3
IS_SIZED = isinstance(Box(), Sized)
async def work(n, delay=0):
    await asyncio.sleep(delay)
    return n * level.get()
async def gather(*numbers):
    token = level.set(4)
    try:
        return await asyncio.gather(*map(work, numbers))
    finally:
        level.reset(token)
SUM = sum(asyncio.run(gather(1, 2)))
def numbers(start=stages.STEP):
    while True:
        got = yield start
        start = got if got is not None else start + 1
COUNT = numbers()
FIRST = next(COUNT)
"""
PIPES_PROBES = (
    "m.DONE, m.LINE([5, 6, 7, 8]), m.SUM, m.FIRST, m.IS_SIZED", "m.ORIGIN, m.SHIFTED, m.SHIFTED.far(), m.COLORS, m.RIGHTS, m.DEFAULT, list(kinds.Mode)", "sorted(kinds.Stage.stages), stages.Scale().of(3), stages.Scale().of('a'), stages.Scale().of(1.5), stages.TABLE, m.power(3), issubclass(stages.Loose, kinds.Stage), stages.Take().label, stages.Take().count", "kinds.Color('x'), [c.value for c in kinds.Color], kinds.Point(1).far(), kinds.Options.__annotations__.keys(), list(zip(range(3), m.numbers()))",
)  # fmt: skip
PIPES_EDITS = edits_of(
    "pipes",
    PIPES_M,
    [
        ("a flag more", "    BOTH = READ | WRITE\n", "    RUN = enum.auto()\n    BOTH = READ | WRITE\n", PIPES_PROBES, {"edited": "kinds"}),
        ("what a flag combines", "BOTH = READ | WRITE", "BOTH = READ", PIPES_PROBES, {"edited": "kinds"}),
        ("a value of a member", "name.lower()", "name.title()", PIPES_PROBES, {"edited": "kinds"}),
        ("a missing member", "return cls.RED", "return cls.BLUE", PIPES_PROBES, {"edited": "kinds"}),
        ("a member more", "    BLUE = enum.auto()\n", "    BLUE = enum.auto()\n    GREEN = enum.auto()\n", PIPES_PROBES, {"edited": "kinds"}),
        ("a default of a tuple", "y: int = 2", "y: int = 3", PIPES_PROBES, {"edited": "kinds"}),
        ("a method of a tuple", "self.x + self.y", "self.x * self.y", PIPES_PROBES, {"edited": "kinds"}),
        ("a field of a tuple", "    y: int = 2\n", "    y: int = 2\n    z: int = 0\n", PIPES_PROBES, {"edited": "kinds"}),
        ("a method of a protocol", "    def size(self) -> int: ...\n", "    def size(self) -> int: ...\n    def name(self) -> str: ...\n", PIPES_PROBES, {"edited": "kinds"}),
        ("what a subclass registers", "Stage.stages[key] = cls", "Stage.stages[key * 2] = cls", PIPES_PROBES, {"edited": "kinds"}),
        ("a property of a base", "type(self).__name__", "type(self).__name__.lower()", PIPES_PROBES, {"edited": "kinds"}),
        ("a key of a typed dict", "    size: int\n@typing", "    width: int\n@typing", PIPES_PROBES, {"edited": "kinds"}),
        ("a step", "STEP = 2", "STEP = 3", PIPES_PROBES, {"edited": "stages"}),
        ("a default of a context", "default=1)", "default=2)", PIPES_PROBES, {"edited": "stages"}),
        ("an inner stage of a line", "itertools.islice(items, self.count)", "list(items)[:1]", PIPES_PROBES, {"edited": "stages"}),
        ("a key of a stage", "key='scale'", "key='times'", PIPES_PROBES, {"edited": "stages"}),
        ("a dispatch", "return thing.upper()", "return thing.title()", PIPES_PROBES, {"edited": "stages"}),
        ("a type of a dispatch", "thing: int)", "thing: float)", PIPES_PROBES, {"edited": "stages"}),
        ("a generator of a stage", "item * self.by * level.get()", "item + self.by", PIPES_PROBES, {"edited": "stages"}),
        ("an order of a list", "list(items)[::-1]", "sorted(items)", PIPES_PROBES, {"edited": "stages"}),
        ("a cached function", "base ** n", "base + n", PIPES_PROBES, {"edited": "stages"}),
        ("what is composed", "stage.run(done(items))", "stage.run(iter(list(done(items))[1:]))", PIPES_PROBES, {"edited": "stages"}),
        ("no virtual base", "@Stage.register\n", "", PIPES_PROBES, {"edited": "stages"}),
        ("a stage less", "compose(Scale(), Take(3), Loose())", "compose(Scale(), Loose())", PIPES_PROBES),
        ("what a coroutine returns", "return n * level.get()", "return n + level.get()", PIPES_PROBES),
        ("a level in a task", "level.set(4)", "level.set(6)", PIPES_PROBES),
        ("a step of a generator", "start + 1\nCOUNT", "start + 2\nCOUNT", PIPES_PROBES),
    ],
    others=PIPES,
)  # fmt: skip

CODECS = {
    "shapes": """\
import datetime, struct
from typing import Annotated
import attrs
import msgspec
LIMIT = 9
Small = Annotated[int, msgspec.Meta(le=LIMIT)]
class Shape(msgspec.Struct, tag_field='kind', tag=str.lower, kw_only=True, omit_defaults=True):
    name: str = 'none'
    def __post_init__(self):
        if len(self.name) > LIMIT:
            raise ValueError('long')
class Circle(Shape):
    radius: Small = 1
class Square(Shape, rename={'side': 'edge'}):
    side: float = 2.0
HEADER = struct.Struct('>HB')
DAY = datetime.date(2024, 2, 29)
def enc(thing):
    if isinstance(thing, complex):
        return [thing.real, thing.imag]
    raise NotImplementedError
def dec(kind, thing):
    return complex(*thing) if kind is complex else thing
encoder = msgspec.json.Encoder(enc_hook=enc, order='sorted')
decoder = msgspec.json.Decoder(Circle | Square, dec_hook=dec)
def positive(instance, attribute, value):
    if value < 0:
        raise ValueError(f'{attribute.name} < 0')
@attrs.define(order=True, slots=False)
class Range:
    low: int = attrs.field(default=0, validator=positive)
    high: int = attrs.field(default=LIMIT, metadata={'unit': 'm'})
    span: int = attrs.field(init=False)
    def __attrs_post_init__(self):
        self.span = self.high - self.low
    @high.validator
    def _above(self, attribute, value):
        if value < self.low:
            raise ValueError('empty')
""",
}
CODECS_M = """\
import attrs, msgspec, shapes
from shapes import Circle, DAY, HEADER, Range, Square, decoder, encoder
ITEMS = [Circle(name='c', radius=3), Square()]
WIRE = encoder.encode(ITEMS)
BACK = [decoder.decode(encoder.encode(item)) for item in ITEMS]
HEAD = HEADER.pack(len(WIRE), len(ITEMS))
SCHEMA = msgspec.json.schema(Circle)['$defs']['Circle']['properties']
RANGES = sorted([Range(3), Range(1, 2), Range()])
FIELDS = {field.name: dict(field.metadata) for field in attrs.fields(Range)}
AS_DICT = attrs.asdict(RANGES[0], filter=attrs.filters.exclude('span'))
NEXT = DAY.replace(year=DAY.year + 4).isoformat()
EXTRA = msgspec.structs.replace(ITEMS[0], radius=shapes.LIMIT)
"""
CODECS_SETUP = "def made(act, *given, **words):\n    try:\n        return repr(act(*given, **words))\n    except Exception as error:\n        return type(error).__name__ + str(error)\n"
CODECS_PROBES = (
    "m.WIRE, m.BACK, m.HEAD, m.SCHEMA, m.EXTRA", "m.RANGES, m.FIELDS, m.AS_DICT, m.NEXT", "made(shapes.decoder.decode, b'{\"kind\": \"circle\", \"radius\": 12}'), made(shapes.decoder.decode, b'{\"kind\": \"square\", \"edge\": 4}'), made(shapes.encoder.encode, 1 + 2j), made(shapes.Circle, name='x' * 12)", "made(shapes.Range, -1), made(shapes.Range, 5, 2), made(shapes.Range, 1).partition('span')[2], shapes.HEADER.size, made(shapes.Range, 1, 20), isinstance(m.ITEMS[0], shapes.Circle), isinstance(m.RANGES[0], shapes.Range)",
)  # fmt: skip
CODECS_EDITS = edits_of(
    "codecs",
    CODECS_M,
    [
        ("a limit", "LIMIT = 9", "LIMIT = 15", CODECS_PROBES, {"edited": "shapes"}),
        ("a tag", "tag=str.lower", "tag=str.upper", CODECS_PROBES, {"edited": "shapes"}),
        ("a default", "radius: Small = 1", "radius: Small = 2", CODECS_PROBES, {"edited": "shapes"}),
        ("a renamed field", "{'side': 'edge'}", "{'side': 'length'}", CODECS_PROBES, {"edited": "shapes"}),
        ("defaults on the wire", "omit_defaults=True", "omit_defaults=False", CODECS_PROBES, {"edited": "shapes"}),
        ("a struct", "'>HB'", "'<HH'", CODECS_PROBES, {"edited": "shapes"}),
        ("a hook", "[thing.real, thing.imag]", "[thing.imag, thing.real]", CODECS_PROBES, {"edited": "shapes"}),
        ("an order on the wire", ", order='sorted'", "", CODECS_PROBES, {"edited": "shapes"}),
        ("a type of a decoder", "Decoder(Circle | Square", "Decoder(Circle | Square | int", CODECS_PROBES, {"edited": "shapes"}),
        ("a field more", "    radius: Small = 1\n", "    radius: Small = 1\n    color: str = 'red'\n", CODECS_PROBES, {"edited": "shapes"}),
        ("a validator", "value < 0:", "value < 1:", CODECS_PROBES, {"edited": "shapes", "more": [("shapes", "default=0, v", "default=1, v")]}),
        ("metadata", "{'unit': 'm'}", "{'unit': 'km'}", CODECS_PROBES, {"edited": "shapes"}),
        ("a computed attribute", "self.high - self.low", "self.high - self.low + 1", CODECS_PROBES, {"edited": "shapes"}),
        ("no order", "@attrs.define(order=True, slots=False)", "@attrs.define(order=True, eq=True, slots=False, repr=False)", (*CODECS_PROBES[:1], "shapes.Range.__repr__ is object.__repr__"), {"edited": "shapes"}),
        ("a day", "datetime.date(2024, 2, 29)", "datetime.date(2024, 3, 1)", CODECS_PROBES, {"edited": "shapes"}),
        ("an item more", "Square()]", "Square(), Square(side=5)]", CODECS_PROBES),
        ("what is left out", "exclude('span')", "exclude('low')", CODECS_PROBES),
    ],
    others=CODECS,
    needs=("attrs", "msgspec"),
    setup=CODECS_SETUP,
)  # fmt: skip

CRANE = {
    "base": """\
from celery import Celery, Task, signals
LOG = []
RATE = '10/m'
class Logged(Task):
    abstract = True
    max_retries = 2
    note = 'ran'
    def on_success(self, value, task_id, args, kwargs):
        LOG.append((self.note, value))
    def __call__(self, *given, **words):
        return super().__call__(*given, **words)
app = Celery('crane', broker='memory://', backend='cache+memory://', task_cls=Logged)
app.conf.update(task_always_eager=True, task_default_rate_limit=RATE, task_annotations={'crane.lift': {'rate_limit': RATE}})
@signals.task_prerun.connect(weak=False)
def before(task=None, **words):
    LOG.append(('before', task.name))
""",
}
CRANE_M = """\
import click, base
from celery import chord, group
from celery.schedules import crontab
from base import LOG, app
@app.task(name='crane.lift', rate_limit=base.RATE)
def lift(weight, unit='t'):
    return f'{weight}{unit}'
@app.task(name='crane.drop', bind=True, autoretry_for=(KeyError,), retry_backoff=2)
def drop(self, items):
    return len(items), self.request.retries
@app.task(ignore_result=True)
def idle():
    return None
ALL = group(lift.s(n) for n in (1, 2))
THEN = ALL | drop.s()
app.conf.beat_schedule = {'lift': {'task': lift.name, 'schedule': crontab(minute='*/5'), 'args': (3,)}}
app.add_periodic_task(30.0, lift.s(7), name='often')
class Aliases(click.Group):
    names = {'l': 'lift'}
    def get_command(self, context, name):
        return super().get_command(context, self.names.get(name, name))
@click.group(cls=Aliases, context_settings={'max_content_width': 60})
@click.version_option('1.0', prog_name='crane')
def cli():
    "Move things."
def unit_option(function):
    return click.option('--unit', default='t', type=click.Choice(['t', 'kg']), help='The unit.')(function)
@cli.command('lift')
@click.argument('weights', nargs=-1, type=int)
@unit_option
def lift_command(weights, unit):
    for weight in weights:
        click.echo(lift.delay(weight, unit=unit).get())
@cli.result_callback()
def done(result):
    click.echo('done')
"""
CRANE_SETUP = """\
def shell(*words):
    from click.testing import CliRunner
    found = CliRunner().invoke(sys.modules['m'].cli, words)
    return found.exit_code, found.output
"""
CRANE_PROBES = (
    "(base.LOG.clear(), m.lift.delay(4).get(), list(base.LOG))[1:], m.ALL.apply().get(), m.drop.apply(args=([1],)).get()", "shell('l', '3'), shell('lift', '--unit', 'kg', '1', '2'), shell('--version'), shell('--help'), shell('lift', '--help')", "m.lift.rate_limit, m.lift.max_retries, m.drop.retry_backoff, m.app.conf.task_default_rate_limit, m.app.conf.task_annotations, str(m.app.conf.beat_schedule['lift']), type(m.lift).__mro__[1].__name__, m.idle.name, m.idle.ignore_result", "sorted(name for name in m.app.tasks if 'celery' not in name)",
)  # fmt: skip
CRANE_EDITS = edits_of(
    "crane",
    CRANE_M,
    [
        ("a note of a base", "note = 'ran'", "note = 'finished'", CRANE_PROBES, {"edited": "base"}),
        ("what a base logs", "(self.note, value)", "(value, self.note)", CRANE_PROBES, {"edited": "base"}),
        ("retries of a base", "max_retries = 2", "max_retries = 4", CRANE_PROBES, {"edited": "base"}),
        ("a rate", "RATE = '10/m'", "RATE = '5/m'", CRANE_PROBES, {"edited": "base"}),
        ("a signal's handler", "('before', task.name)", "('starts', task.name)", CRANE_PROBES, {"edited": "base"}),
        ("a default of a task", "unit='t'):", "unit='kg'):", CRANE_PROBES),
        ("what a task returns", "f'{weight}{unit}'", "f'{weight} {unit}'", CRANE_PROBES),
        ("a backoff", "retry_backoff=2", "retry_backoff=3", CRANE_PROBES),
        ("a group", "in (1, 2))", "in (1, 2, 3))", CRANE_PROBES),
        ("a schedule", "minute='*/5'", "minute='*/10'", CRANE_PROBES),
        ("an alias", "{'l': 'lift'}", "{'l': 'lift', 'up': 'lift'}", (*CRANE_PROBES, "shell('up', '1')")),
        ("a choice", "['t', 'kg']", "['t', 'kg', 'g']", CRANE_PROBES),
        ("a help text", '"Move things."', '"Move heavy things."', CRANE_PROBES),
        ("a version", "version_option('1.0'", "version_option('1.1'", CRANE_PROBES),
        ("what a callback prints", "click.echo('done')", "click.echo('finished')", CRANE_PROBES),
        ("a name of a command", "@cli.command('lift')", "@cli.command('raise')", (*CRANE_PROBES, "shell('raise', '1')")),
        ("a task's option", "@app.task(ignore_result=True)", "@app.task(ignore_result=False)", CRANE_PROBES),
    ],
    others=CRANE,
    needs=("celery", "click"),
    setup=CRANE_SETUP,
    use="m.lift.delay(1).get(), shell('l', '1')",
)  # fmt: skip

ALL = with_expected([
    *LEDGER_EDITS, *RULES_EDITS, *GATE_EDITS, *FORUM_EDITS, *READER_EDITS, *PIPES_EDITS, *CODECS_EDITS, *CRANE_EDITS,
], false=["pipes: a type of a dispatch", "pipes: no virtual base"], reported=["forum: a start", "forum: a length", "forum: a default of a column", "forum: a computed column", "forum: an order of a relationship", "forum: a proxy", "forum: a constraint", "forum: an event", "forum: a column more", "pipes: a default of a context", "pipes: what a coroutine returns", "pipes: a level in a task", "crane: a rate"])  # fmt: skip
