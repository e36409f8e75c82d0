"""What Linux and macOS alone have, as tests ask for it. On Windows a test that does is skipped, and says why."""

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
        """A pipe with a name."""
        pytest.skip("Windows has no pipes among its files")

    def make_link(_path, _target):
        """A link to a file."""
        pytest.skip("links take a right on Windows that users do not have")

    def user():
        """The number of this user."""
        pytest.skip("Windows' files have no owners by number")

    def group():
        """The number of this user's group."""
        pytest.skip("Windows' files have no groups by number")

    def is_root():
        """Whether this user may act as another."""
        return False

    def has_mode(_path, _mode):
        """True: access lists say here who may do what, and the modes that are told are made up."""
        return True

    def set_mode(_path, _mode):
        """Say who may do what with a file."""
        pytest.skip("on Windows access lists say who may do what")

    def hold_alone(path):
        """Hold a file and share it with nobody, until what is given is called."""
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.CreateFileW.restype = wintypes.HANDLE
        handle = kernel.CreateFileW(str(path), READ, 0, None, OPEN_EXISTING, 0, None)
        assert handle != wintypes.HANDLE(-1).value, ctypes.WinError(ctypes.get_last_error())
        return lambda: kernel.CloseHandle(wintypes.HANDLE(handle))

    def limit_memory(_pid, _most_bytes):
        """Let a process have so much of the address space at most."""
        pytest.skip("Windows bounds no process that runs")

    READ, OPEN_EXISTING = 0x80000000, 3
    """Source: Microsoft, CreateFileW."""

    def give_away(_path, _user=0):
        """Make a file another user's."""
        pytest.skip("Windows' files have no owners by number")

    def kill(pid):
        """End a process at once."""
        os.kill(pid, signal.SIGTERM)

    def kill_group(_pid, _number=None):
        """End a group of processes."""
        pytest.skip("Windows has no groups of processes")

    def clock_ticks():
        """Ticks a second of what the kernel counts by."""
        pytest.skip("Windows counts by other units")

    def session_of(_pid):
        """The session of a process."""
        pytest.skip("Windows has no sessions of processes that commands begin")

    def fork():
        """Copy this process."""
        pytest.skip("Windows copies no processes")

    def bounded_files(_most_bytes):
        """Let no file of this process grow beyond this size, for as long as the context lasts."""
        pytest.skip("Windows bounds no sizes of files")

    def make_socket(_path):
        """A socket with a name."""
        pytest.skip("Python has no sockets with names on Windows")

    def message_sockets():
        """Two sockets that keep the bounds of messages."""
        pytest.skip("Windows' sockets carry no files")

    def send_files(_link, _told, _descriptors):
        """Hand open files on with a message."""
        pytest.skip("Windows' sockets carry no files")

    def open_terminal():
        """The two ends of a terminal."""
        pytest.skip("Windows' terminals are others")

    def terminal_settings(_end):
        """The settings of a terminal."""
        pytest.skip("Windows' terminals are others")

    def take_terminal(_end):
        """Make a terminal that of this process."""
        pytest.skip("Windows' terminals are others")

    def size_terminal(_end, _lines, _columns):
        """Give a terminal this size."""
        pytest.skip("Windows' terminals are others")

    KILL = signal.SIGTERM
    """The signal that ends a process at once."""

    def was_killed(_status):
        """Whether a process was ended at once: here no status tells it."""
        return True

else:
    import fcntl
    import pty
    import resource
    import struct
    import termios

    def limit_memory(pid, most_bytes):
        """Let a process have so much of the address space at most, where the system bounds one that runs."""
        with contextlib.suppress(ProcessLookupError):  # it has ended
            if sys.platform == "linux":
                resource.prlimit(pid, resource.RLIMIT_AS, (most_bytes, most_bytes))

    def make_pipe(path):
        """A pipe with a name."""
        os.mkfifo(path)

    def make_link(path, target):
        """A link to a file."""
        path.symlink_to(target)

    def user():
        """The number of this user."""
        return os.geteuid()

    def group():
        """The number of this user's group."""
        return os.getegid()

    def is_root():
        """Whether this user may act as another."""
        return os.geteuid() == 0

    def has_mode(path, mode):
        """Whether this is who may do what with a file, or with a link itself."""
        return os.lstat(path).st_mode & 0o777 == mode

    def set_mode(path, mode):
        """Say who may do what with a file."""
        path.chmod(mode)

    def hold_alone(_path):
        """Hold a file and share it with nobody."""
        pytest.skip("files are shared with everybody but on Windows")

    def give_away(path, user=12345):
        """Make a file another user's: a link itself, not where it leads."""
        os.chown(path, user, user, follow_symlinks=False)

    def kill(pid):
        """End a process at once."""
        os.kill(pid, signal.SIGKILL)

    def kill_group(pid, number=signal.SIGKILL):
        """Send a signal to a group of processes, that which ends it at once."""
        os.killpg(pid, number)

    def clock_ticks():
        """Ticks a second of what the kernel counts by."""
        return os.sysconf("SC_CLK_TCK")

    def session_of(pid):
        """The session of a process."""
        return os.getsid(pid)

    def fork():
        """Copy this process."""
        return os.fork()

    @contextlib.contextmanager
    def bounded_files(most_bytes):
        """Let no file of this process grow beyond this size, for as long as the context lasts."""
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, limits[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    def make_socket(path):
        """A socket with a name."""
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))

    def message_sockets():
        """Two sockets that keep the bounds of messages."""
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def send_files(link, told, descriptors):
        """Hand open files on with a message."""
        socket.send_fds(link, [told], descriptors)

    def open_terminal():
        """The two ends of a terminal."""
        return pty.openpty()

    def terminal_settings(end):
        """The settings of a terminal."""
        return termios.tcgetattr(end)

    def take_terminal(end):
        """Make a terminal that of this process."""
        os.login_tty(end)

    def size_terminal(end, lines, columns):
        """Give a terminal this size."""
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    KILL = signal.SIGKILL
    """The signal that ends a process at once."""

    def was_killed(status):
        """Whether a process was ended at once, by its status."""
        return status == -KILL
