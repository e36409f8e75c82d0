"""Edits as they are made on the branches of nine projects in use: routes called, caches filled, rows stored."""

from edit_cases import edits_of, with_expected

PAYROLL = {
    "payroll.__init__": """\
from .config import *
from .money import Money
from ._version import version as __version__
__all__ = ['Money', 'config', '__version__', *config.__all__]
_moved = {'old_rate': ('config', 'RATE'), 'Cash': ('money', 'Money')}
def __getattr__(name):
    if name in _moved:
        module, attribute = _moved[name]
        import importlib
        return getattr(importlib.import_module('payroll.' + module), attribute)
    raise AttributeError(name)
""",
    "payroll._version": "major, minor = 2, 7\nversion = f'{major}.{minor}'\n",
    "payroll.config": """\
import os, sys
from types import MappingProxyType
__all__ = ['RATE', 'GRADES', 'BANDS', 'HOURS']
RATE = 20
WEEKS = 4
HOURS = 8 * 5 * WEEKS
GRADES = {'junior': RATE, 'senior': RATE * 2}
BANDS = MappingProxyType({name: (value * HOURS, value * HOURS * 2) for name, value in GRADES.items()})
if sys.version_info >= (3, 8):
    ROUND = 2
else:
    ROUND = 0
try:
    from payroll._local import TAX
except ImportError:
    TAX = 0.25
assert TAX < 1
""",
    "payroll.money": """\
from __future__ import annotations
import functools, operator
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal
from typing import ClassVar, NamedTuple, NewType, Protocol, TypedDict, TypeVar, Generic, overload, get_type_hints
from . import config
Cents = NewType('Cents', int)
Amount = int | float
T = TypeVar('T', bound='Money')
class Quote(NamedTuple):
    bid: int
    ask: int = config.RATE
    def mid(self) -> float:
        return (self.bid + self.ask) / 2
class Row(TypedDict, total=False):
    name: str
    pay: Amount
class HasPay(Protocol):
    grade: str
    def pay(self) -> Money: ...
@functools.total_ordering
@dataclass(frozen=True)
class Money:
    cents: int = 0
    currency: str = 'EUR'
    digits: ClassVar[int] = config.ROUND
    zero: ClassVar[Money]
    def __lt__(self, other: Money) -> bool:
        return self.cents < other.cents
    def __add__(self, other):
        return replace(self, cents=self.cents + other.cents)
    def __format__(self, spec):
        return f'{self.cents / 100:.{self.digits}f} {self.currency}' if not spec else spec.format(self.cents)
    @classmethod
    def of(cls, amount: Amount) -> Money:
        return cls(int(Decimal(str(amount)).quantize(Decimal('.01'), ROUND_HALF_UP) * 100))
    __str__ = functools.partialmethod(__format__, '')
Money.zero = Money()
class Ledger(Generic[T]):
    opened: ClassVar[list] = []
    def __init__(self, *items: T, name: str = 'main'):
        self.items, self.name = list(items), name
        self.opened.append(name)
    def __class_getitem__(cls, item):
        return super().__class_getitem__(item)
    @property
    def total(self):
        return functools.reduce(operator.add, self.items, Money.zero)
PETTY = Ledger(Money.of(1.5), Money.of(config.RATE))
@overload
def parse(text: str) -> Money: ...
@overload
def parse(text: int) -> Money: ...
def parse(text):
    match text:
        case int():
            return Money(text)
        case str() if text.endswith('EUR'):
            return Money.of(text[:-3].strip())
        case [amount, currency]:
            return Money(Money.of(amount).cents, currency)
        case {'cents': cents, **rest}:
            return Money(cents, *rest.values())
        case _:
            raise TypeError(type(text).__name__)
HINTS = get_type_hints(Row)
""",
    "payroll.rules": """\
import contextvars, functools, inspect, logging, weakref
from abc import ABC, abstractmethod
from .config import TAX, WEEKS as PERIOD
from .money import Money, Quote, parse
log = logging.getLogger(__name__)
region = contextvars.ContextVar('region', default='north')
LIVE = weakref.WeakSet()
BY_NAME = weakref.WeakValueDictionary()
class Rule(ABC):
    registry = {}
    order = 10
    def __init_subclass__(cls, /, key=None, **words):
        super().__init_subclass__(**words)
        cls.key = key or cls.__name__.lower()
        Rule.registry[cls.key] = cls
    def __new__(cls, *args):
        self = super().__new__(cls)
        LIVE.add(self)
        BY_NAME[cls.key] = self
        return self
    @abstractmethod
    def apply(self, money): ...
class Tax(Rule):
    share = TAX
    def apply(self, money):
        return Money(int(money.cents * (1 - self.share)))
class Bonus(Rule, key='extra'):
    order = 5
    def __init__(self, amount=PERIOD):
        self.amount = amount
    def apply(self, money):
        return money + parse(self.amount * 100)
    def audit(self):
        log.info('bonus in %s', region.get())
class Norm(Tax, key='norm'):
    share = Tax.share / 2
STEPS = [rule() for rule in sorted(Rule.registry.values(), key=lambda rule: rule.order)]
SIGNATURES = {name: str(inspect.signature(rule)) for name, rule in Rule.registry.items()}
@functools.singledispatch
def describe(value):
    return repr(value)
@describe.register
def _(value: Money):
    return f'{value}'
@describe.register(Quote)
@describe.register(list)
def _(value):
    return '; '.join(map(describe, value))
def net(money, steps=tuple(STEPS), *, only=None):
    for step in steps:
        if only is None or step.key == only:
            money = step.apply(money)
    return money
monthly = functools.partial(net, only='tax')
""",
    "payroll.people": """\
import collections, dataclasses, enum, functools
from dataclasses import dataclass, field, KW_ONLY
from payroll import BANDS, GRADES, config, rules
from payroll.money import Money
from payroll.rules import net
class Grade(enum.Enum):
    JUNIOR = 'junior', GRADES['junior']
    SENIOR = 'senior', GRADES['senior']
    def __init__(self, label, rate):
        self.label, self.rate = label, rate
    @classmethod
    def _missing_(cls, value):
        return next((item for item in cls if item.label == value), None)
    @property
    def band(self):
        return BANDS[self.label]
PERKS = {Grade.JUNIOR: ['tea'], Grade.SENIOR: ['tea', 'car']}
@functools.lru_cache(maxsize=None)
def yearly(grade):
    return net(Money.of(grade.rate * config.HOURS)).cents * 12
class Field:
    def __set_name__(self, owner, name):
        self.name = '_' + name
        owner.__dict__.get('columns', []).append(name)
    def __init__(self, default=None, check=None):
        self.default, self.check = default, check
    def __get__(self, item, owner=None):
        return self if item is None else getattr(item, self.name, self.default)
    def __set__(self, item, value):
        if self.check and not self.check(value):
            raise ValueError(self.name)
        setattr(item, self.name, value)
class Person:
    columns = []
    name = Field('nobody', str.istitle)
    grade = Field(Grade.JUNIOR)
    count = 0
    def __init__(self, **words):
        for key, value in words.items():
            setattr(self, key, value)
        type(self).count += 1
    @functools.cached_property
    def salary(self):
        return yearly(self.grade) // 100
    def pay(self):
        return net(Money.of(self.grade.rate))
    def __repr__(self):
        return f'{type(self).__name__}({self.name})'
@dataclass
class Team:
    lead: Person
    members: list = field(default_factory=list)
    _: KW_ONLY
    size: int = 3
    tags: dict = field(default_factory=lambda: dict.fromkeys(GRADES, 0), repr=False)
    def __post_init__(self):
        self.members = [self.lead, *self.members][:self.size]
    def __iter__(self):
        yield from self.members
    def __len__(self):
        return len(self.members)
ANN = Person(name='Ann', grade=Grade('senior'))
CORE = Team(ANN, size=config.WEEKS)
Summary = collections.namedtuple('Summary', [*Person.columns, 'pay'], defaults=[0])
def summary(person, prefix=''):
    return Summary(prefix + person.name, person.grade.label, pay=person.pay().cents)
""",
}
PAYROLL_M = """\
import payroll, argparse, logging, logging.config
from payroll import *
from payroll import people as staff
from payroll.money import Row, HasPay, PETTY
from payroll.people import ANN, Grade, Person, Team, summary
__doc__ = f'Pay {len(GRADES)} grades.'
LINES = []
class Keep(logging.Handler):
    def emit(self, record):
        LINES.append(self.format(record))
logging.config.dictConfig({
    'version': 1, 'disable_existing_loggers': False, 'formatters': {'f': {'format': '%(name)s|' + __version__ + '|%(message)s'}},
    'handlers': {'keep': {'()': Keep, 'formatter': 'f', 'level': 'INFO'}}, 'loggers': {'payroll': {'handlers': ['keep'], 'level': 'INFO'}},
})
class Boss(Person):
    count = 100
    def pay(self):
        return super().pay() + Money.of(HOURS)
parser = argparse.ArgumentParser('pay', description=__doc__)
parser.add_argument('--grade', type=Grade, choices=list(Grade), default=Grade.JUNIOR)
parser.add_argument('--rate', type=int, default=RATE)
TABLE = {person.name: summary(person) for person in [ANN, Boss(name='Bob')]}
def run(*words):
    given = parser.parse_args(words)
    return given.grade.name, given.rate * HOURS
"""
PAYROLL_USE = """\
people.yearly(people.Grade.JUNIOR), people.ANN.salary, m.run(), m.Boss(name='Cy').pay()
class Runtime(rules.Rule, key='runtime'):
    def apply(self, money): return money
KEPT = Runtime()
"""
PAYROLL_PROBES = (
    "payroll.RATE, payroll.GRADES, dict(payroll.BANDS), payroll.HOURS, payroll.__version__, sorted(payroll.__all__), m.RATE, m.GRADES, m.__version__, m.HOURS", "getattr(payroll, 'old_rate', 0), payroll.Cash is money.Money, payroll.Money is m.Money is people.Money",
    "money.Quote(1), money.Quote(2, 3).mid(), money.Row.__annotations__, money.Row.__total__, money.HINTS, money.Money.digits", "format(money.Money.of(3)), str(money.Money(5)) , money.Money(1) <= money.Money(2), money.PETTY.total, money.Ledger('x' and money.Money(1)).total", "money.parse(3), money.parse('4 EUR'), money.parse([1, 'USD']), money.parse({'cents': 3, 'c': 'GBP'}), money.Money.zero, hash(money.Money(1)) == hash(money.Money(1))", "money.parse('x')",
    "[type(s).__name__ for s in rules.STEPS], {k: v for k, v in rules.SIGNATURES.items() if k != 'runtime'}, sorted(k for k in rules.Rule.registry if k != 'runtime'), rules.region.get(), rules.Norm.share, rules.Tax.share", "rules.net(money.Money(10000)), rules.monthly(money.Money(10000)), rules.describe(money.Money(2)), rules.describe([money.Money(2), 1]), rules.describe(money.Quote(1)), rules.describe(5)", "[s.amount for s in rules.STEPS if hasattr(s, 'amount')], rules.net.__kwdefaults__",
    "[(g.name, g.value, g.label, g.rate, g.band) for g in people.Grade], people.PERKS[people.Grade.SENIOR], people.Grade('junior') is people.Grade.JUNIOR, list(people.PERKS) == list(people.Grade)", "people.yearly(people.Grade.JUNIOR), people.Person(name='X', grade=people.Grade.SENIOR).salary, people.ANN.salary, people.ANN.pay(), people.Person.columns, people.summary(people.ANN, prefix='>')", "people.Person(name='low')", "people.CORE, len(people.CORE), people.CORE.tags, people.Team(people.ANN), list(people.CORE), people.Summary._fields",
    "m.TABLE, m.run(), m.run('--grade', 'senior'), m.parser.format_help(), m.__doc__, m.Boss(name='Di').pay(), m.ANN is people.ANN", "(m.LINES.clear(), rules.STEPS[0].audit() if hasattr(rules.STEPS[0], 'audit') else 0, list(m.LINES))[1:]",
)  # fmt: skip
PAYROLL_EDITS = edits_of(
    "payroll",
    PAYROLL_M,
    [
        ("a rate that many derive from", "RATE = 20", "RATE = 25", PAYROLL_PROBES, {"edited": "payroll.config"}),
        ("a number of weeks", "WEEKS = 4", "WEEKS = 5", PAYROLL_PROBES, {"edited": "payroll.config"}),
        ("a grade more", "'senior': RATE * 2}", "'senior': RATE * 2, 'lead': RATE * 3}", PAYROLL_PROBES, {"edited": "payroll.config"}),
        ("a public name more", "'BANDS', 'HOURS']", "'BANDS', 'HOURS', 'ROUND']", (*PAYROLL_PROBES, "payroll.ROUND, m.ROUND"), {"edited": "payroll.config"}),
        ("a public name less", "'BANDS', 'HOURS']", "'HOURS']", PAYROLL_PROBES, {"edited": "payroll.config", "more": [("payroll.people", "from payroll import BANDS, GRADES, config, rules", "from payroll import GRADES, config, rules\nfrom payroll.config import BANDS")]}),
        ("a guard of another version", "(3, 8)", "(4, 8)", PAYROLL_PROBES, {"edited": "payroll.config"}),
        ("a fallback's value", "TAX = 0.25", "TAX = 0.5", PAYROLL_PROBES, {"edited": "payroll.config"}),
        ("a minor version", "2, 7", "2, 8", PAYROLL_PROBES, {"edited": "payroll._version"}),
        ("a lazy alias more", "'Cash': (", "'Coin': ('money', 'Money'), 'Cash': (", (*PAYROLL_PROBES, "payroll.Coin"), {"edited": "payroll.__init__"}),
        ("a lazy alias of another name", "('config', 'RATE')", "('config', 'WEEKS')", PAYROLL_PROBES, {"edited": "payroll.__init__"}),
        ("another default of a named tuple", "ask: int = config.RATE", "ask: int = config.WEEKS", PAYROLL_PROBES, {"edited": "payroll.money"}),
        ("a field more of a named tuple", "    def mid(self)", "    lot: int = 1\n    def mid(self)", PAYROLL_PROBES, {"edited": "payroll.money"}),
        ("a typed dictionary that is total", "class Row(TypedDict, total=False)", "class Row(TypedDict)", PAYROLL_PROBES, {"edited": "payroll.money"}),
        ("a type alias", "Amount = int | float", "Amount = int | float | Decimal", PAYROLL_PROBES, {"edited": "payroll.money"}),
        ("a default currency", "currency: str = 'EUR'", "currency: str = 'CHF'", PAYROLL_PROBES, {"edited": "payroll.money"}),
        ("a data class that is not frozen", "@dataclass(frozen=True)", "@dataclass(unsafe_hash=True)", PAYROLL_PROBES, {"edited": "payroll.money"}),
        ("an ordering that the data class makes", "@functools.total_ordering\n@dataclass(frozen=True)", "@dataclass(frozen=True, order=True)", PAYROLL_PROBES, {"edited": "payroll.money", "more": [("payroll.money", "    def __lt__(self, other: Money) -> bool:\n        return self.cents < other.cents\n", "")]}),
        ("a rounding", "ROUND_HALF_UP) * 100", "ROUND_HALF_UP) * 1000", PAYROLL_PROBES, {"edited": "payroll.money"}),
        ("a case of a match more", "        case int():\n", "        case bool():\n            return Money(100)\n        case int():\n", (*PAYROLL_PROBES, "money.parse(True)"), {"edited": "payroll.money"}),
        ("a property that becomes a method", "    @property\n    def total(self)", "    def total(self)", (*PAYROLL_PROBES[:3], *PAYROLL_PROBES[4:], "money.PETTY.total()"), {"edited": "payroll.money"}),
        ("slots", "@dataclass(frozen=True)", "@dataclass(frozen=True, slots=True)", PAYROLL_PROBES, {"edited": "payroll.money"}),
        ("a parameter is renamed with its caller", "def net(money, steps=tuple(STEPS), *, only=None):", "def net(money, steps=tuple(STEPS), *, key=None):", PAYROLL_PROBES, {"edited": "payroll.rules", "more": [("payroll.rules", "if only is None or step.key == only", "if key is None or step.key == key"), ("payroll.rules", "only='tax'", "key='tax'")]}),
        ("a key of a rule", "key='extra'", "key='bonus'", PAYROLL_PROBES, {"edited": "payroll.rules"}),
        ("an order of rules", "    order = 5\n", "    order = 20\n", PAYROLL_PROBES, {"edited": "payroll.rules"}),
        ("a rule more", "class Norm(Tax, key='norm')", "class Fee(Rule):\n    def apply(self, money):\n        return Money(money.cents - 100)\nclass Norm(Tax, key='norm')", PAYROLL_PROBES, {"edited": "payroll.rules"}),
        ("a rule less", "class Norm(Tax, key='norm'):\n    share = Tax.share / 2\n", "", (*PAYROLL_PROBES[:7], "m.TABLE"), {"edited": "payroll.rules"}),
        ("a share of a rule", "share = TAX", "share = TAX + 0.1", PAYROLL_PROBES, {"edited": "payroll.rules"}),
        ("a default of a context variable", "default='north'", "default='south'", PAYROLL_PROBES, {"edited": "payroll.rules"}),
        ("a dispatch of a tuple too", "@describe.register(list)\n", "@describe.register(list)\n@describe.register(tuple)\n", (*PAYROLL_PROBES, "rules.describe((1, 2))"), {"edited": "payroll.rules"}),
        ("a dispatch less", "@describe.register(list)\n", "", PAYROLL_PROBES, {"edited": "payroll.rules"}),
        ("a logger's name", "logging.getLogger(__name__)", "logging.getLogger('payroll.audit')", PAYROLL_PROBES, {"edited": "payroll.rules"}),
        ("a constructor's default of a rule", "amount=PERIOD", "amount=PERIOD + 1", PAYROLL_PROBES, {"edited": "payroll.rules"}),
        ("a member's rate", "JUNIOR = 'junior', GRADES['junior']", "JUNIOR = 'junior', GRADES['junior'] + 1", PAYROLL_PROBES, {"edited": "payroll.people"}),
        ("a perk more", "['tea', 'car']", "['tea', 'car', 'flat']", PAYROLL_PROBES, {"edited": "payroll.people"}),
        ("a cached function without a cache", "@functools.lru_cache(maxsize=None)\n", "", PAYROLL_PROBES, {"edited": "payroll.people"}),
        ("a descriptor's default", "name = Field('nobody', str.istitle)", "name = Field('someone', str.isalpha)", PAYROLL_PROBES, {"edited": "payroll.people"}),
        ("a column more", "    count = 0\n", "    age = Field(30)\n    count = 0\n", PAYROLL_PROBES, {"edited": "payroll.people", "more": [("payroll.people", "person.grade.label, pay", "person.grade.label, person.age, pay")]}),
        ("a field's name in a descriptor", "'_' + name", "'__' + name", PAYROLL_PROBES, {"edited": "payroll.people"}),
        ("a cached property that becomes a property", "@functools.cached_property", "@property", PAYROLL_PROBES, {"edited": "payroll.people"}),
        ("a keyword-only field's default", "size: int = 3", "size: int = 1", PAYROLL_PROBES, {"edited": "payroll.people"}),
        ("a factory of a field", "dict.fromkeys(GRADES, 0)", "dict.fromkeys(GRADES, 1)", PAYROLL_PROBES, {"edited": "payroll.people"}),
        ("a subclass's own method", "super().pay() + Money.of(HOURS)", "super().pay() + Money.of(1)", PAYROLL_PROBES),
        ("a choice of a parser", "choices=list(Grade)", "choices=[Grade.SENIOR]", PAYROLL_PROBES),
        ("a module's docstring", "f'Pay {len(GRADES)} grades.'", "f'Pay all {len(GRADES)}.'", PAYROLL_PROBES),
        ("a format of a log", "'|%(message)s'", "'|%(levelname)s|%(message)s'", PAYROLL_PROBES),
        ("a function moves to another module", "monthly = ", "def summary(person, prefix=''):\n    from payroll.people import Summary\n    return Summary(prefix + person.name, person.grade.label, pay=person.pay().cents)\nmonthly = ", PAYROLL_PROBES, {"edited": "payroll.rules", "more": [("payroll.people", "def summary(person, prefix=''):\n    return Summary(prefix + person.name, person.grade.label, pay=person.pay().cents)\n", "from payroll.rules import summary\n")]}),
        ("a constant moves to another module", "WEEKS = 4\n", "from payroll._version import WEEKS\n", PAYROLL_PROBES, {"edited": "payroll.config", "more": [("payroll._version", "major, minor", "WEEKS = 6\nmajor, minor")]}),
        ("a constant moves and its new home loads first", "major, minor", "WEEKS = 6\nmajor, minor", PAYROLL_PROBES, {"edited": "payroll._version", "more": [("payroll.config", "WEEKS = 4\n", "from payroll._version import WEEKS\n")]}),
        ("a function becomes a generator with its caller", "    for step in steps:\n        if only is None or step.key == only:\n            money = step.apply(money)\n    return money\n", "    for step in chosen(steps, only):\n        money = step.apply(money)\n    return money\ndef chosen(steps, only):\n    yield from (step for step in steps if only is None or step.key == only)\n", PAYROLL_PROBES, {"edited": "payroll.rules"}),
        ("a local module for a fallback", "", "TAX = 0.1\n", PAYROLL_PROBES, {"edited": "payroll._local"}),
    ],
    others=PAYROLL,
    use=PAYROLL_USE,
)  # fmt: skip

DESK = {
    "desk.__init__": "",
    "desk.settings": """\
from functools import lru_cache
from typing import Literal
from pydantic import BaseModel, Field
class Limits(BaseModel):
    page: int = 10
    tags: int = 3
class Settings(BaseModel):
    name: str = 'Desk'
    mode: Literal['dev', 'live'] = 'dev'
    limits: Limits = Field(default_factory=Limits)
    roles: dict[str, set[str]] = {'agent': {'read'}, 'boss': {'read', 'write'}}
@lru_cache
def get_settings() -> Settings:
    return Settings()
""",
    "desk.models": """\
import itertools
from datetime import date
from enum import IntEnum
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar, Union
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, field_validator, model_validator
from .settings import get_settings
ids = itertools.count(1)
def split(value):
    return value.split(',') if isinstance(value, str) else value
def known(value):
    assert len(value) <= get_settings().limits.tags, 'too many'
    return sorted(value)
Tags = Annotated[list[str], BeforeValidator(split), AfterValidator(known)]
Slug = Annotated[str, StringConstraints(pattern='^[a-z-]+$', max_length=12)]
class Priority(IntEnum):
    LOW = 1
    HIGH = 5
class Base(BaseModel):
    model_config = ConfigDict(extra='forbid', use_enum_values=False)
    kinds: ClassVar[list] = []
    @classmethod
    def __pydantic_init_subclass__(cls, **words):
        super().__pydantic_init_subclass__(**words)
        if 'kind' in cls.model_fields:
            Base.kinds.append(cls.model_fields['kind'].default)
class Question(Base):
    kind: Literal['question'] = 'question'
    text: str
class Bug(Base):
    kind: Literal['bug'] = 'bug'
    text: str
    priority: Priority = Priority.LOW
    @field_validator('priority', mode='before')
    @classmethod
    def by_name(cls, value):
        return Priority[value.upper()] if isinstance(value, str) and value.isalpha() else value
Body = Annotated[Union[Question, Bug], Field(discriminator='kind')]
class TicketIn(Base):
    slug: Slug
    body: Body
    tags: Tags = []
class Ticket(TicketIn):
    id: int = Field(default_factory=lambda: next(ids))
    closed: bool = False
    @model_validator(mode='after')
    def bugs_have_tags(self):
        if self.body.kind == 'bug' and not self.tags:
            self.tags.append('bug')
        return self
T = TypeVar('T')
class Page(BaseModel, Generic[T]):
    items: list[T]
    total: int
    next: str | None = None
class Stats(BaseModel):
    open: int = 0
    by_kind: dict[str, int] = {}
    top: Priority = Priority.HIGH
""",
    "desk.store": """\
from collections import Counter
from .models import Ticket, Stats
class Missing(LookupError):
    status = 404
class Store:
    instances = []
    def __init__(self, *tickets):
        self.rows = {}
        Store.instances.append(self)
        for ticket in tickets:
            self.add(ticket)
    def add(self, ticket):
        self.rows[ticket.slug] = ticket
        return ticket
    def get(self, slug):
        try:
            return self.rows[slug]
        except KeyError:
            raise Missing(slug) from None
    def stats(self):
        return Stats(open=sum(not row.closed for row in self.rows.values()), by_kind=Counter(row.body.kind for row in self.rows.values()))
SAMPLE = Store(Ticket(id=100, slug='hello', body={'kind': 'question', 'text': 'why?'}), Ticket(id=101, slug='crash', body={'kind': 'bug', 'text': 'boom', 'priority': 'high'}))
""",
    "desk.deps": """\
from typing import Annotated
from fastapi import Cookie, Depends, Header, HTTPException, Query, Request, Security
from fastapi.security import APIKeyHeader, SecurityScopes
from . import store
from .settings import Settings, get_settings
key = APIKeyHeader(name='X-Key', auto_error=False)
Config = Annotated[Settings, Depends(get_settings)]
def get_store(request: Request):
    return getattr(request.app.state, 'store', store.SAMPLE)
Db = Annotated[store.Store, Depends(get_store)]
class Paging:
    size = 2
    def __init__(self, config: Config, page: Annotated[int, Query(ge=1)] = 1, size: int | None = None):
        self.size = min(size or self.size, config.limits.page)
        self.start = (page - 1) * self.size
    def cut(self, rows):
        return rows[self.start:self.start + self.size]
def role(config: Config, scopes: SecurityScopes, key: Annotated[str | None, Depends(key)] = None):
    allowed = config.roles.get(key, set())
    if missing := set(scopes.scopes) - allowed:
        raise HTTPException(403, f'no {sorted(missing)}')
    return key
def needs(*scopes):
    return Security(role, scopes=list(scopes))
Reader = Annotated[str, needs('read')]
""",
    "desk.api.__init__": """\
from fastapi import APIRouter
from . import tickets, stats
router = APIRouter(prefix='/api')
for module in (tickets, stats):
    router.include_router(module.router, tags=[module.__name__.rpartition('.')[2]])
""",
    "desk.api.tickets": """\
from fastapi import APIRouter, Depends, Response
from fastapi.routing import APIRoute
from desk.deps import Db, Paging, Reader, needs
from desk.models import Page, Ticket, TicketIn
class Stamped(APIRoute):
    stamp = 'v1'
    def get_route_handler(self):
        handle = super().get_route_handler()
        async def stamped(request):
            response = await handle(request)
            response.headers['X-Stamp'] = self.stamp
            return response
        return stamped
router = APIRouter(prefix='/tickets', route_class=Stamped)
@router.get('', response_model=Page[Ticket])
def listing(db: Db, reader: Reader, paging: Paging = Depends()):
    rows = list(db.rows.values())
    return {'items': paging.cut(rows), 'total': len(rows)}
@router.post('', status_code=201, dependencies=[needs('read', 'write')])
def create(ticket: TicketIn, db: Db, response: Response) -> Ticket:
    response.headers['Location'] = router.url_path_for('one', slug=ticket.slug)
    return Ticket(id=1, **ticket.model_dump())
@router.get('/{slug}', name='one')
def one(slug: str, db: Db, reader: Reader) -> Ticket:
    return db.get(slug)
""",
    "desk.api.stats": """\
from fastapi import APIRouter
from desk.deps import Config, Db
from desk.models import Stats
router = APIRouter()
@router.get('/stats')
async def stats(db: Db, config: Config) -> Stats:
    return db.stats()
@router.websocket('/echo')
async def echo(socket, mode: str = 'plain'):
    await socket.accept()
""",
}
DESK_M = """\
from contextlib import asynccontextmanager
from fastapi import FastAPI, Request, WebSocket
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse, ORJSONResponse
from fastapi.middleware.gzip import GZipMiddleware
from desk import store
from desk.api import router
from desk.settings import get_settings
class Pretty(JSONResponse):
    indent = 1
    def render(self, content):
        import json
        return json.dumps(content, indent=self.indent).encode()
@asynccontextmanager
async def lifespan(app):
    app.state.store = store.Store(*store.SAMPLE.rows.values())
    yield
    del app.state.store
async def missing(request: Request, error: store.Missing):
    return JSONResponse({'missing': str(error)}, error.status)
def create_app(settings=None, **words):
    settings = settings or get_settings()
    app = FastAPI(title=settings.name, lifespan=lifespan, exception_handlers={store.Missing: missing}, default_response_class=Pretty, **words)
    app.include_router(router)
    @app.get('/')
    def index():
        return {'mode': settings.mode}
    @app.middleware('http')
    async def name(request, call_next):
        response = await call_next(request)
        response.headers['X-Name'] = settings.name
        return response
    return app
app = create_app(docs_url=None)
def schema():
    if not app.openapi_schema:
        found = get_openapi(title=app.title, version='9', routes=app.routes)
        found['info']['x-logo'] = get_settings().name
        app.openapi_schema = found
    return app.openapi_schema
app.openapi = schema
"""
DESK_SETUP = """\
from fastapi.testclient import TestClient
def call(path, method='get', key='boss', **words):
    with TestClient(sys.modules['m'].app, raise_server_exceptions=False) as client:
        found = client.request(method, path, headers={'x-key': key}, **words)
    return found.status_code, found.text, [found.headers.get(name) for name in ('x-stamp', 'x-name', 'location')]
def made(kind, **words):
    try:
        return kind(**words).model_dump()
    except ValueError as error:
        return str(error)
"""
DESK_USE = "[call(p) for p in ('/', '/api/tickets', '/api/tickets/hello', '/api/stats', '/openapi.json')]\nfrom desk.models import Page, Ticket\nPage[Ticket](items=[], total=0)\nclass Mine(Ticket):\n    more: int = 0\n"
DESK_PROBES = (
    "call('/'), call('/docs'), call('/api/stats')", "call('/api/tickets'), call('/api/tickets?page=2&size=1'), call('/api/tickets?page=0'), call('/api/tickets', key='none')", "call('/api/tickets/hello'), call('/api/tickets/nothing'), call('/api/tickets/hello', key='agent')",
    "call('/api/tickets', 'post', json={'slug': 'a', 'body': {'kind': 'bug', 'text': 'x', 'priority': 'high'}}), call('/api/tickets', 'post', json={'slug': 'A', 'body': {'kind': 'idea'}}), call('/api/tickets', 'post', key='agent', json={})", "call('/api/tickets', 'post', json={'slug': 'a', 'tags': 'b,a', 'body': {'kind': 'question', 'text': 'x'}}), call('/api/tickets', 'post', json={'slug': 'a', 'tags': 'd,c,b,a', 'body': {'kind': 'question', 'text': 'x'}})",
    "call('/openapi.json')", "made(models.Ticket, id=1, slug='b', body={'kind': 'bug', 'text': ''}), made(models.Ticket, id=1, slug='b-', body={'kind': 'bug', 'text': '', 'priority': 5}, more=1), made(models.Stats), models.Base.kinds, list(models.Priority)", "settings.get_settings().model_dump(), settings.get_settings() is settings.get_settings(), settings.Limits()", "store.SAMPLE.stats().model_dump(), store.SAMPLE.get('crash').model_dump(), type(store.SAMPLE.get('crash')) is models.Ticket, store.Missing.status, len(store.SAMPLE.rows)",
    "[(str(r.path), sorted(r.methods or ()) if hasattr(r, 'methods') else 0) for r in m.app.routes if hasattr(r, 'path')]", "made(models.Page[models.Ticket], items=[store.SAMPLE.get('crash')], total=1)",
)  # fmt: skip
DESK_EDITS = edits_of(
    "desk",
    DESK_M,
    [
        ("a setting behind a cache", "mode: Literal['dev', 'live'] = 'dev'", "mode: Literal['dev', 'live'] = 'live'", DESK_PROBES, {"edited": "desk.settings"}),
        ("a nested setting behind a cache", "page: int = 10", "page: int = 1", DESK_PROBES, {"edited": "desk.settings"}),
        ("a number of tags", "tags: int = 3", "tags: int = 1", DESK_PROBES, {"edited": "desk.settings"}),
        ("a role's rights", "'agent': {'read'}", "'agent': {'read', 'write'}", DESK_PROBES, {"edited": "desk.settings"}),
        ("a body of a cached function", "return Settings()", "return Settings(name='Help')", DESK_PROBES, {"edited": "desk.settings"}),
        ("no cache", "@lru_cache\n", "", DESK_PROBES, {"edited": "desk.settings"}),
        ("a pattern of a constraint", "'^[a-z-]+$'", "'^[a-zA-Z]+$'", DESK_PROBES, {"edited": "desk.models"}),
        ("a validator before", "value.split(',')", "value.split(';')", DESK_PROBES, {"edited": "desk.models"}),
        ("a validator after", "sorted(value)", "sorted(value, reverse=True)", DESK_PROBES, {"edited": "desk.models"}),
        ("a priority more", "    HIGH = 5\n", "    MID = 3\n    HIGH = 5\n", DESK_PROBES, {"edited": "desk.models"}),
        ("a priority's number", "HIGH = 5", "HIGH = 9", DESK_PROBES, {"edited": "desk.models"}),
        ("a kind of body more", "Body = Annotated[Union[Question, Bug]", "class Idea(Base):\n    kind: Literal['idea'] = 'idea'\n    text: str = ''\nBody = Annotated[Union[Question, Bug, Idea]", DESK_PROBES, {"edited": "desk.models"}),
        ("a field with a default in a base model", "    tags: Tags = []\n", "    tags: Tags = []\n    due: date | None = None\n", DESK_PROBES, {"edited": "desk.models"}),
        ("an extra that is ignored", "extra='forbid'", "extra='ignore'", DESK_PROBES, {"edited": "desk.models"}),
        ("a field validator less", "    @field_validator('priority', mode='before')\n    @classmethod\n    def by_name(cls, value):\n        return Priority[value.upper()] if isinstance(value, str) and value.isalpha() else value\n", "", DESK_PROBES, {"edited": "desk.models", "more": [("desk.store", "'priority': 'high'", "'priority': 5")]}),
        ("a model validator's body", "self.tags.append('bug')", "self.tags.append('bugs')", DESK_PROBES, {"edited": "desk.models"}),
        ("a required field of a generic page", "next: str | None = None", "next: str | None = 'none'", DESK_PROBES, {"edited": "desk.models"}),
        ("what a model's hook collects", "cls.model_fields['kind'].default)", "cls.model_fields['kind'].default.upper())", DESK_PROBES, {"edited": "desk.models"}),
        ("a field is renamed with its users", "class Stats(BaseModel):\n    open:", "class Stats(BaseModel):\n    opened:", DESK_PROBES, {"edited": "desk.models", "more": [("desk.store", "Stats(open=", "Stats(opened=")]}),
        ("a status of an error", "status = 404", "status = 410", DESK_PROBES, {"edited": "desk.store"}),
        ("a sample more", "SAMPLE = Store(", "SAMPLE = Store(Ticket(id=99, slug='first', body={'kind': 'question', 'text': ''}), ", DESK_PROBES, {"edited": "desk.store"}),
        ("a method of a store", "self.rows[ticket.slug] = ticket", "self.rows[ticket.slug.upper()] = ticket", DESK_PROBES, {"edited": "desk.store"}),
        ("a size of a dependency", "    size = 2\n", "    size = 1\n", DESK_PROBES, {"edited": "desk.deps"}),
        ("a parameter of a dependency is renamed", "page: Annotated[int, Query(ge=1)] = 1", "p: Annotated[int, Query(ge=1)] = 1", DESK_PROBES, {"edited": "desk.deps", "more": [("desk.deps", "(page - 1)", "(p - 1)")]}),
        ("a bound of a dependency's parameter", "Query(ge=1)", "Query(ge=0)", DESK_PROBES, {"edited": "desk.deps"}),
        ("a scope of an annotated dependency", "Reader = Annotated[str, needs('read')]", "Reader = Annotated[str, needs('read', 'write')]", DESK_PROBES, {"edited": "desk.deps"}),
        ("a header's name", "APIKeyHeader(name='X-Key'", "APIKeyHeader(name='X-Token'", DESK_PROBES, {"edited": "desk.deps"}),
        ("a dependency that yields", "    return getattr(request.app.state, 'store', store.SAMPLE)\n", "    yield getattr(request.app.state, 'store', store.SAMPLE)\n", DESK_PROBES, {"edited": "desk.deps"}),
        ("a dependency that is asynchronous", "def role(config", "async def role(config", DESK_PROBES, {"edited": "desk.deps"}),
        ("a message of a refusal", "f'no {sorted(missing)}'", "f'missing {sorted(missing)}'", DESK_PROBES, {"edited": "desk.deps"}),
        ("a stamp of a route class", "stamp = 'v1'", "stamp = 'v2'", DESK_PROBES, {"edited": "desk.api.tickets"}),
        ("a header of a route class", "'X-Stamp'", "'X-Name'", DESK_PROBES, {"edited": "desk.api.tickets"}),
        ("no route class", ", route_class=Stamped", "", DESK_PROBES, {"edited": "desk.api.tickets"}),
        ("a scope less of a route", "dependencies=[needs('read', 'write')]", "dependencies=[needs('read')]", DESK_PROBES, {"edited": "desk.api.tickets"}),
        ("a route's name", "name='one')", "name='single')", DESK_PROBES, {"edited": "desk.api.tickets", "more": [("desk.api.tickets", "url_path_for('one'", "url_path_for('single'")]}),
        ("a route is closed", "def one(slug: str, db: Db, reader: Reader)", "def one(slug: str, db: Db, reader: Reader, mode: str = 'full')", DESK_PROBES, {"edited": "desk.api.tickets"}),
        ("a route moves to another module", "@router.get('/stats')\nasync def stats(db: Db, config: Config) -> Stats:\n    return db.stats()\n", "", DESK_PROBES, {"edited": "desk.api.stats", "more": [("desk.api.tickets", "@router.get('/{slug}', name='one')", "@router.get('/stats')\nasync def stats(db: Db):\n    return db.stats()\n@router.get('/{slug}', name='one')")]}),
        ("a prefix of all routes", "prefix='/api'", "prefix='/v2'", (*DESK_PROBES, "call('/v2/stats')"), {"edited": "desk.api.__init__"}),
        ("an order of routers", "(tickets, stats)", "(stats, tickets)", DESK_PROBES, {"edited": "desk.api.__init__"}),
        ("an indentation of responses", "indent = 1", "indent = 2", DESK_PROBES),
        ("a lifespan's store", "store.Store(*store.SAMPLE.rows.values())", "store.Store()", DESK_PROBES),
        ("a handler's answer", "{'missing': str(error)}", "{'gone': str(error)}", DESK_PROBES),
        ("a handler of a wider error", "exception_handlers={store.Missing: missing}", "exception_handlers={LookupError: missing}", DESK_PROBES),
        ("a route in a factory", "return {'mode': settings.mode}", "return {'mode': settings.mode, 'name': settings.name}", DESK_PROBES),
        ("a middleware of a factory", "'X-Name'] = settings.name", "'X-Name'] = settings.mode", DESK_PROBES),
        ("documentation", "docs_url=None", "docs_url='/docs', redoc_url=None", DESK_PROBES),
        ("a version of a schema", "version='9'", "version='10'", DESK_PROBES),
        ("a schema as usual", "app.openapi = schema\n", "", DESK_PROBES),
    ],
    others=DESK,
    needs=("fastapi", "httpx2"),
    setup=DESK_SETUP,
    use=DESK_USE,
)  # fmt: skip

SHOP = {
    "shop.__init__": """\
from flask import Flask
from . import ext, texts
from .cart import bp as cart_bp
from .catalog import bp as catalog_bp
from .errors import register_errors
class Config:
    SECRET_KEY = 'x'
    CURRENCY = 'EUR'
    PAGE = 2
    TESTING = True
class Demo(Config):
    CURRENCY = 'USD'
CONFIGS = {'default': Config, 'demo': Demo}
def create_app(name='default', **words):
    app = Flask(__name__)
    app.config.from_object(CONFIGS[name])
    app.config.update(words)
    app.jinja_loader = texts.loader
    for extension in (ext.prices, ext.audit):
        extension.init_app(app)
    app.register_blueprint(catalog_bp, url_prefix=texts.PATHS['catalog'])
    register_errors(app)
    with app.app_context():
        app.extensions['started'] = ext.prices.show(100)
    return app
""",
    "shop.texts": """\
from jinja2 import DictLoader, ChoiceLoader
PATHS = {'catalog': '/c', 'cart': '/cart'}
BASE = '{% block body %}{% endblock %} - {{ shop_name() }}'
ITEM = "{% extends 'base.html' %}{% block body %}{{ item.name|title }}: {{ item.price|price }}{% if item is cheap %} cheap{% endif %}{% endblock %}"
loader = ChoiceLoader([DictLoader({'base.html': BASE, 'item.html': ITEM})])
""",
    "shop.ext": """\
import functools
from flask import current_app, g, has_request_context, request
from werkzeug.local import LocalProxy
class Prices:
    def __init__(self, app=None, sign='~'):
        self.sign, self.seen = sign, {}
        if app:
            self.init_app(app)
    def init_app(self, app):
        app.extensions['prices'] = self
        app.add_template_filter(self.show, 'price')
        app.template_test('cheap')(self.is_cheap)
        app.jinja_env.globals.update(shop_name=functools.partial(name, upper=True))
    def show(self, cents):
        return f"{cents / 100:.2f}{self.sign}{current_app.config['CURRENCY']}"
    limit = 500
    def is_cheap(self, item):
        return item['price'] < self.limit
def name(upper=False):
    found = current_app.name
    return found.upper() if upper else found
class Audit(list):
    def init_app(self, app):
        app.before_request(self.begin)
        app.after_request(self.end)
        app.teardown_request(lambda error: self.append(type(error).__name__))
    def begin(self):
        g.user = request.args.get('user', 'guest')
    def end(self, response):
        response.headers['X-User'] = g.user
        self.append(request.endpoint)
        return response
prices = Prices(sign=' ')
audit = Audit()
user = LocalProxy(lambda: g.user if has_request_context() else None)
def role_required(*roles, code=403):
    def decorate(view):
        @functools.wraps(view)
        def checked(*args, **words):
            if user not in roles:
                return {'needs': roles}, code
            return view(*args, **words)
        checked.roles = roles
        return checked
    return decorate
""",
    "shop.errors": """\
from flask import jsonify
from werkzeug.exceptions import HTTPException
class ShopError(Exception):
    code, text = 400, 'wrong'
    def __init__(self, **more):
        self.more = more
class SoldOut(ShopError):
    code, text = 409, 'sold out'
def register_errors(app):
    @app.errorhandler(ShopError)
    def shop_error(error):
        return jsonify(error=error.text, **error.more), error.code
    @app.errorhandler(HTTPException)
    def http_error(error):
        return jsonify(error=error.name), error.code
""",
    "shop.catalog": """\
from flask import Blueprint, abort, current_app, jsonify, render_template, request, url_for
from flask.views import MethodView, View
from .cart import bp as cart_bp
from .errors import SoldOut
from .ext import audit, role_required
from .texts import PATHS
bp = Blueprint('catalog', __name__)
bp.register_blueprint(cart_bp, url_prefix=PATHS['cart'])
ITEMS = {1: {'name': 'red lamp', 'price': 400, 'left': 1}, 2: {'name': 'desk', 'price': 9900, 'left': 0}, 3: {'name': 'mat', 'price': 50, 'left': 9}}
@bp.record_once
def setup(state):
    state.app.config.setdefault('SORT', 'name')
class ItemView(MethodView):
    decorators = [role_required('boss', 'guest')]
    def get(self, number):
        item = ITEMS.get(number) or abort(404)
        return render_template('item.html', item=item)
    @role_required('boss')
    def delete(self, number):
        return {'deleted': number}
class Listing(View):
    methods = ['GET', 'POST']
    def __init__(self, key, size=None):
        self.key, self.size = key, size
    def dispatch_request(self):
        rows = sorted(ITEMS.values(), key=lambda item: item[current_app.config['SORT']])
        return jsonify([row[self.key] for row in rows[:self.size or current_app.config['PAGE']]])
bp.add_url_rule('/<int:number>', view_func=ItemView.as_view('item'))
bp.add_url_rule('/names', view_func=Listing.as_view('names', 'name'))
bp.add_url_rule('/prices', view_func=Listing.as_view('prices', key='price', size=3))
@bp.get('/', defaults={'page': 1})
@bp.get('/page/<int:page>')
def pages(page):
    size = current_app.config['PAGE']
    return {'page': page, 'items': list(ITEMS)[(page - 1) * size:page * size], 'next': url_for('.pages', page=page + 1)}
@bp.get('/buy/<int:number>')
@role_required('boss', code=401)
def buy(number):
    if not ITEMS[number]['left']:
        raise SoldOut(number=number)
    return {'bought': number}
@bp.cli.command('stock')
def stock():
    'Count the stock.'
    print(sum(item['left'] for item in ITEMS.values()))
""",
    "shop.cart": """\
from flask import Blueprint, g, session
from blinker import signal
added = signal('added')
LOG = []
bp = Blueprint('cart', __name__)
@bp.before_request
def load():
    g.cart = session.setdefault('cart', [])
@bp.post('/<item>')
def add(item):
    g.cart.append(item)
    session.modified = True
    added.send(bp, item=item)
    return {'cart': g.cart}
@bp.after_app_request
def count(response):
    response.headers['X-Cart'] = len(session.get('cart', ()))
    return response
@added.connect
def log(sender, item):
    LOG.append(f'{sender.name} {item}')
""",
}
SHOP_M = """\
from shop import create_app, CONFIGS
from shop.errors import ShopError
app = create_app('demo', PAGE=2)
@app.get('/health')
def health():
    return {'ok': True, 'started': app.extensions['started']}
@app.route('/fail')
def fail():
    raise ShopError(reason='test')
@app.shell_context_processor
def names():
    return {'configs': sorted(CONFIGS)}
"""
SHOP_SETUP = """\
def call(path, method='get', **words):
    found = getattr(sys.modules['m'].app.test_client(), method)(path, **words)
    return found.status_code, found.text, found.headers.get('X-User'), found.headers.get('X-Cart')
def shell(*words):
    return sys.modules['m'].app.test_cli_runner().invoke(args=list(words)).output
"""
SHOP_USE = "[call(path) for path in ('/health', '/c/1', '/c/', '/c/names', '/fail', '/nothing', '/c/buy/1?user=boss')]; call('/c/cart/x', 'post'); catalog.ITEMS[3]['left'] = 9\nclass Mine(errors.ShopError): pass\n"
SHOP_PROBES = (
    "call('/health'), call('/fail'), call('/nothing'), call('/fail', 'post')", "call('/c/1'), call('/c/2?user=boss'), call('/c/1?user=eve'), call('/c/9'), call('/c/1', 'delete'), call('/c/1?user=boss', 'delete'), call('/c/1', 'put')", "call('/c/'), call('/c/page/2'), call('/c/names'), call('/c/prices'), call('/c/names', 'post')",
    "call('/c/buy/1'), call('/c/buy/1?user=boss'), call('/c/buy/2?user=boss')", "(cart.LOG.clear(), call('/c/cart/lamp', 'post'), list(cart.LOG))[1:]", "(ext.audit.clear(), call('/c/1'), call('/fail'), list(ext.audit))[1:]", "shell('catalog', 'stock'), shell('catalog', '--help'), m.app.make_shell_context()['configs']",
    "[(str(r), sorted(r.methods), r.endpoint, r.defaults) for r in m.app.url_map.iter_rules()], sorted(m.app.view_functions)", "[m.app.config.get(n) for n in ('CURRENCY', 'PAGE', 'SORT', 'TESTING')], sorted(m.app.extensions), m.app.view_functions['catalog.buy'].roles, sorted(n for n in m.app.jinja_env.filters if n.startswith('pr'))",
    "[[f.__name__ for f in fs] for fs in (m.app.before_request_funcs[None], m.app.after_request_funcs[None], m.app.before_request_funcs['catalog.cart'])], len(m.app.teardown_request_funcs[None]), len(list(cart.added.receivers))", "sorted((str(c), k.__name__) for c, ks in m.app.error_handler_spec[None].items() for k in ks)", "shop.create_app().extensions['started'], texts.loader.get_source(None, 'base.html')[0]",
)  # fmt: skip
SHOP_EDITS = edits_of(
    "shop",
    SHOP_M,
    [
        ("a value of a configuration", "CURRENCY = 'USD'", "CURRENCY = 'GBP'", SHOP_PROBES, {"edited": "shop.__init__"}),
        ("an inherited value of a configuration", "PAGE = 2\n    TESTING", "PAGE = 3\n    SORT = 'price'\n    TESTING", SHOP_PROBES, {"edited": "shop.__init__"}),
        ("a default configuration", "name='default'", "name='demo'", SHOP_PROBES, {"edited": "shop.__init__"}),
        ("an extension less in a factory", "(ext.prices, ext.audit)", "(ext.prices,)", SHOP_PROBES[:4], {"edited": "shop.__init__"}),
        ("a started value", "ext.prices.show(100)", "ext.prices.show(200)", SHOP_PROBES, {"edited": "shop.__init__"}),
        ("a path in a table", "'catalog': '/c'", "'catalog': '/d'", (*SHOP_PROBES, "call('/d/1')"), {"edited": "shop.texts"}),
        ("a path of a nested blueprint", "'cart': '/cart'", "'cart': '/basket'", (*SHOP_PROBES, "call('/c/basket/x', 'post')"), {"edited": "shop.texts"}),
        ("a template that another extends", " - {{ shop_name() }}", " / {{ shop_name() }}", SHOP_PROBES, {"edited": "shop.texts"}),
        ("a used template", "|title }}", "|upper }}", SHOP_PROBES, {"edited": "shop.texts"}),
        ("a sign", "Prices(sign=' ')", "Prices(sign='_')", SHOP_PROBES, {"edited": "shop.ext"}),
        ("a filter's body", ":.2f}", ":.1f}", SHOP_PROBES, {"edited": "shop.ext"}),
        ("a filter's name", "'price')", "'prize')", SHOP_PROBES, {"edited": "shop.ext"}),
        ("a limit of a test", "limit = 500", "limit = 40", SHOP_PROBES, {"edited": "shop.ext"}),
        ("a keyword of a global", "upper=True", "upper=False", SHOP_PROBES, {"edited": "shop.ext"}),
        ("a keyword is renamed with its partial", "def name(upper=False):\n    found = current_app.name\n    return found.upper() if upper else found", "def name(loud=False):\n    found = current_app.name\n    return found.upper() if loud else found", SHOP_PROBES, {"edited": "shop.ext", "more": [("shop.ext", "upper=True", "loud=True")]}),
        ("a hook's body", "'guest')", "'boss')", SHOP_PROBES, {"edited": "shop.ext"}),
        ("a hook less", "        app.before_request(self.begin)\n", "        app.before_request(lambda: setattr(g, 'user', 'guest'))\n", SHOP_PROBES, {"edited": "shop.ext"}),
        ("a lambda at the end of requests", "self.append(type(error).__name__)", "self.append(type(error).__name__.lower())", SHOP_PROBES, {"edited": "shop.ext"}),
        ("a proxy", "lambda: g.user if", "lambda: g.user.lower() if", SHOP_PROBES, {"edited": "shop.ext"}),
        ("a decorator's default", "code=403", "code=405", SHOP_PROBES, {"edited": "shop.ext"}),
        ("a wrapper's body", "{'needs': roles}", "{'needs': sorted(roles)}", SHOP_PROBES, {"edited": "shop.ext"}),
        ("an attribute of a wrapper", "checked.roles = roles", "checked.roles = sorted(roles)", SHOP_PROBES, {"edited": "shop.ext"}),
        ("a code of an error", "409, 'sold out'", "410, 'sold out'", SHOP_PROBES, {"edited": "shop.errors"}),
        ("a handler in a function", "jsonify(error=error.text", "jsonify(problem=error.text", SHOP_PROBES, {"edited": "shop.errors"}),
        ("a handler of another error", "@app.errorhandler(ShopError)", "@app.errorhandler(SoldOut)", SHOP_PROBES, {"edited": "shop.errors"}),
        ("a handler less", "    @app.errorhandler(HTTPException)\n    def http_error(error):\n        return jsonify(error=error.name), error.code\n", "", SHOP_PROBES, {"edited": "shop.errors"}),
        ("an item more", "3: {'name': 'mat'", "4: {'name': 'rug', 'price': 70, 'left': 2}, 3: {'name': 'mat'", SHOP_PROBES, {"edited": "shop.catalog"}),
        ("a default at registration", "setdefault('SORT', 'name')", "setdefault('SORT', 'price')", SHOP_PROBES, {"edited": "shop.catalog"}),
        ("a decorator of a view class", "[role_required('boss', 'guest')]", "[role_required('boss')]", SHOP_PROBES, {"edited": "shop.catalog"}),
        ("a decorator of a view's method", "    @role_required('boss')\n    def delete", "    def delete", SHOP_PROBES, {"edited": "shop.catalog"}),
        ("a method of a view more", "    @role_required('boss')\n    def delete", "    def put(self, number):\n        return {'put': number}\n    @role_required('boss')\n    def delete", SHOP_PROBES, {"edited": "shop.catalog"}),
        ("methods of a listing", "methods = ['GET', 'POST']", "methods = ['GET']", SHOP_PROBES, {"edited": "shop.catalog"}),
        ("an argument of a view", "key='price', size=3", "key='left', size=1", SHOP_PROBES, {"edited": "shop.catalog"}),
        ("defaults of a rule", "defaults={'page': 1}", "defaults={'page': 2}", SHOP_PROBES, {"edited": "shop.catalog"}),
        ("a view is renamed", "def pages(page)", "def overview(page)", SHOP_PROBES, {"edited": "shop.catalog", "more": [("shop.catalog", "'.pages'", "'.overview'")]}),
        ("a role of a view", "@role_required('boss', code=401)", "@role_required('guest', code=401)", SHOP_PROBES, {"edited": "shop.catalog"}),
        ("a docstring of a command", "'Count the stock.'", "'Count all.'", SHOP_PROBES, {"edited": "shop.catalog"}),
        ("a hook of a nested blueprint less", "@bp.before_request\ndef load():", "def load():", (*SHOP_PROBES[:4], "sorted(map(str, m.app.before_request_funcs))"), {"edited": "shop.cart"}),
        ("a receiver's body", "f'{sender.name} {item}'", "f'{item} of {sender.name}'", SHOP_PROBES, {"edited": "shop.cart"}),
        ("a name of a signal", "signal('added')", "signal('put')", (*SHOP_PROBES, "cart.added.name"), {"edited": "shop.cart"}),
        ("a hook of the application in a blueprint", "len(session.get('cart', ()))", "str(session.get('cart'))", SHOP_PROBES, {"edited": "shop.cart"}),
        ("a function moves to another module", "def name(upper=False):\n    found = current_app.name\n    return found.upper() if upper else found\n", "from .texts import name\n", SHOP_PROBES, {"edited": "shop.ext", "more": [("shop.texts", "BASE = ", "def name(upper=False):\n    return 'moved'\nBASE = ")]}),
    ],
    others=SHOP,
    needs=("flask",),
    setup=SHOP_SETUP,
    use=SHOP_USE,
)  # fmt: skip

FARM = {
    "farm.__init__": "from .base import Base, Session\nfrom . import animals, events\n",
    "farm.base": """\
import re, datetime
from sqlalchemy import MetaData, String, Integer, create_engine, func
from sqlalchemy.orm import DeclarativeBase, MappedAsDataclass, Mapped, declared_attr, mapped_column, scoped_session, sessionmaker
SCHEMA = {'ix': 'ix_%(column_0_label)s', 'ck': 'ck_%(table_name)s_%(constraint_name)s'}
NAME = 30
def snake(text, sep='_'):
    return re.sub('(?<!^)(?=[A-Z])', sep, text).lower()
class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=SCHEMA)
    type_annotation_map = {str: String(NAME)}
    @declared_attr.directive
    def __tablename__(cls):
        return snake(cls.__name__)
    @classmethod
    def columns(cls):
        return [c.key for c in cls.__table__.c]
class Aged:
    born: Mapped[int] = mapped_column(default=2020)
    @property
    def age(self):
        return 2024 - self.born
engine = create_engine('sqlite://')
Session = scoped_session(sessionmaker(engine, autoflush=False))
""",
    "farm.types": """\
import enum, json
from sqlalchemy import TypeDecorator, Text
class Food(enum.Enum):
    HAY = 'hay'
    CORN = 'corn'
class Json(TypeDecorator):
    impl = Text
    cache_ok = True
    def __init__(self, sort=True):
        super().__init__()
        self.sort = sort
    def process_bind_param(self, value, dialect):
        return json.dumps(value, sort_keys=self.sort)
    def process_result_value(self, value, dialect):
        return json.loads(value) if value else {}
""",
    "farm.animals": """\
from __future__ import annotations
from typing import Optional
from sqlalchemy import CheckConstraint, Column, Enum, ForeignKey, Index, Table, UniqueConstraint, case, func, literal, select
from sqlalchemy.ext.associationproxy import association_proxy
from sqlalchemy.ext.hybrid import Comparator, hybrid_method, hybrid_property
from sqlalchemy.orm import Mapped, backref, column_property, deferred, mapped_column, object_session, query_expression, relationship, synonym, validates
from .base import NAME, Aged, Base
from .types import Food, Json
CHEAP = 100
eats = Table('eats', Base.metadata, Column('animal_id', ForeignKey('animal.id'), primary_key=True), Column('feed_id', ForeignKey('feed.id'), primary_key=True))
class NoCase(Comparator):
    def __eq__(self, other):
        return func.lower(self.__clause_element__()) == func.lower(other)
class Feed(Base):
    id: Mapped[int] = mapped_column(primary_key=True)
    food: Mapped[Food] = mapped_column(default=Food.HAY)
    price: Mapped[int] = mapped_column(default=lambda: CHEAP // 2)
class Barn(Base):
    id: Mapped[int] = mapped_column(primary_key=True)
    label: Mapped[str] = mapped_column(unique=True)
    extra: Mapped[dict] = mapped_column(Json, default=dict)
    animals: Mapped[list[Animal]] = relationship(back_populates='barn', order_by='Animal.name', cascade='all, delete-orphan')
    names = association_proxy('animals', 'name', creator=lambda name: Animal(name=name))
    __table_args__ = (CheckConstraint('length(label) > 0', name='label'),)
class Animal(Aged, Base):
    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column()
    name: Mapped[str] = mapped_column(index=True)
    weight: Mapped[int] = mapped_column(default=10)
    barn_id: Mapped[Optional[int]] = mapped_column(ForeignKey(Barn.id))
    barn: Mapped[Optional[Barn]] = relationship(back_populates='animals')
    feeds: Mapped[list[Feed]] = relationship(secondary=eats, backref=backref('eaters', lazy='selectin'))
    title = column_property(kind + ' ' + name)
    alias = synonym('name')
    __mapper_args__ = {'polymorphic_on': 'kind', 'polymorphic_identity': 'animal', 'confirm_deleted_rows': False}
    @hybrid_property
    def cost(self):
        return self.weight * 2
    @cost.update_expression
    def cost(cls, value):
        return [(cls.weight, value / 2)]
    @hybrid_property
    def nocase(self):
        return self.name.lower()
    @nocase.comparator
    def nocase(cls):
        return NoCase(cls.name)
    @hybrid_property
    def size(self):
        return 'big' if self.weight > CHEAP else 'small'
    @size.inplace.expression
    @classmethod
    def _size(cls):
        return case((cls.weight > CHEAP, 'big'), else_='small')
    @validates('weight', include_removes=False)
    def positive(self, key, value):
        if value <= 0:
            raise ValueError(key)
        return value
    def __repr__(self):
        return f'{self.kind} {self.name}'
class Cow(Animal):
    __tablename__ = None
    __mapper_args__ = {'polymorphic_identity': 'cow'}
    milk: Mapped[Optional[int]] = mapped_column(default=5)
    def yearly(self):
        return self.milk * 365
class Hen(Animal):
    id: Mapped[int] = mapped_column(ForeignKey(Animal.id), primary_key=True)
    eggs: Mapped[int] = mapped_column(default=1)
    __mapper_args__ = {'polymorphic_identity': 'hen'}
HEAVY = select(Animal).where(Animal.weight >= CHEAP).order_by(Animal.weight.desc())
BIG = select(Animal.name).where(Animal.size == 'big')
""",
    "farm.events": """\
from sqlalchemy import event, inspect
from . import base
from .animals import Animal, Barn, Cow, Hen
LOG = []
@event.listens_for(Animal, 'before_insert', propagate=True)
def name_it(mapper, connection, target):
    target.name = target.name.strip().title()
@event.listens_for(Barn.animals, 'append')
def joined(barn, animal, initiator):
    LOG.append(f'{animal.name} joins {barn.label}')
def loaded(target, context):
    LOG.append(f'load {target!r}')
event.listen(Cow, 'load', loaded)
@event.listens_for(base.Session, 'after_commit')
def committed(session):
    LOG.append('commit')
KEYS = {mapper.class_.__name__: sorted(mapper.attrs.keys()) for mapper in map(inspect, (Animal, Cow, Hen))}
""",
}
FARM_M = """\
from farm import Base, Session, base
from farm.animals import *
from farm.animals import Animal, Barn, Cow, Feed, Food, Hen
from farm.events import LOG
Base.metadata.create_all(base.engine)
def fill():
    barn = Barn(label='north', extra={'b': 1, 'a': 2})
    barn.animals += [Cow(name=' elsa ', weight=300), Hen(name='gerta', eggs=2, weight=3)]
    barn.names.append('rex')
    Session.add(barn)
    Session.flush()
    return barn
def run(act):
    LOG.clear()
    try:
        return repr(act(fill())), list(LOG)
    except Exception as error:
        return type(error).__name__, str(error)[:60]
    finally:
        Session.rollback()
        Session.remove()
def heavy(limit=None):
    return Session.scalars(HEAVY.limit(limit)).all()
"""
FARM_USE = "m.run(lambda barn: (m.heavy(), barn.names))\nfrom sqlalchemy.orm import Mapped, mapped_column\nfrom sqlalchemy import Column, Integer, Table\nTable('logs', m.Base.metadata, Column('id', Integer, primary_key=True)).create(base.engine)\nclass Goat(animals.Animal):\n    __tablename__ = None\n    __mapper_args__ = {'polymorphic_identity': 'goat'}\n"
FARM_PROBES = (
    "m.run(lambda barn: ([(a.name, a.cost, a.size, a.age, a.title, a.kind) for a in barn.animals], list(barn.names), barn.extra))", "m.run(lambda barn: (m.Session.expire_all(), m.heavy(), m.heavy(1), m.Session.scalars(animals.BIG).all())[1:])", "m.run(lambda barn: [m.Session.query(m.Cow).one().yearly(), m.Session.query(m.Animal).filter(m.Animal.nocase == 'REX').count(), m.Hen(name='x').eggs])", "m.run(lambda barn: m.Cow(name='x', weight=0))", "m.run(lambda barn: (barn.animals[0].feeds.append(m.Feed()), m.Session.flush(), [(f.food, f.price, f.eaters) for f in barn.animals[0].feeds])[2])",
    "[(t.name, [(c.name, str(c.type), c.nullable, c.index, c.unique, plain(c.default and c.default.arg)) for c in t.c], sorted(str(c.name) for c in t.constraints), sorted(i.name for i in t.indexes)) for t in m.Base.metadata.sorted_tables if t.name != 'logs']", "str(animals.HEAVY), str(animals.BIG), str(animals.select(m.Animal.cost, m.Animal.nocase == 'x'))", "[(k.__name__, k.columns(), sorted(k.__mapper__.relationships.keys())) for k in (m.Animal, m.Barn, m.Cow, m.Hen, m.Feed)], events.KEYS", "[(r.key, r.direction.name, r.lazy, str(r.order_by), str(r.cascade)) for k in (m.Barn, m.Animal, m.Feed) for r in k.__mapper__.relationships]", "types.Json().sort, sorted(k for k in m.Animal.__mapper__.polymorphic_map if k != 'goat'), m.Food.HAY, [f.value for f in types.Food]",
)  # fmt: skip
FARM_SETUP = """\
import re
def plain(value):
    return re.sub(' at 0x[0-9a-f]+', '', repr(value))
"""
FARM_EDITS = edits_of(
    "farm",
    FARM_M,
    [
        ("a length that types use", "NAME = 30", "NAME = 40", FARM_PROBES, {"edited": "farm.base"}),
        ("how tables are named", "return snake(cls.__name__)", "return snake(cls.__name__, '-')", FARM_PROBES, {"edited": "farm.base"}),
        ("a separator of tables' names", "sep='_'", "sep='x'", FARM_PROBES, {"edited": "farm.base"}),
        ("a property of a mixin", "2024 - self.born", "2025 - self.born", FARM_PROBES, {"edited": "farm.base"}),
        ("a default of a mixin", "default=2020", "default=2000", FARM_PROBES, {"edited": "farm.base"}),
        ("a column more of a mixin", "    @property\n    def age", "    died: Mapped[int | None]\n    @property\n    def age", FARM_PROBES, {"edited": "farm.base"}),
        ("a class method of the base", "[c.key for", "[c.key.upper() for", FARM_PROBES, {"edited": "farm.base"}),
        ("a session that flushes", "autoflush=False", "autoflush=True", (*FARM_PROBES, "__import__('sqlalchemy').event.contains(base.Session, 'after_commit', events.committed)"), {"edited": "farm.base"}),
        ("a naming convention", "'ck_%(table_name)s_", "'check_%(table_name)s_", FARM_PROBES, {"edited": "farm.base"}),
        ("a kind of food more", "    CORN = 'corn'\n", "    CORN = 'corn'\n    BRAN = 'bran'\n", FARM_PROBES, {"edited": "farm.types"}),
        ("a food's value", "HAY = 'hay'", "HAY = 'HAY'", (*FARM_PROBES, "animals.Feed.__table__.c.food.default.arg is types.Food.HAY"), {"edited": "farm.types"}),
        ("how a type binds", "sort_keys=self.sort", "sort_keys=self.sort, indent=0", FARM_PROBES, {"edited": "farm.types"}),
        ("a default of a type", "sort=True", "sort=False", FARM_PROBES, {"edited": "farm.types"}),
        ("what a type returns", "else {}", "else None", FARM_PROBES, {"edited": "farm.types"}),
        ("a limit in a query", "CHEAP = 100", "CHEAP = 500", FARM_PROBES, {"edited": "farm.animals"}),
        ("a lambda of a column", "lambda: CHEAP // 2", "lambda: CHEAP // 4", FARM_PROBES, {"edited": "farm.animals"}),
        ("a comparison", "func.lower(other)", "func.trim(func.lower(other))", FARM_PROBES, {"edited": "farm.animals"}),
        ("an order of a relationship", "order_by='Animal.name'", "order_by='Animal.weight'", FARM_PROBES, {"edited": "farm.animals"}),
        ("a cascade", "cascade='all, delete-orphan'", "cascade='all'", FARM_PROBES, {"edited": "farm.animals"}),
        ("a creator of a proxy", "creator=lambda name: Animal(name=name)", "creator=lambda name: Animal(name=name + '!')", FARM_PROBES, {"edited": "farm.animals"}),
        ("a constraint", "'length(label) > 0', name='label'", "'length(label) > 1', name='long'", FARM_PROBES, {"edited": "farm.animals"}),
        ("a column less with its index", "mapped_column(index=True)", "mapped_column()", FARM_PROBES, {"edited": "farm.animals"}),
        ("a default of a column", "mapped_column(default=10)", "mapped_column(default=20)", FARM_PROBES, {"edited": "farm.animals"}),
        ("a lazy backref", "lazy='selectin'", "lazy='joined'", FARM_PROBES, {"edited": "farm.animals"}),
        ("a column property", "kind + ' ' + name", "name + ' ' + kind", FARM_PROBES, {"edited": "farm.animals"}),
        ("a synonym more", "    alias = synonym('name')\n", "    alias = synonym('name')\n    mass = synonym('weight')\n", FARM_PROBES, {"edited": "farm.animals"}),
        ("a hybrid", "return self.weight * 2", "return self.weight * 3", FARM_PROBES, {"edited": "farm.animals"}),
        ("an expression of a hybrid", "else_='small')", "else_='tiny')", (*FARM_PROBES, "animals.BIG.compile().params"), {"edited": "farm.animals"}),
        ("a hybrid that becomes a property", "    @hybrid_property\n    def cost(self):\n        return self.weight * 2\n    @cost.update_expression\n    def cost(cls, value):\n        return [(cls.weight, value / 2)]\n", "    @property\n    def cost(self):\n        return self.weight * 2\n", FARM_PROBES, {"edited": "farm.animals"}),
        ("a validator's body", "if value <= 0", "if value <= 3", FARM_PROBES, {"edited": "farm.animals"}),
        ("a validator of another column", "@validates('weight'", "@validates('name'", FARM_PROBES, {"edited": "farm.animals"}),
        ("an identity", "{'polymorphic_identity': 'cow'}", "{'polymorphic_identity': 'ox'}", FARM_PROBES, {"edited": "farm.animals"}),
        ("a method of a subclass", "* 365", "* 300", FARM_PROBES, {"edited": "farm.animals"}),
        ("a default of a joined table", "eggs: Mapped[int] = mapped_column(default=1)", "eggs: Mapped[int] = mapped_column(default=2)", FARM_PROBES, {"edited": "farm.animals"}),
        ("an order of a kept query", "Animal.weight.desc()", "Animal.name", FARM_PROBES, {"edited": "farm.animals"}),
        ("a representation", "f'{self.kind} {self.name}'", "f'<{self.kind} {self.name}>'", FARM_PROBES, {"edited": "farm.animals"}),
        ("a listener's body", "target.name.strip().title()", "target.name.strip().upper()", FARM_PROBES, {"edited": "farm.events"}),
        ("a listener that does not propagate", ", propagate=True", "", FARM_PROBES, {"edited": "farm.events"}),
        ("a listener of another collection", "@event.listens_for(Barn.animals, 'append')\ndef joined(barn, animal, initiator):\n    LOG.append(f'{animal.name} joins {barn.label}')\n", "", FARM_PROBES, {"edited": "farm.events"}),
        ("a listener of another class", "event.listen(Cow, 'load', loaded)", "event.listen(Hen, 'load', loaded)", FARM_PROBES, {"edited": "farm.events"}),
        ("a listener more of sessions", "KEYS = ", "@event.listens_for(base.Session, 'after_flush')\ndef flushed(session, context):\n    LOG.append('flush')\nKEYS = ", FARM_PROBES, {"edited": "farm.events"}),
        ("a filling function", "weight=300", "weight=400", FARM_PROBES),
    ],
    others=FARM,
    needs=("sqlalchemy",),
    setup=FARM_SETUP,
    use=FARM_USE,
)  # fmt: skip

CLUB = {
    "club.__init__": "",
    "club.choices": """\
from django.db.models import IntegerChoices, TextChoices
from django.utils.translation import gettext_lazy as _
class Level(IntegerChoices):
    BEGINNER = 1, _('Beginner')
    EXPERT = 9, 'Expert'
class Status(TextChoices):
    OPEN = 'o'
    CLOSED = 'c', 'Closed!'
    @classmethod
    def active(cls):
        return [cls.OPEN]
TITLE = 20
""",
    "club.models": """\
from django.core.validators import MaxLengthValidator, RegexValidator
from django.db import models
from django.db.models import Case, Count, F, Q, Value, When
from django.dispatch import Signal
from django.utils.functional import cached_property
from .choices import TITLE, Level, Status
joined = Signal()
class ActiveManager(models.Manager):
    use_in_migrations = True
    def get_queryset(self):
        return super().get_queryset().filter(status__in=Status.active())
class CourseQuerySet(models.QuerySet):
    def named(self, name):
        return self.filter(name__iexact=name)
    def by_level(self, level=Level.EXPERT):
        return self.filter(level=level)
    by_level.queryset_only = True
class Dated(models.Model):
    day = models.DateField(null=True, blank=True)
    class Meta:
        abstract = True
        get_latest_by = 'day'
class Course(Dated):
    name = models.CharField(max_length=TITLE, validators=[RegexValidator('^[A-Z]', 'capital')])
    level = models.IntegerField(choices=Level.choices, default=Level.BEGINNER)
    status = models.CharField(max_length=1, choices=Status, default=Status.OPEN)
    seats = models.PositiveIntegerField(default=8)
    objects = CourseQuerySet.as_manager()
    active = ActiveManager()
    class Meta(Dated.Meta):
        ordering = ['name']
        verbose_name_plural = 'courses'
        constraints = [models.UniqueConstraint(fields=['name', 'level'], name='one_name')]
        permissions = [('close', 'Can close')]
    def __str__(self):
        return f'{self.name} [{self.get_level_display()}]'
    def get_absolute_url(self):
        from django.urls import reverse
        return reverse('club:course', kwargs={'pk': self.pk})
    @cached_property
    def free(self):
        return self.seats - 1
    @property
    def is_full(self):
        return self.free <= 0
    def save(self, **words):
        self.name = self.name.strip()
        super().save(**words)
        joined.send(type(self), course=self)
class Member(models.Model):
    name = models.CharField(max_length=TITLE, unique=True)
    courses = models.ManyToManyField(Course, through='Booking', related_name='members')
    sponsor = models.ForeignKey('self', models.SET_NULL, null=True, blank=True)
class Booking(models.Model):
    member = models.ForeignKey(Member, models.CASCADE)
    course = models.ForeignKey(Course, models.CASCADE, limit_choices_to={'status': Status.OPEN})
    price = models.DecimalField(max_digits=6, decimal_places=2, default=10)
    class Meta:
        unique_together = [('member', 'course')]
class ExpertCourse(Course):
    objects = CourseQuerySet.as_manager()
    class Meta:
        proxy = True
""",
    "club.apps": """\
from django.apps import AppConfig
class ClubConfig(AppConfig):
    name = 'club'
    verbose_name = 'The club'
    default_auto_field = 'django.db.models.AutoField'
    def ready(self):
        from . import receivers
        receivers.READY.append(self.verbose_name)
""",
    "club.receivers": """\
from functools import partial
from django.db.models.signals import class_prepared, m2m_changed, post_save, pre_save
from django.dispatch import receiver
from .models import Booking, Course, Member, joined
READY, SEEN = [], []
@receiver(post_save, sender=Course)
@receiver(post_save, sender=Member)
def saved(sender, instance, created, **words):
    SEEN.append(f'{sender.__name__} {created}')
@receiver(joined)
def on_join(sender, course, **words):
    SEEN.append(f'joined {course}')
class Counter:
    total = 0
    def __call__(self, sender, **words):
        type(self).total += 1
counter = Counter()
pre_save.connect(counter, sender=Course, weak=False, dispatch_uid='counter')
""",
    "club.admin": """\
from django.contrib import admin
from .models import Booking, Course, Member
@admin.action(description='Close them')
def close(modeladmin, request, queryset):
    queryset.update(status='c')
class BookingInline(admin.TabularInline):
    model = Booking
    extra = 1
@admin.register(Course)
class CourseAdmin(admin.ModelAdmin):
    list_display = ['name', 'level', 'free_seats']
    list_filter = ['status']
    search_fields = ['name']
    actions = [close]
    inlines = [BookingInline]
    fieldsets = [(None, {'fields': ['name', 'level']}), ('More', {'fields': ['seats', 'status'], 'classes': ['collapse']})]
    @admin.display(description='Free', boolean=False)
    def free_seats(self, course):
        return course.free
admin.site.register(Member, list_display=['name'])
admin.site.site_header = 'Club admin'
""",
    "club.forms": """\
from django import forms
from .choices import Level, Status
from .models import Booking, Course
class CourseForm(forms.ModelForm):
    comment = forms.CharField(required=False, max_length=10)
    class Meta:
        model = Course
        fields = ['name', 'level', 'seats']
        error_messages = {'name': {'required': 'Name it.'}}
    def __init__(self, *args, **words):
        super().__init__(*args, **words)
        self.fields['seats'].help_text = 'chairs'
    def clean_name(self):
        return self.cleaned_data['name'].strip()
class FilterForm(forms.Form):
    level = forms.TypedChoiceField(choices=[('', 'any'), *Level.choices], coerce=int, required=False, empty_value=0)
    status = forms.MultipleChoiceField(choices=Status.choices, initial=['o'], required=False)
BookingFormSet = forms.modelformset_factory(Booking, fields=['price'], extra=2)
""",
    "club.views": """\
from django.contrib.admin.views.decorators import staff_member_required
from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.template import engines
from django.views.decorators.cache import cache_control
from django.views.generic import DetailView, FormView, ListView, View
from django.views.generic.edit import CreateView
from .forms import CourseForm, FilterForm
from .models import Course
class CourseMixin:
    model = Course
    paginate_by = 2
class CourseList(CourseMixin, ListView):
    ordering = ['-seats']
    def get_queryset(self):
        form = FilterForm(self.request.GET)
        level = form.cleaned_data['level'] if form.is_valid() else 0
        return super().get_queryset().filter(**({'level': level} if level else {}))
    def render_to_response(self, context):
        return JsonResponse({'rows': [str(course) for course in context['object_list']], 'pages': context['paginator'].num_pages, 'club': getattr(self.request, 'club', None)})
class CourseDetail(CourseMixin, DetailView):
    def render_to_response(self, context):
        return HttpResponse(engines['django'].from_string('{% load club %}{{ object|stars }} {% club_name %} {{ motto }}').render(context, self.request))
class CourseCreate(CreateView):
    form_class = CourseForm
    success_url = '/c/'
    def form_invalid(self, form):
        return JsonResponse(form.errors.get_json_data(), status=400)
@cache_control(max_age=60)
def health(request, *, text='fine'):
    return HttpResponse(text)
""",
    "club.middleware": """\
class ClubMiddleware:
    def __init__(self, get_response, name='green'):
        self.get_response, self.name = get_response, name
    def __call__(self, request):
        request.club = self.name
        response = self.get_response(request)
        response['X-Club'] = request.club
        return response
    def process_exception(self, request, error):
        from django.http import HttpResponse
        return HttpResponse(type(error).__name__, status=500)
def motto(request):
    return {'motto': f'play as {request.club}'}
""",
    "club.templatetags.__init__": "",
    "club.templatetags.club": """\
from django import template
register = template.Library()
SIGN = '*'
@register.filter
def stars(course):
    return SIGN * course.level
@register.simple_tag
def club_name(suffix='club'):
    return f'the {suffix}'
""",
    "club.urls": """\
from django.urls import path, re_path
from . import views
app_name = 'club'
urlpatterns = [
    path('', views.CourseList.as_view(), name='courses'),
    path('<int:pk>/', views.CourseDetail.as_view(), name='course'),
    path('new/', views.CourseCreate.as_view(), name='new'),
    re_path('^health(?P<more>x?)/$', lambda request, more: views.health(request, text='more' if more else 'fine')),
]
""",
    "club.management.__init__": "",
    "club.management.commands.__init__": "",
    "club.management.commands.close_courses": """\
from django.core.management.base import BaseCommand
from club.models import Course
class Command(BaseCommand):
    help = 'Close courses.'
    def add_arguments(self, parser):
        parser.add_argument('--below', type=int, default=3)
    def handle(self, *args, below, **options):
        self.stdout.write(f'{Course.objects.filter(seats__lt=below).count()} below {below}')
""",
}
CLUB_M = """\
from django.contrib import admin
from django.urls import include, path
from club import admin as club_admin, views
urlpatterns = [path('c/', include('club.urls')), path('admin/', admin.site.urls), path('up/', views.health, {'text': 'up'})]
def handler404(request, exception):
    from django.http import HttpResponse
    return HttpResponse('none here', status=404)
"""
CLUB_SETUP = """\
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=['django.contrib.admin', 'django.contrib.auth', 'django.contrib.contenttypes', 'django.contrib.messages', 'django.contrib.sessions', 'club.apps.ClubConfig'],
    ROOT_URLCONF='m', SECRET_KEY='x', USE_TZ=False, ALLOWED_HOSTS=['*'],
    DATABASES={'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}},
    MIDDLEWARE=['club.middleware.ClubMiddleware'],
    TEMPLATES=[{'BACKEND': 'django.template.backends.django.DjangoTemplates', 'APP_DIRS': True, 'OPTIONS': {'context_processors': ['club.middleware.motto']}}],
)
django.setup()
def get(path, method='get', **data):
    from django.test import Client
    answer = getattr(Client(raise_request_exception=False), method)(path, data)
    return answer.status_code, answer.content.decode()[:300], answer.headers.get('X-Club'), answer.headers.get('Cache-Control')
def command(*words, **more):
    import io
    from django.core.management import call_command
    out = io.StringIO()
    call_command(*words, stdout=out, **more)
    return out.getvalue()
def clean(item):
    try:
        item.clean_fields()
        return str(item)
    except Exception as error:
        return str(error)
def made():
    from django.db import connection
    from club import models
    with connection.schema_editor() as editor:
        for model in (models.Course, models.Member, models.Booking):
            editor.create_model(model)
    for name, level, seats in (('Chess', 9, 1), ('Golf', 1, 8), ('Polo', 1, 2)):
        models.Course.objects.create(name=name, level=level, seats=seats)
"""
CLUB_USE = "[get(path) for path in ('/c/', '/c/1/', '/up/', '/nothing/')]; __import__('django.urls').urls.reverse('club:course', args=[2]); command('close_courses')\nCHESS = models.Course.objects.get(name='Chess')\nCHESS.free\n"
CLUB_PROBES = (
    "get('/c/'), get('/c/?level=1'), get('/c/?page=2'), get('/c/?level=x')", "get('/c/1/'), get('/c/77/'), get('/up/'), get('/c/health/'), get('/c/healthx/'), get('/nothing/')", "get('/c/new/', 'post', name=''), get('/c/new/', 'post', name='low', level=9, seats=1), get('/c/new/', 'post', name='Long name of a course', level=2, seats=1, comment='x' * 11)", "command('close_courses'), command('close_courses', below=9)",
    "str(models.Course.objects.all().query), str(models.Course.active.all().query), str(models.Course.objects.named('x').by_level().query), str(models.ExpertCourse.objects.all().by_level(1).query)", "clean(models.Course(name='low')), clean(models.Course(name='Tennis', level=5)), models.Course(name='A').free, models.Course(name='A', seats=1).is_full, models.Course(pk=5).get_absolute_url()", "hasattr(models.Course.objects, 'by_level'), models.Course._meta.verbose_name_plural, models.Course._meta.ordering, [str(c.name) for c in models.Course._meta.constraints], models.Course._meta.permissions, models.Booking._meta.unique_together, models.Course._meta.get_latest_by",
    "[(f.name, type(f).__name__, getattr(f, 'max_length', 0), plain(f.default) if f.concrete and f.has_default() else 0, plain(getattr(f, 'choices', 0))) for k in (models.Course, models.Member, models.Booking) for f in k._meta.get_fields()]", "(receivers.SEEN.clear(), setattr(receivers.Counter, 'total', 0), models.Course(pk=1, name=' Chess ', level=9, seats=1).save(), list(receivers.SEEN), receivers.Counter.total)[3:], receivers.READY", "sorted((k.__name__, type(a).__name__, list(map(str, a.list_display)), [i.__name__ for i in a.inlines], a.search_fields, [getattr(x, 'short_description', x) for x in a.actions], plain(a.fieldsets)) for k, a in m.admin.site._registry.items() if k.__module__ == 'club.models'), m.admin.site.site_header",
    "forms.CourseForm().as_p(), forms.FilterForm().as_p()", "forms.BookingFormSet.extra, forms.BookingFormSet.form.base_fields.keys(), list(choices.Level), choices.Level.labels, choices.Status.choices, [repr(s) for s in choices.Status.active()]", "club.stars(models.Course(level=2)), __import__('django.apps').apps.apps.get_app_config('club').verbose_name, __import__('django.urls').urls.reverse('club:new')", "admin.CourseAdmin.free_seats.short_description, admin.CourseAdmin(models.Course, m.admin.site).free_seats(models.Course(seats=4))",
)  # fmt: skip
CLUB_SETUP += """\
import re
def plain(value):
    return re.sub(' at 0x[0-9a-f]+', '', repr(value))
"""
BOOKING_FORM = (
    "forms.BookingFormSet.model is models.Booking, "
    "[str(field.initial) for field in forms.BookingFormSet.form.base_fields.values()]"
)
CLUB_EDITS = edits_of(
    "club",
    CLUB_M,
    [
        ("a level more", "    EXPERT = 9, 'Expert'\n", "    GOOD = 5, 'Good'\n    EXPERT = 9, 'Expert'\n", CLUB_PROBES, {"edited": "club.choices"}),
        ("a label of a level", "_('Beginner')", "_('Novice')", CLUB_PROBES, {"edited": "club.choices"}),
        ("active states", "return [cls.OPEN]", "return [cls.OPEN, cls.CLOSED]", CLUB_PROBES, {"edited": "club.choices"}),
        ("a length of titles", "TITLE = 20", "TITLE = 30", CLUB_PROBES, {"edited": "club.choices"}),
        ("a manager's query", ".filter(status__in=Status.active())", ".exclude(status=Status.CLOSED)", CLUB_PROBES, {"edited": "club.models"}),
        ("a method of a query set that managers have", "    by_level.queryset_only = True\n", "    by_level.queryset_only = False\n", CLUB_PROBES, {"edited": "club.models"}),
        ("a default of a query's method", "level=Level.EXPERT", "level=Level.BEGINNER", CLUB_PROBES, {"edited": "club.models"}),
        ("a message of a validator", "'capital'", "'upper'", CLUB_PROBES, {"edited": "club.models"}),
        ("a number of seats", "default=8", "default=6", CLUB_PROBES, {"edited": "club.models"}),
        ("an order of courses", "ordering = ['name']", "ordering = ['-name']", CLUB_PROBES, {"edited": "club.models"}),
        ("a constraint's fields", "fields=['name', 'level'], name='one_name'", "fields=['name'], name='single_name'", CLUB_PROBES, {"edited": "club.models"}),
        ("an option of an abstract base", "get_latest_by = 'day'", "get_latest_by = 'pk'", CLUB_PROBES, {"edited": "club.models"}),
        ("a text of a model", "f'{self.name} [{self.get_level_display()}]'", "f'{self.name}: {self.get_level_display()}'", CLUB_PROBES, {"edited": "club.models"}),
        ("a cached property's body", "return self.seats - 1", "return self.seats - 2", CLUB_PROBES, {"edited": "club.models"}),
        ("a cached property becomes a method with its callers", "    @cached_property\n    def free(self)", "    def free(self)", CLUB_PROBES, {"edited": "club.models", "more": [("club.models", "self.free <= 0", "self.free() <= 0"), ("club.admin", "return course.free", "return course.free()")]}),
        ("what a save sends", "joined.send(type(self), course=self)", "joined.send(type(self), course=self.name)", CLUB_PROBES, {"edited": "club.models"}),
        ("a field more", "    objects = CourseQuerySet.as_manager()\n    active", "    room = models.CharField(max_length=5, default='A')\n    objects = CourseQuerySet.as_manager()\n    active", (*CLUB_PROBES[4:8], BOOKING_FORM), {"edited": "club.models"}),
        ("a related name", "related_name='members'", "related_name='players'", (*CLUB_PROBES, BOOKING_FORM), {"edited": "club.models"}),
        ("a default price", "default=10)", "default=12)", (*CLUB_PROBES, BOOKING_FORM), {"edited": "club.models"}),
        ("a manager's class of a proxy", "class ExpertCourse(Course):\n    objects = CourseQuerySet.as_manager()\n", "class ExpertCourse(Course):\n", CLUB_PROBES, {"edited": "club.models"}),
        ("a receiver of fewer senders", "@receiver(post_save, sender=Member)\n", "", CLUB_PROBES, {"edited": "club.receivers"}),
        ("a receiver's body", "f'{sender.__name__} {created}'", "f'{created} {sender.__name__}'", CLUB_PROBES, {"edited": "club.receivers"}),
        ("a call of a receiving object", "total += 1", "total += 10", CLUB_PROBES, {"edited": "club.receivers"}),
        ("a sender of a receiving object", "sender=Course, weak", "sender=Member, weak", CLUB_PROBES, {"edited": "club.receivers"}),
        ("a receiver less", "@receiver(joined)\n", "", CLUB_PROBES, {"edited": "club.receivers"}),
        ("columns of an admin", "'free_seats']\n", "'seats']\n", CLUB_PROBES, {"edited": "club.admin"}),
        ("a description of an action", "'Close them'", "'Close all'", CLUB_PROBES, {"edited": "club.admin"}),
        ("an inline less", "inlines = [BookingInline]", "inlines = []", CLUB_PROBES, {"edited": "club.admin"}),
        ("a registration of another admin", "admin.site.register(Member, list_display=['name'])", "admin.site.register(Member, list_display=['name', 'sponsor'])", CLUB_PROBES, {"edited": "club.admin"}),
        ("a header of the site", "'Club admin'", "'The club'", CLUB_PROBES, {"edited": "club.admin"}),
        ("a model that is no longer registered", "admin.site.register(Member, list_display=['name'])\n", "", CLUB_PROBES, {"edited": "club.admin"}),
        ("a field of a form", "max_length=10", "max_length=12", CLUB_PROBES, {"edited": "club.forms"}),
        ("fields of a model form", "['name', 'level', 'seats']", "['name', 'seats']", CLUB_PROBES, {"edited": "club.forms"}),
        ("a message of a model form", "'Name it.'", "'A name?'", CLUB_PROBES, {"edited": "club.forms"}),
        ("a help text in a constructor", "'chairs'", "'seats'", CLUB_PROBES, {"edited": "club.forms"}),
        ("an empty choice", "('', 'any')", "('', 'all')", CLUB_PROBES, {"edited": "club.forms"}),
        ("a number of forms", "extra=2", "extra=3", CLUB_PROBES, {"edited": "club.forms"}),
        ("a page size of a mixin", "paginate_by = 2", "paginate_by = 1", CLUB_PROBES, {"edited": "club.views"}),
        ("an order of a view", "['-seats']", "['seats']", CLUB_PROBES, {"edited": "club.views"}),
        ("a template in a view", "{{ motto }}", "{{ motto|upper }}", CLUB_PROBES, {"edited": "club.views"}),
        ("an age of a cache", "max_age=60", "max_age=90", CLUB_PROBES, {"edited": "club.views"}),
        ("a default of a middleware", "name='green'", "name='blue'", CLUB_PROBES, {"edited": "club.middleware"}),
        ("a context processor", "play as", "go as", CLUB_PROBES, {"edited": "club.middleware"}),
        ("a sign in a filter", "SIGN = '*'", "SIGN = '+'", CLUB_PROBES, {"edited": "club.templatetags.club"}),
        ("a default of a tag", "suffix='club'", "suffix='team'", CLUB_PROBES, {"edited": "club.templatetags.club"}),
        ("a path renamed", "path('new/'", "path('create/'", (*CLUB_PROBES, "get('/c/create/', 'post', name='')"), {"edited": "club.urls"}),
        ("a lambda of a pattern", "'more' if more", "'MORE' if more", CLUB_PROBES, {"edited": "club.urls"}),
        ("a default of a command", "default=3", "default=9", CLUB_PROBES, {"edited": "club.management.commands.close_courses"}),
        ("a name of the application", "'The club'", "'Our club'", CLUB_PROBES, {"edited": "club.apps"}),
        ("an argument of a view", "{'text': 'up'}", "{'text': 'UP'}", CLUB_PROBES),
        ("a handler's text", "'none here'", "'nothing'", CLUB_PROBES),
    ],
    others=CLUB,
    needs=("django",),
    setup=CLUB_SETUP,
    hold="made()",
    use=CLUB_USE,
)  # fmt: skip

TOOLS = {
    "ops.__init__": "",
    "ops.shared": """\
import functools, os
import attrs, click
from attrs import define, field, frozen
FORMATS = ['json', 'text']
ENV = 'OPS'
@define(slots=False)
class Context:
    verbose: int = 0
    format: str = field(default='text', validator=attrs.validators.in_(FORMATS))
    seen: list = field(factory=list, repr=False)
    def say(self, text, level=0):
        if self.verbose >= level:
            click.echo(f'[{self.format}] {text}')
pass_context = click.make_pass_decorator(Context, ensure=True)
class Size(click.ParamType):
    name = 'size'
    units = {'k': 1000, 'm': 1000 ** 2}
    def convert(self, value, param, ctx):
        if isinstance(value, int):
            return value
        try:
            return int(value[:-1]) * self.units[value[-1]] if value[-1] in self.units else int(value)
        except ValueError:
            self.fail(f'{value} is no size', param, ctx)
SIZE = Size()
def common(command):
    for option in reversed(OPTIONS):
        command = option(command)
    return command
OPTIONS = [
    click.option('--format', '-f', type=click.Choice(FORMATS), default=FORMATS[-1], show_default=True),
    click.option('--size', type=SIZE, default='2k', help='A size.'),
]
def deprecated(since):
    def decorate(command):
        command.deprecated = f'since {since}'
        command.params.append(click.Option(['--old'], is_flag=True, hidden=True))
        return command
    return decorate
""",
    "ops.groups": """\
import importlib
import click
class Lazy(click.Group):
    def __init__(self, *args, lazy=None, **words):
        super().__init__(*args, **words)
        self.lazy = lazy or {}
    def list_commands(self, ctx):
        return sorted([*super().list_commands(ctx), *self.lazy])
    def get_command(self, ctx, name):
        if name in self.lazy:
            module, attribute = self.lazy[name].split(':')
            return getattr(importlib.import_module(module), attribute)
        return super().get_command(ctx, name) or next(iter(self.prefixed(ctx, name)), None)
    def prefixed(self, ctx, name):
        return [self.commands[key] for key in self.commands if key.startswith(name)]
class Ordered(click.Group):
    order = ['up', 'down']
    def list_commands(self, ctx):
        return sorted(self.commands, key=self.order.index)
""",
    "ops.net": """\
import click
from .groups import Ordered
from .shared import SIZE, common, deprecated, pass_context
@click.group('net', cls=Ordered, chain=True)
@click.pass_context
def net(ctx):
    'Manage nets.'
    ctx.meta['net'] = 'lan'
@net.command()
@common
@pass_context
def up(context, format, size):
    context.format = format
    context.say(f'up {size}')
    return size
@deprecated('2.0')
@net.command()
@click.argument('names', nargs=-1, metavar='NAME...')
@pass_context
def down(context, names):
    context.say(f'down {",".join(names) or click.get_current_context().meta["net"]}')
@net.result_callback()
def done(results):
    click.echo(f'{len(results)} done')
""",
    "ops.db": """\
import click
from .shared import Context, pass_context
@click.group(invoke_without_command=True, context_settings={'max_content_width': 60})
@click.pass_context
def db(ctx):
    if ctx.invoked_subcommand is None:
        ctx.invoke(status)
@db.command()
@click.option('--deep/--flat', default=False, envvar='OPS_DEEP')
@pass_context
def status(context, deep=False):
    context.say(f'status {"deep" if deep else "flat"}', level=0)
@db.group()
def table():
    'Work on tables.'
@table.command('drop')
@click.confirmation_option(prompt='Sure?')
@click.argument('name', callback=lambda ctx, param, value: value.lower())
def drop(name):
    click.echo(f'dropped {name}')
""",
}
TOOLS_M = """\
import click
from ops import db as db_module, shared
from ops.groups import Lazy
from ops.net import net
from ops.shared import ENV, Context
@click.group(cls=Lazy, lazy={'db': 'ops.db:db'}, context_settings={'auto_envvar_prefix': ENV})
@click.option('--verbose', '-v', count=True, callback=lambda ctx, param, value: value + 1)
@click.version_option('1.0', message='%(prog)s %(version)s')
@click.pass_context
def cli(ctx, verbose):
    \'\'\'Operate.

    More about it.
    \'\'\'
    ctx.obj = Context(verbose=verbose)
cli.add_command(net)
@cli.command(epilog='The end.')
@click.argument('path', type=click.Path(exists=False), default='.')
@click.option('--level', type=click.IntRange(0, 3, clamp=True), default=1)
@click.option('--tag', multiple=True, default=['a'], help=f'One of {shared.FORMATS}.')
@click.pass_obj
def check(context, path, level, tag):
    'Check PATH.'
    context.say(f'{path} {level} {tag}')
ALIASES = {name: command.params for name, command in cli.commands.items()}
NAMES = [option.name for command in cli.commands.values() for option in command.params]
"""
TOOLS_SETUP = """\
def call(*words, **more):
    from click.testing import CliRunner
    found = CliRunner().invoke(sys.modules['m'].cli, list(words), prog_name='ops', **more)
    return found.exit_code, found.output
"""
TOOLS_USE = "call('net', 'up'), call('db', 'status'), call('check'), call('--help')\n@m.cli.command()\ndef extra(): pass\nm.cli.commands.pop('extra')\n"
TOOLS_PROBES = (
    "call('--help'), call('--version'), call('check', '--help')", "call('check'), call('-v', 'check', 'x', '--level', '9', '--tag', 'q'), call('ch')", "call('net', '--help'), call('net', 'up', '--help'), call('net', 'up'), call('net', 'up', '--size', '3m', '-f', 'json', 'down', 'a', 'b')", "call('net', 'up', '--size', 'x'), call('net', 'up', '-f', 'xml'), call('net', 'down')", "call('db'), call('db', 'status', '--deep'), call('db', 'status', env={'OPS_DEEP': '1'}), call('db', '--help')", "call('db', 'table', 'drop', 'X', '--yes'), call('db', 'table', 'drop', 'X', input='n'), call('db', 'table', '--help'), call('db', 'table', 'drop', 'X', env={'OPS_DB_TABLE_DROP_YES': '1'})",
    "repr(shared.Context()), shared.Context(verbose=2) == shared.Context(2)", "shared.Context(format='xml')", "sorted(m.NAMES), sorted(m.ALIASES), sorted(m.cli.commands), [p.name for p in m.check.params], [p.name for p in net.up.params], shared.SIZE.units, net.down.deprecated if hasattr(net, 'down') else 0", "sorted(vars(shared.Context(1))), [a.name for a in shared.attrs.fields(shared.Context)]",
)  # fmt: skip
TOOLS_EDITS = edits_of(
    "ops",
    TOOLS_M,
    [
        ("a format more", "['json', 'text']", "['json', 'xml', 'text']", TOOLS_PROBES, {"edited": "ops.shared"}),
        ("an order of formats", "['json', 'text']", "['text', 'json']", TOOLS_PROBES, {"edited": "ops.shared"}),
        ("a prefix of variables", "ENV = 'OPS'", "ENV = 'OP'", TOOLS_PROBES, {"edited": "ops.shared"}),
        ("a field more of a context", "    seen: list", "    quiet: bool = False\n    seen: list", TOOLS_PROBES, {"edited": "ops.shared"}),
        ("a validator less", ", validator=attrs.validators.in_(FORMATS)", "", TOOLS_PROBES, {"edited": "ops.shared"}),
        ("slots of a context", "@define(slots=False)", "@define", TOOLS_PROBES, {"edited": "ops.shared"}),
        ("a default of a method", "text, level=0", "text, level=2", TOOLS_PROBES, {"edited": "ops.shared"}),
        ("a unit more", "'m': 1000 ** 2}", "'m': 1000 ** 2, 'g': 1000 ** 3}", (*TOOLS_PROBES, "call('net', 'up', '--size', '1g')"), {"edited": "ops.shared"}),
        ("a message of a type", "is no size", "is not a size", TOOLS_PROBES, {"edited": "ops.shared"}),
        ("a name of a type", "name = 'size'", "name = 'bytes'", TOOLS_PROBES, {"edited": "ops.shared"}),
        ("a shared option's default", "default='2k'", "default='4k'", TOOLS_PROBES, {"edited": "ops.shared"}),
        ("a shared option's short name", "'--format', '-f'", "'--format', '-o'", TOOLS_PROBES, {"edited": "ops.shared"}),
        ("an order of shared options", "reversed(OPTIONS)", "OPTIONS", TOOLS_PROBES, {"edited": "ops.shared"}),
        ("a text of a decorator", "f'since {since}'", "f'from {since}'", TOOLS_PROBES, {"edited": "ops.shared"}),
        ("an option of a decorator", "['--old'], is_flag=True, hidden=True", "['--old'], is_flag=True", TOOLS_PROBES, {"edited": "ops.shared"}),
        ("an order of a group", "['up', 'down']", "['down', 'up']", TOOLS_PROBES, {"edited": "ops.groups"}),
        ("a method of a group", "key.startswith(name)", "key.endswith(name)", (*TOOLS_PROBES, "call('eck')"), {"edited": "ops.groups"}),
        ("a sorted group", "return sorted([*super()", "return list([*super()", TOOLS_PROBES, {"edited": "ops.groups"}),
        ("a chain less", ", chain=True", "", TOOLS_PROBES, {"edited": "ops.net"}),
        ("a docstring of a group", "'Manage nets.'", "'Manage networks.'", TOOLS_PROBES, {"edited": "ops.net"}),
        ("a text of a command", "f'up {size}'", "f'UP {size}'", TOOLS_PROBES, {"edited": "ops.net"}),
        ("a command without shared options", "@common\n@pass_context\ndef up(context, format, size):\n    context.format = format\n    context.say(f'up {size}')\n    return size\n", "@pass_context\ndef up(context):\n    context.say('up')\n", TOOLS_PROBES, {"edited": "ops.net"}),
        ("an argument's name in help", "metavar='NAME...'", "metavar='NET...'", TOOLS_PROBES, {"edited": "ops.net"}),
        ("a decorator less", "@deprecated('2.0')\n", "", TOOLS_PROBES, {"edited": "ops.net"}),
        ("an argument of a decorator", "@deprecated('2.0')", "@deprecated('2.1')", TOOLS_PROBES, {"edited": "ops.net"}),
        ("a command more", "@net.result_callback()", "@net.command()\ndef ping():\n    click.echo('pong')\n@net.result_callback()", (*TOOLS_PROBES, "call('net', 'ping')"), {"edited": "ops.net"}),
        ("a command is renamed", "def down(context", "def stop(context", TOOLS_PROBES, {"edited": "ops.net", "more": [("ops.groups", "['up', 'down']", "['up', 'stop']")]}),
        ("a callback of results", "} done'", "} finished'", TOOLS_PROBES, {"edited": "ops.net"}),
        ("a group with subcommands only", "invoke_without_command=True, ", "", TOOLS_PROBES, {"edited": "ops.db"}),
        ("a default of a flag", "default=False, envvar", "default=True, envvar", TOOLS_PROBES, {"edited": "ops.db"}),
        ("a lambda of an argument", "value.lower()", "value.title()", TOOLS_PROBES, {"edited": "ops.db"}),
        ("a prompt", "prompt='Sure?'", "prompt='Really?'", TOOLS_PROBES, {"edited": "ops.db"}),
        ("a nested group is renamed", "@db.group()", "@db.group('tables')", (*TOOLS_PROBES, "call('db', 'tables', '--help')"), {"edited": "ops.db"}),
        ("a lazy command less", "lazy={'db': 'ops.db:db'}, ", "", TOOLS_PROBES),
        ("a lazy command under another name", "lazy={'db':", "lazy={'data':", (*TOOLS_PROBES, "call('data')")),
        ("a callback of a count", "value + 1", "value * 2", TOOLS_PROBES),
        ("a version", "'1.0', message", "'1.1', message", TOOLS_PROBES),
        ("a docstring of the program", "More about it.", "Much more about it.", TOOLS_PROBES),
        ("a group that is no longer added", "cli.add_command(net)\n", "", TOOLS_PROBES),
        ("a range of a level", "clamp=True", "clamp=False", TOOLS_PROBES),
        ("a parameter becomes an option", "@click.argument('path', type=click.Path(exists=False), default='.')", "@click.option('--path', default='.')", TOOLS_PROBES),
        ("a command moves to another module", "@cli.command(epilog='The end.')\n@click.argument('path', type=click.Path(exists=False), default='.')\n@click.option('--level', type=click.IntRange(0, 3, clamp=True), default=1)\n@click.option('--tag', multiple=True, default=['a'], help=f'One of {shared.FORMATS}.')\n@click.pass_obj\ndef check(context, path, level, tag):\n    'Check PATH.'\n    context.say(f'{path} {level} {tag}')\n", "from ops.checks import check\ncli.add_command(check)\n", TOOLS_PROBES, {"more": [("ops.checks", "", "import click\n@click.command(epilog='Moved.')\n@click.argument('path', default='.')\n@click.pass_obj\ndef check(context, path):\n    context.say(path)\n")]}),
    ],
    others=TOOLS,
    needs=("click", "attrs"),
    setup=TOOLS_SETUP,
    use=TOOLS_USE,
)  # fmt: skip

MAIL = {
    "mail.__init__": "from .app import app\n",
    "mail.app": """\
from celery import Celery, Task
from celery.schedules import crontab, schedule
from celery.signals import task_postrun, task_prerun, task_success
from kombu import Exchange, Queue
from . import config
LOG = []
class Counted(Task):
    abstract = True
    attempts = 0
    rate = config.RATE
    def __call__(self, *args, **words):
        type(self).attempts += 1
        LOG.append(f'{self.name} call')
        return super().__call__(*args, **words)
    def on_failure(self, error, task_id, args, words, info):
        LOG.append(f'{type(error).__name__} in {self.name}')
class Mail(Celery):
    task_cls = Counted
    def gen_task_name(self, name, module):
        return f'{module.rpartition(".")[2]}.{name}'
app = Mail('mail', set_as_current=True)
app.config_from_object(config)
app.conf.update(task_queues=[Queue(name, Exchange('mail'), routing_key=f'{name}.#') for name in config.QUEUES])
app.conf.beat_schedule = {'digest': {'task': 'tasks.digest', 'schedule': crontab(hour=config.HOUR, minute=0), 'args': (config.SIZE,)}}
app.conf.task_routes = {'tasks.*': {'queue': config.QUEUES[0]}}
@task_prerun.connect
def before(task_id=None, task=None, **words):
    LOG.append(f'before {task.name}')
@task_success.connect(weak=False)
def success(sender=None, result=None, **words):
    LOG.append(f'{sender.name} -> {result}')
""",
    "mail.config": """\
task_always_eager = True
task_eager_propagates = False
timezone = 'UTC'
RATE = '10/m'
QUEUES = ['fast', 'slow']
HOUR = 7
SIZE = 3
RETRIES = 2
""",
    "mail.tasks": """\
from celery import chain, chord, group, shared_task
from celery.exceptions import Reject
from . import config
from .app import LOG, Counted, app
class Bounced(Exception):
    code = 5
class Sender(Counted):
    host = 'local'
    def before_start(self, task_id, args, words):
        LOG.append(f'start at {self.host}')
@app.task(base=Sender, bind=True, autoretry_for=(Bounced,), max_retries=config.RETRIES, retry_backoff=False, default_retry_delay=0)
def send(self, to, text='hi'):
    if to == 'nobody':
        raise Bounced(self.request.retries)
    return f'{to}: {text} via {self.host}'
@app.task(rate_limit=config.RATE, ignore_result=False, queue='slow')
def render(name, n=1):
    return name.title() * n
@shared_task(name='tasks.digest')
def digest(size=2):
    return [render(name) for name in ('ann', 'bob', 'cy')[:size]]
@app.task
def total(results, sep='+'):
    return sep.join(map(str, results))
FLOW = render.s('ann') | send.s(text='bye')
MANY = chord([render.s(name, n=2) for name in ('x', 'y')], total.s(sep='/'))
LATER = send.signature(('bob',), {'text': 'later'}, countdown=config.SIZE, queue=config.QUEUES[1])
BOTH = group(render.si(name) for name in config.QUEUES)
""",
}
MAIL_M = """\
from mail import app
from mail.app import LOG
from mail.tasks import BOTH, FLOW, LATER, MANY, digest, render, send, total
NAMES = sorted(name for name in app.tasks if not name.startswith('celery.'))
OPTIONS = {name: (app.tasks[name].rate_limit, app.tasks[name].max_retries, getattr(app.tasks[name], 'queue', None)) for name in NAMES}
def run(task, *args, **words):
    LOG.clear()
    found = task.apply(args, words)
    return str(found.result), found.state, list(LOG)
"""
MAIL_USE = "m.run(m.send, 'ann'), m.run(m.digest), m.FLOW.apply().get()\n@m.app.task(name='runtime')\ndef runtime(): return 1\n"
MAIL_PROBES = (
    "m.run(m.send, 'ann'), m.run(m.send, 'nobody'), m.run(m.send, 'bob', text='x')", "m.run(m.render, 'a', 2), m.run(m.digest), m.run(m.digest, 1), m.run(m.total, [1, 2])", "m.FLOW.apply().get(), m.MANY.apply().get(), m.BOTH.apply().get()", "dict(m.LATER), m.LATER.options, [str(t) for t in m.FLOW.tasks], [str(t) for t in m.BOTH.tasks]", "sorted(n for n in m.app.tasks if not n.startswith('celery.') and n != 'runtime'), [n for n in m.NAMES if n != 'runtime'], sorted((n, o) for n, o in m.OPTIONS.items() if n != 'runtime')",
    "[(n, m.app.tasks[n].rate_limit, m.app.tasks[n].max_retries, getattr(m.app.tasks[n], 'queue', None), m.app.tasks[n].ignore_result, type(m.app.tasks[n]).__mro__[1].__name__) for n in sorted(m.app.tasks) if not n.startswith('celery.') and n != 'runtime']", "m.app.conf.beat_schedule, m.app.conf.task_routes, [(q.name, q.routing_key) for q in m.app.conf.task_queues], m.app.conf.timezone", "m.send.host, m.send.rate, m.send.autoretry_for if hasattr(m.send, 'autoretry_for') else 0, app.Counted.rate, m.app.main, tasks.Bounced.code", "m.app.gen_task_name('x', 'a.b'), m.app.signature('tasks.render', ['q']).apply().get()",
)  # fmt: skip
MAIL_EDITS = edits_of(
    "mail",
    MAIL_M,
    [
        ("a rate in a configuration", "RATE = '10/m'", "RATE = '20/m'", MAIL_PROBES, {"edited": "mail.config"}),
        ("a queue more", "['fast', 'slow']", "['fast', 'slow', 'bulk']", MAIL_PROBES, {"edited": "mail.config"}),
        ("an hour", "HOUR = 7", "HOUR = 9", MAIL_PROBES, {"edited": "mail.config"}),
        ("a size", "SIZE = 3", "SIZE = 2", MAIL_PROBES, {"edited": "mail.config"}),
        ("a number of retries", "RETRIES = 2", "RETRIES = 1", MAIL_PROBES, {"edited": "mail.config"}),
        ("a time zone", "timezone = 'UTC'", "timezone = 'Europe/Berlin'", MAIL_PROBES, {"edited": "mail.config"}),
        ("a call of a base", "f'{self.name} call'", "f'call {self.name}'", MAIL_PROBES, {"edited": "mail.app"}),
        ("a failure of a base", "{type(error).__name__} in", "{type(error).__name__} of", MAIL_PROBES, {"edited": "mail.app"}),
        ("a rate of a base", "rate = config.RATE", "rate = '1/s'", MAIL_PROBES, {"edited": "mail.app"}),
        ("how tasks are named", 'module.rpartition(".")[2]', 'module.replace(".", "-")', MAIL_PROBES, {"edited": "mail.app"}),
        ("a name of the application", "Mail('mail'", "Mail('post'", MAIL_PROBES, {"edited": "mail.app"}),
        ("a routing key", "{name}.#", "{name}.*", MAIL_PROBES, {"edited": "mail.app"}),
        ("a minute of a schedule", "minute=0", "minute=30", MAIL_PROBES, {"edited": "mail.app"}),
        ("a schedule more", "'digest': {", "'total': {'task': 'tasks.total', 'schedule': schedule(60), 'args': ([],)}, 'digest': {", MAIL_PROBES, {"edited": "mail.app"}),
        ("a route", "'tasks.*'", "'tasks.s*'", MAIL_PROBES, {"edited": "mail.app"}),
        ("a receiver's body", "f'before {task.name}'", "f'Before {task.name}'", MAIL_PROBES, {"edited": "mail.app"}),
        ("a receiver less", "@task_prerun.connect\n", "", MAIL_PROBES, {"edited": "mail.app"}),
        ("a receiver of another signal", "@task_prerun.connect", "@task_postrun.connect", MAIL_PROBES, {"edited": "mail.app"}),
        ("a code of an error", "code = 5", "code = 6", MAIL_PROBES, {"edited": "mail.tasks"}),
        ("a host of a task's class", "host = 'local'", "host = 'relay'", MAIL_PROBES, {"edited": "mail.tasks"}),
        ("another base of a task", "base=Sender, bind", "base=Counted, bind", MAIL_PROBES[1:3], {"edited": "mail.tasks"}),
        ("a hook of a task's class", "f'start at {self.host}'", "f'begin at {self.host}'", MAIL_PROBES, {"edited": "mail.tasks"}),
        ("an error less that retries", "(Bounced,)", "(KeyError,)", MAIL_PROBES, {"edited": "mail.tasks"}),
        ("a body of a bound task", "via {self.host}", "by {self.host}", MAIL_PROBES, {"edited": "mail.tasks"}),
        ("a default of a bound task", "text='hi'", "text='hello'", MAIL_PROBES, {"edited": "mail.tasks"}),
        ("a task that is no longer bound", "bind=True, ", "", MAIL_PROBES, {"edited": "mail.tasks", "more": [("mail.tasks", "def send(self, to", "def send(to"), ("mail.tasks", "Bounced(self.request.retries)", "Bounced()"), ("mail.tasks", " via {self.host}", "")]}),
        ("a queue of a task", "queue='slow')", "queue='fast')", MAIL_PROBES, {"edited": "mail.tasks"}),
        ("a default of a task", "n=1", "n=3", MAIL_PROBES, {"edited": "mail.tasks"}),
        ("a parameter is renamed with its signatures", "def render(name, n=1):\n    return name.title() * n", "def render(name, times=1):\n    return name.title() * times", MAIL_PROBES, {"edited": "mail.tasks", "more": [("mail.tasks", "n=2)", "times=2)")]}),
        ("a shared task's body", "('ann', 'bob', 'cy')", "('dan', 'eve', 'flo')", MAIL_PROBES, {"edited": "mail.tasks"}),
        ("a shared task's name", "name='tasks.digest'", "name='tasks.summary'", MAIL_PROBES, {"edited": "mail.tasks"}),
        ("a separator of a chord", "sep='/'", "sep='-'", MAIL_PROBES, {"edited": "mail.tasks"}),
        ("a link more of a chain", "send.s(text='bye')", "send.s(text='bye') | render.s()", MAIL_PROBES, {"edited": "mail.tasks"}),
        ("an option of a signature", "countdown=config.SIZE", "countdown=config.SIZE * 2, expires=9", MAIL_PROBES, {"edited": "mail.tasks"}),
        ("an immutable signature", "render.si(name)", "render.s(name)", MAIL_PROBES, {"edited": "mail.tasks"}),
        ("a task more", "FLOW = ", "@app.task\ndef sign(text):\n    return text + '!'\nFLOW = ", (*MAIL_PROBES, "tasks.sign.apply(('a',)).get()"), {"edited": "mail.tasks"}),
        ("a task less", "@app.task\ndef total(results", "def total(results", MAIL_PROBES[:2], {"edited": "mail.tasks", "more": [("mail.tasks", "MANY = chord([render.s(name, n=2) for name in ('x', 'y')], total.s(sep='/'))\n", "MANY = None\n")]}),
        ("what a run returns", "str(found.result)", "repr(found.result)", MAIL_PROBES),
    ],
    others=MAIL,
    needs=("celery",),
    use=MAIL_USE,
)  # fmt: skip

FLOW = {
    "flow.__init__": "from . import hooks as _hooks\nfrom .nodes import *\nfrom .nodes import __all__ as _names\nfrom .engine import Engine, engine\n__all__ = [*_names, 'Engine', 'engine']\n",
    "flow.hooks": """\
import contextlib, functools, inspect, sys, threading, types, typing, warnings
VERBOSE = False
TRACE = []
class Hooks(types.ModuleType):
    @property
    def level(self):
        return 2 if self.VERBOSE else 1
    def __call__(self, name):
        return self.TABLE.get(name, [])
TABLE = {}
sys.modules[__name__].__class__ = Hooks
def on(*names, order=0, once=False):
    def add(function):
        for name in names:
            TABLE.setdefault(name, []).append((order, function))
            TABLE[name].sort(key=lambda pair: pair[0])
        function.hooked = names
        return function
    return add
def fire(name, *args, **words):
    return [function(*args, **words) for _, function in TABLE.get(name, [])]
def traced(function=None, *, label='trace'):
    if function is None:
        return functools.partial(traced, label=label)
    @functools.wraps(function)
    def wrapper(*args, **words):
        TRACE.append(f'{label} {function.__name__}')
        return function(*args, **words)
    wrapper.plain = function
    return wrapper
class lazy:
    def __init__(self, function):
        self.function = function
    def __set_name__(self, owner, name):
        self.name = name
        owner.lazies = (*getattr(owner, 'lazies', ()), name)
    def __get__(self, item, owner):
        if item is None:
            return self
        value = item.__dict__[self.name] = self.function(item)
        return value
@contextlib.contextmanager
def swapped(table, **new):
    old = dict(table)
    table.update(new)
    try:
        yield table
    finally:
        table.clear()
        table.update(old)
local = threading.local()
""",
    "flow.meta": """\
import abc, enum
from collections import ChainMap
class Registry(abc.ABCMeta):
    kinds = {}
    def __prepare__(name, bases, **words):
        return ChainMap({}, {'port': Port})
    def __new__(mcls, name, bases, space, tag=None, **words):
        cls = super().__new__(mcls, name, bases, dict(space.maps[0]), **words)
        cls.tag = tag or name.lower()
        cls.ports = [key for key, value in space.maps[0].items() if isinstance(value, Port)]
        if not getattr(cls, '__abstractmethods__', None):
            mcls.kinds[cls.tag] = cls
        return cls
    def __call__(cls, *args, **words):
        key = cls, args
        if cls.single and key in cls.made:
            return cls.made[key]
        cls.made[key] = item = super().__call__(*args, **words)
        return item
    def __iter__(cls):
        return iter(cls.ports)
    def __getitem__(cls, tag):
        return cls.kinds[tag]
class Port:
    width = 8
    def __init__(self, kind=int, /, *, default=None):
        self.kind, self.default = kind, default
    def __set_name__(self, owner, name):
        self.name = name
    def __get__(self, item, owner=None):
        return self if item is None else item.values.get(self.name, self.default)
    def __set__(self, item, value):
        item.values[self.name] = self.kind(value)
    def __repr__(self):
        return f'{self.name}:{self.kind.__name__}/{self.width}'
class Mode(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()
    BOTH = READ | WRITE
    def __str__(self):
        return self.name.lower()
MODES = {mode: str(mode) for mode in (Mode.READ, Mode.WRITE, Mode.BOTH)}
""",
    "flow.nodes": """\
import abc, asyncio, copy, functools, math, operator
from functools import cached_property, partial, partialmethod, reduce, singledispatchmethod
from itertools import accumulate, chain, count
from string import Template
from typing import Any, Callable, Literal, get_args
from .hooks import TRACE, lazy, on, traced
from .meta import MODES, Mode, Port, Registry
Op = Literal['add', 'mul']
OPS: dict[str, Callable] = {name: getattr(operator, name) for name in get_args(Op)}
__all__ = ['Node', 'Const', 'Calc', 'Text', 'OPS']
SCALE = 10
GREETING = Template('hello $name')
class Node(metaclass=Registry, tag='node'):
    single, made = False, {}
    mode = Mode.READ
    def __init__(self, **values):
        self.values = {}
        for key, value in values.items():
            setattr(self, key, value)
    @abc.abstractmethod
    def run(self, data): ...
    def __or__(self, other):
        return lambda data: other.run(self.run(data))
    def __init_subclass__(cls, weight=1, **words):
        super().__init_subclass__(**words)
        cls.weight = weight * SCALE
    @lazy
    def label(self):
        return f'{type(self).__name__}-{MODES[self.mode]}'
    @singledispatchmethod
    def show(self, value, sep=', '):
        return f'{value!r}'
    @show.register
    def _(self, value: list, sep=', '):
        return sep.join(map(self.show, value))
    @show.register(int)
    def _(self, value, sep=', '):
        return f'{value:03d}'
class Const(Node):
    single = True
    value = port(int, default=7)
    def __init__(self, value=7):
        super().__init__(value=value)
    def run(self, data):
        return self.value
class Calc(Node, tag='calculator', weight=3):
    mode = Mode.BOTH
    left = port(float, default=1.0)
    op = port(str, default='add')
    @traced(label='calc')
    def run(self, data):
        return OPS[self.op](self.left, data)
    double = partialmethod(lambda self, data, n: self.run(data) * n, n=2)
    @property
    def sign(self):
        return '+' if self.op == 'add' else '*'
class Text(Node, weight=2):
    @traced
    def run(self, data):
        return GREETING.substitute(name=data)
    @staticmethod
    def shout(text, times=1):
        return text.upper() + '!' * times
    @classmethod
    def make(cls, **words):
        return cls(**words)
FACTORIES = {kind.tag: partial(kind) for kind in Registry.kinds.values()}
CHAIN = Const(5) | Calc(left=2, op='mul')
WEIGHTS = list(accumulate(kind.weight for kind in Registry.kinds.values()))
def tags(*, sort=True):
    found = (kind.tag for kind in Registry.kinds.values() if kind.tag != 'late')
    return sorted(found) if sort else list(found)
@on('start', 'stop', order=2)
def note(name):
    return f'{name} of {len(FACTORIES)}'
class Area:
    __match_args__ = ('w', 'h')
    __slots__ = ('w', 'h')
    def __init__(self, w, h):
        self.w, self.h = w, h
    def __eq__(self, other):
        return (self.w, self.h) == (other.w, other.h)
    __hash__ = None
    def kind(self):
        match self:
            case Area(0, _) | Area(_, 0):
                return 'empty'
            case Area(w, h) if w == h:
                return 'square'
            case Area():
                return 'area'
""",
    "flow.engine": """\
import asyncio, collections, contextlib, dataclasses, functools, heapq, weakref
from dataclasses import InitVar, dataclass, field
from . import hooks
from .hooks import fire, local, on, swapped
from .meta import Registry
from .nodes import CHAIN, FACTORIES, Area, Calc, Const, Node, tags
@functools.lru_cache(maxsize=8)
def plan(*names):
    return tuple(sorted(names, key=lambda name: FACTORIES[name]().weight))
@dataclass(order=True)
class Job:
    priority: int
    name: str = field(compare=False, default='job')
    scale: InitVar[int] = 1
    cost: int = field(init=False, compare=False)
    def __post_init__(self, scale):
        self.cost = self.priority * scale * 2
class Engine:
    live = weakref.WeakValueDictionary()
    defaults = collections.ChainMap({'speed': 1}, {'speed': 5, 'depth': 2})
    def __new__(cls, name='main'):
        if name in cls.live:
            return cls.live[name]
        self = cls.live[name] = super().__new__(cls)
        self.jobs, self.log, self.name = [], [], name
        return self
    def add(self, *jobs):
        for job in jobs:
            heapq.heappush(self.jobs, job)
        return self
    def __iter__(self):
        jobs = list(self.jobs)
        while jobs:
            yield heapq.heappop(jobs)
    def __getattr__(self, name):
        if name in self.defaults:
            return self.defaults[name]
        raise AttributeError(name)
    async def run(self, *items):
        async def one(item):
            await asyncio.sleep(0)
            return CHAIN(item) * self.speed
        return await asyncio.gather(*map(one, items))
    async def stream(self, n):
        for number in range(n):
            yield await self.step(number)
    async def step(self, number):
        return number + self.depth
    @contextlib.contextmanager
    def session(self, **defaults):
        with swapped(self.defaults.maps[0], **defaults):
            fire('start', self.name)
            yield self
engine = Engine().add(Job(3, 'c'), Job(1, 'a', scale=4))
@on('start')
def started(name):
    local.name = name
    return f'started {name}'
@on('start', order=1)
def counted(name):
    return len(engine.jobs)
NAMES = [name for name in ('calculator', 'const', 'text') if name in tags()]
def guard(limit=len(NAMES)):
    def check(items):
        nonlocal limit
        limit -= len(items)
        return limit >= 0
    return check
CHECK = guard()
LAST = plan(*NAMES)
""",
}
FLOW_M = """\
import asyncio, flow
from flow import *
from flow import hooks
from flow.engine import CHECK, Job, NAMES, guard
for _index, _name in enumerate(NAMES):
    globals()[f'NODE_{_index}'] = FACTORIES[_name] if 'FACTORIES' in globals() else flow.nodes.FACTORIES[_name]
exec('\\n'.join(f'def is_{name}(node): return isinstance(node, flow.nodes.Registry.kinds[{name!r}])' for name in NAMES))
class Late(flow.Calc, tag='late'):
    def run(self, data):
        return -super().run(data)
STARTED = hooks.fire('start', 'main')
if (SIZE := len(flow.__all__)) > 5:
    MANY = True
else:
    MANY = False
def drive(*items):
    async def stream():
        return [item async for item in engine.stream(2)]
    return asyncio.run(engine.run(*items)), asyncio.run(stream())
"""
FLOW_USE = "m.drive(1, 2), engine.plan('const', 'text'), m.CHECK([]), nodes.Const(5).label, hooks.fire('stop', 'x')\nKEPT = nodes.Calc(left=3)\nKEPT.run(1), KEPT.label\nclass Runtime(nodes.Text, tag='runtime'): pass\nmeta.Registry.kinds.pop('runtime')\nhooks.on('other')(lambda: 1)\nhooks.TABLE.pop('other')\n"
FLOW_PROBES = (
    "m.drive(1, 2), engine.plan('const', 'text', 'calculator'), engine.LAST, engine.NAMES, m.SIZE, m.MANY", "hooks.level, [(o, f.__name__) for o, f in hooks('start')], [(o, f.__name__) for o, f in hooks('stop')], m.STARTED, hooks.fire('start', 'q'), hooks.fire('stop', 'q')", "sorted(meta.Registry.kinds), [k.__name__ for k in meta.Registry.kinds.values()], [(k.tag, k.weight, list(k), k.lazies) for k in meta.Registry.kinds.values()], nodes.WEIGHTS, sorted(nodes.FACTORIES), nodes.tags(), nodes.tags(sort=False)",
    "nodes.Const(5) is nodes.Const(5), nodes.Const().value, nodes.Calc().run(2), nodes.Calc(left=3, op='mul').double(2), nodes.Calc().label, nodes.Text().run('bob'), nodes.Text.shout('a'), nodes.Text.make().label, m.Late(left=1).run(1), m.Late().label", "[repr(vars(nodes.Calc)[n]) for n in nodes.Calc], nodes.CHAIN(1), nodes.Calc().show([1, 'a', [2]]), nodes.Calc(op='mul').sign, list(nodes.OPS), meta.Registry.kinds['const'] is nodes.Const", "(hooks.TRACE.clear(), nodes.Calc().run(1), nodes.Text().run('x'), list(hooks.TRACE))[1:], nodes.Text.run.plain.__name__, nodes.note.hooked",
    "[(str(x), x.value) for x in meta.Mode], meta.MODES, nodes.Node.mode is meta.Mode.READ, nodes.Calc.mode", "engine.Job(2), [j.name for j in engine.engine], engine.Job(1) < engine.Job(2, 'a'), engine.Engine() is engine.engine, engine.engine.speed, engine.engine.depth, dict(engine.Engine.defaults)", "[(e.speed, hooks.local.name) for e in [engine.engine.session(speed=9).__enter__()]], engine.guard()([1]), engine.guard.__defaults__", "(engine.Engine.defaults.maps[0].update(speed=1), nodes.Area(0, 1).kind(), nodes.Area(1, 1).kind(), nodes.Area(1, 2).kind())[1:]",
    "sorted(flow.__all__), sorted(n for n in vars(m) if n.startswith(('NODE', 'is_'))), m.NODE_0().tag, m.is_const(nodes.Const()), m.Engine is engine.Engine, m.engine is engine.engine",
)  # fmt: skip
FLOW_EDITS = edits_of(
    "flow",
    FLOW_M,
    [
        ("a flag that a module's property reads", "VERBOSE = False", "VERBOSE = True", FLOW_PROBES, {"edited": "flow.hooks"}),
        ("a property of a module's class", "return 2 if", "return 3 if", FLOW_PROBES, {"edited": "flow.hooks"}),
        ("a default order of hooks", "order=0, once", "order=5, once", FLOW_PROBES, {"edited": "flow.hooks"}),
        ("how hooks are sorted", "key=lambda pair: pair[0]", "key=lambda pair: -pair[0]", FLOW_PROBES, {"edited": "flow.hooks"}),
        ("an attribute of hooked functions", "function.hooked = names", "function.hooked = names[:1]", FLOW_PROBES, {"edited": "flow.hooks"}),
        ("a default label of a decorator", "label='trace'", "label='run'", FLOW_PROBES, {"edited": "flow.hooks"}),
        ("a wrapper that counts", "f'{label} {function.__name__}'", "f'{function.__name__} {label}'", FLOW_PROBES, {"edited": "flow.hooks"}),
        ("a descriptor that does not store", "value = item.__dict__[self.name] = self.function(item)", "value = self.function(item)", FLOW_PROBES, {"edited": "flow.hooks"}),
        ("what a descriptor tells its owner", "(*getattr(owner, 'lazies', ()), name)", "(name, *getattr(owner, 'lazies', ()))[:1]", FLOW_PROBES, {"edited": "flow.hooks"}),
        ("a context manager's body", "    old = dict(table)\n    table.update(new)", "    old = dict(table)\n    table.update({key: value + 1 for key, value in new.items()})", FLOW_PROBES, {"edited": "flow.hooks"}),
        ("how a metaclass tags", "tag or name.lower()", "tag or name.upper()", FLOW_PROBES, {"edited": "flow.meta"}),
        ("what a metaclass collects", "isinstance(value, Port)]", "isinstance(value, Port)][::-1]", FLOW_PROBES, {"edited": "flow.meta"}),
        ("what a metaclass iterates", "iter(cls.ports)", "iter(cls.ports[:1])", FLOW_PROBES, {"edited": "flow.meta"}),
        ("no single objects", "if cls.single and key", "if False and key", FLOW_PROBES, {"edited": "flow.meta"}),
        ("a width of ports", "width = 8", "width = 16", FLOW_PROBES, {"edited": "flow.meta"}),
        ("a port's text", "{self.name}:{self", "{self.name}={self", FLOW_PROBES, {"edited": "flow.meta"}),
        ("how a port converts", "self.kind(value)", "self.kind(value) * 2", FLOW_PROBES, {"edited": "flow.meta"}),
        ("a mode more", "    BOTH = READ | WRITE", "    EXEC = enum.auto()\n    BOTH = READ | WRITE", FLOW_PROBES, {"edited": "flow.meta"}),
        ("a text of modes", "self.name.lower()", "self.name.title()", FLOW_PROBES, {"edited": "flow.meta"}),
        ("an operation more", "Literal['add', 'mul']", "Literal['add', 'mul', 'sub']", FLOW_PROBES, {"edited": "flow.nodes"}),
        ("an exported name more", "'Text', 'OPS']", "'Text', 'OPS', 'FACTORIES']", FLOW_PROBES, {"edited": "flow.nodes"}),
        ("a scale of weights", "SCALE = 10", "SCALE = 100", FLOW_PROBES, {"edited": "flow.nodes"}),
        ("a template", "'hello $name'", "'hi $name'", FLOW_PROBES, {"edited": "flow.nodes"}),
        ("a default weight of subclasses", "weight=1, **words", "weight=4, **words", FLOW_PROBES, {"edited": "flow.nodes"}),
        ("how subclasses weigh", "weight * SCALE", "weight + SCALE", FLOW_PROBES, {"edited": "flow.nodes"}),
        ("a mode of a base", "    mode = Mode.READ", "    mode = Mode.WRITE", FLOW_PROBES, {"edited": "flow.nodes"}),
        ("a lazy label", "f'{type(self).__name__}-", "f'{type(self).__name__}/", FLOW_PROBES, {"edited": "flow.nodes"}),
        ("a dispatched method", ":03d}", ":04d}", FLOW_PROBES, {"edited": "flow.nodes"}),
        ("a dispatch on another type", "show.register(int)", "show.register(str)", FLOW_PROBES, {"edited": "flow.nodes", "more": [("flow.nodes", "f'{value:03d}'", "f'<{value}>'")]}),
        ("a port's default", "port(int, default=7)", "port(int, default=8)", (*FLOW_PROBES, "nodes.Const.value.default"), {"edited": "flow.nodes"}),
        ("a constant's default", "value=7):", "value=9):", FLOW_PROBES, {"edited": "flow.nodes"}),
        ("a port more", "    op = port(str, default='add')", "    right = port(int, default=2)\n    op = port(str, default='add')", FLOW_PROBES, {"edited": "flow.nodes"}),
        ("a tag of a class", "tag='calculator'", "tag='calc'", FLOW_PROBES, {"edited": "flow.nodes"}),
        ("a label of a traced method", "@traced(label='calc')", "@traced(label='math')", FLOW_PROBES, {"edited": "flow.nodes"}),
        ("a trace less", "    @traced\n    def run", "    def run", (*FLOW_PROBES[:5], "hasattr(nodes.Text.run, 'plain')"), {"edited": "flow.nodes"}),
        ("a keyword of a partial method", "n=2)", "n=3)", FLOW_PROBES, {"edited": "flow.nodes"}),
        ("a lambda of a partial method", "self.run(data) * n", "self.run(data) + n", FLOW_PROBES, {"edited": "flow.nodes"}),
        ("a static method's default", "text, times=1", "text, times=2", FLOW_PROBES, {"edited": "flow.nodes"}),
        ("a static method becomes a class method", "    @staticmethod\n    def shout(text, times=1):\n        return text.upper() + '!' * times", "    @classmethod\n    def shout(cls, text, times=1):\n        return text.upper() + cls.tag * times", FLOW_PROBES, {"edited": "flow.nodes"}),
        ("a node more", "FACTORIES = ", "class Echo(Node):\n    def run(self, data):\n        return data\nFACTORIES = ", FLOW_PROBES, {"edited": "flow.nodes"}),
        ("a node's base", "class Text(Node, weight=2)", "class Text(Calc, weight=2)", FLOW_PROBES, {"edited": "flow.nodes"}),
        ("a chain's argument", "Calc(left=2, op='mul')", "Calc(left=3, op='mul')", FLOW_PROBES, {"edited": "flow.nodes"}),
        ("names of a hook", "@on('start', 'stop', order=2)", "@on('stop', order=2)", FLOW_PROBES, {"edited": "flow.nodes"}),
        ("positions of a match", "('w', 'h')\n    __slots__", "('h', 'w')\n    __slots__", FLOW_PROBES, {"edited": "flow.nodes"}),
        ("a case of a match", "if w == h", "if w >= h", FLOW_PROBES, {"edited": "flow.nodes"}),
        ("a slot more", "__slots__ = ('w', 'h')", "__slots__ = ('w', 'h', 'd')", FLOW_PROBES, {"edited": "flow.nodes"}),
        ("a key of a cached plan", "().weight)", "().tag)", FLOW_PROBES, {"edited": "flow.engine"}),
        ("an initial variable's default", "scale: InitVar[int] = 1", "scale: InitVar[int] = 2", (*FLOW_PROBES, "[job.cost for job in engine.engine]"), {"edited": "flow.engine"}),
        ("what a hook after creation computes", "* scale * 2", "* scale * 3", (*FLOW_PROBES, "[job.cost for job in engine.engine]"), {"edited": "flow.engine"}),
        ("a field that compares", "field(compare=False, default='job')", "'job'", FLOW_PROBES, {"edited": "flow.engine"}),
        ("a default of an engine", "{'speed': 1}", "{'speed': 2}", FLOW_PROBES[:9], {"edited": "flow.engine"}),
        ("a job more", "Job(1, 'a', scale=4)", "Job(1, 'a', scale=4), Job(2)", FLOW_PROBES, {"edited": "flow.engine"}),
        ("a coroutine's body", "CHAIN(item) * self.speed", "CHAIN(item) - self.speed", FLOW_PROBES, {"edited": "flow.engine"}),
        ("a coroutine becomes a function with its caller", "    async def step(self, number):", "    def step(self, number):", FLOW_PROBES, {"edited": "flow.engine", "more": [("flow.engine", "yield await self.step", "yield self.step")]}),
        ("an order of a hook", "@on('start', order=1)", "@on('start', order=9)", FLOW_PROBES, {"edited": "flow.engine"}),
        ("a hook less", "@on('start')\n", "", FLOW_PROBES[:8], {"edited": "flow.engine"}),
        ("a hook is renamed", "def counted(name)", "def queued(name)", FLOW_PROBES, {"edited": "flow.engine"}),
        ("a closure's body", "limit -= len(items)", "limit -= 2 * len(items)", (*FLOW_PROBES, "m.CHECK([1])"), {"edited": "flow.engine"}),
        ("a name less in a list", "'const', 'text')", "'const')", FLOW_PROBES, {"edited": "flow.engine"}),
        ("a class of a late node", "return -super().run(data)", "return 1 - super().run(data)", FLOW_PROBES),
        ("a threshold", "> 5:", "> 9:", FLOW_PROBES),
        ("functions that are made of text", "return isinstance(node", "return not isinstance(node", FLOW_PROBES),
        ("a star import of all names", "from .nodes import *\n", "from .nodes import OPS, Calc, Const, Node, Text\n", FLOW_PROBES, {"edited": "flow.__init__"}),
    ],
    others=FLOW,
    use=FLOW_USE,
)  # fmt: skip

SUITE = {
    "suite.__init__": "",
    "suite.options": """\
import dataclasses, os
BROWSERS = ['firefox', 'chrome']
TIMEOUT = 5
@dataclasses.dataclass
class Options:
    url: str = 'http://local'
    timeout: int = TIMEOUT
    browsers: list = dataclasses.field(default_factory=lambda: list(BROWSERS))
""",
    "suite.fixtures": """\
import contextlib
import pytest
from .options import BROWSERS, Options
@pytest.fixture(scope='module')
def options(request):
    return Options(timeout=getattr(request.module, 'TIMEOUT', 9))
@pytest.fixture(params=BROWSERS, ids=lambda name: name[:2])
def browser(request, options):
    opened = {'name': request.param, 'url': options.url}
    yield opened
    opened.clear()
@pytest.fixture
def make_user():
    made = []
    def make(name='ann', **more):
        made.append(name)
        return {'name': name, 'number': len(made), **more}
    return make
""",
    "suite.plugin": """\
import pytest
from .options import TIMEOUT
DEFAULT_MARK = 'unit'
SEEN = []
def pytest_addoption(parser, pluginmanager=None):
    parser.addoption('--depth', type=int, default=TIMEOUT, help='how deep')
def pytest_configure(config):
    config.addinivalue_line('markers', 'slow: takes long')
def pytest_collection_modifyitems(config, items):
    for item in items:
        if not list(item.iter_markers('slow')):
            item.add_marker(DEFAULT_MARK)
    items.sort(key=lambda item: item.name)
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report):
    if report.when == 'call':
        SEEN.append((report.nodeid.rpartition('::')[2], report.outcome, sorted(set(report.keywords) & {'slow', DEFAULT_MARK, 'skip'})))
""",
    "suite.cases": """\
import pytest
def param(*values, slow=False, **words):
    return pytest.param(*values, marks=[pytest.mark.slow] if slow else [], **words)
SUMS = [param(1, 2, 3, id='small'), param(10, 20, 30, slow=True, id='big')]
NAMES = {'ann': 3, 'bob': 3}
known = pytest.mark.parametrize('name, size', NAMES.items(), ids=NAMES)
needs_net = pytest.mark.skipif(True, reason='no net')
""",
}
SUITE_M = """\
import pytest
from suite.cases import SUMS, known, needs_net
from suite.fixtures import browser, make_user, options
from suite.plugin import SEEN
TIMEOUT = 4
pytestmark = [pytest.mark.usefixtures('options')]
@pytest.mark.parametrize('a, b, total', SUMS)
def test_sum(a, b, total):
    assert a + b == total
@known
def test_names(name, size, make_user):
    assert len(make_user(name)['name']) == size
class TestBrowser:
    kind = 'plain'
    @pytest.fixture(autouse=True)
    def _open(self, browser):
        self.name = browser['name']
    def test_open(self, browser, options):
        assert browser['url'].startswith('http') and options.timeout < 9
    @needs_net
    def test_load(self):
        assert self.kind == 'none'
@pytest.mark.xfail(raises=ZeroDivisionError, strict=False)
def test_error(make_user):
    1 / (make_user()['number'] - 1)
"""
SUITE_SETUP = """\
import contextlib, io, pytest
def tests():
    m, plugin = sys.modules['m'], sys.modules['suite.plugin']
    plugin.SEEN.clear()
    with contextlib.redirect_stdout(io.StringIO()):
        code = pytest.main(['-q', '-p', 'no:cacheprovider', '--rootdir', m.__file__.rpartition('/')[0], '--import-mode=importlib', '-o', 'python_files=m.py', m.__file__], plugins=[plugin, Keep(m)])
    return int(code), list(plugin.SEEN)
class Keep:
    def __init__(self, module):
        self.module = module
    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makemodule(self, module_path, parent):
        found = pytest.Module.from_parent(parent, path=module_path)
        found._obj = self.module
        found.obj = self.module
        return found
"""
SUITE_PROBES = (
    "tests()", "options.Options(), options.Options().browsers, [p.id for p in m.SUMS], [len(p.marks) for p in m.SUMS]", "m.test_sum.pytestmark, m.test_names.pytestmark[0].kwargs, m.TestBrowser.test_load.pytestmark, [k.name for k in m.pytestmark]",
)  # fmt: skip
SUITE_EDITS = edits_of(
    "suite",
    SUITE_M,
    [
        ("a browser more", "['firefox', 'chrome']", "['firefox', 'chrome', 'safari']", SUITE_PROBES, {"edited": "suite.options"}),
        ("a default of options", "'http://local'", "'https://local'", SUITE_PROBES, {"edited": "suite.options"}),
        ("a default time", "TIMEOUT = 5", "TIMEOUT = 6", SUITE_PROBES, {"edited": "suite.options"}),
        ("names of parameters", "name[:2]", "name[:3]", SUITE_PROBES, {"edited": "suite.fixtures"}),
        ("a fixture's body", "'url': options.url", "'url': 'ftp'", SUITE_PROBES, {"edited": "suite.fixtures"}),
        ("a scope", "scope='module'", "scope='session'", SUITE_PROBES, {"edited": "suite.fixtures", "more": [("suite.fixtures", "getattr(request.module, 'TIMEOUT', 9)", "7")]}),
        ("a fixture is used automatically", "@pytest.fixture\ndef make_user", "@pytest.fixture(autouse=True)\ndef make_user", SUITE_PROBES, {"edited": "suite.fixtures"}),
        ("what a fixture makes", "'number': len(made)", "'number': len(made) + 1", SUITE_PROBES, {"edited": "suite.fixtures"}),
        ("a fixture is renamed with its users", "def make_user():", "def new_user():", SUITE_PROBES, {"edited": "suite.fixtures", "more": [("m", "browser, make_user, options", "browser, new_user, options"), ("m", "name, size, make_user", "name, size, new_user"), ("m", "make_user(name)", "new_user(name)"), ("m", "test_error(make_user)", "test_error(new_user)"), ("m", "make_user()", "new_user()")]}),
        ("a mark by default", "DEFAULT_MARK = 'unit'", "DEFAULT_MARK = 'quick'", SUITE_PROBES, {"edited": "suite.plugin"}),
        ("an order of items", "item.name)", "item.name, reverse=True)", SUITE_PROBES, {"edited": "suite.plugin"}),
        ("a phase of reports", "report.when == 'call'", "report.when == 'setup'", SUITE_PROBES, {"edited": "suite.plugin"}),
        ("an option of a hook", "tryfirst=True", "trylast=True", SUITE_PROBES, {"edited": "suite.plugin"}),
        ("a case more", "SUMS = [", "SUMS = [param(0, 0, 0), ", SUITE_PROBES, {"edited": "suite.cases"}),
        ("a mark that a function sets", "marks=[pytest.mark.slow] if slow else []", "marks=[pytest.mark.slow] if not slow else []", SUITE_PROBES, {"edited": "suite.cases"}),
        ("a name more", "'bob': 3}", "'bob': 3, 'cy': 1}", SUITE_PROBES, {"edited": "suite.cases"}),
        ("a condition", "skipif(True", "skipif(False", SUITE_PROBES, {"edited": "suite.cases"}),
        ("a time of a module", "TIMEOUT = 4", "TIMEOUT = 9", SUITE_PROBES),
        ("a test's body", "a + b == total", "a + b < total", SUITE_PROBES),
        ("a test less", "@known\ndef test_names(name, size, make_user):\n    assert len(make_user(name)['name']) == size\n", "", SUITE_PROBES[:1]),
        ("a test that becomes a fixture's user", "def test_sum(a, b, total):", "def test_sum(a, b, total, browser):", SUITE_PROBES),
        ("an expected error", "raises=ZeroDivisionError", "raises=KeyError", SUITE_PROBES),
        ("an attribute of a class of tests", "kind = 'plain'", "kind = 'none'", SUITE_PROBES, {"more": [("m", "    @needs_net\n", "")]}),
    ],
    others=SUITE,
    needs=("pytest",),
    setup=SUITE_SETUP,
    use="tests()",
)  # fmt: skip

CALL_SETUP = """\
from fastapi.testclient import TestClient
def call(path, **headers):
    found = TestClient(sys.modules['m'].app, raise_server_exceptions=False).get(path, headers=headers)
    return found.status_code, found.text
"""
ROLE = """\
from typing import Annotated
from fastapi import Depends, FastAPI
from fastapi.security import APIKeyHeader
key = APIKeyHeader(name='X-A', auto_error=False)
def role(key: Annotated[str | None, Depends(key)] = None):
    return key or 'guest'
app = FastAPI()
@app.get('/')
def index(role: Annotated[str, Depends(role)]):
    return role if isinstance(role, str) else 'a coroutine'
"""
ROLE_PROBES = "call('/'), call('/', **{'X-A': 'ann'}), call('/', **{'X-B': 'bob'})"
RECORDED = """\
from flask import Blueprint
bp = Blueprint('b', __name__)
@bp.record_once
def setup(state):
    state.app.config['ORDER'] = 'name'
"""
QUEUED = """\
from celery import Celery, shared_task
RATE = '10/m'
class Mail(Celery):
    def gen_task_name(self, name, module):
        return 'a.' + name
app = Mail('x', set_as_current=True)
@app.task(rate_limit=RATE)
def render(n):
    return n
@shared_task(name='digest')
def digest():
    return 1
"""
QUEUED_M = "from jobs import app\nRATES = {name: task.rate_limit for name, task in app.tasks.items() if name[:7] != 'celery.'}\n"
KINDS = [
    *edits_of("role", ROLE, [
        ("an asynchronous dependency", "def role(", "async def role(", [ROLE_PROBES]),
        ("a dependency that yields", "return key or", "yield key or", [ROLE_PROBES]),
        ("what an annotation of a dependency names", "'X-A'", "'X-B'", [ROLE_PROBES]),
    ], needs=("fastapi", "httpx2"), setup=CALL_SETUP),
    *edits_of("record", "from flask import Flask\nimport blue\napp = Flask('x')\napp.register_blueprint(blue.bp)\n", [
        ("a function that is called once", "'name'", "'price'", ["m.app.config['ORDER']"]),
    ], needs=("flask",), others={"blue": RECORDED}, edited="blue"),
    *edits_of("jobs", QUEUED_M, [
        ("a rate", "'10/m'", "'20/m'", ["sorted(m.RATES.items(), key=str)"]),
        ("a name of a shared task", "'digest'", "'summary'", ["sorted(m.RATES.items(), key=str)"]),
        ("how tasks are named", "'a.'", "'b.'", ["sorted(m.RATES.items(), key=str), jobs.render.name"]),
        ("a shared task less", "@shared_task(name='digest')\n", "", ["sorted(m.RATES.items(), key=str)"], {"expects": "reported"}),
    ], needs=("celery",), others={"jobs": QUEUED}, edited="jobs"),
]  # fmt: skip

ALL = with_expected(
    [
        *KINDS,
        *PAYROLL_EDITS,
        *DESK_EDITS,
        *SHOP_EDITS,
        *FARM_EDITS,
        *CLUB_EDITS,
        *TOOLS_EDITS,
        *MAIL_EDITS,
        *FLOW_EDITS,
        *SUITE_EDITS,
    ],
    false=[
        "desk: a validator before",
        "desk: a validator after",
        "desk: a sample more",
        "shop: a default configuration",
        "shop: a lambda at the end of requests",
        "farm: how tables are named",
        "farm: a food's value",
        "club: a manager's query",
        "flow: what a descriptor tells its owner",
        "flow: what a metaclass iterates",
        "flow: no single objects",
        "flow: a port's text",
        "flow: a text of modes",
        "flow: an exported name more",
        "flow: a dispatch on another type",
        "flow: a node's base",
        "flow: a field that compares",
        "flow: functions that are made of text",
        "suite: an option of a hook",
    ],
    reported=[
        "payroll: a rate that many derive from",
        "payroll: a number of weeks",
        "payroll: a fallback's value",
        "payroll: a rounding",
        "payroll: a key of a rule",
        "payroll: an order of rules",
        "payroll: a rule more",
        "payroll: a rule less",
        "payroll: a share of a rule",
        "payroll: a constructor's default of a rule",
        "payroll: a member's rate",
        "payroll: a column more",
        "payroll: a subclass's own method",
        "payroll: a constant moves to another module",
        "payroll: a constant moves and its new home loads first",
        "payroll: a local module for a fallback",
        "desk: a pattern of a constraint",
        "desk: a priority more",
        "desk: a priority's number",
        "desk: a kind of body more",
        "desk: a field with a default in a base model",
        "desk: an extra that is ignored",
        "desk: a field validator less",
        "desk: a model validator's body",
        "desk: what a model's hook collects",
        "desk: a method of a store",
        "shop: a value of a configuration",
        "shop: an inherited value of a configuration",
        "shop: an extension less in a factory",
        "shop: a started value",
        "shop: a path in a table",
        "shop: a path of a nested blueprint",
        "shop: a template that another extends",
        "shop: a used template",
        "shop: a sign",
        "shop: a filter's body",
        "shop: a filter's name",
        "shop: a keyword of a global",
        "shop: a keyword is renamed with its partial",
        "shop: a hook less",
        "shop: a decorator's default",
        "shop: an attribute of a wrapper",
        "shop: a handler of another error",
        "shop: a handler less",
        "shop: a default at registration",
        "shop: a decorator of a view class",
        "shop: a decorator of a view's method",
        "shop: a method of a view more",
        "shop: methods of a listing",
        "shop: an argument of a view",
        "shop: defaults of a rule",
        "shop: a view is renamed",
        "shop: a role of a view",
        "shop: a docstring of a command",
        "shop: a hook of a nested blueprint less",
        "shop: a name of a signal",
        "shop: a function moves to another module",
        "farm: a length that types use",
        "farm: a default of a mixin",
        "farm: a column more of a mixin",
        "farm: a session that flushes",
        "farm: a naming convention",
        "farm: a limit in a query",
        "farm: a lambda of a column",
        "farm: an order of a relationship",
        "farm: a cascade",
        "farm: a creator of a proxy",
        "farm: a constraint",
        "farm: a column less with its index",
        "farm: a default of a column",
        "farm: a lazy backref",
        "farm: a column property",
        "farm: a synonym more",
        "farm: an expression of a hybrid",
        "farm: a hybrid that becomes a property",
        "farm: a validator of another column",
        "farm: an identity",
        "farm: a default of a joined table",
        "farm: a listener that does not propagate",
        "farm: a listener of another collection",
        "farm: a listener of another class",
        "club: a level more",
        "club: a label of a level",
        "club: a length of titles",
        "club: a method of a query set that managers have",
        "club: a message of a validator",
        "club: a number of seats",
        "club: an order of courses",
        "club: a constraint's fields",
        "club: an option of an abstract base",
        "club: a field more",
        "club: a related name",
        "club: a default price",
        "club: a sender of a receiving object",
        "club: a registration of another admin",
        "club: a model that is no longer registered",
        "club: a name of the application",
        "ops: a format more",
        "ops: an order of formats",
        "mail: a queue more",
        "mail: an hour",
        "mail: a size",
        "mail: a name of the application",
        "flow: a default label of a decorator",
        "flow: how a metaclass tags",
        "flow: what a metaclass collects",
        "flow: how a port converts",
        "flow: a scale of weights",
        "flow: a default weight of subclasses",
        "flow: how subclasses weigh",
        "flow: a mode of a base",
        "flow: a port's default",
        "flow: a constant's default",
        "flow: a port more",
        "flow: a tag of a class",
        "flow: a label of a traced method",
        "flow: a trace less",
        "flow: a keyword of a partial method",
        "flow: a lambda of a partial method",
        "flow: a node more",
        "flow: names of a hook",
        "flow: a key of a cached plan",
        "flow: an initial variable's default",
        "flow: what a hook after creation computes",
        "flow: a job more",
        "flow: an order of a hook",
        "flow: a hook less",
        "flow: a hook is renamed",
        "flow: a name less in a list",
        "suite: a mark that a function sets",
        "suite: a name more",
    ],
)
