/** Settings files for the fixtures. Together they set every field. */

import type { SettingsFile } from '../../lib/core/settings/deployment-settings.ts';

/** Valid until 2120. */
const certificate = `-----BEGIN CERTIFICATE-----
MIIBWzCCAQKgAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAkxMjcuMC4w
LjEwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMM
CTEyNy4wLjAuMTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABGE7+CjumJ3uxmi2
DTjJQElT37rqcXvLQkWiA2+N1gjfWKhjRNhsy7an8sbKG30byzoOUcobNRBXf4/7
ZKv1L3CjQzBBMA8GA1UdEQQIMAaHBH8AAAEwDwYDVR0TAQH/BAUwAwEB/zAdBgNV
HQ4EFgQUlCplP7As+eojnrhM0mxCEZYT33kwCgYIKoZIzj0EAwIDRwAwRAIgXXFF
0sPybNlhRyHvNe8Q9hGlDB9JAt5huxNKdZJOxSoCIAfiLBCykwYU6I8cl7bRGfN2
6Uzk6blnBPAzT3Qd5qiJ
-----END CERTIFICATE-----
`;

export const exampleSettings: Readonly<Record<'minimal' | 'full' | 'existing', SettingsFile>> = {
  minimal: { services: { acme: { baseUrl: 'https://reports.example.com' } }, exports: [{ name: 'reports' }] },
  full: {
    $schema: './node_modules/report-exporter/docs/schemas/settings.v1.schema.json',
    stackName: 'ReportExporter',
    services: {
      acme: {
        baseUrl: 'https://reports.example.com/api/',
        vendor: 'ACME',
        cursorIn: 'body',
        connectTimeout: 'PT5S',
        headersTimeout: 'PT2M',
        bodyTimeout: 'PT45S',
        totalTimeout: 'PT5M',
        maxPageBytes: 1_073_741_824,
        maxConcurrentPages: 2,
        proxyUrl: 'http://proxy.example.com:3128',
        proxyCredentialsSecret: 'acme/proxy',
        tls: {
          ca: certificate,
          clientCertificateSecret: 'acme/client-certificate',
          clientCertificate: 'client.pem',
          clientKey: 'client.key',
          clientKeyPassphraseEnv: 'ACME_CLIENT_KEY_PASSPHRASE',
        },
        headers: { 'X-Tenant': 'finance' },
        apiKeySecret: {
          field: 'apiKey',
          kmsKeyArn: 'arn:aws:kms:eu-central-1:123456789012:key/22222222-3333-4444-5555-666666666666',
        },
        exportPage: { memoryMebibytes: 1_024, reservedConcurrency: 4 },
        readerAccounts: ['210987654321'],
        apiKeyEnv: 'ACME_API_KEY',
      },
      other: { baseUrl: 'https://other.example.com' },
    },
    exports: [
      {
        name: 'nightly',
        service: 'acme',
        since: { initial: '2026-11-01T00:00:00Z', overlap: 'PT15M' },
        filter: { type: 'daily', nested: { list: [1, 2.5, null, true, ''] } },
        format: 'CSV',
        publishEmptyRuns: false,
        container: 'ZIP',
        size: 10,
        maxPages: 100_000,
        iterationsPerExecution: 100,
        pagesPerInvocation: 25,
        maxCursorRestarts: 2,
        maxInlineWait: 'PT10S',
        maxRetryAfter: 'PT12H',
        maxConsecutiveWaits: 10,
        schedule: {
          expression: 'cron(0 2 * * ? *)',
          timeZone: 'Europe/Berlin',
          flexibleWindow: 'PT15M',
          enabled: true,
          freshness: 'PT26H',
        },
      },
      { name: 'hourly', service: 'other', since: { lookbackWindow: 'P1D' }, schedule: { expression: 'rate(1 hour)' } },
    ],
    bucket: {
      prefix: 'all/',
      lifecycle: {
        transitions: [{ storageClass: 'STANDARD_IA', afterDays: 30 }],
        expireAfterDays: 3_650,
        deleteNoncurrentAfterDays: 60,
      },
      storageClass: 'STANDARD',
      objectTags: { team: 'finance' },
      kmsKeyArn: 'arn:aws:kms:eu-central-1:123456789012:key/33333333-4444-5555-6666-777777777777',
    },
    kmsKeyArn: 'arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555',
    alarms: { email: 'operators@example.com', runbookUrl: 'https://wiki.example.com/reports', perExport: false },
    logRetentionDays: 30,
    logLevel: 'ERROR',
    tracing: false,
    network: {
      vpcId: 'vpc-0123456789abcdef0',
      subnetIds: ['subnet-0123456789abcdef0', 'subnet-0123456789abcdef1'],
      securityGroupIds: ['sg-0123456789abcdef0'],
      createEndpoints: ['s3', 'dynamodb', 'secretsmanager', 'states'],
      routeTableIds: ['rtb-0123456789abcdef0'],
      vpcCidrs: ['10.0.0.0/16'],
    },
    env: { account: '123456789012', region: 'eu-central-1' },
    tags: { costCenter: '4711' },
    terminationProtection: true,
    permissionsBoundary: 'Boundary',
  },
  existing: {
    services: {
      acme: { baseUrl: 'https://reports.example.com', apiKeySecret: { existing: 'acme/api-key' } },
    },
    exports: [{ name: 'reports', schedule: { expression: 'rate(6 hours)', enabled: false, freshness: 'none' } }],
    bucket: { existing: 'a-bucket-of-reports' },
    alarms: { existingTopicArn: 'arn:aws:sns:eu-central-1:123456789012:operators' },
  },
};
