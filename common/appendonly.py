"""Migration step that makes a table append-only: no update, delete or truncate, for any role."""

from __future__ import annotations

from django.db.migrations.operations import RunSQL

_FUNCTION = """
CREATE OR REPLACE FUNCTION pagewarden_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = '42501';
END $$;
"""


def append_only(table: str) -> RunSQL:
    """Answer the migration operation that closes a table.

    The second line of defence is the application's role, which lacks the rights in the first place.
    """
    return RunSQL(
        sql=f"""
        {_FUNCTION}
        CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table}
          FOR EACH ROW EXECUTE FUNCTION pagewarden_refuse_change();
        CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table}
          FOR EACH STATEMENT EXECUTE FUNCTION pagewarden_refuse_change();
        DO $$ BEGIN
          IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'pagewarden_app') THEN
            REVOKE UPDATE, DELETE, TRUNCATE, TRIGGER ON {table} FROM pagewarden_app;
          END IF;
        END $$;
        """,
        reverse_sql=f"""
        DROP TRIGGER IF EXISTS {table}_append_only ON {table};
        DROP TRIGGER IF EXISTS {table}_no_truncate ON {table};
        """,
    )
