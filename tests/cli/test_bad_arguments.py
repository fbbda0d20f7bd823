"""Arguments that are missing, malformed, contradictory, huge or strange, verb by verb: refused, and nothing changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli, Said
from tests.faults.unchanged_cluster import unchanged

HUGE = "9" * 25

TOPIC = [
    ("create", 2, "Missing argument 'TOPIC'"),
    ("create t extra", 2, "unexpected extra argument"),
    ("create ördérs", 2, "INVALID_TOPIC_EXCEPTION: "),
    ("create t -p -1", 2, "1 to 100000 partitions, found -1"),
    (f"create t -p {HUGE}", 2, f"found {HUGE}"),
    ("create t -r 0", 2, "wanted a replication factor of at least 1, found 0"),
    ("create t -c =1", 2, "--topic-config: wanted KEY=VALUE, found '=1'"),
    ("create t -c retention.ms=", 2, "retention.ms: wanted an integer >= -1 (milliseconds), found ''"),
    ("create t -c retention.ms=1e3", 2, "found '1e3'"),
    ("create t -c segment.bytes=-1", 2, "segment.bytes: wanted an integer >= 1 (bytes), found '-1'"),
    ("create t -c a=b -c a=c", 2, "--topic-config: a is given twice"),
    ("create t -c cleanup.policy=compact,", 2, "found 'compact,'"),
    ("alter orders", 2, "nothing to change"),
    ("alter orders -d nope.key", 2, "wanted a config key of a topic, found 'nope.key'"),
    ("alter orders -s retention.ms=1 -d retention.ms", 2, "retention.ms is in both"),
    ("add-partitions orders", 2, "Missing option '--total'"),
    ("create t --assignment local:", 2, "--assignment: wanted stores of each partition, as a:b,b:a, found 'local:'"),
    ("create t --assignment ,", 2, "--assignment: wanted stores of each partition, as a:b,b:a, found ','"),
    ("create t --assignment nope", 2, "INVALID_REPLICA_ASSIGNMENT: partition 0 needs 1 different stores"),
    ("create t --assignment local:local", 2, "found ['local', 'local']"),
    (
        "create t --assignment local -p 1",
        2,
        "a manual assignment already gives the partitions and the replication factor",
    ),
    ("add-partitions orders --total 2 --assignment local,local", 2, "assignment of 1 new partition, found one of 2"),
    ("add-partitions orders --total -3", 2, "has 1 partition; they can only grow, found -3"),
    (f"add-partitions orders --total {HUGE}", 2, "1 to 100000 partitions"),
    ("offsets orders --time soon", 2, "found 'soon'"),
    ("offsets orders --time 2026-01-01", 2, "wanted a time with its zone"),
    ("offsets orders --time 2026-13-01T00:00:00Z", 2, "found '2026-13-01T00:00:00Z'"),
    (f"offsets orders --time {HUGE}", 2, HUGE),
    ("crate t", 2, "Did you mean 'create'"),
]
PRODUCE = [
    ("", 2, "Missing argument 'TOPIC'"),
    ("nope", 3, "wanted topic 'nope', the cluster has orders"),
    ("orders -p 77", 3, "UNKNOWN_TOPIC_OR_PARTITION: wanted partition 77 of topic orders, it has only partition 0"),
    (f"orders -p {HUGE}", 3, f"wanted partition {HUGE} of topic orders"),
    ("orders -p -1", 2, "--partition"),
    ("orders -p x", 2, "--partition"),
    ("orders -z gzip", 2, "compression: wanted zstd, lz4 or none, found 'gzip'"),
    ("orders --batch 0", 2, "--batch"),
    ("orders --linger-ms -5", 2, "--linger-ms"),
    ("orders --key-separator=", 2, "--key-separator: wanted a text"),
    ("orders --base64", 2, "--base64 needs --json"),
]
CONSUME = [
    ("orders -o soon", 2, "--offset: wanted start, end, N, -N or @TIME[:TIME], found 'soon'"),
    ("orders -o 1.5", 2, "found '1.5'"),
    ("orders -o 1_0", 2, "found '1_0'"),
    ("orders -o ²", 2, "found '²'"),
    (f"orders -o {HUGE}", 2, f"OFFSET_OUT_OF_RANGE: orders-0: wanted offset {HUGE}, the readable range is [0, 3)"),
    ("orders -o @", 2, "found ''"),
    ("orders -o @1:2:3", 2, "found '1:2:3'"),
    ("orders -o @2026-01-01", 2, "wanted a time with its zone"),
    ("orders -n 0", 2, "--num"),
    ("orders -p -1", 3, "wanted partition -1 of topic orders"),
    ("orders -p 0 -p 9", 3, "wanted partition 9 of topic orders, it has only partition 0"),
    ("orders --base64", 2, "--base64 needs --format json"),
    ("orders --key-separator : --format json", 2, "--key-separator applies to plain lines"),
]
OTHERS = [
    ("segment list orders --offset -1", 2, "--offset"),
    ("segment list orders -n 0", 2, "--num"),
    ("segment dump orders -p 9", 3, "wanted partition 9 of topic orders"),
    ("segment dump nope", 3, "wanted topic 'nope'"),
    ("chain tail -n 0", 2, "--num"),
    ("chain write nothing-like-it", 3, "did not land"),
    ("chain statee", 2, "Did you mean 'state'?"),
    ("job retention --now soon", 2, "found 'soon'"),
    ("job nope", 2, "No such command 'nope'"),
    ("--config /nonexistent topic list", 2, "--config: /nonexistent can't be read: No such file or directory"),
    ("--config / topic list", 2, "--config: / can't be read: Is a directory"),
    ("topic list --format", 2, "--format needs a value"),
    ("--nope", 2, "No such option: --nope"),
]
CASES = [
    *((("topic", *line.split()), code, text) for line, code, text in TOPIC),
    *((("produce", *line.split()), code, text) for line, code, text in PRODUCE),
    *((("consume", *line.split()), code, text) for line, code, text in CONSUME),
    *((tuple(line.split()), code, text) for line, code, text in OTHERS),
    (("topic", "create", "a\nb"), 2, r"'a\nb' has '\n'"),
    (("topic", "describe", ""), 3, "wanted topic ''"),
    (("chain", "write", ""), 2, "found an empty one"),
    (("chain", "write", "x\udcff"), 3, "did not land"),
]


@pytest.mark.parametrize(("arguments", "code", "text"), CASES, ids=[" ".join(each[0])[:60] for each in CASES])
def test_bad_arguments_are_refused_without_any_input(
    orders: Cli, arguments: tuple[str, ...], code: int, text: str
) -> None:
    with unchanged(orders.url, ()):
        check(orders(*arguments), code, text)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('{"value":"x","timestamp":"soon"}', "$.timestamp"),
        ('{"value":"x","timestamp":99999999999999999}', "$.timestamp"),
        (
            '{"value":"x","timestamp":1,"timestamp_us":5000}',
            "(ms) and timestamp_us to be the same time",
        ),
        ('{"value":"x","partition":-1}', "$.partition"),
        ('{"value":"x","partition":5}', "'partition': wanted 0 to 0, found 5: topic orders has 1 partition"),
        ('{"value":"x","headers":{"a":"b"}}', "$.headers"),
        ('{"vaule":"x"}', "did you mean value?"),
        ("{}", "value"),
        ("[1]", "found '[1]'"),
        ("", "wanted a JSON object, found a text that ends too early: ''"),
        ('{"value":"x"} {"value":"y"}', "wanted a JSON object"),
    ],
)
def test_a_bad_record_is_refused_with_its_line(orders: Cli, line: str, text: str) -> None:
    with unchanged(orders.url):
        said = orders("produce", "orders", "--json", stdin=f"{line}\n")
    check(said, 3 if "wanted 0 to" in text else 2, text)


def test_times_in_both_units_that_agree_are_taken(orders: Cli) -> None:
    line = orders("consume", "orders", "-n", "1", "--format", "json").out
    assert orders("produce", "orders", "--json", stdin=line).code == 0


@pytest.mark.parametrize(
    ("stores", "text"),
    [
        (["a b=/x"], "the id of a store is 1 to 100 of a-z A-Z 0-9 . _ - and does not begin with a dot, found 'a b'"),
        ([" a=x"], "found ' a'"),
        (["a/b=x"], "found 'a/b'"),
        (["..=x"], "found '..'"),
        (["é=x"], "found 'é'"),
        (["metadata=x"], "means the place of the metadata"),
        (["a=x", "A=y"], "needs an id of its own, found 'a' and 'A'"),
        (["a"], "--store: wanted ID=URL or ID@ZONE=URL, found 'a'"),
        (["=x"], "--store: wanted ID=URL or ID@ZONE=URL, found '=x'"),
        (["@z=x"], "--store: wanted ID=URL or ID@ZONE=URL, found '@z=x'"),
        (["a@=x"], "--store: wanted ID=URL or ID@ZONE=URL, found 'a@=x'"),
        (["a@z 1=x"], "a zone is up to 100 of a-z A-Z 0-9 . _ / -, like eu-west-1a or dc1/rack7, found 'z 1'"),
        (["a="], "not empty"),
        (["a=x", "a=y"], "--store: a is given twice"),
        (["a=memory://x"], "store a at memory://x would end with this process"),
        (["a=s4://bucket"], "not s4:// in 's4://bucket'"),
        (["a=s3://"], "found the bucket ''"),
        (["a=s3//bucket"], "has '://' after its scheme, found 's3//bucket'"),
        (["a=http://host"], "the address of a coordinator"),
        (["a=localhost:9092"], "this is a Kafka address"),
        (["a=../../../../../../../../../../x"], "lies outside the cluster's address"),
    ],
)
def test_a_malformed_store_makes_no_cluster(nowhere: Cli, stores: list[str], text: str) -> None:
    said = nowhere("cluster", "init", *(part for each in stores for part in ("--store", each)))
    check(said, 2, text)
    assert not Path(nowhere.url).exists()


def test_two_ids_for_one_address_make_no_cluster(nowhere: Cli) -> None:
    said = nowhere("cluster", "init", "--store", "a=x", "--store", "b=./x")
    check(said, 4, "DUPLICATE_BROKER_REGISTRATION: wanted stores at addresses of their own, found a and b at file://")
    assert not Path(nowhere.url).exists()


@pytest.mark.parametrize(
    ("url", "code", "text"),
    [
        ("fiel:///tmp/x", 2, "not fiel:// in 'fiel:///tmp/x'; did you mean file?"),
        (
            "s4://bucket/x",
            2,
            "s3://bucket/prefix, gs://bucket/prefix, abfs://container/prefix, hdfs://host/path or memory://name, not s4://",
        ),
        ("hfds://host/x", 2, "did you mean hdfs?"),
        ("s3//bucket/x", 2, "a store is a path, or has '://' after its scheme"),
        ("://x", 2, "a store is a path, or has '://' after its scheme"),
        ("  ", 2, "the address of a store has no blank at its ends"),
        ("file://host/x", 2, "a file URL is file:///absolute/path on this machine"),
        ("s3:bucket", 2, "'//' after its scheme"),
        (
            "https://user:secret@host/x",
            2,
            "the address of a coordinator has no user and no password, found one: https://…",
        ),
        ("s3://key:secret@bucket/x", 2, "no '@'"),
        ("x" * 5000, 2, "File name too long"),
        ("/proc/nothing/here", 3, "CLUSTER_NOT_FOUND: "),
    ],
)
def test_an_address_with_a_mistake_is_refused(nowhere: Cli, url: str, code: int, text: str) -> None:
    said = nowhere("--cluster", url, "topic", "list")
    check(said, code, text)
    assert "secret" not in said.err


@pytest.mark.parametrize("below", ["", "/below"])
@pytest.mark.parametrize("verb", ["topic list", "cluster init", "cluster health", "consume orders"])
def test_a_file_is_no_cluster(nowhere: Cli, tmp_path: Path, verb: str, below: str) -> None:
    file = tmp_path / "hostname"
    file.write_text("here\n")
    said = nowhere("--cluster", f"{file}{below}", *verb.split())
    check(said, 2, f"INVALID_REQUEST: wanted a directory for a store, found a file at {file}{below}, or on the way")
    assert file.read_text() == "here\n"


def check(said: Said, code: int, text: str) -> None:
    """One line on stderr with a code, nothing on stdout."""
    assert (said.code, said.out, said.err.count("\n")) == (code, "", 1), said
    assert text in said.err
    assert said.err.split(":")[0].replace("_", "").isupper()
