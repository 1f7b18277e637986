"""What a deployment's form offers: every registered engine and kind of router."""

from __future__ import annotations

from fleet.contract import ENGINES, ROUTERS


def engine_choices() -> list[tuple[str, str]]:
    """Answer the registered engines; uncalled in the field, so a new one needs no migration."""
    return [(key, adapter.title) for key, adapter in ENGINES.all().items()]


def router_choices() -> list[tuple[str, str]]:
    """Answer the registered kinds of router."""
    return [(key, adapter.title) for key, adapter in ROUTERS.all().items()]
