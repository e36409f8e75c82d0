"""Makes a Python process ready for a REPL, without a thread, a socket or a file, then runs the user's `sitecustomize`.

`codriver run` puts this directory first on PYTHONPATH. At the start of the interpreter it installs one signal handler,
for SIGURG, whose default action is to be ignored: a process without the handler takes no harm from the signal. A server
that needs a REPL writes a request into `$CODRIVER_RUN` and sends the signal. Only then a thread is started, which
connects out to the server. Any other SIGURG goes to the handler that was there before.

Any Python 3 must be able to read it. It leaves no trace on `sys.path` or in `sys.modules`.
"""

# mypy: ignore-errors
# It looks for parts of Python that only some versions have, and replaces one.

import sys


def _arm(here):
    import _signal
    import _thread
    import os

    directory = os.environ.get("CODRIVER_RUN")
    if not directory or sys.version_info < (3, 8) or not hasattr(_signal, "SIGURG"):
        return
    start = _thread.start_new_thread  # before gevent replaces it
    pause_for_signal = _signal.pause
    passed = []  # one entry for each signal that a program without this handler would have ignored
    shared = {"loop": None, "repl": None, "pid": 0}

    def pause():
        """Wait for a signal of the program's own: a request for a REPL must not end the wait."""
        count = len(passed)
        while True:
            pause_for_signal()
            if len(passed) == count:
                return
            count = len(passed)

    def answer(request):
        # On the new thread. The file is executed from its source, so that no module of the program's can replace it.
        space = {"__name__": "_codriver_program", "directory": os.path.join(here, "codriver_program")}
        try:
            sys.settrace(None)
            with open(os.path.join(here, "codriver_program", "answer.py"), "rb") as file:
                exec(compile(file.read(), "<codriver answer>", "exec", dont_inherit=True), space)
            space["answer"](request, directory, shared)
        except BaseException:
            import traceback

            try:
                with open(request + ".failed", "w") as file:
                    traceback.print_exc(file=file)
            except OSError:
                pass
        finally:
            # A raw thread that runs Python's own modules may leave an entry among the threads of `threading`.
            threads = getattr(sys.modules.get("threading"), "_active", {})
            if type(threads.get(_thread.get_ident())).__name__ == "_DummyThread":
                threads.pop(_thread.get_ident(), None)

    def on_signal(number, frame):
        name = os.path.join(directory, str(os.getpid()))
        try:
            status = os.lstat(directory)
            if status.st_uid != os.geteuid() or status.st_mode & 0o77 or status.st_mode >> 12 != 4:
                raise OSError("others could have written a request there")  # noqa: TRY301  # it is not for us either
            os.rename(name + ".request", name + ".taken")
        except OSError:  # urgent data on a socket, or a library's own use of the signal
            if callable(before):
                before(number, frame)
            else:
                passed.append(1)
            return
        passed.append(1)
        # `threading` takes the thread that imports it for the main one, and this is the main thread.
        import threading  # noqa: F401

        start(answer, (name + ".taken",))

    on_signal.codriver_run = shared
    try:
        before = _signal.signal(_signal.SIGURG, on_signal)
    except ValueError:  # a sub-interpreter, or a host that initialises Python on another thread
        return
    _signal.pause = pause
    if "signal" in sys.modules:
        sys.modules["signal"].pause = pause


def _hidden(code):
    """Return the code under a name that coverage passes over."""
    constants = tuple([_hidden(one) if type(one) is type(code) else one for one in code.co_consts])
    return code.replace(co_filename="<codriver run>", co_consts=constants)


def _cache(spec):
    """Store the bytecode even where Python is set to write none: the directory is Codriver's, and its source stays."""
    import os

    try:
        os.stat(spec.cached)
    except OSError:
        from _frozen_importlib_external import SourceFileLoader, _code_to_hash_pyc

        loader = SourceFileLoader("sitecustomize", spec.origin)
        code = loader.source_to_code(loader.get_data(spec.origin), spec.origin)
        loader.set_data(spec.cached, _code_to_hash_pyc(code, bytes(8), False))  # noqa: FBT003  # the signature of Python


def _main(here):
    try:
        if hasattr(_arm.__code__, "replace"):
            _arm.__code__ = _hidden(_arm.__code__)
        _arm(here)
        _cache(__spec__)
    except Exception:
        pass  # the program matters more
    sys.path[:] = [path for path in sys.path if path != here]
    sys.path_importer_cache.pop(here, None)
    sys.modules.pop("sitecustomize", None)


_main(__file__.rpartition("/")[0] or ".")
import sitecustomize  # noqa: E402,F401  # the user's own; without one, `site` ignores this ImportError, as always
