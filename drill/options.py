"""The command line of the drill: figures from a scenario, overridden one by one."""

from __future__ import annotations

import argparse
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from drill.cluster import Plan, Tenant
from drill.scenarios import DEFAULT_SCENARIO, SCENARIOS, Scenario
from drill.settings import (
    DEFAULT_RESERVED_DECODE_TOKENS,
    DEFAULT_TIMEOUT_S,
    NodeSettings,
    Role,
    WrongFigure,
    check,
)

MODEL = "drill-model"
TENANT_NAMES = ("tenant-a", "tenant-b")
TENANT_KEYS_VARIABLE = "PAGEWARDEN_DRILL_TENANT_KEYS"
_DEFAULT_BASE_PORT = 21000
_HIGHEST_PORT = 65535
#: A pool of fewer reserves than this counts as small.
_SMALL_IN_RESERVES = 16


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line; its caller decides on the exit code."""

    def error(self, message: str) -> NoReturn:
        raise WrongFigure(message)


def read_options(argv: list[str]) -> argparse.Namespace:
    """Answer the parsed command line. Raises WrongFigure."""
    parser = _Parser(prog="drill", description="Run the simulated prefill/decode cluster.")
    figures = parser.add_argument_group("figures; each overrides the scenario's")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), default=DEFAULT_SCENARIO)
    figures.add_argument("--engine-version", metavar="VERSION")
    for name in ("prefill-pool", "decode-pool", "context", "page-size"):
        figures.add_argument(f"--{name}", type=int, metavar="TOKENS")
    figures.add_argument("--prefills", type=int, default=1, metavar="N")
    figures.add_argument("--decodes", type=int, default=1, metavar="N")
    figures.add_argument(
        "--reserved-decode-tokens",
        type=int,
        metavar="TOKENS",
        help="kept free beside each prompt; 512 as the engine's own, a 64th of a small pool",
    )
    figures.add_argument("--waiting-timeout", type=float, default=DEFAULT_TIMEOUT_S, metavar="S")
    figures.add_argument("--bootstrap-timeout", type=float, default=DEFAULT_TIMEOUT_S, metavar="S")
    figures.add_argument("--token-ms", type=float, default=0.0, help="pause between two tokens")
    parser.add_argument("--base-port", type=int, default=_DEFAULT_BASE_PORT, help="0: any ports")
    parser.add_argument(
        "--tenant-key-file",
        type=Path,
        help=f"JSON list of one key a tenant; else the variable {TENANT_KEYS_VARIABLE}, else new",
    )
    parser.add_argument("--router-key-file", type=Path, help="key of the router's control plane")
    parser.add_argument("--node-key-file", type=Path, help="API key of every node")
    parser.add_argument("--die-with-parent", action="store_true")
    return parser.parse_args(argv)


def plan_of(options: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> Plan:
    """Answer the cluster that a command line asks for. Raises WrongFigure."""
    scenario = SCENARIOS[options.scenario]
    if options.prefills < 1 or options.decodes < 1:
        raise WrongFigure("there must be at least one prefill and one decode node")
    if options.token_ms < 0:
        raise WrongFigure("--token-ms is below 0")
    count = options.prefills + options.decodes
    highest = options.base_port + 1 + count + options.prefills
    if options.base_port < 0 or highest > _HIGHEST_PORT:
        raise WrongFigure(f"--base-port {options.base_port} leaves no room for the ports")
    nodes = _nodes(options, scenario)
    for settings in nodes:
        check(settings)
    return Plan(
        nodes=nodes,
        tenants=_tenants(options.tenant_key_file, environ),
        scenario=options.scenario,
        base_port=options.base_port,
        router_key=_key(options.router_key_file),
        token_s=options.token_ms / 1000,
    )


def usual_reserve(decode_pool: int) -> int:
    """Answer the reserve where none was asked for. Unit: tokens.

    The engine's own default would keep a small pool from taking any prompt of use: with 512 of
    1,024 tokens kept free, 900 tokens wait for ever (seen on a running 0.5.19).
    """
    is_small = decode_pool < _SMALL_IN_RESERVES * DEFAULT_RESERVED_DECODE_TOKENS
    return decode_pool // 64 if is_small else DEFAULT_RESERVED_DECODE_TOKENS


def _nodes(options: argparse.Namespace, scenario: Scenario) -> list[NodeSettings]:
    decode_pool = _figure(options.decode_pool, scenario.decode_pool)
    base = NodeSettings(
        name="",
        role=Role.DECODE,
        engine_version=options.engine_version or scenario.engine_version,
        pool=decode_pool,
        context=_figure(options.context, scenario.context),
        page_size=_figure(options.page_size, scenario.page_size),
        model=MODEL,
        reserved_decode_tokens=_figure(options.reserved_decode_tokens, usual_reserve(decode_pool)),
        waiting_timeout_s=options.waiting_timeout,
        bootstrap_timeout_s=options.bootstrap_timeout,
        api_key=_key(options.node_key_file),
    )
    first = (options.base_port or _DEFAULT_BASE_PORT) + 2 + options.prefills + options.decodes
    prefills = [
        base.with_changes(
            name=f"prefill-{number + 1}",
            role=Role.PREFILL,
            pool=_figure(options.prefill_pool, scenario.prefill_pool),
            bootstrap_port=first + number,
        )
        for number in range(options.prefills)
    ]
    decodes = [base.with_changes(name=f"decode-{n + 1}") for n in range(options.decodes)]
    return [*prefills, *decodes]


def _figure(given: int | None, usual: int) -> int:
    return usual if given is None else given


def _tenants(path: Path | None, environ: Mapping[str, str]) -> list[Tenant]:
    text = environ.get(TENANT_KEYS_VARIABLE) if path is None else _read(path)
    if text is None:
        keys = [f"sk-drill-{secrets.token_urlsafe(24)}" for _ in TENANT_NAMES]
    else:
        keys = _keys(text)
    names = zip(TENANT_NAMES, keys, strict=True)
    return [Tenant(name=name, api_key=key) for name, key in names]


def _keys(text: str) -> list[str]:
    try:
        keys = json.loads(text)
    except ValueError:
        keys = None
    is_list = isinstance(keys, list) and len(keys) == len(TENANT_NAMES)
    if not is_list or not all(isinstance(key, str) and key for key in keys):
        raise WrongFigure(f"tenant keys must be a JSON list of {len(TENANT_NAMES)} texts")
    return list(keys)


def _key(path: Path | None) -> str | None:
    return None if path is None else _read(path).strip() or None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongFigure(f"key file {path} cannot be read: {error}") from None
