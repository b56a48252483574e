"""Logs in by AWS's identities: tokens for databases and Kafka, and the client of Glue.

The credentials are those that boto3 finds: variables, profiles, a role of the machine or the pod.
boto3 is imported when a login needs it: it is the extra ``aws``.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from cdc_assets.errors import ConfigError, UnreachableError

RDS_SECONDS: Final = 600.0
"""How long a token is used to connect to a database; AWS accepts it for 900 seconds."""

MSK_SECONDS: Final = 900
"""How long a token is valid that logs in to MSK."""

_RDS_HOST: Final = re.compile(r"\.([a-z0-9-]+)\.rds\.amazonaws\.com(\.cn)?$")
_MSK_HOST: Final = re.compile(r"\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?(:\d+)?$")


def session() -> Any:
    """Returns a session of boto3.

    Raises:
        ConfigError: if the extra is missing.
    """
    try:
        import boto3
    except ImportError:
        msg = "a login by AWS needs boto3, which is not installed"
        raise ConfigError(msg, remedy="pip install 'cdc-assets[aws]'") from None
    return boto3.Session()


def region_of(configured: str | None, host: str, where: str) -> str:
    """Returns the region: the configured one, else that of a host's name, else the environment's.

    Raises:
        ConfigError: if nothing names one.
    """
    found = _RDS_HOST.search(host) or _MSK_HOST.search(host)
    region = configured or (found[1] if found else None) or session().region_name
    if not region:
        msg = "nothing names the region of AWS"
        raise ConfigError(msg, where=where, remedy="set region, or the variable AWS_REGION")
    return str(region)


def rds_token(host: str, port: int, user: str, region: str) -> str:
    """Returns a token that is the password of a database's user, with the rights of this identity.

    Raises:
        ConfigError: if the extra is missing.
        UnreachableError: if no credentials are found.
    """
    with translated(f"database {host}:{port}"):
        client = session().client("rds", region_name=region)
        return str(client.generate_db_auth_token(host, port, user))


def msk_token(region: str) -> tuple[str, float]:
    """Returns a token for MSK by SASL/OAUTHBEARER, and the second since 1970 at which it ends.

    The token is a URL of the action ``kafka-cluster:Connect``, signed by Signature Version 4, as
    AWS's own signers for MSK make it: github.com/aws/aws-msk-iam-sasl-signer-python.

    Raises:
        ConfigError: if the extra is missing.
        UnreachableError: if no credentials are found.
    """
    with translated(f"MSK in {region}"):
        made = session()
        from botocore.auth import SigV4QueryAuth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import NoCredentialsError

        credentials = made.get_credentials()
        if credentials is None:
            raise NoCredentialsError
        frozen = credentials.get_frozen_credentials()
        ends, url = time.time() + MSK_SECONDS, f"https://kafka.{region}.amazonaws.com/"
        asked = AWSRequest(method="GET", url=url, params={"Action": "kafka-cluster:Connect"})
        SigV4QueryAuth(frozen, "kafka-cluster", region, expires=MSK_SECONDS).add_auth(asked)
        # AWS takes what follows the signature for a remark.
        signed = f"{asked.url}&User-Agent=cdc-assets"
    return base64.urlsafe_b64encode(signed.encode()).decode().rstrip("="), ends


@contextmanager
def translated(where: str) -> Generator[None]:
    """Names boto3's errors, without their texts; requires boto3."""
    session()
    from botocore.exceptions import BotoCoreError

    try:
        yield
    except BotoCoreError as error:
        msg = f"no login by AWS came about ({type(error).__name__})"
        remedy = "give this process credentials: a role, a profile, or AWS_ACCESS_KEY_ID"
        raise UnreachableError(msg, where=where, remedy=remedy) from None
