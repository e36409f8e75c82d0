"""Files that import others, directly or indirectly, found by their import statements."""

import pytest

from codriver.editing.import_graph import ImportGraph


def reached(folder, changed, **files):
    for name, text in files.items():
        file = folder / name.replace("__", "/").replace("/init", "/__init__")
        file = file.with_name(f"{file.name}.py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    every = list(folder.rglob("*.py"))
    found = ImportGraph().importers([folder / changed], every, folder)
    return {file.relative_to(folder).as_posix(): distance for file, distance in found.items()}


def test_importers_are_found_with_their_distance(tmp_path):
    files = {"low": "", "mid": "import low", "high": "def f():\n    from mid import x", "other": "import json"}
    assert reached(tmp_path, "low.py", **files) == {"low.py": 0, "mid.py": 1, "high.py": 2}


@pytest.mark.parametrize(
    "text",
    [
        "from shop import price", "from shop.price import (\n  a,\n  b)", "import os, shop.price as p",
        "from . import price", "from .price import x", "from ..shop import price",
    ],
)  # fmt: skip
def test_every_kind_of_import_statement_is_followed(tmp_path, text):
    found = reached(tmp_path, "src/shop/price.py", src__shop__init="", src__shop__price="", src__shop__user=text)
    assert "src/shop/user.py" in found


def test_importing_a_module_counts_as_importing_its_parent_packages(tmp_path):
    found = reached(tmp_path, "shop/__init__.py", shop__init="", shop__price="", test_it="import shop.price")
    assert found["test_it.py"] == 1


def test_a_changed_file_is_read_again(tmp_path):
    graph, low, high = ImportGraph(), tmp_path / "low.py", tmp_path / "high.py"
    low.write_text("")
    high.write_text("")
    assert graph.importers([low], [low, high], tmp_path) == {low: 0}
    high.write_text("import low")
    assert graph.importers([low], [low, high], tmp_path) == {low: 0, high: 1}


def test_circular_imports_do_not_loop_forever(tmp_path):
    assert reached(tmp_path, "a.py", a="import b", b="import a") == {"a.py": 0, "b.py": 1}


def test_lisp_namespaces_are_connected_by_require(tmp_path):
    texts = {
        "core": "(ns shop.core)\n(def x 1)",
        "cart": '(ns ^:dev shop.cart "About shop." (:require [shop.core :as core]))\n(core/x)',
        "cart_test": "(ns shop.cart-test\n  (:require [shop.cart :refer [total]]))",
        "other": "(ns shop.other (:require [clojure.string]))\n(comment shop.core)",
    }
    files = {name: tmp_path / f"{name}.clj" for name in texts}
    for name, text in texts.items():
        files[name].write_text(text)
    found = ImportGraph().importers([files["core"]], files.values(), tmp_path)
    assert {file.stem: distance for file, distance in found.items()} == {"core": 0, "cart": 1, "cart_test": 2}
