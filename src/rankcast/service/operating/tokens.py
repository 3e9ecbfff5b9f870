"""Tokens: who may do what, to which streams. Only hashes are stored.

A token is `rkc_<id>_<secret>`. The id finds its line in the file, and the hash of the secret is compared in
constant time. The secret has 256 random bits, so a plain hash is as good as a slow one. The file is replaced
as a whole and read again when it has changed: a revoked token is refused at once.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

from rankcast.core import snapshot
from rankcast.errors import InputError, ShardError, shown
from rankcast.service.problems import Problem

Scope: TypeAlias = Literal["read", "publish", "subscribe", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
FILE = "tokens.json"
_TOKEN = re.compile(r"rkc_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Token(NamedTuple):
    """What is stored of a token. No streams means all of them."""

    id: str
    name: str
    digest: str
    scopes: tuple[Scope, ...]
    streams: tuple[str, ...] = ()
    expires: float | None = None

    def allows(self, scope: Scope, stream: str | None) -> bool:
        """Whether it allows a call; `stream` None: for what concerns all streams."""
        return (scope in self.scopes or "admin" in self.scopes) and (
            not self.streams or (stream is not None and stream in self.streams)
        )


ANYBODY = Token("", "anybody", "", SCOPES)


class Tokens:
    """The tokens of a data directory, as its file has them now."""

    def __init__(self, data: Path, *, public: bool = False) -> None:
        """With `public`, every call needs a token, even if there is none."""
        self._path = data / FILE
        self._public = public
        self._seen: tuple[int, int, int] | None = None
        self._known: dict[str, Token] = {}

    def all(self) -> dict[str, Token]:
        """All tokens by id."""
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            self._seen, self._known = None, {}
            return self._known
        seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if seen != self._seen:
            self._known, self._seen = _read(self._path), seen
        return self._known

    def admit(self, authorization: str | None) -> Token:
        """The token of a call.

        Raises:
            Problem: 401, there is no valid one.
        """
        known = self.all()
        if not known and not self._public:
            return ANYBODY
        scheme, _, given = (authorization or "").partition(" ")
        found = _TOKEN.fullmatch(given.strip()) if scheme.lower() == "bearer" else None
        token = known.get(found[1]) if found is not None else None
        digest = _digest(found[2]) if found is not None else ""
        if not hmac.compare_digest(digest, token.digest if token else "-") or token is None:
            raise unknown()
        if token.expires is not None and token.expires <= time.time():
            raise unknown("The token has expired.")
        return token

    def add(
        self,
        name: str,
        scopes: Iterable[str],
        streams: Iterable[str] = (),
        expires_in: float | None = None,
    ) -> str:
        """Create a token; the returned text is not stored anywhere."""
        if not _NAME.fullmatch(name):
            raise InputError(f"the name is {shown(name)}", expected="letters, digits, dots, hyphens")
        chosen = tuple(dict.fromkeys(scopes))
        for scope in chosen:
            if scope not in SCOPES:
                raise InputError.unknown(scope, SCOPES, where="scope", word="scope")
        if not chosen:
            raise InputError("the token has no scope", expected=f"one of: {', '.join(SCOPES)}")
        if expires_in is not None and not 0 < expires_in < 1e10:
            raise InputError(f"the token expires in {expires_in} seconds", expected="a number above 0")
        expires = None if expires_in is None else time.time() + expires_in
        secret, key = secrets.token_urlsafe(32), secrets.token_hex(6)
        token = Token(key, name, _digest(secret), cast("tuple[Scope, ...]", chosen), tuple(streams), expires)
        with snapshot.locked(self._path.parent, wait=True):
            known = dict(self.all())
            if name in {each.name for each in known.values()}:
                raise InputError(f"there is a token {shown(name)}", hint="Revoke it, or use another name.")
            self._write({**known, key: token})
        return f"rkc_{key}_{secret}"

    def revoke(self, name: str) -> None:
        """Revoke a token."""
        with snapshot.locked(self._path.parent, wait=True):
            known = {key: each for key, each in self.all().items() if each.name != name}
            if len(known) == len(self.all()):
                raise InputError.unknown(
                    name, [each.name for each in known.values()], where="tokens", word="token"
                )
            self._write(known)

    def _write(self, known: dict[str, Token]) -> None:
        text = json.dumps([token._asdict() for token in known.values()], indent=1)
        new = self._path.with_name(f"{FILE}.new")
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, text.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        new.replace(self._path)
        snapshot.sync_directory(self._path.parent)


def unknown(detail: str = "The call needs a token that the service knows.") -> Problem:
    """A call without a valid token."""
    return Problem(401, detail, headers={"WWW-Authenticate": 'Bearer realm="rankcast"'})


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _read(path: Path) -> dict[str, Token]:
    try:
        listed: list[dict[str, Any]] = json.loads(path.read_text())
        tokens = [
            Token(**{**each, "scopes": tuple(each["scopes"]), "streams": tuple(each["streams"])})
            for each in listed
        ]
    except (ValueError, TypeError, KeyError) as error:
        raise ShardError(
            f"{path} is damaged", hint="Restore it, or remove it and make new tokens."
        ) from error
    return {token.id: token for token in tokens}
