"""airbyte-cdk in Python: an HttpStream with resumable full refresh. It writes messages to stdout, one record per page.

Follows https://docs.airbyte.com/connector-development/cdk-python/resumable-full-refresh-stream: after each page the
state has the token of the next page. airbyte_resume.py does what the platform does.
"""

import sys

from airbyte_cdk.entrypoint import launch
from airbyte_cdk.models import ConnectorSpecification
from airbyte_cdk.sources import AbstractSource
from airbyte_cdk.sources.streams.http import HttpStream

from measurement import BODY, KEY_HEADER, measured


class Pages(HttpStream):
    primary_key = "cursor"
    http_method = "POST"

    def __init__(self, base_url):
        super().__init__()
        self.base_url = base_url

    @property
    def name(self):
        return "pages"

    @property
    def url_base(self):
        return f"{self.base_url}/"

    def path(self, **kwargs):
        return "v1/report/export"

    def get_json_schema(self):
        return {"type": "object", "properties": {"cursor": {"type": "string"}, "xml": {"type": "string"}}}

    def next_page_token(self, response):
        cursor = response.headers.get("X-SERVICE-CURSOR")
        return {"cursor": cursor} if cursor else None

    def request_params(self, stream_state=None, stream_slice=None, next_page_token=None):
        return next_page_token or {}

    def request_headers(self, **kwargs):
        return KEY_HEADER

    def request_body_json(self, **kwargs):
        return BODY

    def parse_response(self, response, **kwargs):
        yield {"cursor": response.request.url.partition("cursor=")[2], "xml": response.text}


class ReportsSource(AbstractSource):
    def spec(self, logger):
        return ConnectorSpecification(connectionSpecification={"type": "object"})

    def check_connection(self, logger, config):
        return True, None

    def streams(self, config):
        return [Pages(config["base_url"])]


source = ReportsSource()
with measured("airbyte"):
    launch(source, sys.argv[1:])
    sys.stdout.flush()
