"""Instructions for installing the seam in an application, for each language."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import codriver
from codriver.features.applications.seam_notation import PYTHON_HOSTED_DIALECTS, string_literal

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGE_FILE: Final = Path(codriver.__file__).resolve().parents[1] / "codriver_seam" / "__init__.py"
"""File of the package that Python applications use to expose their state. It is installed next to `codriver`."""
CLOJURE_FILE: Final = PACKAGE_FILE.parent / "clojure" / "codriver" / "seam.cljc"
"""File of the namespace that Clojure applications use to expose their state."""
CONTRACT_VERSION: Final = 1
"""The version of the seam's contract that Codriver supports."""


@dataclass(frozen=True, slots=True)
class SetupSteps:
    """The code to evaluate and the file to load in order to install the seam in an application."""

    module: str
    function: str
    """A function in the seam's module, as spelled in the language. If it is defined, the seam was imported."""
    install: str
    """Code that installs the seam."""
    frame: str
    """Code that exposes part of the application's state."""
    file: Path = PACKAGE_FILE

    @property
    def code(self) -> str:
        """Return the code of all steps. It may be evaluated repeatedly."""
        return f"{self.install} {self.frame}"


_CLOJURE_STEPS: Final = SetupSteps(
    "codriver.seam", "install!", "(codriver.seam/install! true)", "(codriver.seam/watch-atom! :app db)", CLOJURE_FILE
)
SETUP_STEPS: Final[Mapping[str, SetupSteps]] = {
    "python": SetupSteps(
        "codriver_seam", "install", "import codriver_seam as seam; seam.install(True);",
        "seam.frame('app', get=lambda: state)",
    ),
    "hy": SetupSteps(
        "codriver_seam", "install", "(import codriver_seam) (codriver_seam.install True)",
        '(codriver_seam.frame "app" (fn [] state))',
    ),
    "basilisp": SetupSteps(
        "codriver_seam", "install", "(import codriver_seam) (codriver_seam/install true)",
        '(codriver_seam/frame "app" (fn [] @db))',
    ),
    **dict.fromkeys(("clojure", "babashka", "nbb"), _CLOJURE_STEPS),
}  # fmt: skip
"""The steps that install the seam, by dialect."""


def _hint(dialect: str, steps: SetupSteps) -> str:
    reason = "no application in this REPL has registered with the seam"
    if dialect == "python":
        return f"{reason}. Evaluate {steps.code}. If the import fails, call load_file with {steps.file} first"
    return f"{reason}. Call load_file with {steps.file}, then evaluate {steps.code}"


SETUP_HINTS: Final[Mapping[str, str]] = {dialect: _hint(dialect, steps) for dialect, steps in SETUP_STEPS.items()}
"""Hints on how to install the seam in an application, by dialect."""
UNSUPPORTED_LANGUAGE_HINT: Final = "Codriver has no seam for this language. Inspect the application by evaluating code"
"""The hint for dialects without setup steps."""

_LOAD_PACKAGE_CODE: Final = (
    "import importlib.util as u, sys; n = 'codriver_seam'; s = u.spec_from_file_location(n, {file!r}); "
    "n in sys.modules or s.loader.exec_module(sys.modules.setdefault(n, u.module_from_spec(s)))"
)
"""Python code that loads the package into a process that cannot import it. It does not change `sys.path`."""
_EXECUTE_TEMPLATES: Final[Mapping[str, str]] = {
    "basilisp": "(python/exec {code} (python/dict))",
    "hy": "(exec {code} {{}})",
    "python": "exec({code}, {{}})",
}
"""Templates of code that executes Python code, by dialect."""


def is_seam_package(dialect: str, file: Path) -> bool:
    """Return whether a file is Codriver's seam package and the dialect can load it because it is hosted on Python."""
    return dialect in PYTHON_HOSTED_DIALECTS and file == PACKAGE_FILE


def seam_package_code(dialect: str, file: str | None) -> str | None:
    """Return code that loads the seam package into a REPL that cannot load Python files.

    Return None for other files or dialects.
    """
    if file != str(PACKAGE_FILE) or dialect not in _EXECUTE_TEMPLATES:
        return None
    return _EXECUTE_TEMPLATES[dialect].format(code=string_literal(dialect, _LOAD_PACKAGE_CODE.format(file=file)))
