"""Images of values: plots of Python libraries are sent to the client as images, and the text stays short."""

import base64
import re
import sys
from pathlib import Path

import pytest
from live_server import serving
from needs import modules

PNG, JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    modules("matplotlib", "PIL", "pandas")
    with serving(tmp_path_factory.mktemp("images"), "--repl", "python", "--python", sys.executable) as served:
        yield served


@pytest.fixture
def client(live):
    with live.client() as connected:
        connected.call("evaluate_code", code="import sys; 'matplotlib.pyplot' in sys.modules and plt.close('all')")
        yield connected


def call_with_images(client, code="", tool="evaluate_code", **arguments):
    """Return the fields of an answer, and the bytes of its images."""
    arguments = {"code": code, **arguments} if code else arguments
    answer = client.answer(
        client.begin_call(tool, timeoutMs=120_000, **arguments) if code else client.begin_call(tool, **arguments)
    )["result"]
    images = [base64.b64decode(part["data"]) for part in answer["content"] if part["type"] == "image"]
    return answer["structuredContent"], images


def test_an_open_figure_with_a_plot_is_sent_once(client):
    fields, images = call_with_images(client, "import matplotlib.pyplot as plt\n_ = plt.plot([1, 2, 3])")
    assert [image[:8] for image in images] == [PNG]
    assert "<<image-1>>" in str(fields)
    fields, images = call_with_images(client, "len(plt.get_fignums())")
    assert (fields["result"], images) == ("1", [])
    assert len(call_with_images(client, "_ = plt.title('more')")[1]) == 1


def test_plt_show_sends_each_new_figure_and_closes_no_other_figures(client):
    code = "import matplotlib.pyplot as plt\nkept = plt.figure(7)\n"
    assert len(call_with_images(client, code)[1]) == 1
    loop = "for n in (1, 2):\n    plt.figure()\n    plt.plot([n, 2])\n    plt.show()"
    fields, images = call_with_images(client, loop)
    assert len(images) == 2
    assert images[0] != images[1]
    assert "stderr" not in fields
    assert call_with_images(client, "plt.get_fignums()")[0]["result"] == "[7]"


def test_a_figure_returned_as_a_value_is_sent_as_one_image(client):
    fields, images = call_with_images(client, "import matplotlib.pyplot as plt\nf, ax = plt.subplots()\nf")
    assert len(images) == 1
    assert fields["result"] == "<Figure size 640x480 with 1 Axes> <<image-1>>"


FIGURE = "import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\n_ = ax.plot([1, 2])\n"


@pytest.mark.parametrize(
    "code",
    [
        FIGURE + "plt.show()\nfig",
        FIGURE + "plt.show()\nfig\nplt.show()\n1",
        FIGURE + "fig\nfig",
        FIGURE + "fig\n_ = ax.set_title('later')\nplt.show()",
        FIGURE + "plt.show()\nfig.suptitle('after it was closed')\nfig",
        "import matplotlib.pyplot as plt\nplt.figure()\nplt.plot([1, 2])\nplt.show()",
        "import matplotlib.pyplot as plt\nplt.figure()\nplt.plot([1, 2])",
        "import matplotlib.pyplot as plt\nplt.figure()\nplt.plot([1, 2])\nplt.gcf()",
    ],
)
def test_a_figure_displayed_repeatedly_in_one_call_is_sent_as_one_image(client, code):
    assert len(call_with_images(client, code)[1]) == 1


def test_a_figure_is_drawn_as_it_is_at_the_end_of_the_call(client):
    first = call_with_images(client, FIGURE + "plt.show()")[1]
    again = call_with_images(client, FIGURE + "plt.show()\nfig.suptitle('after it was closed')\n1")
    assert len(again[1]) == 1
    assert again[1] != first
    assert again[0]["result"] == "1"
    whole = call_with_images(client, FIGURE + "_ = fig.suptitle('after it was closed')\nfig")[1]
    assert again[1] == whole


def test_an_empty_figure_filled_later_is_never_sent_empty(client):
    drawn = call_with_images(
        client, "import matplotlib.pyplot as plt\n_ = plt.figure()\n_ = plt.plot([1, 2])\nplt.show()"
    )[1]
    assert call_with_images(client, "plt.figure()\nplt.plot([1, 2])\nplt.show()")[1] == drawn


def test_a_figure_shown_before_an_error_is_sent(client):
    fields, images = call_with_images(client, FIGURE + "plt.show()\n1 / 0")
    assert (fields["error"]["class"], len(images)) == ("ZeroDivisionError", 1)
    assert call_with_images(client, "1")[1] == []


def test_a_loaded_file_returns_its_figures_by_number(live, client):
    path = live.workspace / "draws.py"
    path.write_text("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nplt.plot([2, 1])\nplt.show()\n")
    fields, images = call_with_images(client, tool="load_file", filePath=str(path))
    assert (fields["ok"], images) == (True, [])
    requested = {"evaluationId": fields["evaluationId"]}
    both = [
        call_with_images(client, tool="get_evaluation", part=f"image-{number}", **requested)[1] for number in (1, 2)
    ]
    assert [item[0][:8] for item in both] == [PNG, PNG]
    assert both[0] != both[1]
    refused, none = call_with_images(client, tool="get_evaluation", part="image-3", **requested)
    assert (refused["ok"], "Its values have 2 images" in refused["message"], none) == (False, True, [])


def test_a_pillow_image_is_sent_as_an_image(client):
    fields, images = call_with_images(client, "from PIL import Image\nImage.new('RGB', (20, 10), 'red')")
    assert [image[:8] for image in images] == [PNG]
    assert fields["result"].startswith("<PIL.Image.Image image mode=RGB size=20x10")


def test_a_data_frame_is_returned_as_text(client):
    code = "import pandas\npandas.DataFrame({'a': range(1000), 'b': 1.5})"
    fields, images = call_with_images(client, code)
    assert (images, "data:" in fields["result"]) == ([], False)
    assert fields["result"].endswith("[1000 rows x 2 columns]")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (f"def _repr_jpeg_(self): return {JPEG!r}", JPEG),
        (f"def _repr_png_(self): return ({PNG!r}, {{'width': 1}})", PNG),
        (
            "def _repr_mimebundle_(self, include=None, exclude=None): return ({'image/png': "
            + repr(base64.b64encode(PNG).decode())
            + ", 'text/plain': 'x'}, {})",
            PNG,
        ),
    ],
)
def test_image_representations_defined_by_a_class_are_used(client, body, kind):
    fields, images = call_with_images(
        client, f"class Drawn:\n    {body}\n    def __repr__(self): return 'drawn'\nDrawn()"
    )
    assert (fields["result"], [image[: len(kind)] for image in images]) == ("drawn <<image-1>>", [kind])


@pytest.mark.parametrize(
    "body",
    [
        "def _repr_png_(self): raise ValueError('no')",
        "def _repr_png_(self): return None",
        "def __getattr__(self, name): return lambda *_, **__: b'made up'",
    ],
)
def test_a_value_whose_image_method_fails_is_returned_as_text(client, body):
    fields, images = call_with_images(client, f"class Bare:\n    {body}\n    def __repr__(self): return 'bare'\nBare()")
    assert (fields["result"], images) == ("bare", [])


def test_images_beyond_the_size_limit_are_retained_and_sent_one_by_one(client):
    code = (
        "import os\nclass Big:\n    def __init__(self, start): self.data = start + os.urandom(2_000_000)\n"
        "    def _repr_png_(self): return self.data\n    def __repr__(self): return 'big'\n"
        f"Big({PNG!r})\nBig({PNG!r})"
    )
    fields, images = call_with_images(client, code)
    assert len(images) == 1
    assert "part image-2 returns it" in str(fields["values"])
    later = call_with_images(client, tool="get_evaluation", evaluationId=fields["evaluationId"], part="image-2")[1]
    assert [len(image) for image in later] == [2_000_008]


@pytest.mark.parametrize("name", ["opencode", "copilot-cli", "qwen-cli-mcp-client-codriver"])
def test_a_client_that_displays_no_images_gets_a_temporary_file(live, name):
    code = "import matplotlib.pyplot as plt\nf, ax = plt.subplots()\nf"
    with live.client(name=name) as blind, live.client(name="claude-code") as sees:
        fields, images = call_with_images(blind, code)
        path = Path(re.search(r"<<image-1: (/.*\.png)>>", fields["result"])[1])
        assert (images, path.read_bytes()[:8]) == ([], PNG)
        assert path.stat().st_mode & 0o777 == 0o600
        evaluation = blind.call("repl_output_log", category=["evaluatedCode"])["result"][-1]["evaluation"]
        reported, images = call_with_images(blind, tool="get_evaluation", evaluationId=evaluation, part="image-1")
        assert (reported["text"], images) == (str(path), [])
        assert len(call_with_images(sees, code)[1]) == 1
