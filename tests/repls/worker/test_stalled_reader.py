"""Endless evaluations on the thread that reads the requests, as in programs with gevent, are interrupted."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

import codriver.repls.worker

WORKER = str(Path(codriver.repls.worker.__file__).parent)
PROGRAM = """\
import _thread, importlib.util, os, socket, sys
spec = importlib.util.spec_from_file_location(
    "_codriver_worker", os.path.join(sys.argv[2], "__init__.py"), submodule_search_locations=[sys.argv[2]]
)
sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
stalled_reader = importlib.import_module("_codriver_worker.serving.stalled_reader")
sock = socket.socket(fileno=int(sys.argv[1]))
reader = stalled_reader.StalledReader(sock, _thread.get_ident(), _thread.start_new_thread)
reader.begin()
try:
    print("evaluates", flush=True)
    while True: pass
except KeyboardInterrupt:
    reader.end()
    print("interrupted", sock.recv(100))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="`codriver run` refuses other systems")
@pytest.mark.parametrize("sent", [b"d2:id1:35:nrepl4:eval2:op9:interrupte", b""], ids=["a request", "hang-up"])
def test_an_endless_evaluation_is_interrupted_even_if_its_output_is_not_read(sent):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(theirs.fileno()), WORKER],
            pass_fds=[theirs.fileno()],
            stdout=subprocess.PIPE,
            text=True,
        )
        theirs.close()
        try:
            assert process.stdout.readline() == "evaluates\n"
            if sent:
                ours.sendall(sent)
            else:
                ours.close()
            assert process.stdout.readline() == f"interrupted {sent}\n"
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
