"""Guards of a fenced store that comes back: it does not lead as if it had what it has lost."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_RETURNING: Final = "sparklog/client/stores/returning_store.py"
_TESTS: Final = "tests/client/test_returning_stores.py::"

GUARDS: Final = (
    Guard(
        "returning-looked-at",
        "A store that was set back is looked at before it is registered again and may lead.",
        "sparklog/client/stores/add_store.py",
        "    lost = () if known is None or wiped else lost_while_fenced(connection, known, target, zone)",
        "    lost = ()",
        (_TESTS + "test_a_store_that_was_set_back_leads_no_partition_of_which_it_has_lost_records",),
    ),
    Guard(
        "returning-reported",
        "A store that was set back is not registered as one that has everything: its loss is reported.",
        "sparklog/client/stores/add_store.py",
        "        if known is not None and (wiped or lost):",
        "        if known is not None and wiped:",
        (_TESTS + "test_a_store_that_was_set_back_leads_no_partition_of_which_it_has_lost_records",),
    ),
    Guard(
        "returning-newest",
        "The newest object of every partition is looked for, not a few objects alone.",
        _RETURNING,
        "missing_of_sample(state, store, held, held, SystemDice().below)",
        "missing_of_sample(state, store, (), held, SystemDice().below)",
        (_TESTS + "test_a_store_that_has_everything_leads_at_once_and_costs_a_look_for_each_partition_and_a_few",),
    ),
    Guard(
        "returning-mounted",
        "A store that is unmounted while it is looked at has lost nothing.",
        _RETURNING,
        "        check_incarnation(target, store.incarnation)\n",
        "",
        (_TESTS + "test_a_store_that_is_unmounted_while_it_is_looked_at_has_lost_nothing",),
    ),
    Guard(
        "returning-place",
        "A loss is reported of a store where it is registered, which the report does not change.",
        _RETURNING,
        '        check_same_place(store, f"{lacks}: a store that was set back", target.url, known_url, zone)\n',
        "",
        (_TESTS + "test_a_store_that_was_set_back_comes_back_at_its_address_and_in_its_zone",),
    ),
)
