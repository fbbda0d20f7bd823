"""The guards of scheduled jobs: none runs twice at a time, stops the others, or goes on without its scheduler."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_SCHEDULE = "tests/core/maintenance/test_schedule.py::"
_SCHEDULER = "tests/maintenance/test_job_scheduler.py::"
_COMMAND = "tests/maintenance/test_job_command.py::"
_COORDINATOR = "tests/coordinator/leading/test_scheduling.py::"

GUARDS: Final[tuple[Guard, ...]] = (
    Guard(
        "schedule-once",
        "No task runs twice at a time.",
        "sparklog/core/maintenance/schedule.py",
        "            if not planned.running and planned.due_ms <= now_ms and not self._waits(planned, now_ms)",
        "            if planned.due_ms <= now_ms and not self._waits(planned, now_ms)",
        (f"{_SCHEDULE}test_no_task_runs_twice_at_a_time",),
    ),
    Guard(
        "schedule-patience",
        "A task that hangs stops no other.",
        "sparklog/core/maintenance/schedule.py",
        "        if now_ms >= _patience_end_ms(waiting):",
        "        if False:",
        (f"{_SCHEDULE}test_roll_comes_first_and_a_roll_that_hangs_stops_no_other_task",),
    ),
    Guard(
        "schedule-pile",
        "Runs that take too long do not pile up.",
        "sparklog/core/maintenance/schedule.py",
        "        planned.due_ms = max(now_ms, planned.started_ms + planned.pause_ms())",
        "        planned.due_ms = planned.due_ms + planned.pause_ms()",
        (f"{_SCHEDULE}test_runs_that_take_too_long_do_not_pile_up",),
    ),
    Guard(
        "schedule-future",
        "A clock that was wrong does not put a job off for ever.",
        "sparklog/core/maintenance/schedule.py",
        "            left_ms = task.interval_ms - max(0, ages_ms[task.name]) if",
        "            left_ms = task.interval_ms - ages_ms[task.name] if",
        (f"{_SCHEDULE}test_a_wrong_clock_costs_one_interval_at_most",),
    ),
    Guard(
        "schedule-failover",
        "A change of the leader does not run every job again at once.",
        "sparklog/coordinator/leading/scheduling.py",
        "            ages_ms=ages_ms(state, tasks, self._clock.now_ms()),",
        "            ages_ms={},",
        (f"{_COORDINATOR}test_a_new_leader_goes_on_from_the_last_runs_in_the_chain",),
    ),
    Guard(
        "schedule-errors",
        "An error of one job is the end of this run, and of nothing else.",
        "sparklog/maintenance/job_scheduler.py",
        "    except Exception as error:",
        "    except KeyError as error:",
        (
            f"{_SCHEDULER}test_a_job_that_fails_raises_or_hangs_does_not_stop_the_others",
            f"{_SCHEDULER}test_once_means_each_in_its_order_whatever_becomes_of_the_others",
        ),
    ),
    Guard(
        "schedule-deposed",
        "A coordinator that leads no more stops its jobs.",
        "sparklog/coordinator/leading/service.py",
        "            self.schedule.end()\n            self.waits",
        "            self.waits",
        (f"{_COORDINATOR}test_the_one_that_leads_runs_jobs_and_says_so_and_one_that_leads_no_more_stops_them",),
    ),
    Guard(
        "schedule-terms",
        "The jobs of one term have stopped before those of the next begin.",
        "sparklog/coordinator/leading/scheduling.py",
        "    if ending:\n        await asyncio.wait(ending)",
        "    pass",
        (f"{_COORDINATOR}test_jobs_of_a_former_term_have_stopped_before_those_of_the_next_begin",),
    ),
    Guard(
        "job-token-pipe",
        "The token of a coordinator's jobs reaches no command but this program's own.",
        "sparklog/maintenance/job_command.py",
        ' if words == LOCAL else b""',
        "",
        (f"{_COMMAND}test_the_token_of_the_jobs_goes_through_a_pipe_and_only_to_those_of_this_program",),
    ),
    Guard(
        "job-abandoned",
        "A job ends with the process that began it, even if that was killed.",
        "sparklog/maintenance/job_child.py",
        "        os._exit(ABANDONED)",
        "        pass",
        (f"{_COMMAND}test_a_job_ends_with_whoever_began_it",),
    ),
    Guard(
        "job-group",
        "A job that is stopped takes along what it started.",
        "sparklog/maintenance/job_command.py",
        "            os.killpg(process.pid, number)",
        "            os.kill(process.pid, number)",
        (f"{_COMMAND}test_a_job_is_stopped_with_all_that_it_started",),
    ),
    Guard(
        "job-starting",
        "A job that is cancelled while it starts takes along what it started.",
        "sparklog/maintenance/job_command.py",
        "                process = await asyncio.shield(starting)",
        "                process = await starting",
        (f"{_COMMAND}test_a_job_that_is_cancelled_while_it_starts_is_stopped_with_all_that_it_started",),
    ),
    Guard(
        "job-shell",
        "No shell reads an address or a path in a job's command.",
        "sparklog/maintenance/job_command.py",
        '        return [re.sub(r"\\{(\\w+)\\}", lambda place: values[place[1]], word) for word in self._words]',
        '        filled = [re.sub(r"\\{(\\w+)\\}", lambda place: values[place[1]], word) for word in self._words]\n'
        '        return " ".join(filled).split()',
        (f"{_COMMAND}test_the_words_of_a_command_reach_the_process_as_they_are",),
    ),
    Guard(
        "job-longest",
        "A job that hangs is stopped in the end.",
        "sparklog/maintenance/job_command.py",
        "            async with asyncio.timeout(self._longest_run_ms / 1000):",
        "            async with asyncio.timeout(None):",
        (f"{_COMMAND}test_a_job_that_takes_too_long_is_stopped",),
    ),
)
