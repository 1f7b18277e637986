"""The one way in which gates, adapters, plans, steps, levers and exporters are found."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import Generic, TypeVar

T = TypeVar("T")


class DuplicateKey(RuntimeError):
    """Two modules registered the same key; the start must stop."""


class UnknownKey(LookupError):
    """An old row or a command names a key that nothing registers."""

    def __init__(self, family: str, key: str) -> None:
        super().__init__(f"no {family} is called {key!r}")
        self.family = family
        self.key = key


class Registry(Generic[T]):
    """A family of plug-ins by key, filled by decorator at import.

    A registered class is instantiated once, without arguments: plug-ins hold no state.
    """

    def __init__(self, family: str) -> None:
        self.family = family
        self._members: dict[str, T] = {}

    def register(self, key: str) -> Callable[[type[T]], type[T]]:
        """Decorate a class as the member called ``key``. Raises DuplicateKey."""

        def decorate(member: type[T]) -> type[T]:
            if key in self._members:
                raise DuplicateKey(f"two {self.family}s are called {key!r}")
            self._members[key] = member()
            return member

        return decorate

    def get(self, key: str) -> T:
        """Answer the member called ``key``. Raises UnknownKey."""
        try:
            return self._members[key]
        except KeyError:
            raise UnknownKey(self.family, key) from None

    def all(self) -> dict[str, T]:
        """Answer all members, sorted by key."""
        return dict(sorted(self._members.items()))

    def __contains__(self, key: str) -> bool:
        """Answer whether a member has this key."""
        return key in self._members


@cache
def load_plugins(package: str) -> None:
    """Import every module of a package, so that its decorators run.

    Once in a process: the folder is looked through for each judgement else.
    """
    found = importlib.import_module(package)
    for module in pkgutil.iter_modules(found.__path__):
        importlib.import_module(f"{package}.{module.name}")
