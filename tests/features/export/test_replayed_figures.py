"""Figures of recorded sessions reproduce in a fresh REPL, which runs the code statement by statement."""

import sys

import pytest
from needs import modules

from codriver.core.images import find_images, replace_image_data
from codriver.features.export.documents.recordings import RecordedEvaluation
from codriver.features.export.fresh_runs import FreshRuns, verify_in_repl

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SHOWN_ONE_AFTER_THE_OTHER = [
    "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()",
    "plt.bar([1, 2], [3, 4])\nplt.show()",
    "plt.plot([3, 1])\nplt.plot([1, 3])\nplt.show()\nplt.pie([1, 2])\nplt.show()",
    "plt.hist([1, 1, 2])",
    "_ = plt.title('of the open figure')",
    "plt.show()\nplt.plot([5, 6])\nplt.show()",
    "fig, ax = plt.subplots()\nax.plot([1, 2])\nplt.show()\nfig",
    "plt.figure()\nplt.plot([1, 2])\nplt.show()",
    "for n in (1, 2):\n    plt.plot([n, 2 * n])\n    plt.show()",
    "plt.plot([1])\nplt.show()\n1 / 0",
    "plt.plot([2, 2])\nplt.show()\n'last'",
]


def pictures(values):
    return [picture for value in values for picture in find_images(replace_image_data(value))]


async def test_successive_figures_are_all_reproduced_by_a_replay(tmp_path):
    modules("matplotlib")
    runs = FreshRuns(tmp_path, "python", 120, is_quiet=True, python=sys.executable)
    recorded = []
    async with runs.repl() as repl:
        for number, code in enumerate(SHOWN_ONE_AFTER_THE_OTHER, 1):
            ran = await repl.run(code)
            failure = f"{ran.failure.type}: {ran.failure.message}" if ran.failure else ""
            recorded.append(RecordedEvaluation(f"e-{number}", code, values=ran.values, err=failure))
    assert [len(pictures(item.values)) for item in recorded] == [1, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1]
    async with runs.repl() as repl:
        checked = await verify_in_repl(repl, recorded, "python")
    assert [(item.step.text, item.note) for item in checked if item.note] == []
    assert not any(item.is_alike for item in checked)
