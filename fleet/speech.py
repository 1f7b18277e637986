"""How a prompt is sent, and what came back for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Api(StrEnum):
    """The route by which a prompt is sent."""

    GENERATE = "generate"
    COMPLETIONS = "completions"
    CHAT = "chat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How a prompt is sent: by which API, streamed or not, with which salt of the prefix cache.

    ``temperature`` 0 is the model's likeliest answer; above it, one drawn by chance. Where it is
    not ``has_own_id``, no id of ours is in the body: the same prompt twice is the same body.
    """

    api: Api = Api.GENERATE
    is_streamed: bool = False
    cache_salt: str = ""
    wants_logprobs: bool = False
    temperature: float = 0.0
    has_own_id: bool = True


PLAIN: Final = Form()


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What came back for one prompt, as the asking tenant would see it.

    ``status`` is the HTTP status, 0 where no whole answer came (``error`` says why, ``text`` holds
    what did come). ``event_status`` is the status of an error under a 200. ``text`` is the whole
    answer in every part that can carry text, error bodies included; ``answer`` what the model
    visibly said, first choice only. Counts are the engine's own, None where it shows none.
    ``finish`` is its finish reason (``length``, ``stop``, ``abort``). ``token_ids`` are those of
    the output, where shown. ``cache_marks`` are headers that tell of caches on the way.
    Unit of ``seconds`` and ``first_token_s``: monotonic clock, from before the connection to the
    last byte, and to the first frame of a stream that holds the model's text.
    """

    status: int = 0
    text: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish: str | None = None
    error: str = ""
    seconds: float = 0.0
    answer: str = ""
    token_ids: tuple[int, ...] = ()
    cached_tokens: int | None = None
    first_token_s: float | None = None
    frames: int = 0
    answer_id: str = ""
    cache_marks: Mapping[str, str] = field(default_factory=dict)
    model: str = ""
    event_status: int | None = None

    @property
    def is_answered(self) -> bool:
        """Answer whether a whole answer came back, be it an error."""
        return self.status != 0

    @property
    def said_status(self) -> int:
        """Answer the status that counts: that of an error under a 200, else HTTP's."""
        return self.status if self.event_status is None else self.event_status

    @property
    def is_refused(self) -> bool:
        """Answer whether the engine refused: an error status, or a 200 that says abort.

        A fault of the server (5xx) that is told under a 200 is no refusal: see ``said_status``.
        """
        if self.event_status is not None:
            return self.event_status < 500  # noqa: PLR2004
        return self.status >= 400 or (self.status == 200 and self.finish == "abort")  # noqa: PLR2004
