"""Hive's metastore with Derby, of the classes that Spark has; it serves this machine only.

``python -m cdc_assets_tests.elsewhere.metastore PORT FOLDER``. Its own launcher listens on all
interfaces, so the server is put together here.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from cdc_assets_devstack import environment
from cdc_assets_devstack.java import SPARK_OPENS, find_java, jvm_options, pyspark_jars
from cdc_assets_devstack.layout import HOST, StackLayout
from cdc_assets_devstack.part import Part
from cdc_assets_devstack.ports import is_open
from cdc_assets_devstack.process import Command


class Metastore(Part):
    """The server."""

    name = "metastore"
    inherits = environment.PYTHON

    def __init__(self, layout: StackLayout, port: int) -> None:
        super().__init__(layout)
        self._port = port

    @property
    def port(self) -> int:
        return self._port

    @property
    def uri(self) -> str:
        return f"thrift://{HOST}:{self.port}"

    def prepare(self) -> None:
        self.layout.data(self.name).mkdir(parents=True, exist_ok=True)

    def command(self) -> Command:
        module, folder = "cdc_assets_tests.elsewhere.metastore", self.layout.data(self.name)
        argv = [sys.executable, "-m", module, str(self.port), str(folder)]
        return Command(argv, env=self.environment())

    def ready(self) -> bool:
        return is_open(self.port)


def main() -> None:
    """Serve until it is stopped."""
    from py4j.java_gateway import JavaGateway

    port, folder = int(sys.argv[1]), Path(sys.argv[2])
    gateway = JavaGateway.launch_gateway(
        jarpath=str(next(pyspark_jars().glob("py4j-*.jar"))),
        classpath=f"{pyspark_jars()}/*",
        javaopts=[*jvm_options(heap="256m", tmp=folder), *SPARK_OPENS,
                  f"-Dderby.stream.error.file={folder}/derby.log"],
        java_path=str(find_java().program),
        redirect_stdout=sys.stdout, redirect_stderr=sys.stderr,
        die_on_exit=True, enable_auth=True,
    )  # fmt: skip
    java: Any = gateway.jvm
    for name, value in _settings(folder).items():
        java.java.lang.System.setProperty(name, value)
    conf, hive = java.org.apache.hadoop.hive.conf.HiveConf(), java.org.apache.hadoop.hive.metastore
    java.org.apache.hadoop.hive.metastore.txn.TxnDbUtil.prepDb(conf)  # its tables for locks
    handler = hive.HiveMetaStore.HMSHandler("metastore", conf, False)
    calls = hive.HiveMetaStore.newRetryingHMSHandler(handler, conf, False)
    thrift = java.org.apache.thrift
    socket = thrift.transport.TServerSocket(java.java.net.InetSocketAddress(HOST, port))
    arguments = thrift.server.TThreadPoolServer.Args(socket)
    arguments.processor(hive.TSetIpAddressProcessor(calls))
    thrift.server.TThreadPoolServer(arguments).serve()


def _settings(folder: Path) -> dict[str, str]:
    return {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/hive;create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "datanucleus.connectionPoolingType": "HikariCP",  # of those, Spark has this one
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": f"file://{folder}/warehouse",
    }


if __name__ == "__main__":
    main()
