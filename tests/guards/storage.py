"""Guards of `storage`: puts are conditional and durable, and reads are whole."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_SWAPPED: Final = (
    "tests/storage/test_local_faults.py"
    "::test_a_disk_that_is_swapped_while_two_objects_are_looked_up_is_not_taken_for_one_place"
)

GUARDS: Final = (
    Guard(
        "local-same-folder",
        "A write that a disk was mounted over does not count.",
        "sparklog/storage/local/names.py",
        "                if not _is_at(folder, folder_fd):",
        "                if False:",
        ("tests/storage/test_local_faults.py::test_a_disk_that_is_swapped_during_publish_leaves_the_outcome_unknown",),
    ),
    Guard(
        "local-mark-of-one-place",
        "A mark and what lies beside it are read in one directory, whatever is mounted meanwhile.",
        "sparklog/storage/local/store.py",
        "os.open(path if root is None else key, os.O_RDONLY | os.O_CLOEXEC, dir_fd=root)",
        "os.open(path, os.O_RDONLY | os.O_CLOEXEC)",
        (_SWAPPED,),
    ),
    Guard(
        "local-others-of-one-place",
        "What lies beside a mark is looked up in the directory of the mark.",
        "sparklog/storage/local/store.py",
        "os.stat(check_key(other), dir_fd=root)",
        "os.stat(self._path(other))",
        (_SWAPPED,),
    ),
    Guard(
        "local-link",
        "On a disk, a put does not replace an object that has the name.",
        "sparklog/storage/local/names.py",
        "                os.link(temporary, name, dst_dir_fd=folder_fd)",
        "                os.replace(temporary, name, dst_dir_fd=folder_fd)",
        (
            "tests/contract/test_local_store.py::TestLocalStore::"
            "test_a_second_put_finds_the_key_taken_and_changes_nothing",
        ),
    ),
    Guard(
        "local-fsync-file",
        "On a disk, the bytes are durable before they get a name.",
        "sparklog/storage/local/upload.py",
        "                os.fsync(fd)\n",
        "",
        ("tests/storage/test_local.py::test_bytes_then_name_then_directory_reach_the_disk_before_the_answer",),
    ),
    Guard(
        "local-fsync-directory",
        "On a disk, the name is durable before the answer.",
        "sparklog/storage/local/names.py",
        "                try:\n                    os.fsync(folder_fd)",
        "                try:\n                    pass",
        ("tests/storage/test_local.py::test_bytes_then_name_then_directory_reach_the_disk_before_the_answer",),
    ),
    Guard(
        "local-length",
        "On a disk, a range beyond the end of a cut file is damage, not a crash.",
        "sparklog/storage/local/store.py",
        "                if end > status.st_size:",
        "                if False:",
        ("tests/storage/test_local.py::test_a_file_that_was_cut_is_damage_with_file_and_numbers",),
    ),
    Guard(
        "local-maps",
        "On a disk, a reader that keeps what it reads leaves descriptors for others.",
        "sparklog/storage/local/store.py",
        " or len(_maps) >= _MOST_MAPS:",
        ":",
        ("tests/storage/test_local.py::test_however_much_is_held_descriptors_are_left",),
    ),
    Guard(
        "local-small-reads",
        "On a disk, cutting a small object after it was read does not kill the process.",
        "sparklog/storage/local/store.py",
        "_MAP_FROM_BYTES = 1 << 20",
        "_MAP_FROM_BYTES = 1",
        ("tests/storage/test_local.py::test_what_was_read_of_a_small_object_outlives_a_cut_of_its_file",),
    ),
    Guard(
        "local-cut-while-copied",
        "On a disk, a file that is cut while it is read is damage.",
        "sparklog/storage/local/store.py",
        "        if not count:\n            raise _too_short(path, start, end, start + at)\n",
        "        if not count:\n            break\n",
        ("tests/storage/test_local.py::test_a_file_that_is_cut_while_it_is_copied_is_damage",),
    ),
    Guard(
        "s3-if-none-match",
        "On S3, a put says that the key must be absent.",
        "sparklog/storage/s3/control.py",
        ', mode="create"',
        "",
        ("tests/storage/test_s3.py::test_a_put_is_one_conditional_request_that_waits_for_no_permission",),
    ),
    Guard(
        "s3-bulk-if-none-match",
        "On S3, a put of a large body says that the key must be absent.",
        "sparklog/storage/s3/bucket.py",
        '{"If-None-Match": "*", ',
        "{",
        ("tests/storage/test_s3.py::test_a_put_is_one_conditional_request_that_waits_for_no_permission",),
    ),
    Guard(
        "s3-send-once",
        "On S3, no library repeats a request on its own.",
        "sparklog/storage/s3/control.py",
        "    retries = 1\n",
        "    retries = 5\n",
        ("tests/storage/test_s3.py::test_after_a_lost_answer_ones_own_object_is_a_success",),
        "reset",
    ),
    Guard(
        "s3-parts-if-none-match",
        "On S3, completing an upload in parts says that the key must be absent.",
        "sparklog/storage/s3/upload.py",
        '                "IfNoneMatch": "*",\n                "MultipartUpload"',
        '                "MultipartUpload"',
        ("tests/storage/test_s3.py::test_a_large_upload_is_completed_only_if_the_key_is_absent",),
    ),
    Guard(
        "s3-read-back",
        "On S3, if the key is taken after a lost answer, the object is looked up: it may be our own.",
        "sparklog/storage/repeats.py",
        "                if (in_doubt or self.always_looks) and self._is_own(",
        "                if False and self._is_own(",
        ("tests/storage/test_s3.py::test_after_a_lost_answer_ones_own_object_is_a_success",),
        "reset",
    ),
    Guard(
        "s3-write-id",
        "On S3, somebody else's object is not taken for our own.",
        "sparklog/storage/repeats.py",
        "self.write_id_there(deadline), deadline) == self.write_id",
        "self.write_id_there(deadline), deadline) is not None",
        ("tests/storage/test_s3.py::test_after_a_lost_answer_anothers_object_is_a_taken_key",),
    ),
    Guard(
        "s3-length",
        "On S3, a cut answer is requested again, not taken for a short object.",
        "sparklog/storage/s3/reads.py",
        "        if count < len(into):",
        "        if False:",
        ("tests/storage/test_s3.py::test_a_body_that_is_cut_each_time_is_an_unavailable_store_not_a_short_object",),
    ),
    Guard(
        "gcs-if-generation-match",
        "In Google Cloud Storage, a put says that the key must be absent.",
        "sparklog/storage/fsspec/gcs.py",
        '            ifGenerationMatch="0",\n',
        "",
        ("tests/faults/test_cloud_faults.py::test_a_write_is_one_conditional_request",),
        "fake_gcs",
    ),
    Guard(
        "azure-if-none-match",
        "In Azure, a put says that the key must be absent.",
        "sparklog/storage/fsspec/azure.py",
        "overwrite=False",
        "overwrite=True",
        ("tests/faults/test_cloud_faults.py::test_a_write_is_one_conditional_request",),
        "azurite and small",
    ),
    Guard(
        "azure-blocks-if-none-match",
        "In Azure, blocks become an object only if the key is absent.",
        "sparklog/storage/fsspec/azure.py",
        "match_condition=MatchConditions.IfMissing, ",
        "",
        ("tests/faults/test_cloud_faults.py::test_a_write_is_one_conditional_request",),
        "azurite and large",
    ),
    Guard(
        "azure-send-once",
        "In Azure, no library repeats a put on its own.",
        "sparklog/storage/fsspec/azure.py",
        "_retry_connection = False",
        "_retry_connection = True",
        ("tests/faults/test_cloud_faults.py::test_a_refusal_after_a_lost_answer_leaves_the_outcome_unknown",),
        "azurite",
    ),
    Guard(
        "clouds-fork",
        "A forked process does not close its parent's connections to clouds.",
        "sparklog/storage/fsspec/clients.py",
        "            finalizer.detach()",
        "            pass",
        (
            "tests/faults/test_cloud_faults.py::test_a_forked_process_reads_and_writes_with_connections_of_its_own_and_ends",
        ),
        "azurite",
    ),
    Guard(
        "probe",
        "A store that lets two writers win is refused before it holds a cluster.",
        "sparklog/client/bootstrap.py",
        "        check_store(target, new_id())",
        "        pass",
        (
            "tests/storage/test_probe_servers.py::"
            "test_a_server_that_ignores_conditions_is_refused_for_data_and_for_metadata",
        ),
    ),
    Guard(
        "hdfs-rename",
        "On HDFS, a put does not replace an object that has the name.",
        "sparklog/storage/hdfs/upload.py",
        "client.rename(temporary, self._path, overwrite=False)",
        "client.rename(temporary, self._path, overwrite=True)",
        (
            "tests/contract/test_hdfs_store.py::TestHdfsStore::"
            "test_a_second_put_finds_the_key_taken_and_changes_nothing",
        ),
    ),
    Guard(
        "hdfs-unclosed",
        "On HDFS, a file that is still being written is not taken for an empty object.",
        "sparklog/storage/hdfs/store.py",
        "        if len(reader) == 0 and self._status(key, deadline).length:",
        "        if False:",
        ("tests/storage/test_hdfs.py::test_a_file_that_its_writer_has_not_closed_is_not_taken_for_an_empty_object",),
    ),
    Guard(
        "hdfs-settle",
        "On HDFS, after a rename without an answer the object is looked up: it may be there.",
        "sparklog/storage/hdfs/upload.py",
        "                self._settle(temporary, failed)",
        '                raise StoreUnavailable("no answer") from failed',
        ("tests/storage/test_hdfs_faults.py::test_a_rename_whose_answer_was_lost_is_found_to_have_landed",),
    ),
)
