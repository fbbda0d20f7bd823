"""What each role does, one real run after the other: the life of a small cluster, from its beginning to a restore.

First it has no coordinators (phase "embedded"), then it has (phase "coordinated"), at last its metadata is lost and
restored at another store (phase "restored").
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sparklog.storage.keys import APPENDS, COPIES, INCARNATION, TOPICS
from tests.servers.fault_proxy_rules import Answer, ReplyLost, Request
from tests.terraform.rights.role_processes import PREFIX, Roles, wait

STEPS = str(Path(__file__).parent / "python_steps.py")
SPARK_STEPS = str(Path(__file__).parent / "spark_steps.py")
CONFIG = {
    "metadata.copies": "1",
    "log.flush.offset.checkpoint.interval.ms": "300",
    "floor.delay.ms": "0",
    "log.retention.check.interval.ms": "3600000",
}


def begin(roles: Roles) -> None:
    """The operator makes a cluster of two stores, and topics, and asks for its health."""
    settings = [part for key, value in CONFIG.items() for part in ("-c", f"{key}={value}")]
    stores = [
        part for id_, zone in (("a", "z1"), ("b", "z2")) for part in ("--store", f"{id_}@{zone}={roles.url(id_)}")
    ]
    roles.run("operator", "cluster", "init", *stores, *settings, at_metadata=True)
    roles.python("operator", STEPS, "topics", at_metadata=True)
    roles.run("operator", "cluster", "health", codes=(0, 5), at_metadata=True)


def embedded(roles: Roles) -> None:
    """Without coordinators: producers, agents and jobs commit by themselves. A consumer reads, without a group.

    Store b loses its objects, so that its agent has something to report.
    """
    for step in ("many", "write"):
        roles.python("producer", STEPS, step, at_metadata=True)
    roles.run("operator", "chain", "state", at_metadata=True)
    roles.python("consumer", STEPS, "read", at_metadata=True)
    b = roles.store("b")
    b.delete_many([each.key for each in b.list_keys(APPENDS)])
    roles.run("agent", "agent", "--store", "b", "--once", at_metadata=True)
    for job in (("roll", "--all"), ("compaction", "--all"), ("retention",), ("verify",), ("recovery",)):
        roles.run("maintenance", "job", *job, at_metadata=True)


def coordinate(roles: Roles) -> None:
    """Two coordinators start, one leads and the other stands by; so do two agents."""
    roles.phase = "coordinated"
    roles.start_coordinators(2)
    for store in "ab":
        roles.start("agent", "agent", "--store", store)


def write(roles: Roles) -> None:
    """From the command line, Python and Spark. One answer is lost; one upload in parts is refused, and aborted."""
    roles.proxies["producer"].plan(ReplyLost(), is_of("PUT", APPENDS))
    roles.run("producer", "produce", "orders", "--key-separator", ":", given="anna:1 tea\nben:2 cups\n")
    roles.python("producer", STEPS, "write")
    roles.proxies["producer"].plan(Answer(400), is_of("UPLOAD_PART", APPENDS))
    roles.python("producer", STEPS, "large", codes=(0, 1))
    roles.python("producer", STEPS, "large")
    roles.python("producer", SPARK_STEPS, "write")


def read(roles: Roles) -> None:
    """Reads from the command line, as a group, and by Spark; by time as well."""
    roles.run("consumer", "consume", "prices", "--group", "billing")
    roles.python("consumer", STEPS, "read")
    roles.python("consumer", STEPS, "group")
    roles.python("consumer", SPARK_STEPS, "read")


def stream(roles: Roles) -> None:
    """A Spark stream that reads, and one that writes."""
    roles.python("consumer", SPARK_STEPS, "stream-read")
    roles.python("producer", SPARK_STEPS, "stream-write")


def add_a_store(roles: Roles) -> None:
    """The operator adds store c; replicas move there, and its agent fills it. One copy is refused, and aborted."""
    roles.run("operator", "store", "add", f"c@z3={roles.url('c')}", at_metadata=True)
    roles.run("operator", "replica", "move", "orders", "--to", "a,c", "-p", "0")
    roles.proxies["agent"].plan(Answer(400), is_of("UPLOAD_PART", APPENDS))
    roles.start("agent", "agent", "--store", "c")
    wait(lambda: any(True for _ in roles.store("c").list_keys(APPENDS)))


def maintain(roles: Roles) -> None:
    """All jobs, with something to do for each; the first roll has an upload that is refused."""
    roles.proxies["maintenance"].plan(Answer(400), is_of("UPLOAD_PART", TOPICS))
    roles.run("maintenance", "job", "roll", "--all", codes=(0, 1))
    roles.run("maintenance", "job", "roll", "--all")
    roles.python("producer", STEPS, "keyed")
    roles.run("maintenance", "job", "roll", "--all", "--topic", "prices")
    roles.run("maintenance", "job", "compaction", "--all")
    roles.run("operator", "topic", "alter", "wide", "--set", "retention.ms=1")
    roles.run("maintenance", "job", "retention")
    roles.run("maintenance", "job", "verify", codes=(0, 1))
    roles.python("producer", STEPS, "many")
    roles.run("maintenance", "job", "vacuum", at_metadata=True)
    roles.run("maintenance", "job", "vacuum", at_metadata=True)


def repair(roles: Roles) -> None:
    """Damage on store b, which a consumer meets: recovery replaces an object and an index, replication what is gone."""
    b = roles.store("b")
    for prefix in (TOPICS, APPENDS):
        keys = [each.key for each in b.list_keys(prefix)]
        bodies, indexes = ([key for key in keys if key.endswith(end)] for end in (".arrow", ".index"))
        for key in (*bodies[:1], *indexes[-1:]):
            body = bytearray(b.get(key))
            body[len(body) // 2] ^= 1
            b.delete(key)
            b.put_if_absent(key, bytes(body))
        for key in bodies[1:]:
            b.delete(key)
    roles.run("consumer", "consume", "orders")
    roles.proxies["maintenance"].plan(Answer(400), is_of("UPLOAD_PART", APPENDS))
    roles.run("maintenance", "job", "recovery", "--full", codes=(0, 1))
    roles.run("maintenance", "job", "replication", codes=(0, 1))


def refill(roles: Roles) -> None:
    """Store c loses its mark, which all notice who use it. Then it is wiped while its agent is away, which fills it."""
    c = roles.store("c")
    c.delete(INCARNATION)
    roles.python("producer", STEPS, "write")
    agent = roles.running[-1]
    roles.stop(agent)
    c.delete_many([each.key for each in c.list_keys("") if not each.key.startswith(COPIES)])
    roles.run("maintenance", "job", "verify", "--store", "c", codes=(0, 1))
    roles.proxies["agent"].plan(Answer(400), is_of("UPLOAD_PART", TOPICS))
    roles.start("agent", "agent", "--store", "c")
    wait(lambda: any(True for _ in c.list_keys(TOPICS)))
    assert c.get(INCARNATION)


def look(roles: Roles) -> None:
    """The operator probes the stores, looks into the chain, and lets a fenced store come back; health tries a write."""
    roles.run("operator", "cluster", "health", codes=(0, 5), at_metadata=True)
    roles.run("operator", "cluster", "doctor", "--no-spark", codes=(0, 5), at_metadata=True)
    roles.run("operator", "chain", "tail", at_metadata=True)
    roles.run("operator", "store", "fence", "c")
    roles.run("operator", "store", "add", f"c={roles.url('c')}", at_metadata=True)


def stop(roles: Roles) -> None:
    """All services end. Then the metadata is lost, with its store."""
    for process in list(roles.running):
        roles.stop(process)
    a = roles.store("a")
    a.delete_many([each.key for each in a.list_keys("")])


def restore(roles: Roles) -> None:
    """The operator restores the cluster to the place of store b. Reading and writing go on."""
    roles.phase, roles.metadata = "restored", "b"
    lost = ["--from", f"b={roles.url('b')}", "--without", "a"]
    roles.run("operator", "cluster", "restore", *lost, "--dry-run", at_metadata=True)
    roles.run("operator", "cluster", "restore", *lost, at_metadata=True)
    roles.start_coordinators(1)
    roles.run("consumer", "consume", "orders")


def is_of(kind: str, prefix: str) -> Callable[[Request], bool]:
    """Requests of this kind for keys that begin so."""
    return lambda request: request.kind == kind and request.key.startswith(f"{PREFIX}/{prefix}")


RUNS: tuple[Callable[[Roles], None], ...] = (
    begin,
    embedded,
    coordinate,
    write,
    read,
    stream,
    add_a_store,
    maintain,
    repair,
    refill,
    look,
    stop,
    restore,
)
