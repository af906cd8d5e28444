/**
 * The settings of a deployment, under `reportExporter` in cdk.json. They are validated completely before anything is
 * synthesized, and every problem is reported, one line each with its path.
 *
 * A deployment has one service (`service`, `apiKeySecret`, `exports`), or several (`services`). Settings for the functions keep
 * the form in which they were written; the functions read them through the same schemas.
 */

import { z } from 'zod';
import { ExportError } from '../../core/errors.ts';
import { serviceSettingsSchema } from '../../core/settings/settings.ts';
import { formatPath, problemLines } from '../../core/settings/validation-errors.ts';
import { findLimitProblems } from '../function-limits.ts';
import { exportDeploymentSchema, findSimilarNames } from './deployed-export.ts';
import { type DeploymentSettings, hasServices, parseDeployment } from './deployment-schema.ts';
import { findSizeProblem } from './stack-size.ts';

/** The key in the context of cdk.json that holds the settings. */
export const contextKey = 'reportExporter';

/** What `deploymentSettings` has returned: valid settings, which need not be parsed again. */
const parsedSettings = new WeakSet<object>();

const isParsed = (value: unknown): value is DeploymentSettings =>
  typeof value === 'object' && value !== null && parsedSettings.has(value);

/**
 * Parses the value of the context key: an object, or JSON text if it was passed on the CDK command line
 * (`-c reportExporter="$(jq -c . production.json)"`, on one line). Returns settings that it has parsed before as they are.
 *
 * @throws ConfigurationError with a line for every problem
 */
export function deploymentSettings(value: unknown): DeploymentSettings {
  if (isParsed(value)) return value;
  const context = typeof value === 'string' ? parseJsonIfValid(value) : value;
  const { settings, issues } = parseDeployment(context);
  const all = [...issues.map(withinContext), ...findConflicts(context)];
  if (settings !== undefined && all.length === 0) {
    const problem = findSizeProblem(settings);
    if (problem === undefined) {
      parsedSettings.add(settings);
      return settings;
    }
    all.push(issueAt([], problem));
  }
  throw new ExportError('ConfigurationError', problemLines('cdk.json', all).join('\n'));
}

function parseJsonIfValid(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

const withinContext = (issue: z.core.$ZodIssue): z.core.$ZodIssue => ({ ...issue, path: [contextKey, ...issue.path] });

type Path = readonly (string | number)[];

/**
 * The problems that no single field shows: names that collide, and exports that Lambda cannot run. Accepts any value, so that
 * they are reported together with all other problems.
 */
function findConflicts(context: unknown): z.core.$ZodIssue[] {
  const services = lenientServices(context);
  const exports = services.flatMap((service) =>
    service.exports.map((settings, index) => ({ settings, path: [...service.path, 'exports', index] })),
  );
  return [
    ...findNameCollisions(services.map(({ name, path }) => ({ name, path: [...path, 'name'] }))),
    ...findNameCollisions(exports.map(({ settings, path }) => ({ name: nameOf(settings), path: [...path, 'name'] }))),
    ...services.flatMap(findMisfits),
  ];
}

interface LenientService {
  readonly path: Path;
  readonly name: string | undefined;
  readonly service: unknown;
  readonly exports: readonly unknown[];
}

const unknownList = z.array(z.unknown()).catch([]);
const unknownFields = { service: z.unknown(), exports: unknownList };
const lenientOneService = z.object(unknownFields).catch({ service: undefined, exports: [] });
const lenientSeveralServices = z.object({ services: unknownList }).catch({ services: [] });
const named = z.object({ name: z.string() });
const nameOf = (value: unknown) => named.safeParse(value).data?.name;

/** The services in settings that may be invalid, as far as they are recognizable. */
function lenientServices(context: unknown): readonly LenientService[] {
  if (!hasServices(context)) return [{ path: [], name: undefined, ...lenientOneService.parse(context) }];
  return lenientSeveralServices.parse(context).services.map((each, index) => ({
    path: ['services', index],
    name: nameOf(each),
    ...lenientOneService.parse(each),
  }));
}

const issueAt = (path: Path, message: string): z.core.$ZodIssue => ({
  code: 'custom',
  path: [contextKey, ...path],
  message,
  input: undefined,
});

interface NameAt {
  readonly name: string | undefined;
  readonly path: Path;
}

function findNameCollisions(names: readonly NameAt[]): z.core.$ZodIssue[] {
  return findSimilarNames(names.map(({ name }) => name)).flatMap((earlier, index) => {
    const [first, second] = [names[earlier ?? -1], names[index]];
    if (first === undefined || second === undefined) return [];
    const message = `is too similar to ${formatPath(first.path)}: names must differ in more than case, hyphens and underscores`;
    return [issueAt(second.path, message)];
  });
}

/** Why Lambda cannot run exports of the service. Empty for invalid settings, which the schemas report. */
function findMisfits({ path, service, exports }: LenientService): z.core.$ZodIssue[] {
  const parsedService = serviceSettingsSchema.safeParse(service);
  if (!parsedService.success) return [];
  // What is wrong with the service is wrong with all its exports. Report it once.
  const reported = new Set<string>();
  return exports.flatMap((settings, index) => {
    const parsedExport = exportDeploymentSchema.safeParse(settings);
    if (!parsedExport.success) return [];
    const problems = findLimitProblems(parsedService.data, parsedExport.data).filter((each) => !reported.has(each));
    for (const problem of problems) reported.add(problem);
    return problems.map((problem) => issueAt([...path, 'exports', index], problem));
  });
}
