-- Fetches every page in the table `pages`, a few at a time, and fails if one does not match its manifest. A compressed
-- page is compared as it is stored.
-- Needs the variable `source`.
-- Without pages, it reads the manifests, as DuckDB reads no empty list of files.
SET VARIABLE addresses = coalesce(
  (SELECT list(getvariable('source') || '/' || key) FROM pages),
  (SELECT list(getvariable('source') || '/' || manifest) FROM runs)
);

SELECT error('Page ' || page || ' of run ' || run || ' does not match its manifest') AS problem
FROM pages
LEFT JOIN (
  SELECT filename AS address, size, sha256(content) AS digest FROM read_blob(getvariable('addresses'))
) ON regexp_extract(address, '[^/]+/[^/]+/[^/]+/[^/]+$') = key
WHERE size IS DISTINCT FROM coalesce(storedBytes, bytes) OR digest IS DISTINCT FROM coalesce(storedSha256, sha256);
