"""The formats of request bodies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from timeleap.features.providers import anthropic, openai
from timeleap.features.providers.transcript import Taste, Transcript


@dataclass(frozen=True, slots=True)
class Format:
    """The format of a provider's request body.

    Attributes:
        taste: What the provider takes.
        body: Makes its body of a transcript that is finished.
    """

    taste: Taste
    body: Callable[[Transcript], dict[str, Any]]


FORMATS: Final = {
    "openai": Format(openai.TASTE, openai.openai_body),
    "anthropic": Format(anthropic.TASTE, anthropic.anthropic_body),
}
