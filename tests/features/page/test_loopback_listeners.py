"""Listeners on both loopback addresses: no other program can use either of them on the same port."""

import contextlib
import errno
import socket
import subprocess
import sys
from pathlib import Path

import anyio
import other_user
import posix_only
import pytest
from other_user import needs_root

import codriver
from codriver.features.page.loopback_listeners import NoPortError, listen_on_loopback

ADDRESSES = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
FREE_PORTS = (0,) * 16
"""Several free ports, because parallel tests may use one of them on the other address."""


def has_ipv6():
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as tried:
        tried.bind(("::1", 0))
        return True
    return False


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="loopback has no IPv6 here")


def listening(*ports):
    """Listen on the first free one of these ports, and return the addresses, each with its port."""

    async def listen():
        listeners, port = await listen_on_loopback(ports) if ports else await listen_on_loopback()
        try:
            taken = [bind(family, address, port) for family, address in ADDRESSES]
            return port, [item._raw_socket.getsockname()[:2] for item in listeners], taken
        finally:
            for listener in listeners:
                await listener.aclose()

    return anyio.run(listen)


def bind(family, address, port, *options):
    """Return the error of binding an address, or None."""
    with socket.socket(family) as tried:
        for option in options:
            tried.setsockopt(socket.SOL_SOCKET, option, 1)
        try:
            tried.bind((address, port))
            tried.listen()
        except OSError as error:
            return error.errno
    return None


@needs_ipv6
def test_both_loopback_addresses_are_bound_on_one_port():
    port, retained, taken = listening()
    assert sorted(retained) == [("127.0.0.1", port), ("::1", port)]
    assert taken == [errno.EADDRINUSE, errno.EADDRINUSE]


@needs_ipv6
@pytest.mark.parametrize(("family", "address"), ADDRESSES, ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("option", ["plain", "reused", "shared", "bound only"])
def test_a_port_used_by_another_program_on_one_address_is_skipped(family, address, option):
    with socket.socket(family) as other:
        if option in ("reused", "bound only"):
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if option == "shared" and hasattr(socket, "SO_REUSEPORT"):
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind((address, 0))
        if option != "bound only":
            other.listen()
        port = other.getsockname()[1]
        found, retained, _ = listening(port, *FREE_PORTS)
        assert found != port
        assert len(retained) == 2
        with pytest.raises(NoPortError):
            listening(port)


@needs_ipv6
@needs_root
def test_a_port_used_by_another_user_is_skipped_and_neither_address_can_be_taken_later():
    with contextlib.ExitStack() as opened:
        (port,) = other_user.free_ports(1)
        process = opened.enter_context(other_user.holding("::1", port))
        found, _, _ = listening(port, *FREE_PORTS)
        assert found != port
        process.stdin.close()
    for options in ((), (socket.SO_REUSEADDR,), (socket.SO_REUSEPORT,)):
        anyio.run(_tries_of_another_user, options)


async def _tries_of_another_user(options):
    listeners, port = await listen_on_loopback()
    try:
        for family, address in (*ADDRESSES, (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
            code = f"""
BECOME
with socket.socket({int(family)}) as tried:
    for option in {tuple(map(int, options))}:
        tried.setsockopt(socket.SOL_SOCKET, option, 1)
    try:
        tried.bind(({address!r}, {port}))
        tried.listen()
        print("has it")
    except OSError as error:
        print(error.errno)
"""
            assert other_user.run(code).strip() == str(errno.EADDRINUSE)
    finally:
        for listener in listeners:
            await listener.aclose()


@pytest.mark.skipif(not posix_only.is_root() or sys.platform != "linux", reason="only root can take IPv6 away")
def test_without_ipv6_only_one_address_is_bound():
    code = """
import anyio, socket, sys
sys.path.insert(0, sys.argv[1])
from codriver.features.page.loopback_listeners import listen_on_loopback
async def main():
    for ports in ((0,), (0, 0)):
        listeners, port = await listen_on_loopback(ports)
        print([one._raw_socket.getsockname()[0] for one in listeners])
    try:
        socket.socket(socket.AF_INET6).bind(("::1", port))
    except OSError:
        print("cannot be bound")
anyio.run(main)
"""
    package = str(Path(codriver.__file__).parents[1])
    script = 'ip link set lo up && echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6 && exec "$@"'
    command = ["unshare", "--net", "sh", "-c", script, "sh", sys.executable, "-c", code, package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unshare failed" in done.stderr or "Operation not permitted" in done.stderr:
        pytest.skip("this machine allows no network namespace")
    assert done.stdout.splitlines() == ["['127.0.0.1']", "['127.0.0.1']", "cannot be bound"], done.stderr
