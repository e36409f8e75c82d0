"""Start the worker under a private package name, so that user code can have modules of any name."""

import importlib
import importlib.util
import os
import sys

PACKAGE_NAME = "_codriver_worker"
"""The private name under which the worker's package is imported."""
MIN_PYTHON_VERSION = (3, 8)
"""The oldest supported version of Python."""
COMPARE_OPTION = "--compare"
"""The argument that makes the process import modules for a comparison instead of starting a REPL."""
TOO_OLD_TEMPLATE = (
    "codriver-worker: {0} is Python {1}, but Python {2}.{3} or later is required: choose another interpreter "
    "with `codriver serve --python PATH` or python = ... in codriver.toml\n"
)


def load_privately(directory: str) -> None:
    """Make the package in `directory` importable as `PACKAGE_NAME`, and remove its directory from `sys.path`.

    Raises:
        ImportError: the package cannot be loaded.
    """
    if sys.path and os.path.abspath(sys.path[0]) == directory:
        del sys.path[0]
    file = os.path.join(directory, "__init__.py")
    spec = importlib.util.spec_from_file_location(PACKAGE_NAME, file, submodule_search_locations=[directory])
    if spec is None or spec.loader is None:
        raise ImportError("the worker's own files cannot be imported from " + directory)
    package = sys.modules[PACKAGE_NAME] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)


if __name__ == "__main__":
    if sys.version_info < MIN_PYTHON_VERSION:
        sys.stderr.write(TOO_OLD_TEMPLATE.format(sys.executable, sys.version.split()[0], *MIN_PYTHON_VERSION))
        sys.exit(1)
    load_privately(os.path.dirname(os.path.abspath(__file__)))
    program = ".fresh.import_program" if sys.argv[1:2] == [COMPARE_OPTION] else ".serving.start"
    importlib.import_module(PACKAGE_NAME + program).main()
