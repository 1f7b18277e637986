"""Gathers every text of answers that can quote someone, by field, whole again over frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

#: Fields that hold a machine's words, which differ from answer to answer and quote nobody.
_MECHANICAL: Final = frozenset(
    {"id", "rid", "object", "model", "type", "code", "err_type", "param", "version"}
    | {"weight_version", "bootstrap_host", "finish_reason", "matched_stop", "system_fingerprint"}
)
#: Fields that hold what the model visibly says; they stand first.
_PLAIN: Final = (".text", ".content")
#: Where the tokens of an answer stand one by one, and their keys are tokens too.
_TOKENS: Final = "logprob"
#: More than any honest answer within the cap on its size.
_MOST_VALUES: Final = 2_000_000

Texts = Mapping[str, list[str]]


def texts_of(document: object) -> Texts:
    """Answer the texts of a document by their field, in order; places in lists do not count.

    A list's entry that names its own ``index`` (a choice, a tool call) keeps it.
    """
    found: dict[str, list[str]] = {}
    waiting: list[tuple[str, object]] = [("", document)]
    for _ in range(_MOST_VALUES):
        if not waiting:
            break
        path, value = waiting.pop()
        if isinstance(value, str):
            if value and path.rpartition(".")[2] not in _MECHANICAL:
                found.setdefault(path, []).append(value)
        elif isinstance(value, dict | list):
            # What is pushed last is read first.
            waiting += reversed(list(_inner(path, value)))
    return found


class Spoken:
    """The texts of one answer: every field joined without a gap, and its pieces apart.

    A marker that was split over frames, or over tokens, is whole in the joined text.
    """

    def __init__(self) -> None:
        self._joined: dict[str, list[str]] = {}
        self._apart: list[str] = []

    def add(self, document: object) -> None:
        """Take a document, or a frame that goes on where the one before ended."""
        for path, pieces in texts_of(document).items():
            self._joined.setdefault(path, []).extend(pieces)
            if len(pieces) > 1 or _TOKENS in path:
                self._apart += pieces

    def add_raw(self, text: str) -> None:
        """Take text that is no JSON: a line of a stream, a body."""
        if text:
            self._joined.setdefault(" raw", []).append(text)
            self._apart.append(text)

    @property
    def text(self) -> str:
        """Answer all of it, the plain answer first."""
        whole = {path: "".join(pieces) for path, pieces in self._joined.items()}
        # ``sorted`` keeps the order of what is equal.
        fields = [whole[path] for path in sorted(whole, key=lambda path: not _is_plain(path))]
        apart = "\n".join(self._apart)
        return "\n".join(fields if apart in {"", *fields} else [*fields, apart])


class Grown:
    """The texts of a stream whose every frame repeats what came before it."""

    def __init__(self) -> None:
        self._latest: dict[str, str] = {}
        self._pieces: dict[str, list[str]] = {}
        self._dropped: list[str] = []

    def add(self, document: object) -> None:
        """Take a frame; what it does not repeat is kept beside it."""
        for path, pieces in texts_of(document).items():
            before, now = self._latest.get(path, ""), "".join(pieces)
            if not now.startswith(before):
                self._dropped.append(before)
            self._latest[path] = now
            if len(pieces) > 1 or _TOKENS in path:
                self._pieces[path] = pieces

    @property
    def text(self) -> str:
        """Answer all of it, the plain answer first."""
        paths = sorted(self._latest, key=lambda path: not _is_plain(path))
        apart = ("\n".join(pieces) for pieces in self._pieces.values())
        return "\n".join([*(self._latest[path] for path in paths), *self._dropped, *apart])


def _is_plain(path: str) -> bool:
    return path.endswith(_PLAIN) and _TOKENS not in path


def _inner(path: str, value: dict[str, object] | list[object]) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        if _TOKENS in path and all(isinstance(held, float | int) for held in value.values()):
            # {"token": -0.5}: the alternatives of one place, by their text.
            yield f"{path}.key", [str(key) for key in value]
        yield from ((f"{path}.{key}", held) for key, held in value.items() if _can_hold(held))
        return
    for held in value:
        if _can_hold(held):
            index = held.get("index") if isinstance(held, dict) else None
            yield (f"{path}[{index}]" if isinstance(index, int) else path), held


def _can_hold(value: object) -> bool:
    return isinstance(value, str | dict | list)
