# DEV OVERRIDE
import os
import pytest
from pathlib import Path
from cdc_assets.config import load_config
from cdc_assets.devstack.configured import stack_of
from cdc_assets.devstack.layout import JARS_VARIABLE
from cdc_assets.devstack.ports import pick_free_ports
from cdc_assets_tests.conftest import CONFIG, CHECKOUT_JARS


@pytest.fixture(scope="session")
def stack_config():
    file = Path("/tmp/e2e/home/replication.yaml")
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        ports = pick_free_ports()
        file.write_text(CONFIG.format(kafka=ports.kafka, ports=ports.as_dict()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(JARS_VARIABLE, str(CHECKOUT_JARS))
        config = load_config(file)
        patch.setenv("SHOP_DSN", stack_of(config).postgres.dsn("shop"))
        yield config


@pytest.fixture(scope="session")
def _local_stack(stack_config):
    yield stack_of(stack_config)
