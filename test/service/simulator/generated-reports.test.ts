import { describe, expect, it } from 'vitest';
import { generatedReports } from '../../../lib/service/simulator/generated-reports.ts';
import { createXmlFormatCheck } from '../../../lib/service/formats/xml.ts';
import { check } from '../../support/service/checked-pages.ts';
import { fetchAllPages, sendRequest, startTestSimulator } from '../../support/service/simulator-client.ts';

describe('generated reports', () => {
  const start = Date.UTC(2026, 10, 20);
  const sourceAt = (now: number, overrides: { seed?: number; count?: number } = {}) =>
    generatedReports({ seed: 1, count: 25, now: () => now, ...overrides });
  const ids = (text: string) => Array.from(text.matchAll(/<report id="R-(\d+)"/g), ([, k]) => Number(k));

  it('are the same bytes and cursors for the same seed, and others for another seed', async () => {
    const pagesOf = async (seed: number) => {
      await using simulator = await startTestSimulator({ reports: sourceAt(start, { seed }), seed, now: () => start });
      return (await fetchAllPages(simulator, { fields: { size: 10 } })).map(({ text, cursor }) => ({ text, cursor }));
    };
    const pages = await pagesOf(1);
    expect(pages).toHaveLength(3);
    expect(await pagesOf(1)).toEqual(pages);
    expect((await pagesOf(2)).map(({ text }) => text)).not.toEqual(pages.map(({ text }) => text));
  });

  it('start with the newest, and arrive when their date is reached', async () => {
    let now = start;
    await using simulator = await startTestSimulator({ reports: sourceAt(start), now: () => now });
    const first = (await fetchAllPages(simulator)).flatMap(({ text }) => ids(text));
    expect(first).toHaveLength(25);
    expect(first.at(-1)).toBe(start / 10_000);
    now += 29_999;
    const filter = { date: { gte: new Date(start + 1).toISOString() } };
    expect((await fetchAllPages(simulator, { fields: { filter } })).flatMap(({ text }) => ids(text))).toEqual([
      start / 10_000 + 1,
      start / 10_000 + 2,
    ]);
  });

  it('continue an old cursor without a gap, at an instance that starts with much later reports', async () => {
    const options = { fields: { size: 10 } };
    await using earlier = await startTestSimulator({ reports: sourceAt(start), now: () => start });
    const first = await sendRequest(earlier, options);
    const later = start + 86_400_000;
    await using successor = await startTestSimulator({ reports: sourceAt(later), now: () => later });
    const second = await sendRequest(successor, { ...options, cursor: String(first.cursor) });
    expect(ids(second.text)[0]).toBe((ids(first.text).at(-1) ?? 0) + 1);
  });

  it('can be none, or too many for memory, and start anywhere', async () => {
    await using none = await startTestSimulator({ reports: sourceAt(start, { count: 0 }), now: () => start });
    expect(ids((await sendRequest(none)).text)).toEqual([]);
    await using many = await startTestSimulator({ reports: sourceAt(start, { count: 100_000_000 }), now: () => start });
    const filter = { date: { gte: '2020-01-01T00:00:00Z' } };
    expect(ids((await sendRequest(many, { fields: { filter, size: 1 } })).text)).toEqual([
      Date.UTC(2020, 0, 1) / 10_000,
    ]);
  });

  it('resemble real reports and are well-formed', async () => {
    await using simulator = await startTestSimulator({ reports: sourceAt(start, { count: 300 }), now: () => start });
    const pages = await fetchAllPages(simulator);
    const text = pages.map((page) => page.text).join('');
    for (const trait of [
      /<!\[CDATA\[/,
      /<!--/,
      /&amp;/,
      /&#xD7;/,
      /[À-ž]/,
      /山田/,
      /🧾/,
      /xmlns:ext=/,
      /<reserved\/>/,
    ]) {
      expect(text).toMatch(trait);
    }
    const sizes = pages.map((page) => page.bytes.length / ids(page.text).length);
    for (const size of sizes) expect(size).toBeGreaterThan(300);
    for (const size of sizes) expect(size).toBeLessThan(4_000);
    for (const { bytes } of pages) {
      expect(check(createXmlFormatCheck, [bytes])).toMatchObject({ problem: undefined, reports: 100 });
    }
  });
});
