"""Guards of `client` and `spark`: what a job may do twice, and what vacuum may delete."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

GUARDS: Final = (
    # ---- FLOOR first, then the search, then the deletions --------------------------------------------
    Guard(
        "vacuum-raises-floor",
        "Nothing is deleted before FLOOR refuses the commit that would name it.",
        "sparklog/maintenance/space/vacuum_job.py",
        "        floor = frame.due_floor() if frame.dry_run else frame.raise_floor()",
        "        floor = frame.due_floor()",
        (
            "tests/maintenance/space/test_vacuum_job.py::test_a_slow_writer_may_commit_before_any_read_or_change_that_vacuum_makes",
        ),
    ),
    Guard(
        "vacuum-floor-before-search",
        "Named objects are looked up after FLOOR is raised, so that every commit that landed before it is seen.",
        "sparklog/maintenance/space/vacuum_job.py",
        "        floor = frame.due_floor() if frame.dry_run else frame.raise_floor()\n"
        "        searches, self._failed = orphan_searches(frame, floor)",
        "        searches, self._failed = orphan_searches(frame, frame.due_floor())\n"
        "        floor = frame.due_floor() if frame.dry_run else frame.raise_floor()",
        (
            "tests/maintenance/space/test_vacuum_job.py::test_a_slow_writer_may_commit_before_any_read_or_change_that_vacuum_makes",
        ),
    ),
    Guard(
        "vacuum-uploads-delay",
        "An upload that is still under way is not dropped before FLOOR's delay is over.",
        "sparklog/maintenance/space/vacuum_job.py",
        "frame.job_time(state) - effective_cluster(state.config).floor_delay_ms",
        "frame.job_time(state)",
        (
            "tests/maintenance/space/test_vacuum_job.py::test_uploads_that_were_not_published_within_the_delay_are_dropped",
        ),
    ),
    Guard(
        "vacuum-lost-tasks",
        "A search whose task could not be run is a failure, and not a store without orphans.",
        "sparklog/maintenance/space/vacuum_job.py",
        "[OrphansFound(failed=1, errors=(str(error),))] * len(round_)",
        "[OrphansFound()] * len(round_)",
        (
            "tests/maintenance/test_lost_tasks.py::test_a_call_for_tasks_that_fails_is_reported_and_the_next_run_does_the_rest",
        ),
        choose="vacuum",
    ),
    # ---- what a job may do twice ---------------------------------------------------------------------
    Guard(
        "commit-in-driver",
        "Only the uploads of the winning tasks are committed, once all tasks are done.",
        "sparklog/spark/write/batch_writer.py",
        "        return TaskMessage(task, socket.gethostname(), msgspec.msgpack.encode(written))",
        "        from sparklog.chain.commit.committer import new_command_id\n"
        "        from sparklog.client.commits.commit_write import commit_append\n"
        "        early = append_command(plan := self._plan(), [written])\n"
        "        if early is not None:\n"
        "            connection = shared(plan.addresses.cluster, self.options.storage)\n"
        "            apart = msgspec.structs.replace(plan, command_id=new_command_id())\n"
        "            commit_append(connection, apart, [written], early, 120_000)\n"
        "        return TaskMessage(task, socket.gethostname(), msgspec.msgpack.encode(TaskWritten()))",
        ("tests/spark/test_failures.py::test_tasks_that_fail_after_their_upload_leave_each_row_once",),
    ),
    Guard(
        "every-message",
        "A commit that lacks a task's message is refused: rows would be missing.",
        "sparklog/spark/write/batch_writer.py",
        "    if len(sent) < len(messages):",
        "    if False:",
        ("tests/spark/write/test_batch_writer.py::test_a_commit_without_the_message_of_a_task_is_refused",),
    ),
    Guard(
        "attempt-names",
        "Each attempt at a task uploads under names of its own.",
        "sparklog/client/plans/task_upload.py",
        "    return UploadId(new_id())",
        '    return UploadId("0" * 32)',
        ("tests/client/plans/test_write_plan.py::test_each_attempt_of_a_task_uploads_under_names_of_its_own",),
    ),
    Guard(
        "abort-deletes-nothing",
        "An abort deletes no objects: a commit whose reply was lost may have named them.",
        "sparklog/spark/write/batch_writer.py",
        '        log.warning(\n            "sparklog write %s was given up by Spark',
        "        stores, topics = Stores(self._plan().addresses), self._plan().topics.values()\n"
        "        for message in filter(None, messages):\n"
        "            for each in msgspec.msgpack.decode(message.written, type=TaskWritten).objects:\n"
        "                name = next(topic.name for topic in topics if topic.topic_id == each.topic_id)\n"
        "                stores.get(each.holders[0].store).delete(data_key(each, name))\n"
        '        log.warning(\n            "sparklog write %s was given up by Spark',
        ("tests/spark/write/test_batch_writer.py::test_abort_after_a_commit_deletes_nothing",),
    ),
    Guard(
        "one-command-id",
        "If Spark calls commit again, the same command is submitted.",
        "sparklog/client/commits/commit_write.py",
        "commit.run(Submission(plan.command_id, plan.n0, command))",
        'commit.run(Submission(__import__("uuid").uuid4().hex, plan.n0, command))',
        ("tests/spark/test_failures.py::test_commit_that_is_submitted_again_leaves_each_row_once",),
    ),
    Guard(
        "txn-skips",
        "A job that is run again after its commit adds no rows.",
        "sparklog/spark/write/batch_writer.py",
        "        application = None if transaction is None else _application(transaction)",
        "        application = None",
        ("tests/spark/test_failures.py::test_a_job_that_failed_after_its_commit_is_run_again_as_a_no_op",),
    ),
    Guard(
        "txn-of-other-rows",
        "A job that says what its version is made of is told before it writes that another one has written it.",
        "sparklog/spark/write/batch_writer.py",
        "    if transaction is not None:\n        check_run(state, _application(transaction))\n",
        "",
        ("tests/spark/write/test_batch_writer.py::test_a_version_of_other_rows_is_no_repeat_if_its_author_says_so",),
    ),
    Guard(
        "files-visible",
        "Objects that executors wrote to their own disks are not committed.",
        "sparklog/spark/write/batch_writer.py",
        "            if size != uploaded.size_bytes:",
        "            if False:",
        ("tests/spark/write/test_batch_writer.py::test_objects_on_an_executors_own_disk_are_never_committed",),
    ),
    Guard(
        "other-cluster",
        "A write or read that was planned on another cluster at the address is refused.",
        "sparklog/client/connection.py",
        "        if present != chain_id:",
        "        if False:",
        (
            "tests/spark/write/test_batch_writer.py::test_a_write_that_was_begun_on_another_cluster_at_the_address_is_refused",
        ),
    ),
    Guard(
        "secrets-of-writers",
        "The writer that is sent to tasks holds no secret.",
        "sparklog/spark/write/batch_writer.py",
        "    return BatchWriter(options.for_tasks(),",
        "    return BatchWriter(options,",
        ("tests/spark/write/test_batch_writer.py::test_no_secret_is_in_what_travels_to_tasks",),
    ),
    Guard(
        "secrets-of-source",
        "The source that is sent to tasks holds no options.",
        "sparklog/spark/source.py",
        "        self.options.clear()  # Spark",
        "        pass  # Spark",
        ("tests/spark/test_source.py::test_no_option_travels_to_the_tasks_with_the_source",),
    ),
    # ---- a commit that is submitted again --------------------------------------------------------------
    Guard(
        "copy-incarnation",
        "A new leader's store that was wiped is not said to hold what was copied to it.",
        "sparklog/client/commits/holder_copies.py",
        "        check_incarnation(target, self.lane.incarnation, copied)\n",
        "",
        ("tests/client/commits/test_commit_write.py::test_a_copy_in_another_life_of_the_store_is_none",),
    ),
    Guard(
        "holder-registered-again",
        "A store that was registered again since the upload is not said to hold it.",
        "sparklog/client/commits/holder_copies.py",
        "    return registrations.get(holder.store) == holder.registration",
        "    return holder.store in registrations",
        ("tests/client/commits/test_commit_write.py::test_a_holder_that_was_registered_again_is_looked_at_again",),
    ),
    Guard(
        "copy-to-leader",
        "Objects are copied to a new leader that lacks them before the write is submitted again.",
        "sparklog/client/commits/commit_write.py",
        "            command = copies.bring(",
        "            copies.bring(",
        ("tests/client/commits/test_commit_write.py::test_objects_are_copied_to_a_new_leader_that_lacks_them",),
    ),
    Guard(
        "pull-waits",
        "A pulled write with acks=all is not acknowledged before every in-sync replica has it.",
        "sparklog/client/commits/commit_write.py",
        "                    self._await_followers(result)\n",
        "                    pass\n",
        ("tests/client/test_acks.py::test_a_pulled_write_goes_to_the_leader_and_waits_until_the_others_have_it",),
    ),
    Guard(
        "pull-forgotten",
        "A pulled write that an election forgot is not acknowledged because HW passed its offsets.",
        "sparklog/core/decide/append.py",
        "        named = value.log_start >= written.end or len(state.slices.find(topic_partition, last)) > 0\n",
        "        named = True\n",
        ("tests/client/test_acks.py::test_a_pulled_write_that_an_election_forgot_is_written_again",),
    ),
    Guard(
        "commits-in-order",
        "A write does not pass those with acks=0 that its caller made before.",
        "sparklog/client/cluster.py",
        "        if not self._unawaited.wait(deadline.left_s()):\n",
        "        if False:\n",
        ("tests/client/test_acks.py::test_a_write_never_passes_one_with_acks_0_that_was_begun_before",),
    ),
    Guard(
        "yarn-starts-spark",
        "A job without work starts Spark in a driver that YARN runs: YARN would call it failed.",
        "sparklog/spark/job_session.py",
        '    if "SPARK_YARN_STAGING_DIR" in os.environ:',
        "    if False:",
        ("tests/spark/test_job_session.py::test_a_driver_that_yarn_runs_starts_spark_also_without_work",),
    ),
)
