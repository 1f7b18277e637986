"""Addresses of the runbooks floor, and of the overview."""

from __future__ import annotations

from django.urls import path

from runbooks import views

urlpatterns = [
    path("", views.overview, name="overview"),
    path("sidebar/", views.sidebar, name="sidebar"),
    path("runs/", views.run_list, name="run_list"),
    path("runs/<int:pk>/", views.run, name="run"),
    path("runs/<int:pk>/abort/", views.run_aborted, name="run_aborted"),
    path("runs/<int:pk>/steps/<int:position>/start/", views.step_started, name="step_started"),
    path("runs/<int:pk>/steps/<int:position>/approve/", views.step_approved, name="step_approved"),
    path(
        "runs/<int:pk>/steps/<int:position>/confirm/", views.step_confirmed, name="step_confirmed"
    ),
    path("runs/<int:pk>/steps/<int:position>/retry/", views.step_retried, name="step_retried"),
    path("incidents/<str:reference>/runs/", views.incident_runs, name="incident_runs"),
    path("incidents/<str:reference>/runs/start/", views.run_started, name="run_started"),
]
