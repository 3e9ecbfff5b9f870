"""A standalone master of Spark's and workers on loopback, each a host of its own; ended by their ids."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rankcast.spark import sessions
from tests.spark import hosts

PATIENCE = 300.0


def why_not() -> str | None:
    """Why no cluster can be had here, None if one can."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return "no Java is on the path: `spark-class` needs one"
    if not (sessions.home() / "bin" / "spark-class").exists():
        return "this pyspark has no `spark-class`"
    return None


@dataclass
class Worker:
    """A worker; its scratch directory and what its executors wrote are its own."""

    process: subprocess.Popen[bytes]
    folder: Path

    def executors(self) -> list[int]:
        """The process ids of its executors."""
        found = hosts.children(self.process.pid)
        return [pid for pid in found if "CoarseGrainedExecutorBackend" in hosts.command(pid)]

    def kill(self) -> None:
        """Lose the host: the worker, and whatever it had started."""
        started = self.executors()
        self.process.kill()
        self.process.wait()
        for pid in started:
            hosts.kill(pid)


class Cluster:
    """A master, and workers with one core each that may come and go."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log: IO[bytes] = (folder / "log").open("ab")
        self._port = _free_port()
        self.url = f"spark://127.0.0.1:{self._port}"
        self._master = self._start({}, "master.Master", "--port", str(self._port))
        self.workers: list[Worker] = []
        limit = time.monotonic() + PATIENCE
        while not _answers(self._port):
            assert self._master.poll() is None, self.log()
            assert time.monotonic() < limit, "the master does not answer"
            time.sleep(0.2)

    def _start(self, more: dict[str, str], name: str, *arguments: str) -> subprocess.Popen[bytes]:
        launch = [str(sessions.home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
        command = [*launch, "--host", "127.0.0.1", "--webui-port", "0", *arguments]
        brief = {
            "SPARK_DAEMON_JAVA_OPTS": hosts.BRIEF,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_NO_DAEMONIZE": "1",
        }
        environment = {**os.environ, **brief, **more}
        return subprocess.Popen(command, env=environment, stdout=self._log, stderr=self._log)

    def add(self) -> Worker:
        """Start one more worker."""
        folder = self._folder / f"host{len(self.workers)}"
        more = {**hosts.environment(folder), "SPARK_WORKER_DIR": str(folder / "work")}
        process = self._start(more, "worker.Worker", "--cores", "1", "--memory", "1g", self.url)
        self.workers.append(Worker(process, folder))
        return self.workers[-1]

    def log(self) -> str:
        """The end of what master and workers have said."""
        return (self._folder / "log").read_text(errors="replace")[-3000:]

    def stop(self) -> None:
        """End all of it."""
        for worker in self.workers:
            worker.kill()
        self._master.kill()
        self._master.wait()
        self._log.close()


def _free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as opened:
        opened.settimeout(1)
        return opened.connect_ex(("127.0.0.1", port)) == 0
