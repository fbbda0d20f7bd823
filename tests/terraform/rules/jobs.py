"""Jobs and their schedules: each start is one that the job's command line takes, and none is lost unseen."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from tests.terraform.deployment import Deployment, Resource
from tests.terraform.rules.statements import OF_RESOURCES, OF_ROLES, TRUST, statements
from tests.terraform.rules.tasks import addresses, chain

SCHEDULED: Final = {"roll", "retention", "compaction", "recovery", "verify", "vacuum"}
_TARGET: Final = re.compile(r"arn:aws[a-z-]*:scheduler:::aws-sdk:emrserverless:startJobRun")
# At least what StartJobRun demands (its API reference), in EventBridge's spelling of it.
_DEMANDED: Final = {"ApplicationId", "ClientToken", "ExecutionRoleArn", "JobDriver"}
_KNOWN: Final = {
    *_DEMANDED,
    *("ConfigurationOverrides", "ExecutionTimeoutMinutes", "JobDriver", "Mode", "Name", "RetryPolicy", "Tags"),
}


def every_job_is_scheduled(deployment: Deployment) -> list[str]:
    """Where there are schedules, each of the six jobs that a log needs has one that is on."""
    schedules = deployment.of("aws_scheduler_schedule")
    on = {job_of(each) for each in schedules if each.values["state"] == "ENABLED"}
    return [f"no schedule starts {job}" for job in sorted(SCHEDULED - on)] if schedules else []


def schedules_keep_what_failed(deployment: Deployment) -> list[str]:
    """A start that fails is tried again, and then kept in an encrypted queue that an alarm watches."""
    queues = {each.values["arn"]: each for each in deployment.of("aws_sqs_queue")}
    watched = {
        each.values["dimensions"].get("QueueName")
        for each in deployment.of("aws_cloudwatch_metric_alarm")
        if each.values["metric_name"] == "ApproximateNumberOfMessagesVisible"
    }
    wrong = []
    for each in deployment.of("aws_scheduler_schedule"):
        (target,) = each.values["target"]
        letters = [dead["arn"] for dead in target["dead_letter_config"]]
        if len(letters) != 1 or letters[0] not in queues:
            wrong.append(f"{each.address} has no dead letter queue")
        elif deployment.of("aws_cloudwatch_metric_alarm") and queues[letters[0]].values["name"] not in watched:
            wrong.append(f"{each.address} has a dead letter queue that nobody watches")
        if not any(retry["maximum_retry_attempts"] > 0 for retry in target["retry_policy"]):
            wrong.append(f"{each.address} does not try again")
        if [window["mode"] for window in each.values["flexible_time_window"]] != ["FLEXIBLE"]:
            wrong.append(f"{each.address} starts with all others at once")
    wrong += [
        f"{each.address} is not encrypted"
        for each in deployment.of("aws_sqs_queue")
        if not each.values["sqs_managed_sse_enabled"] and not each.values.get("kms_master_key_id")
    ]
    return wrong


def schedules_start_jobs_of_the_application(deployment: Deployment) -> list[str]:
    """The input is a StartJobRun of this application, with a role of this deployment and an id for each attempt."""
    applications = {each.values["id"] for each in deployment.of("aws_emrserverless_application")}
    roles = {each.values["arn"] for each in deployment.of("aws_iam_role")}
    wrong = []
    for each in deployment.of("aws_scheduler_schedule"):
        (target,) = each.values["target"]
        start = start_of(each)
        if not _TARGET.fullmatch(target["arn"]):
            wrong.append(f"{each.address} calls {target['arn']}")
        if not start.keys() >= _DEMANDED or not start.keys() <= _KNOWN:
            wrong.append(f"{each.address} has an input that StartJobRun refuses: {sorted(start.keys() ^ _DEMANDED)}")
        if start.get("ApplicationId") not in applications:
            wrong.append(f"{each.address} starts jobs of another application")
        if start.get("ExecutionRoleArn") not in roles:
            wrong.append(f"{each.address} runs jobs with an unknown role")
        if start.get("ClientToken") != "<aws.scheduler.execution-id>":
            wrong.append(f"{each.address} has no id for each attempt")
    return wrong


def schedules_have_no_more_than_their_rights(deployment: Deployment) -> list[str]:
    """Their role starts jobs of the application, passes on the jobs' role, and sends dead letters."""
    names = {each.values["arn"]: each.values["id"] for each in deployment.of("aws_iam_role")}
    applications = {each.values["arn"] for each in deployment.of("aws_emrserverless_application")}
    wrong = []
    for each in deployment.of("aws_scheduler_schedule"):
        (target,) = each.values["target"]
        start = start_of(each)
        wanted = {
            "emr-serverless:StartJobRun": applications,
            "iam:PassRole": {start.get("ExecutionRoleArn")},
            "sqs:SendMessage": {dead["arn"] for dead in target["dead_letter_config"]},
        }
        role = names.get(target["role_arn"])
        if role is None:
            wrong.append(f"{each.address} has a role that this deployment does not make")
            continue
        own = {p.address for p in deployment.of("aws_iam_role_policy") if p.values["role"] == role}
        given: dict[str, set[str | None]] = {}
        for statement in statements(deployment, OF_ROLES):
            if statement.address in own and statement.allows:
                for action in statement.actions:
                    given.setdefault(action, set()).update(statement.resources)
        if given != wanted:
            wrong.append(f"{each.address} has the rights {given}, wanted {wanted}")
    trusted = {
        statement.address
        for statement in statements(deployment, TRUST)
        if ("Service", "scheduler.amazonaws.com") in statement.principals
    }
    used = {target["role_arn"] for each in deployment.of("aws_scheduler_schedule") for target in each.values["target"]}
    wrong += [
        f"{each.address} can't be taken by EventBridge"
        for each in deployment.of("aws_iam_role")
        if each.values["arn"] in used and each.address not in trusted
    ]
    return wrong


def jobs_have_the_right_cluster(deployment: Deployment) -> list[str]:
    """Jobs talk to the coordinators where there are some. Vacuum writes to the chain, and gets its own address."""
    url = addresses(deployment) or chain(deployment)
    wrong = []
    for each in deployment.of("aws_scheduler_schedule"):
        arguments = submit_of(each)["EntryPointArguments"]
        wanted = chain(deployment) if job_of(each) == "vacuum" else url
        given = arguments[arguments.index("--cluster") + 1] if "--cluster" in arguments else None
        if given != wanted:
            wrong.append(f"{each.address} has --cluster {given}, wanted {wanted}")
    return wrong


def jobs_find_their_files(deployment: Deployment) -> list[str]:
    """What a job names in S3 is uploaded by this deployment."""
    objects = {
        f"s3://{bucket}/{each.values['key']}"
        for each in deployment.of("aws_s3_object")
        for bucket in _names(deployment, each.values["bucket"])
    }
    wrong = []
    for each in deployment.of("aws_scheduler_schedule"):
        submit = submit_of(each)
        named = re.findall(
            r"s3://[^\s,#]+", f"{submit['EntryPoint']} {submit['SparkSubmitParameters'].split('--conf')[0]}"
        )
        wrong += [f"{each.address} needs {name}, which is not uploaded" for name in named if name not in objects]
    return wrong


def jobs_show_no_secret(deployment: Deployment) -> list[str]:
    """The arguments and settings of a job are shown in consoles and logs: a secret is named there, never written."""
    wrong = []
    for each in deployment.of("aws_scheduler_schedule"):
        submit = submit_of(each)
        for key, value in re.findall(
            r"--conf (\S*?(?:TOKEN|SECRET|PASSWORD)\S*?)=(\S*)", submit["SparkSubmitParameters"]
        ):
            if not value.startswith("EMR.secret@"):
                wrong.append(f"{each.address} has {key} in plain text")
            if "executor" in key:
                wrong.append(f"{each.address} gives {key} to executors")
    readers = [
        s for s in statements(deployment, OF_RESOURCES) if "secretsmanager:GetSecretValue" in s.actions and s.allows
    ]
    wrong += [f"{s.place} lets every application read the secret" for s in readers if not s.condition("aws:SourceArn")]
    return wrong


def application_is_bounded(deployment: Deployment) -> list[str]:
    """Spark 4 of EMR, a bound for what it may cost, and nothing that runs on while no job does."""
    wrong = []
    for each in deployment.of("aws_emrserverless_application"):
        if each.values["type"].upper() != "SPARK" or re.match(r"emr-[1-7]\.", each.values["release_label"]):
            wrong.append(f"{each.address} has no Spark 4")
        if not each.values["maximum_capacity"]:
            wrong.append(f"{each.address} may cost without bound")
        if (
            not all(stop["enabled"] for stop in each.values["auto_stop_configuration"])
            or each.values["initial_capacity"]
        ):
            wrong.append(f"{each.address} runs on while no job does")
    return wrong


def start_of(schedule: Resource) -> dict[str, Any]:
    """The input of StartJobRun that a schedule sends."""
    (target,) = schedule.values["target"]
    return dict(json.loads(target["input"]))


def submit_of(schedule: Resource) -> dict[str, Any]:
    """What spark-submit is given by a schedule."""
    return dict(start_of(schedule)["JobDriver"]["SparkSubmit"])


def job_of(schedule: Resource) -> str:
    """The job that a schedule starts, by the name of its file."""
    return str(submit_of(schedule)["EntryPoint"].rpartition("/")[2].removesuffix(".py"))


def _names(deployment: Deployment, bucket: str) -> list[str]:
    return [
        each.values["bucket"]
        for each in deployment.of("aws_s3_bucket")
        if bucket in (each.values["id"], each.values["bucket"])
    ]
