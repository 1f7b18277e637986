"""Settings of every installation; what differs comes from the environment (config/env.py)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import dj_database_url
from csp.constants import NONE, SELF

from config import env

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(env.read_text("PAGEWARDEN_DATA") or BASE_DIR / "var")

DEBUG = env.read_bool("PAGEWARDEN_DEBUG")
#: Checked at start (common/checks.py): an installation without a key of its own does not serve.
SECRET_KEY = env.read_secret("PAGEWARDEN_SECRET_KEY") or "unset"
#: File with the key that seals credentials and answers; it never lies in the database.
SEALING_KEY_FILE = env.read_text("PAGEWARDEN_SEALING_KEY_FILE")
#: File with the private key that signs proofs of audits (Ed25519, PEM); without one none is signed.
PROOF_KEY_FILE = env.read_text("PAGEWARDEN_PROOF_KEY_FILE")
ALLOWED_HOSTS = env.read_list("PAGEWARDEN_HOSTS") or ["localhost", "127.0.0.1", "[::1]"]
CSRF_TRUSTED_ORIGINS = env.read_list("PAGEWARDEN_ORIGINS")

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.sessions",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "csp",
    "django_htmx",
    "django_linear_migrations",
    "django_include_bootstrap",
    "template_partials",
    "common.apps.CommonConfig",
    "fleet.apps.FleetConfig",
    "probes.apps.ProbesConfig",
    "incidents.apps.IncidentsConfig",
    "runbooks.apps.RunbooksConfig",
    "config.apps.AssemblyConfig",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
            "builtins": ["common.templatetags.ui", "template_partials.templatetags.partials"],
        },
    }
]

#: Where the schema is made, its owner's role is used; everything else runs with fewer rights.
MIGRATION_DATABASE_URL = env.read_text("MIGRATION_DATABASE_URL")
DATABASE_URL = env.read_text("DATABASE_URL", "postgresql:///pagewarden")
_IS_MIGRATING = env.read_bool("PAGEWARDEN_MIGRATING")
DATABASES = {
    "default": dj_database_url.parse(
        MIGRATION_DATABASE_URL if _IS_MIGRATING and MIGRATION_DATABASE_URL else DATABASE_URL,
        conn_max_age=60,
        conn_health_checks=True,
    )
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}

LOGIN_URL = "sign_in"
LOGIN_REDIRECT_URL = "overview"
LOGOUT_REDIRECT_URL = "sign_in"
AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

#: Several installations on one machine differ by port only, and cookies do not know ports.
_PORT = env.read_text("PAGEWARDEN_PORT", "8000")
SESSION_COOKIE_NAME = f"pagewarden_session_{_PORT}"
CSRF_COOKIE_NAME = f"pagewarden_csrf_{_PORT}"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = env.read_bool("PAGEWARDEN_HTTPS")
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:"],
        "object-src": [NONE],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}

LANGUAGE_CODE = "en"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"
USE_THOUSAND_SEPARATOR = True

STATIC_URL = "static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "common.finders.PlotlyFinder",
]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": (
            "django.contrib.staticfiles.storage.StaticFilesStorage"
            if DEBUG or env.read_bool("PAGEWARDEN_PLAIN_STATIC")
            else "django.contrib.staticfiles.storage.ManifestStaticFilesStorage"
        )
    },
}

BROKER_URL = env.read_text("BROKER_URL", "redis://127.0.0.1:6379/0")
#: Where the drill's control answers, when `up` runs one; /healthz shows it as a part.
DRILL_CONTROL_URL = env.read_text("PAGEWARDEN_DRILL_CONTROL_URL")
#: How often a worker's own timer runs the tick, with or without a scheduler.
TICK_EVERY_S = env.read_int("PAGEWARDEN_TICK_EVERY_S", 2)
#: How long a proof holds (design, "Words").
PROOF_LASTS_HOURS = 24
#: A deployment whose newest reading is older is read by itself; 0 turns that off.
SWEEP_AFTER_MINUTES = env.read_int("PAGEWARDEN_SWEEP_AFTER_MINUTES", 10)
#: Nodes that one sweeping task asks at the same time, and how long it waits for one answer.
SWEEP_CONCURRENCY = env.read_int("PAGEWARDEN_SWEEP_CONCURRENCY", 64)
SWEEP_TIMEOUT_S = env.read_int("PAGEWARDEN_SWEEP_TIMEOUT_S", 5)
#: Readings older than this go, unless they show a change or something refers to them; 0 keeps all.
READINGS_KEPT_DAYS = env.read_int("PAGEWARDEN_READINGS_DAYS", 14)
OUTBOUND_ALLOW = env.read_text("PAGEWARDEN_ALLOW_NETWORKS")
OUTBOUND_DENY = env.read_text("PAGEWARDEN_DENY_NETWORKS")

os.environ.setdefault("TZ", "UTC")

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    # The transport logs each request at INFO; addresses are ours, but the noise buries the rest.
    "loggers": {"httpx": {"level": "WARNING"}, "aiohttp": {"level": "WARNING"}},
}
