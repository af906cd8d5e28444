-- Creates the table `parents` from the table `reports`, whose reports are the parents of another export: one row for
-- each run and parent. Needs reports-json.sql. Replace '/id' by `parents.id` of your settings.
CREATE OR REPLACE TABLE parents AS
SELECT run, report ->> '/id' AS parent, any_value(report) AS report FROM reports GROUP BY ALL;
