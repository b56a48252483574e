"""What the benchmarks tell the programs that they start."""

from __future__ import annotations

import pytest

from cdc_assets_tests.bench.accounts import connection_variables

pytestmark = pytest.mark.unit


def test_all_of_a_connection_string_reaches_pgbench() -> None:
    told = connection_variables(
        "postgresql://shop:secret@localhost:5433/accounts?hostaddr=127.0.0.1&sslmode=disable"
        "&gssencmode=disable&target_session_attrs=any&options="
    )
    assert told == {
        "PGHOST": "localhost",
        "PGHOSTADDR": "127.0.0.1",
        "PGPORT": "5433",
        "PGUSER": "shop",
        "PGPASSWORD": "secret",
        "PGDATABASE": "accounts",
        "PGSSLMODE": "disable",
        "PGGSSENCMODE": "disable",
        "PGTARGETSESSIONATTRS": "any",
    }
