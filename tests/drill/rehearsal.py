"""A scenario's engines without a network, stepped by hand under a clock that tests move."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from drill.books import Trace
from drill.decode import DecodeEngine
from drill.engine import Engine, Sight
from drill.fabric import Fabric
from drill.guards import Guard, GuardSwitches
from drill.options import plan_of, read_options
from drill.prefill import PrefillEngine
from drill.request import Bootstrap, Req
from drill.settings import NodeSettings, Role
from drill.world import World


@dataclass
class Legs:
    """Both halves of a request."""

    prefill: Req
    decode: Req

    @property
    def is_answered(self) -> bool:
        finish = self.decode.finished_reason
        return finish is not None and not finish.is_abort

    @property
    def text(self) -> str:
        return bytes(self.decode.output_ids).decode("ascii", "replace")

    @property
    def error(self) -> str:
        finish = self.decode.finished_reason
        return finish.message if finish is not None and finish.is_abort else ""


@dataclass
class Rehearsal:
    """One prefill and one decode engine of a scenario."""

    figures: dict[Role, NodeSettings]
    world: World
    now: float = 0.0
    legs: list[Legs] = field(default_factory=list)
    fabric: Fabric = field(default_factory=Fabric)
    prefill: PrefillEngine = field(init=False)
    decode: DecodeEngine = field(init=False)

    @classmethod
    def of(cls, scenario: str, *arguments: str) -> Rehearsal:
        plan = plan_of(read_options(["--scenario", scenario, *arguments]), environ={})
        figures = {one.role: one for one in plan.nodes}
        rehearsal = cls(figures=figures, world=World(switches=GuardSwitches(plan.switches)))
        rehearsal.start_prefill()
        rehearsal.decode = DecodeEngine(figures[Role.DECODE], **rehearsal._more())
        return rehearsal

    def _more(self) -> dict[str, Any]:
        return {
            "sight": Sight(),
            "clock": lambda: self.now,
            "fabric": self.fabric,
            "world": self.world,
        }

    def start_prefill(self) -> None:
        settings = self.figures[Role.PREFILL]
        self.fabric.bootstrap_ports.add(settings.bootstrap_port)
        self.prefill = PrefillEngine(settings, **self._more())

    @property
    def engines(self) -> tuple[Engine, Engine]:
        return self.prefill, self.decode

    def switch(self, guard: Guard, *, on: bool) -> None:
        self.world.switches.switch({guard: on})

    def send(self, prompt: str, *, salt: str | None = None, new_tokens: int = 40) -> Legs:
        """Send a prompt to both engines and let them do what needs no time."""
        number = len(self.legs) + 1
        port = self.figures[Role.PREFILL].bootstrap_port
        reqs = []
        for engine in self.engines:
            req = Req(
                rid=f"r{number}",
                serial=self.world.origins.serial_of(number, engine.settings.role),
                input_ids=list(prompt.encode()),
                max_new_tokens=new_tokens,
                bootstrap=Bootstrap(host="127.0.0.1", port=port, room=number),
                salt=salt,
            )
            engine.submit(req)
            reqs.append(req)
        self.legs.append(Legs(*reqs))
        self.settle()
        return self.legs[-1]

    def settle(self) -> None:
        while self.prefill.step() + self.decode.step():
            pass

    def wait(self, seconds: float) -> None:
        """Let time go by, stopping at each deadline."""
        until = self.now + seconds
        while True:
            due = [at for at in (one.next_deadline() for one in self.engines) if at is not None]
            nearest = min((at for at in due if at > self.now), default=until)
            self.now = min(until, nearest)
            self.settle()
            if self.now >= until:
                return

    def ask(self, prompt: str, *, salt: str | None = None, new_tokens: int = 40) -> Legs:
        """Send a prompt and wait for its end."""
        legs = self.send(prompt, salt=salt, new_tokens=new_tokens)
        for _ in range(200):
            if legs.decode.finished():
                break
            self.wait(0.05)
        return legs

    def leave(self, legs: Legs) -> None:
        """Give both legs up, as the router does for a client that left."""
        for engine, req in zip(self.engines, (legs.prefill, legs.decode), strict=True):
            if not req.finished():
                engine.abort(req)
        self.settle()

    @property
    def traces(self) -> list[Trace]:
        return [trace for engine in self.engines for trace in engine.books.traces]

    @property
    def has_leaked(self) -> bool:
        """Whether any read, on any engine, met a slot that its request had no right to."""
        return any(trace.foreign for trace in self.traces)


def prompt_of(mark: str, length: int) -> str:
    """Answer a prompt that says its mark again and again."""
    return (f"{mark} says {mark}. " * length)[:length]
