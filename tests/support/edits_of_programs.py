"""Edits to small programs: settings, commands, states, registries, caches, models and shops of several modules."""

from edit_cases import Edit

CONFIG = """\
import os
from dataclasses import dataclass, field

DEFAULT_HOST = 'localhost'
DEFAULT_PORT = 5432
TIMEOUTS = {'connect': 5, 'read': 30}

@dataclass
class Database:
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    options: dict = field(default_factory=lambda: {'timeout': TIMEOUTS['read']})

    @property
    def url(self):
        return f'postgres://{self.host}:{self.port}'

def connect(host=DEFAULT_HOST, *, port=DEFAULT_PORT, timeout=TIMEOUTS['connect']):
    return host, port, timeout

MAIN = Database()
URL = MAIN.url
"""
COMMANDS = """\
COMMANDS = {}
ALIASES = {}

def command(name=None, *aliases, hidden=False):
    def decorate(function):
        key = name or function.__name__.replace('_', '-')
        COMMANDS[key] = (function, hidden)
        for alias in aliases:
            ALIASES[alias] = key
        return function
    return decorate

@command()
def list_items():
    return 'list'

@command('rm', 'delete', 'remove')
def remove_item():
    return 'rm'

@command(hidden=True)
def debug():
    return 'debug'

HELP = '\\n'.join(sorted(name for name, (_, hidden) in COMMANDS.items() if not hidden))
"""
STATES = """\
import enum

class State(enum.Enum):
    NEW = 'new'
    PAID = 'paid'
    SENT = 'sent'

    @property
    def is_final(self):
        return self in FINAL

FINAL = frozenset({State.SENT})
TRANSITIONS = {
    State.NEW: {State.PAID},
    State.PAID: {State.SENT},
    State.SENT: set(),
}
REVERSE = {}
for source, ends in TRANSITIONS.items():
    for end in ends:
        REVERSE.setdefault(end, set()).add(source)
"""
EVENTS = """\
from collections import defaultdict
_handlers = defaultdict(list)

def on(event, priority=0):
    def register(function):
        _handlers[event].append((priority, function))
        _handlers[event].sort(key=lambda one: one[0])
        return function
    return register

def emit(event):
    return [function() for _, function in _handlers[event]]

@on('start', priority=2)
def late():
    return 'late'

@on('start', priority=1)
def early():
    return 'early'
"""
UNITS = """\
from typing import NamedTuple
class Unit(NamedTuple):
    name: str
    factor: float = 1.0
    def convert(self, value):
        return value * self.factor
METER = Unit('m')
KM = Unit('km', 1000.0)
ALL = {one.name: one for one in (METER, KM)}
"""
VALIDATORS = """\
import re
WORD = r'[a-z]+'
NUMBER = r'\\d+'
TOKEN = re.compile(f'(?P<word>{WORD})|(?P<number>{NUMBER})')
RULES = [('word', re.compile(WORD)), ('number', re.compile(NUMBER))]
CHECK = {name: rule.fullmatch for name, rule in RULES}
"""
PLUGIN_BASE = """\
class Plugin:
    name = None
    _all = []
    def __init_subclass__(cls, **words):
        super().__init_subclass__(**words)
        cls.name = cls.__name__.lower()
        Plugin._all.append(cls)
    @classmethod
    def names(cls):
        return [one.name for one in cls._all]
"""
TEMPLATE = """\
GREETING = 'Hello'
PUNCTUATION = '!'
def render(name, *, greeting=GREETING, end=PUNCTUATION):
    return f'{greeting}, {name}{end}'
render_loud = lambda name: render(name).upper()
VIEWS = {'plain': render, 'loud': render_loud, 'twice': lambda name: render(name) * 2}
"""
RETRY = """\
import functools
TIMES = 3
def retry(times=TIMES, *, only=(ValueError,)):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kw):
            for attempt in range(times):
                try:
                    return function(*args, attempt=attempt, **kw)
                except only:
                    continue
            return 'failed after %d' % times
        wrapper.times = times
        return wrapper
    return decorate
@retry()
def flaky(attempt):
    raise ValueError
@retry(2, only=(KeyError,))
def other(attempt):
    raise KeyError
"""
PIPELINE = """\
import functools
SEP = ','
def split(text):
    return text.split(SEP)
def strip(items):
    return [one.strip() for one in items]
def drop_empty(items):
    return [one for one in items if one]
STEPS = [split, strip, drop_empty]
def compose(*functions):
    return functools.reduce(lambda f, g: lambda x: g(f(x)), functions)
run = compose(*STEPS)
"""
PROTOCOL = """\
from typing import Protocol, runtime_checkable
@runtime_checkable
class Closeable(Protocol):
    def close(self): ...
class File:
    def close(self):
        return 'closed'
class Socket:
    def shutdown(self):
        return 'shut'
IS = {kind.__name__: isinstance(kind(), Closeable) for kind in (File, Socket)}
"""
TYPED = """\
from __future__ import annotations
from typing import TypedDict, get_type_hints, Literal, Union, Optional
Level = Literal['low', 'high']
class Base(TypedDict):
    id: int
class Job(Base, total=False):
    level: Level
    note: Optional[str]
HINTS = get_type_hints(Job)
"""
DESCRIPTOR = """\
class Typed:
    def __init__(self, kind, default=None):
        self.kind, self.default = kind, default
    def __set_name__(self, owner, name):
        self.name = '_' + name
    def __get__(self, one, owner=None):
        return self if one is None else getattr(one, self.name, self.default)
    def __set__(self, one, value):
        if not isinstance(value, self.kind):
            raise TypeError(self.name)
        setattr(one, self.name, value)
class Point:
    x = Typed(int, 0)
    y = Typed(int, 0)
ORIGIN = Point()
"""
CACHES = """\
import functools
RATE = 2
@functools.lru_cache(maxsize=None)
def price(n):
    return n * RATE
@functools.cache
def label(n):
    return f'{n}: {price(n)}'
TABLE = {n: label(n) for n in range(3)}
"""
DISPATCH = """\
from functools import singledispatch
@singledispatch
def encode(value):
    raise TypeError(type(value).__name__)
@encode.register(int)
@encode.register(float)
def _(value):
    return f'n{value}'
@encode.register
def _text(value: str):
    return f's{value}'
@encode.register(list)
def _(value):
    return '[' + ','.join(encode(one) for one in value) + ']'
ENCODED = encode([1, 'a'])
"""
META = """\
class FieldMeta(type):
    def __new__(mcs, name, bases, space, *, table=None, **kw):
        fields = {}
        for base in bases:
            fields.update(getattr(base, 'fields', {}))
        fields.update({key: one for key, one in space.items() if isinstance(one, Field)})
        cls = super().__new__(mcs, name, bases, space, **kw)
        cls.fields, cls.table = fields, table or name.lower() + SUFFIX
        return cls
SUFFIX = 's'
class Field:
    def __init__(self, kind, null=False):
        self.kind, self.null = kind, null
class Model(metaclass=FieldMeta):
    pass
class User(Model):
    name = Field(str)
class Admin(User, table='staff'):
    level = Field(int)
SCHEMA = {one.table: sorted(one.fields) for one in (User, Admin)}
"""
BODY = """\
NAMES = ('red', 'green')
class Colors:
    for index, name in enumerate(NAMES):
        locals()[name.upper()] = index
    del index, name
    COUNT = len(NAMES)
    BY_NAME = {name: number for number, name in enumerate(NAMES)}
    if COUNT > 2:
        def many(self):
            return True
    else:
        def many(self):
            return False
"""
GUARDS = """\
import sys
DEBUG = False
try:
    import ujson_not_there as json
    FAST = True
except ImportError:
    import json
    FAST = False
if DEBUG:
    LEVEL = 'debug'
    def trace(x):
        return ('traced', x)
elif FAST:
    LEVEL = 'fast'
    def trace(x):
        return x
else:
    LEVEL = 'plain'
    def trace(x):
        return [x]
def work(x, how=trace):
    return how(x)
DUMP = json.dumps
"""
MATCH = """\
MODE = 'prod'
match MODE:
    case 'dev' | 'test':
        WORKERS, RELOAD = 1, True
    case 'prod':
        WORKERS, RELOAD = 8, False
    case _:
        raise ValueError(MODE)
SETTINGS = dict(workers=WORKERS, reload=RELOAD)
"""
GEN = """\
START = 10
def numbers(start=START, step=1):
    value = start
    while True:
        yield value
        value += step
IDS = numbers()
FIRST = [next(IDS) for _ in range(3)]
"""
PARTIALS = """\
from functools import partial, partialmethod
def power(base, exponent, *, scale=1):
    return scale * base ** exponent
square = partial(power, exponent=2)
cube = partial(power, exponent=3, scale=10)
class Api:
    def request(self, method, path, *, timeout=3):
        return method, path, timeout
    get = partialmethod(request, 'GET')
    post = partialmethod(request, 'POST', timeout=9)
OPS = {'sq': square, 'cu': cube}
"""
LOGCONF = """\
import logging, logging.config
LEVEL = 'INFO'
CONFIG = {
    'version': 1, 'disable_existing_loggers': False,
    'formatters': {'f': {'format': '%(levelname)s %(message)s'}},
    'handlers': {'h': {'class': 'logging.StreamHandler', 'formatter': 'f'}},
    'loggers': {'shop': {'handlers': ['h'], 'level': LEVEL}},
}
logging.config.dictConfig(CONFIG)
log = logging.getLogger('shop.sales')
"""
CONTEXT = """\
from contextvars import ContextVar, copy_context
from contextlib import contextmanager
current = ContextVar('current', default='nobody')
@contextmanager
def acting(name):
    token = current.set(name)
    try:
        yield name.title()
    finally:
        current.reset(token)
with acting('ann') as WHO:
    SEEN = current.get()
"""
EXC = """\
class ShopError(Exception):
    code = 400
    def __init__(self, message='', **extra):
        super().__init__(message)
        self.extra = extra
class NotFound(ShopError):
    code = 404
class Gone(NotFound):
    code = 410
CODES = {one.code: one for one in (ShopError, NotFound, Gone)}
HANDLED = (NotFound, KeyError)
def status(error):
    try:
        raise error
    except HANDLED as caught:
        return getattr(caught, 'code', 500)
    except ShopError as caught:
        return -caught.code
"""
ABC = """\
from abc import ABC, abstractmethod
class Shape(ABC):
    sides = 0
    @abstractmethod
    def area(self): ...
    def describe(self):
        return f'{type(self).__name__} {self.sides} {self.area()}'
class Square(Shape):
    sides = 4
    def __init__(self, a=1): self.a = a
    def area(self): return self.a ** 2
class Circle(Shape):
    def area(self): return 3
UNIT = Square()
TEXTS = [one.describe() for one in (UNIT, Circle())]
"""
SLOTS = """\
class Vector:
    __slots__ = ('x', 'y')
    def __init__(self, x=0, y=0):
        self.x, self.y = x, y
    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)
    def __repr__(self):
        return f'V({self.x}, {self.y})'
ZERO = Vector()
UNIT = Vector(1, 1)
SUM = UNIT + UNIT
"""
FACTORY = """\
def make_validator(low, high):
    def validate(value):
        return low <= value <= high
    validate.bounds = low, high
    return validate
MAX_AGE = 120
is_age = make_validator(0, MAX_AGE)
is_percent = make_validator(0, 100)
CHECKS = {'age': is_age, 'percent': is_percent}
"""
STACK = """\
def tag(name):
    def decorate(function):
        def inner(*args):
            return f'<{name}>{function(*args)}</{name}>'
        return inner
    return decorate
def upper(function):
    def inner(*args):
        return function(*args).upper()
    return inner
@tag('b')
@upper
def hello(who):
    return 'hi ' + who
@upper
@tag('i')
def bye(who):
    return 'bye ' + who
"""
BUILDER = """\
class Query:
    def __init__(self, table, parts=()):
        self.table, self.parts = table, parts
    def where(self, text):
        return Query(self.table, self.parts + (text,))
    def limit(self, n):
        return Query(self.table, self.parts + (f'limit {n}',))
    def sql(self):
        return ' '.join((f'select * from {self.table}',) + self.parts)
PAGE = 20
users = Query('users')
active = users.where('active')
page = active.limit(PAGE)
SQL = page.sql()
"""
SINGLETON = """\
class Registry:
    _instance = None
    def __new__(cls):
        if cls._instance is None:
            cls._instance = super().__new__(cls)
            cls._instance.items = {}
        return cls._instance
    def add(self, name, value):
        self.items[name] = value
        return self
Registry().add('a', 1)
Registry().add('b', 2)
registry = Registry()
"""
LAZY = """\
import importlib
_EXPORTS = {'dumps': 'json', 'sqrt': 'math'}
__all__ = sorted(_EXPORTS)
def __getattr__(name):
    if name in _EXPORTS:
        value = getattr(importlib.import_module(_EXPORTS[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(name)
def __dir__():
    return __all__ + ['extra']
"""
ORDER = """\
from functools import total_ordering
@total_ordering
class Version:
    def __init__(self, text):
        self.parts = tuple(int(one) for one in text.split('.'))
    def __eq__(self, other):
        return self.parts == other.parts
    def __lt__(self, other):
        return self.parts < other.parts
    def __hash__(self):
        return hash(self.parts)
    def __repr__(self):
        return '.'.join(map(str, self.parts))
KNOWN = [Version('1.10'), Version('1.9')]
LATEST = max(KNOWN)
BY = {one: str(one) for one in KNOWN}
"""
DC = """\
from dataclasses import dataclass, field, fields, asdict, KW_ONLY
@dataclass(order=True, frozen=True)
class Item:
    sort: int = field(init=False, repr=False)
    name: str
    price: float = field(default=1.0, metadata={'unit': 'EUR'})
    def __post_init__(self):
        object.__setattr__(self, 'sort', len(self.name))
@dataclass
class Basket:
    items: list = field(default_factory=list)
    _: KW_ONLY
    owner: str = 'me'
    def total(self):
        return sum(one.price for one in self.items)
PEN = Item('pen')
BASKET = Basket([PEN, Item('paper', 2.0)])
COLUMNS = [one.name for one in fields(Item)]
UNITS = {one.name: dict(one.metadata) for one in fields(Item)}
"""
MODELS = """\
TAX = 0.2
class Product:
    kind = 'product'
    def __init__(self, name, price):
        self.name, self.price = name, price
    def gross(self):
        return round(self.price * (1 + TAX), 2)
    def label(self):
        return f'{self.kind}: {self.name}'
class Book(Product):
    kind = 'book'
def cheapest(items):
    return min(items, key=lambda one: one.gross())
"""
SHOP = """\
from m import Product, Book, cheapest, TAX
import m
class EBook(Book):
    def gross(self):
        return super().gross() - 1
STOCK = [Book('a', 10), EBook('b', 10), Product('c', 3)]
BEST = cheapest(STOCK).name
PRICES = {one.name: one.gross() for one in STOCK}
RATE = 1 + TAX
def total(items=STOCK, rate=RATE):
    return sum(one.price for one in items) * rate
LABELS = list(map(Book.label, STOCK[:2]))
KINDS = {cls.__name__: cls.kind for cls in (Product, Book, EBook)}
"""
PKG = """\
from m import Product as P, cheapest as best
from m import *
__all__ = ['P', 'best', 'Book']
"""
HOOKS = """\
hooks = {}
def register(event):
    def decorate(function):
        hooks.setdefault(event, []).append(function.__name__)
        return function
    return decorate
LIMIT = 2
"""
USES = """\
from m import register, hooks, LIMIT
@register('save')
def first(): pass
@register('save')
def second(): pass
@register('load')
def third(): pass
SAVED = tuple(hooks['save'][:LIMIT])
"""
TYPES = """\
from typing import Union, NewType, TypeVar, Generic, Callable, Optional
Number = Union[int, float]
UserId = NewType('UserId', int)
T = TypeVar('T', bound=int)
class Box(Generic[T]):
    def __init__(self, value): self.value = value
    def map(self, function): return type(self)(function(self.value))
IntBox = Box[int]
Handler = Callable[[Number], Optional[str]]
"""
CONST = """\
BASE = 2
SHIFT = 10
UNITS = {'k': BASE ** SHIFT, 'm': BASE ** (SHIFT * 2)}
BIGGEST = max(UNITS, key=UNITS.get)
ORDER = sorted(UNITS, key=lambda one: -UNITS[one])
TEXT = ', '.join(f'{name}={value}' for name, value in UNITS.items())
FLAGS = {name: bool(value & 1024) for name, value in UNITS.items()}
if UNITS['k'] > 1000:
    BINARY = True
else:
    BINARY = False
a, *rest = [BASE * i for i in range(3)]
"""
VISIT = """\
import ast
class Visitor(ast.NodeVisitor):
    def __init__(self): self.names = []
    def visit_Name(self, node):
        self.names.append(node.id)
        self.generic_visit(node)
def names(text):
    one = Visitor()
    one.visit(ast.parse(text))
    return one.names
FOUND = names('a + b')
"""
ITER = """\
class Countdown:
    def __init__(self, start): self.start = start
    def __iter__(self):
        n = self.start
        while n:
            yield n
            n -= 1
    def __len__(self): return self.start
    def __contains__(self, x): return 0 < x <= self.start
    def __getitem__(self, i): return self.start - i
    def __bool__(self): return True
    def __call__(self, x): return x * self.start
    def __enter__(self): return self.start
    def __exit__(self, *a): return None
    def __hash__(self): return self.start
    def __eq__(self, other): return self.start == other.start
    def __neg__(self): return Countdown(-self.start)
    def __format__(self, spec): return f'<{self.start}>'
THREE = Countdown(3)
LIST = list(THREE)
SIZE = len(THREE)
HAS = 3 in THREE
FIRST = THREE[0]
TRUE = 'yes' if THREE else 'no'
TIMES = THREE(2)
with THREE as START:
    DONE = START
SET = len({THREE, Countdown(3)})
NEG = (-THREE).start
FMT = f'{THREE}'
UNPACKED, *_ = THREE
TOTAL = sum(x for x in THREE)
BOTH = THREE == Countdown(3)
"""
INI = """\
import configparser, string, datetime, decimal, json, io, csv, textwrap
RAW = '''
[a]
x = 1
[b]
y = 2
'''
parser = configparser.ConfigParser()
parser.read_string(RAW)
VALUES = {name: dict(parser[name]) for name in parser.sections()}
ROWS = list(csv.reader(io.StringIO('a,b\\nc,d')))
DAYS = datetime.timedelta(days=3)
EPOCH = datetime.date(2020, 1, 1)
DUE = EPOCH + DAYS
TEXT = textwrap.dedent('''
    hello
      world
''').strip()
DATA = json.loads('{"a": [1, 2]}')
TEMPLATE = string.Template('$name is $age')
FILLED = TEMPLATE.substitute(name='ann', age=DAYS.days)
"""
OVERRIDE = """\
class Strategy:
    registry = {}
    @classmethod
    def register(cls, key):
        def decorate(sub):
            cls.registry[key] = sub
            return sub
        return decorate
    def run(self): return 'base'
@Strategy.register('fast')
class Fast(Strategy):
    def run(self): return 'fast'
@Strategy.register('slow')
class Slow(Strategy):
    delay = 5
    def run(self): return f'slow {self.delay}'
def make(key, default=Strategy):
    return Strategy.registry.get(key, default)()
CURRENT = make('slow')
"""
MIXED = """\
import functools, operator
class Signal:
    def __init__(self, name):
        self.name, self.receivers = name, []
    def connect(self, function):
        self.receivers.append(function)
        return function
    def send(self, **kw):
        return [one(**kw) for one in self.receivers]
saved = Signal('saved')
@saved.connect
def log(what): return f'log {what}'
@saved.connect
def mail(what): return f'mail {what}'
SENT_BEFORE = len(saved.receivers)
"""
PROPS = """\
class Temperature:
    scale = 9 / 5
    def __init__(self, celsius=0): self.celsius = celsius
    @property
    def fahrenheit(self):
        return self.celsius * self.scale + 32
    @fahrenheit.setter
    def fahrenheit(self, value):
        self.celsius = (value - 32) / self.scale
    @classmethod
    def boiling(cls): return cls(100)
    @staticmethod
    def parse(text): return float(text.rstrip('C'))
    total = property(lambda self: self.celsius + 1)
BOIL = Temperature.boiling()
F = BOIL.fahrenheit
PARSED = Temperature.parse('3C')
"""
N = {"n": SHOP}

ALL = [
    Edit(
        "settings: a default host in a dataclass",
        CONFIG,
        "'localhost'",
        "'db.internal'",
        ("m.Database().host", "m.connect()", "m.URL", "m.MAIN.url"),
    ),
    Edit(
        "settings: a timeout in a table",
        CONFIG,
        "'connect': 5, 'read': 30",
        "'connect': 7, 'read': 60",
        ("m.connect()", "m.Database().options", "m.MAIN.options"),
    ),
    Edit(
        "settings: a field is added to a dataclass with an instance",
        CONFIG,
        "    options: dict",
        "    user: str = 'me'\n    options: dict",
        ("m.MAIN.user", "m.Database('a').user", "m.URL"),
    ),
    Edit(
        "settings: a property in a computed constant", CONFIG, "postgres://", "postgresql://", ("m.URL", "m.MAIN.url")
    ),
    Edit(
        "settings: a keyword-only default becomes required",
        CONFIG,
        "*, port=DEFAULT_PORT",
        "*, port",
        ("m.connect(port=1)", "m.connect.__kwdefaults__"),
    ),
    Edit(
        "commands: the decorator's naming",
        COMMANDS,
        "replace('_', '-')",
        "replace('_', '.')",
        ("sorted(m.COMMANDS)", "m.HELP"),
    ),
    Edit("commands: another alias", COMMANDS, "'delete', 'remove'", "'del'", ("m.ALIASES", "sorted(m.COMMANDS)")),
    Edit(
        "commands: hidden no more",
        COMMANDS,
        "@command(hidden=True)",
        "@command()",
        ("m.HELP", "m.COMMANDS['debug'][1]"),
    ),
    Edit(
        "commands: a function is renamed",
        COMMANDS,
        "def list_items",
        "def show_items",
        ("sorted(m.COMMANDS)", "m.HELP", "hasattr(m, 'list_items')"),
    ),
    Edit(
        "commands: a command is deleted",
        COMMANDS,
        "@command('rm', 'delete', 'remove')\ndef remove_item():\n    return 'rm'\n",
        "",
        ("sorted(m.COMMANDS)", "m.ALIASES", "m.HELP"),
    ),
    Edit(
        "commands: a command is added in the middle",
        COMMANDS,
        "@command('rm'",
        "@command('add')\ndef add_item():\n    return 'add'\n\n@command('rm'",
        ("list(m.COMMANDS)", "m.HELP"),
    ),
    Edit(
        "commands: a default of the decorator",
        COMMANDS,
        "hidden=False",
        "hidden=True",
        ("m.HELP", "[one[1] for one in m.COMMANDS.values()]"),
    ),
    Edit(
        "commands: a body",
        COMMANDS,
        "return 'list'",
        "return 'listed'",
        ("m.COMMANDS['list-items'][0]()", "m.list_items()"),
    ),
    Edit(
        "states: a member is inserted with transitions",
        STATES,
        "    PAID = 'paid'\n",
        "    HELD = 'held'\n    PAID = 'paid'\n",
        ("[one.name for one in m.State]", "m.State('held').is_final", "len(m.TRANSITIONS)"),
    ),
    Edit(
        "states: a value of a member",
        STATES,
        "SENT = 'sent'",
        "SENT = 'shipped'",
        ("m.State('shipped').is_final", "[one.value for one in m.FINAL]", "m.TRANSITIONS[m.State.SENT]"),
    ),
    Edit(
        "states: another final set",
        STATES,
        "frozenset({State.SENT})",
        "frozenset({State.SENT, State.PAID})",
        ("m.State.PAID.is_final", "len(m.FINAL)"),
    ),
    Edit(
        "states: a transition",
        STATES,
        "State.NEW: {State.PAID}",
        "State.NEW: {State.PAID, State.SENT}",
        ("sorted(one.name for one in m.REVERSE[m.State.SENT])",),
    ),
    Edit(
        "states: a property is renamed",
        STATES,
        "def is_final",
        "def is_done",
        ("hasattr(m.State.NEW, 'is_final')", "m.State.SENT.is_done"),
    ),
    Edit(
        "events: a priority",
        EVENTS,
        "priority=2",
        "priority=0",
        ("m.emit('start')", "[one[0] for one in m._handlers['start']]"),
    ),
    Edit(
        "events: the key of the sort", EVENTS, "key=lambda one: one[0]", "key=lambda one: -one[0]", ("m.emit('start')",)
    ),
    Edit(
        "events: another event",
        EVENTS,
        "@on('start', priority=1)",
        "@on('stop', priority=1)",
        ("m.emit('start')", "m.emit('stop')"),
    ),
    Edit(
        "events: a handler is deleted",
        EVENTS,
        "@on('start', priority=1)\ndef early():\n    return 'early'\n",
        "",
        ("m.emit('start')",),
    ),
    Edit(
        "units: a default of a named tuple",
        UNITS,
        "= 1.0",
        "= 2.0",
        ("m.METER.convert(3)", "m.Unit('x').factor", "m.ALL['m'].factor"),
    ),
    Edit(
        "units: a field of a named tuple",
        UNITS,
        "    factor: float = 1.0\n",
        "    factor: float = 1.0\n    symbol: str = '?'\n",
        ("m.KM.symbol", "m.Unit._fields", "m.ALL['km'] == m.KM"),
    ),
    Edit(
        "units: a method of a named tuple",
        UNITS,
        "value * self.factor",
        "value / self.factor",
        ("m.KM.convert(1000)", "m.ALL['km'].convert(1)"),
    ),
    Edit("units: an entry of the table", UNITS, "(METER, KM)", "(KM,)", ("sorted(m.ALL)",)),
    Edit(
        "patterns: a piece of an f-string pattern",
        VALIDATORS,
        "[a-z]+",
        "[a-zA-Z]+",
        ("m.TOKEN.pattern", "bool(m.CHECK['word']('Ab'))", "m.RULES[0][1].pattern"),
    ),
    Edit("patterns: a rule that is renamed", VALIDATORS, "('number', re", "('digits', re", ("sorted(m.CHECK)",)),
    Edit(
        "patterns: flags",
        VALIDATORS,
        "(?P<number>{NUMBER})')",
        "(?P<number>{NUMBER})', re.I)",
        ("m.TOKEN.flags & 2", "bool(m.TOKEN.match('AB'))"),
    ),
    Edit(
        "plugins: the hook's naming",
        PLUGIN_BASE,
        ".lower()",
        ".upper()",
        ("n.Csv.name", "m.Plugin.names()"),
        others={"n": "from m import Plugin\nclass Csv(Plugin): pass\nclass Json(Plugin): pass\n"},
    ),
    Edit(
        "plugins: a subclass is deleted in another module",
        PLUGIN_BASE,
        "class Json(Plugin): pass\n",
        "",
        ("m.Plugin.names()",),
        others={"n": "from m import Plugin\nclass Csv(Plugin): pass\nclass Json(Plugin): pass\n"},
        edited="n",
    ),
    Edit(
        "plugins: a subclass is renamed in another module",
        PLUGIN_BASE,
        "class Json",
        "class Yaml",
        ("sorted(m.Plugin.names())", "hasattr(n, 'Json')"),
        others={"n": "from m import Plugin\nclass Csv(Plugin): pass\nclass Json(Plugin): pass\n"},
        edited="n",
    ),
    Edit(
        "plugins: a subclass gets another base",
        PLUGIN_BASE,
        "class Json(Plugin)",
        "class Json(Csv)",
        ("m.Plugin.names()", "n.Json.__mro__[1].__name__"),
        others={"n": "from m import Plugin\nclass Csv(Plugin): pass\nclass Json(Plugin): pass\n"},
        edited="n",
    ),
    Edit(
        "templates: a greeting in keyword defaults",
        TEMPLATE,
        "'Hello'",
        "'Hi'",
        ("m.render('a')", "m.VIEWS['loud']('a')", "m.VIEWS['twice']('a')"),
    ),
    Edit(
        "templates: a lambda in a table", TEMPLATE, "render(name) * 2", "render(name) * 3", ("m.VIEWS['twice']('a')",)
    ),
    Edit(
        "templates: a named lambda",
        TEMPLATE,
        "render(name).upper()",
        "render(name).title()",
        ("m.VIEWS['loud']('a')", "m.render_loud('a')"),
    ),
    Edit(
        "templates: a parameter is renamed",
        TEMPLATE,
        "greeting=GREETING, end=PUNCTUATION):\n    return f'{greeting}",
        "word=GREETING, end=PUNCTUATION):\n    return f'{word}",
        ("m.render('a', word='b')", "m.VIEWS['plain'].__kwdefaults__"),
    ),
    Edit("templates: a view is removed", TEMPLATE, "'loud': render_loud, ", "", ("sorted(m.VIEWS)",)),
    Edit("retry: the module's times", RETRY, "TIMES = 3", "TIMES = 5", ("m.flaky()", "m.flaky.times", "m.other.times")),
    Edit("retry: an argument", RETRY, "@retry(2, only", "@retry(4, only", ("m.other()", "m.other.times")),
    Edit("retry: the message of the wrapper", RETRY, "failed after", "gave up after", ("m.flaky()", "m.other()")),
    Edit(
        "retry: exceptions by default",
        RETRY,
        "only=(ValueError,)",
        "only=(ValueError, TypeError)",
        ("m.flaky()", "m.retry.__kwdefaults__['only']", "m.flaky.__closure__[2].cell_contents"),
    ),
    Edit(
        "retry: the decorated function raises another error",
        RETRY,
        "raise KeyError",
        "raise LookupError",
        ("m.other()",),
    ),
    Edit(
        "retry: the attribute of the wrapper",
        RETRY,
        "wrapper.times = times",
        "wrapper.attempts = times",
        ("m.flaky.attempts", "hasattr(m.flaky, 'times')"),
    ),
    Edit("pipeline: a separator", PIPELINE, "SEP = ','", "SEP = ';'", ("m.run('a; b,c')",)),
    Edit("pipeline: a step is removed", PIPELINE, "strip, drop_empty]", "strip]", ("m.run('a, ,b')",)),
    Edit("pipeline: the composition", PIPELINE, "g(f(x))", "f(g(x))", ("m.compose(len, str)('abc')",)),
    Edit("pipeline: a body of a step", PIPELINE, "if one]", "if len(one) > 1]", ("m.run('a, bb')",)),
    Edit(
        "protocol: a method is renamed",
        PROTOCOL,
        "    def close(self): ...",
        "    def shutdown(self): ...",
        ("m.IS", "isinstance(m.Socket(), m.Closeable)"),
    ),
    Edit("protocol: a class gets the method", PROTOCOL, "    def shutdown(self)", "    def close(self)", ("m.IS",)),
    Edit(
        "typed dict: a literal alias",
        TYPED,
        "Literal['low', 'high']",
        "Literal['low', 'mid', 'high']",
        ("m.HINTS['level']", "m.Level.__args__"),
    ),
    Edit(
        "typed dict: total", TYPED, "total=False", "total=True", ("m.Job.__total__", "sorted(m.Job.__required_keys__)")
    ),
    Edit(
        "typed dict: a key of the base",
        TYPED,
        "    id: int\n",
        "    id: int\n    name: str\n",
        ("sorted(m.HINTS)", "sorted(m.Job.__annotations__)"),
    ),
    Edit(
        "descriptor: the prefix of its name",
        DESCRIPTOR,
        "'_' + name",
        "'__' + name",
        ("m.Point.x.name", "m.Point.y.name"),
    ),
    Edit(
        "descriptor: a default",
        DESCRIPTOR,
        "x = Typed(int, 0)",
        "x = Typed(int, 5)",
        ("m.ORIGIN.x", "m.Point().x", "m.Point.x.name"),
    ),
    Edit(
        "descriptor: a type", DESCRIPTOR, "y = Typed(int, 0)", "y = Typed(float, 0.5)", ("m.ORIGIN.y", "m.Point.y.kind")
    ),
    Edit(
        "descriptor: the descriptor's getter",
        DESCRIPTOR,
        "self if one is None else getattr",
        "'cls' if one is None else getattr",
        ("m.Point.x",),
    ),
    Edit(
        "caches: a rate, with a table of cached values",
        CACHES,
        "RATE = 2",
        "RATE = 3",
        ("m.price(2)", "m.label(1)", "m.TABLE"),
    ),
    Edit(
        "caches: the body of a cached function", CACHES, "n * RATE", "n + RATE", ("m.price(5)", "m.label(1)", "m.TABLE")
    ),
    Edit(
        "caches: no cache any more", CACHES, "@functools.cache\n", "", ("m.label(1)", "hasattr(m.label, 'cache_info')")
    ),
    Edit("caches: a text in a caller", CACHES, "{n}: ", "{n} = ", ("m.label(9)", "m.TABLE")),
    Edit(
        "dispatch: a body for two types",
        DISPATCH,
        "f'n{value}'",
        "f'num{value}'",
        ("m.encode(1)", "m.encode(1.5)", "m.ENCODED"),
    ),
    Edit(
        "dispatch: a registration less",
        DISPATCH,
        "@encode.register(float)\n",
        "",
        ("sorted(one.__name__ for one in m.encode.registry)",),
    ),
    Edit("dispatch: a recursive body", DISPATCH, "','.join", "';'.join", ("m.encode([1, 2])", "m.ENCODED")),
    Edit("dispatch: the default", DISPATCH, "raise TypeError(type(value).__name__)", "return '?'", ("m.encode(None)",)),
    Edit(
        "metaclass: a suffix", META, "SUFFIX = 's'", "SUFFIX = '_table'", ("m.User.table", "m.SCHEMA", "m.Admin.table")
    ),
    Edit("metaclass: a keyword", META, "table='staff'", "table='admins'", ("m.Admin.table", "m.SCHEMA")),
    Edit(
        "metaclass: a new field of a base",
        META,
        "    name = Field(str)\n",
        "    name = Field(str)\n    mail = Field(str, null=True)\n",
        ("sorted(m.Admin.fields)", "sorted(m.User.fields)", "m.SCHEMA"),
    ),
    Edit(
        "metaclass: a removed field",
        META,
        "    level = Field(int)\n",
        "    pass\n",
        ("sorted(m.Admin.fields)", "m.SCHEMA", "hasattr(m.Admin, 'level')"),
    ),
    Edit(
        "metaclass: an argument of a field",
        META,
        "name = Field(str)",
        "name = Field(str, null=True)",
        ("m.User.fields['name'].null", "m.Admin.fields['name'].null", "m.User.name is m.User.fields['name']"),
    ),
    Edit(
        "metaclass: which fields it takes",
        META,
        "if isinstance(one, Field)}",
        "if isinstance(one, Field) and key != 'level'}",
        ("sorted(m.Admin.fields)", "m.SCHEMA"),
    ),
    Edit(
        "class body: names of a loop",
        BODY,
        "('red', 'green')",
        "('red', 'green', 'blue')",
        ("m.Colors.BLUE", "m.Colors.COUNT", "m.Colors.BY_NAME", "m.Colors().many()"),
    ),
    Edit(
        "class body: a loop's start",
        BODY,
        "enumerate(NAMES):\n        locals",
        "enumerate(NAMES, 1):\n        locals",
        ("m.Colors.RED", "m.Colors.GREEN"),
    ),
    Edit("class body: a condition", BODY, "COUNT > 2", "COUNT > 1", ("m.Colors().many()",)),
    Edit("class body: a conditional method's body", BODY, "return False", "return None", ("m.Colors().many()",)),
    Edit(
        "class body: a name less",
        BODY,
        "('red', 'green')",
        "('red',)",
        ("hasattr(m.Colors, 'GREEN')", "m.Colors.COUNT"),
    ),
    Edit("guards: debug on", GUARDS, "DEBUG = False", "DEBUG = True", ("m.LEVEL", "m.trace(1)", "m.work(1)")),
    Edit(
        "guards: another module is imported",
        GUARDS,
        "import ujson_not_there as json",
        "import pickle as json",
        ("m.FAST", "m.LEVEL", "m.work(1)", "m.DUMP.__module__"),
    ),
    Edit("guards: a body in the branch in force", GUARDS, "return [x]", "return (x,)", ("m.work(1)", "m.trace(1)")),
    Edit("guards: the order of branches", GUARDS, "elif FAST", "elif not FAST", ("m.LEVEL", "m.work(2)")),
    Edit("match: another mode", MATCH, "MODE = 'prod'", "MODE = 'test'", ("m.WORKERS", "m.SETTINGS")),
    Edit("match: a value in a case", MATCH, "WORKERS, RELOAD = 8", "WORKERS, RELOAD = 16", ("m.WORKERS", "m.SETTINGS")),
    Edit("match: a case that moves", MATCH, "'dev' | 'test'", "'dev' | 'prod'", ("m.WORKERS", "m.SETTINGS")),
    Edit("generators: a start by default", GEN, "START = 10", "START = 20", ("m.FIRST", "next(m.numbers())")),
    Edit("generators: a held generator's step", GEN, "step=1", "step=2", ("m.FIRST", "next(m.IDS)")),
    Edit(
        "generators: a body of a held generator", GEN, "value += step", "value += step * 10", ("m.FIRST", "next(m.IDS)")
    ),
    Edit(
        "partials: a body",
        PARTIALS,
        "scale * base ** exponent",
        "scale + base ** exponent",
        ("m.square(3)", "m.OPS['cu'](2)"),
    ),
    Edit(
        "partials: a keyword",
        PARTIALS,
        "partial(power, exponent=2)",
        "partial(power, exponent=4)",
        ("m.square(3)", "m.OPS['sq'](3)"),
    ),
    Edit("partials: a partial method", PARTIALS, "timeout=9", "timeout=11", ("m.Api().post('/')",)),
    Edit("partials: a default behind a partial", PARTIALS, "scale=1", "scale=5", ("m.square(3)", "m.OPS['sq'](1)")),
    Edit("partials: a default of a method", PARTIALS, "timeout=3", "timeout=4", ("m.Api().get('/')",)),
    Edit(
        "logging: a level by a constant",
        LOGCONF,
        "LEVEL = 'INFO'",
        "LEVEL = 'ERROR'",
        ("m.log.getEffectiveLevel()", "m.CONFIG['loggers']['shop']['level']"),
    ),
    Edit(
        "logging: a format",
        LOGCONF,
        "%(levelname)s %(message)s",
        "%(name)s %(message)s",
        ("m.log.parent.handlers[0].formatter._fmt", "len(m.log.parent.handlers)"),
    ),
    Edit("logging: another logger", LOGCONF, "getLogger('shop.sales')", "getLogger('shop.stock')", ("m.log.name",)),
    Edit(
        "context: a default",
        CONTEXT,
        "default='nobody'",
        "default='system'",
        ("m.current.get()", "m.SEEN"),
        expects="reported",
    ),
    Edit("context: a manager's body", CONTEXT, "name.title()", "name.upper()", ("m.WHO", "m.SEEN"), expects="reported"),
    Edit(
        "context: a manager's argument",
        CONTEXT,
        "acting('ann')",
        "acting('bob')",
        ("m.WHO", "m.SEEN", "m.current.get()"),
    ),
    Edit("exceptions: a code", EXC, "code = 404", "code = 405", ("m.status(m.NotFound())", "sorted(m.CODES)")),
    Edit(
        "exceptions: another base",
        EXC,
        "class Gone(NotFound)",
        "class Gone(ShopError)",
        ("m.status(m.Gone())", "m.CODES[410].__base__.__name__"),
    ),
    Edit(
        "exceptions: what is handled",
        EXC,
        "HANDLED = (NotFound, KeyError)",
        "HANDLED = (KeyError,)",
        ("m.status(m.NotFound())",),
    ),
    Edit(
        "exceptions: a constructor's default",
        EXC,
        "message=''",
        "message='shop'",
        ("str(m.Gone())", "m.Gone(a=1).extra"),
    ),
    Edit("abc: an attribute used at import", ABC, "sides = 4", "sides = 5", ("m.TEXTS", "m.UNIT.describe()")),
    Edit(
        "abc: a described method",
        ABC,
        "{type(self).__name__} {self.sides}",
        "{type(self).__name__}: {self.sides}",
        ("m.TEXTS", "m.UNIT.describe()"),
    ),
    Edit("abc: a constructor's default", ABC, "a=1", "a=3", ("m.Square().area()", "m.UNIT.area()", "m.TEXTS")),
    Edit("slots: an operator", SLOTS, "self.x + other.x", "self.x - other.x", ("m.SUM", "m.UNIT + m.UNIT")),
    Edit(
        "slots: a new slot",
        SLOTS,
        "('x', 'y')",
        "('x', 'y', 'z')",
        ("m.Vector.__slots__", "hasattr(m.Vector, 'z')", "type(m.SUM) is m.Vector"),
    ),
    Edit("slots: a default of the constructor", SLOTS, "x=0, y=0", "x=0, y=7", ("m.ZERO", "m.Vector()")),
    Edit("slots: a repr", SLOTS, "f'V({", "f'<{", ("m.ZERO", "repr(m.UNIT)")),
    Edit(
        "closures: a limit",
        FACTORY,
        "MAX_AGE = 120",
        "MAX_AGE = 130",
        ("m.is_age(125)", "m.CHECKS['age'](125)", "m.is_age.bounds"),
    ),
    Edit(
        "closures: a comparison within",
        FACTORY,
        "low <= value <= high",
        "low < value <= high",
        ("m.is_age(0)", "m.CHECKS['percent'](0)"),
    ),
    Edit(
        "closures: an attribute that the maker sets",
        FACTORY,
        "validate.bounds = low, high",
        "validate.bounds = [low, high]",
        ("m.is_age.bounds", "m.CHECKS['percent'].bounds"),
    ),
    Edit(
        "closures: another argument",
        FACTORY,
        "make_validator(0, 100)",
        "make_validator(1, 100)",
        ("m.is_percent(0)", "m.CHECKS['percent'](0)"),
    ),
    Edit("stacked decorators: an inner text", STACK, "'hi '", "'hey '", ("m.hello('a')",)),
    Edit("stacked decorators: an argument", STACK, "@tag('i')", "@tag('em')", ("m.bye('a')",)),
    Edit("stacked decorators: another order", STACK, "@tag('b')\n@upper", "@upper\n@tag('b')", ("m.hello('a')",)),
    Edit("stacked decorators: one is deleted", STACK, "@upper\n@tag('i')", "@tag('i')", ("m.bye('a')",)),
    Edit("stacked decorators: the wrapper's text", STACK, "</{name}>", "[/{name}]", ("m.hello('a')", "m.bye('a')")),
    Edit("fluent objects: a page size", BUILDER, "PAGE = 20", "PAGE = 50", ("m.SQL", "m.page.sql()")),
    Edit(
        "fluent objects: a table",
        BUILDER,
        "Query('users')",
        "Query('people')",
        ("m.SQL", "m.active.sql()", "m.page.table"),
    ),
    Edit(
        "fluent objects: a method used at import", BUILDER, "select * from", "SELECT * FROM", ("m.SQL", "m.users.sql()")
    ),
    Edit("fluent objects: what a method makes", BUILDER, "f'limit {n}'", "f'LIMIT {n}'", ("m.SQL", "m.page.parts")),
    Edit("singleton: an item", SINGLETON, "add('b', 2)", "add('b', 3)", ("m.registry.items",), expects="false"),
    Edit(
        "singleton: an item less", SINGLETON, "Registry().add('a', 1)\n", "", ("m.registry.items",), expects="reported"
    ),
    Edit(
        "singleton: an item more",
        SINGLETON,
        "registry = ",
        "Registry().add('c', 3)\nregistry = ",
        ("m.registry.items", "m.Registry() is m.registry"),
    ),
    Edit(
        "singleton: how it adds",
        SINGLETON,
        "self.items[name] = value",
        "self.items[name.upper()] = value",
        ("m.registry.items",),
        expects="reported",
    ),
    Edit(
        "lazy names: another export",
        LAZY,
        "'sqrt': 'math'",
        "'floor': 'math'",
        ("m.__all__", "hasattr(m, 'sqrt')", "m.floor(1.5)"),
    ),
    Edit(
        "lazy names: an export that was used",
        LAZY,
        "'dumps': 'json'",
        "'dumps': 'pickle'",
        ("m.dumps.__module__",),
        use="m.dumps",
    ),
    Edit(
        "lazy names: an export that was used by another",
        LAZY,
        "'dumps': 'json'",
        "'dumps': 'pickle'",
        ("n.dumps.__module__",),
        others={"n": "from m import dumps\n"},
    ),
    Edit("lazy names: __dir__", LAZY, "['extra']", "['more']", ("dir(m)",)),
    Edit(
        "ordering: a comparison",
        ORDER,
        "return self.parts < other.parts",
        "return self.parts > other.parts",
        ("m.LATEST", "m.KNOWN[0] > m.KNOWN[1]"),
    ),
    Edit(
        "ordering: a parsed value",
        ORDER,
        "text.split('.')",
        "text.split('.')[:1]",
        ("m.LATEST", "m.KNOWN", "sorted(m.BY.values())"),
    ),
    Edit(
        "ordering: a version more",
        ORDER,
        "Version('1.9')]",
        "Version('1.9'), Version('2.0')]",
        ("m.LATEST", "len(m.BY)"),
    ),
    Edit("ordering: a repr in a table", ORDER, "'.'.join(map", "'-'.join(map", ("m.LATEST", "sorted(m.BY.values())")),
    Edit(
        "dataclass: metadata",
        DC,
        "'unit': 'EUR'",
        "'unit': 'USD'",
        ("m.UNITS", "m.Item.__dataclass_fields__['price'].metadata['unit']"),
    ),
    Edit(
        "dataclass: a default of a field()",
        DC,
        "default=1.0",
        "default=2.5",
        ("m.PEN.price", "m.Item('x').price", "m.BASKET.total()"),
    ),
    Edit("dataclass: __post_init__", DC, "len(self.name)", "-len(self.name)", ("m.PEN.sort", "m.Item('ab').sort")),
    Edit(
        "dataclass: a keyword-only default",
        DC,
        "owner: str = 'me'",
        "owner: str = 'you'",
        ("m.BASKET.owner", "m.Basket().owner"),
    ),
    Edit(
        "dataclass: a field less",
        DC,
        "    _: KW_ONLY\n    owner: str = 'me'\n",
        "",
        ("hasattr(m.Basket, 'owner')", "m.Basket([]).__dict__", "m.BASKET.__dict__.keys()"),
    ),
    Edit(
        "dataclass: no order",
        DC,
        "order=True, frozen=True",
        "frozen=True",
        ("hasattr(m.Item, '__lt__') and m.Item.__lt__ is not object.__lt__", "m.PEN == m.Item('pen')"),
    ),
    Edit(
        "shop: a tax in another module's prices",
        MODELS,
        "TAX = 0.2",
        "TAX = 0.5",
        ("n.PRICES", "n.total()", "n.RATE", "n.BEST"),
        others=N,
    ),
    Edit(
        "shop: a method of the base",
        MODELS,
        "round(self.price * (1 + TAX), 2)",
        "self.price",
        ("n.PRICES", "n.BEST", "n.STOCK[1].gross()"),
        others=N,
    ),
    Edit("shop: a label", MODELS, "{self.kind}: {self.name}", "{self.name} ({self.kind})", ("n.LABELS",), others=N),
    Edit(
        "shop: the key of the cheapest",
        MODELS,
        "key=lambda one: one.gross()",
        "key=lambda one: -one.gross()",
        ("n.BEST",),
        others=N,
    ),
    Edit(
        "shop: a class attribute",
        MODELS,
        "kind = 'book'",
        "kind = 'paper'",
        ("n.KINDS", "n.LABELS", "n.STOCK[1].kind"),
        others=N,
    ),
    Edit(
        "shop: a class gets another base",
        MODELS,
        "class Book(Product):\n    kind = 'book'",
        "class Book:\n    kind = 'book'\n    def __init__(self, name, price): self.name, self.price = name, price\n    def gross(self): return 7\n    def label(self): return 'book'",
        ("n.PRICES", "n.EBook.__mro__[2].__name__", "n.LABELS"),
        others=N,
    ),
    Edit(
        "shop: a function is renamed, and its import",
        MODELS,
        "def cheapest",
        "def lowest",
        ("n.BEST", "n.lowest.__name__", "hasattr(n, 'cheapest')"),
        others=N,
        more=(("n", "Book, cheapest, TAX", "Book, lowest, TAX"), ("n", "cheapest(STOCK)", "lowest(STOCK)")),
    ),
    Edit(
        "shop: a function moves to another module",
        MODELS,
        "def cheapest(items):\n    return min(items, key=lambda one: one.gross())\n",
        "",
        ("n.cheapest.__module__", "n.BEST", "hasattr(m, 'cheapest')"),
        others=N,
        more=(
            (
                "n",
                "from m import Product, Book, cheapest, TAX\n",
                "from m import Product, Book, TAX\ndef cheapest(items):\n    return min(items, key=lambda one: one.gross())\n",
            ),
        ),
        expects="false",
    ),
    Edit(
        "shop: a method is deleted",
        MODELS,
        "    def label(self):\n        return f'{self.kind}: {self.name}'\n",
        "",
        ("hasattr(n.EBook, 'label')",),
        others={"n": SHOP.replace("LABELS = list(map(Book.label, STOCK[:2]))\n", "")},
    ),
    Edit(
        "shop: a constructor",
        MODELS,
        "self.name, self.price = name, price",
        "self.name, self.price = name.upper(), price",
        ("sorted(n.PRICES)", "n.BEST", "n.STOCK[0].name"),
        others=N,
    ),
    Edit(
        "re-exports: an aliased function's body",
        MODELS,
        "min(items",
        "max(items",
        ("n.best([m.Book('a', 1), m.Book('b', 2)]).name",),
        others={"n": PKG},
    ),
    Edit(
        "re-exports: a new name by a star",
        MODELS,
        "class Book",
        "EXTRA = 1\nclass Book",
        ("hasattr(n, 'EXTRA')", "n.P is m.Product"),
        others={"n": PKG},
    ),
    Edit(
        "re-exports: a constant by a star",
        MODELS,
        "TAX = 0.2",
        "TAX = 0.3",
        ("n.TAX", "o.T"),
        others={"n": PKG, "o": "import n\nT = n.TAX + 1\n"},
    ),
    Edit(
        "re-exports: a class through two modules",
        MODELS,
        "kind = 'product'",
        "kind = 'thing'",
        ("o.Sub.kind", "o.K"),
        others={"n": PKG, "o": "from n import P\nclass Sub(P): pass\nK = Sub.kind + '!'\n"},
    ),
    Edit(
        "re-exports: a star that __all__ limits",
        MODELS,
        "TAX = 0.2\n",
        "TAX = 0.2\n__all__ = ['Book']\n",
        ("hasattr(n, 'cheapest')", "hasattr(n, 'Book')"),
        others={"n": "from m import *\n"},
    ),
    Edit("hooks: a limit in another module", HOOKS, "LIMIT = 2", "LIMIT = 1", ("n.SAVED",), others={"n": USES}),
    Edit(
        "hooks: what is registered",
        HOOKS,
        "function.__name__",
        "function.__name__.upper()",
        ("m.hooks", "n.SAVED"),
        others={"n": USES},
    ),
    Edit(
        "hooks: a registration moves to another event",
        HOOKS,
        "@register('load')",
        "@register('save')",
        ("m.hooks", "n.SAVED"),
        others={"n": USES},
        edited="n",
    ),
    Edit(
        "hooks: a function is renamed in another module",
        HOOKS,
        "def second",
        "def other",
        ("m.hooks", "n.SAVED"),
        others={"n": USES},
        edited="n",
    ),
    Edit(
        "hooks: the table is another",
        HOOKS,
        "hooks = {}",
        "hooks = {'start': ['boot']}",
        ("m.hooks", "n.SAVED", "n.hooks is m.hooks"),
        others={"n": USES},
    ),
    Edit(
        "types: a union",
        TYPES,
        "Union[int, float]",
        "Union[int, str]",
        ("m.Number", "m.Handler.__args__"),
    ),
    Edit(
        "types: a new type's base",
        TYPES,
        "NewType('UserId', int)",
        "NewType('UserId', str)",
        ("m.UserId.__supertype__",),
    ),
    Edit("types: a bound", TYPES, "bound=int", "bound=str", ("m.T.__bound__", "m.Box.__parameters__[0] is m.T")),
    Edit("types: an alias", TYPES, "Box[int]", "Box[bool]", ("m.IntBox.__args__",)),
    Edit(
        "constants: a base",
        CONST,
        "BASE = 2",
        "BASE = 3",
        ("m.UNITS", "m.TEXT", "m.FLAGS", "m.BINARY", "m.rest", "m.ORDER"),
    ),
    Edit("constants: a shift", CONST, "SHIFT = 10", "SHIFT = 9", ("m.UNITS", "m.TEXT", "m.BINARY", "m.BIGGEST")),
    Edit("constants: a threshold in a guard", CONST, "> 1000", "> 2000", ("m.BINARY",)),
    Edit(
        "constants: a key",
        CONST,
        "'k': BASE ** SHIFT,",
        "'K': BASE ** SHIFT, 'k': 1,",
        ("m.ORDER", "m.TEXT", "m.BIGGEST", "m.BINARY"),
    ),
    Edit("constants: a sort's lambda", CONST, "-UNITS[one]", "UNITS[one]", ("m.ORDER",)),
    Edit(
        "visitor: a method that a library calls",
        VISIT,
        "append(node.id)",
        "append(node.id * 2)",
        ("m.FOUND",),
        expects="reported",
    ),
    Edit(
        "visitor: a method of another name",
        VISIT,
        "def visit_Name(self, node):\n        self.names.append(node.id)",
        "def visit_BinOp(self, node):\n        self.names.append('op')",
        ("m.FOUND",),
        expects="reported",
    ),
    *[
        Edit(f"special methods: {name}", ITER, old, new, ("m." + probe,))
        for name, old, new, probe in (
            ("__iter__", "n -= 1", "n -= 3", "LIST, m.UNPACKED, m.TOTAL"),
            ("__len__", "return self.start\n    def __contains__", "return 9\n    def __contains__", "SIZE"),
            ("__contains__", "0 < x <=", "0 < x <", "HAS"),
            ("__getitem__", "self.start - i", "self.start + i + 1", "FIRST"),
            ("__bool__", "return True", "return False", "TRUE"),
            ("__call__", "x * self.start", "x + self.start + 7", "TIMES"),
            ("__enter__", "__enter__(self): return self.start", "__enter__(self): return 'in'", "DONE, m.START"),
            ("__eq__", "self.start == other.start", "self is other", "SET, m.BOTH"),
            ("__neg__", "Countdown(-self.start)", "Countdown(0)", "NEG"),
            ("__format__", "<{self.start}>", "[{self.start}]", "FMT"),
            (
                "__init__",
                "self.start = start",
                "self.start = start + 1",
                "LIST, m.SIZE, m.FIRST, m.TIMES, m.FMT, m.TOTAL",
            ),
        )
    ],
    Edit(
        "library values: a text that a parser reads",
        INI,
        "y = 2",
        "y = 3",
        ("m.VALUES", "dict(m.parser['b'])"),
        expects="reported",
    ),
    Edit("library values: a section", INI, "[b]", "[c]", ("m.VALUES", "m.parser.sections()"), expects="reported"),
    Edit("library values: a duration", INI, "days=3", "days=5", ("m.DUE", "m.FILLED")),
    Edit("library values: rows", INI, "c,d", "c,e", ("m.ROWS",)),
    Edit("library values: a template", INI, "$name is $age", "$name: $age", ("m.FILLED", "m.TEMPLATE.template")),
    Edit("library values: a text block", INI, "  world", "  moon", ("m.TEXT",)),
    Edit(
        "strategies: a key",
        OVERRIDE,
        "register('slow')",
        "register('lazy')",
        ("sorted(m.Strategy.registry)", "m.CURRENT.run()"),
        expects="reported",
    ),
    Edit("strategies: an attribute", OVERRIDE, "delay = 5", "delay = 6", ("m.CURRENT.run()", "m.make('slow').run()")),
    Edit(
        "strategies: a class is deleted",
        OVERRIDE,
        "@Strategy.register('fast')\nclass Fast(Strategy):\n    def run(self): return 'fast'\n",
        "",
        ("sorted(m.Strategy.registry)", "m.make('fast').run()"),
    ),
    Edit(
        "strategies: the class of another",
        OVERRIDE,
        "class Slow(Strategy)",
        "class Slow(Fast)",
        ("m.CURRENT.run()", "m.Slow.__base__.__name__", "m.Strategy.registry['slow'] is m.Slow"),
    ),
    Edit(
        "strategies: the default",
        OVERRIDE,
        "default=Strategy",
        "default=Fast",
        ("m.make('none').run()",),
    ),
    Edit("strategies: which is made at import", OVERRIDE, "make('slow')", "make('fast')", ("m.CURRENT.run()",)),
    Edit("signals: a body", MIXED, "f'log {what}'", "f'LOG {what}'", ("m.saved.send(what=1)",)),
    Edit(
        "signals: a receiver is deleted",
        MIXED,
        "@saved.connect\ndef mail(what): return f'mail {what}'\n",
        "",
        ("m.saved.send(what=1)", "m.SENT_BEFORE"),
    ),
    Edit(
        "signals: a receiver is not connected any more",
        MIXED,
        "@saved.connect\ndef mail",
        "def mail",
        ("m.saved.send(what=1)", "m.SENT_BEFORE"),
    ),
    Edit(
        "signals: how it connects",
        MIXED,
        "self.receivers.append(function)",
        "self.receivers.insert(0, function)",
        ("m.saved.send(what=1)",),
    ),
    Edit(
        "signals: the signal's name",
        MIXED,
        "Signal('saved')",
        "Signal('stored')",
        ("m.saved.name", "m.saved.send(what=1)", "m.SENT_BEFORE"),
    ),
    Edit(
        "signals: two receivers change places",
        MIXED,
        "@saved.connect\ndef log(what): return f'log {what}'\n@saved.connect\ndef mail(what): return f'mail {what}'\n",
        "@saved.connect\ndef mail(what): return f'mail {what}'\n@saved.connect\ndef log(what): return f'log {what}'\n",
        ("m.saved.send(what=1)",),
    ),
    Edit("properties: a scale", PROPS, "scale = 9 / 5", "scale = 2", ("m.F", "m.BOIL.fahrenheit")),
    Edit("properties: a class method used at import", PROPS, "cls(100)", "cls(99)", ("m.F", "m.BOIL.celsius")),
    Edit("properties: a static method used at import", PROPS, "rstrip('C'))", "rstrip('C')) + 1", ("m.PARSED",)),
    Edit("properties: a lambda in a property", PROPS, "self.celsius + 1", "self.celsius + 2", ("m.BOIL.total",)),
    Edit("properties: a getter used at import", PROPS, "+ 32\n", "+ 31\n", ("m.F", "m.BOIL.fahrenheit")),
]
