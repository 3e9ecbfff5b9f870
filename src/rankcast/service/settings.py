"""The settings of the service: a file, the environment and flags; each overrides those before it.

In the environment the name of a setting has the prefix `RANKCAST_SERVE_`. Unknown names in a file or a flag
are refused.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from rankcast.errors import SettingError, shown

MEBIBYTE = 1 << 20
_FILE: dict[str, Any] = {}


class Settings(BaseSettings):
    """The settings of a service. Sizes are bytes, times are seconds."""

    model_config = SettingsConfigDict(env_prefix="RANKCAST_SERVE_", extra="forbid", frozen=True)

    data: Path = Field(default=Path("rankcast-data"), description="the directory that holds all state")
    host: str = Field(default="127.0.0.1", description="the address to listen on")
    port: int = Field(default=8765, ge=0, le=65535, description="the port to listen on")
    engines: tuple[str, ...] = Field(default=(), description="your own engines, as module:Class")
    log_level: str = Field(
        default="info", pattern="^(debug|info|warning|error)$", description="least severe level to log"
    )

    max_body: int = Field(default=64 * MEBIBYTE, ge=1, description="largest body, also after decompression")
    max_rows: int = Field(default=1_000_000, ge=1, description="most rows of a body")
    max_k: int = Field(default=10_000, ge=1, description="largest k of a subscription or of an engine")
    max_terms: int = Field(default=1_000, ge=1, description="most terms of a message or a subscription")
    max_subscriptions: int = Field(default=10_000_000, ge=1, description="most subscriptions of a stream")
    max_streams: int = Field(default=100, ge=1, description="most streams")
    max_connections: int = Field(
        default=10_000, ge=1, description="most open connections of listeners per token"
    )
    max_watched: int = Field(default=10_000, ge=1, description="most subscriptions that a listener may name")
    rate: float = Field(default=0.0, ge=0, description="requests per second of a token; 0: no limit")
    burst: int = Field(default=100, ge=1, description="requests at once above that rate")

    queue: int = Field(default=4096, ge=1, description="most waiting calls of a stream")
    queue_bytes: int = Field(default=256 * MEBIBYTE, ge=1, description="most bytes of waiting bodies")
    group: int = Field(default=256, ge=1, description="most calls committed together")
    min_free: int = Field(
        default=64 * MEBIBYTE, ge=0, description="free disk space below which writes are refused"
    )
    key_age: float = Field(default=86_400.0, gt=0, description="how long an Idempotency-Key is remembered")
    log_bytes: int = Field(default=256 * MEBIBYTE, ge=MEBIBYTE, description="size of the log of a stream")
    log_age: float = Field(default=86_400.0, gt=0, description="age of the log of a stream")
    dryrun_seconds: float = Field(default=10.0, gt=0, description="how long a dry run may take")
    dryrun_rows: int = Field(default=100_000, ge=1, description="most deltas of a dry run")
    receiver_bytes: int = Field(
        default=4 * MEBIBYTE, ge=1024, description="most bytes waiting for a slow receiver"
    )
    max_webhooks: int = Field(default=10, ge=0, description="most webhooks of a stream")
    webhook_allow: tuple[str, ...] = Field(
        default=(), description="hosts that webhooks may call, private ones and without TLS too"
    )
    webhook_timeout: float = Field(default=15.0, gt=0, description="how long a webhook waits for an answer")
    webhook_attempts: int = Field(default=12, ge=1, description="attempts before a message is dead")
    webhook_pause: float = Field(
        default=1.0, gt=0, description="the pause after the first attempt; it doubles, up to an hour"
    )
    webhook_dead: int = Field(default=1000, ge=1, description="dead letters kept for a webhook")
    clock: bool = Field(default=True, description="whether quiet streams with a clock drop old messages")
    heartbeat: float = Field(default=15.0, gt=0, description="time between heartbeats to a receiver")
    body_wait: float = Field(default=60.0, gt=0, description="how long receiving a body may take")
    stall: float = Field(
        default=60.0, gt=0, description="how long a receiver may stall before it is disconnected"
    )
    stop_wait: float = Field(default=10.0, ge=0, description="how long a stop waits for requests in progress")

    @field_validator("engines", "webhook_allow", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """Several in one flag have commas between them."""
        return (
            [each.strip() for each in value.split(",") if each.strip()] if isinstance(value, str) else value
        )

    @field_validator("data")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.absolute()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags above the environment above the file."""
        return init_settings, env_settings, _File(settings_cls)

    @property
    def is_loopback(self) -> bool:
        """Whether only callers on this machine can connect."""
        return is_loopback(self.host)


class _File(PydanticBaseSettingsSource):
    """What the file says."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return _FILE.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        return dict(_FILE)


@lru_cache(maxsize=256)  # asked with every request
def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def read(file: Path | None, flags: Mapping[str, Any]) -> Settings:
    """The settings from a file (or none), the environment and flags.

    Raises:
        SettingError: one of them is not known, or cannot be accepted.
    """
    _FILE.clear()
    if file is not None:
        try:
            _FILE.update(tomllib.loads(file.read_text()))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SettingError(f"{file} cannot be read", detail=f"{error}.") from error
    for name in (*_FILE, *flags):
        if name not in Settings.model_fields:
            where = str(file) if name in _FILE else "--set"
            raise SettingError.unknown(name, Settings.model_fields, where=where, word="setting")
    try:
        return Settings(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise SettingError(f"{name} is {shown(first.get('input'))}", detail=f"{first['msg']}.") from error
    finally:
        _FILE.clear()
