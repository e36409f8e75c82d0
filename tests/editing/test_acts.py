"""An act that fails at any step leaves files and definitions as they were: each object the one that it was."""

import ast
import contextlib
import random
import resource
import sys
import types

import anyio
import pytest

from codriver.editing import Act, Editor, InsertDef, Limits, ReplaceDef, Wanted
from codriver.editing.batch import Create
from codriver.editing.changed_statements import changed_statements
from codriver.errors import RefusedError
from codriver.repls.worker.closures import FormerClosures
from codriver.repls.worker.file_definitions import assigned
from codriver.repls.worker.held_definitions import Holds
from codriver.repls.worker.module_loads import ModuleLoad

LOW = """\
import functools


sold = 0


def traced(function):
    @functools.wraps(function)
    def inner(*args): return function(*args)
    return inner


@traced
def rate(x=1):
    return x * 2


class Base:
    unit = "EUR"

    def name(self): return "base"


class Order(Base):
    def total(self):
        return rate(3)
"""
HIGH = """\
from {low} import rate, Order


class Large(Order):
    pass


made = Large(), Order()
held = made[1].total
"""
EDITS = (
    lambda: ReplaceDef("rate", "@traced\ndef rate(x=5):\n    return x * 3\n\n\nadded = rate"),
    lambda: ReplaceDef("Order", "class Order(Base):\n    kept = 1\n    def total(self): return 7"),
    lambda: ReplaceDef("Base.name", "def name(self): return 'new'"),
    lambda: InsertDef("Order", "def half(self): return self.total() / 2", side="in"),
    lambda: InsertDef(None, "Base.unit = 'USD'\nsold = 9"),
    lambda: InsertDef("traced", "def extra(): ...", side="before"),
)
STEPS = ("unwritable", "full", "form", "interrupt", "cancelled-load", "test", "cancelled-test", "death")


class Project:
    """A folder with two modules that are loaded in this process, as the embedded REPL has them in its own."""

    def __init__(self, folder, number):
        self.folder = folder
        self.low, self.high, self.new = (f"{name}_{number}" for name in ("low", "high", "new"))
        self.holds = Holds([str(folder)])
        self.write(self.low, LOW)
        self.write(self.high, HIGH.format(low=self.low))
        for name in (self.low, self.high):
            self.load(name, self.path(name).read_text(), None, "")

    def path(self, name):
        return self.folder / f"{name}.py"

    def write(self, name, text):
        self.path(name).write_text(text)

    def load(self, name, text, lines, hold, before=lambda number: None):
        body = ast.parse(text).body
        written, held = assigned(ast.Module(body, [])), self.holds.of(hold)
        load = ModuleLoad(name, str(self.path(name)), written, held, FormerClosures())
        load.begin()
        has_failed = True
        try:
            for number, node in enumerate(node for node in body if lines is None or node.lineno in lines):
                before(number)
                exec(compile(ast.Module([node], []), str(self.path(name)), "exec"), load.module.__dict__)
            has_failed = False
        finally:
            load.end(has_failed=has_failed)

    def picture(self):
        """All that is to be as it was: the files, and what each name is, down to the code of functions."""
        found = {path.name: path.read_bytes() for path in self.folder.iterdir()}
        found["modules"] = {name for name in sys.modules if name in (self.low, self.high, self.new)}
        for name in (self.low, self.high):
            space = dict(sys.modules[name].__dict__)
            space.pop("__builtins__", None)
            found[name] = {key: _look(value) for key, value in space.items()}
        return found


def _look(value):
    match value:
        case types.FunctionType():
            cells = [id(cell.cell_contents) for cell in value.__closure__ or ()]
            return id(value), id(value.__code__), value.__defaults__, cells
        case type():
            return id(value), value.__bases__, {key: _look(one) for key, one in vars(value).items() if key[:2] != "__"}
        case tuple():
            return [(id(one), type(one)) for one in value]
        case types.MethodType():
            return id(value), id(value.__code__)
    return id(value)


class Steps:
    """The live steps of an act, one of which fails."""

    def __init__(self, project, failing, form, scope):
        self.project, self.failing, self.form, self.scope = project, failing, form, scope
        self.files = []

    async def load(self, outcome):
        for result in outcome.files:
            text, found = changed_statements(result.change.before.data or b"", result.change.after)
            try:
                self.project.load(result.change.path.stem, text, {line for line, _ in found or ()}, "act", self._before)
            except (ZeroDivisionError, KeyboardInterrupt):
                return False
            if self.failing == "cancelled-load":
                self.scope.cancel()
                await anyio.sleep_forever()
        return True

    def _before(self, number):
        if self.failing in ("form", "interrupt") and number == self.form:
            raise ZeroDivisionError if self.failing == "form" else KeyboardInterrupt

    async def test(self, outcome):
        if self.failing == "cancelled-test":
            self.scope.cancel()
            await anyio.sleep_forever()
        return False

    async def keep(self):
        self.project.holds.end("act", puts_back=False)

    async def put_back(self):
        if self.failing == "death":
            return (), "the REPL is gone"
        return self.project.holds.end("act", puts_back=True), ""


async def perform(project, wanted, failing, form):
    editor = Editor(project.folder)
    other = project.path(project.high)

    async def write():
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        if failing == "full":
            resource.setrlimit(resource.RLIMIT_FSIZE, (16, limits[1]))
        try:
            return await editor.edit("me", wanted, limits=Limits(), allow_outside=False)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    with anyio.CancelScope() as scope:
        steps = Steps(project, failing, form, scope)
        if failing == "unwritable":
            other.chmod(0o400)
        ended = await Act(lambda outcome: editor.put_back("me", outcome), steps, restores=True).run(write)
        assert ended.put_back.files == ended.put_back.names == ()
        return ended
    return None


@pytest.mark.parametrize("seed", range(100))
def test_whatever_step_fails_files_and_definitions_are_as_before(tmp_path, seed):
    dice = random.Random(seed)
    failing = STEPS[seed % len(STEPS)]
    project = Project(tmp_path.resolve(), seed)
    wanted = [Wanted(f"{project.low}.py", make()) for make in dice.sample(EDITS, dice.randint(1, 3))]
    if sum(one.edit.name == "Order" for one in wanted) > 1:
        wanted = wanted[:1]
    wanted.append(Wanted(f"{project.high}.py", InsertDef("Large", "def more(self): return rate()", side="after")))
    wanted.append(Wanted(f"{project.new}.py", Create(f"import {project.low} as low\n\n\nvalue = low.rate()\n")))
    before = project.picture()
    refused = pytest.raises(RefusedError) if failing in ("unwritable", "full") else contextlib.nullcontext()
    with refused:
        anyio.run(perform, project, wanted, failing, dice.randint(0, 1))
    project.path(project.high).chmod(0o644)
    after = project.picture()
    if failing == "death":  # what was defined there is gone with it
        before, after = ({key: one[key] for key in one if key.endswith(".py")} for one in (before, after))
    assert after == before
    for name in (project.low, project.high, project.new):
        sys.modules.pop(name, None)


def test_what_somebody_else_wrote_or_defined_meanwhile_stays_and_is_told(tmp_path):
    project = Project(tmp_path.resolve(), "meanwhile")
    editor = Editor(project.folder)
    wanted = [
        Wanted(f"{project.low}.py", ReplaceDef("rate", "def rate(): return 1\n\n\nadded = 1")),
        Wanted(f"{project.high}.py", InsertDef(None, "more = 1")),
    ]

    class Meanwhile(Steps):
        async def test(self, outcome):
            project.write(project.low, "mine = 1\n")
            sys.modules[project.low].__dict__["rate"] = mine
            return False

    def mine():
        return 3

    async def run():
        steps = Meanwhile(project, "test", 0, None)
        act = Act(lambda outcome: editor.put_back("me", outcome), steps, restores=True)
        write = lambda: editor.edit("me", wanted, limits=Limits(), allow_outside=False)  # noqa: E731
        return await act.run(write)

    ended = anyio.run(run)
    assert ended.put_back.files == (f"{project.low}.py",)
    assert ended.put_back.names == (f"{project.low}.rate",)
    assert project.path(project.low).read_text() == "mine = 1\n"
    assert project.path(project.high).read_text() == HIGH.format(low=project.low)
    assert sys.modules[project.low].__dict__["rate"] is mine
    assert not hasattr(sys.modules[project.low], "added")
    for name in (project.low, project.high):
        sys.modules.pop(name, None)
