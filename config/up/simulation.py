"""The drill cluster as a child of `up`: its command, its ports and its first line."""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path

from common.exits import ToolError
from config.up.datadir import DataFolder, read_object, write_private
from config.up.ports import free_range
from config.up.processes import Service

SCENARIO = "september"
BASE_PORT = 21000
#: Ports that a cluster takes at most: router, control, and two for each node.
PORTS = 20
#: Kept between starts, so that what was registered goes on to be true.
BASE_PORT_FILE = "drill-base-port"
TENANT_KEY_FILE = "drill-tenants"
TENANTS = 2


def choose_base_port(folder: DataFolder) -> int:
    """Answer the first port of the drill: that of the last start where it is free.

    Raises ToolError.
    """
    kept = folder.path / BASE_PORT_FILE
    try:
        wanted = int(kept.read_text(encoding="ascii"))
    except (OSError, ValueError):
        wanted = BASE_PORT
    base_port = free_range(wanted, size=PORTS)
    if base_port != wanted or not kept.exists():
        write_private(kept, f"{base_port}\n")
    return base_port


def drill_service(folder: DataFolder, *, base_port: int, env: dict[str, str]) -> Service:
    """Answer how to run the drill."""
    words = ["-m", "drill", "--scenario", SCENARIO, "--base-port", str(base_port)]
    words += ["--tenant-key-file", str(_tenant_keys(folder))]
    return Service(
        name="drill",
        argv=(sys.executable, *words),
        env=env,
        log=folder.logs / "drill.log",
        # Its first line carries the keys of its made-up tenants: no log, and closed to others.
        output=output_file(folder),
        rank=2,
        is_essential=False,
    )


def _tenant_keys(folder: DataFolder) -> Path:
    """Answer the file of the tenants' keys, which stay the same from start to start."""
    path = folder.keys / TENANT_KEY_FILE
    if not path.exists():
        made_up = [f"sk-drill-{secrets.token_urlsafe(24)}" for _ in range(TENANTS)]
        write_private(path, json.dumps(made_up) + "\n")
    return path


def output_file(folder: DataFolder) -> Path:
    """Answer where the drill's standard output goes."""
    return folder.path / "drill.out"


def take_first_line(folder: DataFolder) -> bool:
    """Keep the drill's first line where `bootstrap` reads it; False while there is none.

    Raises ToolError when it is no JSON object.
    """
    try:
        text = output_file(folder).read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    line, newline, _ = text.partition("\n")
    if not newline:
        return False
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ToolError(f"the drill's first line is no JSON object; see {output_file(folder)}")
    if read_object(folder.drill_file) != found:
        write_private(folder.drill_file, json.dumps(found, indent=1) + "\n")
    return True


def drill_environment(folder: DataFolder) -> dict[str, str]:
    """Answer what the product is told of the drill: where its control answers."""
    control = read_object(folder.drill_file).get("control")
    return {"PAGEWARDEN_DRILL_CONTROL_URL": control} if isinstance(control, str) else {}
