"""An agent finds out what its store has lost while the log changes: a rewrite, a deletion, a report of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from msgspec.structs import replace

from sparklog.agent.agent import EXAMINE_EVERY_MS
from sparklog.agent.agent_requests import Fetch, LookForObject, Reply, Request
from sparklog.client.plans.task_upload import upload_task_rows
from sparklog.client.plans.write_plan import append_command
from sparklog.core.commands import Submission
from sparklog.log.objects.object_copy import FetchResult, SourceFailure
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.maintenance.task_runner import LocalTasks
from sparklog.storage.keys import INCARNATION
from tests.agent.agent_world import DrivenAgent, replicated_cluster
from tests.agent.test_losses import data_of, losses, no_copies
from tests.client.replicated_cluster import planned_write


def test_what_a_rewrite_has_replaced_during_the_search_is_looked_for_again() -> None:
    """b takes part in a roll, loses its mark and the rolled object, and its agent finds all of before.

    Then the roll commits: by the chain b has the rolled object. The agent knows nothing of that object yet.
    """
    world = replicated_cluster(**{"rewrite.delete.delay.ms": 3_600_000})
    for value in ("0", "1", "2"):
        world.write(value)
    agent = DrivenAgent(world, "b", before=no_copies)

    class Rolled(LocalTasks):
        """Tasks of a roll whose driver is held up before it commits."""

        def run(self, function: Callable[[bytes], bytes], payloads: Sequence[bytes]) -> list[bytes]:
            done = super().run(function, payloads)
            for key in [INCARNATION, *(key for key in world.objects("b") if key.startswith("topics/"))]:
                world.store("b").delete(key)
            while agent.count(LookForObject) < 3:
                agent.step()
            return done

    assert run_roll(world.cluster.connection.url, everything=True, tasks=Rolled()).done.objects == 1
    assert world.replicas() == "a:abc a3 b3 c3"
    agent.run()
    assert world.replicas() == "a:ac a3 b0 c3"
    assert [loss.held[0].end for loss in losses(agent)] == [0]


def test_a_topic_that_is_deleted_during_the_search_does_not_stop_it() -> None:
    world = replicated_cluster()
    world.write("0")
    world.store("b").delete(INCARNATION)

    def delete(request: Request) -> Reply:
        if isinstance(request, LookForObject) and agent.said("loss") and world.state.topic_named("t") is not None:
            world.cluster.delete_topic("t")
        return None

    agent = DrivenAgent(world, "b", before=delete)
    agent.run()
    assert agent.agent.error is None
    assert [loss.held for loss in losses(agent)] == [()]


def test_after_a_loss_in_one_partition_all_are_looked_at_at_once() -> None:
    """A periodic look is at the newest objects of some partitions only; whatever happened may have happened to all."""
    partitions = 600
    world = replicated_cluster(partitions=partitions)
    everywhere = {"value": ["x"] * partitions, "partition": pa.array(range(partitions), pa.int32())}
    world.cluster.append("t", pa.table(everywhere))
    for partition in (0, partitions - 1):
        world.write("newest", partition=partition)
    agent = DrivenAgent(world, "b").run(1_000)
    for partition in (0, partitions - 1):
        world.store("b").delete(data_of(world, "b", partition)[-1])
    agent.run(EXAMINE_EVERY_MS)
    assert [[end.partition for end in loss.held] for loss in losses(agent)] == [[0, partitions - 1]]


def test_what_only_its_store_should_have_and_has_not_is_a_loss_at_once() -> None:
    """b lacks the first object of a write and has lost the second. No other store answers when the agent wants that.

    Its report of the first one makes the chain count the second one too, as the write names b among its holders.
    """
    world = replicated_cluster()
    world.write("0")
    plan = planned_write(world.cluster)
    tasks = [upload_task_rows(plan, pa.table({"value": [value]}).to_batches()) for value in ("1", "2")]
    command = append_command(plan, tasks)
    assert command is not None
    first, second = command.objects
    first = replace(first, holders=tuple(holder for holder in first.holders if holder.store != "b"))
    submission = Submission(plan.command_id, plan.n0, replace(command, objects=(first, second)))
    world.cluster.connection.committer.submit(submission)
    for object_ in (first, second):
        (key,) = [key for key in world.objects("b") if object_.upload_id in key and key.endswith(".arrow")]
        world.store("b").delete(key)
    assert world.replicas() == "a:ac a3 b1 c3"

    def silent(request: Request) -> Reply:
        """The other stores do not answer when they are asked for the second object."""
        if not isinstance(request, Fetch) or request.wanted.object.upload_id != second.upload_id:
            return None
        asked = request.wanted.sources
        return FetchResult(None, tuple(SourceFailure(store, False, "silent") for store in asked)) if asked else None

    agent = DrivenAgent(world, "b", before=silent).run(1_000)
    assert [loss.held[0].end for loss in losses(agent)] == [2]
    assert world.replicas() == "a:ac a3 b2 c3"
