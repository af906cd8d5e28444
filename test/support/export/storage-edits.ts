/**
 * What somebody may do by hand to what an export keeps, as arbitrary edits: of a field, of bytes, of a whole thing, or by
 * putting one in another's place.
 */

import { fieldsOf, withField, withoutField } from '../fields.ts';
import { fc } from '../property.ts';

/** Something that lies where a hand can reach it. */
export interface KeptThing {
  /** `entry of page 1`, for whoever reads a counter-example. */
  readonly name: string;
  /** Things of one kind can stand in each other's place. */
  readonly kind: string;
  /** `fields` is JSON that must stay JSON, as a table's item; `text` is JSON that need not; `bytes` is anything. */
  readonly form: 'fields' | 'text' | 'bytes';
  /** Undefined where nothing is there. */
  read(): Promise<Buffer | undefined>;
  /** Undefined removes it. */
  write(bytes: Buffer | undefined): Promise<void>;
}

type FieldEdit =
  | { readonly act: 'delete' | 'nudge'; readonly at: number }
  | { readonly act: 'set'; readonly at: number; readonly to: unknown };
type BytesEdit =
  | { readonly act: 'cut' | 'flip'; readonly at: number }
  | { readonly act: 'fill' | 'grow'; readonly by: Uint8Array };
type WholeEdit = { readonly act: 'remove' } | { readonly act: 'swap' | 'copy'; readonly with: number };
export type HandEdit = { readonly thing: number } & (FieldEdit | BytesEdit | WholeEdit);

const anyField = fc.oneof(
  fc.jsonValue({ maxDepth: 2 }),
  fc.constantFrom(-1, 0, 1.5, 2 ** 53 - 1, '', '9', 'x'.repeat(5_000), '2026-11-20T02:00:00Z', 'null', [], {}),
);
const at = fc.nat();

export const handEdit: fc.Arbitrary<HandEdit> = fc
  .tuple(
    fc.nat(),
    fc.oneof(
      fc.record({ act: fc.constant('delete' as const), at }),
      fc.record({ act: fc.constant('nudge' as const), at }),
      fc.record({ act: fc.constant('set' as const), at, to: anyField }),
      fc.record({ act: fc.constant('cut' as const), at }),
      fc.record({ act: fc.constant('flip' as const), at }),
      fc.record({ act: fc.constantFrom('fill' as const, 'grow' as const), by: fc.uint8Array({ maxLength: 200 }) }),
      fc.record({ act: fc.constant('remove' as const) }),
      fc.record({ act: fc.constantFrom('swap' as const, 'copy' as const), with: fc.nat() }),
    ),
  )
  .map(([thing, edit]) => ({ thing, ...edit }));

/** Makes the edit, and says in words what was done; nothing, where it cannot be done to such a thing. */
export async function makeEdit(things: readonly KeptThing[], edit: HandEdit): Promise<string> {
  const thing = pick(things, edit.thing);
  const before = await thing.read();
  switch (edit.act) {
    case 'remove':
      await thing.write(undefined);
      return `${thing.name}: removed`;
    case 'swap':
    case 'copy': {
      const other = pick(
        things.filter(({ kind }) => kind === thing.kind),
        edit.with,
      );
      const theirs = await other.read();
      await thing.write(theirs);
      if (edit.act === 'swap') await other.write(before);
      return `${thing.name}: ${edit.act} with ${other.name}`;
    }
    case 'delete':
    case 'nudge':
    case 'set': {
      const changed = thing.form === 'bytes' || before === undefined ? undefined : editedFields(before, edit);
      if (changed === undefined) return `${thing.name}: no fields`;
      await thing.write(changed.bytes);
      return `${thing.name}: ${edit.act} ${changed.what}`;
    }
    case 'cut':
    case 'flip':
    case 'fill':
    case 'grow':
      if (thing.form === 'fields') return `${thing.name}: no bytes`;
      await thing.write(editedBytes(before ?? Buffer.alloc(0), edit));
      return `${thing.name}: ${edit.act}`;
  }
}

function editedFields(before: Buffer, edit: FieldEdit): { bytes: Buffer; what: string } | undefined {
  let value: unknown;
  try {
    value = JSON.parse(before.toString());
  } catch {
    return undefined;
  }
  const fields = fieldsOf(value);
  if (fields.length === 0) return undefined;
  const { path, value: field } = pick(fields, edit.at);
  const changed =
    edit.act === 'delete'
      ? withoutField(value, path)
      : withField(value, path, edit.act === 'set' ? edit.to : nudged(field));
  return { bytes: Buffer.from(JSON.stringify(changed)), what: path.join('.') };
}

/** Another value of the same type, as plausible. */
function nudged(field: unknown): unknown {
  if (typeof field === 'number') return 2 * field + 1;
  if (typeof field === 'boolean') return !field;
  if (typeof field === 'string') return field.replace(/.$/, (last) => (last === '0' ? '1' : '0'));
  return field === null ? 0 : null;
}

function editedBytes(before: Buffer, edit: BytesEdit): Buffer {
  switch (edit.act) {
    case 'cut':
      return before.subarray(0, edit.at % (before.length + 1));
    case 'flip': {
      const flipped = Buffer.from(before);
      const place = edit.at % (before.length || 1);
      if (before.length > 0) flipped[place] = (flipped[place] ?? 0) ^ 1;
      return flipped;
    }
    case 'fill':
      return Buffer.from(edit.by);
    case 'grow':
      return Buffer.concat([before, edit.by]);
  }
}

function pick<Item>(items: readonly Item[], at: number): Item {
  const item = items[at % items.length];
  if (item === undefined) throw new Error('there is nothing to pick from');
  return item;
}
