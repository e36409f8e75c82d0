"""Edits that a reviewer might try: plain Python with unusual features, and web, data and command-line libraries."""

from dataclasses import replace

from edit_cases import edits_of, with_expected

BILLING = """\
import decimal, operator, pickle, re, sys, weakref
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, InitVar, dataclass, field, fields, replace
from functools import lru_cache, partial, partialmethod, singledispatchmethod, wraps
from typing import ClassVar, NamedTuple, TypedDict
import rates
from rates import VAT as STANDARD, to_cents
__all__ = ['Invoice', 'Line', 'total_of']
REGISTRY = weakref.WeakValueDictionary()
SERIAL = 0
def next_serial():
    global SERIAL
    SERIAL += 1
    return SERIAL
class Line(NamedTuple):
    name: str
    cents: int = 100
    vat: float = STANDARD
    @property
    def gross(self):
        return round(self.cents * (1 + self.vat))
    @classmethod
    def parse(cls, text, *, sep=rates.SEPARATOR):
        name, _, cents = text.partition(sep)
        return cls(name, int(cents))
@dataclass(order=True, unsafe_hash=True)
class Money:
    cents: int
    currency: str = field(default='EUR', compare=False)
    _: KW_ONLY
    note: str = ''
    scale: InitVar[int] = 1
    count: ClassVar[int] = 0
    def __post_init__(self, scale):
        self.cents *= scale
        type(self).count += 1
    def __add__(self, other):
        return replace(self, cents=self.cents + other.cents, scale=1)
    def __radd__(self, other):
        return self if other == 0 else NotImplemented
    def __format__(self, spec):
        return f'{self.cents / 100:.2f}{spec or self.currency}'
FREE = Money(0)
LIMIT = Money(5, scale=rates.SCALE, note='limit')
PRICES = [Money(3), Money(1), Money(2)]
CHEAPEST, *OTHERS = sorted(PRICES)
SUM = sum(PRICES)
TEXT = f'{SUM} of {LIMIT:!} at {STANDARD:.0%}'
class Discount(ABC):
    rate = rates.DISCOUNT
    def __init_subclass__(cls, /, code=None, **rest):
        super().__init_subclass__(**rest)
        cls.code = code or cls.__name__.lower()
        Discount.codes = {**getattr(Discount, 'codes', {}), cls.code: cls}
    @abstractmethod
    def apply(self, money): ...
class Percent(Discount, code='pct'):
    def apply(self, money):
        return Money(round(money.cents * (1 - self.rate)))
class Fixed(Discount):
    amount = 1
    def apply(self, money):
        return Money(max(money.cents - self.amount, FREE.cents))
class Invoice:
    width = 12
    def __init__(self, *lines):
        self.lines, self.serial = lines, next_serial()
        REGISTRY[self.serial] = self
    def __iadd__(self, line):
        self.lines += (line,)
        return self
    def __matmul__(self, factor):
        return [round(line.cents * factor) for line in self.lines]
    __rmatmul__ = __matmul__
    @singledispatchmethod
    def show(self, value):
        return f'?{value}'
    @show.register
    def _(self, value: int):
        return str(value).rjust(self.width)
    @show.register(Line)
    def _line(self, value):
        return f'{value.name}:{value.gross}'
    short = partialmethod(show, 7)
    @lru_cache(maxsize=8)
    def summary(self, mark='*'):
        return mark.join(self.show(line) for line in self.lines)
    def __reduce__(self):
        return rebuild, self.lines
def rebuild(*lines):
    return Invoice(*lines)
FIRST = Invoice(Line('pen'), Line.parse('ink;250'))
FIRST += Line('cap', 30)
COPY = pickle.loads(pickle.dumps(FIRST))
def total_of(invoice, /, *, key=operator.attrgetter('gross'), start=FREE.cents):
    return sum(map(key, invoice.lines), start)
TOTAL = total_of(FIRST)
HALF = FIRST @ 0.5
class Meta(TypedDict, total=False):
    author: str
META: Meta = {'author': 'a'}
META |= {'year': rates.YEAR}
CENTS = [to_cents(price) for price in rates.TABLE if (whole := int(price)) > 1]
LAST = whole
WINDOW = rates.TABLE[rates.FROM:rates.TO]
match rates.YEAR % 2, rates.SEPARATOR:
    case 0, ';':
        MODE = 'even'
    case 1, str() as sep:
        MODE = 'odd' + sep
    case _:
        MODE = 'none'
"""
RATES = """\
VAT = 0.2
SEPARATOR = ';'
SCALE = 10
DISCOUNT = 0.1
YEAR = 2024
TABLE = (1, 2.5, 3.25, 4)
FROM, TO = 1, 3
def to_cents(price, *, factor=100):
    return round(price * factor)
"""
BILLED = (
    "m.Line('x').gross, m.Line._field_defaults, m.Line._fields", "m.Line.parse('a;5', ) if ';' in 'a;5' else 0",
    "m.FREE, m.LIMIT, m.PRICES, m.CHEAPEST, m.OTHERS, m.SUM", "m.TEXT, f'{m.LIMIT}'", "hash(m.FREE) == hash(m.Money(0)), m.FREE == m.Money(0, 'USD')",
    "sorted(m.Discount.codes), [c.code for c in (m.Percent, m.Fixed)]", "m.Percent().apply(m.Money(100)).cents, m.Fixed().apply(m.Money(100)).cents",
    "m.FIRST.lines, len(m.REGISTRY), m.SERIAL", "m.FIRST.show(3), m.FIRST.show('x'), m.FIRST.show(m.Line('q')), m.FIRST.short()",
    "m.FIRST.summary(), m.FIRST.summary('+')", "m.COPY.lines, type(m.COPY) is m.Invoice", "m.TOTAL, m.total_of(m.FIRST), m.HALF, 2 @ m.FIRST",
    "m.META, m.Meta.__optional_keys__, m.Meta.__annotations__.keys()", "m.CENTS, m.LAST, m.WINDOW, m.MODE", "m.__all__", "m.Money.__match_args__, repr(m.Money(1))",
    "__import__('inspect').signature(m.total_of).parameters.keys(), str(__import__('inspect').signature(m.Money))", "m.Invoice.summary.cache_info().maxsize",
    "sorted(n for n in vars(m) if not n.startswith('__'))",
)  # fmt: skip
BILLING_EDITS = edits_of(
    "billing",
    BILLING,
    [
        ("a rate that an import renames", "VAT = 0.2", "VAT = 0.3", BILLED, {"edited": "rates"}),
        ("a separator of a default and a case", "SEPARATOR = ';'", "SEPARATOR = ':'", BILLED, {"edited": "rates", "more": [("m", "'ink;250'", "'ink:250'")]}),
        ("a year of another case", "YEAR = 2024", "YEAR = 2025", BILLED, {"edited": "rates"}),
        ("bounds of a slice", "FROM, TO = 1, 3", "FROM, TO = 0, -1", BILLED, {"edited": "rates"}),
        ("a default of an imported function", "factor=100", "factor=1000", BILLED, {"edited": "rates"}),
        ("a factor of an initial variable", "SCALE = 10", "SCALE = 20", BILLED, {"edited": "rates"}),
        ("a class attribute of a base", "DISCOUNT = 0.1", "DISCOUNT = 0.5", BILLED, {"edited": "rates"}),
        ("a price more in a table", "3.25, 4)", "3.25, 4, 5)", BILLED, {"edited": "rates"}),
        ("an initial variable less", "    scale: InitVar[int] = 1\n", "", BILLED,
         {"more": [("m", "__post_init__(self, scale)", "__post_init__(self)"), ("m", "        self.cents *= scale\n", ""),
                   ("m", ", scale=1)", ")"), ("m", "scale=rates.SCALE, ", "")]}),
        ("a field that is compared", "compare=False", "compare=True", BILLED),
        ("keywords only from another field on", "    currency: str = field(default='EUR', compare=False)\n    _: KW_ONLY\n", "    _: KW_ONLY\n    currency: str = field(default='EUR', compare=False)\n", BILLED),
        ("no hash", "@dataclass(order=True, unsafe_hash=True)", "@dataclass(order=True)", (*BILLED[:4], *BILLED[5:], "m.Money.__hash__")),
        ("not ordered by a key", "sorted(PRICES)", "sorted(PRICES, key=lambda money: -money.cents)", BILLED),
        ("an addition", "self.cents + other.cents", "self.cents + 2 * other.cents", BILLED),
        ("a reflected addition", "return self if other == 0", "return replace(self, cents=self.cents + 7, scale=1) if other == 0", BILLED),
        ("a format", "{self.cents / 100:.2f}", "{self.cents / 100:.1f}", BILLED),
        ("a format in a text", "{LIMIT:!}", "{LIMIT:?}", BILLED),
        ("a keyword of a subclass", "code='pct'", "code='percent'", BILLED),
        ("a keyword of a subclass less", "(Discount, code='pct')", "(Discount)", BILLED),
        ("how a hook names", "cls.__name__.lower()", "cls.__name__.upper()", BILLED),
        ("an abstract method more that one class has", "    def apply(self, money): ...\n", "    def apply(self, money): ...\n    @abstractmethod\n    def undo(self): ...\n",
         BILLED, {"more": [("m", "    amount = 1\n", "    amount = 1\n    def undo(self):\n        return 0\n")]}),
        ("an augmented assignment", "self.lines += (line,)", "self.lines = (line, *self.lines)", BILLED),
        ("a shared operator", "round(line.cents * factor) for", "round(line.cents * factor) + 1 for", BILLED),
        ("a reflected operator less", "    __rmatmul__ = __matmul__\n", "", BILLED),
        ("an operator that is another", "def __matmul__(self, factor):", "def __mul__(self, factor):", BILLED, {"more": [("m", "__rmatmul__ = __matmul__", "__rmul__ = __mul__"), ("m", "FIRST @ 0.5", "FIRST * 0.5")]}),
        ("an annotation of a registration", "def _(self, value: int):", "def _(self, value: str):", BILLED),
        ("a registered name", "def _line(self, value)", "def _row(self, value)", BILLED),
        ("a registration less", "    @show.register\n    def _(self, value: int):\n        return str(value).rjust(self.width)\n", "", BILLED),
        ("an argument of a partial method", "partialmethod(show, 7)", "partialmethod(show, 8)", BILLED),
        ("a size of a cached method", "lru_cache(maxsize=8)", "lru_cache(maxsize=2)", BILLED, {"use": "m.FIRST.summary(); m.FIRST.summary('+')"}),
        ("a width that a cached method reads", "    width = 12\n", "    width = 4\n", BILLED, {"use": "m.FIRST.summary(); m.FIRST.summary('+')"}),
        ("a cached method's callee", "f'{value.name}:{value.gross}'", "f'{value.name}={value.gross}'", BILLED, {"use": "m.FIRST.summary(); m.FIRST.summary('+')"}),
        ("what an instance is pickled as", "return rebuild, self.lines", "return rebuild, self.lines[:1]", BILLED),
        ("how a pickle is read", "    return Invoice(*lines)", "    return Invoice(*lines[::-1])", BILLED),
        ("a function of a pickle that is renamed", "return rebuild, self.lines", "return restore, self.lines", BILLED, {"more": [("m", "def rebuild", "def restore")]}),
        ("a key of a default", "attrgetter('gross')", "attrgetter('cents')", BILLED),
        ("a default by an attribute", "FREE = Money(0)", "FREE = Money(9)", BILLED),
        ("a start of a counter", "SERIAL = 0", "SERIAL = 10", BILLED),
        ("a step of a counter", "SERIAL += 1", "SERIAL += 5", BILLED),
        ("a parameter that is only positional", "def total_of(invoice, /, *,", "def total_of(invoice, *,", BILLED),
        ("a total typed dict", ", total=False)", ")", BILLED),
        ("a merged entry less", "META |= {'year': rates.YEAR}\n", "", BILLED),
        ("a walrus in another condition", "(whole := int(price)) > 1", "(whole := int(price)) < 4", BILLED),
        ("a walrus of another name", "(whole := int(price)) > 1]\nLAST = whole", "(part := int(price)) > 1]\nLAST = part", BILLED),
        ("a case with a guard", "case 0, ';':", "case 0, ';' if rates.VAT > 1:", BILLED),
        ("a public name more", "'total_of']", "'total_of', 'Money']", BILLED),
        ("a class method's result", "return cls(name, int(cents))", "return cls(name.upper(), int(cents))", BILLED),
        ("a property of a named tuple becomes a field", "    @property\n    def gross(self):\n        return round(self.cents * (1 + self.vat))\n", "    gross: int = 5\n", BILLED),
    ],
    others={"rates": RATES},
)  # fmt: skip

WORKERS = """\
import asyncio, atexit, contextvars, queue, threading, time
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from types import MethodType
from weakref import WeakMethod, WeakSet, finalize
from tasks import HANDLERS, Stop, handler, limits
request_id = contextvars.ContextVar('request_id', default=limits.FIRST)
CONTEXT = contextvars.copy_context()
LOCAL = threading.local()
LOCAL.depth = limits.DEPTH
SEEN = []
class Worker:
    alive = WeakSet()
    batch: int = limits.BATCH
    def __init__(self, name, work=None):
        self.name, self.done, self.inbox = name, [], queue.Queue(maxsize=limits.QUEUE)
        self.work = work or self.handle
        self.alive.add(self)
    def handle(self, item):
        return HANDLERS[type(item).__name__](item)
    def run(self):
        while True:
            item = self.inbox.get()
            if item is Stop:
                self.finish()
                break
            self.done.append(self.step(item))
    def step(self, item):
        return self.prefix + str(self.work(item))
    def finish(self):
        self.done.append(f'{self.name} ends')
    @cached_property
    def prefix(self):
        return self.name[:limits.PREFIX] + '-'
    def __await__(self):
        yield from asyncio.sleep(0).__await__()
        return self.name
@handler('int')
def on_int(item):
    return item * limits.BATCH
@handler('str', 'bytes')
def on_text(item):
    return item[::-1]
@handler('list')
async def on_list(item):
    return [await _one(each) for each in item]
async def _one(item):
    await asyncio.sleep(0)
    return on_int(item)
async def ticks(stop, *, step=1):
    count = 0
    try:
        while count < stop:
            yield count
            count += step
    finally:
        SEEN.append('closed')
@asynccontextmanager
async def session(name='main'):
    token = request_id.set(name)
    try:
        yield request_id.get()
    finally:
        request_id.reset(token)
async def main():
    async with session() as name:
        found = [tick async for tick in ticks(limits.BATCH)]
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.sleep(5), limits.TIMEOUT)
    return name, found, await Worker('w'), await on_list([1, 2]), [x for x in await asyncio.gather(*map(_one, range(3)))]
def serve(items, worker):
    thread = threading.Thread(target=worker.run, name='serve', daemon=True)
    thread.start()
    for item in items:
        worker.inbox.put(item)
    worker.inbox.put(Stop)
    thread.join()
    return worker.done
MAIN = Worker('main')
SIDE = Worker('side', work=on_int)
BOUND = MAIN.step
WEAK = WeakMethod(MAIN.finish)
SIDE.finish = MethodType(lambda self: self.done.append('patched'), SIDE)
"""
TASKS = """\
import sys
class limits:
    FIRST, DEPTH, BATCH, QUEUE, PREFIX, TIMEOUT = 'none', 3, 2, 9, 2, 0.01
HANDLERS = {}
Stop = object()
def handler(*names, wrap=None):
    def register(function):
        for name in names:
            HANDLERS[name] = wrap(function) if wrap else function
        return function
    return register
"""
WORKED = (
    "m.serve([1, 'ab', b'cd'], m.Worker('new'))", "m.serve([1], m.SIDE)[-2:]", "m.MAIN.step(3), m.BOUND(4), m.BOUND('xy')", "m.WEAK()() or m.MAIN.done[-1:]",
    "__import__('asyncio').run(m.main())", "m.request_id.get(), m.CONTEXT.run(m.request_id.get), m.request_id.name, m.LOCAL.depth", "m.MAIN.inbox.maxsize, m.Worker.batch, sorted(vars(m.SIDE))",
    "{k: v.__name__ for k, v in m.HANDLERS.items()}", "{k: v([3]) if k != 'list' else 0 for k, v in m.HANDLERS.items()}", "m.SEEN[-1:]",
    "__import__('inspect').signature(m.ticks), __import__('inspect').signature(m.Worker)",
)  # fmt: skip
WORKER_EDITS = edits_of(
    "workers",
    WORKERS,
    [
        ("a batch of a namespace class", "'none', 3, 2, 9, 2, 0.01", "'none', 3, 4, 9, 2, 0.01", WORKED, {"edited": "tasks"}),
        ("a first value of a variable", "'none', 3, 2, 9", "'zero', 3, 2, 9", WORKED, {"edited": "tasks"}),
        ("a depth of a thread", "'none', 3, 2, 9", "'none', 5, 2, 9", WORKED, {"edited": "tasks"}),
        ("a size of queues", "'none', 3, 2, 9", "'none', 3, 2, 12", WORKED, {"edited": "tasks"}),
        ("a prefix of a cached value", "9, 2, 0.01", "9, 3, 0.01", WORKED, {"edited": "tasks", "use": "m.MAIN.step(1)"}),
        ("how handlers are stored", "HANDLERS[name] = wrap(function) if wrap else function", "HANDLERS[name.lower()] = lambda item: function(item)", WORKED, {"edited": "tasks"}),
        ("another sentinel", "Stop = object()", "class Stop: pass", WORKED, {"edited": "tasks"}),
        ("a name more of a handler", "@handler('str', 'bytes')", "@handler('str', 'bytes', 'bytearray')", WORKED),
        ("a name less of a handler", "@handler('str', 'bytes')", "@handler('str')", (*WORKED[1:],)),
        ("a wrapped handler", "@handler('int')", "@handler('int', wrap=lambda f: lambda x: f(x))", WORKED),
        ("a handler that is no longer asynchronous", "@handler('list')\nasync def on_list", "@handler('list')\ndef on_list", (*WORKED[:4], *WORKED[5:]), {"more": [("m", "[await _one(each) for each in item]", "[each for each in item]")]}),
        ("a method of a loop", "return self.prefix + str(self.work(item))", "return self.prefix + repr(self.work(item))", WORKED),
        ("a body of a loop", "                self.finish()\n", "                self.done.append('last')\n                self.finish()\n", WORKED),
        ("a weakly bound method", "f'{self.name} ends'", "f'{self.name} is done'", WORKED),
        ("a weakly bound method that is renamed", "    def finish(self):", "    def end(self):", WORKED, {"more": [("m", "self.finish()", "self.end()"), ("m", "MAIN.finish)", "MAIN.end)"), ("m", "SIDE.finish =", "SIDE.end =")]}),
        ("a patched method of an instance", "append('patched')", "append('again')", WORKED),
        ("a patched method less", "SIDE.finish = MethodType(lambda self: self.done.append('patched'), SIDE)\n", "", WORKED),
        ("a bound method of another instance", "BOUND = MAIN.step", "BOUND = SIDE.step", WORKED),
        ("a bound method that is renamed", "    def step(self, item):", "    def do(self, item):", WORKED, {"more": [("m", "self.step(item)", "self.do(item)"), ("m", "BOUND = MAIN.step", "BOUND = MAIN.do")]}),
        ("a method that instances hold", "return HANDLERS[type(item).__name__](item)", "return HANDLERS[type(item).__name__](item) * 2", WORKED),
        ("a work of an instance", "work=on_int", "work=on_text", WORKED),
        ("an awaited result", "        return self.name\n", "        return self.name.upper()\n", WORKED),
        ("a step of an asynchronous generator", "step=1", "step=2", WORKED),
        ("an end of an asynchronous generator", "SEEN.append('closed')", "SEEN.append('CLOSED')", WORKED),
        ("a name of a session", "session(name='main')", "session(name='top')", WORKED),
        ("a name of a variable", "ContextVar('request_id',", "ContextVar('request',", WORKED),
        ("a plain generator", "async def ticks", "def ticks", WORKED, {"more": [("m", "[tick async for tick", "[tick for tick")]}),
    ],
    others={"tasks": TASKS},
)  # fmt: skip

KINDS = """\
from __future__ import annotations
import enum, sys
from enum import Enum, Flag, IntEnum, auto, unique
from functools import total_ordering
from types import DynamicClassAttribute
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, get_args, get_type_hints, overload, runtime_checkable
from base import Model, Field, Text, tracked
if TYPE_CHECKING:
    from collections.abc import Callable
try:
    from base import Extra
except ImportError:
    class Extra:
        mark = 'fallback'
if sys.version_info >= (3, 8):
    def modern(x): return x + 1
else:
    def modern(x): return x
T = TypeVar('T')
K = TypeVar('K', bound='Color')
Shade = Literal['dark', 'light']
SHADES = get_args(Shade)
class Color(Enum):
    RED = 'r'
    GREEN = 'g', 'lawn'
    BLUE = 'b'
    CRIMSON = RED
    def __new__(cls, code, label='plain'):
        self = object.__new__(cls)
        self._value_ = code
        self.label = label
        return self
    @property
    def title(self):
        return self.name.title() + self.label
    @classmethod
    def _missing_(cls, value):
        return cls.BLUE if value == '?' else None
    __repr__ = lambda self: f'<{self.name}>'
@unique
class Size(IntEnum):
    SMALL = auto()
    LARGE = auto()
    @classmethod
    def default(cls):
        return cls.SMALL
class Perm(Flag):
    R = auto()
    W = auto()
    X = auto()
    ALL = R | W | X
MASK = Perm.R | Perm.W
BY_COLOR = {Color.RED: 1, Color.GREEN: 2, Color.BLUE: 3}
ORDER = sorted(Color, key=BY_COLOR.get, reverse=True)
@runtime_checkable
class Sized(Protocol):
    size: int
    def grow(self) -> int: ...
class Item(Model, table='items'):
    name = Text(default='n', length=4)
    size = Field(int, default=Size.default())
    def grow(self) -> int:
        return self.size + 1
class Special(Item):
    size = Field(int, default=Size.LARGE)
    extra = Text()
class Box(Generic[T]):
    made = []
    __slots__ = ('item', '__weakref__')
    def __init__(self, item: T):
        self.item = item
        Box.made.append(type(item).__name__)
    def map(self, function: Callable[[T], Any]) -> Box:
        return Box(function(self.item))
    def __class_getitem__(cls, key):
        return super().__class_getitem__(key)
@overload
def pick(x: int) -> int: ...
@overload
def pick(x: str) -> str: ...
def pick(x):
    return x * 2
@tracked
class Temp:
    unit = 'C'
    def __init__(self, degrees): self._degrees = degrees
    @property
    def degrees(self): return self._degrees
    @degrees.setter
    def degrees(self, value): self._degrees = max(value, -273)
    @degrees.deleter
    def degrees(self): self._degrees = 0
    def __eq__(self, other): return self._degrees == other._degrees
    __hash__ = None
WARM = Temp(20)
BOXES = [Box(1), Box('a').map(len)]
CHECKED = isinstance(Item(), Sized)
def hints(): return sorted(get_type_hints(Box.map, None, {'Callable': object} if False else {'Callable': Any.__class__ and dict}) if False else pick.__annotations__)
"""
BASE = """\
class Field:
    count = 0
    def __init__(self, kind=str, *, default=None):
        self.kind, self.default = kind, default
        Field.count += 1
        self.order = Field.count
    def __set_name__(self, owner, name):
        self.name = name
        owner.__dict__.get('_fields', owner.__mro__[1].__dict__.get('_fields'))
    def __get__(self, instance, owner=None):
        return self if instance is None else instance.__dict__.get(self.name, self.default)
    def __set__(self, instance, value):
        instance.__dict__[self.name] = self.kind(value)
class Text(Field):
    def __init__(self, *, default='', length=10):
        super().__init__(str, default=default)
        self.length = length
    def __set__(self, instance, value):
        super().__set__(instance, value[:self.length])
class ModelType(type):
    tables = {}
    def __new__(meta, name, bases, space, table=None, **rest):
        kind = super().__new__(meta, name, bases, space, **rest)
        kind.columns = [*(c for b in bases for c in getattr(b, 'columns', ()) if c not in space), *(n for n, v in space.items() if isinstance(v, Field))]
        if table or bases:
            meta.tables[table or name.lower()] = kind
        return kind
    def __call__(cls, **values):
        self = super().__call__()
        for name, value in values.items():
            setattr(self, name, value)
        return self
    def __iter__(cls): return iter(cls.columns)
    def __contains__(cls, name): return name in cls.columns
class Model(metaclass=ModelType):
    def as_dict(self): return {name: getattr(self, name) for name in type(self)}
def tracked(kind):
    kind.known = sorted(n for n in vars(kind) if not n.startswith('_'))
    return kind
"""
KIND_PROBES = (
    "[(c.name, c.value, c.title) for c in m.Color], m.Color.CRIMSON, m.Color('?'), list(m.Color.__members__)", "[(s.name, int(s)) for s in m.Size], m.Size.default()",
    "m.MASK, [p.value for p in m.Perm], m.Perm.ALL.value", "m.BY_COLOR, m.ORDER, m.BY_COLOR.get(m.Color.RED)", "m.SHADES", "m.Item().as_dict(), m.Special(name='abcdefgh').as_dict()",
    "list(m.Item), list(m.Special), 'extra' in m.Special, {k: v.__name__ for k, v in type(m.Item).tables.items()}", "m.Item.size.default, m.Special.size.order > m.Item.size.order, m.Item.size.default is m.Size(m.Item.size.default.value)",
    "m.CHECKED, isinstance(m.Item(), m.Sized), isinstance(3, m.Sized)", "[b.item for b in m.BOXES], m.Box.made", "m.Box[int]", "m.pick(3), m.hints()",
    "m.WARM.degrees, m.Temp.known, m.Temp.unit, m.WARM == m.Temp(20), m.Temp.__hash__ is None", "m.modern(1), m.Extra.mark", "[setattr(m.WARM, 'degrees', -999), m.WARM.degrees, delattr(m.WARM, 'degrees'), m.WARM.degrees, setattr(m.WARM, 'degrees', 20)]",
    "m.K.__bound__, m.T.__name__", "m.Box.__slots__, m.Sized.__protocol_attrs__ if hasattr(m.Sized, '__protocol_attrs__') else 0", "[p.name for p in m.Perm if p in m.MASK]",
)  # fmt: skip
KIND_EDITS = edits_of(
    "kinds",
    KINDS,
    [
        ("a label of a member", "'g', 'lawn'", "'g', 'moss'", KIND_PROBES),
        ("an alias of another member", "CRIMSON = RED", "CRIMSON = BLUE", KIND_PROBES),
        ("an alias becomes a member", "CRIMSON = RED", "CRIMSON = 'c'", KIND_PROBES, {"more": [("m", "Color.BLUE: 3}", "Color.BLUE: 3, Color.CRIMSON: 4}")]}),
        ("a default label", "label='plain'", "label='simple'", KIND_PROBES),
        ("a missing value", "cls.BLUE if value == '?'", "cls.RED if value == '?'", KIND_PROBES),
        ("a repr by a lambda", "f'<{self.name}>'", "f'[{self.name}]'", KIND_PROBES),
        ("a member in the middle", "    LARGE = auto()", "    MEDIUM = auto()\n    LARGE = auto()", KIND_PROBES),
        ("a default member", "return cls.SMALL", "return cls.LARGE", KIND_PROBES),
        ("a flag less", "    X = auto()\n    ALL = R | W | X", "    ALL = R | W", KIND_PROBES),
        ("a flag more at the start", "    R = auto()", "    N = auto()\n    R = auto()", KIND_PROBES),
        ("a mask", "MASK = Perm.R | Perm.W", "MASK = Perm.ALL & ~Perm.R", KIND_PROBES),
        ("an integer enumeration becomes plain", "class Size(IntEnum)", "class Size(Enum)", ("[(s.name, s.value) for s in m.Size]", *KIND_PROBES[2:5], "m.Item.size.default, isinstance(m.Size.SMALL, int)")),
        ("a literal more", "Literal['dark', 'light']", "Literal['dark', 'light', 'dim']", KIND_PROBES),
        ("a member of a protocol more", "    def grow(self) -> int: ...", "    def grow(self) -> int: ...\n    def shrink(self) -> int: ...", KIND_PROBES),
        ("no longer checkable", "@runtime_checkable\nclass Sized", "class Sized", (*KIND_PROBES[:8], "m.CHECKED" if False else "len(m.SHADES)", "isinstance(m.Item(), m.Sized)"), {"more": [("m", "CHECKED = isinstance(Item(), Sized)", "CHECKED = None")]}),
        ("a table's name", "table='items'", "table='things'", KIND_PROBES),
        ("a length of a text", "length=4", "length=6", KIND_PROBES),
        ("a column less", "    extra = Text()\n", "    pass\n", KIND_PROBES),
        ("a column that is inherited now", "class Special(Item):\n    size = Field(int, default=Size.LARGE)\n", "class Special(Item):\n", KIND_PROBES),
        ("columns in another order", "    name = Text(default='n', length=4)\n    size = Field(int, default=Size.default())\n", "    size = Field(int, default=Size.default())\n    name = Text(default='n', length=4)\n", KIND_PROBES),
        ("a column in a base becomes a property", "    name = Text(default='n', length=4)\n", "    @property\n    def name(self): return 'fixed'\n", (*KIND_PROBES[:5], "m.Item().as_dict()", *KIND_PROBES[6:])),
        ("a base of a model", "class Special(Item):", "class Special(Model):", KIND_PROBES),
        ("a slot more of a generic", "('item', '__weakref__')", "('item', 'note', '__weakref__')", KIND_PROBES),
        ("a subscript", "return super().__class_getitem__(key)", "return (cls.__name__, key)", KIND_PROBES),
        ("no parameter", "class Box(Generic[T]):", "class Box:", (*KIND_PROBES[:10], *KIND_PROBES[11:]), {"more": [("m", "    def __class_getitem__(cls, key):\n        return super().__class_getitem__(key)\n", "")]}),
        ("an overload less", "@overload\ndef pick(x: str) -> str: ...\n", "", KIND_PROBES),
        ("a setter", "max(value, -273)", "max(value, 0)", KIND_PROBES),
        ("a setter less", "    @degrees.setter\n    def degrees(self, value): self._degrees = max(value, -273)\n", "", KIND_PROBES),
        ("a deleter less", "    @degrees.deleter\n    def degrees(self): self._degrees = 0\n", "", KIND_PROBES),
        ("a hash", "__hash__ = None", "def __hash__(self): return 1", KIND_PROBES),
        ("an attribute more of a tracked class", "    unit = 'C'\n", "    unit = 'F'\n    zero = 32\n", KIND_PROBES),
        ("a method more of a tracked class", "    unit = 'C'\n", "    unit = 'C'\n    def warm(self): return 1\n", KIND_PROBES),
        ("a tracking decorator less", "@tracked\n", "", KIND_PROBES),
        ("what is tracked", "if not n.startswith('_'))", "if not n.startswith('__'))", KIND_PROBES, {"edited": "base"}),
        ("an import that works now", "def tracked(kind):", "class Extra:\n    mark = 'extra'\ndef tracked(kind):", KIND_PROBES, {"edited": "base"}),
        ("a condition of a version", "sys.version_info >= (3, 8)", "sys.version_info >= (9, 8)", KIND_PROBES),
        ("a bound that is a text", "bound='Color'", "bound='Size'", KIND_PROBES),
        ("a default of a descriptor's base", "default=None", "default=0", KIND_PROBES, {"edited": "base"}),
        ("a conversion of a descriptor", "self.kind(value)", "self.kind(value) * 2", KIND_PROBES, {"edited": "base"}),
        ("a default length", "length=10", "length=2", (*KIND_PROBES, "m.Special.extra.length"), {"edited": "base"}),
        ("how a metaclass collects", "if isinstance(v, Field))]", "if isinstance(v, Field) and n != 'name')]", KIND_PROBES, {"edited": "base"}),
        ("how a metaclass names", "table or name.lower()", "table or name.upper()", KIND_PROBES, {"edited": "base"}),
        ("how a metaclass creates", "self = super().__call__()", "self = super().__call__()\n        self.size = 5", KIND_PROBES, {"edited": "base"}),
        ("how a class is iterated", "iter(cls.columns)", "reversed(cls.columns)", KIND_PROBES, {"edited": "base"}),
        ("a special method of a metaclass less", "    def __contains__(cls, name): return name in cls.columns\n", "", KIND_PROBES, {"edited": "base"}),
        ("a shared list", "    made = []\n", "    made = ['first']\n", KIND_PROBES),
        ("a loop over members", "reverse=True", "reverse=False", KIND_PROBES),
    ],
    others={"base": BASE},
)  # fmt: skip

WRAPPED = """\
import functools, inspect, time
from functools import wraps, total_ordering, partial
import marks
from marks import traced, every_method, singleton, with_slots, registered, validated, PLUGINS
@every_method(marks.TAG)
class Service:
    name = 'svc'
    def start(self, times=1):
        "Start it."
        return 'start' * times
    def stop(self):
        return 'stop' + self.name
    @staticmethod
    def helper(x):
        return x + 1
    @classmethod
    def make(cls):
        return cls.__name__
@singleton
class Config:
    def __init__(self):
        self.level = marks.LEVEL
CONFIG = Config()
@registered('json', priority=2)
@registered('yaml')
class Loader:
    kind = 'loader'
    def load(self): return self.kind
@registered('toml', priority=1)
class Toml(Loader):
    kind = 'toml'
@total_ordering
class Version:
    def __init__(self, *parts): self.parts = parts
    def __eq__(self, other): return self.parts == other.parts
    def __lt__(self, other): return self.parts < other.parts
OLD, NEW = sorted([Version(2), Version(1, 5)])
@traced
def area(w: int, h: int = 2, *, unit: str = 'cm') -> str:
    "Compute an area."
    return f'{w * h}{unit}'
@traced(prefix='>>')
@validated
def scale(w: int, factor: 'float' = 1.5):
    return w * factor
@functools.lru_cache(maxsize=None)
def slow(n):
    return n if n < 2 else slow(n - 1) + slow(n - 2) + marks.LEVEL
half = partial(scale, factor=0.5)
NAMES = [f.__name__ for f in (area, scale, Service.start)]
SIGNATURES = {f.__name__: str(inspect.signature(f)) for f in (area, scale)}
class Timer:
    calls = 0
    def __init__(self, function):
        functools.update_wrapper(self, function)
        self.function = function
    def __call__(self, *args):
        Timer.calls += 1
        return self.function(*args), self.label()
    def __get__(self, instance, owner=None):
        return self if instance is None else partial(self, instance)
    def label(self): return 't'
@Timer
def work(x): return x
class Job:
    @Timer
    def run(self, x): return x * 2
JOB = Job()
def compose(*functions):
    return functools.reduce(lambda f, g: lambda x: f(g(x)), functions)
PIPE = compose(str, marks.double, abs)
handlers = {}
for _event in ('open', 'close'):
    def _handler(data, event=_event):
        return event + data
    handlers[_event] = _handler
del _event, _handler
def build(kind):
    count = 0
    def bump(step=1):
        nonlocal count
        count += step
        return f'{kind}{count}'
    bump.reset = lambda: kind
    return bump
BUMP = build('b')
FIRST_BUMP = BUMP(5)
"""
MARKS = """\
import functools
TAG, LEVEL = 'T', 3
PLUGINS = {}
def double(x): return x * 2
def every_method(tag):
    def decorate(cls):
        for name, value in list(vars(cls).items()):
            if callable(value) and not name.startswith('_'):
                setattr(cls, name, _wrap(value, tag))
        cls.tagged = tag
        return cls
    return decorate
def _wrap(function, tag):
    @functools.wraps(function)
    def inner(*args, **kw):
        return tag + function(*args, **kw)
    return inner
def singleton(cls):
    made = {}
    @functools.wraps(cls)
    def get(*args):
        if cls not in made:
            made[cls] = cls(*args)
        return made[cls]
    return get
def with_slots(cls): return cls
def registered(name, priority=0):
    def decorate(cls):
        PLUGINS[name] = cls, priority
        return cls
    return decorate
def traced(function=None, *, prefix='>'):
    if function is None:
        return functools.partial(traced, prefix=prefix)
    @functools.wraps(function)
    def inner(*args, **kw):
        return prefix, function(*args, **kw)
    inner.prefix = prefix
    return inner
def validated(function):
    kinds = dict(function.__annotations__)
    @functools.wraps(function)
    def inner(*args, **kw):
        return function(*args, **kw), sorted(kinds)
    inner.kinds = kinds
    return inner
"""
WRAPPED_PROBES = (
    "m.Service().start(2), m.Service().stop(), m.Service.helper(1), m.Service.make(), m.Service.tagged", "m.Config() is m.CONFIG, m.CONFIG.level, m.Config.__name__",
    "{k: (c.__name__, c().load(), p) for k, (c, p) in sorted(m.PLUGINS.items())}, m.Loader().load()", "m.OLD.parts, m.NEW.parts, m.OLD <= m.NEW, m.OLD > m.NEW, m.OLD != m.NEW",
    "m.area(2), m.area.prefix, m.area.__doc__", "m.scale(2), m.half(2), m.scale.prefix, m.scale.kinds", "m.slow(5)", "m.NAMES, m.SIGNATURES", "m.work(1), m.JOB.run(2), m.work.__name__, m.Job.run.__name__",
    "m.PIPE(-4)", "{k: h('x') for k, h in m.handlers.items()}", "m.FIRST_BUMP, m.BUMP.reset()", "str(m.inspect.signature(m.Service.start)), m.Service.start.__doc__",
    "m.area.__annotations__, m.scale.__wrapped__.__annotations__", "sorted(n for n in vars(m) if not n.startswith('__'))", "m.Loader is m.PLUGINS['json'][0], issubclass(m.Toml, m.Loader)",
)  # fmt: skip
WRAPPED_EDITS = edits_of(
    "wrapped",
    WRAPPED,
    [
        ("a tag of every method", "'T', 3", "'U', 3", WRAPPED_PROBES, {"edited": "marks"}),
        ("how every method is wrapped", "return tag + function(*args, **kw)", "return function(*args, **kw) + tag", WRAPPED_PROBES, {"edited": "marks"}),
        ("which methods are wrapped", "not name.startswith('_')", "not name.startswith('sto')", (*WRAPPED_PROBES[:1], *WRAPPED_PROBES[2:]), {"edited": "marks"}),
        ("what a class decorator stores", "cls.tagged = tag", "cls.tagged = tag * 2", WRAPPED_PROBES, {"edited": "marks"}),
        ("no decorator of every method", "@every_method(marks.TAG)\n", "", (*WRAPPED_PROBES[1:],)),
        ("a constant argument of a class decorator", "every_method(marks.TAG)", "every_method('V')", WRAPPED_PROBES),
        ("a body of a wrapped method", "return 'start' * times", "return 'begin' * times", WRAPPED_PROBES),
        ("a wrapped method more", "    def stop(self):", "    def pause(self):\n        return 'pause'\n    def stop(self):", (*WRAPPED_PROBES, "m.Service().pause()")),
        ("a default of a wrapped method", "times=1", "times=3", (*WRAPPED_PROBES, "m.Service().start()")),
        ("a docstring of a wrapped method", "Start it.", "Start it now.", WRAPPED_PROBES),
        ("a level of a singleton", "'T', 3", "'T', 4", WRAPPED_PROBES, {"edited": "marks"}),
        ("a constructor of a singleton", "self.level = marks.LEVEL", "self.level = marks.LEVEL * 2", WRAPPED_PROBES),
        ("how a singleton is stored", "made[cls] = cls(*args)", "made[cls] = made[0] = cls(*args)", WRAPPED_PROBES, {"edited": "marks"}),
        ("a priority of a class", "priority=2)", "priority=5)", WRAPPED_PROBES),
        ("a name less of a class", "@registered('yaml')\n", "", WRAPPED_PROBES),
        ("another name of a class", "'toml', priority", "'ini', priority", WRAPPED_PROBES),
        ("an attribute of a registered class", "kind = 'loader'", "kind = 'base'", WRAPPED_PROBES),
        ("a registered class less", "@registered('toml', priority=1)\nclass Toml(Loader):\n    kind = 'toml'\n", "", WRAPPED_PROBES[:-1]),
        ("what a class is registered as", "PLUGINS[name] = cls, priority", "PLUGINS[name] = cls, -priority", WRAPPED_PROBES, {"edited": "marks"}),
        ("another comparison of an order", "def __lt__(self, other): return self.parts < other.parts", "def __gt__(self, other): return self.parts < other.parts", WRAPPED_PROBES),
        ("a prefix by default", "prefix='>'", "prefix='|'", WRAPPED_PROBES, {"edited": "marks"}),
        ("a prefix of one function", "prefix='>>'", "prefix='->'", WRAPPED_PROBES),
        ("no arguments of a decorator", "@traced(prefix='>>')", "@traced", WRAPPED_PROBES),
        ("an annotation that a decorator reads", "factor: 'float' = 1.5", "factor = 1.5", WRAPPED_PROBES),
        ("a default behind two decorators", "= 1.5", "= 2.5", WRAPPED_PROBES),
        ("a keyword of a partial", "factor=0.5", "factor=0.25", WRAPPED_PROBES),
        ("a parameter more of a traced function", "unit: str = 'cm'", "unit: str = 'cm', sep: str = ' '", WRAPPED_PROBES, {"more": [("m", "{w * h}{unit}", "{w * h}{sep}{unit}")]}),
        ("what a recursive function reads", "'T', 3", "'T', 1", WRAPPED_PROBES, {"edited": "marks", "use": "m.slow(20)"}),
        ("no cache of a recursive function", "@functools.lru_cache(maxsize=None)\n", "", WRAPPED_PROBES, {"use": "m.slow(20)"}),
        ("a method of a decorating object", "return 't'", "return 'timer'", WRAPPED_PROBES),
        ("how a decorating object binds", "partial(self, instance)", "partial(self, instance, 5) if False else lambda *a: self(instance, *a)", WRAPPED_PROBES),
        ("how a decorating object is made", "self.function = function\n", "self.function = lambda *a: function(*a) or 0\n", WRAPPED_PROBES),
        ("a body in a decorating object", "def run(self, x): return x * 2", "def run(self, x): return x * 3", WRAPPED_PROBES),
        ("a name in a decorating object", "def work(x): return x", "def labour(x): return x", (*WRAPPED_PROBES[:8], *WRAPPED_PROBES[9:], "m.labour(1), m.labour.__name__")),
        ("a function of a pipe", "return x * 2", "return x * 3", WRAPPED_PROBES, {"edited": "marks"}),
        ("another function of a pipe", "marks.double, abs", "abs, marks.double", WRAPPED_PROBES),
        ("how a pipe is made", "lambda x: f(g(x))", "lambda x: g(f(x))", ("m.handlers['open']('x')", *WRAPPED_PROBES[:9])),
        ("an event more of a loop", "('open', 'close')", "('open', 'save', 'close')", WRAPPED_PROBES),
        ("a body in a loop", "return event + data", "return data + event", WRAPPED_PROBES),
        ("no deletion after a loop", "del _event, _handler\n", "", WRAPPED_PROBES),
        ("an argument of a closure's maker", "build('b')", "build('c')", WRAPPED_PROBES),
        ("a step of a closure", "step=1", "step=2", (*WRAPPED_PROBES, "m.BUMP()"), {"expects": "right"}),
        ("an attribute of a closure", "bump.reset = lambda: kind", "bump.reset = lambda: kind.upper()", WRAPPED_PROBES),
    ],
    others={"marks": MARKS},
)  # fmt: skip

PACKAGE = """\
\"\"\"A package's front.\"\"\"
from . import core, shapes as forms
from .core import *
from .core import _hidden as visible
from .shapes import Circle, Square as Box
try:
    from .fast import area
except ImportError:
    from .slow import area
__all__ = [*core.__all__, 'Circle', 'Box', 'area', 'describe']
__version__ = '.'.join(map(str, core.VERSION))
_LAZY = {'Later': 'later', 'now': 'later'}
def __getattr__(name):
    import importlib
    if name in _LAZY:
        return getattr(importlib.import_module('.' + _LAZY[name], __name__), name)
    raise AttributeError(name)
def __dir__():
    return sorted([*globals(), *_LAZY])
def describe(shape, *, style=core.STYLE):
    return f'{style}{forms.name_of(shape)}:{area(shape)}'
"""
PACKAGE_OTHERS = {
    "pkg.core": """\
__all__ = ['STYLE', 'VERSION', 'Base', 'register']
VERSION = (1, 2)
STYLE = '#'
KINDS = {}
_hidden = 'h'
class Base:
    sides = 0
    def __init_subclass__(cls, **words):
        super().__init_subclass__(**words)
        KINDS[cls.__name__.lower()] = cls
    @property
    def kind(self): return type(self).__name__ + str(self.sides)
def register(name):
    def decorate(function):
        KINDS[name] = function
        return function
    return decorate
""",
    "pkg.shapes": """\
from __future__ import annotations
import typing as t
from .core import Base, register, KINDS
from . import core
if t.TYPE_CHECKING:
    from .slow import area
class Circle(Base):
    radius: float = 1.0
class Square(Base):
    sides = 4
    side = 2
    def grow(self, by: int = core.VERSION[1]) -> Square:
        self.side += by
        return self
@register('unit')
def unit() -> Square:
    return Square()
def name_of(shape: Base) -> str:
    return shape.kind + core.STYLE
def count():
    from .slow import PI
    return len(KINDS), PI
""",
    "pkg.slow": """\
from . import shapes
PI = 3
def area(shape):
    return PI * shape.radius ** 2 if isinstance(shape, shapes.Circle) else shape.side ** 2
""",
    "pkg.later": """\
from pkg import Circle
now = 'now'
class Later(Circle):
    radius = 2.0
""",
    "m": """\
import pkg, pkg.shapes as s
from pkg import *
from pkg import Later, visible, __version__ as version
import pkg.slow
TEXT = describe(Circle()) + version
NOW = pkg.now
LATE = Later().radius
SIZES = {k: v.__name__ for k, v in sorted(pkg.core.KINDS.items())}
class Cube(Box):
    sides = 6
CUBE = Cube()
""",
}
PACKAGE_PROBES = (
    "m.TEXT, m.NOW, m.LATE, m.SIZES, m.version", "m.describe(m.CUBE), m.describe(pkg.Circle())", "sorted(n for n in vars(m) if n[0] != '_')", "sorted(n for n in vars(pkg) if n[0] != '_')",
    "sorted(n for n in dir(pkg) if n[0] != '_')", "pkg.__all__, pkg.__version__, pkg.visible, m.visible", "{k: v.__name__ for k, v in sorted(core.KINDS.items())}", "shapes.count(), slow.area(pkg.Circle())",
    "pkg.Box is shapes.Square, m.Box is shapes.Square, m.Circle is pkg.Circle, pkg.Later.__bases__[0] is pkg.Circle", "m.CUBE.kind, m.CUBE.side, isinstance(m.CUBE, shapes.Square)", "__import__('inspect').signature(shapes.Square.grow), __import__('inspect').signature(pkg.describe)",
    "pkg.area.__module__, m.area is pkg.area", "pkg.__doc__",
)  # fmt: skip
PACKAGE_EDITS = [
    replace(edit, text=PACKAGE_OTHERS["m"], others={"pkg.__init__": PACKAGE, **{k: v for k, v in PACKAGE_OTHERS.items() if k != "m"}})
    for edit in edits_of(
        "package",
        "",
        [
            ("a public name more", "'Base', 'register']", "'Base', 'register', 'KINDS']", PACKAGE_PROBES, {"edited": "pkg.core"}),
            ("a public name less", "'Base', 'register']", "'Base']", PACKAGE_PROBES, {"edited": "pkg.core"}),
            ("a version", "(1, 2)", "(1, 3)", PACKAGE_PROBES, {"edited": "pkg.core"}),
            ("a style", "STYLE = '#'", "STYLE = '%'", PACKAGE_PROBES, {"edited": "pkg.core"}),
            ("a hidden name", "_hidden = 'h'", "_hidden = 'H'", PACKAGE_PROBES, {"edited": "pkg.core"}),
            ("how a kind is named", "KINDS[cls.__name__.lower()] = cls", "KINDS[cls.__name__] = cls", PACKAGE_PROBES, {"edited": "pkg.core"}),
            ("a kind", "type(self).__name__ + str(self.sides)", "type(self).__qualname__ + str(self.sides + 1)", PACKAGE_PROBES, {"edited": "pkg.core"}),
            ("how a function is registered", "KINDS[name] = function", "KINDS[name.upper()] = function", PACKAGE_PROBES, {"edited": "pkg.core"}),
            ("a class that is renamed", "class Square(Base)", "class Quad(Base)", PACKAGE_PROBES[:7], {"edited": "pkg.shapes", "more": [("pkg.shapes", "-> Square:\n        self", "-> Quad:\n        self"), ("pkg.shapes", "-> Square:\n    return Square()", "-> Quad:\n    return Quad()"), ("pkg.__init__", "Square as Box", "Quad as Box")]}),
            ("a radius", "radius: float = 1.0", "radius: float = 2.0", PACKAGE_PROBES, {"edited": "pkg.shapes"}),
            ("a constant of a late module", "PI = 3", "PI = 4", PACKAGE_PROBES, {"edited": "pkg.slow"}),
            ("how an area is calculated", "shape.side ** 2", "shape.side ** 3", PACKAGE_PROBES, {"edited": "pkg.slow"}),
            ("another name of a lazy class", "radius = 2.0", "radius = 3.0", PACKAGE_PROBES, {"edited": "pkg.later"}),
            ("a lazy value", "now = 'now'", "now = 'NOW'", PACKAGE_PROBES, {"edited": "pkg.later"}),
            ("a lazy name more", "'now': 'later'}", "'now': 'later', 'soon': 'later'}", (*PACKAGE_PROBES, "pkg.soon"), {"edited": "pkg.__init__", "more": [("pkg.later", "now = 'now'", "now = 'now'\nsoon = 's'")]}),
            ("a lazy name less", "NOW = pkg.now\n", "", (*PACKAGE_PROBES[1:], "pkg.now"), {"edited": "m", "more": [("pkg.__init__", ", 'now': 'later'}", "}")]}),
            ("another style of a default", "style=core.STYLE", "style='!'", PACKAGE_PROBES, {"edited": "pkg.__init__"}),
            ("an alias of an import", "Square as Box", "Circle as Box", PACKAGE_PROBES, {"edited": "pkg.__init__"}),
            ("an alias of a module", "shapes as forms", "shapes as figures", PACKAGE_PROBES, {"edited": "pkg.__init__", "more": [("pkg.__init__", "forms.name_of", "figures.name_of")]}),
            ("a public name of the front", "'area', 'describe']", "'describe']", (*PACKAGE_PROBES[:11], *PACKAGE_PROBES[12:]), {"edited": "pkg.__init__"}),
            ("a docstring of the front", "A package's front.", "The front.", PACKAGE_PROBES, {"edited": "pkg.__init__"}),
            ("a front's function", "{style}{forms", "{style}={forms", PACKAGE_PROBES, {"edited": "pkg.__init__"}),
            ("which names are listed", "sorted([*globals(), *_LAZY])", "sorted(_LAZY)", PACKAGE_PROBES, {"edited": "pkg.__init__"}),
            ("a constant that a deferred import reads", "PI = 3", "PI = 3.14", PACKAGE_PROBES, {"edited": "pkg.slow"}),
            ("a plain import instead of from", "from .core import Base, register, KINDS\n", "from .core import Base, register, KINDS as ALL_KINDS\n", PACKAGE_PROBES, {"edited": "pkg.shapes", "more": [("pkg.shapes", "len(KINDS)", "len(ALL_KINDS)")]}),
            ("an import within a function", "    from .slow import PI\n", "    from .slow import PI as P\n", PACKAGE_PROBES, {"edited": "pkg.shapes", "more": [("pkg.shapes", ", PI", ", P * 2")]}),
        ],
    )
]  # fmt: skip

WEB = """\
from datetime import timedelta
from functools import wraps
from blinker import Namespace
from flask import Blueprint, Flask, abort, current_app, g, jsonify, request, session, url_for
from werkzeug.exceptions import HTTPException
from werkzeug.routing import BaseConverter
import parts
from parts import audit, nested, Meter
signals = Namespace()
ordered = signals.signal('ordered')
PRICES = {'pen': 2, 'ink': 5}
class ListConverter(BaseConverter):
    regex = '[a-z,]+'
    separator = ','
    def to_python(self, value):
        return value.split(self.separator)
    def to_url(self, values):
        return self.separator.join(values)
def create(name=__name__, **settings):
    app = Flask(name)
    app.config.update(settings, LIMIT=parts.LIMIT)
    app.url_map.converters['list'] = ListConverter
    app.register_blueprint(shop, url_prefix='/shop')
    app.wsgi_app = Meter(app.wsgi_app, parts.HEADER)
    app.register_error_handler(Missing, on_missing)
    app.before_request(load_user)
    return app
class Missing(Exception):
    status = 404
    def __init__(self, name): self.name = name
def on_missing(error):
    return jsonify(missing=error.name), error.status
def load_user():
    g.user = request.headers.get('X-User', 'nobody')
def needs(role):
    def decorate(view):
        @wraps(view)
        def check(*args, **kw):
            if g.user != role:
                abort(403)
            return view(*args, **kw)
        return check
    return decorate
shop = Blueprint('shop', __name__)
shop.register_blueprint(nested, url_prefix='/n')
@shop.get('/price/<name>')
def price(name):
    if name not in PRICES:
        raise Missing(name)
    return str(PRICES[name])
@shop.get('/prices/<list:names>')
def prices(names):
    return jsonify({name: PRICES.get(name) for name in names})
@shop.post('/order')
@needs('admin')
@audit('order')
def order():
    answers = ordered.send(current_app._get_current_object(), item='pen')
    return jsonify([value for _, value in answers])
@ordered.connect
def note(sender, item):
    return 'noted ' + item
@shop.app_template_filter('money')
def money(value):
    return f'{value:.2f}'
@shop.url_value_preprocessor
def count(endpoint, values):
    parts.SEEN.append(endpoint)
@shop.record
def on_register(state):
    state.app.config['SHOP'] = state.url_prefix
app = create(TITLE='t')
client = app.test_client()
app.add_url_rule('/late', view_func=lambda: 'late', endpoint='late')
class CounterView:
    hits = 0
    def __call__(self):
        type(self).hits += 0
        return f'hits {self.hits}'
app.add_url_rule('/hits', 'hits', CounterView())
"""
WEB_PARTS = """\
from flask import Blueprint, current_app
LIMIT, HEADER = 5, 'X-Meter'
SEEN = []
LOG = []
nested = Blueprint('nested', __name__)
@nested.route('/limit')
def limit():
    return str(current_app.config['LIMIT'])
@nested.app_errorhandler(403)
def forbidden(error):
    return 'no', 403
def audit(action):
    def decorate(view):
        def audited(*args, **kw):
            LOG.append(action)
            return view(*args, **kw)
        audited.__name__ = view.__name__
        return audited
    return decorate
class Meter:
    def __init__(self, app, header):
        self.app, self.header = app, header
    def __call__(self, environ, start_response):
        def start(status, headers, *rest):
            return start_response(status, [*headers, (self.header, '1')], *rest)
        return self.app(environ, start)
"""
WEB_PROBES = (
    "[(r.status_code, r.text) for r in [m.client.get('/shop/price/pen'), m.client.get('/shop/price/cap')]]", "m.client.get('/shop/prices/pen,ink').json",
    "[(r.status_code, r.text) for r in [m.client.post('/shop/order', headers={'X-User': u}) for u in ('admin', 'bob', 'root')]], parts.LOG[-1:]", "m.client.get('/shop/n/limit').text",
    "sorted(k for k in m.client.get('/late').headers.keys() if k.startswith('X')), m.client.get('/late').text, m.client.get('/hits').text",
    "sorted((r.rule, r.endpoint, tuple(sorted(r.methods))) for r in m.app.url_map.iter_rules())", "{k: m.app.config.get(k) for k in ('LIMIT', 'TITLE', 'SHOP')}, sorted(k for k in m.app.jinja_env.filters if k.startswith('mo'))",
    "m.app.jinja_env.filters['money'](3) if 'money' in m.app.jinja_env.filters else None", "m.ordered.name, len(m.ordered.receivers)", "parts.SEEN[-1:]",
)  # fmt: skip
WEB_EDITS = edits_of(
    "web",
    WEB,
    [
        ("a price", "'ink': 5", "'ink': 6", WEB_PROBES),
        ("a separator of a converter", "    separator = ','", "    separator = ';'", WEB_PROBES),
        ("a pattern of a converter", "'[a-z,]+'", "'[a-z]+'", WEB_PROBES),
        ("a conversion", "value.split(self.separator)", "value.split(self.separator)[::-1]", WEB_PROBES),
        ("a name of a converter", "converters['list']", "converters['names']", WEB_PROBES, {"more": [("m", "<list:names>", "<names:names>")]}),
        ("a limit of a factory", "LIMIT, HEADER = 5", "LIMIT, HEADER = 6", WEB_PROBES, {"edited": "parts"}),
        ("a header of a middleware", "'X-Meter'", "'X-Count'", WEB_PROBES, {"edited": "parts"}),
        ("a body of a middleware", "(self.header, '1')", "(self.header + '2', '1')", WEB_PROBES, {"edited": "parts"}),
        ("a middleware less", "    app.wsgi_app = Meter(app.wsgi_app, parts.HEADER)\n", "", WEB_PROBES),
        ("an attribute of an error", "status = 404", "status = 410", WEB_PROBES),
        ("a body of an error handler", "jsonify(missing=error.name)", "jsonify(absent=error.name)", WEB_PROBES),
        ("an error handler in a factory less", "    app.register_error_handler(Missing, on_missing)\n", "", WEB_PROBES[1:]),
        ("a hook in a factory", "'nobody')", "'root')", WEB_PROBES),
        ("a role of a decorator", "@needs('admin')", "@needs('root')", WEB_PROBES),
        ("what a decorator checks", "abort(403)", "abort(401)", WEB_PROBES),
        ("decorators in another order", "@needs('admin')\n@audit('order')", "@audit('order')\n@needs('admin')", WEB_PROBES),
        ("an action of a decorator", "@audit('order')", "@audit('buy')", WEB_PROBES),
        ("a body of a decorator", "LOG.append(action)", "LOG.append(action.upper())", WEB_PROBES, {"edited": "parts"}),
        ("a nested blueprint's path", "'/limit'", "'/max'", WEB_PROBES, {"edited": "parts"}),
        ("a nested blueprint's view", "str(current_app.config['LIMIT'])", "str(current_app.config['LIMIT'] * 2)", WEB_PROBES, {"edited": "parts"}),
        ("a handler of a whole application", "return 'no', 403", "return 'never', 403", WEB_PROBES, {"edited": "parts"}),
        ("a prefix of a nested blueprint", "url_prefix='/n'", "url_prefix='/m'", WEB_PROBES),
        ("a prefix of a registration", "url_prefix='/shop'", "url_prefix='/store'", WEB_PROBES),
        ("a receiver's body", "'noted ' + item", "'seen ' + item", WEB_PROBES),
        ("a receiver less", "@ordered.connect\ndef note", "def note", WEB_PROBES),
        ("a receiver that is renamed", "def note(sender, item)", "def log(sender, item)", WEB_PROBES),
        ("a name of a signal", "signals.signal('ordered')", "signals.signal('bought')", WEB_PROBES),
        ("a filter's name", "app_template_filter('money')", "app_template_filter('moneys')", WEB_PROBES),
        ("a filter's format", "{value:.2f}", "{value:.1f}", WEB_PROBES),
        ("what a preprocessor notes", "parts.SEEN.append(endpoint)", "parts.SEEN.append(endpoint.upper())", WEB_PROBES),
        ("what a registration does", "config['SHOP'] = state.url_prefix", "config['SHOP'] = state.url_prefix.upper()", WEB_PROBES),
        ("a title of a factory's call", "create(TITLE='t')", "create(TITLE='u')", WEB_PROBES),
        ("a late rule", "'late', endpoint", "'later', endpoint", WEB_PROBES),
        ("a path of a late rule", "'/late'", "'/later'", WEB_PROBES),
        ("an attribute of a callable view", "hits = 0", "hits = 7", WEB_PROBES),
        ("a callable view's body", "f'hits {self.hits}'", "f'hit {self.hits}'", WEB_PROBES),
        ("a method of a rule", "@shop.get('/price/<name>')", "@shop.post('/price/<name>')", WEB_PROBES),
        ("a view from another function", "def prices(names):", "def costs(names):", WEB_PROBES),
        ("a rule more of a view", "@shop.get('/price/<name>')\n", "@shop.get('/cost/<name>')\n@shop.get('/price/<name>')\n", WEB_PROBES),
    ],
    others={"parts": WEB_PARTS},
    needs=("flask", "blinker"),
)  # fmt: skip

API = """\
from __future__ import annotations
from contextlib import asynccontextmanager
from enum import Enum
from typing import Annotated, Literal, Union
from fastapi import APIRouter, BackgroundTasks, Depends, FastAPI, HTTPException, Path, Query, Request, Response
from fastapi.testclient import TestClient
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, computed_field, field_validator, model_validator
from starlette.middleware.base import BaseHTTPMiddleware
import deps
from deps import Paging, Store, current_user, get_store, strip
class Kind(str, Enum):
    pen = 'pen'
    ink = 'ink'
Name = Annotated[str, BeforeValidator(strip), Field(min_length=2)]
class Base(BaseModel):
    model_config = ConfigDict(extra='forbid', populate_by_name=True)
class Item(Base):
    kind: Kind = Kind.pen
    name: Name
    price: float = Field(default=deps.PRICE, gt=0, alias='cost')
    @computed_field
    @property
    def gross(self) -> float:
        return round(self.price * deps.VAT, 2)
    @field_validator('name')
    @classmethod
    def check_name(cls, value):
        if value in deps.RESERVED:
            raise ValueError('reserved')
        return value
class Cat(BaseModel):
    type: Literal['cat']
    lives: int = 9
class Dog(BaseModel):
    type: Literal['dog']
    tricks: list[str] = ['sit']
    @model_validator(mode='after')
    def limit(self):
        self.tricks = self.tricks[:deps.TRICKS]
        return self
Pet = Annotated[Union[Cat, Dog], Field(discriminator='type')]
class Owner(BaseModel):
    pet: Pet
    items: list[Item] = []
router = APIRouter(prefix='/items', tags=['items'])
admin = APIRouter(dependencies=[Depends(deps.only_admin)])
@router.get('/{item_id}', response_model=Item, response_model_exclude={'kind'})
async def read(item_id: Annotated[int, Path(ge=1)], store: Annotated[Store, Depends(get_store)]):
    if item_id not in store:
        raise HTTPException(404, detail='no item')
    return store[item_id]
@router.post('/', status_code=201)
def add(item: Item, user: str = Depends(current_user)):
    return {'by': user, **item.model_dump()}
@admin.get('/stats')
def stats(paging: Paging = Depends()):
    return {'skip': paging.skip, 'limit': paging.limit}
router.include_router(admin, prefix='/admin')
@asynccontextmanager
async def lifespan(app):
    app.state.ready = deps.READY
    yield
app = FastAPI(title='api', lifespan=lifespan)
app.include_router(router)
app.dependency_overrides[current_user] = lambda: 'tester'
@app.exception_handler(KeyError)
async def on_key(request: Request, error: KeyError):
    return Response(f'key {error}', status_code=418)
@app.middleware('http')
async def stamp(request, call_next):
    response = await call_next(request)
    response.headers['X-Stamp'] = deps.STAMP
    return response
@app.post('/owners')
def own(owner: Owner, loud: bool = Query(False)):
    return owner.pet.type.upper() if loud else owner.pet
@app.get('/fail')
def fail():
    raise KeyError('x')
class Timing(BaseHTTPMiddleware):
    async def dispatch(self, request, call_next):
        response = await call_next(request)
        response.headers['X-Time'] = self.unit
        return response
    unit = 'ms'
app.add_middleware(Timing)
client = TestClient(app)
"""
API_DEPS = """\
from fastapi import Header, HTTPException
PRICE, VAT, TRICKS, READY, STAMP = 2.0, 1.2, 2, 'yes', 'S'
RESERVED = {'root'}
class Store(dict):
    def __missing__(self, key): raise KeyError(key)
STORE = Store({1: {'name': 'one', 'cost': 3}})
def get_store():
    yield STORE
def strip(value): return value.strip() if isinstance(value, str) else value
def current_user(x_user: str = Header('nobody')): return x_user
def only_admin(x_role: str = Header('guest')):
    if x_role != 'admin':
        raise HTTPException(403)
class Paging:
    def __init__(self, skip: int = 0, limit: int = 10):
        self.skip, self.limit = skip, min(limit, 50)
"""
API_PROBES = (
    "[(r.status_code, r.json()) for r in [m.client.get('/items/1'), m.client.get('/items/2'), m.client.get('/items/0')]]",
    "[(r.status_code, r.text) for r in [m.client.post('/items/', json=j) for j in ({'name': ' pen ', 'cost': 1}, {'name': 'root'}, {'name': 'x'}, {'name': 'ok', 'price': 4}, {'name': 'ab', 'z': 1}, {'name': 'abc', 'kind': 'cap'})]]",
    "[(r.status_code, r.json()) for r in [m.client.get('/items/admin/stats', headers={'X-Role': r}, params={'limit': 99}) for r in ('admin', 'guest', 'root')]]",
    "[(r.status_code, r.text) for r in [m.client.post('/owners', json=j) for j in ({'pet': {'type': 'cat'}}, {'pet': {'type': 'dog', 'tricks': ['a', 'b', 'c']}}, {'pet': {'type': 'dog'}}, {'pet': {'type': 'cow'}})]], m.client.post('/owners?loud=1', json={'pet': {'type': 'cat'}}).text",
    "[(r.status_code, r.text, sorted(k for k in r.headers.items() if k[0].startswith('x-'))) for r in [m.client.get('/fail')]]", "m.app.title, sorted(m.app.openapi()['paths']), m.app.openapi()['components']['schemas']",
    "m.Item(name='ab').gross, m.Item(name='ab').price, m.Item.model_fields['price'].default", "[m.client.__enter__(), m.app.state.ready, m.client.__exit__(None, None, None)][1]", "m.Owner.model_validate({'pet': {'type': 'dog'}})",
)  # fmt: skip
API_EDITS = edits_of(
    "api",
    API,
    [
        ("a price by default", "2.0, 1.2", "2.5, 1.2", API_PROBES, {"edited": "deps"}),
        ("a factor of a computed field", "2.0, 1.2", "2.0, 1.5", API_PROBES, {"edited": "deps"}),
        ("a limit of a model's validator", "1.2, 2,", "1.2, 1,", API_PROBES, {"edited": "deps"}),
        ("a state of a lifespan", "'yes', 'S'", "'no', 'S'", API_PROBES, {"edited": "deps"}),
        ("a stamp of a middleware", "'yes', 'S'", "'yes', 'T'", API_PROBES, {"edited": "deps"}),
        ("a reserved name", "{'root'}", "{'pen'}", API_PROBES, {"edited": "deps"}),
        ("a stored item", "'one', 'cost': 3", "'two', 'cost': 4", API_PROBES, {"edited": "deps"}),
        ("a function before validation", "value.strip() if", "value.strip().upper() if", API_PROBES, {"edited": "deps"}),
        ("a header of a dependency", "x_role: str = Header('guest')", "x_role: str = Header('admin', alias='X-Kind')", API_PROBES, {"edited": "deps"}),
        ("a role of a dependency", "!= 'admin'", "!= 'root'", API_PROBES, {"edited": "deps"}),
        ("a default of a class dependency", "limit: int = 10", "limit: int = 20", (*API_PROBES, "m.client.get('/items/admin/stats', headers={'X-Role': 'admin'}).text"), {"edited": "deps"}),
        ("a bound of a class dependency", "min(limit, 50)", "min(limit, 60)", API_PROBES, {"edited": "deps"}),
        ("a parameter less of a class dependency", "skip: int = 0, limit", "limit", API_PROBES, {"edited": "deps", "more": [("deps", "self.skip, self.limit = skip, min", "self.skip, self.limit = 0, min")]}),
        ("what a dependency yields", "yield STORE", "yield Store()", API_PROBES, {"edited": "deps"}),
        ("an annotated length", "min_length=2", "min_length=1", API_PROBES),
        ("an annotated function less", "BeforeValidator(strip), ", "", API_PROBES),
        ("a member of a kind more", "    ink = 'ink'", "    ink = 'ink'\n    cap = 'cap'", API_PROBES),
        ("a configuration of a base", "extra='forbid'", "extra='ignore'", API_PROBES),
        ("an alias of a field", "alias='cost'", "alias='sum'", API_PROBES[1:]),
        ("a computed field less", "    @computed_field\n    @property\n    def gross", "    @property\n    def gross", API_PROBES),
        ("a computed field's name", "def gross(self)", "def total(self)", API_PROBES[:6]),
        ("a validated field", "@field_validator('name')", "@field_validator('kind')", API_PROBES),
        ("a member of a union", "Union[Cat, Dog]", "Union[Cat, Dog, Cow]", API_PROBES, {"more": [("m", "Pet = Annotated", "class Cow(BaseModel):\n    type: Literal['cow']\nPet = Annotated")]}),
        ("a default of a member", "lives: int = 9", "lives: int = 7", API_PROBES),
        ("a mutable default of a member", "['sit']", "['roll', 'sit', 'x']", API_PROBES),
        ("a mode of a model's validator", "self.tricks[:deps.TRICKS]", "self.tricks[:deps.TRICKS][::-1]", API_PROBES),
        ("an excluded field", "response_model_exclude={'kind'}", "response_model_exclude={'name'}", API_PROBES),
        ("a bound of a path", "Path(ge=1)", "Path(ge=0)", API_PROBES),
        ("a detail of an error", "detail='no item'", "detail='none'", API_PROBES),
        ("a status of a route", "status_code=201", "status_code=202", API_PROBES),
        ("dependencies of a router", "APIRouter(dependencies=[Depends(deps.only_admin)])", "APIRouter()", API_PROBES),
        ("a prefix of a nested router", "prefix='/admin'", "prefix='/root'", API_PROBES),
        ("a prefix of a router", "prefix='/items'", "prefix='/things'", API_PROBES),
        ("an override of a dependency", "lambda: 'tester'", "lambda: 'robot'", API_PROBES),
        ("no override of a dependency", "app.dependency_overrides[current_user] = lambda: 'tester'\n", "", API_PROBES),
        ("a handler of an error", "status_code=418", "status_code=420", API_PROBES),
        ("a handled error", "@app.exception_handler(KeyError)", "@app.exception_handler(LookupError)", API_PROBES),
        ("an attribute of a middleware", "    unit = 'ms'", "    unit = 's'", API_PROBES),
        ("a title", "title='api'", "title='API'", API_PROBES),
        ("a default of a query", "Query(False)", "Query(True)", API_PROBES),
        ("a parameter more of a route", "loud: bool = Query(False)", "loud: bool = Query(False), x: int = 1", API_PROBES),
        ("a route to a coroutine", "def own(owner", "async def own(owner", API_PROBES),
        ("a path of a route", "@app.post('/owners')", "@app.post('/owner')", API_PROBES),
    ],
    others={"deps": API_DEPS},
    needs=("fastapi", "pydantic"),
)  # fmt: skip

TOOL = """\
import click, enum, functools
from click import Context, ParamType
import options
from options import common, pass_state, State, Ranged
class Format(enum.Enum):
    JSON = 'json'
    TEXT = 'text'
class Pair(ParamType):
    name = 'pair'
    sep = '='
    def convert(self, value, param, ctx):
        key, _, rest = value.partition(self.sep)
        if not rest:
            self.fail('no pair', param, ctx)
        return key, rest
PAIR = Pair()
@click.group(chain=False, invoke_without_command=True, context_settings={'auto_envvar_prefix': 'TOOL', 'help_option_names': ['-h', '--help']})
@click.version_option('1.0', prog_name='tool')
@common
@click.pass_context
def cli(ctx, verbose, level):
    "Run the tool."
    ctx.obj = State(verbose, level)
    if ctx.invoked_subcommand is None:
        click.echo('nothing')
@cli.command('show', short_help='show it', deprecated=False)
@click.option('--format', 'form', type=click.Choice([f.value for f in Format]), default=Format.TEXT.value, show_default=True)
@click.option('--set', 'pairs', type=PAIR, multiple=True)
@click.argument('names', nargs=-1)
@pass_state
def show(state, form, pairs, names):
    "Show names."
    click.echo(f'{form} {dict(pairs)} {names} {state.level} {state.verbose}')
@cli.group(cls=options.Aliased)
def data():
    "Data."
@data.command()
@click.option('--size', type=Ranged(1, 5), default=2, callback=lambda ctx, param, value: value * options.FACTOR)
@click.option('--yes', is_flag=True, help=f'Say yes ({options.FACTOR}).')
def load(size, yes):
    click.echo(f'load {size} {yes}')
@data.command(name='save', aliases=None) if False else data.command(name='save')
@options.timed(unit='ms')
def store():
    click.echo('saved')
cli.add_command(load, 'load-data')
for _name in options.EXTRA:
    @cli.command(_name)
    def _extra(name=_name):
        click.echo('extra ' + name)
@cli.result_callback()
def done(result, **words):
    click.echo('done')
"""
TOOL_OPTIONS = """\
import functools, click
FACTOR, EXTRA = 10, ('one', 'two')
class State:
    def __init__(self, verbose, level): self.verbose, self.level = verbose, level.upper()
pass_state = click.make_pass_decorator(State)
class Ranged(click.IntRange):
    name = 'ranged'
    def convert(self, value, param, ctx):
        return super().convert(value, param, ctx) + 1
def common(function):
    for decorate in (click.option('--level', default='info', envvar='LEVEL'), click.option('-v', '--verbose', count=True)):
        function = decorate(function)
    return function
class Aliased(click.Group):
    aliases = {'ld': 'load'}
    def get_command(self, ctx, name):
        return super().get_command(ctx, self.aliases.get(name, name))
def timed(unit):
    def decorate(function):
        @functools.wraps(function)
        def inner(*args, **words):
            function(*args, **words)
            click.echo('took 1' + unit)
        return inner
    return decorate
"""
TOOL_PROBES = (
    "[(lambda r: (r.exit_code, r.output))(CliRunner().invoke(m.cli, a.split())) for a in ('', '--version', '-h', 'show a b', '--level x -v show --set a=1', 'show --set a:1', 'show --format json', 'show --format xml')]",
    "[(lambda r: (r.exit_code, r.output))(CliRunner().invoke(m.cli, a.split())) for a in ('data load', 'data ld --size 4', 'data load --size 9', 'data load --help', 'data save', 'data store', 'load-data', 'one', 'two', 'three')]",
    "sorted(m.cli.commands), sorted(m.data.commands), [p.name for p in m.cli.params], [p.name for p in m.show.params]", "m.cli.help, m.show.help, m.show.short_help, m.cli.name",
    "(lambda r: r.output)(CliRunner(env={'LEVEL': 'env'}).invoke(m.cli, ['show'])), (lambda r: r.output)(CliRunner(env={'TOOL_SHOW_FORMAT': 'json'}).invoke(m.cli, ['show'], auto_envvar_prefix='TOOL'))",
)  # fmt: skip
TOOL_EDITS = edits_of(
    "tool",
    TOOL,
    [
        ("a format more", "    TEXT = 'text'", "    TEXT = 'text'\n    XML = 'xml'", TOOL_PROBES),
        ("a separator of a type", "    sep = '='", "    sep = ':'", TOOL_PROBES),
        ("a message of a type", "'no pair'", "'not a pair'", TOOL_PROBES),
        ("a setting of a context", "['-h', '--help']", "['-?', '-h']", TOOL_PROBES),
        ("a version", "version_option('1.0'", "version_option('2.0'", TOOL_PROBES),
        ("a default of a common option", "default='info'", "default='warn'", TOOL_PROBES, {"edited": "options"}),
        ("a variable of a common option", "envvar='LEVEL'", "envvar='LOG'", TOOL_PROBES, {"edited": "options"}),
        ("a common option's kind", "count=True", "is_flag=True", TOOL_PROBES, {"edited": "options"}),
        ("how a state is made", "level.upper()", "level.title()", TOOL_PROBES, {"edited": "options"}),
        ("a factor of a callback", "FACTOR, EXTRA = 10", "FACTOR, EXTRA = 20", TOOL_PROBES, {"edited": "options"}),
        ("a command more of a loop", "('one', 'two')", "('one', 'two', 'three')", TOOL_PROBES, {"edited": "options"}),
        ("a command less of a loop", "('one', 'two')", "('one',)", TOOL_PROBES, {"edited": "options"}),
        ("a conversion of a range", "ctx) + 1", "ctx) + 2", TOOL_PROBES, {"edited": "options"}),
        ("a base of a range", "(click.IntRange)", "(click.FloatRange)", TOOL_PROBES, {"edited": "options"}),
        ("an alias", "{'ld': 'load'}", "{'ld': 'save'}", TOOL_PROBES, {"edited": "options"}),
        ("how a command is found", "self.aliases.get(name, name)", "self.aliases.get(name, name.lower())", TOOL_PROBES, {"edited": "options"}),
        ("a text of a decorator", "'took 1'", "'took 2'", TOOL_PROBES, {"edited": "options"}),
        ("a unit of a decorator", "unit='ms'", "unit='s'", TOOL_PROBES),
        ("no decorator", "@options.timed(unit='ms')\n", "", TOOL_PROBES),
        ("a range of a type", "Ranged(1, 5)", "Ranged(1, 9)", TOOL_PROBES),
        ("a callback", "value * options.FACTOR", "value + options.FACTOR", TOOL_PROBES),
        ("a flag that is required", "is_flag=True", "is_flag=True, required=True", TOOL_PROBES),
        ("another class of a group", "cls=options.Aliased", "cls=click.Group", TOOL_PROBES),
        ("a name of a shown command", "cli.command('show'", "cli.command('display'", TOOL_PROBES),
        ("a deprecated command", "deprecated=False", "deprecated=True", TOOL_PROBES),
        ("an argument's count", "nargs=-1", "nargs=2", TOOL_PROBES),
        ("a group's body", "click.echo('nothing')", "click.echo('no command')", TOOL_PROBES),
        ("a group that needs a command", "invoke_without_command=True, ", "", TOOL_PROBES),
        ("a name of an added command", "'load-data'", "'load-it'", TOOL_PROBES),
        ("an added command less", "cli.add_command(load, 'load-data')\n", "", TOOL_PROBES),
        ("a body of a looped command", "'extra ' + name", "'more ' + name", TOOL_PROBES),
        ("a result's callback", "click.echo('done')", "click.echo('over')", TOOL_PROBES),
        ("a result's callback less", "@cli.result_callback()\ndef done(result, **words):\n    click.echo('done')\n", "", TOOL_PROBES),
        ("a docstring of a command", "Show names.", "Show all names.", TOOL_PROBES),
        ("a function that is renamed", "def store():", "def keep():", TOOL_PROBES),
    ],
    others={"options": TOOL_OPTIONS},
    needs=("click",),
    setup="from click.testing import CliRunner",
)  # fmt: skip

STORE = """\
from __future__ import annotations
import datetime as dt
from sqlalchemy import CheckConstraint, Enum, ForeignKey, Index, String, Table, Column, create_engine, event, func, select
from sqlalchemy.ext.associationproxy import association_proxy
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.ext.mutable import MutableDict
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, column_property, declared_attr, mapped_column, object_session, relationship, sessionmaker, validates
from sqlalchemy.types import JSON
import enum
import mixins
from mixins import Named, Stamped, Base
class Status(enum.Enum):
    open = 'o'
    shut = 's'
links = Table('links', Base.metadata, Column('a', ForeignKey('author.id')), Column('b', ForeignKey('book.id')))
class Author(Named, Base):
    born: Mapped[int] = mapped_column(default=mixins.BORN)
    books: Mapped[list[Book]] = relationship(secondary=links, back_populates='authors', order_by='Book.title')
    titles = association_proxy('books', 'title')
    @hybrid_property
    def age(self):
        return mixins.YEAR - self.born
    @age.inplace.expression
    @classmethod
    def _age(cls):
        return mixins.YEAR - cls.born
class Book(Stamped, Base):
    title: Mapped[str] = mapped_column(String(20), index=True)
    status: Mapped[Status] = mapped_column(Enum(Status), default=Status.open)
    extra: Mapped[dict] = mapped_column(MutableDict.as_mutable(JSON), default=dict)
    authors: Mapped[list[Author]] = relationship(secondary=links, back_populates='books')
    __table_args__ = (CheckConstraint("title <> ''"),)
    @validates('title')
    def check(self, key, value):
        return value.strip()[: mixins.LENGTH]
    def __repr__(self):
        return f'<{self.title} {self.status.value}>'
class Novel(Book):
    genre: Mapped[str] = mapped_column(default='crime', nullable=True)
    __mapper_args__ = {'polymorphic_identity': 'novel'}
@event.listens_for(Book, 'before_insert')
def fill(mapper, connection, target):
    target.extra = {**(target.extra or {}), 'by': mixins.USER}
@event.listens_for(Author.born, 'set', retval=True)
def limit(target, value, old, initiator):
    return max(value, 1000)
engine = create_engine('sqlite://')
Make = sessionmaker(engine, expire_on_commit=False)
BY_TITLE = select(Book).order_by(Book.title)
OLDEST = select(func.min(Author.born)).scalar_subquery()
def filled(title=' dune '):
    Base.metadata.drop_all(engine)
    Base.metadata.create_all(engine)
    with Make() as session:
        author = Author(name='ann', born=5)
        author.books = [Novel(title=title), Book(title='abc')]
        session.add(author)
        session.commit()
        return ([repr(b) for b in session.scalars(BY_TITLE)], author.age, list(author.titles), author.books[0].extra,
            session.scalar(select(Author.age)), session.scalar(select(OLDEST)), [type(b).__name__ for b in author.books])
"""
STORE_MIXINS = """\
from sqlalchemy import String
from sqlalchemy.orm import DeclarativeBase, Mapped, declared_attr, mapped_column
BORN, YEAR, LENGTH, USER = 1950, 2000, 10, 'me'
class Base(DeclarativeBase):
    type_annotation_map = {dict: String}
    id: Mapped[int] = mapped_column(primary_key=True)
    @declared_attr.directive
    def __tablename__(cls):
        return cls.__name__.lower() if cls.__bases__[-1] is Base else None
class Named:
    name: Mapped[str] = mapped_column(String(9))
    def hello(self): return 'hello ' + self.name
class Stamped:
    kind: Mapped[str] = mapped_column(default='book')
    @declared_attr.directive
    def __mapper_args__(cls):
        return {'polymorphic_on': 'kind', 'polymorphic_identity': cls.__name__.lower()}
"""
STORED = (
    "m.filled()", "m.filled('a very long title')", "{t.name: [str(c.type) + str(c.nullable) + c.name for c in t.columns] for t in m.Base.metadata.sorted_tables}", "str(m.BY_TITLE), str(m.OLDEST)",
    "m.Author(name='x').hello(), [i.name for i in m.Book.__table__.indexes], len(m.Book.__table__.constraints)", "sorted(m.Base.metadata.tables), sorted(x.class_.__name__ for x in m.Base.registry.mappers)",
)  # fmt: skip
STORE_EDITS = edits_of(
    "store",
    STORE,
    [
        ("a default of a column", "1950, 2000", "1960, 2000", (*STORED, "m.Author.__table__.c.born.default.arg"), {"edited": "mixins"}),
        ("a year of a hybrid", "1950, 2000", "1950, 2020", STORED, {"edited": "mixins"}),
        ("a length of a validator", "2000, 10", "2000, 3", STORED, {"edited": "mixins"}),
        ("a user of a listener", "10, 'me'", "10, 'you'", STORED, {"edited": "mixins"}),
        ("a method of a mixin", "'hello ' + self.name", "'hi ' + self.name", STORED, {"edited": "mixins"}),
        ("a length of a mixin", "String(9)", "String(12)", STORED, {"edited": "mixins"}),
        ("a default of a mixin", "default='book'", "default='paper'", (*STORED, "m.Book.__table__.c.kind.default.arg"), {"edited": "mixins"}),
        ("a member more of a status", "    shut = 's'", "    shut = 's'\n    lost = 'l'", STORED),
        ("a value of a status", "open = 'o'", "open = 'O'", STORED),
        ("an order of a relationship", "order_by='Book.title'", "order_by='Book.title.desc()'", STORED),
        ("a hybrid property", "return mixins.YEAR - self.born", "return mixins.YEAR - self.born + 1", STORED),
        ("an expression of a hybrid", "return mixins.YEAR - cls.born", "return mixins.YEAR - cls.born + 1", STORED),
        ("another proxy", "association_proxy('books', 'title')", "association_proxy('books', 'status')", STORED),
        ("a validator's body", "value.strip()[", "value.strip().upper()[", STORED),
        ("no validator", "    @validates('title')\n    def check", "    def check", STORED),
        ("a text of a model", "<{self.title} {self", "<{self.title}:{self", STORED),
        ("a column more of a subclass", "    genre: Mapped[str] = mapped_column(default='crime', nullable=True)\n", "    genre: Mapped[str] = mapped_column(default='crime', nullable=True)\n    pages: Mapped[int] = mapped_column(nullable=True)\n", STORED),
        ("an index less", ", index=True)", ")", STORED),
        ("a constraint less", "(CheckConstraint(\"title <> ''\"),)", "()", STORED),
        ("an order of a query", "order_by(Book.title)", "order_by(Book.title.desc())", STORED),
        ("a function of a query", "func.min(Author.born)", "func.max(Author.born + 1)", STORED),
        ("a bound of a listener", "max(value, 1000)", "max(value, 1500)", STORED),
        ("a listener less", "@event.listens_for(Author.born, 'set', retval=True)\ndef limit(target, value, old, initiator):\n    return max(value, 1000)\n", "", STORED),
        ("another event of a listener", "'before_insert'", "'before_update'", STORED),
        ("a listener that is renamed", "def fill(mapper", "def stamp(mapper", STORED),
        ("an option of sessions", "expire_on_commit=False", "expire_on_commit=True, autoflush=False", ("m.Make.kw['expire_on_commit']",)),
        ("a subclass that is renamed", "class Novel(Book)", "class Tale(Book)", STORED[2:], {"more": [("m", "Novel(title=title)", "Tale(title=title)")]}),
    ],
    others={"mixins": STORE_MIXINS},
    needs=("sqlalchemy",),
)  # fmt: skip

BLOG = """\
from django import forms, template
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.core.validators import RegexValidator
from django.db import models
from django.db.models.signals import class_prepared, post_init, pre_save
from django.dispatch import Signal, receiver
from django.http import HttpResponse, JsonResponse
from django.template import Context, Template, engines
from django.test import Client, RequestFactory, override_settings
from django.urls import include, path, re_path, register_converter, reverse
from django.utils.decorators import method_decorator
from django.utils.functional import cached_property, lazy
from django.views import View
from django.views.decorators.http import require_http_methods
from django.views.generic import FormView, TemplateView
import bits
from bits import shout, Year, logged
published = Signal()
register_converter(Year, 'year')
class PostQuery(models.QuerySet):
    def recent(self): return self.filter(year__gt=bits.SINCE)
class Dated(models.Model):
    year = models.IntegerField(default=bits.SINCE)
    class Meta:
        abstract = True
        ordering = ['-year']
class Post(Dated):
    class Status(models.TextChoices):
        DRAFT = 'd', 'Draft'
        DONE = 'x', 'Done'
    title = models.CharField(max_length=bits.LENGTH, validators=[RegexValidator('^[a-z]+$', 'letters')])
    status = models.CharField(max_length=1, choices=Status.choices, default=Status.DRAFT)
    objects = PostQuery.as_manager()
    class Meta(Dated.Meta):
        app_label = 'm'
        verbose_name = 'entry'
        constraints = [models.CheckConstraint(condition=models.Q(year__gt=0), name='positive')]
    def clean(self):
        if self.title in bits.BANNED:
            raise ValidationError('banned')
    @cached_property
    def slug(self): return f'{self.title}-{self.year}'
    def __str__(self): return self.slug
    def get_absolute_url(self): return reverse('year', kwargs={'year': self.year})
class Upper(models.CharField):
    def to_python(self, value): return super().to_python(value).upper()
class Tag(models.Model):
    name = Upper(max_length=5)
    posts = models.ManyToManyField(Post, related_name='tags')
    class Meta: app_label = 'm'
@receiver(post_init, sender=Post, dispatch_uid='m.mark')
def mark(sender, instance, **kw):
    instance.marked = bits.MARK
class PostForm(forms.ModelForm):
    again = forms.CharField(required=False, label='Again', widget=forms.TextInput(attrs={'class': 'wide'}))
    class Meta:
        model = Post
        fields = ['title', 'year']
        labels = {'title': 'Name'}
    def clean_year(self):
        if self.cleaned_data['year'] < bits.SINCE:
            raise ValidationError('too early')
        return self.cleaned_data['year']
@admin.action(description='Publish')
def publish(modeladmin, request, queryset): return 'published'
@admin.register(Post)
class PostAdmin(admin.ModelAdmin):
    list_display = ('title', 'age')
    actions = [publish]
    @admin.display(description='Age')
    def age(self, post): return bits.SINCE - post.year
@require_http_methods(['GET'])
@logged('index')
def index(request):
    page = Paginator(range(20), bits.PAGE).get_page(request.GET.get('page'))
    return JsonResponse({'items': list(page), 'user': request.who})
@method_decorator(logged('year'), name='dispatch')
class YearView(View):
    extra = 'y'
    def get(self, request, year): return HttpResponse(f'{self.extra}{year}')
TEXT = Template('{% load bits %}{{ name|shout }} {% double 3 %}')
urlpatterns = [
    path('', index, name='index'),
    path('y/<year:year>/', YearView.as_view(), name='year'),
    re_path(r'^raw/(?P<n>\\d{2})$', lambda request, n: HttpResponse(n), name='raw'),
    path('api/', include(([path('x/', lambda request: HttpResponse('x'), name='x')], 'api'), namespace='v1')),
]
def fetch(url, method='get'):
    response = getattr(Client(), method)(url)
    return response.status_code, response.content.decode()[:60], response.headers.get('X-Who')
"""
BLOG_BITS = """\
import functools
from django import template
SINCE, LENGTH, PAGE, MARK = 2000, 8, 3, 'm'
BANNED = {'spam'}
LOG = []
register = template.Library()
@register.filter
def shout(value): return value.upper() + '!'
@register.simple_tag
def double(n): return n * 2
class Year:
    regex = '[0-9]{4}'
    def to_python(self, value): return int(value)
    def to_url(self, value): return '%04d' % value
def logged(name):
    def decorate(view):
        @functools.wraps(view)
        def inner(request, *args, **kw):
            LOG.append(name)
            return view(request, *args, **kw)
        return inner
    return decorate
class Who:
    def __init__(self, get_response): self.get_response = get_response
    def __call__(self, request):
        request.who = request.headers.get('X-User', 'anon')
        response = self.get_response(request)
        response['X-Who'] = request.who
        return response
"""
BLOG_SETUP = """\
import django
from django.conf import settings
settings.configure(ROOT_URLCONF='m', ALLOWED_HOSTS=['*'], SECRET_KEY='x', DEFAULT_AUTO_FIELD='django.db.models.AutoField',
    DATABASES={'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}},
    INSTALLED_APPS=['django.contrib.contenttypes', 'django.contrib.auth', 'django.contrib.admin', 'django.contrib.messages', 'django.contrib.sessions'],
    TEMPLATES=[{'BACKEND': 'django.template.backends.django.DjangoTemplates', 'APP_DIRS': True, 'OPTIONS': {'libraries': {'bits': 'bits'}}}],
    MIDDLEWARE=['bits.Who'])
django.setup()
"""
BLOGGED = (
    "bits.LOG.clear(), [m.fetch(u) for u in ('/', '/?page=2', '/y/1999/', '/y/19/', '/raw/12', '/api/x/')], m.fetch('/', 'post'), bits.LOG[-2:]", "m.TEXT.render(m.Context({'name': 'n'}))",
    "m.reverse('year', kwargs={'year': 7}), m.reverse('v1:x'), m.reverse('index'), str(m.Post(title='ab').get_absolute_url())", "str(m.Post(title='ab', year=3)), m.Post(title='a').marked, m.Post().year, m.Post().status, m.Post.Status.choices",
    "[m.Post._meta.get_field(n).max_length for n in ('title', 'status')], m.Post._meta.ordering, str(m.Post._meta.verbose_name), [c.name for c in m.Post._meta.constraints], [f.name for f in m.Post._meta.get_fields()]",
    "str(m.Post.objects.recent().query), hasattr(m.Post.objects, 'recent')", "(lambda f: (f.is_valid(), {k: list(v) for k, v in f.errors.items()}, list(f.fields), str(f['again'].label_tag()), str(f['title'].label), str(f['again'])))(m.PostForm({'title': 'spam', 'year': 1990}))",
    "(lambda f: (f.is_valid(), {k: list(v) for k, v in f.errors.items()}))(m.PostForm({'title': 'Abcdefghij', 'year': 2020}))", "m.admin.site._registry[m.Post].list_display, m.admin.site._registry[m.Post].age(m.Post(year=1)), m.PostAdmin.age.short_description, [a.short_description for a in m.PostAdmin.actions], type(m.admin.site._registry[m.Post]) is m.PostAdmin, m.PostForm._meta.model is m.Post",
    "m.Tag._meta.get_field('name').to_python('a'), m.Tag._meta.get_field('posts').remote_field.related_name",
)  # fmt: skip
BLOG_EDITS = edits_of(
    "blog",
    BLOG,
    [
        ("a year by default", "SINCE, LENGTH, PAGE, MARK = 2000", "SINCE, LENGTH, PAGE, MARK = 2010", BLOGGED, {"edited": "bits"}),
        ("a length", "= 2000, 8", "= 2000, 4", BLOGGED, {"edited": "bits"}),
        ("a page", "2000, 8, 3", "2000, 8, 4", BLOGGED, {"edited": "bits"}),
        ("a mark of a receiver", "3, 'm'", "3, 'n'", BLOGGED, {"edited": "bits"}),
        ("a banned title", "{'spam'}", "{'ham'}", BLOGGED, {"edited": "bits"}),
        ("a filter's body", "value.upper() + '!'", "value.upper() + '?'", BLOGGED, {"edited": "bits"}),
        ("a tag's body", "return n * 2", "return n * 3", BLOGGED, {"edited": "bits"}),
        ("a filter's name", "@register.filter\ndef shout", "@register.filter(name='yell')\ndef shout", (*BLOGGED, "sorted(bits.register.filters)"),
         {"edited": "bits", "more": [("m", "name|shout", "name|yell")]}),
        ("a converter's pattern", "'[0-9]{4}'", "'[0-9]{2}'", BLOGGED, {"edited": "bits"}),
        ("a converter's text", "'%04d' % value", "'%06d' % value", BLOGGED, {"edited": "bits"}),
        ("a log of a decorator", "LOG.append(name)", "LOG.append(name * 2)", BLOGGED, {"edited": "bits"}),
        ("a middleware's body", "'anon')", "'nobody')", BLOGGED, {"edited": "bits"}),
        ("a query set's method", "year__gt=bits.SINCE", "year__gte=bits.SINCE", BLOGGED),
        ("an order of an abstract model", "ordering = ['-year']", "ordering = ['year']", BLOGGED),
        ("a choice more", "        DONE = 'x', 'Done'", "        DONE = 'x', 'Done'\n        GONE = 'g', 'Gone'", BLOGGED),
        ("a validator's message", "'letters')", "'only letters')", BLOGGED),
        ("a model's validation", "raise ValidationError('banned')", "raise ValidationError('forbidden')", BLOGGED),
        ("a name of a model", "verbose_name = 'entry'", "verbose_name = 'article'", BLOGGED),
        ("a constraint's name", "name='positive'", "name='after'", BLOGGED),
        ("a cached property", "f'{self.title}-{self.year}'", "f'{self.title}/{self.year}'", BLOGGED),
        ("a field's class", ".to_python(value).upper()", ".to_python(value).title()", BLOGGED),
        ("a related name", "related_name='tags'", "related_name='labels'", BLOGGED),
        ("a field more", "    status = models.CharField", "    note = models.TextField(blank=True)\n    status = models.CharField", BLOGGED),
        ("a receiver that is renamed", "def mark(sender", "def sign(sender", BLOGGED),
        ("a receiver less", "@receiver(post_init, sender=Post, dispatch_uid='m.mark')\ndef mark(sender, instance, **kw):\n    instance.marked = bits.MARK\n", "", BLOGGED),
        ("a receiver's body", "instance.marked = bits.MARK", "instance.marked = bits.MARK * 2", BLOGGED),
        ("a label of a form", "label='Again'", "label='Repeat'", BLOGGED),
        ("a class of a widget", "'class': 'wide'", "'class': 'narrow'", BLOGGED),
        ("a form's fields", "fields = ['title', 'year']", "fields = ['title']", BLOGGED, {"more": [("m", "    def clean_year(self):\n        if self.cleaned_data['year'] < bits.SINCE:\n            raise ValidationError('too early')\n        return self.cleaned_data['year']\n", "")]}),
        ("a form's check", "'too early'", "'too soon'", BLOGGED),
        ("a description of an action", "description='Publish'", "description='Release'", BLOGGED),
        ("columns of an admin", "('title', 'age')", "('age',)", BLOGGED),
        ("a description of a column", "description='Age'", "description='Years'", BLOGGED),
        ("allowed methods of a view", "['GET']", "['GET', 'POST']", BLOGGED),
        ("a name of a logged view", "@logged('index')", "@logged('start')", BLOGGED),
        ("a name of a logged class", "logged('year'), name='dispatch'", "logged('years'), name='dispatch'", BLOGGED),
        ("an attribute of a class's view", "extra = 'y'", "extra = 'z'", BLOGGED),
        ("a template", "{% double 3 %}", "{% double 4 %}", BLOGGED),
        ("a pattern of a raw path", "\\d{2}", "\\d{3}", BLOGGED),
        ("a namespace", "namespace='v1'", "namespace='v2'", BLOGGED),
        ("a path less", "    path('', index, name='index'),\n", "", BLOGGED),
        ("an order of paths", "    path('', index, name='index'),\n    path('y/<year:year>/', YearView.as_view(), name='year'),\n", "    path('y/<year:year>/', YearView.as_view(), name='year'),\n    path('', index, name='index'),\n", (*BLOGGED, "[str(p.pattern) for p in m.urlpatterns]")),
    ],
    others={"bits": BLOG_BITS},
    needs=("django",),
    setup=BLOG_SETUP,
)  # fmt: skip

ALL = with_expected(
    [
        *BILLING_EDITS,
        *WORKER_EDITS,
        *KIND_EDITS,
        *WRAPPED_EDITS,
        *PACKAGE_EDITS,
        *WEB_EDITS,
        *API_EDITS,
        *TOOL_EDITS,
        *STORE_EDITS,
        *BLOG_EDITS,
    ],
    false=[
        "billing: a function of a pickle that is renamed",
        "billing: a default by an attribute",
        "workers: a wrapped handler",
        "kinds: an integer enumeration becomes plain",
        "kinds: a default of a descriptor's base",
        "wrapped: how a singleton is stored",
        "wrapped: a step of a closure",
        "wrapped: an attribute of a closure",
        "package: a class that is renamed",
        "tool: a conversion of a range",
        "tool: a base of a range",
        "tool: a range of a type",
        "store: a value of a status",
        "store: an order of a relationship",
        "store: another event of a listener",
        "store: a listener that is renamed",
    ],
    invisible=["web: a prefix of a registration"],
    reported=[
        "billing: a rate that an import renames",
        "billing: a separator of a default and a case",
        "billing: a factor of an initial variable",
        "billing: a keyword of a subclass",
        "billing: a keyword of a subclass less",
        "billing: how a hook names",
        "billing: an augmented assignment",
        "billing: what an instance is pickled as",
        "billing: how a pickle is read",
        "billing: a start of a counter",
        "billing: a step of a counter",
        "billing: a class method's result",
        "billing: a property of a named tuple becomes a field",
        "workers: a first value of a variable",
        "workers: a size of queues",
        "workers: a weakly bound method that is renamed",
        "workers: a patched method less",
        "workers: a work of an instance",
        "kinds: a member in the middle",
        "kinds: a default member",
        "kinds: a table's name",
        "kinds: a length of a text",
        "kinds: a column less",
        "kinds: a column that is inherited now",
        "kinds: columns in another order",
        "kinds: a column in a base becomes a property",
        "kinds: a default length",
        "kinds: how a metaclass collects",
        "kinds: how a metaclass names",
        "kinds: a shared list",
        "wrapped: a level of a singleton",
        "wrapped: a constructor of a singleton",
        "wrapped: what a recursive function reads",
        "wrapped: no deletion after a loop",
        "wrapped: an argument of a closure's maker",
        "package: how a kind is named",
        "package: how a function is registered",
        "package: an alias of an import",
        "web: a name of a signal",
        "tool: a format more",
        "tool: a setting of a context",
        "tool: a version",
        "tool: a default of a common option",
        "tool: a variable of a common option",
        "tool: a common option's kind",
        "tool: a factor of a callback",
        "tool: a command more of a loop",
        "tool: a command less of a loop",
        "tool: a callback",
        "tool: a flag that is required",
        "tool: another class of a group",
        "tool: a name of a shown command",
        "tool: a group that needs a command",
        "tool: a name of an added command",
        "tool: an added command less",
        "tool: a result's callback less",
        "store: a default of a column",
        "store: a length of a mixin",
        "store: a default of a mixin",
        "store: another proxy",
        "store: no validator",
        "store: a column more of a subclass",
        "store: an index less",
        "store: a constraint less",
        "store: a listener less",
        "store: a subclass that is renamed",
        "blog: a year by default",
        "blog: a length",
        "blog: a converter's pattern",
        "blog: an order of an abstract model",
        "blog: a choice more",
        "blog: a validator's message",
        "blog: a name of a model",
        "blog: a constraint's name",
        "blog: a field more",
        "blog: a receiver that is renamed",
    ],
)
