"""Who may do what; asked by services, so that no door can forget it."""

from __future__ import annotations

from enum import StrEnum

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User


class Role(StrEnum):
    """Roles of people, each a Django group of the same name."""

    RESPONDER = "responder"
    COMMANDER = "commander"


class NotAllowed(Exception):
    """The person lacks the role; the text says which one is needed and for what."""


def has_role(person: User | AnonymousUser | AbstractBaseUser | None, *roles: Role) -> bool:
    """Answer whether a signed-in person has one of the roles."""
    if not isinstance(person, User) or not person.is_active:
        return False
    return person.groups.filter(name__in=[str(role) for role in roles]).exists()


def require_role(person: User, *roles: Role, to: str) -> None:
    """Let a person through who has one of the roles. Raises NotAllowed."""
    if not has_role(person, *roles):
        wanted = " or ".join(roles)
        raise NotAllowed(f"only a {wanted} may {to}")


def require_staff_of_incident(person: User, *, to: str) -> None:
    """Let any responder or commander through. Raises NotAllowed."""
    require_role(person, Role.RESPONDER, Role.COMMANDER, to=to)
