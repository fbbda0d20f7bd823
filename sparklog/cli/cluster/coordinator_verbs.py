"""`sparklog coordinator`: run a coordinator, make the leading one resign, or generate a token for its access file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sparklog.cli.common_options import settings
from sparklog.cli.jobs.job_runner import JOB_COMMAND, job_runner
from sparklog.cli.output import connect, done, ending, now_ms, print_json
from sparklog.core.describe.readable import point_in_time
from sparklog.core.errors import InvalidInput
from sparklog.host.extras import needed
from sparklog.host.standard_streams import flush, print_to

if TYPE_CHECKING:
    from sparklog.core.config.storage import StorageSettings

EPILOG = ending(
    "sparklog coordinator",
    "sparklog coordinator --listen 127.0.0.1:7400",
    "sparklog coordinator --listen 0.0.0.0:7400 --advertise https://log.example.org:7400 "
    "--tls-certificate tls.crt --tls-key tls.key --access access.toml",
    "sparklog coordinator token loader --right write:orders",
    "sparklog coordinator --job-command 'spark-submit jobs/{job}.py --cluster {cluster} --report {report}'",
    "sparklog coordinator resign --force",
)

app = typer.Typer(invoke_without_command=True, epilog=EPILOG)


@app.callback()
def run(
    context: typer.Context,
    listen: str = typer.Option(
        "127.0.0.1:0",
        "--listen",
        metavar="HOST:PORT",
        envvar="SPARKLOG_LISTEN",
        help="The address to serve at. With port 0 the system chooses a port. An address that other machines can reach "
        "needs TLS and --access.",
    ),
    advertise: str = typer.Option(
        None,
        "--advertise",
        metavar="URL",
        envvar="SPARKLOG_ADVERTISE",
        help="The address that clients use. Default: that of --listen.",
    ),
    tls_certificate: str = typer.Option(
        None,
        "--tls-certificate",
        metavar="FILE",
        envvar="SPARKLOG_TLS_CERTIFICATE",
        help="The certificate and its chain up to the CA (PEM). A new version is loaded without a restart.",
    ),
    tls_key: str = typer.Option(
        None, "--tls-key", metavar="FILE", envvar="SPARKLOG_TLS_KEY", help="Its private key (PEM, without a password)."
    ),
    access: str = typer.Option(
        None,
        "--access",
        metavar="FILE",
        envvar="SPARKLOG_ACCESS",
        help="The access file: principals and their rights (TOML). A new version is loaded without a restart.",
    ),
    audit: str = typer.Option(
        None,
        "--audit",
        metavar="FILE",
        envvar="SPARKLOG_AUDIT",
        help="Write a line of JSON to this file for each command; - is stderr, the default with --access.",
    ),
    emf_namespace: str = typer.Option(
        None,
        "--emf-namespace",
        metavar="NAME",
        envvar="SPARKLOG_EMF_NAMESPACE",
        help="Print metrics once a minute in CloudWatch's embedded metric format (docs/metrics.md), in this namespace.",
    ),
    mask: list[str] = typer.Option(
        [],
        "--mask",
        metavar="TOPIC[:PATH]",
        envvar="SPARKLOG_MASK",
        help="Show data as •••• on the pages of records and in records over HTTP: the values of a topic (customers), "
        "a field of its JSON values (pay-*:card.number), its keys (customers:#key) or header values "
        "(customers:#headers). May be given several times; in SPARKLOG_MASK, separate rules with spaces.",
    ),
    job_command: str | None = JOB_COMMAND,
) -> None:
    """Coordinate the cluster: commit for all its clients, or stand by until the leading coordinator is silent.

    While a coordinator leads, clients, jobs and agents send their commands to it. SIGTERM and Ctrl-C stop it cleanly:
    it resigns, and a standby takes over. Without a standby, the cluster is embedded again: every process commits for
    itself. The leading coordinator runs roll, compaction and retention every log.retention.check.interval.ms, and
    vacuum every vacuum.interval.ms.
    """
    if context.invoked_subcommand is not None:
        return
    with needed("coordinator", "a coordinator"):
        from sparklog.coordinator.access.access_file import token_hash
        from sparklog.coordinator.access.audit import audit_to
        from sparklog.coordinator.access.renewed_files import Certificate, access_in
        from sparklog.coordinator.leading.service import Service
        from sparklog.coordinator.page.records.masks import mask_rule
        from sparklog.coordinator.run import Protection, advertised_address, check_exposure, listening, serve
        from sparklog.coordinator.watching.emf import MetricTarget
    from sparklog.core.config.cluster_config import effective_cluster
    from sparklog.host.dice import new_token

    runner = job_runner(job_command)
    secret = new_token() if access else None
    host, port = _host_and_port(listen)
    if bool(tls_certificate) != bool(tls_key):
        raise InvalidInput("--tls-certificate and --tls-key go together, found one of them")
    check_exposure(host, tls=bool(tls_certificate), access=bool(access))
    protection = Protection(
        Certificate(tls_certificate, tls_key, _show) if tls_certificate else None,
        access_in(access, _show) if access else None,
        tuple(map(mask_rule, mask)),
        None if secret is None else token_hash(secret),
    )
    metric_target = MetricTarget(emf_namespace, _print_line) if emf_namespace else None
    if audit or access:
        audit_to(audit or "-")
    with connect() as cluster, listening(host, port) as listener:
        connection = cluster.connection
        if connection.coordinators is not None:
            raise InvalidInput(
                f"a coordinator reads and writes the metadata itself: --cluster {connection.url}, not the address of "
                "another coordinator"
            )
        config = effective_cluster(connection.follower.state.config)
        address = advertised_address(advertise, host, listener.getsockname()[1], tls=bool(tls_certificate))
        service = Service(
            connection.follower,
            connection.url,
            address,
            session_ms=config.broker_session_timeout_ms,
            queued_max=config.queued_max_requests,
            say=_show,
            jobs=None
            if runner is None
            else runner(connection.url, settings=_settings_of_jobs(secret, tls_certificate)),
            stores=connection.stores,
        )
        serve(service, listener, protection, lambda: _show("serving", address), metric_target)


def _settings_of_jobs(token: str | None, certificate: str | None) -> StorageSettings:
    """Return the settings by which jobs reach the coordinator that starts them, in addition to those that they read.

    They trust the coordinator's own certificate. If this process was given a CA, they trust that one instead.
    """
    from sparklog.core.config.storage import StorageSettings
    from sparklog.storage.config_file import settings_here

    ca = settings_here(StorageSettings()).ca
    if not ca and certificate is not None:
        ca = str(Path(certificate).absolute())
    return StorageSettings(token=token, ca=ca)


@app.command(epilog=ending("sparklog coordinator resign", "sparklog coordinator resign --force"))
def resign(
    force: bool = typer.Option(
        False, "--force", help="Don't ask the coordinator: for one that is gone or can't be reached."
    ),
) -> None:
    """Make the leading coordinator resign. A standby takes over; without one, the cluster is embedded again.

    With --force, this command does not ask the coordinator, but writes the resignation to the chain. That is safe at
    any time: later entries of that coordinator are ignored.
    """
    from sparklog.core.commands import ResignCoordination

    with connect() as cluster:
        committer = cluster.connection.committer
        known = cluster.connection.follower.catch_up().state.coordinator
        submission = committer.begin(ResignCoordination(known.epoch))
        if force:
            committer.commit_here(submission)
        else:
            committer.submit(submission)
    done(
        f"{known.name} at {known.address} resigned, its epoch was {known.epoch}",
        {"name": known.name, "address": known.address, "epoch": known.epoch},
    )


@app.command(
    epilog=ending(
        "sparklog coordinator token loader --right write:orders --right 'read:orders-*'",
        "sparklog coordinator token loader --right write:orders --append access.toml > loader.token",
    )
)
def token(
    name: str = typer.Argument(metavar="NAME", help="The principal that gets the token."),
    rights: list[str] = typer.Option(
        [], "--right", metavar="VERB:TOPIC", help="A right: read, write, describe, alter or maintain, and a topic or *."
    ),
    append: Path = typer.Option(
        None, "--append", metavar="FILE", help="Add the principal to this access file, and print only the token."
    ),
) -> None:
    """Generate a token for a principal, and print it with the lines for the access file. It can't be shown again.

    The access file holds only the SHA-256 of the token. To replace a token, add the hash of a new token beside the old
    hash, give the new token to its user, then remove the old hash.
    """
    from sparklog.coordinator.access.access_file import lines_of, token_hash, with_principal
    from sparklog.host.dice import new_token

    secret = new_token()
    lines = lines_of(name, [token_hash(secret)], rights)
    if append is not None:
        with_principal(append, lines)
        done(secret, {"principal": name, "token": secret, "file": str(append)})
        return
    done(
        f"the token, which is not shown again:\n{secret}\n\nfor the access file:\n{lines}",
        {"principal": name, "token": secret, "token_sha256": token_hash(secret)},
    )


def _show(event: str, text: str) -> None:
    if settings.json:
        print_json({"time_ms": now_ms(), "event": event, "text": text})
    else:
        print_to(sys.stdout, f"{point_in_time(now_ms())}  {event}: {text}")
    flush(sys.stdout)


def _print_line(text: str) -> None:
    print_to(sys.stdout, text)
    flush(sys.stdout)


def _host_and_port(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise InvalidInput(f"--listen: wanted HOST:PORT, found {text!r}")
    return host, int(port)
