"""The notebooks of kernels in the list of sessions."""

import pytest

from codriver.core.state import Lifecycle, Origin, Repl, State
from codriver.features.jupyter.session_rows import notebooks_by_key


@pytest.mark.parametrize(("path", "displayed"), [("/w/sub/a.ipynb", "sub/a.ipynb"), ("/x/a.ipynb", "/x/a.ipynb")])
def test_a_kernel_is_listed_with_its_notebook_path_relative_to_the_workspace(path, displayed):
    repls = {
        "kernel": Repl("kernel", "a-ipynb", Origin("kernel", "/run/kernel-1.json"), document=path),
        "other": Repl("other", "py", Origin("address", "x")),
    }
    assert notebooks_by_key(State(lifecycle=Lifecycle(workspace="/w"), repls=repls)) == {"a-ipynb": displayed}
