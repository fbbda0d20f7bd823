"""Answers to options of kafka-python and confluent-kafka that have another name here, or none.

One table for producers, consumers and `connect`. Names with dots, as librdkafka writes them, count as those with
underscores. docs/migrate-clients.md shows the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from sparklog.core.config.key import did_you_mean
from sparklog.core.errors import InvalidOption

_ANSWERS: Final[tuple[tuple[str, str], ...]] = (
    # address and access
    (
        "bootstrap_servers metadata_broker_list",
        "the address of the cluster is given to connect: file://, s3://, hdfs:// or http://",
    ),
    (
        "security_protocol ssl_* sasl_* enable_ssl_certificate_verification",
        "connect takes token and ca for coordinators, and stores use the credentials of their platform",
    ),
    ("client_id", "entries of the chain name the host and the process"),
    ("client_rack", "the environment variable SPARKLOG_ZONE says which stores are near"),
    (
        "api_version* broker_* socket_* connections_max_idle_ms reconnect_backoff_* send_buffer_bytes "
        "receive_buffer_bytes selector kafka_client socks5_proxy bootstrap_topics_filter metadata_max_age_ms "
        "topic_metadata_*",
        "there are no brokers to keep connections to",
    ),
    ("metric_reporters metrics_* statistics_interval_ms stats_cb", "a consumer has the method metrics"),
    ("logger log_level log_cb debug error_cb", "messages go to the logger sparklog of Python's logging"),
    # both
    ("group_id", "this is group, of a consumer"),
    ("request_timeout_ms", "this is delivery_timeout_ms of a producer, timeout_ms of poll"),
    # producers
    ("compression_type compression_codec", "this is compression"),
    ("queue_buffering_max_ms", "this is linger_ms"),
    ("queue_buffering_max_kbytes queue_buffering_max_messages", "this is buffer_memory, in bytes"),
    ("batch_num_messages", "this is batch_size, in bytes"),
    ("max_in_flight_requests_per_connection", "this is max_in_flight"),
    ("request_required_acks", "this is acks"),
    (
        "retries retry_backoff_ms retry_backoff_max_ms message_send_max_retries message_timeout_ms",
        "what can't be written for now is sent again until delivery_timeout_ms is over",
    ),
    ("enable_idempotence enable_gapless_guarantee", "every producer is idempotent"),
    (
        "transactional_id transaction_timeout_ms",
        "this is producer.transaction(): one commit, fenced by the generation of the group",
    ),
    ("partitioner sticky_partitioning_linger_ms", "send takes a partition; else the key decides, by murmur2"),
    ("max_request_size message_max_bytes", "this is max.message.bytes of the topic"),
    ("on_delivery delivery_report_only_error dr_cb dr_msg_cb", "send returns a future, which has add_done_callback"),
    ("allow_auto_create_topics", "topics are created by cluster.create_topic"),
    # consumers
    ("isolation_level", "no reader sees what is not committed"),
    ("max_poll_interval_ms", "this is session_timeout_ms: a member shows by its calls that it is alive"),
    (
        "fetch_min_bytes fetch_max_wait_ms fetch_wait_max_ms fetch_error_backoff_ms max_partition_fetch_bytes "
        "fetch_message_max_bytes queued_* receive_message_max_bytes",
        "fetch_max_bytes and max_poll_records limit what a call reads",
    ),
    ("partition_assignment_strategy group_protocol group_remote_assignor", "members share partitions by ranges"),
    ("check_crcs", "checksums are always checked"),
    ("exclude_internal_topics", "there are no internal topics"),
    ("auto_commit_enable", "this is enable_auto_commit"),
    ("enable_auto_offset_store offset_store_*", "this is commit with offsets, or enable_auto_commit"),
    ("enable_partition_eof", "poll returns nothing at the end; see consumer_timeout_ms, too"),
    ("default_offset_commit_callback offset_commit_cb", "commit_async takes a callback"),
    ("rebalance_cb on_assign on_revoke on_lost", "this is the listener of subscribe"),
)


ANSWERS: Final[Mapping[str, str]] = {name: answer for names, answer in _ANSWERS for name in names.split()}


def answer_to(name: str) -> str | None:
    """What sparklog has in place of an option of Kafka's clients; None if it is none that is known."""
    spelled = name.replace(".", "_")
    found = ANSWERS.get(spelled)
    if found is not None:
        return found
    return next((answer for key, answer in ANSWERS.items() if key[-1] == "*" and spelled.startswith(key[:-1])), None)


def unknown_option(owner: str, name: str, known: Iterable[str]) -> InvalidOption:
    """The error for an option that `owner` ("a consumer") does not have; `known` are those that it has."""
    options = list(known)
    spelled = name.replace(".", "_")
    if spelled in options:
        return InvalidOption(f"{owner} has no option {name!r}: write {spelled}")
    answer = answer_to(name)
    hint = did_you_mean(name, options) if answer is None else f"; in sparklog {answer}"
    return InvalidOption(f"{owner} has no option {name!r}{hint}")


def refuse_unknown(owner: str, given: Mapping[str, object], known: Iterable[str]) -> None:
    """Raise InvalidOption for the first of these options, all of which are unknown; do nothing if there is none."""
    for name in given:
        raise unknown_option(owner, name, known)
