/**
 * Proves the pages of an API that counts them and gives no total, as two passes of a chain in a row have the same
 * reports. Counted pages shift while reports are added or removed, and the end of a pass does not show that.
 *
 * A report that is removed, or moves to the end, shifts another one onto a page that was requested already, so this
 * pass misses that one. The next pass then lacks the removed report, or also has the missed one. A report that is added
 * in front makes another one come twice. So two passes with the same reports, each once, have all reports that existed
 * during both, unless changes cancel each other out exactly. Their order does not matter: an API may sort differently
 * each time. A report without an ID is its own: two that are equal fail a pass, as they may be one that came twice.
 *
 * A pass is an attempt of its slice. Its last page is logged only if it is proved, so that nothing
 * else has to know of passes. The log has 64 bits of a hash of each ID: of ten million, two are equal by chance in one
 * of 370,000 exports, which then fails.
 */

import { hash } from 'node:crypto';
import { ExportError } from '../errors.ts';
import { asCursor, type PageEntry, type Pass } from '../model.ts';
import type { ReportValue, ReportValues, StepDependencies } from '../ports.ts';
import { chainNoun, numberOf } from '../slices.ts';
import { DifferentContentError, readPage } from '../storage/compression.ts';
import { capitalize } from '../sanitize.ts';
import { describePage } from '../storage/keys.ts';
import type { UnloggedEntry } from './commit-page.ts';
import type { Chain } from '../slots/page-requests.ts';
import { detectCycle } from './repeated-cursors.ts';

type PassDependencies = Pick<StepDependencies, 'definition' | 'store' | 'log' | 'pageReader'>;

const idBytes = 8;
/** The IDs of more reports do not fit into a log entry. */
const maxReportsOfPage = 20_000;
/** They take 160 MB while a pass is compared. */
const maxReportsOfPass = 10_000_000;

/** A pass is over, and another one follows, or the run fails. */
export class AnotherPass extends ExportError {
  declare readonly pass: Pass;

  constructor(message: string, pass: Pass) {
    super('CursorRejectedError', message);
    // Node.js prints every field of an error that is not caught.
    Object.defineProperty(this, 'pass', { value: pass, enumerable: false });
  }
}

/**
 * Adds the IDs of the reports in the stored page to the entry. The search for a cycle compares these IDs, as the page
 * number that each request sends never repeats.
 * @throws ContractError if a report has no ID; PageConflictError if the page was changed; AnotherPass if pages repeat
 */
export async function withIds(
  deps: PassDependencies,
  chain: Chain,
  entry: UnloggedEntry,
  previous: PageEntry | undefined,
): Promise<UnloggedEntry> {
  const { provedBy } = deps.definition;
  if (provedBy === undefined) return entry;
  const ids = entry.reports === 0 ? '' : await readIds(deps, entry, provedBy);
  const earlierPassAt = entry.page === 1 ? passBefore(chain)?.serviceTime : null;
  const before = previous?.cycle ?? null;
  const search = ids === '' ? undefined : detectCycle(before, asCursor(hash('sha256', ids)));
  // Equal pages in a row are found more precisely.
  if (search?.repeats === true && entry.equalPages < 2 && entry.nextCursor !== null) {
    const pass = { ...(await readPass(deps, chain, entry)), ids: null };
    throw new AnotherPass(reasonFor(chain, pass, undefined), pass);
  }
  return { ...entry, cycle: search?.state ?? before, ids, ...(earlierPassAt != null && { earlierPassAt }) };
}

async function readIds(
  { store, pageReader }: PassDependencies,
  entry: UnloggedEntry,
  paths: readonly string[],
): Promise<string> {
  if (pageReader === undefined) throw new Error(`Nothing reads the pages of export ${entry.export}`);
  const reports = await readReports(store, entry, async (page) => await pageReader.read(page, paths));
  const place = `${describePage(entry)} of run ${entry.run}`;
  if (reports.length !== entry.reports)
    throw new ExportError(
      'ContractError',
      `The IDs of ${place} cannot be read: it has ${entry.reports} reports, but ${reports.length} were found`,
    );
  if (reports.length > maxReportsOfPage) {
    const limit = maxReportsOfPage.toLocaleString('en');
    throw new ExportError(
      'ConfigurationError',
      `Pages with more than ${limit} reports cannot be proved (next.proof), and ${place} has ${reports.length}. Request smaller pages`,
    );
  }
  const ids = Buffer.alloc(reports.length * idBytes);
  reports.forEach((values, index) => {
    const id = JSON.stringify(
      values.map((value, part) => textOf(value, paths[part] ?? '', `report ${index + 1} of ${place}`)),
    );
    hash('sha256', id, 'buffer').copy(ids, index * idBytes, 0, idBytes);
  });
  return ids.toString('base64');
}

async function readReports(
  store: PassDependencies['store'],
  entry: UnloggedEntry,
  read: (page: AsyncIterable<Uint8Array>) => Promise<readonly ReportValues[]>,
): Promise<readonly ReportValues[]> {
  const changed = (reason: string) =>
    new ExportError(
      'PageConflictError',
      `${store.locate(entry.key)} ${reason}, although it was just stored. Start again`,
    );
  const chunks = await store.read(entry.key);
  if (chunks === undefined) throw changed('does not exist');
  try {
    return await read(readPage(entry, chunks));
  } catch (error) {
    throw error instanceof DifferentContentError ? changed(error.message) : error;
  }
}

/** Whether the value is an ID, or a part of one. A report that has none is one as a whole. */
export const hasId = (value: ReportValues[number]): value is ReportValue =>
  value !== undefined && value.type !== 'boolean' && value.type !== 'null' && value.text !== '';

function textOf(value: ReportValues[number], path: string, place: string): string {
  if (hasId(value)) return value.text;
  const at = path === '' ? '' : ` at ${path}`;
  throw new ExportError(
    'ContractError',
    `There is no text or number${at} (next.by) in ${place}, so it has no ID, and no two passes can be compared. ` +
      'Name a field that identifies each report, then start with --restart',
  );
}

/**
 * Called before the end of a chain is logged. `last` is its last page, if that is not logged yet.
 * @throws AnotherPass unless the pass before had the same reports, and each came once
 */
export async function assertProved(deps: PassDependencies, chain: Chain, last?: UnloggedEntry): Promise<void> {
  if (deps.definition.provedBy === undefined) return;
  const before = passBefore(chain);
  const pass = await readPass(deps, chain, last);
  if (pass.ids !== null && pass.ids === before?.ids) return;
  throw new AnotherPass(reasonFor(chain, pass, before), pass);
}

const passBefore = ({ run, slice }: Chain): Pass | undefined => run.passes?.[numberOf(slice)];

async function readPass({ log }: PassDependencies, { slice }: Chain, last: UnloggedEntry | undefined): Promise<Pass> {
  const idsOfPages: Buffer[] = [];
  let reports = 0;
  let serviceTime: Pass['serviceTime'] = null;
  const add = ({ page, ids = '', serviceTime: timeOfPage }: UnloggedEntry): void => {
    const bytes = Buffer.from(ids, 'base64');
    idsOfPages.push(bytes);
    reports += bytes.length / idBytes;
    if (page === 1) serviceTime = timeOfPage;
    if (reports <= maxReportsOfPass) return;
    const limit = maxReportsOfPass.toLocaleString('en');
    throw new ExportError(
      'ConfigurationError',
      `More than ${limit} reports cannot be compared (next.proof). Divide the run with slices or parents`,
    );
  };
  for await (const entry of log.entries(slice)) {
    // A concurrent invocation may have logged the last page meanwhile.
    if (entry.kind === 'page' && entry.page !== last?.page) add(entry);
  }
  if (last !== undefined) add(last);
  return { ids: digestOf(idsOfPages, reports), reports, serviceTime };
}

/** A digest that does not depend on the order of the IDs; null if two are equal. */
function digestOf(idsOfPages: readonly Buffer[], reports: number): string | null {
  const ids = new BigUint64Array(reports);
  const bytes = Buffer.from(ids.buffer);
  let length = 0;
  for (const idsOfPage of idsOfPages) length += idsOfPage.copy(bytes, length);
  ids.sort();
  const isRepeated = ids.some((id, index) => index > 0 && id === ids[index - 1]);
  return isRepeated ? null : hash('sha256', bytes);
}

function reasonFor({ run, slice }: Chain, { ids, reports }: Pass, before: Pass | undefined): string {
  const ofRun = run.slices === undefined ? 'run' : `${chainNoun(run)} ${slice.slice} of run`;
  const name = `${ofRun} ${run.run}`;
  const count = reports.toLocaleString('en');
  if (ids !== null && before === undefined)
    return `${capitalize(name)} is at the end of its first pass (reports: ${count}). Its second pass has to find the same ones (next.proof)`;
  const found =
    ids === null
      ? 'a report came twice'
      : `its ${count} reports are not the same as the ${before?.reports.toLocaleString('en')} of the pass before`;
  return (
    `The pages of ${name} are not proved (next.proof): ${found}, so pages have shifted. If every run ends here, check that ` +
    'next.by identifies each report, and that a page after the last one has no reports. Sort by a field that never ' +
    'changes, start when there are fewer changes, set since.lag, or raise maxCursorRestarts'
  );
}
