"""What is shipped for running pipelines elsewhere: manifests have their form, metrics in them exist."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml  # type: ignore[import-untyped]

from rankcast.pipeline import read
from rankcast.pipeline.progress import Progress, families

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
_METRIC = re.compile(r"\brankcast_\w+")


def _object(required: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The schema of an object that has some keys and may have others, and no more."""
    properties = {**required, **more}
    return {
        "type": "object",
        "required": list(required),
        "properties": properties,
        "additionalProperties": False,
    }


TEXT, WHOLE, TEXTS = {"type": "string"}, {"type": "integer", "minimum": 1}, {"type": "array"}
LABELS = {"type": "object", "additionalProperties": TEXT}
NAMED = {"type": "object", "required": ["name"], "properties": {"name": TEXT}}
MOUNTS = {"type": "array", "items": _object({"name": TEXT, "mountPath": {"pattern": "^/"}})}
MEMORY = {"type": "string", "pattern": "^[0-9]+[mg]$"}
POD = {
    "serviceAccount": TEXT,
    "labels": LABELS,
    "annotations": LABELS,
    "env": {"type": "array", "items": _object({"name": TEXT, "value": TEXT})},
    "volumeMounts": MOUNTS,
    "memoryOverhead": MEMORY,
    "instances": WHOLE,
}
HOST = _object({"cores": WHOLE, "memory": MEMORY}, **POD)
APPLICATION = _object(
    {
        "apiVersion": {"const": "sparkoperator.k8s.io/v1beta2"},
        "kind": {"const": "SparkApplication"},
        "metadata": NAMED,
        "spec": _object(
            {
                "type": {"const": "Python"},
                "mode": {"const": "cluster"},
                "image": TEXT,
                "sparkVersion": TEXT,
                "mainApplicationFile": {"type": "string", "pattern": "^local:///"},
                "driver": HOST,
                "executor": HOST,
            },
            pythonVersion={"const": "3"},
            imagePullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
            arguments={"type": "array", "items": TEXT},
            restartPolicy=_object(
                {"type": {"enum": ["Always", "OnFailure", "Never"]}},
                onFailureRetryInterval=WHOLE,
                onSubmissionFailureRetryInterval=WHOLE,
            ),
            deps=_object({}, jars={"type": "array", "items": {"pattern": "^local:///"}}),
            sparkConf=LABELS,
            volumes={"type": "array", "items": NAMED},
        ),
    }
)


def manifests() -> dict[str, Any]:
    """The objects of the example by kind."""
    found = yaml.safe_load_all((DEPLOY / "kubernetes" / "pipeline.yaml").read_text())
    return {each["kind"]: each for each in found}


def test_the_application_has_its_form() -> None:
    """A form of our own: that of the operator, as far as we use it."""
    found = manifests()
    jsonschema_rs.validate(APPLICATION, found["SparkApplication"])
    spec = found["SparkApplication"]["spec"]
    volumes = {each["name"] for each in spec["volumes"]}
    for pod in (spec["driver"], spec["executor"]):
        assert {each["name"] for each in pod["volumeMounts"]} <= volumes
    claims = {
        each["persistentVolumeClaim"]["claimName"]
        for each in spec["volumes"]
        if len(each) > 1 and "persistentVolumeClaim" in each
    }
    assert claims == {found["PersistentVolumeClaim"]["metadata"]["name"]}
    maps = {each["configMap"]["name"] for each in spec["volumes"] if "configMap" in each}
    assert maps == {found["ConfigMap"]["metadata"]["name"]}
    pinned = re.search(r"^pyspark==(\S+)", (ROOT / "requirements" / "spark.txt").read_text(), re.M)
    assert pinned is not None
    assert spec["sparkVersion"] == pinned[1]
    assert all(f"/spark-{pinned[1]}/" in jar for jar in spec["deps"]["jars"])


def test_the_pipeline_of_the_example_is_in_order(tmp_path: Path) -> None:
    text = manifests()["ConfigMap"]["data"]["pipeline.toml"]
    file = tmp_path / "pipeline.toml"
    file.write_text(text.replace("/checkpoint/", f"{tmp_path}/"))
    config = read(file, {"KAFKA": "kafka:9092"})
    assert config.sink.format == "kafka"
    assert config.master is None


def told() -> set[str]:
    """The names of all metrics of a pipeline."""
    return {
        f"{each.name}_total" if each.type == "counter" else str(each.name) for each in families(Progress())
    }


@pytest.mark.parametrize("name", ["grafana.json", "alerts.yaml"])
def test_every_metric_exists(name: str) -> None:
    text = (DEPLOY / name).read_text()
    named = set(_METRIC.findall(text))
    assert named
    assert named <= told()
    if name == "grafana.json":
        assert named == told(), "the dashboard leaves something out"


def test_the_dashboard_has_its_form() -> None:
    """Panels have numbers and places of their own, and a data source that the reader chooses."""
    board = json.loads((DEPLOY / "grafana.json").read_text())
    panels = board["panels"]
    assert len({each["id"] for each in panels}) == len(panels)
    places = {(each["gridPos"]["x"], each["gridPos"]["y"]) for each in panels}
    assert len(places) == len(panels)
    for each in panels:
        assert each["datasource"]["uid"] == "${source}"
        assert each["targets"]
        assert all(target["expr"].count("(") == target["expr"].count(")") for target in each["targets"])


def test_alerts_are_in_the_runbook() -> None:
    rules = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"][0]["rules"]
    runbook = (ROOT / "docs" / "guides" / "operations.md").read_text()
    for rule in rules:
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert f"`{rule['alert']}`" in runbook


EXECUTOR = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "2g",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.3",
    "SPARK_EXECUTOR_POD_NAME": "exec-3",
    "SPARK_JAVA_OPT_0": "-Da=with space",
    "SPARK_JAVA_OPT_1": '-Db="$HOME" `id`',
}


def started(folder: Path, *words: str, **variables: str) -> list[str]:
    """What the entry point of an image starts, an argument a line."""
    home = folder / "spark"
    (home / "bin").mkdir(parents=True)
    for fake in (folder / "java", home / "bin" / "spark-submit"):
        fake.write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n')
        fake.chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "SPARK_HOME": str(home), **variables}
    command = ["sh", str(DEPLOY / "entrypoint.sh"), *words]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def test_the_entry_point_starts_executors(tmp_path: Path) -> None:
    """Java's options come whole and in order, and nothing in them is run."""
    words = started(tmp_path, "executor", **EXECUTOR)
    assert words[1:5] == ["-Da=with space", '-Db="$HOME" `id`', "-Xms2g", "-Xmx2g"]
    backend = words.index("org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend")
    pairs = dict(zip(words[backend + 1 :: 2], words[backend + 2 :: 2], strict=True))
    assert pairs["--driver-url"] == EXECUTOR["SPARK_DRIVER_URL"]
    assert pairs["--podName"] == "exec-3"
    assert pairs["--cores"] == "2"


def test_the_entry_point_starts_drivers_and_commands(tmp_path: Path) -> None:
    words = started(tmp_path, "driver", "--class", "x y", SPARK_DRIVER_BIND_ADDRESS="10.0.0.1")
    assert "spark.driver.bindAddress=10.0.0.1" in words
    assert words[-4:] == ["--deploy-mode", "client", "--class", "x y"]
    assert started(tmp_path / "other", "echo", "a b") == ["a b"]


def builder() -> str | None:
    """A program that builds images here, None if there is none that answers."""
    for name in ("podman", "docker"):
        found = shutil.which(name)
        if (
            found is not None
            and not subprocess.run([found, "info"], capture_output=True, check=False).returncode
        ):
            return found
    return None


@pytest.mark.cluster
def test_the_image_is_built_and_runs(tmp_path: Path) -> None:
    program = builder()
    if program is None:
        pytest.skip("neither podman nor docker answers here: the image is not built")
    wheels = sorted((ROOT / "dist").glob("*.whl"))
    if not wheels:
        pytest.skip("there is no wheel in dist: `make wheel` builds it")
    for name in ("requirements", "deploy"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "dist").mkdir()
    shutil.copy(wheels[-1], tmp_path / "dist")
    (tmp_path / "deploy" / "jars").mkdir(exist_ok=True)
    build = [program, "build", "-f", "deploy/Containerfile", "-t", "rankcast-test", "."]
    subprocess.run(build, cwd=tmp_path, check=True)
    done = subprocess.run(
        [program, "run", "--rm", "rankcast-test", "rankcast", "--version"], check=True, capture_output=True
    )
    assert b"rankcast" in done.stdout
