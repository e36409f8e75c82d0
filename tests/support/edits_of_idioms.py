"""Edits to what programs do at import: with the standard library, classes, closures and other modules."""

from edit_cases import Edit

CONTEXT = "import contextvars\nN = 1\nVAR = contextvars.ContextVar('v', default=N)\n"
FIELD = """\
class Field:
    def __init__(self, kind):
        self.kind = kind
    def __set_name__(self, owner, name):
        self.name = name
        owner.names = [*getattr(owner, 'names', []), name]
    def __get__(self, one, owner=None):
        return self if one is None else (self.name, self.kind)
class Model:
    a = Field(int)
    b = Field(str)
"""
LAZY = """\
TABLE = {'speed': 1, 'size': 2}
def __getattr__(name):
    if name in TABLE:
        return TABLE[name] * 10
    raise AttributeError(name)
"""
LOGGING = """\
import logging
FORMAT = '%(message)s'
log = logging.getLogger('m.app')
log.handlers.clear()
handler = logging.StreamHandler()
handler.setFormatter(logging.Formatter(FORMAT))
log.addHandler(handler)
log.propagate = False
"""
REGISTRY = """\
class Plugin:
    registry = {}
    def __init_subclass__(cls, key=None, **kw):
        super().__init_subclass__(**kw)
        Plugin.registry[key or cls.__name__.lower()] = cls.title
class A(Plugin):
    title = 'a'
class B(Plugin, key='bee'):
    title = 'b'
"""
META = """\
class Meta(type):
    seen = []
    def __new__(mcs, name, bases, space):
        space['fields'] = sorted(key for key, one in space.items() if isinstance(one, int))
        made = super().__new__(mcs, name, bases, space)
        Meta.seen.append(name)
        return made
class Base(metaclass=Meta):
    x = 1
class Sub(Base):
    y = 2
"""
SUBPARSERS = """\
import argparse
def run(args):
    return 'run', args.level
base = argparse.ArgumentParser(add_help=False)
base.add_argument('--level', type=int, default=1)
parser = argparse.ArgumentParser(prog='tool', parents=[base])
subs = parser.add_subparsers(dest='cmd')
sub = subs.add_parser('run', parents=[base])
sub.set_defaults(func=run)
"""

ALL = [
    # Enumerations
    Edit(
        "_generate_next_value_",
        "import enum\nclass K(enum.Enum):\n    def _generate_next_value_(name, start, count, last):\n        return name.lower()\n    RED = enum.auto()\n    BLUE = enum.auto()\n",
        "name.lower()",
        "'k-' + name.lower()",
        ("m.K.RED.value", "m.K('k-blue')"),
    ),
    Edit(
        "a flag's composite",
        "import enum\nclass F(enum.Flag):\n    R = 1\n    W = 2\n    ALL = R | W\nTABLE = {F.ALL: 'all'}\n",
        "    ALL = R | W",
        "    X = 4\n    ALL = R | W | X",
        ("m.F.ALL.value", "m.TABLE[m.F.R | m.F.W | m.F.X]", "F.ALL.value"),
        hold="F = m.F",
    ),
    Edit(
        "an enumeration by its names",
        "import enum\nNAMES = ['RED', 'BLUE']\nColor = enum.Enum('Color', NAMES)\ndef red():\n    return Color.RED\n",
        "'BLUE']",
        "'BLUE', 'GREEN']",
        ("[one.name for one in m.Color]", "m.red() is m.Color.RED"),
    ),
    Edit(
        "a member's method table",
        "import enum\nclass Op(enum.Enum):\n    ADD = ('+', 1)\n    def __init__(self, sign, rank):\n        self.sign, self.rank = sign, rank\nRANKS = {op.sign: op.rank for op in Op}\n",
        "('+', 1)\n",
        "('+', 1)\n    MUL = ('*', 2)\n",
        ("m.RANKS", "m.Op.MUL.sign"),
    ),
    Edit(
        "an enumeration's constructor",
        "import enum\nclass Op(enum.Enum):\n    ADD = ('+', 1)\n    def __init__(self, sign, rank):\n        self.sign, self.rank = sign, rank\nRANKS = {op.sign: op.rank for op in Op}\n",
        "sign, rank\n",
        "sign * 2, rank\n",
        ("m.RANKS", "m.Op.ADD.sign"),
    ),
    # Dispatch and protocols
    Edit(
        "a dispatch on a class that is made again",
        "import functools, dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int = 1\n@functools.singledispatch\ndef show(one):\n    return 'any'\n@show.register\ndef _(one: P):\n    return 'P'\n",
        "x: int = 1",
        "x: int = 1\n    y: int = 2",
        ("m.show(m.P())", "m.P().y"),
    ),
    Edit(
        "a dispatch by register(type, function)",
        "import functools\n@functools.singledispatch\ndef show(one):\n    return 'any'\ndef number(one):\n    return 'int'\nshow.register(int, number)\n",
        "register(int",
        "register(str",
        ("m.show(1)", "m.show('')"),
    ),
    Edit(
        "a dispatch in another module",
        "import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int = 1\n",
        "x: int = 1",
        "x: int = 5",
        "user.show(m.P())",
        {
            "user": "import functools\nfrom m import P\n@functools.singledispatch\ndef show(one):\n    return 'any'\n@show.register(P)\ndef _(one):\n    return 'P', one.x\n"
        },
    ),
    Edit(
        "a protocol's new method",
        "import typing\n@typing.runtime_checkable\nclass P(typing.Protocol):\n    def a(self): ...\nclass C:\n    def a(self):\n        return 1\nIS = isinstance(C(), P)\n",
        "def a(self): ...\n",
        "def a(self): ...\n    def b(self): ...\n",
        ("m.IS", "isinstance(m.C(), m.P)"),
    ),
    Edit(
        "a virtual subclass",
        "import abc\nclass B(abc.ABC):\n    pass\nclass C:\n    pass\nclass D:\n    pass\nB.register(C)\n",
        "register(C)",
        "register(D)",
        ("issubclass(m.C, m.B)", "issubclass(m.D, m.B)"),
        expects="reported",
    ),
    # match and guards
    Edit(
        "a match over a constant",
        "MODE = 'fast'\nmatch MODE:\n    case 'fast':\n        N = 1\n    case _:\n        N = 2\nTOTAL = N * 10\n",
        "'fast'\nmatch",
        "'slow'\nmatch",
        ("m.N", "m.TOTAL"),
    ),
    Edit(
        "a match's pattern",
        "POINT = (0, 5)\nmatch POINT:\n    case (0, y):\n        WHERE = 'y', y\n    case (x, y):\n        WHERE = 'xy', x, y\n",
        "case (0, y)",
        "case (1, y)",
        "m.WHERE",
    ),
    Edit(
        "a guard over a version",
        "import sys\nOLD = sys.version_info < (3, 0)\nif OLD:\n    def f():\n        return 'old'\nelif sys.platform == 'none':\n    f = None\nelse:\n    def f():\n        return 'new'\ng = f\n",
        "return 'new'",
        "return 'newer'",
        ("m.f()", "m.g()"),
    ),
    Edit(
        "a try with else",
        "RAW = '5'\ntry:\n    N = int(RAW)\nexcept ValueError:\n    N = -1\nelse:\n    N += 1\nfinally:\n    DONE = RAW\n",
        "RAW = '5'",
        "RAW = 'x'",
        ("m.N", "m.DONE"),
    ),
    # Classes
    Edit(
        "__init_subclass__: an attribute that it reads",
        REGISTRY,
        "title = 'a'",
        "title = 'z'",
        "m.Plugin.registry",
        expects="reported",
    ),
    Edit(
        "__init_subclass__: a keyword",
        REGISTRY,
        "key='bee'",
        "key='bug'",
        "sorted(m.Plugin.registry)",
    ),
    Edit(
        "__init_subclass__: a class that is removed",
        REGISTRY,
        "class B(Plugin, key='bee'):\n    title = 'b'\n",
        "",
        "sorted(m.Plugin.registry)",
    ),
    Edit(
        "__init_subclass__: a class in another module",
        REGISTRY,
        "key or cls.__name__.lower()",
        "key or cls.__name__",
        "sorted(m.Plugin.registry)",
        {"user": "from m import Plugin\nclass Own(Plugin):\n    title = 'own'\n"},
    ),
    Edit(
        "a metaclass: a new attribute",
        META,
        "y = 2",
        "y = 2\n    z = 3",
        ("m.Sub.fields", "m.Meta.seen"),
        expects="reported",
    ),
    Edit(
        "a metaclass: a body",
        META,
        "isinstance(one, int)",
        "isinstance(one, (int, str))",
        ("m.Sub.fields", "m.Meta.seen"),
        expects="reported",
    ),
    Edit(
        "a metaclass: a class that is renamed",
        META,
        "class Sub(",
        "class Other(",
        ("m.Meta.seen", "hasattr(m, 'Sub')"),
        expects="reported",
    ),
    Edit(
        "a descriptor that notes its names",
        FIELD,
        "    b = Field(str)\n",
        "    b = Field(str)\n    c = Field(set)\n",
        ("m.Model.names", "m.Model().c"),
    ),
    Edit("a descriptor that is removed", FIELD, "    b = Field(str)\n", "", ("m.Model.names", "hasattr(m.Model, 'b')")),
    Edit(
        "a descriptor that is renamed",
        FIELD,
        "    b = Field(str)",
        "    d = Field(str)",
        ("m.Model.names", "m.Model().d"),
    ),
    Edit(
        "a cached property's helper",
        "import functools\ndef rate():\n    return 2\nclass C:\n    @functools.cached_property\n    def x(self):\n        return rate() * 10\nc = C()\n",
        "return 2",
        "return 3",
        "m.c.x",
        use="m.c.x",
    ),
    Edit(
        "a property of a function",
        "class C:\n    def _get(self):\n        return 1\n    x = property(_get)\n    y = property(lambda self: self.x + 1)\n",
        "return 1",
        "return 5",
        ("m.C().x", "m.C().y"),
    ),
    Edit(
        "a property of a lambda",
        "class C:\n    x = property(lambda self: 1)\n",
        "self: 1",
        "self: 2",
        ("m.C().x", "c.x"),
        hold="c = m.C()",
    ),
    Edit(
        "a partial method",
        "import functools\nclass C:\n    def scale(self, n):\n        return n * 2\n    twice = functools.partialmethod(scale, 2)\n",
        "(scale, 2)",
        "(scale, 3)",
        "m.C().twice()",
    ),
    Edit(
        "a loop in a class body that makes methods",
        "NAMES = ['a', 'b']\nclass C:\n    for _name in NAMES:\n        locals()[_name] = (lambda n: lambda self: n * 2)(_name)\n    del _name\n",
        "['a', 'b']",
        "['a', 'c']",
        ("hasattr(m.C, 'b')", "m.C().c()"),
    ),
    Edit(
        "a comprehension in a class body",
        "class C:\n    names = ['a', 'b']\n    table = {one: one * 2 for one in names}\n    first = names[0]\n",
        "['a', 'b']",
        "['c', 'b']",
        ("m.C.table", "m.C.first"),
    ),
    Edit(
        "a class variable that methods fill at import",
        "class R:\n    items = []\n    @classmethod\n    def add(cls, one):\n        cls.items.append(one)\n        return one\nR.add('a')\nFIRST = R.add('b')\n",
        "R.add('a')",
        "R.add('z')",
        ("m.R.items", "m.FIRST"),
        expects="reported",
    ),
    Edit(
        "a class variable that a decorator fills",
        "class R:\n    items = {}\n    @classmethod\n    def add(cls, name):\n        def deco(f):\n            cls.items[name] = f\n            return f\n        return deco\n@R.add('a')\ndef a():\n    return 1\n",
        "@R.add('a')",
        "@R.add('b')",
        "sorted(m.R.items)",
    ),
    Edit(
        "a class made by type()",
        "BASE = {'x': 1}\nclass Base:\n    pass\nC = type('C', (Base,), dict(BASE, y=2))\n",
        "'x': 1",
        "'x': 5",
        ("m.C.x", "m.C().x"),
    ),
    Edit(
        "a class made by a function",
        "def make(name, n):\n    class C:\n        size = n\n        def get(self):\n            return self.size\n    C.__name__ = name\n    return C\nSmall = make('Small', 1)\nBig = make('Big', 10)\n",
        "size = n",
        "size = n + 1",
        ("m.Small.size", "m.Big().get()", "m.Big.__name__"),
    ),
    Edit(
        "a method of a class made by a function",
        "def make(n):\n    class C:\n        def get(self):\n            return n\n    return C\nSmall = make(1)\n",
        "return n\n",
        "return n, 'n'\n",
        ("m.Small().get()", "small.get()"),
        hold="small = m.Small()",
    ),
    Edit(
        "instances in a list at the top",
        "class S:\n    def __init__(self, n):\n        self.n = n\n    def area(self):\n        return self.n\nSHAPES = [S(1), S(2)]\nTOTAL = sum(one.area() for one in SHAPES)\n",
        "return self.n",
        "return self.n * self.n * 10",
        ("m.TOTAL", "[one.area() for one in m.SHAPES]"),
    ),
    Edit(
        "instances by an edited constructor",
        "class S:\n    def __init__(self, n):\n        self.n = n\nSHAPES = [S(1), S(2)]\nBY = {one.n: one for one in SHAPES}\n",
        "self.n = n",
        "self.n = n * 7",
        ("[one.n for one in m.SHAPES]", "sorted(m.BY)", "m.BY[7] is m.SHAPES[0]"),
    ),
    Edit(
        "a decorator that is a class",
        "class Memo:\n    def __init__(self, f):\n        self.f, self.calls = f, 0\n    def __call__(self, *a):\n        self.calls += 1\n        return self.f(*a)\n@Memo\ndef f(x):\n    return x\n",
        "return self.f(*a)",
        "return self.f(*a), 'memo'",
        "m.f(1)",
    ),
    Edit(
        "the constructor of a decorator that is a class",
        "class Memo:\n    def __init__(self, f):\n        self.f, self.tag = f, 'a'\n    def __call__(self, *a):\n        return self.tag, self.f(*a)\n@Memo\ndef f(x):\n    return x\n",
        "f, 'a'",
        "f, 'b'",
        "m.f(1)",
    ),
    Edit(
        "a generic alias",
        "import typing\nT = typing.TypeVar('T')\nclass Box(typing.Generic[T]):\n    size = 1\n    def get(self):\n        return self.size\nIntBox = Box[int]\nclass Own(Box[str]):\n    pass\n",
        "size = 1",
        "size = 2",
        ("m.IntBox().get()", "m.Own().get()", "m.IntBox.__origin__ is m.Box"),
    ),
    Edit(
        "a type variable's bound",
        "import typing\nclass A: ...\nclass B: ...\nT = typing.TypeVar('T', bound=A)\nclass Box(typing.Generic[T]): ...\n",
        "bound=A",
        "bound=B",
        ("m.T.__bound__", "m.Box.__parameters__[0] is m.T"),
    ),
    Edit(
        "a typed dict's base",
        "import typing\nclass A(typing.TypedDict):\n    x: int\nclass B(A, total=False):\n    y: str\nKEYS = sorted(B.__annotations__)\n",
        "x: int",
        "x: int\n    z: int",
        ("m.KEYS", "sorted(m.B.__annotations__)", "sorted(m.B.__required_keys__)"),
    ),
    Edit(
        "a named tuple with methods",
        "import typing\nclass P(typing.NamedTuple):\n    x: int = 0\n    y: int = 0\n    def norm(self):\n        return self.x + self.y\nORIGIN = P()\nclass Q(P):\n    pass\n",
        "y: int = 0",
        "y: int = 4",
        ("m.ORIGIN.norm()", "m.P().norm()", "m.Q().norm()"),
    ),
    Edit(
        "a named tuple's method",
        "import typing\nclass P(typing.NamedTuple):\n    x: int = 0\n    def norm(self):\n        return self.x\nORIGIN = P()\n",
        "return self.x",
        "return self.x + 1",
        ("m.ORIGIN.norm()", "p.norm()"),
        hold="p = m.P(3)",
    ),
    # Dataclasses
    Edit(
        "a dataclass base's keyword-only field",
        "import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: int = 1\n@dataclasses.dataclass\nclass B(A):\n    y: int = 2\n@dataclasses.dataclass\nclass C(B):\n    z: int = 3\nONE = C()\n",
        "x: int = 1",
        "w: int = 0\n    x: int = 1",
        ("m.C(5).w", "m.ONE", "[one.name for one in dataclasses.fields(m.C)]"),
        setup="import dataclasses",
    ),
    Edit(
        "a dataclass with slots",
        "import dataclasses\n@dataclasses.dataclass(slots=True)\nclass A:\n    x: int = 1\n    def f(self):\n        return super().__class__.__name__, self.x\nALL = [A(), A(2)]\n",
        "self.x\nALL",
        "self.x + 1\nALL",
        ("[one.f() for one in m.ALL]", "m.A().f()"),
    ),
    Edit(
        "a dataclass's factory by a constant",
        "import dataclasses\nDEFAULTS = ['a']\n@dataclasses.dataclass\nclass A:\n    x: list = dataclasses.field(default_factory=lambda: list(DEFAULTS))\nONE = A()\n",
        "['a']",
        "['b']",
        ("m.A().x", "m.ONE.x"),
    ),
    Edit(
        "a dataclass by make_dataclass",
        "import dataclasses\nNAMES = ['x', 'y']\nP = dataclasses.make_dataclass('P', NAMES)\n",
        "'y']",
        "'z']",
        "[one.name for one in dataclasses.fields(m.P)]",
        setup="import dataclasses",
    ),
    Edit(
        "a dataclass's field that is a dataclass",
        "import dataclasses\n@dataclasses.dataclass\nclass Inner:\n    n: int = 1\n@dataclasses.dataclass\nclass Outer:\n    inner: Inner = dataclasses.field(default_factory=Inner)\nONE = Outer()\n",
        "n: int = 1",
        "n: int = 5",
        ("m.Outer().inner.n", "m.ONE.inner.n"),
    ),
    # Functions and closures
    Edit(
        "a closure's free variable",
        "def make(n):\n    def f():\n        return n\n    return f\ncounter = make(1)\n",
        "        return n\n",
        "        return n, step\n",
        "m.counter()",
        more=(("m", "def make(n):\n", "def make(n):\n    step = 2\n"),),
    ),
    Edit(
        "a closure with nonlocal",
        "def make():\n    n = 0\n    def up():\n        nonlocal n\n        n += 1\n        return n\n    return up\nup = make()\n",
        "n += 1",
        "n += 10",
        "m.make()()",
    ),
    Edit(
        "functions made by a loop",
        "OPS = ['get', 'put']\ndef make(op):\n    return lambda: op\nfor _op in OPS:\n    globals()['do_' + _op] = make(_op)\n",
        "'put']",
        "'post']",
        ("hasattr(m, 'do_put')", "m.do_post()"),
        expects="reported",
    ),
    Edit(
        "names by globals().update",
        "BASE = {'A': 1, 'B': 2}\nglobals().update(BASE)\nSUM = A + B\n",
        "'B': 2",
        "'B': 5, 'C': 6",
        ("m.B", "m.C", "m.SUM"),
        expects="reported",
    ),
    Edit(
        "a name set on the module",
        "import sys\nN = 1\nsetattr(sys.modules[__name__], 'LIMIT', N * 2)\n",
        "N = 1",
        "N = 4",
        "m.LIMIT",
    ),
    Edit(
        "one lambda of a table",
        "OPS = {'+': lambda a, b: a + b, '-': lambda a, b: a - b}\nPLUS = OPS['+']\n",
        "a + b",
        "a + b + 100",
        ("m.OPS['+'](1, 2)", "m.OPS['-'](1, 2)", "m.PLUS(1, 2)"),
    ),
    Edit(
        "a table of functions that is edited",
        "def a():\n    return 'a'\ndef b():\n    return 'b'\nOPS = {'x': a}\nRUN = OPS['x']\n",
        "{'x': a}",
        "{'x': b}",
        ("m.OPS['x']()", "m.RUN()"),
    ),
    Edit(
        "a context manager that is used at import",
        "import contextlib\nDEPTH = []\n@contextlib.contextmanager\ndef level(n):\n    DEPTH.append(n)\n    yield n * 2\nwith level(3) as TWICE:\n    INSIDE = TWICE + 1\n",
        "n * 2",
        "n * 5",
        ("m.TWICE", "m.INSIDE", "m.DEPTH"),
    ),
    Edit(
        "a default that only comes by position",
        "N = 1\ndef f(a, b=N, /, c=(N, N), *, d={'n': N}):\n    return a, b, c, d\ng = f\n",
        "N = 1",
        "N = 2",
        ("m.f(0)", "m.g(0)"),
    ),
    Edit(
        "names that are swapped",
        "A = 1\nB = 2\nA, B = B, A\nC = A\n",
        "A = 1\n",
        "A = 7\n",
        ("m.A", "m.B", "m.C"),
    ),
    Edit("a starred target", "L = [1, 2, 3]\nFIRST, *REST = L\n", "2, 3]", "2, 3, 4]", ("m.FIRST", "m.REST")),
    Edit(
        "a loop with a deleted variable",
        "N = 2\nT = []\nfor i in range(N):\n    T.append(i)\ndel i\n",
        "N = 2",
        "N = 3",
        ("m.T", "hasattr(m, 'i')"),
    ),
    # Collections of the library
    Edit(
        "a context variable's default",
        CONTEXT,
        "N = 1",
        "N = 2",
        "m.VAR.get()",
        expects="reported",
    ),
    Edit(
        "a deque",
        "from collections import deque\nN = 2\nD = deque(maxlen=N)\nfor i in range(5):\n    D.append(i)\n",
        "N = 2",
        "N = 3",
        "m.D",
    ),
    Edit(
        "a deque that is filled in another module",
        "from collections import deque\nD = deque([0])\n",
        "[0]",
        "[9]",
        "list(m.D)",
        {"user": "from m import D\nD.append(1)\nD.appendleft(2)\n"},
    ),
    Edit(
        "a defaultdict that a loop fills",
        "from collections import defaultdict\nWORDS = ['a', 'bb', 'cc']\nBY = defaultdict(list)\nfor w in WORDS:\n    BY[len(w)].append(w)\n",
        "'cc']",
        "'ccc']",
        "dict(m.BY)",
    ),
    Edit(
        "a defaultdict's factory",
        "from collections import defaultdict\ndef make():\n    return 1\nD = defaultdict(make)\nD['a'] += 1\n",
        "return 1",
        "return 5",
        ("m.D['a']", "m.D.default_factory()"),
    ),
    Edit(
        "a defaultdict's other factory",
        "from collections import defaultdict\nD = defaultdict(list)\nD['a']\n",
        "(list)",
        "(set)",
        ("m.D['a']", "m.D['new']"),
    ),
    Edit(
        "a counter that is updated",
        "from collections import Counter\nC = Counter('aab')\nC.update('bb')\nTOP = C.most_common(1)\n",
        "'bb'",
        "'bbbb'",
        ("m.TOP", "dict(m.C)"),
    ),
    Edit(
        "a heap",
        "import heapq\nJOBS = []\nheapq.heappush(JOBS, 3)\nheapq.heappush(JOBS, 1)\nFIRST = JOBS[0]\n",
        "JOBS, 1",
        "JOBS, 0",
        ("m.JOBS", "m.FIRST"),
    ),
    Edit(
        "a heap's first list",
        "import heapq\nJOBS = []\nheapq.heappush(JOBS, 3)\n",
        "= []",
        "= [1]",
        "m.JOBS",
    ),
    Edit(
        "a sorted insertion",
        "import bisect\nL = [1, 5]\nbisect.insort(L, 3)\n",
        "L, 3",
        "L, 4",
        "m.L",
    ),
    Edit(
        "an ordered dict",
        "from collections import OrderedDict\nD = OrderedDict(a=1, b=2)\nD.move_to_end('a')\nKEYS = list(D)\n",
        "b=2",
        "b=2, c=3",
        ("m.KEYS", "list(m.D.items())"),
    ),
    Edit(
        "a chain map",
        "from collections import ChainMap\nBASE = {'x': 1}\nOWN = {'y': 2}\nC = ChainMap(OWN, BASE)\n",
        "'x': 1",
        "'x': 5",
        ("m.C['x']", "m.C.maps[1] is m.BASE"),
    ),
    Edit(
        "a mapping proxy",
        "import types\nBASE = {'x': 1}\nVIEW = types.MappingProxyType(BASE)\n",
        "'x': 1",
        "'x': 5",
        "m.VIEW['x']",
    ),
    Edit(
        "a deep copy that is changed",
        "import copy\nBASE = {'a': {'x': 1}}\nCFG = copy.deepcopy(BASE)\nCFG['a']['y'] = 2\n",
        "'x': 1",
        "'x': 5",
        ("m.CFG", "m.BASE"),
    ),
    Edit(
        "an item in an item",
        "CFG = {'db': {'host': 'a'}}\nCFG['db']['port'] = 1\nURL = f\"{CFG['db']['host']}:{CFG['db']['port']}\"\n",
        "'host': 'a'",
        "'host': 'b'",
        ("m.CFG", "m.URL"),
    ),
    Edit("an item that is deleted", "D = {'a': 1, 'b': 2}\ndel D['a']\n", "del D['a']", "del D['b']", "m.D"),
    Edit(
        "a getter of a key",
        "import operator\nKEY = 'a'\nget = operator.itemgetter(KEY)\n",
        "KEY = 'a'",
        "KEY = 'b'",
        "m.get({'a': 1, 'b': 2})",
        expects="reported",
    ),
    Edit(
        "a structure's format",
        "import struct\nFMT = '<H'\nS = struct.Struct(FMT)\n",
        "<H",
        "<I",
        "m.S.size",
        expects="reported",
    ),
    Edit(
        "a template of a string",
        "import string\nT = string.Template('hi $x')\nOUT = T.substitute(x=1)\n",
        "hi $x",
        "ho $x",
        "m.OUT",
    ),
    Edit(
        "a configuration of the library",
        "import configparser\nTEXT = '[a]\\nx = 1\\n'\ncfg = configparser.ConfigParser()\ncfg.read_string(TEXT)\n",
        "x = 1",
        "x = 2",
        "m.cfg['a']['x']",
        expects="reported",
    ),
    Edit(
        "a weak set",
        "import weakref\nclass A:\n    pass\none = A()\ntwo = A()\nLIVE = weakref.WeakSet()\nLIVE.add(one)\n",
        "LIVE.add(one)",
        "LIVE.add(one)\nLIVE.add(two)",
        "len(m.LIVE)",
    ),
    # argparse and logging
    Edit(
        "a parser's parent",
        SUBPARSERS,
        "default=1",
        "default=7",
        ("m.parser.parse_args(['run']).func(m.parser.parse_args(['run']))", "m.parser.parse_args([]).level"),
    ),
    Edit(
        "a parser's function",
        SUBPARSERS,
        "return 'run', args.level",
        "return 'ran', args.level",
        "m.sub.get_default('func')(m.parser.parse_args(['run']))",
    ),
    Edit(
        "a parser's function that is renamed",
        SUBPARSERS,
        "def run(",
        "def ran(",
        "m.parser.parse_args(['run']).func.__name__",
        more=(("m", "func=run", "func=ran"),),
    ),
    Edit(
        "a parser's command that is renamed",
        SUBPARSERS,
        "add_parser('run'",
        "add_parser('go'",
        "sorted(m.subs.choices)",
    ),
    Edit(
        "a handler's format",
        LOGGING,
        "'%(message)s'",
        "'%(name)s'",
        ("m.handler.formatter._fmt", "[one.formatter._fmt for one in m.log.handlers]"),
    ),
    Edit(
        "a handler's class",
        LOGGING,
        "logging.StreamHandler()",
        "logging.NullHandler()",
        "[type(one).__name__ for one in m.log.handlers]",
        expects="reported",
    ),
    Edit(
        "a handler's level",
        LOGGING,
        "log.propagate = False",
        "handler.setLevel(30)\nlog.propagate = False",
        "[one.level for one in m.log.handlers]",
    ),
    Edit(
        "a removed propagation",
        LOGGING,
        "log.propagate = False\n",
        "",
        "m.log.propagate",
        expects="reported",
    ),
    Edit(
        "a filter of a logger",
        "import logging\nlog = logging.getLogger('m.filtered')\nclass Only(logging.Filter):\n    def filter(self, record):\n        return False\nlog.addFilter(Only())\n",
        "return False",
        "return True",
        "[one.filter(None) for one in m.log.filters]",
    ),
    Edit(
        "a configuration of loggers",
        "import logging.config\nLEVEL = 'INFO'\nCONFIG = {'version': 1, 'disable_existing_loggers': False, 'loggers': {'m.cfg': {'level': LEVEL}}}\nlogging.config.dictConfig(CONFIG)\nlog = logging.getLogger('m.cfg')\n",
        "'INFO'",
        "'ERROR'",
        ("m.log.level", "m.CONFIG['loggers']['m.cfg']"),
    ),
    # Other modules
    Edit(
        "a list that another module extends by +=",
        "PLUGINS = []\n",
        "[]",
        "['core']",
        ("m.PLUGINS", "user.PLUGINS", "user.PLUGINS is m.PLUGINS"),
        {"user": "from m import PLUGINS\nPLUGINS += ['a']\n"},
    ),
    Edit(
        "a list of a module that another one extends by +=",
        "PLUGINS = []\n",
        "[]",
        "['core']",
        "m.PLUGINS",
        {"user": "import m\nm.PLUGINS += ['a']\n"},
    ),
    Edit(
        "a tuple of a module that another one extends by +=",
        "NAMES = ('x',)\n",
        "('x',)",
        "('y',)",
        "m.NAMES",
        {"user": "import m\nm.NAMES += ('a',)\n"},
        expects="reported",
    ),
    Edit(
        "an edited += of another module",
        "PLUGINS = ['core']\n",
        "['a']",
        "['b']",
        "m.PLUGINS",
        {"user": "from m import PLUGINS\nPLUGINS += ['a']\n"},
        edited="user",
        expects="reported",
    ),
    Edit(
        "a += of another module that is removed",
        "PLUGINS = ['core']\n",
        "PLUGINS += ['a']\n",
        "",
        "m.PLUGINS",
        {"user": "from m import PLUGINS\nPLUGINS += ['a']\n"},
        edited="user",
        expects="reported",
    ),
    Edit(
        "a hook that another module sets",
        "HOOKS = {}\ndef fire(x):\n    return [f(x) for f in HOOKS.values()]\n",
        "HOOKS = {}",
        "HOOKS = {'own': str}",
        "m.fire(1)",
        {"user": "import m\ndef twice(x):\n    return x * 2\nm.HOOKS['twice'] = twice\n"},
    ),
    Edit(
        "a hook that another module no longer sets",
        "HOOKS = {}\n",
        "m.HOOKS['twice'] = twice\n",
        "",
        "sorted(m.HOOKS)",
        {"user": "import m\ndef twice(x):\n    return x * 2\nm.HOOKS['twice'] = twice\n"},
        edited="user",
    ),
    Edit(
        "a function that another module replaces",
        "def f():\n    return 1\n",
        "return 1",
        "return 2",
        ("m.f()", "user.old()"),
        {"user": "import m\nold = m.f\ndef f():\n    return old() + 100\nm.f = f\n"},
    ),
    Edit(
        "a module's __getattr__",
        LAZY,
        "* 10",
        "* 100",
        ("m.speed", "user.speed", "user.TWICE"),
        {"user": "from m import speed\nTWICE = speed * 2\n"},
    ),
    Edit(
        "a table of a module's __getattr__",
        LAZY,
        "'speed': 1",
        "'speed': 3",
        ("m.speed", "user.speed"),
        {"user": "from m import speed\n"},
    ),
    Edit(
        "a name that a module's __getattr__ gives, made real",
        LAZY,
        "TABLE = {",
        "speed = 5\nTABLE = {",
        ("m.speed", "user.speed"),
        {"user": "from m import speed\n"},
    ),
    Edit(
        "__all__ from another module",
        "__all__ = ['a']\na, b = 1, 2\n",
        "['a']",
        "['a', 'b']",
        ("user.__all__", "hasattr(user, 'b')", "hasattr(top, 'b')"),
        {
            "user": "import m\nfrom m import *\n__all__ = ['c']\n__all__ += m.__all__\nc = 3\n",
            "top": "from user import *\n",
        },
    ),
    Edit(
        "a name that two modules hand on",
        "def f():\n    return 1\nLIMIT = 1\n",
        "LIMIT = 1",
        "LIMIT = 2",
        ("top.MAX", "top.g()", "user.LIMIT"),
        {
            "user": "from m import f, LIMIT\n",
            "top": "from user import f as g0, LIMIT as MAX\ndef g(x=MAX):\n    return x\n",
        },
    ),
    Edit(
        "modules that import each other",
        "LIMIT = 1\nimport user\nTOTAL = user.own() + LIMIT\n",
        "LIMIT = 1",
        "LIMIT = 5",
        ("m.TOTAL", "user.BASE", "user.own()"),
        {"user": "import m\nBASE = m.LIMIT * 2\ndef own():\n    return BASE\n"},
    ),
    Edit(
        "modules that import each other by names",
        "class Node:\n    kind = 'a'\nfrom user import Leaf\nALL = [Node.kind, Leaf.kind]\n",
        "kind = 'a'",
        "kind = 'z'",
        ("m.ALL", "user.Leaf.kind", "user.Leaf.both"),
        {"user": "from m import Node\nclass Leaf(Node):\n    both = Node.kind * 2\n"},
    ),
    Edit(
        "an attribute that another module sets on a class",
        "class C:\n    size = 1\n",
        "size = 1",
        "size = 2",
        ("m.C.size", "m.C.extra", "user.SIZE"),
        {"user": "import m\nm.C.extra = m.C.size * 10\nSIZE = m.C.size\n"},
    ),
    Edit(
        "a constant in a decorator of another module",
        "N = 1\n",
        "N = 1",
        "N = 3",
        "user.f()",
        {
            "user": "import m\ndef times(n):\n    def deco(f):\n        return lambda: f() * n\n    return deco\n@times(m.N)\ndef f():\n    return 2\n"
        },
    ),
    Edit(
        "a decorator of another module",
        "def times(f):\n    def w():\n        return f() * 2\n    return w\n",
        "def w():\n        return f() * 2",
        "k = 5\n    def w():\n        return f() * k",
        "user.f()",
        {"user": "from m import times\n@times\ndef f():\n    return 2\n"},
    ),
    Edit(
        "an instance of another module's subclass",
        "class Base:\n    def __init__(self):\n        self.tags = ['a']\n",
        "['a']",
        "['b']",
        "user.one.tags",
        {"user": "from m import Base\nclass Own(Base):\n    pass\none = Own()\n"},
    ),
    Edit(
        "a name in an import within a function",
        "LIMIT = 1\n",
        "LIMIT = 1",
        "LIMIT = 2",
        "user.TABLE",
        {"user": "def build():\n    from m import LIMIT\n    return [LIMIT]\nTABLE = build()\n"},
    ),
    Edit(
        "a value by importlib",
        "LIMIT = 1\n",
        "LIMIT = 1",
        "LIMIT = 2",
        "user.LIMIT",
        {"user": "import importlib\nLIMIT = importlib.import_module('m').LIMIT\n"},
    ),
    Edit(
        "an exception's message table",
        "class AppError(Exception):\n    code = 1\nclass NotFound(AppError):\n    code = 404\nBY = {k.code: k for k in AppError.__subclasses__()}\n",
        "code = 404",
        "code = 410",
        ("sorted(m.BY)", "m.BY[410] is m.NotFound"),
    ),
    Edit(
        "a subclass that is added to __subclasses__",
        "class B:\n    pass\nclass C(B):\n    pass\nNAMES = sorted(k.__name__ for k in B.__subclasses__())\n",
        "class C(B):\n    pass\n",
        "class C(B):\n    pass\nclass D(B):\n    pass\n",
        "m.NAMES",
    ),
]
