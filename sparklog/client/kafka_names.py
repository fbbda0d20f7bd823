"""Error texts for options and methods of kafka-python, confluent-kafka and aiokafka that sparklog does not have.

Each text says what to write instead. `_ANSWERS` has the options of producers, consumers and `connect`
(docs/migrate-clients.md shows them). A dot in an option's name, as in librdkafka, counts as an underscore.
`_METHOD_ANSWERS` has the methods of all classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Never

from sparklog.core.config.key import did_you_mean
from sparklog.core.errors import InvalidOption

_ANSWERS: Final[tuple[tuple[str, str], ...]] = (
    # address and access
    (
        "bootstrap_servers metadata_broker_list",
        "give the cluster's address to sparklog.connect(…): file://, s3://, hdfs:// or http://",
    ),
    (
        "security_protocol ssl_* sasl_* enable_ssl_certificate_verification",
        "give token=… and ca=… of a coordinator to sparklog.connect(…); stores use the credentials of their platform",
    ),
    ("client_id", "leave it out (entries of the chain name the host and the process)"),
    ("client_rack", "set the environment variable SPARKLOG_ZONE to say which stores are near"),
    (
        "api_version* broker_* socket_* connections_max_idle_ms reconnect_backoff_* send_buffer_bytes "
        "receive_buffer_bytes selector kafka_client socks5_proxy bootstrap_topics_filter metadata_max_age_ms "
        "topic_metadata_*",
        "leave it out (there are no brokers to keep connections to)",
    ),
    ("metric_reporters metrics_* statistics_interval_ms stats_cb", "call consumer.metrics()"),
    ("logger log_level log_cb debug error_cb", "configure the logger sparklog of Python's logging"),
    # both
    ("group_id", "write group=… for a consumer"),
    ("request_timeout_ms", "write delivery_timeout_ms=… for a producer, timeout_ms=… for poll"),
    # producers
    ("compression_type compression_codec", "write compression=…"),
    ("queue_buffering_max_ms", "write linger_ms=…"),
    ("queue_buffering_max_kbytes queue_buffering_max_messages", "write buffer_memory=…, in bytes"),
    ("batch_num_messages", "write batch_size=…, in bytes"),
    ("max_in_flight_requests_per_connection", "write max_in_flight=…"),
    ("request_required_acks", "write acks=…"),
    (
        "retries retry_backoff_ms retry_backoff_max_ms message_send_max_retries message_timeout_ms",
        "write delivery_timeout_ms=…: records are sent again until then",
    ),
    ("enable_idempotence enable_gapless_guarantee", "leave it out (every producer is idempotent)"),
    (
        "transactional_id transaction_timeout_ms",
        "write producer.transaction(): one commit, fenced by the generation of the group",
    ),
    ("partitioner sticky_partitioning_linger_ms", "give partition=… to send; else the key decides, by murmur2"),
    ("max_request_size message_max_bytes", "set max.message.bytes of the topic"),
    (
        "on_delivery delivery_report_only_error dr_cb dr_msg_cb",
        "call add_done_callback of the future that send returns",
    ),
    ("allow_auto_create_topics", "write cluster.create_topic(…): no topic is created by a send"),
    # consumers
    ("isolation_level", "leave it out (no reader sees uncommitted records)"),
    ("max_poll_interval_ms", "write session_timeout_ms=…: a member shows by its calls that it is alive"),
    (
        "fetch_min_bytes fetch_max_wait_ms fetch_wait_max_ms fetch_error_backoff_ms max_partition_fetch_bytes "
        "fetch_message_max_bytes queued_* receive_message_max_bytes",
        "write fetch_max_bytes=… or max_poll_records=… to limit what a call reads",
    ),
    (
        "partition_assignment_strategy group_protocol group_remote_assignor",
        "leave it out (members share partitions by ranges)",
    ),
    ("check_crcs", "leave it out (checksums are always checked)"),
    ("exclude_internal_topics", "leave it out (there are no internal topics)"),
    ("auto_commit_enable", "write enable_auto_commit=…"),
    ("enable_auto_offset_store offset_store_*", "write enable_auto_commit=…, or commit with offsets"),
    (
        "enable_partition_eof",
        "leave it out (poll returns nothing at the end, and consumer_timeout_ms=… ends an iteration)",
    ),
    ("default_offset_commit_callback offset_commit_cb", "give callback=… to commit_async"),
    ("rebalance_cb on_assign on_revoke on_lost", "give listener=… to subscribe"),
)


_METHOD_ANSWERS: Final[tuple[tuple[str, str], ...]] = (
    # administration
    ("list_topics", "write cluster.topics() for the names, cluster.describe(name) for one topic"),
    ("describe_topics partitions_for", "write cluster.describe(name)"),
    ("create_topics", "write cluster.create_topic(name, …), once per topic"),
    ("delete_topics", "write cluster.delete_topic(name), once per topic"),
    ("create_partitions", "write cluster.add_partitions(name, total)"),
    ("describe_configs", "write cluster.describe(name).config"),
    ("alter_configs incremental_alter_configs", "write cluster.alter(name, config={…})"),
    ("list_consumer_groups list_groups", "write cluster.groups()"),
    ("describe_consumer_groups", "write cluster.describe_group(name)"),
    ("list_consumer_group_offsets list_group_offsets", "write cluster.committed(group)"),
    ("alter_consumer_group_offsets alter_group_offsets", "write cluster.commit_offsets(group, offsets)"),
    ("delete_consumer_groups", "write cluster.delete_group(name), once per group"),
    ("alter_partition_reassignments", "write cluster.move_replicas(topic, stores)"),
    ("describe_cluster", "write cluster.stores(): stores are what brokers are in Kafka"),
    ("create_acls describe_acls delete_acls", "rights are in a file of the coordinator"),
    ("bootstrap_connected", "there are no brokers to keep connections to"),
    # producers
    ("send", "write cluster.producer(), then producer.send(topic, value, key=…)"),
    ("produce", "write producer.send(topic, value, key=…)"),
    ("poll", "a producer needs no poll, as callbacks run in its threads; write consumer.poll(…) to read"),
    ("purge", "a record that was sent is never dropped"),
    ("metrics", "a producer has none; a coordinator serves metrics of all producers"),
    (
        "init_transactions begin_transaction commit_transaction abort_transaction transaction",
        "write `with producer.transaction() as transaction:`, which commits at the end of the block",
    ),
    ("send_offsets_to_transaction consumer_group_metadata", "write transaction.send_offsets(consumer)"),
    # the future that send returns
    ("get", "write future.result(timeout=…), in seconds"),
    ("add_callback add_errback add_both", "write future.add_done_callback(function)"),
    ("is_done succeeded failed", "write future.done() and future.exception()"),
    # consumers
    ("consume getmany poll_messages", "write consumer.poll(timeout_ms=…, max_records=…)"),
    ("getone", "write `async for record in consumer:`"),
    ("store_offsets", "write consumer.commit_async(offsets)"),
    ("get_watermark_offsets highwater", "write consumer.beginning_offsets(…) and consumer.end_offsets(…)"),
    ("seek_to_committed", "write consumer.seek(place, offset) with the offset of consumer.committed(place)"),
    ("incremental_assign", "write consumer.assign(partitions) with all of them"),
    ("unassign incremental_unassign", "write consumer.unsubscribe()"),
    ("memberid", "write cluster.describe_group(name).members"),
    ("stop", "write close()"),
)

ANSWERS: Final[Mapping[str, str]] = {name: answer for names, answer in _ANSWERS for name in names.split()}
METHOD_ANSWERS: Final[Mapping[str, str]] = {name: answer for names, answer in _METHOD_ANSWERS for name in names.split()}


class _MissingMethod:
    """A method that only Kafka's clients have: access raises AttributeError, whose text says what to write instead."""

    def __init__(self, name: str, answer: str) -> None:
        self._name = name
        self._answer = answer

    def __get__(self, made: object, kind: type) -> Never:
        text = f"{kind.__name__!r} object has no attribute {self._name!r}: {self._answer}"
        raise AttributeError(text, name=self._name)  # without `obj`, or else Python would add its own guess


class AnswersKafkaMethods:
    """A base class. If its subclass lacks a method of Kafka's clients, the AttributeError says what to write instead.

    It must be the last base, so that methods of the subclass take precedence. It has descriptors instead of
    `__getattr__`, which in Python 3.11 would slow down every attribute access, even that of `Producer.send`.
    """

    __slots__ = ()

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in METHOD_ANSWERS or hasattr(self, name)]


for _name, _answer in METHOD_ANSWERS.items():
    setattr(AnswersKafkaMethods, _name, _MissingMethod(_name, _answer))


def answer_to(name: str) -> str | None:
    """The advice for `name`, an option of Kafka's clients that sparklog lacks; None if there is no advice for it."""
    spelled = name.replace(".", "_")
    known = ANSWERS.get(spelled)
    if known is not None:
        return known
    return next((answer for key, answer in ANSWERS.items() if key[-1] == "*" and spelled.startswith(key[:-1])), None)


def unknown_option(owner: str, name: str, known: Iterable[str]) -> InvalidOption:
    """The error for the option `name`, which `owner` (a text such as "a consumer") does not have.

    `known`: the options that `owner` has, for a suggestion.
    """
    options = list(known)
    spelled = name.replace(".", "_")
    if spelled in options:
        return InvalidOption(f"{owner} has no option {name!r}: write {spelled}")
    answer = answer_to(name)
    hint = did_you_mean(name, options) if answer is None else f": {answer}"
    return InvalidOption(f"{owner} has no option {name!r}{hint}")


def refuse_unknown(owner: str, given: Mapping[str, object], known: Iterable[str]) -> None:
    """Raise InvalidOption for the first option in `given`. Does nothing if `given` is empty.

    `given` has only options that `owner` lacks. `owner` and `known`: see `unknown_option`.
    """
    for name in given:
        raise unknown_option(owner, name, known)
