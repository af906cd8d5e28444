"""airbyte-cdk, low-code: a manifest with CursorPagination from a header, and the XmlDecoder, which parses every page.

Follows https://docs.airbyte.com/connector-development/config-based/understanding-the-yaml-file/pagination/ and the
reference of the components CursorPagination and XmlDecoder. A record is the parsed page; the raw text is not kept, and a
page that cannot be parsed becomes an empty record with a warning in the log.
"""

import sys
from pathlib import Path

from airbyte_cdk.entrypoint import AirbyteEntrypoint, launch
from airbyte_cdk.sources.declarative.yaml_declarative_source import YamlDeclarativeSource

from measurement import measured

args = sys.argv[1:]
source = YamlDeclarativeSource(
    path_to_yaml=str(Path(__file__).with_name("airbyte_manifest.yaml")),
    catalog=YamlDeclarativeSource.read_catalog(AirbyteEntrypoint.extract_catalog(args)),
    config=YamlDeclarativeSource.read_config(AirbyteEntrypoint.extract_config(args)),
    state=YamlDeclarativeSource.read_state(AirbyteEntrypoint.extract_state(args)),
)
with measured("airbyte"):
    launch(source, args)
    sys.stdout.flush()
