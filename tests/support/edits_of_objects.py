"""Edits to plain programs: registries, descriptors, contexts, dispatch, logging, parsers, closures, packages and tasks."""

from edit_cases import edits_of, with_expected

PROXY = """\
import functools, threading
class Unbound:
    '''An object that raises on every access, as the proxies of web frameworks do outside of a request.'''
    def __getattribute__(self, name):
        raise RuntimeError('unbound')
    __class__ = property(lambda self: 1 / 0)
    __eq__ = __hash__ = __bool__ = __len__ = __iter__ = __repr__ = __getattribute__
current = Unbound()
held = {'a': current, 'b': [current]}
RATE = 2
ITEMS = [RATE, RATE * 2]
def price(n, rate=RATE):
    return n * rate
class Tax:
    rate = RATE
    owner = current
    def of(self, n):
        return n * self.rate
tax = Tax()
TOTAL = sum(map(tax.of, ITEMS))
HOOKS = []
def hook(function):
    HOOKS.append(function)
    return function
@hook
def first():
    return 'first'
@functools.lru_cache(maxsize=None)
def cached(n):
    return price(n)
"""
PROXIED = (
    "m.RATE, m.ITEMS, m.price(3), m.TOTAL",
    "m.tax.of(2)",
    "[f() for f in m.HOOKS]",
    "m.cached(2)",
    "m.Tax.rate",
    "sorted(m.held)",
)
BASKET = """\
import contextlib, contextvars, logging, threading, time, warnings
from contextlib import ExitStack, contextmanager, nullcontext, suppress
user = contextvars.ContextVar('user', default='nobody')
local = threading.local()
local.depth = 1
LOG = []
@contextmanager
def step(name, *, quiet=False):
    if not quiet:
        LOG.append('in ' + name)
    try:
        yield name.title()
    except KeyError as error:
        LOG.append(f'lost {error}')
    finally:
        LOG.append('out ' + name)
class Lock:
    timeout = 1
    def __enter__(self):
        LOG.append(f'lock {self.timeout}')
        return self
    def __exit__(self, *error):
        LOG.append('unlock')
        return error[0] is ZeroDivisionError
@step('decorated')
def work(n):
    return n / 2
def run(*names):
    with ExitStack() as stack:
        found = [stack.enter_context(step(name)) for name in names]
        stack.callback(LOG.append, 'end')
        stack.push(lambda *error: LOG.append('pushed'))
        return found
def guarded(n):
    with Lock(), suppress(ValueError):
        return 1 / n
class Session(contextlib.AbstractContextManager, contextlib.ContextDecorator):
    depth = 0
    def __enter__(self):
        Session.depth += 1
        return self
    def __exit__(self, *error):
        Session.depth -= 1
@Session()
def depth():
    return Session.depth
token = user.set('ann')
with step('import') as NAME:
    STEPS = len(LOG)
opened = step('held')
"""
BASKET_PROBES = (
    "(m.LOG.clear(), m.run('a', 'b'), list(m.LOG))[1:]", "(m.LOG.clear(), m.work(4), list(m.LOG))[1:]", "(m.LOG.clear(), m.guarded(0), list(m.LOG))[1:]",
    "m.depth(), m.Session.depth", "m.user.get()", "m.NAME, m.STEPS", "m.local.depth", "m.opened.gen.gi_code.co_consts",
)  # fmt: skip
PLUGINS = """\
import enum, functools, re, string, weakref
from abc import ABC, abstractmethod
from formats import SEPARATOR, Style, make_key
HANDLERS = {}
ORDER = []
def handles(*kinds, priority=0, key=make_key):
    def decorate(function):
        for kind in kinds:
            HANDLERS[key(kind)] = function
        ORDER.append((priority, function.__name__))
        ORDER.sort()
        function.kinds = kinds
        return function
    return decorate
@handles('csv', 'tsv', priority=2)
def read_table(text):
    return [line.split(SEPARATOR) for line in text.splitlines()]
@handles('txt', priority=1)
def read_text(text):
    return text.strip()
@handles('json', key=str.lower)
def read_json(text):
    return eval(text)
def read(kind, text):
    return HANDLERS[make_key(kind)](text)
class Codec(ABC):
    registry = {}
    def __init_subclass__(cls, *, code=None, **rest):
        super().__init_subclass__(**rest)
        cls.code = code or cls.__name__.lower()
        Codec.registry[cls.code] = cls
    @abstractmethod
    def encode(self, text): ...
    def twice(self, text):
        return self.encode(self.encode(text))
class Upper(Codec):
    def encode(self, text):
        return text.upper()
class Wrap(Codec, code='w'):
    left, right = '<>'
    def encode(self, text):
        return self.left + text + self.right
class Field:
    def __init__(self, default=None, *, check=None):
        self.default, self.check = default, check
    def __set_name__(self, owner, name):
        self.name = name
        owner.fields = [*getattr(owner, 'fields', ()), name]
    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        return instance.__dict__.get(self.name, self.default)
    def __set__(self, instance, value):
        if self.check and not self.check(value):
            raise ValueError(self.name)
        instance.__dict__[self.name] = value
def is_short(value):
    return len(value) < 5
class Row:
    title = Field('none', check=is_short)
    size = Field(1)
    style = Style.PLAIN
    def __init__(self, **values):
        for name, value in values.items():
            setattr(self, name, value)
    def __repr__(self):
        return SEPARATOR.join(f'{name}={getattr(self, name)}' for name in self.fields)
class Wide(Row):
    width = Field(80)
PATTERN = re.compile(rf'(\\w+){SEPARATOR}(\\w+)', re.I)
PAIRS = PATTERN.findall('a,b c,d e;f')
TEMPLATE = string.Template('$name is $size')
LINE = TEMPLATE.safe_substitute(name='x', size=len(PAIRS))
rows = weakref.WeakSet()
sample = Wide(title='ab')
rows.add(sample)
TEXT = repr(sample)
LABELS = {style: style.label for style in Style}
@functools.total_ordering
class Version:
    def __init__(self, text):
        self.parts = tuple(map(int, text.split('.')))
    def __eq__(self, other):
        return self.parts == other.parts
    def __lt__(self, other):
        return self.parts < other.parts
NEWEST = max(map(Version, ['1.2', '1.10'])).parts
"""
FORMATS = """\
import enum
SEPARATOR = ','
class Style(enum.Enum):
    PLAIN = 'p'
    BOLD = 'b'
    @property
    def label(self):
        return self.value.upper()
def make_key(kind):
    return '.' + kind
"""
PLUGGED = (
    "sorted((k, f.__name__) for k, f in m.HANDLERS.items())", "m.ORDER", "m.read('csv', 'a,b\\nc')", "m.read('txt', ' a ')", "m.read_table.kinds",
    "sorted((k, c.__name__) for k, c in m.Codec.registry.items())", "[m.Codec.registry[k]().twice('x') for k in sorted(m.Codec.registry)]", "m.Upper.code, m.Wrap.code",
    "m.Wide.fields, m.Row.fields", "m.Row(title='toolong')", "m.Row(title='abc')", "m.Wide()", "m.PATTERN.pattern, m.PAIRS", "m.LINE", "m.TEXT", "m.sample", "m.LABELS",
    "m.NEWEST, m.Version('1.0') >= m.Version('0.9')", "len(m.rows), m.sample in m.rows", "m.Row.style", "m.Row().size", "isinstance(m.sample, m.Row)", "m.Row.title.name",
)  # fmt: skip
TOOL = """\
import argparse, configparser, json, logging, logging.config, os
import toolconf
from toolconf import LEVELS, common
log = logging.getLogger('tool')
log.setLevel(LEVELS['default'])
CONFIG = {
    'version': 1, 'disable_existing_loggers': False,
    'formatters': {'short': {'format': toolconf.FORMAT}},
    'handlers': {'mem': {'class': 'logging.NullHandler', 'formatter': 'short', 'level': 'INFO'}},
    'loggers': {'tool.db': {'handlers': ['mem'], 'level': 'DEBUG', 'propagate': False}},
}
logging.config.dictConfig(CONFIG)
class Redact(logging.Filter):
    word = 'secret'
    def filter(self, record):
        record.msg = record.msg.replace(self.word, '***')
        return True
log.addFilter(Redact())
class Memory(logging.Handler):
    def __init__(self, size=3):
        super().__init__()
        self.lines, self.size = [], size
    def emit(self, record):
        self.lines.append(self.format(record))
        del self.lines[:-self.size]
memory = Memory()
memory.setFormatter(logging.Formatter('%(levelname)s %(message)s'))
log.addHandler(memory)
class Upper(argparse.Action):
    def __call__(self, parser, namespace, values, option=None):
        setattr(namespace, self.dest, values.upper())
def positive(text):
    if int(text) < 1:
        raise argparse.ArgumentTypeError('not positive')
    return int(text)
parser = argparse.ArgumentParser(prog='tool', parents=[common], epilog=toolconf.EPILOG)
parser.add_argument('--name', action=Upper, default='x')
commands = parser.add_subparsers(dest='command')
def command(name, *arguments, **options):
    def decorate(function):
        made = commands.add_parser(name, parents=[common], **options)
        for argument in arguments:
            made.add_argument(argument, type=positive)
        made.set_defaults(run=function)
        return function
    return decorate
@command('add', 'a', 'b', help='add')
def add(given):
    return given.a + given.b
@command('double', 'n')
def double(given):
    return given.n * 2
def main(*given):
    parsed = parser.parse_args(given)
    return parsed.run(parsed), parsed.verbose, parsed.name
"""
TOOLCONF = """\
import argparse
LEVELS = {'default': 'INFO', 'debug': 'DEBUG'}
FORMAT = '%(name)s %(message)s'
EPILOG = 'See the manual.'
common = argparse.ArgumentParser(add_help=False)
common.add_argument('--verbose', action='store_true')
"""
TOOLED = (
    "m.main('add', '1', '2')", "m.main('--name', 'bob', 'double', '4', '--verbose')", "m.main('add', '0', '1')", "m.parser.format_help()", "sorted(m.commands.choices)",
    "(m.memory.lines.clear(), m.log.info('a secret b'), m.log.debug('d'), m.log.warning('c'), m.memory.lines)[-1]", "m.log.level, m.log.filters.__len__(), m.log.handlers.__len__()",
    "m.logging.getLogger('tool.db').level, m.logging.getLogger('tool.db').handlers[0].formatter._fmt, m.logging.getLogger('tool.db').propagate", "m.memory.size", "m.commands.choices['add'].format_help()",
)  # fmt: skip
CHAIN_A = """\
BASE = 10
SCALE = {'small': 1, 'big': BASE}
class Unit:
    factor = BASE
    def __init__(self, n):
        self.n = n
    def value(self):
        return self.n * self.factor
def scaled(n, by='big'):
    return n * SCALE[by]
"""
CHAIN_B = """\
from chain_a import BASE, SCALE, Unit, scaled
import chain_a
from typing import TYPE_CHECKING, NamedTuple, TypedDict
from dataclasses import dataclass, field
if TYPE_CHECKING:
    from decimal import Decimal
try:
    from chain_a import FAST
except ImportError:
    FAST = False
HALF = BASE // 2
LIMITS = {name: value + HALF for name, value in SCALE.items()}
def pick(n, limit=HALF):
    if n > limit:
        return 'over'
    if n == limit:
        return Unit(n)
    return None
class Price(NamedTuple):
    amount: int = HALF
    unit: str = 'eur'
    def gross(self):
        return self.amount + BASE
class Options(TypedDict, total=False):
    depth: int
@dataclass(slots=True, kw_only=True)
class Box:
    width: int = HALF
    parts: list = field(default_factory=lambda: [BASE])
    def size(self):
        return self.width * len(self.parts)
def __getattr__(name):
    if name.startswith('make_'):
        return lambda n: scaled(n, by=name[5:])
    raise AttributeError(name)
__all__ = ['HALF', 'LIMITS', 'pick', 'Price', 'Box']
"""
CHAIN_C = """\
import functools, itertools, operator, asyncio
from chain_b import *
import chain_b
QUARTER = HALF / 2
PICKED = [type(pick(n)).__name__ for n in (1, 5, 9)]
UNIT = pick(5)
AMOUNT = UNIT.value() if UNIT is not None else 0
PRICE = Price()
GROSS = PRICE.gross()
box = Box()
SIZE = box.size()
BIG = chain_b.make_big(3)
adder = functools.partial(operator.add, QUARTER)
def counter(start=HALF):
    n = start
    def count(step=1):
        nonlocal n
        n += step
        return n
    def reset():
        nonlocal n
        n = start
    count.reset = reset
    return count
tick = counter()
def numbers():
    n = HALF
    while True:
        yield n
        n += QUARTER
stream = numbers()
FIRST = list(itertools.islice(numbers(), 3))
async def fetch(n):
    await asyncio.sleep(0)
    return n * HALF
async def gather():
    return await asyncio.gather(*map(fetch, range(3)))
RESULTS = asyncio.run(gather())
class Lazy:
    @functools.cached_property
    def total(self):
        return sum(chain_b.LIMITS.values())
    @functools.singledispatchmethod
    def show(self, value):
        return f'? {value}'
    @show.register
    def _(self, value: int):
        return f'int {value + HALF}'
    @show.register(list)
    def _(self, value):
        return [self.show(one) for one in value]
lazy = Lazy()
SHOWN = lazy.show([1, 'a'])
_cache = None
def settings():
    global _cache
    if _cache is None:
        _cache = {'half': HALF}
    return _cache
def choose(mode):
    if mode == 'sum':
        return sum
    if mode == 'max':
        return max
    return lambda values: len(list(values))
CHOSEN = choose('sum')(chain_b.LIMITS.values())
def maybe(flag):
    if flag:
        return Price(1)
    return 0
PRICED = maybe(True).gross()
"""
CHAIN = {"chain_a": CHAIN_A, "chain_b": CHAIN_B}
CHAINED = (
    "chain_b.HALF, chain_b.LIMITS, chain_b.FAST", "m.HALF, m.QUARTER", "m.LIMITS", "m.PICKED, m.AMOUNT", "m.PRICE, m.GROSS, chain_b.Price().gross()", "m.box, m.SIZE, chain_b.Box()", "m.BIG",
    "m.adder(1)", "m.FIRST, next(m.numbers())", "m.RESULTS, m.asyncio.run(m.gather())", "m.SHOWN, m.lazy.show(3)", "m.CHOSEN, m.PRICED", "chain_b.pick(5, 5).value()", "m.Lazy().total",
    "chain_a.scaled(2), chain_a.Unit(2).value()", "m.choose('other')([1, 2])", "sorted(n for n in vars(m) if n[0] != '_' and n in ('HALF', 'LIMITS', 'pick', 'Price', 'Box', 'Options', 'FAST'))",
)  # fmt: skip
RETURNS = """\
class Unit:
    def __init__(self, n):
        self.n = n
    def value(self):
        return self.n * 2
    def __iter__(self):
        return iter(range(self.n))
    def __len__(self):
        return self.n
    def __call__(self, k):
        return self.n + k
class Other:
    def value(self):
        return 7
def early(flag):
    if flag:
        return Unit(3)
    return 0
def text(flag):
    if flag:
        return Unit(2)
    return 'text'
def both(flag):
    if not flag:
        return Other()
    try:
        return Unit(4)
    except ValueError:
        return Other()
def function(flag):
    def first():
        return 1
    def second():
        return 2
    if flag:
        return first
    return second
def nothing(flag):
    if flag:
        return Unit(5)
def collection(flag):
    if flag:
        return [Unit(1), Unit(2)]
    return ()
def single(flag):
    if flag:
        return Unit(1)
    return print
def either(flag):
    return Unit(6) if flag else Other()
EARLY = early(True).value()
SIZE = len(early(True))
ITEMS = list(text(True))
BOTH = both(True).value()
FIRST = function(True)()
NOTHING = nothing(True).value()
SUM = sum(one.value() for one in collection(True))
CALLED = single(True)(1)
EITHER = either(True).value()
TERNARY = (Unit(1) if FIRST else None).value()
"""
RETURNED = ("m.EARLY, m.SIZE, m.ITEMS, m.BOTH, m.FIRST, m.NOTHING, m.SUM, m.CALLED, m.EITHER, m.TERNARY",)
ALL = with_expected(
    [
        *edits_of(
            "returns",
            RETURNS,
            [
                ("a method", "self.n * 2", "self.n * 3", RETURNED),
                ("an iteration", "range(self.n)", "range(self.n + 1)", RETURNED),
                ("a length", "        return self.n\n", "        return self.n + 1\n", RETURNED),
                ("a call", "self.n + k", "self.n - k", RETURNED),
                ("an inner function", "return 1\n", "return 5\n", RETURNED),
                ("a constructor", "self.n = n\n", "self.n = n + 1\n", RETURNED),
                ("another class's method", "return 7", "return 8", RETURNED),
                ("which one", "return Unit(5)", "return Unit(6)", RETURNED),
            ],
        ),
        *edits_of(
            "proxies",
            PROXY,
            [
                ("a constant", "RATE = 2", "RATE = 3", PROXIED),
                ("a default", "rate=RATE", "rate=5", PROXIED),
                ("an attribute", "    rate = RATE", "    rate = 9", PROXIED),
                ("a method", "n * self.rate", "n + self.rate", PROXIED),
                ("a registered body", "'first'", "'1st'", PROXIED),
                ("a hook more", "@functools.lru", "@hook\ndef second():\n    return 'second'\n@functools.lru", PROXIED),
                ("a hook less", "@hook\n", "", PROXIED),
                ("a value of a table", "'b': [current]", "'c': [current]", PROXIED),
                (
                    "a class that holds one",
                    "    owner = current\n",
                    "    owner = None\n",
                    (*PROXIED, "m.Tax.owner is None"),
                ),
                (
                    "another one",
                    "current = Unbound()",
                    "current = [Unbound()]",
                    (*PROXIED, "type(m.current)", "type(m.held['a'])"),
                ),
            ],
        ),
        *edits_of(
            "basket",
            BASKET,
            [
                ("a text of a step", "'in ' + name", "'enter ' + name", BASKET_PROBES),
                ("what a step yields", "name.title()", "name.upper()", BASKET_PROBES),
                ("a caught error", "except KeyError", "except LookupError", BASKET_PROBES),
                ("a default of a step", "quiet=False", "quiet=True", BASKET_PROBES),
                ("a name of a decorating context", "step('decorated')", "step('wrapped')", BASKET_PROBES),
                ("a timeout of a lock", "timeout = 1", "timeout = 2", BASKET_PROBES),
                ("a suppressed error of a lock", "ZeroDivisionError", "ValueError", BASKET_PROBES),
                ("a callback of a stack", "'end'", "'finish'", BASKET_PROBES),
                ("a closure on a stack", "'pushed'", "'popped'", BASKET_PROBES),
                ("a session's depth", "Session.depth += 1", "Session.depth += 2", BASKET_PROBES),
                ("a decorating session less", "@Session()\n", "", BASKET_PROBES),
                ("a default of a variable", "default='nobody'", "default='guest'", BASKET_PROBES),
                ("a user", "user.set('ann')", "user.set('bob')", BASKET_PROBES),
                ("a name at import", "step('import')", "step('load')", BASKET_PROBES),
                ("a local", "local.depth = 1", "local.depth = 2", BASKET_PROBES),
                ("a held context", "step('held')", "step('kept')", BASKET_PROBES),
                ("a base of a session", "contextlib.AbstractContextManager, ", "", BASKET_PROBES),
            ],
        ),
        *edits_of(
            "plugins",
            PLUGINS,
            [
                ("a separator", "SEPARATOR = ','", "SEPARATOR = ';'", PLUGGED, {"edited": "formats"}),
                ("how keys are made", "'.' + kind", "'*' + kind", PLUGGED, {"edited": "formats"}),
                (
                    "a member more",
                    "    BOLD = 'b'\n",
                    "    BOLD = 'b'\n    ITALIC = 'i'\n",
                    PLUGGED,
                    {"edited": "formats"},
                ),
                ("a value of a member", "BOLD = 'b'", "BOLD = 'B!'", PLUGGED, {"edited": "formats"}),
                ("a property of members", "self.value.upper()", "self.name.title()", PLUGGED, {"edited": "formats"}),
                ("a kind more", "'csv', 'tsv'", "'csv', 'tsv', 'psv'", PLUGGED),
                ("a kind less", "'csv', 'tsv'", "'csv'", PLUGGED),
                ("a priority", "priority=2", "priority=0", PLUGGED),
                ("a key of a handler", "key=str.lower", "key=str.upper", PLUGGED),
                ("a default of a decorator", "priority=0", "priority=9", PLUGGED),
                ("a body of a handler", "text.strip()", "text.strip() + '!'", PLUGGED),
                ("a handler renamed", "def read_text", "def read_plain", PLUGGED),
                (
                    "a handler less",
                    "@handles('txt', priority=1)\ndef read_text(text):\n    return text.strip()\n",
                    "",
                    PLUGGED,
                ),
                ("what a decorator stores", "function.kinds = kinds", "function.kinds = sorted(kinds)", PLUGGED),
                ("a code of a class", "code='w'", "code='wrap'", PLUGGED),
                ("a default code", "cls.__name__.lower()", "cls.__name__", PLUGGED),
                ("a method of a codec", "text.upper()", "text.title()", PLUGGED),
                ("an attribute of a codec", "'<>'", "'[]'", PLUGGED),
                ("an inherited method", "self.encode(self.encode(text))", "self.encode(text) * 2", PLUGGED),
                (
                    "a codec more",
                    "class Wrap(",
                    "class Lower(Codec):\n    def encode(self, text):\n        return text.lower()\nclass Wrap(",
                    PLUGGED,
                ),
                (
                    "a codec less",
                    "class Upper(Codec):\n    def encode(self, text):\n        return text.upper()\n",
                    "class Upper:\n    code = None\n",
                    PLUGGED,
                ),
                ("a default of a field", "Field('none'", "Field('nil'", PLUGGED),
                ("a check of a field", ", check=is_short", "", PLUGGED),
                ("how a check is made", "< 5", "< 9", PLUGGED),
                ("a field more", "    size = Field(1)\n", "    size = Field(1)\n    color = Field('red')\n", PLUGGED),
                ("a field less", "    size = Field(1)\n", "", PLUGGED),
                ("a field of a subclass", "Field(80)", "Field(100)", PLUGGED),
                ("how a field reads", "self.name, self.default)", "self.name, self.default or 'empty')", PLUGGED),
                ("how a field is named", "self.name = name\n", "self.name = '_' + name\n", PLUGGED),
                (
                    "a class to a mixin",
                    "class Wide(Row)",
                    "class Mixin:\n    extra = Field(0)\nclass Wide(Mixin, Row)",
                    PLUGGED,
                ),
                ("flags of a pattern", "re.I", "re.I | re.X", PLUGGED),
                ("a text that is searched", "e;f", "e,f", PLUGGED),
                ("a template", "$name is $size", "$name: $size", PLUGGED),
                ("an argument of a sample", "title='ab'", "title='cd'", PLUGGED),
                ("a comparison", "self.parts < other.parts", "self.parts > other.parts", PLUGGED),
                ("a comparison less", "@functools.total_ordering\n", "", PLUGGED),
                ("a conversion", "map(int, text", "map(str, text", PLUGGED),
            ],
            others={"formats": FORMATS},
        ),
        *edits_of(
            "tool",
            TOOL,
            [
                ("a level", "'default': 'INFO'", "'default': 'WARNING'", TOOLED, {"edited": "toolconf"}),
                ("a format", "%(name)s %(message)s", "%(message)s", TOOLED, {"edited": "toolconf"}),
                ("an epilogue", "'See the manual.'", "'Read on.'", TOOLED, {"edited": "toolconf"}),
                ("a shared option", "'--verbose'", "'--verbose', '-v'", TOOLED, {"edited": "toolconf"}),
                (
                    "a shared option more",
                    "action='store_true')",
                    "action='store_true')\ncommon.add_argument('--dry', action='store_true')",
                    TOOLED,
                    {"edited": "toolconf"},
                ),
                ("a level of a child", "'level': 'DEBUG', 'prop", "'level': 'ERROR', 'prop", TOOLED),
                ("a propagation", "'propagate': False", "'propagate': True", TOOLED),
                ("a word of a filter", "word = 'secret'", "word = 'a'", TOOLED),
                ("a body of a filter", "'***'", "'---'", TOOLED),
                ("a filter less", "log.addFilter(Redact())\n", "", TOOLED),
                ("a size of a handler", "size=3", "size=1", TOOLED),
                ("an argument of a handler", "memory = Memory()", "memory = Memory(1)", TOOLED),
                ("a formatter", "%(levelname)s %(message)s", "%(levelname)s: %(message)s", TOOLED),
                (
                    "a body of a handler",
                    "self.lines.append(self.format(record))",
                    "self.lines.append(self.format(record).upper())",
                    TOOLED,
                ),
                ("an action", "values.upper()", "values.title()", TOOLED),
                ("a type", "int(text) < 1", "int(text) < 0", TOOLED),
                ("a message of a type", "'not positive'", "'negative'", TOOLED),
                ("a program's name", "prog='tool'", "prog='t'", TOOLED),
                ("a default of an option", "default='x'", "default='y'", TOOLED),
                ("an argument more", "'add', 'a', 'b'", "'add', 'a', 'b', 'c'", TOOLED),
                ("a command's name", "command('double'", "command('twice'", TOOLED),
                ("a command's help", "help='add'", "help='sum'", TOOLED),
                ("a command's body", "given.n * 2", "given.n * 3", TOOLED),
                ("a command less", "@command('double', 'n')\n", "", TOOLED),
                ("a type of the arguments", "type=positive", "type=int", TOOLED),
                (
                    "what is returned",
                    "parsed.run(parsed), parsed.verbose",
                    "parsed.run(parsed), not parsed.verbose",
                    TOOLED,
                ),
            ],
            others={"toolconf": TOOLCONF},
        ),
        *edits_of(
            "chain",
            CHAIN_C,
            [
                ("a base", "BASE = 10", "BASE = 20", CHAINED, {"edited": "chain_a"}),
                ("a scale", "'small': 1", "'small': 3", CHAINED, {"edited": "chain_a"}),
                ("a scale more", "'small': 1, ", "'small': 1, 'mid': 5, ", CHAINED, {"edited": "chain_a"}),
                ("a method of a unit", "self.n * self.factor", "self.n + self.factor", CHAINED, {"edited": "chain_a"}),
                ("an attribute of a unit", "factor = BASE", "factor = 7", CHAINED, {"edited": "chain_a"}),
                ("a default of a function", "by='big'", "by='small'", CHAINED, {"edited": "chain_a"}),
                ("a name that is tried", "BASE = 10\n", "BASE = 10\nFAST = True\n", CHAINED, {"edited": "chain_a"}),
                ("a divisor", "BASE // 2", "BASE - 5 + BASE // 10", CHAINED, {"edited": "chain_b"}),
                ("an early return", "return 'over'", "return 1.5", CHAINED, {"edited": "chain_b"}),
                ("a middle return", "return Unit(n)\n", "return Unit(n + 1)\n", CHAINED, {"edited": "chain_b"}),
                ("a default of a named tuple", "amount: int = HALF", "amount: int = 3", CHAINED, {"edited": "chain_b"}),
                (
                    "a method of a named tuple",
                    "self.amount + BASE",
                    "self.amount - BASE",
                    CHAINED,
                    {"edited": "chain_b"},
                ),
                ("a factory of a dataclass", "lambda: [BASE]", "lambda: [BASE, 1]", CHAINED, {"edited": "chain_b"}),
                (
                    "a method of a dataclass",
                    "self.width * len(self.parts)",
                    "self.width + len(self.parts)",
                    CHAINED,
                    {"edited": "chain_b"},
                ),
                (
                    "an option of a dataclass",
                    "slots=True, ",
                    "",
                    (*CHAINED, "hasattr(chain_b.Box(), '__dict__')"),
                    {"edited": "chain_b"},
                ),
                (
                    "a module's attribute",
                    "scaled(n, by=name[5:])",
                    "scaled(n + 1, by=name[5:])",
                    CHAINED,
                    {"edited": "chain_b"},
                ),
                (
                    "a public name more",
                    "'Price', 'Box']",
                    "'Price', 'Box', 'Options', 'FAST']",
                    CHAINED,
                    {"edited": "chain_b"},
                ),
                ("a public name less", "'LIMITS', 'pick'", "'pick'", CHAINED, {"edited": "chain_b"}),
                (
                    "an import under a type check",
                    "    from decimal import Decimal\n",
                    "    from decimal import Decimal, Context\n",
                    CHAINED,
                    {"edited": "chain_b"},
                ),
                ("a start of a counter", "start=HALF", "start=1", (*CHAINED, "m.counter()()")),
                ("a step of a closure", "n += step", "n -= step", (*CHAINED, "m.counter(0)()")),
                (
                    "a closure more",
                    "    count.reset = reset\n",
                    "    count.reset = reset\n    count.get = lambda: n\n",
                    (*CHAINED, "m.tick.get()"),
                ),
                ("an increment of a generator", "        n += QUARTER", "        n += 1", (*CHAINED, "next(m.stream)")),
                ("a coroutine", "n * HALF", "n + HALF", CHAINED),
                ("a cached property", "sum(chain_b.LIMITS.values())", "max(chain_b.LIMITS.values())", CHAINED),
                (
                    "a cached property that was used",
                    "sum(chain_b.LIMITS.values())",
                    "max(chain_b.LIMITS.values())",
                    ("m.lazy.total", *CHAINED),
                    {"hold": "t = m.lazy.total"},
                ),
                ("a method of a dispatcher", "f'int {value + HALF}'", "f'int {value}'", CHAINED),
                ("a type of a dispatcher", "value: int", "value: float", CHAINED),
                ("a fallback of a dispatcher", "f'? {value}'", "f'! {value}'", CHAINED),
                (
                    "a lazy global",
                    "{'half': HALF}",
                    "{'half': QUARTER}",
                    ("m.settings()",),
                    {"hold": "s = m.settings()", "expects": "invisible"},
                ),
                ("a chosen function", "return sum\n", "return min\n", CHAINED),
                ("a chosen lambda", "len(list(values))", "-len(list(values))", CHAINED),
                ("what is chosen", "choose('sum')", "choose('other')", CHAINED),
                ("what may be returned", "return Price(1)", "return Price(2)", CHAINED),
            ],
            others=CHAIN,
        ),
    ],
    reported=[
        "returns: a call",
        "returns: a constructor",
        "plugins: an argument of a sample",
        "tool: a filter less",
        "tool: an argument of a handler",
        "chain: an increment of a generator",
    ],
    false=[
        "tool: a formatter",
        "tool: a size of a handler",
    ],
)
