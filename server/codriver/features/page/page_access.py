"""Access to the page: the name in its address, its token, and the one-time codes that are exchanged for the token.

The name has 128 random bits and is new each time the page is opened, so no origin is ever used again: what another
program served at the address of an earlier page (scripts, service workers, cached files) never meets this one.

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

LOOPBACK: Final = "127.0.0.1"
LIFE_BYTES: Final = 16
TOKEN_BYTES: Final = 32
CODE_BYTES: Final = 24
CODE_S: Final = 600.0
"""How long a code can be exchanged."""
MAX_CODES: Final = 8
"""Codes that can be exchanged at one time: a further one replaces the oldest."""
MAX_SPENT: Final = 64
"""Codes that are remembered once they no longer count, to say why."""
NONCE: Final = re.compile(r"[0-9a-f]{64}")
PROOF: Final = "codriver page "
"""Text in front of the nonce, so that a proof is good for nothing else."""

Spent = Literal["used", "expired", "replaced", "unknown"]


@dataclass(frozen=True, slots=True)
class _Code:
    host: str
    issued_at: float


class Access:
    """The keys to one opening of the page, from then until it is closed."""

    def __init__(self) -> None:
        self.life_host = f"{secrets.token_hex(LIFE_BYTES)}.localhost"
        """The host in the page's address."""
        self.token = secrets.token_urlsafe(TOKEN_BYTES)
        self._codes: OrderedDict[str, _Code] = OrderedDict()
        self._spent: OrderedDict[str, Spent] = OrderedDict()
        self._serves_loopback = False

    def serves(self, host: str) -> bool:
        """Return whether this is a name of the page. The bare address counts once somebody requested it."""
        return host == self.life_host or (self._serves_loopback and host == LOOPBACK)

    def issue_code(self, host: str, now: float) -> str:
        """Return a new code for the page under this host."""
        self._expire(now)
        self._serves_loopback |= host == LOOPBACK
        while len(self._codes) >= MAX_CODES:
            self._spend(next(iter(self._codes)), "replaced")
        code = secrets.token_urlsafe(CODE_BYTES)
        self._codes[code] = _Code(host, now)
        return code

    def exchange(self, code: str, host: str, now: float) -> tuple[str | None, Spent | None]:
        """Use a code up: return the token, or None and the reason why the code does not count."""
        self._expire(now)
        found = self._codes.get(code)
        if found is None or found.host != host:
            return None, self._spent.get(code, "unknown")
        self._spend(code, "used")
        return self.token, None

    def prove(self, nonce: str) -> str | None:
        """Return the proof that this server knows the token; None for a malformed nonce."""
        if not NONCE.fullmatch(nonce):
            return None
        return hmac.new(self.token.encode(), f"{PROOF}{nonce}".encode(), "sha256").hexdigest()

    def _expire(self, now: float) -> None:
        for code, found in [*self._codes.items()]:
            if now - found.issued_at >= CODE_S:
                self._spend(code, "expired")

    def _spend(self, code: str, reason: Spent) -> None:
        del self._codes[code]
        self._spent[code] = reason
        while len(self._spent) > MAX_SPENT:
            self._spent.popitem(last=False)
