/** Arbitrary edits of the storage of an export: of a field, of bytes, of a whole item, or by swapping two items. */

import { fieldsOf, withField, withoutField } from '../fields.ts';
import { fc } from '../property.ts';

/** A record or object in the storage. */
export interface StoredItem {
  /** For counterexamples: `entry of page 1`. */
  readonly name: string;
  /** Items of the same kind can be swapped. */
  readonly kind: string;
  /** `fields` is JSON that must remain JSON, such as a table item; `text` is JSON that need not; `bytes` is anyitem. */
  readonly form: 'fields' | 'text' | 'bytes';
  /** Resolves to undefined if the item does not exist. */
  read(): Promise<Buffer | undefined>;
  /** undefined removes the item. */
  write(bytes: Buffer | undefined): Promise<void>;
}

type FieldEdit =
  | { readonly act: 'delete' | 'modify'; readonly at: number }
  | { readonly act: 'set'; readonly at: number; readonly to: unknown };
type BytesEdit =
  | { readonly act: 'truncate' | 'flip'; readonly at: number }
  | { readonly act: 'overwrite' | 'append'; readonly by: Uint8Array };
type WholeEdit = { readonly act: 'remove' } | { readonly act: 'swap' | 'copy'; readonly with: number };
export type StorageEdit = { readonly item: number } & (FieldEdit | BytesEdit | WholeEdit);

const anyField = fc.oneof(
  fc.jsonValue({ maxDepth: 2 }),
  fc.constantFrom(-1, 0, 1.5, 2 ** 53 - 1, '', '9', 'x'.repeat(5_000), '2026-11-20T02:00:00Z', 'null', [], {}),
);
const at = fc.nat();

export const anyStorageEdit: fc.Arbitrary<StorageEdit> = fc
  .tuple(
    fc.nat(),
    fc.oneof(
      fc.record({ act: fc.constant('delete' as const), at }),
      fc.record({ act: fc.constant('modify' as const), at }),
      fc.record({ act: fc.constant('set' as const), at, to: anyField }),
      fc.record({ act: fc.constant('truncate' as const), at }),
      fc.record({ act: fc.constant('flip' as const), at }),
      fc.record({
        act: fc.constantFrom('overwrite' as const, 'append' as const),
        by: fc.uint8Array({ maxLength: 200 }),
      }),
      fc.record({ act: fc.constant('remove' as const) }),
      fc.record({ act: fc.constantFrom('swap' as const, 'copy' as const), with: fc.nat() }),
    ),
  )
  .map(([item, edit]) => ({ item, ...edit }));

/** Applies the edit and returns a description of it. An edit that does not apply to the item changes noitem. */
export async function applyEdit(items: readonly StoredItem[], edit: StorageEdit): Promise<string> {
  const item = pick(items, edit.item);
  const before = await item.read();
  switch (edit.act) {
    case 'remove':
      await item.write(undefined);
      return `${item.name}: removed`;
    case 'swap':
    case 'copy': {
      const other = pick(
        items.filter(({ kind }) => kind === item.kind),
        edit.with,
      );
      const theirs = await other.read();
      await item.write(theirs);
      if (edit.act === 'swap') await other.write(before);
      return `${item.name}: ${edit.act} with ${other.name}`;
    }
    case 'delete':
    case 'modify':
    case 'set': {
      const changed = item.form === 'bytes' || before === undefined ? undefined : editedFields(before, edit);
      if (changed === undefined) return `${item.name}: no fields`;
      await item.write(changed.bytes);
      return `${item.name}: ${edit.act} ${changed.what}`;
    }
    case 'truncate':
    case 'flip':
    case 'overwrite':
    case 'append':
      if (item.form === 'fields') return `${item.name}: no bytes`;
      await item.write(editedBytes(before ?? Buffer.alloc(0), edit));
      return `${item.name}: ${edit.act}`;
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
      : withField(value, path, edit.act === 'set' ? edit.to : modified(field));
  return { bytes: Buffer.from(JSON.stringify(changed)), what: path.join('.') };
}

/** Another plausible value of the same type. */
function modified(field: unknown): unknown {
  if (typeof field === 'number') return 2 * field + 1;
  if (typeof field === 'boolean') return !field;
  if (typeof field === 'string') return field.replace(/.$/, (last) => (last === '0' ? '1' : '0'));
  return field === null ? 0 : null;
}

function editedBytes(before: Buffer, edit: BytesEdit): Buffer {
  switch (edit.act) {
    case 'truncate':
      return before.subarray(0, edit.at % (before.length + 1));
    case 'flip': {
      const flipped = Buffer.from(before);
      const offset = edit.at % (before.length || 1);
      if (before.length > 0) flipped[offset] = (flipped[offset] ?? 0) ^ 1;
      return flipped;
    }
    case 'overwrite':
      return Buffer.from(edit.by);
    case 'append':
      return Buffer.concat([before, edit.by]);
  }
}

function pick<Item>(items: readonly Item[], at: number): Item {
  const picked = items[at % items.length];
  if (picked === undefined) throw new Error('there are no items');
  return picked;
}
