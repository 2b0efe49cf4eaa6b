"""Routes of a service for Label Studio: register `http://host:port/label-studio` as its model."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body

from tamis.runs import RunFiles
from tamis.web.label_studio.backend import Backend
from tamis.web.label_studio.served import ServedByService
from tamis.web.service import Service

PREFIX = "/label-studio"
AnyJson = Annotated[Any, Body()]


def label_studio_routes(service: Service) -> APIRouter:
    """Return the routes that Label Studio calls; each waits in a thread of its own."""
    backend = Backend(ServedByService(service), service.run.folder / RunFiles.label_studio)
    router = APIRouter(prefix=PREFIX, tags=["Label Studio"])
    router.get("/", include_in_schema=False)(backend.health)
    router.get("/health", summary="Return that the backend is up")(backend.health)

    @router.post("/setup", summary="Check a project's labelling configuration")
    def setup(body: AnyJson) -> dict[str, Any]:
        return backend.setup(body)

    @router.post("/predict", summary="Predict tasks")
    def predict(body: AnyJson) -> dict[str, Any]:
        return backend.predict(body)

    @router.post("/webhook", summary="Train on annotations that changed", status_code=202)
    def webhook(body: AnyJson) -> dict[str, Any]:
        return backend.webhook(body)

    return router
