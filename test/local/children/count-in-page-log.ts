/** Adds one to the sequence of the export `argv[3]` in the page log `argv[2]`, `argv[4]` times, whoever else does too. */

import { createSqlitePageLog } from '../../../lib/local/sqlite/page-log.ts';

const [, , file = '', exportName = '', times = ''] = process.argv;
const log = createSqlitePageLog(file);
for (let added = 0; added < Number(times); ) {
  const head = (await log.exportState(exportName)) ?? { export: exportName, version: 0, sequence: 0 };
  if (await log.replaceState({ ...head, version: head.version + 1, sequence: head.sequence + 1 })) added++;
}
log.close();
