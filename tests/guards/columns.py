"""Guards of readers and writers in Java: they do to rows what Python does, or leave them to Python."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_FOLDER: Final = "jvm/src/io/sparklog"
_TESTS: Final = "tests/spark/columns/test_columns.py"
_WRITES: Final = "tests/spark/columns/test_column_writes.py"
_ATTEMPTS: Final = "tests/spark/columns/test_write_attempts.py"
_REPLICAS: Final = "tests/spark/columns/test_column_replicas.py"
_FAULTS: Final = "tests/spark/columns/test_write_faults.py::test_a_fault_at_each_call_of_the_store"
_FUZZ: Final = "tests/jvm/test_fuzz.py::test_damage_gives_an_error_or_the_right_rows"


def _guard(name: str, guards: str, file: str, text: str, without: str, test: str) -> Guard:
    tests = (test if "::" in test else f"{_TESTS}::{test}",)
    return Guard(f"java-{name}", guards, f"{_FOLDER}/{file}.java", text, without, tests)


GUARDS: Final = (
    _guard(
        "crc",
        "A batch whose bytes are not those of the index is not decoded.",
        "SliceReader",
        "ObjectIndex.crc32c(body, start, length) == index.crcs[number]",
        "length > 0",
        _FUZZ,
    ),
    _guard(
        "index-crc",
        "Nor is an index whose bytes are not those of the chain.",
        "ObjectIndex",
        "crc32c(body, 0, body.length) == (int) slice.indexCrc32c()",
        "body.length > 0",
        _FUZZ,
    ),
    _guard(
        "index-topic",
        "Nor are batches of another topic, whatever the chain says of them.",
        "ObjectIndex",
        "topics[i] == slice.topicId() && partitions[i] == slice.partition()",
        "partitions[i] == slice.partition()",
        "test_java_reads_no_batches_of_another_topic_or_partition",
    ),
    _guard(
        "index-partition",
        "Nor of another partition.",
        "ObjectIndex",
        "topics[i] == slice.topicId() && partitions[i] == slice.partition()",
        "topics[i] == slice.topicId()",
        "test_java_reads_no_batches_of_another_topic_or_partition",
    ),
    _guard(
        "offset-column",
        "The offsets of a compacted slice are those of its column.",
        "SliceReader",
        'isCompacted\n            ? checked(decoded.columns().get("offset"), number)\n            : ',
        "",
        "test_java_reads_a_compacted_log_by_its_column_of_offsets",
    ),
    _guard(
        "range-start",
        "A batch is cut at the beginning of the range.",
        "SliceReader",
        "int low = rowAt(offsets, decoded.rows(), at);",
        "int low = 0;",
        "test_java_reads_what_python_reads",
    ),
    _guard(
        "range-end",
        "And at its end.",
        "SliceReader",
        "int high = rowAt(offsets, decoded.rows(), end);",
        "int high = decoded.rows();",
        "test_java_reads_what_python_reads",
    ),
    _guard(
        "append-time",
        "With LogAppendTime the timestamp is the chain's, not the column's.",
        "SliceReader",
        "slice.appendTimeUs() == null ? -1 : slice.appendTimeUs()",
        "-1",
        "test_java_reads_what_python_reads",
    ),
    _guard(
        "next-holder",
        "If a holder lacks an object or has it damaged, the next one is asked.",
        "RangeReader",
        "holders.remove(0).hasFailed(error);",
        "holders.clear();",
        "test_the_next_holder_serves",
    ),
    _guard(
        "given-up",
        "Records that were given up are an error, not a gap.",
        "RangeReader",
        "if (at < end && range.lost()) {",
        "if (at > end) {",
        "test_records_that_were_given_up_are_an_error",
    ),
    _guard(
        "one-plan",
        "A DataFrame reads one position of the chain for its whole life.",
        "PlannedRead",
        "if (tasks == null) {",
        "if (options != null) {",
        "test_a_dataframe_keeps_its_position",
    ),
    _guard(
        "protocol",
        "The JAR of another sparklog is refused by name.",
        "Planner",
        '"-m", "sparklog.spark.planner", PROTOCOL)',
        '"-m", "sparklog.spark.planner", "0")',
        "test_java_reads_the_golden_cluster",
    ),
    _guard(
        "written-crc",
        "The checksums of the chain are those of what was written: of the object …",
        "IpcFile",
        "crc.update(bytes, 0, bytes.length);",
        "crc.update(bytes, 0, 0);",
        f"{_WRITES}::test_java_writes_what_python_writes",
    ),
    _guard(
        "written-index-crc",
        "… and those of the index.",
        "WrittenIndex",
        "crc32c.add(ObjectIndex.crc32c(batch.message(), 0, batch.message().length));",
        "crc32c.add(batch.message().length);",
        f"{_WRITES}::test_java_writes_what_python_writes",
    ),
    _guard(
        "partitioner",
        "Java puts each key into the partition in which Python looks for it.",
        "Murmur2",
        "return hash ^ hash >>> 15;",
        "return hash;",
        f"{_WRITES}::test_java_writes_what_python_writes",
    ),
    _guard(
        "written-slices",
        "A slice names the object that has its records, whichever of a task's objects is complete first.",
        "OpenObject",
        "index.slices(written.objects(), topic.id())",
        "index.slices(0, topic.id())",
        f"{_WRITES}::test_objects_that_a_task_streams_at_the_same_time_keep_their_own_slices",
    ),
    _guard(
        "written-incarnation",
        "What was put on a disk that is another one than the registered store is not committed.",
        "OpenObject",
        "to.check(store.incarnation(), dataKey(name), indexKey(name));",
        "",
        f"{_WRITES}::test_a_store_that_fails_is_blamed_in_the_same_words",
    ),
    _guard(
        "written-size",
        "A record that is too large stops its task.",
        "TopicWriter",
        "row.sizeBytes() <= topic.maxMessageBytes()",
        "row.sizeBytes() >= 0",
        f"{_WRITES}::test_a_row_that_is_refused_is_refused_in_the_same_words",
    ),
    _guard(
        "written-keyless",
        "The commit knows whether there are records without a key.",
        "TopicWriter",
        "task.written.addKeyless(topic.id());",
        "",
        f"{_WRITES}::test_a_topic_that_becomes_compacted_meanwhile_gets_no_record_without_a_key",
    ),
    _guard(
        "written-objects",
        "A task holds no more than one object's bytes.",
        "TopicWriter",
        "task.closeLargest();",
        "",
        f"{_WRITES}::test_objects_and_batches_keep_to_the_limits",
    ),
    _guard(
        "written-batches",
        "No batch exceeds its limit by a large record.",
        "ObjectsWriter",
        "rows.sizeBytes() + size > task.plan.limits().largestBatchBytes()",
        "rows.sizeBytes() < 0",
        f"{_WRITES}::test_objects_and_batches_keep_to_the_limits",
    ),
    _guard(
        "written-headers",
        "Headers without a byte take memory, too.",
        "PendingRows",
        " + (long) HEADER_BYTES * headers",
        "",
        f"{_WRITES}::test_headers_count_even_if_they_are_empty",
    ),
    _guard(
        "written-temporaries",
        "A task that fails takes its temporary files along.",
        "TaskObjects",
        "writers.forEach(ObjectsWriter::abort);",
        "",
        f"{_ATTEMPTS}::test_what_a_failed_attempt_has_uploaded_is_an_orphan",
    ),
    _guard(
        "upload-again",
        "An upload that fails is repeated under another name.",
        "ObjectsWriter",
        "open == null ? ATTEMPTS : 1",
        "1",
        _FAULTS,
    ),
    _guard(
        "upload-once",
        "But not if a part of the object is only in the store any more.",
        "ObjectsWriter",
        "open == null ? ATTEMPTS : 1",
        "ATTEMPTS",
        _FAULTS,
    ),
    _guard(
        "limit-range",
        "A limit counts only the records that a range has of its slices.",
        "TaskToRead",
        "slice.records() - before - after",
        "slice.records()",
        "test_a_limit_leaves_out_tasks_that_it_does_not_need",
    ),
    _guard(
        "limit-loss",
        "And counts nothing if records may be missing without an error.",
        "TaskToRead",
        "mayLack ? 0 : records",
        "records",
        "test_a_limit_leaves_out_tasks_that_it_does_not_need",
    ),
    Guard(
        "catalog-drop",
        "A table that is replaced, or dropped without PURGE, keeps its records.",
        "sparklog/spark/planner/topic_requests.py",
        "if not request.with_records and any(",
        "if request.topic is None and any(",
        ("tests/spark/columns/test_catalog.py::test_a_topic_with_records_is_deleted_only_by_purge",),
    ),
    _guard(
        "catalog-columns",
        "A new table has the columns that its statement names, or there is none.",
        "LogCatalog",
        "!given.equals(Columns.FIELDS.get(column.name())) || ",
        "",
        "tests/spark/columns/test_catalog.py::test_what_a_log_cannot_be_is_refused_and_changes_nothing",
    ),
    _guard(
        "catalog-replace",
        "To replace a topic is refused before it is dropped.",
        "LogCatalog",
        "return stageReplace(table, columns, partitioning, properties);",
        "try {\n"
        "      dropTable(table);\n"
        "      return stageCreate(table, columns, partitioning, properties);\n"
        "    } catch (TableAlreadyExistsException | NoSuchNamespaceException error) {\n"
        "      throw new IllegalStateException(error);\n"
        "    }",
        "tests/spark/columns/test_catalog.py::test_a_topic_without_records_is_not_replaced_either",
    ),
    _guard(
        "deaf-planner",
        "A planner that reads no more gets no further request.",
        "Planner",
        "hasEnded = true; // it reads no more, though its process may still be there",
        "",
        f"{_ATTEMPTS}::test_a_planner_that_reads_no_more_is_replaced",
    ),
    _guard(
        "commit-again",
        "A commit whose planner dies is submitted again, as the same command.",
        "LogBatchWrite",
        "attempt < ATTEMPTS; attempt++",
        "attempt < 1; attempt++",
        f"{_ATTEMPTS}::test_a_commit_whose_planner_dies_lands_once",
    ),
    _guard(
        "given-up-store",
        "A store that has not taken an object is not named as its holder.",
        "OpenObject",
        "holders = publishOnSeveral(",
        "publishOnSeveral(",
        f"{_REPLICAS}::test_a_store_that_fails_is_given_up",
    ),
    _guard(
        "wiped-store",
        "A store that was wiped or swapped during a task holds none of its objects.",
        "TaskObjects",
        "if (lanes.givenUp().isEmpty()) {",
        "if (written != null) {",
        f"{_REPLICAS}::test_a_store_that_is_wiped_meanwhile_holds_none_of_the_tasks_objects",
    ),
    Guard(
        "java-catching-up",
        "A store that is catching up may delay a task only briefly, which Python sees to.",
        "sparklog/spark/planner/write_requests.py",
        "if plan.catching_up or not all(",
        "if not all(",
        (f"{_REPLICAS}::test_a_store_that_is_catching_up_is_left_to_python",),
    ),
    _guard(
        "slow-store",
        "A store that hangs while another has taken the object delays a task for a limited time.",
        "StoreLanes",
        "Done next = taken.isEmpty() ? first(done) : next(done, running.keySet());",
        "Done next = first(done);",
        f"{_REPLICAS}::test_a_store_that_hangs_delays_a_task_for_a_limited_time",
    ),
    _guard(
        "killed-waiting",
        "A task that waits for its stores ends if Spark kills it without an interrupt.",
        "StoreLanes",
        "if (TaskContext.get().isInterrupted()) {",
        "if (done == null) {",
        f"{_REPLICAS}::test_a_task_that_waits_for_all_its_stores_can_be_killed",
    ),
    _guard(
        "message-of-any-loader",
        "The messages of tasks count in a session that got the JAR while it ran, too.",
        "LogBatchWrite",
        "if (message == null) {",
        "if (!(message instanceof TaskMessage)) {",
        "test_a_running_session_gets_the_jar",
    ),
)
