"""Damage anywhere in a cluster gives a named error or the right rows, never wrong rows or a crash."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import connect
from sparklog.core.errors import Damaged, SparklogError
from sparklog.log import batch
from sparklog.log.read import object_reader

SAMPLES, SAMPLES_OF_A_CAMPAIGN = 250, 10_000
CUTS, CUTS_OF_A_CAMPAIGN = 20, 40  # of each file


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster with a snapshot, entries after it, an append object of two partitions, and a large command's body."""
    root = tmp_path_factory.mktemp("whole") / "cluster"
    init_cluster(str(root))
    with connect(str(root)) as cluster:
        cluster.create_topic("t", partitions=2)
        table = pa.table({"key": [f"k{at % 7}" for at in range(40)], "value": [f"v{at}" * 3 for at in range(40)]})
        cluster.append("t", table)
        cluster.connection.committer.snapshots.write()
        cluster.append("t", table.slice(0, 10), compression="none")
    return root


def everything(root: Path) -> list[list[dict[str, object]]]:
    """All records by partition, read as a fresh process would."""
    object_reader._cache._indexes.clear()
    with connect(str(root)) as cluster:
        return [cluster.read("t", partition=at, include_headers=True).to_pylist() for at in range(2)]


def files_of(root: Path) -> list[Path]:
    return sorted(each for each in root.rglob("*") if each.is_file() and ".tmp" not in each.parts)


# M: F-04
def test_any_flipped_bit_is_a_named_error_or_harmless(
    whole: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    wanted = everything(whole)
    samples = SAMPLES_OF_A_CAMPAIGN if request.config.getoption("--campaign") else SAMPLES
    dice = random.Random(20261121)
    broken = tmp_path / "broken"
    shutil.copytree(whole, broken)
    files = files_of(broken)
    messages: list[str] = []
    for _ in range(samples):
        path = dice.choice(files)
        before = path.read_bytes()
        at = dice.randrange(len(before))
        flipped = bytearray(before)
        flipped[at] ^= 1 << dice.randrange(8)
        _replace(path, bytes(flipped))
        try:
            assert everything(broken) == wanted, f"{path} byte {at}"
        except SparklogError as error:
            messages.append(str(error))
        _replace(path, before)
    assert all(": " in each for each in messages)
    assert len(messages) > samples // 10  # damage to the snapshot is harmless: the entries are read


# M: F-04
def test_any_cut_is_a_named_error_or_harmless(whole: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    wanted = everything(whole)
    cuts = CUTS_OF_A_CAMPAIGN if request.config.getoption("--campaign") else CUTS
    broken = tmp_path / "broken"
    shutil.copytree(whole, broken)
    messages: list[str] = []
    for path in files_of(broken):
        before = path.read_bytes()
        for length in sorted({*range(0, len(before), max(1, len(before) // cuts)), len(before) - 1}):
            _replace(path, before[:length])
            try:
                assert everything(broken) == wanted, f"{path} cut to {length}"
            except SparklogError as error:
                messages.append(str(error))
        _replace(path, before)
    assert all(": " in each for each in messages)


# M: F-04
def test_without_the_checksum_before_decoding_a_flipped_bit_would_be_served(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = everything(whole)
    broken = tmp_path / "broken"
    shutil.copytree(whole, broken)
    (path,) = (each for each in broken.rglob("*.arrow") if b"v33v33" in each.read_bytes())
    _replace(path, path.read_bytes().replace(b"v33v33", b"v33v32"))
    with pytest.raises(Damaged, match=rf"record batch at byte \d+ of .*{path.stem}.*: wanted CRC32C 0x.*, found 0x"):
        everything(broken)
    monkeypatch.setattr(batch, "verify", lambda *arguments: None)
    served = [row["value"] for rows in everything(broken) for row in rows]
    assert b"v33v32v33" in served
    assert served != [row["value"] for rows in wanted for row in rows]


# M: F-05
def test_a_missing_index_is_rebuilt_from_its_object(whole: Path, tmp_path: Path) -> None:
    wanted = everything(whole)
    broken = tmp_path / "broken"
    shutil.copytree(whole, broken)
    for index in broken.rglob("*.index"):
        index.unlink()
    assert everything(broken) == wanted


# M: F-04
def test_a_missing_object_is_data_loss(whole: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(whole, broken)
    for each in broken.rglob("*.arrow"):
        if "append" in each.parts:
            each.unlink()
    with pytest.raises(SparklogError, match="DATA_LOSS"):
        everything(broken)


def _replace(path: Path, body: bytes) -> None:
    """Write a new inode, so that whatever is still mapped from the old one stays as it was."""
    path.unlink()
    path.write_bytes(body)
