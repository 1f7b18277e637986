"""Settings of a test run: config.settings with what `up` would have put into the environment."""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import tempfile
from pathlib import Path

from common.sealing import new_key

_FOLDER = Path(tempfile.mkdtemp(prefix="pagewarden-test-"))
atexit.register(shutil.rmtree, _FOLDER, ignore_errors=True)
_KEY_FILE = _FOLDER / "sealing.key"
_KEY_FILE.touch(mode=0o600)
_KEY_FILE.write_text(new_key(), encoding="ascii")
os.environ["PAGEWARDEN_SEALING_KEY_FILE"] = str(_KEY_FILE)
os.environ["PAGEWARDEN_PLAIN_STATIC"] = "1"
os.environ.setdefault("PAGEWARDEN_SECRET_KEY", secrets.token_hex(16))

from config.settings import *  # noqa: E402, F403 - the environment must be there first

# Test connections end with their test; a kept one would outlive its thread.
DATABASES["default"]["CONN_MAX_AGE"] = 0  # noqa: F405
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# WhiteNoise warns where there is nothing to serve, and warnings are errors here.
STATIC_ROOT = _FOLDER / "static"
STATIC_ROOT.mkdir()
