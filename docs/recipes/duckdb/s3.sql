-- Lets DuckDB read S3 with the credentials of the AWS CLI. Run it before the others, for a source in a bucket.
-- Needs the extensions httpfs and aws, which it installs.
INSTALL httpfs;
INSTALL aws;
CREATE SECRET reports (TYPE s3, PROVIDER credential_chain);
