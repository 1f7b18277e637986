"""The command line of the drill: figures from a scenario, overridden one by one."""

from __future__ import annotations

import argparse
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn, TypeVar

from drill.cluster import Plan, Tenant
from drill.departures import Aborts
from drill.guards import Guard, switched
from drill.scenarios import (
    DEFAULT_SCENARIO,
    SCENARIOS,
    SLOW_PREFILL_SPEED,
    SLOW_TRANSFER_S,
    Scenario,
)
from drill.settings import (
    DEFAULT_RESERVED_DECODE_TOKENS,
    DEFAULT_TIMEOUT_S,
    NodeSettings,
    Role,
    WrongFigure,
    check,
)
from drill.styles import Style

MODEL = "drill-model"
TENANT_NAMES = ("tenant-a", "tenant-b")
TENANT_KEYS_VARIABLE = "PAGEWARDEN_DRILL_TENANT_KEYS"
_Number = TypeVar("_Number", int, float)
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
    parser = _Parser(
        prog="drill",
        description="Run the simulated prefill/decode cluster.",
        epilog="drill explain --help: which reads of foreign pages its protocol allows, and how",
    )
    figures = parser.add_argument_group("figures; each overrides the scenario's")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), default=DEFAULT_SCENARIO)
    parser.add_argument(
        "--full-scale",
        action="store_true",
        help="the scenario with the incident's figures: 1,048,576 tokens of context",
    )
    figures.add_argument("--engine-version", metavar="VERSION")
    for name in ("prefill-pool", "decode-pool", "context", "page-size"):
        figures.add_argument(f"--{name}", type=int, metavar="TOKENS")
    figures.add_argument("--prefills", type=int, metavar="N")
    figures.add_argument("--decodes", type=int, metavar="N")
    figures.add_argument(
        "--reserved-decode-tokens",
        type=int,
        metavar="TOKENS",
        help="kept free beside each prompt; 512 as the engine's own, a 64th of a small pool",
    )
    figures.add_argument("--waiting-timeout", type=float, default=DEFAULT_TIMEOUT_S, metavar="S")
    figures.add_argument("--bootstrap-timeout", type=float, default=DEFAULT_TIMEOUT_S, metavar="S")
    figures.add_argument("--token-ms", type=float, default=0.0, help="pause between two tokens")
    figures.add_argument(
        "--prefill-speed",
        type=float,
        metavar="TOKENS",
        help="prompt tokens that a prefill node computes in a second; 0: at once",
    )
    parser.add_argument(
        "--router-aborts",
        choices=[str(one) for one in Aborts],
        default=str(Aborts.BOTH),
        help="which legs the router gives up for a client that left before the answer",
    )
    parser.add_argument(
        "--style",
        choices=[str(one) for one in Style],
        default=str(Style.PLAIN),
        help="how an answer shows what its request did not write",
    )
    for name, what in (("guard", "stands"), ("no-guard", "does not stand")):
        parser.add_argument(
            f"--{name}",
            choices=[str(one) for one in Guard],
            action="append",
            default=[],
            help=f"a guard that {what}, whatever version and scenario say; may be repeated",
        )
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
    if options.full_scale:
        scenario = scenario.at_full_scale()
    options.prefills = _figure(options.prefills, scenario.prefills)
    options.decodes = _figure(options.decodes, scenario.decodes)
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
        router_aborts=Aborts(options.router_aborts),
        style=Style(options.style),
        switches=_switches(options, scenario),
        has_gateway=scenario.has_gateway,
    )


def _switches(options: argparse.Namespace, scenario: Scenario) -> dict[Guard, bool]:
    wanted = switched(options.guard, on=True), switched(options.no_guard, on=False)
    both = wanted[0].keys() & wanted[1].keys()
    if both:
        raise WrongFigure(f"guard {min(both)} is asked for and asked to be left out")
    return {**scenario.switches, **wanted[0], **wanted[1]}


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
        prefill_speed=_figure(options.prefill_speed, scenario.prefill_speed),
        reports_cached=scenario.reports_cached,
        api_key=_key(options.node_key_file),
    )
    first = (options.base_port or _DEFAULT_BASE_PORT) + 2 + options.prefills + options.decodes
    prefills = [
        base.with_changes(
            name=f"prefill-{number + 1}",
            role=Role.PREFILL,
            pool=_figure(options.prefill_pool, scenario.prefill_pool),
            bootstrap_port=first + number,
            source_s=scenario.source_s,
            transfer_s=scenario.transfer_s,
            offload_s=scenario.offload_s,
            has_prefix_cache=scenario.has_prefix_cache,
            has_host_tier=scenario.has_host_tier,
            has_disk_tier=scenario.has_disk_tier,
        )
        for number in range(options.prefills)
    ]
    if scenario.is_one_slow:
        prefills[-1] = prefills[-1].with_changes(
            prefill_speed=SLOW_PREFILL_SPEED, transfer_s=SLOW_TRANSFER_S
        )
    decodes = [base.with_changes(name=f"decode-{n + 1}") for n in range(options.decodes)]
    return [*prefills, *decodes]


def _figure(given: _Number | None, usual: _Number) -> _Number:
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
