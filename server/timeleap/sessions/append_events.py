"""Results of appends, and what listeners are told of them."""

from __future__ import annotations

import logging

from timeleap.json_value import Json
from timeleap.sessions import past, shapes
from timeleap.sessions.kernel.change import Change
from timeleap.sessions.shapes import Cause, Event, Shapes
from timeleap.storage.engine import LogEngine
from timeleap.storage.log_values import Appended
from timeleap.summaries.log_spans import NewestSpan

_log = logging.getLogger(__name__)


def append_result(forms: Shapes, done: Appended, change: Change) -> Json:
    """The result of the request that asked for an append."""
    if change.result is None:
        return forms.appended(done)
    return {"head": done.head, **change.result}


def append_events(engine: LogEngine, newest: NewestSpan, done: Appended, change: Change, cause: Cause) -> list[Event]:
    """The events of an append, with what happened in the spans that it made or added to, if a listener wants that."""
    made, span = change.made, None
    if newest.wanted and done.after.checkpoints:
        try:
            spans = newest.appended(engine, done.before, done.after, change.records, change.message)
            if spans is not None:
                newest.uid = made[-1].uid if made else newest.uid or past.uid_at(engine, newest.line)
                made, span = shapes.changed_span(made, spans, newest.uid, asked_for=change.result is not None)
        except Exception:
            # What is written is written: that it cannot be told in short must not make it look undone.
            _log.exception("no summary of the newest span")
    return shapes.appended_events(done, made, change.told, cause, span)
