"""Real Jupyter Servers and Kernel Gateways on loopback, from the virtual environment `tests/jupyter/.venv`."""

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import posix_only
from needs import do_without
from ports import closed_port

PYTHON = Path(__file__).parents[1] / "jupyter" / ".venv" / "bin" / "python"
TOKEN = "4242-of-the-tests-4242"
START_S = 120
WITHOUT_A_GRAMMAR = """
import runpy, sys
sys.modules["rfc3987_syntax"] = None
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""
"""Runs a module as `-m` does, without an unused grammar for links that takes most of a server's start."""


class JupyterServer:
    """One server at the URL `base`."""

    def __init__(self, base, process, folder):
        self.base = base
        self.process = process
        self.folder = folder
        self.runtime = folder / "runtime"

    def call(self, method, path, body=None):
        """Make a REST call as a separate client, and return its status and answer."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"token {TOKEN}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.base + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            with error:
                return error.code, None

    def start_kernel(self, spec="python3"):
        """Start a kernel and return its id."""
        status, model = self.call("POST", "/api/kernels", {"name": spec})
        assert status == 201
        return model["id"]

    def kernels(self):
        """Return the ids of the running kernels."""
        return {model["id"] for model in self.call("GET", "/api/kernels")[1]}


@contextmanager
def jupyter_server(folder, *options):
    """Start a Jupyter Server whose notebooks are in `folder`."""
    start = ["-c", WITHOUT_A_GRAMMAR, "jupyter_server"]
    with _running(folder, start, "ServerApp", "IdentityProvider.token", *options) as server:
        yield server


@contextmanager
def kernel_gateway(folder, *options):
    """Start a Kernel Gateway."""
    start = ["-m", "kernel_gateway"]
    with _running(folder, start, "KernelGatewayApp", "KernelGatewayApp.auth_token", *options) as server:
        yield server


@contextmanager
def _running(folder, start, app, token, *options):
    if not PYTHON.exists():
        do_without("the servers of tests/jupyter/.venv are needed: pip install jupyter_server jupyter_kernel_gateway")
    port = closed_port()
    env = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "JPY", "PYTHON"))}
    env |= {
        "HOME": str(folder), "JUPYTER_RUNTIME_DIR": str(folder / "runtime"), "JUPYTER_CONFIG_DIR": str(folder / "conf"),
        "IPYTHONDIR": str(folder / "ipython"),
    }  # fmt: skip
    words = [f"--{app}.ip=127.0.0.1", f"--{app}.port={port}", f"--{app}.port_retries=0", f"--{token}={TOKEN}"]
    if app == "ServerApp":
        words += ["--ServerApp.open_browser=False", f"--ServerApp.root_dir={folder}", "--ServerApp.allow_root=True"]
    log = (folder / "server.log").open("wb")
    with (
        log,
        subprocess.Popen(
            [PYTHON, *start, *words, *options],
            cwd=folder,
            env=env,
            stdout=log,
            stderr=log,
            start_new_session=True,
        ) as process,
    ):
        server = JupyterServer(f"http://127.0.0.1:{port}", process, folder)
        try:
            _await_answer(server)
            yield server
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                posix_only.kill_group(process.pid)


def _await_answer(server):
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        assert server.process.poll() is None, (server.folder / "server.log").read_text()
        try:
            if server.call("GET", "/api")[0] == 200:
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError((server.folder / "server.log").read_text())
