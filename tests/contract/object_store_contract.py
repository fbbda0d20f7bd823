"""What every object store must do: one suite, run on each adapter.

An adapter's test file derives `ObjectStoreContract`, gives a fixture `store_url` (a fresh, empty store), and
says how many races it can afford and whether other processes reach its stores.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparklog.core.errors import Damaged, InvalidInput, KeyExists, KeyNotFound, Landed, StoreUnavailable
from sparklog.host.clock import now_ms
from sparklog.storage.object_store import ObjectStore, Upload
from sparklog.storage.open_store import open_store
from tests.contract.racing_writers import Outcome, Round, race_processes, race_threads

KIB = 1024
HALF_A_DAY_MS = 43_200_000
LATER_MS = 2**53  # later than any upload of these tests
RACES_TIMEOUT_S = 3600  # a campaign takes minutes; a writer that hangs is found by the others, which wait less

ILLEGAL_KEYS = ["", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", ".tmp/a", "a/.b", "a b", "a\0", "ä"]
ILLEGAL_KEYS += ["a\n", "a\\b", "x" * 256, "/".join(["x"] * 513)]

# Characters on both sides of '/' in the order of keys.
_parts = st.text("-.0Aa_", min_size=1, max_size=3).filter(lambda part: not part.startswith("."))
_keys = st.lists(_parts, min_size=1, max_size=3).map("/".join)
# One store serves all examples of a property (each in a folder of its own), and one property all adapters.
_shared = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors], max_examples=20
)


def _without_folders(keys: list[str]) -> list[str]:
    """The keys that are not a folder of another one: a local disk can't hold both."""
    return sorted(key for key in set(keys) if not any(other.startswith(f"{key}/") for other in keys))


class ObjectStoreContract:
    """Derive it, and give `store_url`."""

    races: ClassVar[dict[int, int]] = {0: 100, KIB: 100, 300 * KIB: 20, 8 * KIB * KIB: 1}  # body size -> rounds
    campaign: ClassVar[dict[int, int]] = {0: 500, KIB: 500, 300 * KIB: 500, 8 * KIB * KIB: 50}  # with --campaign
    other_processes: ClassVar[bool] = True  # whether they reach the store by its address
    below_objects: ClassVar[bool] = True  # whether the server bears to be asked for `a/b` while there is an `a`

    @pytest.fixture
    def store_url(self) -> str:
        raise NotImplementedError("an adapter's test file gives the address of a fresh, empty store")

    @pytest.fixture
    def store(self, store_url: str) -> ObjectStore:
        return open_store(store_url)

    @pytest.fixture
    def folders(self) -> Callable[[], str]:
        """Names that no example has used."""
        numbers = itertools.count()
        return lambda: f"example-{next(numbers)}/"

    # ---- put-if-absent --------------------------------------------------------------------------

    @pytest.mark.parametrize("size_bytes", [0, 1, KIB, 64 * KIB - 1, 64 * KIB, 300 * KIB, 8 * KIB * KIB])
    def test_what_was_put_reads_back_whole(self, store: ObjectStore, size_bytes: int) -> None:
        body = bytes(range(256)) * (size_bytes // 256) + bytes(size_bytes % 256)
        store.put_if_absent("a/b", body)
        assert bytes(store.get("a/b")) == body
        assert store.size("a/b") == size_bytes
        assert [(each.key, each.size_bytes) for each in store.list_keys("")] == [("a/b", size_bytes)]

    def test_what_was_put_is_beside_what_else_is_there(self, store: ObjectStore) -> None:
        store.put_if_absent("a/b", b"body")
        store.put_if_absent("mark", b"mark")
        assert bytes(store.get_beside("mark", ["a/b", "mark"])) == b"mark"
        with pytest.raises(KeyNotFound):
            store.get_beside("other", ["a/b"])

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    def test_a_body_is_taken_from_any_buffer(self, store: ObjectStore, kind: type[bytes]) -> None:
        store.put_if_absent("put", kind(b"body"))
        with store.upload("upload") as upload:
            upload.write(kind(b"body"))
            upload.publish()
        assert bytes(store.get("put")) == bytes(store.get("upload")) == b"body"

    def test_an_object_does_not_change_with_the_buffer_it_came_from(self, store: ObjectStore) -> None:
        body = bytearray(b"old")
        store.put_if_absent("a", body)
        body[:] = b"new"
        assert bytes(store.get("a")) == b"old"

    def test_a_second_put_finds_the_key_taken_and_changes_nothing(self, store: ObjectStore) -> None:
        store.put_if_absent("a", b"first")
        with pytest.raises(KeyExists) as refused:
            store.put_if_absent("a", b"second")
        assert refused.value.landed is Landed.NO
        assert "a" in str(refused.value)
        with store.upload("a") as upload:
            upload.write(b"third")
            with pytest.raises(KeyExists):
                upload.publish()
        assert bytes(store.get("a")) == b"first"

    def test_two_stores_of_one_address_are_one_store(self, store: ObjectStore, store_url: str) -> None:
        store.put_if_absent("a", b"first")
        other = open_store(store_url)
        assert other.url == store.url
        assert bytes(other.get("a")) == b"first"
        with pytest.raises(KeyExists):
            other.put_if_absent("a", b"second")

    @pytest.mark.timeout(RACES_TIMEOUT_S)
    def test_one_of_eight_racing_threads_wins_and_every_loser_knows_it(
        self, store: ObjectStore, rounds: list[Round]
    ) -> None:
        self._check_races(store, rounds, race_threads(store, rounds))

    @pytest.mark.timeout(RACES_TIMEOUT_S)
    def test_one_of_eight_racing_processes_wins_and_every_loser_knows_it(
        self, store: ObjectStore, rounds: list[Round]
    ) -> None:
        if not self.other_processes:
            pytest.skip(f"{store.url} lives in one process")
        self._check_races(store, rounds, race_processes(store.url, rounds))

    @pytest.fixture
    def rounds(self, request: pytest.FixtureRequest) -> list[Round]:
        races = self.campaign if request.config.getoption("--campaign") else self.races
        return [
            Round(f"race/{size_bytes}/{number}", size_bytes)
            for size_bytes, rounds in races.items()
            for number in range(rounds)
        ]

    def _check_races(self, store: ObjectStore, rounds: list[Round], outcomes: list[Outcome]) -> None:
        assert [(each, came) for each, came in zip(rounds, outcomes, strict=True) if not came.right] == []
        assert list(store.list_keys("")) == []

    # ---- uploads --------------------------------------------------------------------------------

    def test_an_upload_is_seen_only_when_published_and_then_whole(self, store: ObjectStore) -> None:
        pieces = [b"a" * 10, b"", b"b" * 300 * KIB, b"c"]
        with store.upload("a") as upload:
            for piece in pieces:
                upload.write(piece)
                assert list(store.list_keys("")) == []
                with pytest.raises(KeyNotFound):
                    store.get("a")
            upload.publish()
            assert bytes(store.get("a")) == b"".join(pieces)
            upload.abort()
        assert bytes(store.get("a")) == b"".join(pieces)

    def test_an_upload_of_nothing_is_an_empty_object(self, store: ObjectStore) -> None:
        with store.upload("a") as upload:
            upload.publish()
        assert bytes(store.get("a")) == b""
        assert [bytes(part) for part in store.get_ranges("a", [(0, 0)])] == [b""]

    def test_an_upload_that_is_not_published_leaves_no_object(self, store: ObjectStore) -> None:
        with store.upload("left"):
            pass
        with store.upload("aborted") as upload:
            upload.write(b"body")
            upload.abort()
            upload.abort()
        with pytest.raises(KeyExists), store.upload("failed") as upload:
            self._write_then_fail(upload)
        assert list(store.list_keys("")) == []
        assert store.remove_abandoned(LATER_MS) == 0
        store.put_if_absent("aborted", b"free")

    def _write_then_fail(self, upload: Upload) -> None:
        upload.write(b"body")
        raise KeyExists("what the caller of an upload met")

    def test_an_ended_upload_takes_nothing_more(self, store: ObjectStore) -> None:
        aborted, published = store.upload("aborted"), store.upload("published")
        aborted.abort()
        published.write(b"body")
        published.publish()
        for upload in (aborted, published):
            with pytest.raises(InvalidInput):
                upload.write(b"more")
            with pytest.raises(InvalidInput):
                upload.publish()
        assert [each.key for each in store.list_keys("")] == ["published"]
        assert bytes(store.get("published")) == b"body"

    # M: F-09
    def test_an_abandoned_upload_goes_and_can_no_longer_be_published(self, store: ObjectStore) -> None:
        store.put_if_absent("whole", b"body")
        upload = store.upload("slow")
        upload.write(b"body")
        assert store.remove_abandoned(before_ms=1) == 0
        assert store.remove_abandoned(LATER_MS) == 1
        with pytest.raises(StoreUnavailable) as failed:
            upload.publish()
        assert failed.value.landed is Landed.NO
        assert [each.key for each in store.list_keys("")] == ["whole"]
        store.put_if_absent("slow", b"again")
        assert store.remove_abandoned(LATER_MS) == 0

    # ---- reading --------------------------------------------------------------------------------

    @_shared
    @given(data=st.data(), size_bytes=st.sampled_from([0, 1, 1000, 64 * KIB, 200_000]))
    def test_ranges_are_slices_of_the_body(
        self, store: ObjectStore, folders: Callable[[], str], data: st.DataObject, size_bytes: int
    ) -> None:
        key = f"{folders()}object"
        body = bytes(number % 251 for number in range(size_bytes))
        store.put_if_absent(key, body)
        bounds = st.integers(0, size_bytes)
        pairs = data.draw(st.lists(st.tuples(bounds, bounds), max_size=6))
        ranges = [(min(pair), max(pair)) for pair in pairs]
        assert [bytes(part) for part in store.get_ranges(key, ranges)] == [body[start:end] for start, end in ranges]

    @pytest.mark.parametrize("size_bytes", [0, 1000, 200_000])
    def test_a_range_past_the_end_is_damage_and_says_where(self, store: ObjectStore, size_bytes: int) -> None:
        store.put_if_absent("dir/object", bytes(size_bytes))
        for start in {0, size_bytes // 2, size_bytes, size_bytes + 1}:
            with pytest.raises(Damaged) as found:
                store.get_ranges("dir/object", [(0, 0), (start, size_bytes + 1)])
            for said in ("dir/object", str(start), str(size_bytes + 1), f"byte {size_bytes}"):
                assert said in str(found.value)

    @pytest.mark.parametrize("wanted", [(-1, 0), (2, 1)])
    def test_a_range_that_is_none_is_refused(self, store: ObjectStore, wanted: tuple[int, int]) -> None:
        store.put_if_absent("a", b"body")
        with pytest.raises(InvalidInput):
            store.get_ranges("a", [wanted])

    @pytest.mark.parametrize("size_bytes", [10, 200_000])
    def test_what_was_read_is_read_only_and_outlives_its_object(self, store: ObjectStore, size_bytes: int) -> None:
        store.put_if_absent("a", b"x" * size_bytes)
        whole, (part,) = store.get("a"), store.get_ranges("a", [(1, size_bytes)])
        store.delete("a")
        store.put_if_absent("a", b"y" * size_bytes)
        assert whole.readonly
        assert part.readonly
        assert bytes(whole) == b"x" * size_bytes
        assert bytes(part) == b"x" * (size_bytes - 1)

    def test_an_absent_key_is_not_found_and_named(self, store: ObjectStore) -> None:
        reads: list[Callable[[str], object]] = [store.get, store.size, lambda key: store.get_ranges(key, [(0, 1)])]
        for _ in range(2):
            for key in ("other", "dir/other", "dir", *(["dir/object/below"] if self.below_objects else [])):
                for read in reads:
                    with pytest.raises(KeyNotFound, match=key):
                        read(key)
            if store.first_key_after("dir/", "") is None:
                store.put_if_absent("dir/object", b"body")

    def test_a_store_never_written_to_is_empty(self, store: ObjectStore) -> None:
        assert list(store.list_keys("")) == []
        assert list(store.list_keys("a/b")) == []
        assert store.first_key_after("a/", "") is None
        assert store.remove_abandoned(LATER_MS) == 0
        store.delete("a")

    # ---- deleting -------------------------------------------------------------------------------

    def test_delete_removes_one_object_and_is_idempotent(self, store: ObjectStore) -> None:
        for key in ("dir/a", "dir/a-b", "dir/ab"):
            store.put_if_absent(key, b"body")
        for _ in range(2):
            store.delete("dir/a")
            assert [each.key for each in store.list_keys("")] == ["dir/a-b", "dir/ab"]
        store.delete("dir")
        if self.below_objects:
            store.delete("dir/ab/below")
        assert [each.key for each in store.list_keys("")] == ["dir/a-b", "dir/ab"]

    def test_many_are_deleted_by_their_exact_keys_whether_they_are_there_or_not(self, store: ObjectStore) -> None:
        for key in ("dir/a", "dir/a-b", "dir/ab", "other/a"):
            store.put_if_absent(key, b"body")
        store.delete_many([])
        for _ in range(2):
            store.delete_many(["dir/a", "dir/never", "nowhere/a", "other/a", "dir/ab"])
            assert [each.key for each in store.list_keys("")] == ["dir/a-b"]
        with pytest.raises(InvalidInput):
            store.delete_many(["dir/a-b", "../a"])
        assert [each.key for each in store.list_keys("")] == ["dir/a-b"]

    def test_a_deleted_key_can_be_created_again(self, store: ObjectStore) -> None:
        for body in (b"first", b"second", b""):
            store.put_if_absent("a/b", body)
            assert bytes(store.get("a/b")) == body
            store.delete("a/b")
            with pytest.raises(KeyNotFound):
                store.get("a/b")

    # ---- listing --------------------------------------------------------------------------------

    @_shared
    @given(data=st.data())
    def test_listing_is_the_sorted_keys_that_begin_with_the_prefix(
        self, store: ObjectStore, folders: Callable[[], str], data: st.DataObject
    ) -> None:
        folder, keys = self._put_some(store, folders, data)
        cut = st.builds(lambda key, length: key[:length], st.sampled_from(keys or ["a"]), st.integers(0, 8))
        begin = data.draw(cut | _parts)
        assert [each.key for each in store.list_keys(folder + begin)] == [
            folder + key for key in keys if key.startswith(begin)
        ]

    def test_a_listing_shows_the_time_at_which_an_object_was_put(self, store: ObjectStore) -> None:
        """In ms since the epoch, by the clock of the store's server, which in these tests is this machine's."""
        store.put_if_absent("a", b"body")
        (listed,) = store.list_keys("a")
        assert abs(listed.modified_ms - now_ms()) < HALF_A_DAY_MS

    @_shared
    @given(data=st.data())
    def test_first_key_after_is_the_next_of_the_sorted_keys(
        self, store: ObjectStore, folders: Callable[[], str], data: st.DataObject
    ) -> None:
        folder, keys = self._put_some(store, folders, data)
        below = data.draw(st.sampled_from(["", *(f"{key.rpartition('/')[0]}/" for key in keys if "/" in key)]))
        after = data.draw(st.sampled_from([*keys, "", "/", "a/", "zzz"]) | _keys | st.text("-./0Aa_", max_size=5))
        inside = [folder + key for key in keys if key.startswith(below)]
        position = bisect_right(inside, folder + after)
        wanted = inside[position] if position < len(inside) else None
        assert store.first_key_after(folder + below, folder + after) == wanted

    def _put_some(self, store: ObjectStore, folders: Callable[[], str], data: st.DataObject) -> tuple[str, list[str]]:
        """Puts some keys and deletes some again (which leaves empty directories on a disk); gives the rest, sorted."""
        folder = folders()
        put = _without_folders(data.draw(st.lists(_keys, max_size=12)))
        for key in put:
            store.put_if_absent(folder + key, b"body")
        deleted = data.draw(st.sets(st.sampled_from(put), max_size=6)) if put else set()
        for key in deleted:
            store.delete(folder + key)
        return folder, [key for key in put if key not in deleted]

    def test_first_key_after_takes_any_key_as_its_bound(self, store: ObjectStore) -> None:
        store.put_if_absent("m/a", b"")
        store.put_if_absent("m/b", b"")
        assert store.first_key_after("m/", "") == "m/a"
        assert store.first_key_after("m/", "l/z") == "m/a"
        assert store.first_key_after("m/", "m/a") == "m/b"
        assert store.first_key_after("m/", "m/a/below") == "m/b"
        assert store.first_key_after("m/", "m/b") is None
        assert store.first_key_after("m/", "n/a") is None
        assert store.first_key_after("n/", "m/a") is None

    # ---- names ----------------------------------------------------------------------------------

    @pytest.mark.parametrize("key", ILLEGAL_KEYS, ids=lambda key: repr(key[:20]))
    def test_an_illegal_key_is_refused_by_every_call(self, store: ObjectStore, key: str) -> None:
        calls: list[Callable[[], object]] = [
            lambda: store.put_if_absent(key, b"body"),
            lambda: store.upload(key),
            lambda: store.get(key),
            lambda: store.get_ranges(key, [(0, 0)]),
            lambda: store.size(key),
            lambda: store.delete(key),
        ]
        for call in calls:
            with pytest.raises(InvalidInput):
                call()
        assert list(store.list_keys("")) == []

    @pytest.mark.parametrize("prefix", ["/", "../", "a/../b", "a//", ".tmp/", "a b", "x" * 256])
    def test_an_illegal_prefix_is_refused(self, store: ObjectStore, prefix: str) -> None:
        with pytest.raises(InvalidInput):
            store.list_keys(prefix)
        with pytest.raises(InvalidInput):
            store.first_key_after(f"{prefix}/", "")

    @pytest.mark.parametrize("prefix", ["", "a", "a/b"])
    def test_first_key_after_needs_a_folder(self, store: ObjectStore, prefix: str) -> None:
        with pytest.raises(InvalidInput, match="ends with '/'"):
            store.first_key_after(prefix, "")
