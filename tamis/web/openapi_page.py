"""The API of a service as a plain page, without scripts of other servers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from tamis.web.routes import PAGE, Reply


def openapi_page(description: Mapping[str, Any]) -> Reply:
    """Return what an OpenAPI description holds as HTML."""
    about = description["info"]
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(about['title'])}</title>",
        '<link rel="stylesheet" href="/page.css"></head><body><main>',
        f"<h1>{escape(about['title'])} {escape(about['version'])}</h1>",
        f"<p>{escape(about['description'])}</p>",
        '<p>The description for programs: <a href="/openapi.json">openapi.json</a>.</p>',
        *operations(description),
        "</main></body></html>",
    ]
    return Reply("\n".join(lines) + "\n", PAGE)


def operations(description: Mapping[str, Any]) -> Iterator[str]:
    """Yield each path and method with the fields that it takes and returns."""
    models = description.get("components", {}).get("schemas", {})
    for path, methods in description["paths"].items():
        for method, about in methods.items():
            yield f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
            yield f"<p>{escape(about.get('description', ''))}</p>"
            body = about.get("requestBody", {}).get("content", {}).get("application/json", {})
            for name in models_in(body):
                yield from fields(f"takes {name}", models[name])
            for status, answer in about["responses"].items():
                content = answer.get("content", {}).get("application/json", {})
                for name in models_in(content) if status.startswith("2") else ():
                    yield from fields(f"{status}: {name}", models[name])


def fields(title: str, model: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields of a model as a list."""
    yield f"<p>{escape(title)}: {escape(model.get('description', ''))}</p><ul>"
    required = model.get("required", [])
    for name, about in model.get("properties", {}).items():
        kinds = " or ".join(dict.fromkeys(kinds_of(about)))
        optional = "" if name in required else ", optional"
        yield f"<li><code>{escape(name)}</code>: {escape(kinds)}{optional}</li>"
    yield "</ul>"


def kinds_of(about: Mapping[str, Any]) -> Iterator[str]:
    """Yield the types that a field may have."""
    for each in about.get("anyOf", [about]):
        if "$ref" in each:
            yield each["$ref"].rsplit("/", 1)[1]
        elif each.get("type") == "array":
            inner = " or ".join(dict.fromkeys(kinds_of(each["items"])))
            yield f"list of {inner}"
        elif "anyOf" in each:
            yield from kinds_of(each)
        else:
            yield each.get("type", "anything")


def models_in(content: Mapping[str, Any]) -> list[str]:
    """Return the names of the models that a body may be."""
    schema = content.get("schema", {})
    references = [each.get("$ref", "") for each in schema.get("anyOf", [schema])]
    return [each.rsplit("/", 1)[1] for each in references if each]
