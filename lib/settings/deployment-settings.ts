/**
 * The settings file: services, their exports, and what they share on AWS. The CDK app deploys it, and `report-exporter
 * local` runs its exports on this machine. It is parsed once: functions, template metadata and directories hold the
 * parsed form.
 */

import * as z from 'zod/mini';
import { ExportError } from '../core/errors.ts';
import { listNames, toPrintable, truncate } from '../core/sanitize.ts';
import { formatPath } from '../core/validation-errors.ts';
import {
  field,
  fieldsOf,
  findBroken,
  object,
  optionalField,
  type Rule,
  type SettingsProblem,
  text,
  within,
} from '../core/schema/fields.ts';
import { parseAll, type Issue } from '../core/schema/parse.ts';
import { type Auth, needsSecret, renewsSecret, tokenUrlOf } from '../service/api/auth/kinds.ts';
import { authOfReportExport } from '../service/api/report-export-service.ts';
import { describeExport } from './export-apis.ts';
import { hasSince } from '../service/api/description.ts';
import { findParentProblems } from './parents.ts';
import {
  defaultApiKeyEnv,
  type ExportSettings,
  exportSettingsSchema,
  findExportProblems,
  findHeaderProblems,
  findServiceProblems,
  type GivenExport,
  type GivenService,
  isNotReserved,
  type ServiceSettings,
  serviceSettingsSchema,
} from './settings.ts';
import type { SettingsDocument } from './settings-document.ts';

const serviceNamePattern = /^[a-z][a-z0-9-]{0,29}$/;
/** The name becomes part of the keys in the table and in the bucket, and of the ids of resources and outputs. */
const serviceNameSchema = text(
  serviceNamePattern,
  'must be 1 to 30 lower-case letters, digits and hyphens, beginning with a letter',
).check(isNotReserved);

const kmsKeyArnSchema = text(
  /^arn:[a-z-]+:kms:[a-z0-9-]+:\d{12}:key\/[A-Za-z0-9-]+$/,
  'must be the ARN of a KMS key, not of an alias',
);
const kmsKeyExample = 'arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab';

/** The numbers of days that CloudWatch Logs accepts; 9999 stands for never. */
export const retentionDays = [
  1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653, 9999,
] as const;

const exportSchema = field('What to export, from where, and when.', exportSettingsSchema);

const orWrongType =
  (message: string) =>
  ({ code }: { readonly code: string }) =>
    code === 'invalid_type' ? message : undefined;

const servicesSchema = z
  .record(z.string(), field('The address and the limits of a service.', serviceSettingsSchema), {
    error: orWrongType('must be an object that maps the name of each service to its settings'),
  })
  .check(
    z.refine((services) => Object.keys(services).length > 0, 'must have at least one service'),
    // What the check says, and `findProblems` of the names.
    z.meta({ minProperties: 1, propertyNames: { type: 'string', pattern: serviceNamePattern.source } }),
  );

const bucketSchema = object({
  existing: optionalField(
    'The name of an existing bucket. Without it, one is created.',
    text(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'must be the name of a bucket'),
    { example: 'acme-reports', page: 'aws.md#an-existing-bucket' },
  ),
  prefix: field(
    'The prefix of every key, ending with a slash. The name of the service follows: `<prefix><service>/`.',
    // It becomes part of permissions, so it has no wildcards.
    z._default(
      text(
        /^([A-Za-z0-9!_.'()=-][A-Za-z0-9!_.'()=/-]*\/)?$/,
        "must end with a slash, not begin with one, and have only letters, digits and !_.'()=/-",
      ),
      '',
    ),
    { example: 'exports/' },
  ),
  compression: optionalField(
    'How the pages of new runs are compressed: each is a gzip file. Without it, they are stored as they are.',
    z.enum(['gzip'], 'must be gzip; leave it out to store pages as the service sends them'),
    { page: 'consumers.md#compressed-pages' },
  ),
  kmsKeyArn: optionalField(
    'The customer managed KMS key that encrypts every object. Without it, the common `kmsKeyArn`.',
    kmsKeyArnSchema,
    { example: kmsKeyExample },
  ),
});

const alarmsSchema = object({
  email: optionalField('An address that is subscribed to the alarm topic.', z.email('must be an email address'), {
    example: 'operators@example.com',
    page: 'aws.md#alarms-that-arrive',
  }),
  existingTopicArn: optionalField(
    'The ARN of an existing SNS topic for alarms. Without it, one is created.',
    text(/^arn:[a-z-]+:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]+$/, 'must be the ARN of an SNS topic'),
    { example: 'arn:aws:sns:eu-central-1:111122223333:alarms' },
  ),
  runbookUrl: optionalField(
    'The address of docs/runbook.md, for the descriptions of alarms. Without it, its path in the package.',
    text(/^https?:\/\/[^\s#]{1,190}$/, 'must be an http or https address of at most 190 characters without a #'),
    { example: 'https://wiki.example.com/report-exporter' },
  ),
}).check(
  z.refine(({ email, existingTopicArn }) => email === undefined || existingTopicArn === undefined, {
    path: ['email'],
    error: 'must not be set with existingTopicArn: subscribe the address to that topic yourself',
  }),
);

/** A list of 1 to `max` different ids, such as `subnet-0abc1234`. */
const idsOf = (prefix: string, max: number) =>
  z.array(idOf(prefix)).check(
    z.minLength(1, 'must have at least one'),
    z.maxLength(max, `must have at most ${max}`),
    z.refine((ids) => new Set(ids).size === ids.length, 'must not have a value twice'),
  );
const idOf = (prefix: string) =>
  text(new RegExp(`^${prefix}-[0-9a-f]{8,17}$`), `must be an ID such as ${prefix}-0abc1234`);

/** With Lambda's own limits. */
const networkSchema = object({
  vpcId: field('The ID of the VPC.', idOf('vpc'), { example: 'vpc-0abc1234' }),
  subnetIds: field('Private subnets with a route to the service.', idsOf('subnet', 16), {
    example: ['subnet-0abc1234'],
  }),
  securityGroupIds: optionalField(
    'The security groups of the functions. Without it, one is created for each service.',
    idsOf('sg', 5),
    { example: ['sg-0abc1234'] },
  ),
});
export type VpcSettings = z.infer<typeof networkSchema>;

export const settingsFileSchema = object(
  {
    $schema: optionalField('The address or path of this schema, for editors.', z.string()),
    stackName: optionalField(
      'The name of the CloudFormation stack. Without it, `ReportExporter`, or the ID of the stack in a CDK app.',
      text(/^[A-Za-z][A-Za-z0-9-]{0,127}$/, 'must be letters, digits and hyphens, beginning with a letter'),
      { example: 'ReportExporter-prod' },
    ),
    services: field('The services by name: 1 to 30 lower-case letters, digits and hyphens.', servicesSchema),
    exports: field(
      'The exports of all services.',
      z.array(exportSchema, 'must be a list of exports').check(z.minLength(1, 'must have at least one export')),
    ),
    bucket: field('The bucket for pages and manifests.', z.prefault(bucketSchema, {})),
    kmsKeyArn: optionalField(
      'The customer managed KMS key of bucket, table, secrets and dead-letter queues. Without it, AWS owns or manages the keys.',
      kmsKeyArnSchema,
      { example: kmsKeyExample },
    ),
    alarms: field('Where alarms are sent.', z._default(alarmsSchema, {})),
    logRetentionDays: field(
      'How long log groups keep their logs: a period of CloudWatch Logs; 9999 for ever.',
      z._default(z.literal([...retentionDays], `must be one of ${retentionDays.join(', ')} (9999: never expire)`), 90),
      { unit: 'days' },
    ),
    network: optionalField('The VPC of all functions. Without it, they run in none.', networkSchema, {
      page: 'aws.md#a-vpc',
    }),
  },
  { error: orWrongType('must be an object with the settings of the deployment') },
);
type ParsedFile = z.infer<typeof settingsFileSchema>;

export interface ServiceDeploymentSettings {
  readonly name: string;
  /** The prefix of every key of the service in the bucket. */
  readonly prefix: string;
  readonly service: ServiceSettings;
  readonly exports: readonly ExportSettings[];
}

/** A parsed settings file, with its exports assigned to their services. Durations are in milliseconds. */
export interface DeploymentSettings extends Omit<ParsedFile, '$schema' | 'services' | 'exports'> {
  readonly services: readonly ServiceDeploymentSettings[];
}
export type BucketSettings = DeploymentSettings['bucket'];

/** What else is wrong with the service at `path` and its exports, by their indexes, such as limits of AWS. */
export type FindMore = (
  path: SettingsProblem['path'],
  service: ServiceSettings,
  exports: readonly (readonly [index: number, settings: ExportSettings])[],
) => readonly SettingsProblem[];

/**
 * Parses the file in two phases: by its schema, and then, if that finds nothing, by the rules that concern several
 * fields.
 * @throws ConfigurationError with a line for every problem of the first phase that has any
 */
export function parseDeployment(
  { value, describe }: SettingsDocument,
  findMore: FindMore = () => [],
): DeploymentSettings {
  const { data, issues } = parseAll(settingsFileSchema, value);
  if (data === undefined) throw invalidSettings(describe(issues));
  const { $schema: _schema, services: given, exports, ...shared } = data;
  // Also a name that the parsed record lacks, such as __proto__.
  const serviceNames = Object.keys(fieldsOf(fieldsOf(value).services));
  const assigned = assignExports(exports, serviceNames);
  const links = findLinkProblems(given, exports, serviceNames);
  const known = serviceNames.filter((name) => Object.hasOwn(given, name));
  const all = known.map((name) => {
    const own = [...exports.entries()].filter(([index]) => assigned[index] === name);
    return completeService([name, given[name] as GivenService], own, findMore);
  });
  const problems = [...links.map(toIssue), ...all.flatMap((each) => each.issues)];
  if (problems.length > 0) throw invalidSettings(describe(withoutRepetitions(problems)));
  const shownServices = all.map(({ name, service, exports: own }) => ({
    name,
    prefix: `${shared.bucket.prefix}${name}/`,
    service,
    exports: own.map(([, settings]) => settings),
  }));
  return { ...shared, services: shownServices };
}

const invalidSettings = (lines: readonly string[]) => new ExportError('ConfigurationError', lines.join('\n'));

const toIssue = ({ path, message }: SettingsProblem): Issue => ({
  code: 'custom',
  path: [...path],
  message,
  input: undefined,
});

/** Exports that share a mistake of their service have it once. */
const withoutRepetitions = (issues: readonly Issue[]): readonly Issue[] => [
  ...new Map(issues.map((issue) => [JSON.stringify([issue.path, issue.message]), issue])).values(),
];

const authOf = (service: GivenService): Auth => service.api?.auth ?? authOfReportExport(service);

/** The service and its exports with their descriptions, and what is wrong with them. */
function completeService(
  [name, given]: readonly [name: string, service: GivenService],
  own: readonly (readonly [index: number, settings: GivenExport])[],
  findMore: FindMore,
) {
  const path = ['services', name];
  const { api: _api, ...rest } = given;
  const service: ServiceSettings = { ...rest, auth: authOf(given) };
  const issues = within(path, findServiceProblems(given, service.auth)).map(toIssue);
  const exports = own.flatMap(([index, each]): (readonly [number, ExportSettings])[] => {
    const { api, issues: ofApi, placeOf: place } = describeExport([name, given], [index, each]);
    issues.push(...ofApi);
    if (api === undefined) return [];
    issues.push(...findHeaderProblems(given, api).map((problem) => toIssue({ ...problem, path: place(problem.path) })));
    issues.push(...within(['exports', index], findExportProblems(given, each, api)).map(toIssue));
    const { service: _service, ...settings } = each;
    return [[index, { ...settings, api }]];
  });
  if (exports.length === own.length) {
    const all = exports.map(([, settings]) => settings);
    const ofParents = exports.flatMap(([index, each]) => within(['exports', index], findParentProblems(each, all)));
    issues.push(...ofParents.map(toIssue));
    issues.push(...findMore(path, service, exports).map(toIssue));
  }
  return { name, service, exports: exports.map((each) => withListedParents(each, exports)), issues };
}

/** Adds to an export whose parents are reports of another one what it needs of that. */
function withListedParents(
  [index, settings]: readonly [number, ExportSettings],
  own: readonly (readonly [number, ExportSettings])[],
): readonly [number, ExportSettings] {
  const { parents } = settings;
  const parent = own.find(([, { name }]) => name === parents?.export)?.[1];
  if (parents === undefined || parent === undefined) return [index, settings];
  const { api } = parent;
  return [index, { ...settings, parents: { ...parents, listed: { page: api.page, areChanges: hasSince(api) } } }];
}

/** The name of each export's service; undefined if there is no such service. */
function assignExports(
  exports: readonly Pick<GivenExport, 'service'>[],
  serviceNames: readonly string[],
): readonly (string | undefined)[] {
  const [only] = serviceNames.length === 1 ? serviceNames : [];
  return exports.map((each) => {
    const name = each.service ?? only;
    return name !== undefined && serviceNames.includes(name) ? name : undefined;
  });
}

/** What no single service or export shows: names that collide, and secrets that are shared. */
function findLinkProblems(
  services: Readonly<Record<string, GivenService>>,
  exports: readonly GivenExport[],
  serviceNames: readonly string[],
): SettingsProblem[] {
  const assigned = assignExports(exports, serviceNames);
  const known = serviceNames.filter((name) => Object.hasOwn(services, name));
  const serviceOf = (name: string) => services[name] as GivenService;
  return [
    ...serviceNames.flatMap((name) =>
      (serviceNameSchema.safeParse(name).error?.issues ?? []).map(({ message }) => ({
        path: ['services', name],
        message: `the name ${message}`,
      })),
    ),
    ...findMissingLinks(exports, assigned, serviceNames),
    ...findNameCollisions(serviceNames, (index) => ['services', serviceNames[index] ?? '']),
    ...findNameCollisions(
      exports.map((each) => each.name),
      (index) => ['exports', index, 'name'],
    ),
    ...findSharedVariables(known.map((name) => [name, serviceOf(name)])),
    ...findBroken(
      known.map((name, index) => {
        const secretOf = (each: string) => serviceOf(each).apiKeySecret?.existing;
        const isShared = known.slice(0, index).some((other) => secretOf(other) === secretOf(name));
        const message = 'is already used by another service: two services cannot share a refresh token';
        const isBroken = isShared && secretOf(name) !== undefined && renewsSecret({ auth: authOf(serviceOf(name)) });
        return [['services', name, 'apiKeySecret', 'existing'], isBroken, message];
      }),
    ),
  ];
}

/**
 * Services of two vendors that use the default variable, whose key would be sent to both. On AWS, each has a secret.
 */
function findSharedVariables(all: readonly (readonly [name: string, service: GivenService])[]): SettingsProblem[] {
  const services = all.flatMap(([name, service]) => {
    const auth = authOf(service);
    const { apiKeyEnv, baseUrl } = service;
    const { origin } = new URL(tokenUrlOf(auth) ?? baseUrl);
    const isNamed = apiKeyEnv === defaultApiKeyEnv;
    if ((apiKeyEnv !== undefined && !isNamed) || !needsSecret({ auth })) return [];
    return [{ path: ['services', name], isNamed, origin }];
  });
  return services.flatMap(({ path, isNamed, origin }, index) => {
    if (isNamed) return [];
    // If two are not named, the later one is the problem.
    const other = services.find((each, at) => each.origin !== origin && (each.isNamed || at < index));
    if (other === undefined) return [];
    const message =
      `is required: without it, the key of ${formatPath(other.path)} for ${truncate(other.origin, 100)}, in ${defaultApiKeyEnv}, ` +
      `would also be sent to ${truncate(origin, 100)}. Name a variable for each service, or the same one for both`;
    return [{ path: [...path, 'apiKeyEnv'], message }];
  });
}

/** Exports without a service, and services without an export. */
function findMissingLinks(
  exports: readonly GivenExport[],
  assigned: readonly (string | undefined)[],
  serviceNames: readonly string[],
): SettingsProblem[] {
  if (serviceNames.length === 0) return [];
  const known = listNames(serviceNames.map((name) => truncate(toPrintable(name), 40)));
  const unassigned = exports.map((each, index): Rule => {
    const problem =
      each.service === undefined ? 'must name one of the services' : 'there is no such service. The services';
    return [['exports', index, 'service'], assigned[index] === undefined, `${problem}: ${known}`];
  });
  // A service may only seem to have no export while the service of another one is unknown.
  const isComplete = exports.length > 0 && !assigned.includes(undefined);
  const unused = serviceNames.map((name): Rule => {
    const isUnused = isComplete && !assigned.includes(name);
    return [['services', name], isUnused, 'has no export: add one, or remove the service'];
  });
  return findBroken([...unassigned, ...unused]);
}

/** The names that are too similar to an earlier one. */
function findNameCollisions(
  names: readonly (string | undefined)[],
  pathOf: (index: number) => SettingsProblem['path'],
): SettingsProblem[] {
  return findSimilarNames(names).flatMap((earlier, index) => {
    if (earlier === undefined) return [];
    const other = formatPath(pathOf(earlier));
    const message =
      names[earlier] === names[index]
        ? `is the same as ${other}: names must be unique`
        : `is too similar to ${other}: names must differ in more than case, hyphens and underscores`;
    return [{ path: pathOf(index), message }];
  });
}

/** CloudFormation ids have no hyphens or underscores, and names that differ only in case are easily confused. */
const normalizeName = (name: string) => name.replaceAll(/[-_]/g, '').toLowerCase();

/** For each name, the index of an earlier one that is too similar to it; undefined if there is none. */
export function findSimilarNames(names: readonly (string | undefined)[]): readonly (number | undefined)[] {
  const normalized = names.map((name) => name && normalizeName(name));
  return normalized.map((name, index) => {
    const first = normalized.indexOf(name);
    return name === undefined || first === index ? undefined : first;
  });
}
