"""Edits that use features of the language and library: dispatch, descriptors, metaclasses, protocols, enumerations, imports."""

from edit_cases import edits_of, with_expected

DISPATCHERS = """\
import functools, collections.abc, decimal
ROUND = 2
WIDE = (list, tuple)
@functools.singledispatch
def render(value, *, width=ROUND):
    return f'? {value}'
@render.register
def render_number(value: float, *, width=ROUND):
    return f'{value:.{width}f}'
@render.register(collections.abc.Mapping)
def render_mapping(value, **given):
    return {key: render(one, **given) for key, one in value.items()}
for kind in WIDE:
    render.register(kind)(lambda value, **given: kind_name(value) + str(len(value)))
def kind_name(value):
    return type(value).__name__
render.register(decimal.Decimal, lambda value, **given: 'D' + str(value))
shorten = functools.partial(render, width=1)
class Money:
    scale = 100
    def __init__(self, cents):
        self.cents = cents
    @functools.cached_property
    def whole(self):
        return self.cents // self.scale
    def add(self, n, times=1):
        return self.cents + n * times
    twice = functools.partialmethod(add, times=2)
    @functools.singledispatchmethod
    @classmethod
    def parse(cls, value):
        return cls(int(value))
    @parse.register
    @classmethod
    def _(cls, value: str):
        return cls(int(value[1:]))
@functools.lru_cache(maxsize=ROUND * 8)
def price(n):
    return Money(n).add(1)
compare = functools.cmp_to_key(lambda one, two: two - one)
ORDERED = sorted([1, 3, 2], key=compare)
SUM = functools.reduce(lambda one, two: one * ROUND + two, [1, 2, 3])
"""
DISPATCHED = (
    "m.render(1.23456)",
    "m.render({'a': 2.5})",
    "m.render([1])",
    "m.render(m.decimal.Decimal(1))",
    "m.shorten(1.5)",
)
RECORDS = """\
import dataclasses, copy
from dataclasses import dataclass, field, InitVar, KW_ONLY
from typing import ClassVar, NamedTuple, TypedDict
LIMIT = 5
def tags():
    return ['new']
@dataclass(order=True)
class Point:
    x: int = 0
    y: int = field(default=LIMIT, compare=False)
    names: list = field(default_factory=tags, repr=False)
    count: ClassVar[int] = LIMIT
    def norm(self):
        return abs(self.x) + abs(self.y)
@dataclass(frozen=True, slots=True)
class Segment:
    start: Point
    _: KW_ONLY
    scale: int = LIMIT * 2
    length: int = field(init=False)
    factor: InitVar[int] = 1
    def __post_init__(self, factor):
        object.__setattr__(self, 'length', self.start.norm() * factor * self.scale)
@dataclass
class Named(Point):
    label: str = 'p'
    def __post_init__(self):
        self.label = self.label.upper()
class Pair(NamedTuple):
    one: int
    two: int = LIMIT
    @property
    def total(self):
        return self.one + self.two
class Options(TypedDict, total=False):
    depth: int
    name: str
Made = dataclasses.make_dataclass('Made', [('a', int), ('b', int, field(default=LIMIT))])
FIELDS = [one.name for one in dataclasses.fields(Named)]
DEFAULT = Segment(Point(1))
moved = dataclasses.replace(Point(1, 2), x=9)
AS_DICT = dataclasses.asdict(Named(3))
PAIR = Pair(1)._replace(two=7)
"""
ENUMS = """\
import enum
BASE = 10
class Level(enum.IntEnum):
    LOW = BASE
    HIGH = BASE * 2
    @classmethod
    def _missing_(cls, value):
        return cls.LOW
    @property
    def label(self):
        return self.name.lower()
class Perm(enum.Flag):
    R = enum.auto()
    W = enum.auto()
    RW = R | W
class Planet(enum.Enum):
    EARTH = (5, 6)
    MARS = (6, 3)
    def __init__(self, mass, radius):
        self.mass, self.radius = mass, radius
    @property
    def gravity(self):
        return self.mass / self.radius
@enum.unique
class Kind(str, enum.Enum):
    A = 'a'
    B = 'b'
    def __str__(self):
        return 'kind ' + self.value
Shape = enum.Enum('Shape', 'ROUND SQUARE')
class Ordered(enum.Enum):
    def __lt__(self, other):
        return self.value < other.value
class Size(Ordered):
    S = 1
    L = 2
DEFAULT = Level.LOW
NAMES = {one.name: one.value for one in Level}
MASKS = {Perm.R: 'read', Perm.W: 'write'}
LABELS = [one.label for one in Level]
def allowed(perm=Perm.RW):
    return Perm.R in perm
BIGGEST = max(Size)
"""
METAS = """\
class Tracked(type):
    suffix = '!'
    def __new__(mcls, name, bases, space, **given):
        space['tag'] = name.lower() + mcls.suffix
        return super().__new__(mcls, name, bases, space)
    def __init__(cls, name, bases, space, group='none'):
        super().__init__(name, bases, space)
        cls.group = group
    def __call__(cls, *given):
        made = super().__call__(*given)
        made.stamp = cls.group
        return made
    def __len__(cls):
        return len(cls.group)
    def __getattr__(cls, name):
        if name.startswith('get_'):
            return name[4:]
        raise AttributeError(name)
class Model(metaclass=Tracked, group='base'):
    def __init__(self, n=1):
        self.n = n
class User(Model, group='users'):
    limit = 3
    def describe(self):
        return f'{self.tag} {self.stamp} {self.n}'
class Plugin:
    registry = {}
    default = 'x'
    def __init_subclass__(cls, /, key=None, **given):
        super().__init_subclass__(**given)
        cls.key = key or cls.__name__.lower()
        Plugin.registry[cls.key] = cls
class Csv(Plugin, key='csv'):
    def run(self):
        return 'csv ' + self.default
class Json(Plugin):
    def run(self):
        return 'json ' + self.default
class Meta(type):
    @classmethod
    def __prepare__(mcls, name, bases):
        return {'prepared': name}
    def __iter__(cls):
        return iter(sorted(one for one in vars(cls) if one[0] != '_'))
class Colors(metaclass=Meta):
    red = 1
    blue = 2
KEYS = sorted(Plugin.registry)
OUT = [Plugin.registry[key]().run() for key in KEYS]
user = User(2)
"""
DESCRIPTORS = """\
import weakref
SCALE = 2
class Field:
    kind = object
    def __init__(self, default=None, *, check=None):
        self.default, self.check = default, check
    def __set_name__(self, owner, name):
        self.name = name
        owner.fields = [*getattr(owner, 'fields', []), name]
    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        return instance.__dict__.get(self.name, self.default)
    def __set__(self, instance, value):
        if self.check and not self.check(value):
            raise ValueError(self.name)
        instance.__dict__[self.name] = value
class Number(Field):
    def __set__(self, instance, value):
        super().__set__(instance, value * SCALE)
def positive(value):
    return value > 0
class Order:
    amount = Number(1, check=positive)
    note = Field('none')
    state = 'new'
    def __init__(self, **given):
        for name, value in given.items():
            setattr(self, name, value)
class lazy:
    def __init__(self, make):
        self.make = make
    def __set_name__(self, owner, name):
        self.name = '_' + name
    def __get__(self, instance, owner):
        if self.name not in instance.__dict__:
            instance.__dict__[self.name] = self.make(instance)
        return instance.__dict__[self.name]
class Report:
    def __init__(self, order):
        self.order = order
    @lazy
    def total(self):
        return self.order.amount * 10
class Counter:
    def __init__(self):
        self.seen = weakref.WeakKeyDictionary()
    def __get__(self, instance, owner):
        return len(self.seen) if instance is None else self.seen.setdefault(instance, SCALE)
class Used:
    hits = Counter()
order = Order(amount=4)
TOTAL = Report(order).total
NAMES = list(Order.fields)
"""
PROTOCOLS = """\
import abc, typing
from typing import Protocol, runtime_checkable, Generic, TypeVar
T = TypeVar('T')
@runtime_checkable
class Closes(Protocol):
    def close(self): ...
@runtime_checkable
class Reads(Closes, Protocol):
    size: int
    def read(self): ...
class File:
    size = 3
    def close(self):
        return 'closed'
    def read(self):
        return 'data'
class Half:
    def close(self):
        return 'half'
class Shape(abc.ABC):
    sides = 0
    @property
    @abc.abstractmethod
    def area(self): ...
    @abc.abstractmethod
    def name(self): ...
    @classmethod
    def __subclasshook__(cls, other):
        return True if cls is Shape and hasattr(other, 'draws') else NotImplemented
class Square(Shape):
    sides = 4
    @property
    def area(self):
        return 4
    def name(self):
        return 'square'
class Drawing:
    draws = True
class Foreign:
    pass
Shape.register(Foreign)
class Box(Generic[T]):
    def __init__(self, value: T):
        self.value = value
class IntBox(Box[int]):
    def double(self):
        return self.value * 2
CLOSERS = [kind.__name__ for kind in (File, Half, Drawing) if isinstance(kind(), Closes)]
SHAPES = [kind.__name__ for kind in (Square, Drawing, Foreign, Half) if issubclass(kind, Shape)]
def close_all(*things: Closes):
    return [one.close() for one in things]
CLOSED = close_all(File(), Half())
"""
CHECKED = (
    "isinstance(m.File(), m.Closes)",
    "isinstance(m.Half(), m.Closes)",
    "isinstance(m.File(), m.Reads)",
    "isinstance(m.Half(), m.Reads)",
    "m.CLOSERS",
)
GENERATORS = """\
import asyncio, contextlib, itertools
STEP = 2
def count(start=0, step=STEP):
    while True:
        received = yield start
        start = start + step if received is None else received
def take(n, source):
    return list(itertools.islice(source, n))
def flat(*parts):
    for part in parts:
        yield from part
    return STEP
async def fetch(key, delay=0):
    await asyncio.sleep(delay)
    return key * STEP
async def numbers(limit=STEP + 1):
    for one in range(limit):
        yield one
@contextlib.asynccontextmanager
async def session(name='main'):
    log.append('open ' + name)
    yield name.upper()
    log.append('close')
async def gather(*keys):
    async with session() as name:
        return name, await asyncio.gather(*(fetch(key) for key in keys)), [one async for one in numbers()]
class Stream:
    chunk = STEP
    def __init__(self, *items):
        self.items = items
    def __aiter__(self):
        self.position = 0
        return self
    async def __anext__(self):
        if self.position >= len(self.items):
            raise StopAsyncIteration
        found = self.items[self.position:self.position + self.chunk]
        self.position += self.chunk
        return found
    def __iter__(self):
        yield from self.items[::self.chunk]
async def drain(stream):
    return [one async for one in stream]
log = []
FIRST = take(3, count())
EVENS = tuple(flat(take(2, count(0)), take(2, count(10))))
GATHERED = asyncio.run(gather(1, 2))
DRAINED = asyncio.run(drain(Stream(1, 2, 3)))
"""
MATCHES = """\
from dataclasses import dataclass
MODE = 'fast'
LIMITS = {'fast': 1, 'slow': 5}
class Codes:
    OK = 200
    GONE = 410
@dataclass
class Click:
    x: int
    y: int
class Key:
    __match_args__ = ('name', 'shift')
    def __init__(self, name, shift=False):
        self.name, self.shift = name, shift
def handle(event):
    match event:
        case Click(0, 0):
            return 'origin'
        case Click(x=x, y=y) if x == y:
            return f'diagonal {x}'
        case Key('q', True) | {'quit': True}:
            return 'quit'
        case Key(name):
            return 'key ' + name
        case [first, *rest]:
            return first, len(rest)
        case Codes.OK | Codes.GONE as code:
            return 'code', code
        case str() as text:
            return text.upper()
        case _:
            return None
match MODE:
    case 'fast':
        WORKERS = 8
        def schedule(n):
            return n * WORKERS
    case 'slow' | 'lazy':
        WORKERS = 1
        def schedule(n):
            return n
    case _:
        WORKERS = 0
LIMIT = LIMITS[MODE]
match LIMIT, WORKERS:
    case (1, count):
        TOTAL = count
    case (other, count):
        TOTAL = other * count
SEEN = [handle(one) for one in (Click(0, 0), Click(2, 2), Key('a'), [1, 2], 200, 'x')]
"""
HANDLED = (
    "m.handle(m.Click(0, 0))",
    "m.handle(m.Click(3, 3))",
    "m.handle(m.Key('q', True))",
    "m.handle(m.Key('z'))",
    "m.handle([1, 2, 3])",
    "m.handle(410)",
    "m.SEEN",
)
LOGS = """\
import logging, logging.config, io, contextvars
stream = io.StringIO()
user = contextvars.ContextVar('user', default='nobody')
LEVEL = 'INFO'
FORMAT = '%(levelname)s %(name)s %(message)s'
class UserFilter(logging.Filter):
    prefix = '@'
    def filter(self, record):
        record.msg = f'{self.prefix}{user.get()} {record.msg}'
        return True
class Lines(logging.Handler):
    lines = []
    def emit(self, record):
        self.lines.append(self.format(record))
CONFIG = {
    'version': 1, 'disable_existing_loggers': False,
    'formatters': {'plain': {'format': FORMAT}},
    'filters': {'user': {'()': UserFilter}},
    'handlers': {'lines': {'()': Lines, 'formatter': 'plain', 'filters': ['user']}},
    'loggers': {'shop': {'handlers': ['lines'], 'level': LEVEL, 'propagate': False}},
}
logging.config.dictConfig(CONFIG)
log = logging.getLogger('shop')
audit = log.getChild('audit')
audit.setLevel(logging.WARNING)
handler = logging.StreamHandler(stream)
handler.setFormatter(logging.Formatter('%(message)s'))
audit.addHandler(handler)
def say(text, level=logging.INFO):
    Lines.lines.clear()
    log.log(level, text)
    return list(Lines.lines)
token = user.set('ann')
NAME = user.get()
user.reset(token)
"""
ARGUMENTS = """\
import argparse, re
FORMATS = ['text', 'json']
DEFAULT_LIMIT = 5
def size(text):
    found = re.fullmatch(r'(\\d+)(k?)', text)
    return int(found[1]) * (1000 if found[2] else 1)
common = argparse.ArgumentParser(add_help=False)
common.add_argument('--verbose', action='count', default=0)
parser = argparse.ArgumentParser(prog='shop', parents=[common], description='A shop')
parser.add_argument('--format', choices=FORMATS, default=FORMATS[0])
group = parser.add_mutually_exclusive_group()
group.add_argument('--limit', type=size, default=DEFAULT_LIMIT)
group.add_argument('--all', action='store_const', const=0, dest='limit')
commands = parser.add_subparsers(dest='command')
def run(given):
    return 'run', given.limit, given.verbose
def show(given):
    return 'show', given.key
running = commands.add_parser('run', parents=[common])
running.set_defaults(func=run)
showing = commands.add_parser('show')
showing.add_argument('key', nargs='?', default='all')
showing.set_defaults(func=show)
class Upper(argparse.Action):
    def __call__(self, parser, space, values, option=None):
        setattr(space, self.dest, values.upper())
parser.add_argument('--name', action=Upper)
def parse(text):
    given = parser.parse_args(text.split())
    return given.func(given) if hasattr(given, 'func') else vars(given)
"""
PARSED = (
    "m.parse('--limit 2k run')",
    "m.parse('--all run')",
    "m.parse('show a')",
    "m.parse('--name x')",
    "m.parser.format_usage()",
)
PATTERNS = """\
import re, string
WORD = r'[a-z]+'
NUMBER = re.compile(r'\\d+')
FLAGS = re.IGNORECASE
ASSIGN = re.compile(rf'(?P<name>{WORD})\\s*=\\s*(?P<value>{NUMBER.pattern})', FLAGS)
TOKEN = re.compile('|'.join(f'(?P<{name}>{text})' for name, text in [('NUM', NUMBER.pattern), ('WORD', WORD)]))
ESCAPED = re.compile(r'''
    \\[ ([^\\]]*) \\]   # the key
''', re.VERBOSE)
split = re.compile(r'[,;]').split
template = string.Template('$name is $age')
table = str.maketrans('abc', 'xyz')
def tokens(text):
    return [(one.lastgroup, one.group()) for one in TOKEN.finditer(text)]
def assign(text):
    found = ASSIGN.fullmatch(text)
    return found and found.groupdict()
def repl(match, sign='<'):
    return sign + match[1] + '>'
PARTS = split('a,b;c')
REPLACED = ESCAPED.sub(repl, 'x[y]')
"""
IMPORTS = {
    "m": "import sys\n__all__ = ['area', 'PI', 'Shape']\nPI = 3\n_hidden = 1\nSCALE = 2\ndef area(r):\n    return PI * r * r\ndef volume(r):\n    return area(r) * r\nclass Shape:\n    sides = 4\ndef __getattr__(name):\n    if name.startswith('lazy_'):\n        return name[5:] * SCALE\n    raise AttributeError(name)\ndef __dir__():\n    return [*__all__, 'lazy_a']\n",
    "b": "from m import *\nfrom m import lazy_ab as lazy\nimport m\nAREA = area(2)\nclass Square(Shape):\n    def around(self):\n        return self.sides * PI\nNAMES = [one for one in ('area', 'volume', 'PI', 'Shape', 'SCALE') if one in globals()]\nLISTED = dir(m)\n",
    "c": "import b\nfrom b import *\nfrom b import Square as Base\ntry:\n    from m import volume\nexcept ImportError:\n    volume = None\ntry:\n    from m import fast_area as fast\nexcept ImportError:\n    def fast(r):\n        return -r\nclass Big(Base):\n    pass\nif b.AREA > 10:\n    SIZE = 'big'\nelse:\n    SIZE = 'small'\nBOTH = AREA + fast(1)\n",
    "d": "from c import BOTH, SIZE, Big\nimport c as upper\nTEXT = f'{SIZE} {BOTH}'\ndef describe(kind=Big, text=TEXT):\n    return kind().around(), text, upper.BOTH\n",
}
PACKAGE = {
    "shop.__init__": "from .prices import price, Rate\nfrom . import stock\nfrom .stock import STOCK\n__version__ = '1.0'\nNAME = __name__.upper()\n",
    "shop.prices": "from .consts import VAT, CURRENCY as CUR\nfrom . import consts\nclass Rate:\n    vat = VAT\n    def __init__(self, extra=consts.EXTRA):\n        self.extra = extra\n    def of(self, n):\n        return n * self.vat + self.extra\ndefault = Rate()\ndef price(n, rate=default):\n    return f'{rate.of(n)} {CUR}'\n",
    "shop.consts": "VAT = 2\nEXTRA = 1\nCURRENCY = 'EUR'\nRATES = {'low': VAT, 'high': VAT * 3}\n",
    "shop.stock": "from .consts import RATES\nfrom .prices import price\nSTOCK = {name: price(rate) for name, rate in RATES.items()}\ndef show():\n    from .consts import CURRENCY\n    return CURRENCY, sorted(STOCK)\n",
    "use": "import shop\nfrom shop import prices, STOCK\nfrom shop.prices import default as rate\nBEST = min(STOCK)\nCOST = shop.price(10)\nRATE = rate.of(1)\nVERSION = shop.__version__\n",
}
CIRCLES = {
    "m": "import b\nLIMIT = 3\nclass Node:\n    def leaf(self):\n        return b.Leaf(self)\n    def size(self):\n        return LIMIT\ndef make():\n    return b.tree(Node())\nfrom b import DEPTH\nTOTAL = LIMIT * DEPTH\n",
    "b": "import m\nDEPTH = 2\nclass Leaf:\n    depth = DEPTH\n    def __init__(self, node):\n        self.node = node\n    def size(self):\n        return self.node.size() * self.depth\ndef tree(node):\n    return Leaf(node).size()\ndef limits():\n    from m import LIMIT\n    return [LIMIT] * DEPTH\n",
    "c": "from m import make, TOTAL\nimport b\nSIZE = make()\nLIMITS = b.limits()\nclass Twig(b.Leaf):\n    depth = b.DEPTH + 1\n",
}
CONTEXTS = """\
import contextvars, contextlib, threading, collections
DEFAULT = 'en'
lang = contextvars.ContextVar('lang', default=DEFAULT)
depth = contextvars.ContextVar('depth', default=0)
stack = collections.deque(maxlen=3)
local = threading.local()
local.name = 'main'
lock = threading.RLock()
class using:
    def __init__(self, value, var=lang):
        self.value, self.var = value, var
    def __enter__(self):
        self.token = self.var.set(self.value)
        return self
    def __exit__(self, *error):
        self.var.reset(self.token)
@contextlib.contextmanager
def nested(step=1):
    token = depth.set(depth.get() + step)
    try:
        yield depth.get()
    finally:
        depth.reset(token)
def current():
    return lang.get(), depth.get()
def inside(value):
    with using(value), nested() as level, lock:
        stack.append(level)
        return current()
context = contextvars.copy_context()
INSIDE = context.run(inside, 'de')
SUPPRESSED = (ValueError, KeyError)
quiet = contextlib.suppress(*SUPPRESSED)
def safe(error):
    with quiet:
        raise error
    return 'safe'
"""
TEXTS = """\
'''A module about texts.'''
import textwrap, json, string, operator, types, itertools, datetime, fractions, collections
WIDTH = 20
INDENT = '  '
class Style(str):
    __slots__ = ()
    def bold(self):
        return f'*{self}*'
TITLE = Style('shop')
wrapper = textwrap.TextWrapper(width=WIDTH, subsequent_indent=INDENT)
get_name = operator.itemgetter('name')
by_price = operator.attrgetter('price')
Item = collections.namedtuple('Item', ['name', 'price'])
ITEMS = (Item('pen', 2), Item('ink', 1))
config = types.SimpleNamespace(width=WIDTH, names=[one.name for one in ITEMS])
FROZEN = types.MappingProxyType({'width': WIDTH})
CHEAP, *REST = sorted(ITEMS, key=by_price)
half = fractions.Fraction(1, 2)
merged = collections.ChainMap({'a': 1}, {'a': 2, 'b': WIDTH})
heading = lambda text, fill='=': text.center(WIDTH, fill)
HEADING = heading(TITLE)
def wrap(text, *, width=None):
    return wrapper.wrap(text) if width is None else textwrap.wrap(text, width)
def total(items=ITEMS, key=by_price):
    return sum(map(key, items))
DAYS = [datetime.date(2024, 1, one) for one in range(1, 3)]
ENCODED = json.dumps({'items': [one._asdict() for one in ITEMS], 'half': str(half)}, sort_keys=True)
x = y = [WIDTH]
(first, second), third = ('a', 'b'), 'c'
counter = itertools.count(WIDTH)
total_width = 0
for one in ITEMS:
    total_width += len(one.name)
while total_width < WIDTH:
    total_width += 10
assert WIDTH > 3, 'too narrow'
del one
"""
ERRORS = """\
import collections.abc, numbers, copyreg, atexit, warnings, sys
class ShopError(Exception):
    code = 400
    def __init__(self, text, **fields):
        super().__init__(text)
        self.fields = fields
    def __str__(self):
        return f'{self.code}: {super().__str__()}'
class NotFound(ShopError, LookupError):
    code = 404
RETRIED = (NotFound, TimeoutError)
HANDLERS = {NotFound: lambda error: 'missing', ShopError: str}
def retry(times=2, errors=RETRIED):
    def decorate(function):
        def inner(*given):
            for number in range(times):
                try:
                    return function(*given)
                except errors as error:
                    last = error
            return f'gave up after {times}: {last}'
        inner.times = times
        return inner
    return decorate
@retry()
def find(key):
    raise NotFound(key)
@retry(times=3, errors=(ShopError,))
def load(key):
    raise ShopError(key, key=key)
def handle(error):
    for kind, handler in HANDLERS.items():
        if isinstance(error, kind):
            return handler(error)
class Bag(collections.abc.MutableMapping):
    def __init__(self, **given):
        self.data = given
    def __getitem__(self, key): return self.data[key]
    def __setitem__(self, key, value): self.data[key] = value
    def __delitem__(self, key): del self.data[key]
    def __iter__(self): return iter(self.data)
    def __len__(self): return len(self.data)
    def __missing__(self, key): return key
class Version(collections.namedtuple('Version', 'major minor')):
    __slots__ = ()
    def __str__(self):
        return f'v{self.major}.{self.minor}'
    def bump(self):
        return self._replace(minor=self.minor + 1)
bag = Bag(a=1)
CURRENT = Version(1, 2)
NEXT = str(CURRENT.bump())
MESSAGES = [find('x'), load('y'), handle(NotFound('z'))]
"""

EDITS = [
    edits_of(
        "dispatchers",
        DISPATCHERS,
        [
            ("a default by a constant", "ROUND = 2", "ROUND = 3", (*DISPATCHED, "m.SUM", "m.price.cache_parameters()")),
            ("an annotation that registers", "value: float", "value: complex", DISPATCHED[:1]),
            ("a registered lambda", "'D' + str(value)", "'E' + str(value)", DISPATCHED),
            (
                "a kind of a loop",
                "WIDE = (list, tuple)",
                "WIDE = (list, set)",
                ("m.render([1])", "m.render((1,))", "m.render({1})"),
            ),
            ("a helper of a lambda", "type(value).__name__", "type(value).__name__.upper()", DISPATCHED),
            (
                "a type of a mapping",
                "register(collections.abc.Mapping)",
                "register(dict)",
                (*DISPATCHED, "m.render(m.collections.ChainMap({'a': 1.0}))"),
            ),
            ("a keyword of a partial", "width=1)", "width=3)", DISPATCHED),
            ("an attribute of a cached property", "scale = 100", "scale = 10", ("m.Money(1000).whole",)),
            ("a keyword of a partial method", "times=2)", "times=4)", ("m.Money(1).twice(2)",)),
            (
                "a class method that is dispatched",
                "int(value[1:])",
                "int(value[2:])",
                ("m.Money.parse('x77').cents", "m.Money.parse(3).cents"),
            ),
            (
                "a type of a class method",
                "value: str",
                "value: bytes",
                ("m.Money.parse('7').cents", "m.Money.parse(b'x7').cents"),
            ),
            ("a comparison", "two - one)", "one - two)", ("m.ORDERED", "sorted([2, 1, 3], key=m.compare)")),
            (
                "a callee of a cached function",
                "return self.cents + n * times",
                "return self.cents - n * times",
                ("m.price(5)", "m.Money(1).twice(1)"),
                {"use": "m.price(5)"},
            ),
            ("a size of a cache", "maxsize=ROUND * 8", "maxsize=None", ("m.price.cache_parameters()",)),
            (
                "a registration is deleted",
                "render.register(decimal.Decimal, lambda value, **given: 'D' + str(value))\n",
                "",
                DISPATCHED,
            ),
        ],
    ),
    edits_of(
        "records",
        RECORDS,
        [
            (
                "a limit",
                "LIMIT = 5",
                "LIMIT = 6",
                ("m.Point()", "m.Point.count", "m.Pair(1).two", "m.Made(1)", "m.DEFAULT.length", "m.AS_DICT"),
            ),
            ("a factory", "['new']", "['old']", ("m.Point().names", "m.AS_DICT", "m.Named().names")),
            (
                "a field more",
                "    count: ClassVar",
                "    z: int = 1\n    count: ClassVar",
                ("m.Point()", "m.FIELDS", "m.Named(1)", "m.AS_DICT"),
            ),
            (
                "a field less",
                "    names: list = field(default_factory=tags, repr=False)\n",
                "",
                ("m.Point()", "m.FIELDS", "hasattr(m.Named(1), 'names')"),
            ),
            (
                "comparison of a field",
                "compare=False",
                "compare=True",
                ("m.Point(1, 2) == m.Point(1, 3)", "m.Point(1, 2) < m.Point(1, 3)"),
            ),
            (
                "not ordered",
                "@dataclass(order=True)",
                "@dataclass",
                ("m.Point(1) < m.Point(2)", "m.Point(1) == m.Point(1)"),
            ),
            ("representation of a field", "repr=False", "repr=True", ("repr(m.Point())", "repr(m.Named())")),
            (
                "a hook after creation",
                "self.label.upper()",
                "self.label.title()",
                ("m.Named(label='ab').label", "m.AS_DICT['label']"),
            ),
            (
                "a factor of an argument",
                "* factor * self.scale",
                "+ factor + self.scale",
                ("m.DEFAULT.length", "m.Segment(m.Point(2)).length"),
            ),
            (
                "a default of an argument",
                "factor: InitVar[int] = 1",
                "factor: InitVar[int] = 3",
                ("m.DEFAULT.length", "m.Segment(m.Point(2)).length"),
            ),
            (
                "a method of the base",
                "abs(self.x) + abs(self.y)",
                "max(self.x, self.y)",
                ("m.DEFAULT.length", "m.Named(2).norm()"),
            ),
            ("not frozen", "frozen=True, slots=True", "slots=True", ("setattr(m.Segment(m.Point(1)), 'scale', 1)",)),
            ("only keywords", "    _: KW_ONLY\n", "", ("m.Segment(m.Point(1), 2, 3).length",)),
            ("a default of a pair", "two: int = LIMIT", "two: int = 8", ("m.Pair(1)", "m.PAIR")),
            (
                "a field of a pair",
                "    @property\n    def total",
                "    three: int = 9\n    @property\n    def total",
                ("m.Pair(1)", "m.PAIR", "m.Pair._fields"),
            ),
            ("a property of a pair", "self.one + self.two", "self.one * self.two", ("m.Pair(2).total", "m.PAIR.total")),
            ("a required key", "total=False", "total=True", ("sorted(m.Options.__required_keys__)",)),
            (
                "a key more",
                "    name: str\n",
                "    name: str\n    size: float\n",
                ("sorted(m.Options.__annotations__)", "sorted(m.Options.__optional_keys__)"),
            ),
            ("a replaced value", "x=9)", "x=8)", ("m.moved",)),
            (
                "fields that are made",
                "('a', int), ",
                "('a', int), ('c', str), ",
                ("[one.name for one in m.dataclasses.fields(m.Made)]",),
            ),
        ],
    ),
    edits_of(
        "enums",
        ENUMS,
        [
            (
                "a base of values",
                "BASE = 10",
                "BASE = 20",
                ("m.Level.LOW.value", "m.NAMES", "m.DEFAULT.value", "m.Level(20).name"),
            ),
            ("a missing value", "return cls.LOW", "return cls.HIGH", ("m.Level(99).name",)),
            ("a property", "self.name.lower()", "self.name.title()", ("m.LABELS", "m.Level.LOW.label")),
            (
                "a flag more",
                "    RW = R | W",
                "    X = enum.auto()\n    RW = R | W",
                ("m.Perm.X.value", "m.Perm.RW.value", "list(m.MASKS.values())"),
            ),
            ("a combined flag", "RW = R | W", "RW = R", ("m.Perm.RW.value", "m.allowed()", "m.allowed(m.Perm.W)")),
            (
                "arguments of a member",
                "MARS = (6, 3)",
                "MARS = (6, 2)",
                ("m.Planet.MARS.gravity", "m.Planet.MARS.radius"),
            ),
            (
                "an argument's name",
                "self.mass, self.radius = mass, radius",
                "self.mass, self.radius = mass, radius * 2",
                ("m.Planet.MARS.gravity",),
            ),
            ("a calculated property", "self.mass / self.radius", "self.mass * self.radius", ("m.Planet.MARS.gravity",)),
            (
                "an alias",
                "    B = 'b'\n",
                "    B = 'b'\n    C = 'c'\n",
                ("str(m.Kind.C)", "[str(one) for one in m.Kind]"),
            ),
            ("a text of members", "'kind ' + self.value", "'Kind ' + self.value", ("str(m.Kind.A)",)),
            (
                "names of a functional enumeration",
                "'ROUND SQUARE'",
                "'ROUND SQUARE FLAT'",
                ("[one.name for one in m.Shape]",),
            ),
            (
                "a comparison of the base",
                "self.value < other.value",
                "self.value > other.value",
                ("m.BIGGEST.name", "max(m.Size).name"),
            ),
            (
                "a member of a subclass",
                "    L = 2\n",
                "    L = 2\n    XL = 3\n",
                ("m.BIGGEST.name", "max(m.Size).name"),
            ),
            ("a member is deleted", "    HIGH = BASE * 2\n", "", ("m.NAMES", "m.LABELS", "hasattr(m.Level, 'HIGH')")),
            (
                "another kind of base",
                "class Level(enum.IntEnum)",
                "class Level(int, enum.Enum)",
                ("m.NAMES", "str(m.Level.LOW)"),
            ),
            ("a default flag", "perm=Perm.RW", "perm=Perm.W", ("m.allowed()",)),
        ],
    ),
    edits_of(
        "metas",
        METAS,
        [
            ("a suffix", "suffix = '!'", "suffix = '?'", ("m.User.tag", "m.user.describe()")),
            ("a tag", "name.lower() + mcls.suffix", "name.upper() + mcls.suffix", ("m.User.tag", "m.Model.tag")),
            ("a group", "group='users'", "group='people'", ("m.User.group", "m.User().describe()", "len(m.User)")),
            ("a stamp", "made.stamp = cls.group", "made.stamp = cls.group * 2", ("m.User().describe()",)),
            ("a length", "len(cls.group)", "len(cls.group) + 1", ("len(m.User)",)),
            ("a missing attribute", "name[4:]", "name[4:].upper()", ("m.User.get_x",)),
            ("a key", "key='csv'", "key='tsv'", ("sorted(m.Plugin.registry)", "m.KEYS", "m.OUT")),
            (
                "a default key",
                "cls.__name__.lower()",
                "cls.__name__",
                ("sorted(m.Plugin.registry)", "m.KEYS", "m.Json.key"),
            ),
            ("a method of a plugin", "'csv ' + self", "'CSV ' + self", ("m.OUT", "m.Csv().run()")),
            (
                "a plugin more",
                "class Meta(type)",
                "class Xml(Plugin):\n    def run(self):\n        return 'xml'\nclass Meta(type)",
                ("m.KEYS", "m.OUT"),
            ),
            ("a prepared name", "{'prepared': name}", "{'ready': name}", ("list(m.Colors)",)),
            ("a color", "    blue = 2\n", "    blue = 2\n    green = 3\n", ("list(m.Colors)",)),
            ("an iteration", "iter(sorted(one", "reversed(sorted(one", ("list(m.Colors)",)),
            (
                "no metaclass",
                "class Colors(metaclass=Meta)",
                "class Colors",
                ("type(m.Colors).__name__", "hasattr(m.Colors, 'prepared')"),
            ),
            ("a constant of a plugin", "default = 'x'", "default = 'y'", ("m.OUT", "m.Plugin.registry['csv']().run()")),
        ],
    ),
    edits_of(
        "descriptors",
        DESCRIPTORS,
        [
            ("a scale", "SCALE = 2", "SCALE = 3", ("m.Order(amount=4).amount", "m.TOTAL", "m.order.amount")),
            ("a default", "Number(1,", "Number(7,", ("m.Order().amount", "m.NAMES")),
            ("a check", "value > 0", "value > 3", ("m.Order(amount=1)", "m.Order(amount=200).amount")),
            ("no check", "Number(1, check=positive)", "Number(1)", ("m.Order(amount=-4).amount",)),
            (
                "a field more",
                "    state = 'new'",
                "    size = Field('m')\n    state = 'new'",
                ("m.Order.fields", "m.NAMES", "m.Order().size"),
            ),
            (
                "a field is deleted",
                "    note = Field('none')\n",
                "",
                ("m.Order.fields", "m.NAMES", "hasattr(m.Order(), 'note')"),
            ),
            ("a field is renamed", "    note = ", "    remark = ", ("m.Order.fields", "m.NAMES", "m.Order().remark")),
            (
                "how it gets",
                "instance.__dict__.get(self.name, self.default)",
                "(instance.__dict__.get(self.name, self.default),)",
                ("m.order.note", "m.TOTAL"),
            ),
            (
                "how it is named",
                "self.name = name\n",
                "self.name = name + '_'\n",
                ("m.Order(note='x').__dict__", "m.Order.fields"),
            ),
            (
                "a lazy value",
                "self.order.amount * 10",
                "self.order.amount * 11",
                ("m.TOTAL", "m.Report(m.order).total"),
            ),
            ("another descriptor", "amount = Number(", "amount = Field(", ("m.Order(amount=4).amount", "m.TOTAL")),
            (
                "names that it collects",
                "'fields', []), name]",
                "'fields', []), name.upper()]",
                ("m.NAMES", "m.Order.fields"),
            ),
            (
                "names that it is given",
                "self.name = name\n",
                "self.name = name + '_'\n",
                ("m.Order.amount.name", "vars(m.order)", "m.NAMES"),
            ),
            ("where it caches", "'_' + name", "'__' + name", ("m.Report.__dict__['total'].name", "m.TOTAL")),
        ],
    ),
    edits_of(
        "protocols",
        PROTOCOLS,
        [
            (
                "a method of a protocol more",
                "    def close(self): ...",
                "    def close(self): ...\n    def flush(self): ...",
                CHECKED,
            ),
            ("a method of a protocol is renamed", "    def close(self): ...", "    def shut(self): ...", CHECKED),
            (
                "an attribute of a protocol more",
                "    size: int\n",
                "    size: int\n    width: int\n",
                CHECKED,
                {"hold": "seen = isinstance(m.File(), m.Reads)"},
            ),
            (
                "a method of a class more",
                "class Half:\n",
                "class Half:\n    size = 1\n    def read(self): return 1\n",
                CHECKED,
                {"hold": "seen = isinstance(m.Half(), m.Reads)"},
            ),
            (
                "a method of a class is deleted",
                "    def read(self):\n        return 'data'\n",
                "",
                CHECKED,
                {"hold": "seen = isinstance(m.File(), m.Reads)"},
            ),
            (
                "an abstract method more",
                "    @classmethod\n    def __subclass",
                "    @abc.abstractmethod\n    def color(self): ...\n    @classmethod\n    def __subclass",
                ("m.Square()", "sorted(m.Shape.__abstractmethods__)", "sorted(m.Square.__abstractmethods__)"),
            ),
            (
                "a method that is no longer abstract",
                "    @abc.abstractmethod\n    def name",
                "    def name",
                ("sorted(m.Shape.__abstractmethods__)",),
            ),
            (
                "a property that is no longer abstract",
                "    @property\n    @abc.abstractmethod\n",
                "    @property\n",
                ("sorted(m.Shape.__abstractmethods__)",),
            ),
            (
                "an implementation is deleted",
                "    def name(self):\n        return 'square'\n",
                "",
                ("m.Square()", "sorted(m.Square.__abstractmethods__)"),
            ),
            (
                "a subclass hook",
                "hasattr(other, 'draws')",
                "hasattr(other, 'paints')",
                ("issubclass(m.Drawing, m.Shape)", "m.SHAPES"),
                {"hold": "seen = issubclass(m.Drawing, m.Shape)"},
            ),
            (
                "a subclass hook is deleted",
                "    @classmethod\n    def __subclasshook__(cls, other):\n        return True if cls is Shape and hasattr(other, 'draws') else NotImplemented\n",
                "",
                ("issubclass(m.Drawing, m.Shape)", "m.SHAPES"),
                {"hold": "seen = issubclass(m.Drawing, m.Shape)"},
            ),
            (
                "what the hook reads",
                "    draws = True",
                "    paints = True",
                ("issubclass(m.Drawing, m.Shape)", "m.SHAPES"),
                {"hold": "seen = issubclass(m.Drawing, m.Shape)"},
            ),
            (
                "a registration is deleted",
                "Shape.register(Foreign)\n",
                "",
                ("issubclass(m.Foreign, m.Shape)", "m.SHAPES"),
            ),
            (
                "another registration",
                "Shape.register(Foreign)",
                "Shape.register(Half)",
                ("issubclass(m.Foreign, m.Shape)", "issubclass(m.Half, m.Shape)", "m.SHAPES"),
            ),
            (
                "a generic's parameter",
                "class IntBox(Box[int])",
                "class IntBox(Box[float])",
                ("m.IntBox.__orig_bases__", "m.IntBox(2).double()"),
            ),
            ("a method of a generic", "self.value * 2", "self.value * 3", ("m.IntBox(2).double()",)),
        ],
    ),
    edits_of(
        "generators",
        GENERATORS,
        [
            (
                "a step",
                "STEP = 2",
                "STEP = 3",
                ("m.FIRST", "m.GATHERED", "m.DRAINED", "m.EVENS", "list(m.Stream(1, 2, 3, 4))"),
            ),
            ("how it counts", "start + step if", "start - step if", ("m.FIRST", "m.EVENS")),
            ("what it flattens", "yield from part", "yield from reversed(part)", ("m.EVENS",)),
            ("what it fetches", "return key * STEP", "return key + STEP", ("m.GATHERED", "m.asyncio.run(m.fetch(1))")),
            ("a default", "limit=STEP + 1", "limit=STEP", ("m.GATHERED",)),
            ("a name of a session", "name='main'", "name='other'", ("m.GATHERED", "m.log")),
            ("an end of a session", "log.append('close')", "log.append('closed')", ("m.log",)),
            ("a chunk", "chunk = STEP", "chunk = 1", ("m.DRAINED", "list(m.Stream(1, 2))")),
            ("a slice", "self.items[::self.chunk]", "self.items[1::self.chunk]", ("list(m.Stream(1, 2, 3))",)),
            ("an awaited argument", "gather(1, 2))", "gather(1, 5))", ("m.GATHERED",)),
            ("an argument", "Stream(1, 2, 3)))", "Stream(1, 2, 3, 4)))", ("m.DRAINED",)),
        ],
    ),
    edits_of(
        "matches",
        MATCHES,
        [
            ("a subject", "MODE = 'fast'", "MODE = 'slow'", ("m.WORKERS", "m.schedule(3)", "m.LIMIT", "m.TOTAL")),
            ("a value of a branch", "WORKERS = 8", "WORKERS = 9", ("m.WORKERS", "m.schedule(3)", "m.TOTAL")),
            ("a function of a branch", "return n * WORKERS", "return n + WORKERS", ("m.schedule(3)",)),
            (
                "a pattern of a branch",
                "case 'fast':",
                "case 'faster':",
                ("m.WORKERS", "hasattr(m, 'schedule')", "m.TOTAL"),
            ),
            ("a constant", "GONE = 410", "GONE = 411", HANDLED),
            ("a guard", "if x == y", "if x > y", HANDLED),
            (
                "a case more",
                "        case str() as text",
                "        case int():\n            return 'int'\n        case str() as text",
                (*HANDLED, "m.handle(7)"),
            ),
            ("an order of cases", "        case Click(0, 0):\n            return 'origin'\n", "", HANDLED),
            ("a value of a table", "'fast': 1", "'fast': 2", ("m.LIMIT", "m.TOTAL")),
            ("a sequence", "first, len(rest)", "first, rest", HANDLED),
        ],
    ),
    edits_of(
        "logs",
        LOGS,
        [
            ("a level", "LEVEL = 'INFO'", "LEVEL = 'ERROR'", ("m.say('x')", "m.log.level")),
            ("a format", "%(levelname)s %(name)s", "%(name)s", ("m.say('x')",)),
            ("a prefix of a filter", "prefix = '@'", "prefix = '#'", ("m.say('x')",)),
            ("a filter", "{user.get()} {record.msg}", "{record.msg}", ("m.say('x')",)),
            ("no filter", ", 'filters': ['user']", "", ("m.say('x')",)),
            ("how it emits", "self.format(record)", "self.format(record).upper()", ("m.say('x')",)),
            ("a default of a variable", "default='nobody'", "default='anyone'", ("m.say('x')", "m.user.get()")),
            ("a value of a variable", "user.set('ann')", "user.set('bob')", ("m.NAME", "m.user.get()")),
            ("a level of a child", "setLevel(logging.WARNING)", "setLevel(logging.DEBUG)", ("m.audit.level",)),
            (
                "a child's name",
                "getChild('audit')",
                "getChild('trail')",
                ("m.audit.name", "m.audit.level", "len(m.audit.handlers)"),
            ),
            (
                "a formatter",
                "'%(message)s'",
                "'! %(message)s'",
                ("m.audit.handlers[-1].formatter._fmt", "len(m.audit.handlers)"),
            ),
            ("a default level", "level=logging.INFO", "level=logging.DEBUG", ("m.say('x')",)),
        ],
    ),
    edits_of(
        "arguments",
        ARGUMENTS,
        [
            ("choices", "['text', 'json']", "['json', 'text']", (*PARSED, "m.parse('')")),
            ("a choice more", "['text', 'json']", "['text', 'json', 'xml']", (*PARSED, "m.parse('--format xml')")),
            ("a default", "DEFAULT_LIMIT = 5", "DEFAULT_LIMIT = 6", ("m.parse('run')",)),
            ("a type", "1000 if", "1024 if", PARSED),
            ("a function", "'run', given.limit", "'ran', given.limit", PARSED),
            ("an action", "values.upper()", "values.title()", ("m.parse('--name abc')",)),
            (
                "a common argument",
                "'--verbose', action='count'",
                "'--loud', action='count'",
                ("m.parser.format_usage()", "m.parse('--loud')"),
            ),
            ("a subcommand's argument", "default='all'", "default='none'", ("m.parse('show')",)),
            (
                "a subcommand's name",
                "add_parser('show')",
                "add_parser('list')",
                ("m.parse('list')", "m.parser.format_usage()"),
            ),
            (
                "a subcommand more",
                "class Upper",
                "listing = commands.add_parser('list')\nlisting.set_defaults(func=lambda given: 'list')\nclass Upper",
                ("m.parse('list')", "m.parser.format_usage()"),
            ),
            ("a program", "prog='shop'", "prog='store'", PARSED),
            ("another function", "set_defaults(func=show)", "set_defaults(func=run)", ("m.parse('show a')",)),
            (
                "an argument is deleted",
                "parser.add_argument('--name', action=Upper)\n",
                "",
                ("m.parser.format_usage()",),
            ),
            ("an option of a group", "'--limit', type=size", "'--max', type=size, dest='limit'", PARSED),
            ("a type in a group", "'--limit', type=size", "'--limit', type=str", PARSED),
            ("a constant in a group", "const=0", "const=9", PARSED),
        ],
    ),
    edits_of(
        "regular",
        PATTERNS,
        [
            ("a part", "WORD = r'[a-z]+'", "WORD = r'[a-y]+'", ("m.tokens('ab 12 z')", "m.assign('z = 1')")),
            ("a number", "r'\\d+'", "r'\\d'", ("m.tokens('ab 12')", "m.assign('a = 12')")),
            ("flags", "FLAGS = re.IGNORECASE", "FLAGS = 0", ("m.assign('A = 1')", "m.assign('a = 1')")),
            ("a separator", "r'[,;]'", "r'[,:]'", ("m.PARTS", "m.split('a:b')")),
            ("a replacement", "sign + match[1] + '>'", "sign + match[1] + sign", ("m.REPLACED",)),
            ("a default sign", "sign='<'", "sign='{'", ("m.REPLACED",)),
            ("a template", "$name is $age", "$name: $age", ("m.template.substitute(name='a', age=1)",)),
            ("a table", "'abc', 'xyz'", "'abc', 'pqr'", ("'abc'.translate(m.table)",)),
            ("names of groups", "('NUM', NUMBER", "('INT', NUMBER", ("m.tokens('ab 12')",)),
        ],
    ),
    edits_of(
        "imports",
        IMPORTS["m"],
        [
            ("a constant", "PI = 3", "PI = 4", ("b.AREA", "b.PI", "c.BOTH", "c.SIZE", "d.TEXT", "d.describe()")),
            ("a function", "PI * r * r", "PI * r", ("b.AREA", "c.SIZE", "d.describe()")),
            ("a lazy value", "SCALE = 2", "SCALE = 3", ("b.lazy", "b.m.lazy_x")),
            ("how it is made", "name[5:] * SCALE", "name[5:].upper()", ("b.lazy",)),
            ("an attribute of a base", "sides = 4", "sides = 5", ("d.describe()", "c.Big().around()")),
            (
                "a name that was missing",
                "def volume(r)",
                "def fast_area(r):\n    return r\ndef volume(r)",
                ("c.fast(2)", "c.BOTH", "d.TEXT"),
            ),
            ("a name is deleted", "def volume(r):\n    return area(r) * r\n", "", ("c.volume", "hasattr(m, 'volume')")),
            (
                "a module between",
                "AREA = area(2)",
                "AREA = area(1)",
                ("c.BOTH", "c.SIZE", "d.describe()"),
                {"edited": "b"},
            ),
            (
                "a base between",
                "class Square(Shape):",
                "class Square(Shape):\n    sides = 8",
                ("d.describe()", "c.Big.sides"),
                {"edited": "b"},
            ),
            ("a fallback", "return -r", "return -2 * r", ("c.fast(2)", "c.BOTH", "d.TEXT"), {"edited": "c"}),
            ("a condition", "b.AREA > 10", "b.AREA > 100", ("c.SIZE", "d.TEXT", "d.describe()"), {"edited": "c"}),
            ("public names that are listed", "'PI', 'Shape']", "'PI', 'Shape', 'SCALE']", ("b.LISTED", "b.NAMES")),
            (
                "a public name that is not",
                "['area', 'PI', 'Shape']",
                "['area', 'Shape']",
                ("b.LISTED", "b.NAMES", "dir(m)"),
            ),
            ("a lazy name that is listed", "'lazy_a']", "'lazy_b']", ("b.LISTED", "dir(m)")),
        ],
        others={name: text for name, text in IMPORTS.items() if name != "m"},
    ),
    edits_of(
        "package",
        "",
        [
            (
                "a constant",
                "VAT = 2",
                "VAT = 3",
                ("use.COST", "use.RATE", "use.BEST", "shop.STOCK", "shop.stock.STOCK is shop.STOCK", "shop.Rate.vat"),
                {"edited": "shop.consts"},
            ),
            ("a default", "EXTRA = 1", "EXTRA = 5", ("use.COST", "use.RATE", "shop.STOCK"), {"edited": "shop.consts"}),
            (
                "an alias",
                "CURRENCY = 'EUR'",
                "CURRENCY = 'USD'",
                ("use.COST", "shop.STOCK", "shop.stock.show()"),
                {"edited": "shop.consts"},
            ),
            ("a table", "VAT * 3", "VAT * 4", ("shop.STOCK", "use.STOCK"), {"edited": "shop.consts"}),
            (
                "an entry",
                "'low': VAT",
                "'base': VAT",
                ("shop.STOCK", "use.BEST", "shop.stock.show()"),
                {"edited": "shop.consts"},
            ),
            (
                "a method",
                "n * self.vat + self.extra",
                "n + self.vat",
                ("use.COST", "use.RATE", "shop.STOCK"),
                {"edited": "shop.prices"},
            ),
            (
                "a default object",
                "default = Rate()",
                "default = Rate(7)",
                ("use.COST", "use.RATE", "shop.price(1)"),
                {"edited": "shop.prices"},
            ),
            ("a format", "} {CUR}'", "}{CUR}'", ("use.COST", "shop.STOCK"), {"edited": "shop.prices"}),
            (
                "another import",
                "VAT, CURRENCY as CUR",
                "EXTRA as VAT, CURRENCY as CUR",
                ("use.COST", "shop.Rate.vat", "shop.STOCK"),
                {"edited": "shop.prices"},
            ),
            ("a version", "'1.0'", "'2.0'", ("use.VERSION",), {"edited": "shop.__init__"}),
            (
                "a comprehension",
                "price(rate) for",
                "price(rate + 1) for",
                ("shop.STOCK", "use.STOCK"),
                {"edited": "shop.stock"},
            ),
        ],
        others=PACKAGE,
        hold="import shop",
    ),
    edits_of(
        "circles",
        CIRCLES["m"],
        [
            ("a method", "return LIMIT\n", "return LIMIT + 1\n", ("m.make()", "c.SIZE")),
            (
                "a depth",
                "DEPTH = 2",
                "DEPTH = 5",
                ("m.TOTAL", "m.DEPTH", "c.SIZE", "c.Twig.depth", "c.LIMITS", "b.Leaf.depth"),
                {"edited": "b"},
            ),
            (
                "a method of the other",
                "self.node.size() * self.depth",
                "self.node.size() + self.depth",
                ("c.SIZE", "m.make()"),
                {"edited": "b"},
            ),
            (
                "a class of the other",
                "    depth = DEPTH\n",
                "    depth = DEPTH * 10\n",
                ("c.SIZE", "m.Node().leaf().size()"),
                {"edited": "b"},
            ),
            ("a function", "b.tree(Node())", "b.tree(Node()) + 1", ("c.SIZE", "m.make()")),
            ("a base", "depth = b.DEPTH + 1", "depth = b.DEPTH + 2", ("c.Twig.depth",), {"edited": "c"}),
            ("a constant", "LIMIT = 3", "LIMIT = 4", ("m.make()", "m.TOTAL", "c.SIZE", "c.LIMITS")),
        ],
        others={"b": CIRCLES["b"], "c": CIRCLES["c"]},
    ),
    edits_of(
        "contexts",
        CONTEXTS,
        [
            ("a default", "DEFAULT = 'en'", "DEFAULT = 'fr'", ("m.current()", "m.INSIDE", "m.lang.get()")),
            ("a name", "ContextVar('depth'", "ContextVar('level'", ("m.depth.name", "m.current()", "m.inside('x')")),
            ("a step", "step=1", "step=2", ("m.INSIDE", "m.inside('x')")),
            ("a value", "context.run(inside, 'de')", "context.run(inside, 'it')", ("m.INSIDE", "m.current()")),
            ("an entry", "self.var.set(self.value)", "self.var.set(self.value.upper())", ("m.INSIDE",)),
            (
                "suppressed errors",
                "(ValueError, KeyError)",
                "(ValueError, TypeError)",
                ("m.safe(KeyError())", "m.safe(TypeError())"),
            ),
            ("a length", "maxlen=3", "maxlen=4", ("m.stack.maxlen", "list(m.stack)")),
            ("a name of a thread", "local.name = 'main'", "local.name = 'first'", ("m.local.name",)),
            (
                "a lock",
                "threading.RLock()",
                "threading.Lock()",
                ("type(m.lock).__name__.lower().strip('_')", "m.inside('x')"),
            ),
            (
                "what it returns",
                "return lang.get(), depth.get()",
                "return depth.get(), lang.get()",
                ("m.INSIDE", "m.current()"),
            ),
        ],
    ),
    edits_of(
        "texts",
        TEXTS,
        [
            (
                "a width",
                "WIDTH = 20",
                "WIDTH = 30",
                (
                    "m.wrapper.width",
                    "m.config.width",
                    "m.FROZEN['width']",
                    "m.HEADING",
                    "m.x",
                    "m.y",
                    "m.merged['b']",
                    "m.total_width",
                    "next(m.counter)",
                ),
            ),
            ("an indentation", "INDENT = '  '", "INDENT = '> '", ("m.wrap('a ' * 30)",)),
            ("a title", "Style('shop')", "Style('store')", ("m.TITLE.bold()", "m.HEADING")),
            ("a method of a text", "f'*{self}*'", "f'_{self}_'", ("m.TITLE.bold()",)),
            ("a key", "attrgetter('price')", "attrgetter('name')", ("m.CHEAP", "m.REST", "m.total()"), {}),
            ("an item", "Item('ink', 1)", "Item('ink', 3)", ("m.CHEAP", "m.total()", "m.ENCODED", "m.config.names")),
            (
                "a field",
                "['name', 'price']",
                "['name', 'price', 'tag'], defaults=['t']",
                ("m.ITEMS[0]", "m.ENCODED", "m.total()"),
                {"more": [("m", "Item = collections", "Item = collections")]},
            ),
            ("a fill", "fill='='", "fill='-'", ("m.HEADING",)),
            ("a fraction", "Fraction(1, 2)", "Fraction(1, 3)", ("m.half", "m.ENCODED")),
            ("a chain", "{'a': 1}, ", "{'a': 9}, ", ("m.merged['a']",)),
            ("a day", "range(1, 3)", "range(1, 4)", ("m.DAYS",)),
            ("an unpacking", "('a', 'b'), 'c'", "('d', 'e'), 'f'", ("(m.first, m.second, m.third)",)),
            ("a loop", "len(one.name)", "len(one.name) * 2", ("m.total_width",)),
            ("a docstring", "about texts", "about text", ("m.__doc__",)),
            ("no deletion", "del one\n", "", ("hasattr(m, 'one')",)),
            (
                "a name of a class",
                "class Style(str)",
                "class Look(str)",
                ("type(m.TITLE).__name__",),
                {"more": [("m", "Style('shop')", "Look('shop')")]},
            ),
        ],
    ),
    edits_of(
        "errors",
        ERRORS,
        [
            ("a code", "code = 400", "code = 500", ("m.MESSAGES", "str(m.ShopError('a'))")),
            ("a code of a subclass", "code = 404", "code = 410", ("m.MESSAGES",)),
            ("a text", "f'{self.code}: ", "f'{self.code} - ", ("m.MESSAGES", "m.handle(m.ShopError('q'))")),
            (
                "a base",
                "class NotFound(ShopError, LookupError)",
                "class NotFound(ShopError, KeyError)",
                ("m.NotFound.__mro__[2].__name__", "m.find('x')", "m.load('x')"),
            ),
            (
                "retried errors",
                "RETRIED = (NotFound, TimeoutError)",
                "RETRIED = (ShopError,)",
                ("m.find('x')", "m.retry.__defaults__"),
            ),
            ("times by default", "times=2", "times=5", ("m.find('x')", "m.find.times", "m.MESSAGES")),
            ("times", "times=3", "times=4", ("m.load('x')", "m.load.times", "m.MESSAGES")),
            ("a message", "gave up after", "failed after", ("m.find('x')", "m.MESSAGES")),
            ("a handler", "'missing'", "'gone'", ("m.MESSAGES", "m.handle(m.NotFound('a'))")),
            (
                "an order of handlers",
                "{NotFound: lambda error: 'missing', ShopError: str}",
                "{ShopError: str, NotFound: lambda error: 'missing'}",
                ("m.MESSAGES",),
            ),
            ("a method of a collection", "return len(self.data)", "return len(self.data) + 1", ("len(m.bag)",)),
            ("a field of a tuple", "'major minor'", "'major minor patch', defaults=(0,)", ("m.CURRENT", "m.NEXT")),
            ("a method of a tuple", "self.minor + 1", "self.minor + 2", ("m.NEXT", "m.CURRENT.bump()")),
            ("a text of a tuple", "f'v{", "f'V{", ("m.NEXT", "str(m.CURRENT)")),
        ],
    ),
]
ALL = with_expected(
    [edit for table in EDITS for edit in table],
    reported=[
        "dispatchers: an annotation that registers",
        "dispatchers: a kind of a loop",
        "dispatchers: a type of a mapping",
        "dispatchers: a registration is deleted",
        "protocols: a registration is deleted",
        "protocols: another registration",
        "logs: a default of a variable",
        "logs: a value of a variable",
        "logs: a formatter",
        "regular: a separator",
        "contexts: a default",
        "contexts: a name",
        "contexts: a step",
        "contexts: an entry",
        "contexts: suppressed errors",
        "contexts: a length",
        "contexts: what it returns",
        "texts: a width",
        "texts: an indentation",
        "texts: no deletion",
    ],
    false=[
        "dispatchers: a default by a constant",
        "logs: a child's name",
        "contexts: a value",
        "contexts: a lock",
    ],
)
