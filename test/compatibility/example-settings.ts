/** Settings files for the fixtures. Together they set every field. */

import type { SettingsFile } from '../../lib/core/settings/deployment-settings.ts';

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
        apiKeySecret: { field: 'apiKey' },
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
    bucket: { prefix: 'all/' },
    kmsKeyArn: 'arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555',
    alarms: { email: 'operators@example.com', perExport: false },
    logRetentionDays: 30,
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
