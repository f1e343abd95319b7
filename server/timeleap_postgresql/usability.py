"""A look whether the role of a connection can use a store, before anything is refused half-way, or rows are hidden."""

from __future__ import annotations

from typing import Any, Final

from psycopg import Connection

TABLES: Final = tuple(f"timeleap_{name}" for name in ("session", "log", "piece", "document", "change", "approval"))
RIGHTS: Final = ("SELECT", "INSERT", "UPDATE", "DELETE")
"""Needed by `serve` of each of the tables."""
_LACKING: Final = (
    "SELECT t.name, string_agg(r.name, ', ') FROM unnest(%s::text[]) AS t (name), unnest(%s::text[]) AS r (name)"
    " WHERE NOT has_table_privilege(to_regclass(t.name), r.name) GROUP BY t.name ORDER BY t.name"
)
_HIDING: Final = (
    "SELECT t.name FROM unnest(%s::text[]) AS t (name)"
    " WHERE to_regclass(t.name) IS NOT NULL AND row_security_active(to_regclass(t.name)) ORDER BY t.name"
)
_ELSEWHERE: Final = (
    "SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.relname = 'timeleap_schema' AND NOT pg_table_is_visible(c.oid) ORDER BY n.nspname LIMIT 1"
)


def hindrance(connection: Connection[Any]) -> str | None:
    """Why the role cannot use the tables that there are, with what to do about it; None: it can. Raises psycopg.Error."""
    role = connection.info.user
    hiding = connection.execute(_HIDING, [list(TABLES)]).fetchone()
    if hiding is not None:
        return f"row level security hides rows of {hiding[0]} from {role}: {ROW_SECURITY}"
    lacking = connection.execute(_LACKING, [list(TABLES), list(RIGHTS)]).fetchone()
    if lacking is not None:
        return f"{role} lacks rights: GRANT {lacking[1]} ON {lacking[0]} TO {role}, as the owner"
    return None


def elsewhere(connection: Connection[Any]) -> str | None:
    """Where a store is that the role does not see, and how it sees it; None: nowhere. Raises psycopg.Error."""
    found = connection.execute(_ELSEWHERE).fetchone()
    if found is None:
        return None
    schema, role = found[0], connection.info.user
    return (
        f"there is a store in the schema {schema}, which is not in the search_path of {role}: add"
        f" ?options=-csearch_path%3D{schema} to the URL, or GRANT USAGE ON SCHEMA {schema} TO {role}"
    )


ROW_SECURITY: Final = "ALTER TABLE ... DISABLE ROW LEVEL SECURITY, or ALTER ROLE ... BYPASSRLS"
"""The way out where it hides rows."""
