-- Creates the table `reports` from the table `pages`, whose pages must be JSON or NDJSON: the reports in their order, each
-- as JSON with its numbers as they were written, or fails. With columns: SELECT report ->> 'id' AS id FROM reports.
-- Needs the variable `source`. Verify the pages first.

-- json_extract rounds numbers: 0.10 becomes 0.1. So they are strings that begin with U+0001 while it runs.
CREATE OR REPLACE MACRO quote_numbers(json) AS replace(replace(replace(
  regexp_replace(json, '("(?:[^"\\]|\\.)*")|(-?[0-9][0-9.eE+-]*)', '\1' || chr(1) || '\2' || chr(2), 'g'),
  chr(1) || chr(2), ''), chr(1), '"\u0001'), chr(2), '"');
CREATE OR REPLACE MACRO unquote_numbers(json) AS regexp_replace(json, '"\\u0001([^"]*)"', '\1', 'g');

BEGIN;
-- Without pages, it reads the manifests, as DuckDB reads no empty list of files.
SET VARIABLE addresses = coalesce(
  (SELECT list(getvariable('source') || '/' || key ORDER BY sequence, run, page) FROM pages),
  (SELECT list(getvariable('source') || '/' || manifest) FROM runs)
);

-- DuckDB holds a page twice for each thread, and takes memory for the largest one.
SET VARIABLE largest = (SELECT greatest(max(bytes), 1048576) FROM pages);

CREATE OR REPLACE TABLE reports AS
SELECT sequence, run, page, unnest(
  CASE reportsAt.kind
    WHEN 'ndjson' THEN [json]
    WHEN 'json' THEN list_transform(
      json_extract(json_extract(quote_numbers(json), if(reportsAt.list = '', '$', reportsAt.list)), '$[*]'),
      lambda report: unquote_numbers(report)::JSON
    )
    ELSE error(key || ' has no JSON')
  END
) AS report
FROM (
  SELECT filename AS address, row_number() OVER () AS place, json
  FROM read_json_objects(
    getvariable('addresses'), format = 'unstructured', maximum_object_size = getvariable('largest'), filename = true
  )
)
JOIN pages ON regexp_extract(address, '[^/]+/[^/]+/[^/]+/[^/]+$') = key
ORDER BY place;

SELECT error('Page ' || page || ' of run ' || run || ' does not have ' || pages.reports || ' reports') AS problem
FROM pages LEFT JOIN (SELECT run, page, count(*) AS found FROM reports GROUP BY ALL) USING (run, page)
WHERE coalesce(found, 0) IS DISTINCT FROM pages.reports;
COMMIT;
