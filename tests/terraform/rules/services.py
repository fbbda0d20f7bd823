"""Services of AWS in policies: each is let in under its name, for what it does here, and for this account only."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

from tests.terraform.deployment import Deployment, Resource
from tests.terraform.emulators import ACCOUNT_ID
from tests.terraform.rules.statements import OF_RESOURCES, TRUST, Statement, statements

_KEY: Final = "aws_kms_key"
_TOPIC: Final = "aws_sns_topic_policy"
_ROLE: Final = "aws_iam_role"
_ACCOUNT: Final = ("StringEquals", "aws:SourceAccount")
_MESSAGES: Final = {"kms:Decrypt", "kms:GenerateDataKey"}

# By kind of resource and by service: the actions, and the conditions as (operator, key). The documentation of each
# service says which keys it sends: EventBridge, for one, sends KMS no account.
_LET_IN: Final[dict[tuple[str, str], tuple[set[str], set[tuple[str, str]]]]] = {
    (_KEY, "logs"): (
        {"kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"},
        {("ArnLike", "kms:EncryptionContext:aws:logs:arn")},
    ),
    (_KEY, "cloudwatch"): (_MESSAGES, {_ACCOUNT}),
    (_KEY, "events"): (_MESSAGES, {("StringEquals", "kms:EncryptionContext:aws:sns:topicArn")}),
    (_KEY, "emr-serverless"): (
        {"kms:Decrypt", "kms:DescribeKey"},
        {("StringEquals", "kms:ViaService"), ("ArnLike", "kms:EncryptionContext:SecretARN")},
    ),
    (_TOPIC, "cloudwatch"): ({"sns:Publish"}, {_ACCOUNT}),
    (_TOPIC, "events"): ({"sns:Publish"}, {("ArnEquals", "aws:SourceArn")}),
    ("aws_secretsmanager_secret_policy", "emr-serverless"): (
        {"secretsmanager:GetSecretValue", "secretsmanager:DescribeSecret"},
        {("StringEquals", "aws:SourceArn")},
    ),
    (_ROLE, "ecs-tasks"): ({"sts:AssumeRole"}, {_ACCOUNT}),
    (_ROLE, "emr-serverless"): ({"sts:AssumeRole"}, {_ACCOUNT}),
    (_ROLE, "scheduler"): ({"sts:AssumeRole"}, {("StringEquals", "aws:SourceArn")}),
}


def services_are_let_in_for_what_they_do(deployment: Deployment) -> list[str]:
    """Each service in a policy has the actions and the conditions of the table, no more and no less."""
    types = {each.address: each.type for each in deployment.resources}
    wrong = []
    for each in statements(deployment, TRUST, OF_RESOURCES):
        for kind, principal in each.principals:
            if not each.allows or kind != "Service":
                continue
            wanted = _LET_IN.get((types[each.address], service_of(principal)))
            given = (set(each.actions), {(operator, key) for operator, key, _ in each.conditions})
            if given != wanted:
                wrong.append(f"{each.place} lets {principal} in for {given}, wanted {wanted}")
            if any(value != ACCOUNT_ID for value in each.condition("aws:SourceAccount")):
                wrong.append(f"{each.place} lets {principal} in for another account")
    return wrong


def services_can_use_the_keys(deployment: Deployment) -> list[str]:
    """CloudWatch Logs can use the key of each log group, and what publishes to a topic can use the topic's key."""
    wrong = []
    for group in deployment.of("aws_cloudwatch_log_group"):
        patterns = [
            arn.partition(":log-group:")[2]
            for each in _letting_in(deployment, "logs", group.values["kms_key_id"])
            for arn in each.condition("kms:EncryptionContext:aws:logs:arn")
        ]
        if not any(fnmatchcase(group.values["name"], pattern) for pattern in patterns):
            wrong.append(f"{group.address} can't be written: CloudWatch Logs may not use its key")
    for topic in deployment.of("aws_sns_topic"):
        for service in _publishers(deployment, topic):
            lets = list(_letting_in(deployment, service, topic.values["kms_master_key_id"]))
            named = [arn for each in lets for arn in each.condition("kms:EncryptionContext:aws:sns:topicArn")]
            if not lets or any(not arn.endswith(f":{topic.values['name']}") for arn in named):
                wrong.append(f"{topic.address} loses what {service} publishes: it may not use the key")
            if not any(
                service_of(name) == service for each in _of_topic(deployment, topic) for _, name in each.principals
            ):
                wrong.append(f"{topic.address} refuses what {service} publishes")
    return wrong


def failed_runs_are_told(deployment: Deployment) -> list[str]:
    """A rule matches runs that failed or were cancelled, and sends them to a topic that lets it in."""
    wrong = []
    topics = {each.values["arn"]: each for each in deployment.of("aws_sns_topic")}
    sent = {each.values["rule"]: each.values["arn"] for each in deployment.of("aws_cloudwatch_event_target")}
    rules = {}
    for rule in deployment.of("aws_cloudwatch_event_rule"):
        detail = rule.document("event_pattern")["detail"]
        rules |= {application: set(detail["state"]) for application in detail["applicationId"]}
        topic = topics.get(sent.get(rule.values["name"], ""))
        if topic is None or not any(
            each.condition("aws:SourceArn") == (rule.values["arn"],) for each in _of_topic(deployment, topic)
        ):
            wrong.append(f"{rule.address} reaches no topic that lets it in")
    wrong += [
        f"nobody hears of failed runs of {each.address}"
        for each in deployment.of("aws_emrserverless_application")
        if rules.get(each.values["id"]) != {"CANCELLED", "FAILED"}
    ]
    return wrong


def keys_have_names(deployment: Deployment) -> list[str]:
    """Each key has an alias, by which people find it."""
    named = {each.values["target_key_id"] for each in deployment.of("aws_kms_alias")}
    return [f"{each.address} has no alias" for each in deployment.of(_KEY) if each.values["key_id"] not in named]


def service_of(principal: str) -> str:
    """The first word of the name of a service, if the rest is as AWS spells it."""
    name, _, rest = principal.partition(".")
    return name if rest == "amazonaws.com" or (name == "logs" and rest.endswith(".amazonaws.com")) else principal


def _publishers(deployment: Deployment, topic: Resource) -> Iterator[str]:
    arn = topic.values["arn"]
    if any(arn in (each.values["alarm_actions"] or ()) for each in deployment.of("aws_cloudwatch_metric_alarm")):
        yield "cloudwatch"
    if any(arn == each.values["arn"] for each in deployment.of("aws_cloudwatch_event_target")):
        yield "events"


def _of_topic(deployment: Deployment, topic: Resource) -> list[Statement]:
    places = {each.address for each in deployment.of(_TOPIC) if each.values["arn"] == topic.values["arn"]}
    return [each for each in statements(deployment, OF_RESOURCES) if each.address in places and each.allows]


def _letting_in(deployment: Deployment, service: str, key: str) -> Iterator[Statement]:
    """The statements of the policy of this key that let a service use it."""
    places = {each.address for each in deployment.of(_KEY) if each.values["arn"] == key}
    for each in statements(deployment, OF_RESOURCES):
        if each.address in places and each.allows and any(service_of(name) == service for _, name in each.principals):
            yield each
