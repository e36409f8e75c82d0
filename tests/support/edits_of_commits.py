"""Edits in the form of commits to public libraries, each reduced to the part that a load has to get right."""

from edit_cases import edits_of, with_expected

PAGER = """\
import contextlib, functools
def counted(f):
    @functools.wraps(f)
    def call(*args, **kwargs):
        call.count += 1
        return f(*args, **kwargs)
    call.count = 0
    return call
@contextlib.contextmanager
def pager(stream: str, color: 'bool') -> 'int':
    yield stream
@counted
def page(text: str):
    return text
class Terminal:
    @contextlib.contextmanager
    def raw(self, key: str):
        yield key
    @staticmethod
    @counted
    def echo(text):
        return text
    @functools.cached_property
    def size(self) -> int:
        return 3
    @property
    def width(self) -> int:
        return 80
"""
ANNOTATIONS = (
    "m.pager.__annotations__", "m.pager.__wrapped__.__annotations__", "m.page.__annotations__",
    "m.Terminal.raw.__annotations__", "m.Terminal.echo.__annotations__", "m.Terminal.width.fget.__annotations__",
    "m.Terminal.size.func.__annotations__", "__import__('inspect').signature(m.pager)", "m.pager.__wrapped__.__defaults__",
)  # fmt: skip
PAGER_EDITS = edits_of(
    "pager",
    PAGER,
    [
        ("a parameter more of a context manager", "color: 'bool'", "path: int, color: 'bool'", ANNOTATIONS),
        ("what a context manager returns", "-> 'int'", "-> 'str'", ANNOTATIONS),
        ("a default of a context manager", "color: 'bool'", "color: 'bool' = False", ANNOTATIONS),
        ("an annotation less of a wrapped function", "page(text: str)", "page(text)", ANNOTATIONS),
        ("an annotation of a wrapped method", "key: str", "key: bytes", ANNOTATIONS),
        ("an annotation of a wrapped static method", "def echo(text)", "def echo(text: str)", ANNOTATIONS),
        ("what a cached property returns", "size(self) -> int", "size(self) -> float", ANNOTATIONS),
        ("what a property returns", "width(self) -> int", "width(self) -> float", ANNOTATIONS),
    ],
)
TYPES = """\
import functools
Key = int
def keep(f):
    @functools.wraps(f)
    def call(*args):
        return f(*args)
    return call
@keep
def find(key: Key):
    return key
"""
TYPE_EDITS = edits_of(
    "types",
    TYPES,
    [
        (
            "a type in an annotation of a wrapped function",
            "Key = int",
            "Key = str",
            ("m.find.__annotations__", "m.find.__wrapped__.__annotations__"),
        )
    ],
)
PARAMETERS = """\
import abc, typing as t
V = t.TypeVar('V')
class Parameter(t.Generic[V], abc.ABC):
    name: str
    def convert(self, value):
        return value
    def __class_getitem__(cls, params):
        return super().__class_getitem__(params)
class Text(Parameter[str]):
    name = 'text'
class Number(Parameter[int]):
    name = 'number'
    def convert(self, value):
        return int(value)
class Choice(Parameter[str]):
    name = 'choice'
    def __init__(self, *choices):
        self.choices = choices
TEXT: t.Final[Text] = Text()
NUMBER = Number()
SIZES = Choice('s', 'm')
KINDS = {'text': TEXT, 'number': NUMBER}
def of(kind=TEXT):
    return kind
"""
USING = """\
from m import NUMBER, SIZES, TEXT
TABLE = {NUMBER: 'n', TEXT: 't'}
BOTH = [TEXT, SIZES]
"""
KEPT = (
    "m.KINDS['text'] is m.TEXT", "n.TEXT is m.TEXT, n.NUMBER is m.NUMBER, n.SIZES is m.SIZES", "m.of() is m.TEXT",
    "n.TABLE[m.NUMBER], n.TABLE[m.TEXT]", "n.BOTH[0] is m.TEXT, n.BOTH[1] is m.SIZES", "type(m.TEXT) is m.Text",
    "[type(one) is m.Choice for one in n.BOTH]", "m.SIZES.choices", "m.TEXT.name, m.NUMBER.convert('1')", "HELD[0] is m.TEXT",
)  # fmt: skip
PARAMETER_EDITS = edits_of(
    "parameters",
    PARAMETERS,
    [
        ("how a class is subscripted", "getitem__(params)", "getitem__((params,))", KEPT),
        (
            "no subscription of its own",
            "    def __class_getitem__(cls, params):\n        return super().__class_getitem__(params)\n",
            "",
            KEPT,
        ),
        ("slots of a class", "    name = 'text'\n", "    __slots__ = ()\n    name = 'text'\n", KEPT),
        ("an argument of a kept object", "'s', 'm'", "'s', 'l'", KEPT),
        ("another base", "class Text(Parameter[str])", "class Text(Parameter[bytes])", KEPT),
    ],
    others={"n": USING},
    hold="HELD = [m.TEXT]",
)
POINTS = """\
from dataclasses import dataclass
class Point:
    __slots__ = ('x', 'y', 'label')
    def __init__(self, x, y=0):
        self.x, self.y = x, y
@dataclass(frozen=True)
class Size:
    __slots__ = ('width',)
    width: int
class Stamp(int):
    def __init__(self, value):
        self.value = value
SCALE = 2
ORIGIN = Point(SCALE)
LARGE = Size(SCALE * 100)
FIRST = Stamp(SCALE)
"""
POINT_EDITS = edits_of(
    "points",
    POINTS,
    [
        (name, old, new, ("HELD[0] is m.ORIGIN", "HELD[1] is m.LARGE", "m.ORIGIN.x, m.ORIGIN.y", "m.LARGE.width", "int(m.FIRST), m.FIRST.value", "hasattr(m.ORIGIN, 'label')"))
        for name, old, new in [
            ("a scale", "SCALE = 2", "SCALE = 3"),
            ("a slot that was empty", "self.x, self.y = x, y", "self.x, self.y, self.label = x, y, 'a'"),
            ("a slot that is empty now", "self.x, self.y = x, y", "self.x = x"),
            ("a slot more", "('x', 'y', 'label')", "('x', 'y', 'label', 'z')"),
        ]
    ],
    hold="HELD = [m.ORIGIN, m.LARGE]",
)  # fmt: skip
ALL = with_expected([*PAGER_EDITS, *TYPE_EDITS, *PARAMETER_EDITS, *POINT_EDITS], reported=["points: a slot more"])
