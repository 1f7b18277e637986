"""Tells which kind of router answers at an address, by what it answers."""

from __future__ import annotations

from typing import Final

from common.registry import load_plugins
from fleet.contract import ROUTERS, Outbound, RouterAccess, RouterError, RouterTraits
from fleet.jsontext import NotJson, clean_text, parse_json
from fleet.routers.asking import NOT_FOUND, OK, ask, ask_list, name_of, unreadable
from fleet.routers.worker_list import NotAList, entries_of

#: One route that only vllm-router has; what the others answer there differs too. Nothing else is
#: asked: smg and vllm-router send /get_server_info on to an engine, which shows its keys.
_TELLING_PATH: Final = "/list_workers"
_LIST_PATH: Final = "/workers"


async def recognise(client: Outbound, url: str, key: str) -> str:
    """Answer the key of the one kind of router whose answers these are. Raises RouterError."""
    load_plugins("fleet.routers")
    router = RouterAccess(url=url, client=client, key=key)
    traits = await _traits(router)
    kinds = [name for name, adapter in ROUTERS.all().items() if adapter.recognises(traits)]
    if len(kinds) == 1:
        return kinds[0]
    asks = "none of" if not kinds else "more than one of"
    raise RouterError(
        f"{name_of(router)} answers like {asks} {', '.join(ROUTERS.all())}: say which kind it is"
    )


async def is_no_router(client: Outbound, url: str, key: str) -> bool:
    """Answer whether what answers here has neither route by which routers list their workers.

    Every kind of router that is known has one of them. Raises RouterError where nothing came.
    """
    router = RouterAccess(url=url, client=client, key=key)
    replies = [await ask(router, "GET", path) for path in (_LIST_PATH, _TELLING_PATH)]
    return all(reply.status == NOT_FOUND for reply in replies)


async def _traits(router: RouterAccess) -> RouterTraits:
    """Answer what tells kinds apart: fields that every entry has, else one more route."""
    try:
        entries = entries_of(await ask_list(router))
    except NotAList as fault:
        raise unreadable(router, fault) from None
    if entries:
        shared = frozenset.intersection(*(frozenset(entry) for entry in entries))
        anywhere = frozenset.union(*(frozenset(entry) for entry in entries))
        if ("id" in anywhere) != ("id" in shared) or ("status" in anywhere) != ("status" in shared):
            raise unreadable(router, NotAList("its entries are not of one kind"))
        return RouterTraits(has_workers=True, entry_fields=shared)
    return await _traits_of_empty(router)


async def _traits_of_empty(router: RouterAccess) -> RouterTraits:
    reply = await ask(router, "GET", _TELLING_PATH)
    try:
        said = parse_json(reply.body)
    except NotJson:
        said = None
    if reply.status == OK and isinstance(said, dict) and isinstance(said.get("urls"), list):
        return RouterTraits(lists_urls=True)
    if reply.status != NOT_FOUND or (said is None and reply.body.strip()):
        raise RouterError(
            f"{name_of(router)} lists no worker and answers {_TELLING_PATH} with {reply.status}: "
            "say which kind it is"
        )
    error = said.get("error") if isinstance(said, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    if said is not None and not isinstance(code, str):
        raise RouterError(f"{name_of(router)} lists no worker: say which kind it is")
    return RouterTraits(unknown_path_code=clean_text(code or ""))
