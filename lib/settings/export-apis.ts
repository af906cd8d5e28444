/** The description of the API of an export: what its service has for all exports, and what the export changes. */

import type { SettingsProblem } from '../core/schema/fields.ts';
import { type Issue, parseAll } from '../core/schema/parse.ts';
import {
  apiSchema,
  describeApi,
  type Description,
  type ExportApi,
  findContradictions,
} from '../service/api/description.ts';
import type { Job } from '../service/api/job.ts';
import { goneReports } from '../service/api/when.ts';
import { reportExportService } from '../service/api/report-export-service.ts';
import type { GivenExport, GivenService } from './settings.ts';

type Path = SettingsProblem['path'];

interface DescribedExport {
  /** undefined if there are issues. */
  readonly api: Description | undefined;
  readonly issues: readonly Issue[];
  /** Where a field of the description stands in the settings: in those of the export, or of the service. */
  readonly placeOf: (path: Path) => Path;
}

export function describeExport(
  [serviceName, service]: readonly [name: string, service: GivenService],
  [index, settings]: readonly [index: number, settings: GivenExport],
): DescribedExport {
  const { api: shared } = service;
  const { api: own } = settings;
  const ofService = ['services', serviceName, 'api'];
  const ofExport = ['exports', index, 'api'];
  const placeOf = (path: Path): Path => [...(isChanged(own, shared, path) ? ofExport : ofService), ...path];
  if (shared === undefined) return { api: reportExportService({ ...service, ...settings }), issues: [], placeOf };
  const job = own?.job === undefined ? shared.job : own.job;
  const defaults = { ...defaultsOf(settings), ...(job?.result && defaultsOfFiles(job)) };
  const { data, issues } = parseAll(apiSchema, mergeApis(shared, own, defaults));
  const placed = issues.map((issue) => ({ ...issue, path: [...placeOf(issue.path as Path)] }) as Issue);
  if (data === undefined) return { api: undefined, issues: placed, placeOf };
  const contradictions = findContradictions(data).map(({ path, message }): Issue => ({
    code: 'custom',
    path: [...placeOf(path)],
    message,
    input: undefined,
  }));
  return { api: contradictions.length === 0 ? describeApi(data) : undefined, issues: contradictions, placeOf };
}

/** The groups whose fields replace those of the service one by one. All others replace it as a whole. */
const groups = ['request', 'page', 'when'] as const;

type Fields = Readonly<Record<string, unknown>>;

/** The fields that neither the service nor the export has to set. */
const defaultsOf = ({ parents }: Pick<GivenExport, 'parents'>): Fields =>
  // A person has written a list of values. So one of them that does not exist is a mistake.
  parents?.export !== undefined ? { when: { gone: goneReports } } : {};

/** The files of a result need no request of pages. */
const defaultsOfFiles = ({ create }: Job): Fields => ({
  request: { path: create.path },
  next: { from: 'none' },
});

/** `last` belongs to `next`: an export with a `next` of its own does not get that of the service. */
function mergeApis(shared: NonNullable<GivenService['api']>, own: ExportApi = {}, defaults: Fields = {}): Fields {
  const { last: _last, ...withoutLast } = shared;
  const { next } = defaults;
  const inherited: Fields = { ...(next !== undefined && { next }), ...(own.next === undefined ? shared : withoutLast) };
  const present = groups.filter((name) => (inherited[name] ?? own[name] ?? defaults[name]) !== undefined);
  const merged = present.map((name) => {
    const fields = { ...(defaults[name] as Fields), ...(inherited[name] as Fields), ...own[name] };
    return [name, withoutNull(fields)] as const;
  });
  return withoutNull({ ...inherited, ...own, ...Object.fromEntries(merged) });
}

const withoutNull = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null && value !== undefined));

/** Whether the export has the value at the path. A missing value is missing in the export, if that changes anything. */
function isChanged(own: ExportApi | undefined, shared: GivenService['api'], [name = '', field]: Path): boolean {
  if (own === undefined) return false;
  if (name === 'last' && own.next !== undefined) return true;
  const isGroup = groups.some((group) => group === name);
  const valueIn = (api: Fields | undefined): unknown => {
    const value = api?.[name];
    return isGroup && field !== undefined ? (value as Fields | undefined)?.[field] : value;
  };
  return valueIn(own) !== undefined || valueIn(shared) === undefined;
}
