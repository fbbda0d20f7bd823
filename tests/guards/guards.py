"""The guards of the log, one entry each: the text that guards, what stands there without it, and who notices.

`make guards` takes them away one by one (`__main__.py`). `make test` fails if a text has changed: mend its entry here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Guard:
    """`text` is in `file` exactly once; with `without` in its place the guard is gone, and the code still runs.

    `tests` are pytest's names, without parameters, the cheapest that notice; `choose` is pytest's -k among them.
    """

    name: str
    guards: str
    file: str
    text: str
    without: str
    tests: tuple[str, ...]
    choose: str = ""


GUARDS: Final = (
    # ---- core: what decide refuses, or knows already ------------------------------------------------
    Guard(
        "floor",
        "Nothing is named that was uploaded below FLOOR: vacuum may have deleted it.",
        "sparklog/core/decide.py",
        "    if oldest < floor:",
        "    if False:",
        ("tests/core/test_decide.py::test_floor_refuses_what_was_begun_or_uploaded_below_it",),
    ),
    Guard(
        "command-id",
        "A command that is submitted again gets its first result.",
        "sparklog/core/decide.py",
        "known = state.results.get(submission.command_id)",
        "known = None",
        ("tests/core/test_decide.py::test_a_known_id_is_enough",),
    ),
    Guard(
        "producer-sequence",
        "A producer's batches leave no gap and overlap nowhere.",
        "sparklog/core/producers.py",
        "    if span.first_sequence != expected:",
        "    if False:",
        ("tests/core/test_producers.py::test_what_is_neither_next_nor_an_exact_repeat_is_out_of_order",),
    ),
    Guard(
        "producer-repeat",
        "A batch that a producer sends again is not written again.",
        "sparklog/core/producers.py",
        "    for batch in known:",
        "    for batch in ():",
        ("tests/core/test_producers.py::test_an_exact_repeat_of_one_of_the_last_five_batches_is_told_where_it_is",),
    ),
    Guard(
        "producer-epoch",
        "Only the newest instance of a producer writes.",
        "sparklog/core/producers.py",
        "    if span.producer_epoch != producer.producer_epoch:",
        "    if False:",
        ("tests/core/test_producers.py::test_only_the_epoch_that_was_given_last_may_write",),
    ),
    Guard(
        "txn-version",
        "A version that its application wrote before adds nothing.",
        "sparklog/core/decide_append.py",
        "        if before is not None and application.version <= before.version:",
        "        if False:",
        ("tests/core/test_decide_append.py::test_a_version_at_or_below_the_last_of_its_application_adds_nothing",),
    ),
    Guard(
        "topic-id",
        "What was begun for a topic does not land in another one of its name.",
        "sparklog/core/decide_append.py",
        "    partition = state.partitions.get(topic_partition)\n    if partition is None:",
        "    partition = state.partitions.get(topic_partition) or next(iter(state.partitions.values()))\n"
        "    if partition is None:",
        ("tests/core/test_decide_append.py::test_a_write_begun_for_a_topic_that_was_made_anew_is_refused",),
    ),
    Guard(
        "leader-epoch",
        "A write that was begun under an older leader epoch is fenced.",
        "sparklog/core/decide_append.py",
        "    if epoch == partition.leader_epoch:",
        "    if True:",
        ("tests/core/test_decide_append.py::test_a_write_begun_under_an_older_epoch_is_fenced",),
    ),
    Guard(
        "min-insync",
        "With fewer stores in sync than min.insync.replicas nothing is written.",
        "sparklog/core/decide_append.py",
        "        if len(partition.isr) < fewest[each.topic_id]:",
        "        if False:",
        ("tests/core/test_decide_append.py::test_fewer_stores_in_sync_than_the_topic_wants_take_no_writes",),
    ),
    Guard(
        "every-insync-store",
        "An object is on every store in sync before it is named.",
        "sparklog/core/decide_append.py",
        "        missing = [store for store in partition.isr if store not in holders[each.object_index]]",
        "        missing = []",
        ("tests/core/test_decide_append.py::test_an_append_that_does_not_fit_is_refused",),
    ),
    Guard(
        "swap-digest",
        "A rewrite replaces only the slices that it read.",
        "sparklog/core/decide_maintenance.py",
        "    if digest(replaced) != command.digest:",
        "    if False:",
        ("tests/core/test_decide_maintenance.py::test_a_swap_of_slices_that_were_replaced_meanwhile_is_refused",),
    ),
    Guard(
        "retired-only",
        "Only objects that no slice names are confirmed as deleted.",
        "sparklog/core/decide_maintenance.py",
        "if number not in state.retired]\n    if still:",
        "if number not in state.retired]\n    if False:",
        ("tests/core/test_decide_maintenance.py::test_only_retired_objects_can_be_confirmed_as_deleted",),
    ),
    Guard(
        "floor-forgets",
        "FLOOR forgets results only of commands that it refuses from then on.",
        "sparklog/core/apply.py",
        "if result.n0 < record.floor]:",
        "]:",
        ("tests/core/test_apply.py::test_floor_forgets_the_results_of_what_was_begun_below_it",),
    ),
    # ---- chain: the race for a slot, and what is read back ------------------------------------------
    Guard(
        "void-after-claim",
        "A slot that was won or lost counts only if its block is not going.",
        "sparklog/chain/slots.py",
        "        if found is not None and _block_counts(store, entry.n):",
        "        if found is not None:",
        (
            "tests/chain/test_slots.py::test_a_win_in_a_marked_block_is_void",
            "tests/chain/test_slots.py::test_a_loss_in_a_marked_block_is_void",
        ),
    ),
    Guard(
        "void-after-read",
        "Entries that were read take effect only if their block is not going.",
        "sparklog/chain/follower.py",
        "                    check_not_void(self.store, first)\n",
        "",
        ("tests/faults/test_void_marks.py::test_a_reader_does_not_follow_a_slot_that_a_stalled_writer_re_created",),
        "memory",
    ),
    Guard(
        "void-after-404",
        "A slot that is not there is the end only if its block is not going.",
        "sparklog/chain/follower.py",
        "for n in range(first + 1, first + len(bodies) + 1):",
        "for n in range(first + 1, first + len(bodies)):",
        ("tests/chain/test_follower.py::test_a_block_that_is_going_behind_the_last_entry_is_not_taken_for_the_end",),
    ),
    Guard(
        "read-back",
        "An entry whose put was in doubt is known as one's own when it is read back.",
        "sparklog/chain/slots.py",
        "            if found == body:",
        "            if found is body:",
        ("tests/chain/test_slots.py::test_ones_own_body_read_back_is_success_however_often_reading_fails",),
    ),
    Guard(
        "nonce",
        "Two writers of equal entries don't both believe that the slot is theirs.",
        "sparklog/chain/committer.py",
        "        nonce = uuid.uuid4().hex",
        '        nonce = "0" * 32',
        ("tests/chain/test_committer.py::test_each_attempt_at_a_slot_has_a_nonce_of_its_own",),
    ),
    Guard(
        "hash-link",
        "An entry follows the bytes that were read before it, or is damage.",
        "sparklog/chain/follower.py",
        "        if entry.previous != self.entry_hash or (",
        "        if (",
        ("tests/chain/test_follower.py::test_an_entry_that_does_not_follow_the_one_before_is_damage",),
    ),
    Guard(
        "entry-checksum",
        "A flipped bit in an entry is found before its JSON is read.",
        "sparklog/chain/framing.py",
        "    if words[2:] != _check_words(payload):",
        "    if False:",
        ("tests/chain/test_entry.py::test_every_flipped_bit_is_a_named_error",),
    ),
    Guard(
        "snapshot-checksum",
        "A flipped bit in a chunk of a snapshot is found before a state is made of it.",
        "sparklog/chain/snapshot.py",
        "    if len(body) != chunk.size_bytes or found != chunk.crc32c:",
        "    if len(body) != chunk.size_bytes:",
        ("tests/chain/test_snapshot.py::test_any_flipped_bit_or_cut_is_a_named_error",),
    ),
    Guard(
        "snapshot-chunk-size",
        "A snapshot does not name a chunk that was there already with another size.",
        "sparklog/chain/snapshot.py",
        "        if found != len(body):",
        "        if False:",
        (
            "tests/chain/test_snapshot.py::"
            "test_a_chunk_that_is_there_already_with_another_size_is_damage_and_is_written_again_when_moved_away",
        ),
    ),
    Guard(
        "beyond-the-end",
        "A missing entry with others behind it is CHAIN_DAMAGED, not the end.",
        "sparklog/chain/follower.py",
        "            self._check_end()\n",
        "",
        ("tests/chain/test_follower.py::test_a_missing_entry_in_the_middle_is_damage_and_nothing_is_written",),
    ),
    Guard(
        "same-chain",
        "A process that rested does not write into a cluster that was made anew at the address.",
        "sparklog/chain/committer.py",
        "        if not self.follower.is_same_chain():",
        "        if False:",
        ("tests/chain/test_committer.py::test_who_comes_back_to_a_place_that_was_made_anew_writes_nothing",),
    ),
    # ---- log: bytes are what the chain says ---------------------------------------------------------
    Guard(
        "batch-checksum",
        "A record batch is verified before Arrow decodes it.",
        "sparklog/log/batch.py",
        '        verify(body.slice(start, length), crc, "record batch", key, position + start)\n',
        "",
        ("tests/log/test_batch.py::test_flipped_bit_names_object_byte_and_both_checksums",),
    ),
    Guard(
        "index-checksum",
        "A flipped bit in an index is found before a batch is looked for.",
        "sparklog/log/index.py",
        '    verify(buffer, named.index_crc32c, "index", key, 0)\n',
        "",
        ("tests/log/test_index.py::test_any_flipped_bit_of_an_index_is_found",),
    ),
    Guard(
        "index-length",
        "An index that is shorter than the chain says is named as cut.",
        "sparklog/log/index.py",
        "    if buffer.size != named.index_size_bytes:",
        "    if False:",
        ("tests/log/test_index.py::test_any_cut_of_an_index_is_found",),
    ),
    Guard(
        "index-of-slice",
        "An index that says something else than the chain of a slice is not followed.",
        "sparklog/log/object_reader.py",
        "        if (records, begin, end) == (slice.records, slice.position, slice.position + slice.length):",
        "        if True:",
        ("tests/log/test_object_reader.py::test_slice_that_its_index_does_not_know_is_refused",),
    ),
    Guard(
        "batch-records",
        "A batch with another number of records than its index says gives no wrong offsets.",
        "sparklog/log/object_reader.py",
        "            if batch.num_rows != wanted:",
        "            if False:",
        ("tests/log/test_object_reader.py::test_a_batch_of_another_number_of_records_than_its_index_says_is_damage",),
    ),
    Guard(
        "orphan-floor",
        "Vacuum leaves uploads at or above FLOOR alone: their commit may still come.",
        "sparklog/log/orphans.py",
        " if name.n0 < floor]",
        "]",
        ("tests/log/test_orphans.py::test_only_what_is_below_floor_and_named_by_nothing_goes",),
    ),
    Guard(
        "orphan-named",
        "Vacuum leaves what the chain names alone.",
        "sparklog/log/orphans.py",
        "strict=True) if not is_named]",
        "strict=True)]",
        ("tests/log/test_orphans.py::test_only_what_is_below_floor_and_named_by_nothing_goes",),
    ),
    # ---- storage: put-if-absent, durable, read whole ------------------------------------------------
    Guard(
        "local-link",
        "On a disk a name that is taken is not taken over.",
        "sparklog/storage/local.py",
        "                os.link(temporary, name, dst_dir_fd=folder_fd)",
        "                os.replace(temporary, name, dst_dir_fd=folder_fd)",
        (
            "tests/contract/test_local_store.py::TestLocalStore::"
            "test_a_second_put_finds_the_key_taken_and_changes_nothing",
        ),
    ),
    Guard(
        "local-fsync-file",
        "On a disk the bytes are durable before they have a name.",
        "sparklog/storage/local_upload.py",
        "                os.fsync(fd)\n",
        "",
        ("tests/storage/test_local.py::test_bytes_then_name_then_directory_reach_the_disk_before_the_answer",),
    ),
    Guard(
        "local-fsync-directory",
        "On a disk the name is durable before the answer.",
        "sparklog/storage/local.py",
        "                try:\n                    os.fsync(folder_fd)",
        "                try:\n                    pass",
        ("tests/storage/test_local.py::test_bytes_then_name_then_directory_reach_the_disk_before_the_answer",),
    ),
    Guard(
        "local-length",
        "On a disk a range beyond the end of a file that was cut is damage, not a crash.",
        "sparklog/storage/local.py",
        "                if end > found.st_size:",
        "                if False:",
        ("tests/storage/test_local.py::test_a_file_that_was_cut_is_damage_with_file_and_numbers",),
    ),
    Guard(
        "s3-if-none-match",
        "On S3 a put says that the key must be absent.",
        "sparklog/storage/s3/control.py",
        ', mode="create"',
        "",
        ("tests/storage/test_s3.py::test_a_put_is_one_conditional_request_that_waits_for_no_permission",),
    ),
    Guard(
        "s3-bulk-if-none-match",
        "On S3 a put of a large body says that the key must be absent.",
        "sparklog/storage/s3/bucket.py",
        '{"If-None-Match": "*", ',
        "{",
        ("tests/storage/test_s3.py::test_a_put_is_one_conditional_request_that_waits_for_no_permission",),
    ),
    Guard(
        "s3-send-once",
        "On S3 no library repeats a request in secret.",
        "sparklog/storage/s3/control.py",
        "    retries = 1\n",
        "    retries = 5\n",
        ("tests/storage/test_s3.py::test_after_a_lost_answer_ones_own_object_is_a_success",),
        "reset",
    ),
    Guard(
        "s3-parts-if-none-match",
        "On S3 the completion of an upload in parts says that the key must be absent.",
        "sparklog/storage/s3/upload.py",
        '                "IfNoneMatch": "*",\n                "MultipartUpload"',
        '                "MultipartUpload"',
        ("tests/storage/test_s3.py::test_a_large_upload_is_completed_only_if_the_key_is_absent",),
    ),
    Guard(
        "s3-read-back",
        "On S3 a key that is taken after a lost answer is looked at: it may be one's own.",
        "sparklog/storage/s3/bucket.py",
        "                looks = in_doubt or sole_writer",
        "                looks = False",
        ("tests/storage/test_s3.py::test_after_a_lost_answer_ones_own_object_is_a_success",),
        "reset",
    ),
    Guard(
        "s3-write-id",
        "On S3 an object that somebody else wrote is not taken for one's own.",
        "sparklog/storage/s3/bucket.py",
        ".get(_WRITE_ID) == write_id",
        ".get(_WRITE_ID) is not None",
        ("tests/storage/test_s3.py::test_after_a_lost_answer_anothers_object_is_a_taken_key",),
    ),
    Guard(
        "s3-length",
        "On S3 an answer that was cut is asked for again, not taken for a short object.",
        "sparklog/storage/s3/reads.py",
        "        if count < len(into):",
        "        if False:",
        ("tests/storage/test_s3.py::test_a_body_that_is_cut_each_time_is_an_unavailable_store_not_a_short_object",),
    ),
    Guard(
        "probe",
        "A store that lets two writers win is refused before it holds a cluster.",
        "sparklog/client/bootstrap.py",
        "        check_store(target, uuid.uuid4().hex)",
        "        pass",
        (
            "tests/storage/test_probe_servers.py::"
            "test_a_server_that_ignores_conditions_is_refused_for_data_and_for_metadata",
        ),
    ),
    Guard(
        "hdfs-rename",
        "On HDFS a name that is taken is not taken over.",
        "sparklog/storage/hdfs_upload.py",
        "client.rename(temporary, self._path, overwrite=False)",
        "client.rename(temporary, self._path, overwrite=True)",
        (
            "tests/contract/test_hdfs_store.py::TestHdfsStore::"
            "test_a_second_put_finds_the_key_taken_and_changes_nothing",
        ),
    ),
    Guard(
        "hdfs-unclosed",
        "On HDFS a file that is still being written is not taken for an empty object.",
        "sparklog/storage/hdfs.py",
        "        if len(reader) == 0 and self._status(key, deadline).length:",
        "        if False:",
        ("tests/storage/test_hdfs.py::test_a_file_that_its_writer_has_not_closed_is_not_taken_for_an_empty_object",),
    ),
    Guard(
        "hdfs-settle",
        "On HDFS a rename without an answer is looked up: the object may be there.",
        "sparklog/storage/hdfs_upload.py",
        "                self._settle(temporary, failed)",
        '                raise StoreUnavailable("no answer") from failed',
        ("tests/storage/test_hdfs_faults.py::test_a_rename_whose_answer_was_lost_is_found_to_have_landed",),
    ),
    # ---- vacuum: FLOOR first, then the search, then the deletions -------------------------------------
    Guard(
        "vacuum-raises-floor",
        "Nothing is deleted before FLOOR refuses the commit that would name it.",
        "sparklog/spark/vacuum_job.py",
        "        floor = frame.due_floor() if frame.dry_run else frame.raise_floor()",
        "        floor = frame.due_floor()",
        ("tests/spark/test_vacuum_job.py::test_a_slow_writer_may_commit_before_any_read_or_change_that_vacuum_makes",),
    ),
    Guard(
        "vacuum-floor-before-search",
        "What is named is looked up after FLOOR was raised: a commit that landed before it is seen.",
        "sparklog/spark/vacuum_job.py",
        "        floor = frame.due_floor() if frame.dry_run else frame.raise_floor()\n"
        "        searches = _searches(frame, floor)",
        "        searches = _searches(frame, frame.due_floor())\n"
        "        floor = frame.due_floor() if frame.dry_run else frame.raise_floor()",
        ("tests/spark/test_vacuum_job.py::test_a_slow_writer_may_commit_before_any_read_or_change_that_vacuum_makes",),
    ),
    # ---- spark: what a job may do twice -------------------------------------------------------------
    Guard(
        "commit-in-driver",
        "Only what the winning tasks uploaded is committed, when all are done.",
        "sparklog/spark/batch_writer.py",
        "        return TaskMessage(task, socket.gethostname(), msgspec.msgpack.encode(written))",
        "        early = append_command(plan := self._plan(), [written])\n"
        "        if early is not None:\n"
        "            connection = shared(plan.places.cluster, self.options.storage)\n"
        "            connection.committer.submit(Submission(new_command_id(), plan.n0, early))\n"
        "        return TaskMessage(task, socket.gethostname(), msgspec.msgpack.encode(TaskWritten()))",
        ("tests/spark/test_failures.py::test_tasks_that_fail_after_their_upload_leave_each_row_once",),
    ),
    Guard(
        "every-message",
        "A commit without the message of a task is refused: rows would be missing.",
        "sparklog/spark/batch_writer.py",
        "    if len(sent) < len(messages):",
        "    if False:",
        ("tests/spark/test_batch_writer.py::test_a_commit_without_the_message_of_a_task_is_refused",),
    ),
    Guard(
        "attempt-names",
        "Each attempt of a task uploads under names of its own.",
        "sparklog/client/write_plan.py",
        "    return UploadId(uuid.uuid4().hex)",
        '    return UploadId("0" * 32)',
        ("tests/client/test_write_plan.py::test_each_attempt_of_a_task_uploads_under_names_of_its_own",),
    ),
    Guard(
        "abort-deletes-nothing",
        "An abort leaves the objects: a commit whose reply was lost may have named them.",
        "sparklog/spark/batch_writer.py",
        '        log.warning(\n            "sparklog write %s was given up by Spark',
        "        stores, topics = Stores(self._plan().places), self._plan().topics.values()\n"
        "        for message in filter(None, messages):\n"
        "            for each in msgspec.msgpack.decode(message.written, type=TaskWritten).objects:\n"
        "                name = next(topic.name for topic in topics if topic.topic_id == each.topic_id)\n"
        "                stores.get(each.holders[0].store).delete(data_key(each, name))\n"
        '        log.warning(\n            "sparklog write %s was given up by Spark',
        ("tests/spark/test_batch_writer.py::test_abort_after_a_commit_deletes_nothing",),
    ),
    Guard(
        "one-command-id",
        "A commit that Spark calls again is the same command.",
        "sparklog/spark/batch_writer.py",
        "        submission = Submission(plan.command_id, plan.n0, command)",
        "        submission = Submission(new_command_id(), plan.n0, command)",
        ("tests/spark/test_failures.py::test_commit_that_is_submitted_again_leaves_each_row_once",),
    ),
    Guard(
        "txn-skips",
        "A job that is run again after its commit adds no row.",
        "sparklog/spark/batch_writer.py",
        "        application = None if transaction is None else Application(transaction.app_id, transaction.version)",
        "        application = None",
        ("tests/spark/test_failures.py::test_a_job_that_failed_after_its_commit_is_run_again_as_a_no_op",),
    ),
    Guard(
        "files-visible",
        "Objects that executors wrote to disks of their own are not committed.",
        "sparklog/spark/batch_writer.py",
        "            if found != each.size_bytes:",
        "            if False:",
        ("tests/spark/test_batch_writer.py::test_objects_on_an_executors_own_disk_are_never_committed",),
    ),
    Guard(
        "other-cluster",
        "A write or read that was planned on another cluster at the address is refused.",
        "sparklog/client/connection.py",
        "        if found != chain_id:",
        "        if False:",
        ("tests/spark/test_batch_writer.py::test_a_write_that_was_begun_on_another_cluster_at_the_address_is_refused",),
    ),
    Guard(
        "secrets-of-writers",
        "No secret travels to tasks with a writer.",
        "sparklog/spark/batch_writer.py",
        "    return BatchWriter(options.for_tasks(),",
        "    return BatchWriter(options,",
        ("tests/spark/test_batch_writer.py::test_no_secret_is_in_what_travels_to_tasks",),
    ),
    Guard(
        "secrets-of-source",
        "No option travels to tasks with the source.",
        "sparklog/spark/source.py",
        "        self.options.clear()",
        "        pass",
        ("tests/spark/test_source.py::test_no_option_travels_to_the_tasks_with_the_source",),
    ),
)
