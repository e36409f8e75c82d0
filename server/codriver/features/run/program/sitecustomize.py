"""Prepare a Python process for a REPL without adding threads, sockets or open files. Run the user's `sitecustomize`.

`codriver run` puts this directory first on PYTHONPATH. When the interpreter starts, this module installs a handler for
SIGURG. The signal is ignored by default, so it does no harm to a process without the handler. A server that needs a
REPL writes a request into `$CODRIVER_RUN` and sends the signal. Only then is a thread started, which connects to the
server. Other SIGURG signals are passed to the previous handler.

All versions of Python 3 must be able to read this file. It leaves no trace in `sys.path` or `sys.modules`.
"""

# mypy: ignore-errors
# It checks for parts of Python that exist only in some versions, and replaces one of them.

import sys


def _install_signal_handler(home):
    """Install a signal handler that starts a REPL when the server requests one."""
    import _signal
    import os

    # ddtrace removes `_thread` from `sys.modules` before it runs this module, so that the program imports it again.
    from _frozen_importlib import _thread

    directory = os.environ.get("CODRIVER_RUN")
    if not directory or sys.version_info < (3, 8) or not hasattr(_signal, "SIGURG"):
        return
    # Libraries such as gevent, and tests, replace functions of these modules later.
    start, thread_id = _thread.start_new_thread, _thread.get_ident
    pause_for_signal = _signal.pause
    user_id, process_id, stat, lstat = os.geteuid, os.getpid, os.stat, os.lstat
    rename, touch = os.rename, os.utime
    passed = []  # one entry for each signal that the program would have ignored without this handler
    library = os.path.dirname(getattr(os, "__file__", ""))
    shared = {"loop": None, "repl": None, "pid": 0, "thread": 0, "start_new_thread": start}

    def pause():
        """Wait for a signal that is meant for the program. A request for a REPL must not end the wait."""
        count = len(passed)
        while True:
            pause_for_signal()
            if len(passed) == count:
                return
            count = len(passed)

    def report_failure(path, text):
        """Report to the server why there is no REPL. Errors in doing so are ignored."""
        try:
            with open(path, "w") as file:
                file.write(text)
        except Exception:
            pass

    def answer(request):
        # Runs on the new thread. The source is executed directly, so that no module in the program can replace it.
        space = {"__name__": "_codriver_program", "directory": os.path.join(home, "codriver_program")}
        shared["thread"] = thread_id()
        try:
            if sys.gettrace() is not None:  # where it is, debugpy prints a warning for each call of `settrace`
                sys.settrace(None)
            with open(os.path.join(home, "codriver_program", "answer.py"), "rb") as file:
                exec(compile(file.read(), "<codriver answer>", "exec", dont_inherit=True), space)
            space["answer"](request, directory, shared)
        except BaseException:
            import traceback

            report_failure(request + ".failed", traceback.format_exc())
        finally:
            # A raw thread that runs Python modules may leave an entry in the threads of `threading`.
            threads = getattr(sys.modules.get("threading"), "_active", {})
            if type(threads.get(thread_id())).__name__ == "_DummyThread":
                threads.pop(thread_id(), None)

    def is_partly_imported(module):
        """Return whether this is a standard library module that is currently being imported."""
        try:
            spec = object.__getattribute__(module, "__dict__").get("__spec__")  # a lazy module would be imported
            origin = str(getattr(spec, "origin", ""))
            return getattr(spec, "_initializing", False) and origin.startswith(library) and "-packages" not in origin
        except Exception:
            return False

    def is_importing_library():
        """Return whether a standard library module is only partly imported, so that importing more is not safe."""
        return any(map(is_partly_imported, list(sys.modules.values())))

    def on_signal(number, frame):
        name = "%s/%d" % (directory, process_id())
        try:
            status = lstat(directory)
            if status.st_uid != user_id() or status.st_mode & 0o77 or status.st_mode >> 12 != 4:
                raise OSError("other users could have written the request")  # noqa: TRY301  # it is not for this process either
            stat(name + ".request")
            if is_importing_library():  # the program is just starting, and the server sends the signal again
                touch(name + ".request")
                passed.append(1)
                return
            rename(name + ".request", name + ".taken")
        except OSError:  # urgent data on a socket, or a signal that a library uses
            if callable(before):
                before(number, frame)
            else:
                passed.append(1)
            return
        passed.append(1)
        try:
            # `threading` assumes that the thread that imports it is the main thread, and this is the main thread.
            import threading  # noqa: F401

            start(answer, (name + ".taken",))
        except Exception as error:  # the program is ending, or may have no more threads or open files
            report_failure(name + ".taken.failed", "%s: %s" % (type(error).__name__, error))

    on_signal.codriver_run = shared
    try:
        before = _signal.signal(_signal.SIGURG, on_signal)
    except ValueError:  # a subinterpreter, or a host that initializes Python on another thread
        return
    _signal.pause = pause
    if "signal" in sys.modules:
        sys.modules["signal"].pause = pause


def _store_final_output():
    """Retain the end of this process's error output, and write it to a file at exit if requested.

    If a saved change breaks the program, the process started by its reloader ends at once, and only its output shows
    why.
    """
    import os

    directory, stream = os.environ.get("CODRIVER_RUN"), sys.stderr
    if not directory or stream is None:
        return
    pid_of, limit, write_through = os.getpid, 4096, stream.write
    stored = ["", 0, False]  # the text, the process that printed it, and whether it is stored at exit

    def write(text):
        count = write_through(text)
        try:
            pid = pid_of()
            stored[:2] = [((stored[0] if stored[1] == pid else "") + text[-limit:])[-limit:], pid]
            if not stored[2]:
                stored[2] = True
                import atexit  # only now, so that a program that prints no errors has the same modules as usual

                atexit.register(store)
        except Exception:
            pass  # a failure must not affect the program
        return count

    def store():
        folder = os.path.join(directory, "final-output")
        if stored[1] == pid_of() and os.path.isdir(folder):
            name = os.path.join(folder, str(stored[1]))
            try:
                with open(name + ".draft", "w", encoding="utf-8", errors="backslashreplace") as file:
                    file.write(stored[0])
                os.rename(name + ".draft", name)
            except OSError:
                pass

    stream.write = write


def _hidden(code):
    """Change the file name of a code object to make coverage ignore it."""
    constants = tuple([_hidden(const) if type(const) is type(code) else const for const in code.co_consts])
    return code.replace(co_filename="<codriver run>", co_consts=constants)


def _cache(spec):
    """Write the bytecode of this module to its cache, even if Python is configured not to write bytecode.

    The directory belongs to Codriver, and its files never change.
    """
    import os

    try:
        os.stat(spec.cached)
    except OSError:
        from _frozen_importlib_external import SourceFileLoader, _code_to_hash_pyc

        loader = SourceFileLoader("sitecustomize", spec.origin)
        code = loader.source_to_code(loader.get_data(spec.origin), spec.origin)
        loader.set_data(spec.cached, _code_to_hash_pyc(code, bytes(8), False))  # noqa: FBT003  # the signature of Python


def _main(home):
    """Install the handlers, and remove this module so that Python imports the user's own `sitecustomize`."""
    try:
        for function in (_install_signal_handler, _store_final_output):
            if hasattr(function.__code__, "replace"):
                function.__code__ = _hidden(function.__code__)
        _install_signal_handler(home)
        _store_final_output()
        _cache(__spec__)
    except Exception:
        pass  # a failure must not affect the program
    sys.path[:] = [path for path in sys.path if path != home]
    sys.path_importer_cache.pop(home, None)
    sys.modules.pop("sitecustomize", None)


_main(__file__.rpartition("/")[0] or ".")
import sitecustomize  # noqa: E402,F401  # the user's module; if there is none, `site` ignores this ImportError
