"""What lines of `SHOW GRANTS` say, of MySQL and of MariaDB."""

from __future__ import annotations

import pytest

from cdc_assets.changes.names import TableName
from cdc_assets.databases.mysql.server import grants_of

pytestmark = pytest.mark.unit

ORDERS = TableName("shop", "shop_1", "orders")


@pytest.mark.parametrize(
    ("line", "may_replicate", "may_read"),
    [
        ("GRANT ALL PRIVILEGES ON *.* TO `root`@`%` WITH GRANT OPTION", True, True),
        ("GRANT SELECT, RELOAD, REPLICATION SLAVE ON *.* TO `cdc`@`%`", True, True),
        ("GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO `cdc`@`%` IDENTIFIED BY PASSWORD '*X'",
         True, False),
        ("GRANT USAGE ON *.* TO `cdc`@`%`", False, False),
        ("GRANT SELECT, INSERT ON `shop_1`.* TO `cdc`@`%`", False, True),
        (r"GRANT SELECT ON `shop\_1`.* TO `cdc`@`%`", False, True),
        (r"GRANT SELECT ON `shop\_2`.* TO `cdc`@`%`", False, False),
        ("GRANT SELECT ON `sh%`.* TO `cdc`@`%`", False, True),
        ("GRANT SELECT ON `shop_1`.`orders` TO `cdc`@`%`", False, True),
        ("GRANT SELECT ON `shop_1`.`items` TO `cdc`@`%`", False, False),
        ("GRANT SELECT (`id`, `name`), INSERT ON `shop_1`.`orders` TO `cdc`@`%`", False, False),
        ('GRANT SELECT ON "shop_1".* TO "cdc"@"%"', False, True),
        ("GRANT EXECUTE ON PROCEDURE `shop_1`.`orders` TO `cdc`@`%`", False, False),
        ("GRANT PROXY ON ``@`%` TO `root`@`localhost` WITH GRANT OPTION", False, False),
    ],
)  # fmt: skip
def test_a_line_says_what_may_be_done(line: str, *, may_replicate: bool, may_read: bool) -> None:
    grants = grants_of([line])
    assert grants.may("REPLICATION SLAVE") is may_replicate
    assert grants.may_read(ORDERS) is may_read
    assert not grants.has_roles


@pytest.mark.parametrize(
    "line", ["GRANT `reader`@`%` TO `cdc`@`%`", "GRANT `reader` TO `cdc`@`%` WITH ADMIN OPTION"]
)
def test_a_role_is_seen(line: str) -> None:
    assert grants_of([line, "GRANT USAGE ON *.* TO `cdc`@`%`"]).has_roles
