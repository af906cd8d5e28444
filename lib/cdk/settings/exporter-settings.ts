/** Validates the settings that a ReportExporter is given by any CDK app. Those of a settings file have been validated before. */

import { Token } from 'aws-cdk-lib';
import * as z from 'zod/mini';
import { ExportError } from '../../core/errors.ts';
import {
  type CombinationProblem,
  exportPageSchema,
  type ExportPageSettings,
  findConcurrencyProblems,
  findLifecycleProblems,
  type LifecycleSettings,
  lifecycleSchema,
  readerAccountsSchema,
} from '../../settings/account-settings.ts';
import {
  type ExportDeploymentSettings,
  exportDeploymentSchema,
  describeSimilarity,
  findSimilarNames,
  keyPrefixSchema,
  type ServiceInput,
  serviceNameSchema,
} from '../../settings/deployment-settings.ts';
import {
  type LogLevel,
  logLevelSchema,
  objectTagsSchema,
  type StorageClass,
  storageClassSchema,
} from '../../settings/environment.ts';
import { parseSettings, serviceSettingsSchema } from '../../settings/settings.ts';
import { formatPath } from '../../core/validation-errors.ts';
import { findLimitProblems } from '../function-limits.ts';
import { findNetworkProblems } from './service-network.ts';

const exporterSettingsSchema = z.strictObject({
  name: serviceNameSchema,
  prefix: keyPrefixSchema,
  service: serviceSettingsSchema,
  exports: z
    .array(exportDeploymentSchema, {
      error: ({ input }) => (input === undefined ? 'is required' : 'must be a list of exports'),
    })
    .check(z.minLength(1, 'must have at least one export')),
  exportPage: z.optional(exportPageSchema),
  lifecycle: z.optional(lifecycleSchema),
  storageClass: z.optional(storageClassSchema),
  objectTags: z.optional(objectTagsSchema),
  readerAccounts: z.optional(readerAccountsSchema),
  logLevel: z.optional(logLevelSchema),
});
type ExporterSettings = z.infer<typeof exporterSettingsSchema>;

/** As a ReportExporter is given them. */
export interface ExporterSettingsInput {
  readonly name: string;
  readonly prefix?: string | undefined;
  readonly service: ServiceInput;
  readonly exports: readonly ExportDeploymentSettings[];
  readonly exportPage?: ExportPageSettings | undefined;
  readonly lifecycle?: LifecycleSettings | undefined;
  readonly storageClass?: StorageClass | undefined;
  readonly objectTags?: Readonly<Record<string, string>> | undefined;
  readonly readerAccounts?: readonly string[] | undefined;
  readonly logLevel?: LogLevel | undefined;
  /** Whose lifecycle the caller manages. */
  readonly bucket?: unknown;
}

/** `subject` names the construct. @throws ConfigurationError that names every problem, with its path */
export function parseExporterSettings(input: ExporterSettingsInput, subject: string): ExporterSettings {
  const { name, prefix = '', service, exports, bucket } = input;
  const { exportPage, lifecycle, storageClass, objectTags, readerAccounts, logLevel } = input;
  const options = { exportPage, lifecycle, storageClass, objectTags, readerAccounts, logLevel };
  const given = { name, prefix, service, exports, ...options };
  // First, because a token is not a valid value of most settings, which would be reported instead.
  assertNoProblems(subject, findTokens(given));
  const settings = parseSettings(exporterSettingsSchema, given, subject);
  assertNoProblems(subject, [
    ...findCollisions(settings),
    ...findMisfits(settings),
    ...findNetworkMisfits(settings),
    ...findCombinations(settings, bucket !== undefined),
  ]);
  return settings;
}

function assertNoProblems(subject: string, problems: readonly string[]): void {
  if (problems.length === 0) return;
  throw new ExportError('ConfigurationError', problems.map((problem) => `${subject} ${problem}`).join('; '));
}

type Path = readonly PropertyKey[];

function findTokens(input: unknown): string[] {
  const paths: Path[] = [];
  const visited = new Set<unknown>();
  const pending: { readonly path: Path; readonly value: unknown }[] = [{ path: [], value: input }];
  for (let next = pending.shift(); next !== undefined; next = pending.shift()) {
    const { path, value } = next;
    if (Token.isUnresolved(value)) {
      paths.push(path);
    } else if (typeof value === 'object' && value !== null && !visited.has(value)) {
      visited.add(value);
      const toKey = (name: string) => (Array.isArray(value) ? Number(name) : name);
      pending.push(...Object.entries(value).map(([name, item]) => ({ path: [...path, toKey(name)], value: item })));
    }
  }
  return paths.map(
    (path) =>
      `${formatPath(path)}: is a CDK token, whose value is known only at deployment. The settings are stored in a file ` +
      "beside the functions' code, so pass the value itself",
  );
}

function findCollisions({ exports }: ExporterSettings): string[] {
  return findSimilarNames(exports.map(({ name }) => name)).flatMap((earlierIndex, index) => {
    const [earlier, own] = [exports[earlierIndex ?? -1], exports[index]];
    if (earlier === undefined || own === undefined) return [];
    const path = `exports[${earlierIndex}].name`;
    return [`exports[${index}].name: ${describeSimilarity(own.name, earlier.name, path)}`];
  });
}

function findCombinations(settings: ExporterSettings, hasOwnBucket: boolean): string[] {
  const { service, exports, exportPage = {}, lifecycle, storageClass } = settings;
  const describe = (name: string, problems: readonly CombinationProblem[]) =>
    problems.map(({ path, message }) => `${formatPath([name, ...path])}: ${message}`);
  return [
    ...describe('exportPage', findConcurrencyProblems(exportPage, exports.length, service.filterUntil !== undefined)),
    ...(lifecycle === undefined ? [] : describe('lifecycle', findLifecycleProblems(lifecycle, storageClass))),
    ...(lifecycle !== undefined && hasOwnBucket
      ? ['lifecycle: must not be set with bucket: add the rules to that bucket (docs/deployment.md, "Age of pages")']
      : []),
  ];
}

function findMisfits({ service, exports }: ExporterSettings): string[] {
  return exports.flatMap((settings, index) =>
    findLimitProblems(service, settings).map((problem) => `exports[${index}]: ${problem}`),
  );
}

/** Paths are relative to the working directory of the app. */
function findNetworkMisfits({ service }: ExporterSettings): string[] {
  return findNetworkProblems(service, '.').map(({ path, message }) => `service.${path.join('.')}: ${message}`);
}
