"""Addresses: every app brings its own."""

from __future__ import annotations

from django.urls import include, path

urlpatterns = [
    path("", include("common.urls")),
    path("", include("fleet.urls")),
    path("", include("probes.urls")),
    path("", include("incidents.urls")),
    path("", include("runbooks.urls")),
]
