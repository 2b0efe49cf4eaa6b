"""The HTTP API of a service, and the review page beside it, as an ASGI app."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from tamis.sources import BacklogError, NotWrittenRecordsError
from tamis.web.access import Access
from tamis.web.gate import Gate
from tamis.web.openapi_page import openapi_page
from tamis.web.review_api import ReviewAPI
from tamis.web.routes import DECISIONS, JSON, Reply, read_page, write_decision
from tamis.web.service import Service
from tamis.web.service_metrics import KIND, Latencies, metrics_text
from tamis.web.service_records import FaultError, RequestError, StoppingError

API_PATHS = frozenset(
    ("/predict", "/rows", "/labels", "/label-studio", "/metrics", "/health", "/openapi.json")
)
STATUSES = {
    RequestError: HTTPStatus.UNPROCESSABLE_ENTITY,
    BacklogError: HTTPStatus.TOO_MANY_REQUESTS,
    StoppingError: HTTPStatus.SERVICE_UNAVAILABLE,
    NotWrittenRecordsError: HTTPStatus.INSUFFICIENT_STORAGE,
    FaultError: HTTPStatus.INTERNAL_SERVER_ERROR,
}
RETRY = ("Retry-After", "1")
AddRoutes = Callable[[Service], APIRouter]
"""Returns further routes of a service, such as those of a labelling tool."""

Name = Annotated[str | int, Field(description="text, or an integer, which is taken as text")]
Seconds = Annotated[float | None, Field(description="seconds since 1970; by default now")]


class Rows(BaseModel):
    """Rows by the names of their columns."""

    rows: list[dict[str, Any]]
    ids: list[Name] | None = None
    time: Seconds = None


class LabelledRows(Rows):
    """Rows with their labels, in the label's column."""

    annotator: Name | None = None


class Label(BaseModel):
    """A label for a row that came before, or is to come; null withdraws it."""

    id: Name
    label: str | int | float | bool | None
    annotator: Name | None = None
    time: Seconds = None


class Labels(BaseModel):
    """Several labels."""

    labels: list[Label]


class Prediction(BaseModel):
    """The class that is predicted for a row, and the probability of each class."""

    model_config = ConfigDict(serialize_by_alias=True)
    id: str
    class_: str = Field(alias="class")
    probability: float
    probabilities: dict[str, float]


class Predictions(BaseModel):
    """Predictions in the order of the rows, and the slots that the model was trained for."""

    predictions: list[Prediction]
    slots: int


class Accepted(BaseModel):
    """What was accepted: it is on disk, and is trained on in one of the next slots."""

    accepted: int
    ids: list[str]


class Refusal(BaseModel):
    """Why a request was refused, in one sentence."""

    error: str


REFUSALS: dict[int | str, dict[str, Any]] = {
    int(status): {"model": Refusal} for status in (400, 401, 413, 422, 429, 503, 507)
}


def build_app(
    service: Service,
    access: Access,
    api: ReviewAPI | None = None,
    *,
    routers: Sequence[AddRoutes] = (),
) -> FastAPI:
    """Return the app of a service, with the review page of `api` and the routes of others."""
    app = FastAPI(
        title="tamis serve",
        version=sys.modules["tamis"].__version__,
        description="Predicts rows, and trains on them and on their labels as they come.",
        docs_url=None,  # which would load scripts of another server
        redoc_url=None,
        responses=REFUSALS,
    )
    latencies = Latencies()
    app.include_router(data_routes(service))
    app.include_router(watch_routes(service, latencies))
    for add in routers:
        app.include_router(add(service))

    @app.get("/docs", include_in_schema=False)
    def docs() -> Response:
        return as_response(openapi_page(app.openapi()))

    if api is not None:
        app.include_router(page_routes(api, access))
    add_error_handlers(app)
    app.add_middleware(Gate, access=access, latencies=latencies, paths=API_PATHS)
    return app


def data_routes(service: Service) -> APIRouter:
    """Return the routes of rows and labels."""
    router = APIRouter()
    accepted = HTTPStatus.ACCEPTED

    @router.post("/predict", response_model=Predictions, tags=["rows"])
    async def predict(given: Rows) -> Response:
        """Predict rows. They are kept without labels, so that a label for their ids can follow."""
        work = service.submit_rows(given.rows, ids=given.ids, time=given.time)
        found = await asyncio.wrap_future(work)
        return as_json({"predictions": found, "slots": service.model.slots})

    @router.post("/rows", status_code=accepted, response_model=Accepted, tags=["rows"])
    async def add(given: LabelledRows) -> Response:
        """Train on rows that have their labels."""
        work = service.submit_rows(
            given.rows, ids=given.ids, time=given.time, annotator=given.annotator, labelled=True
        )
        return as_accepted([each["id"] for each in await asyncio.wrap_future(work)])

    @router.post("/labels", status_code=accepted, response_model=Accepted, tags=["labels"])
    async def label(given: Label | Labels) -> Response:
        """Train on labels for rows by their ids. A second label changes the first."""
        labels = given.labels if isinstance(given, Labels) else [given]
        work = service.submit_labels([each.model_dump() for each in labels])
        await asyncio.wrap_future(work)
        return as_accepted([str(each.id) for each in labels])

    @router.delete(
        "/labels/{row_id:path}", status_code=accepted, response_model=Accepted, tags=["labels"]
    )
    async def withdraw(row_id: str, annotator: str | None = None) -> Response:
        """Withdraw the label of a row, which then waits for another."""
        work = service.submit_labels([{"id": row_id, "label": None, "annotator": annotator}])
        await asyncio.wrap_future(work)
        return as_accepted([row_id])

    return router


def watch_routes(service: Service, latencies: Latencies) -> APIRouter:
    """Return the routes of health and metrics."""
    router = APIRouter(tags=["health"])

    @router.get("/health/live")
    async def live() -> dict[str, str]:
        """Return that the process answers."""
        return {"status": "live"}

    @router.get("/health/ready", responses={503: {"model": Refusal}})
    async def ready() -> Response:
        """Return whether requests are accepted and trained on."""
        if service.ready:
            return as_json({"status": "ready"})
        return refused(HTTPStatus.SERVICE_UNAVAILABLE, "The service does not train now.")

    @router.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Return numbers in the text format of Prometheus."""
        return PlainTextResponse(metrics_text(service, latencies), media_type=KIND)

    return router


def page_routes(api: ReviewAPI, access: Access) -> APIRouter:
    """Return the routes of the review page, at the same paths as `tamis watch` has them."""
    router = APIRouter(include_in_schema=False)

    @router.post(DECISIONS)
    async def decide(request: Request) -> Response:
        headers = {name.title(): text for name, text in request.headers.items()}
        body = await request.body()
        path = request.url.path
        return as_response(
            await run_in_threadpool(write_decision, api, access, path, headers, body)
        )

    @router.get("/{path:path}")
    def page(request: Request) -> Response:
        return as_response(read_page(api, request.url.path, request.query_params))

    return router


def add_error_handlers(app: FastAPI) -> None:
    """Answer every error by one sentence as JSON."""

    async def of_service(request: Request, error: Exception) -> Response:
        status = next(found for kind, found in STATUSES.items() if isinstance(error, kind))
        details = error.details if isinstance(error, RequestError) else {}
        return refused(status, str(error), **details)

    async def of_form(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101
        return as_sentence(error)

    async def of_path(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101
        return refused(HTTPStatus(error.status_code), str(error.detail))

    async def unexpected(request: Request, error: Exception) -> Response:
        return refused(HTTPStatus.INTERNAL_SERVER_ERROR, "Something went wrong in the service.")

    for kind in STATUSES:
        app.add_exception_handler(kind, of_service)
    app.add_exception_handler(RequestValidationError, of_form)
    app.add_exception_handler(HTTPException, of_path)
    app.add_exception_handler(Exception, unexpected)


def as_sentence(error: RequestValidationError) -> Response:
    """Return what is wrong with the form of a request."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return refused(HTTPStatus.BAD_REQUEST, "The request is not JSON.")
    where = ".".join(str(part) for part in first["loc"] if part not in ("body", "Label", "Labels"))
    why = str(first["msg"]).rstrip(".").lower()
    return refused(HTTPStatus.UNPROCESSABLE_ENTITY, f"{where or 'The request'}: {why}.")


def refused(status: HTTPStatus, why: str, **details: Any) -> Response:
    """Return a refusal, with its reason and what else is known."""
    later = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
    headers = dict([RETRY]) if status in later else None
    return as_json({"error": why, **details}, status, headers)


def as_json(
    content: object, status: int = HTTPStatus.OK, headers: dict[str, str] | None = None
) -> Response:
    """Return data as JSON in ASCII: not all text of a request can be written otherwise."""
    return Response(json.dumps(content, allow_nan=False), status, headers, JSON)


def as_accepted(ids: list[str]) -> Response:
    """Return what was accepted."""
    return as_json({"accepted": len(ids), "ids": ids}, HTTPStatus.ACCEPTED)


def as_response(reply: Reply) -> Response:
    """Return a reply as a response of the framework."""
    return Response(
        reply.content, reply.status, dict(reply.headers), media_type=f"{reply.kind}; charset=utf-8"
    )
