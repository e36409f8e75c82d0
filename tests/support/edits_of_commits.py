"""Edits in the form of commits to public libraries, each reduced to the part that a load has to get right."""

from edit_cases import edits_of

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
ALL = [*PAGER_EDITS, *TYPE_EDITS]
