"""Moto's EMR Serverless as a process, with what it gets wrong put right: `python -m tests.terraform.emr_process PORT`.

It refuses release labels of EMR Spark (`emr-spark-8.0.0`), and a new application is at once started: the provider waits
for one that is created.
"""

from __future__ import annotations

import sys
from typing import Any


def main(port: int) -> None:
    from moto.emrserverless import models
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    models.APPLICATION_STATUS = "CREATED"
    create: Any = models.EMRServerlessBackend.create_application

    def with_any_label(backend: Any, *, release_label: str, **settings: Any) -> Any:
        application = create(backend, release_label="emr-7.9.0", **settings)
        application.release_label = release_label
        return application

    models.EMRServerlessBackend.create_application = with_any_label  # type: ignore[assignment]
    application = DomainDispatcherApplication(create_backend_app)
    make_server("127.0.0.1", port, application, threaded=True).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]))
