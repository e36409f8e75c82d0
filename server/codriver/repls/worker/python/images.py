"""Images of values, as data URIs beside their text: by the classes' own methods, and matplotlib's figures.

Methods and names are those of IPython's display protocol. Nothing is imported that the program has not imported.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import importlib.util
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.machinery import ModuleSpec
    from typing import Any, Callable

    Image = tuple[str, bytes]
    Tell = Callable[[str], None]

KINDS = ("image/png", "image/jpeg")
METHODS = {"image/png": "_repr_png_", "image/jpeg": "_repr_jpeg_"}
PYPLOT = "matplotlib.pyplot"
WITHOUT_WINDOWS = {"agg", "cairo", "pdf", "pgf", "ps", "svg", "template"}
"""Matplotlib's own backends that only draw."""
MOST_TEXT = 2000
"""The characters taken of a value's text in HTML."""


def image_of(value: object) -> Image | None:
    """The kind of a value's image and its bytes; None if its class gives none, or fails."""
    kind = type(value)
    if kind.__module__ == "builtins" or isinstance(value, type):
        return None
    figures = sys.modules.get("matplotlib.figure")
    if figures is not None and isinstance(value, figures.Figure):
        return "image/png", drawn(value)
    # The class is asked: an object that makes up attributes would have any.
    with contextlib.suppress(Exception):
        if hasattr(kind, "_repr_mimebundle_"):
            found: Any = value._repr_mimebundle_(include=KINDS, exclude=())  # type: ignore[attr-defined]  # just asked
            bundle = found[0] if isinstance(found, tuple) else found
            given = next((_image(one, bundle.get(one)) for one in KINDS if bundle.get(one)), None)
            if given:
                return given
    for one, method in METHODS.items():
        with contextlib.suppress(Exception):
            if hasattr(kind, method) and (given := _image(one, getattr(value, method)())):
                return given
    return None


def _image(kind: str, given: object) -> Image | None:
    """The image given by a method, with or without metadata; a text is base64 already."""
    data = given[0] if isinstance(given, tuple) else given
    if isinstance(data, str):
        data = base64.b64decode(data)
    return (kind, bytes(data)) if isinstance(data, (bytes, bytearray)) and data else None


def with_image(text: str, image: Image | None, quota: object) -> str:
    """The text of a value with its image; if both exceed `quota` bytes, a description in place of the image."""
    if image is None:
        return text
    kind, data = image
    if isinstance(quota, int) and 0 < quota < len(data) * 4 // 3 + len(text) + 100:
        return f"{text} ({kind} of {len(data) // 1024} KB, more than a value may have: save it to a file)"
    return f"{text} data:{kind};base64,{base64.b64encode(data).decode()}"


def html_text(value: object) -> str | None:
    """The text of a value with only an HTML form; None for any other."""
    kind = type(value)
    if kind.__repr__ is not object.__repr__ or not hasattr(kind, "_repr_html_"):
        return None
    from html.parser import HTMLParser

    class Texts(HTMLParser):
        def handle_data(self, data: str) -> None:
            pieces.append(data)

    pieces: list[str] = []
    parser = Texts()
    with contextlib.suppress(Exception):
        parser.feed(value._repr_html_()[: 20 * MOST_TEXT])  # type: ignore[attr-defined]  # just asked
    text = " ".join(" ".join(pieces).split())
    return f"<{kind.__name__}: {text[:MOST_TEXT]}>" if text else None


def drawn(figure: Any) -> bytes:
    """A figure as PNG, cut to the drawn area as in IPython, with parts beside the axes."""
    import io

    stream = io.BytesIO()
    figure.savefig(stream, format="png", bbox_inches="tight")
    figure.stale = False
    return stream.getvalue()


class Figures:
    """The open figures of matplotlib: each is told once after `show`, or after an evaluation that drew on it.

    A figure told by `show` is closed, as if its window were, unless it has one.
    """

    def __init__(self) -> None:
        self._tell: Tell | None = None
        """The function of the running evaluation that takes images."""
        self._quota: object = None
        sys.meta_path.insert(0, self)

    @contextlib.contextmanager
    def told_by(self, tell: Tell, quota: object) -> Iterator[None]:
        """A context in which figures are told, each in at most `quota` bytes; outside of it nobody gets them."""
        self._tell, self._quota = tell, quota
        try:
            yield
        finally:
            self._tell = None

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """The spec of pyplot, once, so that its `show` is ours after the load."""
        if name != PYPLOT:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        loader: Any = spec.loader if spec is not None else None
        if hasattr(loader, "exec_module"):
            load = loader.exec_module

            def exec_module(module: Any) -> None:
                load(module)
                module.show = self._showing(module, module.show)

            loader.exec_module = exec_module
        return spec

    def tell_changed(self, value: object = None) -> None:
        """Tell the figures drawn on since their last telling; a value tells its own."""
        self._tell_these([one for one in _changed() if one is not value])

    def _tell_these(self, figures: list[Any]) -> None:
        for figure in figures:
            if self._tell is not None:
                # A figure that cannot be drawn is an error of the evaluation, as with windows.
                self._tell(with_image(repr(figure), ("image/png", drawn(figure)), self._quota))

    def _showing(self, pyplot: Any, show: Callable[..., object]) -> Callable[..., object]:
        """`show` of pyplot: it tells the images, and waits for no window to be closed, as nobody may see it."""

        @functools.wraps(show)
        def shown(*arguments: object, **options: object) -> object:
            if self._tell is None:
                return show(*arguments, **options)
            figures = _changed()
            self._tell_these(figures)
            if pyplot.get_backend().lower() not in WITHOUT_WINDOWS:
                return show(block=False)
            for figure in figures:
                pyplot.close(figure)
            return None

        return shown


def _changed() -> list[Any]:
    """The open figures drawn on since their last telling, in the order of their making."""
    helpers: Any = sys.modules.get("matplotlib._pylab_helpers")
    managers = helpers.Gcf.get_all_fig_managers() if helpers is not None else []
    return [one.canvas.figure for one in managers if one.canvas.figure.stale]
