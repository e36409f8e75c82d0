"""Parse the entries of the setting `kernels`, which specify Jupyter kernels by connection file or URL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic.alias_generators import to_camel

from codriver.errors import StartError
from codriver.features.jupyter.kernels.named_kernels import (
    CLI_TOKEN_VARIABLE,
    PLAIN_HTTP_REFUSED_TEMPLATE,
    KernelUrl,
    NamedKernel,
    TokenSource,
    parse_location,
    split_key,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pydantic import ValidationError

KEY_PATTERN: Final = re.compile(r"[A-Za-z][\w.-]*")
"""Matches valid session keys of kernels."""
FORWARDED_VARIABLE: Final = re.compile(r"KERNEL_\w+")
"""Matches the environment variables that kernel gateways pass on to kernels."""


class NamedKernelEntry(BaseModel):
    """An entry of the setting `kernels`: a table, or a string of the form `[KEY=]FILE|URL`."""

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
    def _from_text(cls, value: Any) -> Any:
        if isinstance(value, str):
            key, location = split_key(value)
            return {("url" if "://" in location else "file"): location} | ({"key": key} if key else {})
        if isinstance(value, dict) and "token" in value:
            raise ValueError("a settings file must not contain a token. Use tokenFile or tokenEnv")
        return value

    @model_validator(mode="after")
    def _check_location(self) -> NamedKernelEntry:
        if bool(self.url) == bool(self.file) or (self.file and "://" in self.file):
            raise ValueError("a kernel needs either a file or a url")
        parse_location(self.text)
        return self

    @property
    def text(self) -> str:
        """Return the connection file or the URL of the kernel."""
        if self.kernel is None:
            return self.url or self.file
        return f"{self.url}{'' if self.url.endswith('/') else '/'}?kernel={quote(self.kernel)}"

    @field_validator("key")
    @classmethod
    def _check_key(cls, key: str | None) -> str | None:
        if key is not None and not KEY_PATTERN.fullmatch(key):
            raise ValueError("a key may only contain letters, digits, `-`, `_` and `.`")
        return key

    @field_validator("env")
    @classmethod
    def _check_env(cls, env: dict[str, str]) -> dict[str, str]:
        if any(not FORWARDED_VARIABLE.fullmatch(name) for name in env):
            raise ValueError("gateways pass on only variables whose names start with KERNEL_")
        return env

    def __str__(self) -> str:
        """Return the kernel as `[KEY=]FILE|URL`, which contains no secrets."""
        return f"{self.key}={self.text}" if self.key else self.text


class UnencryptedError(StartError):
    """Raised when the settings specify an unencrypted connection to a kernel on another machine."""


def check_encrypted(kernels: Iterable[NamedKernel]) -> None:
    """Check that connections to kernels on other machines are encrypted, unless the settings allow plain HTTP.

    Raises:
        UnencryptedError: a connection is unencrypted, and the settings do not allow this.
    """
    for kernel in kernels:
        if isinstance(kernel.location, KernelUrl) and kernel.location.is_unencrypted and not kernel.is_plain_allowed:
            raise UnencryptedError(PLAIN_HTTP_REFUSED_TEMPLATE.format(base=kernel.location.base))


def first_error(error: ValidationError) -> str:
    """Describe the first validation error of the setting.

    The description contains no values, because they may be secrets.
    """
    first = error.errors(include_input=False, include_url=False)[0]
    location = ".".join(str(part) for part in first["loc"][1:] if part != "NamedKernelEntry")
    message = first["msg"].removeprefix("Value error, ")
    return f"{location}: {message}" if location else message


def named_kernels(entries: Sequence[NamedKernelEntry], environ: Mapping[str, str]) -> tuple[NamedKernel, ...]:
    """Convert the entries of the setting to kernels.

    A kernel without a token uses the token of another kernel on the same server.
    """
    return tuple(_named(entry, entries, environ) for entry in entries)


def _named(entry: NamedKernelEntry, entries: Iterable[NamedKernelEntry], environ: Mapping[str, str]) -> NamedKernel:
    location = parse_location(entry.text)
    if not isinstance(location, KernelUrl):
        return NamedKernel(location, entry.key)
    same_server = [other for other in (entry, *entries) if _base(other) == location.base]
    with_token = next((other for other in same_server if other.token_file or other.token_env), None)
    if with_token is not None:
        token = TokenSource(with_token.token_file, with_token.token_env)
    else:
        token = TokenSource(variable=CLI_TOKEN_VARIABLE if environ.get(CLI_TOKEN_VARIABLE) else None)
    if location.spec is not None and entry.key and not location.name:
        location = KernelUrl(location.base, spec=location.spec, name=entry.key)
    return NamedKernel(
        location, entry.key, token, entry.env, is_plain_allowed=any(other.plain_http for other in same_server)
    )


def _base(entry: NamedKernelEntry) -> str | None:
    location = parse_location(entry.text)
    return location.base if isinstance(location, KernelUrl) else None
