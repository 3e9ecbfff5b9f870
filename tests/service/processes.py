"""A service in a process of its own, which can be killed, and clients that do not give up."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

CODE = "import sys; from rankcast.cli import main; sys.exit(main())"
STREAM = "/v1/streams/s"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


class Process:
    """`rankcast serve` on a directory, always at the same port."""

    def __init__(self, data: Path, *flags: str) -> None:
        self.data, self.port = data, free_port()
        self.flags = ["--data", str(data), "--port", str(self.port), "--log-level", "error", *flags]
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-c", CODE, "serve", *self.flags]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        until = time.monotonic() + 180  # others may use the machine
        while time.monotonic() < until:
            try:
                if self.ask("GET", "/readyz")[0] == 200:
                    return
            except OSError:
                time.sleep(0.02)
        raise TimeoutError

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """One request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            data = None if body is None else json.dumps(body).encode()
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, data, {"Content-Type": "application/json", **named})
            answer = connection.getresponse()
            found = answer.read()
            return answer.status, json.loads(found) if found else None
        finally:
            connection.close()

    def insist(self, method: str, path: str, body: Any, key: str, ended: threading.Event) -> tuple[int, Any]:
        """Offer a write until it is answered, whatever happens to the service meanwhile."""
        while not ended.is_set():
            try:
                status, answer = self.ask(method, path, body, Idempotency_Key=key)
                if status not in (429, 503, 507):
                    return status, answer
            except (OSError, http.client.HTTPException, ValueError):
                pass
            time.sleep(0.02)
        return 0, None

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(30)


class Follower(threading.Thread):
    """A receiver that resumes by itself and keeps lists; it notes whatever is lost or comes twice."""

    def __init__(self, process: Process, path: str) -> None:
        super().__init__(daemon=True)
        self.process, self.path = process, path
        self.last: int | None = None
        self.lists: dict[Any, dict[Any, float]] = {}
        self.wrong: list[str] = []
        self.heard: list[tuple[int, Any]] = []  # sequence and rows of every delta
        self.snapshots = self.connections = 0
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.is_set():
            try:
                self._listen()
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.02)

    def _listen(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.process.port, timeout=5)
        try:
            headers = {} if self.last is None else {"Last-Event-ID": str(self.last)}
            connection.request("GET", self.path, headers=headers)
            answer = connection.getresponse()
            self.connections += 1
            fields: dict[str, str] = {}
            while not self.ended.is_set():
                line = answer.readline()
                if not line.endswith(b"\n"):
                    return
                if line == b"\n":
                    self._take(fields)
                    fields = {}
                    continue
                name, _, value = line[:-1].decode().partition(": ")
                fields[name] = value
        finally:
            connection.close()

    def _take(self, fields: dict[str, str]) -> None:
        number = int(fields["id"])
        if "data" in fields:
            data = json.loads(fields["data"])
            if fields["event"] == "snapshot":
                self.snapshots += 1
                self.lists = {}
                for row in data["rows"]:
                    self.lists.setdefault(row["subscription"], {})[row["item"]] = row["score"]
            elif fields["event"] == "delta":
                if self.last is not None and number <= self.last:
                    self.wrong.append(f"{number} came behind {self.last}")
                self.heard.append((number, data["rows"]))
                for row in data["rows"]:
                    self._apply(row, number)
        self.last = number

    def _apply(self, row: dict[str, Any], number: int) -> None:
        mine = self.lists.setdefault(row["subscription"], {})
        known = row["item"] in mine
        if known != (row["op"] != "enter"):
            self.wrong.append(
                f"{row['op']} of {row['item']} at {number}, which is {'' if known else 'not '}there"
            )
        if row["op"] == "leave":
            mine.pop(row["item"], None)
        else:
            mine[row["item"]] = row["score"]
