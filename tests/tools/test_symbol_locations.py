"""`symbol_info` for a class, a location, and a library that is not imported."""

import pytest

pytestmark = pytest.mark.served("python")

SHOP = '''\
"""A shop."""

import typing

T = typing.TypeVar("T")


class Order(typing.Generic[T]):
    """An order of the shop.

    It has a long explanation that nobody needs to see twice.
    """

    limit = 3

    def __init__(self, lines, rate=1):
        self.lines = lines

    @property
    def total(self):
        """The price of all lines."""
        return sum(self.lines)

    @classmethod
    def empty(cls):
        return cls([])

    def _private(self):
        pass


class Bare(typing.Generic[T]):
    pass


def divide(a, b):
    return a / b
'''


@pytest.fixture(scope="module")
def live(live):
    (live.workspace / "shop.py").write_text(SHOP)
    with live.client() as client:
        client.call("evaluate_code", code="import shop")
    return live


def about(client, symbol, **arguments):
    answer = client.call("symbol_info", symbol=symbol, **arguments)
    assert answer["ok"], answer
    return answer


def test_a_class_lists_its_members_with_parameters_and_lines(client):
    found = about(client, "shop.Order")
    assert found["doc"] == "An order of the shop."
    assert found["members"] == [
        "limit: int = 3",
        "__init__(self, lines, rate=1) :16",
        "total (property) :19 — The price of all lines.",
        "empty(cls) :24",
    ]


def test_private_members_of_a_class_are_counted_and_listed_by_a_pattern(client):
    found = about(client, "shop.Order")
    assert found["notes"] == ["1 private name is left out: symbol shop.Order._* lists them"]
    assert about(client, "shop.Order._*")["names"] == [
        "shop.Order.__init__(self, lines, rate=1) :16",
        "shop.Order._private(self) :28",
    ]
    assert about(client, "shop.Order.*t")["names"] == ["shop.Order.limit: int = 3"]


def test_special_methods_are_counted_if_source_code_defines_them(client):
    code = (
        "import dataclasses\n@dataclasses.dataclass\nclass Point:\n    x: int = 0\n"
        "    def __len__(self):\n        return 2"
    )
    client.call("evaluate_code", code=code)
    assert about(client, "Point._*")["names"] == ["Point.__init__(self, x=0)", "Point.__len__(self) :5"]


def test_a_class_without_documentation_does_not_inherit_any(client):
    found = about(client, "shop.Bare")
    assert "doc" not in found
    assert "members" not in found


def test_a_file_and_line_find_the_enclosing_function(client):
    for symbol in ("shop.py:37", "@shop.py:37", "shop.py:37 in divide"):
        found = about(client, symbol)
        assert (found["file"], found["line"]) == ("shop.py", 37)
        assert found["source"] == " 36 def divide(a, b):\n>37     return a / b"
    refused = client.call("symbol_info", symbol="shop.py:900")
    assert (refused["reason"], "no line 900" in refused["message"]) == ("unknown-symbol", True)


def test_the_first_line_of_a_long_function_finds_the_whole_function(live, client):
    """Answers about failed tests name suspicious functions in this way."""
    body = "".join(f"    value = value * {number} + {number}\n" for number in range(150))
    (live.workspace / "long.py").write_text(f"def long(value):\n{body}    return value\n")
    source = about(client, "long.py:1 in long")["source"].splitlines()
    assert (source[0], source[-1]) == (">  1 def long(value):", " 152     return value")
    source = about(client, "long.py:50")["source"].splitlines()
    assert (len(source), source[5]) == (11, ">50     value = value * 48 + 48")


def test_a_frame_number_finds_the_surrounding_lines(client):
    client.call("evaluate_code", code="import shop; shop.divide(1, 0)")
    found = about(client, "0")
    assert found["source"].splitlines()[-1] == ">37     return a / b"
    refused = client.call("symbol_info", symbol="99")
    assert (refused["reason"], "no frame 99" in refused["message"]) == ("unknown-symbol", True)


@pytest.mark.parametrize(
    ("symbol", "arglist"),
    [
        ("xml.dom.minidom.parseString", "(string, parser=None)"),
        ("wave.open", "(f, mode=None)"),
        ("xml.etree.ElementTree.fromstring", "(text, parser=None)"),
        ("sched.scheduler", "(self, timefunc=_time, delayfunc=time.sleep)"),
        ("sched.scheduler.cancel", "(self, event)"),
    ],
)
def test_a_library_can_be_looked_up_without_importing_it(client, symbol, arglist):
    loaded = "import sys; 'wave' in sys.modules or 'sched' in sys.modules or 'xml.dom.minidom' in sys.modules"
    assert client.call("evaluate_code", code=loaded)["result"] == "False"
    found = about(client, symbol)
    assert found["arglists"] == [arglist]
    assert found["notes"] == ["the module is not imported: this is from its file"]
    assert found["extra"]["imported"] == "no"
    assert client.call("evaluate_code", code=loaded)["result"] == "False", "looking it up imports nothing"


def test_a_name_reexported_by_a_package_is_found(client, live):
    package = live.workspace / "shelf"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text("from .books import lend as borrow\nfrom shelf.books import Book\n")
    (package / "books.py").write_text("def lend(book, days=14):\n    'Lend a book.'\n\n\nclass Book:\n    pass\n")
    found = about(client, "shelf.borrow")
    assert (found["name"], found["ns"], found["arglists"], found["doc"]) == (
        "lend", "shelf.books", ["(book, days=14)"], "Lend a book.",
    )  # fmt: skip
    assert about(client, "shelf.Book")["line"] == 5


@pytest.mark.parametrize(
    ("assignment", "symbol", "name"),
    [
        ("give = lend", "give", "lend"),
        ("class A:\n    def lend(self): pass\n\ngive = A.lend", "give", "lend"),
        ("from desk import rules\ngive = rules.charge", "give", "charge"),
        ("import desk.rules as r\ngive = r.charge", "give", "charge"),
        ("import desk.rules\ngive = desk.rules.charge", "give", "charge"),
        ("import desk.rules as r", "r.charge", "charge"),
        ("Alias = other = Rule", "Alias.check", "check"),
    ],
)
def test_an_assigned_name_is_found_where_it_is_defined(client, live, assignment, symbol, name):
    (live.workspace / "desk").mkdir(exist_ok=True)
    (live.workspace / "desk" / "__init__.py").touch()
    (live.workspace / "desk" / "rules.py").write_text("def charge(book): pass\n")
    lines = f"def lend(book): pass\n\nclass Rule:\n    def check(self): pass\n\n{assignment}\n"
    (live.workspace / "counter.py").write_text(lines)
    found = about(client, f"counter.{symbol}")
    assert (found["name"], found["notes"]) == (name, ["the module is not imported: this is from its file"])


@pytest.mark.parametrize(
    "lines", ["a = b\nb = a\n", "a = a\n", "import loop\na = loop.a\n", "a = 1 + 1\n", "a = f().b\n"]
)
def test_names_that_are_defined_in_terms_of_each_other_are_refused(client, live, lines):
    (live.workspace / "loop.py").write_text(lines)
    assert client.call("symbol_info", symbol="loop.a")["reason"] == "unknown-symbol"


@pytest.mark.parametrize("symbol", ["nosuchlibrary.thing", "wave.nosuch", "sched.scheduler.nosuch", "wave..open"])
def test_a_name_that_no_file_defines_is_refused(client, symbol):
    assert client.call("symbol_info", symbol=symbol)["reason"] == "unknown-symbol"


def test_a_bare_name_is_found_in_the_files_of_the_workspace(client, live):
    package = live.workspace / "warehouse"
    package.mkdir(exist_ok=True)
    (package / "shelves.py").write_text("def shelf_of(item):\n    return 7\n\n\ndef _shelf_row():\n    pass\n")
    (package / "broken.py").write_text("def shelf_of(:\n")
    hidden = live.workspace / "other_environment" / "lib"
    hidden.mkdir(parents=True, exist_ok=True)
    (hidden.parent / "pyvenv.cfg").write_text("")
    (hidden / "elsewhere.py").write_text("def shelf_of(item):\n    pass\n")
    found = about(client, "shelf_of", source=True)
    assert (found["ns"], found["file"], found["line"]) == ("warehouse.shelves", "warehouse/shelves.py", 1)
    assert found["source"] == "def shelf_of(item):\n    return 7"
    assert about(client, "shelf*")["names"] == ["warehouse.shelves.shelf_of(item) :1"]
    assert about(client, "_shelf*")["names"] == ["warehouse.shelves._shelf_row() :5"]
    client.call("evaluate_code", code="import warehouse.shelves")
    assert "imported" not in about(client, "shelf_of").get("extra", {})
    assert about(client, "*SHELF_of")["names"] == ["warehouse.shelves.shelf_of(item) :1"]


def test_installed_packages_in_the_workspace_are_not_searched_for_undefined_names(client, live):
    packages = live.workspace / ".venv" / "lib" / "site-packages"
    packages.mkdir(parents=True, exist_ok=True)
    (packages / "installed_library.py").write_text("def packed(height): return height\n")
    code = f"import sys; sys.path.append({str(packages)!r}); packed(3)"
    failed = client.call("evaluate_code", code=code)
    client.call("evaluate_code", code=f"sys.path.remove({str(packages)!r})")
    assert failed["error"]["class"] == "NameError", failed
    assert not any("packed is defined" in note for note in failed.get("notes", ())), failed


def test_an_undefined_name_is_reported_with_the_import_from_the_workspace_that_defines_it(client, live):
    (live.workspace / "pallets.py").write_text("def stacked(height): return height\n")
    failed = client.call("evaluate_code", code="stacked(3)")
    assert failed["reason"] == "evaluation-failed"
    assert "stacked is defined in the workspace: from pallets import stacked" in failed["notes"]
    assert not any("workspace" in note for note in client.call("evaluate_code", code="stacked_nowhere")["notes"])


def test_a_bare_name_with_several_definitions_lists_them(client, live):
    for name in ("first_place.py", "second_place.py"):
        (live.workspace / name).write_text("def is_placed_twice(x): pass\n")
    names = about(client, "is_placed_twice")["names"]
    assert names == ["first_place.is_placed_twice(x) :1", "second_place.is_placed_twice(x) :1"]


def test_members_and_source_of_a_module_can_be_looked_up_without_importing_it(client, live):
    package = live.workspace / "store"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text("")
    (package / "prices.py").write_text(
        "import functools\n\n\n@functools.cache\ndef discount(net, percent):\n    return net\n\n\n"
        "def gross(net):\n    pass\n\n\ndef _hidden():\n    pass\n"
    )
    client.call("evaluate_code", code="import store")
    assert about(client, "store.prices")["names"] == ["discount(net, percent) :5", "gross(net) :9"]
    assert about(client, "*is*", namespace="store.prices")["names"] == ["store.prices.discount(net, percent) :5"]
    assert "1 private name is left out: symbol store.prices._* lists them" in about(client, "store.prices")["notes"]
    assert about(client, "store.prices._*")["names"] == ["store.prices._hidden() :13"]
    found = about(client, "discount", namespace="store.prices", source=True)
    assert found["source"] == "@functools.cache\ndef discount(net, percent):\n    return net"
    assert (found["line"], found["extra"], "notes" in found) == (4, {"imported": "no"}, False)
    assert client.call("symbol_info", symbol="missing", namespace="store.prices")["reason"] == "unknown-symbol"
