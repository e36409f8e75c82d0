"""Access to the page: its random host name, its token, and the one-time codes that are exchanged for the token.

The name has 128 random bits and changes each time the page is opened, so an origin is never reused. Scripts, service
workers and cached files that another program served from an earlier address cannot affect the page.

Source: RFC 6761, section 6.3: names below `localhost` are loopback, and resolvers do not look them up. HTML, "secure
contexts": such an origin may use WebCrypto.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, Literal

LOOPBACK_HOST: Final = "127.0.0.1"
HOST_BYTES: Final = 16
"""Number of random bytes in the page's host name."""
TOKEN_BYTES: Final = 32
"""Number of random bytes in the token."""
CODE_BYTES: Final = 24
"""Number of random bytes in a one-time code."""
CODE_LIFETIME_S: Final = 600.0
"""How long a one-time code is valid."""
MAX_CODES: Final = 8
"""Maximum number of valid codes. A new code replaces the oldest one."""
MAX_INVALID_CODES: Final = 64
"""Maximum number of invalid codes to remember in order to report why they are invalid."""
NONCE_PATTERN: Final = re.compile(r"[0-9a-f]{64}")
"""Matches a nonce. From a nonce, the server computes a proof that it knows the token."""
PROOF_PREFIX: Final = "codriver page "
"""Prefix of the nonce in a proof. It keeps proofs from being used for anything else."""

Spent = Literal["used", "expired", "replaced", "unknown"]
"""The reason why a one-time code is not valid."""


@dataclass(frozen=True, slots=True)
class _Code:
    """A one-time code, with its host and the time when it was issued."""

    host: str
    issued_at: float


class PageAccess:
    """Controls access to the page with a random host name, a token and one-time codes.

    A new instance is created each time the page is opened.
    """

    def __init__(self) -> None:
        self.random_host = f"{secrets.token_hex(HOST_BYTES)}.localhost"
        """The host name in the page's address."""
        self.token = secrets.token_urlsafe(TOKEN_BYTES)
        self._codes: OrderedDict[str, _Code] = OrderedDict()
        self._spent: OrderedDict[str, Spent] = OrderedDict()
        self._serves_loopback = False

    def serves(self, host: str) -> bool:
        """Return whether the page is served at this host.

        The loopback address is served only after a code has been issued for it.
        """
        return host == self.random_host or (self._serves_loopback and host == LOOPBACK_HOST)

    def issue_code(self, host: str, now: float) -> str:
        """Issue a one-time code that gives access to the page at this host."""
        self._expire_codes(now)
        self._serves_loopback |= host == LOOPBACK_HOST
        while len(self._codes) >= MAX_CODES:
            self._invalidate_code(next(iter(self._codes)), "replaced")
        code = secrets.token_urlsafe(CODE_BYTES)
        self._codes[code] = _Code(host, now)
        return code

    def exchange_code(self, code: str, host: str, now: float) -> tuple[str | None, Spent | None]:
        """Exchange a one-time code for the token. Return None and the reason if the code is invalid."""
        self._expire_codes(now)
        found = self._codes.get(code)
        if found is None or found.host != host:
            return None, self._spent.get(code, "unknown")
        self._invalidate_code(code, "used")
        return self.token, None

    def prove_token_knowledge(self, nonce: str) -> str | None:
        """Return a proof that this server knows the token, computed from a nonce. Return None for a malformed nonce."""
        if not NONCE_PATTERN.fullmatch(nonce):
            return None
        return hmac.new(self.token.encode(), f"{PROOF_PREFIX}{nonce}".encode(), "sha256").hexdigest()

    def _expire_codes(self, now: float) -> None:
        for code, found in [*self._codes.items()]:
            if now - found.issued_at >= CODE_LIFETIME_S:
                self._invalidate_code(code, "expired")

    def _invalidate_code(self, code: str, reason: Spent) -> None:
        """Invalidate a code and remember the reason."""
        del self._codes[code]
        self._spent[code] = reason
        while len(self._spent) > MAX_INVALID_CODES:
            self._spent.popitem(last=False)
