/** Parses the settings that a ReportExporter is given by the code of a CDK app. */

import { Token } from 'aws-cdk-lib';
import * as z from 'zod/mini';
import { ExportError } from '../../core/errors.ts';
import { problemLines } from '../../core/validation-errors.ts';
import { exportPageSchema, lifecycleSchema, readerAccountsSchema } from '../../settings/account-settings.ts';
import {
  type ExportDeploymentSettings,
  exportDeploymentSchema,
  findNameCollisions,
  keyPrefixSchema,
  serviceNameSchema,
} from '../../settings/deployment-settings.ts';
import { compressionSchema, logLevelSchema, objectTagsSchema, storageClassSchema } from '../../settings/environment.ts';
import { itemsOf, type SettingsProblem } from '../../settings/fields.ts';
import { parseWithRules } from '../../settings/parse-settings.ts';
import type { ExportProps, ServiceProps } from '../../settings/props.ts';
import { depthOfServicePart, findMismatches, serviceSettingsSchema } from '../../settings/settings.ts';
import { findAwsProblems, withCertificates } from './aws-rules.ts';
import { withoutCdkValues } from './cdk-values.ts';

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
export interface ExporterSettings extends Omit<z.infer<typeof exporterSettingsSchema>, 'exports' | 'readerAccounts'> {
  readonly exports: readonly ExportDeploymentSettings[];
  readonly readerAccounts?: readonly string[];
}

/** What of the props is parsed here. */
interface GivenProps {
  readonly name?: string;
  readonly service: ServiceProps;
  readonly exports: readonly ExportProps[];
  readonly bucket?: object;
}

/** `construct` has the path and the default name. @throws ConfigurationError with a line for every problem */
export function parseExporterSettings(
  props: GivenProps,
  { name, path: subject }: { readonly name: string; readonly path: string },
): ExporterSettings {
  const given: Readonly<Record<string, unknown>> = {
    ...props,
    name: props.name ?? name,
    service: withoutCdkValues(props.service),
    exports: withoutCdkValues(props.exports),
  };
  const written = Object.fromEntries(Object.keys(exporterSettingsSchema.shape).map((key) => [key, given[key]]));
  // First, because a token is not a valid value of most settings, which would be reported instead.
  const tokens = findTokens(written);
  if (tokens.length > 0) throw invalid(subject, tokens);
  const { data, issues } = parseWithRules(exporterSettingsSchema, written, depthOfPart, (valid: ValidSettings) =>
    findProblems(valid, written, props.bucket !== undefined),
  );
  if (data === undefined) throw invalid(subject, issues);
  // Paths of files are relative to the working directory of the app.
  return { ...data, service: withCertificates(data.service, '.') };
}

const invalid = (subject: string, issues: Parameters<typeof problemLines>[1]) =>
  new ExportError('ConfigurationError', problemLines(subject, issues).join('\n'));

const depthOfPart = ([root, ...path]: readonly PropertyKey[]): number =>
  root === 'service' ? 1 + depthOfServicePart(path) : root === 'exports' ? 3 : 1;

/** What the schema accepts. */
interface ValidSettings extends Partial<Omit<ExporterSettings, 'service' | 'exports'>> {
  readonly service?: Partial<ExporterSettings['service']>;
  readonly exports?: readonly (Partial<ExporterSettings['exports'][number]> | undefined)[];
}

function findProblems(
  { service = {}, exports = [], exportPage, lifecycle }: ValidSettings,
  written: Readonly<Record<string, unknown>>,
  hasBucket: boolean,
): SettingsProblem[] {
  const own = exports.map((valid = {}, index) => ({ valid, written: itemsOf(written.exports)[index] }));
  return [
    ...findMismatches({ valid: service, written: written.service }, own),
    ...findNameCollisions(own.map(({ valid: { name } }, index) => ({ name, path: ['exports', index, 'name'] }))),
    ...findAwsProblems({ service, exports: own.map(({ valid }) => valid), exportPage }, '.'),
    ...(lifecycle !== undefined && hasBucket
      ? [
          {
            path: ['lifecycle'],
            message: 'must not be set with bucket: add the rules to that bucket (docs/bucket.md, "Age of pages")',
          },
        ]
      : []),
  ];
}

function findTokens(input: unknown): readonly z.core.$ZodIssue[] {
  const problems: z.core.$ZodIssue[] = [];
  const visited = new Set<unknown>();
  const pending: { readonly path: SettingsProblem['path']; readonly value: unknown }[] = [{ path: [], value: input }];
  for (let next = pending.shift(); next !== undefined; next = pending.shift()) {
    const { path, value } = next;
    if (Token.isUnresolved(value)) {
      const message =
        'is a CDK token, whose value is known only at deployment. The settings are stored in a file beside the ' +
        "functions' code, so pass the value itself";
      problems.push({ code: 'custom', path: [...path], message, input: undefined });
    } else if (typeof value === 'object' && value !== null && !visited.has(value)) {
      visited.add(value);
      const toKey = (name: string) => (Array.isArray(value) ? Number(name) : name);
      pending.push(...Object.entries(value).map(([name, item]) => ({ path: [...path, toKey(name)], value: item })));
    }
  }
  return problems;
}
