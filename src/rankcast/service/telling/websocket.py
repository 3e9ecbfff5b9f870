"""The same over a WebSocket: text frames out, `add`, `drop` and `after` in.

A client may begin with `{"after": n}` within a moment, to resume; then `{"add": [ids]}` and `{"drop": [ids]}`
change what it hears of. What is added comes with a snapshot of its own.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import orjson
from starlette.websockets import WebSocket, WebSocketDisconnect

from rankcast.service.commands import STREAM, Command
from rankcast.service.problems import Problem, problem_of
from rankcast.service.requests.gate import decoded
from rankcast.service.streams.stream import Stream
from rankcast.service.telling import hub, sse
from rankcast.service.telling.hub import Place, Receiver

if TYPE_CHECKING:
    from rankcast.service.app import Service

SOCKET = Command("socket", "GET", f"{STREAM}/ws", "read", "The same as deltas, over a WebSocket.")
FIRST_WORD = 0.25  # seconds in which a client may say where it resumes
_REFUSED = {401: 4401, 403: 4403, 404: 4404, 429: 4429}


async def serve(socket: WebSocket, service: Service) -> None:
    """Serve one client to its end."""
    try:
        name = decoded(socket.path_params["stream"])
        token = service.gate.token_of(socket, SOCKET, name)
        stream = service.streams.find(name)
        texts = socket.query_params.getlist("subscription")
        wants = await sse.watched(stream, texts)
        service.connections.enter(token)
    except Exception as error:
        problem = problem_of(error) or Problem(500, "The service has a defect.")
        await socket.close(_REFUSED.get(problem.status, 1008), problem.detail[:100])
        return
    try:
        await socket.accept()
        async with sse.entered(stream, wants) as receiver:
            await _Client(socket, stream, receiver).run()
    except WebSocketDisconnect:
        pass
    finally:
        service.connections.leave(token)


class _Client:
    """One client: a task that reads what it asks for, and one that tells it."""

    def __init__(self, socket: WebSocket, stream: Stream, receiver: Receiver) -> None:
        self._socket = socket
        self._stream = stream
        self._receiver = receiver
        self._sending = asyncio.Lock()

    async def run(self) -> None:
        """Tell until somebody ends it."""
        after, first = await self._first_word()
        tasks = [asyncio.create_task(self._tell(after)), asyncio.create_task(self._listen(first))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except TimeoutError:  # it takes nothing any more
            pass
        except Problem as problem:
            with suppress(RuntimeError):
                await self._socket.close(1008, problem.detail[:100])
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _first_word(self) -> tuple[int | None, dict[str, Any] | None]:
        """Where the client resumes, or what else it says first, if it says something soon."""
        try:
            asked = await asyncio.wait_for(self._receive(), FIRST_WORD)
        except TimeoutError:
            return None, None
        after = asked.pop("after", None)
        if after is not None and (isinstance(after, bool) or not isinstance(after, int) or after < 0):
            raise Problem(422, "after is no sequence.")
        return after, asked or None

    async def _receive(self) -> dict[str, Any]:
        try:
            asked = orjson.loads(await self._socket.receive_text())
        except (orjson.JSONDecodeError, KeyError) as error:
            raise Problem(422, "A frame is no JSON.") from error
        if not isinstance(asked, dict) or asked.keys() - {"add", "drop", "after"}:
            raise Problem(422, "A frame has something else than add, drop or after.")
        return asked

    async def _listen(self, first: dict[str, Any] | None) -> None:
        asked = first
        while True:
            if asked is not None:
                await self._change(asked)
            asked = await self._receive()

    async def _change(self, asked: dict[str, Any]) -> None:
        """Hear of more or of fewer subscriptions."""
        add, drop = (self._texts(asked.get(name, [])) for name in ("add", "drop"))
        receiver, stream = self._receiver, self._stream
        wants = (receiver.wants or frozenset()) - drop | add
        if len(wants) > stream.settings.max_watched:
            raise Problem(413, "Too many subscriptions are named.")
        await sse.watched(stream, sorted(add))

        def change(each: Stream) -> Place:
            each.hub.change(receiver, wants)
            return Place(each.number, hub.current(each, add))

        place = await stream.ask(change)
        if add:
            async with self._sending:
                await self._send([hub.snapshot(place)])

    def _texts(self, ids: Any) -> frozenset[str]:
        if not isinstance(ids, list) or not all(isinstance(each, str | int) for each in ids):
            raise Problem(422, "add and drop take lists of ids.")
        return frozenset(map(str, ids))

    async def _tell(self, after: int | None) -> None:
        async for part in sse.hear(self._stream, self._receiver, after):
            async with self._sending:
                await self._send(part)

    async def _send(self, part: list[hub.Told]) -> None:
        for told in part:
            async with asyncio.timeout(self._stream.settings.stall):
                await self._socket.send_text(told.as_frame())
