/**
 * The settings file: services, their exports, and what they share on AWS. The CDK app deploys it, and `report-exporter local`
 * runs its exports on this machine. It is parsed once: functions, template metadata and directories hold the parsed form.
 */

import * as z from 'zod/mini';
import { ExportError } from '../core/errors.ts';
import { listNames, toPrintable, truncate } from '../core/sanitize.ts';
import {
  envSchema,
  type ExportPageSettings,
  exportPageSchema,
  lifecycleSchema,
  networkSchema,
  readerAccountsSchema,
} from './account-settings.ts';
import {
  functionEnvironmentSchema,
  logLevelSchema,
  objectTagsSchema,
  compressionSchema,
  storageClassSchema,
} from './environment.ts';
import { field, fieldsOf, flag, itemsOf, optionalField, type SettingsProblem, text, variableName } from './fields.ts';
import { secretIdPattern, secretIdProblem } from './network-settings.ts';
import { type Checked, parseWithRules } from './parse-settings.ts';
import { scheduleSettingsSchema } from './schedule-settings.ts';
import {
  depthOfServicePart,
  exportSettingsSchema,
  findMismatches,
  needsSecret,
  type ServiceSettings,
  serviceSettingsSchema,
} from './settings.ts';
import type { SettingsDocument } from './settings-document.ts';
import { formatPath } from '../core/validation-errors.ts';

/** The name of the stack that the CDK app deploys, unless the settings have another. */
export const defaultStackName = 'ReportExporter';

/** CDK looks constructs up in a plain object, so a name such as `constructor` would be found there. */
const isNotReserved = z.refine<string>((name) => !(name in {}), 'is reserved by CDK');

export const exportDeploymentSchema = z.safeExtend(exportSettingsSchema, {
  name: exportSettingsSchema.shape.name.check(isNotReserved),
  schedule: optionalField('When runs start on AWS. Without it, they are started manually.', scheduleSettingsSchema),
});

const serviceNamePattern = /^[a-z][a-z0-9-]{0,29}$/;
/** The name becomes part of the keys in the table and in the bucket, and of the ids of resources and outputs. */
export const serviceNameSchema = text(
  serviceNamePattern,
  'must be 1 to 30 lower-case letters, digits and hyphens, beginning with a letter',
).check(isNotReserved);

/** The functions' own schema, without wildcards: the prefix becomes part of their permissions. */
export const keyPrefixSchema = functionEnvironmentSchema.shape.KEY_PREFIX.check(
  z.regex(/^[A-Za-z0-9!_.'()=/-]*$/, "must contain only letters, digits and !_.'()=/-"),
);

const apiKeyEnvSchema = variableName('key');
export const defaultApiKeyEnv = 'REPORT_EXPORT_API_KEY';

const kmsKeyArnSchema = text(
  /^arn:[a-z-]+:kms:[a-z0-9-]+:\d{12}:key\/[A-Za-z0-9-]+$/,
  'must be the ARN of a KMS key, not of an alias',
);
const kmsKeyExample = 'arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab';

const apiKeySecretSchema = z.strictObject({
  existing: optionalField(
    'The name of an existing secret, or its complete ARN, which ends with a hyphen and six random characters. Without it, one is created.',
    text(secretIdPattern, secretIdProblem),
    { example: 'acme/api-key' },
  ),
  field: optionalField(
    "The field of the secret's JSON with the key. Without it, the whole secret is the key.",
    z.string().check(z.minLength(1, 'must not be empty')),
    { example: 'apiKey' },
  ),
  kmsKeyArn: optionalField(
    'The ARN of the customer managed KMS key that encrypts the secret. Without it, the common `kmsKeyArn`.',
    kmsKeyArnSchema,
    { example: kmsKeyExample },
  ),
});

/** What a service has in the settings file and the client of the service does not need. */
const serviceDeploymentFields = {
  apiKeySecret: field(
    'The secret on AWS with the API key; for `api.auth`, with user and password as `user:password`, the token or the client secret. With `none`, there is no secret.',
    z._default(apiKeySecretSchema, {}),
  ),
  apiKeyEnv: field(
    'The environment variable with the API key, or what else `apiKeySecret` holds, for runs on this machine. Never the key itself. Services of different vendors must each name theirs.',
    z._default(apiKeyEnvSchema, defaultApiKeyEnv),
    { example: 'ACME_API_KEY' },
  ),
  exportPage: optionalField('The function that requests pages.', exportPageSchema),
  readerAccounts: optionalField(
    'The IDs of the accounts that may read what the service exported, from the bucket that the stack creates.',
    readerAccountsSchema,
    { example: ['111122223333'], page: 'consumers.md#other-accounts' },
  ),
};
const serviceEntrySchema = field(
  'The address and the limits of a service.',
  z.extend(serviceSettingsSchema, serviceDeploymentFields),
);
const exportEntrySchema = field(
  'What to export, from where, and when.',
  z.safeExtend(exportDeploymentSchema, {
    service: optionalField('The name of its service. Without it, the only service.', z.string(), { example: 'acme' }),
  }),
);

/** The numbers of days that CloudWatch Logs accepts; 9999 stands for never. */
export const retentionDays = [
  1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653, 9999,
] as const;

const orWrongType =
  (message: string) =>
  ({ code }: { readonly code: string }) =>
    code === 'invalid_type' ? message : undefined;

const servicesSchema = z
  .record(z.string(), serviceEntrySchema, {
    error: orWrongType('must be an object that maps the name of each service to its settings'),
  })
  .check(
    z.refine((services) => Object.keys(services).length > 0, 'must have at least one service'),
    // What the check says, and `findConflicts` of the names.
    z.meta({ minProperties: 1, propertyNames: { type: 'string', pattern: serviceNamePattern.source } }),
  );

const bucketSchema = z.strictObject({
  existing: optionalField(
    'The name of an existing bucket. Without it, one is created.',
    text(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'must be the name of a bucket'),
    { example: 'acme-reports', page: 'bucket.md#an-existing-bucket' },
  ),
  prefix: field(
    'The prefix of every key, ending with a slash. The name of the service follows: `<prefix><service>/`.',
    z._default(keyPrefixSchema, ''),
    { example: 'exports/' },
  ),
  lifecycle: optionalField(
    'What happens to pages and manifests as they grow old, in a bucket that the stack creates. `latest.json` is kept.',
    lifecycleSchema,
    { page: 'bucket.md#age-of-pages' },
  ),
  storageClass: optionalField('The storage class of new pages. Without it, `STANDARD`.', storageClassSchema),
  compression: optionalField(
    'How pages are compressed in the bucket, from the next run of each export on: `gzip` stores each page as a gzip file of its own, `page-000001.xml.gz`. Without it, pages are stored as the service sends them.',
    compressionSchema,
    { page: 'consumers.md#compressed-pages' },
  ),
  objectTags: optionalField('The tags of new pages and manifests, at most 10.', objectTagsSchema, {
    example: { team: 'finance' },
  }),
  kmsKeyArn: optionalField(
    'The ARN of the customer managed KMS key that encrypts every object, also in an existing bucket. Without it, the common `kmsKeyArn`.',
    kmsKeyArnSchema,
    { example: kmsKeyExample },
  ),
});

const alarmsSchema = z
  .strictObject({
    email: optionalField('An address that is subscribed to the alarm topic.', z.email('must be an email address'), {
      example: 'operators@example.com',
      page: 'alarms.md#alarms-that-arrive',
    }),
    existingTopicArn: optionalField(
      'The ARN of an existing SNS topic for alarms. Without it, one is created.',
      text(/^arn:[a-z-]+:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]+$/, 'must be the ARN of an SNS topic'),
      { example: 'arn:aws:sns:eu-central-1:111122223333:alarms' },
    ),
    runbookUrl: optionalField(
      'The address at which operators read the runbook, docs/runbook.md. The description of each alarm has it, with the anchor of its section. Without it, the path of the runbook in the package.',
      text(
        /^https?:\/\/[^\s#]{1,190}$/,
        'must be an http or https address of at most 190 characters without a #, to which alarms add one',
      ),
      { example: 'https://wiki.example.com/report-exporter' },
    ),
    perExport: optionalField(
      'Whether failed and waiting runs raise an alarm per export, besides the one per service on failed executions, or only common ones. Without it, `true` for up to 20 exports of a service.',
      flag(),
      { page: 'many-exports.md#limits' },
    ),
  })
  .check(
    z.refine(({ email, existingTopicArn }) => email === undefined || existingTopicArn === undefined, {
      path: ['email'],
      error: 'must not be set with existingTopicArn: subscribe the address to that topic yourself',
    }),
  );

export const settingsFileSchema = z.strictObject(
  {
    $schema: optionalField('The address or path of this schema, for editors.', z.string()),
    stackName: optionalField(
      'The name of the CloudFormation stack. The prop `stackName` of a CDK app takes precedence. Without it, `ReportExporter`, or the ID of the stack in a CDK app.',
      text(/^[A-Za-z][A-Za-z0-9-]{0,127}$/, 'must be letters, digits and hyphens, beginning with a letter'),
      { example: 'ReportExporter-prod' },
    ),
    services: field(
      'The services by name: 1 to 30 lower-case letters, digits and hyphens. The name is part of the keys in the bucket and the table, so it cannot be changed later without losing the state of the exports.',
      servicesSchema,
    ),
    exports: field(
      'The exports of all services.',
      z.array(exportEntrySchema, 'must be a list of exports').check(z.minLength(1, 'must have at least one export')),
    ),
    bucket: field('The bucket for pages and manifests.', z.prefault(bucketSchema, {})),
    kmsKeyArn: optionalField(
      'The ARN of a customer managed KMS key for bucket, table, secrets and dead-letter queues. Without it, AWS owns or manages the keys.',
      kmsKeyArnSchema,
      { example: kmsKeyExample },
    ),
    encryptLogs: optionalField(
      'Whether `kmsKeyArn` also encrypts the log groups. The policy of the key must let CloudWatch Logs use it. Without it, it does not, and `cdk synth` warns.',
      z.boolean('must be true or false'),
      { example: true, page: 'security.md#encryption-of-logs' },
    ),
    alarms: field('Where alarms are sent, and how many there are.', z._default(alarmsSchema, {})),
    logRetentionDays: field(
      'How long every log group keeps its logs; 9999 for ever.',
      z._default(z.literal([...retentionDays], `must be one of ${retentionDays.join(', ')} (9999: never expire)`), 90),
      { unit: 'days' },
    ),
    logLevel: optionalField(
      'Which lines the functions log: INFO (a line for each page) or ERROR (failures alone). Metrics and alarms are the same. Without it, `INFO`.',
      logLevelSchema,
    ),
    tracing: optionalField('Whether functions and state machines send traces to X-Ray. Without it, `true`.', flag()),
    network: optionalField(
      'The VPC in which the functions of all services run. Without it, they run in none.',
      networkSchema,
      { page: 'network.md#a-vpc' },
    ),
    env: optionalField(
      'Where the stack is deployed. Without it, where the credentials of the deployment are valid.',
      envSchema,
    ),
    terminationProtection: optionalField(
      'Whether the stack cannot be deleted until this is switched off. Without it, `false`.',
      flag(),
    ),
  },
  { error: orWrongType('must be an object with the settings of the deployment') },
);
type ParsedFile = z.infer<typeof settingsFileSchema>;
type ParsedService = ParsedFile['services'][string];
type ParsedExport = ParsedFile['exports'][number];
export type ExportDeploymentSettings = z.infer<typeof exportDeploymentSchema>;

export interface ServiceDeploymentSettings {
  readonly name: string;
  /** The prefix of every key of the service in the bucket. */
  readonly prefix: string;
  readonly service: ServiceSettings;
  readonly apiKeySecret: z.infer<typeof apiKeySecretSchema>;
  /** The environment variable with the API key, for runs on this machine. */
  readonly apiKeyEnv: string;
  readonly exportPage?: ExportPageSettings;
  readonly readerAccounts?: readonly string[];
  readonly exports: readonly ExportDeploymentSettings[];
}

/** A parsed settings file, with its exports assigned to their services. Durations are in milliseconds. */
export interface DeploymentSettings extends Omit<ParsedFile, '$schema' | 'services' | 'exports'> {
  readonly services: readonly ServiceDeploymentSettings[];
}

/** What the schema accepts of a file. */
interface ValidFile extends Partial<Omit<ParsedFile, 'services' | 'exports'>> {
  readonly services?: Readonly<Record<string, Partial<ParsedService> | undefined>>;
  readonly exports?: readonly (Partial<ParsedExport> | undefined)[];
}

/** What a service and its exports are for further rules. */
export interface ValidService {
  readonly service: Partial<ServiceSettings>;
  readonly exports: readonly Partial<ExportDeploymentSettings>[];
  readonly exportPage?: ExportPageSettings;
}
type FindMore = (service: ValidService) => readonly SettingsProblem[];

/**
 * The settings in `document`. `findMore` finds problems of a service beyond those of the schema, such as limits of AWS, by the paths of
 * its argument.
 * @throws ConfigurationError with a line for every problem
 */
export function parseDeployment(
  { value, describe }: SettingsDocument,
  findMore: FindMore = () => [],
): DeploymentSettings {
  const { data, issues } = parseWithRules(settingsFileSchema, value, depthOfPart, (valid: ValidFile) =>
    findProblems(valid, fieldsOf(value), findMore),
  );
  if (data === undefined) throw new ExportError('ConfigurationError', describe(issues).join('\n'));
  const { $schema: _schema, services, exports, ...shared } = data;
  const assigned = assignExports(exports, Object.keys(services));
  return {
    ...shared,
    services: Object.entries(services).map(([name, entry]) => {
      const { apiKeySecret, apiKeyEnv, exportPage, readerAccounts, ...service } = entry;
      const own = exports.filter((_, index) => assigned[index] === name);
      return {
        name,
        prefix: `${shared.bucket.prefix}${name}/`,
        service,
        apiKeySecret,
        apiKeyEnv,
        exportPage,
        readerAccounts,
        exports: own.map(({ service: _service, ...settings }) => settings),
      };
    }),
  };
}

function depthOfPart([name = '', , ...inService]: readonly PropertyKey[]): number {
  if (name === 'services') return 2 + depthOfServicePart(inService);
  return name === 'exports' ? 3 : ['bucket', 'alarms'].includes(String(name)) ? 2 : 1;
}

/** The name of each export's service; undefined if there is no such service. */
function assignExports(
  exports: readonly ({ readonly service?: string } | undefined)[],
  serviceNames: readonly string[],
): readonly (string | undefined)[] {
  const [only] = serviceNames.length === 1 ? serviceNames : [];
  return exports.map((each) => {
    const name = each?.service ?? only;
    return name !== undefined && serviceNames.includes(name) ? name : undefined;
  });
}

/** What no single field shows: names that collide, and settings that do not belong together. */
function findProblems(
  valid: ValidFile,
  written: Readonly<Record<string, unknown>>,
  findMore: FindMore,
): SettingsProblem[] {
  const { exports = [] } = valid;
  const writtenServices = fieldsOf(written.services);
  // Also a name that the parsed record lacks, such as __proto__.
  const services = Object.keys(writtenServices).map((name) => ({
    name,
    valid: (Object.hasOwn(valid.services ?? {}, name) ? valid.services?.[name] : undefined) ?? {},
    written: writtenServices[name],
  }));
  const serviceNames = services.map(({ name }) => name);
  const assigned = assignExports(exports, serviceNames);
  return [
    ...serviceNames.flatMap((name) =>
      (serviceNameSchema.safeParse(name).error?.issues ?? []).map(({ message }) => ({
        path: ['services', name],
        message: `the name ${message}`,
      })),
    ),
    ...findMissingLinks(exports, assigned, serviceNames),
    ...findNameCollisions(serviceNames.map((name) => ({ name, path: ['services', name] }))),
    ...findNameCollisions(exports.map((each, index) => ({ name: each?.name, path: ['exports', index, 'name'] }))),
    ...findBucketConflicts(fieldsOf(written.bucket), services),
    ...findSharedVariables(services),
    ...findElsewhere(valid),
    ...services.flatMap(({ name, valid: service, written: writtenService }) => {
      const indexes = [...exports.keys()].filter((index) => assigned[index] === name);
      const own = indexes.map((index) => ({
        valid: exports[index] ?? {},
        written: itemsOf(written.exports)[index],
      }));
      const problems = [
        ...findMismatches({ valid: service, written: writtenService }, own),
        ...findMore({ service, exports: own.map((each) => each.valid), exportPage: service.exportPage }),
      ];
      return problems.map(({ path: [root = '', index, ...rest], message }) => {
        if (root === 'exports') return { path: ['exports', indexes[Number(index)] ?? 0, ...rest], message };
        const inService = index === undefined ? [] : [index, ...rest];
        return { path: ['services', name, ...(root === 'service' ? [] : [root]), ...inService], message };
      });
    }),
  ];
}

/** The rules below see a service as it is valid, and as it was written. */
interface CheckedService extends Checked<ParsedService> {
  readonly name: string;
}

/** The stack cannot change a bucket that it does not create. */
function findBucketConflicts(
  { existing, lifecycle }: Readonly<Record<string, unknown>>,
  services: readonly CheckedService[],
): SettingsProblem[] {
  if (existing === undefined) return [];
  const ofLifecycle =
    'must not be set with bucket.existing: the stack cannot change a bucket that it does not create, so add the ' +
    'rules to it yourself (docs/bucket.md, "Age of pages")';
  const ofReaders =
    'must not be set with bucket.existing: the stack cannot change the policy of a bucket that it does not create, ' +
    'so add the statements to it yourself (docs/consumers.md, "Other accounts")';
  const withReaders = services.filter(({ written }) => fieldsOf(written).readerAccounts !== undefined);
  return [
    ...(lifecycle === undefined ? [] : [{ path: ['bucket', 'lifecycle'], message: ofLifecycle }]),
    ...withReaders.map(({ name }) => ({ path: ['services', name, 'readerAccounts'], message: ofReaders })),
  ];
}

/** Services whose key would be sent to two vendors, as both use the default variable. On AWS, each has a secret of its own. */
function findSharedVariables(all: readonly CheckedService[]): SettingsProblem[] {
  const services = all.flatMap(({ name, valid: { apiKeyEnv, baseUrl }, written }) => {
    const { kind, tokenUrl } = fieldsOf(fieldsOf(fieldsOf(written).api).auth);
    const address = kind === 'oauth2' ? tokenUrl : baseUrl;
    if (apiKeyEnv !== defaultApiKeyEnv || !needsSecret(written) || typeof address !== 'string') return [];
    if (!URL.canParse(address)) return [];
    const isNamed = fieldsOf(written).apiKeyEnv !== undefined;
    return [{ path: ['services', name], isNamed, origin: new URL(address).origin }];
  });
  return services.flatMap(({ path, isNamed, origin }, index) => {
    if (isNamed) return [];
    // Of two that are not named, the later one is the problem.
    const other = services.find((each, at) => each.origin !== origin && (each.isNamed || at < index));
    if (other === undefined) return [];
    const message =
      `is required: without it, the key of ${formatPath(other.path)} for ${truncate(other.origin, 100)}, in ${defaultApiKeyEnv}, ` +
      `would also be sent to ${truncate(origin, 100)}. Name a variable for each service, or the same one for both`;
    return [{ path: [...path, 'apiKeyEnv'], message }];
  });
}

/** Resources in another region than the stack. Accounts may share keys, secrets and topics. */
function findElsewhere({ services = {}, bucket, kmsKeyArn, alarms, env }: ValidFile): SettingsProblem[] {
  const region = env?.region;
  if (region === undefined) return [];
  const regional: readonly (readonly [SettingsProblem['path'], string | undefined])[] = [
    [['kmsKeyArn'], kmsKeyArn],
    [['alarms', 'existingTopicArn'], alarms?.existingTopicArn],
    [['bucket', 'kmsKeyArn'], bucket?.kmsKeyArn],
    ...Object.entries(services).flatMap(([name, { apiKeySecret, tls, proxyCredentialsSecret } = {}]) => {
      const path = ['services', name];
      return [
        [[...path, 'apiKeySecret', 'existing'], apiKeySecret?.existing],
        [[...path, 'apiKeySecret', 'kmsKeyArn'], apiKeySecret?.kmsKeyArn],
        [[...path, 'tls', 'clientCertificateSecret'], tls?.clientCertificateSecret],
        [[...path, 'proxyCredentialsSecret'], proxyCredentialsSecret],
      ] as const;
    }),
  ];
  return regional.flatMap(([path, arn = '']) => {
    const [, , , other = ''] = arn.split(':');
    if (other === '' || other === region) return [];
    return [{ path, message: `is in another region than the stack, for which env.region is ${region}` }];
  });
}

function findMissingLinks(
  exports: readonly (Partial<ParsedExport> | undefined)[],
  assigned: readonly (string | undefined)[],
  serviceNames: readonly string[],
): SettingsProblem[] {
  if (serviceNames.length === 0) return [];
  const unassigned = exports.flatMap((each, index) => {
    if (assigned[index] !== undefined) return [];
    const known = `: ${listNames(serviceNames.map((name) => truncate(toPrintable(name), 40)))}`;
    const message =
      each?.service === undefined
        ? `must name one of the services${known}`
        : `there is no such service. The services${known}`;
    return [{ path: ['exports', index, 'service'], message }];
  });
  // A service may only seem to have no export while the service of another one is unknown.
  if (exports.length === 0 || unassigned.length > 0) return unassigned;
  return serviceNames
    .filter((name) => !assigned.includes(name))
    .map((name) => ({ path: ['services', name], message: 'has no export: add one, or remove the service' }));
}

/** The names that are too similar to an earlier one. */
export function findNameCollisions(
  names: readonly { readonly name: string | undefined; readonly path: SettingsProblem['path'] }[],
): SettingsProblem[] {
  return findSimilarNames(names.map(({ name }) => name)).flatMap((earlier, index) => {
    const [first, second] = [names[earlier ?? -1], names[index]];
    if (first?.name === undefined || second?.name === undefined) return [];
    const other = formatPath(first.path);
    const message =
      first.name === second.name
        ? `is the same as ${other}: names must be unique`
        : `is too similar to ${other}: names must differ in more than case, hyphens and underscores`;
    return [{ path: second.path, message }];
  });
}

/** CloudFormation ids have no hyphens or underscores, and names that differ only in case are easily confused. */
const normalizeName = (name: string) => name.replaceAll(/[-_]/g, '').toLowerCase();

/** For each name, the index of an earlier one that is too similar to it; undefined if there is none. */
export function findSimilarNames(names: readonly (string | undefined)[]): readonly (number | undefined)[] {
  const first = new Map<string, number>();
  return names.map((name, index) => {
    if (name === undefined) return undefined;
    const normalized = normalizeName(name);
    const earlier = first.get(normalized);
    if (earlier === undefined) first.set(normalized, index);
    return earlier;
  });
}
