"""An edit transaction that fails at any step restores files and definitions, and the identity of every object."""

import ast
import contextlib
import random
import sys
import types

import anyio
import posix_only
import pytest
from alike import rounds
from project_texts import ProjectTexts

from codriver.editing import Editor, EditRequest, EditTransaction, InsertDef, ReplaceDef, SearchLimits
from codriver.editing.batch import CreateFile
from codriver.editing.python_source import changed_statements
from codriver.errors import RefusedError
from codriver.repls.worker.basics.undo_records import UndoRecords
from codriver.repls.worker.python.module_loads import ModuleLoad
from codriver.repls.worker.python.python_drift import Drift

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
    """A directory with two modules that are loaded in this process, as the embedded REPL loads them in its own."""

    def __init__(self, folder, number):
        self.folder = folder
        self.low, self.high, self.new = (f"{name}_{number}" for name in ("low", "high", "new"))
        self.holds = UndoRecords([str(folder)])
        self.texts = ProjectTexts(folder)
        self.write(self.low, LOW)
        self.write(self.high, HIGH.format(low=self.low))
        for name in (self.low, self.high):
            self.load(name, self.path(name).read_text(), None, "")

    def path(self, name):
        return self.folder / f"{name}.py"

    def write(self, name, text):
        self.path(name).write_text(text)

    def load(self, name, text, lines, hold, before=lambda number: None):
        body, retained = ast.parse(text).body, self.holds.record_for(hold)
        load = ModuleLoad(name, str(self.path(name)), text, retained, Drift(self.texts), home=sys)
        load.prepare()
        has_failed = True
        try:
            steps = load.plan_steps()
            nodes = [node for node in body if lines is None or node.lineno in lines] if steps is None else []
            for number, node in enumerate(nodes):
                before(number)
                exec(compile(ast.Module([node], []), str(self.path(name)), "exec"), load.module.__dict__)
            for number, step in enumerate(steps or ()):
                before(number)
                step.act()
            has_failed = False
        finally:
            load.finish(has_failed=has_failed)

    def picture(self):
        """Return everything that must be restored: the files, and what each name refers to, including the code of
        functions.
        """
        found = {path.name: path.read_bytes() for path in self.folder.iterdir()}
        found["modules"] = {name: id(sys.modules.get(name)) for name in (self.low, self.high, self.new)}
        for name in (self.low, self.high):
            found[name] = {key: _fingerprint(value) for key, value in sys.modules[name].__dict__.items()}
        return found


def _fingerprint(value):
    match value:
        case types.FunctionType():
            cells = [id(cell.cell_contents) for cell in value.__closure__ or ()]
            return id(value), id(value.__code__), value.__defaults__, cells
        case type():
            names = {key: _fingerprint(element) for key, element in vars(value).items() if key[:2] != "__"}
            return id(value), value.__bases__, list(map(id, type.__subclasses__(value))), names
        case tuple():
            return [(id(item), type(item)) for item in value]
        case types.MethodType():
            return id(value), id(value.__code__)
    return id(value)


class Steps:
    """The live steps of an edit, one of which fails."""

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

    async def commit(self):
        self.project.holds.close_record("act", puts_back=False)

    async def put_back(self):
        if self.failing == "death":
            return (), "the REPL is gone"
        return self.project.holds.close_record("act", puts_back=True), ""


async def perform(project, expected, failing, form):
    editor = Editor(project.folder)
    other = project.path(project.high)

    async def write():
        with posix_only.bounded_files(16) if failing == "full" else contextlib.nullcontext():
            return await editor.edit("me", expected, limits=SearchLimits(), allow_outside=False)

    with anyio.CancelScope() as scope:
        steps = Steps(project, failing, form, scope)
        if failing == "unwritable":
            other.chmod(0o400)
        ended = await EditTransaction(lambda outcome: editor.put_back("me", outcome), steps, restores=True).run(write)
        assert ended.put_back.files == ended.put_back.names == ()
        return ended
    return None


@pytest.mark.parametrize("seed", range(rounds(100, 40)))
def test_files_and_definitions_are_restored_whichever_step_fails(tmp_path, seed):
    dice = random.Random(seed)
    failing = STEPS[seed % len(STEPS)]
    project = Project(tmp_path.resolve(), seed)
    expected = [EditRequest(f"{project.low}.py", make()) for make in dice.sample(EDITS, dice.randint(1, 3))]
    if sum(item.edit.name == "Order" for item in expected) > 1:
        expected = expected[:1]
    expected.append(
        EditRequest(f"{project.high}.py", InsertDef("Large", "def more(self): return rate()", side="after"))
    )
    expected.append(
        EditRequest(f"{project.new}.py", CreateFile(f"import {project.low} as low\n\n\nvalue = low.rate()\n"))
    )
    before = project.picture()
    refused = pytest.raises(RefusedError) if failing in ("unwritable", "full") else contextlib.nullcontext()
    with refused:
        anyio.run(perform, project, expected, failing, dice.randint(0, 1))
    project.path(project.high).chmod(0o644)
    after = project.picture()
    if failing == "death":  # what was defined there is gone with it
        before, after = ({key: item[key] for key in item if key.endswith(".py")} for item in (before, after))
    assert after == before
    for name in (project.low, project.high, project.new):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    "code",
    [
        "import sys\nsys.modules[__name__] = None",
        "import sys\ndel sys.modules[__name__]",
        "import sys, types\nsys.modules['functools'] = types.ModuleType('functools')",
        "globals()['__builtins__'] = {}",
        "del __builtins__",
    ],
)
def test_a_module_and_its_builtins_keep_their_identity(tmp_path, code):
    project = Project(tmp_path.resolve(), "modules")
    before, functools = project.picture(), sys.modules["functools"]
    try:
        project.load(project.low, LOW + code, {LOW.count("\n") + number for number in (1, 2)}, "act")
        assert project.holds.close_record("act", puts_back=True) == []
        assert (project.picture(), sys.modules["functools"] is functools) == (before, True)
        project.load(project.low, LOW, None, "")
    finally:
        sys.modules["functools"] = functools
        for name in (project.low, project.high):
            sys.modules.pop(name, None)


class TestFailedClass:
    """A class of a failed edit is not left among the subclasses of another."""

    @pytest.fixture
    def project(self, tmp_path, request):
        made = Project(tmp_path.resolve(), abs(hash(request.node.name)))
        yield made
        for name in (made.low, made.high):
            sys.modules.pop(name, None)

    def load(self, project, code):
        text = f"{LOW}\n{code}\n"
        first = LOW.count("\n") + 2
        project.load(project.low, text, range(first, text.count("\n") + 1), "act")

    @pytest.mark.parametrize(
        ("base", "head"),
        [
            ("Base", "class New(Base):"),
            ("Base", "class New(Base, metaclass=__import__('abc').ABCMeta):"),
            ("Failure", "class New(Failure):"),
            ("Number", "class New(Number):"),
            ("Number", "class New(Base, Number):"),
        ],
    )
    def test_a_class_added_by_a_failed_edit_is_removed_from_the_subclasses_of_its_base(self, project, base, head):
        low = sys.modules[project.low]
        exec("class Failure(Exception): ...\nclass Number(dict): ...", low.__dict__)
        owner = getattr(low, base)
        before = owner.__subclasses__()
        self.load(project, f"{head}\n    def name(self): return 'new'\nkept = [New]")
        retained = low.New
        assert retained in owner.__subclasses__()
        assert project.holds.close_record("act", puts_back=True) == []
        assert owner.__subclasses__() == before
        assert not issubclass(retained, owner)

    def test_a_class_created_in_a_function_or_a_new_module_is_removed_from_its_base(self, project):
        base = sys.modules[project.low].Base
        before = base.__subclasses__()
        project.write(project.new, f"from {project.low} import Base\nclass Other(Base): ...\n")
        sys.path.insert(0, str(project.folder))
        try:
            made = f"def make():\n    class Local(Base): ...\n    return Local\nlocal = make()\nimport {project.new}"
            self.load(project, made)
            retained = sys.modules[project.low].local, sys.modules[project.new].Other
            assert set(retained) < set(base.__subclasses__())
            assert project.holds.close_record("act", puts_back=True) == []
        finally:
            sys.path.remove(str(project.folder))
        assert base.__subclasses__() == before

    @pytest.mark.parametrize(
        "code",
        [
            "class New(Base): ...\nheld.append(New())",
            "class New(Base): ...\nclass More(New): ...\nheld.append(More())",
            "class New(Slotted): ...\nheld.append(New)",
            "class Kind(type): mro = lambda self: type.mro(self)\nclass New(Base, metaclass=Kind): ...\nheld = New",
        ],
    )
    def test_a_class_that_python_cannot_remove_stays_and_is_reported(self, project, code):
        low = sys.modules[project.low]
        exec("held = []\nclass Slotted: __slots__ = ('a',)", low.__dict__)
        self.load(project, code)
        new = low.New
        bases, order = new.__bases__, new.__mro__
        left = project.holds.close_record("act", puts_back=True)
        assert f"{project.low}.New" in left
        assert (new.__bases__, new.__mro__) == (bases, order)

    def test_an_unreferenced_class_is_not_reported(self, project):
        low = sys.modules[project.low]
        exec("class Number(int): ...", low.__dict__)
        self.load(project, "class New(Number): ...\nclass Kept(Base): ...\nround = [Kept()]\nround[0].me = round")
        assert project.holds.close_record("act", puts_back=True) == []
        assert (low.Number.__subclasses__(), [item.__name__ for item in low.Base.__subclasses__()]) == ([], ["Order"])

    def test_a_class_subclassed_by_other_code_is_not_removed_and_is_reported(self, project):
        low = sys.modules[project.low]
        self.load(project, "class New(Base): ...")
        mine = type("Mine", (low.New,), {})
        assert project.holds.close_record("act", puts_back=True) == [f"{project.low}.New"]
        assert mine.__mro__[2] is low.Base


def test_concurrent_changes_by_others_are_kept_and_reported(tmp_path):
    project = Project(tmp_path.resolve(), "meanwhile")
    editor = Editor(project.folder)
    expected = [
        EditRequest(f"{project.low}.py", ReplaceDef("rate", "def rate(): return 1\n\n\nadded = 1")),
        EditRequest(f"{project.high}.py", InsertDef(None, "more = 1")),
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
        transaction = EditTransaction(lambda outcome: editor.put_back("me", outcome), steps, restores=True)
        write = lambda: editor.edit("me", expected, limits=SearchLimits(), allow_outside=False)  # noqa: E731
        return await transaction.run(write)

    ended = anyio.run(run)
    assert ended.put_back.files == (f"{project.low}.py",)
    assert ended.put_back.names == (f"{project.low}.rate",)
    assert project.path(project.low).read_text() == "mine = 1\n"
    assert project.path(project.high).read_text() == HIGH.format(low=project.low)
    assert sys.modules[project.low].__dict__["rate"] is mine
    assert not hasattr(sys.modules[project.low], "added")
    for name in (project.low, project.high):
        sys.modules.pop(name, None)
