/**
 * The JSON Schema of the settings file, with which editors complete and check it: docs/schemas/settings.v1.schema.json. It is
 * generated from the schemas that parse the file. A test keeps the file up to date.
 */

import * as z from 'zod';
import { serviceNameSchema, settingsFileSchema } from './deployment-settings.ts';

export const settingsSchemaName = 'settings.v1';

type JsonSchema = Record<string, unknown>;

/** The description of each field. Here, so that the functions do not contain it. */
const descriptions: Readonly<Record<string, string>> = {
  $schema: 'The address or path of this schema, for editors.',
  stackName: 'The name of the CloudFormation stack.',
  services:
    'The services by name: 1 to 30 lower-case letters, digits and hyphens. The name becomes part of the keys, so it cannot be changed later without losing the state of the exports.',
  'services.*': 'The address and the limits of a service.',
  'services.*.baseUrl': 'The address of the service: https, or http to the loopback interface.',
  'services.*.vendor': "The vendor's part of the header names X-…-API-KEY and X-…-CURSOR.",
  'services.*.cursorIn': 'Where a request carries the cursor.',
  'services.*.filterUntil': 'The filter that excludes reports from a date on, such as date.lt, for backfills.',
  'services.*.rootElement':
    'The name of the root element of every page, without its prefix: reports, or {namespace}reports. Without it, page 1 must have that of earlier runs.',
  'services.*.connectTimeout': 'The time to connect, as an ISO 8601 duration of at most P1D.',
  'services.*.headersTimeout':
    'The time from the request to the response headers, as an ISO 8601 duration of at most P1D.',
  'services.*.bodyTimeout': 'The time between two parts of the body, as an ISO 8601 duration of at most P1D.',
  'services.*.totalTimeout': 'The time for a whole request, as an ISO 8601 duration of at most P1D.',
  'services.*.maxPageBytes': 'The maximum size of a page in bytes.',
  'services.*.maxConcurrentPages':
    'How many pages are requested at the same time, over all exports of the service. Without it, there is no limit.',
  'services.*.proxyUrl': 'An HTTP proxy, http or https, through which the service is requested. Without credentials.',
  'services.*.proxyCredentialsSecret':
    'On AWS: the name or the complete ARN of a secret, whose JSON has the fields username and password for the proxy.',
  'services.*.tls': 'Certificates of the connection to the service.',
  'services.*.tls.ca':
    'The only certificate authorities that are trusted: PEM text, or the path of a PEM file, relative to this file. Without it, the public ones.',
  'services.*.tls.clientCertificateSecret':
    'On AWS: the name or the complete ARN of a secret, whose JSON has the fields cert, key and, for an encrypted key, passphrase.',
  'services.*.tls.clientCertificate':
    'On this machine: the path of a PEM file with the client certificate, relative to this file.',
  'services.*.tls.clientKey': 'On this machine: the path of a PEM file with the key of the client certificate.',
  'services.*.tls.clientKeyPassphraseEnv':
    'On this machine: the environment variable with the passphrase of the key. Never the passphrase itself.',
  'services.*.headers': 'Further headers of every request. They are not secret: the template contains them.',
  'services.*.apiKeySecret': 'The secret with the API key on AWS.',
  'services.*.apiKeySecret.existing': 'The name or the complete ARN of an existing secret. Without it, one is created.',
  'services.*.apiKeySecret.field':
    "The field of the secret's JSON with the key. Without it, the whole secret is the key.",
  'services.*.apiKeySecret.kmsKeyArn':
    'The ARN of the customer managed KMS key that encrypts the secret. Without it, the common `kmsKeyArn`.',
  'services.*.apiKeyEnv': 'The environment variable with the API key, for runs on this machine. Never the key itself.',
  'services.*.exportPage': 'The function that requests pages.',
  'services.*.exportPage.memoryMebibytes': 'Its memory in MiB. Lambda allocates CPU in proportion to it.',
  'services.*.exportPage.reservedConcurrency':
    "How many invocations may run at the same time, reserved for this function. At least the number of the service's exports, and one more with filterUntil. Without it, the limit is that of the account.",
  'services.*.readerAccounts':
    'The accounts that may read what the service exported, from the bucket that the stack creates.',
  exports: 'The exports of all services.',
  'exports[]': 'What to export, from where, and when.',
  'exports[].name':
    'The name of the export and first part of its keys. Unique in the file. It cannot be changed later without losing the state of the export.',
  'exports[].service': 'The name of its service. May be left out if there is only one.',
  'exports[].since': 'Where the runs start.',
  'exports[].since.initial': 'Where the first run starts (ISO 8601, UTC). Without it, with the oldest report.',
  'exports[].since.overlap': 'How far a run starts before the watermark, as an ISO 8601 duration.',
  'exports[].since.lookbackWindow':
    'Instead of the watermark: how far before its scheduled time each run starts, as an ISO 8601 duration.',
  'exports[].filter':
    'Further fields of the filter, in addition to `date.gte`: at most 64 KiB of JSON, nested at most 32 levels deep, with numbers from -9007199254740991 to 9007199254740991.',
  'exports[].format': 'The format of the reports. Only XML is validated.',
  'exports[].container': 'The packaging of the reports.',
  'exports[].size': "The number of reports per page. Without it, the service's default.",
  'exports[].maxPages': 'A run with more pages fails. Without it, there is no limit.',
  'exports[].iterationsPerExecution': 'The number of iterations after which a run continues in a new execution.',
  'exports[].publishEmptyRuns':
    'Whether a run that finds no reports is published and announced. With false it only moves the watermark.',
  'exports[].expect': 'What runs should find, in the format XML in NONE. It does not apply to windows of backfills.',
  'exports[].expect.minReports':
    'A run with fewer reports fails before it is published, and the watermark does not move. The next start begins a new run.',
  'exports[].expect.reportsEvery':
    'If no completed run has had reports for so long, status says so and an alarm is raised, as an ISO 8601 duration.',
  'exports[].pagesPerInvocation': 'The maximum number of pages per invocation.',
  'exports[].maxCursorRestarts': 'How often a run starts over because the service rejected its cursor.',
  'exports[].maxInlineWait':
    'The longest Retry-After that the function itself waits for, as an ISO 8601 duration. The state machine waits for longer ones.',
  'exports[].maxRetryAfter':
    'The longest Retry-After that a run waits for, as an ISO 8601 duration of at most P30D. A longer one fails the run.',
  'exports[].maxConsecutiveWaits': 'The number of waits without a page in between. One more fails the run.',
  'exports[].schedule': 'When runs start on AWS. Without it, they are started manually.',
  'exports[].schedule.expression': 'A schedule of EventBridge Scheduler: cron(0 2 * * ? *) or rate(6 hours).',
  'exports[].schedule.timeZone': 'The IANA time zone of a cron expression, such as Europe/Berlin.',
  'exports[].schedule.flexibleWindow':
    'How much later a run may start, in whole minutes from PT1M to P1D. Without it, runs start on time.',
  'exports[].schedule.enabled': 'Whether the schedule starts runs.',
  'exports[].schedule.freshness':
    'The maximum age of the newest completed run before an alarm: from PT10M to P7D, P14D for a weekly export, or none for no alarm.',
  bucket: 'The bucket for pages and manifests.',
  'bucket.existing': 'The name of an existing bucket. Without it, one is created.',
  'bucket.prefix': 'The prefix of every key, ending with a slash. The name of the service follows.',
  'bucket.lifecycle':
    'What happens to pages and manifests as they grow old, in a bucket that the stack creates. `latest.json` is kept.',
  'bucket.lifecycle.expireAfterDays': 'After how many days they are deleted. Without it, they are kept.',
  'bucket.lifecycle.deleteNoncurrentAfterDays':
    'How many days later they can no longer be restored, because their earlier versions are deleted, too.',
  'bucket.lifecycle.transitions': 'The storage classes to which they are moved, in the order of their age.',
  'bucket.lifecycle.transitions[].storageClass':
    'Where they are moved. Objects in GLACIER and DEEP_ARCHIVE must be restored before they can be read.',
  'bucket.lifecycle.transitions[].afterDays': 'After how many days they are moved.',
  'bucket.storageClass': 'The storage class of new pages. Without it, STANDARD.',
  'bucket.objectTags': 'The tags of new pages and manifests.',
  'bucket.kmsKeyArn':
    'The ARN of the customer managed KMS key that encrypts every object, also in an existing bucket. Without it, the common `kmsKeyArn`.',
  kmsKeyArn:
    'The ARN of a customer managed KMS key for bucket, table and secrets. Without it, AWS owns or manages the keys.',
  alarms: 'Where alarms are sent, and how many there are.',
  'alarms.email': 'An address that is subscribed to the alarm topic.',
  'alarms.existingTopicArn': 'The ARN of an existing SNS topic for alarms. Without it, one is created.',
  'alarms.runbookUrl':
    'The address at which operators read docs/runbook.md. The description of each alarm contains it. Without it, they name the file in the package.',
  'alarms.perExport':
    'Whether failed and waiting runs raise an alarm per export, or a common one per service. Without it, per export for up to 20 exports of a service.',
  logRetentionDays: 'How long logs are kept, in days; 9999 for ever.',
  logLevel: 'Which lines the functions log: INFO (a line for each page) or ERROR (failures alone).',
  tracing: 'Whether functions and state machines send traces to X-Ray.',
  network: 'The VPC in which the functions of all services run. Without it, they run in none.',
  'network.vpcId': 'The ID of the VPC.',
  'network.subnetIds': 'The IDs of the subnets of the functions: private ones, with a route to the service.',
  'network.securityGroupIds':
    'The IDs of the security groups of the functions. Without it, one is created for each service.',
  'network.createEndpoints': 'The AWS services for which the stack creates an endpoint in the VPC.',
  'network.routeTableIds': 'The IDs of the route tables of the subnets, for endpoints of s3 and dynamodb.',
  'network.vpcCidrs': 'The IPv4 networks that may connect to endpoints of secretsmanager and states.',
  env: 'Where the stack is deployed. Without it, where the credentials of the deployment are valid.',
  'env.account': 'The ID of the account. With credentials for another one, the deployment is refused.',
  'env.region': 'The region.',
  tags: 'The tags of the stack, which CloudFormation adds to its resources.',
  terminationProtection: 'Whether the stack cannot be deleted until this is switched off.',
  permissionsBoundary: 'The name or the ARN of the managed policy that bounds the permissions of every role.',
};

/** What code checks, and a JSON Schema can say, too. */
const additions: Readonly<Record<string, JsonSchema>> = {
  services: { minProperties: 1, propertyNames: toJsonSchema(serviceNameSchema) },
  'exports[].filter': { type: 'object' },
};

/** The JSON Schema (draft 2020-12) of the settings file. */
export function settingsJsonSchema(): JsonSchema {
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    $id: `urn:report-exporter:${settingsSchemaName.replace('.', ':')}`,
    title: 'The settings of Report Exporter',
    description: 'Services, their exports, and what they share on AWS. docs/deployment.md explains each setting.',
    ...describe(toJsonSchema(settingsFileSchema), ''),
  };
}

function toJsonSchema(schema: z.ZodType): JsonSchema {
  // The filter is any JSON object.
  const options = { target: 'draft-2020-12', io: 'input', unrepresentable: 'any' } as const;
  const { $schema: _schema, ...rest } = z.toJSONSchema(schema, options);
  return rest;
}

/** The schema of a field, with its description and those of all fields in it. */
function describe(schema: JsonSchema, field: string): JsonSchema {
  const { format, properties, items, additionalProperties, ...rest } = schema;
  const child = (name: string) => `${field === '' ? '' : `${field}.`}${name}`;
  return {
    ...rest,
    ...additions[field],
    ...(field in descriptions ? { description: descriptions[field] } : {}),
    // Validators reject a format that they do not know. The pattern says the same.
    ...(format === undefined || schema.pattern !== undefined ? {} : { format }),
    ...(isSchema(items) ? { items: describe(items, `${field}[]`) } : {}),
    ...(isSchema(properties)
      ? {
          properties: Object.fromEntries(
            Object.entries(properties).map(([name, value]) => [name, describe(value as JsonSchema, child(name))]),
          ),
        }
      : {}),
    ...(additionalProperties === undefined
      ? {}
      : {
          additionalProperties: isSchema(additionalProperties)
            ? describe(additionalProperties, child('*'))
            : additionalProperties,
        }),
  };
}

const isSchema = (value: unknown): value is JsonSchema => typeof value === 'object' && value !== null;
