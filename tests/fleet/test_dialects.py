"""What is sent to whom: routes, ids or text, salts, ids of requests; and what is not sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleet.contract import Api, Form
from fleet.dialects import DIALECTS, CannotSend, Wish, draft_of

IDS, TEXT = (7, 8, 9), "seven eight nine"
GENERATE, COMPLETIONS, CHAT = Api.GENERATE, Api.COMPLETIONS, Api.CHAT

#: Source: vllm-and-others.md, sglang-run.md, llama.cpp as run, and the routers as run
#: (test_router_forms.py).
#: Kind -> API -> whether ids are taken, whether a salt arrives; missing: the route is not there.
TAKEN: dict[str, dict[Api, tuple[bool, bool]]] = {
    "sglang": {GENERATE: (True, True), COMPLETIONS: (True, True), CHAT: (False, True)},
    "sglang-router": {GENERATE: (True, False), COMPLETIONS: (False, True), CHAT: (False, False)},
    "smg": {GENERATE: (True, True), COMPLETIONS: (False, True), CHAT: (False, True)},
    "vllm": {COMPLETIONS: (True, True), CHAT: (False, True)},
    "vllm-router": {COMPLETIONS: (True, True), CHAT: (False, True)},
    "llamacpp": {COMPLETIONS: (True, False), CHAT: (False, False)},
    "gateway": {COMPLETIONS: (False, False), CHAT: (False, False)},
}
CASES = [(kind, api) for kind in TAKEN for api in Api]
ROUTES = [(kind, api) for kind, apis in TAKEN.items() for api in apis]


def body_for(kind: str, api: Api, **over: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of a wish
    salt = over.pop("cache_salt", "")
    flags = {name: over.pop(name) for name in ("is_streamed", "wants_logprobs") if name in over}
    fields = {"token_ids": IDS, "text": TEXT, "max_new_tokens": 5, **over}
    form = Form(api=api, cache_salt=salt, **flags)
    draft = draft_of(DIALECTS[kind], Wish(form=form, **fields))
    assert (
        draft.route
        == {
            GENERATE: "/generate",
            COMPLETIONS: "/v1/completions",
            CHAT: "/v1/chat/completions",
        }[api]
    )
    return {**json.loads(draft.body), "id of the request": draft.request_id}


def prompt_in(body: dict[str, Any]) -> object:
    found = [body[name] for name in ("input_ids", "text", "prompt") if name in body]
    found += [one["content"] for one in body.get("messages", [])]
    assert len(found) == 1
    return found[0]


def test_every_kind_is_in_the_table() -> None:
    assert set(TAKEN) == set(DIALECTS)


@pytest.mark.parametrize(("kind", "api"), CASES)
def test_ids_are_sent_where_they_are_taken_and_else_the_text(kind: str, api: Api) -> None:
    if api not in TAKEN[kind]:
        with pytest.raises(CannotSend, match=f"{kind} has no /"):
            body_for(kind, api)
        return
    takes_ids, _ = TAKEN[kind][api]
    assert prompt_in(body_for(kind, api)) == (list(IDS) if takes_ids else TEXT)
    assert prompt_in(body_for(kind, api, token_ids=())) == TEXT
    if takes_ids:
        assert prompt_in(body_for(kind, api, text="")) == list(IDS)
    else:
        with pytest.raises(CannotSend, match="no text was given"):
            body_for(kind, api, text="")
    with pytest.raises(CannotSend):
        body_for(kind, api, token_ids=(), text="")


@pytest.mark.parametrize(("kind", "api"), [case for case in CASES if case[1] in TAKEN[case[0]]])
def test_a_salt_that_would_be_lost_is_not_sent(kind: str, api: Api) -> None:
    assert "cache_salt" not in body_for(kind, api)
    if TAKEN[kind][api][1]:
        assert body_for(kind, api, cache_salt="s")["cache_salt"] == "s"
    else:
        with pytest.raises(CannotSend, match="hands no cache_salt on"):
            body_for(kind, api, cache_salt="s")


@pytest.mark.parametrize(("kind", "api"), [case for case in CASES if case[1] in TAKEN[case[0]]])
def test_no_two_requests_have_the_same_id(kind: str, api: Api) -> None:
    bodies = [body_for(kind, api) for _ in range(50)]
    ids = [body["id of the request"] for body in bodies]
    assert len(set(ids)) == 50
    # The engine takes an id for all that begin with it: none may begin another.
    assert {len(one) for one in ids} == {32}
    for body in bodies:
        named = {body[name] for name in ("rid", "request_id") if name in body}
        assert named <= {body["id of the request"]}
    if kind in {"sglang", "smg"} or api is GENERATE:
        assert "rid" in bodies[0]
    if kind in {"vllm", "vllm-router"}:
        assert "request_id" in bodies[0]
    if kind == "gateway":
        assert not {"rid", "request_id", "return_token_ids"} & set(bodies[0])


def test_a_stream_asks_for_its_counts() -> None:
    assert "stream" not in body_for("sglang", COMPLETIONS)
    for api in (COMPLETIONS, CHAT):
        body = body_for("vllm", api, is_streamed=True)
        assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    assert body_for("sglang", GENERATE, is_streamed=True)["stream"] is True


def test_every_api_is_asked_at_temperature_0_for_as_many_tokens_as_wished() -> None:
    params = body_for("sglang", GENERATE)["sampling_params"]
    assert params == {"max_new_tokens": 5, "temperature": 0}
    for api in (COMPLETIONS, CHAT):
        body = body_for("sglang", api, model="m")
        assert (body["max_tokens"], body["temperature"], body["model"]) == (5, 0, "m")


def test_log_probabilities_are_asked_for_with_their_texts() -> None:
    body = body_for("sglang", GENERATE, wants_logprobs=True)
    assert (body["return_logprob"], body["return_text_in_logprobs"]) == (True, True)
    assert body_for("vllm", COMPLETIONS, wants_logprobs=True)["logprobs"] == 1
    chat = body_for("vllm", CHAT, wants_logprobs=True)
    assert (chat["logprobs"], chat["top_logprobs"]) == (True, 1)


def test_vllm_shows_ids_unless_that_would_repeat_a_long_prompt() -> None:
    assert body_for("vllm", COMPLETIONS)["return_token_ids"] is True
    assert "return_token_ids" not in body_for("vllm", COMPLETIONS, token_ids=[1] * 70_000)


def test_a_text_that_is_no_text_is_sent_all_the_same() -> None:
    assert prompt_in(body_for("vllm", CHAT, text="half \ud800 a pair")) == "half \ud800 a pair"


def test_any_sequence_of_ids_is_sent_as_it_is() -> None:
    assert prompt_in(body_for("sglang", GENERATE, token_ids=range(3))) == [0, 1, 2]


@pytest.mark.parametrize(("kind", "api"), ROUTES)
def test_the_temperature_is_handed_on_and_is_0_where_nobody_wants_another(
    kind: str, api: Api
) -> None:
    for wanted in (0.0, 0.9):
        wish = Wish(
            token_ids=IDS, text=TEXT, max_new_tokens=5, form=Form(api=api, temperature=wanted)
        )
        body = json.loads(draft_of(DIALECTS[kind], wish).body)
        assert body.get("sampling_params", body)["temperature"] == wanted


@pytest.mark.parametrize(("kind", "api"), ROUTES)
def test_without_an_id_of_ours_the_same_prompt_twice_is_the_same_body(kind: str, api: Api) -> None:
    wish = Wish(token_ids=IDS, text=TEXT, max_new_tokens=5, form=Form(api=api, has_own_id=False))
    first, second = (draft_of(DIALECTS[kind], wish) for _ in range(2))
    assert first.body == second.body
    assert first.request_id != second.request_id
