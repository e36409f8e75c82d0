"""Parsing thread dumps, and selecting the user's frames."""

from codriver.repls.dialects.thread_dumps import Thread, build_thread_dump, parse_python_dump

PYTHON = """Thread-1 (watch):
  File "/usr/lib/python3.11/threading.py", line 982, in run
    self._target(*self._args)

MainThread:
  File "/usr/lib/python3.11/json/decoder.py", line 3, in decode
    x
  File "/home/a b/shop/cart.py", line 7, in total
    while True:
        ^^^^
"""
TOOLING = ("/lib/python", "clojure.lang.", "java.", "nrepl.")


def test_python_threads_are_parsed_with_all_their_frames():
    first, main = parse_python_dump(PYTHON)
    assert (first.title, len(first.frames)) == ("Thread-1 (watch):", 1)
    assert main.frames[1] == '  File "/home/a b/shop/cart.py", line 7, in total\n    while True:\n        ^^^^'


def test_selecting_user_frames_preserves_the_full_thread_dump():
    dump = build_thread_dump(parse_python_dump(PYTHON), TOOLING)
    assert dump.user == 'MainThread:\n  File "/home/a b/shop/cart.py", line 7, in total\n    while True:\n        ^^^^'
    assert dump.whole == PYTHON.rstrip()


def test_jvm_frames_are_classified_despite_loader_and_module_prefixes():
    frames = (
        "    at java.base@17.0.15/java.lang.Thread.sleep(Native Method)",
        "    at app//clojure.lang.AFn.run(AFn.java:22)",
        "    at app//shop.cart$total.invoke(cart.clj:3)",
        "    at user$spin.invoke(NO_SOURCE_FILE:1)",
        "    at nrepl.middleware.session$f.invoke(session.clj:1)",
    )
    dump = build_thread_dump([Thread("a (RUNNABLE)", frames)], TOOLING)
    assert dump.user.splitlines() == ["a (RUNNABLE)", *frames[2:4]]


def test_an_empty_thread_dump_is_parsed_as_none():
    assert parse_python_dump("") == ()
    assert build_thread_dump([], TOOLING) is None


def test_a_thread_dump_without_user_frames_has_empty_user_text():
    assert build_thread_dump([Thread("a", ("    at java.lang.Thread.run(Thread.java:1)",))], TOOLING).user == ""
