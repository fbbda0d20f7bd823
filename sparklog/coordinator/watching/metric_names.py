"""Every metric of `/metrics`: its name, kind, labels and meaning. docs/metrics.md is made from this list.

Units and endings follow Prometheus' rules. For a metric that Kafka has too, Kafka's MBean is named. Metrics whose names
begin with `kafka_` have the names of kafka_exporter, and its labels except `partition`, so that dashboards made for
kafka_exporter work for a sparklog cluster.
"""

from __future__ import annotations

from typing import Final

import msgspec

GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"


class Metric(msgspec.Struct, frozen=True):
    """A metric of `/metrics`. `kafka`: Kafka's MBean with the same meaning, or ""."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    kafka: str = ""


_CONTROLLER = "kafka.controller:type=KafkaController"
_REPLICAS = "kafka.server:type=ReplicaManager"
_TOPICS = "kafka.server:type=BrokerTopicMetrics"
# The maximum number of series. Only the process that leads has them, so that a sum over processes is right.
TOPICS_OF_A_GROUP: Final = 10
_OF_TOPICS = "Of at most metrics.topics.max topics; only from the process that leads."
_OF_GROUPS = "Of at most metrics.groups.max groups; only from the process that leads."
_OF_PAIRS = (
    f"Of these groups, each with the {TOPICS_OF_A_GROUP} topics in which it is furthest behind; only from the process "
    "that leads."
)

METRICS: Final[tuple[Metric, ...]] = (
    # ---- the leader, and the chain
    Metric(
        "sparklog_active_controller",
        GAUGE,
        "1 if this process coordinates the cluster, else 0. Over all processes the sum should be 1.",
        kafka=f"{_CONTROLLER},name=ActiveControllerCount",
    ),
    Metric(
        "sparklog_coordinator_in_force",
        GAUGE,
        "1 if a coordinator is in force as far as this process has read the chain; 0 if the cluster is embedded.",
    ),
    Metric("sparklog_coordinator_epoch", GAUGE, "Epoch of the newest coordinator; 0 if there was none yet."),
    Metric("sparklog_chain_position", GAUGE, "Number of the newest entry of the metadata chain that was read."),
    Metric("sparklog_chain_entry_timestamp_seconds", GAUGE, "Time of that entry, by its author's clock."),
    Metric("sparklog_floor", GAUGE, "Writes that began before this chain position are refused."),
    Metric(
        "sparklog_snapshot_lag_entries",
        GAUGE,
        "Entries after the newest snapshot that this process knows of. A standby hears of new ones only when it leads.",
    ),
    Metric("sparklog_snapshot_age_seconds", GAUGE, "Age of that snapshot. Absent if there is none."),
    # ---- commits
    Metric("sparklog_commits_total", COUNTER, "Entries that this process has committed since it became the leader."),
    Metric(
        "sparklog_lost_slots_total", COUNTER, "Entries that lost their slot to another process, and were decided again."
    ),
    Metric("sparklog_commit_commands", HISTOGRAM, "Commands per committed entry (group commit)."),
    Metric(
        "sparklog_submit_duration_seconds",
        HISTOGRAM,
        "Duration of committed commands, from the request to the answer.",
        kafka="kafka.network:type=RequestMetrics,name=TotalTimeMs,request=Produce",
    ),
    Metric(
        "sparklog_queued_commands",
        GAUGE,
        "Commands that wait to be committed.",
        kafka="kafka.network:type=RequestChannel,name=RequestQueueSize",
    ),
    Metric("sparklog_queued_commands_limit", GAUGE, "Limit of commands that wait (queued.max.requests)."),
    Metric("sparklog_refused_requests_total", COUNTER, "Requests that were answered with an error.", ("code",)),
    Metric(
        "sparklog_requests_total",
        COUNTER,
        'Requests that were answered. Paths that the coordinator does not have count as route "other".',
        ("route", "status"),
        kafka="kafka.network:type=RequestMetrics,name=RequestsPerSec",
    ),
    Metric(
        "sparklog_event_loop_lag_seconds",
        GAUGE,
        "The longest delay of the event loop in the last minute. Above a second, the process has too much to do.",
    ),
    # ---- partitions
    Metric("sparklog_topics", GAUGE, "Topics.", kafka=f"{_CONTROLLER},name=GlobalTopicCount"),
    Metric("sparklog_partitions", GAUGE, "Partitions.", kafka=f"{_CONTROLLER},name=GlobalPartitionCount"),
    Metric(
        "sparklog_offline_partitions",
        GAUGE,
        "Partitions without a leader: they can't be written.",
        kafka=f"{_CONTROLLER},name=OfflinePartitionsCount",
    ),
    Metric(
        "sparklog_under_min_isr_partitions",
        GAUGE,
        "Partitions with fewer replicas in sync than min.insync.replicas: writes with acks=all fail.",
        kafka=f"{_REPLICAS},name=UnderMinIsrPartitionCount",
    ),
    Metric(
        "sparklog_under_replicated_partitions",
        GAUGE,
        "Partitions with a replica that is not in sync. Replicas that a move adds don't count.",
        kafka=f"{_REPLICAS},name=UnderReplicatedPartitions",
    ),
    Metric(
        "sparklog_isr_shrinks_total",
        COUNTER,
        "Number of times an ISR lost a replica, as seen once a second.",
        kafka=f"{_REPLICAS},name=IsrShrinksPerSec",
    ),
    Metric(
        "sparklog_isr_expands_total",
        COUNTER,
        "Number of times an ISR gained a replica, as seen once a second.",
        kafka=f"{_REPLICAS},name=IsrExpandsPerSec",
    ),
    Metric(
        "sparklog_leader_elections_total",
        COUNTER,
        "Number of times a partition got a leader with a new epoch, as seen once a second.",
        kafka="kafka.controller:type=ControllerStats,name=LeaderElectionRateAndTimeMs",
    ),
    Metric("sparklog_log_size_bytes", GAUGE, "Stored batch bytes of all partitions, one replica of each."),
    Metric("sparklog_slices", GAUGE, "Slices that the state names. Rolling makes fewer of them."),
    Metric("sparklog_objects", GAUGE, "Objects that the state names, the retired ones included."),
    Metric("sparklog_retired_objects", GAUGE, "Objects that nothing reads any more, and that wait to be deleted."),
    # ---- topics
    Metric(
        "sparklog_appended_records_total",
        COUNTER,
        "Records that this process has appended to all topics since it became the leader.",
        kafka=f"{_TOPICS},name=MessagesInPerSec",
    ),
    Metric(
        "sparklog_appended_bytes_total",
        COUNTER,
        "The stored batch bytes of these records: compressed, and on one store.",
        kafka=f"{_TOPICS},name=BytesInPerSec",
    ),
    Metric(
        "sparklog_topic_appended_records_total",
        COUNTER,
        f"The same by topic. {_OF_TOPICS}",
        ("topic",),
        f"{_TOPICS},name=MessagesInPerSec,topic=…",
    ),
    Metric(
        "sparklog_topic_appended_bytes_total",
        COUNTER,
        f"The same by topic. {_OF_TOPICS}",
        ("topic",),
        f"{_TOPICS},name=BytesInPerSec,topic=…",
    ),
    Metric("kafka_topic_partitions", GAUGE, f"Partitions of the topic. {_OF_TOPICS}", ("topic",)),
    Metric(
        "kafka_topic_partition_current_offset",
        GAUGE,
        "Sum of the high watermarks of all partitions of the topic: kafka_exporter has one for each partition. "
        f"{_OF_TOPICS}",
        ("topic",),
    ),
    # ---- consumer groups
    Metric(
        "sparklog_groups",
        GAUGE,
        "Consumer groups by state: Stable has members, Empty has none, such as the group of a stream with groupId.",
        ("state",),
        "kafka.coordinator.group:type=GroupMetadataManager,name=NumGroups",
    ),
    Metric(
        "sparklog_group_lag_records",
        GAUGE,
        "Offsets between the group's commits and the high watermarks, over all partitions in which it has committed. "
        f"{_OF_GROUPS}",
        ("consumergroup",),
    ),
    Metric(
        "sparklog_group_max_lag_records",
        GAUGE,
        f"The same for the partition with the largest lag. {_OF_GROUPS}",
        ("consumergroup",),
        "kafka.consumer:type=consumer-fetch-manager-metrics,records-lag-max",
    ),
    Metric(
        "sparklog_group_lag_seconds",
        GAUGE,
        "Age of the oldest record that the group has not consumed, since its append. If the record was rolled "
        "meanwhile, the age is estimated from its place between the first and the last timestamp of its segment, and "
        f"is at least that of the segment's newest append. 0 if nothing is left. {_OF_GROUPS}",
        ("consumergroup",),
    ),
    Metric(
        "sparklog_group_rebalances_total",
        COUNTER,
        f"Generations of the group: number of times its partitions were reassigned. {_OF_GROUPS}",
        ("consumergroup",),
        "kafka.server:type=group-coordinator-metrics,group-completed-rebalance-count",
    ),
    Metric("kafka_consumergroup_members", GAUGE, f"Members of the group. {_OF_GROUPS}", ("consumergroup",)),
    Metric(
        "kafka_consumergroup_current_offset",
        GAUGE,
        f"Sum of the committed offsets of all partitions of the topic. {_OF_PAIRS}",
        ("consumergroup", "topic"),
    ),
    Metric(
        "kafka_consumergroup_lag",
        GAUGE,
        f"Total lag in all partitions of the topic, in offsets. {_OF_PAIRS}",
        ("consumergroup", "topic"),
    ),
    Metric(
        "kafka_consumergroup_lag_sum",
        GAUGE,
        "The same: kafka_exporter has the one above for each partition, this one for the topic.",
        ("consumergroup", "topic"),
    ),
    # ---- stores
    Metric(
        "sparklog_stores",
        GAUGE,
        "Stores by state: live, dead, stopped (its agent was stopped), new (no agent yet), fenced.",
        ("state",),
    ),
    Metric("sparklog_connected_agents", GAUGE, "Stores whose agents are up."),
    Metric(
        "sparklog_store_up",
        GAUGE,
        "1 if the store answers this process and is the registered one, else 0. It is asked every 30 s.",
        ("store",),
    ),
    Metric(
        "sparklog_store_free_bytes",
        GAUGE,
        "Bytes that can still be written to the store. Only for stores that report it: disks and HDFS.",
        ("store",),
    ),
    Metric(
        "sparklog_store_heard_age_seconds",
        GAUGE,
        "Time since the store was last heard of, by a heartbeat or a write. Only from the process that leads.",
        ("store",),
    ),
    Metric("sparklog_store_replicas", GAUGE, "Replicas on the store.", ("store",), f"{_REPLICAS},name=PartitionCount"),
    Metric(
        "sparklog_store_leaders", GAUGE, "Partitions that the store leads.", ("store",), f"{_REPLICAS},name=LeaderCount"
    ),
    Metric("sparklog_store_replicas_behind", GAUGE, "Replicas on the store that lack records.", ("store",)),
    Metric(
        "sparklog_store_lag_records",
        GAUGE,
        "Total lag of all replicas on the store: offsets between their LEOs and the ends of the logs.",
        ("store",),
    ),
    Metric(
        "sparklog_store_max_lag_records",
        GAUGE,
        "The same for the replica on the store that lacks most.",
        ("store",),
        "kafka.server:type=ReplicaFetcherManager,name=MaxLag,clientId=Replica",
    ),
    # ---- jobs
    Metric("sparklog_job_last_run_timestamp_seconds", GAUGE, "End of the last run of the job.", ("name",)),
    Metric("sparklog_job_last_run_duration_seconds", GAUGE, "Duration of that run.", ("name",)),
    Metric(
        "sparklog_job_last_run_failed_partitions",
        GAUGE,
        "Partitions, stores and deletions that failed in that run.",
        ("name",),
    ),
    # ---- the process
    Metric("sparklog_build_info", GAUGE, "Always 1; the version is a label.", ("version",)),
    Metric("process_cpu_seconds_total", COUNTER, "CPU time of this process."),
    Metric("process_resident_memory_bytes", GAUGE, "Resident memory of this process."),
    Metric("process_virtual_memory_bytes", GAUGE, "Virtual memory of this process."),
    Metric("process_start_time_seconds", GAUGE, "Start of this process."),
    Metric("process_open_fds", GAUGE, "Open file descriptors of this process."),
    Metric("process_max_fds", GAUGE, "Maximum number of file descriptors that it may open."),
)  # fmt: skip
