"""Recorded answers, heard again in parts of any size; and what they say, read in another way."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet.contract import Completion
from fleet.hearing import Ear

ANSWERS = Path(__file__).resolve().parent.parent / "data" / "answers"
ROWS = [
    json.loads(line)
    for path in sorted(ANSWERS.glob("*.jsonl"))
    for line in path.read_text(encoding="utf-8").splitlines()
]


def hear(row: dict[str, Any], *, part_bytes: int, step_s: float = 0.001) -> Completion:
    """Hear a recorded answer in parts of that many bytes, one each ``step_s`` seconds."""
    ear = Ear(is_streamed=row["is_streamed"])
    ear.begin(row["status"], {"content-type": row["content_type"]})
    body = row["body"].encode()
    for place, start in enumerate(range(0, len(body), part_bytes)):
        if ear.hear(body[start : start + part_bytes], place * step_s):
            break
    return ear.completion(seconds=1.0)


def documents_of(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Answer the JSON of every event, or of the whole body; nothing where it is none."""
    body = row["body"]
    if not body.startswith("data: "):
        return [json.loads(body)]
    events = [event.removeprefix("data: ") for event in body.split("\n\n") if event.strip()]
    try:
        return [json.loads(event) for event in events if event != "[DONE]"]
    except ValueError:
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a served answer says, read by the rules of its route."""

    answer: str
    finish: str | None
    prompt_tokens: int | None
    completion_tokens: int | None


def told_by(row: dict[str, Any]) -> Told:
    documents = documents_of(row)
    if row["path"] == "/generate":
        last = documents[-1]
        meta = last["meta_info"]
        return Told(
            answer=last["text"],
            finish=meta["finish_reason"]["type"],
            prompt_tokens=meta["prompt_tokens"],
            completion_tokens=meta["completion_tokens"],
        )
    if row["path"] == "/completion":
        return Told(
            answer=documents[0]["content"],
            finish={"limit": "length"}[documents[0]["stop_type"]],
            prompt_tokens=documents[0]["tokens_evaluated"],
            completion_tokens=documents[0]["tokens_predicted"],
        )
    choices = [one for document in documents for one in document["choices"]]
    said = [one.get("message") or one.get("delta") or one for one in choices]
    usage: dict[str, Any] = next(
        (one["usage"] for one in reversed(documents) if one.get("usage")), {}
    )
    timings = documents[-1].get("timings", {})
    timed = timings["prompt_n"] + timings["cache_n"] if timings else None
    finishes = [one["finish_reason"] for one in choices if one["finish_reason"]]
    return Told(
        answer="".join(one.get("content") or one.get("text") or "" for one in said),
        finish=finishes[0] if finishes else None,
        prompt_tokens=usage.get("prompt_tokens", timed),
        completion_tokens=usage.get("completion_tokens", timings.get("predicted_n")),
    )
