/** Parses the props of a ReportExporter as settings: those of a settings file with one service. */

import { Token } from 'aws-cdk-lib';
import { ExportError } from '../../core/errors.ts';
import { problemLines } from '../../core/validation-errors.ts';
import {
  type BucketSettings,
  parseDeployment,
  type ServiceDeploymentSettings,
} from '../../settings/deployment-settings.ts';
import type { SettingsProblem } from '../../core/schema/fields.ts';
import type { BucketProps, ExportProps, ServiceProps } from '../../settings/props.ts';
import { findAwsProblems, withCertificates } from './aws-rules.ts';

export interface ExporterSettings {
  readonly service: ServiceDeploymentSettings;
  readonly bucket: BucketSettings;
}

/** The props that are settings, under the same names. */
export interface GivenSettings extends Pick<BucketProps, 'compression' | 'prefix'> {
  readonly name?: string;
  readonly service: ServiceProps;
  readonly exports: readonly ExportProps[];
}

/** `construct` has the path and the default name. @throws ConfigurationError with a line for every problem */
export function parseExporterSettings(
  { name: givenName, service, exports, prefix = '', compression }: GivenSettings,
  { name: defaultName, path: subject }: { readonly name: string; readonly path: string },
): ExporterSettings {
  const name = givenName ?? defaultName;
  const bucket = { prefix, compression };
  const describe = (issues: Parameters<typeof problemLines>[1]) =>
    problemLines(
      subject,
      issues.map((issue) => ({ ...issue, path: [...propPath(issue.path, issue.message)] })),
    );
  // First, because a token is not a valid value of most settings, which would be reported instead.
  const tokens = [...findTokens({ name: givenName, service, exports, ...bucket })];
  if (tokens.length > 0) {
    const message =
      "is a CDK token, whose value is known only at deployment. The settings are stored in a file beside the functions' code, " +
      'so pass the value itself';
    const issues = tokens.map((path) => ({ code: 'custom' as const, path: [...path], message, input: undefined }));
    throw new ExportError('ConfigurationError', problemLines(subject, issues).join('\n'));
  }
  const value = { services: { [name]: service }, exports, bucket };
  // Paths of files are relative to the working directory of the app.
  const settings = withCertificates(parseDeployment({ value, describe }, findAwsProblems('.')), '.');
  const [parsed] = settings.services as [ServiceDeploymentSettings];
  return { service: { ...parsed, prefix }, bucket: settings.bucket };
}

/** `services.acme` is the prop `service`, and the fields of `bucket` are props. */
function propPath([root, name, ...rest]: readonly PropertyKey[], message: string): readonly PropertyKey[] {
  if (root === 'services') return message.startsWith('the name ') ? ['name'] : ['service', ...rest];
  return [...(root === 'bucket' ? [] : [root]), name, ...rest].filter((part) => part !== undefined);
}

type Path = SettingsProblem['path'];

/** Settings are not nested deeper. */
const maxDepth = 40;

/** `seen` are objects that have been searched: the code of an app may pass one that contains itself. */
function* findTokens(value: unknown, path: Path = [], seen = new Set<unknown>()): Generator<Path> {
  if (Token.isUnresolved(value)) yield path;
  else if (typeof value === 'object' && value !== null && path.length < maxDepth && !seen.has(value)) {
    seen.add(value);
    for (const [name, item] of Object.entries(value)) {
      yield* findTokens(item, [...path, Array.isArray(value) ? Number(name) : name], seen);
    }
  }
}
