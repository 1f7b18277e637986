"""Addresses of the common floor."""

from __future__ import annotations

from django.urls import path

from common import views

urlpatterns = [
    path("sign-in/", views.SignIn.as_view(), name="sign_in"),
    path("sign-out/", views.SignOut.as_view(), name="sign_out"),
    path("healthz", views.healthz, name="healthz"),
]
