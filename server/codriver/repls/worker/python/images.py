"""Render values as images, using their own methods or matplotlib, and send the images as data URIs alongside the text.

The methods are those of IPython's display protocol. Only libraries that the program has already imported are used.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import importlib.util
import sys
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.machinery import ModuleSpec
    from typing import Any, Callable

    Image = tuple[str, bytes]
    Send = Callable[[str], None]

IMAGE_TYPES = ("image/png", "image/jpeg")
"""The supported image types, in order of preference."""
IMAGE_METHODS = {"image/png": "_repr_png_", "image/jpeg": "_repr_jpeg_"}
PYPLOT_MODULE = "matplotlib.pyplot"
WINDOWLESS_BACKENDS = {"agg", "cairo", "pdf", "pgf", "ps", "svg", "template"}
"""Matplotlib backends that have no windows."""
MAX_WAITING_BYTES = 1 << 25
"""Maximum total size of images waiting for the end of an evaluation. Beyond it, they are sent earlier."""


def get_image(value: object) -> Image | None:
    """Return the media type and data of a value's image, or None if it has none or getting it fails."""
    kind = type(value)
    if kind.__module__ == "builtins" or isinstance(value, type):
        return None
    figures = sys.modules.get("matplotlib.figure")
    if figures is not None and isinstance(value, figures.Figure):
        return "image/png", render_png(value)
    # Look up the method in the class, because some objects claim to have every attribute.
    with contextlib.suppress(Exception):
        if hasattr(kind, "_repr_mimebundle_"):
            found: Any = value._repr_mimebundle_(include=IMAGE_TYPES, exclude=())  # type: ignore[attr-defined]  # checked
            bundle = found[0] if isinstance(found, tuple) else found
            given = next(
                (_image(image_type, bundle.get(image_type)) for image_type in IMAGE_TYPES if bundle.get(image_type)),
                None,
            )
            if given:
                return given
    for mime_type, method in IMAGE_METHODS.items():
        with contextlib.suppress(Exception):
            if hasattr(kind, method) and (given := _image(mime_type, getattr(value, method)())):
                return given
    return None


def _image(kind: str, given: object) -> Image | None:
    """Convert the result of a display method to an image. Metadata is dropped, and a string is decoded as base64."""
    data = given[0] if isinstance(given, tuple) else given
    if isinstance(data, str):
        data = base64.b64decode(data)
    return (kind, bytes(data)) if isinstance(data, (bytes, bytearray)) and data else None


def append_image(text: str, image: Image | None, quota: object) -> str:
    """Return the text of a value followed by its image. If both exceed `quota` bytes, describe the image instead."""
    if image is None:
        return text
    kind, data = image
    if isinstance(quota, int) and 0 < quota < len(data) * 4 // 3 + len(text) + 100:
        return f"{text} ({kind} of {len(data) // 1024} KB, too large for a value: save it to a file)"
    return f"{text} data:{kind};base64,{base64.b64encode(data).decode()}"


def render_png(figure: Any) -> bytes:
    """Render a figure as PNG, cropped to its contents as in IPython, including parts outside the axes."""
    import io

    stream = io.BytesIO()
    figure.savefig(stream, format="png", bbox_inches="tight")
    figure.stale = False
    return stream.getvalue()


class DisplayedFigure:
    """A figure that was passed to `show` or was the value of a statement, with its image at that time."""

    def __init__(self, figure: Any) -> None:
        self.reference = weakref.ref(figure)
        self._text = repr(figure)
        self._image = render_png(figure)
        self.size = len(self._image)

    def text(self, quota: object) -> str:
        """Return the text of the figure with its image. If the figure has changed, it is drawn again."""
        figure = self.reference()
        if figure is not None and figure.stale:
            self._text, self._image = repr(figure), render_png(figure)
        return append_image(self._text, ("image/png", self._image), quota)


class Figures:
    """The open matplotlib figures. Each figure is sent at most once per evaluation, when the evaluation ends.

    This includes figures passed to `show`, values of statements, and figures that the evaluation has drawn on. A figure
    passed to `show` is closed, as if its window had been closed, unless it really has a window.
    """

    def __init__(self) -> None:
        self._send: Send | None = None
        """Sends an image for the evaluation in progress."""
        self._quota: object = None
        self._displayed: list[DisplayedFigure] = []
        """The figures waiting for the end of the evaluation, in the order in which they were first displayed."""
        sys.meta_path.insert(0, self)

    @contextlib.contextmanager
    def sending_figures(self, send: Send, quota: object, *, is_partial: bool = False) -> Iterator[None]:
        """Send figures, each with at most `quota` bytes, while the context is active. At other times, none are sent.

        If `is_partial`, the evaluation continues with more code, and the figures wait for its end unless this code
        fails.
        """
        self._send, self._quota = send, quota
        try:
            yield
        except BaseException:
            with contextlib.suppress(Exception):  # do not hide the evaluation's error
                self._send_displayed(None)
            raise
        else:
            if not is_partial:
                self._send_displayed(None)
        finally:
            self._send = None

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """Return the import spec of pyplot once, so that its `show` can be replaced after it is loaded."""
        if name != PYPLOT_MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        loader: Any = spec.loader if spec is not None else None
        if hasattr(loader, "exec_module"):
            load = loader.exec_module

            def exec_module(module: Any) -> None:
                load(module)
                module.show = self._replacement_for_show(module, module.show)

            loader.exec_module = exec_module
        return spec

    def send_all(self, value: object = None) -> None:
        """Send the figures that were displayed or drawn on, except for `value`, the value of the evaluation."""
        self._add([item for item in _changed() if item is not value])
        self._send_displayed(value)

    def send_later(self, value: object) -> bool:
        """If a value is a figure, send it when the evaluation ends. Return whether it is a figure."""
        figures = sys.modules.get("matplotlib.figure")
        if self._send is None or figures is None or not isinstance(value, figures.Figure):
            return False
        self._add([value])
        return True

    def _add(self, figures: list[Any]) -> None:
        """Store the images of figures whose images are not stored yet."""
        known = {id(figure) for item in self._displayed if (figure := item.reference()) is not None}
        # A figure that cannot be drawn fails the evaluation, as it does with windows.
        self._displayed += [DisplayedFigure(item) for item in figures if id(item) not in known]
        if sum(item.size for item in self._displayed) > MAX_WAITING_BYTES:
            self._send_displayed(None)

    def _send_displayed(self, value: object) -> None:
        """Send the stored figures, except for `value`."""
        displayed, self._displayed = self._displayed, []
        for item in displayed:
            if self._send is not None and (value is None or item.reference() is not value):
                self._send(item.text(self._quota))

    def _replacement_for_show(self, pyplot: Any, show: Callable[..., object]) -> Callable[..., object]:
        """Return a replacement for pyplot's `show`, which sends images and does not wait for windows to be closed."""

        @functools.wraps(show)
        def showing(*arguments: object, **options: object) -> object:
            if self._send is None:
                return show(*arguments, **options)
            figures = _changed()
            self._add(figures)
            if pyplot.get_backend().lower() not in WINDOWLESS_BACKENDS:
                return show(block=False)
            for figure in figures:
                pyplot.close(figure)
            return None

        return showing


def _changed() -> list[Any]:
    """Return the open figures that have been drawn on since they were last displayed, in order of creation."""
    helpers: Any = sys.modules.get("matplotlib._pylab_helpers")
    managers = helpers.Gcf.get_all_fig_managers() if helpers is not None else []
    return [manager.canvas.figure for manager in managers if manager.canvas.figure.stale]
