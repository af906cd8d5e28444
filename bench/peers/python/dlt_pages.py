"""dlt: a resource on RESTClient with its HeaderCursorPaginator, into a filesystem destination.

Follows https://dlthub.com/docs/general-usage/http/rest-client (paginators), dlt's filesystem destination (a local folder)
and "full loading" (replace): after a restart it may export everything again. RESTClient expects JSON in extract_response;
here a page of XML is one record instead.
"""

import os
import sys

os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"
os.environ["RUNTIME__LOG_LEVEL"] = "ERROR"
# Uncompressed files, as the other contenders write them. This also saves dlt the time to compress.
os.environ["DATA_WRITER__DISABLE_COMPRESSION"] = "true"
os.environ["NORMALIZE__DATA_WRITER__DISABLE_COMPRESSION"] = "true"

import dlt
from dlt.sources.helpers.rest_client import RESTClient
from dlt.sources.helpers.rest_client.paginators import HeaderCursorPaginator

from measurement import BODY, KEY_HEADER, measured

base_url, out = sys.argv[1:3]


class XmlClient(RESTClient):
    def extract_response(self, response, data_selector):
        return [{"cursor": response.request.url.partition("cursor=")[2], "xml": response.text}]


@dlt.resource(name="pages", write_disposition="replace")
def pages():
    client = XmlClient(
        base_url=base_url,
        headers=KEY_HEADER,
        paginator=HeaderCursorPaginator(cursor_key="X-SERVICE-CURSOR", cursor_param="cursor"),
        data_selector="$",
    )
    yield from client.paginate("/v1/report/export", method="POST", json=BODY)


pipeline = dlt.pipeline(
    pipeline_name="reports",
    pipelines_dir=os.path.join(out, "work"),
    destination=dlt.destinations.filesystem(bucket_url=os.path.join(out, "lake")),
    dataset_name="export",
)
with measured("dlt"):
    pipeline.run(pages())
