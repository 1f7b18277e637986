"""Validators of what people type about the fleet."""

from __future__ import annotations

from django.core.exceptions import ValidationError

from fleet.address import parse_url
from fleet.attestable import is_name
from fleet.contract import AddressRefused

#: Longest address that is stored, in characters.
LONGEST_ADDRESS = 200


def validate_address(url: str) -> None:
    """Refuse what no client could connect to; names without a dot are fine. Raises ValidationError.

    Django's own URL rule wants a dot in every name but localhost, which container networks lack.
    """
    try:
        parse_url(url)
    except AddressRefused as refusal:
        raise ValidationError(str(refusal)) from None


def validate_attestable(key: str) -> None:
    """Refuse what cannot be the name of a setting. Raises ValidationError."""
    if not is_name(key):
        raise ValidationError("A name is letters, digits, dots, dashes and underscores.")
