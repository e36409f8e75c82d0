"""The setting `kernels`: Jupyter kernels to connect to, by connection file or URL, with the places of their tokens.

It counts in the user's own settings alone: it says which server a token is shown to.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.alias_generators import to_camel

from codriver.errors import StartError
from codriver.repls.jupyter.finding.named_kernels import (
    CLI_TOKEN,
    IN_THE_OPEN,
    KernelUrl,
    NamedKernel,
    TokenSource,
    read_place,
    split_key,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ALLOWED: Final = "a list of texts like [KEY=]FILE or [KEY=]URL, or of tables [[kernels]]"
KEY: Final = re.compile(r"[A-Za-z][\w.-]*")
MAY_BE_PASSED: Final = re.compile(r"KERNEL_\w+")


class NamedKernelEntry(BaseModel):
    """One kernel of the setting. As a text it is `[KEY=]FILE|URL`."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid")

    url: str = ""
    file: str = ""
    kernel: str | None = None
    key: str | None = None
    token_file: str | None = None
    token_env: str | None = None
    env: dict[str, str] = Field(default_factory=dict)
    plain_http: bool = False

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, given: Any) -> Any:
        if isinstance(given, str):
            key, place = split_key(given)
            return {("url" if "://" in place else "file"): place} | ({"key": key} if key else {})
        if isinstance(given, dict) and "token" in given:
            raise ValueError("a token does not stand in a settings file: name its place by tokenFile or tokenEnv")
        return given

    @model_validator(mode="after")
    def _names_one(self) -> NamedKernelEntry:
        if bool(self.url) == bool(self.file) or (self.file and "://" in self.file):
            raise ValueError("a kernel has either a file or a url")
        read_place(self.text)
        return self

    @property
    def text(self) -> str:
        """The place of the kernel, as a text names it."""
        if self.kernel is None:
            return self.url or self.file
        return f"{self.url}{'' if self.url.endswith('/') else '/'}?kernel={quote(self.kernel)}"

    @field_validator("key")
    @classmethod
    def _is_key(cls, key: str | None) -> str | None:
        if key is not None and not KEY.fullmatch(key):
            raise ValueError("a key is a word of letters, digits, `-`, `_` and `.`")
        return key

    @field_validator("env")
    @classmethod
    def _may_be_passed(cls, env: dict[str, str]) -> dict[str, str]:
        if any(not MAY_BE_PASSED.fullmatch(name) for name in env):
            raise ValueError("gateways pass on variables whose names begin with KERNEL_ alone")
        return env

    def __str__(self) -> str:
        """The kernel as a text names it. It holds no secret."""
        return f"{self.key}={self.text}" if self.key else self.text


class UnencryptedError(StartError):
    """A server on another machine is named without encryption."""


def check_encrypted(kernels: Iterable[NamedKernel]) -> None:
    """Look at the way to each server, before anything is shown to one.

    Raises:
        UnencryptedError: it is open to everybody on it, and nobody said that it is safe.
    """
    for one in kernels:
        if isinstance(one.place, KernelUrl) and one.place.is_in_the_open and not one.is_plain_allowed:
            raise UnencryptedError(IN_THE_OPEN.format(base=one.place.base))


def problem_of(error: ValidationError) -> str:
    """The first fault of the setting, in words that show none of the values: they may be secrets."""
    fault = error.errors(include_input=False, include_url=False)[0]
    where = ".".join(str(part) for part in fault["loc"][1:] if part != "NamedKernelEntry")
    words = fault["msg"].removeprefix("Value error, ")
    return f"{where}: {words}" if where else words


def named_kernels(entries: Sequence[NamedKernelEntry], environ: Mapping[str, str]) -> tuple[NamedKernel, ...]:
    """The kernels of the setting. One without a token of its own has that of another kernel on the same server."""
    return tuple(_named(entry, entries, environ) for entry in entries)


def _named(entry: NamedKernelEntry, entries: Iterable[NamedKernelEntry], environ: Mapping[str, str]) -> NamedKernel:
    place = read_place(entry.text)
    if not isinstance(place, KernelUrl):
        return NamedKernel(place, entry.key)
    like = [one for one in (entry, *entries) if _base(one) == place.base]
    told = next((one for one in like if one.token_file or one.token_env), None)
    if told is not None:
        token = TokenSource(told.token_file, told.token_env)
    else:
        token = TokenSource(variable=CLI_TOKEN if environ.get(CLI_TOKEN) else None)
    if place.spec is not None and entry.key and not place.name:
        place = KernelUrl(place.base, spec=place.spec, name=entry.key)
    return NamedKernel(place, entry.key, token, entry.env, is_plain_allowed=any(one.plain_http for one in like))


def _base(entry: NamedKernelEntry) -> str | None:
    place = read_place(entry.text)
    return place.base if isinstance(place, KernelUrl) else None
