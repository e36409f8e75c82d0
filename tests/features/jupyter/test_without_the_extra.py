"""Without the extra `codriver[jupyter]`: none of it is imported, and a kernel says what to install."""

import subprocess
import sys

import real_kernels

LIBRARIES = ("jupyter_client", "zmq", "websockets", "tornado")

CONNECT = """
import sys
for name in {libraries}:
    sys.modules[name] = None  # as if it were not installed
import anyio
from codriver.features.jupyter.kernels.jupyter_adapter import connect_jupyter

async def main():
    async with connect_jupyter({file!r}, listener=None, workspace=None, is_remote=False):
        pass

anyio.run(main)
"""


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


def test_no_jupyter_library_is_imported_before_a_kernel_is_connected():
    code = f"import sys, codriver.app.serve, codriver.commands.cli; sys.exit(str({set(LIBRARIES)} & {{*sys.modules}}))"
    assert run(code).stderr.strip() == "set()"


def test_a_kernel_without_the_jupyter_extra_is_listed_with_the_package_to_install():
    done = run(CONNECT.format(libraries=LIBRARIES, file=str(real_kernels.kernel("ipykernel").file)))
    assert done.returncode == 1
    assert "PackageMissingError" in done.stderr
    assert "uv tool install '.[jupyter]'" in done.stderr
