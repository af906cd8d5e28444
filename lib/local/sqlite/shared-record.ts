/** What the exports of a service share on this machine: a row of the state file, for all processes of the directory. */

import type * as z from 'zod/mini';
import type { Runtime, SharedRecord } from '../../core/ports.ts';
import type { StateFile } from './state-file.ts';

/** With `run`, a write may be lost with the power, and its processes with it; with `write`, it is not. */
interface RecordFile extends Pick<StateFile, 'all'> {
  readonly run: (...statement: Parameters<StateFile['run']>) => boolean | Promise<boolean>;
}

export function sharedRecordIn<Content>(
  { all, run }: RecordFile,
  name: string,
  schema: z.ZodMiniType<Content>,
  { randomHex }: Pick<Runtime, 'randomHex'>,
): SharedRecord<Content> {
  return {
    async read() {
      const [row] = all('SELECT revision, content FROM shared_records WHERE name = ?', name);
      if (row === undefined) return { revision: undefined, content: undefined };
      const { revision, content } = row as { readonly revision: string; readonly content: string };
      return { revision, content: schema.safeParse(JSON.parse(content)).data };
    },
    async replace({ revision }, content) {
      const next = randomHex(16);
      const json = JSON.stringify(content);
      const isWritten = await (revision === undefined
        ? run('INSERT INTO shared_records VALUES (?, ?, ?) ON CONFLICT DO NOTHING', name, next, json)
        : run(
            'UPDATE shared_records SET revision = ?, content = ? WHERE name = ? AND revision = ?',
            next,
            json,
            name,
            revision,
          ));
      return isWritten ? { revision: next, content } : undefined;
    },
  };
}
