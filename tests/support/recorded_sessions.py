"""Fifty small sessions of all kinds: each a name, the evaluated code, and a change that makes its test fail.

The change is made in the exported test: the first occurrence of the first text is replaced by the second.
"""

# ruff: noqa: E501, Q003  # a session is a row of the table

PYTHON = {
    "function": (["def inc(x):\n    return x + 1", "inc(3)\ninc(-1)"], ("x + 1", "x + 2")),
    "float": (["def half(x):\n    return x / 3", "half(2)", "0.1 + 0.2"], ("x / 3", "x / 4")),
    "not_a_number": (["def bad():\n    return float('nan')", "bad()", "float('inf')"], ("'nan'", "'inf'")),
    "text": (["def greet(name):\n    return f'Hello, \"{name}\"!\\n'", "greet('Åsa')"], ("Hello", "Hallo")),
    "lines": (["POEM = '''roses\n  violets\n'''\ndef lines():\n    return POEM.splitlines()", "lines()"], ("violets", "tulips")),
    "bytes": (["def coded(text):\n    return text.encode()", "coded('ü')"], (".encode()", ".encode('latin-1')")),
    "truth": (["def is_even(n):\n    return n % 2 == 0", "is_even(2), is_even(3)", "is_even(4)"], ("== 0", "== 1")),
    "nothing": (["def find(d, k):\n    return d.get(k)", "find({'a': 1}, 'b')"], ("d.get(k)", "d.get(k, 0)")),
    "dict": (["d = {'b': 1}", "d['a'] = 2", "d", "sorted(d)"], ("['a'] = 2", "['a'] = 3")),
    "set": (["def letters(word):\n    return set(word)", "letters('hello')", "{'x', 'y'} | letters('z')"], ("set(word)", "set(word[1:])")),
    "nested": (["def tree(n):\n    return {'n': n, 'kids': [tree(i) for i in range(n)]}", "tree(2)"], ("range(n)", "range(n - 1)")),
    "raises": (["def check(n):\n    if n < 0:\n        raise ValueError(f'{n} is negative')\n    return n", "check(-1)", "check(1)"], ("n < 0", "n < -5")),
    "own_error": (["class Broken(Exception):\n    pass\ndef go():\n    raise Broken('oh (no)')", "go()"], ("raise Broken", "return Broken")),
    "json_error": (["import json", "json.loads('{')", "json.loads('[1]')"], ("'{'", "'{}'")),
    "key_error": (["def get(d):\n    return d['key']", "get({})", "get({'key': 5})"], ("d['key']", "d.get('key')")),
    "prints": (["def shout(x):\n    print(x.upper())\n    return len(x)", "shout('abc')"], ("upper", "title")),
    "prints_lines": (["for i in range(3):\n    print(i, end=' ')\nprint()"], ("range(3)", "range(4)")),
    "object": (["class Point:\n    def __init__(self, x):\n        self.x = x", "Point(1)", "Point(2).x"], ("self.x = x", "self.x = -x")),
    "record": (["from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n    y: int = 2", "P(1)", "P(1) == P(1, 2)"], ("= 2", "= 3")),
    "address": (["def make():\n    return object()", "make()", "[make(), 1]"], ("object()", "None")),
    "identifier": (["import uuid", "def fresh():\n    return str(uuid.uuid4())", "fresh()"], ("uuid4", "uuid1().hex or uuid.uuid4")),
    "time": (["import datetime", "def now():\n    return datetime.datetime(2020, 1, 2).replace(microsecond=datetime.datetime.now().microsecond or 1)", "now().year", "now()"], ("2020", "2021")),
    "epoch": (["import time", "def stamp():\n    return int(time.time())", "stamp()", "stamp() > 5"], ("> 5", "< 5")),
    "seeded": (["import random", "random.seed(7)", "random.random()", "random.randint(1, 6)"], ("seed(7)", "seed(8)")),
    "unseeded": (["import random", "def roll():\n    return random.random()", "roll()", "0 <= roll() < 1"], ("random.random()", "2.0")),
    "generator": (["def count():\n    n = 0\n    while True:\n        yield n\n        n += 1", "g = count()", "next(g)", "next(g), next(g)"], ("n += 1", "n += 2")),
    "list_grows": (["xs = []", "xs.append(1)", "xs", "xs.append(2)", "xs"], ("append(1)", "append(3)")),
    "counter": (["n = 0\ndef bump():\n    global n\n    n += 1\n    return n", "bump()", "bump()", "n"], ("n += 1", "n += 2")),
    "redefined": (["def f(x):\n    return x", "f(1)", "def f(x):\n    return -x", "f(1)"], ("return -x", "return x")),
    "rebound": (["list = [3, 1]", "list", "list = sorted(list)", "list"], ("[3, 1]", "[3, 2]")),
    "async": (["import asyncio\nasync def later(x):\n    await asyncio.sleep(0)\n    return x * 2", "await later(4)", "y = await later(5)", "y"], ("x * 2", "x * 3")),
    "typo": (["def f(x):\n    return x * 10", "ff(1)", "f(1)"], ("x * 10", "x * 9")),
    "comments": (["# The rate.\nRATE = 3  # percent\n\n# Of a sum.\ndef of(x):\n    return x * RATE / 100", "of(50)"], ("= 3", "= 4")),
    "dynamic": (["globals()['hidden'] = 5\ndef see():\n    return hidden", "see()"], ("= 5", "= 6")),
}  # fmt: skip

LISP = {
    "function": (["(defn inc2 [x] (+ x 2))", "(inc2 3) (inc2 -1)"], ("(+ x 2)", "(+ x 3)")),
    "collections": (["(defn pairs [n] (map (fn [i] [i (* i i)]) (range n)))", "(pairs 3)", "(into {} (pairs 2))"], ("(* i i)", "(+ i i)")),
    "sets": (["(defn letters [s] (set (map str s)))", "(letters \"hello\")"], ("(set (map", "(vec (map")),
    "keywords": (["(defn kind [x] (cond (neg? x) :neg (zero? x) :zero :else :pos))", "[(kind -1) (kind 0) (kind 1)]"], (":zero :else", ":none :else")),
    "strings": (["(defn greet [who] (str \"Hello,\\n\\\"\" who \"\\\"\"))", "(greet \"Åsa\")"], ("Hello", "Hallo")),
    "nothing": (["(defn find-it [m k] (get m k))", "(find-it {:a 1} :b)"], ("(get m k)", "(get m k 0)")),
    "raises": (["(defn check [n] (if (neg? n) (throw (ex-info (str n \" is (negative)\") {:n n})) n))", "(check -1)", "(check 1)"], ("(neg? n)", "(neg? (+ n 5))")),
    "atom": (["(def state (atom 0))", "(swap! state inc)", "@state", "(reset! state 10)", "(swap! state + 5)"], ("state inc", "state dec")),
    "redefined": (["(defn f [x] x)", "(f 1)", "(defn f [x] (- x))", "(f 1)"], ("(- x)", "(+ x)")),
    "rebound": (["(def x 5)", "(* x 2)", "(def x 6)", "(* x 2)"], ("(def x 5)", "(def x 7)")),
    "prints": (["(defn shout [x] (println \"so\" x) (count x))", "(shout \"abc\")"], ("\"so\"", "\"no\"")),
    "macro": (["(defmacro twice [x] `(do ~x ~x))", "(def n (atom 0))", "(twice (swap! n inc))"], ("`(do ~x ~x)", "`(do ~x)")),
    "required": (["(require '[clojure.string :as str])", "(defn loud [s] (str/upper-case s))", "(loud \"abc\")"], ("upper-case", "lower-case")),
    "typo": (["(defn g [x] (* x 10))", "(gg 1)", "(g 1)"], ("(* x 10)", "(* x 9)")),
    "object": (["(defn make [] (atom 3))", "(make)", "@(make)"], ("(atom 3)", "(atom 4)")),
    "multi": (["(defmulti area :shape)\n(defmethod area :square [{:keys [side]}] (* side side))", "(area {:shape :square :side 3})"], ("(* side side)", "(+ side side)")),
}  # fmt: skip
