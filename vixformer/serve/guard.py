"""Who may send requests, and the headers of every answer. It is in front of the application, so that error responses
have them too."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import re
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src {scripts}; style-src {styles}; img-src data: blob:; connect-src 'self'; base-uri"
    " 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY.format(scripts="'none'", styles="'none'"),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""Of every answer; a page allows its own scripts and styles."""


def policy(page: str) -> dict[str, str]:
    """Headers of a page that allow the scripts and styles that are in it, by their digests, and no others."""

    def digests(tag: str) -> str:
        inside = re.findall(rf"<{tag}(?![^>]*application/json)[^>]*>(.*?)</{tag}>", page, re.DOTALL)
        return " ".join(f"'sha256-{_base64(text)}'" for text in inside) or "'none'"

    return {"Content-Security-Policy": POLICY.format(scripts=digests("script"), styles=digests("style"))}


def _base64(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


class Guard:
    """Checks the Host header, because a foreign web site may point its own name here, and the token, if there is
    one."""

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...], addresses: bool, token: str | None) -> None:
        """`hosts` are the names that requests may use. With `addresses`, they may also use any IP address, which nobody
        can redirect."""
        self.app, self.hosts, self.addresses, self.token = app, {host.lower() for host in hosts}, addresses, token
        self.shown = hosts[0]
        self.cookie = None if token is None else f"vix-{hashlib.sha256(token.encode()).hexdigest()[:8]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                found = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    found.setdefault(name, value)
            await send(message)

        answer = self._refusal(scope) or self.app
        await answer(scope, receive, sending)

    def _refusal(self, scope: Scope) -> Response | None:
        """None where it may pass."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._known(host):
            return JSONResponse({"detail": f"this server answers to {self.shown}, not to {host[:80]}"}, 400)
        if self.token is None or self._right(_bearer(headers)) or self._right(self._kept(headers)):
            return None
        query = parse_qs(scope["query_string"].decode("latin1"), keep_blank_values=True)
        if not self._right("".join(query.pop("token", []))):
            says = "open the address that vix serve printed, or send the header Authorization: Bearer TOKEN"
            return JSONResponse({"detail": f"this server needs its token: {says}"}, 401, {"WWW-Authenticate": "Bearer"})
        if scope["method"] != "GET" or "text/html" not in headers.get("accept", ""):
            return None
        where = "./" + scope["path"].rpartition("/")[2] + ("?" + urlencode(query, doseq=True) if query else "")
        response = RedirectResponse(where, 303)  # so that the address that is shown, kept and sent on has no token
        response.set_cookie(self.cookie or "", self.token, httponly=True, samesite="lax", path="/")
        return response

    def _known(self, host: str) -> bool:
        name = re.sub(r":\d+$", "", host).lower()
        if name in self.hosts:
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return self.addresses

    def _right(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), (self.token or "").encode())

    def _kept(self, headers: Headers) -> str:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.cookie or "")
        except CookieError:
            return ""
        return "" if found is None else found.value


def _bearer(headers: Headers) -> str:
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""
