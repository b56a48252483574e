from concurrent.futures import ThreadPoolExecutor

import pytest
from cdc_assets_devstack.secrets_file import read_or_create, write_private

pytestmark = pytest.mark.unit


def test_many_first_callers_get_one_secret(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(read_or_create, [tmp_path / "secrets" / "spark"] * 32))
    assert len(found) == 1
    assert [file.name for file in (tmp_path / "secrets").iterdir()] == ["spark"]


def test_only_the_owner_may_read(tmp_path):
    read_or_create(tmp_path / "secrets" / "spark")
    write_private(tmp_path / "conf", "x")
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "secrets" / "spark").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "conf").stat().st_mode & 0o777 == 0o600
