"""The schema of a store in a database, as the steps from each version to the next one."""

from __future__ import annotations

from typing import Any, Final

from psycopg import Connection

MIGRATIONS: Final = (
    """
    CREATE TABLE timeleap_session (
        id text PRIMARY KEY,
        folded text NOT NULL UNIQUE,
        version bigint NOT NULL,
        live bigint,
        messages bigint NOT NULL DEFAULT 0,
        tokens bigint NOT NULL DEFAULT 0,
        changed timestamptz NOT NULL DEFAULT clock_timestamp());
    CREATE TABLE timeleap_log (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        session text NOT NULL REFERENCES timeleap_session ON DELETE CASCADE,
        name text,
        parent bigint REFERENCES timeleap_log,
        shared bigint NOT NULL DEFAULT 0,
        length bigint NOT NULL);
    CREATE INDEX ON timeleap_log (session);
    CREATE INDEX ON timeleap_log (parent);
    CREATE TABLE timeleap_piece (
        log bigint NOT NULL REFERENCES timeleap_log ON DELETE CASCADE,
        start bigint NOT NULL,
        body bytea NOT NULL,
        PRIMARY KEY (log, start));
    CREATE TABLE timeleap_document (
        session text NOT NULL REFERENCES timeleap_session ON DELETE CASCADE,
        name text NOT NULL,
        version bigint NOT NULL,
        body bytea NOT NULL,
        PRIMARY KEY (session, name));
    CREATE TABLE timeleap_change (
        session text NOT NULL REFERENCES timeleap_session ON DELETE CASCADE,
        version bigint NOT NULL,
        token text NOT NULL UNIQUE,
        events bytea,
        PRIMARY KEY (session, version))
    """,
    """
    ALTER TABLE timeleap_log DROP CONSTRAINT timeleap_log_session_fkey,
        ADD CONSTRAINT timeleap_log_session_fkey FOREIGN KEY (session) REFERENCES timeleap_session
        ON UPDATE CASCADE ON DELETE CASCADE;
    ALTER TABLE timeleap_document DROP CONSTRAINT timeleap_document_session_fkey,
        ADD CONSTRAINT timeleap_document_session_fkey FOREIGN KEY (session) REFERENCES timeleap_session
        ON UPDATE CASCADE ON DELETE CASCADE;
    ALTER TABLE timeleap_change DROP CONSTRAINT timeleap_change_session_fkey,
        ADD CONSTRAINT timeleap_change_session_fkey FOREIGN KEY (session) REFERENCES timeleap_session
        ON UPDATE CASCADE ON DELETE CASCADE;
    INSERT INTO timeleap_session (id, folded, version) VALUES ('~', '~', 0)
    """,
    # Whoever may use a store of version 2 may use this one.
    """
    ALTER TABLE timeleap_session ADD COLUMN approvals bigint NOT NULL DEFAULT 0;
    CREATE TABLE timeleap_approval (
        session text NOT NULL REFERENCES timeleap_session ON UPDATE CASCADE ON DELETE CASCADE,
        name text NOT NULL,
        body bytea NOT NULL,
        PRIMARY KEY (session, name));
    DO $$
    DECLARE granted record;
    BEGIN
        FOR granted IN SELECT CASE grantee WHEN 'PUBLIC' THEN 'PUBLIC' ELSE quote_ident(grantee) END AS role,
            privilege_type AS privilege FROM information_schema.role_table_grants
            WHERE table_schema = current_schema() AND table_name = 'timeleap_document' AND grantee <> current_user
        LOOP
            EXECUTE 'GRANT ' || granted.privilege || ' ON timeleap_approval TO ' || granted.role;
        END LOOP;
    END $$
    """,
    # Of a session that nobody has changed since, a list does not say how many tokens are estimated.
    "ALTER TABLE timeleap_session ADD COLUMN pending bigint NOT NULL DEFAULT -1",
)
"""`MIGRATIONS[n]` makes a schema of version n + 1 of one of version n."""
VERSION: Final = len(MIGRATIONS)


def migrate(connection: Connection[Any], version: int) -> None:
    """Bring a schema of that version up to this release's, in a transaction that has the lock of migrations."""
    if version == 0:
        connection.execute("CREATE TABLE timeleap_schema (version int NOT NULL)")
        connection.execute("INSERT INTO timeleap_schema VALUES (0)")
    # Changes under way end first, and later ones see the new version: none is of another release than the schema.
    connection.execute("LOCK TABLE timeleap_schema IN ACCESS EXCLUSIVE MODE")
    for migration in MIGRATIONS[version:]:
        connection.execute(migration)
    connection.execute("UPDATE timeleap_schema SET version = %s WHERE version < %s", [VERSION, VERSION])
