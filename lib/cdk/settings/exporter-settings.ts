/** Validates the settings that a ReportExporter is given by any CDK app. Those of a settings file have been validated before. */

import { Token } from 'aws-cdk-lib';
import * as z from 'zod/mini';
import { ExportError } from '../../core/errors.ts';
import { problemLines } from '../../core/validation-errors.ts';
import {
  type CombinationProblem,
  exportPageSchema,
  findLifecycleProblems,
  lifecycleSchema,
  readerAccountsSchema,
} from '../../settings/account-settings.ts';
import {
  exportDeploymentSchema,
  findNameCollisions,
  issueAt,
  itemsOf,
  keyPrefixSchema,
  serviceNameSchema,
} from '../../settings/deployment-settings.ts';
import { fieldsOf } from '../../settings/fields.ts';
import { compressionSchema, logLevelSchema, objectTagsSchema, storageClassSchema } from '../../settings/environment.ts';
import { findMismatches, serviceSettingsSchema } from '../../settings/settings.ts';
import { suggestFields } from '../../settings/unknown-fields.ts';
import { findServiceProblems, isChecked, within } from './service-problems.ts';

/** The props that are settings, under the same names. */
const exporterSettingsSchema = z.strictObject({
  name: serviceNameSchema,
  prefix: z._default(keyPrefixSchema, ''),
  service: serviceSettingsSchema,
  exports: z
    .array(exportDeploymentSchema, {
      error: ({ input }) => (input === undefined ? 'is required' : 'must be a list of exports'),
    })
    .check(z.minLength(1, 'must have at least one export')),
  exportPage: z.optional(exportPageSchema),
  lifecycle: z.optional(lifecycleSchema),
  storageClass: z.optional(storageClassSchema),
  compression: z.optional(compressionSchema),
  objectTags: z.optional(objectTagsSchema),
  readerAccounts: z.optional(readerAccountsSchema),
  logLevel: z.optional(logLevelSchema),
});
type ExporterSettings = z.infer<typeof exporterSettingsSchema>;

/** `subject` names the construct. @throws ConfigurationError with a line for every problem */
export function parseExporterSettings(props: Readonly<Record<string, unknown>>, subject: string): ExporterSettings {
  const given = Object.fromEntries(Object.keys(exporterSettingsSchema.shape).map((name) => [name, props[name]]));
  // First, because a token is not a valid value of most settings, which would be reported instead.
  assertNoProblems(subject, findTokens(given));
  const { data, error } = exporterSettingsSchema.safeParse(given);
  const issues = suggestFields(exporterSettingsSchema, error?.issues ?? []);
  const combinations = [...(isChecked(props) ? [] : findCombinations(given)), ...findBucketProblems(props)];
  issues.push(...combinations.map(({ path, message }) => issueAt(path, message)));
  if (data !== undefined && issues.length === 0) return data;
  throw new ExportError('ConfigurationError', problemLines(subject, issues).join('\n'));
}

/** What is wrong with settings that are valid by themselves. Accepts any value. */
function findCombinations(given: Readonly<Record<string, unknown>>): CombinationProblem[] {
  const exports = itemsOf(given.exports);
  const names = exports.map((each) => fieldsOf(each).name);
  return [
    ...findMismatches(given.service, exports),
    ...findNameCollisions(
      names.map((name, index) => ({
        name: typeof name === 'string' ? name : undefined,
        path: ['exports', index, 'name'],
      })),
    ),
    // Paths of files are relative to the working directory of the app.
    ...findServiceProblems(given, '.'),
  ];
}

function findBucketProblems({
  lifecycle,
  storageClass,
  bucket,
}: Readonly<Record<string, unknown>>): CombinationProblem[] {
  if (lifecycle === undefined) return [];
  const { data } = lifecycleSchema.safeParse(lifecycle);
  return [
    ...(data === undefined
      ? []
      : within('lifecycle', findLifecycleProblems(data, storageClassSchema.safeParse(storageClass).data))),
    ...(bucket === undefined
      ? []
      : [
          {
            path: ['lifecycle'],
            message: 'must not be set with bucket: add the rules to that bucket (docs/bucket.md, "Age of pages")',
          },
        ]),
  ];
}

function assertNoProblems(subject: string, problems: readonly CombinationProblem[]): void {
  if (problems.length === 0) return;
  const issues = problems.map(({ path, message }) => issueAt(path, message));
  throw new ExportError('ConfigurationError', problemLines(subject, issues).join('\n'));
}

function findTokens(input: unknown): CombinationProblem[] {
  const problems: CombinationProblem[] = [];
  const visited = new Set<unknown>();
  const pending: { readonly path: CombinationProblem['path']; readonly value: unknown }[] = [
    { path: [], value: input },
  ];
  for (let next = pending.shift(); next !== undefined; next = pending.shift()) {
    const { path, value } = next;
    if (Token.isUnresolved(value)) {
      const message =
        'is a CDK token, whose value is known only at deployment. The settings are stored in a file beside the ' +
        "functions' code, so pass the value itself";
      problems.push({ path, message });
    } else if (typeof value === 'object' && value !== null && !visited.has(value)) {
      visited.add(value);
      const toKey = (name: string) => (Array.isArray(value) ? Number(name) : name);
      pending.push(...Object.entries(value).map(([name, item]) => ({ path: [...path, toKey(name)], value: item })));
    }
  }
  return problems;
}
