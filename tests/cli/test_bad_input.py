"""Bad input on the command line: one line that names what was wanted and found, an exit code, and nothing changed."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sparklog.storage.keys import entry_key
from tests.chain.newer_format import make_newer
from tests.cli.conftest import Cli
from tests.faults.unchanged_cluster import unchanged

PROJECT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("topic", "create", "n", "-c", "retention.mss=1"), 2, "found 'retention.mss'; did you mean retention.ms?"),
        (("topic", "create", "n", "-c", "retention.ms=soon"), 2, "retention.ms: wanted an integer >= -1"),
        (("topic", "alter", "orders", "-s", "segment.byte=1"), 2, "did you mean segment.bytes?"),
        (("consume", "orders", "--ofset", "1"), 2, "No such option: --ofset (Possible options: --offset)"),
        (("topic", "create", "orders"), 4, "TOPIC_ALREADY_EXISTS: topic orders exists"),
        (("topic", "create", "or/ders"), 2, "'or/ders' has '/'"),
        (("topic", "create", ""), 2, "but it is empty"),
        (("topic", "create", ".."), 2, "but it is '..'"),
        (("topic", "create", "x" * 250), 2, "has 250 characters"),
        (("topic", "create", "tiny_one"), 2, "collides with the existing topic 'tiny.one'"),
        (("topic", "create", "n", "-p", "0"), 2, "1 to 100000 partitions, found 0"),
        (("topic", "create", "n", "-r", "3"), 2, "needs as many stores, the cluster has 1"),
        (("topic", "add-partitions", "orders", "--total", "1"), 2, "they can only grow, found 1"),
        (("topic", "describe", "nope"), 3, "wanted topic 'nope', the cluster has orders, tiny.one"),
        (("topic", "delete", "nope"), 3, "wanted topic 'nope', the cluster has orders, tiny.one"),
        (("produce", "nope"), 3, "wanted topic 'nope', the cluster has orders, tiny.one"),
        (("produce", "orders", "-p", "7"), 3, "wanted partition 7 of topic orders, it has only partition 0"),
        (("produce", "tiny.one"), 2, "wanted at most 20 bytes of key, value and headers (max.message.bytes), found 40"),
        (("produce", "orders", "--json"), 2, "wanted a JSON object"),
        (("consume", "nope"), 3, "wanted topic 'nope', the cluster has orders, tiny.one"),
        (("consume", "orders", "-p", "7"), 3, "wanted partition 7 of topic orders, it has only partition 0"),
        (("consume", "orders", "-o", "9"), 2, "orders-0: wanted offset 9, the readable range is [0, 3)"),
        (("consume", "orders", "-o", "@2000:1000"), 2, "with A not after B"),
        (("cluster", "init"), 4, "CLUSTER_ALREADY_EXISTS"),
        (("job", "retention", "--topic", "nope"), 3, "nope"),
    ],
)
def test_bad_input_is_named_and_changes_nothing(orders: Cli, arguments: tuple[str, ...], code: int, text: str) -> None:
    assert orders("topic", "create", "tiny.one", "-c", "max.message.bytes=20").code == 0
    with unchanged(orders.url):
        said = orders(*arguments, stdin="small\n" + "x" * 40 + "\n")
        assert (said.code, said.out, said.err.count("\n")) == (code, "", 1)
        assert text in said.err
        assert said.err.split(":")[0].isupper()


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [(("topic", "create", "t"), ""), (("produce", "orders"), "d\n"), (("consume", "orders"), "")],
)
def test_a_cluster_of_a_newer_format_is_named_and_left_alone(
    orders: Cli, arguments: tuple[str, ...], stdin: str
) -> None:
    newest = max(Path(orders.url, "meta/log").rglob("0*[0-9]"))
    make_newer(newest)
    with unchanged(orders.url, ()):
        said = orders(*arguments, stdin=stdin)
        assert (said.code, said.out) == (2, "")
        assert said.err.startswith("UNSUPPORTED_VERSION: ")
        assert entry_key(int(newest.name)) in said.err


def test_an_address_with_nothing_behind_it_is_named_and_stays_empty(nowhere: Cli) -> None:
    for arguments in (("topic", "list"), ("topic", "create", "t"), ("produce", "t"), ("consume", "t"), ("job", "roll")):
        said = nowhere(*arguments, stdin="a\n")
        assert (said.code, said.out) == (3, "")
        assert said.err.startswith(f"CLUSTER_NOT_FOUND: no cluster at file://{nowhere.url}")
    assert not Path(nowhere.url).exists()


# ---- real disks -----------------------------------------------------------------------------------


def in_mounts(script: str, *arguments: str, before: tuple[str, ...] = ()) -> str:
    """What a shell script in its own mount name space prints; `run` in it is the command line, its code comes last."""
    run = f'run() {{ {sys.executable} -m sparklog --cluster "$1/cluster" "${{@:2}}" 2>&1; echo "-> $?"; }}\n'
    done = subprocess.run(
        ["unshare", "-m", *before, "bash", "-c", run + script, "bash", *arguments],
        cwd=PROJECT,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.usefixtures("can_mount")
def test_a_full_disk_is_named_and_what_was_acknowledged_is_all_there(orders: Cli, tmp_path: Path) -> None:
    script = """
        mount -t tmpfs -o size=2m none "$1" && cp -r "$2" "$1/cluster" || exit 1
        run "$1" produce orders --batch 2000 < "$3"
        find "$1/cluster" -path '*/.tmp/*' -type f
        cat /dev/zero > "$1/filler" 2> /dev/null
        run "$1" topic create t
        run "$1" cluster health | grep -E '^(healthy|wrong|->)'
        rm "$1/filler"
        run "$1" topic create t
        run "$1" consume orders
    """
    dice = random.Random(7)
    lines = [dice.randbytes(75).hex() for _ in range(40_000)]
    (tmp_path / "lines").write_text("\n".join(lines))
    (tmp_path / "disk").mkdir()
    said = in_mounts(script, str(tmp_path / "disk"), orders.url, str(tmp_path / "lines")).splitlines()
    assert said[0].startswith("STORE_FULL: wanted to write "), said[0]
    appended = int(said[0].split("; appended before it: ")[1].split()[0].replace(",", ""))
    assert appended > 0
    assert said[1] == "-> 1"
    assert (said[2].split(": ")[0], said[3]) == ("STORE_FULL", "-> 1")
    assert (said[4].split(), said[6]) == (["healthy", "no"], "-> 5")
    assert "store local: STORE_FULL: wanted to write " in said[5]
    assert said[7:9] == ["created topic t with 1 partition", "-> 0"]
    assert said[9:] == ["a", "b", "c", *lines[:appended], "-> 0"]


WRITES_THEN_READS = """
    run "$1" topic create t
    echo d | run "$1" produce orders
    run "$1" job retention
    run "$1" cluster health | grep -E '^(wrong|->)'
    run "$1" consume orders
"""


def check_only_reads_work(said: list[str]) -> None:
    assert [line for line in said if line.startswith("->")] == ["-> 1", "-> 1", "-> 1", "-> 5", "-> 0"]
    assert [said[at].split(": ")[0] for at in (0, 2)] == ["STORE_READ_ONLY"] * 2
    assert "STORE_READ_ONLY" in "".join(said[4:-6])
    assert said[-6].split()[:4] == ["wrong", "store", "local:", "STORE_READ_ONLY:"]
    assert said[-4:-1] == ["a", "b", "c"]


@pytest.mark.usefixtures("can_mount")
def test_a_read_only_disk_can_be_read_and_not_written(orders: Cli, tmp_path: Path) -> None:
    mount = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit 1'
    with unchanged(orders.url, ()):
        check_only_reads_work(in_mounts(mount + WRITES_THEN_READS, str(tmp_path)).splitlines())


@pytest.mark.usefixtures("can_mount")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv lets directory rights bind root")
def test_a_directory_without_write_permission_can_be_read_and_not_written(orders: Cli, tmp_path: Path) -> None:
    subprocess.run(["chmod", "-R", "a-w", orders.url], check=True)
    bound = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
    with unchanged(orders.url, ()):
        check_only_reads_work(in_mounts(WRITES_THEN_READS, str(tmp_path), before=bound).splitlines())
