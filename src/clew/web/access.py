"""Who may send which request. The server listens on loopback by default, so browsers are the attackers to expect.

- DNS rebinding: the `Host` has to be in a list.
- Cross-site requests: a change needs the header `Clew-Request`, which no form and no simple request can send; an
  `Origin` has to be that of the host; `Sec-Fetch-Site` may not name another site. The API cannot be read across sites.
- Other machines: any address but loopback needs a token, in a header or in a cookie that no script can read.
- Scripts from data: the policy of every answer allows scripts and styles from this server alone, and no inline ones.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from hashlib import sha256
from ipaddress import ip_address
from urllib.parse import urlsplit

import msgspec

COOKIE = "clew-token"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
CHANGES = frozenset({"POST", "DELETE", "PUT", "PATCH"})

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
"""Headers of every answer."""


class Refusal(msgspec.Struct, frozen=True):
    """Why a request is refused."""

    status: int
    type: str
    message: str
    hint: str | None = None


def is_loopback(host: str) -> bool:
    """Return whether an address to listen on can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class AccessRules:
    """The rules of one server. `hosts` are the names under which it may be reached, without ports."""

    def __init__(
        self, hosts: Iterable[str] = (), *, token: str | None = None, read_only: bool = False
    ) -> None:
        self.hosts = frozenset(host.strip("[]").lower() for host in (*LOOPBACK, *hosts))
        self.read_only = read_only
        self._token = None if token is None else token.encode()
        self.cookie = "" if self._token is None else hmac.new(self._token, b"cookie", sha256).hexdigest()
        """The content of the cookie: it proves that its owner knew the token, and is not the token."""

    def refuse(
        self, method: str, path: str, headers: Mapping[str, str], cookies: Mapping[str, str]
    ) -> Refusal | None:
        """Return why a request is refused, or None."""
        host = headers.get("host", "")
        if host_name(host) not in self.hosts:
            return Refusal(
                403,
                "WrongHost",
                "this server is not called so",
                "open it as localhost, or start it with --allow-host NAME",
            )
        is_api = path == "/api" or path.startswith("/api/")
        site = headers.get("sec-fetch-site", "none")
        if (is_api or method in CHANGES) and site not in ("none", "same-origin"):
            return Refusal(403, "CrossSite", "another site has sent this request")
        if method in CHANGES:
            origin = headers.get("origin")
            if origin is not None and not _is_same(origin, host):
                return Refusal(403, "CrossSite", "another site has sent this request")
            if headers.get("clew-request") != "1":
                return Refusal(
                    403,
                    "CrossSite",
                    "a change needs the header Clew-Request",
                    "send the header `Clew-Request: 1`",
                )
            if method != "DELETE" and headers.get("content-type", "").partition(";")[0] != "application/json":
                return Refusal(403, "CrossSite", "a change needs the content type application/json")
        if self._token is not None and not self._is_known(headers, cookies):
            return Refusal(
                401, "TokenNeeded", "a token is needed", "open the address that `clew serve` has printed"
            )
        if self.read_only and method in CHANGES:
            return Refusal(
                403,
                "ReadOnly",
                "this server only reads",
                "start it without --read-only, or use the command line",
            )
        return None

    def is_token(self, text: str) -> bool:
        return self._token is not None and hmac.compare_digest(text.encode(), self._token)

    def _is_known(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self.is_token(given.strip()):
            return True
        return hmac.compare_digest(cookies.get(COOKIE, "").encode(), self.cookie.encode())


def host_name(host: str) -> str:
    """Return a `Host` without its port, in lower case; "" if it is not one."""
    if any(sign in host for sign in "/\\@?# "):
        return ""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".").lower()
    except ValueError:
        return ""


def _is_same(origin: str, host: str) -> bool:
    try:
        found = urlsplit(origin)
    except ValueError:
        return False
    return found.scheme in ("http", "https") and found.netloc.lower() == host.lower()
