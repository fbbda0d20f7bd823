"""The table of mechanisms that the tests are measured by: what each row is about, and what of it is not proven yet."""

from __future__ import annotations

from dataclasses import dataclass

SECTIONS = {
    "S": "Segments, indexes, zero copy",
    "R": "Retention",
    "C": "Compaction",
    "L": "Log, LEO, HW, leader epoch",
    "P": "Replication, ISR, acks, election",
    "F": "Flush, recovery, checkpoints",
    "I": "Idempotence, transactions, order",
    "N": "Coordinator, controller, network",
}


@dataclass(frozen=True, slots=True)
class Row:
    """`missing`: the part that no test proves. A row without any test needs none: all of it is missing."""

    subject: str
    missing: str = ""


ROWS = {
    "S-01": Row("a topic has partitions, a partition one log per replica, each on its own store"),
    "S-02": Row("a sealed segment is an Arrow IPC file and an index, named by its first offset"),
    "S-03": Row("offsets begin at 0, are dense, are never used twice or renumbered"),
    "S-04": Row("a sparse index: every look-up gives what a full scan gives"),
    "S-05": Row("look-up by time, also where timestamps are out of order"),
    "S-06": Row("when a segment is rolled; what is too large is refused"),
    "S-07": Row("routing by partition, by Kafka's hash of the key, sticky without one"),
    "S-08": Row(
        "no needless copy of a record's bytes; copies are counted",
        "copies in Python objects that live for a batch only, and those of the clients of S3 and HDFS",
    ),
    "S-09": Row("a reader whose segment is replaced or deleted gets the right rows or an error"),
    "S-10": Row("offsets outside of the log are out of range; the end is not"),
    "R-01": Row("retention.ms, by the time of records"),
    "R-02": Row("retention.bytes"),
    "R-03": Row("whole segments go, oldest first; the log start only rises"),
    "R-04": Row("objects are deleted after a delay; readers with an older plan go on"),
    "R-05": Row("DeleteRecords moves the log start to any offset up to HW; a topic that is only compacted refuses"),
    "R-06": Row(
        "retention, like roll and vacuum, is a scheduled Spark job over all topics; an error stops no other partition; "
        "--dry-run"
    ),
    "C-01": Row("after compaction the last value of each key is there"),
    "C-02": Row("what is compacted, and when"),
    "C-03": Row("tombstones stay for delete.retention.ms, then go"),
    "C-04": Row("a compacted topic refuses a record without a key"),
    "C-05": Row("a swap of segments leaves the old or the new ones, never a mix"),
    "C-06": Row("a producer's last sequence survives compaction"),
    "C-07": Row("compaction is a Spark job for more keys than one worker's memory holds"),
    "L-01": Row("LEO, HW and what readers see"),
    "L-02": Row("HW is the smallest LEO of the ISR"),
    "L-03": Row("a follower fetches from its own LEO"),
    "L-04": Row("requests of another leader epoch, version or registration are refused"),
    "L-05": Row("history of leader epochs, and the offsets they end at"),
    "L-06": Row("a follower that comes back with forgotten records ends with the leader's"),
    "L-07": Row("the history of epochs is trimmed with the log"),
    "L-08": Row("nothing is lost where truncation to HW would lose"),
    "L-09": Row("replicas do not diverge where truncation to HW would let them"),
    "L-10": Row("an acknowledged record survives three changes of the leader"),
    "L-11": Row("the tests see the faults of truncation to HW"),
    "L-12": Row("the visible end never goes back after an election"),
    "P-01": Row("the ISR shrinks by lag"),
    "P-02": Row("the ISR grows again"),
    "P-03": Row("acks 0, 1 and all"),
    "P-04": Row("min.insync.replicas"),
    "P-05": Row("records below min.insync.replicas are durable and not visible"),
    "P-06": Row("who is elected leader"),
    "P-07": Row("a wiped store is not in the ISR and is filled again"),
    "P-08": Row("a dead store is found, its partitions get other leaders"),
    "P-09": Row("a producer waits for a leader"),
    "P-10": Row("waiting requests are answered when HW moves"),
    "P-11": Row("replicas are moved"),
    "F-01": Row(
        "what is acknowledged survives the loss of power",
        "power is not really cut (the order of syncs is checked, and servers are killed)",
    ),
    "F-02": Row("appends share an entry"),
    "F-03": Row("the recovery point"),
    "F-04": Row("recovery is a Spark job"),
    "F-05": Row("a missing or damaged index is rebuilt from its segment; an orphan index goes"),
    "F-06": Row("epochs and producers are the same after a crash"),
    "F-07": Row("checkpoints on every store"),
    "F-08": Row("the metadata is restored from a store's copy"),
    "F-09": Row("orphans are found and removed, never what may still be committed"),
    "I-01": Row("producer ids, epochs and sequences; a producer starts again by itself"),
    "I-02": Row("what is known of producers and applications survives"),
    "I-03": Row("a Spark write is one commit; attempts that failed or ran twice add nothing"),
    "I-04": Row("an epoch of a streaming query is committed once"),
    "I-05": Row("consumed offsets in the same commit as records"),
    "I-06": Row("order inside a partition, on every replica, with five requests of a producer in flight"),
    "I-07": Row("consumer groups"),
    "N-01": Row("one of several coordinators leads"),
    "N-02": Row("stores register and are seen live, new or dead"),
    "N-03": Row("topics are created, assigned, altered and deleted"),
    "N-04": Row("slow clients stop nobody; the queue is bounded"),
    "N-05": Row("requests are authenticated and authorised"),
    "N-06": Row("scheduled work"),
    "N-07": Row("replica fetchers"),
}
