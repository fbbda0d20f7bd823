"""Recognizes hosts that are this machine, so that requests to them pass over no network."""

from __future__ import annotations

import ipaddress


def is_this_machine(host: str) -> bool:
    """True if `host` is localhost, or a loopback address with or without brackets."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
