"""The first two people of a fresh installation, and where their passwords stand."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from django.contrib.auth.models import Group, User
from django.db import transaction

from common.roles import Role

FILE_NAME = "first-sign-ins.txt"
_WORDS = """\
First sign-ins of this installation. Two people are needed: one starts a run, the other approves
its restore. Change the passwords once you are in, then delete this file.

"""


@transaction.atomic
def accounts_ensure(*, folder: Path) -> bool:
    """Create roles and the first two people where nobody is there yet; answers whether it did.

    The passwords stand in a file that only its owner can read, written before the accounts are
    committed: an account whose password nobody knows would be of no use.
    """
    groups = {role: Group.objects.get_or_create(name=role.value)[0] for role in Role}
    if User.objects.exists():
        return False
    passwords = {role: secrets.token_urlsafe(12) for role in (Role.COMMANDER, Role.RESPONDER)}
    _write(folder / FILE_NAME, passwords)
    for role, password in passwords.items():
        person = User.objects.create_user(role.value, password=password)
        person.groups.add(groups[role])
    return True


def _write(path: Path, passwords: dict[Role, str]) -> None:
    lines = "".join(f"{role.value}: {password}\n" for role, password in passwords.items())
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(_WORDS + lines)
