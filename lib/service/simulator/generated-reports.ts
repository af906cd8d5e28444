/**
 * Generated reports, so that the service can be tried without data. On an absolute timeline, report k has the date of k
 * intervals after the epoch, and its content depends only on the seed and k. Every process with the same seed therefore
 * serves the same reports, and new ones arrive as time passes.
 */

import { createHash } from 'node:crypto';
import { instantOf } from '../../core/timestamps.ts';
import type { Report, ReportSource } from './report-export-service.ts';

const intervalMs = 10_000;

/**
 * Serves the `count` newest reports at the time of the call, and each later one from its date on. A request without a
 * cursor does not find older reports; a cursor of an earlier instance continues through them without a gap.
 *
 * @example generatedReports({ seed: 1, count: 250 })
 */
export function generatedReports(options: {
  readonly seed: string | number;
  readonly count: number;
  /** Called once, to determine the newest reports. */
  readonly now?: () => number;
}): ReportSource {
  const { seed, count, now = Date.now } = options;
  const newest = Math.floor(now() / intervalMs);
  return {
    oldest: Math.max(0, newest - count + 1) * intervalMs,
    *from({ date, ordinal }, at) {
      // Every date has at most one report, so a position with an ordinal above 0 is after it.
      const first = ordinal === 0 ? Math.ceil(date / intervalMs) : Math.floor(date / intervalMs) + 1;
      for (let k = Math.max(0, first); k * intervalMs <= at; k++) yield generatedReport(seed, k, k * intervalMs);
    },
  };
}

function generatedReport(seed: string | number, k: number, date: number): Report {
  const id = `R-${k}`;
  return {
    id,
    date,
    ordinal: 0,
    type: generatedType(seed, k),
    get xml() {
      return generatedReportXml(seed, k, id, date);
    },
  };
}

const types = ['invoice', 'payment', 'refund', 'inventory'] as const;

/** The type of report `k`, also its `type` attribute. */
function generatedType(seed: string | number, k: number): string {
  return createRng(seed, k, 'type').pick(types);
}

const names = [
  'Zoë Müller',
  'Jørgen Ålesund',
  'Łukasz Żak',
  'María-José Núñez',
  '山田 花子',
  'Ольга Иванова',
  'Ada Byron',
  'नेहा शर्मा',
];
const places = ['São Paulo', 'Köln', '東京', 'Reykjavík', 'Αθήνα', 'Springfield', 'Kraków', 'Zürich'];
const goods = [
  'Paper &amp; ink',
  'Cable 3 &lt; 5 m',
  'Crème brûlée',
  'Bolt M8 &#xD7; 40',
  'Tea “Earl Grey”',
  'Emoji 🧾 roll',
];
const currencies = ['EUR', 'USD', 'JPY', 'PLN'];

/**
 * A `report` element of a few hundred bytes to a few KiB, on lines of its own; the same for the same arguments in any
 * process. It resembles real reports and includes XML that careless parsers get wrong: non-ASCII characters, entities,
 * CDATA, comments, namespaces, empty elements.
 */
export function generatedReportXml(seed: string | number, k: number, id: string, date: number): string {
  const { below, pick } = createRng(seed, k, 'content');
  const currency = pick(currencies);
  const amount = () => `${below(9_999)}.${String(below(100)).padStart(2, '0')}`;
  const lines = Array.from({ length: 1 + below(below(4) === 0 ? 24 : 5) }, (_, index) => {
    const note = below(5) === 0 ? `<note xml:lang="en">${pick(places)} &#8594; ${pick(places)}</note>` : '';
    return `    <line no="${index + 1}" quantity="${1 + below(20)}"><item>${pick(goods)}</item><amount>${amount()}</amount>${note}</line>\n`;
  });
  const extras = [
    `  <!-- checked by ${pick(names)} -->\n`,
    `  <remark><![CDATA[if (a < b && b > ${below(100)}) { "as is" } ]]></remark>\n`,
    `  <ext:attachment xmlns:ext="urn:example:report-extension" ext:href="files/${below(1_000)}.pdf"/>\n`,
    `  <approved by='${pick(names)}' quote="&quot;d&apos;accord&quot;"/>\n`,
    '  <reserved/>\n',
  ].filter(() => below(3) === 0);
  return [
    `\n<report id="${id}" type="${generatedType(seed, k)}" date="${instantOf(date)}">\n`,
    `  <author>${pick(names)}</author>\n  <place>${pick(places)}</place>\n`,
    `  <lines currency="${currency}">\n`,
    ...lines,
    `  </lines>\n  <total currency="${currency}">${amount()}</total>\n`,
    ...extras,
    '</report>',
  ].join('');
}

/** A deterministic random number generator for one purpose: mulberry32, seeded with a hash. */
function createRng(seed: string | number, k: number, purpose: string) {
  let state = createHash('sha256').update(`${seed}/${k}/${purpose}`).digest().readUInt32LE();
  const below = (limit: number): number => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % limit;
  };
  const pick = <Item>(items: readonly Item[]): Item => items[below(items.length)] as Item;
  return { below, pick };
}
