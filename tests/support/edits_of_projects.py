"""Edits to plain Python as projects of several modules write it: packages, plugins, caches, contexts and protocols."""

from edit_cases import Edit, with_expected

SETTINGS = """\
import os
DEBUG = False
BASE_URL = 'http://localhost'
HEADERS = {'Accept': 'json', **({'X-Debug': '1'} if DEBUG else {})}
def endpoint(path, base=BASE_URL):
    return base + path
class Settings:
    timeout = 10
    retries: int = 3
    def __init__(self, **given):
        self.__dict__.update(given)
    @classmethod
    def load(cls):
        return cls(url=endpoint('/v1'), debug=DEBUG)
settings = Settings.load()
"""
CLIENT = """\
from m import settings, endpoint, BASE_URL
import m as config
class Client:
    base = BASE_URL
    limit = config.Settings.timeout * 2
    def __init__(self, url=settings.url, retries=config.Settings.retries):
        self.url, self.retries = url, retries
    def call(self, path):
        return endpoint(path), self.url
default_client = Client()
def get(path, client=default_client):
    return client.call(path)
"""
OPS = """\
import operator
from functools import partial, reduce
OPS = {'+': operator.add, '-': operator.sub}
def apply(name, *values):
    return reduce(OPS[name], values)
add = partial(apply, '+')
sub = partial(apply, '-')
double = partial(add, 2)
TABLE = {name: partial(apply, name) for name in OPS}
RESULT = add(1, 2, 3)
"""
SINGLE = """\
from functools import singledispatchmethod
class Formatter:
    sep = ','
    @singledispatchmethod
    def format(self, value):
        return repr(value)
    @format.register
    def _(self, value: int):
        return f'int:{value}'
    @format.register(list)
    def _(self, value):
        return self.sep.join(self.format(one) for one in value)
formatter = Formatter()
OUT = formatter.format([1, 'a'])
"""
GENERATORS = """\
def numbers(limit=3):
    for n in range(limit):
        yield n * 2
def pairs(source):
    for one in source:
        yield one, one + 1
FIRST = list(pairs(numbers()))
def chunk(items, size=2):
    return [items[i:i + size] for i in range(0, len(items), size)]
CHUNKS = chunk([n for n in numbers(5)])
lazy = numbers()
"""
REGISTRY_BASE = """\
PARSERS = {}
ORDER = []
class register:
    def __init__(self, *kinds, first=False):
        self.kinds, self.first = kinds, first
    def __call__(self, function):
        for kind in self.kinds:
            PARSERS[kind] = function
        ORDER.insert(0, function.__name__) if self.first else ORDER.append(function.__name__)
        return function
def parse(kind, text):
    return PARSERS[kind](text)
"""
REGISTRY_USE = """\
from m import register, parse
@register('csv', 'tsv')
def parse_rows(text):
    return text.split(',')
@register('json', first=True)
def parse_json(text):
    return 'json ' + text
SAMPLE = parse('csv', 'a,b')
"""
MIDDLEWARE = """\
from contextlib import contextmanager
EVENTS = []
@contextmanager
def tracked(name, prefix='>'):
    EVENTS.append(prefix + name)
    yield len(EVENTS)
def logged(handler):
    def inner(request):
        with tracked(handler.__name__):
            return handler(request)
    inner.handler = handler
    return inner
def upper(handler):
    return lambda request: handler(request).upper()
@upper
@logged
def home(request):
    return 'home ' + request
STACK = [upper, logged]
def build(handler, stack=STACK):
    for one in reversed(stack):
        handler = one(handler)
    return handler
entry = build(lambda request: 'entry ' + request)
"""
METHODS = """\
def methods(*names):
    def decorate(cls):
        for name in names:
            def method(self, name=name):
                return f'{type(self).__name__}.{name}'
            setattr(cls, name, method)
        cls.names = names
        return cls
    return decorate
def total(cls):
    cls.total = property(lambda self: len(self.names))
    return cls
@total
@methods('get', 'put')
class Resource:
    kind = 'base'
class Special(Resource):
    kind = 'special'
    extra = Resource.names + ('patch',)
VIEWS = {one.kind: one for one in (Resource, Special)}
ITEM = Special()
"""
CONTEXT = """\
import contextvars, threading
DEFAULT_USER = 'anonymous'
current_user = contextvars.ContextVar('current_user', default=DEFAULT_USER)
local = threading.local()
local.depth = 0
lock = threading.RLock()
class State(threading.local):
    level = 1
    def bump(self):
        self.level += 1
        return self.level
state = State()
def who():
    return current_user.get()
WHO = who()
"""
LOGS = """\
import logging
LEVEL = logging.INFO
FORMAT = '%(name)s %(message)s'
class Redact(logging.Filter):
    words = ('secret',)
    def filter(self, record):
        return not any(word in record.getMessage() for word in self.words)
logger = logging.getLogger('shop.edits')
logger.setLevel(LEVEL)
handler = logging.NullHandler()
handler.setFormatter(logging.Formatter(FORMAT))
handler.addFilter(Redact())
logger.addHandler(handler)
"""
RECORD = "__import__('logging').LogRecord('n', 20, 'p', 1, 'a secret', None, None)"
MATCH = """\
from dataclasses import dataclass
@dataclass(frozen=True)
class Circle:
    radius: float
@dataclass(frozen=True)
class Square:
    side: float
LIMIT = 10
def area(shape):
    match shape:
        case Circle(radius=r):
            return 3 * r * r
        case Square(side):
            return side * side
        case {'w': w, 'h': h}:
            return w * h
        case [first, *rest] if rest:
            return area(first) + area(rest)
        case [only]:
            return area(only)
        case int() | float() as n if n < LIMIT:
            return n
        case _:
            return -1
SHAPES = [Circle(1), Square(2), {'w': 2, 'h': 3}, 5, 50]
AREAS = [area(one) for one in SHAPES]
BIGGEST = max(SHAPES, key=area)
"""
INIT = """\
from .core import Engine, run as execute
from .core import *
from . import core
__version__ = '1.0'
__all__ = ['Engine', 'execute', 'describe']
def describe():
    return f'{core.NAME} {__version__}'
"""
CORE = """\
NAME = 'core'
SPEEDS = (1, 2)
class Engine:
    speed = SPEEDS[0]
    def start(self):
        return f'{NAME} at {self.speed}'
def run(engine=None, times=len(SPEEDS)):
    return [(engine or Engine()).start()] * times
"""
MAINP = """\
import pkg
from pkg import Engine, execute, NAME
from pkg.core import SPEEDS as S
engine = Engine()
STARTED = engine.start()
TEXT = pkg.describe()
TIMES = len(execute()) + len(S)
class Turbo(pkg.core.Engine):
    speed = S[1] * 10
"""
PKG = {"pkg.__init__": INIT, "pkg.core": CORE, "m": MAINP}
EVENTBUS = """\
import weakref
class Bus:
    def __init__(self):
        self.refs = []
        self.strong = {}
    def weak(self, function):
        self.refs.append(weakref.ref(function))
        return function
    def on(self, *names):
        def add(function):
            for name in names:
                self.strong.setdefault(name, []).append(function)
            return function
        return add
    def fire(self, name):
        return [one() for one in self.strong.get(name, [])] + [ref()() for ref in self.refs if ref()]
bus = Bus()
"""
LISTEN = """\
from m import bus
COUNT = 1
@bus.weak
def weakly():
    return 'weak'
@bus.on('start', 'stop')
def both():
    return f'both {COUNT}'
class Listener:
    def __init__(self, name):
        self.name = name
        bus.on(name)(self.handle)
    def handle(self):
        return self.name
one = Listener('start')
"""
PROTO = """\
from abc import ABC, abstractmethod
class Store(ABC):
    prefix = 'store'
    @abstractmethod
    def get(self, key): ...
    def fetch(self, key):
        return f'{self.prefix}:{self.get(key)}'
class Memory(Store):
    def __init__(self, data=None):
        self.data = data or {}
    def get(self, key):
        return self.data.get(key)
class Layered(Memory):
    def __init__(self, *layers):
        super().__init__()
        self.layers = layers
    def get(self, key):
        return next((one.get(key) for one in self.layers if one.get(key) is not None), 'none')
"""
PROTO_USE = """\
from m import Memory, Layered
FIRST = Memory({'a': 1})
store = Layered(FIRST, Memory({'b': 2}))
VALUE = store.fetch('b')
class Quiet(Memory):
    prefix = 'quiet'
    def get(self, key):
        return super().get(key) or '-'
"""
TYPED = """\
from typing import NamedTuple, TypedDict, Protocol, runtime_checkable, get_type_hints
class Row(NamedTuple):
    name: str
    size: int = 1
    @property
    def label(self):
        return f'{self.name}/{self.size}'
class Options(TypedDict, total=False):
    color: str
    width: int
@runtime_checkable
class Sized2(Protocol):
    size: int
    def grow(self, by: int) -> int: ...
class Plant:
    size = 3
    def grow(self, by):
        return self.size + by
ROWS = [Row('a'), Row('b', 2)]
FIELDS = Row._fields
KEYS = sorted(Options.__annotations__)
IS = isinstance(Plant(), Sized2)
LABELS = [one.label for one in ROWS]
def options(**given: Options) -> Options:
    return Options(**given)
"""
SLOTTED = """\
class Tracked:
    __slots__ = ('a', 'b')
    count = 0
    def __init__(self, a, b=2):
        self.a, self.b = a, b
        type(self).count += 1
    def both(self):
        return (self.a, self.b)
    def __eq__(self, other):
        return self.both() == other.both()
    def __hash__(self):
        return hash(self.a)
ONE, TWO = Tracked(1), Tracked(2, b=3)
PAIR = {ONE: 'one', TWO: 'two'}
BOTH = [one.both() for one in PAIR]
"""
ASYNC = """\
import asyncio
DELAY = 0
async def fetch(n, delay=DELAY):
    await asyncio.sleep(delay)
    return n * 10
async def stream(limit):
    for n in range(limit):
        yield await fetch(n)
class Session:
    timeout = 5
    async def __aenter__(self):
        return self
    async def __aexit__(self, *_):
        return False
    async def get(self, n):
        return await fetch(n) + self.timeout
async def main():
    async with Session() as session:
        return [one async for one in stream(3)], await session.get(1)
RESULT = asyncio.run(main())
session = Session()
"""
ERRORS = """\
class AppError(Exception):
    code = 500
    def __init__(self, message='failed', **extra):
        super().__init__(message)
        self.extra = extra
    def as_dict(self):
        return {'code': self.code, 'message': str(self), **self.extra}
class NotFound(AppError):
    code = 404
class Conflict(AppError):
    code = 409
BY_CODE = {one.code: one for one in AppError.__subclasses__()}
DEFAULT = NotFound('nothing', id=1)
HANDLERS = [(NotFound, lambda e: 'missing'), (AppError, lambda e: 'error %d' % e.code)]
def handle(error):
    for kind, act in HANDLERS:
        if isinstance(error, kind):
            return act(error)
"""
ERRORS_USE = """\
from m import AppError, NotFound, BY_CODE, handle
class Gone(NotFound):
    code = 410
def find(key):
    if not key:
        raise NotFound(key=key)
    return key
try:
    find('')
except AppError as error:
    CAUGHT = error.as_dict()
TEXT = handle(Gone())
"""
ENUMS = """\
from enum import Enum, IntEnum, Flag, auto
class Color(Enum):
    RED = auto()
    GREEN = auto()
    def css(self):
        return self.name.lower()
class Perm(Flag):
    R = auto()
    W = auto()
    RW = R | W
class Level(IntEnum):
    LOW = 1
    HIGH = 10
PALETTE = {one: one.css() for one in Color}
DEFAULT = Color.RED
WRITERS = [one.name for one in (Perm.R, Perm.W, Perm.RW) if Perm.W in one]
TOP = max(Level)
def paint(color=Color.GREEN, level: Level = Level.LOW):
    return f'{color.css()}@{level.value}'
"""
ENUMS_USE = """\
from m import Color, Level, PALETTE, paint
THEME = {Color.RED: 'danger', Color.GREEN: 'ok'}
PAINTED = paint(Color.RED, Level.HIGH)
def pick(name, fallback=Color.GREEN):
    return getattr(Color, name, fallback).css()
"""
DATA = """\
from dataclasses import dataclass, field, asdict, replace, InitVar
from typing import ClassVar
TAX = 0.1
def new_id(counter=[0]):
    return 'id'
@dataclass
class Money:
    amount: float = 0.0
    currency: str = 'EUR'
    def __add__(self, other):
        return replace(self, amount=self.amount + other.amount)
@dataclass
class Line:
    name: str
    price: Money = field(default_factory=Money)
    count: int = 1
    kind: ClassVar[str] = 'line'
    rate: InitVar[float] = TAX
    id: str = field(default_factory=new_id, repr=False)
    def __post_init__(self, rate):
        self.total = round(self.price.amount * self.count * (1 + rate), 2)
@dataclass(order=True)
class Cart:
    priority: int = 0
    lines: list[Line] = field(default_factory=list, compare=False)
    def sum(self):
        return sum((one.price for one in self.lines), Money())
CART = Cart(1, [Line('pen', Money(2.0), 3), Line('ink')])
TOTALS = [one.total for one in CART.lines]
AS = asdict(CART)
"""
CACHED = """\
from functools import lru_cache, cached_property, cache
RATES = {'EUR': 1.0, 'USD': 1.1}
@lru_cache(maxsize=32)
def rate(code):
    return RATES[code]
@cache
def table():
    return {code: rate(code) * 100 for code in RATES}
def memo(function):
    store = {}
    def inner(*args):
        if args not in store:
            store[args] = function(*args)
        return store[args]
    inner.store = store
    return inner
@memo
def square(n):
    return n * n
class Report:
    scale = 2
    def __init__(self, n):
        self.n = n
    @cached_property
    def value(self):
        return self.n * self.scale
REPORT = Report(5)
SQUARES = [square(n) for n in range(3)]
"""
TREE = """\
class Node:
    children = None
    def __init__(self, name, *children):
        self.name = name
        self.children = list(children)
        self.parent = None
        for one in children:
            one.parent = self
    def path(self):
        return (self.parent.path() + '/' if self.parent else '') + self.name
    def walk(self):
        yield self
        for one in self.children:
            yield from one.walk()
LEAF = Node('leaf')
ROOT = Node('root', Node('a', LEAF), Node('b'))
PATHS = [one.path() for one in ROOT.walk()]
INDEX = {one.name: one for one in ROOT.walk()}
"""
STRINGS = """\
import re, textwrap, string
NAME = 'shop'
VERSION = (1, 2, 0)
VERSION_TEXT = '.'.join(str(n) for n in VERSION)
BANNER = textwrap.dedent(f'''\\
    {NAME} {VERSION_TEXT}
    ready''')
SLUG = re.compile(r'[^a-z]+')
def slug(text, sep='-'):
    return SLUG.sub(sep, text.lower())
TEMPLATE = string.Template('$name: $value')
def line(name, value):
    return TEMPLATE.substitute(name=name, value=value)
USER_AGENT = f'{slug(NAME)}/{VERSION_TEXT}'
MESSAGES = {'hello': 'Hello {}', 'bye': 'Bye {}'}
format_hello = MESSAGES['hello'].format
WORDS = set(BANNER.split())
"""
MONKEY = """\
class Service:
    host = 'a'
    def call(self):
        return 'real ' + self.host
def install(cls, name):
    def decorate(function):
        setattr(cls, name, function)
        return function
    return decorate
"""
MONKEY_USE = """\
from m import Service, install
original = Service.call
def patched(self):
    return 'patched ' + original(self)
Service.call = patched
@install(Service, 'stop')
def stop(self):
    return 'stop ' + self.host
service = Service()
"""
CIRCULAR_A = """\
import n
NAME = 'a'
class Parent:
    def child(self):
        return n.Child(self)
    def kind(self):
        return NAME
def describe():
    return NAME + n.SUFFIX
"""
CIRCULAR_B = """\
import m
SUFFIX = '-b'
class Child:
    def __init__(self, parent=None):
        self.parent = parent
    def kind(self):
        return self.parent.kind() + SUFFIX
"""
PROXY = """\
class Proxy:
    def __init__(self, make):
        object.__setattr__(self, '_make', make)
        object.__setattr__(self, '_one', None)
    def __getattr__(self, name):
        if self._one is None:
            object.__setattr__(self, '_one', self._make())
        return getattr(self._one, name)
class Config:
    mode = 'dev'
    def text(self):
        return 'mode ' + self.mode
def make():
    config = Config()
    config.port = 80
    return config
config = Proxy(make)
class Attrs(dict):
    __getattr__ = dict.__getitem__
    def __missing__(self, key):
        return key + '?'
attrs = Attrs(a=1, b=2)
"""
HOOKED = """\
class Meta(type):
    @classmethod
    def __prepare__(mcs, name, bases, **kw):
        return {'tag': name.lower()}
    def __call__(cls, *args, **kw):
        one = super().__call__(*args, **kw)
        cls.made = getattr(cls, 'made', 0) + 1
        return one
    def __len__(cls):
        return len(cls.fields)
    @property
    def title(cls):
        return cls.__name__.title()
class Shape(metaclass=Meta):
    fields = ('x',)
    def __init_subclass__(cls, sides=0, **kw):
        super().__init_subclass__(**kw)
        cls.sides = sides
        cls.fields = Shape.fields + tuple(cls.__dict__.get('own', ()))
class Tri(Shape, sides=3):
    own = ('y',)
class Box(Tri, sides=4):
    own = ('z', 'w')
SIDES = {one.tag: one.sides for one in (Tri, Box)}
LENGTHS = [len(one) for one in (Shape, Tri, Box)]
TITLE = Tri.title
"""
DESCRIPTORS = """\
class Field:
    order = 0
    def __init__(self, default=None, cast=str):
        self.default, self.cast = default, cast
        Field.order += 1
        self.position = Field.order
    def __set_name__(self, owner, name):
        self.name = name
        owner.__dict__.get('names', []).append(name)
    def __get__(self, one, owner=None):
        if one is None:
            return self
        return one.__dict__.get(self.name, self.default)
    def __set__(self, one, value):
        one.__dict__[self.name] = self.cast(value)
class lazy:
    def __init__(self, function):
        self.function = function
        self.__doc__ = function.__doc__
    def __set_name__(self, owner, name):
        self.name = name
    def __get__(self, one, owner=None):
        if one is None:
            return self
        value = one.__dict__[self.name] = self.function(one)
        return value
class Person:
    names = []
    age = Field(0, cast=int)
    city = Field('Bern')
    @lazy
    def label(self):
        return f'{self.city}-{self.age}'
ANN = Person()
ANN.age = '30'
"""
LOOPS = """\
SPEC = [('small', 1), ('large', 10)]
SIZES = {}
for name, factor in SPEC:
    SIZES[name] = factor * 2
def make(factor):
    def scale(x):
        return x * factor
    scale.__name__ = f'scale_{factor}'
    return scale
SCALERS = {}
for name, factor in SPEC:
    SCALERS[name] = make(factor)
    globals()['scale_' + name] = SCALERS[name]
try:
    import no_such_module
except ImportError:
    HAS = False
    fallback = dict
else:
    HAS = True
if SIZES['large'] > 15:
    MODE = 'big'
elif SIZES['large'] > 5:
    MODE = 'middle'
else:
    MODE = 'small'
with open(__file__) as file:
    LINES = 'x'
TOTAL, *REST = SIZES.values()
(FIRST, *SECOND), THIRD = REST * 2, 3
del name, factor
"""
OVERRIDES = """\
import copy
BASE = {'db': {'host': 'a', 'port': 1}, 'tags': ['x']}
def merge(one, other):
    out = copy.deepcopy(one)
    for key, value in other.items():
        out[key] = merge(out[key], value) if isinstance(value, dict) and key in out else value
    return out
DEV = merge(BASE, {'db': {'host': 'dev'}})
PROD = merge(DEV, {'tags': ['y'], 'debug': False})
ENVS = {'dev': DEV, 'prod': PROD}
ACTIVE = ENVS['prod']
HOST = ACTIVE['db']['host']
"""
FLUENT = """\
class Validator:
    def __init__(self, checks=()):
        self.checks = tuple(checks)
    def add(self, check):
        return Validator((*self.checks, check))
    def __or__(self, other):
        return Validator(self.checks + other.checks)
    def __rshift__(self, check):
        self.checks += (check,)
        return self
    def __call__(self, value):
        return [check.__name__ for check in self.checks if not check(value)]
def positive(n):
    return n > 0
def even(n):
    return n % 2 == 0
def small(n):
    return n < 100
number = Validator().add(positive)
strict = number.add(even)
full = strict | Validator([small])
full >> (lambda n: n != 13)
FAILED = full(-101)
"""

ALL = [
    Edit(
        "settings: a url",
        SETTINGS,
        "http://localhost",
        "https://shop",
        ("m.settings.url", "m.endpoint('/x')", "n.get('/y')", "n.Client.base", "n.Client().url"),
        {"n": CLIENT},
    ),
    Edit(
        "settings: a flag that a dictionary reads",
        SETTINGS,
        "DEBUG = False",
        "DEBUG = True",
        ("m.HEADERS", "m.settings.debug"),
        {"n": CLIENT},
    ),
    Edit(
        "settings: a class attribute that a default reads",
        SETTINGS,
        "retries: int = 3",
        "retries: int = 7",
        ("n.Client().retries", "n.default_client.retries", "m.settings.retries"),
        {"n": CLIENT},
    ),
    Edit(
        "settings: a class attribute that a class reads",
        SETTINGS,
        "timeout = 10",
        "timeout = 25",
        ("n.Client.limit", "n.default_client.limit"),
        {"n": CLIENT},
    ),
    Edit(
        "settings: what load gives",
        SETTINGS,
        "debug=DEBUG)",
        "debug=DEBUG, region='eu')",
        ("m.settings.region", "n.settings.region"),
        {"n": CLIENT},
    ),
    Edit(
        "settings: the instance from another class",
        SETTINGS,
        "settings = Settings.load()",
        "class Strict(Settings):\n    timeout = 1\nsettings = Strict.load()",
        ("type(n.settings).__name__", "n.settings.timeout", "n.settings is m.settings"),
        {"n": CLIENT},
    ),
    Edit(
        "settings: the client's constructor",
        SETTINGS,
        "self.url, self.retries = url, retries",
        "self.url, self.retries = url + '!', retries",
        ("n.get('/y')", "n.Client().url", "n.default_client.url"),
        {"n": CLIENT},
        edited="n",
    ),
    Edit(
        "settings: a default that is an object of the module",
        SETTINGS,
        "default_client = Client()",
        "default_client = Client('http://other')",
        ("n.get('/y')",),
        {"n": CLIENT},
        edited="n",
    ),
    Edit(
        "operators: an operator more",
        OPS,
        "'-': operator.sub",
        "'-': operator.sub, '*': operator.mul",
        ("sorted(m.TABLE)", "m.TABLE['*'](2, 3)"),
    ),
    Edit(
        "operators: an operator is another",
        OPS,
        "'+': operator.add",
        "'+': operator.mul",
        ("m.add(2, 4)", "m.double(5)", "m.RESULT"),
    ),
    Edit(
        "operators: what apply does",
        OPS,
        "return reduce(OPS[name], values)",
        "return -reduce(OPS[name], values)",
        ("m.add(2, 4)", "m.double(5)", "m.RESULT", "m.TABLE['-'](4, 1)"),
    ),
    Edit("operators: a partial's argument", OPS, "partial(add, 2)", "partial(add, 20)", ("m.double(1)",)),
    Edit(
        "operators: a partial of another function",
        OPS,
        "add = partial(apply, '+')",
        "add = partial(apply, '-')",
        ("m.add(3, 1)", "m.double(1)", "m.RESULT"),
    ),
    Edit("dispatch method: a body", SINGLE, "f'int:{value}'", "f'number:{value}'", ("m.formatter.format(3)", "m.OUT")),
    Edit(
        "dispatch method: a type more",
        SINGLE,
        "    @format.register(list)",
        "    @format.register\n    def _(self, value: str):\n        return 's' + value\n    @format.register(list)",
        ("m.formatter.format('a')", "m.formatter.format([1, 'b'])", "m.OUT"),
    ),
    Edit(
        "dispatch method: a type is another",
        SINGLE,
        "value: int",
        "value: float",
        ("m.formatter.format(3)", "m.formatter.format(3.0)", "m.OUT"),
    ),
    Edit(
        "dispatch method: a type less",
        SINGLE,
        "    @format.register\n    def _(self, value: int):\n        return f'int:{value}'\n",
        "",
        ("m.formatter.format(3)", "m.OUT"),
    ),
    Edit("dispatch method: the separator", SINGLE, "sep = ','", "sep = ';'", ("m.OUT", "m.formatter.sep")),
    Edit(
        "dispatch method: the general case",
        SINGLE,
        "return repr(value)",
        "return str(value)",
        ("m.OUT", "m.formatter.format('q')"),
    ),
    Edit(
        "generators: a yielded value",
        GENERATORS,
        "yield n * 2",
        "yield n * 3",
        ("m.FIRST", "m.CHUNKS", "list(m.numbers())"),
    ),
    Edit("generators: a default", GENERATORS, "limit=3", "limit=4", ("m.FIRST", "list(m.lazy)")),
    Edit(
        "generators: one that is suspended",
        GENERATORS,
        "yield n * 2",
        "yield n + 100",
        ("next(m.lazy, None)",),
        use="next(m.lazy)",
        expects="reported",
    ),
    Edit("generators: a size", GENERATORS, "size=2", "size=3", ("m.CHUNKS",)),
    Edit(
        "parsers: a kind more",
        REGISTRY_BASE,
        "@register('csv', 'tsv')",
        "@register('csv', 'tsv', 'psv')",
        ("sorted(m.PARSERS)", "m.ORDER", "n.SAMPLE"),
        {"n": REGISTRY_USE},
        edited="n",
    ),
    Edit(
        "parsers: a kind less",
        REGISTRY_BASE,
        "@register('csv', 'tsv')",
        "@register('csv')",
        ("sorted(m.PARSERS)", "m.ORDER"),
        {"n": REGISTRY_USE},
        edited="n",
    ),
    Edit(
        "parsers: the order",
        REGISTRY_BASE,
        "@register('json', first=True)",
        "@register('json')",
        ("sorted(m.PARSERS)", "m.ORDER"),
        {"n": REGISTRY_USE},
        edited="n",
    ),
    Edit(
        "parsers: a function is renamed",
        REGISTRY_BASE,
        "def parse_json",
        "def parse_object",
        ("m.ORDER", "m.parse('json', 'x')", "m.PARSERS['json'].__name__"),
        {"n": REGISTRY_USE},
        edited="n",
    ),
    Edit(
        "parsers: a function is deleted",
        REGISTRY_BASE,
        "@register('json', first=True)\ndef parse_json(text):\n    return 'json ' + text\n",
        "",
        ("m.ORDER", "sorted(m.PARSERS)"),
        {"n": REGISTRY_USE},
        edited="n",
    ),
    Edit(
        "parsers: a function more",
        REGISTRY_BASE,
        "SAMPLE =",
        "@register('xml')\ndef parse_xml(text):\n    return 'xml'\nSAMPLE =",
        ("m.ORDER", "m.parse('xml', '')"),
        {"n": REGISTRY_USE},
        edited="n",
    ),
    Edit(
        "parsers: how the decorator stores",
        REGISTRY_BASE,
        "PARSERS[kind] = function",
        "PARSERS[kind.upper()] = function",
        ("sorted(m.PARSERS)",),
        {"n": REGISTRY_USE.replace("SAMPLE = parse('csv', 'a,b')\n", "")},
    ),
    Edit(
        "parsers: a table with an entry",
        REGISTRY_BASE,
        "PARSERS = {}",
        "PARSERS = {'raw': str}",
        ("sorted(m.PARSERS)", "m.parse('raw', 'a')", "m.ORDER", "n.SAMPLE"),
        {"n": REGISTRY_USE},
    ),
    Edit(
        "parsers: what parse gives",
        REGISTRY_BASE,
        "return PARSERS[kind](text)",
        "return kind, PARSERS[kind](text)",
        ("n.SAMPLE", "n.parse('json', 'q')"),
        {"n": REGISTRY_USE},
    ),
    Edit(
        "middleware: the inner body",
        MIDDLEWARE,
        "return handler(request)\n    inner",
        "return 'in ' + handler(request)\n    inner",
        ("m.home('x')", "m.entry('y')"),
    ),
    Edit("middleware: a lambda's body", MIDDLEWARE, ".upper()", ".title()", ("m.home('x')", "m.entry('y')")),
    Edit(
        "middleware: a decorator less",
        MIDDLEWARE,
        "@upper\n@logged\ndef home",
        "@logged\ndef home",
        ("m.home('x')", "m.home.handler.__name__"),
    ),
    Edit(
        "middleware: the stack",
        MIDDLEWARE,
        "STACK = [upper, logged]",
        "STACK = [logged]",
        ("m.entry('y')", "[one.__name__ for one in m.build.__defaults__[0]]"),
    ),
    Edit(
        "middleware: how it is built",
        MIDDLEWARE,
        "for one in reversed(stack)",
        "for one in stack[:1]",
        ("m.entry('y')",),
    ),
    Edit(
        "middleware: a default of a context manager",
        MIDDLEWARE,
        "prefix='>'",
        "prefix='#'",
        ("m.home('x'), m.EVENTS[-1]",),
    ),
    Edit(
        "class decorators: a method more",
        METHODS,
        "@methods('get', 'put')",
        "@methods('get', 'put', 'delete')",
        ("m.Resource.names", "m.ITEM.delete()", "m.Special.extra", "m.ITEM.total"),
    ),
    Edit(
        "class decorators: a method less",
        METHODS,
        "@methods('get', 'put')",
        "@methods('get')",
        ("m.Resource.names", "hasattr(m.ITEM, 'put')", "m.Special.extra", "m.ITEM.total"),
    ),
    Edit(
        "class decorators: a made method's body",
        METHODS,
        "f'{type(self).__name__}.{name}'",
        "f'{name} of {type(self).__name__}'",
        ("m.ITEM.get()", "m.Resource().put()"),
    ),
    Edit("class decorators: a made property", METHODS, "len(self.names))", "len(self.names) * 10)", ("m.ITEM.total",)),
    Edit("class decorators: one less", METHODS, "@total\n", "", ("hasattr(m.ITEM, 'total')", "m.ITEM.get()")),
    Edit(
        "class decorators: an attribute in a table",
        METHODS,
        "kind = 'base'",
        "kind = 'root'",
        ("sorted(m.VIEWS)", "m.VIEWS['special'] is m.Special"),
    ),
    Edit("contexts: a default of a variable", CONTEXT, "'anonymous'", "'guest'", ("m.who()", "m.WHO")),
    Edit("contexts: an attribute of a thread's state", CONTEXT, "level = 1", "level = 5", ("m.state.level",)),
    Edit("contexts: a value of a local", CONTEXT, "local.depth = 0", "local.depth = 3", ("m.local.depth",)),
    Edit(
        "contexts: a method of a thread's state",
        CONTEXT,
        "self.level += 1",
        "self.level += 10",
        ("m.State.bump.__code__.co_consts",),
    ),
    Edit("contexts: another lock", CONTEXT, "threading.RLock()", "threading.Lock()", ("type(m.lock).__name__",)),
    Edit(
        "contexts: a name of a variable",
        CONTEXT,
        "ContextVar('current_user'",
        "ContextVar('user'",
        ("m.current_user.name", "m.who()"),
    ),
    Edit("logs: a level by a constant", LOGS, "logging.INFO", "logging.DEBUG", ("m.logger.level",)),
    Edit(
        "logs: a format",
        LOGS,
        "%(name)s %(message)s",
        "%(message)s",
        ("m.handler.formatter._fmt", "len(m.logger.handlers)"),
    ),
    Edit("logs: words of a filter", LOGS, "('secret',)", "('hidden',)", (f"m.handler.filter({RECORD}) and True",)),
    Edit("logs: a filter less", LOGS, "handler.addFilter(Redact())\n", "", ("len(m.logger.handlers[0].filters)",)),
    Edit(
        "logs: a handler more",
        LOGS,
        "logger.addHandler(handler)\n",
        "logger.addHandler(handler)\nlogger.addHandler(logging.NullHandler())\n",
        ("len(m.logger.handlers)",),
    ),
    Edit(
        "logs: a logger's name",
        LOGS,
        "'shop.edits'",
        "'shop.other'",
        ("m.logger.name", "len(m.logger.handlers)", "m.logger.level"),
    ),
    Edit("match: a case's body", MATCH, "3 * r * r", "4 * r * r", ("m.AREAS", "m.area(m.Circle(2))", "m.BIGGEST")),
    Edit("match: a limit of a guard", MATCH, "LIMIT = 10", "LIMIT = 100", ("m.AREAS", "m.BIGGEST")),
    Edit(
        "match: a case less",
        MATCH,
        "        case Square(side):\n            return side * side\n",
        "",
        ("m.AREAS", "m.area(m.Square(1))"),
    ),
    Edit("match: a shape more", MATCH, "5, 50]", "5, 50, [Circle(1), 2]]", ("m.AREAS", "len(m.SHAPES)")),
    Edit(
        "match: a class's field is renamed",
        MATCH,
        "class Square:\n    side",
        "class Square:\n    edge",
        ("m.AREAS", "m.SHAPES[1].edge"),
    ),
    Edit(
        "package: a name in the core",
        CORE,
        "NAME = 'core'",
        "NAME = 'kernel'",
        ("m.STARTED", "m.TEXT", "m.NAME", "m.pkg.NAME"),
        PKG,
        edited="pkg.core",
    ),
    Edit(
        "package: speeds",
        CORE,
        "SPEEDS = (1, 2)",
        "SPEEDS = (5, 6, 7)",
        ("m.STARTED", "m.TIMES", "m.Turbo.speed", "m.pkg.SPEEDS", "m.pkg.execute()"),
        PKG,
        edited="pkg.core",
    ),
    Edit(
        "package: a method",
        CORE,
        "f'{NAME} at {self.speed}'",
        "f'{NAME}: {self.speed}'",
        ("m.STARTED", "m.Turbo().start()", "m.engine.start()"),
        PKG,
        edited="pkg.core",
    ),
    Edit(
        "package: a function is added to the core",
        CORE,
        "def run(",
        "def stop():\n    return 'stopped'\ndef run(",
        ("hasattr(m.pkg, 'stop')",),
        PKG,
        edited="pkg.core",
    ),
    Edit(
        "package: a private name in the core",
        CORE,
        "SPEEDS = (1, 2)",
        "SPEEDS = (1, 2)\n_hidden = 1\n__all__ = ['Engine', 'run', 'SPEEDS', 'NAME']",
        ("hasattr(m.pkg, '_hidden')", "m.pkg.NAME"),
        PKG,
        edited="pkg.core",
    ),
    Edit(
        "bus: a body that is referred to weakly",
        EVENTBUS,
        "'weak'",
        "'faint'",
        ("m.bus.fire('x')",),
        {"n": LISTEN},
        edited="n",
    ),
    Edit(
        "bus: a constant in a listener",
        EVENTBUS,
        "COUNT = 1",
        "COUNT = 2",
        ("m.bus.fire('stop')",),
        {"n": LISTEN},
        edited="n",
    ),
    Edit(
        "bus: a listener's events",
        EVENTBUS,
        "@bus.on('start', 'stop')",
        "@bus.on('stop')",
        ("m.bus.fire('start')", "m.bus.fire('stop')"),
        {"n": LISTEN},
        edited="n",
    ),
    Edit(
        "bus: a weak listener is deleted",
        EVENTBUS,
        "@bus.weak\ndef weakly():\n    return 'weak'\n",
        "",
        ("m.bus.fire('x')",),
        {"n": LISTEN},
        edited="n",
    ),
    Edit(
        "bus: a weak listener is renamed",
        EVENTBUS,
        "def weakly",
        "def faintly",
        ("m.bus.fire('x')", "len([1 for r in m.bus.refs if r()])"),
        {"n": LISTEN},
        edited="n",
    ),
    Edit(
        "bus: a bound method that is registered",
        EVENTBUS,
        "return self.name\n",
        "return self.name.upper()\n",
        ("m.bus.fire('start')",),
        {"n": LISTEN},
        edited="n",
    ),
    Edit(
        "bus: an instance of another event",
        EVENTBUS,
        "Listener('start')",
        "Listener('stop')",
        ("m.bus.fire('start')", "m.bus.fire('stop')"),
        {"n": LISTEN},
        edited="n",
    ),
    Edit(
        "bus: what fire gives",
        EVENTBUS,
        "[one() for one in self.strong.get(name, [])]",
        "[name] + [one() for one in self.strong.get(name, [])]",
        ("m.bus.fire('start')",),
        {"n": LISTEN},
    ),
    Edit(
        "bus: its constructor",
        EVENTBUS,
        "self.strong = {}",
        "self.strong = {'boot': [lambda: 'b']}",
        ("m.bus.fire('boot')", "m.bus.fire('start')"),
        {"n": LISTEN},
    ),
    Edit(
        "stores: a template method",
        PROTO,
        "f'{self.prefix}:{self.get(key)}'",
        "f'{self.prefix}={self.get(key)}'",
        ("n.VALUE", "n.store.fetch('a')"),
        {"n": PROTO_USE},
    ),
    Edit(
        "stores: a prefix of the base",
        PROTO,
        "prefix = 'store'",
        "prefix = 'shop'",
        ("n.VALUE", "n.FIRST.fetch('a')", "n.Quiet().fetch('q')"),
        {"n": PROTO_USE},
    ),
    Edit(
        "stores: an abstract method more",
        PROTO,
        "    def fetch(self",
        "    @abstractmethod\n    def put(self, key): ...\n    def fetch(self",
        ("n.Quiet()",),
        {
            "n": PROTO_USE.replace(
                "FIRST = Memory({'a': 1})\nstore = Layered(FIRST, Memory({'b': 2}))\nVALUE = store.fetch('b')\n", ""
            )
        },
    ),
    Edit(
        "stores: an abstract method that is implemented",
        PROTO,
        "    def get(self, key):\n        return self.data.get(key)\n",
        "    def get(self, key):\n        return self.data.get(key, 'default')\n",
        ("n.VALUE", "n.Quiet().get('x')", "n.FIRST.get('zz')"),
        {"n": PROTO_USE},
    ),
    Edit(
        "stores: layers are another base's",
        PROTO,
        "class Layered(Memory)",
        "class Layered(Store)",
        ("n.VALUE", "m.Layered.__mro__[1].__name__"),
        {"n": PROTO_USE},
        more=(("m", "        super().__init__()\n", ""),),
    ),
    Edit(
        "stores: a constructor's attribute is renamed",
        PROTO,
        "self.data = data or {}",
        "self.data = dict(data or {}, z=26)",
        ("n.store.fetch('z')", "n.FIRST.get('z')"),
        {"n": PROTO_USE},
    ),
    Edit(
        "stores: an argument of an instance",
        PROTO,
        "Memory({'b': 2})",
        "Memory({'b': 22})",
        ("n.VALUE", "n.store.get('b')"),
        {"n": PROTO_USE},
        edited="n",
    ),
    Edit(
        "typing: a default of a named tuple",
        TYPED,
        "size: int = 1\n    @",
        "size: int = 9\n    @",
        ("m.ROWS", "m.LABELS", "m.Row('q')"),
    ),
    Edit(
        "typing: a field of a named tuple",
        TYPED,
        "size: int = 1\n    @",
        "size: int = 1\n    unit: str = 'cm'\n    @",
        ("m.ROWS", "m.FIELDS", "m.Row('q').unit"),
    ),
    Edit(
        "typing: a property of a named tuple",
        TYPED,
        "{self.name}/{self.size}",
        "{self.name}-{self.size}",
        ("m.LABELS", "m.ROWS[0].label"),
    ),
    Edit(
        "typing: a key of a typed dict",
        TYPED,
        "    width: int\n",
        "    width: int\n    height: int\n",
        ("m.KEYS", "sorted(m.Options.__optional_keys__)"),
    ),
    Edit(
        "typing: a total typed dict",
        TYPED,
        "TypedDict, total=False",
        "TypedDict",
        ("sorted(m.Options.__required_keys__)", "m.KEYS"),
    ),
    Edit(
        "typing: a protocol's method",
        TYPED,
        "def grow(self, by: int) -> int: ...",
        "def grow(self, by: int) -> int: ...\n    def shrink(self): ...",
        ("m.IS", "isinstance(m.Plant(), m.Sized2)"),
    ),
    Edit(
        "typing: a class gets the protocol's method less",
        TYPED,
        "    def grow(self, by):\n        return self.size + by\n",
        "    pass\n",
        ("m.IS", "isinstance(m.Plant(), m.Sized2)"),
    ),
    Edit(
        "typing: an annotation of keywords",
        TYPED,
        "**given: Options",
        "**given: Row",
        ("m.options.__annotations__['given'].__name__",),
    ),
    Edit(
        "slots: a slot more",
        SLOTTED,
        "('a', 'b')",
        "('a', 'b', 'c')",
        ("m.Tracked(1).__slots__", "hasattr(m.ONE, 'c')", "m.BOTH"),
    ),
    Edit("slots: a default", SLOTTED, "b=2", "b=7", ("m.BOTH", "m.ONE.both()")),
    Edit("slots: a method", SLOTTED, "return (self.a, self.b)", "return [self.a, self.b]", ("m.BOTH", "m.ONE.both()")),
    Edit(
        "slots: an argument",
        SLOTTED,
        "Tracked(2, b=3)",
        "Tracked(2, b=4)",
        ("m.BOTH", "m.TWO.both()", "m.PAIR[m.TWO]", "m.Tracked.count"),
    ),
    Edit("async: a body", ASYNC, "n * 10", "n * 100", ("m.RESULT", "m.asyncio.run(m.fetch(2))")),
    Edit("async: a timeout", ASYNC, "timeout = 5", "timeout = 6", ("m.RESULT", "m.session.timeout")),
    Edit("async: a stream's body", ASYNC, "yield await fetch(n)", "yield await fetch(n + 1)", ("m.RESULT",)),
    Edit("async: main", ASYNC, "stream(3)", "stream(2)", ("m.RESULT",)),
    Edit("async: a default", ASYNC, "DELAY = 0", "DELAY = 0.001", ("m.fetch.__defaults__",)),
    Edit(
        "errors: a code",
        ERRORS,
        "code = 404",
        "code = 444",
        ("sorted(m.BY_CODE)", "m.DEFAULT.as_dict()", "n.CAUGHT"),
        {"n": ERRORS_USE},
    ),
    Edit(
        "errors: a default message",
        ERRORS,
        "message='failed'",
        "message='broken'",
        ("n.CAUGHT", "str(m.Conflict())"),
        {"n": ERRORS_USE},
    ),
    Edit(
        "errors: a handler's lambda",
        ERRORS,
        "'missing'",
        "'absent'",
        ("n.TEXT", "m.handle(m.NotFound())"),
        {"n": ERRORS_USE},
    ),
    Edit(
        "errors: the base of one",
        ERRORS,
        "class NotFound(AppError)",
        "class NotFound(AppError, LookupError)",
        ("issubclass(n.Gone, LookupError)", "isinstance(m.DEFAULT, LookupError)", "sorted(m.BY_CODE)", "n.TEXT"),
        {"n": ERRORS_USE},
    ),
    Edit(
        "errors: one more",
        ERRORS,
        "BY_CODE =",
        "class Teapot(AppError):\n    code = 418\nBY_CODE =",
        ("sorted(m.BY_CODE)", "m.BY_CODE[418].__name__", "len(n.BY_CODE)"),
        {"n": ERRORS_USE},
    ),
    Edit(
        "errors: the order of handlers",
        ERRORS,
        "[(NotFound, lambda e: 'missing'), (AppError, lambda e: 'error %d' % e.code)]",
        "[(AppError, lambda e: 'error %d' % e.code), (NotFound, lambda e: 'missing')]",
        ("n.TEXT", "m.handle(m.Conflict())"),
        {"n": ERRORS_USE},
    ),
    Edit(
        "errors: what as_dict gives",
        ERRORS,
        "'message': str(self)",
        "'text': str(self)",
        ("n.CAUGHT", "m.DEFAULT.as_dict()"),
        {"n": ERRORS_USE},
    ),
    Edit(
        "errors: the raising function",
        ERRORS,
        "raise NotFound(key=key)",
        "raise AppError('other', key=key)",
        ("n.CAUGHT",),
        {"n": ERRORS_USE},
        edited="n",
    ),
    Edit(
        "enums: a member more",
        ENUMS,
        "    GREEN = auto()\n",
        "    GREEN = auto()\n    BLUE = auto()\n",
        ("sorted(m.PALETTE.values())", "n.pick('BLUE')", "len(n.PALETTE)"),
        {"n": ENUMS_USE},
    ),
    Edit(
        "enums: a method",
        ENUMS,
        "self.name.lower()",
        "'#' + self.name",
        ("sorted(m.PALETTE.values())", "n.PAINTED", "n.pick('RED')", "m.paint()"),
        {"n": ENUMS_USE},
    ),
    Edit(
        "enums: a value", ENUMS, "HIGH = 10", "HIGH = 20", ("m.TOP.value", "n.PAINTED", "m.Level(20)"), {"n": ENUMS_USE}
    ),
    Edit(
        "enums: a composite flag",
        ENUMS,
        "RW = R | W",
        "RW = W\n    X = auto()",
        ("m.WRITERS", "m.Perm.X.value", "m.Perm.RW.value"),
        {"n": ENUMS_USE},
    ),
    Edit(
        "enums: a member is renamed",
        ENUMS,
        "    GREEN = auto()",
        "    LIME = auto()",
        ("[one.name for one in m.Color]", "m.paint()", "n.pick('x')", "sorted(n.THEME.values())"),
        {"n": ENUMS_USE},
        more=(
            ("m", "color=Color.GREEN", "color=Color.LIME"),
            ("n", "Color.GREEN: 'ok'", "Color.LIME: 'ok'"),
            ("n", "fallback=Color.GREEN", "fallback=Color.LIME"),
        ),
    ),
    Edit(
        "enums: members change places",
        ENUMS,
        "    RED = auto()\n    GREEN = auto()\n",
        "    GREEN = auto()\n    RED = auto()\n",
        ("[(one.name, one.value) for one in m.Color]", "list(m.PALETTE.values())", "m.DEFAULT.value"),
        {"n": ENUMS_USE},
    ),
    Edit(
        "enums: a default of a parameter",
        ENUMS,
        "color=Color.GREEN",
        "color=Color.RED",
        ("m.paint()",),
        {"n": ENUMS_USE},
    ),
    Edit(
        "enums: a default at the module",
        ENUMS,
        "DEFAULT = Color.RED",
        "DEFAULT = Color.GREEN",
        ("m.DEFAULT.name",),
        {"n": ENUMS_USE},
    ),
    Edit(
        "data: a rate",
        DATA,
        "TAX = 0.1",
        "TAX = 0.2",
        ("m.TOTALS", "m.Line('x', m.Money(1)).total", "m.CART.lines[0].total"),
    ),
    Edit(
        "data: a default factory's function",
        DATA,
        "return 'id'",
        "return 'ID'",
        ("m.AS['lines'][0]['id']", "m.Line('q').id"),
    ),
    Edit(
        "data: a field more",
        DATA,
        "    count: int = 1\n",
        "    count: int = 1\n    note: str = ''\n",
        ("sorted(m.AS['lines'][0])", "m.Line('q').note"),
    ),
    Edit("data: a currency", DATA, "'EUR'", "'CHF'", ("m.AS['lines'][1]['price']", "m.CART.sum().currency")),
    Edit("data: __post_init__", DATA, "(1 + rate), 2)", "(1 + rate), 0)", ("m.TOTALS", "m.CART.lines[0].total")),
    Edit(
        "data: a class variable",
        DATA,
        "ClassVar[str] = 'line'",
        "ClassVar[str] = 'row'",
        ("m.Line.kind", "m.CART.lines[0].kind"),
    ),
    Edit(
        "data: frozen",
        DATA,
        "@dataclass\nclass Money",
        "@dataclass(frozen=True)\nclass Money",
        ("m.Money.__dataclass_params__.frozen", "hash(m.Money()) and 1", "m.CART.sum().amount"),
    ),
    Edit(
        "data: an operator", DATA, "self.amount + other.amount", "self.amount - other.amount", ("m.CART.sum().amount",)
    ),
    Edit(
        "data: an argument at import", DATA, "Money(2.0), 3", "Money(2.0), 4", ("m.TOTALS", "m.AS['lines'][0]['count']")
    ),
    Edit("caches: a rate", CACHED, "'USD': 1.1", "'USD': 1.2", ("m.rate('USD')", "m.table()"), use="m.table()"),
    Edit(
        "caches: a memoised body",
        CACHED,
        "return n * n",
        "return n ** 3",
        ("m.square(2)", "m.SQUARES"),
        use="m.square(2)",
    ),
    Edit(
        "caches: a helper's own memo",
        CACHED,
        "store[args] = function(*args)",
        "store[args] = -function(*args)",
        ("m.square(2)", "m.SQUARES"),
    ),
    Edit(
        "caches: a cached property's scale", CACHED, "scale = 2", "scale = 3", ("m.REPORT.value",), use="m.REPORT.value"
    ),
    Edit("caches: a cached property's scale, unused", CACHED, "scale = 2", "scale = 3", ("m.REPORT.value",)),
    Edit(
        "caches: a cache's size",
        CACHED,
        "maxsize=32",
        "maxsize=2",
        ("m.rate.cache_parameters()['maxsize']", "m.rate('EUR')"),
        use="m.rate('EUR')",
    ),
    Edit("trees: a path", TREE, "'/' if", "'.' if", ("m.PATHS", "m.LEAF.path()")),
    Edit(
        "trees: a leaf's name",
        TREE,
        "Node('leaf')",
        "Node('twig')",
        ("m.PATHS", "sorted(m.INDEX)", "m.LEAF.path()", "m.INDEX['twig'] is m.LEAF"),
    ),
    Edit(
        "trees: a child more",
        TREE,
        "Node('b'))",
        "Node('b'), Node('c'))",
        ("m.PATHS", "sorted(m.INDEX)", "m.LEAF.path()"),
    ),
    Edit(
        "trees: what the constructor sets",
        TREE,
        "self.name = name",
        "self.name = name.upper()",
        ("m.PATHS", "sorted(m.INDEX)"),
    ),
    Edit(
        "trees: the order of a walk",
        TREE,
        "        yield self\n        for one in self.children:\n            yield from one.walk()\n",
        "        for one in self.children:\n            yield from one.walk()\n        yield self\n",
        ("m.PATHS", "list(m.INDEX)"),
    ),
    Edit(
        "strings: a version",
        STRINGS,
        "(1, 2, 0)",
        "(1, 3, 0)",
        ("m.BANNER", "m.USER_AGENT", "sorted(m.WORDS)", "m.VERSION_TEXT"),
    ),
    Edit("strings: a pattern", STRINGS, "[^a-z]+", "[^a-z0-9]+", ("m.slug('a 1')", "m.USER_AGENT")),
    Edit("strings: a template", STRINGS, "$name: $value", "$name=$value", ("m.line('a', 1)",)),
    Edit(
        "strings: a bound method of a text",
        STRINGS,
        "'Hello {}'",
        "'Hi {}'",
        ("m.format_hello('x')", "m.MESSAGES['hello']"),
    ),
    Edit("strings: a separator", STRINGS, "sep='-'", "sep='_'", ("m.slug('a b')", "m.USER_AGENT")),
    Edit("strings: a banner's text", STRINGS, "ready''", "steady''", ("m.BANNER", "sorted(m.WORDS)")),
    Edit("patches: the patched method's body", MONKEY, "'real '", "'true '", ("n.service.call()",), {"n": MONKEY_USE}),
    Edit(
        "patches: the patch's body",
        MONKEY,
        "'patched '",
        "'fixed '",
        ("n.service.call()",),
        {"n": MONKEY_USE},
        edited="n",
    ),
    Edit(
        "patches: the patch is removed",
        MONKEY,
        "Service.call = patched\n",
        "",
        ("n.service.call()",),
        {"n": MONKEY_USE},
        edited="n",
    ),
    Edit(
        "patches: an installed method's name",
        MONKEY,
        "install(Service, 'stop')",
        "install(Service, 'halt')",
        ("hasattr(n.service, 'stop')", "n.service.halt()"),
        {"n": MONKEY_USE},
        edited="n",
    ),
    Edit(
        "patches: the host",
        MONKEY,
        "host = 'a'",
        "host = 'b'",
        ("n.service.call()", "n.service.stop()"),
        {"n": MONKEY_USE},
    ),
    Edit(
        "circular: a name",
        CIRCULAR_A,
        "NAME = 'a'",
        "NAME = 'A'",
        ("m.describe()", "m.Parent().child().kind()"),
        {"n": CIRCULAR_B},
    ),
    Edit(
        "circular: a suffix",
        CIRCULAR_A,
        "SUFFIX = '-b'",
        "SUFFIX = '-B'",
        ("m.describe()", "m.Parent().child().kind()"),
        {"n": CIRCULAR_B},
        edited="n",
    ),
    Edit(
        "circular: a constructor",
        CIRCULAR_A,
        "self.parent = parent",
        "self.parent = parent or m.Parent()",
        ("n.Child().kind()",),
        {"n": CIRCULAR_B},
        edited="n",
    ),
    Edit("proxies: what is made", PROXY, "config.port = 80", "config.port = 81", ("m.make().port",)),
    Edit(
        "proxies: what was made",
        PROXY,
        "config.port = 80",
        "config.port = 81",
        ("m.config.port",),
        use="m.config.port",
        expects="invisible",
    ),
    Edit("proxies: a mode", PROXY, "mode = 'dev'", "mode = 'prod'", ("m.config.text()",), use="m.config.text()"),
    Edit(
        "proxies: an item of a dictionary's class",
        PROXY,
        "Attrs(a=1, b=2)",
        "Attrs(a=1, b=3)",
        ("m.attrs.b", "m.attrs.zz"),
    ),
    Edit("proxies: a special method of a dictionary's class", PROXY, "key + '?'", "key + '!'", ("m.attrs.zz",)),
    Edit(
        "hooks of classes: sides",
        HOOKED,
        "class Tri(Shape, sides=3)",
        "class Tri(Shape, sides=33)",
        ("m.SIDES", "m.Tri.sides", "m.Box.sides"),
    ),
    Edit(
        "hooks of classes: own fields",
        HOOKED,
        "own = ('y',)",
        "own = ('y', 'yy')",
        ("m.LENGTHS", "m.Tri.fields", "len(m.Tri)"),
    ),
    Edit(
        "hooks of classes: fields of the base",
        HOOKED,
        "fields = ('x',)",
        "fields = ('x', 'xx')",
        ("m.LENGTHS", "m.Tri.fields", "m.Box.fields"),
    ),
    Edit(
        "hooks of classes: a metaclass's length",
        HOOKED,
        "return len(cls.fields)",
        "return -(-len(cls.fields) * 2)",
        ("m.LENGTHS", "len(m.Box)"),
    ),
    Edit(
        "hooks of classes: a metaclass's property",
        HOOKED,
        "__name__.title()",
        "__name__.upper()",
        ("m.TITLE", "m.Box.title"),
    ),
    Edit("hooks of classes: __prepare__", HOOKED, "name.lower()", "name.upper()", ("m.SIDES", "m.Box.tag")),
    Edit(
        "hooks of classes: the hook itself",
        HOOKED,
        "cls.sides = sides",
        "cls.sides = sides * 10",
        ("m.SIDES", "m.Box.sides", "m.LENGTHS"),
    ),
    Edit(
        "descriptors: a default",
        DESCRIPTORS,
        "Field('Bern')",
        "Field('Basel')",
        ("m.ANN.city", "m.ANN.label", "m.Person.names", "m.Person.city.position"),
    ),
    Edit(
        "descriptors: a cast",
        DESCRIPTORS,
        "cast=int",
        "cast=float",
        ("m.ANN.age", "m.ANN.label", "m.Person.age.position"),
    ),
    Edit(
        "descriptors: a field more",
        DESCRIPTORS,
        "    @lazy\n",
        "    zip = Field('1')\n    @lazy\n",
        ("m.Person.names", "m.ANN.zip", "m.Person.zip.position, m.Person.age.position"),
    ),
    Edit(
        "descriptors: a field less",
        DESCRIPTORS,
        "    city = Field('Bern')\n    @lazy\n    def label(self):\n        return f'{self.city}-{self.age}'\n",
        "    @lazy\n    def label(self):\n        return f'{self.age}'\n",
        ("m.Person.names", "hasattr(m.ANN, 'city')", "m.ANN.label", "m.Person.age.position"),
    ),
    Edit(
        "descriptors: a lazy body",
        DESCRIPTORS,
        "{self.city}-{self.age}",
        "{self.age}-{self.city}",
        ("m.Person().label",),
    ),
    Edit(
        "descriptors: a lazy body that was used",
        DESCRIPTORS,
        "{self.city}-{self.age}",
        "{self.age}-{self.city}",
        ("m.ANN.label",),
        use="m.ANN.label",
        expects="invisible",
    ),
    Edit(
        "descriptors: __get__",
        DESCRIPTORS,
        "one.__dict__.get(self.name, self.default)",
        "(one.__dict__.get(self.name, self.default), 1)",
        ("m.ANN.age",),
    ),
    Edit(
        "loops: a pair more",
        LOOPS,
        "('large', 10)]",
        "('large', 10), ('huge', 100)]",
        ("m.SIZES", "m.SCALERS['huge'](2)", "m.scale_huge(3)", "m.TOTAL, m.REST, m.FIRST"),
    ),
    Edit(
        "loops: a pair less",
        LOOPS,
        "('small', 1), ",
        "('medium', 3), ",
        ("m.SIZES", "hasattr(m, 'scale_small')", "sorted(m.SCALERS)", "m.TOTAL"),
    ),
    Edit(
        "loops: a factor",
        LOOPS,
        "('large', 10)",
        "('large', 4)",
        ("m.SIZES", "m.scale_large(2)", "m.SCALERS['large'].__name__", "m.MODE"),
    ),
    Edit(
        "loops: a made function's body",
        LOOPS,
        "return x * factor",
        "return x + factor",
        ("m.scale_large(2)", "m.SCALERS['small'](2)"),
    ),
    Edit("loops: a threshold", LOOPS, "> 15", "> 25", ("m.MODE",)),
    Edit("loops: a fallback", LOOPS, "fallback = dict", "fallback = list", ("m.fallback", "m.HAS")),
    Edit(
        "loops: a doubled size",
        LOOPS,
        "factor * 2",
        "factor * 3",
        ("m.SIZES", "m.MODE", "m.TOTAL", "m.REST", "m.THIRD"),
    ),
    Edit(
        "merged settings: a host", OVERRIDES, "'host': 'a'", "'host': 'b'", ("m.BASE['db']", "m.HOST", "m.PROD['db']")
    ),
    Edit(
        "merged settings: a port",
        OVERRIDES,
        "'port': 1",
        "'port': 2",
        ("m.ENVS['dev']['db']", "m.ACTIVE['db']['port']", "m.ACTIVE is m.PROD"),
    ),
    Edit(
        "merged settings: an override", OVERRIDES, "'host': 'dev'", "'host': 'local'", ("m.HOST", "m.DEV['db']['host']")
    ),
    Edit(
        "merged settings: how it merges",
        OVERRIDES,
        "else value\n",
        "else [value]\n",
        ("m.PROD['tags']", "m.HOST", "m.PROD['debug']"),
    ),
    Edit("merged settings: the active one", OVERRIDES, "ENVS['prod']", "ENVS['dev']", ("m.HOST", "m.ACTIVE is m.DEV")),
    Edit("validators: a check's body", FLUENT, "n > 0", "n > -1000", ("m.FAILED", "m.number(-5)", "m.full(-5)")),
    Edit(
        "validators: a check more",
        FLUENT,
        "Validator([small])",
        "Validator([small, positive])",
        ("m.FAILED", "len(m.full.checks)"),
    ),
    Edit(
        "validators: a check of the first",
        FLUENT,
        "Validator().add(positive)",
        "Validator().add(small)",
        ("[c.__name__ for c in m.strict.checks]", "len(m.full.checks)", "m.FAILED"),
    ),
    Edit(
        "validators: an operator",
        FLUENT,
        "self.checks + other.checks",
        "other.checks + self.checks",
        ("[c.__name__ for c in m.full.checks]", "m.FAILED"),
    ),
    Edit(
        "validators: an added lambda", FLUENT, "n != 13", "n != -101", ("m.FAILED", "m.full(13)", "len(m.full.checks)")
    ),
    Edit(
        "validators: a check is renamed",
        FLUENT,
        "def even(n)",
        "def is_even(n)",
        ("m.FAILED", "m.strict(3)"),
        more=(("m", "number.add(even)", "number.add(is_even)"),),
    ),
]
# What a load of an edit gives, if it is not right.
ALL = with_expected(
    ALL,
    false=[
        "bus: a weak listener is deleted",
        "bus: a weak listener is renamed",
        "package: a method",
    ],
    invisible=[
        "proxies: what was made",
        "descriptors: a lazy body that was used",
    ],
    reported=[
        "generators: a default",
        "generators: one that is suspended",
        "contexts: a default of a variable",
        "logs: a filter less",
        "package: speeds",
        "bus: a listener's events",
        "bus: an instance of another event",
        "bus: its constructor",
        "slots: a default",
        "slots: an argument",
        "caches: a memoised body",
        "caches: a helper's own memo",
        "patches: the patch is removed",
        "patches: an installed method's name",
        "descriptors: a default",
        "descriptors: a cast",
        "descriptors: a field less",
    ],
)
