/**
 * The content of a generated report: what real reports hold, a few hundred bytes to a few KiB of it, with the XML that
 * careless readers stumble over now and then (non-ASCII, entities, CDATA, comments, namespaces, empty elements).
 */

import { createHash } from 'node:crypto';
import { instantOf } from '../../core/timestamps.ts';

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
export function generatedType(seed: string | number, k: number): string {
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
