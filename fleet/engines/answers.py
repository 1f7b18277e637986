"""What every adapter asks of a saved answer: which of several counts, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from fleet.contract import Answer
from fleet.engines.documents import as_list, as_object
from fleet.engines.secrets import exposed_names
from fleet.jsontext import NotJson, parse_json

OK: Final = 200
NOT_FOUND: Final = 404
#: What may be kept of a parsed body; None where its shape is not the expected one.
Reduction = Callable[[object], object]
#: What a reduction looks at in an answer that plainly shows no secret; None where that is not so.
Glimpse = Callable[[str], object]


def chosen(answers: Mapping[str, Answer], group: Sequence[str]) -> Answer | None:
    """Answer the best answer of a group of alternatives: a good one, else one that is not 404."""
    asked = [answers[route] for route in group if route in answers]
    good = [one for one in asked if is_good(one)]
    present = [one for one in asked if one.status != NOT_FOUND]
    return next(iter([*good, *present, *asked]), None)


def is_good(answer: Answer | None) -> bool:
    """Answer whether there is an answer that can be used."""
    return answer is not None and answer.status == OK and not answer.error


def object_of(answer: Answer | None) -> Mapping[str, object]:
    """Answer the JSON object of an answer, an empty one where there is none."""
    return {} if answer is None else as_object(answer.json)


def list_of(answer: Answer | None) -> Sequence[object]:
    """Answer the JSON list of an answer, an empty one where there is none."""
    return () if answer is None else as_list(answer.json)


def what_happened(route: str, answer: Answer, advice: Mapping[int, str]) -> str:
    """Answer what is wrong with an answer and what to do, or nothing where it is good."""
    if answer.status == 0:
        return f"{route} got no answer ({answer.error or 'no reason was recorded'})"
    if answer.status != OK:
        cure = advice.get(answer.status, "look into the node's log")
        return f"{route} answered {answer.status}; {cure}"
    if answer.error:
        return f"{route} answered 200, but {answer.error}: is a proxy in between?"
    return ""


def fault_of(route: str, answer: Answer | None, advice: Mapping[int, str]) -> str:
    """Answer what went wrong with an optional route; not asked and not there are no faults."""
    if answer is None or answer.status == NOT_FOUND:
        return ""
    return what_happened(route, answer, advice)


def drop_body(answer: Answer, why: str = "") -> Answer:
    """Answer the same answer without its body; ``why`` says what was wrong with that."""
    return replace(answer, json=None, text=None, error=why or answer.error, is_redacted=True)


def reduce_json(answer: Answer, reduce: Reduction, glimpse: Glimpse | None = None) -> Answer:
    """Answer an answer of 200 reduced to what may be kept; the names of its secrets are noted."""
    if glimpse is not None and answer.text is not None and answer.json is None:
        seen = glimpse(answer.text)
        kept = None if seen is None else reduce(seen)
        if kept is not None:
            return _reduced(answer, kept, answer.exposed_secrets)
    try:
        document = answer.json if answer.text is None else _document_in(answer)
    except NotJson as fault:
        return drop_body(answer, f"the body is no JSON ({fault})")
    kept = reduce(document)
    if kept is None:
        return drop_body(answer, "the body is no JSON object")
    return _reduced(answer, kept, {*answer.exposed_secrets, *exposed_names(document)})


def _reduced(answer: Answer, kept: object, secrets: Iterable[str]) -> Answer:
    # replace() takes twice as long, and a sweep comes here twice a node.
    return Answer(
        status=answer.status,
        json=kept,
        error=answer.error,
        outcome=answer.outcome,
        is_redacted=True,
        exposed_secrets=tuple(sorted(set(secrets))),
    )


def _document_in(answer: Answer) -> object:
    """Answer the document; a capture made by hand may hold it as text. Raises NotJson."""
    return parse_json(answer.text or "") if answer.json is None else answer.json
