"""Which routes and fields each engine version has."""

from __future__ import annotations

from packaging.version import Version

_V19, _V20, _V21, _V22, _V23 = (Version(f"0.5.{minor}") for minor in range(19, 24))
"""What lies between 0.5.5 and 0.5.19 was not looked at; those versions are taken as 0.5.5."""


class Surface:
    """The wire surface of a version. Source: the wheels, table of routes by version."""

    def __init__(self, version: Version) -> None:
        self.has_modern_routes = version >= _V19
        self.has_ready = version >= _V20
        self.has_old_load = version < _V21
        self.has_tool_calls_always = version < _V22
        self.has_launch_command = version >= _V20
        self.has_frontend = version >= _V21
        self.has_checksum_flag = version >= _V21
        self.has_allocation_policy = version >= _V22
        self.has_first_token_latency = version >= _V22
        self.has_deferred_release_metrics = version >= _V22
        self.has_object_layout = version >= _V23
        self.has_token_details = version >= _V23
