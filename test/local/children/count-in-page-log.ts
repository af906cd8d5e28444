/** Increments the sequence of export `argv[3]` in page log `argv[2]` `argv[4]` times, beside other processes. */

import { emptyState } from '../../../lib/core/model.ts';
import { createSqlitePageLog } from '../../support/export/directory-store.ts';

const [, , file = '', exportName = '', times = ''] = process.argv;
const log = createSqlitePageLog(file);
for (let added = 0; added < Number(times);) {
  const state = (await log.exportState(exportName)) ?? emptyState(exportName);
  if (await log.replaceState({ ...state, version: state.version + 1, sequence: state.sequence + 1 })) added++;
}
log.close();
