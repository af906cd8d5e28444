/** The situations of transcripts: each is a sentence, and what it does to the place. */

import { readFileSync } from 'node:fs';
import { acquireExportLock } from '../../lib/local/lock.ts';
import { apiSchema } from '../../lib/service/api/description.ts';
import { changeRow, ofState } from '../support/export/state-rows.ts';
import { nightly } from '../support/aws/mocked-stack.ts';
import { simulateStack } from '../support/aws/simulated-stack.ts';
import {
  always,
  errorResponse,
  type Fault,
  type FaultScript,
  malformedXml,
  onPage,
  throttled,
} from '../support/service/faults.ts';
import type { Place } from './place.ts';

type Effect = (place: Place, ...values: string[]) => unknown;

const unitMs: Readonly<Record<string, number>> = { second: 1_000, minute: 60_000, hour: 3_600_000, day: 86_400_000 };
const everyTime = { times: Number.POSITIVE_INFINITY };

/** The values are what the groups of the expression match. */
const situations: readonly (readonly [sentence: RegExp, effect: Effect])[] = [
  [/^(\d+) (\w+?)s? later$/, (place, count, unit) => place.advance(Number(count) * (unitMs[unit ?? ''] ?? Number.NaN))],
  [
    /^The service has (\d+) reports$/,
    async (place, count) => {
      place.addReports(Number(count));
      await place.startService();
    },
  ],
  [
    /^The API that (\S+) describes has (\d+) reports, two on a page$/,
    async (place, file, count) => {
      place.addReports(Number(count));
      const { services } = JSON.parse(readFileSync(file ?? '', 'utf8')) as { services: { acme: { api: object } } };
      await place.startService(apiSchema.parse(services.acme.api), 2);
    },
  ],
  [
    /^It responds with (\d+) to every request$/,
    (place, status) => setFaults(place, always(errorResponse(Number(status)))),
  ],
  [
    /^It responds with (.+) to page (\d+)$/,
    (place, answers = '', page) => setFaults(place, inTurn(answers.split(', then '), Number(page))),
  ],
  [
    /^It responds once with (\d+) to each page$/,
    (place, status) => setFaults(place, once(errorResponse(Number(status)))),
  ],
  [
    /^It asks for a wait of (\d+) s before page (\d+)$/,
    (place, seconds, page) => setFaults(place, once(throttled(seconds ?? ''), page)),
  ],
  [
    /^Someone changes the state of (\S+) in (\S+)$/,
    (_, name = '', file = '') =>
      changeRow(file, ofState(name), ({ fields }) => ({ json: JSON.stringify({ ...fields, sequence: 1 }) })),
  ],
  [
    /^Another process exports (\S+) to (\S+)$/,
    (place, name = '', out = '') => (place.lock = acquireExportLock(out, name)),
  ],
  [/^That process ends$/, ({ lock }) => lock?.release()],
  [/^It works again$/, (place) => setFaults(place, () => undefined)],
  [/^The service is down$/, async (place) => await place.service?.close()],
  [/^The service is up again$/, async (place) => await place.startService()],
  [
    /^Ctrl-C while it waits for page ([12])$/,
    (place, page) => {
      setFaults(place, onPage(Number(page), { until: new Promise(() => {}) }, everyTime));
      place.onOutput = (text) => {
        if (!text.includes(page === '1' ? 'exporting' : 'Page 1 ')) return;
        place.onOutput = () => {};
        setFaults(place, () => undefined);
        place.pressCtrlC();
      };
    },
  ],
  [
    /^The stack ReportExporter exports (.+) from the service$/,
    (place, names) => {
      const exports = (names ?? '').split(/, | and /).map((name) => ({ name, size: 2, iterationsPerExecution: 2 }));
      const [scheduled = { name: '' }] = exports;
      const settings = { baseUrl: place.service?.baseUrl ?? '', filterUntil: 'date.lt' as const };
      const service = { name: 'acme', exports, settings, schedules: { [scheduled.name]: nightly() } };
      place.stack = simulateStack([service], place.runtime, place.env.REPORT_EXPORT_API_KEY ?? '');
    },
  ],
  [/^Executions stay in progress$/, ({ stack }) => void Object.assign(stack ?? {}, { isHeld: true })],
  [/^The executions end$/, async ({ stack }) => await stack?.release()],
  [
    /^Someone deletes the last object whose key has (\S+)$/,
    ({ stack, runtime }, part = '') => {
      const key = [...(stack?.s3.objects.keys() ?? [])].findLast((each) => each.includes(part));
      if (key === undefined) throw new Error(`The bucket has no object ${part}`);
      stack?.s3.damage(key, undefined, runtime.now());
    },
  ],
];

/** The answers to the requests for the page: statuses, or a page that is no XML. The last one stays. */
function inTurn(answers: readonly string[], page: number): FaultScript {
  let count = 0;
  return (input) => {
    if (input.page !== page) return undefined;
    const answer = answers[Math.min(count, answers.length - 1)];
    count += 1;
    return answer === 'no XML' ? malformedXml : errorResponse(Number(answer));
  };
}

/** A fault of the next response for the page, or for each page. */
function once(fault: Fault, only?: string): FaultScript {
  const failed = new Set<number | undefined>();
  return ({ page }) => {
    if (failed.has(page) || (only !== undefined && page !== Number(only))) return undefined;
    failed.add(page);
    return fault;
  };
}

const setFaults = (place: Place, faults: FaultScript): void => void (place.faults = faults);

/** @throws Error if there is no such situation */
export async function applySituation(text: string, place: Place): Promise<void> {
  const sentence = text.replace(/\.$/, '');
  for (const [expression, effect] of situations) {
    const found = expression.exec(sentence);
    if (found !== null) return void (await effect(place, ...found.slice(1)));
  }
  throw new Error(`situations.ts has no situation "${sentence}"`);
}
