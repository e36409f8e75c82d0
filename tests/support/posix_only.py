"""What only Linux and macOS have, for tests. On Windows a test that uses it is skipped with a reason."""

import contextlib
import os
import signal
import socket
import sys

import pytest

if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    def make_pipe(_path):
        """Create a named pipe."""
        pytest.skip("Windows has no pipes among its files")

    def make_link(_path, _target):
        """Create a link to a file."""
        pytest.skip("links take a right on Windows that users do not have")

    def user():
        """Return the number of this user."""
        pytest.skip("Windows' files have no owners by number")

    def group():
        """Return the number of this user's group."""
        pytest.skip("Windows' files have no groups by number")

    def is_root():
        """Return whether this user may act as another."""
        return False

    def has_mode(_path, _mode):
        """Return True: access lists decide here who may do what, and reported modes are made up."""
        return True

    def set_mode(_path, _mode):
        """Set the mode of a file."""
        pytest.skip("on Windows access lists say who may do what")

    def open_exclusively(path):
        """Open a file without sharing it until the returned function is called."""
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.CreateFileW.restype = wintypes.HANDLE
        handle = kernel.CreateFileW(str(path), READ, 0, None, OPEN_EXISTING, 0, None)
        assert handle != wintypes.HANDLE(-1).value, ctypes.WinError(ctypes.get_last_error())
        return lambda: kernel.CloseHandle(wintypes.HANDLE(handle))

    def limit_memory(_pid, _most_bytes):
        """Limit the address space of a process."""
        pytest.skip("Windows bounds no process that runs")

    READ, OPEN_EXISTING = 0x80000000, 3
    """Source: Microsoft, CreateFileW."""

    def give_away(_path, _user=0):
        """Make another user the owner of a file."""
        pytest.skip("Windows' files have no owners by number")

    def kill(pid):
        """Kill a process."""
        os.kill(pid, signal.SIGTERM)

    def kill_group(_pid, _number=None):
        """Kill a group of processes."""
        pytest.skip("Windows has no groups of processes")

    def clock_ticks():
        """Return the ticks per second of the kernel's counters."""
        pytest.skip("Windows counts by other units")

    def session_of(_pid):
        """Return the session of a process."""
        pytest.skip("Windows has no sessions of processes that commands begin")

    def fork():
        """Fork this process."""
        pytest.skip("Windows copies no processes")

    def bounded_files(_most_bytes):
        """Limit the size of files that this process writes, for the duration of the context."""
        pytest.skip("Windows bounds no sizes of files")

    def make_socket(_path):
        """Create a named socket."""
        pytest.skip("Python has no sockets with names on Windows")

    def message_sockets():
        """Return two connected sockets that preserve message boundaries."""
        pytest.skip("Windows' sockets carry no files")

    def send_files(_link, _told, _descriptors):
        """Send open files with a message."""
        pytest.skip("Windows' sockets carry no files")

    def open_terminal():
        """Return the two ends of a terminal."""
        pytest.skip("Windows' terminals are others")

    def terminal_settings(_end):
        """Return the settings of a terminal."""
        pytest.skip("Windows' terminals are others")

    def acquire_terminal(_end):
        """Make a terminal the controlling terminal of this process."""
        pytest.skip("Windows' terminals are others")

    def size_terminal(_end, _lines, _columns):
        """Set the size of a terminal."""
        pytest.skip("Windows' terminals are others")

    KILL = signal.SIGTERM
    """The signal that ends a process at once."""

    def was_killed(_status):
        """Return whether a process was killed, which no status shows here."""
        return True

else:
    import fcntl
    import pty
    import resource
    import struct
    import termios

    def limit_memory(pid, most_bytes):
        """Limit the address space of a process, on systems that can limit a running one."""
        with contextlib.suppress(ProcessLookupError):  # it has ended
            if sys.platform == "linux":
                resource.prlimit(pid, resource.RLIMIT_AS, (most_bytes, most_bytes))

    def make_pipe(path):
        """Create a named pipe."""
        os.mkfifo(path)

    def make_link(path, target):
        """Create a link to a file."""
        path.symlink_to(target)

    def user():
        """Return the number of this user."""
        return os.geteuid()

    def group():
        """Return the number of this user's group."""
        return os.getegid()

    def is_root():
        """Return whether this user may act as another."""
        return os.geteuid() == 0

    def has_mode(path, mode):
        """Return whether a file, or a link itself, has this mode."""
        return os.lstat(path).st_mode & 0o777 == mode

    def set_mode(path, mode):
        """Set the mode of a file."""
        path.chmod(mode)

    def open_exclusively(_path):
        """Open a file without sharing it."""
        pytest.skip("files are shared with everybody but on Windows")

    def give_away(path, user=12345):
        """Make another user the owner of a file, or of a link itself."""
        os.chown(path, user, user, follow_symlinks=False)

    def kill(pid):
        """Kill a process."""
        os.kill(pid, signal.SIGKILL)

    def kill_group(pid, number=signal.SIGKILL):
        """Kill a group of processes."""
        os.killpg(pid, number)

    def clock_ticks():
        """Return the ticks per second of the kernel's counters."""
        return os.sysconf("SC_CLK_TCK")

    def session_of(pid):
        """Return the session of a process."""
        return os.getsid(pid)

    def fork():
        """Fork this process."""
        return os.fork()

    @contextlib.contextmanager
    def bounded_files(most_bytes):
        """Limit the size of files that this process writes, for the duration of the context."""
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, limits[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    def make_socket(path):
        """Create a named socket."""
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))

    def message_sockets():
        """Return two connected sockets that preserve message boundaries."""
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def send_files(link, message, descriptors):
        """Send open files with a message."""
        socket.send_fds(link, [message], descriptors)

    def open_terminal():
        """Return the two ends of a terminal."""
        return pty.openpty()

    def terminal_settings(end):
        """Return the settings of a terminal."""
        return termios.tcgetattr(end)

    def acquire_terminal(end):
        """Make a terminal the controlling terminal of this process."""
        os.login_tty(end)

    def size_terminal(end, lines, columns):
        """Set the size of a terminal."""
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    KILL = signal.SIGKILL
    """The signal that ends a process at once."""

    def was_killed(status):
        """Return whether a process was killed, by its status."""
        return status == -KILL
