"""Addresses and messages without their secrets."""

from __future__ import annotations

import re
from urllib.parse import unquote, unquote_plus

from tamis.errors import as_clause

STARS = "***"
WHO = re.compile(r"(?<=://)(?:(?P<user>[\w.~%+-]*):)?(?P<secret>.*)@", re.DOTALL)
"""Up to the last @, since a password may hold signs that should have been escaped."""
SETTING = re.compile(
    r"(?<=[?&;])(?P<name>[^=&;#?]*(?:pass|pwd|secret|token|key|cred|auth|sig)[^=&;#?]*)="
    r"(?P<secret>[^&#]*)",
    re.IGNORECASE,
)


def redact(url: str) -> str:
    """Return an address with stars for whatever may be a secret.

    >>> redact("redis://ann:w0rd@localhost:6379/0?stream=rows&token=x")
    'redis://ann:***@localhost:6379/0?stream=rows&token=***'
    """
    url = SETTING.sub(lambda found: f"{found['name']}={STARS}", url)
    return WHO.sub(lambda found: f"{found['user']}:{STARS}@" if found["user"] else f"{STARS}@", url)


def scrub(text: str, url: str) -> str:
    """Return a client's message without the address and its secrets, as part of a sentence."""
    text = text.replace(url, redact(url))
    secrets = [found["secret"] for form in (WHO, SETTING) for found in form.finditer(url)]
    for secret in secrets:
        for form in {secret, unquote(secret), unquote_plus(secret)} - {""}:
            text = text.replace(form, STARS)
    return as_clause(text)
