"""A REST catalog: that of Iceberg's own tests, over SQLite, with the tables' files in S3.

It knows no logins: `cdc_assets_tests.elsewhere.front` stands before it.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from cdc_assets_devstack import secrets_file
from cdc_assets_devstack.jars import require_installed
from cdc_assets_devstack.java import find_java, jvm_options, pyspark_jars
from cdc_assets_devstack.layout import HOST, StackLayout
from cdc_assets_devstack.part import Part
from cdc_assets_devstack.process import Command

from cdc_assets_tests.elsewhere.s3 import BUCKET, REGION, S3

WAREHOUSE = f"s3://{BUCKET}/warehouse"
_OF_SPARK = ("hadoop-client-api", "hadoop-client-runtime", "commons-logging")

_XML = """<?xml version="1.0"?>
<!DOCTYPE Configure PUBLIC "-//Jetty//Configure//EN" "https://jetty.org/configure_10_0.dtd">
<Configure id="Server" class="org.eclipse.jetty.server.Server">
  <Call name="addConnector"><Arg>
    <New class="org.eclipse.jetty.server.ServerConnector">
      <Arg name="server"><Ref refid="Server"/></Arg>
      <Set name="host">{host}</Set>
      <Set name="port">{port}</Set>
    </New>
  </Arg></Call>
  <Set name="handler">
    <New class="org.eclipse.jetty.ee10.servlet.ServletContextHandler">
      <Call name="addServlet">
        <Arg><New class="org.eclipse.jetty.ee10.servlet.ServletHolder">
          <Arg>
            <New class="org.apache.iceberg.rest.RESTCatalogServlet">
              <Arg><New class="org.apache.iceberg.rest.RESTCatalogAdapter"><Arg>
                <Call class="org.apache.iceberg.CatalogUtil" name="buildIcebergCatalog">
                  <Arg>lake</Arg>
                  <Arg><Map>{properties}</Map></Arg>
                  <Arg><New class="org.apache.hadoop.conf.Configuration"/></Arg>
                </Call>
              </Arg></New></Arg>
            </New>
          </Arg>
        </New></Arg>
        <Arg>/*</Arg>
      </Call>
    </New>
  </Set>
</Configure>
"""


class RestCatalog(Part):
    """The server, started of Jetty's own description, as its launcher listens everywhere."""

    name = "rest-catalog"

    def __init__(self, layout: StackLayout, port: int, s3: S3) -> None:
        super().__init__(layout)
        self._port = port
        self._s3 = s3

    @property
    def port(self) -> int:
        return self._port

    def prepare(self) -> None:
        """Write the description: it holds the key to S3."""
        require_installed(self.layout, self.name)
        self.layout.data(self.name).mkdir(parents=True, exist_ok=True)
        properties = {
            "type": "jdbc",
            "uri": f"jdbc:sqlite:{self.layout.data(self.name)}/catalog.db",
            "jdbc.schema-version": "V1",
            "jdbc.busy_timeout": "30000",
            "warehouse": WAREHOUSE,
            **s3_properties(self._s3),
        }
        text = "".join(
            f"<Entry><Item>{name}</Item><Item>{escape(value)}</Item></Entry>"
            for name, value in properties.items()
        )
        secrets_file.write_private(
            self._description, _XML.format(host=HOST, port=self.port, properties=text)
        )

    def command(self) -> Command:
        hadoop = [str(jar) for name in _OF_SPARK for jar in pyspark_jars().glob(f"{name}-*.jar")]
        argv = [
            str(find_java().program),
            *jvm_options(heap="512m", tmp=self.layout.tmp(self.name)),
            *("-cp", ":".join([f"{self.layout.jars_of(self.name)}/*", *hadoop])),
            *("org.eclipse.jetty.xml.XmlConfiguration", str(self._description)),
        ]
        return Command(argv, env=self.environment({"AWS_REGION": REGION}))

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self.port}/v1/config", timeout=2):
                return True
        except OSError:
            return False

    @property
    def _description(self) -> Path:
        return self.layout.runs / f"{self.name}.xml"


def s3_properties(s3: S3) -> Mapping[str, str]:
    """How Iceberg reaches S3, in Java."""
    return {
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": s3.endpoint,
        "s3.path-style-access": "true",
        "s3.access-key-id": s3.key,
        "s3.secret-access-key": s3.secret,
        "client.region": REGION,
    }
