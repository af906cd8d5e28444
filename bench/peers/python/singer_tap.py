"""singer-sdk, the tap: a RESTStream with the SDK's SimpleHeaderPaginator; one record per page.

Follows the SDK's reference of RESTStream and SimpleHeaderPaginator. It is a full-table stream: a bookmark needs a field
that only increases, and these pages have none (the cursor is opaque).
"""

import sys

from singer_sdk import RESTStream, Tap
from singer_sdk import typing as th
from singer_sdk.pagination import SimpleHeaderPaginator

from measurement import BODY, KEY_HEADER, measured


class Pages(RESTStream):
    name = "pages"
    path = "/v1/report/export"
    http_method = "POST"
    payload_as_json = True
    primary_keys = ("cursor",)
    schema = th.PropertiesList(th.Property("cursor", th.StringType), th.Property("xml", th.StringType)).to_dict()

    @property
    def url_base(self):
        return self.config["base_url"]

    @property
    def http_headers(self):
        return {**super().http_headers, **KEY_HEADER}

    def get_new_paginator(self):
        return SimpleHeaderPaginator("X-SERVICE-CURSOR")

    def get_url_params(self, context, next_page_token):
        return {"cursor": next_page_token} if next_page_token else {}

    def prepare_request_payload(self, context, next_page_token):
        return BODY

    def parse_response(self, response):
        yield {"cursor": response.request.url.partition("cursor=")[2], "xml": response.text}


class ReportsTap(Tap):
    name = "tap-reports"
    config_jsonschema = th.PropertiesList(th.Property("base_url", th.StringType, required=True)).to_dict()

    def discover_streams(self):
        return [Pages(self)]


tap = ReportsTap(config={"base_url": sys.argv[1]})
with measured("tap"):
    tap.sync_all()
    sys.stdout.flush()
