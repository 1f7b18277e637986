"""Options of the verb ``canary``, and what they amount to."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from common.exits import UsageError
from fleet.address import parse_url
from fleet.contract import ENGINES, AddressRefused
from fleet.endpoint import place_of
from fleet.live import NodeAddress
from fleet.reading import Role
from probes.arguments import ADMIN_KEY_VARIABLE, NODE_KEY_VARIABLE, ROUTER_KEY_VARIABLE, read_key
from probes.canary.contract import PLANS
from probes.canary.rounds import Acceptance, Tenant, Way

TENANT_A_KEY_VARIABLE = "PAGEWARDEN_TENANT_A_KEY"
TENANT_B_KEY_VARIABLE = "PAGEWARDEN_TENANT_B_KEY"
DEFAULT_PLAN = "boundary"

_MOST_ROUNDS = 10_000
_ROLES = (Role.PREFILL, Role.DECODE, Role.UNIFIED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundsAsked:
    """What a person asked for on the command line; keys are never shown. Unit: tokens."""

    engine: str
    target: str
    way: Way
    nodes: tuple[NodeAddress, ...]
    model: str
    plans: tuple[str, ...]
    rounds: int
    tenant_a: Tenant
    tenant_b: Tenant
    budget_tokens: int | None = None
    acceptance: Acceptance | None = None
    key: str = field(default="", repr=False)
    admin_key: str = field(default="", repr=False)
    router_key: str = field(default="", repr=False)


def add_round_options(parser: argparse.ArgumentParser) -> None:
    """Add every option of the verb."""
    parser.add_argument("--engine", required=True, choices=[*ENGINES.all()])
    parser.add_argument(
        "--target", required=True, metavar="URL", help="the router, or the one --unified node"
    )
    parser.add_argument("--via", choices=[str(way) for way in Way], default=str(Way.ROUTER))
    for role in _ROLES:
        parser.add_argument(
            f"--{role}", action="append", default=[], metavar="URL", help=f"a {role} node"
        )
    parser.add_argument("--model", required=True, metavar="M", help="the served model's name")
    for name, variable in (
        ("tenant-a-key", TENANT_A_KEY_VARIABLE),
        ("tenant-b-key", TENANT_B_KEY_VARIABLE),
        ("key", NODE_KEY_VARIABLE),
        ("admin-key", ADMIN_KEY_VARIABLE),
        ("router-key", ROUTER_KEY_VARIABLE),
    ):
        parser.add_argument(f"--{name}-file", metavar="FILE", help=f"else the variable {variable}")
    parser.add_argument(
        "--plan", action="append", default=[], metavar="NAME", help=", ".join(PLANS.all())
    )
    parser.add_argument("--rounds", default="1", metavar="N")
    parser.add_argument("--budget-tokens", metavar="N", help="what all rounds together may cost")
    parser.add_argument("--accept-exposure", metavar="REASON")
    parser.add_argument("--as", dest="accepted_by", metavar="NAME", help="who accepts")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")


def read_rounds_asked(options: argparse.Namespace, environment: Mapping[str, str]) -> RoundsAsked:
    """Answer what the options amount to. Raises UsageError."""
    nodes = tuple(_nodes(options))
    way = Way(options.via)
    if way is Way.PAIR and len({node.role for node in nodes} - {Role.UNIFIED}) == 1:
        raise UsageError("--via pair needs --prefill and --decode, or neither (then all listed)")
    return RoundsAsked(
        engine=options.engine,
        target=_address(options.target),
        way=way,
        nodes=nodes,
        model=options.model,
        plans=_plans(options.plan),
        rounds=_count(options.rounds, "--rounds", least=1, most=_MOST_ROUNDS),
        tenant_a=_tenant(1, "a", options.tenant_a_key_file, environment),
        tenant_b=_tenant(2, "b", options.tenant_b_key_file, environment),
        budget_tokens=None
        if options.budget_tokens is None
        else _count(options.budget_tokens, "--budget-tokens", least=0, most=10**12),
        acceptance=_acceptance(options),
        key=read_key(options.key_file, NODE_KEY_VARIABLE, environment),
        admin_key=read_key(options.admin_key_file, ADMIN_KEY_VARIABLE, environment),
        router_key=read_key(options.router_key_file, ROUTER_KEY_VARIABLE, environment),
    )


def _nodes(options: argparse.Namespace) -> Iterator[NodeAddress]:
    seen: set[str] = set()
    for role in _ROLES:
        for number, url in enumerate(getattr(options, role), start=1):
            address = _address(url)
            if address in seen:
                raise UsageError(f"the node {address} is named twice")
            seen.add(address)
            yield NodeAddress(
                name=f"{role}-{number}", url=address, role=role, engine=options.engine
            )


def _address(url: str) -> str:
    try:
        parse_url(url)
    except AddressRefused as refusal:
        raise UsageError(str(refusal)) from None
    return place_of(url)


def _plans(named: list[str]) -> tuple[str, ...]:
    for name in named:
        if name not in PLANS:
            known = ", ".join(PLANS.all())
            raise UsageError(f"no canary plan is called {name!r} (known: {known})")
    return tuple(dict.fromkeys(named)) or (DEFAULT_PLAN,)


def _tenant(number: int, letter: str, path: str | None, environment: Mapping[str, str]) -> Tenant:
    variable = TENANT_A_KEY_VARIABLE if number == 1 else TENANT_B_KEY_VARIABLE
    key = read_key(path, variable, environment)
    if not key:
        raise UsageError(f"no key of tenant {letter}: give --tenant-{letter}-key-file")
    return Tenant(number=number, name=f"tenant-{letter}", key=key)


def _acceptance(options: argparse.Namespace) -> Acceptance | None:
    reason, name = options.accept_exposure, options.accepted_by
    if reason is None and name is None:
        return None
    if not (reason or "").strip() or not (name or "").strip():
        raise UsageError("--accept-exposure REASON and --as NAME belong together, neither empty")
    return Acceptance(by=name.strip(), reason=reason.strip())


def _count(word: str, option: str, *, least: int, most: int) -> int:
    # int() would also take "1_000", blanks and digits of other scripts.
    number = (
        int(word) if word.isascii() and word.isdecimal() and len(word) <= len(str(most)) else -1
    )
    if not least <= number <= most:
        raise UsageError(f"{option} is no whole number from {least} to {most}")
    return number
