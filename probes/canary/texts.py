"""Prompts as text, for routes that take no token ids: of the length that the tokenizer confirms."""

from __future__ import annotations

from probes.canary.contract import Tokenizer
from probes.canary.prompts import (
    ASK,
    CLOSING,
    FILLER,
    LED_CHARACTERS,
    SEPARATOR,
    STATEMENT,
    Origin,
    Prompt,
    PromptTooShort,
    PromptWriter,
)

#: How often a text is measured before it counts as one that cannot be made.
_TRIES = 24


class NotExact(Exception):
    """No text of exactly the wanted length was found; the text says how near it came."""


async def write_text(
    writer: PromptWriter,
    tokenize: Tokenizer,
    origin: Origin,
    *,
    length: int,
    is_plain: bool = False,
) -> Prompt:
    """Answer a prompt as text that the node's tokenizer says to be exactly so long.

    Joined pieces may come to other tokens than each by itself, so a page that a marker names is the
    one in which it would stand if they did not. ``is_plain``: no marker but the code that is asked
    for, so that all such texts of one length differ in that alone. Raises PromptTooShort, NotExact,
    FleetError.
    """
    if length < _least(writer):
        raise PromptTooShort(f"{length:,} tokens cannot hold the ask and its code as text")
    body, pad, missed = length, 0, 0
    for _ in range(_TRIES):
        compose = _compose_plain if is_plain else _compose
        text, nonce = compose(writer, origin, tokens=body, pad=pad)
        ids = await tokenize(text)
        missed = length - len(ids)
        if missed == 0:
            return Prompt(token_ids=list(ids), nonce=nonce, text=text, origins=(origin,))
        if abs(missed) > len(writer.words.filler) and pad == 0:
            body += missed
        elif pad + missed < 0:
            body -= len(writer.words.filler)
        else:
            pad += missed
    raise NotExact(
        f"no text of exactly {length:,} tokens was found; the last missed it by {missed}"
    )


def _least(writer: PromptWriter) -> int:
    words = writer.words
    pieces = (words.opening, words.statement, words.ask)
    return 2 * words.code_tokens + sum(map(len, pieces)) + words.end_tokens


def _compose(writer: PromptWriter, origin: Origin, *, tokens: int, pad: int) -> tuple[str, str]:
    """Answer a text of about so many tokens and so many characters more, and its code."""
    words = writer.words
    nonce = writer.plant(origin, max(0, tokens - words.end_tokens - words.code_tokens))
    tail = _tail(nonce)
    head = writer.plant(origin, len(words.opening)) + STATEMENT
    at = len(words.opening) + words.code_tokens + len(words.statement)
    last = tokens - len(words.ask) - words.code_tokens - words.end_tokens
    parts = [head]
    for start in writer.grid.starts(first=at, last=last - words.code_tokens):
        parts += [_filler(writer, start - at), writer.plant(origin, start), SEPARATOR]
        at = start + words.code_tokens + len(words.separator)
    parts += [_filler(writer, last - at), _characters(pad), tail]
    return "".join(parts), nonce


def _compose_plain(
    writer: PromptWriter, origin: Origin, *, tokens: int, pad: int
) -> tuple[str, str]:
    words = writer.words
    tail = len(words.ask) + words.code_tokens + len(words.closing)
    nonce = writer.plant(origin, max(0, tokens - len(words.closing) - words.code_tokens))
    head = _filler(writer, tokens - tail - len(words.opening)) + _characters(pad)
    return f"{head}{ASK}{nonce}{CLOSING}", nonce


def _tail(nonce: str) -> str:
    return f"{ASK}{nonce}{CLOSING}{nonce[:LED_CHARACTERS]}"


def _filler(writer: PromptWriter, tokens: int) -> str:
    """Answer words of about so many tokens."""
    each = len(writer.words.filler)
    return _characters(round(max(0, tokens) * len(FILLER) / each))


def _characters(count: int) -> str:
    return (FILLER * (count // len(FILLER) + 1))[:count]
