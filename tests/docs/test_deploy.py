"""docs/deploy.md: its commands fit the Terraform files and Amazon's own description of its services."""

from __future__ import annotations

import json
import os
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
from botocore.validate import ParamValidator

from sparklog.coordinator.access.access_file import parse_access
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
OF_THE_CLI = {("ecr", "get-login-password"), ("configure", "set"), ("logs", "tail"), ("s3", "cp")}
WORK = "acme-log"  # the folder below the home directory that the page writes to


def in_files(folder: Path, kind: str) -> set[str]:
    """The names of the blocks of a kind in the Terraform files of a folder: variable, output."""
    text = "".join(file.read_text(encoding="utf-8") for file in folder.glob("*.tf"))
    return set(re.findall(rf'^{kind} "(\w+)" {{', text, re.MULTILINE))


def block_with(text: str) -> str:
    (found,) = (block for block in BLOCKS if text in block)
    return found


def given_variables() -> dict[str, object]:
    """The variables in the file that the page begins with."""
    (given,) = re.findall(r"<<TFVARS\n(.*?)^TFVARS", PAGE, re.DOTALL | re.MULTILINE)
    return tomllib.loads(given)


def test_variables_and_outputs_of_the_page_are_those_of_the_example() -> None:
    added = re.findall(r"""^echo ['"](\w+) = .* >> "\$WORK/log.tfvars"$""", "".join(BLOCKS), re.MULTILINE)
    changed = re.findall(r"sed -i '(?:s)?/\^(\w+) ", "".join(BLOCKS))
    variables = {*given_variables(), *added, *changed}
    assert {"name", "ca_file", "running", "force_destroy", "image_tag", "agent_stores"} <= variables
    assert variables <= in_files(EXAMPLE, "variable")
    (of_regions,) = (block for kind, block in BLOCK.findall(PAGE) if kind == "hcl")
    assert tomllib.loads(of_regions).keys() <= in_files(EXAMPLE.with_name("two-regions"), "variable")
    outputs = set(re.findall(r"TERRAFORM output(?: -raw| -json)? (\w+)", PAGE)) | {"policy_json"}
    assert {"init_command", "start_commands", "image", "metadata_url", "network", "sparklog_cluster"} <= outputs
    assert outputs <= in_files(EXAMPLE, "output")


def test_required_variables_of_the_example_are_given() -> None:
    text = (EXAMPLE / "variables.tf").read_text(encoding="utf-8")
    declared = re.findall(r'^variable "(\w+)" {\n(.*?)^}', text, re.DOTALL | re.MULTILINE)
    assert {name for name, body in declared if "default" not in body} <= given_variables().keys()


def test_each_section_can_be_begun_in_a_new_shell() -> None:
    """What a section needs of steps 1 to 7 comes from the file that they wrote."""
    later = PAGE[PAGE.index("\n## ", PAGE.index("\n## From nothing") + 1) :]
    for section in later.split("\n## ")[1:]:
        first, *_ = [block for kind, block in BLOCK.findall(section) if kind == "console"] or [""]
        if re.search(r"\$(NAME|WORK|TERRAFORM)|sparklog_inside", first):
            assert first.startswith(f". ~/{WORK}/deploy.env\n"), section.partition("\n")[0]


def check_aws(words: list[str]) -> None:
    """Raise AssertionError for an operation or an option that Amazon's own description of the service lacks."""
    service, verb, *rest = words[1:]
    if (service, verb) in OF_THE_CLI:
        return
    session = botocore.session.Session()
    try:
        model = session.get_service_model({"s3api": "s3"}.get(service, service))
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
    """The block with the commands inside $(…) as commands of their own, and without here-documents."""
    block = re.sub(r"<<'?(\w+)'?\n.*?^\1$", "", block, flags=re.DOTALL | re.MULTILINE)
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
    looped = " ".join(re.findall(r"for secret in (.*?);", PAGE)).split()
    for secret in {*looped, *re.findall(r'--secret-id "\$NAME-([\w-]+)"', PAGE)}:
        assert re.search(rf"^ +{secret} += ", secrets, re.MULTILINE), secret
    names = {
        "coordinator": ("${var.name}-coordinator-${each.key}", "for service in coordinator-0 coordinator-1"),
        "agents": ("${var.name}-agent-${replace(each.key,", "`agent-a agent-b`"),
        "spark": ("${var.name}-artefacts-${var.region}", "s3://$NAME-artefacts-$AWS_REGION/artefacts"),
        "storage": ("${var.name}-${id}-${var.region}", "s3://$NAME-c-$AWS_REGION/log"),
        "schedules": ("${var.name}-schedule-dead-letters", '"$NAME-schedule-dead-letters"'),
        "observability": ("/sparklog/${var.name}/${group}", '"/sparklog/$NAME/coordinators"'),
    }
    for module, (there, here) in names.items():
        text = "".join(file.read_text(encoding="utf-8") for file in (MODULES / module).glob("*.tf"))
        assert there in text, (module, there)
        assert here in PAGE


def test_the_table_for_the_night_has_each_alarm() -> None:
    text = "".join(file.read_text(encoding="utf-8") for file in (MODULES / "observability").glob("*.tf"))
    keys = re.findall(
        r'^ +(?:\{ for .* : )?"?([a-z][\w${}-]*-?[\w${}-]*)"? (?:=|=>) {\n +description ', text, re.MULTILINE
    )
    made = {key.replace("${number}", "N") for key in keys}
    assert "coordinator-N-unhealthy" in made
    assert {"no-coordinator-leads", "queue-full", "dead-letters"} <= made
    assert set(re.findall(r"^\| alarm `([\w-]+)`", PAGE, re.MULTILINE)) == made
    for rule in re.findall(r"^\| mail of `([\w-]+)`", PAGE, re.MULTILINE):
        assert f'"${{var.name}}-{rule}"' in text, rule
    for chart in re.findall(r'"([A-Z][\w ,]+)"', PAGE[PAGE.index("### Alarms") : PAGE.index("### Other signs")]):
        assert f'title = "{chart}' in text or f'title   = "{chart}' in text, chart


# The steps of the beginning, without what needs an account.
@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("openssl") is None or shutil.which("jq") is None, reason="this machine has no openssl or no jq"
)
def test_the_steps_make_what_coordinators_want_and_leave_the_clone_as_it_was(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    (clone / "terraform" / "examples" / "complete").mkdir(parents=True)
    (clone / "scripts").mkdir()
    for file in (".gitignore", "scripts/dist.py"):
        shutil.copy(ROOT / file, clone / file)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "all"]):
        subprocess.run([*git, *command], cwd=clone, check=True)
    (clone / ".venv").mkdir()
    (clone / ".venv" / "bin").symlink_to(Path(sys.prefix) / "bin")
    beginning = PAGE[PAGE.index("\n## From nothing") : PAGE.index("\n## A command inside the VPC")]
    steps = "".join(block for kind, block in BLOCK.findall(beginning) if kind == "console")
    steps = steps[: steps.index('echo "export SPARKLOG_CLUSTER')]
    steps = re.sub(r"\$\(aws sts [^()]*--query Arn [^()]*\)", "arn:aws:sts::123456789012:assumed-role/admin/me", steps)
    steps = re.sub(r"\$\(aws iam [^()]*\)", "arn:aws:iam::123456789012:role/$ROLE", steps)
    steps = re.sub(r"\$\(aws sts [^()]*\)", "123456789012", steps)
    steps = re.sub(r"\$\(aws ec2 [^()|]*\|", r"$(printf 'eu-central-1a\\teu-central-1b\\teu-central-1c\\n' |", steps)
    steps = re.sub(r"^(?:aws|docker|\$TERRAFORM|export IMAGE=).*\n", "", steps, flags=re.MULTILINE)
    steps = re.sub(r"^  aws .*\n", "  :\n", steps, flags=re.MULTILINE)
    steps = steps.replace("make dist\n", "mkdir dist; touch dist/sparklog.whl\n")
    uncommitted = "cd scripts; python -c 'import dist; print(f\"uncommitted: <{dist.uncommitted()}>\")'"
    check_it = (
        'openssl verify -CAfile "$WORK/secrets/ca.crt" -verify_hostname log.sparklog.internal "$WORK/secrets/tls.crt"'
    )
    script = f"export HOME={tmp_path}\ncd {clone}\n{steps}\n{check_it}\n{uncommitted}\n"
    printed = in_clean_shell(tmp_path, script)
    work = tmp_path / WORK
    assert "secrets/tls.crt: OK" in printed
    assert "uncommitted: <>" in printed
    secret = json.loads((work / "secrets" / "tls").read_text())
    assert secret.keys() == {"certificate", "private_key"}
    assert secret["certificate"].startswith("-----BEGIN CERTIFICATE-----")
    access = parse_access((work / "secrets" / "access").read_bytes())
    assert {principal.name for principal, _ in access.principals} == {"agent", "job", "operator", "loader"}
    assert (work / "secrets" / "job-token").read_text().startswith("sparklog_")
    assert not (work / "secrets" / "job-token").read_text().endswith("\n")
    given = tomllib.loads((work / "log.tfvars").read_text())
    assert Path(given["ca_file"]).is_file()
    assert given["operator_arns"] == ["arn:aws:iam::123456789012:role/admin"]
    assert given["availability_zones"] == ["eu-central-1a", "eu-central-1b", "eu-central-1c"]


def test_a_command_inside_the_vpc_is_a_task_that_gets_its_words(tmp_path: Path) -> None:
    """The function of the module coordinator, with an aws that writes down what it is asked."""
    if shutil.which("jq") is None:
        pytest.skip("this machine has no jq")
    aws = f"""#!{sys.executable}
import json, os, sys
with open("{tmp_path}/asked", "a") as asked:
    print(json.dumps(["aws", *sys.argv[1:]]), file=asked)
stopped = len(open("{tmp_path}/asked").readlines()) > 2
tasks = "STOPPED\\t" + os.environ["CODE"] + "\\tEssential container exited" if stopped else "RUNNING\\tNone\\tNone"
print({{"run-task": "arn:aws:ecs:r:1:task/acme/0123", "describe-tasks": tasks}}.get(sys.argv[2], "said"))
"""
    (tmp_path / "aws").write_text(aws)
    (tmp_path / "aws").chmod(0o755)
    module = (MODULES / "coordinator" / "operator.tf").read_text(encoding="utf-8")
    (function,) = re.findall(r"<<-SH\n( +sparklog_inside\(\) {\n.*?)^ +SH$", module, re.DOTALL | re.MULTILINE)
    function = re.sub(r"(?<!\$)\${var\.name}", "acme", function)
    function = re.sub(r"(?<!\$)\${[^}]+}", "x", function).replace("$${", "${")
    script = f"PATH={tmp_path}:$PATH\nsleep() {{ :; }}\n{function}\nsparklog_inside replica move 'a topic' --to a,b\n"
    for code, ended, said in (("3", 3, ""), ("None", 1, "STOPPED\tNone\tEssential container exited\n")):
        (tmp_path / "asked").unlink(missing_ok=True)
        environment = {**os.environ, "CODE": code}
        done = subprocess.run(["bash", "-uc", script], check=False, capture_output=True, text=True, env=environment)
        assert (done.stdout, done.returncode, done.stderr) == ("said\n", ended, said)
    asked = [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]
    for words in asked:
        check_aws(words)
    assert [words[2] for words in asked] == ["run-task", *["describe-tasks"] * 2, "filter-log-events"], "it waits"
    run = asked[0]
    overrides = json.loads(run[run.index("--overrides") + 1])
    model = botocore.session.Session().get_service_model("ecs").operation_model("RunTask").input_shape
    report = ParamValidator().validate({"taskDefinition": "acme-operator", "overrides": overrides}, model)
    assert not report.has_errors(), report.generate_report()
    assert run[run.index("--task-definition") + 1] == "acme-operator"
    assert overrides["containerOverrides"][0]["command"] == ["replica", "move", "a topic", "--to", "a,b"]


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
    block = block_with("produce.sh").replace('sh "$WORK/produce.sh"\n', "")
    block = re.sub(r"^aws .*\n", "", block, flags=re.MULTILINE)
    setting = f"NAME=acme AWS_REGION=r WORK={tmp_path} TERRAFORM={tmp_path}/terraform\n"
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
