"""Who may read what: tokens, and the hosts that a server without tokens answers for."""

import hmac
import ipaddress
from collections.abc import Sequence
from fnmatch import fnmatchcase

from starlette.requests import HTTPConnection

from headrace.settings import TokenSettings, split_address
from headrace.views.errors import ViewsError
from headrace.views.serving.answers import NotAllowed


class Exposed(ViewsError):
    """Views would be readable by everybody who reaches the machine."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"Views are not served at {address} without tokens: everybody who reaches this machine "
            "could read them. Add [[serve.tokens]] to headrace.toml, or serve at 127.0.0.1."
        )


class Access:
    """Decides for every request."""

    def __init__(self, address: str, tokens: Sequence[TokenSettings]) -> None:
        self._tokens = tokens
        if not tokens and not is_loopback(split_address(address)[0]):
            raise Exposed(address)

    def require(self, request: HTTPConnection, view: str | None) -> None:
        """NotAllowed unless the request may read a view; with None, anything at all."""
        if not self._tokens:
            self._require_local(request)
            return
        sent = _sent(request)
        if sent is None:
            raise NotAllowed(
                "A token is needed: send it as Authorization: Bearer TOKEN, or, where headers "
                "cannot be set, as access_token=TOKEN.",
                401,
            )
        given = self._given(sent)
        if given is None:
            raise NotAllowed("That token is not known here.", 401)
        if view is not None and not _opens(given, view):
            raise NotAllowed(f"That token does not open the view {view}.", 403)

    def may(self, request: HTTPConnection, view: str) -> bool:
        """Whether a request may know of a view."""
        try:
            self.require(request, view)
        except NotAllowed:
            return False
        return True

    def _given(self, sent: str) -> TokenSettings | None:
        found = None
        for each in self._tokens:
            # All are compared, so that the time that it takes tells nothing.
            if hmac.compare_digest((each.token or "").encode(), sent.encode()):
                found = each
        return found

    def _require_local(self, request: HTTPConnection) -> None:
        """Refuse names that some page in a browser made up for this machine."""
        host = request.url.hostname or ""
        if not is_loopback(host):
            raise NotAllowed(
                f"Without tokens views are served to this machine only, and not as {host}.", 403
            )


def is_loopback(host: str) -> bool:
    """Whether a host is the machine itself.

    >>> [is_loopback(each) for each in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "shop.example")]
    [True, True, True, False, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _sent(request: HTTPConnection) -> str | None:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and token:
        return token.strip()
    return request.query_params.get("access_token")


def _opens(given: TokenSettings, view: str) -> bool:
    return any(fnmatchcase(view, pattern) for pattern in given.views)
