"""What is sent together, by script, by salt and as text; who leaves; what is never sent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.contract import Completion
from fleet.dialects import DIALECTS
from fleet.speech import Api, Form
from probes.canary.contract import Observer, RoundOrder, Silent
from probes.canary.conversation import Conversation
from probes.canary.prompts import PromptWriter, learn_vocabulary
from probes.canary.rounds import Duty, Outcome, Part, Sender, Sending, Stay
from probes.canary.scene import build_scene
from probes.canary.scripting import Scripts
from probes.canary.spending import spent_on
from probes.canary.waves import AT_ONCE, IN_ROTATION, steps_of
from probes.markers import MarkerIndex, MarkerKey
from tests.probes.canary_fakes import FakePair, Recorder, make_order, tokenize


def fixed(**over: object) -> FakePair:
    return FakePair(version="0.5.22", is_guarded=True, **over)  # type: ignore[arg-type]


def ask(**over: object) -> Sending:
    parts: dict[str, object] = {
        "part": Part.ASK,
        "length": 300,
        "max_new_tokens": 64,
        "duty": Duty.ANSWER,
        "purpose": "test",
    }
    return Sending(**(parts | over))  # type: ignore[arg-type]


async def conversation(
    pair: FakePair,
    *,
    order: RoundOrder | None = None,
    observer: Observer | None = None,
    may_share: bool = True,
) -> Conversation:
    index = MarkerIndex(MarkerKey(b"secret"))
    order = order or make_order(pair)
    writer = PromptWriter(
        vocabulary=await learn_vocabulary(tokenize), index=index, page_size=pair.page_size
    )
    return Conversation(
        order=order,
        scene=build_scene(pair.readings(), target="router"),
        scripts=Scripts(order=order, writer=writer),
        index=index,
        observer=observer or Silent(),
        total=10,
        may_share=may_share,
    )


def test_neighbours_of_one_wave_are_one_step_and_others_stand_alone() -> None:
    sendings = [ask(wave=wave) for wave in (0, 0, 1, 1, 2, 0, 2)]
    assert [len(step) for step in steps_of(sendings)] == [1, 1, 2, 1, 1, 1]


async def test_a_wave_is_under_way_together_and_never_too_many() -> None:
    pair = fixed(pause_s=0.01)
    talk = await conversation(pair)
    await talk.run([ask(wave=1, purpose=str(number)) for number in range(AT_ONCE + 8)])
    assert pair.most_under_way == AT_ONCE
    assert [row.purpose for row in talk.rows] == [str(number) for number in range(AT_ONCE + 8)]
    assert [row.position for row in talk.rows] == [*range(AT_ONCE + 8)]
    assert {row.outcome for row in talk.rows} == {Outcome.ANSWERED}


async def test_a_wave_costs_the_time_of_its_slowest_and_the_tokens_of_all() -> None:
    pair = fixed()
    talk = await conversation(pair)
    await talk.run([ask(), *(ask(wave=1) for _ in range(4)), ask()])
    spent = spent_on(talk.rows)
    assert spent.seconds == pytest.approx(3 * pair.seconds_said)
    assert (spent.requests, spent.tokens) == (6, 6 * (300 + 64))


async def test_a_wave_is_not_sent_where_nobody_allowed_it() -> None:
    pair = fixed()
    talk = await conversation(pair, may_share=False)
    await talk.run([ask(), ask(wave=1), ask(wave=1)])
    assert len(pair.asked) == 1
    assert [row.reason for row in talk.rows] == ["", IN_ROTATION, IN_ROTATION]


async def test_the_kill_switch_stops_a_wave_before_its_next_request() -> None:
    pair = fixed(pause_s=0.001)
    talk = await conversation(pair, observer=_StopsAfter(pair, 3))
    await talk.run([ask(wave=1) for _ in range(AT_ONCE * 2)])
    assert len(pair.asked) == 3
    assert {row.outcome for row in talk.rows if row.is_sent} == {Outcome.ANSWERED}
    assert sum(row.is_sent for row in talk.rows) == 3


class _StopsAfter(Silent):
    def __init__(self, pair: FakePair, asked: int) -> None:
        self._pair, self._most = pair, asked

    async def is_stopped(self) -> bool:
        return len(self._pair.asked) >= self._most


async def test_a_time_out_in_a_wave_lets_nothing_follow() -> None:
    pair = FakePair(prefill_pool=10_624, hangs_over_limit=True)
    talk = await conversation(pair)
    over = ask(length=11_000, wave=1, duty=Duty.EITHER, max_new_tokens=1)
    await talk.run([over, *(ask(wave=1) for _ in range(AT_ONCE)), ask()])
    assert talk.rows[0].outcome is Outcome.NO_ANSWER
    assert not talk.rows[-1].is_sent
    assert "got no answer" in talk.rows[-1].reason


async def test_one_script_is_one_prompt_whoever_sends_it() -> None:
    pair = fixed()
    talk = await conversation(pair)
    await talk.run([ask(script="s", sender=Sender.FILLER), ask(script="s"), ask(script="t"), ask()])
    first, second, other, plain = pair.texts
    assert first == second
    assert len({first, other, plain}) == 3
    assert [row.tenant for row in talk.rows[:2]] == ["tenant-a", "tenant-b"]
    assert talk.rows[0].request == talk.rows[1].request
    assert not any(row.foreign or row.suspects for row in talk.rows), "its own for both"


async def test_a_script_of_two_lengths_is_not_sent_twice() -> None:
    pair = fixed()
    talk = await conversation(pair)
    await talk.run([ask(script="s"), ask(script="s", length=301)])
    assert len(pair.asked) == 1
    assert talk.rows[1].outcome is Outcome.NOT_EXERCISED


async def test_prompts_of_one_stem_share_its_tokens_and_no_more() -> None:
    pair = fixed()
    talk = await conversation(pair)
    await talk.run([ask(stem="s", stem_tokens=64) for _ in range(5)])
    prompts = pair.texts
    assert len({text[:64] for text in prompts}) == 1
    assert len({text[:65] for text in prompts}) == len(prompts)
    assert all(len(text) == 300 for text in prompts)


async def test_a_salt_is_random_and_one_for_a_name() -> None:
    pair = fixed()
    order = make_order(pair, dialect=DIALECTS["sglang"])
    talk = await conversation(pair, order=order)
    await talk.run([ask(salt="one"), ask(salt="one"), ask(salt="two"), ask()])
    salts = [form.cache_salt for form in pair.forms]
    assert salts[0] == salts[1] != salts[2]
    assert salts[3] == ""
    assert min(map(len, salts[:3])) >= 32
    assert "one" not in salts[0]
    again = await conversation(pair, order=order)
    await again.run([ask(salt="one")])
    assert pair.forms[-1].cache_salt not in salts
    assert [row.salt for row in talk.rows] == ["one", "one", "two", ""]


async def test_a_salt_that_would_be_lost_on_the_way_is_sent_by_another_route_or_not() -> None:
    pair = fixed()
    talk = await conversation(pair)
    await talk.run([ask(salt="one")])
    assert {form.api for form in pair.forms} == {Api.COMPLETIONS}
    talk = await conversation(pair, order=make_order(pair, dialect=DIALECTS["gateway"]))
    before = len(pair.asked)
    await talk.run([ask(salt="one")])
    assert len(pair.asked) == before
    assert "cache_salt" in talk.rows[0].reason


class _Chat(FakePair):
    """Puts 11 tokens around a text, as a chat template does."""

    async def ask(self, **over: object) -> Completion:
        came = await super().ask(**over)  # type: ignore[arg-type]
        return replace(came, prompt_tokens=(came.prompt_tokens or 0) + 11)


async def test_a_chat_is_a_text_whose_length_is_what_the_engine_counts() -> None:
    pair = _Chat(version="0.5.22", is_guarded=True)
    talk = await conversation(pair)
    chat = Form(api=Api.CHAT)
    await talk.run([ask(form=chat, length=length) for length in (300, 777, 1_024)])
    counted, *rows = talk.rows
    assert (counted.part, counted.is_read_whole) == (Part.CONTROL, True)
    assert [row.length for row in rows] == [300, 777, 1_024]
    assert all(row.is_read_whole for row in rows)
    assert [len(text) for text in pair.texts[1:]] == [300 - 11, 777 - 11, 1_024 - 11]
    assert {row.api for row in talk.rows} == {"chat"}


async def test_an_engine_without_generate_is_asked_plainly_by_completions() -> None:
    pair = fixed()
    talk = await conversation(pair, order=make_order(pair, dialect=DIALECTS["vllm"]))
    await talk.run([ask()])
    assert [form.api for form in pair.forms] == [Api.COMPLETIONS]
    assert len(talk.rows) == 1, "token ids are taken there, so nothing has to be counted"


@pytest.mark.parametrize("share", [0.2, 0.6])
async def test_a_client_leaves_a_wave_after_its_share_of_the_time(share: float) -> None:
    pair = fixed(pause_s=0.2)
    talk = await conversation(pair)
    pair.seconds_said = 0.5
    leaver = ask(script="s", wave=1, stay=Stay.LEAVES, leave_share=share)
    await talk.run([ask(script="s", part=Part.CONTROL), leaver, ask(wave=1, is_bystander=True)])
    control, left, bystander = talk.rows
    waited_s = control.seconds * share
    expected = Outcome.LEFT if waited_s < pair.pause_s else Outcome.ANSWERED
    assert left.outcome is expected
    assert bystander.outcome is Outcome.ANSWERED


async def test_nobody_leaves_at_a_moment_that_nobody_knows() -> None:
    pair = fixed()
    talk = await conversation(pair)
    await talk.run([ask(wave=1, stay=Stay.LEAVES)])
    assert pair.asked == []
    assert "no moment of leaving" in talk.rows[0].reason


async def test_a_form_that_this_way_cannot_send_is_not_exercised_and_stops_nothing() -> None:
    pair = fixed()
    talk = await conversation(pair, order=make_order(pair, speaker=_CannotSpeak()))
    await talk.run([ask(), ask()])
    assert {row.outcome for row in talk.rows} == {Outcome.NOT_EXERCISED}
    assert {row.reason for row in talk.rows} == {"this way has no such route"}


class _CannotSpeak:
    label = "router"

    async def ask(self, **over: object) -> Completion:
        del over
        return Completion(error="this way has no such route")


async def test_what_is_heard_comes_in_order_of_position() -> None:
    pair, recorder = fixed(pause_s=0.001), Recorder()
    talk = await conversation(pair, observer=recorder)
    await talk.run([ask(), *(ask(wave=1) for _ in range(5)), ask()])
    assert [row.position for row in recorder.rows] == [*range(7)]
