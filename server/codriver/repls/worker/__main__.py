"""Start the worker under a private package name, so that user code can have modules of any name."""

import importlib
import importlib.util
import os
import sys

PACKAGE = "_codriver_worker"
"""The private name under which the worker's package is imported."""
OLDEST = (3, 8)
"""The oldest supported version of Python."""
COMPARE = "--compare"
"""The argument that makes the process import modules for a comparison instead of starting a REPL."""
TOO_OLD = (
    "codriver-worker: {0} is Python {1}, but Python {2}.{3} or later is required: choose another interpreter "
    "with `codriver serve --python PATH` or python = ... in codriver.toml\n"
)


def load_privately(directory: str) -> None:
    """Make the package in `directory` importable as `PACKAGE`, and remove its directory from `sys.path`.

    Raises:
        ImportError: the package cannot be loaded.
    """
    if sys.path and os.path.abspath(sys.path[0]) == directory:
        del sys.path[0]
    file = os.path.join(directory, "__init__.py")
    spec = importlib.util.spec_from_file_location(PACKAGE, file, submodule_search_locations=[directory])
    if spec is None or spec.loader is None:
        raise ImportError("the worker's own files cannot be imported from " + directory)
    package = sys.modules[PACKAGE] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)


if __name__ == "__main__":
    if sys.version_info < OLDEST:
        sys.stderr.write(TOO_OLD.format(sys.executable, sys.version.split()[0], *OLDEST))
        sys.exit(1)
    load_privately(os.path.dirname(os.path.abspath(__file__)))
    program = ".fresh.import_program" if sys.argv[1:2] == [COMPARE] else ".serving.start"
    importlib.import_module(PACKAGE + program).main()
