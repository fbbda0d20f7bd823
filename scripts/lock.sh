#!/bin/sh
# Resolve the lock files again: pinned versions with hashes for every platform, without the address of any index.
# Pins do not move unless asked to, for example by `make lock ARGS=--upgrade` or `ARGS="-P pyarrow"`.
set -eu
cd "$(dirname "$0")/.."
command -v uv >/dev/null || { echo "make lock needs uv: pip install uv" >&2; exit 1; }
compile() {
    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" "$@"
}
compile requirements/build.in -o requirements/build.lock "$@"
compile pyproject.toml --extra dev --extra demo -c requirements/build.lock -o requirements/dev.lock "$@"
compile pyproject.toml --extra demo -c requirements/build.lock -c requirements/dev.lock -o requirements/demo.lock "$@"
for spark in 3.5 4.0 4.1 4.3; do
    compile pyproject.toml "requirements/spark-$spark.in" -c requirements/build.lock -o "requirements/spark-$spark.lock" "$@"
done
compile requirements/terraform.in -o requirements/terraform.lock "$@"
