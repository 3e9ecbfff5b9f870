"""What callers ask of webhooks: make, look at and end them, and send again what could not be delivered."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from rankcast.errors import InputError, SettingError, shown
from rankcast.service.problems import Problem
from rankcast.service.requests import handlers
from rankcast.service.requests.gate import Call
from rankcast.service.streams.directory import NAME
from rankcast.service.streams.stream import Stream
from rankcast.service.streams.writing import Outcome
from rankcast.service.webhooks.outbound import check_url
from rankcast.service.webhooks.store import PREFIX, Webhook, key_of

KEYS = ("url", "secret", "subscriptions")


async def put_webhook(call: Call) -> Response:
    """Make a webhook, or change it."""
    document, name, settings = await call.document(), call.parameters["name"], call.service.settings
    if not NAME.fullmatch(name):
        raise Problem(
            400, f"{shown(name)} is no name of a webhook.", hint="Use letters, digits, - and _, up to 64."
        )
    for key in document:
        if key not in KEYS:
            raise SettingError.unknown(key, KEYS, where="body")
    url, secret = check_url(document.get("url"), settings.webhook_allow), document.get("secret")
    if secret is not None:
        key_of(secret)
    wants = wanted(document.get("subscriptions"), settings.max_watched)

    def put(stream: Stream) -> tuple[Webhook, bool]:
        known = stream.hooks.find(name)
        if known is None and len(stream.hooks.all()) >= settings.max_webhooks:
            raise Problem(
                409, f"The stream may have {settings.max_webhooks} webhooks.", hint="End one first."
            )
        for each in wants or ():
            stream.records.id_of(each, "subscription")
        kept = secret or (
            known.secret if known else PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
        )
        cursor, tag = (known.cursor, known.tag) if known else (stream.number, secrets.token_hex(8))
        hook = Webhook(name, url, kept, wants, cursor, tag)
        stream.hooks.put(hook)
        return hook, known is None

    hook, made = await call.stream.ask(put, writes=True)
    call.service.deliveries.start(call.stream, hook.name)
    more = {"secret": hook.secret} if made and secret is None else {}  # shown once
    return handlers.answered({**told(hook), **more}, 201 if made else 200)


def wanted(given: Any, most: int) -> frozenset[str] | None:
    """The subscriptions that a webhook is to hear of, None for all."""
    if given is None:
        return None
    ids = given if isinstance(given, list) and given else [None]
    if not all(isinstance(each, int | str) and not isinstance(each, bool) for each in ids):
        raise InputError(f"is {shown(given)}", column="subscriptions", expected="a list of ids, or nothing")
    if len(ids) > most:
        raise Problem(413, f"At most {most} subscriptions can be named.")
    return frozenset(map(str, ids))


def told(hook: Webhook) -> dict[str, Any]:
    """What is told of a webhook."""
    wants = None if hook.wants is None else sorted(hook.wants)
    return {"name": hook.name, "url": hook.url, "subscriptions": wants, "delivered": hook.cursor}


async def get_webhook(call: Call) -> Response:
    """A webhook, and how far it is."""
    return handlers.answered(await call.stream.ask(lambda stream: told(hook_of(call, stream))))


async def end_webhook(call: Call) -> Response:
    """End a webhook."""

    def end(stream: Stream) -> Outcome:
        stream.hooks.drop(hook_of(call, stream).name)
        return Outcome(200, {"sequence": stream.number, "deltas": 0})

    answer = await handlers.write(call, end)
    await call.service.deliveries.end(call.stream, call.parameters["name"])
    return answer


async def dead_letters(call: Call) -> Response:
    """What could not be delivered."""
    return handlers.answered(
        {"rows": await call.stream.ask(lambda stream: stream.hooks.dead(hook_of(call, stream).name))}
    )


async def retry_dead_letters(call: Call) -> Response:
    """Send dead letters again, one or all."""
    letter = call.asks("id")

    def wake(stream: Stream) -> int:
        count = stream.hooks.wake(hook_of(call, stream).name, letter)
        if letter is not None and not count:
            raise Problem(404, f"There is no dead letter {shown(letter)}.")
        return count

    count = await call.stream.ask(wake, writes=True)
    call.service.deliveries.wake(call.stream, call.parameters["name"])
    return handlers.answered({"waiting": count}, 202)


def hook_of(call: Call, stream: Stream) -> Webhook:
    """The webhook that a call names.

    Raises:
        Problem: 404, there is none.
    """
    found = stream.hooks.find(call.parameters["name"])
    if found is None:
        raise Problem(404, f"There is no webhook {shown(call.parameters['name'])}.")
    return found


HANDLERS: dict[str, Callable[[Call], Any]] = {
    each.__name__: each for each in (put_webhook, get_webhook, end_webhook, dead_letters, retry_dead_letters)
}
