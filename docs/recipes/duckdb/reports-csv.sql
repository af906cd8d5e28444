-- Creates the table `reports` from the table `pages`, whose pages must be CSV: the rows in their order, as text, with the
-- columns that the first row names, if it does, or fails.
-- Needs the variable `source`. Verify the pages first.
BEGIN;
-- The first file has the names of the columns. A page without bytes has none.
SET VARIABLE addresses = (
  SELECT if(
    count(*) > 0, list(getvariable('source') || '/' || key ORDER BY bytes = 0, sequence, run, page), error('No page')
  )
  FROM pages
);
SET VARIABLE header = (SELECT bool_and(reportsAt.header) FROM pages);

CREATE OR REPLACE TABLE reports AS
SELECT sequence, run, page, rows.* EXCLUDE (address, place)
FROM (
  SELECT *, row_number() OVER () AS place
  FROM read_csv(
    getvariable('addresses'), filename = 'address', hive_partitioning = false, auto_detect = true,
    header = getvariable('header'), all_varchar = true, delim = ',', quote = '"', escape = '"', max_line_size = 268435456
  )
) AS rows
JOIN pages ON regexp_extract(address, '[^/]+/[^/]+/[^/]+/[^/]+$') = key
ORDER BY place;

SELECT error('Page ' || page || ' of run ' || run || ' does not have ' || pages.reports || ' rows') AS problem
FROM pages LEFT JOIN (SELECT run, page, count(*) AS found FROM reports GROUP BY ALL) USING (run, page)
WHERE coalesce(found, 0) IS DISTINCT FROM pages.reports;
COMMIT;
