-- Creates the table `reports` from the table `pages`, whose pages must be JSON or NDJSON: the reports in their order, each
-- as JSON, or fails. With columns: SELECT report ->> 'id' AS id FROM reports.
-- Needs the variable `source`. Verify the pages first.

-- Of JSON: replace this by where the list of reports is.
SET VARIABLE reportsAt = '$.reports[*]';

BEGIN;
SET VARIABLE addresses = (
  SELECT list(getvariable('source') || '/' || key ORDER BY sequence, page) FROM pages
);

CREATE OR REPLACE TABLE reports AS
SELECT sequence, run, page, report
FROM (
  SELECT filename AS address, row_number() OVER () AS place, report
  FROM (
    SELECT filename, unnest(
      CASE WHEN filename LIKE '%.ndjson%' THEN [json] ELSE json_extract(json, getvariable('reportsAt')) END
    ) AS report
    FROM read_json_objects(
      getvariable('addresses'), format = 'unstructured', maximum_object_size = 268435456, filename = true
    )
  )
)
JOIN pages ON regexp_extract(address, '[^/]+/[^/]+/[^/]+/[^/]+$') = key
ORDER BY place;

SELECT error('Page ' || page || ' of run ' || run || ' does not have ' || pages.reports || ' reports: change reportsAt')
  AS problem
FROM pages LEFT JOIN (SELECT sequence, page, count(*) AS found FROM reports GROUP BY ALL) USING (sequence, page)
WHERE coalesce(found, 0) IS DISTINCT FROM pages.reports;
COMMIT;
