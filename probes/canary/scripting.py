"""What each request of a round says and how: scripts, shared beginnings, salts, routes, lengths."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fleet.contract import FleetError
from fleet.dialects import Dialect
from fleet.speech import Api, Form
from probes.canary.contract import RoundOrder
from probes.canary.controls import ECHO_TOKENS
from probes.canary.prompts import Origin, Prompt, PromptTooShort, PromptWriter, Stem
from probes.canary.rounds import Duty, Part, Sending, Tenant
from probes.canary.texts import NotExact, write_text
from probes.markers import derive_request

#: A text from which it is told what a route puts around it. Unit: tokens.
COUNTED_TOKENS = 256
_SALT_BYTES = 16


class Unwritten(Exception):
    """A request cannot be made as its plan wants it; the text says why. Nothing was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One request as it will be sent: who sends it, what it is by its markers, how it is sent.

    ``sending`` is the plan's, with the route that is taken; ``form`` holds the salt's value too.
    """

    position: int
    sending: Sending
    tenant: Tenant
    origin: Origin
    prompt: Prompt
    form: Form


@dataclass(slots=True, kw_only=True)
class Scripts:
    """The requests of one pass over a plan's sendings; a new pass has new markers throughout.

    ``added`` are the tokens that a route puts around a text, by route, once they were counted.
    """

    order: RoundOrder
    writer: PromptWriter
    added: dict[Api, int | None] = field(default_factory=dict)
    _prompts: dict[str, tuple[Origin, Prompt]] = field(default_factory=dict)
    _stems: dict[tuple[str, int], Stem] = field(default_factory=dict)
    _branches: dict[tuple[str, int], int] = field(default_factory=dict)
    _salts: dict[str, str] = field(default_factory=dict)
    _stems_made: int = 0

    def begin_again(self) -> None:
        """Forget every script, stem and salt, so that what follows shares nothing with before."""
        for memory in (self._prompts, self._stems, self._branches, self._salts):
            memory.clear()

    async def line(self, sending: Sending, *, position: int) -> Line:
        """Answer a request, written. Raises Unwritten."""
        tenant = self.order.tenant_a if sending.is_by_filler else self.order.tenant_b
        form = form_of(sending, self.order.dialect)
        origin = Origin(
            tenant=tenant.number,
            request=derive_request(seed_bytes(self.order.seed), position),
        )
        kept = self._prompts.get(sending.script) if sending.script else None
        if kept is None:
            kept = origin, await self._write(replace(sending, form=form), origin)
        origin, prompt = kept
        if sending.script:
            if _length_of(prompt, self._around(form)) != sending.length:
                raise Unwritten(f"script {sending.script} was of another length before; not sent")
            self._prompts[sending.script] = kept
        return Line(
            position=position,
            sending=replace(sending, form=form),
            tenant=tenant,
            origin=origin,
            prompt=prompt,
            form=replace(form, cache_salt=self._salt(sending.salt) or form.cache_salt),
        )

    def has_counted(self, api: Api) -> bool:
        """Answer whether it was seen, or tried in vain, what a route puts around a text."""
        return api in self.added

    def learn(self, api: Api, added: int | None) -> None:
        """Remember what a route puts around a text, None where it could not be seen."""
        self.added[api] = added

    def _around(self, form: Form) -> int:
        if not is_text(form, self.order.dialect):
            return 0
        added = self.added.get(form.api, 0)
        if added is None:
            raise Unwritten(
                f"the tokens that {form.api} adds to a text could not be counted, so no length by "
                "it would be exact; not sent"
            )
        return added

    async def _write(self, sending: Sending, origin: Origin) -> Prompt:
        try:
            if is_text(sending.form, self.order.dialect):
                return await self._write_text(sending, origin)
            return self.writer.write(
                origin,
                length=sending.length,
                stem=self._stem(sending),
                branch=self._branch(sending),
                codes=sending.codes,
            )
        except (PromptTooShort, NotExact, FleetError) as fault:
            raise Unwritten(str(fault)) from None

    async def _write_text(self, sending: Sending, origin: Origin) -> Prompt:
        # To the token nothing can be shared here; texts that differ in their code alone are alike.
        length = sending.length - self._around(sending.form)
        return await write_text(
            self.writer,
            self.order.tokenize,
            origin,
            length=length,
            is_plain=bool(sending.stem),
        )

    def _stem(self, sending: Sending) -> Stem | None:
        if not sending.stem:
            return None
        key = sending.stem, sending.stem_tokens
        if key not in self._stems:
            # A request of its own: so its markers name neither prompt alone.
            self._stems_made += 1
            number = derive_request(seed_bytes(self.order.seed), -self._stems_made)
            tenant = self.order.tenant_a if sending.is_by_filler else self.order.tenant_b
            origin = Origin(tenant=tenant.number, request=number)
            self._stems[key] = self.writer.write_stem(origin, length=sending.stem_tokens)
        return self._stems[key]

    def _branch(self, sending: Sending) -> int:
        key = sending.stem, sending.stem_tokens
        number = self._branches.get(key, 0)
        self._branches[key] = number + 1
        return number

    def _salt(self, name: str) -> str:
        """Answer the value of a salt: random, so that nobody else's can be the same."""
        return self._salts.setdefault(name, secrets.token_hex(_SALT_BYTES)) if name else ""


def form_of(sending: Sending, dialect: Dialect) -> Form:
    """Answer the form in which a way takes a request. Raises Unwritten.

    What is asked plainly goes by completions where the engine has no route of its own, or where its
    own hands no salt on.
    """
    form = sending.form
    wanted = dialect.salts if sending.salt else dialect.apis
    if form.api in wanted:
        return form
    if form.api is Api.GENERATE and Api.COMPLETIONS in wanted:
        return replace(form, api=Api.COMPLETIONS)
    lacking = "hands no cache_salt on at" if sending.salt else "has no route for"
    raise Unwritten(f"{dialect.name} {lacking} {form.api}; not sent")


def routes_to_count(sendings: Sequence[Sending], dialect: Dialect) -> list[Sending]:
    """Answer one request for each route by which some of these go as text.

    What the engine counts in its answer, less what was sent, is what the route puts around a text.
    """
    found: dict[Api, Sending] = {}
    for sending in sendings:
        try:
            form = form_of(sending, dialect)
        except Unwritten:
            # It will not be sent in any case.
            continue
        if is_text(form, dialect):
            found.setdefault(form.api, _count_of_route(form, sending))
    return list(found.values())


def _count_of_route(form: Form, sending: Sending) -> Sending:
    return Sending(
        part=Part.CONTROL,
        length=COUNTED_TOKENS,
        max_new_tokens=ECHO_TOKENS,
        duty=Duty.ANSWER,
        purpose=f"counts what {form.api} adds to a text",
        sender=sending.sender,
        form=replace(form, cache_salt=""),
    )


def is_text(form: Form, dialect: Dialect) -> bool:
    """Answer whether a prompt goes as text in this form."""
    return form.api not in dialect.ids


def seed_bytes(seed: int) -> bytes:
    """Answer the key from which a round's nonces are made."""
    return hashlib.sha256(str(seed).encode()).digest()


def _length_of(prompt: Prompt, around: int) -> int:
    return len(prompt.token_ids) + around
