/** Parses the settings that a ReportExporter is given by any CDK app. Those of a settings file have been parsed before. */

import { Token } from 'aws-cdk-lib';
import * as z from 'zod/mini';
import { ExportError } from '../../core/errors.ts';
import { problemLines } from '../../core/validation-errors.ts';
import {
  exportPageSchema,
  findLifecycleProblems,
  lifecycleSchema,
  readerAccountsSchema,
} from '../../settings/account-settings.ts';
import {
  exportDeploymentSchema,
  findNameCollisions,
  keyPrefixSchema,
  type ServiceDeploymentSettings,
  serviceNameSchema,
} from '../../settings/deployment-settings.ts';
import { compressionSchema, logLevelSchema, objectTagsSchema, storageClassSchema } from '../../settings/environment.ts';
import { itemsOf } from '../../settings/fields.ts';
import { parseWithRules, type SettingsProblem, within } from '../../settings/parse-settings.ts';
import type { ExportProps, ServiceProps } from '../../settings/props.ts';
import { findMismatches, serviceSettingsSchema } from '../../settings/settings.ts';
import { withoutCdkValues } from './cdk-values.ts';
import { withCertificates } from './service-network.ts';
import { findServiceProblems } from './service-problems.ts';

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
export type ExporterSettings = z.infer<typeof exporterSettingsSchema>;

type ParsedProps = Pick<ServiceDeploymentSettings, 'name' | 'prefix' | 'service' | 'exports'>;
/** The props of constructs whose settings have been parsed with a settings file. */
const parsedProps = new WeakSet<object>();

/** What of the props is parsed here. */
interface GivenProps {
  readonly name?: string;
  readonly service: ServiceProps;
  readonly exports: readonly ExportProps[];
  readonly bucket?: object;
}

/** Props with parsed settings, which the construct takes as they are. */
export function asParsed<Props extends ParsedProps>(
  props: Props,
): Omit<Props, keyof GivenProps> & Pick<GivenProps, 'service' | 'exports'> {
  parsedProps.add(props);
  return props as unknown as ReturnType<typeof asParsed<Props>>;
}

/** `construct` has the path and the default name. @throws ConfigurationError with a line for every problem */
export function parseExporterSettings(
  props: GivenProps,
  { name, path: subject }: { readonly name: string; readonly path: string },
): ExporterSettings {
  if (parsedProps.has(props)) return props as object as ExporterSettings;
  const given: Readonly<Record<string, unknown>> = {
    ...props,
    name: props.name ?? name,
    service: withoutCdkValues(props.service),
    exports: withoutCdkValues(props.exports),
  };
  const written = Object.fromEntries(Object.keys(exporterSettingsSchema.shape).map((name) => [name, given[name]]));
  // First, because a token is not a valid value of most settings, which would be reported instead.
  assertNone(subject, findTokens(written));
  const depths = { service: 2, exports: 3 };
  const { data, issues } = parseWithRules(exporterSettingsSchema, written, depths, (valid: ValidSettings) =>
    findProblems(valid, written, props.bucket !== undefined),
  );
  if (data === undefined) throw new ExportError('ConfigurationError', problemLines(subject, issues).join('\n'));
  return { ...data, service: withCertificates(data.service, '.') };
}

/** What the schema accepts. */
interface ValidSettings extends Partial<Omit<ExporterSettings, 'service' | 'exports'>> {
  readonly service?: Partial<ExporterSettings['service']>;
  readonly exports?: readonly (Partial<ExporterSettings['exports'][number]> | undefined)[];
}

function findProblems(
  { service = {}, exports = [], exportPage, lifecycle, storageClass }: ValidSettings,
  written: Readonly<Record<string, unknown>>,
  hasBucket: boolean,
): SettingsProblem[] {
  const own = exports.map((valid = {}, index) => ({ valid, written: itemsOf(written.exports)[index] }));
  return [
    ...findMismatches({ valid: service, written: written.service }, own),
    ...findNameCollisions(own.map(({ valid: { name } }, index) => ({ name, path: ['exports', index, 'name'] }))),
    // Paths of files are relative to the working directory of the app.
    ...findServiceProblems({ service, exports: own.map(({ valid }) => valid), exportPage }, '.'),
    ...within(['lifecycle'], findLifecycleProblems(lifecycle, storageClass)),
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

function assertNone(subject: string, problems: readonly SettingsProblem[]): void {
  if (problems.length === 0) return;
  const issues = problems.map((each) => ({ ...each, path: [...each.path], code: 'custom' as const, input: undefined }));
  throw new ExportError('ConfigurationError', problemLines(subject, issues).join('\n'));
}

function findTokens(input: unknown): SettingsProblem[] {
  const problems: SettingsProblem[] = [];
  const visited = new Set<unknown>();
  const pending: { readonly path: SettingsProblem['path']; readonly value: unknown }[] = [{ path: [], value: input }];
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
