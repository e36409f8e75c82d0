"""What the server remembers of programs that have ended."""

from types import SimpleNamespace

import pytest

from codriver.core.state import Origin, Repl
from codriver.errors import RefusedError
from codriver.features.run.programs import PROGRAM, Programs


def test_the_last_output_is_remembered_if_the_end_of_a_program_is_detected_twice(tmp_path):
    """A call and the task that follows restarts may both have found the connection lost before one of them acts."""
    lost = Repl("run:7-ab:1", "shop", Origin(PROGRAM, "python shop.py"), phase="waiting", generation=1)
    repls = {lost.id: lost}
    core = SimpleNamespace(state=SimpleNamespace(repls=repls), report=lambda drop: repls.pop(drop.id, None))
    programs = Programs(SimpleNamespace(core=core, workspace=tmp_path))
    programs._outputs["7-ab"] = "SyntaxError: invalid syntax"
    for _ in range(2):
        programs._forget_finished([lost], ())
    with pytest.raises(RefusedError, match="SyntaxError"):
        programs.check_unfinished("shop")
