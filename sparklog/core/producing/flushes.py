"""The flushes of a producer under way: what to send next, in which order, and how to handle a reply. No I/O, no clock.

    take -> routed -> FlushUpload -> uploaded -> FlushCommit -> written
                        ^                             |
                        +-------- refused: uploaded or committed again, in halves, or failed

A flush is the records that waited together: one upload and one commit over all of its partitions. Uploads run in
parallel. A commit begins once the commits of the earlier flushes of its partitions are under way, so the chain gets
them in order. If one of these is refused, the chain refuses the later ones because of their sequences
(OUT_OF_ORDER_SEQUENCE_NUMBER), and they get new sequences. A commit in doubt keeps its sequences: if it has landed, the
chain recognises the repeat by them. `client/producer/sending.py` describes each step.

If a partition can't be written to for now, its records are parked, and the others continue. In each partition only the
first parked flush is tried. Those after it are joined, so that few commits follow once it is written.

A commit in doubt whose partition can't be written to for now may still land later. Until then the records after it
would have to wait. So the producer requests its next epoch, on condition that this commit has not landed. The new epoch
fences the commit, and the flush can be sent again. If the commit has landed, the epoch is refused, and the commit is
repeated to learn its result.

This machine is polled, not a generator like others: any idle sender thread asks for the `next` work, several flushes
are under way at once, and their replies come in any order.

If a flush fails for good and may have landed, the next sequence is unknown. Then the producer begins its next epoch,
which also fences any commit that may still be under way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from sparklog.core.commands import BatchInDoubt
from sparklog.core.describe.readable import counted, duration
from sparklog.core.errors import Landed, OutcomeUnknown, RequestTimedOut, SparklogError
from sparklog.core.idempotence.producers import sequence_after
from sparklog.core.pauses import pause_ms_after
from sparklog.core.producing.flush import (
    ATTEMPT_MS,
    FailedFlush,
    Flush,
    FlushCommit,
    FlushUpload,
    Renew,
    Rows,
    Stage,
    Work,
)
from sparklog.core.producing.flush_errors import ErrorRule, Scope, is_of_stores, rule_of
from sparklog.core.producing.identity import Identity, Renewal
from sparklog.core.producing.producer_settings import ProducerSettings
from sparklog.core.replication.replica_append import Acks
from sparklog.core.types import TopicPartition

SHORT_ATTEMPT_MS: Final = 1_000  # for an upload, and for a commit if partitions lack a leader or enough replicas
STORES_LOOK_MS: Final = 1  # for an upload to such partitions: try once
MOST_JOINED: Final = 1_000  # flushes joined in one: each join counts and copies them
FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 100, 1_000  # between attempts, as Kafka's retry.backoff.ms


class Flushes:
    """The flushes that are not settled yet, in order. Not thread-safe. Times are from a monotonic clock.

    `identity`: the id and epoch under which the producer writes. `fatal`: the error that ended its writing, or None.
    """

    def __init__(self, settings: ProducerSettings, producer_id: int, producer_epoch: int) -> None:
        self.identity = Identity(producer_id, producer_epoch)
        self.fatal: SparklogError | None = None
        self.last_order = 0  # of the flush that was taken last
        self._settings = settings
        self._all: list[Flush] = []
        self._failed: list[FailedFlush] = []
        self._written: dict[TopicPartition, int] = {}  # number of records written in this epoch

    # ---- questions ------------------------------------------------------------------------------

    @property
    def has_slot(self) -> bool:
        """True if another flush may be taken: fewer than `max_in_flight` are under way.

        Parked flushes don't count. Flushes split from one count as one.
        """
        under_way = {flush.order for flush in self._all if not flush.parked}
        return len(under_way) < self._settings.max_in_flight

    def is_settled(self, order: int) -> bool:
        """True if every flush up to this order has been written, or has failed and was returned by `failures`."""
        return not self._failed and all(flush.order > order for flush in self._all)

    def due_ms(self, now_ms: int) -> int | None:
        """Return the next time after `now_ms` at which `next` or `failures` may return something new without a reply.

        Returns None if they return nothing new until a reply comes in.
        """
        times = [self.identity.not_before_ms]
        for flush in self._idle():
            times += [flush.not_before_ms, self._deadline_ms(flush)]
        return min((time for time in times if time > now_ms), default=None)

    # ---- the way of a flush -----------------------------------------------------------------------

    def take(self, since_ms: int, rows: Rows) -> Flush:
        """Add a flush of the waiting records `rows`, in stage ROUTING. The first record has waited since `since_ms`."""
        self.last_order += 1
        flush = Flush(self.last_order, since_ms, rows)
        self._all.append(flush)
        return flush

    def routed(self, flush: Flush, parts: Mapping[TopicPartition, int]) -> None:
        """Note the number of records of each partition in the flush. If `parts` is empty, the flush is dropped.

        Without acks=all a commit has only one partition, so each partition becomes a flush of its own.
        """
        flush.parts, flush.stage = dict(parts), Stage.ROUTED
        if not parts:
            self._all.remove(flush)
        elif self._settings.acks is Acks.ALL:
            self._set_aside(flush)
        else:
            pieces = [flush.part({key: records}) for key, records in parts.items()]
            self._replace(flush, pieces)
            for piece in pieces:
                self._set_aside(piece)

    def next(self, now_ms: int) -> Work | None:
        """Return the next work for a sender thread, and note that it is under way; None if there is no work now."""
        if self.fatal is not None:
            return None
        if self._may_renew(now_ms):
            return Renew(self.identity.ask(self._batches_in_doubt()))
        for flush in self._in_turn():
            # Once the next epoch is requested, a commit of this one may be fenced.
            if flush.not_before_ms > now_ms or (self.identity.asked is not Renewal.NONE and not flush.is_open):
                continue
            if flush.is_uploaded and self._may_commit(flush):
                flush.stage = Stage.COMMITTING if any(self._earlier(flush)) else Stage.COMMITTING_ALONE
                if flush.numbers is None:
                    flush.numbers = self._numbers(flush)
                timeout_ms = min(self._left_ms(flush, now_ms), flush.attempt_ms)
                return FlushCommit(flush, *self.identity.current, flush.numbers, timeout_ms)
            if flush.stage is Stage.ROUTED and not (flush.parked and any(self._earlier(flush))):
                flush.stage = Stage.UPLOADING
                is_known = flush.parked or flush.attempt_ms < ATTEMPT_MS
                return FlushUpload(
                    flush, min(self._left_ms(flush, now_ms), STORES_LOOK_MS if is_known else SHORT_ATTEMPT_MS)
                )
        return None

    def uploaded(self, flush: Flush) -> None:
        """Note that the rows of the flush were uploaded to the stores."""
        flush.stage = Stage.UPLOADED
        self._set_aside(flush)

    def written(self, flush: Flush) -> None:
        """Note that the flush was written, by its last commit or an earlier one. The flush is settled."""
        self._count_written(flush)
        self._all.remove(flush)
        for other in self._all:
            if other.parked and other.shares(flush):  # its partition can be written to again
                other.parked = False

    def refused(self, flush: Flush, error: SparklogError, now_ms: int) -> None:
        """Note that the upload or the commit of the flush failed with this error, and decide whether to try again."""
        rule, stage = rule_of(error), flush.stage
        flush.error = error
        if flush.is_committing:
            if flush.landed is Landed.NO or error.landed is Landed.YES:
                flush.landed = error.landed
            if flush.landed is Landed.NO:
                flush.numbers = None
        # The upload is still valid, unless the stores of its partitions have changed.
        upload_again = flush.is_open and (stage is Stage.UPLOADING or rule.upload_again)
        flush.stage = Stage.ROUTED if upload_again or rule.scope is Scope.PARTITIONS else Stage.UPLOADED
        match rule.scope:
            case Scope.PRODUCER:
                self.fatal = error
            case Scope.EPOCH:
                self.identity.need(Renewal.EPOCH)
                self._fail(flush, error)
            case Scope.ID:
                self.identity.need(Renewal.ID)
                if not flush.is_open:
                    self._fail(flush, error)
            case Scope.ORDER if stage is Stage.COMMITTING:  # an earlier flush has not landed: commit again after it
                flush.stage = Stage.OUT_OF_ORDER
            case Scope.ORDER:
                self.identity.need(Renewal.EPOCH)
                if not flush.is_open:
                    error = OutcomeUnknown(f"a commit got no answer, and could not be found later: {error.message}")
                self._fail(flush, error)
            case _:
                self._try_again(flush, error, rule, now_ms)
        self._make_way()

    def renewed(self, producer_id: int, producer_epoch: int) -> None:
        """Begin the new epoch or id, with sequences from 0.

        The chain has granted it, so the commits in doubt have not landed and never will. Their flushes are sent again.
        """
        self.identity.begin(producer_id, producer_epoch)
        self._written.clear()
        for flush in self._in_doubt():
            flush.landed, flush.numbers, flush.stage = Landed.NO, None, Stage.UPLOADED
            if is_of_stores(flush.error):  # an upload shows which partition caused it
                flush.stage, flush.attempt_ms, flush.not_before_ms = Stage.ROUTED, SHORT_ATTEMPT_MS, 0
        self._make_way()

    def not_renewed(self, error: SparklogError, now_ms: int) -> None:
        """Note that the request for a new epoch or id failed with this error.

        If the chain refused it because a commit in doubt has landed, all commits in doubt are repeated to learn which.
        If the request can't succeed later either, the producer's writing ends: `fatal` is set.
        """
        self.identity.refused(error, now_ms)
        rule = rule_of(error)
        if rule.scope is Scope.ORDER:  # a commit in doubt has landed: send each again to learn which
            for flush in self._in_doubt():
                flush.error, flush.not_before_ms = error, now_ms
                if flush.stage is Stage.ROUTED:  # its last upload is sent again
                    flush.stage = Stage.UPLOADED
        elif not rule.retry:
            self.fatal = error

    def failures(self, now_ms: int) -> Sequence[FailedFlush]:
        """Return the flushes that have failed for good since the last call.

        First fails each idle flush whose delivery timeout has passed, or every idle flush if `fatal` is set.
        """
        for flush in self._idle():
            if self.fatal is not None:
                self._fail(flush, self.fatal)
            elif now_ms >= self._deadline_ms(flush):
                self._time_out(flush, now_ms)
        if self._failed:
            self._make_way()
        failed, self._failed = self._failed, []
        return failed

    # ---- order --------------------------------------------------------------------------------------

    def _in_turn(self) -> list[Flush]:
        """Return the flushes in the order in which senders take them.

        Parked flushes come last. They are left out while senders work on `max_in_flight` // 2 of them, or on one of
        them if that is 0.
        """
        parked = [flush for flush in self._all if flush.parked]
        if not parked:
            return self._all
        busy = sum(not flush.is_idle for flush in parked)
        may_try = busy < max(1, self._settings.max_in_flight // 2)
        return [flush for flush in self._all if not flush.parked] + (parked if may_try else [])

    def _earlier(self, flush: Flush) -> Iterator[Flush]:
        """The unsettled flushes before this one that share a partition with it."""
        return (other for other in self._all if other.order < flush.order and other.shares(flush))

    def _may_commit(self, flush: Flush) -> bool:
        """True if the flush may be committed now, so that the chain gets it after earlier flushes of its partitions.

        Its first commit begins only once the commits of these flushes are under way, and none of them is in doubt,
        because the chain remembers only the last five batches of a partition. A repeated commit keeps its sequences, so
        it need not wait. But a flush in stage OUT_OF_ORDER always waits until the earlier ones are settled.
        """
        if flush.stage is Stage.OUT_OF_ORDER and any(self._earlier(flush)):
            return False
        if not flush.is_open:
            return True
        return self.identity.needed is Renewal.NONE and all(
            other.is_committing
            and other.landed is Landed.NO
            and flush.order - other.order < self._settings.max_in_flight
            for other in self._earlier(flush)
        )

    def _numbers(self, flush: Flush) -> dict[TopicPartition, int]:
        """Return the flush's first sequence in each partition, after the written records and the earlier flushes."""
        before = list(self._earlier(flush))
        return {
            key: sequence_after(0, self._written.get(key, 0) + sum(other.parts.get(key, 0) for other in before))
            for key in flush.parts
        }

    # ---- after a refusal ----------------------------------------------------------------------------

    def _try_again(self, flush: Flush, error: SparklogError, rule: ErrorRule, now_ms: int) -> None:
        """Send the flush again after `error`, in halves if that may help, or let the flush fail."""
        of_partitions = rule.scope is Scope.PARTITIONS
        if not flush.is_open or not (of_partitions or rule.scope is Scope.RECORDS):
            flush.attempt_ms = ATTEMPT_MS
            if rule.retry:
                self._pause(flush, now_ms)
            else:
                self._fail(flush, error)
            return
        if of_partitions:
            flush.attempt_ms = SHORT_ATTEMPT_MS
        parts = list(flush.parts.items())
        middle = max(len(parts), len(flush.joined)) // 2
        if len(parts) > 1:
            self._replace(flush, [flush.part(dict(parts[:middle])), flush.part(dict(parts[middle:]))])
        elif of_partitions:
            flush.parked = True
            self._pause(flush, now_ms)
        elif flush.joined:
            self._replace(flush, [flush.of(flush.joined[:middle]), flush.of(flush.joined[middle:])])
        else:
            self._fail(flush, error)

    def _pause(self, flush: Flush, now_ms: int) -> None:
        flush.not_before_ms = now_ms + pause_ms_after(flush.tries, FIRST_PAUSE_MS, LONGEST_PAUSE_MS)
        flush.tries += 1

    def _make_way(self) -> None:
        """Park the records that follow parked ones, so that the other partitions continue.

        If a commit in doubt can't be settled for now, note that the next epoch is needed.
        """
        for flush in self._idle():
            if flush.in_doubt and self._may_stay_so(flush):
                self.identity.need(Renewal.EPOCH)
            self._set_aside(flush)

    def _may_stay_so(self, flush: Flush) -> bool:
        """True if the flush, which has a commit in doubt, may stay in doubt for long.

        This is so if the last attempt failed with an error that concerns only some stores or partitions. It is also so
        if earlier records of the flush's partitions are parked: the chain refuses the commit until they are written,
        because its sequences follow theirs.
        """
        return is_of_stores(flush.error) or any(other.is_open and other.parked for other in self._earlier(flush))

    def _set_aside(self, flush: Flush) -> None:
        """Park the records of the flush that come after parked records of the same partition. Join both if possible.

        They can't be joined while a sender works on the parked flush. Once the commit of a joined flush has begun, all
        of its records have the deadline of the newest ones. So they are joined only if the oldest and the newest came
        within a quarter of `delivery_timeout_ms`: the oldest wait at most that much too long.
        """
        if not flush.is_open or flush.parked or flush.stage is Stage.ROUTING:
            return
        earlier = list(self._earlier(flush))
        behind = {key for other in earlier if other.parked for key in other.parts} & flush.parts.keys()
        if not behind:
            return
        all_known = all(other.stage is not Stage.ROUTING for other in earlier)
        last = {key: other for other in earlier for key in other.parts}  # by partition
        free = {key: records for key, records in flush.parts.items() if key not in behind}
        pieces = [flush.part(free)] if free else []
        for key in sorted(behind):
            piece = flush.of(flush.joined) if flush.joined else flush.part({key: flush.parts[key]})
            piece.parked = True
            before = last[key]
            near = flush.pieces[-1].since_ms - before.since_ms <= self._settings.delivery_timeout_ms // 4
            has_room = len(before.pieces) < MOST_JOINED
            if all_known and near and has_room and before.parked and before.is_open and before.stage is Stage.ROUTED:
                self._replace(before, [before.of([*before.pieces, *piece.pieces])])
            else:
                pieces.append(piece)
        self._replace(flush, pieces)

    def _fail(self, flush: Flush, error: SparklogError) -> None:
        """Settle the flush with an error. If it may have landed, the next sequences are unknown: renew the epoch."""
        landed = error.landed if flush.landed is Landed.NO else flush.landed
        if flush.landed is Landed.YES:
            self._count_written(flush)
        elif flush.in_doubt:
            self.identity.need(Renewal.EPOCH)
        self._all.remove(flush)
        self._failed.append(FailedFlush(flush, type(error)(error.message, landed=landed)))

    def _may_renew(self, now_ms: int) -> bool:
        """True if the needed renewal can be requested now.

        A renewal fences all commits of the present epoch, so it waits until no commit is under way. A new id also waits
        for commits in doubt, because it would not settle them. The next epoch settles them, and does not wait for them.
        """
        is_next = self.identity.needed is Renewal.EPOCH
        return self.identity.is_due(now_ms) and all(
            flush.is_open or (is_next and flush.is_idle and flush.in_doubt) for flush in self._all
        )

    def _batches_in_doubt(self) -> tuple[BatchInDoubt, ...]:
        """The first batch in doubt of each partition: the later batches can't have landed without it."""
        firsts: dict[TopicPartition, int] = {}
        for flush in self._in_doubt():
            firsts = (flush.numbers or {}) | firsts
        return tuple(BatchInDoubt(key.topic_id, key.partition, first) for key, first in firsts.items())

    # ---- inside -------------------------------------------------------------------------------------

    def _idle(self) -> list[Flush]:
        """The flushes that no sender works on."""
        return [flush for flush in self._all if flush.is_idle]

    def _in_doubt(self) -> list[Flush]:
        return [flush for flush in self._idle() if flush.in_doubt]

    def _replace(self, flush: Flush, pieces: Sequence[Flush]) -> None:
        at = self._all.index(flush)
        self._all[at : at + 1] = pieces

    def _count_written(self, flush: Flush) -> None:
        for key, records in flush.parts.items():
            self._written[key] = self._written.get(key, 0) + records

    def _deadline_ms(self, flush: Flush) -> int:
        counts = flush if flush.is_open else flush.pieces[-1]
        return counts.since_ms + self._settings.delivery_timeout_ms

    def _left_ms(self, flush: Flush, now_ms: int) -> int:
        return max(1, self._deadline_ms(flush) - now_ms)

    def _time_out(self, flush: Flush, now_ms: int) -> None:
        """Fail the flush because its delivery timeout has passed.

        If the flush is open and joins several pieces, only the pieces fail whose own delivery timeout has passed.
        """
        late = [piece for piece in flush.pieces if self._deadline_ms(piece) <= now_ms]
        left = flush.pieces[len(late) :]
        if not (flush.is_open and left):
            self._fail(flush, self._timed_out(flush))
            return
        self._replace(flush, [*late, flush.of(left)])
        for piece in late:
            piece.error = flush.error
            self._fail(piece, self._timed_out(piece))

    def _timed_out(self, flush: Flush) -> SparklogError:
        records = sum(flush.parts.values())
        why = "they waited for others" if flush.error is None else f"the last error: {flush.error}"
        return RequestTimedOut(
            f"{counted(records, 'record')} could not be written within {duration(self._settings.delivery_timeout_ms)} "
            f"(delivery_timeout_ms): {why}"
        )
