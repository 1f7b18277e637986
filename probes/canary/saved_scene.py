"""The scene of a round as published, and read back; others name only the figures they know."""

from __future__ import annotations

from dataclasses import asdict

from probes.canary.saved_fields import LARGEST, BadRound, Document, count_in, objects_in, text_in
from probes.canary.scene import PairFigures, Scene

_FIGURES = (
    "prefill_first_refused",
    "prefill_all_refuse",
    "decode_first_refused",
    "decode_all_refuse",
    "prefill_free",
    "decode_free",
)


def scene_document(scene: Scene) -> dict[str, object]:
    """Answer the published JSON of a scene. Unit: tokens."""
    return {
        "first_refused": scene.first_refused,
        "context": scene.context,
        "page_size": scene.page_size,
        "pool": scene.pool,
        "fill": scene.fill,
        "pairs": [asdict(pair) for pair in scene.pairs],
    }


def read_scene(document: Document, *, target: str) -> Scene:
    """Answer the scene of a saved round; without a limit every length is within it.

    Raises BadRound.
    """
    pool = count_in(document, "pool") or 0
    pairs = tuple(_pair(one) for one in objects_in(document, "pairs"))
    return Scene(
        target=target,
        pairs=pairs or (_one_limit(document, target, pool),),
        page_size=count_in(document, "page_size") or 1,
        pool=pool,
        fill=count_in(document, "fill") or pool,
        context=count_in(document, "context"),
    )


def _one_limit(document: Document, target: str, pool: int) -> PairFigures:
    first = count_in(document, "first_refused")
    if first is None:
        first = count_in(document, "context") or LARGEST
    free = pool or LARGEST
    return PairFigures(
        name=target,
        prefill_first_refused=first,
        prefill_all_refuse=first,
        decode_first_refused=first,
        decode_all_refuse=first,
        prefill_free=free,
        prefill_page=None,
        decode_free=free,
        reserve=0,
        is_unified=True,
    )


def _pair(document: Document) -> PairFigures:
    figures = {name: count_in(document, name) for name in _FIGURES}
    missing = [name for name, figure in figures.items() if figure is None]
    if missing:
        raise BadRound(f"scene.pairs: {missing[0]} is missing")
    known = {name: figure or 0 for name, figure in figures.items()}
    return PairFigures(
        name=text_in(document, "name"),
        prefill_page=count_in(document, "prefill_page"),
        reserve=count_in(document, "reserve"),
        is_unified=document.get("is_unified") is True,
        has_slots=document.get("has_slots") is True,
        **known,
    )
