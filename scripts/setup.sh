#!/bin/sh
# Create .venv from the lock files with nothing but Python's own venv and pip. Safe to run again at any time,
# even after an interruption: complete parts are kept, and the rest is installed again.
# `setup.sh demo` installs only what the demos need; the whole set is added to it later, and it takes nothing away.
# With a version of Spark, as in `setup.sh 4.0`: an environment for the tests on that Spark, below .cache/sparks.
set -eu
cd "$(dirname "$0")/.."
case ${1:-} in
    "") venv=.venv lock=requirements/dev.lock ;;
    demo) venv=.venv lock=requirements/demo.lock ;;
    *) venv=.cache/sparks/$1 lock=requirements/spark-$1.lock ;;
esac

say() { echo "setup: $*"; }
refuse() { echo "$*" >&2; exit 1; }
is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if is_new_enough "$candidate"; then echo "$candidate"; return; fi
    done
    refuse "sparklog needs Python 3.11 or newer: ${PYTHON:-python3} is $("${PYTHON:-python3}" --version 2>&1 || true)." \
        "Install one (Debian, Ubuntu: apt-get install python3 python3-venv; macOS: brew install python)," \
        "or name one you have: make setup PYTHON=/path/to/python3"
}

install() {
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-build-isolation --use-pep517 "$@"
}

if ! is_new_enough "$venv/bin/python" || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    python=$(find_python)
    say "making $venv with $("$python" --version)"
    "$python" -m venv --clear "$venv" || refuse "sparklog needs Python's venv module:" \
        "$python has none that works (Debian, Ubuntu: apt-get install python3-venv)"
fi
say "installing the build tools of requirements/build.lock"
install --require-hashes --no-deps -r requirements/build.lock
say "installing $(grep -c == "$lock") packages of $lock" \
    "(the first time half a GB or more, most of it PySpark: a minute or more)"
install --require-hashes --no-deps -r "$lock"
say "installing sparklog itself, editable"
install --no-deps -e .
# Not for a demo: an interrupted setup may have left other packages without what they need, which it does not use.
[ "${1:-}" = demo ] || "$venv/bin/python" -m pip check --disable-pip-version-check >/dev/null ||
    { "$venv/bin/python" -m pip check --disable-pip-version-check >&2; exit 1; }
say "ready: $venv/bin/sparklog"
