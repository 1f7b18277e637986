"""Answer styles: what other requests wrote is re-cased, split or encoded, own text never is."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drill.options import plan_of, read_options
from drill.settings import NodeSettings, WrongFigure
from drill.styles import Style, styled

Launch = Callable[..., Awaitable[Any]]
MakePair = Callable[..., list[NodeSettings]]

CHANGING = (Style.UPPER, Style.SPLIT, Style.BASE64)
byte_values = st.binary(max_size=60)


def _said(words: list[tuple[bytes, bool]], style: Style) -> bytes:
    return bytes(styled(((one, own) for text, own in words for one in text), style))


def test_upper_turns_foreign_letters_only() -> None:
    assert _said([(b"mine ", True), (b"yours 9f-\xc3\xa9", False)], Style.UPPER) == (
        b"mine YOURS 9F-\xc3\xa9"
    )


def test_split_puts_a_hyphen_after_every_fifth_foreign_character() -> None:
    assert _said([(b"mine and", True), (b"AM9K3Q7TZX04", False)], Style.SPLIT) == (
        b"mine andAM9K3-Q7TZX-04"
    )


@given(st.lists(byte_values, min_size=1, max_size=5))
def test_base64_encodes_every_foreign_stretch_by_itself(stretches: list[bytes]) -> None:
    words = [part for text in stretches for part in ((text, False), (b"|", True))]
    said = _said(words, Style.BASE64).split(b"|")[:-1]
    assert [base64.b64decode(one) for one in said] == stretches


@given(byte_values, st.sampled_from(CHANGING))
def test_own_text_is_never_changed(text: bytes, style: Style) -> None:
    assert _said([(text, True)], style) == text


@pytest.mark.parametrize("style", CHANGING)
def test_tokens_that_are_no_bytes_pass_through(style: Style) -> None:
    assert list(styled([(400, False), (65, True)], style)) == [400, 65]


CODE = "am9k-31-qrst"


def _prompt(word: str, length: int) -> str:
    return (f"{word} " + "the quick brown fox jumps over the lazy dog " * 40)[:length]


@pytest.fixture
async def leaking(launch: Launch, make_pair: MakePair) -> Any:  # noqa: ANN401
    figures = {"context": 1024, "page_size": 16, "reserved_decode_tokens": 16}
    rig = await launch(make_pair(640, 1280, **figures))
    for _ in range(4):
        await rig.say(_prompt(CODE, 600), 4, tenant=rig.cluster.plan.tenants[0])
    return rig


async def _leaked(rig: Any, style: Style) -> str:  # noqa: ANN401
    switched = await rig.ask("POST", "control", "/style", {"style": style})
    assert (switched.status, switched.body["style"]) == (200, style)
    return str((await rig.generate(_prompt("b" * 8, 700), 300)).body["text"])


async def test_a_leak_is_told_plainly_and_re_cased(leaking: Any) -> None:  # noqa: ANN401
    plain = await _leaked(leaking, Style.PLAIN)
    assert CODE in plain
    assert await _leaked(leaking, Style.UPPER) == plain.upper()


async def test_a_leak_is_told_in_pieces(leaking: Any) -> None:  # noqa: ANN401
    text = await _leaked(leaking, Style.SPLIT)
    assert CODE not in text
    assert CODE.replace("-", "") in text.replace("-", "")
    # Prefill's own first token comes before what decode reads.
    assert max(len(piece) for piece in text[1:].split("-")) == 5


async def test_a_leak_is_told_in_base64(leaking: Any) -> None:  # noqa: ANN401
    text = await _leaked(leaking, Style.BASE64)
    assert CODE not in text
    encoded = text[1:]
    assert CODE in base64.b64decode(encoded[: len(encoded) // 4 * 4]).decode()


@pytest.mark.parametrize("style", Style)
async def test_a_healthy_cluster_answers_the_same_in_every_style(
    launch: Launch, make_pair: MakePair, style: Style
) -> None:
    rig = await launch(make_pair(1280, 1280, context=1024, page_size=16))
    plain = await rig.say(_prompt("abc-1234", 700), 40)
    await rig.ask("POST", "control", "/style", {"style": style})
    assert await rig.say(_prompt("abc-1234", 700), 40) == plain


def test_the_command_line_takes_a_style() -> None:
    assert plan_of(read_options([])).style is Style.PLAIN
    for style in Style:
        assert plan_of(read_options(["--style", style])).style is style
    with pytest.raises(WrongFigure, match="style"):
        read_options(["--style", "loud"])
