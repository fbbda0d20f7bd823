"""All rules, by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from tests.terraform.deployment import Deployment
from tests.terraform.rules import alarms, jobs, network, reach, rights, secrets, services, stores, tasks

Rule: TypeAlias = Callable[[Deployment], list[str]]

_ALL: Final[tuple[Rule, ...]] = (
    stores.buckets_are_closed,
    stores.buckets_are_encrypted,
    stores.buckets_are_versioned,
    stores.buckets_refuse_plain_http,
    stores.log_data_never_expires,
    stores.stores_are_where_the_outputs_say,
    rights.no_policy_lets_anybody_in,
    rights.no_role_has_a_wide_right,
    rights.no_resource_has_a_wide_right,
    rights.services_act_for_this_account_only,
    rights.rights_are_bound_by_conditions,
    rights.only_maintenance_deletes,
    network.no_port_is_open,
    network.egress_is_for_https_and_coordinators,
    network.nothing_has_a_public_address,
    network.stores_are_reached_without_a_gateway,
    reach.processes_have_their_own_groups,
    reach.clients_reach_coordinators,
    reach.processes_reach_aws,
    reach.endpoints_are_found_by_name,
    reach.health_checks_ask_the_coordinator,
    services.services_are_let_in_for_what_they_do,
    services.services_can_use_the_keys,
    services.failed_runs_are_told,
    services.keys_have_names,
    secrets.tasks_have_the_role_of_their_name,
    secrets.tasks_can_read_their_secrets,
    secrets.secrets_go_to_those_they_are_for,
    secrets.jobs_can_read_their_token,
    tasks.task_and_execution_roles_differ,
    tasks.containers_are_locked_down,
    tasks.secrets_are_not_in_the_environment,
    tasks.no_secret_is_in_the_state,
    tasks.coordinators_are_reached_by_tls_only,
    tasks.each_coordinator_has_its_own_address,
    tasks.only_coordinators_know_the_metadata,
    tasks.services_restart_what_fails,
    jobs.every_job_is_scheduled,
    jobs.schedules_keep_what_failed,
    jobs.schedules_start_jobs_of_the_application,
    jobs.schedules_have_no_more_than_their_rights,
    jobs.jobs_have_the_right_cluster,
    jobs.jobs_find_their_files,
    jobs.jobs_show_no_secret,
    jobs.application_is_bounded,
    alarms.alarms_watch_metrics_that_exist,
    alarms.dashboards_show_metrics_that_exist,
    alarms.what_matters_is_watched,
    alarms.alarms_reach_somebody,
    alarms.logs_are_encrypted_and_end,
    alarms.logs_have_their_groups,
)
RULES: Final = {rule.__name__: rule for rule in _ALL}
