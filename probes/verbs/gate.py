"""The verb ``gate``: reads live nodes and judges whether a deploy may go on."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

from common.clock import now
from common.exits import EXIT_INCONCLUSIVE, UsageError
from common.verdicts import Verdict
from fleet.address import policy_from_environment
from fleet.client import OutboundClient
from fleet.contract import FleetError
from fleet.reading import FleetReading
from probes.advising import gates_with, shelf_in
from probes.answering import exit_code, fleet_of, refuse_lowered_context
from probes.arguments import (
    NodesAsked,
    VerbParser,
    add_node_options,
    add_report_options,
    names_nodes,
    read_nodes_asked,
)
from probes.artefacts import in_the_way, read_small, write_private
from probes.asking import Look, look_at_nodes
from probes.issuing import ProofOrder, give_proof, take_back_proof
from probes.judge import judge_fleet
from probes.judgement import Judgement
from probes.proof_bundle import (
    LARGEST_BYTES,
    BadKey,
    BrokenProof,
    check_signing_key,
    new_keys,
    open_proof,
)
from probes.proof_check import broken, check_proof
from probes.reporting import report

SUMMARY = "judge live nodes before a deploy"

_LARGEST_KEY_BYTES = 64 * 1024


def main(argv: list[str]) -> int:
    """Judge the nodes that are named; answer the verdict's exit code. Raises UsageError."""
    options = _parser().parse_args(argv)
    if options.new_proof_key:
        return _make_keys(options)
    if options.verify_proof:
        return _verify(options)
    if options.engine is None:
        raise UsageError("gate: the following arguments are required: --engine")
    order = _proof_order(options)
    gates = gates_with(shelf_in(options.advisories))
    asked = read_nodes_asked(options, os.environ)
    look = asyncio.run(take_look(asked))
    fleet = _fleet(asked, look)
    judgement = judge_fleet(fleet, gates=gates, also=look.problems)
    report(judgement, options, name="gate")
    code = exit_code(judgement.verdict)
    if order is None:
        return code
    if judgement.verdict is not Verdict.PASS:
        take_back_proof(order, tell=_tell)
        return code
    return code if give_proof(order, fleet, judgement, tell=_tell) else EXIT_INCONCLUSIVE


def _parser() -> VerbParser:
    parser = VerbParser(verb="gate", summary=SUMMARY)
    add_node_options(parser, engine_is_required=False)
    add_report_options(parser)
    parser.add_argument("--proof", metavar="FILE", help="write a signed proof of a pass")
    parser.add_argument("--proof-key-file", metavar="KEY", help="private key that signs it")
    parser.add_argument(
        "--verify-proof", metavar="FILE", help="check a proof, and the nodes where some are named"
    )
    parser.add_argument("--proof-public-key-file", metavar="PUB", help="public key to check with")
    parser.add_argument(
        "--new-proof-key", metavar="PREFIX", help="make the keys PREFIX.key and PREFIX.pub"
    )
    return parser


def _fleet(asked: NodesAsked, look: Look) -> FleetReading:
    fleet = fleet_of(look.captures, headroom=asked.headroom, advertised=look.advertised)
    refuse_lowered_context(fleet, asked.context, "--context")
    return fleet


def _proof_order(options: argparse.Namespace) -> ProofOrder | None:
    """Answer where a proof shall go. Raises UsageError before anybody waits for a node."""
    if options.proof is None and options.proof_key_file is None:
        return None
    if options.proof is None or options.proof_key_file is None:
        raise UsageError("gate: --proof FILE and --proof-key-file KEY belong together")
    key = read_small(
        Path(options.proof_key_file), what="the key file", largest_bytes=_LARGEST_KEY_BYTES
    )
    try:
        check_signing_key(key)
    except BadKey as fault:
        raise UsageError(f"the key file {options.proof_key_file}: {fault}") from None
    return ProofOrder(path=Path(options.proof), key=key)


def _verify(options: argparse.Namespace) -> int:
    if options.proof is not None or options.proof_key_file is not None:
        raise UsageError("gate: --verify-proof checks a proof, --proof makes one: name one of them")
    if options.proof_public_key_file is None:
        raise UsageError("gate: --verify-proof needs --proof-public-key-file PUB")
    judgement = _judge_proof(options)
    report(judgement, options, name="proof")
    return exit_code(judgement.verdict)


def _judge_proof(options: argparse.Namespace) -> Judgement:
    asked = read_nodes_asked(options, os.environ) if names_nodes(options) else None
    if asked is not None and options.engine is None:
        raise UsageError("gate: nodes are named, so --engine is needed")
    path = Path(options.verify_proof)
    envelope = read_small(path, what="the proof", largest_bytes=LARGEST_BYTES)
    public = read_small(
        Path(options.proof_public_key_file),
        what="the key file",
        largest_bytes=_LARGEST_KEY_BYTES,
    )
    try:
        proof = open_proof(envelope, public)
    except BadKey as fault:
        raise UsageError(f"the key file {options.proof_public_key_file}: {fault}") from None
    except BrokenProof as fault:
        return broken(str(fault), target=path.name)
    if asked is None:
        return check_proof(proof, target=path.name, at=now(), live=None)
    look = asyncio.run(take_look(asked))
    checked = check_proof(proof, target=path.name, at=now(), live=_fleet(asked, look))
    return Judgement(checks=(*checked.checks, *look.problems))


def _make_keys(options: argparse.Namespace) -> int:
    private_path, public_path = (Path(f"{options.new_proof_key}.{end}") for end in ("key", "pub"))
    for path in (private_path, public_path):
        if path.exists():
            raise in_the_way(path)
    private, public = new_keys()
    write_private(private_path, private, replace=False)
    write_private(public_path, public, replace=False)
    _tell(f"made {private_path} (keep it secret) and {public_path} (give it to who verifies)")
    return 0


async def take_look(asked: NodesAsked) -> Look:
    """Answer what the nodes say. Raises UsageError where the address policy cannot be read."""
    try:
        policy = policy_from_environment(os.environ)
    except FleetError as fault:
        raise UsageError(str(fault)) from None
    async with OutboundClient(policy=policy) as client:
        return await look_at_nodes(client, asked, tell=_tell)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
