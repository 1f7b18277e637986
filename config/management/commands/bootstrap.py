"""Makes the first accounts and registers the drill; `up` calls it at every start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from config.drill_registration import drill_register
from config.first_accounts import FILE_NAME, accounts_ensure


class Command(BaseCommand):
    """``bootstrap --data-dir DIR``."""

    help = "make the first accounts and register the drill cluster"

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the data folder."""
        parser.add_argument("--data-dir", type=Path, required=True)

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - Django's signature
        """Do what is not done yet."""
        folder: Path = options["data_dir"]
        if accounts_ensure(folder=folder):
            self.stderr.write(f"first sign-ins are in {folder / FILE_NAME}")
        drill_register(file=folder / "drill.json")
