"""Edits of a game of several modules: rules in a registry, states, units made by kind, and settings."""

from edit_cases import edits_of, with_expected

GAME_M = """\
import functools
import heapq
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from game import engine, rules
from game.rules import *
from game.rules import Rule as BaseRule, rule
from game.engine import Machine, State, transition
from game.units import Knight, Unit, spawn
BOARD = [[rules.EMPTY] * rules.SIZE for _ in range(rules.SIZE)]
ORDER = sorted(rules.RULES, key=operator.attrgetter('weight'), reverse=True)
QUEUE = []
for _rule in ORDER:
    heapq.heappush(QUEUE, (_rule.weight, _rule.name))
@rule('bonus', weight=rules.BASE * 2)
def bonus(score):
    return score + rules.BASE
@dataclass
class Score:
    points: int = rules.BASE
    history: list = field(default_factory=lambda: [rules.BASE])
    def __add__(self, other):
        return replace(self, points=self.points + other.points)
    __radd__ = __add__
class Door(Machine):
    closed = State(initial=True)
    opened = State()
    @transition(closed, opened)
    def open(self):
        return f'opened by {self.user}'
    @transition(opened, closed)
    def close(self):
        return 'closed'
class Paladin(Knight):
    power = Knight.power + 2
    def attack(self):
        return super().attack() * 2
class Config(Mapping):
    data = {**engine.DEFAULTS, 'size': rules.SIZE}
    def __getitem__(self, key):
        return self.data[key]
    def __iter__(self):
        return iter(self.data)
    def __len__(self):
        return len(self.data)
CONFIG = Config()
ARMY = [spawn('knight'), spawn('archer', power=9), Paladin()]
def play(score, *names, limit=rules.LIMITS['turns']):
    for item in rules.RULES[:limit]:
        if not names or item.name in names:
            score = item(score)
    return score
total = functools.partial(sum, start=Score())
"""
GAME = {
    "game.__init__": "from . import rules, engine\nVERSION = (1, 2)\n",
    "game.rules": """\
__all__ = ['EMPTY', 'best', 'Rule']
EMPTY = '.'
SIZE = 2
BASE = 5
LIMITS = {'turns': 10, 'units': 3}
RULES = []
class Rule:
    def __init__(self, name, function, weight):
        self.name, self.function, self.weight = name, function, weight
    def __call__(self, score):
        return self.function(score)
    def __repr__(self):
        return f'Rule({self.name})'
def rule(name, weight=1):
    def add(function):
        made = Rule(name, function, weight)
        RULES.append(made)
        return made
    return add
@rule('double', weight=3)
def double(score):
    return score * 2
@rule('cap')
def cap(score):
    return min(score, LIMITS['turns'] * 10)
def best(rules=RULES):
    return max(rules, key=lambda item: item.weight)
""",
    "game.engine": """\
DEFAULTS = {'speed': 1, 'user': 'ann'}
class State:
    def __init__(self, initial=False):
        self.initial = initial
    def __set_name__(self, owner, name):
        self.name = name
def transition(source, target):
    def decorate(method):
        def move(self):
            if self.state is not source:
                raise RuntimeError(f'not {source.name}')
            result = method(self)
            self.state = target
            return result
        move.edge = source, target
        return move
    return decorate
class MachineMeta(type):
    def __init__(cls, name, bases, space):
        super().__init__(name, bases, space)
        cls.states = [value.name for value in space.values() if isinstance(value, State)]
        cls.edges = {name: (value.edge[0].name, value.edge[1].name) for name, value in space.items() if hasattr(value, 'edge')}
class Machine(metaclass=MachineMeta):
    def __init__(self, user=DEFAULTS['user']):
        self.user = user
        self.state = next(value for value in vars(type(self)).values() if isinstance(value, State) and value.initial)
""",
    "game.units": """\
import abc
import game.rules
KINDS = {}
class Unit(abc.ABC):
    power = 1
    def __init_subclass__(cls, kind=None, **words):
        super().__init_subclass__(**words)
        KINDS[kind or cls.__name__.lower()] = cls
    def __init__(self, power=None):
        if power is not None:
            self.power = power
    @abc.abstractmethod
    def attack(self): ...
    @property
    def label(self):
        return f'{type(self).__name__}({self.power})'
class Knight(Unit):
    power = 4
    def attack(self):
        return self.power + game.rules.BASE
class Bow(Unit, kind='archer'):
    def attack(self):
        return self.power * 2
def spawn(kind, **words):
    return KINDS[kind](**words)
""",
}
GAME_PROBES = (
    "m.BOARD, m.ORDER, sorted(m.QUEUE), [(r.name, r.weight) for r in rules.RULES]", "m.play(7), m.play(7, 'double'), m.play(7, 'bonus'), m.best().name, m.bonus.weight", "m.Score(), m.Score(1) + m.Score(2), m.total([m.Score(1), m.Score(2)])", "m.Door.states, m.Door.edges, m.Door().open(), act(lambda: m.Door().close()), m.Door().state.name", "m.Paladin().attack(), m.Paladin.power, [u.label for u in m.ARMY], [u.attack() for u in m.ARMY]", "sorted(units.KINDS), dict(m.CONFIG), len(m.CONFIG)", "sorted(n for n in vars(m) if n in ('EMPTY', 'best', 'Rule', 'SIZE', 'BASE')), m.Rule is m.BaseRule is rules.Rule, repr(m.bonus)", "m.play.__kwdefaults__, [type(u) is units.KINDS.get(type(u).__name__.lower()) for u in m.ARMY], game.VERSION",
)  # fmt: skip
GAME_EDITS = edits_of(
    "game",
    GAME_M,
    [
        ("a size", "SIZE = 2", "SIZE = 3", GAME_PROBES, {"edited": "game.rules"}),
        ("a base", "BASE = 5", "BASE = 6", GAME_PROBES, {"edited": "game.rules"}),
        ("a limit", "'turns': 10", "'turns': 2", GAME_PROBES, {"edited": "game.rules"}),
        ("a rule's weight", "weight=3", "weight=30", GAME_PROBES, {"edited": "game.rules"}),
        ("a rule's body", "score * 2", "score * 3", GAME_PROBES, {"edited": "game.rules"}),
        ("a rule more", "def best", "@rule('minus', 2)\ndef minus(score):\n    return score - 1\ndef best", GAME_PROBES, {"edited": "game.rules"}),
        ("a default weight", "weight=1", "weight=7", GAME_PROBES, {"edited": "game.rules"}),
        ("a name that is exported", "'best', 'Rule']", "'best', 'Rule', 'SIZE']", GAME_PROBES, {"edited": "game.rules"}),
        ("a key", "item.weight)", "-item.weight)", GAME_PROBES, {"edited": "game.rules"}),
        ("a text of rules", "f'Rule({self.name})'", "f'<{self.name}>'", GAME_PROBES, {"edited": "game.rules"}),
        ("a stored name", "self.name, self.function, self.weight = name,", "self.name, self.function, self.weight = name.upper(),", GAME_PROBES, {"edited": "game.rules"}),
        ("a default of the engine", "'user': 'ann'", "'user': 'bob'", GAME_PROBES, {"edited": "game.engine"}),
        ("a default more of the engine", "'speed': 1", "'speed': 1, 'sound': 0", GAME_PROBES, {"edited": "game.engine"}),
        ("a message of a transition", "f'not {source.name}'", "f'must be {source.name}'", GAME_PROBES, {"edited": "game.engine"}),
        ("what a metaclass computes", "[value.name for value", "[value.name.upper() for value", GAME_PROBES, {"edited": "game.engine"}),
        ("a power", "power = 4", "power = 6", GAME_PROBES, {"edited": "game.units"}),
        ("an attack", "self.power * 2", "self.power * 3", GAME_PROBES, {"edited": "game.units"}),
        ("a label", "f'{type(self).__name__}({self.power})'", "f'{type(self).__name__}: {self.power}'", GAME_PROBES, {"edited": "game.units"}),
        ("a kind's name", "kind='archer'", "kind='bow'", GAME_PROBES, {"edited": "game.units", "more": (("m", "spawn('archer'", "spawn('bow'"),)}),
        ("a kind more", "def spawn", "class Mage(Unit):\n    def attack(self):\n        return 9\ndef spawn", GAME_PROBES, {"edited": "game.units"}),
        ("a version", "(1, 2)", "(1, 3)", GAME_PROBES, {"edited": "game.__init__"}),
        ("a state more", "    opened = State()\n", "    opened = State()\n    locked = State()\n", GAME_PROBES),
        ("a transition's target", "@transition(opened, closed)", "@transition(opened, opened)", GAME_PROBES),
        ("a transition's body", "return 'closed'", "return 'shut'", GAME_PROBES),
        ("a subclass's power", "Knight.power + 2", "Knight.power + 3", GAME_PROBES),
        ("a registered function's argument", "rules.BASE * 2", "rules.BASE * 3", GAME_PROBES),
        ("a registered name", "@rule('bonus'", "@rule('extra'", GAME_PROBES),
        ("an alias of a method", "    __radd__ = __add__\n", "", GAME_PROBES),
        ("a merged setting", "'size': rules.SIZE", "'width': rules.SIZE", GAME_PROBES),
        ("a unit less", "spawn('knight'), ", "", GAME_PROBES),
        ("an order of rules", "reverse=True", "reverse=False", GAME_PROBES),
        ("a start of a sum", "start=Score()", "start=Score(100)", GAME_PROBES),
    ],
    others=GAME,
    setup="""\
def act(function):
    try:
        return function()
    except Exception as error:
        return type(error).__name__, str(error)
""",
)  # fmt: skip
ALL = with_expected(
    GAME_EDITS,
    reported=["game: a power", "game: a kind's name"],
    false=["game: a base", "game: an order of rules"],
)
