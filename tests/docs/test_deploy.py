"""docs/deploy.md: its commands fit the Terraform files and Amazon's own description of its services."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import botocore.session
import pytest
from botocore import xform_name
from botocore.exceptions import UnknownServiceError

from sparklog.coordinator.access_file import parse_access
from tests import deploy_costs
from tests.docs.clean_shell import in_clean_shell
from tests.docs.markdown_pages import ROOT
from tests.docs.test_commands import BLOCK, check, commands

PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
BLOCKS = [block for kind, block in BLOCK.findall(PAGE) if kind == "console"]
EXAMPLE = ROOT / "terraform" / "examples" / "complete"
MODULES = ROOT / "terraform" / "modules"
GLOBAL = {"query", "output", "profile", "region"}  # options of every aws command
# What the AWS CLI has beside the operations of the services.
OF_THE_CLI = {("ecr", "get-login-password"), ("configure", "set"), ("s3", "cp")}


def in_files(folder: Path, kind: str) -> set[str]:
    """The names of the blocks of a kind in the Terraform files of a folder: variable, output."""
    text = "".join(file.read_text(encoding="utf-8") for file in folder.glob("*.tf"))
    return set(re.findall(rf'^{kind} "(\w+)" {{', text, re.MULTILINE))


def block_with(text: str) -> str:
    (found,) = (block for block in BLOCKS if text in block)
    return found


def test_variables_and_outputs_of_the_page_are_those_of_the_example() -> None:
    (given,) = re.findall(r"<<TFVARS\n(.*?)^TFVARS", PAGE, re.DOTALL | re.MULTILINE)
    variables = set(tomllib.loads(given)) | set(re.findall(r"(\w+) = \S+'? >> terraform/examples", PAGE))
    variables |= set(re.findall(r'"(\w+) = [^\n]*" >> terraform/examples', PAGE))
    variables |= set(re.findall(r"s/\^(\w+) \.\*", PAGE))
    assert {"name", "ca_file", "running", "force_destroy", "image_tag"} <= variables
    assert variables <= in_files(EXAMPLE, "variable")
    outputs = set(re.findall(r"TERRAFORM output(?: -raw| -json)? (\w+)", "".join(BLOCKS)))
    outputs |= set(re.findall(r"`terraform output (\w+)`", PAGE))
    assert {"init_command", "start_commands", "image", "metadata_url"} <= outputs
    assert outputs <= in_files(EXAMPLE, "output")


def test_required_variables_of_the_example_are_given() -> None:
    text = (EXAMPLE / "variables.tf").read_text(encoding="utf-8")
    declared = re.findall(r'^variable "(\w+)" {\n(.*?)^}', text, re.DOTALL | re.MULTILINE)
    required = {name for name, body in declared if "default" not in body}
    (given,) = re.findall(r"<<TFVARS\n(.*?)^TFVARS", PAGE, re.DOTALL | re.MULTILINE)
    assert required <= tomllib.loads(given).keys()


def check_aws(words: list[str]) -> None:
    """Raise AssertionError for an operation or an option that Amazon's own description of the service lacks."""
    service, verb, *rest = words[1:]
    if (service, verb) in OF_THE_CLI:
        return
    session = botocore.session.Session()
    try:
        model = session.get_service_model(service)
    except UnknownServiceError as error:
        raise AssertionError(words) from error
    if verb == "wait":
        waiter, *rest = rest
        waiters = session.get_component("data_loader").load_service_model(service, "waiters-2")["waiters"]
        operation = {xform_name(name, "-"): waits["operation"] for name, waits in waiters.items()}[waiter]
    else:
        names = {xform_name(name, "-"): name for name in model.operation_names}
        assert verb in names, f"aws {service} has no {verb}"
        operation = names[verb]
    shape = model.operation_model(operation).input_shape
    members = {xform_name(name, "-") for name in shape.members} if shape else set()
    given = {word[2:] for word in rest if word.startswith("--")}
    negated = {option.removeprefix("no-") for option in given}
    assert negated - GLOBAL <= members, (words, sorted(members))
    required = {
        xform_name(name, "-")
        for name in (shape.required_members if shape else ())
        if not shape.members[name].metadata.get("idempotencyToken")  # the command line makes one
    }
    assert required <= given, words


def test_commands_of_aws_are_those_of_its_services() -> None:
    found = [words for block in BLOCKS for words in commands(unfolded(block)) if words[0] == "aws"]
    found += [shlex.split(text) for text in re.findall(r"`(aws [^`]+)`", PAGE)]
    assert len(found) > 15
    for words in found:
        if "dashboard" not in words[2] and "…" not in words:  # named in a sentence, without its arguments
            check_aws(words)


def unfolded(block: str) -> str:
    """The block with the commands inside $(…) as commands of their own."""
    inside = re.findall(r"\$\((aws [^()]*)\)", block)
    return re.sub(r"\$\(aws [^()]*\)", "x", block) + "".join(f"\n{command}" for command in inside)


@pytest.mark.parametrize(
    "wrong",
    [
        "aws secretsmanager put-secret --secret-id x --secret-string y",
        "aws secretsmanager put-secret-value --secret-id x --secret y",
        "aws secretsmanager put-secret-value --secret-string y",
        "aws emr-serverles list-applications",
        "aws ecs update-service --service x --force-new-deploymnt",
    ],
)
def test_a_wrong_command_is_noticed(wrong: str) -> None:
    with pytest.raises(AssertionError):
        check_aws(shlex.split(wrong))


def test_names_that_the_page_uses_are_those_that_terraform_gives() -> None:
    secrets = (EXAMPLE / "secrets.tf").read_text(encoding="utf-8")
    for secret in set(re.findall(r'--secret-id "\$NAME-([\w-]+)"', PAGE)):
        assert re.search(rf"^ +{secret} += ", secrets, re.MULTILINE), secret
    names = {
        "coordinator": ("${var.name}-coordinator-${each.key}", "$NAME-coordinator-$number"),
        "agents": ("${var.name}-agent-${replace(each.key,", "$NAME-agent-$store"),
        "spark": ("${var.name}-artefacts-${var.region}", "s3://$NAME-artefacts-$AWS_REGION/artefacts"),
        "storage": ("${var.name}-${id}-${var.region}", "s3://$NAME-c-$AWS_REGION/log"),
    }
    for module, (there, here) in names.items():
        text = "".join(file.read_text(encoding="utf-8") for file in (MODULES / module).glob("*.tf"))
        assert there in text, (module, there)
        assert here in PAGE
    for alarm in re.findall(r"alarm `([\w-]+)`", PAGE):
        alarms = (MODULES / "observability" / "alarms.tf").read_text(encoding="utf-8")
        wanted = alarm.replace("coordinator-N-", '"coordinator-${number}-')
        assert re.search(rf"{re.escape(wanted)}\"? +=|{re.escape(wanted)}\" =>", alarms), alarm


# Steps 3 and 6, with everything that needs an account left out.
@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("openssl") is None or shutil.which("jq") is None, reason="this machine has no openssl or no jq"
)
def test_the_certificate_and_the_tokens_are_what_the_coordinators_want(tmp_path: Path) -> None:
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "terraform" / "examples" / "complete").mkdir(parents=True)
    tokens = re.sub(r"^aws .*\n", "", block_with("coordinator token agent --right"), flags=re.MULTILINE)
    check_it = "openssl verify -CAfile secrets/ca.crt -verify_hostname log.sparklog.internal secrets/tls.crt"
    path = 'export PATH="$PWD/.venv/bin:$PATH"'
    printed = in_clean_shell(tmp_path, "\n".join([path, block_with("openssl x509"), tokens, check_it]))
    assert "secrets/tls.crt: OK" in printed
    secret = json.loads((tmp_path / "secrets" / "tls.json").read_text())
    assert secret.keys() == {"certificate", "private_key"}
    assert secret["certificate"].startswith("-----BEGIN CERTIFICATE-----")
    access = parse_access((tmp_path / "secrets" / "access.toml").read_bytes())
    assert {principal.name for principal, _ in access.principals} == {"agent", "job", "operator"}
    given = (tmp_path / "terraform" / "examples" / "complete" / "terraform.tfvars").read_text()
    assert Path(tomllib.loads(given)["ca_file"]).is_file()


def test_the_first_job_is_made_of_a_scheduled_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The start command is put together as the module spark does."""
    if shutil.which("jq") is None:
        pytest.skip("this machine has no jq")
    module = (MODULES / "spark" / "outputs.tf").read_text(encoding="utf-8")
    for part in ("aws emr-serverless start-job-run", "--name ${name}", "entryPointArguments", "--job-driver '"):
        assert part in module
    driver = {
        "sparkSubmit": {
            "entryPoint": "s3://acme-artefacts-r/artefacts/jobs/roll.py",
            "entryPointArguments": ["--cluster", "https://log.sparklog.internal:7400"],
            "sparkSubmitParameters": "--conf spark.driver.cores=2",
        }
    }
    options = "--application-id a --execution-role-arn r --name roll"
    text = json.dumps(driver, separators=(",", ":"))
    roll = f"aws emr-serverless start-job-run {options} --job-driver '{text}'"
    (tmp_path / "terraform").write_text(f"#!/bin/sh\ncat <<'EOF'\n{json.dumps({'roll': roll})}\nEOF\n")
    (tmp_path / "terraform").chmod(0o755)
    block = block_with("> produce.sh").replace("sh produce.sh\n", "")
    block = re.sub(r"^aws .*\n", "", block, flags=re.MULTILINE)
    setting = f"NAME=acme AWS_REGION=r TERRAFORM={tmp_path}/terraform\n"
    subprocess.run(["bash", "-euc", setting + block], cwd=tmp_path, check=True)
    made = shlex.split((tmp_path / "produce.sh").read_text())
    check_aws([*made])
    submit = json.loads(made[made.index("--job-driver") + 1])["sparkSubmit"]
    assert made[made.index("--name") + 1] == "produce"
    assert submit["entryPoint"] == "s3://acme-artefacts-r/artefacts/jobs/produce.py"
    arguments = [word for word in submit["entryPointArguments"] if not word.startswith("https://")]
    arguments.remove("--cluster")
    assert arguments[0] == "s3://acme-artefacts-r/artefacts/orders.csv"
    monkeypatch.chdir(tmp_path)
    local = [f"{tmp_path}/orders.csv", *arguments[1:]]
    check(["spark-submit", "jobs/produce.py", *local], True, capsys)
    assert (tmp_path / "orders.csv").read_text().splitlines()[:2] == ["id,item", "1,tea"]


def test_the_table_of_costs_is_up_to_date() -> None:
    assert deploy_costs.page() == PAGE, "make docs"
    prices, storage = deploy_costs.service_prices(), deploy_costs.list_prices()
    assert prices.region == storage.region
    assert f"List prices of {prices.region}" in PAGE
    assert prices.as_of == storage.as_of


def test_costs_follow_the_modules() -> None:
    small, medium, large = deploy_costs.SIZES
    assert set(deploy_costs.runs_per_day()) == {"roll", "compaction", "retention", "vacuum", "verify", "recovery"}
    assert deploy_costs.runs_per_day()["vacuum"] == 1
    assert deploy_costs.alarms(medium) > deploy_costs.alarms(small)
    for size in (small, medium, large):
        assert (ROOT / "terraform" / "examples" / size.example).is_dir()
        assert all(usd >= 0 for usd in deploy_costs.costs(size, deploy_costs.service_prices()).values())
