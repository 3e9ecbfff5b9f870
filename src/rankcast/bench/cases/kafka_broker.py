"""One broker of Apache Kafka in KRaft mode, on loopback, stopped by its process id; for cases, tests, trials.

Its jars lie in `out/kafka`, where `make broker` puts them, or where RANKCAST_BROKER_JARS says.

    python -m rankcast.bench.cases.kafka_broker FOLDER [--port 9092]     # one that runs until Ctrl-C
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
PATIENCE = 240.0
_FLAGS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{other}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{other}
log.dirs={folder}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
num.network.threads=1
num.io.threads=2
"""


def _jars() -> Path:
    return Path(os.environ.get("RANKCAST_BROKER_JARS", "out/kafka")).absolute()


def why_not() -> str | None:
    """Why no broker can be had here, None if one can."""
    if shutil.which("java") is None:
        return "no Java is on the path"
    if not list(_jars().glob("kafka_2.13-*.jar")):
        return f"no jars of a broker are in {_jars().name}: `make broker` fetches them with Maven"
    try:
        import confluent_kafka  # noqa: F401, PLC0415
    except ImportError:
        return "confluent-kafka is not installed (the extra kafka)"
    return None


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


class Broker:
    """A broker with its log in a folder; it may be stopped and started again."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.folder = folder.absolute()
        self.port = port or free_port()
        self.servers = f"127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        self._looking: Any = None
        self._prepare()
        self.start()

    def _prepare(self) -> None:
        """Write the settings; a new folder is formatted, one that was used before keeps its log."""
        folder = self.folder
        used = (folder / "log" / "meta.properties").exists()
        folder.mkdir(parents=True, exist_ok=used)
        text = _PROPERTIES.format(port=self.port, other=free_port(), folder=folder / "log")
        (folder / "server.properties").write_text(text)
        tool = ["kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(folder / "server.properties")]
        if not used:
            subprocess.run(self._java(*tool), check=True, capture_output=True, timeout=PATIENCE)  # noqa: S603

    def _java(self, *words: str) -> list[str]:
        return ["java", *_FLAGS, "-cp", f"{_jars()}/*", *words]

    def start(self) -> None:
        """Start it, unless it runs, and wait until it answers."""
        if self._process is not None:
            return
        with (self.folder / "broker.log").open("ab") as log:
            command = self._java("kafka.Kafka", str(self.folder / "server.properties"))
            self._process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603
        limit = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.poll() is not None:
                raise RuntimeError((self.folder / "broker.log").read_text()[-2000:])
            if time.monotonic() > limit:
                raise TimeoutError("the broker does not answer")
            time.sleep(0.2)

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException  # noqa: PLC0415

        try:
            return bool(self.admin().list_topics(timeout=5).brokers)
        except KafkaException:
            return False

    def stop(self, *, kill: bool = False) -> None:
        """End it."""
        if self._looking is not None:
            self._looking.close()
            self._looking = None
        if self._process is not None:
            self._process.kill() if kill else self._process.terminate()
            self._process.wait(PATIENCE)
            self._process = None

    def wait(self) -> None:
        """Wait until the process ends by itself."""
        if self._process is not None:
            self._process.wait()

    def admin(self) -> Any:
        """A client that makes topics."""
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415

        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def create(self, settings: Mapping[str, str] | None = None, /, **topics: int) -> None:
        """Make topics with so many partitions each, and with settings of the broker's for topics."""
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # noqa: PLC0415

        admin = self.admin()  # it takes its answers along when it goes
        made = admin.create_topics(
            [NewTopic(name, count, 1, config=dict(settings or {})) for name, count in topics.items()]
        )
        for done in made.values():
            done.result(60)

    def send(self, topic: str, messages: Sequence[tuple[int, bytes | None]]) -> None:
        """Put messages into partitions, and wait until they are there."""
        from confluent_kafka import Producer  # noqa: PLC0415

        producer = Producer(
            {"bootstrap.servers": self.servers, "linger.ms": 5, "log_level": 0, "enable.idempotence": True}
        )
        for partition, value in messages:
            producer.produce(topic, value, partition=partition)
            producer.poll(0)
        if producer.flush(PATIENCE):
            raise TimeoutError("messages do not get through")

    def size(self, topic: str) -> int:
        """How many messages a topic has."""
        from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415

        if self._looking is None:
            self._looking = Consumer({"bootstrap.servers": self.servers, "group.id": "look", "log_level": 0})
        consumer = self._looking
        parts = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        places = [TopicPartition(topic, part) for part in parts]
        return sum(int(consumer.get_watermark_offsets(each, timeout=60)[1]) for each in places)

    def messages(self, topic: str) -> list[Any]:
        """All messages of a topic, doubles too."""
        from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415

        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "look", "log_level": 0})
        try:
            parts = consumer.list_topics(topic, timeout=60).topics[topic].partitions
            found = []
            for part in parts:
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, part), timeout=60)
                consumer.assign([TopicPartition(topic, part, low)])
                while low < high:
                    message = consumer.poll(60)
                    if message is None or message.error() is not None:
                        raise TimeoutError(f"no messages come from {topic}")
                    found.append(message)
                    low = int(message.offset() or 0) + 1
            return found
        finally:
            consumer.close()


def main() -> int:
    """Run a broker until it is interrupted."""
    parser = argparse.ArgumentParser(
        description="Run a broker of Apache Kafka on this machine, until Ctrl-C."
    )
    parser.add_argument("folder", type=Path, help="where it keeps its log; may be used again")
    parser.add_argument("--port", type=int, default=9092, help="default 9092")
    given = parser.parse_args()
    why = why_not()
    if why is not None:
        sys.stderr.write(f"{why}\n")
        return 2
    broker = Broker(given.folder, given.port)
    sys.stdout.write(f"a broker of Kafka listens on {broker.servers}; stop it with Ctrl-C\n")
    sys.stdout.flush()
    try:
        broker.wait()
    except KeyboardInterrupt:
        pass
    finally:
        broker.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
