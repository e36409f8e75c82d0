"""Packages of a project that Python finds outside the project's linked working tree: in the checkout it belongs to.

An environment that was made for a checkout has the project's own packages installed from there, often as links to its
folders. In a linked working tree, code that imports them runs what the checkout holds.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import itertools
import json
import os
import pkgutil
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.machinery import ModuleSpec
    from typing import Any

INSTALLED = ("site-packages", "dist-packages")
"""Folders of what is installed, and of no project."""


def packages_outside(roots: list[str], checkout: str) -> dict[str, str]:
    """The place, by name, of each package of the project that Python finds in `checkout` and not in the workspace.

    `roots`: the workspace, and what else of it will be searched first of all; it is not to be in `sys.path` yet.
    A project's packages are in folders of the checkout that are searched, are led there by an importer of an editable
    install, or were installed from there. Imports nothing of theirs.
    """
    workspace = roots[0]
    names = {*_in_searched_folders(workspace, checkout), *_of_importers(checkout), *_of_distributions(checkout)}
    found: dict[str, str] = {}
    for name in sorted(names):
        with contextlib.suppress(Exception):  # importers may be anybody's
            places = _places_of(name, roots)
            if places and not any(_is_within(place, workspace) for place in places):
                found[name] = places[0]
    return found


def _is_within(path: str, folder: str) -> bool:
    real, root = os.path.realpath(path), os.path.realpath(folder)
    return real == root or real.startswith(root.rstrip(os.sep) + os.sep)


def _in_searched_folders(workspace: str, checkout: str) -> Iterator[str]:
    for folder in sys.path:
        if not folder or any(name in folder.split(os.sep) for name in INSTALLED) or _is_within(folder, sys.prefix):
            continue
        if _is_within(folder, checkout) and not _is_within(folder, workspace):
            yield from (module.name for module in pkgutil.iter_modules([folder]))


def _of_importers(checkout: str) -> Iterator[str]:
    """The packages that importers of editable installs know by name and place, such as those of setuptools."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("__editable__")]
    for holder in [*modules, *sys.meta_path]:
        for mapping in list(getattr(holder, "__dict__", {}).values()):
            for name, place in list(mapping.items()) if isinstance(mapping, dict) else ():
                if isinstance(name, str) and isinstance(place, str) and _is_within(place, checkout):
                    yield name.partition(".")[0]


def _of_distributions(checkout: str) -> Iterator[str]:
    """The packages that were installed from a folder of the checkout. Source: PEP 610, `direct_url.json`."""
    from importlib import metadata
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    for distribution in metadata.distributions():
        with contextlib.suppress(Exception):  # metadata of others, of any shape
            text = distribution.read_text("direct_url.json")
            url = urlsplit(json.loads(text)["url"]) if text else None
            if url is not None and url.scheme == "file" and _is_within(url2pathname(url.path), checkout):
                yield from _names_of(distribution)


def _names_of(distribution: Any) -> Iterator[str]:
    told = (distribution.read_text("top_level.txt") or "").split()
    firsts = {file.parts[0] for file in distribution.files or () if file.suffix == ".py"}
    files = {first[:-3] if first.endswith(".py") else first for first in firsts}
    plain = [distribution.metadata["Name"].replace("-", "_")]
    names = told or [name for name in files if not name.startswith("__editable__")] or plain
    return (name for name in names if name.isidentifier())


def _places_of(name: str, roots: list[str]) -> list[str]:
    """The folders of a package, or the file of a module; none for what is not found."""
    spec = _spec_of(name, roots)
    if spec is None:
        return []
    folders = list(itertools.islice(spec.submodule_search_locations or (), 10))
    places = folders or [spec.origin or ""]
    return [place for place in places if os.path.isabs(place) and os.path.exists(place)]


def _spec_of(name: str, roots: list[str]) -> ModuleSpec | None:
    """The spec of a package as it would be found with `roots` in front of `sys.path`."""
    if name in sys.modules:
        return sys.modules[name].__spec__
    for finder in sys.meta_path:
        is_by_path = finder is importlib.machinery.PathFinder
        spec = finder.find_spec(name, [*roots, *sys.path] if is_by_path else None)
        if spec is not None:
            return spec
    return None
