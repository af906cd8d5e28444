/**
 * Reports out of nothing, for a service that can be tried without data: an absolute timeline on which report k is dated
 * k intervals after the epoch, with content that follows from the seed and k alone. Any process that is given the same
 * seed and interval sees the same reports, and new ones arrive as the clock goes on.
 */

import { createHash } from 'node:crypto';
import { ExportError } from '../../core/errors.ts';
import { instantOf } from '../../core/timestamps.ts';
import type { Report, ReportSource } from './report-source.ts';

/**
 * Holds the `count` newest reports at the moment it is made, and every later one from the moment of its date.
 * Older ones are not found by a new walk; a walk that an earlier instance began goes on through them without a gap.
 *
 * @example generatedReports({ seed: 1, count: 250 })
 */
export function generatedReports(options: {
  readonly seed: string | number;
  readonly count: number;
  /** Read once, to find the newest reports. */
  readonly now?: () => number;
  readonly intervalSeconds?: number;
}): ReportSource {
  const { seed, count, now = Date.now, intervalSeconds = 10 } = options;
  const intervalMs = Math.round(intervalSeconds * 1_000);
  if (!(Number.isInteger(count) && count >= 0 && intervalMs >= 1)) {
    const given = `count ${count}, intervalSeconds ${intervalSeconds}`;
    throw new ExportError(
      'ConfigurationError',
      `Reports are generated for a count from 0 and a positive interval: ${given}`,
    );
  }
  const newest = Math.floor(now() / intervalMs);
  return {
    oldest: Math.max(0, newest - count + 1) * intervalMs,
    *from({ date, ordinal }, at) {
      // No two generated reports share a date: past ordinal 0 the next one stands at the next tick.
      const first = ordinal === 0 ? Math.ceil(date / intervalMs) : Math.floor(date / intervalMs) + 1;
      for (let k = Math.max(0, first); k * intervalMs <= at; k++) yield generatedReport(seed, k, k * intervalMs);
    },
  };
}

function generatedReport(seed: string | number, k: number, date: number): Report {
  const id = `R-${k}`;
  let made: Buffer | undefined;
  const body = () => {
    made ??= Buffer.from(generatedXml(seed, k, id, date));
    return made;
  };
  return { id, date, ordinal: 0, type: generatedType(seed, k), bytes: () => body().length, body: () => [body()] };
}

// MERGED generated-xml.ts: The content of a generated report: what real reports hold, a few hundred bytes to a few KiB of it, with the XML that careless readers stumble over now and then (non-ASCII, entities, CDATA, comments, namespaces, empty elements).

const types = ['invoice', 'payment', 'refund', 'inventory'] as const;
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

/** The type of report `k`, also its `type` attribute. */
function generatedType(seed: string | number, k: number): string {
  return dice(seed, k, 'type').pick(types);
}

/** The whole `report` element on a line of its own; the same for the same arguments, in any process. */
export function generatedXml(seed: string | number, k: number, id: string, date: number): string {
  const { upTo, pick } = dice(seed, k, 'content');
  const currency = pick(currencies);
  const amount = () => `${upTo(9_999)}.${String(upTo(100)).padStart(2, '0')}`;
  const lines = Array.from({ length: 1 + upTo(upTo(4) === 0 ? 24 : 5) }, (_, index) => {
    const note = upTo(5) === 0 ? `<note xml:lang="en">${pick(places)} &#8594; ${pick(places)}</note>` : '';
    return `    <line no="${index + 1}" quantity="${1 + upTo(20)}"><item>${pick(goods)}</item><amount>${amount()}</amount>${note}</line>\n`;
  });
  const extras = [
    `  <!-- checked by ${pick(names)} -->\n`,
    `  <remark><![CDATA[if (a < b && b > ${upTo(100)}) { "as is" } ]]></remark>\n`,
    `  <ext:attachment xmlns:ext="urn:example:report-extension" ext:href="files/${upTo(1_000)}.pdf"/>\n`,
    `  <approved by='${pick(names)}' quote="&quot;d&apos;accord&quot;"/>\n`,
    '  <reserved/>\n',
  ].filter(() => upTo(3) === 0);
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

/** Repeatable chance: the same throws for the same seed, report and purpose (mulberry32 from a hash). */
function dice(seed: string | number, k: number, purpose: string) {
  let state = createHash('sha256').update(`${seed}/${k}/${purpose}`).digest().readUInt32LE();
  const upTo = (limit: number): number => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % limit;
  };
  const pick = <Item>(items: readonly Item[]): Item => items[upTo(items.length)] as Item;
  return { upTo, pick };
}
