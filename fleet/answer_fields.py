"""Reads one document of an answer, a whole one or a frame: what it says, counts and ends with.

Source: as recorded of SGLang 0.5.19 to 0.5.23, vLLM 0.32.0, llama.cpp, sglang-router 0.3.2 and
smg 1.13.0; the shape tells which of them it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fleet.error_fields import error_in, is_error, read_finish, status_in
from fleet.jsontext import clean_text

_LARGEST_COUNT: Final = 10**12
_LONGEST_NAME: Final = 120
#: How vLLM writes a token whose text was not asked for.
_TOKEN_ID: Final = re.compile(r"token_id:(\d{1,10})")

Object = Mapping[str, object]
_NOTHING: Final[Object] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What one document says. ``answer`` is the text of the first choice; None is not said.

    ``is_generate`` tells the shape of SGLang's own route, whose frames repeat what came before.
    ``holds_text`` also counts reasoning, arguments of tools and tokens without a text of their own.
    """

    answer: str = ""
    holds_text: bool = False
    is_generate: bool = False
    is_error: bool = False
    has_answer: bool = False
    token_ids: tuple[int, ...] = ()
    finish: str | None = None
    error: str = ""
    event_status: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    answer_id: str = ""
    model: str = ""


def read_piece(document: object) -> Piece:
    """Answer what a document says; never raises on any value."""
    if isinstance(document, list) and len(document) == 1:
        document = document[0]
    if not isinstance(document, dict):
        return Piece()
    if is_error(document):
        return Piece(
            is_error=True,
            error=error_in(document) or "the answer holds an error",
            event_status=status_in(document),
        )
    if isinstance(document.get("choices"), list):
        return _read_choices(document)
    if "tokens_predicted" in document or "tokens_evaluated" in document:
        return _read_llamacpp(document)
    return _read_generate(document)


def _read_generate(document: Object) -> Piece:
    meta = object_in(document, "meta_info")
    finish, why, status = read_finish(meta.get("finish_reason"))
    text = document.get("text")
    ids = _ids(document.get("output_ids")) or _ids_of_logprobs(meta.get("output_token_logprobs"))
    return Piece(
        answer=text if isinstance(text, str) else "",
        holds_text=finish != "abort" and bool(text or ids),
        is_generate="meta_info" in document,
        has_answer=isinstance(text, str),
        token_ids=ids,
        finish=finish,
        error=why,
        event_status=status,
        prompt_tokens=_count(meta.get("prompt_tokens")),
        completion_tokens=_count(meta.get("completion_tokens")),
        cached_tokens=_count(meta.get("cached_tokens")),
        answer_id=_name(meta.get("id", document.get("id"))),
        model=_name(document.get("model")),
    )


def _read_choices(document: Object) -> Piece:
    choice = _first_choice(document["choices"])
    said = object_in(choice, "message") or object_in(choice, "delta") or choice
    text = said.get("text", said.get("content"))
    finish, why, status = read_finish(choice.get("finish_reason"))
    counts = _counts(document)
    ids = _ids(choice.get("token_ids")) or _ids_in_words(choice.get("logprobs"))
    return Piece(
        answer=text if isinstance(text, str) else "",
        holds_text=finish != "abort" and (bool(ids) or _holds_text(said)),
        has_answer=bool(choice),
        token_ids=ids,
        finish=finish,
        error=why,
        event_status=status,
        prompt_tokens=counts[0],
        completion_tokens=counts[1],
        cached_tokens=counts[2],
        answer_id=_name(document.get("id")),
        model=_name(document.get("model")),
    )


def _read_llamacpp(document: Object) -> Piece:
    """Read llama.cpp's own route, which nobody here asks; a gateway might."""
    text, stop = document.get("content"), document.get("stop_type")
    return Piece(
        answer=text if isinstance(text, str) else "",
        holds_text=bool(text),
        has_answer=isinstance(text, str),
        token_ids=_ids(document.get("tokens")),
        finish={"limit": "length", "eos": "stop", "word": "stop"}.get(str(stop)),
        prompt_tokens=_count(document.get("tokens_evaluated")),
        completion_tokens=_count(document.get("tokens_predicted")),
        cached_tokens=_count(object_in(document, "timings").get("cache_n")),
        model=_name(document.get("model")),
    )


def object_in(document: Object, name: str) -> Object:
    """Answer the object of this name, an empty one where there is none."""
    value = document.get(name)
    return value if isinstance(value, dict) else _NOTHING


def _first_choice(choices: object) -> Object:
    found = [one for one in choices if isinstance(one, dict)] if isinstance(choices, list) else []
    return next((one for one in found if one.get("index", 0) == 0), _NOTHING)


def _counts(document: Object) -> tuple[int | None, int | None, int | None]:
    """Answer the tokens of the prompt and of the answer, and those that came from a cache.

    llama.cpp counts in ``timings`` where usage was not asked for.
    """
    usage, timings = object_in(document, "usage"), object_in(document, "timings")
    details = object_in(usage, "prompt_tokens_details")
    read, cached = _count(timings.get("prompt_n")), _count(timings.get("cache_n"))
    timed = None if read is None or cached is None else read + cached
    shown = (usage.get("prompt_tokens"), usage.get("completion_tokens"))
    prompt, completion = map(_count, shown)
    held = _count(details.get("cached_tokens"))
    return (
        timed if prompt is None else prompt,
        _count(timings.get("predicted_n")) if completion is None else completion,
        cached if held is None else held,
    )


def _holds_text(said: Object) -> bool:
    names = ("text", "content", "reasoning", "reasoning_content", "refusal", "tool_calls")
    return any(said.get(name) for name in names)


def _ids(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(one) is int for one in value):
        return ()
    return tuple(value)


def _ids_of_logprobs(value: object) -> tuple[int, ...]:
    """Read [[-0.5, 17, "text"], ...]."""
    places = value if isinstance(value, list) else []
    pair = 2
    return _ids([one[1] for one in places if isinstance(one, list) and len(one) >= pair])


def _ids_in_words(value: object) -> tuple[int, ...]:
    """Read the tokens of log-probabilities: llama.cpp's ids, or words like ``token_id:17``."""
    logprobs = value if isinstance(value, dict) else _NOTHING
    tokens, places = logprobs.get("tokens"), logprobs.get("content")
    if isinstance(places, list):
        found = [one for one in places if isinstance(one, dict)]
        if found and all("id" in one for one in found):
            return _ids([one["id"] for one in found])
        tokens = [one.get("token") for one in found]
    words = [str(one) for one in tokens] if isinstance(tokens, list) else []
    ids = [match for match in map(_TOKEN_ID.fullmatch, words) if match is not None]
    return tuple(int(match[1]) for match in ids) if len(ids) == len(words) else ()


def _name(value: object) -> str:
    return clean_text(value, longest=_LONGEST_NAME) if isinstance(value, str) else ""


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= _LARGEST_COUNT else None
