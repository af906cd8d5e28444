/** Two exports of `servers/parent-service.ts`: its parents, and the children of each. What their runs must contain. */

/** The settings of both. */
export const childrenSettings = (baseUrl: string, parallel: number) => ({
  services: {
    bench: { baseUrl, api: { auth: { kind: 'none' }, page: { format: 'json', reports: '/items/*' }, next } },
  },
  exports: [
    { name: 'parents', api: { request: { path: '/parents' } } },
    {
      name: 'children',
      parents: { export: 'parents', id: '/id' },
      since: { initial: '2026-01-01T00:00:00Z' },
      slices: { parallel },
      api: { request: { path: '/children/{parent}', query: { since: '{since}' } } },
    },
  ],
});

const next = { from: 'body', at: '/next', to: { query: 'cursor' } };

interface ListedPage {
  readonly page: number;
  readonly slice: number;
  readonly parent: string;
  readonly key: string;
}

/** Counts the pages of each parent in the lines of a manifest. Throws if one is not where it must be. */
export async function countPages(
  parents: number,
  manifest: AsyncIterable<string> | Iterable<string>,
  readPage: (key: string) => Promise<string> | string,
): Promise<Uint8Array> {
  const counts = new Uint8Array(parents + 1);
  let before = { page: 0, slice: 0 };
  for await (const line of manifest) {
    if (!line.startsWith('    {"page"')) continue;
    const { page, slice, parent, key } = JSON.parse(line.replace(/,$/, '')) as ListedPage;
    if (page !== before.page + 1 || slice < before.slice) throw new Error(`page ${page} is out of order`);
    before = { page, slice };
    const number = Number(parent.slice(2));
    counts[number] = (counts[number] ?? 0) + 1;
    const { items } = JSON.parse(await readPage(key)) as { items: { id: string }[] };
    const found = items.map(({ id }) => id).join();
    if (found !== `${parent}/${counts[number]}` && found !== `${parent}/updated`)
      throw new Error(`${key} has ${found}, and is page ${counts[number]} of ${parent}`);
  }
  return counts;
}

/**
 * Compares the pages that each parent has in two runs with what the service has done: a hundredth of the parents was
 * deleted during the first run, half of these are back in the second one, which has an update of each parent.
 * Returns how many were gone in the first run.
 */
export function assertAllThere(
  { parents, pages }: { readonly parents: number; readonly pages: number },
  first: Uint8Array,
  second: Uint8Array,
): number {
  const wrong: number[] = [];
  let gone = 0;
  for (let parent = 1; parent <= parents; parent += 1) {
    const isGone = parent % 100 === 0 && first[parent] === 0;
    if (isGone) gone += 1;
    const isBack = parent % 200 !== 0;
    const inSecond = isGone ? pages + 1 : 1;
    const isRight = first[parent] === (isGone ? 0 : pages) && second[parent] === (isBack ? inSecond : 0);
    if (!isRight) wrong.push(parent);
  }
  if (wrong.length > 0) {
    throw new Error(`${wrong.length} parents have other pages, such as ${wrong.slice(0, 5).join()}`);
  }
  return gone;
}
