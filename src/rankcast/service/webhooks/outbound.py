"""Calls that the service makes: to public addresses only, bounded in time and size, redirects not followed.

A name is resolved once, every address that it has is checked, and the connection is made to the one that was
checked: a name that answers something else the next time gains nothing. TLS and `Host` go by the name. Hosts
that the operator allows by name (`webhook_allow`) are not checked, and may be spoken to without TLS.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import httpcore

from rankcast.errors import InputError, shown

Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
LONGEST_URL = 2048
ENOUGH = 64 << 10  # bytes of an answer that are read before the connection is given up
_TRANSLATED = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))


class RefusedAddressError(OSError):
    """An address that the service does not speak to."""


def is_public(text: str) -> bool:
    """Whether an address is one of the internet's, and no other way to write one that is not.

    >>> [is_public(each) for each in ("93.184.216.34", "127.0.0.1", "10.0.0.1", "::ffff:93.184.216.34")]
    [True, False, False, False]
    """
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if address.is_multicast or address.is_reserved or not address.is_global:
        return False
    if isinstance(address, IPv6Address):
        inside = address.ipv4_mapped or address.sixtofour or address.teredo or address.scope_id
        translated = any(address in network for network in _TRANSLATED)
        return inside is None and not address.is_site_local and not translated
    return True


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(each[4][0]) for each in found]


def check_url(url: Any, allowed: Iterable[str]) -> str:
    """A URL that may be called, as far as can be seen from itself.

    Raises:
        InputError: it may not.
    """
    expected = "an address that begins with https://"
    if not isinstance(url, str) or len(url) > LONGEST_URL or not url.isascii() or not url.isprintable():
        raise InputError(f"is {shown(url)}", column="url", expected=expected)
    host, scheme = None, ""
    with suppress(ValueError):  # a port that is none
        parts = urlsplit(url)
        plain = parts.port != 0 and parts.username is None and not parts.fragment and "\\" not in url
        scheme, host = parts.scheme, parts.hostname if plain and " " not in url else None
    if not host or scheme not in ("https", "http"):
        raise InputError(f"is {shown(url)}", column="url", expected=expected)
    if host not in allowed:
        if scheme != "https":
            hint = "The operator can allow a host by name: webhook_allow."
            raise InputError(f"is {shown(url)}", column="url", expected=expected, hint=hint)
        if _is_address(host) and not is_public(host):
            raise InputError(f"is {shown(url)}", column="url", expected="a public address")
    return url


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


class _Backend(httpcore.AsyncNetworkBackend):
    """Connects to addresses that were checked."""

    def __init__(
        self, allowed: Iterable[str], look_up: Resolve, inner: httpcore.AsyncNetworkBackend | None = None
    ) -> None:
        self._allowed = frozenset(allowed)
        self._resolve = look_up
        self._inner = inner or httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address of a host, all of which must be public unless it is allowed."""
        addresses = await self._resolve(host, port)
        if not addresses:
            raise RefusedAddressError(f"{host} has no address")
        if host.lower() not in self._allowed:
            for each in addresses:
                if not is_public(each):
                    raise RefusedAddressError(f"{host} is at {each}, which is no public address")
        return await self._inner.connect_tcp(addresses[0], port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._inner.sleep(seconds)


class Outbound:
    """Posts to URLs from outside."""

    def __init__(
        self,
        allowed: Iterable[str],
        timeout: float,
        *,
        look_up: Resolve = resolve,
        inner: httpcore.AsyncNetworkBackend | None = None,
    ) -> None:
        self._timeout = timeout
        self._pool = httpcore.AsyncConnectionPool(
            network_backend=_Backend(allowed, look_up, inner), keepalive_expiry=30.0, max_connections=100
        )

    async def post(self, url: str, body: bytes, headers: dict[str, str]) -> str | None:
        """Post a body; None if it was accepted (2xx), or why it was not."""
        try:
            async with asyncio.timeout(self._timeout):
                sent = {name.encode(): value.encode() for name, value in headers.items()}
                async with self._pool.stream(
                    "POST", url, headers=list(sent.items()), content=body
                ) as response:
                    size = 0
                    async for part in response.aiter_stream():
                        size += len(part)
                        if size > ENOUGH:
                            break
                    if 200 <= response.status < 300:
                        return None
                    return f"answered with {response.status}"
        except TimeoutError:
            return f"no answer within {self._timeout:g} seconds"
        except (OSError, UnicodeError, *_FAILURES) as error:
            return f"{type(error).__name__}: {error}"

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.aclose()


_FAILURES = (
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.UnsupportedProtocol,
)
