#!/bin/sh
# Build the site of the documentation into build/site without any network. Search needs a server, which may be
# `python3 -m http.server -d build/site`: browsers do not let pages that are opened as files search.
# Its pages lie in two places of the repository, so they are gathered below build/ first: links between them stay right.
set -eu
cd "$(dirname "$0")/.."
zensical=$PWD/.venv/bin/zensical
rm -rf build/pages build/site
mkdir -p build/pages build/site
cp -R ./*.md docs conf build/pages/
cp zensical.toml build/
cd build # zensical keeps its cache beside its config
"$zensical" build --strict
