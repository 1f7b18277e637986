"""Gives the gates the advisories that a capture, an option or a person brings along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from common.exits import UsageError
from common.registry import load_plugins
from probes.advisory import Advisory, Shelf
from probes.advisory_files import BadAdvisory, parse_records, read_folder
from probes.contract import GATES, Gate
from probes.gates.advisories import KEY, Advisories


def gates_with(shelf: Shelf) -> dict[str, Gate]:
    """Answer all gates, the one of advisories with more than it knows by itself."""
    load_plugins("probes.gates")
    return {**GATES.all(), KEY: Advisories(shelf)}


def shelf_of(records: Sequence[Mapping[str, object]]) -> Shelf:
    """Answer the advisories that a capture brings. Raises UsageError, one line with the place."""
    advisories: list[Advisory] = []
    for index, record in enumerate(records):
        place = f"advisories[{index}]"
        try:
            advisories += parse_records(record, origin=place)
        except BadAdvisory as fault:
            raise UsageError(f"{place}: {fault}") from None
    return Shelf(advisories=tuple(advisories))


def shelf_in(folder: str | None) -> Shelf:
    """Answer the advisories of a folder that a person named. Raises UsageError for a bad file."""
    if folder is None:
        return Shelf()
    shelf = read_folder(Path(folder))
    if shelf.bad:
        first = shelf.bad[0]
        raise UsageError(f"--advisories {folder}: {first.name}: {first.problem}")
    return shelf
