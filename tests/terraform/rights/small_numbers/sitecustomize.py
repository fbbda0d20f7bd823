"""Makes every Python process whose PYTHONPATH has this folder do at a hundred entries what it does at ten thousand.

So a run of a minute also has snapshots, large commands, and blocks of entries that vacuum deletes.
"""

import sparklog.chain.commit.command_body as command_body
import sparklog.chain.commit.command_group as group
import sparklog.chain.snapshot.snapshot_writer as snapshot_writer
import sparklog.storage.keys as keys
import sparklog.storage.probe as probe

keys.ENTRIES_PER_BLOCK = 16
command_body.SLICES_INLINE = group.SLICES_INLINE = 3
snapshot_writer.SNAPSHOT_EVERY = 8
probe.AT_INIT = probe.AT_INIT[:1]
probe.AT_INIT_WITH_THE_BODY = probe.AT_INIT_WITH_THE_BODY[:2]
probe.THOROUGH = tuple(
    probe.Races(races.check, races.place, min(races.size_bytes, (8 << 20) + 1), races.streamed, 1, 1)
    for races in probe.THOROUGH
)
