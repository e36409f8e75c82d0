"""The loads of one project in a test process, which itself has hundreds of modules."""

import os

from codriver.repls.worker.python.loaded_sources import LoadedSources


class ProjectTexts(LoadedSources):
    """Loads as the REPL of a project in `folder` would record them; recording all modules of the tests would take
    long.
    """

    def __init__(self, folder):
        super().__init__()
        self._folder = f"{folder}{os.sep}"

    def _modules(self):
        return (module for module in super()._modules() if module[2].startswith(self._folder))
