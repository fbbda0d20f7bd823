"""Every error a user can meet, with Kafka's code where Kafka has one.

    SparklogError
    ├── InvalidInput ............ nothing was changed; the same call fails again
    ├── NotFound ................ what was named is not there
    ├── Conflict ................ another process was first, or owns it now
    ├── TryAgain ................ the same call may work later; nothing was changed unless `landed` says otherwise
    ├── AccessRefused ........... the caller is unknown to the coordinator, or lacks a right; nothing was changed
    ├── StoreReadOnly, StoreAccessDenied, StoreFull   a store refuses until an operator has fixed it
    ├── Wakeup .................. another thread called `wakeup` of this consumer
    ├── OutcomeUnknown .......... it may have landed: look it up, never repeat blindly
    └── Damaged ................. bytes are not what the chain says: nothing is served from them

Each has a stable `code`, `retriable` (may the same call work later?) and `landed` (did it change the log?). The message
says what was wanted, what was found, and where. Errors are pickled: they cross process boundaries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, ClassVar, Final, Self


class Landed(StrEnum):
    """The effect of a failed command on the log: NO, it was not changed; YES, it was; UNKNOWN, it may have been."""

    NO = "no"
    YES = "yes"
    UNKNOWN = "unknown"


class SparklogError(Exception):
    """An error with a stable code. `str()` is `CODE: what was wanted, what was found, where`."""

    code: ClassVar[str] = "UNKNOWN_SERVER_ERROR"
    retriable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, landed: Landed = Landed.NO) -> None:
        super().__init__(message)
        self.message = message
        self.landed = landed

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.landed)

    def perhaps_landed(self) -> Self:
        """Return a copy with `landed` UNKNOWN: an earlier attempt to commit the same command may have landed."""
        copy = type(self)(self.message, landed=Landed.UNKNOWN)
        copy.__cause__ = self
        return copy


def _rebuild(kind: type[SparklogError], message: str, landed: Landed) -> SparklogError:
    return kind(message, landed=landed)


# ---- nothing was changed; the same call fails again -------------------------------------------


class InvalidInput(SparklogError):
    """The request is not legal; nothing was changed."""

    code = "INVALID_REQUEST"
    exit_code = 2


class InvalidConfig(InvalidInput):
    """A config key is unknown or its value is not legal."""

    code = "INVALID_CONFIG"


class InvalidOption(InvalidInput):
    """An option of a reader, writer or command is unknown or its value is not legal."""

    code = "INVALID_OPTION"


class InvalidTopic(InvalidInput):
    """The topic name is not legal (Kafka's rule: 1 to 249 of a-z A-Z 0-9 . _ -, not . or ..)."""

    code = "INVALID_TOPIC_EXCEPTION"


class InvalidPartitions(InvalidInput):
    """The number of partitions is not legal."""

    code = "INVALID_PARTITIONS"


class InvalidReplicationFactor(InvalidInput):
    """The replication factor is not legal, or greater than the number of stores that are not fenced."""

    code = "INVALID_REPLICATION_FACTOR"


class InvalidReplicaAssignment(InvalidInput):
    """A manual replica assignment is not legal: it names an unknown or fenced store, for example, or one twice."""

    code = "INVALID_REPLICA_ASSIGNMENT"


class IneligibleReplica(InvalidInput):
    """The store can't lead the partition, because it has no replica of it."""

    code = "INELIGIBLE_REPLICA"


class InvalidGroupId(InvalidInput):
    """The id of a group or of a member is not legal: 1 to 249 printable characters, without a space at either end."""

    code = "INVALID_GROUP_ID"


class InvalidSessionTimeout(InvalidInput):
    """A member's session timeout is not between `group.min.session.timeout.ms` and `group.max.session.timeout.ms`."""

    code = "INVALID_SESSION_TIMEOUT"


class OffsetMetadataTooLarge(InvalidInput):
    """The metadata of a committed offset is larger than `offset.metadata.max.bytes`; nothing was committed."""

    code = "OFFSET_METADATA_TOO_LARGE"


class InvalidCommitOffsetSize(InvalidInput):
    """A commit has too many offsets, or too much metadata, for one entry of the chain; nothing was committed."""

    code = "INVALID_COMMIT_OFFSET_SIZE"


class InvalidRecord(InvalidInput):
    """A record does not fit its topic, or can't be decoded. A write with such a record appends nothing."""

    code = "INVALID_RECORD"


class RecordTooLarge(InvalidInput):
    """A record is larger than `max.message.bytes` (nothing of its write was appended), or too large for a page."""

    code = "RECORD_TOO_LARGE"


class InvalidRequiredAcks(InvalidInput):
    """acks is illegal, or weaker than this write needs. Nothing was appended.

    A write that must be visible as a whole or not at all needs acks=all and replication=push.
    """

    code = "INVALID_REQUIRED_ACKS"


class UnsupportedVersion(InvalidInput):
    """The cluster, an entry or an object has a format that this version of sparklog can't read."""

    code = "UNSUPPORTED_VERSION"


class DuplicateResource(InvalidInput):
    """A write or a rewrite names an upload that is in the log already, or names one twice.

    Nothing was changed unless `landed` says otherwise.
    """

    code = "DUPLICATE_RESOURCE"


class OffsetOutOfRange(InvalidInput):
    """An offset is outside the range that the request allows, mostly from the log start to the high watermark.

    An append to a mirror topic begins exactly at the next offset of the partition.
    """

    code = "OFFSET_OUT_OF_RANGE"


class PolicyViolation(InvalidInput):
    """The topic does not allow this operation.

    A mirror topic takes only appends that name their offsets, and no other topic takes these. Deletion by offset
    needs `delete` in `cleanup.policy`, and a rewrite that drops records needs `compact`. A topic with records can't be
    replaced or overwritten.
    """

    code = "POLICY_VIOLATION"


class StoreUnfit(InvalidInput):
    """A store fails at something that a log needs, such as put-if-absent under races; nothing was created."""

    code = "UNSUPPORTED_STORE"
    exit_code = 5


class WriteExpired(InvalidInput):
    """The write was begun before FLOOR: its uploads may be deleted. Start it again from the beginning."""

    code = "WRITE_EXPIRED"
    exit_code = 4


# ---- what was named is not there ----------------------------------------------------------------


class NotFound(SparklogError):
    """Something that was named does not exist."""

    code = "RESOURCE_NOT_FOUND"
    exit_code = 3


class UnknownTopicOrPartition(NotFound):
    """No topic of this name or id, or no partition of this number in it."""

    code = "UNKNOWN_TOPIC_OR_PARTITION"


class UnknownProducerId(NotFound):
    """The chain does not know the producer id: it has expired or was never allocated. Ask for a new one."""

    code = "UNKNOWN_PRODUCER_ID"


class GroupIdNotFound(NotFound):
    """There is no consumer group of this name: it never existed, was deleted, or its offsets have expired."""

    code = "GROUP_ID_NOT_FOUND"


class ClusterNotFound(NotFound):
    """There is no metadata chain at the address."""

    code = "CLUSTER_NOT_FOUND"


class BrokerIdNotRegistered(NotFound):
    """No store of this id is registered."""

    code = "BROKER_ID_NOT_REGISTERED"


class KeyNotFound(NotFound):
    """The store has no object under this key."""

    code = "KEY_NOT_FOUND"


# ---- another process was first, or owns it now --------------------------------------------------


class Conflict(SparklogError):
    """Another process was first, or has taken over."""

    code = "CONFLICT"
    exit_code = 4


class TopicAlreadyExists(Conflict):
    """A topic of this name exists already."""

    code = "TOPIC_ALREADY_EXISTS"


class ClusterAlreadyExists(Conflict):
    """There is already a metadata chain at the address."""

    code = "CLUSTER_ALREADY_EXISTS"


class InconsistentClusterId(Conflict):
    """The address or the store belongs to a different cluster than expected. The expected one may have been deleted, or
    restored elsewhere.
    """

    code = "INCONSISTENT_CLUSTER_ID"


class InconsistentTopicId(Conflict):
    """A topic was deleted, and another one created under its name."""

    code = "INCONSISTENT_TOPIC_ID"


class KeyExists(Conflict):
    """put-if-absent found the key taken. Read it back: it may be your own write."""

    code = "KEY_EXISTS"


class SwapRefused(Conflict):
    """The slices that a rewrite would replace are no longer the ones it read: plan the rewrite again."""

    code = "SWAP_REFUSED"


class FencedLeaderEpoch(Conflict):
    """A newer leader owns the partition: refresh metadata, then write again."""

    code = "FENCED_LEADER_EPOCH"
    retriable = True


class UnknownLeaderEpoch(Conflict):
    """The leader epoch is newer than any that this process knows: catch up, then try again."""

    code = "UNKNOWN_LEADER_EPOCH"
    retriable = True


class StaleBrokerEpoch(Conflict):
    """The registration number is stale: the store was fenced, removed or registered again."""

    code = "STALE_BROKER_EPOCH"


class DuplicateBrokerRegistration(Conflict):
    """The store is already registered: its id is taken, or its INCARNATION is registered under another id."""

    code = "DUPLICATE_BROKER_REGISTRATION"


class InvalidUpdateVersion(Conflict):
    """The partition changed after the request was planned: plan it again on the partition's new version."""

    code = "INVALID_UPDATE_VERSION"


class StaleControllerEpoch(Conflict):
    """Another coordinator has a newer epoch, or this coordinator has resigned; nothing was changed."""

    code = "STALE_CONTROLLER_EPOCH"


class ElectionNotNeeded(Conflict):
    """No election is needed: the wanted store already leads, or the leader can be reached."""

    code = "ELECTION_NOT_NEEDED"


class NoReassignmentInProgress(Conflict):
    """There is no move to cancel."""

    code = "NO_REASSIGNMENT_IN_PROGRESS"


class InvalidProducerEpoch(Conflict):
    """A newer instance of this producer, or another run of this streaming query, is active."""

    code = "INVALID_PRODUCER_EPOCH"


class OutOfOrderSequence(Conflict):
    """The sequence number of a batch, the version of an application or the number of a commit is not the next one.

    A batch has a gap before it, or repeats only a part of an earlier batch; or a batch in doubt has landed. A version
    is below the last one, or repeats it with other records. A commit with records repeats an earlier one.
    """

    code = "OUT_OF_ORDER_SEQUENCE_NUMBER"


class UnknownMemberId(Conflict):
    """The consumer is not a member of the group, or no longer one: join again. Nothing was committed.

    Also raised if offsets are committed without a member to a group that has members.
    """

    code = "UNKNOWN_MEMBER_ID"


class FencedInstanceId(Conflict):
    """Another consumer has joined with the same `group_instance_id`, and this one is no longer a member (KIP-345)."""

    code = "FENCED_INSTANCE_ID"


class IllegalGeneration(Conflict):
    """The group has begun a newer generation: read the new assignment. Nothing was committed."""

    code = "ILLEGAL_GENERATION"


class NonEmptyGroup(Conflict):
    """The group has active members: stop them first."""

    code = "NON_EMPTY_GROUP"


# ---- the same call may work later ---------------------------------------------------------------


class TryAgain(SparklogError):
    """The call failed this time; the same call may work later. Nothing was changed unless `landed` says otherwise."""

    code = "COORDINATOR_NOT_AVAILABLE"
    retriable = True


class StoreUnavailable(TryAgain):
    """A store did not answer, or refuses requests for now; nothing was written."""

    code = "KAFKA_STORAGE_ERROR"


class NotController(TryAgain):
    """The process that got the command does not coordinate the cluster, or no longer does: find the coordinator."""

    code = "NOT_CONTROLLER"


class NotEnoughReplicas(TryAgain):
    """Too few stores are in sync (see `min.insync.replicas`), or have what the request needs; nothing was written."""

    code = "NOT_ENOUGH_REPLICAS"


class NotEnoughReplicasAfterAppend(TryAgain):
    """The records are written, but now fewer than `min.insync.replicas` are in sync: readers do not see them yet."""

    code = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"

    def __init__(self, message: str, *, landed: Landed = Landed.YES) -> None:
        super().__init__(message, landed=landed)


class NotLeaderOrFollower(TryAgain):
    """The leader's store does not hold the objects of this write: upload them there, or find the new leader.

    Also raised if an election gave up the records, or if a store has no replica of the partition.
    """

    code = "NOT_LEADER_OR_FOLLOWER"


class NoReplicaOnline(TryAgain):
    """The partition has no leader: no replica that may lead it can be reached."""

    code = "NO_REPLICA_ONLINE"


class EligibleLeadersNotAvailable(TryAgain):
    """No replica that has every committed record can be reached, so none was elected."""

    code = "ELIGIBLE_LEADERS_NOT_AVAILABLE"


class PreferredLeaderNotAvailable(TryAgain):
    """The wanted leader can't be reached, is not in sync, or lacks records that the present leader has."""

    code = "PREFERRED_LEADER_NOT_AVAILABLE"


class WriteLost(TryAgain):
    """An election gave up earlier records of this author, and this call wrote nothing: the message says what to write
    again.
    """

    code = "WRITE_LOST"


class RequestTimedOut(TryAgain):
    """The call did not finish in time, or repeats a batch that is not on every in-sync replica yet."""

    code = "REQUEST_TIMED_OUT"


# ---- nothing was changed; the right must be granted first ---------------------------------------


class AccessRefused(SparklogError):
    """The coordinator does not know the caller, or the caller lacks a right; nothing was changed."""

    code = "ACCESS_REFUSED"


class AuthenticationFailed(AccessRefused):
    """The token is missing or wrong."""

    code = "SASL_AUTHENTICATION_FAILED"


class TlsFailed(AccessRefused):
    """No trusted connection to the coordinator: its certificate was not accepted, or one side doesn't speak TLS."""

    code = "SSL_HANDSHAKE_FAILED"


class TopicAuthorizationFailed(AccessRefused):
    """The principal lacks a right on a topic. The error does not tell whether the topic exists."""

    code = "TOPIC_AUTHORIZATION_FAILED"


class ClusterAuthorizationFailed(AccessRefused):
    """The principal lacks a right on the cluster as a whole."""

    code = "CLUSTER_AUTHORIZATION_FAILED"


# ---- nothing was changed; the store must be fixed first -----------------------------------------


class StoreReadOnly(SparklogError):
    """A store refuses writes; nothing was written."""

    code = "STORE_READ_ONLY"


class StoreAccessDenied(SparklogError):
    """The store does not let this process read: fix the permissions of its user or role, or its access keys."""

    code = "STORE_ACCESS_DENIED"


# How to make room depends on what else is on that disk: deleting records deletes them on all stores.
MAKE_ROOM: Final = "give it more room; docs/maintenance.md, A full disk, says what else helps, by what is on it"


class StoreFull(SparklogError):
    """A store has no space left; nothing was written."""

    code = "STORE_FULL"


# ---- nothing went wrong -------------------------------------------------------------------------


class Wakeup(SparklogError):
    """Another thread called `wakeup` of this consumer, so it stopped waiting; nothing is lost."""

    code = "WAKEUP"
    retriable = True


# ---- it may have landed -------------------------------------------------------------------------


class OutcomeUnknown(SparklogError):
    """The request may or may not have landed: look it up by its id, never repeat it blindly."""

    code = "COMMIT_OUTCOME_UNKNOWN"

    def __init__(self, message: str, *, landed: Landed = Landed.UNKNOWN) -> None:
        super().__init__(message, landed=landed)


# ---- bytes are not what the chain says ----------------------------------------------------------


class Damaged(SparklogError):
    """Bytes in a store are not what the chain says; nothing is served from them."""

    code = "CORRUPT_MESSAGE"
    exit_code = 5


class ChainDamaged(Damaged):
    """An entry or snapshot of the metadata chain is missing, cut or altered; nothing is written."""

    code = "CHAIN_DAMAGED"


class DataLoss(Damaged):
    """Records that the log should have can't be read from any store."""

    code = "DATA_LOSS"


# ---- all of them -------------------------------------------------------------------------------


def error_classes(of: type[SparklogError] = SparklogError) -> Iterator[type[SparklogError]]:
    """Yield the classes of this module: `of`, and those derived from it."""
    yield of
    for derived in of.__subclasses__():
        if derived.__module__ == SparklogError.__module__:
            yield from error_classes(derived)


@lru_cache
def classes_by_code() -> Mapping[str, type[SparklogError]]:
    """Return the error class of each code. If several classes share a code, it is their common base class."""
    classes: dict[str, type[SparklogError]] = {}
    for kind in error_classes():
        classes.setdefault(kind.code, kind)
    return classes
