"""The fleet as one JSON document, to export and to import; no key ever stands in it.

Shape: {"schema": "pagewarden.fleet", "version": 1, "deployments": [{"name", "model", "engine",
"router_kind", "router_url", "router_metrics_url", "control_url", "advertised_context", "headroom",
"granted_tokens", "required_checks", "plans", "tenants": {"tenant_a", "tenant_b"}, "nodes": [{
"name", "url", "role", "bootstrap_port"}]}]}. Lengths and grants in tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from decimal import Decimal, InvalidOperation
from typing import Final

from fleet.contract import FleetError
from fleet.jsontext import NotJson, parse_json
from fleet.reading import DEFAULT_HEADROOM, Role

SCHEMA: Final = "pagewarden.fleet"
VERSION: Final = 1
TENANTS: Final = ("tenant_a", "tenant_b")
_LARGEST: Final = 2**31 - 1


class DocumentError(FleetError):
    """A fleet document cannot be used; the text names every place that is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEntry:
    """One node of a document."""

    name: str
    url: str
    role: Role
    bootstrap_port: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentEntry:
    """One deployment of a document."""

    name: str
    model: str
    engine: str = "sglang"
    router_kind: str = ""
    router_url: str = ""
    router_metrics_url: str = ""
    control_url: str = ""
    advertised_context: int | None = None
    headroom: Decimal = DEFAULT_HEADROOM
    granted_tokens: int = 0
    required_checks: tuple[str, ...] = ()
    plans: tuple[str, ...] = ()
    tenants: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[NodeEntry, ...] = ()


def fleet_text(deployments: tuple[DeploymentEntry, ...]) -> str:
    """Answer the document, sorted by name, with a line break at its end."""
    document = {
        "schema": SCHEMA,
        "version": VERSION,
        "deployments": [
            {**asdict(one), "headroom": f"{one.headroom.normalize():f}"} for one in deployments
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def read_fleet(text: str | bytes) -> tuple[DeploymentEntry, ...]:
    """Answer the deployments of a document. Raises DocumentError with every place that is wrong."""
    try:
        document = parse_json(text)
    except NotJson as fault:
        raise DocumentError(f"the fleet document is no JSON: {fault}") from None
    reader = _Reader()
    entries = reader.read(document)
    if reader.faults:
        raise DocumentError("; ".join(reader.faults))
    return entries


class _Reader:
    """Reads a document part by part and collects what is wrong, each with its place."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    def read(self, document: object) -> tuple[DeploymentEntry, ...]:
        held = self._object(document, "the fleet document")
        if held is None:
            return ()
        if held.get("schema") != SCHEMA or held.get("version") != VERSION:
            self.faults.append(
                f'the fleet document must say "schema": "{SCHEMA}" and "version": {VERSION}'
            )
            return ()
        self._refuse_strangers(held, {"schema", "version", "deployments"}, "")
        found = [
            entry
            for number, one in enumerate(self._list(held, "deployments", ""))
            if (entry := self._deployment(one, f"deployments[{number}]")) is not None
        ]
        self._refuse_twins([one.name for one in found], "deployments")
        return tuple(found)

    def _deployment(self, value: object, place: str) -> DeploymentEntry | None:
        held = self._object(value, place)
        if held is None:
            return None
        self._refuse_strangers(held, {one.name for one in fields(DeploymentEntry)}, place)
        nodes = [
            node
            for number, one in enumerate(self._list(held, "nodes", place))
            if (node := self._node(one, f"{place}.nodes[{number}]")) is not None
        ]
        self._refuse_twins([one.name for one in nodes], f"{place}.nodes")
        return DeploymentEntry(
            name=self._text(held, "name", place, is_needed=True),
            model=self._text(held, "model", place, is_needed=True),
            engine=self._text(held, "engine", place) or "sglang",
            router_kind=self._text(held, "router_kind", place),
            router_url=self._text(held, "router_url", place),
            router_metrics_url=self._text(held, "router_metrics_url", place),
            control_url=self._text(held, "control_url", place),
            advertised_context=self._whole(held, "advertised_context", place),
            headroom=self._headroom(held, place),
            granted_tokens=self._whole(held, "granted_tokens", place) or 0,
            required_checks=self._texts(held, "required_checks", place),
            plans=self._texts(held, "plans", place),
            tenants=self._tenants(held, place),
            nodes=tuple(nodes),
        )

    def _node(self, value: object, place: str) -> NodeEntry | None:
        held = self._object(value, place)
        if held is None:
            return None
        self._refuse_strangers(held, {one.name for one in fields(NodeEntry)}, place)
        role = self._text(held, "role", place, is_needed=True)
        if role and role not in list(Role):
            self.faults.append(f"{place}.role: must be one of {', '.join(Role)}")
            return None
        return NodeEntry(
            name=self._text(held, "name", place, is_needed=True),
            url=self._text(held, "url", place, is_needed=True).rstrip("/"),
            role=Role(role) if role else Role.UNIFIED,
            bootstrap_port=self._whole(held, "bootstrap_port", place),
        )

    def _object(self, value: object, place: str) -> dict[str, object] | None:
        if isinstance(value, dict):
            return value
        self.faults.append(f"{place}: must be a JSON object")
        return None

    def _list(self, held: Mapping[str, object], name: str, place: str) -> list[object]:
        value = held.get(name, [])
        if isinstance(value, list):
            return value
        self.faults.append(f"{_at(place, name)}: must be a list")
        return []

    def _text(
        self, held: Mapping[str, object], name: str, place: str, *, is_needed: bool = False
    ) -> str:
        value = held.get(name, "")
        if not isinstance(value, str) or not value.isprintable() or (is_needed and not value):
            self.faults.append(f"{_at(place, name)}: must be a text{' of its own' * is_needed}")
            return ""
        return value

    def _texts(self, held: Mapping[str, object], name: str, place: str) -> tuple[str, ...]:
        values = self._list(held, name, place)
        texts = [value for value in values if isinstance(value, str) and value.isprintable()]
        if len(texts) != len(values):
            self.faults.append(f"{_at(place, name)}: must be a list of texts")
        return tuple(texts)

    def _whole(self, held: Mapping[str, object], name: str, place: str) -> int | None:
        value = held.get(name)
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if value is None or (is_whole and 0 <= int(str(value)) <= _LARGEST):
            return None if value is None else int(str(value))
        self.faults.append(f"{_at(place, name)}: must be a whole number from 0 to {_LARGEST}")
        return None

    def _headroom(self, held: Mapping[str, object], place: str) -> Decimal:
        value = held.get("headroom", str(DEFAULT_HEADROOM))
        try:
            headroom = Decimal(str(value)) if not isinstance(value, bool) else Decimal("NaN")
        except InvalidOperation:
            headroom = Decimal("NaN")
        if headroom.is_finite() and headroom >= 1:
            return headroom
        self.faults.append(f"{_at(place, 'headroom')}: must be a number from 1")
        return DEFAULT_HEADROOM

    def _tenants(self, held: Mapping[str, object], place: str) -> dict[str, str]:
        value = held.get("tenants", {})
        inner = _at(place, "tenants")
        named = self._object(value, inner)
        if named is None:
            return {}
        self._refuse_strangers(named, set(TENANTS), inner)
        return {name: self._text(named, name, inner) for name in TENANTS if named.get(name)}

    def _refuse_strangers(self, held: Mapping[str, object], known: set[str], place: str) -> None:
        """Object to fields that nobody reads: a typing error would pass in silence, a key too."""
        for name in sorted(set(held) - known):
            shown = name if name.isprintable() and len(name) < 60 else "a field"  # noqa: PLR2004
            self.faults.append(
                f"{_at(place, shown)}: is no field of this document (keys are set on the "
                "deployment's page)"
            )

    def _refuse_twins(self, names: list[str], place: str) -> None:
        for name in sorted({name for name in names if name and names.count(name) > 1}):
            self.faults.append(f"{place}: two are called {name}")


def _at(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name
