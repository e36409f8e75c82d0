"""Programs mean the same after a rename: Clojure evaluates random ones before and after, with equal results."""

import json
import random
import subprocess

import pytest
from alike import rounds
from needs import do_without, program

from codriver_lisp.binding_forms import find_occurrences
from codriver_lisp.edit import EditedText, Rename, apply_edits
from codriver_lisp.source_text import Document, Target
from lisp.conftest import CLOJURE_JAR

JARS = [CLOJURE_JAR.with_name(f"{name}.jar") for name in ("clojure", "spec.alpha", "core.specs.alpha")]
PROGRAMS = rounds(2, 1)
"""Of each shape."""
OF_EACH = 6
"""Renamings of each."""

RUN = r"""
(doseq [line (line-seq (java.io.BufferedReader. *in*))]
  (println
    (try
      (let [value (binding [*ns* (create-ns 'user)] (load-string (read-string line)))]
        (remove-ns 'program)
        (pr-str value))
      (catch Throwable error (remove-ns 'program) (str (class error) (.getMessage (or (.getCause error) error)))))))
"""


class Writer:
    """Writes random programs whose every expression is a number, and in which few names have many meanings."""

    def __init__(self, seeded):
        self.seeded = seeded

    def program(self, shape):
        """Return a program whose last two expressions have this shape, preceded by what they use."""
        self.shapes = [one for one in SHAPES if one not in ("record", "call")]
        before = {
            "(m ": f"(defprotocol P (m [this x]))\n(defrecord R [x y] P (m [this z] {self.number(1, {*'xyz'})}))",
            "(g ": f"(defn g [a x] {self.number(1, {*'axy'})})",
            "(h": f"(defn h ([] {self.number(1)}) ([x & w] {self.number(1)}))",
        }
        self.shapes = SHAPES
        first, last = (getattr(self, shape)(2, frozenset("xy")) for _ in range(2))
        used = [text for name, text in before.items() if name in "".join([first, last, *before.values()])]
        start = ["(ns program)", "(declare x g)", "(def x 1)", "(def ^:dynamic y 2)"]
        return "\n".join([*start, *used, f"(def result {first})", f"[{last} result x y]"])

    def name(self):
        return self.seeded.choice("xyw")

    def number(self, depth, numbers=frozenset("xy")):
        """Return an expression in a scope in which `numbers` are names of numbers, and nothing else is."""
        numbers = frozenset(numbers)
        if depth == 0:
            return self.seeded.choice([*sorted(numbers), "3", "4", "(count '[x y w])", "program/x", "@#'x"])
        return getattr(self, self.seeded.choice(self.shapes))(depth - 1, numbers)

    def sum_(self, depth, numbers):
        return f"(+ {self.number(depth, numbers)} (* 2 {self.number(depth, numbers)}))"

    def let_(self, depth, numbers):
        a, b = self.name(), self.name()
        first, second = self.number(depth, numbers), self.number(depth, numbers | {a})
        return f"(let [{a} {first} {b} {second}] {self.number(depth, numbers | {a, b})})"

    def loop_(self, depth, numbers):
        a = self.name()
        return f"(loop [{a} {self.number(depth, numbers)}] {self.number(depth, numbers | {a})})"

    def for_(self, depth, numbers):
        a, b = self.name(), self.name()
        inner = numbers | {a}
        bindings = (
            f"{a} [{self.number(depth, numbers)}] :when {self.number(0, inner)} :let [{b} {self.number(0, inner)}]"
        )
        return f"(first (for [{bindings}] {self.number(depth, inner | {b})}))"

    def fn_(self, depth, numbers):
        a, b = self.name(), self.name()
        body = self.number(depth, numbers - {a} | {b})
        return f"((fn {a} [{b}] {body}) {self.number(depth, numbers)})"

    def arities(self, depth, numbers):
        a, b = self.name(), self.name()
        one, two = self.number(depth, numbers | {a}), self.number(depth, numbers | {a, b})
        return f"((fn ([{a}] {one}) ([{a} {b}] {two})) {self.number(0, numbers)} {self.number(0, numbers)})"

    def letfn_(self, depth, numbers):
        a, b = self.name(), self.name()
        body = f"(if (fn? {a}) {self.number(depth, numbers - {a} | {b})} 5)"
        return f"(letfn [({a} [{b}] {body})] ({a} {self.number(depth, numbers - {a})}))"

    def if_let_(self, depth, numbers):
        a, form = self.name(), self.seeded.choice(["if-let", "if-some"])
        then, other = self.number(depth, numbers | {a}), self.number(depth, numbers)
        return f"({form} [{a} {self.number(depth, numbers)}] {then} {other})"

    def when_(self, depth, numbers):
        a, form = self.name(), self.seeded.choice(["when-let", "when-some"])
        return f"({form} [{a} {self.number(depth, numbers)}] {self.number(depth, numbers | {a})})"

    def as_(self, depth, numbers):
        a = self.name()
        return f"(as-> {self.number(depth, numbers)} {a} {self.number(depth, numbers | {a})})"

    def thread(self, depth, numbers):
        a = self.name()
        steps = f"(+ {self.number(0, numbers)}) (as-> {a} {self.number(0, numbers | {a})})"
        return f"(-> {self.number(depth, numbers)} {steps})"

    def catch_(self, depth, numbers):
        a = self.name()
        return f'(try (throw (ex-info "" {{}})) (catch Exception {a} {self.number(depth, numbers - {a})}))'

    def vector(self, depth, numbers):
        a, b = self.seeded.sample("xyw", 2)
        values = f"[{self.number(depth, numbers)} {self.number(0, numbers)}]"
        pattern = self.seeded.choice([f"{a} & {b}", f"{a} :as {b}"])
        pattern, inner = self.seeded.choice([(pattern, numbers - {b} | {a}), (f"{a} {b}", numbers | {a, b})])
        return f"(let [[{pattern}] {values}] (do {b} {self.number(depth, inner)}))"

    def keys_(self, depth, numbers):
        a = self.name()
        default, value = self.seeded.choice([*sorted(numbers), "3"]), self.number(depth, numbers)
        given = f"{{:{a} {value}}}" if self.seeded.random() < 0.5 else "{}"
        return f"(let [{{:keys [{a}] :or {{{a} {default}}}}} {given}] {self.number(depth, numbers | {a})})"

    def map_(self, depth, numbers):
        a, b = self.seeded.sample("xyw", 2)
        default = self.seeded.choice([*sorted(numbers - {b}), "3"])
        pattern = f"{{{a} :k {b} :l :or {{{a} {default}}}}}"
        return f"(let [{pattern} {{:l {self.number(depth, numbers)}}}] {self.number(depth, numbers | {a, b})})"

    def method(self, depth, numbers):
        a, b = self.seeded.sample("xyw", 2)
        return f"(m (reify P (m [{a} {b}] {self.number(depth, numbers - {a} | {b})})) {self.number(depth, numbers)})"

    def record(self, depth, numbers):
        made = self.seeded.choice(["(->R {} 1)", "(map->R {{:x {} :y 1}})", "(R. {} 1)"]).format(
            self.number(0, numbers)
        )
        return f"(m {made} {self.number(depth, numbers)})"

    def call(self, depth, numbers):
        return self.seeded.choice(["(g 1 {})", "(h {} 5)", "(+ (h) {})"]).format(self.number(depth, numbers))

    def dynamic(self, depth, numbers):
        return f"(binding [y {self.number(depth, numbers)}] {self.number(depth, numbers)})"

    def case_(self, depth, numbers):
        return f"(case 'x y 1 (x w) {self.number(depth, numbers)} 2)"

    def template(self, depth, numbers):
        return f"(eval `(let [a# ~{self.number(depth, numbers)}] (+ a# x ~@[{self.number(0, numbers)}])))"


SHAPES = [name for name in vars(Writer) if not name.startswith("__") and name not in ("program", "name", "number")]


def is_bound(document, name, line):
    """Return whether the form on the line binds the name."""
    found = find_occurrences(document, document.reading.forms, (name, name), [name])
    return any(one.role == "binding" and document.positions.line(one.start) == line for one in found)


def renamings(program, seeded):
    """Yield some of the allowed renames of this program: its text afterwards, and the rename."""
    document = Document(program)
    lines = range(5, program.count("\n") + 2)
    targets = [None, *(Target(line, document.line_text(line)) for line in lines)]
    asked = [(old, new, target) for target in targets for old in "xywmghRP" for new in "wqyx" if old != new]
    found = []
    for old, new, target in seeded.sample(asked, len(asked)):
        result = apply_edits(document, {0: Rename(old, new, target)})
        # The namespace's name in one form alone is another name then.
        if isinstance(result, EditedText) and (target is None or is_bound(document, old, target.line)):
            found.append((result.text, (old, new, target)))
            if len(found) == OF_EACH:
                break
    return found


def cases(seed=57):
    """Yield programs of each shape in turn, and renames of each."""
    seeded = random.Random(seed)
    programs = (Writer(seeded).program(shape) for shape in SHAPES for _ in range(PROGRAMS))
    return [(program, renamings(program, seeded)) for program in programs]


@pytest.mark.slow
def test_clojure_returns_the_same_values_after_a_rename():
    java = program("java", install="install a JDK")
    if not all(jar.exists() for jar in JARS):
        do_without("Clojure is missing: install Debian's package `clojure`")
    found = cases()
    assert all(len(renamed) == OF_EACH for _, renamed in found)
    texts = [text for before, renamed in found for text in (before, *(after for after, _ in renamed))]
    command = [java, "-XX:TieredStopAtLevel=1", "-cp", ":".join(map(str, JARS)), "clojure.main", "-e", RUN]
    given = "".join(json.dumps(text) + "\n" for text in texts)
    ended = subprocess.run(command, input=given, capture_output=True, encoding="utf-8", timeout=170, check=True)
    answers = ended.stdout.splitlines()
    values = []
    for before, renamed in found:
        values.append(answers.pop(0))
        for after, renaming in renamed:
            assert answers.pop(0) == values[-1], (renaming, before, after)
    assert sum(value.startswith("[") for value in values) > 0.8 * len(values)
