#!/bin/sh
# Find the Java that Spark will start ($JAVA_HOME first, then PATH) and stop with advice unless it is 17 or newer.
set -u
wanted=17

refuse() {
    echo "sparklog needs Java $wanted or newer: $1. Install it (Debian, Ubuntu: apt-get install openjdk-$wanted-jre-headless;" \
        "Fedora: dnf install java-$wanted-openjdk-headless; macOS: brew install openjdk@$wanted)," \
        "or set JAVA_HOME to one you have." >&2
    exit 1
}

if [ -n "${JAVA_HOME:-}" ]; then
    java=$JAVA_HOME/bin/java where="JAVA_HOME=$JAVA_HOME"
    [ -x "$java" ] || refuse "$where has no bin/java"
else
    java=$(command -v java) || refuse "none was found (JAVA_HOME is not set, and there is no java in PATH)"
    where=$java
fi
# macOS has a stub in PATH that only reports that Java is missing.
text=$("$java" -version 2>&1) || refuse "$where does not start"
version=$(printf '%s\n' "$text" | sed -n 's/.* version "\([^"]*\)".*/\1/p' | head -n 1)
major=${version#1.} # Java 8 calls itself 1.8.0
major=${major%%[!0-9]*}
[ -n "$major" ] || refuse "$where does not say its version"
[ "$major" -ge "$wanted" ] || refuse "$where is Java $version"
