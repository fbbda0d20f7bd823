"""conf/kubernetes: rendered, checked against schemas, and its coordinator run with the very variables of its pod."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError

import jsonschema
import kubernetes_validate
import pytest
import yaml

from sparklog.client.bootstrap import init_cluster
from tests.clusters.artefacts import ROOT
from tests.servers.certificates import Authority
from tests.servers.s3_servers import free_port

FOLDER = ROOT / "conf" / "kubernetes"
VERSIONS = ("1.30", "1.33", kubernetes_validate.latest_version())
IMAGES = {"sparklog:0.1.0", "kubectl"}

Object = dict[str, Any]


def rendered(folder: Path) -> list[Object]:
    if shutil.which("kubectl") is None:
        pytest.skip("this machine has no kubectl, which renders conf/kubernetes")
    printed = subprocess.run(["kubectl", "kustomize", str(folder)], check=True, capture_output=True, text=True).stdout
    return list(yaml.safe_load_all(printed))


def pods(objects: list[Object]) -> Iterator[Object]:
    """The pods that these objects bring about."""
    for found in objects:
        if found["kind"] in ("StatefulSet", "Deployment"):
            yield found["spec"]["template"]["spec"]
        elif found["kind"] == "CronJob":
            yield found["spec"]["jobTemplate"]["spec"]["template"]["spec"]


@pytest.mark.parametrize("folder", [FOLDER, FOLDER / "spark"], ids=lambda folder: folder.name)
def test_every_object_fits_its_schema(folder: Path) -> None:
    objects = rendered(folder)
    for found in objects:
        for version in VERSIONS:
            kubernetes_validate.validate(found, version, strict=True)
    kinds = {found["kind"] for found in objects}
    wanted = {"ServiceAccount", "ConfigMap", "CronJob"}
    if folder == FOLDER:
        wanted |= {"Service", "StatefulSet", "Deployment", "PodDisruptionBudget"}
    assert wanted <= kinds


def test_a_wrong_field_is_noticed() -> None:
    (budget,) = (found for found in rendered(FOLDER) if found["kind"] == "PodDisruptionBudget")
    budget["spec"]["maxUnavailabel"] = 1
    with pytest.raises(kubernetes_validate.ValidationError, match="maxUnavailabel"):
        kubernetes_validate.validate(budget, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("folder", [FOLDER, FOLDER / "spark"], ids=lambda folder: folder.name)
def test_pods_have_no_rights_that_they_do_not_need(folder: Path) -> None:
    for pod in pods(rendered(folder)):
        assert pod["securityContext"]["runAsNonRoot"]
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"], container["name"]
            assert not context["allowPrivilegeEscalation"], container["name"]
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert {"requests", "limits"} <= container["resources"].keys()
            assert container["image"] in IMAGES


def test_selectors_and_budgets_find_the_pods() -> None:
    objects = {(found["kind"], found["metadata"]["name"]): found for found in rendered(FOLDER)}
    name = "sparklog-coordinator"
    labels = objects["StatefulSet", name]["spec"]["template"]["metadata"]["labels"]
    for selector in (
        objects["Service", name]["spec"]["selector"],
        objects["PodDisruptionBudget", name]["spec"]["selector"]["matchLabels"],
        objects["StatefulSet", name]["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()


def test_applications_fit_the_fields_of_the_operator() -> None:
    """Its own schema comes with no package; this is a copy of the fields that are used, which names its source."""
    application = yaml.safe_load((FOLDER / "spark" / "roll.yaml").read_text())
    schema = json.loads((Path(__file__).parent / "spark_application.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(application)
    pod = application["spec"]["driverSpec"]["podTemplateSpec"]
    # A template may leave out what Spark fills in.
    containers = [{"image": "spark", **container} for container in pod["spec"]["containers"]]
    whole = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x"},
        "spec": {**pod["spec"], "containers": containers},
    }
    kubernetes_validate.validate(whole, VERSIONS[-1], strict=True)
    job = application["spec"]["pyFiles"].rpartition("/")[2]
    assert (ROOT / "jobs" / job).is_file()


def test_a_coordinator_runs_as_its_pod_says_and_answers_its_probes(tmp_path: Path) -> None:
    (pod,) = (found["spec"]["template"]["spec"] for found in rendered(FOLDER) if found["kind"] == "StatefulSet")
    (container,) = pod["containers"]
    secrets, cluster, port = tmp_path / "secrets", (tmp_path / "log").as_uri(), free_port()
    secrets.mkdir()
    authority = Authority(secrets)
    issued = authority.issue("tls")
    assert {issued.certificate, issued.key} == {str(secrets / "tls.crt"), str(secrets / "tls.key")}
    (secrets / "access.toml").write_text(f'[principal.agent]\ntoken_sha256 = ["{64 * "0"}"]\nrights = ["maintain:*"]\n')
    init_cluster(cluster)
    named = {"$(POD_NAME)": "sparklog-coordinator-0", "$(POD_NAMESPACE)": "default", "7400": str(port)}
    variables = {"SPARKLOG_CLUSTER": cluster}
    for variable in container["env"]:
        if "value" in variable:
            value = variable["value"].replace("/etc/sparklog", str(secrets))
            for old, new in named.items():
                value = value.replace(old, new)
            variables[variable["name"]] = value
    with running([sys.executable, "-m", "sparklog", *container["args"]], variables):
        context = ssl.create_default_context(cafile=authority.file)
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            get = container[probe]["httpGet"]
            assert (get["port"], get["scheme"]) == ("https", "HTTPS")
            assert answers(f"https://localhost:{port}{get['path']}", context), probe


@contextmanager
def running(command: list[str], variables: Mapping[str, str]) -> Iterator[None]:
    """A process that is ended behind the block."""
    with subprocess.Popen(command, env=os.environ | variables) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)
    assert process.returncode == 0


def answers(url: str, context: ssl.SSLContext) -> bool:
    """Whether it answers 200 within a minute."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, context=context, timeout=5) as answer:
                return bool(answer.status == 200)
        except URLError:
            time.sleep(0.2)
    return False
