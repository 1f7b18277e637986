"""Remedies of checks about versions, settings and the environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from fleet.reading import FleetReading, Reading, Role
from probes.gates.pair_layout import BACKEND
from probes.judgement import Check, Remedy
from probes.limits import SGLANG
from probes.versions import (
    BATCH_LIMIT_SINCE,
    CHECKSUM_SINCE,
    DEFERRED_SINCE,
    SAFE_SINCE,
    back_end_family,
    is_since,
    place_version,
)
from probes.vouched import BATCH_LIMIT, DEFERRED_RELEASE, shows_environment
from probes.what_if import change, outlook, with_flags

_CHECKSUM = "disaggregation_enable_kv_checksum"
#: Pages a call, the default that upstream first proposed (change 32758).
PAGES_A_CALL = 1024
#: The engine's own word for a setting that nobody made.
NONE = "null"
_FLAG_OF: Mapping[str, str] = {
    "kv_cache_dtype": "--kv-cache-dtype",
    "dtype": "--dtype",
    "page_size": "--page-size",
    "quantization": "--quantization",
    "context": "--context-length",
    "speculative_algorithm": "--speculative-algorithm",
    "speculative_num_steps": "--speculative-num-steps",
    "speculative_eagle_topk": "--speculative-eagle-topk",
    "speculative_num_draft_tokens": "--speculative-num-draft-tokens",
    "tp_size": "--tp-size",
    "pp_size": "--pp-size",
    "dp_size": "--dp-size",
    "ep_size": "--ep-size",
}


def for_rejection(fleet: FleetReading, check: Check) -> Iterator[Remedy]:
    """Answer the release that ends a refused request at the door."""
    node = _node(fleet, check.target)
    since = SAFE_SINCE.get(node.engine) if node is not None else None
    if node is not None and since is not None:
        yield Remedy(
            check=check.check,
            target=check.target,
            action=(
                f"upgrade {node.node} from {node.engine} {node.version} to {since} or later; both "
                "sides of a pair together, and judge again, because a new version moves the pool"
            ),
        )


def for_mismatch(fleet: FleetReading, check: Check) -> Iterator[Remedy]:
    """Answer the flags with which decode follows prefill."""
    yield from _follow(fleet, check, "start decode with what prefill has, or the other way round")


def for_layout(fleet: FleetReading, check: Check) -> Iterator[Remedy]:
    """Answer the parallel sizes of prefill, and the canary that earns a difference."""
    yield from _follow(
        fleet, check, "split both sides alike, or earn the difference with a fresh canary round"
    )


def _follow(fleet: FleetReading, check: Check, action: str) -> Iterator[Remedy]:
    """Answer what decode needs to show what prefill shows; flags only where they alone close it."""
    decode = check.target.partition("/")[2]
    node = _node(fleet, decode)
    if node is None:
        return
    wanted = {
        name: str(values).partition(" / ")[0]
        for name, values in check.figures.items()
        if name != BACKEND
    }
    then = outlook(change(fleet, [decode], _shows(wanted)), check)
    flags = [f"{_FLAG_OF[name]} {value}" for name, value in wanted.items() if _is_set(name, value)]
    unset = [_FLAG_OF[name] for name, value in wanted.items() if name in _FLAG_OF and value == NONE]
    others = [name for name in wanted if name not in _FLAG_OF]
    by_flags = node.engine == SGLANG and then.is_closed and not others
    told = [f"{decode} without {', '.join(unset)}" if unset else ""]
    if others and node.engine == SGLANG:
        told += [f"{decode} with {', '.join(flags)}" if flags else ""]
        told += [f"the same {', '.join(others)} on both sides, which no flag alone gives"]
    yield Remedy(
        check=check.check,
        target=check.target,
        action="; ".join([action, *filter(None, told)]),
        flags={decode: tuple(flags)} if by_flags and flags else {},
    )


def _is_set(name: str, value: str) -> bool:
    return name in _FLAG_OF and value != NONE


def _shows(wanted: Mapping[str, str]) -> Callable[[Reading], Reading]:
    """Answer the change to these terms of a page and these parallel sizes."""

    def make(reading: Reading) -> Reading:
        context = wanted.get("context", "")
        return replace(
            reading,
            context=int(context) if context.isdecimal() else reading.context,
            layout=_followed(reading.layout, wanted),
            parallel=_followed(reading.parallel, wanted),
        )

    return make


def _followed(
    shown: Mapping[str, str | None], wanted: Mapping[str, str]
) -> Mapping[str, str | None]:
    return {name: wanted.get(name, value) for name, value in shown.items()}


def for_release(fleet: FleetReading, check: Check) -> Iterator[Remedy]:
    """Answer the variable where the version heeds it, and the release that holds by default."""
    node = _node(fleet, check.target)
    if node is None:
        return
    split = [one.node for one in fleet.readings if one.role is not Role.UNIFIED]
    set_on = change(fleet, [node.node], with_flags(**{DEFERRED_RELEASE: "1"}))
    if outlook(set_on, check).is_closed:
        yield Remedy(
            check=check.check,
            target=check.target,
            action="hold the pages of failed transfers, on every prefill and decode node",
            flags=dict.fromkeys(split, (f"{DEFERRED_RELEASE}=1",)),
        )
        if node.flags.get(DEFERRED_RELEASE) is not None:
            return
    since = DEFERRED_SINCE.get(back_end_family(str(check.figures.get("transfer_backend"))))
    if since is not None and place_version(node.engine, node.version).guards is not None:
        yield Remedy(
            check=check.check,
            target=check.target,
            action=f"upgrade {node.node} to {node.engine} {since} or later, which holds by default",
        )


def for_transfer(fleet: FleetReading, check: Check) -> Iterator[Remedy]:
    """Answer the bound, with the release that heeds it where the version does not."""
    node = _node(fleet, check.target)
    if node is None:
        return
    if node.engine != SGLANG:
        yield Remedy(
            check=check.check,
            target=check.target,
            action=(
                "raise kv_lease_duration in kv_connector_extra_config above the longest time that "
                "a request waits in the router, or shorten the router's queue time-out"
            ),
        )
        return
    heeds = bool(node.version) and place_version(node.engine, node.version).guards is not None
    heeds = heeds and is_since(str(node.version), BATCH_LIMIT_SINCE)
    also = "" if heeds else f", and upgrade it to {BATCH_LIMIT_SINCE} or later"
    if not shows_environment(node):
        also += f"; then attest {BATCH_LIMIT}={PAGES_A_CALL}, for it does not show its environment"
    yield Remedy(
        check=check.check,
        target=check.target,
        action=f"bound one call of {node.node} to {PAGES_A_CALL:,} pages{also}",
        flags={node.node: (f"{BATCH_LIMIT}={PAGES_A_CALL}",)},
    )


def for_detection(fleet: FleetReading, check: Check) -> Iterator[Remedy]:
    """Answer the checksum on both sides, with the release that knows it."""
    names = check.target.split("/")
    nodes = [one for one in (_node(fleet, name) for name in names) if one is not None]
    old = [one for one in nodes if not _knows_checksum(one)]
    as_new = change(fleet, [one.node for one in old], with_flags(version=CHECKSUM_SINCE))
    then = change(as_new, names, with_flags(**{_CHECKSUM: "true"}))
    if not nodes or not outlook(then, check).is_closed:
        yield Remedy(
            check=check.check,
            target=check.target,
            action="start both sides with the same version and layout, then set the checksum",
        )
        return
    told = ", ".join(one.node for one in old)
    also = f", after an upgrade of {told} to {CHECKSUM_SINCE} or later" if old else ""
    yield Remedy(
        check=check.check,
        target=check.target,
        action=f"verify every transfer, on both sides together{also}",
        flags={one.node: ("--disaggregation-enable-kv-checksum",) for one in nodes},
    )


def _knows_checksum(reading: Reading) -> bool:
    placed = place_version(reading.engine, reading.version)
    known = placed.guards is not None and reading.version is not None
    return known and is_since(str(reading.version), CHECKSUM_SINCE)


def for_secrets(fleet: FleetReading, check: Check) -> Iterator[Remedy]:
    """Answer what to do about secrets in clear; no flag of the engine hides them."""
    del fleet
    yield Remedy(
        check=check.check,
        target=check.target,
        action=(
            "set --api-key beside --admin-api-key, give keys by file or environment instead of "
            "the command line, let only Pagewarden and the router reach this port, and replace "
            f"what was shown ({check.figures.get('fields')})"
        ),
    )


def for_spilling(fleet: FleetReading, check: Check) -> Iterator[Remedy]:
    """Answer the per-rank path; how it is written hangs on the storage back end."""
    del fleet
    yield Remedy(
        check=check.check,
        target=check.target,
        action=(
            "give every rank a path of its own in --hicache-storage-backend-extra-config, empty "
            "what the ranks wrote together, and run a canary over the disk tier"
        ),
    )


def _node(fleet: FleetReading, name: str) -> Reading | None:
    return next((one for one in fleet.readings if one.node == name), None)
