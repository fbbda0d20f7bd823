"""Rights are exact: what each role does in real runs is allowed, and what is allowed is done.

recorded.json has the requests of the runs in `role_runs.py`; with --campaign they are run again, and judged as well.
The policies are rendered by Terraform from terraform/modules/iam; without it these tests are skipped.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sparklog.storage import keys
from tests.servers.s3_servers import S3Server
from tests.terraform.program import Missing
from tests.terraform.rights.exactness import FAMILIES, denied, families_of, family_of, may, pattern_of, unused
from tests.terraform.rights.exceptions import BY_CHANCE, NOT_RUN, WILDCARDS
from tests.terraform.rights.iam_policy import Asked
from tests.terraform.rights.recording import FILE, Line, Recorded, read_recorded, record
from tests.terraform.rights.rendered import Policies, bucket_arn, rendered_policies
from tests.terraform.rights.role_processes import PREFIX, ROLES
from tests.terraform.rights.s3_requests import DECRYPT, ENCRYPT

pytestmark = pytest.mark.slow

# A key of each family of sparklog/storage/keys.py.
HEX, DIGITS = "0" * 32, "0" * 20
KEYS = (
    keys.entry_key(0),
    keys.snapshot_key(0),
    keys.chunk_key("0" * 64),
    keys.command_key(0, HEX),
    keys.void_key(0),
    keys.restore_key(1),
    keys.INCARNATION,
    keys.owner_key(1),
    keys.mirror_key(HEX, keys.entry_key(0)),
    keys.mirror_key(HEX, keys.snapshot_key(0)),
    keys.mirror_key(HEX, keys.chunk_key("0" * 64)),
    keys.mirror_key(HEX, keys.command_key(0, HEX)),
    keys.mirror_key(HEX, keys.void_key(0)),
    keys.checkpoint_key(HEX, "high-watermark", 0),
    keys.peer_key("a", 0),
    keys.append_key(0, HEX),
    keys.index_key(keys.append_key(0, HEX)),
    f"{keys.TOPICS}0-orders/0/{DIGITS}-0-{DIGITS}-{HEX}.arrow",
    CLOCK := f"{keys.PROBES}{HEX}-clock",
    f"{keys.PROBES}{HEX}-read",
)


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> Policies:
    try:
        return rendered_policies(tmp_path_factory.mktemp("policies"))
    except Missing as error:
        pytest.skip(str(error))


def test_the_families_are_those_of_the_keys() -> None:
    assert {family_of(key) for key in KEYS} == set(FAMILIES)


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    return read_recorded()


# ---- exact ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ROLES)
def test_nothing_that_a_role_does_is_denied(policies: Policies, recorded: Recorded, role: str) -> None:
    assert denied(policies, recorded, role) == []


@pytest.mark.parametrize("role", ROLES)
def test_nothing_is_allowed_that_no_run_of_a_role_does(policies: Policies, recorded: Recorded, role: str) -> None:
    found = unused(policies, recorded, role)
    excepted = {name for name in NOT_RUN if name[0] == role}
    assert sorted(found - excepted - set(BY_CHANCE)) == [], "no run asks for these"
    assert sorted(excepted - found) == [], "no exceptions any more: a run asks for them, or they are not allowed"


def test_each_exception_is_allowed(policies: Policies) -> None:
    allowed = {
        (role, right.action, family)
        for by_role in policies.values()
        for role, policy in by_role.items()
        for right in policy.rights()
        for family in families_of(right)
    }
    assert {*NOT_RUN, *BY_CHANCE} <= allowed


def test_each_wildcard_has_its_reason(policies: Policies) -> None:
    rights = [right for by_role in policies.values() for policy in by_role.values() for right in policy.rights()]
    assert {pattern_of(right) for right in rights if set(pattern_of(right)) & set("*?")} == set(WILDCARDS)
    for right in rights:
        assert not set(right.action + right.resource.partition(f"/{PREFIX}/")[0]) & set("*?"), "buckets and keys of KMS"


# ---- who may do what ------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", KEYS)
def test_a_consumer_can_not_write_and_a_producer_can_not_delete(policies: Policies, key: str) -> None:
    for by_role in policies.values():
        for action in ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"):
            assert not may(by_role["consumer"], action, key)
        for role in ("producer", "agent"):
            assert not may(by_role[role], "s3:DeleteObject", key)
        assert not any(each.action == ENCRYPT for each in by_role["consumer"].rights())
        assert any(each.action == DECRYPT for each in by_role["consumer"].rights())
    for phase in ("coordinated", "restored"):
        assert may(policies[phase]["producer"], "s3:PutObject", key) is key.startswith(keys.APPENDS)


@pytest.mark.parametrize("key", KEYS)
def test_only_maintenance_deletes_what_is_in_the_log(policies: Policies, key: str) -> None:
    """Only the operator removes what its probes wrote, and the coordinator what it wrote in vain or has replaced.

    After a quiet day, maintenance removes the object that shows it the store's clock.
    """
    deleters = {role for by_role in policies.values() for role in ROLES if may(by_role[role], "s3:DeleteObject", key)}
    allowed = {"maintenance"}
    if key == CLOCK:
        allowed = {"operator", "maintenance"}
    elif key.startswith(keys.PROBES):
        allowed = {"operator"}
    elif key.startswith((keys.SNAPSHOTS, keys.CHUNKS, keys.COPIES)):
        allowed = {"maintenance", "coordinator"}
    assert deleters <= allowed


def test_after_a_quiet_day_maintenance_sees_the_clock_of_the_metadata_and_only_there(policies: Policies) -> None:
    asked = [
        *((Asked(action, f"{bucket_arn('a')}/{PREFIX}/{CLOCK}")) for action in ("s3:PutObject", "s3:DeleteObject")),
        Asked("s3:ListBucket", bucket_arn("a"), {"s3:prefix": f"{PREFIX}/{CLOCK}"}),
    ]
    for each in asked:
        assert policies["embedded"]["maintenance"].allows(each), each
        assert not policies["embedded"]["maintenance"].allows(replace(each, resource=each.resource.replace("-a", "-b")))


def test_nobody_deletes_the_marks_that_keep_two_chains_apart(policies: Policies) -> None:
    for key in (keys.INCARNATION, keys.owner_key(1), keys.void_key(0), keys.restore_key(1), keys.peer_key("a", 0)):
        for by_role in policies.values():
            assert not any(may(policy, "s3:DeleteObject", key) for policy in by_role.values())


@pytest.mark.parametrize("role", ["producer", "consumer", "agent"])
def test_beside_coordinators_clients_have_no_access_to_the_metadata_chain(policies: Policies, role: str) -> None:
    for key in (key for key in KEYS if key.startswith("meta/")):
        for action in ("s3:GetObject", "s3:PutObject", "s3:DeleteObject"):
            assert not may(policies["coordinated"][role], action, key)


def test_beside_coordinators_only_they_and_the_operator_write_entries_of_the_chain(policies: Policies) -> None:
    writers = {role for role in ROLES if may(policies["coordinated"][role], "s3:PutObject", keys.entry_key(0))}
    assert writers == {"coordinator", "operator"}


@pytest.mark.parametrize("role", ROLES)
def test_no_role_reaches_anything_outside_of_the_prefix(policies: Policies, role: str) -> None:
    policy = policies["embedded"][role]
    for action in ("s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"):
        for key in ("append/1", "logs/append/1", "other/append/1"):
            assert not policy.allows(Asked(action, f"{bucket_arn('a')}/{key}"))
    for prefix in ("", "lo", "other/"):
        assert not policy.allows(Asked("s3:ListBucket", bucket_arn("a"), {"s3:prefix": prefix}))


# ---- the recording --------------------------------------------------------------------------------------


def test_the_recording_has_each_role_and_no_secret(recorded: Recorded) -> None:
    assert {role for role, lines in recorded["coordinated"].items() if lines} == set(ROLES)
    text = FILE.read_text(encoding="utf-8")
    assert not any(word in text.lower() for word in ("signature", "credential", "authorization", "token", "127.0.0.1"))
    for by_role in recorded.values():
        for line in (line for lines in by_role.values() for line in lines):
            assert Line.parse(line).text == line


@pytest.mark.campaign
@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_new_runs_ask_for_exactly_what_is_allowed(policies: Policies, s3proxy: S3Server, tmp_path: Path) -> None:
    found = record(s3proxy, tmp_path)
    assert [each for role in ROLES for each in denied(policies, found, role)] == []
    assert {name for role in ROLES for name in unused(policies, found, role)} <= {*NOT_RUN, *BY_CHANCE}
