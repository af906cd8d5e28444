/** Logs pages of run `argv[4]` of export `argv[3]` in page log `argv[2]`, and prints each number, until killed. */

import { asRunId } from '../../../lib/core/model.ts';
import { aPageEntry } from '../../support/builders.ts';
import { createSqlitePageLog } from '../../support/export/directory-store.ts';

const [, , file = '', exportName = '', run = ''] = process.argv;
const log = createSqlitePageLog(file);
for (let page = 1; ; page++) {
  await log.append(aPageEntry({ export: exportName, run: asRunId(run), page }));
  process.stdout.write(`${page}\n`);
}
