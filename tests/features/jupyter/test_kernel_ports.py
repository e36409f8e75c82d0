"""The ports of a kernel that is about to be started are free, and stay free until the kernel binds them."""

import random
import socket

from codriver.features.jupyter.kernels import kernel_ports
from codriver.features.jupyter.kernels.kernel_ports import PORT_NAMES, choose_ports


def test_kernel_ports_are_below_the_ephemeral_port_range(tmp_path, monkeypatch):
    system_ports = tmp_path / "ip_local_port_range"
    system_ports.write_text("20008\t60999\n")
    monkeypatch.setattr(kernel_ports, "EPHEMERAL_PORTS_FILE", system_ports)
    ports = choose_ports()
    assert tuple(ports) == PORT_NAMES
    assert len(set(ports.values())) == len(PORT_NAMES)
    assert set(ports.values()) <= set(range(20_000, 20_008))


def test_a_port_in_use_is_not_chosen(monkeypatch):
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        taken = busy.getsockname()[1]
        sample = random.sample
        monkeypatch.setattr(random, "sample", lambda candidates, count: [taken, *sample(candidates, count - 1)])
        ports = choose_ports()
    assert len(ports) == len(PORT_NAMES)
    assert taken not in ports.values()


def test_any_free_ports_are_used_if_the_ephemeral_range_starts_too_low(tmp_path, monkeypatch):
    system_ports = tmp_path / "ip_local_port_range"
    system_ports.write_text("1024\t65535\n")
    monkeypatch.setattr(kernel_ports, "EPHEMERAL_PORTS_FILE", system_ports)
    assert choose_ports() == {}


def test_the_standard_ephemeral_range_is_assumed_if_the_system_reports_none(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_ports, "EPHEMERAL_PORTS_FILE", tmp_path / "none")
    assert max(choose_ports().values()) < kernel_ports.FIRST_EPHEMERAL_PORT
