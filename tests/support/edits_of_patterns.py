"""Edits to plain Python that follows patterns: inventories, chains of handlers, jobs, expressions, routers and managers."""

from edit_cases import Edit, with_expected

INVENTORY = """\
import collections, itertools, operator, json, datetime, decimal
from typing import Final
CURRENCY: Final = 'EUR'
VAT = decimal.Decimal('0.2')
Item = collections.namedtuple('Item', 'name price tags', defaults=((),))
ITEMS = [Item('pen', 2, ('a',)), Item('ink', 5, ('a', 'b')), Item('cap', 1)]
by_tag = collections.defaultdict(list)
for item in ITEMS:
    for tag in item.tags:
        by_tag[tag].append(item.name)
totals = dict(itertools.accumulate(((i.name, i.price) for i in ITEMS), lambda a, b: (b[0], a[1] + b[1])))
cheapest = min(ITEMS, key=operator.attrgetter('price'))
names = operator.itemgetter(0)
NAMES = list(map(names, ITEMS))
counts = collections.Counter(tag for item in ITEMS for tag in item.tags)
grouped = {k: list(v) for k, v in itertools.groupby(sorted(ITEMS, key=lambda i: len(i.tags)), key=lambda i: len(i.tags))}
START = datetime.date(2024, 1, 1)
END = START + datetime.timedelta(days=30)
def gross(item, vat=VAT):
    return item.price * (1 + vat)
GROSS = {item.name: str(gross(item)) for item in ITEMS}
class Encoder(json.JSONEncoder):
    def default(self, o):
        return str(o)
DUMPED = json.dumps({'vat': VAT, 'start': START}, cls=Encoder)
"""
STACK = """\
class Handler:
    name = 'base'
    def __init__(self, next=None):
        self.next = next
    def handle(self, x):
        return self.next.handle(x) if self.next else x
class Doubler(Handler):
    name = 'double'
    def handle(self, x):
        return super().handle(x * 2)
class Adder(Handler):
    name = 'add'
    def __init__(self, next=None, n=1):
        super().__init__(next)
        self.n = n
    def handle(self, x):
        return super().handle(x + self.n)
KINDS = {cls.name: cls for cls in Handler.__subclasses__()}
def build(*names):
    handler = None
    for name in reversed(names):
        handler = KINDS[name](handler)
    return handler
chain = build('double', 'add')
RESULT = chain.handle(5)
"""
SCHED = """\
import functools
JOBS = []
def every(minutes, *, name=None, enabled=True):
    def wrap(f):
        @functools.wraps(f)
        def run(*a, **k):
            return f.__name__, f(*a, **k)
        run.minutes = minutes
        if enabled:
            JOBS.append((name or f.__name__, minutes, run))
        return run
    return wrap
@every(5)
def ping():
    return 'ping'
@every(60, name='clean-up')
def clean():
    return 'clean'
@every(1, enabled=False)
def off():
    return 'off'
NEXT = sorted(JOBS, key=lambda j: j[1])[0][0]
"""
TREE = """\
import abc
class Expr(abc.ABC):
    @abc.abstractmethod
    def ev(self, env): ...
    def __add__(self, other):
        return Add(self, wrap(other))
    def __mul__(self, other):
        return Mul(self, wrap(other))
class Num(Expr):
    def __init__(self, n): self.n = n
    def ev(self, env): return self.n
class Var(Expr):
    def __init__(self, name): self.name = name
    def ev(self, env): return env[self.name]
class Add(Expr):
    def __init__(self, a, b): self.a, self.b = a, b
    def ev(self, env): return self.a.ev(env) + self.b.ev(env)
class Mul(Add):
    def ev(self, env): return self.a.ev(env) * self.b.ev(env)
def wrap(x):
    return x if isinstance(x, Expr) else Num(x)
x = Var('x')
formula = x * 2 + 3
ENV = {'x': 4}
VALUE = formula.ev(ENV)
KINDS = sorted(c.__name__ for c in Expr.__subclasses__())
"""
FEATURE = """\
import os, sys
FLAGS = {'fast': True, 'beta': False}
def flag(name):
    return FLAGS.get(name, False)
if flag('fast'):
    from math import isqrt as root
    def solve(n):
        return root(n)
else:
    def root(n):
        return int(n ** .5)
    def solve(n):
        return -root(n)
ENABLED = [n for n in FLAGS if flag(n)]
if sys.version_info >= (3, 8) and 'beta' in ENABLED:
    EXTRA = 'beta'
try:
    LEVEL = int(os.environ['NO_SUCH_LEVEL'])
except KeyError:
    LEVEL = len(ENABLED)
MODE = 'fast' if flag('fast') else 'slow'
assert LEVEL < 10
"""
API_A = """\
from dataclasses import dataclass
@dataclass
class Request:
    path: str
    method: str = 'GET'
class Router:
    def __init__(self, prefix=''):
        self.prefix, self.routes, self.children = prefix, {}, []
    def route(self, path, method='GET'):
        def add(f):
            self.routes[method, self.prefix + path] = f
            return f
        return add
    def include(self, other):
        self.children.append(other)
        return self
    def all(self):
        out = dict(self.routes)
        for one in self.children:
            out.update(one.all())
        return out
    def __call__(self, request):
        return self.all()[request.method, request.path](request)
"""
API_B = """\
from m import Router
users = Router('/users')
@users.route('/')
def index(request):
    return 'users'
@users.route('/new', method='POST')
def create(request):
    return 'created'
"""
API_C = """\
from m import Router, Request
from n import users
root = Router()
root.include(users)
@root.route('/')
def home(request):
    return 'home ' + request.method
HOME = root(Request('/'))
TABLE = sorted(root.all())
"""
API = {"n": API_B, "o": API_C}
META = """\
class Registry(type):
    classes = {}
    def __new__(mcs, name, bases, ns):
        cls = super().__new__(mcs, name, bases, ns)
        if bases:
            mcs.classes[ns.get('key', name.lower())] = cls
        return cls
class Base(metaclass=Registry):
    pass
class One(Base):
    key = 'one'
    def go(self): return 1
class Two(Base):
    def go(self): return 2
LIST = sorted(Registry.classes)
def make(key):
    return Registry.classes[key]()
FIRST = make('one').go()
"""
GEN = """\
from typing import Generic, TypeVar, Callable
T = TypeVar('T')
class Repo(Generic[T]):
    model: type
    def __init__(self, *items: T):
        self.items = list(items)
    def all(self, key: Callable = None):
        return sorted(self.items, key=key)
    def __class_getitem__(cls, item):
        made = super().__class_getitem__(item)
        cls.last = item
        return made
class Names(Repo[str]):
    model = str
    def upper(self):
        return [one.upper() for one in self.all()]
names = Names('b', 'a')
SORTED = names.all()
UPPER = names.upper()
"""
COPY = """\
import copy, types, weakref, enum
class Mode(str, enum.Enum):
    ON = 'on'
    OFF = 'off'
    @classmethod
    def default(cls):
        return cls.ON
    def __str__(self):
        return f'<{self.value}>'
DEFAULTS = types.MappingProxyType({'mode': Mode.default(), 'size': 3})
class Options(types.SimpleNamespace):
    def merged(self, **kw):
        new = copy.copy(self)
        new.__dict__.update(kw)
        return new
base = Options(**DEFAULTS)
big = base.merged(size=10)
LABEL = f'{big.mode} {big.size}'
CACHE = weakref.WeakValueDictionary()
CACHE['base'] = base
TABLE = {Mode.ON: 1, Mode.OFF: 0}
IS_ON = base.mode == 'on'
"""
CM = """\
import contextlib
LOG = []
class Timer:
    label = 'timer'
    def __enter__(self):
        LOG.append(self.label)
        return self
    def __exit__(self, *a):
        LOG.append('end')
        return False
    def stop(self):
        return self.label + '!'
with Timer() as timer:
    STOPPED = timer.stop()
@contextlib.contextmanager
def temp(**kw):
    yield kw
with temp(a=1, b=2) as values:
    KEYS = sorted(values)
def suppress(*errors):
    return contextlib.suppress(*errors)
with suppress(KeyError):
    FOUND = {}['x']
ENTRIES = len(LOG)
"""


def e(name, text, old, new, probe, others=None, edited="m", **more):
    return Edit(name, text, old, new, probe, others or {}, edited=edited, **more)


ALL = [
    e("inventory: a price", INVENTORY, "'pen', 2", "'pen', 9", ("m.totals", "m.cheapest", "m.GROSS", "m.ITEMS[0]")),
    e("inventory: a tag", INVENTORY, "('a', 'b')", "('b', 'c')", ("dict(m.by_tag)", "m.counts", "sorted(m.grouped)")),
    e(
        "inventory: an item more",
        INVENTORY,
        "Item('cap', 1)]",
        "Item('cap', 1), Item('bag', 20, ('z',))]",
        ("m.NAMES", "dict(m.by_tag)", "m.counts", "m.totals", "sorted(m.GROSS)"),
    ),
    e(
        "inventory: a field",
        INVENTORY,
        "'name price tags'",
        "'title price tags'",
        ("m.ITEMS[0]._fields",),
        more=(
            ("m", "i.name, i.price", "i.title, i.price"),
            ("m", "append(item.name)", "append(item.title)"),
            ("m", "{item.name: str", "{item.title: str"),
        ),
    ),
    e("inventory: the tax", INVENTORY, "'0.2'", "'0.1'", ("m.GROSS", "m.DUMPED", "m.gross.__defaults__")),
    e("inventory: the start", INVENTORY, "2024, 1, 1", "2025, 1, 1", ("m.END", "m.DUMPED")),
    e("inventory: an encoder", INVENTORY, "return str(o)", "return repr(o)", ("m.DUMPED",)),
    e("inventory: an accumulating lambda", INVENTORY, "a[1] + b[1]", "a[1] * b[1]", ("m.totals",)),
    e(
        "inventory: a grouping lambda",
        INVENTORY,
        "key=lambda i: len(i.tags))}",
        "key=lambda i: len(i.tags) * 2)}",
        ("sorted(m.grouped)",),
    ),
    e("inventory: a getter", INVENTORY, "itemgetter(0)", "itemgetter(1)", ("m.NAMES", "m.names(m.ITEMS[0])")),
    e(
        "handlers: a base's body",
        STACK,
        "if self.next else x",
        "if self.next else -x",
        ("m.RESULT", "m.chain.handle(1)"),
    ),
    e(
        "handlers: a name",
        STACK,
        "name = 'double'",
        "name = 'twice'",
        ("sorted(m.KINDS)", "m.RESULT"),
        more=(("m", "build('double'", "build('twice'"),),
    ),
    e("handlers: a default", STACK, "n=1", "n=7", ("m.RESULT", "m.chain.next.n")),
    e(
        "handlers: the order",
        STACK,
        "build('double', 'add')",
        "build('add', 'double')",
        ("m.RESULT", "type(m.chain).__name__"),
    ),
    e(
        "handlers: a class more",
        STACK,
        "KINDS =",
        "class Neg(Handler):\n    name = 'neg'\n    def handle(self, x):\n        return super().handle(-x)\nKINDS =",
        ("sorted(m.KINDS)", "m.build('neg').handle(1)", "m.RESULT"),
    ),
    e(
        "handlers: a class less",
        STACK,
        "class Doubler(Handler):\n    name = 'double'\n    def handle(self, x):\n        return super().handle(x * 2)\n",
        "",
        ("sorted(m.KINDS)", "m.RESULT"),
        more=(("m", "build('double', 'add')", "build('add')"),),
    ),
    e("jobs: minutes", SCHED, "@every(60,", "@every(2,", ("[j[:2] for j in m.JOBS]", "m.NEXT", "m.clean.minutes")),
    e("jobs: enabled", SCHED, "enabled=False", "enabled=True", ("[j[:2] for j in m.JOBS]", "m.NEXT")),
    e("jobs: a name", SCHED, "name='clean-up'", "name='sweep'", ("[j[:2] for j in m.JOBS]",)),
    e("jobs: a body", SCHED, "return 'ping'", "return 'pong'", ("m.JOBS[0][2]()", "m.ping()")),
    e(
        "jobs: the wrapper",
        SCHED,
        "return f.__name__, f(*a, **k)",
        "return f(*a, **k)",
        ("m.JOBS[0][2]()", "m.clean()"),
    ),
    e("jobs: what is stored", SCHED, "minutes, run))", "minutes * 60, run))", ("[j[:2] for j in m.JOBS]", "m.NEXT")),
    e(
        "jobs: one is deleted",
        SCHED,
        "@every(60, name='clean-up')\ndef clean():\n    return 'clean'\n",
        "",
        ("[j[:2] for j in m.JOBS]", "m.NEXT"),
    ),
    e("jobs: the key of the next", SCHED, "key=lambda j: j[1])[0]", "key=lambda j: -j[1])[0]", ("m.NEXT",)),
    e(
        "expressions: an operator",
        TREE,
        "return Add(self, wrap(other))",
        "return Mul(self, wrap(other))",
        ("m.VALUE", "type(m.formula).__name__"),
    ),
    e(
        "expressions: an evaluation",
        TREE,
        "self.a.ev(env) * self.b.ev(env)",
        "self.a.ev(env) ** self.b.ev(env)",
        ("m.VALUE",),
    ),
    e("expressions: an environment", TREE, "{'x': 4}", "{'x': 5}", ("m.VALUE",)),
    e(
        "expressions: a base",
        TREE,
        "class Mul(Add)",
        "class Mul(Expr)",
        ("m.KINDS", "m.VALUE", "m.Mul.__bases__[0].__name__"),
        more=(
            (
                "m",
                "    def ev(self, env): return self.a.ev(env) * self",
                "    def __init__(self, a, b): self.a, self.b = a, b\n    def ev(self, env): return self.a.ev(env) * self",
            ),
        ),
    ),
    e(
        "expressions: a method more",
        TREE,
        "class Num(Expr):\n",
        "class Num(Expr):\n    def __repr__(self): return f'n{self.n}'\n",
        ("m.formula.b", "m.VALUE"),
    ),
    e("expressions: a formula", TREE, "x * 2 + 3", "x * 3 + 3", ("m.VALUE",)),
    e("flags: a flag", FEATURE, "'beta': False", "'beta': True", ("m.ENABLED", "getattr(m, 'EXTRA', None)", "m.LEVEL")),
    e(
        "flags: another branch",
        FEATURE,
        "'fast': True",
        "'fast': False",
        ("m.solve(16)", "m.MODE", "m.ENABLED", "m.LEVEL", "m.root.__module__"),
    ),
    e("flags: a branch's body", FEATURE, "return root(n)\nelse", "return root(n) + 1\nelse", ("m.solve(16)",)),
    e(
        "flags: a default",
        FEATURE,
        "FLAGS.get(name, False)",
        "not FLAGS.get(name, False)",
        ("m.ENABLED", "m.MODE", "m.LEVEL", "m.solve(16)"),
    ),
    e("flags: a caught value", FEATURE, "LEVEL = len(ENABLED)", "LEVEL = len(ENABLED) + 1", ("m.LEVEL",)),
    e(
        "routers: a path",
        API_A,
        "users.route('/')",
        "users.route('/all')",
        ("o.TABLE", "sorted(o.root.all())"),
        API,
        "n",
    ),
    e(
        "routers: a prefix",
        API_A,
        "Router('/users')",
        "Router('/people')",
        ("o.TABLE", "sorted(o.root.all())"),
        API,
        "n",
    ),
    e("routers: a body", API_A, "'home ' +", "'start ' +", ("o.HOME",), API, "o"),
    e(
        "routers: a route more",
        API_A,
        "@users.route('/new', method='POST')",
        "@users.route('/x')\ndef x(request):\n    return 'x'\n@users.route('/new', method='POST')",
        ("o.TABLE", "o.root(o.Request('/users/x'))"),
        API,
        "n",
    ),
    e(
        "routers: a route less",
        API_A,
        "@users.route('/new', method='POST')\ndef create(request):\n    return 'created'\n",
        "",
        ("o.TABLE", "sorted(o.root.all())"),
        API,
        "n",
    ),
    e(
        "routers: how it stores",
        API_A,
        "self.prefix + path] = f",
        "self.prefix + path.upper()] = f",
        ("o.TABLE", "sorted(o.root.all())"),
        API,
    ),
    e(
        "routers: a default method",
        API_A,
        "method: str = 'GET'",
        "method: str = 'HEAD'",
        ("o.Request('/').method",),
        API,
        more=(("o", "HOME = root(Request('/'))", "HOME = root(Request('/', 'GET'))"),),
    ),
    e(
        "routers: all",
        API_A,
        "out.update(one.all())",
        "out.update({(k[0], '/v1' + k[1]): v for k, v in one.all().items()})",
        ("o.TABLE",),
        API,
    ),
    e("routers: not included", API_A, "root.include(users)\n", "", ("o.TABLE", "sorted(o.root.all())"), API, "o"),
    e(
        "metaclass registry: a key",
        META,
        "key = 'one'",
        "key = 'uno'",
        ("sorted(m.Registry.classes)", "m.LIST"),
        more=(("m", "make('one')", "make('uno')"),),
    ),
    e("metaclass registry: a body", META, "return 1", "return 11", ("m.FIRST", "m.make('one').go()")),
    e(
        "metaclass registry: a class less",
        META,
        "class Two(Base):\n    def go(self): return 2\n",
        "",
        ("sorted(m.Registry.classes)", "m.LIST"),
    ),
    e(
        "metaclass registry: a class more",
        META,
        "LIST =",
        "class Three(Base):\n    def go(self): return 3\nLIST =",
        ("sorted(m.Registry.classes)", "m.LIST", "m.make('three').go()"),
    ),
    e(
        "metaclass registry: how it names",
        META,
        "name.lower()",
        "name.upper()",
        ("sorted(m.Registry.classes)", "m.LIST"),
    ),
    e("metaclass registry: renamed", META, "class Two(", "class Deux(", ("sorted(m.Registry.classes)", "m.LIST")),
    e("generic: a method", GEN, "one.upper()", "one.upper() + '!'", ("m.UPPER", "m.names.upper()")),
    e(
        "generic: the base's method",
        GEN,
        "return sorted(self.items, key=key)",
        "return sorted(self.items, key=key, reverse=True)",
        ("m.SORTED", "m.UPPER"),
    ),
    e("generic: a parameter", GEN, "Repo[str]", "Repo[bytes]", ("m.Names.__orig_bases__[0].__args__", "m.Repo.last")),
    e("generic: arguments", GEN, "Names('b', 'a')", "Names('c', 'a')", ("m.SORTED", "m.UPPER")),
    e(
        "options: a size",
        COPY,
        "'size': 3",
        "'size': 4",
        ("m.base.size", "m.DEFAULTS['size']", "m.CACHE['base'].size", "m.LABEL"),
    ),
    e("options: a default mode", COPY, "return cls.ON", "return cls.OFF", ("m.base.mode", "m.LABEL", "m.IS_ON")),
    e("options: __str__", COPY, "<{self.value}>", "[{self.value}]", ("m.LABEL",)),
    e(
        "options: a value of a mode",
        COPY,
        "ON = 'on'",
        "ON = 'yes'",
        ("m.LABEL", "m.IS_ON", "m.TABLE[m.Mode.ON]", "m.Mode('yes').name"),
    ),
    e(
        "options: how it merges",
        COPY,
        "new.__dict__.update(kw)",
        "new.__dict__.update(kw, merged=1)",
        ("m.big", "m.LABEL"),
    ),
    e("managers: a label", CM, "label = 'timer'", "label = 'clock'", ("m.STOPPED", "m.LOG")),
    e("managers: a method", CM, "self.label + '!'", "self.label + '?'", ("m.STOPPED", "m.timer.stop()")),
    e("managers: a keyword", CM, "a=1, b=2", "a=1, c=2", ("m.KEYS", "m.values")),
    e("managers: a suppressed error", CM, "suppress(KeyError)", "suppress(LookupError)", ("hasattr(m, 'FOUND')",)),
    e("managers: what is yielded", CM, "yield kw", "yield {**kw, 'z': 0}", ("m.KEYS",)),
]
# What a load of an edit gives, if it is not right.
ALL = with_expected(
    ALL,
    false=[
        "routers: a path",
        "routers: a prefix",
        "routers: a route more",
        "routers: a route less",
        "routers: how it stores",
        "routers: all",
        "options: a value of a mode",
    ],
    reported=[
        "handlers: a class less",
        "routers: a body",
        "routers: not included",
        "metaclass registry: a key",
        "metaclass registry: a class less",
        "metaclass registry: how it names",
        "metaclass registry: renamed",
    ],
)
