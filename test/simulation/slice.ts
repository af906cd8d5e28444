/** A part of a large set of cases, so that CI can run another part with each commit. */

export interface Slice {
  /** From 1 to `parts`. */
  readonly part: number;
  readonly parts: number;
}

export const everything: Slice = { part: 1, parts: 1 };

/** The slice that `K/N` names; undefined if it names none. */
export function parseSlice(text: string): Slice | undefined {
  const [, part, parts] = /^([1-9]\d{0,5})\/([1-9]\d{0,5})$/.exec(text) ?? [];
  const slice = { part: Number(part), parts: Number(parts) };
  return slice.part <= slice.parts ? slice : undefined;
}

export const sliceProblem = '--slice must be two integers K/N, K from 1 to N';

/** The items of `all` that belong to the slice: every one belongs to exactly one slice. */
export function itemsIn<Item>(all: readonly Item[], { part, parts }: Slice): readonly Item[] {
  return all.filter((_, index) => index % parts === part - 1);
}
